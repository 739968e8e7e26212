//! The page of a campaign in a real browser, while the campaign goes on: it is brought up to date, and what
//! its reader did stays. With many thousands of events it is as complete as with few.

use serde_json::json;

use super::Serving;
use super::dashboard::{sql, world};
use crate::support::browser::{self, Browser, Look};
use crate::support::world::{TestWorld, github};

const ID: &str = "timeouts-0123456789ab";

/// A campaign of sixty repositories, of which some have failed.
fn seed(world: &TestWorld, mode: &str) {
    let long = "a reason that is so long that it has to be unfolded ".repeat(8);
    sql(
        world,
        &[
            &format!(
                "INSERT INTO campaigns (id, name, spec_hash, spec, state, wave, spent_usd, created_at,
                    updated_at)
                 VALUES ('{ID}', 'timeouts', '0', '{{\"name\": \"timeouts\", \"mode\": \"{mode}\",
                    \"waves\": [{{\"size\": 1}}, {{\"size\": \"all\"}}]}}',
                    'running', 1, 0, CAST(unixepoch() * 1000 AS INTEGER) - 600000, 0)"
            ),
            &format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
                 INSERT INTO targets (id, campaign, repository, base_branch, base_sha, wave, state,
                    class, reason, run, attempts, cost_usd, tokens, created_at, updated_at, started_at,
                    ended_at)
                 SELECT i, '{ID}', printf('acme/c%02d', i), 'main', 'a', CASE WHEN i > 4 THEN 1 ELSE 0 END,
                    CASE WHEN i % 10 = 0 THEN 'failed' WHEN i IN (2, 3, 4) THEN 'skipped' ELSE 'open' END,
                    CASE WHEN i % 20 = 0 THEN 'model' WHEN i % 10 = 0 THEN 'checks' END,
                    '{long}', '20261120-020000-' || printf('%08x', i), 1, (i * 7 % 60) / 100.0, 9, 0, 0,
                    CAST(unixepoch() * 1000 AS INTEGER) - 500000,
                    CAST(unixepoch() * 1000 AS INTEGER) - 400000 FROM n"
            ),
        ],
    );
}

/// A target gets a state, as a worker elsewhere would write it.
fn happens(world: &TestWorld, target: i64, state: &str) {
    sql(
        world,
        &[
            &format!(
                "UPDATE targets SET state = '{state}', class = CASE '{state}' WHEN 'failed' THEN 'forge' END,
                    reason = 'another ' || reason WHERE id = {target}"
            ),
            &format!(
                "INSERT INTO events (at, campaign, target, repository, kind, text)
                 SELECT CAST(unixepoch() * 1000 AS INTEGER), '{ID}', {target}, repository, '{state}', 'news'
                 FROM targets WHERE id = {target}"
            ),
        ],
    );
}

fn page_of(server: &Serving) -> String {
    format!("http://{}/campaigns/{ID}", server.address)
}

#[test]
fn a_live_page_keeps_filter_order_focus_place_and_text() {
    let Some(browser) = Browser::find() else { return };
    let world = world(github());
    let server = Serving::start(&world, &["--no-worker"]);
    seed(&world, "pr");
    assert_eq!(server.get(&format!("/campaigns/{ID}")).header("refresh"), None);
    let mut tab = browser.tab();
    tab.open(&page_of(&server));
    // Whatever loads the page again loses this.
    tab.value("window.first = true");
    tab.value("[...document.querySelectorAll('thead button')].find(it => it.textContent == 'Cost').click()");
    tab.value("document.querySelector('[name=text]').focus()");
    tab.type_text("acme/c");
    tab.value("document.querySelector('tr[data-id=\"31\"] details').open = true");
    tab.value("document.querySelector('tr[data-id=\"42\"]').scrollIntoView()");
    tab.value("document.querySelector('[name=text]').setSelectionRange(2, 4)");
    let state = "({hash: location.hash, text: document.querySelector('[name=text]').value,
        focus: document.activeElement.name,
        caret: [document.activeElement.selectionStart, document.activeElement.selectionEnd],
        open: document.querySelector('tr[data-id=\"31\"] details').open,
        sort: document.querySelector('[aria-sort]').dataset.key,
        order: [...document.querySelectorAll('tbody tr[data-id]')].map(it => it.dataset.id).join(),
        /* Parts of a pixel are nobody's place. */
        top: Math.round(document.querySelector('tr[data-id=\"42\"]').getBoundingClientRect().top / 8),
        first: window.first})";
    let before = tab.value(state);
    assert_eq!(before["hash"], "#text=acme%2Fc&sort=-cost");
    assert_eq!((&before["text"], &before["focus"]), (&json!("acme/c"), &json!("text")));
    let place = tab.value("scrollY").as_f64().unwrap();
    assert!(place > 200.0, "{place}");
    happens(&world, 31, "failed");
    tab.until("document.querySelector('tr[data-id=\"31\"]').dataset.state == 'failed'");
    assert_eq!(tab.value(state), before);
    let said = tab.value(
        "({title: document.title, failed: [...document.querySelectorAll('.cards div')]
            .find(it => it.textContent.startsWith('Failed')).textContent,
          option: [...document.querySelectorAll('option')].some(it => it.textContent == 'forge (1)'),
          command: document.body.textContent.includes('batch retry timeouts-0123456789ab --class forge'),
          event: document.querySelector('.events li').textContent})",
    );
    assert!(said["failed"].as_str().unwrap().starts_with("Failed7"), "{said}");
    assert!(said["event"].as_str().unwrap().contains("acme/c31 failed news"), "{said}");
    assert_eq!((&said["option"], &said["command"]), (&json!(true), &json!(true)), "{said}");

    // A link in a row that changes.
    tab.value("document.querySelector('tr[data-id=\"31\"] a').focus()");
    happens(&world, 31, "open");
    tab.until("document.querySelector('tr[data-id=\"31\"]').dataset.state == 'open'");
    assert_eq!(tab.value("document.activeElement.textContent"), "acme/c31");
}

