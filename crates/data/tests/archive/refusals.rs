//! Each refusal, by an archive made for it.

use redrive_data::ingest::archive::Reason;

use crate::pack::{
    CONF, TarMember, Zip, ZipMember, block, gz, tar, tar_file, tar_link, tar_of, tar_open, xz, zip, zip_file, zst,
};
use crate::{assert_refused, refusal};

#[test]
fn paths_that_leave_are_unsafe_in_every_format() {
    for path in ["/etc/x.conf", "../x.conf", "a/../../x.conf", "C:\\x.conf", "..\\x.conf", "/bin/sh"] {
        assert_refused(&tar(&[tar_file(path, CONF)]), Reason::UnsafeEntry, Some(path), "the path");
        assert_refused(&gz(&tar(&[tar_file(path, CONF)])), Reason::UnsafeEntry, Some(path), "the path");
        assert_refused(&zip(&[zip_file(path, CONF)]), Reason::UnsafeEntry, Some(path), "the path");
    }
    let nested = tar(&[tar_file("a.tar", &tar(&[tar_file("../x.conf", CONF)]))]);
    assert_refused(&nested, Reason::UnsafeEntry, Some("../x.conf"), "goes up");
    let long_name = tar(&[
        TarMember { path: "././@LongLink", flag: b'L', link: "", body: b"../../x.conf\0" },
        tar_file("harmless", CONF),
    ]);
    assert_refused(&long_name, Reason::UnsafeEntry, Some("../../x.conf"), "goes up");
    let pax = tar(&[
        TarMember { path: "pax", flag: b'x', link: "", body: b"22 path=../../../x.conf\n" },
        tar_file("harmless", CONF),
    ]);
    assert!(matches!(refusal(&pax, "x").reason, Reason::UnsafeEntry | Reason::MalformedArchive));
    let pax = tar(&[
        TarMember { path: "pax", flag: b'x', link: "", body: b"24 path=../../../x.conf\n" },
        tar_file("harmless", CONF),
    ]);
    assert_refused(&pax, Reason::UnsafeEntry, Some("../../../x.conf"), "goes up");
}

#[test]
fn links_that_leave_and_devices_are_unsafe() {
    for (flag, target) in [(b'2', "/etc/passwd"), (b'2', "../../x"), (b'1', "../x"), (b'1', "/etc/passwd")] {
        let bytes = tar(&[tar_file("x.conf", CONF), tar_link("a/link", flag, target)]);
        assert_refused(&bytes, Reason::UnsafeEntry, Some("a/link"), "leads out of the archive");
    }
    for flag in *b"346" {
        let bytes = tar(&[tar_file("x.conf", CONF), tar_link("a/device", flag, "")]);
        assert_refused(&bytes, Reason::UnsafeEntry, Some("a/device"), "device");
    }
    let unknown = tar(&[tar_link("a", b'Z', "")]);
    assert_refused(&unknown, Reason::UnsafeEntry, Some("a"), "unknown type");

    let link = ZipMember { mode: 0o120_777, ..zip_file("a/link", b"../../etc/passwd") };
    assert_refused(&zip(&[link]), Reason::UnsafeEntry, Some("a/link"), "leads out of the archive");
    for mode in [0o020_644, 0o060_644, 0o010_644, 0o140_644] {
        let device = ZipMember { mode, ..zip_file("device", b"") };
        assert_refused(&zip(&[device]), Reason::UnsafeEntry, Some("device"), "device");
    }
}

#[test]
fn encrypted_and_foreign_archives_are_of_an_invalid_format() {
    let encrypted = ZipMember { flags: 1, ..zip_file("x.conf", CONF) };
    assert_refused(&zip(&[encrypted]), Reason::InvalidFormat, Some("x.conf"), "encrypted");
    let method = ZipMember { method: 14, ..zip_file("x.conf", CONF) };
    assert_refused(&zip(&[method]), Reason::InvalidFormat, Some("x.conf"), "method 14");
    assert_refused(b"7z\xbc\xaf\x27\x1c\0\x04", Reason::InvalidFormat, None, "7z archives");
    assert_refused(&gz(b"Rar!\x1a\x07\0"), Reason::InvalidFormat, None, "rar archives");
    assert_refused(b"\x89PNG\r\n\x1a\n\0\0\0\r", Reason::InvalidFormat, None, "neither an archive nor");
    assert_refused(b"just words\n", Reason::InvalidFormat, None, "neither an archive nor");
    assert_refused(b"", Reason::InvalidFormat, None, "neither an archive nor");
    let sparse = tar(&[TarMember { path: "x.conf", flag: b'S', link: "", body: CONF }]);
    assert_refused(&sparse, Reason::InvalidFormat, Some("x.conf"), "sparse");
}

