//! Package registries for tests: `PyPI`'s simple index and npm's, with one package each, as servers of this
//! machine; and a container image that has pip.
#![expect(clippy::disallowed_methods, reason = "builds packages with the programs of this machine")]
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;

use bollard::Docker;
use parking_lot::Mutex;

use crate::support::docker::{docker, image_with};
use crate::support::mcp::installed;

/// A wheel with the module `greeting`, written to the path in the first argument.
const WHEEL: &str = "import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    info = 'greeting-1.0.dist-info/'
    wheel.writestr('greeting.py', 'def hello():\\n    return 4\\n')
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: greeting\\nVersion: 1.0\\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(info + 'RECORD', '')
";
/// Makes a package for npm.
const TARBALL: &str = "import io, sys, tarfile
with tarfile.open(sys.argv[1], 'w:gz') as tar:
    for name, text in [('package.json', '{\"name\": \"greeting\", \"version\": \"1.0.0\", \"main\": \"i.js\"}'), ('i.js', 'module.exports = () => 4\\n')]:
        info = tarfile.TarInfo('package/' + name)
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text.encode()))
";

/// Makes a package manager for npm that installs nothing.
const MANAGER: &str = "import io, sys, tarfile
with tarfile.open(sys.argv[1], 'w:gz') as tar:
    for name, text in [('package.json', '{\"name\": \"bun\", \"version\": \"1.0.0\", \"bin\": {\"bun\": \"bun.sh\"}}'), ('bun.sh', '#!/bin/sh\\necho bun $*\\n')]:
        info = tarfile.TarInfo('package/' + name)
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text.encode()))
";

/// How the server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// It takes connections and never answers.
    Silent,
}

/// A server with both indices.
pub(crate) struct Registry {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    pub(crate) fn start(mood: Mood) -> Registry {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let packages = Arc::new([WHEEL, TARBALL, MANAGER].map(built));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (packages, seen) = (Arc::clone(&packages), Arc::clone(&seen));
                std::thread::spawn(move || serve(&stream, mood, port, &packages, &seen));
            }
        });
        Registry { port, asked }
    }

    /// A port at which nobody answers.
    pub(crate) fn down() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    /// What was asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

/// The lines of a file of requirements that ask this index for the package.
pub(crate) fn requirements(port: u16) -> String {
    format!(
        "--index-url http://pypi.test:{port}/simple/\n--trusted-host pypi.test\ngreeting==1.0\n"
    )
}

fn built(script: &str) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut python = Command::new("/usr/bin/python3");
    let status = python.args(["-c", script]).arg(file.path()).status().unwrap();
    assert!(status.success());
    fs_err::read(file.path()).unwrap()
}

fn serve(
    mut stream: &TcpStream,
    mood: Mood,
    port: u16,
    [wheel, tarball, manager]: &[Vec<u8>; 3],
    asked: &Mutex<Vec<String>>,
) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().push(path.clone());
    while lines.next().is_some_and(|line| !line.is_empty()) {}
    if mood == Mood::Silent {
        // Until the other side gives up.
        let _ = lines.next();
        return;
    }
    let npm = |name: &str| {
        let bin = if name == "bun" { "bun.sh" } else { "i.js" };
        let version = serde_json::json!({
            "name": name,
            "version": "1.0.0",
            "bin": bin,
            "dist": {"tarball": format!("http://npm.test:{port}/{name}-1.0.0.tgz")},
        });
        let about = serde_json::json!({
            "name": name,
            "dist-tags": {"latest": "1.0.0"},
            "versions": {"1.0.0": version},
        });
        about.to_string().into_bytes()
    };
    let (status, kind, body) = match path.as_str() {
        "/simple/greeting/" => {
            let link = "/greeting-1.0-py3-none-any.whl";
            let page = format!("<!DOCTYPE html><a href=\"{link}\">{}</a>", &link[1..]);
            ("200 OK", "text/html", page.into_bytes())
        }
        "/greeting-1.0-py3-none-any.whl" => ("200 OK", "application/octet-stream", wheel.clone()),
        "/greeting" | "/bun" => ("200 OK", "application/json", npm(&path[1..])),
        "/greeting-1.0.0.tgz" => ("200 OK", "application/octet-stream", tarball.clone()),
        "/bun-1.0.0.tgz" => ("200 OK", "application/octet-stream", manager.clone()),
        _ => ("404 Not Found", "text/plain", b"nothing here\n".to_vec()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

/// The test image with pip, which `./test` installs for other tests; `None` where that or Docker is missing.
pub(crate) fn image_with_pip() -> Option<&'static str> {
    const NAME: &str = "patchwright-test-pip:2";
    let packages = fs_err::read_dir(installed().join("python/lib")).ok()?.next()?.ok()?.path();
    let pip = packages.join("site-packages/pip");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let docker = docker().await?;
        if !pip.is_dir() {
            return None;
        }
        if docker.engine.inspect_image(NAME).await.is_err() {
            build(&docker.engine, &pip, NAME).await;
        }
        Some(NAME)
    })
}

async fn build(engine: &Docker, pip: &std::path::Path, name: &str) {
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all("usr/lib/python3/dist-packages/pip", pip).unwrap();
    // Without a list of authorities pip does not even ask.
    let authorities = pip.join("_vendor/certifi/cacert.pem");
    tar.append_path_with_name(authorities, "etc/ssl/certs/ca-certificates.crt").unwrap();
    image_with(engine, name, tar.into_inner().unwrap()).await;
}
