//! `POST /webhook`: who is believed, what is taken, what is bounded.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::http::{self, Answer};
use super::{PATIENCE, SECRET, Serving, guid, headers, labeled, served, signature};
use crate::support::github::GitHub;
use crate::support::world::TestWorld;

/// A server that only stores.
const STORES: &[&str] = &["--no-worker"];
const CANARY: &str = "body-canary-4417";

fn world() -> TestWorld {
    served(TestWorld::new(GitHub::new().repository("acme/app", &[("a", "b\n")]), []))
}

/// The headers with one exchanged, or left out when it is empty.
fn with(mut headers: Vec<(String, String)>, name: &str, value: &str) -> Vec<(String, String)> {
    headers.retain(|(other, _)| other != name);
    if !value.is_empty() {
        headers.push((name.to_owned(), value.to_owned()));
    }
    headers
}

fn queued(server: &Serving<'_>) -> f64 {
    server.metric("patchwright_jobs{kind=\"delivery\",state=\"queued\"}")
}

#[test]
fn only_what_is_signed_with_the_secret_is_taken() {
    let world = world().set("PATCHWRIGHT_WEBHOOK_SECRET_PREVIOUS", "the-secret-before-5a5a");
    let server = Serving::start(&world, &[STORES, &["-vv"]].concat());
    let mut payload = labeled("acme/app", 7, "patchwright", "ann");
    payload["issue"]["body"] = json!(format!("{CANARY} ünïcödé 🦀 \u{2028}"));
    let body = payload.to_string().into_bytes();
    let fine = signature(SECRET, &body);
    let refused = [
        ("", &body[..]),
        ("sha256=", &body),
        (&fine[..70], &body),
        (&format!("{fine}00"), &body),
        (&fine["sha256=".len()..], &body),
        (&fine.replace("sha256", "sha1"), &body),
        (&format!("sha256={}", "z".repeat(64)), &body),
        (&signature("another secret", &body), &body),
        (&signature("", &body), &body),
        (&fine, &body[..body.len() - 1]),
        (&fine, b""),
    ];
    for (number, (signature, body)) in refused.into_iter().enumerate() {
        let headers = headers(&guid(u32::try_from(number).unwrap()), "issues", body);
        let headers = with(headers, "X-Hub-Signature-256", signature);
        let answer = http::post(server.address, "/webhook", &headers, body);
        assert_eq!(answer.status, 401, "{signature}: {answer:?}");
    }
    // Two signatures, of which one is right, are none.
    let mut twice = headers(&guid(90), "issues", &body);
    twice.push(("X-Hub-Signature-256".to_owned(), signature("another secret", &body)));
    assert_eq!(http::post(server.address, "/webhook", &twice, &body).status, 401);
    assert_eq!(queued(&server), 0.0);
    for (number, secret) in [(91, SECRET), (92, "the-secret-before-5a5a")] {
        let headers = headers(&guid(number), "issues", &body);
        let headers = with(headers, "X-Hub-Signature-256", &signature(secret, &body));
        let answer = http::post(server.address, "/webhook", &headers, &body);
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    assert_eq!(queued(&server), 2.0);
    let (code, said) = server.stop(15);
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains(CANARY) && !said.contains(SECRET), "{said}");
}

#[test]
fn a_delivery_is_stored_once_however_often_it_comes() {
    let world = world();
    let server = Serving::start(&world, STORES);
    let payload = labeled("acme/app", 7, "patchwright", "ann");
    let next = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < 100 {
                    let answer = server.deliver(&guid(7), "issues", &payload);
                    assert_eq!(answer.status, 202, "{answer:?}");
                }
            });
        }
    });
    assert_eq!(queued(&server), 1.0);
    let answers = |outcome: &str| {
        let labels = format!("{{outcome=\"{outcome}\",status=\"202\"}}");
        server.metric(&format!("patchwright_webhook_answers_total{labels}"))
    };
    assert_eq!((answers("accepted"), answers("known")), (1.0, 99.0));
    // Also by the next process.
    server.stop(15);
    let server = Serving::start(&world, STORES);
    let answer = server.deliver(&guid(7), "issues", &payload);
    assert!(answer.status == 202 && answer.body.contains("came before"), "{answer:?}");
    assert_eq!(queued(&server), 1.0);
}

