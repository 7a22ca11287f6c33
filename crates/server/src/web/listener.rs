//! Connections: bounded in number, in the size and time of their headers, and in the time they take to end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower_service::Service as _;

/// How many connections are served at once; others wait to be accepted.
const CONNECTIONS: usize = 4096;
/// How long a caller may take to send the headers of a request, and how long a connection may wait for the next one.
const HEADERS_WITHIN: Duration = Duration::from_secs(15);
/// The most bytes of headers.
const MAX_HEADERS: usize = 64 << 10;
/// How long to rest when the system has no room for another connection.
const REST: Duration = Duration::from_millis(100);

/// Where a connection comes from.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// An address that the server listens on.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Listens on `host:port`; the port 0 takes any that is free.
    pub async fn bind(listen: &str) -> io::Result<Self> {
        let socket = TcpListener::bind(listen).await?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// Serves until `stop`. Then nothing more is accepted, what is idle is closed, requests under way are answered, and
    /// what takes longer than `grace` is cut off.
    pub async fn serve(self, router: Router, stop: impl Future<Output = ()>, grace: Duration) {
        let (stopping, stopped) = watch::channel(false);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                accepted = self.accept(&places) => accepted,
                Some(_) = connections.join_next() => continue,
            };
            match accepted {
                Ok((stream, peer, place)) => {
                    connections.spawn(connection(stream, peer, router.clone(), stopped.clone(), place));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(REST).await;
                }
            }
        }
        // From here on nobody can connect.
        drop(self.socket);
        stopping.send_replace(true);
        let ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, ended).await.is_err() {
            tracing::warn!(left = connections.len(), "connections were cut off");
            connections.shutdown().await;
        }
    }

    async fn accept(&self, places: &Arc<Semaphore>) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
        let (stream, peer) = self.socket.accept().await?;
        Ok((stream, peer, place))
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    mut stopped: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
) {
    // Small answers go out at once.
    let _ = stream.set_nodelay(true);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let stopped = async { drop(stopped.wait_for(|stopped| *stopped).await) };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a connection ended early");
    }
}
