//! What can be looked at, and by whom.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::{Serving, guid, http, labeled, served};
use crate::support::github::GitHub;
use crate::support::world::TestWorld;

pub(super) const TOKEN: &str = "dashboard-token-93c0d1-7f2ab64e80";

fn world() -> TestWorld {
    served(TestWorld::new(GitHub::new().repository("acme/app", &[("a", "b\n")]), []))
}

#[test]
fn without_a_token_pages_are_for_this_machine_alone() {
    let world = world();
    let server = Serving::start(&world, &["--no-worker"]);
    server.until("it is not said", || server.said().contains("for this machine only"));
    let port = server.address.port();
    for path in ["/", "/metrics"] {
        for host in
            [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")]
        {
            let answer = http::get(server.address, path, &[("Host", &host)]);
            assert_eq!(answer.status, 200, "{host}{path}");
        }
        for header in [
            ("X-Forwarded-For", "203.0.113.9"),
            ("Forwarded", "for=203.0.113.9"),
            ("Host", "patchwright.example"),
            ("Host", "127.0.0.1.evil.example"),
        ] {
            let answer = http::get(server.address, path, &[header]);
            assert_eq!(answer.status, 403, "{header:?}{path}");
            assert!(answer.body.contains("PATCHWRIGHT_DASHBOARD_TOKEN"), "{}", answer.body);
        }
    }
    // Whether it is well may be asked by anybody; there are no names in it.
    let answer = http::get(server.address, "/healthz", &[("X-Forwarded-For", "203.0.113.9")]);
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn with_a_token_pages_are_for_whoever_has_it() {
    let world = world().set("PATCHWRIGHT_DASHBOARD_TOKEN", TOKEN);
    let server = Serving::start(&world, &["--no-worker"]);
    let basic = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
    for (value, status) in [
        ("", 401),
        ("Bearer", 401),
        ("Bearer nonsense", 401),
        (&format!("Bearer {TOKEN}x"), 401),
        (&basic(&format!("{TOKEN}:")), 401),
        ("Basic ====", 401),
        (&format!("Bearer {TOKEN}"), 200),
        (&basic(&format!("anybody:{TOKEN}")), 200),
    ] {
        let headers = [("Authorization", value), ("X-Forwarded-For", "203.0.113.9")];
        let answer = http::get(server.address, "/", &headers);
        assert_eq!(answer.status, status, "{value}");
        assert_eq!(answer.header("www-authenticate").is_some(), status == 401, "{value}");
    }
    let (_, said) = server.stop(15);
    assert!(!said.contains(TOKEN), "{said}");
}

#[test]
fn guesses_at_the_token_are_few() {
    let world = world().set("PATCHWRIGHT_DASHBOARD_TOKEN", TOKEN);
    let server = Serving::start(&world, &["--no-worker"]);
    let ask = |token: &str| {
        let value = format!("Bearer {token}");
        http::get(server.address, "/", &[("Authorization", &value)]).status
    };
    assert_eq!(ask(TOKEN), 200);
    let guesses: Vec<u16> = (0..12).map(|guess| ask(&format!("guess-{guess}"))).collect();
    assert_eq!(guesses, [[401; 10].as_slice(), &[429; 2]].concat());
    assert_eq!(ask(TOKEN), 429);
    assert_eq!(server.get("/healthz").status, 200, "what takes no token goes on");
    server.stop(15);
}

#[test]
fn the_dashboard_shows_deliveries_and_nothing_of_theirs_is_markup() {
    let world = world();
    let server = Serving::start(&world, &["--no-worker"]);
    let label = "<script>alert(1)</script>";
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, label, "ann"));
    server.deliver(&guid(2), "issues", &labeled("acme/app", 8, "patchwright", "ann"));
    let page = server.get("/");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("refresh"), Some("15"));
    assert!(!page.body.contains("<script"), "{}", page.body);
    for part in ["&lt;script&gt;", "acme/app#7", "acme/app#8", &guid(1), &guid(2), "waiting"] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    assert_eq!(server.get("/campaigns/none").status, 404);
    assert_eq!(server.get("/campaigns/none/events").status, 404);
    let answer = http::post(server.address, "/", &[], b"");
    assert_eq!(answer.status, 405, "{answer:?}");
}

#[test]
fn health_says_what_is_well() {
    let world = world();
    let server = Serving::start(&world, &["--room", "1"]);
    let answer = server.get("/healthz");
    let health: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(
        (&health["status"], &health["worker"], &health["database"]),
        (&"ok".into(), &"ok".into(), &"ok".into())
    );
    let url = format!("http://{}", server.address);
    let said = world.run(&["health", "--url", &url]).expect(0);
    assert_eq!(said.stdout.trim(), "status ok, database ok, worker ok");
    // Something else listens there, and then nothing does.
    let other = world.run(&["health", "--url", &world.model.root()]).expect(1);
    assert!(other.stderr.contains("not as `patchwright serve` does"), "{}", other.stderr);
    world.model.take_violations();
    drop(server);
    let nobody = world.run(&["health", "--url", &url]).expect(1);
    assert!(nobody.stderr.contains("does not answer"), "{}", nobody.stderr);
    let server = Serving::start(&world, &["--no-worker"]);
    let health: Value = serde_json::from_str(&server.get("/healthz").body).unwrap();
    assert_eq!(health["worker"], "off");
}

/// The rules of the text format that a scraper insists on: a type before the samples of a family, each
/// family once, names and labels well formed, buckets that only grow and end in `+Inf`.
#[test]
fn metrics_are_what_prometheus_reads() {
    let world = world();
    let server = Serving::start(&world, &["--no-worker"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    let page = server.get("/metrics");
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(page.body.ends_with('\n'));
    let mut families: Vec<(String, String)> = Vec::new();
    let mut buckets = Vec::new();
    let is_name = |name: &str| {
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        !name.is_empty()
            && name.chars().all(fine)
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    for line in page.body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && ["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(!families.iter().any(|(other, _)| other == name), "{line}");
            assert!(kind != "counter" || name.ends_with("_total"), "{line}");
            families.push((name.to_owned(), kind.to_owned()));
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        value.parse::<f64>().unwrap();
        let name = series.split('{').next().unwrap();
        let (family, kind) = families.last().unwrap();
        let belongs = match kind.as_str() {
            "histogram" => {
                ["_bucket", "_sum", "_count"].iter().any(|end| name == format!("{family}{end}"))
            }
            _ => name == family,
        };
        assert!(is_name(name) && belongs, "{line}");
        if let Some(labels) = series.strip_prefix(name).and_then(|rest| rest.strip_prefix('{')) {
            assert!(labels.ends_with("\"}") && labels.contains("=\""), "{line}");
        }
        if name.ends_with("_bucket") {
            buckets.push((series.to_owned(), value.parse::<u64>().unwrap()));
        }
    }
    assert!(buckets.is_sorted_by_key(|(_, count)| *count), "{buckets:?}");
    assert!(buckets.last().unwrap().0.contains("le=\"+Inf\""), "{buckets:?}");
    let count = server.metric("patchwright_webhook_answer_seconds_count");
    assert_eq!(buckets.last().unwrap().1.to_string(), count.to_string());
}
