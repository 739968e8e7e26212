//! What a checkpoint of a workspace costs, in a small repository and in one of ten thousand files:
//! `cargo bench --bench checkpoint`.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints and may stop")]
#![expect(clippy::disallowed_methods, reason = "starts the guest")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use patchwright_base::clock::Clock;
use patchwright_base::ui::{Ui, Verbosity};
use patchwright_git::Oid;
use patchwright_git::checkpoint::Store;
use patchwright_git::packed;
use patchwright_git::repo::Repo;
use patchwright_journal::Journal;
use patchwright_sandbox::client::{Client, CollectLimits};
use patchwright_sandbox::guest_binary;
use patchwright_task::checkpoint::Checkpoints;

/// Bytes of each file.
const FILE: usize = 4_000;
const ROUNDS: u32 = 30;

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let guest = folder.path().join("patchwright-guest");
    std::fs::write(&guest, guest_binary()).unwrap();
    std::fs::set_permissions(&guest, PermissionsExt::from_mode(0o755)).unwrap();
    for files in [20, 10_000] {
        measure(&guest, &folder.path().join(files.to_string()), files).await;
    }
}

fn name(number: usize) -> String {
    format!("d{}/e{}/f{number}", number % 10, number % 100)
}

async fn measure(guest: &Path, folder: &Path, files: usize) {
    let workspace = folder.join("workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    let mut process = tokio::process::Command::new(guest)
        .args(["serve", "--workspace", workspace.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (stdout, stdin) = (process.stdout.take().unwrap(), process.stdin.take().unwrap());
    let client = Client::connect(stdout, stdin, Duration::from_secs(10)).await.unwrap();
    let (mirror, base) = mirror(&folder.join("mirror.git"), files);
    let names: Vec<String> = (0..files).map(name).collect();
    packed::some(&mirror, base, &names, 0).unwrap().upload(&client).await.unwrap();
    let store = Store::open(&folder.join("checkpoints.git"), &mirror).unwrap();
    let redact = std::sync::Arc::new(str::to_owned);
    let journal = Journal::create(&folder.join("run"), Clock::default(), redact).unwrap();
    let ui = Ui { verbosity: Verbosity::Quiet, ..Ui::plain() };
    let checkpoints = Checkpoints::new(client.clone(), store, base, journal, ui);

    checkpoints.checkpoint().await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    checkpoints.checkpoint().await.unwrap();
    let (mut same, mut changed, mut collected) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let started = Instant::now();
        checkpoints.checkpoint().await.unwrap();
        same.push(started.elapsed());
        std::fs::write(workspace.join(name(round as usize % files)), round.to_string()).unwrap();
        let started = Instant::now();
        checkpoints.checkpoint().await.unwrap();
        changed.push(started.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
        checkpoints.checkpoint().await.unwrap();
        let started = Instant::now();
        client.collect(CollectLimits::default()).await.unwrap();
        collected.push(started.elapsed());
    }
    report(files, "nothing changed", same);
    report(files, "one file changed", changed);
    report(files, "the whole change collected, for comparison", collected);
    client.close().await;
    process.wait().await.unwrap();
}

/// A bare repository with one tree.
fn mirror(path: &Path, files: usize) -> (Repo, Oid) {
    let repo = Repo::create(path).unwrap();
    let git = git2::Repository::open_bare(path).unwrap();
    let empty = git.find_tree(git.treebuilder(None).unwrap().write().unwrap()).unwrap();
    let mut update = git2::build::TreeUpdateBuilder::new();
    for number in 0..files {
        let blob = git.blob(format!("{number} {}", "x".repeat(FILE)).as_bytes()).unwrap();
        update.upsert(name(number), blob, git2::FileMode::Blob);
    }
    let tree = update.create_updated(&git, &empty).unwrap();
    (repo, Oid(tree))
}

fn report(files: usize, what: &str, mut times: Vec<Duration>) {
    times.sort();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{files} files, {what}: median {median:?}, worst {worst:?}");
}
