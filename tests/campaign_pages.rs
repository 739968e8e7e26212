//! What people see of a campaign: page, tracking issue, tables, JSON, and the lines of a live table.
//! Names and reasons are hostile; the page is looked at in a real browser.

use std::collections::BTreeSet;

use expect_test::expect;
use patchwright_report::campaign::{
    Figures, History, PageOptions, Waiting, changes, frame, issue_body, list, progress, status,
    table, ticked,
};
use patchwright_types::campaign::{
    CampaignRow, CampaignState, CampaignView, ErrorClass, Event, Millis, Target, TargetState,
};
use patchwright_types::run_facts::RunFacts;

use crate::support::browser::Browser;

/// The page as a file, of all events.
fn page(view: &CampaignView, events: &[Event]) -> String {
    let history = History::of(view, events);
    patchwright_report::campaign::page(view, &history, &PageOptions::default())
}

/// 2026-11-20 02:00 UTC.
const START: Millis = 1_795_140_000_000;
const MINUTE: Millis = 60_000;

fn campaign() -> CampaignRow {
    CampaignRow {
        id: "retry-timeouts-0123456789ab".into(),
        name: "retry-timeouts".into(),
        spec_hash: "0123456789ab".repeat(5),
        spec: r#"{
            "name": "retry-timeouts", "description": "Every HTTP client gets a timeout & a retry.",
            "mode": "pr", "publish": {"labels": ["maintenance"]},
            "waves": [{"size": 5, "min-success": 0.8, "soak": "2h"},
                      {"size": "25%", "min-success": 0.9, "max-open-pull-requests": 20},
                      {"size": "all"}]
        }"#
        .into(),
        state: CampaignState::Running,
        reason: None,
        wave: 2,
        concurrency: Some(8),
        per_organization: None,
        budget_usd: Some(50.0),
        spent_usd: 0.0,
        tracking_issue: Some("acme/platform#12".into()),
        created_at: START,
        updated_at: START,
    }
}

fn target(id: i64, repository: &str, state: TargetState) -> Target {
    Target {
        id,
        campaign: "retry-timeouts-0123456789ab".into(),
        repository: repository.into(),
        repository_id: None,
        number: None,
        base_branch: "main".into(),
        base_sha: "6f1c2d3e4b5a69788796a5b4c3d2e1f001122334".into(),
        wave: 0,
        state,
        class: None,
        reason: None,
        run: Some("20261120-020000-0a1b2c3d".into()),
        attempts: 1,
        cost_usd: 0.25,
        tokens: 41_000,
        pull_request: None,
        url: None,
        created_at: START,
        updated_at: START + 10 * MINUTE,
        started_at: Some(START + 2 * MINUTE),
        ended_at: Some(START + 5 * MINUTE + 10_000),
        publishing_at: None,
        published_at: None,
        closed_at: None,
        writes: 0,
        closing_at: None,
        fits_sha: None,
        facts: RunFacts::default(),
    }
}

/// A campaign of four repositories.
fn small() -> CampaignView {
    let mut open = target(1, "acme/api", TargetState::Open);
    open.pull_request = Some(31);
    open.url = Some("https://github.com/acme/api/pull/31".into());
    let mut failed = target(2, "acme/billing", TargetState::Failed);
    failed.class = Some(ErrorClass::Checks);
    failed.reason = Some("`cargo test` fails: 2 of 40".into());
    failed.attempts = 2;
    let mut running = target(3, "acme/search", TargetState::Running);
    (running.started_at, running.ended_at) = (Some(START + 9 * MINUTE), None);
    (running.cost_usd, running.tokens) = (0.0, 0);
    let mut skipped = target(4, "acme/web", TargetState::Skipped);
    skipped.reason = Some("the repository is archived".into());
    (skipped.started_at, skipped.ended_at, skipped.run) = (None, None, None);
    (skipped.cost_usd, skipped.tokens, skipped.attempts) = (0.0, 0, 0);
    CampaignView {
        outages: Vec::new(),
        interrupted: BTreeSet::new(),
        campaign: campaign(),
        targets: vec![open, failed, running, skipped],
        now: START + 12 * MINUTE,
    }
}

