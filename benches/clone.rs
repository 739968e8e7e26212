//! Cold and warm clones of a 20,000-file repository over HTTP beside `git clone --depth 1`, and the
//! upload tar. Wall clock, median of several rounds. Run with `cargo bench --bench clone`; another
//! number of files can be given as `cargo bench --bench clone -- 5000`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

#[path = "../tests/support/git_http.rs"]
mod git_http;
#[path = "../tests/support/git_quick.rs"]
mod git_quick;
#[path = "../tests/support/git_repo.rs"]
mod git_repo;

use std::path::Path;
use std::time::{Duration, Instant};

use git_http::{GitState, serve};
use git_repo::{Entry, file, git};
use patchwright_git::blocking;
use patchwright_git::clone::{Repo, fetch, mirror};
use patchwright_git::transport::Remote;
use patchwright_git::tree::{ArchiveOptions, archive};

const ROUNDS: usize = 5;

fn main() {
    let files = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(20_000);
    tokio::runtime::Runtime::new().unwrap().block_on(run(files));
}

async fn run(files: usize) {
    let dir = tempfile::tempdir().unwrap();
    let server = GitState::new(&dir.path().join("server"));
    server.create("acme/large");
    let entries: Vec<Entry> = (0..files).map(source).collect();
    server.commit("acme/large", "main", "First", &entries);
    for number in 0..60 {
        server.commit("acme/large", "main", "More", &[source_at(number * 7, number + 1)]);
    }
    git(&server.path("acme/large"), &["repack", "-adq"]);
    let url = format!("{}/acme/large.git", serve(server.clone()).await);

    let mut rows: Vec<(&str, Vec<Duration>)> = Vec::new();
    for depth in [1, 50] {
        let (mut reference, mut cold, mut warm, mut tar) = (vec![], vec![], vec![], vec![]);
        for round in 0..ROUNDS {
            let work = dir.path().join(format!("round-{depth}-{round}"));
            std::fs::create_dir(&work).unwrap();
            reference.push(clone_with_git(&work, &url, depth).await);
            cold.push(clone_with_us(&work.join("state"), &url, depth).await.0);
            let (time, repo) = clone_with_us(&work.join("state"), &url, depth).await;
            warm.push(time);
            tar.push(upload(repo, depth).await);
        }
        let name = |what: &str| -> &'static str { format!("{what}, depth {depth}").leak() };
        rows.push((name("git clone --bare --depth"), reference));
        rows.push((name("patchwright, cold mirror"), cold));
        rows.push((name("patchwright, warm mirror"), warm));
        rows.push((name("upload tar with .git"), tar));
    }
    println!("{files} files, median of {ROUNDS} rounds");
    for (name, mut times) in rows {
        times.sort();
        println!("{name:<40} {:>8.1} ms", times[ROUNDS / 2].as_secs_f64() * 1e3);
    }
}

fn source(number: usize) -> Entry {
    source_at(number, 0)
}

/// About a kilobyte of text that differs from file to file.
fn source_at(number: usize, version: usize) -> Entry {
    let line = |line: usize| {
        let hash = (number * 31 + line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("fn item_{number}_{line}() -> u64 {{ {hash} + {version} }}\n")
    };
    let text: String = (0..20).map(line).collect();
    file(&format!("src/module_{}/part_{}/file_{number}.rs", number % 50, number % 7), text)
}

async fn clone_with_git(work: &Path, url: &str, depth: u32) -> Duration {
    let (work, url) = (work.to_owned(), url.to_owned());
    let run = move || {
        let start = Instant::now();
        let depth = depth.to_string();
        git(&work, &["clone", "--quiet", "--bare", "--depth", &depth, &url, "reference"]);
        Ok(start.elapsed())
    };
    blocking(run).await.unwrap()
}

async fn clone_with_us(state: &Path, url: &str, depth: u32) -> (Duration, Repo) {
    let client = reqwest::Client::builder().no_proxy();
    let client = client.redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let (state, url) = (state.to_owned(), url.to_owned());
    let run = move || {
        let start = Instant::now();
        let repo = mirror(&state, &url)?;
        fetch(&repo, &Remote::http(&client, &url, None)?, &["main".to_owned()], depth)?;
        Ok((start.elapsed(), repo))
    };
    blocking(run).await.unwrap()
}

async fn upload(repo: Repo, depth: u32) -> Duration {
    let run = move || {
        let start = Instant::now();
        let base = repo.resolve("main")?;
        archive(&repo, base, &ArchiveOptions::new("main", depth), std::io::sink())?;
        Ok(start.elapsed())
    };
    blocking(run).await.unwrap()
}
