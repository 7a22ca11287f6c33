//! HTTP/1.1 over loopback, one request a connection.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::reply::{End, Reply};

/// Bounds every wait of the server; no test is meant to come near it.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// By names in small letters.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_over(|stream| stream, handler)
    }

    /// A server whose connections are wrapped in something, such as encryption.
    pub fn start_over<S: Read + Write + 'static>(
        wrap: impl Fn(TcpStream) -> S + Send + Sync + 'static,
        handler: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, stopped) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (seen, stop, both) = (Arc::clone(&requests), Arc::clone(&stopped), Arc::new((wrap, handler)));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let (seen, both) = (Arc::clone(&seen), Arc::clone(&both));
                std::thread::spawn(move || {
                    let stream = stream.unwrap();
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    serve((both.0)(stream), &seen, &both.1);
                });
            }
        });
        Self { address, requests, stopped, thread: Some(thread) }
    }

    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    /// What was asked so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // The listener wakes for one more connection, and sees that it is over.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: impl Read + Write, seen: &Mutex<Vec<Request>>, handler: &dyn Fn(&Request) -> Reply) {
    let Some(request) = read(&mut stream) else { return };
    seen.lock().unwrap().push(request.clone());
    let reply = handler(&request);
    if reply.end != End::Silence {
        for piece in reply.pieces() {
            if stream.write_all(&piece).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    }
    match reply.end {
        End::Properly | End::Cut => {}
        // Until the other side gives up.
        End::Hang | End::Silence => drop(stream.read(&mut [0])),
    }
}

fn read(stream: impl Read) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        Some(line.trim_end().to_owned())
    };
    let start = line()?;
    let mut words = start.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let mut headers = BTreeMap::new();
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, target, headers, body: String::from_utf8(body).unwrap() })
}
