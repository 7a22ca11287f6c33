//! A TCP proxy on loopback that can fall silent, as a server behind a dead network does: nothing is refused, nothing
//! comes back.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

pub struct Proxy {
    pub port: u16,
    silent: Arc<AtomicBool>,
}

impl Proxy {
    pub fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let silent = Arc::new(AtomicBool::new(false));
        let hush = Arc::clone(&silent);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&server) else { continue };
                let (back, forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (hush, also) = (Arc::clone(&hush), Arc::clone(&hush));
                thread::spawn(move || pass_on(client, forth, &hush));
                thread::spawn(move || pass_on(server, back, &also));
            }
        });
        Self { port, silent }
    }

    /// From now on what arrives is swallowed.
    pub fn fall_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, silent: &AtomicBool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if !silent.load(Ordering::SeqCst) && to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
