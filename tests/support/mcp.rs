//! MCP servers for tests: real ones that `./test` installs into `target/mcp`, and one of our own that
//! behaves badly.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use patchwright_config::tools::McpServer;

/// Our bad server, in a mode of its own.
pub(crate) fn bad(mode: &str) -> McpServer {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/mcp_server.py");
    let command = ["/usr/bin/python3", "-u", &script.display().to_string(), mode];
    of(command.map(str::to_owned).to_vec())
}

/// `@modelcontextprotocol/server-everything` on standard streams; `None` where it is not installed,
/// which CI does not allow.
pub(crate) fn everything() -> Option<McpServer> {
    let script = everything_script()?;
    let command = ["/usr/bin/node".to_owned(), script.display().to_string(), "stdio".to_owned()];
    Some(of(command.to_vec()))
}

/// Its program.
pub(crate) fn everything_script() -> Option<PathBuf> {
    program("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

/// `mcp-server-git` on standard streams.
pub(crate) fn git() -> Option<McpServer> {
    let git = program("python/bin/mcp-server-git")?;
    Some(of(vec![git.display().to_string()]))
}

/// A server that may take its time to start: machines of tests are busy.
fn of(command: Vec<String>) -> McpServer {
    McpServer { command, start_timeout_seconds: Some(120), ..McpServer::default() }
}

/// Servers by name.
pub(crate) fn named<const N: usize>(
    servers: [(&str, McpServer); N],
) -> BTreeMap<String, McpServer> {
    servers.into_iter().map(|(name, server)| (name.to_owned(), server)).collect()
}

/// Where `./test` installs the real ones.
pub(crate) fn installed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/mcp")
}

#[expect(clippy::disallowed_methods, reason = "asks whether CI is watching")]
fn program(path: &str) -> Option<PathBuf> {
    let path = installed().join(path);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "{} is not installed: run `./test`", path.display());
    eprintln!("{} is not installed: run `./test`; the test is skipped", path.display());
    None
}

/// A server over HTTP, which ends with this value.
pub(crate) struct HttpServer {
    child: Child,
    pub(crate) port: u16,
}

impl HttpServer {
    /// Our own, which writes down its calls in a file.
    pub(crate) fn own(calls: &Path) -> HttpServer {
        HttpServer::of("mcp_http_server.py", calls)
    }

    /// One with an authorization server, which writes down what that is asked.
    pub(crate) fn oauth(asked: &Path) -> HttpServer {
        HttpServer::of("oauth_server.py", asked)
    }

    #[expect(clippy::disallowed_methods, reason = "starts a server")]
    fn of(script: &str, calls: &Path) -> HttpServer {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support");
        let script = folder.join(script);
        let mut command = Command::new("/usr/bin/python3");
        let child = command.arg("-u").arg(script).arg(calls).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        HttpServer { child, port: line.trim().parse().unwrap() }
    }

    /// `server-everything`; `None` where it is not installed.
    #[expect(clippy::disallowed_methods, reason = "starts a server")]
    pub(crate) fn everything() -> Option<HttpServer> {
        let script = everything_script()?;
        for _ in 0..5 {
            // It takes a port, not a socket: one that was free a moment ago.
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut command = Command::new("/usr/bin/node");
            command.arg(&script).arg("streamableHttp").env("PORT", port.to_string());
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let mut server = HttpServer { child, port };
            for _ in 0..600 {
                if server.child.try_wait().unwrap().is_some() {
                    break;
                }
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Some(server);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        panic!("server-everything does not listen");
    }

    /// The configuration that reaches a path of it.
    pub(crate) fn at(&self, path: &str) -> McpServer {
        let url = Some(format!("http://127.0.0.1:{}{path}", self.port));
        McpServer { url, ..McpServer::default() }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
