//! Packs archives for the tests, good ones and such as no tool would make.

use std::io::{Read, Write};

pub const CONF: &[u8] = b"[a]\nb = 1\n";

/// One member of a tar archive, as its header tells it.
pub struct TarMember<'m> {
    pub path: &'m str,
    pub flag: u8,
    pub link: &'m str,
    pub body: &'m [u8],
}

pub fn tar_file<'m>(path: &'m str, body: &'m [u8]) -> TarMember<'m> {
    TarMember { path, flag: b'0', link: "", body }
}

pub fn tar_link<'m>(path: &'m str, flag: u8, link: &'m str) -> TarMember<'m> {
    TarMember { path, flag, link, body: b"" }
}

pub fn block(member: &TarMember<'_>) -> [u8; 512] {
    let mut header = tar::Header::new_ustar();
    let bytes = header.as_mut_bytes();
    bytes[..member.path.len()].copy_from_slice(member.path.as_bytes());
    bytes[157..157 + member.link.len()].copy_from_slice(member.link.as_bytes());
    header.set_mode(0o644);
    header.set_size(u64::try_from(member.body.len()).unwrap());
    header.set_entry_type(tar::EntryType::new(member.flag));
    header.set_cksum();
    *header.as_bytes()
}

/// Packs a tar archive without its mark of the end.
pub fn tar_open(members: &[TarMember<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for member in members {
        bytes.extend_from_slice(&block(member));
        bytes.extend_from_slice(member.body);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes
}

pub fn tar(members: &[TarMember<'_>]) -> Vec<u8> {
    let mut bytes = tar_open(members);
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// Packs as the library does, which knows about long paths.
pub fn tar_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, body) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(u64::try_from(body.len()).unwrap());
        builder.append_data(&mut header, path, body.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

pub fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    flate2::read::GzEncoder::new(bytes, flate2::Compression::default()).read_to_end(&mut packed).unwrap();
    packed
}

pub fn bz2(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    bzip2::read::BzEncoder::new(bytes, bzip2::Compression::default()).read_to_end(&mut packed).unwrap();
    packed
}

pub fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    liblzma::read::XzEncoder::new(bytes, 1).read_to_end(&mut packed).unwrap();
    packed
}

pub fn zst(bytes: &[u8]) -> Vec<u8> {
    // With a checksum, as the tool of that name does it.
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// One member of a zip archive, as its directory tells it.
pub struct ZipMember<'m> {
    pub path: &'m str,
    pub body: &'m [u8],
    pub mode: u32,
    pub flags: u16,
    pub method: u16,
}

pub fn zip_file<'m>(path: &'m str, body: &'m [u8]) -> ZipMember<'m> {
    ZipMember { path, body, mode: 0o100_644, flags: 0, method: 8 }
}

pub fn zip_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let members: Vec<_> = files.iter().map(|(path, body)| zip_file(path, body)).collect();
    zip(&members)
}

fn zip_body(method: u16, body: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    match method {
        8 => drop(
            flate2::read::DeflateEncoder::new(body, flate2::Compression::default()).read_to_end(&mut packed).unwrap(),
        ),
        12 => packed = bz2(body),
        93 => packed = zst(body),
        95 => packed = xz(body),
        _ => packed.extend_from_slice(body),
    }
    packed
}

/// A directory under construction: the members' bytes, and the records of the directory.
#[derive(Default)]
pub struct Zip {
    pub bytes: Vec<u8>,
    pub records: Vec<Vec<u8>>,
}

impl Zip {
    pub fn add(&mut self, member: &ZipMember<'_>) {
        let packed = zip_body(member.method, member.body);
        let offset = self.bytes.len();
        let mut crc = flate2::Crc::new();
        crc.update(member.body);
        let mut common = Vec::new();
        common.extend_from_slice(&20u16.to_le_bytes());
        common.extend_from_slice(&member.flags.to_le_bytes());
        common.extend_from_slice(&member.method.to_le_bytes());
        common.extend_from_slice(&[0; 4]);
        common.extend_from_slice(&crc.sum().to_le_bytes());
        common.extend_from_slice(&u32::try_from(packed.len()).unwrap().to_le_bytes());
        common.extend_from_slice(&u32::try_from(member.body.len()).unwrap().to_le_bytes());
        common.extend_from_slice(&u16::try_from(member.path.len()).unwrap().to_le_bytes());
        common.extend_from_slice(&0u16.to_le_bytes());

        self.bytes.extend_from_slice(b"PK\x03\x04");
        self.bytes.extend_from_slice(&common);
        self.bytes.extend_from_slice(member.path.as_bytes());
        self.bytes.extend_from_slice(&packed);

        let mut record = b"PK\x01\x02".to_vec();
        record.extend_from_slice(&[20, 3]);
        record.extend_from_slice(&common);
        record.extend_from_slice(&[0; 6]);
        record.extend_from_slice(&(member.mode << 16).to_le_bytes());
        record.extend_from_slice(&u32::try_from(offset).unwrap().to_le_bytes());
        record.extend_from_slice(member.path.as_bytes());
        self.records.push(record);
    }

    pub fn finish(self) -> Vec<u8> {
        let Self { mut bytes, records } = self;
        let start = u32::try_from(bytes.len()).unwrap();
        let count = u16::try_from(records.len()).unwrap();
        let directory = records.concat();
        bytes.extend_from_slice(&directory);
        bytes.extend_from_slice(b"PK\x05\x06\0\0\0\0");
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(directory.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(&start.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes
    }
}

pub fn zip(members: &[ZipMember<'_>]) -> Vec<u8> {
    let mut zip = Zip::default();
    members.iter().for_each(|member| zip.add(member));
    zip.finish()
}