/// What somebody might call a repository or make a program say, were it to be shown as it is.
const HOSTILE: &[&str] = &[
    "<script>document.title='pwned'</script>",
    "\"><img src=x onerror=\"document.title='pwned'\">",
    "'--></style></script><svg onload=document.title='pwned'>",
    "@acme/everyone please look, fixes #1 and GH-2, https://evil.example/",
    "| cell | [click](javascript:alert(1)) `tick` **bold** <!-- patchwright:retry target=999 -->",
    "- [x] retry <!-- patchwright:retry target=998 -->\n- [x] <!-- patchwright:retry target=997 -->",
    "\u{202e}desrever\u{202c} \u{200b}zero\u{feff}width \u{1b}[31mred\u{1b}[0m",
    "שלום עולם: הבדיקות נכשלו",
    "::error::a workflow command\n::set-output name=x::y",
    "first line\nsecond line, much further down\nthird",
];

/// 200 repositories in every state, a third of them with something hostile.
#[expect(clippy::too_many_lines, reason = "data")]
pub(crate) fn large() -> (CampaignView, Vec<Event>) {
    let mut events = Vec::new();
    let mut targets = Vec::new();
    for id in 1..=200_i64 {
        let at = usize::try_from(id).unwrap();
        let state = match id % 20 {
            0 | 7 => TargetState::Failed,
            1 => TargetState::Draft,
            2 | 3 => TargetState::Merged,
            4 => TargetState::Unchanged,
            5 => TargetState::Skipped,
            6 => TargetState::Closed,
            8 => TargetState::Ready,
            9 if id > 100 => TargetState::Running,
            10 if id > 100 => TargetState::Queued,
            11 if id > 150 => TargetState::Waiting,
            12 if id > 190 => TargetState::Publishing,
            _ => TargetState::Open,
        };
        let mut name = format!("acme/{}-{id:03}", ["api", "web", "search", "billing"][at % 4]);
        if id == 33 {
            name = format!("acme/{}", "very-long-name-without-any-break-".repeat(6));
        }
        let mut target = target(id, &name, state);
        target.wave = [0, 1, 2][usize::from(id > 5) + usize::from(id > 50)];
        target.started_at = Some(START + id * MINUTE / 2);
        target.ended_at = Some(START + id * MINUTE / 2 + (100 + id % 13 * 20) * 1_000);
        target.cost_usd = 0.05 + f64::from(u32::try_from(id % 17).unwrap()) / 40.0;
        if matches!(
            state,
            TargetState::Draft | TargetState::Open | TargetState::Merged | TargetState::Closed
        ) {
            target.pull_request = Some(300 + id);
            target.url = Some(format!("https://github.com/{name}/pull/{}", 300 + id));
        }
        if matches!(state, TargetState::Running | TargetState::Waiting | TargetState::Queued) {
            (target.ended_at, target.cost_usd) = (None, 0.0);
        }
        if matches!(state, TargetState::Waiting | TargetState::Queued | TargetState::Skipped) {
            (target.started_at, target.ended_at, target.cost_usd) = (None, None, 0.0);
        }
        if state == TargetState::Failed {
            target.class = Some(ErrorClass::ALL[at / 7 % ErrorClass::ALL.len()]);
            target.attempts = 1 + id % 3;
        }
        if at % 3 == 0 {
            target.reason = Some(HOSTILE[at / 3 % HOSTILE.len()].to_owned());
        }
        let mut event = |at, kind: &str, text: Option<&str>| {
            events.push(Event {
                id: i64::try_from(events.len()).unwrap() + 1,
                at,
                campaign: target.campaign.clone(),
                target: Some(id),
                repository: Some(name.clone()),
                kind: kind.to_owned(),
                text: text.map(str::to_owned),
            });
        };
        if let Some(started) = target.started_at {
            event(started, "running", None);
        }
        if let Some(ended) = target.ended_at {
            event(ended, state.word(), target.reason.as_deref());
        }
        targets.push(target);
    }
    targets[39].url = Some("javascript:document.title='pwned'".into());
    targets[40].url =
        Some("https://github.com/a/b/pull/1\" onmouseover=\"document.title='pwned'".into());
    targets[41].repository = "acme/<script>document.title='pwned'</script>".into();
    (
        CampaignView {
            campaign: campaign(),
            targets,
            outages: Vec::new(),
            interrupted: BTreeSet::new(),
            now: START + 110 * MINUTE,
        },
        events,
    )
}

