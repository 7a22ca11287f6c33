//! Reads the test data.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::Read;

use redrive_fixture::corpus;
use serde_json::Value;

pub fn json_lines(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(corpus(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn manifest() -> Vec<Value> {
    let text = std::fs::read_to_string(corpus("corpus/manifest.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["archives"].as_array().unwrap().clone()
}

/// The bytes of a case.
pub fn input(case: &Value) -> Vec<u8> {
    use base64::Engine;
    match case["input_b64"].as_str() {
        Some(encoded) => base64::engine::general_purpose::STANDARD.decode(encoded).unwrap(),
        None => case["input"].as_str().unwrap().as_bytes().to_vec(),
    }
}

/// The `.conf` and `.meta` files of a bundle of the corpus, by the plainest means.
pub fn files(archive: &str) -> Vec<(String, Vec<u8>)> {
    let bytes = std::fs::read(corpus("corpus").join(archive)).unwrap();
    let wanted = |path: &str| path.ends_with(".conf") || path.ends_with(".meta");
    let all = match archive.rsplit_once('.').unwrap().1 {
        "tar" => untar(bytes.as_slice()),
        "gz" | "tgz" | "spl" => untar(flate2::read::GzDecoder::new(bytes.as_slice())),
        "zip" => unzip(&bytes),
        _ => vec![(archive.to_owned(), bytes)],
    };
    all.into_iter().filter(|(path, _)| wanted(path)).collect()
}

fn untar(reader: impl Read) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in tar::Archive::new(reader).entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.header().entry_type().is_file() {
            let path = entry.path().unwrap().to_str().unwrap().trim_start_matches("./").to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            files.push((path, bytes));
        }
    }
    files
}

fn unzip(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let archive = rawzip::ZipArchive::from_slice(bytes).unwrap();
    let mut files = Vec::new();
    for record in archive.entries() {
        let record = record.unwrap();
        if record.is_dir() {
            continue;
        }
        let path = String::from_utf8(record.file_path().as_ref().to_vec()).unwrap();
        let data = archive.get_entry(record.wayfinder()).unwrap().data();
        let mut bytes = Vec::new();
        match record.compression_method() {
            rawzip::CompressionMethod::STORE => bytes.extend_from_slice(data),
            _ => drop(flate2::read::DeflateDecoder::new(data).read_to_end(&mut bytes).unwrap()),
        }
        files.push((path, bytes));
    }
    files
}
