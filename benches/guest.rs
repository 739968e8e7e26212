//! Round trips, commands and transfers through the real guest: `cargo bench --bench guest`.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints and may stop")]
#![expect(clippy::disallowed_methods, reason = "starts the guest")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use patchwright_guest::protocol::Exec;
use patchwright_sandbox::client::{Client, CollectLimits};
use patchwright_sandbox::{GUEST_SIZE, guest_binary};

const FILES: usize = 5000;
const FILE: usize = 10_000;

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let guest = folder.path().join("patchwright-guest");
    let workspace = folder.path().join("workspace");
    std::fs::write(&guest, guest_binary()).unwrap();
    std::fs::set_permissions(&guest, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir(&workspace).unwrap();
    let started = Instant::now();
    let mut process = tokio::process::Command::new(&guest)
        .args(["serve", "--workspace", workspace.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (stdout, stdin) = (process.stdout.take().unwrap(), process.stdin.take().unwrap());
    let client = Client::connect(stdout, stdin, Duration::from_secs(10)).await.unwrap();
    println!("guest: {} bytes, ready in {:?}", GUEST_SIZE, started.elapsed());

    let mut times = Vec::new();
    for _ in 0..2000 {
        let started = Instant::now();
        client.ping().await.unwrap();
        times.push(started.elapsed());
    }
    report("ping", times);

    let mut times = Vec::new();
    for _ in 0..500 {
        let exec = Exec {
            argv: ["sh", "-c", "true"].map(str::to_owned).to_vec(),
            cwd: None,
            env: BTreeMap::new(),
            timeout_ms: 10_000,
            output_cap: 1000,
        };
        let started = Instant::now();
        client.exec(exec).await.unwrap();
        times.push(started.elapsed());
    }
    report("sh -c true", times);

    transfer(&client, &workspace).await;
    client.close().await;
    process.wait().await.unwrap();
}

async fn transfer(client: &Client, workspace: &Path) {
    let mut tar = tar::Builder::new(Vec::new());
    for number in 0..FILES {
        let mut header = tar::Header::new_gnu();
        header.set_size(FILE as u64);
        header.set_mode(0o644);
        let path = format!("d{}/e{}/f{number}", number % 10, number % 100);
        tar.append_data(&mut header, path, &vec![b'x'; FILE][..]).unwrap();
    }
    let tar = tar.into_inner().unwrap();
    let started = Instant::now();
    client.upload(tar.as_slice()).await.unwrap();
    println!("upload of {FILES} files, {} MB: {:?}", tar.len() >> 20, started.elapsed());
    let limits = CollectLimits { files: 10_000, bytes: 1 << 30, timeout: Duration::from_mins(1) };
    let started = Instant::now();
    let none = client.collect(limits).await.unwrap();
    println!("collect, {} changed: {:?}", none.files.len(), started.elapsed());
    for number in 0..FILES {
        let path = format!("d{}/e{}/f{number}", number % 10, number % 100);
        std::fs::write(workspace.join(path), vec![b'y'; FILE]).unwrap();
    }
    let started = Instant::now();
    let all = client.collect(limits).await.unwrap();
    println!("collect, {} changed: {:?}", all.files.len(), started.elapsed());
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    println!("{name}: p50 {:?}, p99 {:?}", times[times.len() / 2], times[times.len() * 99 / 100]);
}
