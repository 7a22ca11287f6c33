//! Looks names up, and refuses those that lead into a private network.
//!
//! The addresses that were checked are those that are connected to: a name that changes its answer between a check and
//! the connection gains nothing.

use std::net::{SocketAddr, ToSocketAddrs as _};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::is_public;

#[derive(Debug, Clone, Copy)]
pub(super) struct PublicOnly;

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
            let host = name.as_str().to_owned();
            let found = tokio::task::spawn_blocking(move || look_up(&host)).await??;
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn look_up(host: &str) -> Result<Vec<SocketAddr>, AnyError> {
    let found: Vec<SocketAddr> = (host, 0).to_socket_addrs()?.collect();
    match found.iter().find(|address| !is_public(address.ip())) {
        Some(private) => Err(Box::new(PrivateAddress { host: host.to_owned(), address: private.ip().to_string() })),
        None => Ok(found),
    }
}
