//! A proxy in front of an S3 server that can be told to fail in several ways.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

pub struct Proxy {
    pub endpoint: String,
    way: Arc<AtomicU8>,
}

/// How the server fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Way {
    Well = 0,
    /// Refuses every request; the client does not ask again.
    Forbids = 1,
    /// Answers 503.
    Unavailable = 2,
    /// Resets the connection when a request comes.
    Resets = 3,
    /// Breaks off in the middle of every long answer.
    BreaksOff = 4,
}

impl Way {
    fn of(way: &AtomicU8) -> Self {
        let now = way.load(Ordering::SeqCst);
        [Self::Forbids, Self::Unavailable, Self::Resets, Self::BreaksOff]
            .into_iter()
            .find(|way| *way as u8 == now)
            .unwrap_or(Self::Well)
    }
}

const FORBIDDEN: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// How much of an answer comes before it breaks off.
const SOME: usize = 5_000;

impl Proxy {
    /// Listens for as long as the process lives.
    pub fn before(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let upstream = upstream.trim_start_matches("http://").to_owned();
        let way = Arc::new(AtomicU8::new(Way::Well as u8));
        let shared = Arc::clone(&way);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (way, upstream) = (Arc::clone(&shared), upstream.clone());
                std::thread::spawn(move || serve(client, &upstream, &way));
            }
        });
        Self { endpoint, way }
    }

    pub fn fail(&self, way: Way) {
        self.way.store(way as u8, Ordering::SeqCst);
    }
}

fn serve(mut client: TcpStream, upstream: &str, way: &Arc<AtomicU8>) {
    let Ok(mut server) = TcpStream::connect(upstream) else { return };
    let (answers, back, shared) = (server.try_clone().unwrap(), client.try_clone().unwrap(), Arc::clone(way));
    let answering = std::thread::spawn(move || answer(answers, back, &shared));
    let mut bytes = vec![0; 64 << 10];
    // Only looked at: a connection that is closed with something unread in it is reset.
    while let Ok(1..) = client.peek(&mut [0]) {
        match Way::of(way) {
            Way::Resets => {
                let _ = server.shutdown(Shutdown::Both);
                let _ = answering.join();
                return;
            }
            Way::Forbids => drop(client.write_all(FORBIDDEN)),
            Way::Unavailable => drop(client.write_all(UNAVAILABLE)),
            Way::Well | Way::BreaksOff => {
                let Ok(count @ 1..) = client.read(&mut bytes) else { break };
                if server.write_all(&bytes[..count]).is_ok() {
                    continue;
                }
            }
        }
        let _ = client.shutdown(Shutdown::Write);
        let _ = client.read(&mut bytes);
        break;
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = answering.join();
}

fn answer(mut server: TcpStream, mut client: TcpStream, way: &AtomicU8) {
    let (mut bytes, mut left) = (vec![0; 1 << 10], SOME);
    while let Ok(count @ 1..) = server.read(&mut bytes) {
        if Way::of(way) == Way::BreaksOff {
            left = left.saturating_sub(count);
            if left == 0 {
                let _ = client.shutdown(Shutdown::Both);
                return;
            }
        }
        if client.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
    let _ = client.shutdown(Shutdown::Write);
}
