//! A request to a server that a test has started, and its answer.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    /// As it was sent, chunks and all.
    pub raw: Vec<u8>,
}

/// Sends `METHOD PATH`, with headers below it, on a connection of its own.
pub fn ask(address: &str, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    let (line, headers) = request.split_once("\r\n").unwrap_or((request, ""));
    write!(stream, "{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(answer.len());
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head, raw: answer.get(end + 4..).unwrap_or_default().to_vec() }
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// The body as far as it came, and whether that is all of it. A connection that was cut before the head is no answer, and not whole.
    pub fn body(&self) -> (String, bool) {
        if self.header("transfer-encoding") != Some("chunked") {
            let announced = self.header("content-length").and_then(|length| length.parse().ok());
            return (String::from_utf8_lossy(&self.raw).into_owned(), announced == Some(self.raw.len()));
        }
        let (mut body, mut rest) = (Vec::new(), &self.raw[..]);
        while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
            let size = usize::from_str_radix(&String::from_utf8_lossy(&rest[..end]), 16).unwrap();
            if size == 0 {
                return (String::from_utf8(body).unwrap(), true);
            }
            let Some(chunk) = rest.get(end + 2..end + 2 + size) else { break };
            body.extend_from_slice(chunk);
            rest = rest.get(end + 4 + size..).unwrap_or_default();
        }
        (String::from_utf8(body).unwrap(), false)
    }

    pub fn text(&self) -> String {
        self.body().0
    }
}
