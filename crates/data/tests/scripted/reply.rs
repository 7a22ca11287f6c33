//! What the server says, down to the byte and to how it stops.

pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    parts: Vec<Vec<u8>>,
    pub(super) end: End,
    /// Neither a length nor chunks: the end of the connection is the end.
    unframed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Properly,
    /// The connection is closed where more was announced.
    Cut,
    /// Nothing more comes, and the connection stays.
    Hang,
    /// No answer comes at all.
    Silence,
}

impl Reply {
    pub fn new(status: u16, body: impl AsRef<[u8]>) -> Self {
        Self { status, headers: Vec::new(), parts: vec![body.as_ref().to_vec()], end: End::Properly, unframed: false }
    }

    pub fn ok(body: impl AsRef<[u8]>) -> Self {
        Self::new(200, body)
    }

    pub fn silence() -> Self {
        Self { end: End::Silence, ..Self::new(200, "") }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Another chunk of the body.
    pub fn then(mut self, part: impl AsRef<[u8]>) -> Self {
        self.parts.push(part.as_ref().to_vec());
        self
    }

    pub fn unframed(self) -> Self {
        Self { unframed: true, ..self }
    }

    pub fn cut(self) -> Self {
        Self { end: End::Cut, ..self }
    }

    pub fn hang(self) -> Self {
        Self { end: End::Hang, ..self }
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let framed = !self.unframed;
        let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", self.status);
        if framed {
            head.push_str("Transfer-Encoding: chunked\r\n");
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let chunk = move |part: &Vec<u8>| match framed {
            true => [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat(),
            false => part.clone(),
        };
        let chunks = self.parts.iter().filter(|part| !part.is_empty()).map(chunk);
        let last = (framed && self.end == End::Properly).then(|| b"0\r\n\r\n".to_vec());
        std::iter::once(head.into_bytes()).chain(chunks).chain(last)
    }
}