#[test]
fn updates_can_be_paused_and_a_server_that_is_away_is_said() {
    let Some(browser) = Browser::find() else { return };
    let world = world(github());
    let server = Serving::start(&world, &["--no-worker"]);
    seed(&world, "pr");
    let mut tab = browser.tab();
    tab.open(&page_of(&server));
    tab.value("document.querySelector('#live button').click()");
    happens(&world, 31, "failed");
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(tab.value("document.querySelector('tr[data-id=\"31\"]').dataset.state"), "open");
    assert_eq!(
        tab.value("document.querySelector('#live [role=status]').textContent"),
        "Updates are paused."
    );
    tab.value("document.querySelector('#live button').click()");
    tab.until("document.querySelector('tr[data-id=\"31\"]').dataset.state == 'failed'");
    server.stop(15);
    tab.value("document.querySelector('#live button').click()");
    tab.value("document.querySelector('#live button').click()");
    tab.until("document.querySelector('#live').textContent.includes('does not answer')");
    assert_eq!(tab.value("document.querySelector('#live a').hidden"), false);
}

#[test]
fn without_a_script_there_is_a_link_and_the_policy_is_strict() {
    let world = world(github());
    let server = Serving::start(&world, &["--no-worker"]);
    seed(&world, "pr");
    let page = server.get(&format!("/campaigns/{ID}"));
    assert!(page.body.contains(&format!("<a href=\"/campaigns/{ID}\">Reload</a>")));
    let policy = page.header("content-security-policy").unwrap();
    assert!(!policy.contains("unsafe"), "{policy}");
    for part in [
        "default-src 'none'",
        "script-src 'sha256-",
        "connect-src 'self'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{part}: {policy}");
    }
    let (Some(browser), Some(axe)) = (Browser::find(), browser::axe()) else { return };
    for is_dark in [false, true] {
        let look = Look { width: 1280, height: 1200, is_dark };
        let said = browser::judged(&browser, &axe, &page.body, look);
        assert_eq!(said.violations, [], "{look:?}");
        browser::keep("live-campaign", look, &browser.framed(&page.body, look));
    }
}

#[test]
fn maintainers_see_what_failed_first_and_get_to_it() {
    let world = world(github());
    let server = Serving::start(&world, &["--no-worker"]);
    seed(&world, "pr");
    let run = world.path("state/runs/20261120-020000-0000000a");
    fs_err::create_dir_all(&run).unwrap();
    fs_err::write(run.join("report.html"), "<p>the report</p>").unwrap();
    let page = server.get(&format!("/campaigns/{ID}")).body;
    let states: Vec<&str> =
        page.split("<tr data-state=\"").skip(1).map(|row| row.split('"').next().unwrap()).collect();
    assert_eq!(states.len(), 60);
    assert!(states[..6].iter().all(|state| *state == "failed"), "{states:?}");
    assert!(!states[6..].contains(&"failed"), "{states:?}");
    for part in [
        "/acme/c10\" rel=\"noreferrer\"",
        "<a href=\"/runs/20261120-020000-0000000a/report.html\"",
        "<code>patchwright batch retry timeouts-0123456789ab --class model</code>",
        "<code>patchwright batch retry timeouts-0123456789ab --class checks</code>",
        // Three of the four in the first wave are not worked on.
        "<td class=\"number\">1 / 1</td>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(page.matches("/report.html\"").count(), 1, "only what is there");
    let page = server.get("/").body;
    for part in ["60 of 60 (100 %)", &format!("<a href=\"/campaigns/{ID}#state=failed\">6</a>")] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn ten_thousand_events_leave_the_page_complete_and_as_small() {
    let world = world(github());
    let server = Serving::start(&world, &["--no-worker"]);
    seed(&world, "report");
    sql(
        &world,
        &[
            &format!(
                "INSERT INTO events (at, campaign, target, repository, kind, text)
                 VALUES (CAST(unixepoch() * 1000 AS INTEGER) - 550000, '{ID}', 7, 'acme/c07', 'answer',
                    'the oldest answer'), (CAST(unixepoch() * 1000 AS INTEGER) - 540000, '{ID}', 7,
                    'acme/c07', 'failed', '')"
            ),
            &format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
                 INSERT INTO events (at, campaign, kind, text)
                 SELECT CAST(unixepoch() * 1000 AS INTEGER) - 500000 + i, '{ID}', 'wave', 'filler ' || i FROM n"
            ),
            &format!(
                "INSERT INTO events (at, campaign, target, repository, kind, text)
                 VALUES (CAST(unixepoch() * 1000 AS INTEGER) - 1000, '{ID}', 9, 'acme/c09', 'answer',
                    'the newest answer')"
            ),
        ],
    );
    happens(&world, 7, "failed");
    happens(&world, 7, "reported");
    let page = server.get(&format!("/campaigns/{ID}")).body;
    for part in ["the oldest answer", "the newest answer", "filler 9999", "news"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("filler 9900<"), "only the newest are listed");
    // All but the running ones are settled: the burn-down ends at nothing.
    assert!(page.contains(", 0 on "), "{page}");
    assert!(page.len() < 300_000, "{} bytes", page.len());
}
