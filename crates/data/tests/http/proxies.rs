//! A proxy, used where the configuration names it and nowhere else.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use redrive_data::Blame;
use serde_json::json;

use crate::scripted::{Reply, Server, job, settings};
use crate::tls::{encrypted, file};
use crate::{extract, http};

/// A proxy that forwards requests and opens tunnels for whoever gives the right password. It ends with the test's process.
struct TestProxy {
    url: String,
    /// The first line of each request and what it gave for a password.
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

/// `ada:open-sesame`.
const CREDENTIALS: &str = "Basic YWRhOm9wZW4tc2VzYW1l";

impl TestProxy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://ada@{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || serve(stream.unwrap(), &seen));
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(line, _)| line.clone()).collect()
    }
}

fn serve(mut client: TcpStream, seen: &Mutex<Vec<(String, String)>>) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let mut head: Vec<String> = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let given = head
        .iter()
        .find_map(|line| line.to_lowercase().starts_with("proxy-authorization: ").then(|| line[21..].to_owned()));
    seen.lock().unwrap().push((head[0].clone(), given.clone().unwrap_or_default()));
    if given.as_deref() != Some(CREDENTIALS) {
        let _ = client.write_all(b"HTTP/1.1 407 Who Are You\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return;
    }
    let words: Vec<&str> = head[0].split(' ').collect();
    let (method, target) = (words[0], words[1]);
    if method == "CONNECT" {
        let server = TcpStream::connect(target).unwrap();
        client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
        tunnel(client, server);
        return;
    }
    let (host, path) = target.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut server = TcpStream::connect(host).unwrap();
    let rest = head[1..].iter().filter(|line| !line.to_lowercase().starts_with("proxy-"));
    let rest: String = rest.map(|line| format!("{line}\r\n")).collect();
    server.write_all(format!("{method} /{path} HTTP/1.1\r\n{rest}\r\n").as_bytes()).unwrap();
    tunnel(client, server);
}

fn tunnel(client: TcpStream, server: TcpStream) {
    let copy = |mut from: TcpStream, mut to: TcpStream| {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
    };
    let (up, down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || copy(up, server));
    copy(down, client);
}

#[tokio::test]
async fn requests_go_through_the_proxy_that_is_named() {
    let (proxy, server) = (TestProxy::start(), Server::start(|_| Reply::ok(r#"[{"id":1}]"#)));
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "open-sesame\n").unwrap();
    let through = json!({"proxy": proxy.url, "proxy_password": {"file": password}});
    let extractor = http(&server, "/plain", through.clone());
    assert_eq!(extract(&extractor).await.succeeded(), [r#"{"id":1}"#]);
    assert_eq!(proxy.asked(), [format!("GET {} HTTP/1.1", server.url("/plain"))]);
    assert!(!server.requests()[0].headers.contains_key("proxy-authorization"), "the password stays with the proxy");
    assert!(extractor.secrets(&job("c", 1)).contains(&"open-sesame".to_owned()));
    assert!(!format!("{extractor:?}").contains("open-sesame"));

    let (server, url) = encrypted(|_| Reply::ok(r#"[{"id":2}]"#));
    let mut more = through.clone();
    more.as_object_mut().unwrap().extend(json!({"url": url, "ca_file": file("ca.pem")}).as_object().unwrap().clone());
    assert_eq!(extract(&http(&server, "", more.clone())).await.succeeded(), [r#"{"id":2}"#]);
    assert!(proxy.asked()[1].starts_with("CONNECT 127.0.0.1:"), "{:?}", proxy.asked());

    // A password that was changed is used at once, and a wrong one is the setup's fault.
    std::fs::write(&password, "wrong-one").unwrap();
    let failure = extract(&extractor).await.failure().clone();
    assert!(failure.blame == Blame::Setup && failure.message.contains("407"), "{failure}");
    // So it is where the proxy is asked for a tunnel, and answers itself.
    let failure = extract(&http(&server, "", more)).await.failure().clone();
    assert!(failure.blame == Blame::Setup && failure.message.contains("407"), "{failure}");
    std::fs::write(&password, "open-sesame").unwrap();
    assert_eq!(extract(&extractor).await.succeeded().len(), 1);
}

#[tokio::test]
async fn an_address_is_refused_before_the_proxy_is_told() {
    let proxy = TestProxy::start();
    let more = json!({"kind": "http", "url": "http://10.1.2.3/x", "proxy": proxy.url.replace("ada@", "")});
    let failure = extract(&settings(more).unwrap()).await.failure().clone();
    assert!(failure.message.contains("allow_private"), "{failure}");
    assert!(proxy.asked().is_empty());
}

#[test]
fn a_proxy_that_cannot_be_one_is_a_slip() {
    for (proxy, password, part) in [
        ("proxy.example:3128", None, "proxy: must be http://"),
        ("socks5://proxy.example", None, "proxy: must be http://"),
        ("http://proxy.example/path", None, "proxy: must be http://"),
        ("http://ada:hunter2@proxy.example", None, "proxy: has a password in it"),
        ("http://proxy.example", Some("P"), "proxy: has no user"),
    ] {
        let mut all = json!({"kind": "http", "url": "https://a.example/", "proxy": proxy});
        if let Some(name) = password {
            all["proxy_password"] = json!({"env": name});
        }
        let told = settings(all).unwrap_err();
        assert!(told.starts_with(part) && !told.contains("hunter2"), "{told}");
    }
    let told =
        settings(json!({"kind": "http", "url": "https://a.example/", "proxy_password": {"env": "P"}})).unwrap_err();
    assert!(told.starts_with("proxy_password: needs proxy"), "{told}");
}
