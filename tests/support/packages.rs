//! Real projects and what they depend on, as `.ci/packages` downloads them: their trees, and a server with the
//! registries that they ask.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// The name and port by which images and lock files know the registry. The port is the same for all tests,
/// each has an address of its own.
pub(crate) const HOST: &str = "packages.test";
pub(crate) const PORT: u16 = 8099;

/// What `.ci/packages` made; a failure that says so where it did not run.
pub(crate) fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/packages");
    assert!(
        folder.join("made").is_file(),
        "{} is not there: run `.ci/packages`, or `./test`, which does",
        folder.display()
    );
    folder
}

/// A project with a bug.
pub(crate) struct Project {
    folder: PathBuf,
}

impl Project {
    pub(crate) fn new(name: &str) -> Project {
        let folder = folder().join("cases").join(name);
        assert!(folder.is_dir(), "`{name}` is no case of .ci/unprepared/cases.toml");
        Project { folder }
    }

    /// Its files, without git.
    pub(crate) fn base(&self) -> PathBuf {
        self.folder.join("base")
    }

    /// What mended it, as `git diff` writes it.
    pub(crate) fn fix(&self) -> String {
        fs_err::read_to_string(self.folder.join("fix.patch")).unwrap()
    }
}

/// The registries of `PyPI`, npm and crates, of files.
pub(crate) struct Packages {
    pub(crate) address: Ipv4Addr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Packages {
    pub(crate) fn start() -> Packages {
        let root = Arc::new(folder().join("registry"));
        let (listener, address) = listen();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (root, seen) = (Arc::clone(&root), Arc::clone(&seen));
                std::thread::spawn(move || while serve(&stream, &root, &seen).is_some() {});
            }
        });
        Packages { address, asked }
    }

    /// The entry of a list of hosts that setup may reach.
    pub(crate) fn allowed(&self) -> String {
        format!("{HOST}:{PORT}={}", self.address)
    }

    /// The paths that were asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

/// An address of this machine's own where the port is free. Tests are processes, each begins elsewhere.
fn listen() -> (TcpListener, Ipv4Addr) {
    let first = std::process::id();
    for number in first..first + 1_000 {
        let [.., a, b, c] = number.wrapping_mul(2_654_435_761).to_be_bytes();
        let address = Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254));
        if let Ok(listener) = TcpListener::bind((address, PORT)) {
            return (listener, address);
        }
    }
    panic!("no address of 127.0.0.0/8 has port {PORT} free");
}

/// Answers one request; nothing when the other side has gone.
fn serve(mut stream: &TcpStream, root: &Path, asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    let path = first.split(' ').nth(1)?.split(['?', '#']).next()?.to_owned();
    while lines.next().is_some_and(|line| !line.is_empty()) {}
    asked.lock().push(path.clone());
    let content = read(root, &path);
    let (status, body) = match &content {
        Some(body) => ("200 OK", body.as_slice()),
        None => ("404 Not Found", &b"nothing here\n"[..]),
    };
    let kind = match path.as_str() {
        path if path.starts_with("/simple/") => "text/html",
        path if path.starts_with("/npm/") && !path.starts_with("/npm/-/") => "application/json",
        _ => "application/octet-stream",
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    if !first.starts_with("HEAD ") {
        stream.write_all(body).ok()?;
    }
    Some(())
}

fn read(root: &Path, path: &str) -> Option<Vec<u8>> {
    // npm asks for a package of an organisation in one piece.
    let path = path.trim_start_matches('/').replace("%2F", "%2f");
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(&path).components().all(is_inside) {
        return None;
    }
    let path = root.join(path);
    let file = if path.is_dir() { path.join("index.html") } else { path };
    fs_err::read(file).ok()
}
