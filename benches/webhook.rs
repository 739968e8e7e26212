//! Webhooks at 200 a second for a minute, a quarter of them repeats, against the real server with its
//! worker: how long answers take, and whether anything was lost or done twice.
//! `cargo bench --bench webhook [SECONDS [PER_SECOND]]`.
//!
//! The events are a month old, so that their work is the store's alone: claimed, looked at, ended.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints and may fail")]
#![allow(clippy::disallowed_methods, reason = "it starts the program")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;

const SECRET: &str = "webhook-secret-of-the-benchmark";
/// Hooks of GitHub come on many connections.
const CONNECTIONS: usize = 32;
/// Every so many deliveries come again, later.
const REPEATED: u64 = 3;
/// So many deliveries later.
const LATER: u64 = 50;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let (seconds, rate) = (numbers.next().unwrap_or(60), numbers.next().unwrap_or(200));
    let folder = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_patchwright"))
        .args(["serve", "--listen", "127.0.0.1:0", "--room", "2", "--state-dir"])
        .arg(folder.path())
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", folder.path())
        .env("GITHUB_TOKEN", "ghp_benchmark0123456789abcdefghijklmnop")
        .env("PATCHWRIGHT_WEBHOOK_SECRET", SECRET)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let line = lines.find_map(|line| Some(line.ok()?.split_once("http://")?.1.to_owned())).unwrap();
    let address = line.split(',').next().unwrap().to_owned();
    std::thread::spawn(move || lines.for_each(drop));

    let sent = send(&address, seconds * rate, rate);
    let unique = sent.unique.len() as f64;
    let last = Instant::now();
    let jobs = |state: &str| {
        metric(&address, &format!("patchwright_jobs{{kind=\"delivery\",state=\"{state}\"}}"))
    };
    while jobs("queued") + jobs("running") > 0.0 {
        std::thread::sleep(Duration::from_millis(200));
    }
    let done = jobs("done");
    let runs = metric(&address, "patchwright_delivery_runs_total{conclusion=\"ignored\"}");
    let mut took = sent.took;
    took.sort_by(f64::total_cmp);
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    println!(
        "{} deliveries at {rate} a second, {} of them repeats: p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms",
        took.len(),
        took.len() - sent.unique.len(),
        at(50),
        at(99),
        at(100),
    );
    println!(
        "not acknowledged {}, lost {}, done twice {}; the last job ended {:.1} s after the last answer",
        sent.refused,
        unique - done,
        runs - done,
        last.elapsed().as_secs_f64(),
    );
    server.kill().unwrap();
    server.wait().unwrap();
}

struct Sent {
    /// Milliseconds from when a delivery was due to its answer.
    took: Vec<f64>,
    /// Numbers of deliveries that were acknowledged.
    unique: BTreeSet<u64>,
    refused: usize,
}

/// Delivers at an even pace, on kept connections.
fn send(address: &str, count: u64, rate: u64) -> Sent {
    let sent = Mutex::new(Sent { took: Vec::new(), unique: BTreeSet::default(), refused: 0 });
    let next = AtomicU64::new(0);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut stream: Option<TcpStream> = None;
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    let repeats = at % (REPEATED + 1) == REPEATED && at > LATER;
                    let number = if repeats {
                        at - at % (REPEATED + 1) - LATER / (REPEATED + 1) * (REPEATED + 1)
                    } else {
                        at
                    };
                    let request = request(address, number);
                    let due = Duration::from_micros(at * 1_000_000 / rate);
                    std::thread::sleep(due.saturating_sub(started.elapsed()));
                    let status = exchange(&mut stream, address, &request);
                    let took = started.elapsed().saturating_sub(due).as_secs_f64() * 1e3;
                    let mut sent = sent.lock();
                    sent.took.push(took);
                    if status == Some(202) {
                        sent.unique.insert(number);
                    } else {
                        sent.refused += 1;
                    }
                }
            });
        }
    });
    sent.into_inner()
}

/// One signed delivery, as large as GitHub's are.
fn request(address: &str, number: u64) -> Vec<u8> {
    let body = json!({
        "action": "labeled",
        "issue": {
            "number": number + 1, "title": "add subtracts", "state": "open", "locked": false,
            "body": "It prints 0. ".repeat(800), "updated_at": "2026-01-01T00:00:00Z",
        },
        "label": {"name": "patchwright"},
        "repository": {"id": 1, "full_name": "acme/app"},
        "sender": {"login": "ann", "type": "User"},
    })
    .to_string();
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let signature: String = mac
        .finalize()
        .into_bytes()
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    format!(
        "POST /webhook HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nX-GitHub-Event: issues\r\nX-GitHub-Delivery: {number:08}-bench\r\n\
         X-Hub-Signature-256: sha256={signature}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Sends on a kept connection, or on a new one; the status of the answer.
fn exchange(kept: &mut Option<TcpStream>, address: &str, request: &[u8]) -> Option<u16> {
    for _ in 0..2 {
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => TcpStream::connect(address).ok()?,
        };
        if stream.write_all(request).is_ok()
            && let Some(answer) = answer(&mut stream)
        {
            *kept = Some(stream);
            return answer.split(' ').nth(1)?.parse().ok();
        }
    }
    None
}

/// One answer with a `Content-Length`.
fn answer(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
        })?;
        if body.len() >= length {
            return Some(text.into_owned());
        }
    }
}

fn metric(address: &str, sample: &str) -> f64 {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let page = answer(&mut stream).unwrap();
    let found = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    found.map_or(0.0, |value| value.trim().parse().unwrap())
}
