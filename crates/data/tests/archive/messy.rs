//! Bundles as people make them: what macOS adds, files compressed by themselves, odd names, large kinds of zip.

use redrive_data::ingest::archive::Reason;

use crate::pack::{CONF, Zip, ZipMember, gz, tar, tar_file, zip, zip_file, zst};
use crate::{assert_refused, files};

fn paths(bytes: &[u8]) -> Vec<String> {
    files(bytes, "x").into_iter().map(|(path, _)| path).collect()
}

#[test]
fn what_macos_adds_is_passed_over() {
    let fork = b"\0\x05\x16\x07\0\x02\0\0Mac OS X\xff\xfe".as_slice();
    let bytes = tar(&[tar_file("a/._x.conf", fork), tar_file("a/x.conf", CONF), tar_file("._a", fork)]);
    assert_eq!(paths(&bytes), ["a/x.conf"]);
    let bytes =
        zip(&[zip_file("a/x.conf", CONF), zip_file("__MACOSX/a/._x.conf", fork), zip_file("__MACOSX/a/x.conf", fork)]);
    assert_eq!(paths(&bytes), ["a/x.conf"]);
    assert_refused(&tar(&[tar_file("._x.conf", fork)]), Reason::NoFiles, None, "no .conf");
}

#[test]
fn a_compressed_file_keeps_the_ending_of_its_path_beside_the_one_that_is_not() {
    let other = b"[old]\n";
    let bytes = tar(&[
        tar_file("a/default/props.conf", CONF),
        tar_file("a/default/props.conf.gz", &gz(other)),
        tar_file("a/default/props.conf.zst", &zst(other)),
    ]);
    let found = files(&bytes, "x");
    let told: Vec<_> = found.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
    assert_eq!(
        told,
        [
            ("a/default/props.conf", CONF),
            ("a/default/props.conf.gz", other.as_slice()),
            ("a/default/props.conf.zst", other.as_slice()),
        ]
    );
    let place = redrive_conf::Place::of("a/default/props.conf.gz").unwrap();
    assert_eq!((place.name, place.layer.as_str()), ("props", "default"));
    let twice = tar(&[tar_file("a/p.conf.gz", &gz(other)), tar_file("a/p.conf.gz", &gz(CONF))]);
    assert_refused(&twice, Reason::MalformedArchive, Some("a/p.conf.gz"), "twice, with different content");
}

#[test]
fn any_member_that_is_there_twice_must_be_the_same() {
    let inner = |body| tar(&[tar_file("x.conf", body)]);
    let more = tar(&[tar_file("x.conf", CONF), tar_file("y.conf", CONF)]);
    for (one, two) in [(b"one".to_vec(), b"two".to_vec()), (inner(CONF), more)] {
        let bytes = tar(&[tar_file("a/x.conf", CONF), tar_file("a/m", &one), tar_file("a/m", &two)]);
        assert_refused(&bytes, Reason::MalformedArchive, Some("a/m"), "twice, with different content");
        let bytes = zip(&[zip_file("a/x.conf", CONF), zip_file("a/m", &one), zip_file("a/m", &two)]);
        assert_refused(&bytes, Reason::MalformedArchive, Some("a/m"), "twice, with different content");
        assert_eq!(
            paths(&tar(&[tar_file("a/x.conf", CONF), tar_file("a/m", &one), tar_file("a/m", &one)]))[0],
            "a/x.conf"
        );
    }
}

#[test]
fn two_names_that_are_no_text_are_two_files() {
    let mut bytes = tar(&[tar_file("_.conf", CONF), tar_file("-.conf", b"[b]\n")]);
    for (at, name) in [(0, 0xe9), (1024, 0xe8)] {
        bytes[at] = name;
        let mut header = tar::Header::from_byte_slice(&bytes[at..at + 512]).clone();
        header.set_cksum();
        bytes[at..at + 512].copy_from_slice(header.as_bytes());
    }
    assert_eq!(paths(&bytes), ["%E9.conf", "%E8.conf"]);
}

/// As a tool writes it that does not know the size beforehand: bit 3, nothing in the header, a descriptor behind the data.
#[test]
fn a_zip_with_data_descriptors_is_read() {
    let mut made = Zip::default();
    made.add(&ZipMember { flags: 8, ..zip_file("a/x.conf", CONF) });
    let (crc, sizes) = (made.bytes[14..18].to_vec(), made.bytes[18..26].to_vec());
    made.bytes[14..26].fill(0);
    made.bytes.extend_from_slice(b"PK\x07\x08");
    made.bytes.extend_from_slice(&crc);
    made.bytes.extend_from_slice(&sizes);
    made.add(&zip_file("a/y.conf", CONF));
    assert_eq!(paths(&made.finish()), ["a/x.conf", "a/y.conf"]);
}

/// The sizes and the offset of a member, and the directory itself, in fields of 64 bits.
#[test]
fn a_zip_of_the_large_kind_is_read() {
    let mut made = Zip::default();
    made.add(&zip_file("a/x.conf", CONF));
    let record = &mut made.records[0];
    let packed = u64::from(u32::from_le_bytes(record[20..24].try_into().unwrap()));
    let size = u64::try_from(CONF.len()).unwrap();
    record[20..28].fill(0xff);
    record[42..46].fill(0xff);
    record[30..32].copy_from_slice(&28u16.to_le_bytes());
    record.extend_from_slice(&[1, 0, 24, 0]);
    for field in [size, packed, 0] {
        record.extend_from_slice(&field.to_le_bytes());
    }
    let (mut bytes, directory) = (made.bytes, made.records.concat());
    let (start, length) = (u64::try_from(bytes.len()).unwrap(), u64::try_from(directory.len()).unwrap());
    bytes.extend_from_slice(&directory);
    let end = u64::try_from(bytes.len()).unwrap();
    bytes.extend_from_slice(b"PK\x06\x06");
    bytes.extend_from_slice(&44u64.to_le_bytes());
    bytes.extend_from_slice(&[45, 0, 45, 0]);
    bytes.extend_from_slice(&[0; 8]);
    for field in [1, 1, length, start] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(b"PK\x06\x07\0\0\0\0");
    bytes.extend_from_slice(&end.to_le_bytes());
    bytes.extend_from_slice(&1u32.to_le_bytes());
    bytes.extend_from_slice(b"PK\x05\x06");
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&[0xff; 12]);
    bytes.extend_from_slice(&[0; 2]);
    assert_eq!(paths(&bytes), ["a/x.conf"]);
}
