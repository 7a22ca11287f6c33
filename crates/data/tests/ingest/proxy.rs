//! A proxy in front of an S3 server that can be told to fail in several ways.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

pub struct Proxy {
    pub endpoint: String,
    failing: Arc<Mutex<Failing>>,
}

/// How the server fails, after how many more requests, and how often.
struct Failing {
    way: Way,
    after: u32,
    times: u32,
}

impl Failing {
    /// How a request is answered that begins so.
    fn next(&mut self, request: &[u8]) -> Way {
        let is_of_an_upload = request.windows(UPLOADS.len()).any(|part| part == UPLOADS);
        let concerns_all = !matches!(self.way, Way::ForbidsUploads | Way::LosesUploads);
        if !concerns_all && !is_of_an_upload {
            return Way::Well;
        }
        if self.after > 0 {
            self.after -= 1;
            return Way::Well;
        }
        if self.times == 0 {
            return Way::Well;
        }
        self.times -= 1;
        self.way
    }
}

/// How the server fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Well,
    /// Refuses every request; the client does not ask again.
    Forbids,
    /// Refuses requests for the bytes of uploads, and grants all others.
    ForbidsUploads,
    /// Says of the bytes of uploads that they are not there.
    LosesUploads,
    /// Says so of everything.
    LosesAll,
    /// Answers 503.
    Unavailable,
    /// Resets the connection when a request comes.
    Resets,
    /// Breaks off in the middle of every long answer.
    BreaksOff,
}

const UPLOADS: &[u8] = b"/_uploads/";
const FORBIDDEN: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// How much of an answer comes before it breaks off.
const SOME: usize = 5_000;

impl Proxy {
    /// Listens for as long as the process lives.
    pub fn before(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let upstream = upstream.trim_start_matches("http://").to_owned();
        let failing = Arc::new(Mutex::new(Failing { way: Way::Well, after: 0, times: 0 }));
        let shared = Arc::clone(&failing);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (failing, upstream) = (Arc::clone(&shared), upstream.clone());
                std::thread::spawn(move || serve(client, &upstream, &failing));
            }
        });
        Self { endpoint, failing }
    }

    pub fn fail(&self, way: Way) {
        self.fail_after(0, way);
    }

    /// Fails once so many more requests were granted: of those that fail this way, where others do not.
    pub fn fail_after(&self, requests: u32, way: Way) {
        *self.failing.lock().unwrap() = Failing { way, after: requests, times: u32::MAX };
    }

    /// Fails once, and is well again.
    pub fn fail_once(&self, way: Way) {
        *self.failing.lock().unwrap() = Failing { way, after: 0, times: 1 };
    }
}

fn serve(mut client: TcpStream, upstream: &str, failing: &Arc<Mutex<Failing>>) {
    let Ok(mut server) = TcpStream::connect(upstream) else { return };
    let (answers, back, shared) = (server.try_clone().unwrap(), client.try_clone().unwrap(), Arc::clone(failing));
    let answering = std::thread::spawn(move || answer(answers, back, &shared));
    let mut bytes = vec![0; 64 << 10];
    // Only looked at: a connection that is closed with something unread in it is reset.
    while let Ok(count @ 1..) = client.peek(&mut bytes) {
        let way = failing.lock().unwrap().next(&bytes[..count]);
        match way {
            Way::Resets => {
                let _ = server.shutdown(Shutdown::Both);
                let _ = answering.join();
                return;
            }
            Way::Forbids | Way::ForbidsUploads => drop(client.write_all(FORBIDDEN)),
            Way::LosesUploads | Way::LosesAll => drop(client.write_all(NOT_FOUND)),
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

fn answer(mut server: TcpStream, mut client: TcpStream, failing: &Mutex<Failing>) {
    let (mut bytes, mut left) = (vec![0; 1 << 10], SOME);
    while let Ok(count @ 1..) = server.read(&mut bytes) {
        if failing.lock().unwrap().way == Way::BreaksOff {
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
