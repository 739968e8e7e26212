//! A server of files that answers as it is told, for what downloads releases.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

#[derive(Clone)]
pub(super) struct Answer {
    status: String,
    header: String,
    body: Vec<u8>,
    /// Bytes of the body that are sent.
    sent: usize,
}

impl Answer {
    fn new(status: &str, body: Vec<u8>) -> Answer {
        let sent = body.len();
        Answer { status: status.to_owned(), header: String::new(), body, sent }
    }

    pub(super) fn status(status: &str) -> Answer {
        Answer::new(status, b"{}".to_vec())
    }

    pub(super) fn text(text: &str) -> Answer {
        Answer::new("200 OK", text.as_bytes().to_vec())
    }

    pub(super) fn file(path: &Path) -> Answer {
        Answer::new("200 OK", fs_err::read(path).unwrap())
    }

    pub(super) fn redirect(path: &str) -> Answer {
        let header = format!("Location: {path}\r\n");
        Answer { header, ..Answer::new("302 Found", Vec::new()) }
    }

    /// Ends in the middle.
    pub(super) fn cut(self) -> Answer {
        Answer { sent: self.sent / 2, ..self }
    }

    fn write(&self, stream: &mut TcpStream) {
        let (status, header, length) = (&self.status, &self.header, self.body.len());
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{header}Connection: close\r\n\r\n"
        );
        let whole = [head.as_bytes(), &self.body[..self.sent]].concat();
        // Whoever asked may have gone.
        let _ = stream.write_all(&whole);
    }
}

#[derive(Default)]
struct State {
    /// What comes first, once each.
    first: BTreeMap<String, VecDeque<Answer>>,
    then: BTreeMap<String, Answer>,
    asked: Vec<String>,
}

/// Answers until the test's process ends.
pub(super) struct Server {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub(super) fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, &shared);
            }
        });
        Server { address, state }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on.
    pub(super) fn answer(&self, path: &str, answer: Answer) {
        self.state.lock().then.insert(path.to_owned(), answer);
    }

    /// Once, before that.
    pub(super) fn first(&self, path: &str, answer: Answer) {
        self.state.lock().first.entry(path.to_owned()).or_default().push_back(answer);
    }

    /// All requests with their headers.
    pub(super) fn asked(&self) -> Vec<String> {
        self.state.lock().asked.clone()
    }

    pub(super) fn count(&self, path: &str) -> usize {
        let begin = format!("GET {path} ");
        self.state.lock().asked.iter().filter(|request| request.starts_with(&begin)).count()
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    let mut request = String::new();
    let mut reader = BufReader::new(&stream);
    while reader.read_line(&mut request).is_ok_and(|read| read > 2) {}
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut state = state.lock();
    state.asked.push(request);
    let once = state.first.get_mut(&path).and_then(VecDeque::pop_front);
    let answer = once.or_else(|| state.then.get(&path).cloned());
    drop(state);
    answer.unwrap_or_else(|| Answer::status("404 Not Found")).write(&mut stream);
}
