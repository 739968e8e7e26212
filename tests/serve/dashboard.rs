//! What the dashboard says about runs: live, ended, searched, reported; and that nothing in it is anybody's
//! markup.

use base64::Engine as _;
use patchwright_forge::Role;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Serving, guid, http, labeled, served};
use crate::support::browser::{self, Browser, Look};
use crate::support::github::GitHub;
use crate::support::model::call;
use crate::support::world::{TestWorld, fix, github};

const HOSTILE: &str = "</td><script>document.title='pwned'</script>\"><img src=x \
     onerror=\"document.title='pwned'\">'--></style><svg onload=document.title='pwned'> \u{202e}x";

pub(super) fn world(github: GitHub) -> TestWorld {
    served(TestWorld::new(github.user("ann", Role::Write).user("eve", Role::Read), fix()))
}

/// Statements behind the server's back, in the database of the world's state folder.
pub(super) fn sql(world: &TestWorld, statements: &[&str]) {
    let url = format!("sqlite:{}", world.path("state/fleet.db").display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
        for text in statements {
            sqlx::query(sqlx::AssertSqlSafe((*text).to_owned())).execute(&pool).await.unwrap();
        }
        pool.close().await;
    });
}

#[test]
fn what_a_run_came_to_is_charted_found_and_linked_to_its_report() {
    let world = world(github());
    let server = Serving::start(&world, &["--room", "1"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "eve"));
    server.until_idle();
    server.deliver(&guid(2), "issues", &labeled("acme/app", 7, "bug", "ann"));
    server.deliver(&guid(3), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    let page = server.get("/").body;
    for part in [
        "Nothing runs.",
        "Nothing waits.",
        "role=\"img\" aria-label=\"Success rate, at most 50 %",
        "Cost per day",
        "Mean duration of a run",
        "<a href=\"/runs?conclusion=refused\">refused</a>",
        "label `bug`",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let run = world.runs()[0].file_name().unwrap().to_str().unwrap().to_owned();
    let link = format!("/runs/{run}/report.html");
    for (query, is_found) in [
        ("", true),
        ("?repository=ACME/app&number=7&conclusion=done", true),
        ("?number=%237&repository=", true),
        (&format!("?text={}", &run[..12]), true),
        ("?text=PULL%2F", true),
        ("?repository=acme/other", false),
        ("?number=8", false),
        ("?conclusion=refused", false),
        ("?text=%25", false),
    ] {
        let page = server.get(&format!("/runs{query}"));
        assert_eq!(page.status, 200, "{query}");
        assert_eq!(page.body.contains(&link), is_found, "{query}: {}", page.body);
    }
    assert!(server.get("/runs?number=x").body.contains("has to be one"));
    let report = server.get(&link);
    assert_eq!(report.status, 200, "{report:?}");
    assert!(report.body.contains("acme/app#7") && report.body.contains("calc.sh"));
    let policy = report.header("content-security-policy").unwrap();
    assert!(policy.starts_with("sandbox; default-src 'none';"), "{policy}");
    assert!(!policy.contains("allow-") && !policy.contains("script-src"), "{policy}");
    assert_eq!(report.header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn what_runs_shows_its_phase_and_what_waits_its_age() {
    let world = world(github().issue("acme/app", 8, "another", "`add` again"));
    let mut turns = fix();
    turns.insert(0, call("shell_command", json!({"command": "sleep 8"})));
    world.model.replace(turns);
    let server = Serving::start(&world, &["--room", "1", "--drain", "0s"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    server.until("no call", || server.get("/").body.contains("running a tool"));
    server.deliver(&guid(2), "issues", &labeled("acme/app", 8, "patchwright", "ann"));
    let page = server.get("/").body;
    let (running, rest) = page.split_once("<h2>Queue</h2>").unwrap();
    for part in ["acme/app#7", "<code>shell_command</code>", "<td class=\"n\">1</td>", "$0.0"] {
        assert!(running.contains(part), "{part}: {running}");
    }
    let queue = rest.split_once("<h2>Last 30 days</h2>").unwrap().0;
    assert!(queue.contains("acme/app#8") && queue.contains("when there is room"), "{queue}");
    assert!(!queue.contains("acme/app#7") && !running.contains("acme/app#8"), "{page}");
    server.stop(15);
}

/// A row whose every text is hostile, beside a failure of a hostile class.
fn hostile(world: &TestWorld) {
    let text = HOSTILE.replace('\'', "''");
    let long = "very-long-name-without-a-break".repeat(6);
    sql(
        world,
        &[
            &format!(
                "INSERT INTO runs (at, run, about, repository, number, conclusion, text, cost_usd,
                    milliseconds)
                 VALUES (1, '{text}', '{text}', 'acme/{long}', 7, '{text}', '{text}', 1, 1)"
            ),
            &format!(
                "INSERT OR REPLACE INTO run_days (day, conclusion, runs, cost_usd, milliseconds)
                 SELECT CAST(unixepoch('now') / 86400 AS INTEGER), value, 3, 1.5, 90000
                 FROM (SELECT '{text}' AS value UNION SELECT 'done')"
            ),
            &format!(
                "INSERT INTO deliveries (guid, event, repository, number, body, received_at)
                 VALUES ('g1', 'issues', 'acme/{text}', 7, '', 1)"
            ),
            &format!(
                "INSERT INTO jobs (kind, key, subject, priority, max_attempts, reserve_usd, run_at,
                    state, attempt, epoch, lease_until, lease_ms, why, created_at, updated_at)
                 VALUES ('delivery', 'g1', 'g1', 0, 4, 0, 0, 'queued', 1, 0, 0, 0, '{text}', 1, 1)"
            ),
        ],
    );
}

#[test]
fn hostile_texts_stay_texts_and_pages_fit_a_phone() {
    let world = world(github());
    let server = Serving::start(&world, &["--no-worker"]);
    hostile(&world);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, HOSTILE, "ann"));
    let query: String = url::form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect();
    let browser = Browser::find();
    for path in [
        "/".to_owned(),
        "/runs".to_owned(),
        format!("/runs?text={query}"),
        format!("/runs?repository={query}&conclusion={query}"),
    ] {
        let page = server.get(&path);
        assert_eq!(page.status, 200, "{page:?}");
        for tag in ["<script", "<img", "onload=document", "\u{202e}"] {
            let count = page.body.matches(tag).count();
            let escaped = page.body.matches("&lt;svg onload=document").count();
            assert!(count == 0 || (tag == "onload=document" && count == escaped), "{path} {tag}");
        }
        assert_eq!(page.header("content-security-policy"), Some(policy_of(&page.body).as_str()));
        let Some(browser) = &browser else { continue };
        let title = if path == "/" { "Patchwright" } else { "Runs - Patchwright" };
        let seen = browser.document(&page.body, "");
        assert!(seen.contains(&format!("<title>{title}</title>")), "{path}: {seen}");
        for width in [320, 390, 1280] {
            assert_eq!(overflow(browser, &page.body, width), "fits", "{path} at {width}");
        }
    }
}

const LOOKS: [Look; 3] = [
    Look { width: 1280, height: 1200, is_dark: false },
    Look { width: 1280, height: 1200, is_dark: true },
    Look { width: 390, height: 1200, is_dark: true },
];

#[test]
fn everybody_can_use_the_pages_by_day_and_by_night() {
    let (Some(browser), Some(axe)) = (Browser::find(), browser::axe()) else { return };
    let world = world(github());
    let server = Serving::start(&world, &["--room", "1"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    hostile(&world);
    for path in ["/", "/runs", "/runs?number=x"] {
        let page = server.get(path).body;
        for look in LOOKS {
            let said = browser::judged(&browser, &axe, &page, look);
            assert_eq!(said.violations, [], "{path} {look:?}");
            for rule in ["color-contrast", "document-title", "html-has-lang"] {
                assert!(said.passes.iter().any(|it| it == rule), "{path}: {rule}");
            }
            if path != "/" {
                continue;
            }
            browser::keep("dashboard", look, &browser.framed(&page, look));
            let script = "addEventListener('load', () => done(getComputedStyle(document.body).backgroundColor));";
            let background = if look.is_dark { "rgb(13, 17, 23)" } else { "rgb(255, 255, 255)" };
            assert_eq!(browser.ask(&page, script, look), background, "{look:?}");
        }
    }
}

/// What the page's policy has to be, from the style that is in it.
fn policy_of(page: &str) -> String {
    let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let hash = base64::prelude::BASE64_STANDARD.encode(Sha256::digest(style.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'self'; \
         frame-ancestors 'none'"
    )
}

/// Whether the page is wider than a window of that width. A window of the browser cannot be as narrow as a
/// phone, a frame can.
fn overflow(browser: &Browser, page: &str, width: u32) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let around = format!(
        "<title>waiting</title><iframe id=f style=\"width:{width}px;height:800px;border:0\" \
         srcdoc=\"{page}\"></iframe><script>const f=document.getElementById('f');\
         f.onload=()=>{{const d=f.contentDocument.documentElement;\
         document.title=d.scrollWidth<={width}?'fits':'is '+d.scrollWidth}}</script>"
    );
    let seen = browser.document(&around, "");
    seen.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0.to_owned()
}

#[test]
fn ten_thousand_runs_make_pages_as_large_as_fifty() {
    let world = world(github());
    let server = Serving::start(&world, &["--no-worker"]);
    sql(
        &world,
        &[
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10500)
             INSERT INTO runs (at, run, about, repository, number, conclusion, text, cost_usd,
                milliseconds)
             SELECT i, 'run-' || i, 'issues.labeled', 'acme/app', i, 'done', 'text', 0.1, 9 FROM n",
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10500)
             INSERT INTO jobs (kind, key, subject, priority, max_attempts, reserve_usd, run_at, state,
                attempt, epoch, lease_until, lease_ms, created_at, updated_at)
             SELECT 'delivery', 'k' || i, 'none', 0, 4, 0, 0, 'queued', 0, 0, 0, 0, i, i FROM n",
        ],
    );
    let mut path = "/runs".to_owned();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let page = server.get(&path).body;
        assert_eq!(page.matches("<tr>").count(), 51, "a heading and fifty runs");
        assert!(page.len() < 40_000, "{} bytes", page.len());
        let codes = page.split("<code>run-").skip(1);
        seen.extend(codes.map(|rest| rest.split('<').next().unwrap().parse::<u32>().unwrap()));
        let link = page.split_once("rel=\"next\" href=\"").unwrap().1.split('"').next().unwrap();
        path = link.replace("&amp;", "&");
    }
    let expected: Vec<u32> = (10_301..=10_500).rev().collect();
    assert_eq!(seen, expected);
    let page = server.get("/").body;
    assert!(page.len() < 40_000, "{} bytes", page.len());
    assert!(page.matches("<tr>").count() < 70, "fifty of the queue");
}

#[test]
fn only_reports_of_runs_are_served() {
    let world = world(github());
    let server = Serving::start(&world, &["--no-worker"]);
    let runs = world.path("state/runs");
    for run in ["20261120-120000-0a1b2c3d", "empty", "linked", "folder"] {
        fs_err::create_dir_all(runs.join(run)).unwrap();
    }
    let secret = "the key of another file";
    fs_err::write(world.path("state/secret"), secret).unwrap();
    fs_err::write(world.path("state/report.html"), secret).unwrap();
    let report = format!("<script>1</script><p>{}</p>", super::SECRET);
    fs_err::write(runs.join("20261120-120000-0a1b2c3d/report.html"), report).unwrap();
    fs_err::os::unix::fs::symlink(world.path("state/secret"), runs.join("linked/report.html"))
        .unwrap();
    fs_err::os::unix::fs::symlink(world.path("state"), runs.join("outside")).unwrap();
    fs_err::create_dir(runs.join("folder/report.html")).unwrap();
    let good = server.get("/runs/20261120-120000-0a1b2c3d/report.html");
    assert_eq!(good.status, 200);
    assert!(!good.body.contains(super::SECRET), "our own secrets are taken out: {}", good.body);
    assert!(good.header("content-security-policy").unwrap().starts_with("sandbox; "));
    let long = format!("/runs/{}/report.html", "a".repeat(65));
    for path in [
        "/runs/empty/report.html",
        "/runs/linked/report.html",
        "/runs/outside/report.html",
        "/runs/folder/report.html",
        "/runs/none/report.html",
        "/runs/../report.html",
        "/runs/../secret",
        "/runs/..%2f/report.html",
        "/runs/%2e%2e/report.html",
        "/runs/..%2freport.html/report.html",
        "/runs/20261120-120000-0a1b2c3d%2f..%2f../report.html",
        "/runs/20261120-120000-0a1b2c3d%00/report.html",
        "/runs/20261120-120000-0a1b2c3d/journal.jsonl",
        "/runs/20261120-120000-0a1b2c3d/",
        "/runs/%ff/report.html",
        "/runs//report.html",
        "/runs/.../report.html",
        &long,
    ] {
        let answer = http::get(server.address, path, &[]);
        assert!(answer.status == 404 || answer.status == 400, "{path}: {answer:?}");
        assert!(!answer.body.contains(secret), "{path}");
    }
}
