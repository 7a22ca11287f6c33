//! Real bundles, as they are and packed in other ways.

use std::path::PathBuf;

use redrive_conf::Document;
use serde_json::{Value, json};

use crate::{files, pack};

fn corpus() -> PathBuf {
    redrive_fixture::corpus("corpus")
}

/// Every archive of the corpus with what the manifest says of it.
pub fn archives() -> Vec<(Value, Vec<u8>)> {
    let manifest: Value = serde_json::from_slice(&std::fs::read(corpus().join("manifest.json")).unwrap()).unwrap();
    let archives = manifest["archives"].as_array().unwrap().clone();
    archives
        .into_iter()
        .map(|archive| {
            let bytes = std::fs::read(corpus().join(archive["archive"].as_str().unwrap())).unwrap();
            (archive, bytes)
        })
        .collect()
}

fn counts((path, bytes): &(String, Vec<u8>)) -> Value {
    let document = Document::parse(bytes).unwrap();
    json!({
        "path": path,
        "bytes": bytes.len(),
        "stanzas": document.stanzas().len(),
        "keys": document.setting_count(),
        "error": document.fault().map(|fault| fault.kind.as_str()),
    })
}

#[test]
fn every_archive_has_the_files_and_counts_of_the_manifest() {
    for (archive, bytes) in archives() {
        let name = archive["archive"].as_str().unwrap();
        let mut found: Vec<Value> = files(&bytes, name).iter().map(counts).collect();
        found.sort_by_key(|file| file["path"].as_str().unwrap().to_owned());
        if let Some(wanted) = archive["files"].as_array() {
            let mut wanted = wanted.clone();
            wanted.sort_by_key(|file| file["path"].as_str().unwrap().to_owned());
            assert_eq!(found, wanted, "{name}");
        }
        for kind in ["conf", "meta"] {
            let of_kind = |file: &&Value| file["path"].as_str().unwrap().ends_with(&format!(".{kind}"));
            let all: Vec<&Value> = found.iter().filter(of_kind).collect();
            let sum = |field: &str| all.iter().map(|file| file[field].as_u64().unwrap()).sum::<u64>();
            let errors = all.iter().filter(|file| !file["error"].is_null()).count();
            let totals = json!([all.len(), sum("bytes"), sum("stanzas"), sum("keys"), errors]);
            let told = &archive[kind];
            assert_eq!(
                totals,
                json!([told["files"], told["bytes"], told["stanzas"], told["keys"], told["parse_errors"]]),
                "{name} {kind}"
            );
        }
    }
}

#[test]
fn the_format_is_told_by_content_whatever_the_name_and_the_packing() {
    for (archive, bytes) in archives() {
        let name = archive["archive"].as_str().unwrap();
        if name == "props.conf" {
            continue;
        }
        let wanted = files(&bytes, name);
        assert!(files(&bytes, "misleading.zip.conf") == wanted, "{name}");
        let tar = pack::tar_of(&wanted);
        for packed in [pack::gz(&tar), pack::bz2(&tar), pack::xz(&tar), pack::zst(&tar), pack::zip_of(&wanted), tar] {
            assert!(files(&packed, "-") == wanted, "{name}");
        }
    }
}

#[test]
fn an_archive_inside_another_stands_in_the_path_like_a_folder() {
    let inner = [("app/default/x.conf".to_owned(), pack::CONF.to_vec())];
    let tar = pack::tar_of(&inner);
    for packed in [pack::gz(&tar), pack::bz2(&tar), pack::xz(&tar), pack::zst(&tar), pack::zip_of(&inner), tar.clone()]
    {
        let outer = [("dir/inner.bin".to_owned(), packed.clone()), ("y.conf".to_owned(), b"z = 1\n".to_vec())];
        for bundle in [pack::tar_of(&outer), pack::gz(&pack::tar_of(&outer)), pack::zip_of(&outer)] {
            let paths: Vec<String> = files(&bundle, "bundle").into_iter().map(|(path, _)| path).collect();
            assert_eq!(paths, ["dir/inner.bin/app/default/x.conf", "y.conf"]);
        }
    }
    let twice = pack::gz(&pack::gz(&tar));
    assert_eq!(files(&twice, "x.tar.gz.gz")[0].0, "app/default/x.conf");
}

