//! A proxy in front of an S3 server that can be told to refuse everything.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub struct Proxy {
    pub endpoint: String,
    broken: Arc<AtomicBool>,
}

const REFUSAL: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

impl Proxy {
    /// Listens for as long as the process lives.
    pub fn before(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let upstream = upstream.trim_start_matches("http://").to_owned();
        let broken = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&broken);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (broken, upstream) = (Arc::clone(&shared), upstream.clone());
                std::thread::spawn(move || serve(client, &upstream, &broken));
            }
        });
        Self { endpoint, broken }
    }

    pub fn set_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::SeqCst);
    }
}

fn serve(mut client: TcpStream, upstream: &str, broken: &AtomicBool) {
    let Ok(mut server) = TcpStream::connect(upstream) else { return };
    let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let answering = std::thread::spawn(move || {
        let _ = std::io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Write);
    });
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        if broken.load(Ordering::SeqCst) {
            let _ = client.write_all(REFUSAL);
            break;
        }
        if server.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = answering.join();
}
