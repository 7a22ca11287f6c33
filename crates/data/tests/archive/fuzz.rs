//! Archives of the corpus with random changes: they are read or refused, and nothing else happens.

use redrive_data::ingest::archive::Error;

use crate::corpus::archives;
use crate::mutate::{Random, mutate, rounds};
use crate::{files, pack, read_with};

const WORDS: [&[u8]; 20] = [
    b"PK\x01\x02",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"PK\x06\x06",
    b"PK\x06\x07",
    b"PK\x07\x08",
    b"\x1f\x8b\x08",
    b"BZh91AY&SY",
    b"\xfd7zXZ\0",
    b"\x28\xb5\x2f\xfd",
    b"\0\0\0\0\0\0\0\0",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"../",
    b"/",
    b"\0",
    b"ustar\x0000",
    b"ustar  \0",
    b"77777777777",
    b"\x80\0\0\0\x7f\xff\xff\xff",
    b"30 path=../../../../x.conf\n",
];

/// Makes the checksums of headers right again, so that what is behind them is reached.
fn mend(tar: &mut [u8]) {
    for block in tar.as_chunks_mut::<512>().0 {
        if block[257..].starts_with(b"ustar") {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        }
    }
}

/// Small bundles of each packing, and for tar archives whether their checksums are mended.
fn seeds() -> Vec<(Vec<u8>, bool)> {
    let mut seeds = Vec::new();
    for (archive, bytes) in archives() {
        let mut some = files(&bytes, archive["archive"].as_str().unwrap());
        some.truncate(6);
        some.retain(|(_, bytes)| bytes.len() < 4000);
        let tar = pack::tar_of(&some);
        some.push(("inner.tgz".to_owned(), pack::gz(&tar)));
        some.push(("inner.zip".to_owned(), pack::zip_of(&some[..1])));
        let packed = [pack::gz(&tar), pack::bz2(&tar), pack::xz(&tar), pack::zst(&tar), pack::zip_of(&some)];
        seeds.extend(packed.into_iter().map(|bytes| (bytes, false)));
        seeds.push((pack::tar_of(&some), true));
        if bytes.len() < 30_000 {
            seeds.push((bytes, false));
        }
    }
    seeds
}

#[test]
fn changed_archives_are_read_or_refused() {
    let seeds = seeds();
    for seed in rounds(3000) {
        let mut random = Random(seed);
        let (bytes, is_tar) = &seeds[random.below(seeds.len())];
        let mut bytes = bytes.clone();
        let other = &seeds[random.below(seeds.len())].0;
        mutate(&mut bytes, &WORDS, other, &mut random);
        if *is_tar {
            mend(&mut bytes);
            if random.below(2) == 0 {
                bytes = pack::zst(&bytes);
            }
        }
        let outcome = std::panic::catch_unwind(|| read_with(&bytes, "x.conf", &Default::default()).0);
        match outcome {
            Ok(Ok(_) | Err(Error::Refused(_))) => {}
            Ok(Err(other)) => panic!("seed {seed}: {other:?}"),
            Err(_) => panic!("seed {seed}: panicked"),
        }
    }
}