#[test]
fn what_sets_nothing_off_is_answered_and_not_stored() {
    let world = world();
    let server = Serving::start(&world, &["--no-worker", "--repository", "acme/*"]);
    let body = |answer: Answer| (answer.status, answer.body);
    let ping = json!({"zen": "Speak like a human.", "hook_id": 1, "hook": {"type": "Repository"}});
    let (status, _) = body(server.deliver(&guid(1), "ping", &ping));
    assert_eq!(status, 200);
    let mut opened = labeled("acme/app", 7, "patchwright", "ann");
    opened["action"] = json!("opened");
    // Of somebody's own workflow, to which the number means something else.
    let dispatch = |place: &str| {
        let repository = json!({"full_name": "acme/app"});
        json!({place: {"issue": "7"}, "repository": repository, "sender": {"login": "ann"}})
    };
    for (number, event, payload, part) in [
        (2, "star", json!({"action": "created"}), "`star` sets nothing off"),
        (3, "issues", labeled("acme/app", 7, "bug", "ann"), "not the trigger label"),
        (4, "issues", labeled("evil/app", 7, "patchwright", "ann"), "not among the repositories"),
        (5, "issues", opened, "sets nothing off"),
        (6, "issues", json!({"action": "labeled"}), "names no repository"),
        (9, "workflow_dispatch", dispatch("inputs"), "`workflow_dispatch` sets nothing off"),
        (10, "repository_dispatch", dispatch("client_payload"), "sets nothing off"),
    ] {
        let (status, text) = body(server.deliver(&guid(number), event, &payload));
        assert!(status == 202 && text.starts_with("ignored") && text.contains(part), "{text}");
    }
    let (status, _) = body(server.deliver(&guid(7), "issues", &json!("no object")));
    assert_eq!(status, 400);
    assert_eq!(queued(&server), 0.0);
    assert_eq!(
        server.deliver(&guid(8), "issues", &labeled("ACME/App", 7, "patchwright", "ann")).status,
        202
    );
    assert_eq!(queued(&server), 1.0);
}

#[test]
fn both_content_types_of_github_are_read_and_no_other() {
    let world = world();
    let server = Serving::start(&world, STORES);
    let payload = labeled("acme/app", 7, "patchwright", "ann").to_string();
    let encoded: String = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("payload", &payload)
        .finish();
    let form = "application/x-www-form-urlencoded";
    for (number, kind, body, status) in [
        (1, form, encoded.as_str(), 202),
        (2, "application/json; charset=utf-8", &payload, 202),
        (3, form, "nothing=1", 400),
        (4, "text/plain", &payload, 415),
        (5, "", &payload, 415),
        (6, "application/json", "{", 400),
    ] {
        let headers = headers(&guid(number), "issues", body.as_bytes());
        let headers = with(headers, "Content-Type", kind);
        let answer = http::post(server.address, "/webhook", &headers, body.as_bytes());
        assert_eq!(answer.status, status, "{kind}: {answer:?}");
    }
    assert_eq!(queued(&server), 2.0);
    for missing in ["X-GitHub-Delivery", "X-GitHub-Event"] {
        let headers = with(headers(&guid(9), "issues", payload.as_bytes()), missing, "");
        let answer = http::post(server.address, "/webhook", &headers, payload.as_bytes());
        assert_eq!(answer.status, 400, "{missing}: {answer:?}");
    }
    assert_eq!(server.get("/webhook").status, 405);
    assert_eq!(server.get("/other").status, 404);
}

#[test]
fn large_bodies_are_refused_before_they_are_held() {
    let world = world();
    let server = Serving::start(&world, &["--no-worker", "--request-timeout", "60s"]);
    let body = vec![b' '; 30 << 20];
    let answer = http::post(server.address, "/webhook", &headers(&guid(1), "issues", b""), &body);
    assert_eq!(answer.status, 413, "{answer:?}");
    // Without saying so before, signed with the secret or not.
    let mut stream = http::connect(server.address);
    let mut head = "POST /webhook HTTP/1.1\r\nHost: here\r\nConnection: close\r\n".to_owned();
    head.push_str("Transfer-Encoding: chunked\r\n");
    for (name, value) in headers(&guid(2), "issues", &body) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    for piece in body.chunks(1 << 20) {
        stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).unwrap();
        stream.write_all(piece).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(http::read(&mut stream).status, 413);
    // The largest that GitHub sends is taken.
    let mut payload = labeled("acme/app", 7, "patchwright", "ann");
    payload["issue"]["body"] = json!("x".repeat(24 << 20));
    assert_eq!(server.deliver(&guid(3), "issues", &payload).status, 202);
    let memory = peak_memory(&server);
    assert!(memory < 400 << 20, "{} MB", memory >> 20);
}

