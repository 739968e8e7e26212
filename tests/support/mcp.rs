//! MCP servers for tests: real ones that `./test` installs into `target/mcp`, and one of our own that
//! behaves badly.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use patchwright::config::tools::McpServer;

/// Our bad server, in a mode of its own.
pub(crate) fn bad(mode: &str) -> McpServer {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/mcp_server.py");
    let command = ["/usr/bin/python3", "-u", &script.display().to_string(), mode];
    McpServer { command: command.map(str::to_owned).to_vec(), ..McpServer::default() }
}

/// `@modelcontextprotocol/server-everything` on standard streams; `None` where it is not installed,
/// which CI does not allow.
pub(crate) fn everything() -> Option<McpServer> {
    let script = everything_script()?;
    let command = ["/usr/bin/node".to_owned(), script.display().to_string(), "stdio".to_owned()];
    Some(McpServer { command: command.to_vec(), ..McpServer::default() })
}

/// Its program.
pub(crate) fn everything_script() -> Option<PathBuf> {
    installed("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

/// `mcp-server-git` on standard streams.
pub(crate) fn git() -> Option<McpServer> {
    let program = installed("python/bin/mcp-server-git")?.display().to_string();
    Some(McpServer { command: vec![program], ..McpServer::default() })
}

/// Servers by name.
pub(crate) fn named<const N: usize>(
    servers: [(&str, McpServer); N],
) -> BTreeMap<String, McpServer> {
    servers.into_iter().map(|(name, server)| (name.to_owned(), server)).collect()
}

#[expect(clippy::disallowed_methods, reason = "asks whether CI is watching")]
fn installed(path: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let path = target.join("mcp").join(path);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "{} is not installed: run `./test`", path.display());
    eprintln!("{} is not installed: run `./test`; the test is skipped", path.display());
    None
}
