//! Bare repositories with real commits, and git's own `http-backend` in front of them.

#![expect(clippy::disallowed_methods, reason = "the real git program serves the repositories")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Response, StatusCode};

/// A `git` that sees no configuration of this machine.
fn git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "Alice")
        .env("GIT_AUTHOR_EMAIL", "alice@example.com")
        .env("GIT_COMMITTER_NAME", "Alice")
        .env("GIT_COMMITTER_EMAIL", "alice@example.com")
        .env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
        .env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z");
    command
}

/// Runs git with `input` on stdin; its output without the last line end, or its complaint.
pub fn run(dir: &Path, args: &[&str], input: &[u8]) -> Result<String, String> {
    let mut child = git(dir)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|err| err.to_string())?;
    child.stdin.take().unwrap().write_all(input).map_err(|err| err.to_string())?;
    let output = child.wait_with_output().map_err(|err| err.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Makes an empty bare repository that takes pushes.
pub fn init(path: &Path) {
    std::fs::create_dir_all(path).unwrap();
    run(path, &["init", "-q", "--bare", "-b", "main", "."], b"").unwrap();
    for (key, value) in [
        ("http.receivepack", "true"),
        ("uploadpack.allowAnySHA1InWant", "true"),
        ("receive.shallowUpdate", "true"),
    ] {
        run(path, &["config", key, value], b"").unwrap();
    }
}

/// Puts a commit with these files, on top of the branch's own, on a branch. Returns the commit.
pub fn commit(path: &Path, branch: &str, message: &str, files: &[(&str, &str)]) -> String {
    let reference = format!("refs/heads/{branch}");
    let parent = tip(path, branch);
    let mut tree = String::new();
    if let Some(parent) = &parent {
        tree = run(path, &["ls-tree", "-r", parent], b"").unwrap();
    }
    let mut lines: Vec<String> = tree.lines().map(str::to_owned).collect();
    for (name, content) in files {
        let blob = run(path, &["hash-object", "-w", "--stdin"], content.as_bytes()).unwrap();
        lines.retain(|line| line.split('\t').nth(1) != Some(name));
        let mode = if content.starts_with("#!") { "100755" } else { "100644" };
        lines.push(format!("{mode} blob {blob}\t{name}"));
    }
    let index = path.join("test-index");
    let _ = std::fs::remove_file(&index);
    let mut child = git(path)
        .env("GIT_INDEX_FILE", &index)
        .args(["update-index", "--add", "--index-info"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let tree = git(path).env("GIT_INDEX_FILE", &index).arg("write-tree").output().unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    let mut args = vec!["commit-tree", tree.trim(), "-m", message];
    if let Some(parent) = &parent {
        args.extend(["-p", parent]);
    }
    let commit = run(path, &args, b"").unwrap();
    run(path, &["update-ref", &reference, &commit], b"").unwrap();
    commit
}

/// What a branch points to.
pub fn tip(path: &Path, branch: &str) -> Option<String> {
    run(path, &["rev-parse", "-q", "--verify", &format!("refs/heads/{branch}")], b"").ok()
}

/// Branch names and their commits.
pub fn branches(path: &Path) -> Vec<(String, String)> {
    let format = "--format=%(refname:lstrip=2) %(objectname)";
    let list = run(path, &["for-each-ref", format, "refs/heads"], b"").unwrap_or_default();
    list.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, sha)| (name.to_owned(), sha.to_owned()))
        .collect()
}

/// How many commits `to` has that `from` lacks.
pub fn ahead(path: &Path, from: &str, to: &str) -> u64 {
    run(path, &["rev-list", "--count", &format!("{from}..{to}")], b"")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(0)
}

/// Hands a request to `git http-backend`. `rest` is the path below the repository.
pub fn serve(
    path: &Path,
    rest: &str,
    method: &Method,
    query: &str,
    headers: &HeaderMap,
    body: &Bytes,
    user: &str,
) -> Response<Body> {
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let mut command = git(path);
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", path)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", format!("/{rest}"))
        .env("REQUEST_METHOD", method.as_str())
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("REMOTE_USER", user)
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let body = body.clone();
    let feed = std::thread::spawn(move || drop(stdin.write_all(&body)));
    let output = child.wait_with_output().unwrap();
    feed.join().unwrap();
    let end = output.stdout.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(0);
    let head = String::from_utf8_lossy(&output.stdout[..end]).into_owned();
    let mut response = Response::builder();
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or(500);
            response = response.status(StatusCode::from_u16(code).unwrap());
        } else {
            response = response.header(name, value);
        }
    }
    response.body(Body::from(output.stdout.get(end + 4..).unwrap_or_default().to_vec())).unwrap()
}
