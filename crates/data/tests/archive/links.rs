//! Links inside an archive: each gives the content of the member that it leads to, or is told as broken.

use redrive_data::ingest::archive::{Limits, Reason};

use crate::pack::{CONF, ZipMember, gz, tar, tar_file, tar_link, zip, zip_file};
use crate::{assert_refused, files, read_with, refusal_with};

const OTHER: &[u8] = b"[other]\n";

fn paths(bytes: &[u8]) -> Vec<String> {
    files(bytes, "x").into_iter().map(|(path, _)| path).collect()
}

#[test]
fn a_hard_link_has_the_content_of_its_file() {
    let bytes = tar(&[
        tar_file("a/default/props.conf", CONF),
        tar_link("b/default/props.conf", b'1', "a/default/props.conf"),
        tar_file("c/README", b"no configuration"),
    ]);
    let expected =
        [("a/default/props.conf".to_owned(), CONF.to_vec()), ("b/default/props.conf".to_owned(), CONF.to_vec())];
    assert_eq!(files(&bytes, "x"), expected);
    assert_eq!(files(&gz(&bytes), "x"), expected);
    let (done, _) = read_with(&bytes, "x", &Limits::default());
    let summary = done.unwrap();
    assert_eq!((summary.files, summary.links, summary.broken_links), (2, 1, 0));
}

#[test]
fn a_symbolic_link_leads_from_its_own_folder_also_forwards_and_over_other_links() {
    let bytes = tar(&[
        tar_link("a/local/props.conf", b'2', "../default/props.conf"),
        tar_link("a/first.conf", b'2', "second"),
        tar_link("a/second", b'2', "default/props.conf"),
        tar_file("a/default/props.conf", CONF),
        tar_file("a/template", OTHER),
        tar_link("a/made.conf", b'2', "template"),
    ]);
    let found = files(&bytes, "x");
    let told: Vec<_> = found.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
    assert_eq!(
        told,
        [("a/default/props.conf", CONF), ("a/local/props.conf", CONF), ("a/first.conf", CONF), ("a/made.conf", OTHER),]
    );
    let link = ZipMember { mode: 0o120_777, ..zip_file("a/local/x.conf", b"../default/x.conf") };
    assert_eq!(paths(&zip(&[link, zip_file("a/default/x.conf", CONF)])), ["a/default/x.conf", "a/local/x.conf"]);
}

#[test]
fn links_of_an_inner_archive_stay_inside_it() {
    let inner = tar(&[tar_file("x.conf", CONF), tar_link("d/y.conf", b'2', "../x.conf")]);
    assert_eq!(paths(&tar(&[tar_file("in.tar", &inner)])), ["in.tar/x.conf", "in.tar/d/y.conf"]);
    let leaving = tar(&[tar_file("x.conf", CONF), tar_link("d/y.conf", b'2', "../../z.conf")]);
    let outer = tar(&[tar_file("z.conf", CONF), tar_file("in.tar", &leaving)]);
    assert_refused(&outer, Reason::UnsafeEntry, Some("in.tar/d/y.conf"), "leads out of the archive");
}

#[test]
fn a_link_to_nothing_a_circle_and_a_folder_are_told() {
    let bytes = tar(&[
        tar_file("a/default/x.conf", CONF),
        tar_link("a/gone.conf", b'2', "nowhere.conf"),
        tar_link("a/round.conf", b'2', "trip.conf"),
        tar_link("a/trip.conf", b'2', "round.conf"),
        tar_link("a/local", b'2', "default"),
        tar_link("a/bin", b'2', "nowhere"),
        tar_link("a/README", b'2', "default/x.conf"),
    ]);
    let (done, found) = read_with(&bytes, "x", &Limits::default());
    let summary = done.unwrap();
    assert_eq!((summary.files, summary.links, summary.broken_links), (1, 0, 4));
    let told: Vec<_> = found.broken.iter().map(|(path, why)| (path.as_str(), &why[..22])).collect();
    assert_eq!(
        told,
        [
            ("a/gone.conf", "leads to nothing in th"),
            ("a/round.conf", "leads to other links a"),
            ("a/trip.conf", "leads to other links a"),
            ("a/local", "leads to a folder of c"),
        ]
    );
}

#[test]
fn a_link_and_a_file_on_one_path_must_agree() {
    let both = |target: &'static str| {
        tar(&[tar_file("a/x.conf", CONF), tar_file("a/y.conf", OTHER), tar_link("a/x.conf", b'2', target)])
    };
    assert_refused(&both("y.conf"), Reason::MalformedArchive, Some("a/x.conf"), "twice, with different content");
    assert_refused(&both("nothing.conf"), Reason::MalformedArchive, Some("a/x.conf"), "as a file, and as a link");
    let same = tar(&[tar_file("a/x.conf", CONF), tar_file("a/y.conf", CONF), tar_link("a/x.conf", b'2', "y.conf")]);
    assert_eq!(paths(&same), ["a/x.conf", "a/y.conf"]);
}

#[test]
fn links_are_no_way_around_the_limits() {
    let large = CONF.repeat(100_000);
    let names: Vec<String> = (0..40).map(|nth| format!("{nth}.conf")).collect();
    let mut members = vec![tar_file("x.conf", &large)];
    members.extend(names.iter().map(|name| tar_link(name, b'1', "x.conf")));
    let bytes = tar(&members);
    let limits = Limits { max_bytes: 20_000_000, ..Limits::default() };
    assert_eq!(refusal_with(&bytes, "x", &limits).reason, Reason::LimitExceeded);
    let far = "f/".repeat(45);
    let many: Vec<String> = (0..99_000).map(|nth| format!("{far}{nth}.conf")).collect();
    let mut members = vec![tar_file("x.conf", CONF)];
    members.extend(many.iter().map(|name| tar_link(name, b'1', &far)));
    let refused = refusal_with(&tar(&members), "x", &Limits { max_ratio: u64::MAX, ..Limits::default() });
    assert!(refused.reason == Reason::LimitExceeded && refused.to_string().contains("links"), "{refused}");
}
