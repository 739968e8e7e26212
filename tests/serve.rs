//! `patchwright serve`: webhooks in, work done, pages out; the real program on a real port.
#![allow(clippy::float_cmp, reason = "counters are whole numbers")]

mod app;
mod catch_up;
mod checks;
mod dashboard;
mod front;
pub(crate) mod http;
mod installed;
mod live;
mod lost;
mod outsiders;
mod pages;
mod sign_in;
mod sums;
mod webhooks;
mod work;

use parking_lot::Mutex;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::world::TestWorld;
use http::Answer;

pub(crate) const SECRET: &str = "webhook-secret-5b1f0a7c93de4d2a";

/// How long anything here may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_mins(2);

/// A server that is running, and what it has said on stderr.
pub(crate) struct Serving<'a> {
    world: &'a TestWorld,
    child: Option<Child>,
    pub(crate) address: SocketAddr,
    said: Arc<Mutex<String>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

/// A world whose environment has what a server needs.
pub(crate) fn served(world: TestWorld) -> TestWorld {
    world.set("PATCHWRIGHT_WEBHOOK_SECRET", SECRET).set("PATCHWRIGHT_REPOSITORIES", "all")
}

impl Serving<'_> {
    pub(crate) fn start<'a>(world: &'a TestWorld, args: &[&str]) -> Serving<'a> {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
        all.extend(args);
        let mut child = world.spawn(&all);
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let said = Arc::new(Mutex::new(String::new()));
        let address = loop {
            let mut line = String::new();
            if lines.read_line(&mut line).unwrap() == 0 {
                let code = child.wait().unwrap();
                panic!("the server ended with {code}: {}", said.lock());
            }
            said.lock().push_str(&line);
            if let Some((_, rest)) = line.split_once("listening on http://") {
                break rest.split(',').next().unwrap().trim().parse().unwrap();
            }
        };
        let heard = Arc::clone(&said);
        let reader = std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                heard.lock().push_str(&format!("{line}\n"));
            }
        });
        Serving { world, child: Some(child), address, said, reader: Some(reader) }
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().clone()
    }

    /// Delivers an event as GitHub does.
    pub(crate) fn deliver(&self, guid: &str, event: &str, payload: &Value) -> Answer {
        let body = payload.to_string();
        http::post(
            self.address,
            "/webhook",
            &headers(guid, event, body.as_bytes()),
            body.as_bytes(),
        )
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        http::get(self.address, path, &[])
    }

    /// A sample of `/metrics`; 0 when there is none of this name with these labels.
    pub(crate) fn metric(&self, sample: &str) -> f64 {
        let page = self.get("/metrics");
        assert_eq!(page.status, 200, "{}", page.body);
        let mut lines = page.body.lines();
        let found = lines.find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        found.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Waits until something is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, so: impl Fn() -> bool) {
        let started = Instant::now();
        while !so() {
            assert!(started.elapsed() < PATIENCE, "{what}: {}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until no delivery's job waits or runs.
    #[track_caller]
    pub(crate) fn until_idle(&self) {
        let busy = |state: &str| {
            self.metric(&format!("patchwright_jobs{{kind=\"delivery\",state=\"{state}\"}}"))
        };
        self.until("the work does not end", || busy("queued") + busy("running") == 0.0);
    }

    /// Ends it with a signal: its exit code (128 and the signal's number when that ended it), and all
    /// that it said.
    pub(crate) fn stop(mut self, signal: i32) -> (i32, String) {
        use std::os::unix::process::ExitStatusExt;
        let mut child = self.child.take().unwrap();
        kill(&child, signal);
        let status = child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        (code, self.said())
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.world.tidy(&self.said()));
        }
    }
}

fn kill(child: &Child, signal: i32) {
    let pid = rustix::process::Pid::from_child(child);
    let signal = rustix::process::Signal::from_named_raw(signal).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// `X-Hub-Signature-256` for a body.
pub(crate) fn signature(secret: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body);
    let digits: String = mac
        .finalize()
        .into_bytes()
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    format!("sha256={digits}")
}

/// What GitHub sends besides the body.
pub(crate) fn headers(guid: &str, event: &str, body: &[u8]) -> Vec<(String, String)> {
    [
        ("User-Agent", "GitHub-Hookshot/0123abc".to_owned()),
        ("Content-Type", "application/json".to_owned()),
        ("X-GitHub-Hook-ID", "292430182".to_owned()),
        ("X-GitHub-Event", event.to_owned()),
        ("X-GitHub-Delivery", guid.to_owned()),
        ("X-Hub-Signature", "sha1=0123456789abcdef0123456789abcdef01234567".to_owned()),
        ("X-Hub-Signature-256", signature(SECRET, body)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// A GUID as GitHub makes them, from a number.
pub(crate) fn guid(number: u32) -> String {
    format!("{number:08x}-5d1c-11f0-8e5b-{number:012x}")
}

/// Somebody puts a label on an issue, at the time that these tests have.
pub(crate) fn labeled(repository: &str, number: u64, label: &str, login: &str) -> Value {
    labeled_at(repository, number, label, login, "2026-11-20T11:59:00Z")
}

pub(crate) fn labeled_at(
    repository: &str,
    number: u64,
    label: &str,
    login: &str,
    at: &str,
) -> Value {
    let kind = if login.ends_with("[bot]") { "Bot" } else { "User" };
    json!({
        "action": "labeled",
        "issue": {
            "number": number, "title": "add subtracts", "body": "`add 2 2` prints 0.",
            "state": "open", "locked": false, "updated_at": at,
        },
        "label": {"name": label},
        "repository": {"full_name": repository},
        "sender": {"login": login, "type": kind},
    })
}