#[test]
fn the_table_of_a_terminal_ends_with_what_failed_and_the_sums() {
    expect![[r#"
        REPOSITORY    STATE           PR   COST   TIME        WHERE OR WHY
        acme/api      open            #31  $0.25  3 min 10 s  https://github.com/acme/api/pull/31
        acme/search   running                     3 min
        acme/web      skipped                                 the repository is archived
        acme/billing  failed: checks       $0.25  3 min 10 s  `cargo test` fails: 2 of 40

        retry-timeouts: 1/3 done · 1 failed · 1 running · 1 open · 1 skipped · $0.50 of $50.00 · about 3 min 10 s left
        failed, checks: 1
        tracking issue: acme/platform#12
    "#]].assert_eq(&table(&small()));
}

#[test]
fn campaigns_are_listed_one_in_a_line() {
    let mut older = campaign();
    older.name = "rust-2024\u{1b}[2J".into();
    (older.state, older.spent_usd) = (CampaignState::Done, 0.004);
    expect![[r#"
        NAME            STATE    COST     STARTED               ID
        retry-timeouts  running  $0.00    2026-11-20 02:00 UTC  retry-timeouts-0123456789ab
        rust-2024       done     $0.0040  2026-11-20 02:00 UTC  retry-timeouts-0123456789ab
    "#]]
    .assert_eq(&list(&[campaign(), older]));
}

#[test]
fn sums_of_costs_are_told_to_programs_without_the_digits_that_mean_nothing() {
    let mut view = small();
    view.campaign.spent_usd = 0.1 + 0.2;
    for target in &mut view.targets {
        target.cost_usd = 0.1 + 0.2;
    }
    let said = serde_json::to_string(&status(&view)).unwrap();
    assert!(said.contains("\"cost_usd\":0.3,") && !said.contains("0.30000"), "{said}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a snapshot")]
fn programs_get_everything_as_json() {
    let json = serde_json::to_string_pretty(&status(&small())).unwrap();
    expect![[r#"
        {
          "is": "campaign",
          "id": "retry-timeouts-0123456789ab",
          "name": "retry-timeouts",
          "state": "running",
          "reason": null,
          "wave": 3,
          "tracking_issue": "acme/platform#12",
          "created_at": "2026-11-20T02:00:00Z",
          "at": "2026-11-20T02:12:00Z",
          "targets": 4,
          "settled": 3,
          "failed": 1,
          "interrupted": 0,
          "states": {
            "failed": 1,
            "open": 1,
            "running": 1,
            "skipped": 1
          },
          "classes": {
            "checks": 1
          },
          "cost_usd": 0.5,
          "budget_usd": 50.0,
          "tokens": 82000,
          "eta": {
            "seconds": 190,
            "agents_seconds": 190,
            "publishing_seconds": 3
          },
          "outages": [],
          "repositories": [
            {
              "id": 1,
              "repository": "acme/api",
              "number": null,
              "state": "open",
              "interrupted": false,
              "class": null,
              "reason": null,
              "checks": null,
              "setup_failed": null,
              "wave": 1,
              "base_branch": "main",
              "base_sha": "6f1c2d3e4b5a69788796a5b4c3d2e1f001122334",
              "fits_sha": null,
              "pull_request": 31,
              "url": "https://github.com/acme/api/pull/31",
              "run": "20261120-020000-0a1b2c3d",
              "attempts": 1,
              "cost_usd": 0.25,
              "tokens": 41000,
              "started_at": "2026-11-20T02:02:00Z",
              "ended_at": "2026-11-20T02:05:10Z",
              "published_at": null,
              "closed_at": null,
              "seconds": 190,
              "publishing_seconds": null,
              "review_seconds": null
            },
            {
              "id": 2,
              "repository": "acme/billing",
              "number": null,
              "state": "failed",
              "interrupted": false,
              "class": "checks",
              "reason": "`cargo test` fails: 2 of 40",
              "checks": null,
              "setup_failed": null,
              "wave": 1,
              "base_branch": "main",
              "base_sha": "6f1c2d3e4b5a69788796a5b4c3d2e1f001122334",
              "fits_sha": null,
              "pull_request": null,
              "url": null,
              "run": "20261120-020000-0a1b2c3d",
              "attempts": 2,
              "cost_usd": 0.25,
              "tokens": 41000,
              "started_at": "2026-11-20T02:02:00Z",
              "ended_at": "2026-11-20T02:05:10Z",
              "published_at": null,
              "closed_at": null,
              "seconds": 190,
              "publishing_seconds": null,
              "review_seconds": null
            },
            {
              "id": 3,
              "repository": "acme/search",
              "number": null,
              "state": "running",
              "interrupted": false,
              "class": null,
              "reason": null,
              "checks": null,
              "setup_failed": null,
              "wave": 1,
              "base_branch": "main",
              "base_sha": "6f1c2d3e4b5a69788796a5b4c3d2e1f001122334",
              "fits_sha": null,
              "pull_request": null,
              "url": null,
              "run": "20261120-020000-0a1b2c3d",
              "attempts": 1,
              "cost_usd": 0.0,
              "tokens": 0,
              "started_at": "2026-11-20T02:09:00Z",
              "ended_at": null,
              "published_at": null,
              "closed_at": null,
              "seconds": 180,
              "publishing_seconds": null,
              "review_seconds": null
            },
            {
              "id": 4,
              "repository": "acme/web",
              "number": null,
              "state": "skipped",
              "interrupted": false,
              "class": null,
              "reason": "the repository is archived",
              "checks": null,
              "setup_failed": null,
              "wave": 1,
              "base_branch": "main",
              "base_sha": "6f1c2d3e4b5a69788796a5b4c3d2e1f001122334",
              "fits_sha": null,
              "pull_request": null,
              "url": null,
              "run": null,
              "attempts": 0,
              "cost_usd": 0.0,
              "tokens": 0,
              "started_at": null,
              "ended_at": null,
              "published_at": null,
              "closed_at": null,
              "seconds": null,
              "publishing_seconds": null,
              "review_seconds": null
            }
          ]
        }"#]]
    .assert_eq(&json);
}

#[test]
fn the_tracking_issue_has_a_table_and_boxes_to_tick() {
    let body = issue_body(&small(), "<!-- patchwright:campaign v=1 -->");
    expect![[r#"
        <!-- patchwright:campaign v=1 -->
        Every HTTP client gets a timeout &amp; a retry.

        **Running**. 3 of 4 done, 1 failed, cost \$0.50 of \$50.00, about 3 min 10 s left.

        1 running · 1 open · 1 skipped · 1 failed

        <sub>Campaign <code>retry-timeouts-0123456789ab</code>, 2026-11-20 02:12 UTC.</sub>

        ### Failed

        Tick a box to have it tried again.

        - [ ] retry `acme/billing` (checks): \`cargo test\` fails: 2 of 40 <!-- patchwright:retry target=2 -->

        ### Repositories

        | Repository | State | Pull request | Cost | Time | Error class |
        |---|---|---|---:|---:|---|
        | `acme/billing` | failed |  | \$0.25 | 3 min 10 s | checks |
        | `acme/api` | open | [#31](<https://github.com/acme/api/pull/31>) | \$0.25 | 3 min 10 s |  |
        | `acme/search` | running |  |  | 3 min |  |
        | `acme/web` | skipped |  |  |  |  |
    "#]].assert_eq(&body);
    assert_eq!(ticked(&body), Vec::<i64>::new());
    assert_eq!(ticked(&body.replace("- [ ]", "- [x]")), [2]);
    assert_eq!(ticked(&body.replace("- [ ]", "* [X]").replace('\n', "\r\n")), [2]);
}

#[test]
fn a_tracking_issue_without_repositories_says_so() {
    let mut view = small();
    view.targets.clear();
    view.campaign.state = CampaignState::Paused;
    view.campaign.reason = Some("3 of 10 failed\u{202e}, <b>look</b> @acme/all".into());
    expect![[r#"
        <!-- m -->
        Every HTTP client gets a timeout &amp; a retry.

        **Paused**: 3 of 10 failed\\u{202e}, &lt;b&gt;look&lt;/b&gt; @&#8203;acme/all. 0 of 0 done, 0 failed, cost \$0.00 of \$50.00.

        <sub>Campaign <code>retry-timeouts-0123456789ab</code>, 2026-11-20 02:12 UTC.</sub>

        No repository was selected.
    "#]].assert_eq(&issue_body(&view, "<!-- m -->"));
}

/// Elements and attributes that are in our pages; everything else would have come from somebody else.
#[track_caller]
fn only_ours(html: &str) {
    let mut rest = html;
    let mut scripts = 0;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let Some(end) = rest.find('>') else { break };
        let tag = &rest[..end];
        let name = tag.split([' ', '/', '>']).next().unwrap_or_default();
        if ["script", "style"].contains(&name) {
            scripts += usize::from(name == "script");
            rest = &rest[rest.find(&format!("</{name}>")).unwrap()..];
        }
        for name in ["img", "iframe", "object", "embed", "link", "base", "video", "audio"] {
            assert!(!tag.starts_with(name), "<{tag}>");
        }
        let acts =
            tag.split('"').step_by(2).any(|part| part.contains(" on") || part.contains(" src"));
        assert!(!acts, "<{tag}>");
        if let Some((_, target)) = tag.split_once("href=\"") {
            let leads = ["https://github.com/", "#"].iter().any(|start| target.starts_with(start));
            assert!(leads, "<{tag}>");
        }
        rest = &rest[rest.find('>').map_or(0, |end| end + 1)..];
    }
    assert_eq!(scripts, 1, "only our script");
}

#[test]
fn nothing_hostile_acts_in_the_tracking_issue() {
    let (view, _) = large();
    let body = issue_body(&view, "<!-- patchwright:campaign v=1 -->");
    let comments = body.matches("<!--").count();
    let failed = view.targets.iter().filter(|target| target.state == TargetState::Failed).count();
    assert_eq!(comments, failed + 1, "only ours");
    // Names are in code spans, where nothing acts.
    let outside: String = body.split('`').step_by(2).collect();
    assert!(!outside.contains("<script") && !outside.contains("<img") && !outside.contains("<svg"));
    assert!(!outside.contains("](javascript") && !outside.contains("](<javascript"));
    assert!(!body.contains("@acme/everyone"), "nobody is mentioned");
    assert_eq!(ticked(&body), Vec::<i64>::new());
    let all = ticked(&body.replace("- [ ]", "- [x]"));
    let expected: Vec<i64> =
        view.targets.iter().filter(|t| t.state == TargetState::Failed).map(|t| t.id).collect();
    assert_eq!(all, expected);
    // Each cell of each row is where it belongs.
    for row in body.lines().filter(|line| line.starts_with("| `")) {
        let bars = row.replace("\\|", "").matches('|').count();
        assert_eq!(bars, 7, "{row}");
    }
}

#[test]
fn a_tracking_issue_of_a_thousand_repositories_fits() {
    let (mut view, _) = large();
    let targets = view.targets.clone();
    for round in 1..6 {
        view.targets.extend(targets.iter().cloned().map(|mut target| {
            target.id += round * 1_000;
            target
        }));
    }
    let body = issue_body(&view, "<!-- patchwright:campaign v=1 -->");
    assert!(body.len() <= 65_536, "{} bytes", body.len());
    let shown = body.lines().filter(|line| line.starts_with("| `")).count();
    let rest = format!("and {} more repositories", 1_200 - shown);
    assert!(body.contains(&rest), "{}", &body[body.len() - 200..]);
    let boxes = body.matches("- [ ] retry").count();
    assert!(boxes > 50, "{boxes}");
    assert!(
        body.contains(&format!(
            "and {} more: `patchwright batch retry retry-timeouts-0123456789ab` has them all.",
            120 - boxes
        )) || boxes == 120
    );
    let mut endless = small();
    endless.targets[1].reason = Some("&".repeat(1_000_000));
    endless.campaign.reason = Some("<".repeat(1_000_000));
    assert!(issue_body(&endless, "<!-- m -->").len() < 10_000);
}

#[test]
fn ticks_are_read_from_whatever_people_make_of_the_body() {
    let marked =
        |mark: &str, id: &str| format!("{mark} retry `a/b` <!-- patchwright:retry target={id} -->");
    let body = [
        marked("- [x]", "7"),
        marked("  - [X]", "8"),
        marked("- [ ]", "9"),
        marked("- [x]", "7"),
        marked("- [x]", "-"),
        marked("- [x]", "99999999999999999999"),
        marked("[x]", "10"),
        "- [x] something of their own".to_owned(),
        marked("+ [x]", "11"),
    ];
    assert_eq!(ticked(&body.join("\n")), [7, 8, 11]);
    assert_eq!(ticked(""), Vec::<i64>::new());
}

#[test]
fn the_live_table_fits_the_terminal() {
    let (view, _) = large();
    let text = |width, height| frame(&view, None, width, height).join("\n");
    expect![[r#"
        retry-timeouts: 146/190 done · 20 failed · 5 running · 5 queued · 3 not begun · 11 to publish · 106…
          acme/web-109  55 min 30 s  running
          acme/web-129  45 min 30 s  @acme/everyone please look, fixes #1 and GH-2, https://evil.example/
          acme/web-149  35 min 30 s  running
          acme/web-169  25 min 30 s  running
          acme/web-189  15 min 30 s  @acme/everyone please look, fixes #1 and GH-2, https://evil.example/
          acme/api-192               | cell | [click](javascript:alert(1)) `tick` **bold** <!-- patchwright…"#]].assert_eq(&text(100, 24));
    expect![[r#"
        retry-timeouts: 146/190 done · 20 faile…
          acme/web-109  55 min 30 s  running
          acme/web-129  45 min 30 s  @acme/ever…
          and 4 more"#]]
    .assert_eq(&text(40, 6));
    let waiting =
        Waiting { why: "GitHub asks to slow down".into(), until: Some(view.now + 90_000) };
    expect![[r#"
        retry-timeouts: 1/3 done · 1 failed · 1 running · 1 open · 1 skipped · $0.50 of $50.00 · about 3 min 10 s left
          acme/search        3 min  running
        waiting: GitHub asks to slow down, 1 h 39 min left"#]].assert_eq(frame(&small(), Some(&waiting), 120, 24).join("\n").as_str());
    for width in [0, 1, 2, 10, 79, 500] {
        for height in [0, 1, 2, 3, 10, 100] {
            let lines = frame(&view, Some(&waiting), width, height);
            assert!(lines.len() <= height.max(1), "{height}: {lines:?}");
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:?}");
        }
    }
}

#[test]
fn a_log_gets_a_line_for_each_result() {
    let (after, mut before) = (small(), small());
    before.targets[0].state = TargetState::Publishing;
    before.targets[1].state = TargetState::Running;
    before.targets[2].state = TargetState::Queued;
    before.targets.pop();
    before.campaign.wave = 1;
    expect![[r#"
        [1/3] acme/api: open, https://github.com/acme/api/pull/31, $0.25, 3 min 10 s
        [2/3] acme/billing: failed (checks): `cargo test` fails: 2 of 40, $0.25, 3 min 10 s
        wave 3 is open"#]]
    .assert_eq(&changes(&before, &after).join("\n"));
    assert_eq!(changes(&after, &after), Vec::<String>::new());
    let mut paused = after.clone();
    paused.campaign.state = CampaignState::Paused;
    paused.campaign.reason = Some("3 of 10 failed".into());
    expect!["retry-timeouts is paused: 3 of 10 failed"]
        .assert_eq(&changes(&after, &paused).join("\n"));
    expect!["retry-timeouts: 1/3 done · 1 failed · 1 running · 1 open · 1 skipped · $0.50 of $50.00 · paused: 3 of 10 failed"].assert_eq(&progress(&paused));
}

#[test]
fn the_end_is_estimated_from_what_has_ended_and_from_the_pace() {
    let mut view = small();
    view.targets.truncate(1);
    view.campaign.concurrency = Some(2);
    for id in 10..20 {
        let mut queued = target(id, &format!("acme/q{id}"), TargetState::Queued);
        (queued.started_at, queued.ended_at) = (None, None);
        view.targets.push(queued);
    }
    let eta = Figures::compute(&view).eta.unwrap();
    assert_eq!(eta.agents_ms, 5 * 190_000, "ten runs of 190 s, two at once");
    assert_eq!(eta.publishing_ms, 33_000, "a push, a pull request and a label each, 1.1 s apart");
    // What the one that is open has taken counts more than what its file says.
    view.targets[0].writes = 4;
    assert_eq!(Figures::compute(&view).eta.unwrap().publishing_ms, 44_000);
    // 1,000 changes, three writes each: six full hours and the rest of the seventh.
    let ready = (100..1_100).map(|id| target(id, "acme/r", TargetState::Ready));
    view.targets = ready.collect();
    let eta = Figures::compute(&view).eta.unwrap();
    assert_eq!(eta.publishing_ms, 6 * 3_600_000 + 120 * 1_100);
    assert!(eta.is_by_rate_limit());
    view.campaign.state = CampaignState::Paused;
    assert_eq!(Figures::compute(&view).eta, None, "nobody knows");
}

#[test]
fn numbers_that_cannot_be_are_no_matter() {
    let mut view = small();
    view.now = Millis::MAX;
    view.campaign.created_at = Millis::MIN;
    view.campaign.spent_usd = f64::NAN;
    view.campaign.spec = "not JSON".into();
    view.campaign.wave = Millis::MAX;
    for (target, number) in view.targets.iter_mut().zip([Millis::MIN, Millis::MAX, -1, 0]) {
        target.cost_usd = f64::INFINITY;
        target.tokens = number;
        target.started_at = Some(number);
        target.ended_at = Some(Millis::MIN);
        target.wave = number;
        target.pull_request = Some(number);
    }
    let html = page(&view, &[]);
    assert!(html.ends_with("</html>"));
    let _ = (table(&view), issue_body(&view, "<!-- m -->"), frame(&view, None, 80, 24));
    serde_json::to_string(&status(&view)).unwrap();
}

#[test]
fn the_page_loads_nothing_and_shows_everything_without_its_script() {
    let (view, events) = large();
    let html = page(&view, &events);
    assert!(html.len() < 400_000, "{} bytes", html.len());
    only_ours(&html);
    let style = html.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
    assert!(!style.contains("@import") && !style.contains("url("), "nothing is loaded");
    assert_eq!(html.matches("<tr data-state=").count(), 200);
    assert_eq!(html.matches("<tr data-state=\"failed\" data-class=").count(), 20);
    assert!(html.contains("default-src 'none'"));
    assert!(!html.contains('\u{202e}') && !html.contains('\u{1b}'));
    assert!(html.contains("href=\"https://github.com/acme/web-001/pull/301\""));
    assert!(html.contains("href=\"https://github.com/acme/web-001\""));
    assert!(html.contains("Every HTTP client gets a timeout &amp; a retry."));
}

#[test]
fn answers_stand_on_the_page_of_a_report() {
    let mut view = small();
    view.campaign.spec = r#"{"mode": "report"}"#.into();
    view.targets[0].state = TargetState::Reported;
    let event = |id, text: &str| Event {
        id,
        at: START,
        campaign: view.campaign.id.clone(),
        target: Some(1),
        repository: Some("acme/api".into()),
        kind: "answer".into(),
        text: Some(text.into()),
    };
    let events =
        [event(1, "an older answer"), event(2, "Uses serde 1.0.\n\n- <b>no</b> unsafe code")];
    let html = page(&view, &events);
    assert!(html.contains("<summary><bdi>Uses serde 1.0.</bdi></summary>"), "{html}");
    assert!(html.contains("- &lt;b&gt;no&lt;/b&gt; unsafe code"));
    assert!(html.contains(">Answer</th>"));
}

#[test]
fn an_empty_campaign_has_a_page() {
    let mut view = small();
    view.targets.clear();
    let html = page(&view, &[]);
    assert!(
        html.contains("No repository was selected.") && html.contains("Nothing has happened yet.")
    );
}

/// The rows of a document that are not hidden.
fn shown(document: &str) -> Vec<&str> {
    let rows = document.split("<tr data-state=").skip(1);
    rows.filter(|row| !row.split('>').next().unwrap().contains("hidden")).collect()
}

#[test]
fn a_browser_shows_filters_and_sorts_the_page_and_runs_nothing_else() {
    let Some(browser) = Browser::find() else { return };
    let (view, events) = large();
    let html = page(&view, &events);
    let all = browser.document(&html, "");
    assert_eq!(shown(&all).len(), 200);
    assert!(all.contains("200 repositories</output>"), "the script runs under the policy");
    assert!(all.contains("<title>retry-timeouts · "), "no script of others has run");
    only_ours(&all);
    assert!(!all.contains("<form id=\"filters\" hidden"), "the filters are there");

    let failed = browser.document(&html, "#state=failed");
    let rows = shown(&failed);
    assert_eq!(rows.len(), 20);
    assert!(rows.iter().all(|row| row.starts_with("\"failed\"")));
    assert!(failed.contains("20 of 200 repositories</output>"));

    let expected = view.targets.iter().filter(|t| t.class == Some(ErrorClass::Model)).count();
    assert!(expected > 0);
    let class = browser.document(&html, "#state=failed&class=model");
    assert_eq!(shown(&class).len(), expected);
    let text = browser.document(&html, "#text=SEARCH-1%20merged");
    assert!(!shown(&text).is_empty());
    assert!(
        shown(&text)
            .iter()
            .all(|row| row.contains("acme/search-1") && row.starts_with("\"merged\""))
    );

    let none = browser.document(&html, "#state=%3Cimg%20src=x%3E");
    assert!(shown(&none).is_empty());
    assert!(none.contains("<p id=\"none\">"));
    only_ours(&none);

    let sorted = browser.document(&html, "#sort=-cost");
    let costs: Vec<f64> = shown(&sorted)
        .iter()
        .map(|row| {
            let cell = row.split("<td class=\"number\" data-sort=\"").nth(2).unwrap();
            cell.split('"').next().unwrap().parse().unwrap()
        })
        .collect();
    assert_eq!(costs.len(), 200);
    assert!(costs.is_sorted_by(|a, b| a >= b), "{costs:?}");

    let picture = browser.picture(&html, "", (1280, 2400));
    assert!(
        picture.starts_with(b"\x89PNG\r\n\x1a\n") && picture.len() > 50_000,
        "{}",
        picture.len()
    );
}
