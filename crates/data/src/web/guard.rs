//! Keeps requests out of private networks. Names are looked up here, and those that lead to an address which is not on
//! the public internet are refused.
//!
//! The addresses that were checked are those that are connected to: a name that changes its answer between a check and
//! the connection gains nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

#[derive(Debug, Clone, Copy)]
pub(super) struct PublicOnly;

/// For names that an answer led to, where private addresses are allowed: those of the machine's own surroundings are not.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoMetadata;

/// An address that no answer may lead to.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{host} is {address}, where this machine or its cloud keeps secrets; no answer may lead there")]
pub(super) struct MetadataAddress {
    pub(super) host: String,
    pub(super) address: String,
}

/// An address that may not be connected to.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{host} is the private address {address}; set allow_private = true if it is meant to be reached")]
pub(super) struct PrivateAddress {
    pub(super) host: String,
    pub(super) address: String,
}

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let refuse = |host: String, address: String| PrivateAddress { host, address }.into();
            look_up(&name, is_public, refuse).await
        })
    }
}

impl Resolve for NoMetadata {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let refuse = |host: String, address: String| MetadataAddress { host, address }.into();
            look_up(&name, |address| !is_metadata(address), refuse).await
        })
    }
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

async fn look_up(
    name: &Name,
    may: fn(IpAddr) -> bool,
    refuse: fn(String, String) -> AnyError,
) -> Result<Addrs, AnyError> {
    let host = name.as_str().to_owned();
    let asked = host.clone();
    let looked = tokio::task::spawn_blocking(move || (asked.as_str(), 0).to_socket_addrs().map(Vec::from_iter));
    let found: Vec<SocketAddr> = looked.await??;
    match found.iter().find(|address| !may(address.ip())) {
        Some(refused) => Err(refuse(host, refused.ip().to_string())),
        None => Ok(Box::new(found.into_iter())),
    }
}

/// Whether a machine reaches by the address what only it may know: link-local addresses, and those by which clouds serve
/// metadata and credentials.
pub(super) fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_metadata_v4(address),
        IpAddr::V6(address) => match address.segments() {
            [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
                is_metadata_v4(Ipv4Addr::new(a, b, c, d))
            }
            // Link-local; then Amazon's, Google's and Scaleway's own.
            [0xfe80..=0xfebf, ..] => true,
            [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254] | [0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254] => true,
            [0xfd00, 0x0042, 0, 0, 0, 0, 0, 0x0042] => true,
            _ => false,
        },
    }
}

fn is_metadata_v4(address: Ipv4Addr) -> bool {
    match address.octets() {
        [169, 254, _, _] => true,
        // Alibaba's, Oracle's and Azure's own.
        [100, 100, 100, 200] | [192, 0, 0, 192] | [168, 63, 129, 16] => true,
        _ => false,
    }
}

/// Whether the address is on the public internet. Everything that is set aside for something else is not.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (198, 18..=19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // An IPv4 address in another dress, and what a network without IPv4 makes of one.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        // Protocol assignments (tunnels among them), documentation, 6to4, documentation again.
        [0x2001, 0..=0x01ff, ..] | [0x2001, 0x0db8, ..] | [0x2002, ..] | [0x3fff, 0..=0x0fff, ..] => false,
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_and_those_of_clouds_are_metadata() {
        for address in [
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fd00:42::42",
        ] {
            assert!(is_metadata(address.parse().unwrap()), "{address}");
        }
        for address in ["127.0.0.1", "10.0.0.1", "192.168.1.1", "::1", "fd12::1", "8.8.8.8", "2606:4700::1111"] {
            assert!(!is_metadata(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn only_the_public_internet_is_public() {
        let private = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ];
        for address in private {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "126.255.255.255",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "2a00:1450:4001::5e",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }
}
