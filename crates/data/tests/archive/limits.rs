//! Each limit, just kept and just passed.

use redrive_data::ingest::archive::{Limits, Reason};

use crate::pack::{CONF, TarMember, gz, tar, tar_file, xz, zip, zip_file, zst};
use crate::{assert_refused, read_with, refusal_with};

#[track_caller]
fn kept(bytes: &[u8], limits: &Limits) {
    read_with(bytes, "upload.bin", limits).0.unwrap();
}

#[track_caller]
fn passed(bytes: &[u8], limits: &Limits, name: &str) {
    let refusal = refusal_with(bytes, "upload.bin", limits);
    assert_eq!(refusal.reason, Reason::LimitExceeded, "{refusal}");
    assert!(refusal.to_string().contains(name), "{refusal}");
}

#[test]
fn a_file_may_have_max_file_bytes() {
    let body = vec![b'#'; 1000];
    let limits = |max_file_bytes| Limits { max_file_bytes, ..Limits::default() };
    for bytes in [
        tar(&[tar_file("x.conf", &body)]),
        gz(&tar(&[tar_file("x.conf", &body)])),
        zip(&[zip_file("x.conf", &body)]),
        tar(&[tar_file("x.conf.gz", &gz(&body))]),
    ] {
        kept(&bytes, &limits(1000));
        passed(&bytes, &limits(999), "max_file_bytes");
    }
    let single = gz(&[b"[a]\n", body.as_slice()].concat());
    kept(&single, &limits(1004));
    passed(&single, &limits(1003), "max_file_bytes");
    // A member that is not read may have any size.
    kept(&tar(&[tar_file("big.bin", &body), tar_file("x.conf", CONF)]), &limits(100));
}

#[test]
fn an_upload_may_unpack_to_max_bytes() {
    let tar = tar(&[tar_file("x.conf", CONF), tar_file("big.bin", &vec![7; 100_000])]);
    let len = u64::try_from(tar.len()).unwrap();
    let limits = |max_bytes| Limits { max_bytes, ..Limits::default() };
    for bytes in [tar.clone(), gz(&tar), xz(&tar), zst(&tar)] {
        kept(&bytes, &limits(len));
        passed(&bytes, &limits(len - 1), "max_bytes");
    }
}

#[test]
fn an_upload_may_have_max_files() {
    let names: Vec<String> = (0..50).map(|number| format!("{number}.conf")).collect();
    let tar_members: Vec<_> = names.iter().map(|name| tar_file(name, CONF)).collect();
    let zip_members: Vec<_> = names.iter().map(|name| zip_file(name, CONF)).collect();
    for bytes in [tar(&tar_members), zip(&zip_members)] {
        kept(&bytes, &Limits { max_files: 50, ..Limits::default() });
        passed(&bytes, &Limits { max_files: 49, ..Limits::default() }, "max_files");
    }
}

#[test]
fn what_comes_out_may_be_max_ratio_times_what_went_in() {
    let bomb = vec![b'#'; 12 << 20];
    for bytes in [gz(&bomb), zst(&bomb), xz(&bomb), zip(&[zip_file("x.conf", &bomb)])] {
        let name = if bytes.starts_with(b"PK") { "x" } else { "x.conf" };
        let refusal = refusal_with(&bytes, name, &Limits::default());
        assert_eq!(refusal.reason, Reason::LimitExceeded, "{refusal}");
        assert!(refusal.to_string().contains("max_ratio"), "{refusal}");
        read_with(&bytes, name, &Limits { max_ratio: 1_000_000, ..Limits::default() }).0.unwrap();
    }
    // Less than 8 MiB is no bomb.
    read_with(&gz(&bomb[..7 << 20]), "x.conf", &Limits::default()).0.unwrap();
}

#[test]
fn archives_may_lie_max_depth_deep() {
    let mut bytes = tar(&[tar_file("x.conf", CONF)]);
    for depth in 1..=5 {
        bytes = match depth % 3 {
            0 => zip(&[zip_file("inner", &bytes)]),
            1 => gz(&tar(&[tar_file("inner", &bytes)])),
            _ => zst(&tar(&[tar_file("inner", &bytes)])),
        };
        kept(&bytes, &Limits { max_depth: depth, ..Limits::default() });
        passed(&bytes, &Limits { max_depth: depth - 1, ..Limits::default() }, "max_depth");
    }
    passed(&gz(&gz(CONF)), &Limits { max_depth: 0, ..Limits::default() }, "max_depth");
}

#[test]
fn a_path_may_have_max_path_bytes_with_the_archives_around_it() {
    let limits = |max_path| Limits { max_path, ..Limits::default() };
    let bytes = tar(&[tar_file("abc/x.conf", CONF)]);
    kept(&bytes, &limits(10));
    passed(&bytes, &limits(9), "max_path");
    let outer = tar(&[tar_file("o", &bytes)]);
    kept(&outer, &limits(12));
    passed(&outer, &limits(11), "max_path");
}

#[test]
fn header_extensions_are_limited() {
    let name = vec![b'a'; (1 << 20) + 1];
    for flag in *b"LKxg" {
        let bytes = tar(&[TarMember { path: "long", flag, link: "", body: &name }, tar_file("x.conf", CONF)]);
        assert_refused(&bytes, Reason::LimitExceeded, None, "header extension");
    }
}

#[test]
fn windows_of_decompressors_are_limited() {
    // A frame of zstd with a window of 2^27 bytes.
    assert_refused(b"\x28\xb5\x2f\xfd\x00\x88\x01\0\0", Reason::LimitExceeded, None, "window too large");

    // The header of a block of xz, with a dictionary of 4 GiB.
    let mut bytes = xz(&tar(&[tar_file("x.conf", CONF)]));
    let length = (usize::from(bytes[12]) + 1) * 4;
    let header = 12..12 + length;
    let dictionary = bytes[header.clone()].windows(2).position(|window| window == [0x21, 0x01]).unwrap() + 12 + 2;
    bytes[dictionary] = 40;
    let mut crc = flate2::Crc::new();
    crc.update(&bytes[12..header.end - 4]);
    bytes[header.end - 4..header.end].copy_from_slice(&crc.sum().to_le_bytes());
    assert_refused(&bytes, Reason::LimitExceeded, None, "window too large");
}