#[test]
fn an_archive_without_a_configuration_file_has_no_files() {
    let other = [("README".to_owned(), b"hello".to_vec()), ("a.conf.spec".to_owned(), CONF.to_vec())];
    for bytes in [tar_of(&other), crate::pack::zip_of(&other), gz(&tar(&[])), tar(&[]), zip(&[])] {
        assert_refused(&bytes, Reason::NoFiles, None, "no .conf and no .meta");
    }
}

#[test]
fn the_same_file_twice_must_be_the_same() {
    for (again, refused) in [(CONF, false), (b"[a]\nb = 2\n".as_slice(), true)] {
        for bytes in [
            tar(&[tar_file("a/x.conf", CONF), tar_file("./a/x.conf", again)]),
            zip(&[zip_file("a/x.conf", CONF), zip_file("a//x.conf", again)]),
        ] {
            if refused {
                assert_refused(&bytes, Reason::MalformedArchive, Some("a/x.conf"), "twice, with different content");
            } else {
                assert_eq!(crate::files(&bytes, "x").len(), 1);
            }
        }
    }
}

#[test]
fn damaged_archives_are_malformed_and_tell_the_cause() {
    let good = tar(&[tar_file("a/x.conf", CONF)]);
    let mut wrong_sum = [good[..1024].to_vec(), good.clone()].concat();
    wrong_sum[1024] ^= 1;
    assert_refused(&wrong_sum, Reason::MalformedArchive, None, "wrong checksum");

    let open = tar_open(&[tar_file("a/x.conf", CONF)]);
    assert_refused(&open, Reason::MalformedArchive, None, "without its mark of the end");

    let mut lying = block(&TarMember { path: "x.conf", flag: b'0', link: "", body: &[b'#'; 5000] }).to_vec();
    lying.extend_from_slice(CONF);
    assert_refused(&lying, Reason::MalformedArchive, Some("x.conf"), "damaged or cut off");

    let two_sizes =
        tar(&[TarMember { path: "pax", flag: b'x', link: "", body: b"9 size=3\n" }, tar_file("x.conf", CONF)]);
    assert_refused(&two_sizes, Reason::MalformedArchive, Some("x.conf"), "different sizes");
    let for_all =
        tar(&[TarMember { path: "pax", flag: b'g', link: "", body: b"15 path=x.conf\n" }, tar_file("y.conf", CONF)]);
    assert_refused(&for_all, Reason::MalformedArchive, None, "all members the same");

    for packed in [gz(&good), xz(&good), zst(&good), crate::pack::bz2(&good)] {
        let mut damaged = packed.clone();
        let middle = packed.len() / 2;
        damaged[middle] ^= 0x55;
        let refusal = refusal(&damaged, "x");
        assert!(matches!(refusal.reason, Reason::MalformedArchive), "{refusal}");
        assert!(std::error::Error::source(&refusal).is_some(), "{refusal}");
    }
}

#[test]
fn zip_archives_that_lie_are_malformed() {
    let honest = zip(&[zip_file("x.conf", CONF)]);
    let set = |at: usize, value: u32| {
        let mut bytes = honest.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    let directory = honest.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    let (crc, packed, size, offset) = (directory + 16, directory + 20, directory + 24, directory + 42);
    for bytes in [set(crc, 7), set(size, 3), set(size, 4000), set(packed, 3)] {
        assert_refused(&bytes, Reason::MalformedArchive, Some("x.conf"), "damaged or cut off");
    }
    assert_refused(&set(packed, 5000), Reason::MalformedArchive, Some("x.conf"), "reaches into the directory");
    assert_refused(&set(offset, 3), Reason::MalformedArchive, Some("x.conf"), "header is damaged");
    let mut renamed = honest.clone();
    renamed[30] = b'y';
    assert_refused(&renamed, Reason::MalformedArchive, Some("x.conf"), "calls it `y.conf`");
    let end = honest.len() - 22;
    let mut miscounted = honest.clone();
    miscounted[end + 8..end + 12].copy_from_slice(&[2, 0, 2, 0]);
    assert_eq!(refusal(&miscounted, "x").reason, Reason::MalformedArchive);

    // Two records of the directory share the bytes of one member.
    let mut overlapping = Zip::default();
    overlapping.add(&zip_file("x.conf", CONF));
    let again = overlapping.records[0].clone();
    overlapping.records.push(again);
    assert_refused(&overlapping.finish(), Reason::MalformedArchive, None, "overlap");
}
