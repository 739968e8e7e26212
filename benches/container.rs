//! How long a sandbox takes until its guest answers, step by step, beside a bare `docker run`, and beside one that
//! has waited for it.
//!
//! `cargo bench --bench container` with Docker and the test images (`.ci/images`). Prints the median
//! and the 90th percentile of each row; asserts nothing.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints and may fail")]
#![allow(clippy::disallowed_methods, reason = "it starts the docker command line to compare with")]

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use patchwright_sandbox::docker::{DockerSandbox, WarmLimits};
use patchwright_sandbox::{ContainerLimits, PreparedImage, Sandbox, SandboxSpec};

const IMAGE: &str = "patchwright-test:1";
const ROUNDS: usize = 20;
/// Size of the uploaded tree: 50 MB in 500 files.
const FILES: usize = 500;
const FILE_BYTES: usize = 100_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let sandbox = DockerSandbox::connect(None).await.unwrap();
    let tree = tree();
    let spec = SandboxSpec {
        image: PreparedImage {
            reference: IMAGE.to_owned(),
            description: IMAGE.to_owned(),
            ..PreparedImage::default()
        },
        run: format!("bench-{}", std::process::id()),
        purpose: "agent",
        env: BTreeMap::new(),
        limits: ContainerLimits::default(),
        egress: None,
        services: Vec::new(),
    };
    let warm = WarmLimits { count: 1, age: Duration::from_mins(5), memory_bytes: 8 << 30 };
    let waiting = DockerSandbox::connect(None).await.unwrap().with_warm(warm);
    waiting.start(&spec).await.unwrap().stop().await.unwrap();
    let mut rows: [(&str, Vec<Duration>); 6] = [
        ("start until the guest answers", Vec::new()),
        ("upload 50 MB", Vec::new()),
        ("stop", Vec::new()),
        ("start + upload + stop", Vec::new()),
        ("docker run --rm --network none IMAGE true", Vec::new()),
        ("start of a waiting one until it answers", Vec::new()),
    ];
    for _ in 0..ROUNDS {
        let whole = Instant::now();
        let running = sandbox.start(&spec).await.unwrap();
        rows[0].1.push(whole.elapsed());
        let upload = Instant::now();
        running.client.upload(tree.as_slice()).await.unwrap();
        rows[1].1.push(upload.elapsed());
        let stop = Instant::now();
        running.stop().await.unwrap();
        rows[2].1.push(stop.elapsed());
        rows[3].1.push(whole.elapsed());

        let bare = Instant::now();
        let status = Command::new("docker")
            .args(["run", "--rm", "--network", "none", IMAGE, "true"])
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        rows[4].1.push(bare.elapsed());

        // Until the next one waits; a run is further apart than that.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let warm = Instant::now();
        let running = waiting.start(&spec).await.unwrap();
        running.client.ping().await.unwrap();
        rows[5].1.push(warm.elapsed());
        running.stop().await.unwrap();
    }
    waiting.drop_warm().await;
    print(rows);
}

fn print<const COUNT: usize>(rows: [(&str, Vec<Duration>); COUNT]) {
    println!("{ROUNDS} rounds, milliseconds     p50     p90");
    for (name, mut times) in rows {
        times.sort();
        let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e3;
        println!("{name:<45} {:>7.1} {:>7.1}", at(50), at(90));
    }
}

/// A tar of files that look like sources.
fn tree() -> Vec<u8> {
    let content = b"fn main() {}\n".repeat(FILE_BYTES / 13);
    let mut tar = tar::Builder::new(Vec::new());
    for index in 0..FILES {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        let path = format!("src/module{}/file{index}.rs", index % 20);
        tar.append_data(&mut header, path, content.as_slice()).unwrap();
    }
    tar.into_inner().unwrap()
}