#[test]
fn a_single_file_needs_no_archive_and_may_be_compressed() {
    for (bytes, name, path) in [
        (pack::CONF.to_vec(), "props.conf", "props.conf"),
        (pack::CONF.to_vec(), "/home/joe/props.conf", "props.conf"),
        (pack::CONF.to_vec(), "default.meta", "default.meta"),
        (pack::CONF.to_vec(), "notes.txt", "notes.txt.conf"),
        (pack::CONF.to_vec(), "-", "upload.conf"),
        (pack::gz(pack::CONF), "props.conf.gz", "props.conf"),
        (pack::zst(pack::CONF), "props.conf.zst", "props.conf"),
        (pack::xz(pack::CONF), "props", "props.conf"),
        (pack::gz(&pack::gz(pack::CONF)), "props.conf.gz.gz", "props.conf"),
    ] {
        assert_eq!(files(&bytes, name), [(path.to_owned(), pack::CONF.to_vec())], "{name}");
    }
    assert_eq!(files(b"", "empty.conf"), [("empty.conf".to_owned(), Vec::new())]);
    let inside = pack::tar_of(&[("a/x.conf.gz".to_owned(), pack::gz(pack::CONF))]);
    assert_eq!(files(&inside, "x.tar"), [("a/x.conf.gz".to_owned(), pack::CONF.to_vec())]);
}

#[test]
fn long_names_of_both_kinds_and_odd_but_good_members_are_read() {
    let long = format!("{}/default/x.conf", "d".repeat(300));
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(u64::try_from(pack::CONF.len()).unwrap());
    builder.append_data(&mut header, &long, pack::CONF).unwrap();
    builder.append_pax_extensions([("path", b"pax/default/y.conf".as_slice()), ("comment", b"c")]).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_path("short").unwrap();
    header.set_size(u64::try_from(pack::CONF.len()).unwrap());
    header.set_cksum();
    builder.append(&header, pack::CONF).unwrap();
    let bytes = builder.into_inner().unwrap();
    let paths: Vec<String> = files(&bytes, "x").into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, [long.as_str(), "pax/default/y.conf"]);

    let odd = pack::tar(&[
        pack::TarMember { path: "./", flag: b'5', link: "", body: b"" },
        pack::TarMember { path: "label", flag: b'V', link: "", body: b"" },
        pack::TarMember { path: "old/folder.conf/", flag: 0, link: "", body: b"" },
        pack::tar_file("./a//x.conf", pack::CONF),
        pack::tar_file("a/x.conf", pack::CONF),
        pack::tar_link("a/y.conf", b'2', "../a/x.conf"),
        pack::tar_file("a/broken.gz.txt", b"\x1f"),
    ]);
    let (done, found) = crate::read_with(&odd, "x", &Default::default());
    let summary = done.unwrap();
    assert_eq!((summary.files, summary.repeated, summary.links, summary.progress.members), (2, 1, 1, 7));
    assert_eq!(found.broken, []);

    let methods: Vec<(u16, String)> = [0u16, 8, 12, 93, 95].map(|method| (method, format!("{method}.conf"))).into();
    let members =
        methods.iter().map(|(method, path)| pack::ZipMember { method: *method, ..pack::zip_file(path, pack::CONF) });
    assert_eq!(files(&pack::zip(&members.collect::<Vec<_>>()), "x").len(), 5);
    assert_eq!(files(&pack::zip(&[pack::zip_file("a\\local\\x.conf", pack::CONF)]), "x")[0].0, "a/local/x.conf");
}
