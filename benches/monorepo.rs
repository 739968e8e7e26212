//! A repository of two million files, of which some folders are wanted: the partial clone over HTTP, cold and warm, and
//! the tar for the sandbox. CPU of the client's processes beside the wall clock. Run with `cargo bench --bench monorepo`;
//! another number of files can be given as `cargo bench --bench monorepo -- 200000`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]
#![allow(clippy::disallowed_methods, reason = "starts git")]

#[path = "../tests/support/git_http.rs"]
mod git_http;
#[path = "../tests/support/git_quick.rs"]
mod git_quick;
#[path = "../tests/support/git_repo.rs"]
mod git_repo;

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use git_http::{GitState, serve};
use git_repo::command;
use patchwright_git::blocking;
use patchwright_git::clone::{fetch, partial_mirror};
use patchwright_git::transport::Remote;
use patchwright_git::tree::ArchiveOptions;
use patchwright_git::{packed, sparse};

/// Files of one folder, and folders of one folder above it.
const FILES: usize = 100;
const FOLDERS: usize = 100;

fn main() {
    let files = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(2_000_000);
    tokio::runtime::Runtime::new().unwrap().block_on(run(files));
}

async fn run(files: usize) {
    let dir = tempfile::tempdir().unwrap();
    let server = GitState::new(&dir.path().join("server"));
    server.create("acme/mono");
    let began = Instant::now();
    generate(&server.path("acme/mono"), files);
    println!("{files} files, made in {:.0} s", began.elapsed().as_secs_f64());
    let url = format!("{}/acme/mono.git", serve(server.clone()).await);
    let state = dir.path().join("state");
    // A hundred folders of a hundred files.
    let folders = vec!["area_0".to_owned()];
    for what in ["cold partial clone", "warm partial clone"] {
        measured(what, || clone(&state, &url, &folders)).await;
    }
    measured("tar for the sandbox", || upload(&state, &url, &folders)).await;
}

/// One commit, with as many folders as it takes; the files share a few contents.
fn generate(path: &Path, files: usize) {
    let mut child =
        command(path, &["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut out = BufWriter::new(child.stdin.take().unwrap());
    for mark in 1..=50 {
        let lines: Vec<String> =
            (0..20).map(|line| format!("fn item_{mark}_{line}() {{}}\n")).collect();
        let text = lines.concat();
        write!(out, "blob\nmark :{mark}\ndata {}\n{text}\n", text.len()).unwrap();
    }
    let who = "Test <test@example.com> 1700000000 +0000";
    write!(out, "commit refs/heads/main\ncommitter {who}\ndata 5\nFirst\n").unwrap();
    writeln!(out, "M 100644 :1 README.md").unwrap();
    for number in 0..files {
        let folder = number / FILES;
        let (area, part) = (folder / FOLDERS, folder % FOLDERS);
        let mark = number * 7 % 50 + 1;
        writeln!(out, "M 100644 :{mark} area_{area}/part_{part}/file_{number}.rs").unwrap();
    }
    out.flush().unwrap();
    drop(out);
    assert!(child.wait().unwrap().success());
}

async fn measured<F: Future<Output = ()>>(what: &str, work: impl FnOnce() -> F) {
    let (wall, cpu) = (Instant::now(), processor_time());
    work().await;
    let cpu = processor_time().saturating_sub(cpu);
    println!(
        "{what:<24} {:>7.2} s CPU {:>7.2} s wall",
        cpu.as_secs_f64(),
        wall.elapsed().as_secs_f64()
    );
}

/// Processor time of this process and of all that it has started: the helpers, and the server's git.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    // `utime`, `stime`, `cutime` and `cstime`, in ticks of ten milliseconds.
    let ticks = fields.skip(11).take(4).map(|field| field.parse::<u64>().unwrap());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

async fn clone(state: &Path, url: &str, folders: &[String]) {
    let client = reqwest::Client::builder().no_proxy();
    let client = client.redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let (state, url, folders) = (state.to_owned(), url.to_owned(), folders.to_vec());
    let run = move || {
        let repo = partial_mirror(&state, &url, &folders)?;
        fetch(&repo, &Remote::http(&client, &url, None)?, &["main".to_owned()], 1)
    };
    blocking(run).await.unwrap();
}

async fn upload(state: &Path, url: &str, folders: &[String]) {
    let (state, url, folders) = (state.to_owned(), url.to_owned(), folders.to_vec());
    let run = move || {
        let repo = partial_mirror(&state, &url, &folders)?;
        let part = sparse::commit_of(&repo, repo.resolve("main")?, &folders)?;
        let options = ArchiveOptions { is_apart: true, ..ArchiveOptions::new("main", 1) };
        packed::whole(&repo, part, &options).map(drop)
    };
    blocking(run).await.unwrap();
}