/// The most memory that the server has ever held.
fn peak_memory(server: &Serving<'_>) -> u64 {
    let pid = server.child.as_ref().unwrap().id();
    let status = fs_err::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn slow_and_many_connections_end_and_keep_nobody_out() {
    let world = world();
    let server = Serving::start(&world, &["--no-worker", "--request-timeout", "10s"]);
    let mut heads: Vec<_> = (0..150).map(|_| http::connect(server.address)).collect();
    for stream in &mut heads {
        stream.write_all(b"POST /webhook HTTP/1.1\r\nHost: here\r\nX-Slow: ").unwrap();
    }
    let mut bodies: Vec<_> = (0..50).map(|_| http::connect(server.address)).collect();
    for (number, stream) in bodies.iter_mut().enumerate() {
        let mut head =
            "POST /webhook HTTP/1.1\r\nHost: here\r\nContent-Length: 1000\r\n".to_owned();
        for (name, value) in headers(&guid(u32::try_from(number).unwrap()), "issues", b"") {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{{").as_bytes()).unwrap();
    }
    let payload = labeled("acme/app", 7, "patchwright", "ann");
    assert_eq!(server.deliver(&guid(900), "issues", &payload).status, 202);
    // One byte now and then is no progress.
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(8) {
        for stream in &mut heads {
            drop(stream.write_all(b"x"));
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    for stream in &mut bodies {
        assert_eq!(http::read(stream).status, 408);
    }
    for stream in &mut heads {
        let mut rest = Vec::new();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The connection ends, with or without a word.
        let _ = std::io::Read::read_to_end(stream, &mut rest);
    }
    assert_eq!(server.deliver(&guid(901), "issues", &payload).status, 202);
    assert_eq!(queued(&server), 2.0);
    let mut stream = http::connect(server.address);
    let head =
        format!("GET /healthz HTTP/1.1\r\nHost: here\r\nX-Long: {}\r\n\r\n", "x".repeat(300 << 10));
    let mut answer = Vec::new();
    // It may be cut off before all is sent.
    let _ = stream.write_all(head.as_bytes());
    let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[test]
fn a_burst_is_stored_whole_and_nothing_twice() {
    const ALL: u32 = 400;
    const UNIQUE: u32 = 300;
    let world = world();
    let server = Serving::start(&world, &["--room", "2"]);
    let next = AtomicU32::new(0);
    let started = Instant::now();
    // Old enough to be looked at and left, so that the work is the store's alone.
    let at = "2026-11-01T00:00:00Z";
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= ALL {
                        return;
                    }
                    let due = Duration::from_millis(u64::from(number) * 5);
                    std::thread::sleep(due.saturating_sub(started.elapsed()));
                    let payload = super::labeled_at(
                        "acme/app",
                        u64::from(number % UNIQUE) + 1,
                        "patchwright",
                        "ann",
                        at,
                    );
                    let answer = server.deliver(&guid(number % UNIQUE), "issues", &payload);
                    assert_eq!(answer.status, 202, "{answer:?}");
                }
            });
        }
    });
    server.until_idle();
    let done = server.metric("patchwright_jobs{kind=\"delivery\",state=\"done\"}");
    let runs = server.metric("patchwright_delivery_runs_total{conclusion=\"ignored\"}");
    assert_eq!((done, runs), (f64::from(UNIQUE), f64::from(UNIQUE)));
    assert_eq!(server.metric("patchwright_webhook_answer_seconds_count"), f64::from(ALL));
}

#[test]
fn what_is_wrong_at_start_is_said_with_what_to_do() {
    let keep = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = keep.local_addr().unwrap().to_string();
    let args: [(&[&str], &str, i32); 10] = [
        (&["--listen", &taken], "another program listens there", 2),
        (&["--listen", "nonsense"], "`--listen` takes an address", 2),
        (&["--listen", "192.0.2.1:80"], "no such address", 2),
        (&["--repository", "a["], "takes patterns of `OWNER/REPO`", 2),
        (&["--repository", "https://github.com/acme/app"], "it can match no repository", 2),
        (&["--repository", "github.com/acme/app"], "it can match no repository", 2),
        (&["--repository", "acme"], "it can match no repository", 2),
        (&["--repository", "acme/"], "write it like `acme/*`", 2),
        (&["--hook", "acme/app"], "write it as `OWNER/REPO/ID`", 2),
        (&["--lease", "soon"], "is not a duration", 2),
    ];
    for (args, part, code) in args {
        let world = world();
        let output = world.run(&[&["serve"], args].concat());
        assert!(output.code == code && output.stderr.contains(part), "{}", output.text());
    }
    drop(keep);
    let world = world().unset("PATCHWRIGHT_WEBHOOK_SECRET");
    let output = world.run(&["serve", "--listen", "127.0.0.1:0"]).expect(2);
    for part in ["`PATCHWRIGHT_WEBHOOK_SECRET` is not set", "hint: choose a long random secret"] {
        assert!(output.stderr.contains(part), "{}", output.text());
    }
    for (name, secret) in [
        ("PATCHWRIGHT_WEBHOOK_SECRET", "fifteen-letters"),
        ("PATCHWRIGHT_WEBHOOK_SECRET_PREVIOUS", "hunter2"),
    ] {
        let world = self::world().set(name, secret);
        let output = world.run(&["serve", "--listen", "127.0.0.1:0"]).expect(2);
        let part = format!("`{name}` is shorter than 16 characters");
        assert!(
            output.stderr.contains(&part) && !output.stderr.contains(secret),
            "{}",
            output.text()
        );
    }
    let priced = self::world();
    let file = priced.path("priced.yml");
    fs_err::write(&file, "models: {chat/demo: {price: [2, 10]}}\n").unwrap();
    let priced = priced.set("PATCHWRIGHT_CONFIG", file.display().to_string());
    let output = priced.run(&["serve", "--listen", "127.0.0.1:0"]).expect(2);
    let part = "`models.chat/demo.price` must be [input, output, cache read]";
    assert!(output.stderr.contains(part), "{}", output.text());
    let nobodys = self::world().unset("PATCHWRIGHT_REPOSITORIES");
    let output = nobodys.run(&["serve", "--listen", "127.0.0.1:0"]).expect(2);
    for part in ["`--repository` is missing", "hint: name them", "`--repository all`"] {
        assert!(output.stderr.contains(part), "{}", output.text());
    }
    let output = nobodys.run(&["serve", "--repository", "all", "--retention", "1h"]).expect(2);
    assert!(output.stderr.contains("`--retention` is too short"), "{}", output.text());
    let world = served(world).unset("GITHUB_TOKEN");
    let output = world.run(&["serve", "--listen", "127.0.0.1:0"]).expect(60);
    assert!(output.stderr.contains("PATCHWRIGHT_APP_ID"), "{}", output.text());
    fs_err::create_dir_all(world.path("state")).unwrap();
    fs_err::write(
        world.path("state/fleet.db"),
        "this is no database, but long enough to be looked at",
    )
    .unwrap();
    let world = world.set("GITHUB_TOKEN", "ghp_test0123456789abcdefghijklmnopqrst");
    let output = world.run(&["serve", "--listen", "127.0.0.1:0"]).expect(1);
    assert!(output.stderr.contains("database"), "{}", output.text());
}

/// It could never be of use, so nothing is acknowledged with it.
#[test]
fn a_token_that_cannot_be_sent_is_refused_at_start() {
    let world = world().set("GITHUB_TOKEN", "ghp_test0123456789abcdefghijkl\nAAAA");
    let output = world.run(&["serve", "--listen", "127.0.0.1:0"]).expect(60);
    assert!(output.stderr.contains("it has a line break"), "{}", output.text());
}

/// What is stored in a file that nobody finds again is lost, and GitHub never delivers again what it was told is taken.
#[test]
fn a_delivery_is_not_acknowledged_whose_database_is_gone() {
    let world = world();
    let server = Serving::start(&world, STORES);
    let payload = labeled("acme/app", 7, "patchwright", "ann");
    assert_eq!(server.deliver(&guid(1), "issues", &payload).status, 202);
    let (file, aside) = (world.path("state/fleet.db"), world.path("state/aside.db"));
    fs_err::rename(&file, &aside).unwrap();
    assert_eq!(server.deliver(&guid(2), "issues", &payload).status, 503);
    server.until("healthz is well", || {
        server.get("/healthz").body.contains(r#""database":"failing""#)
    });
    // What it says is read by another thread, in its own time.
    server.until("it is said", || server.said().contains("was removed or moved while it was open"));
    fs_err::write(&file, "").unwrap();
    assert_eq!(server.deliver(&guid(2), "issues", &payload).status, 503);
    fs_err::rename(&aside, &file).unwrap();
    assert_eq!(server.deliver(&guid(2), "issues", &payload).status, 202);
}
