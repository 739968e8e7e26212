//! The check of the review: on what we push ourselves, asked for again, and in a merge queue.

use patchwright_forge::Role;
use serde_json::{Value, json};

use super::{Serving, guid, served};
use crate::support::github::{Event, Fault, GitHub, Kind};
use crate::support::model::{Turn, call, say};
use crate::support::world::{FILES, TestWorld};

const PULL: u64 = 8;
const NAME: &str = "Patchwright review";
const US: &str = "patchy[bot]";

/// A pull request of `rita`, and as many reviews as the model has. We are the App `patchy`.
fn world(reviews: usize) -> TestWorld {
    world_of("rita", vec![say("Says more.\n\nVerdict: fine"); reviews])
}

fn world_of(author: &str, turns: Vec<Turn>) -> TestWorld {
    let github = GitHub::new()
        .repository("acme/app", FILES)
        .user("rita", Role::Write)
        .user("mallory", Role::Read)
        .app("patchy")
        .installation("acme")
        .pull(PULL, "Say more", "topic", &[("README.md", "# calc\n\nIt adds.\n")])
        .by(author);
    served(TestWorld::new(github, turns)).with_app_credentials()
}

fn configured(world: TestWorld, config: &str) -> TestWorld {
    let path = world.path("config.yml");
    fs_err::write(&path, config).unwrap();
    world.set("PATCHWRIGHT_CONFIG", path.display().to_string())
}

/// What the check says at a commit, oldest first.
fn said_at(world: &TestWorld, sha: &str) -> Vec<String> {
    let runs = world.github.check_runs().into_iter();
    let runs = runs.filter(|run| run.name == NAME && run.sha == sha);
    runs.map(|run| run.conclusion.unwrap_or(run.status)).collect()
}

/// Delivers that a pull request changed by the hand of `sender`.
fn changed(world: &TestWorld, server: &Serving<'_>, number: u32, action: &str, sender: &str) {
    let event = match action {
        "synchronize" => {
            let before = world.github.head_of(PULL);
            let text = format!("# calc\n\nIt adds {number}.\n");
            world.github.push_to_pull(PULL, &[("README.md", &text)]);
            world.github.synchronize_event(PULL, &before, sender)
        }
        "labeled" => world.github.pull_labeled_event(PULL, "review", sender),
        action => world.github.pull_request_event(action, PULL, sender),
    };
    let event = event.with(|it| it["pull_request"]["updated_at"] = json!("2026-11-20T12:00:00Z"));
    assert_eq!(server.deliver(&guid(number), event.name, &event.payload).status, 202);
    server.until_idle();
}

#[test]
fn what_we_push_is_reviewed_at_the_new_head() {
    let world = world(1);
    let server = Serving::start(&world, &["--room", "1"]);
    let before = world.github.head_of(PULL);
    changed(&world, &server, 1, "synchronize", US);
    let head = world.github.head_of(PULL);
    assert_eq!(said_at(&world, &head), ["success"], "{}", server.said());
    assert_eq!(said_at(&world, &before), [] as [&str; 0]);
    // What we say and which labels we set sets nothing off.
    changed(&world, &server, 2, "labeled", US);
    let comment = world.github.post_comment(PULL, US, "@patchwright review full");
    let event = world.github.issue_comment_event(comment);
    server.deliver(&guid(3), event.name, &event.payload);
    server.until_idle();
    assert_eq!((world.model.requests().len(), world.model.unused()), (1, 0), "{}", server.said());
    assert_eq!(world.github.head_of(PULL), head, "a review pushes nothing");
}

#[test]
fn our_own_pull_request_is_reviewed_within_the_limits_of_strangers() {
    let world = world_of(US, vec![say("Says more.\n\nVerdict: fine")]);
    let world = configured(world, "review: {per-pull-request: 1}\n");
    let server = Serving::start(&world, &["--room", "1"]);
    changed(&world, &server, 1, "opened", US);
    assert_eq!(said_at(&world, &world.github.head_of(PULL)), ["success"], "{}", server.said());
    changed(&world, &server, 2, "synchronize", US);
    assert_eq!((world.model.requests().len(), world.model.unused()), (1, 0));
    assert!(server.said().contains("`review.per-pull-request` is reached"), "{}", server.said());
}

#[test]
fn our_own_pull_requests_can_be_left_out() {
    let world = world_of(US, Vec::new());
    let world = configured(world, "review: {skip-authors: [\"patchy[bot]\"]}\n");
    let server = Serving::start(&world, &["--room", "1"]);
    changed(&world, &server, 1, "opened", US);
    assert!(world.model.requests().is_empty() && world.github.check_runs().is_empty());
}

/// The check that fails for what was found is none that we repair.
#[test]
fn our_own_failing_check_sets_no_repair_off() {
    let finding = call(
        "report_finding",
        json!({
            "path": "README.md", "quote": "It adds 1.", "title": "It adds more", "priority": 0,
            "body": "It adds any two numbers. Say so.", "confidence": 0.9, "category": "bug",
        }),
    );
    let turns = vec![finding, say("Wrong.\n\nVerdict: needs work")];
    let github = GitHub::new()
        .repository("acme/app", FILES)
        .user("rita", Role::Write)
        .app("patchy")
        .installation("acme")
        .pull(PULL, "Say more", "patchwright/issue-7", &[("README.md", "# calc\n\nIt adds.\n")])
        .by(US);
    let world = served(TestWorld::new(github, turns)).with_app_credentials();
    let world = configured(world, "review: {second-look: false}\n");
    let server = Serving::start(&world, &["--room", "1"]);
    changed(&world, &server, 1, "synchronize", US);
    let head = world.github.head_of(PULL);
    assert_eq!(said_at(&world, &head), ["failure"], "{}", server.said());
    let asked = world.model.requests().len();
    let ended = world.github.check_suite_event(PULL, "patchy", "failure");
    let ended = ended.with(|it| it["check_suite"]["updated_at"] = json!("2026-11-20T12:00:00Z"));
    server.deliver(&guid(2), ended.name, &ended.payload);
    server.until_idle();
    assert_eq!(world.github.head_of(PULL), head, "{}", server.said());
    assert_eq!(world.model.requests().len(), asked, "{}", server.said());
}

/// A comment that is not too old to set something off.
fn of_now(event: Event) -> Event {
    event.with(|it| {
        for key in ["created_at", "updated_at"] {
            it["comment"][key] = json!("2026-11-20T12:00:00Z");
        }
    })
}

#[test]
fn an_answer_that_dismisses_a_finding_turns_the_check() {
    let finding = call(
        "report_finding",
        json!({
            "path": "README.md", "quote": "It adds 1.", "title": "It adds more", "priority": 0,
            "body": "It adds any two numbers. Say so.", "confidence": 0.9, "category": "bug",
        }),
    );
    let world = world_of("rita", vec![finding, say("Wrong.\n\nVerdict: needs work")]);
    let world = configured(world, "review: {second-look: false}\n");
    let server = Serving::start(&world, &["--room", "1"]);
    changed(&world, &server, 1, "synchronize", "rita");
    let head = world.github.head_of(PULL);
    assert_eq!(said_at(&world, &head), ["failure"], "{}", server.said());
    let asked = world.model.requests().len();
    let finding = world.github.review_comments(PULL)[0].id;
    for (number, login) in [(2, "mallory"), (3, "rita")] {
        let answer = world.github.reply(login, finding, "@patchwright ignore");
        let event = of_now(world.github.review_comment_event(answer));
        server.deliver(&guid(number), event.name, &event.payload);
        server.until_idle();
        let expected = if login == "rita" { "success" } else { "failure" };
        assert_eq!(said_at(&world, &head), [expected], "{login}: {}", server.said());
    }
    assert_eq!(world.model.requests().len(), asked, "no model is asked");
}

/// GitHub names no pull request of a fork in what it tells of checks.
#[test]
fn a_check_that_is_asked_for_again_waits_for_what_is_done_on_its_pull_request() {
    let slow = call("shell_command", json!({"command": "sleep 3"}));
    let turns = vec![slow, say("It adds."), say("Says more.\n\nVerdict: fine")];
    let world = world_of("rita", turns);
    let server = Serving::start(&world, &["--room", "2"]);
    let comment = world.github.post_comment(PULL, "rita", "@patchwright what does it do?");
    let event = of_now(world.github.issue_comment_event(comment));
    server.deliver(&guid(1), event.name, &event.payload);
    server.until("the model is not asked", || !world.model.requests().is_empty());
    let mut run = again(&world, "check_run", "patchy", NAME, "rita");
    run["check_run"]["pull_requests"] = json!([]);
    server.deliver(&guid(2), "check_run", &run);
    server.until_idle();
    let said = server.said();
    assert!(said.contains("waits for its turn among what is done on pull request #8"), "{said}");
    let answers = world.github.comments(PULL);
    assert!(answers.iter().any(|it| it.body.contains("It adds.")), "beside each other: {said}");
    assert_eq!(said_at(&world, &world.github.head_of(PULL)), ["success"], "{said}");
}

/// Somebody asks for a check, or all checks of an App, again. GitHub sends it with the time of the first run.
fn again(world: &TestWorld, event: &str, app: &str, check: &str, sender: &str) -> Value {
    let repository = world.github.world().repository("acme/app").id;
    let about = json!({
        "id": 4, "name": check, "head_sha": world.github.head_of(PULL), "status": "completed",
        "conclusion": "action_required", "external_id": "patchwright",
        "completed_at": "2026-11-01T12:00:00Z", "app": {"id": 1, "slug": app},
        "pull_requests": [{"number": PULL, "base": {"repo": {"id": repository}}}],
    });
    json!({
        "action": "rerequested", event: about,
        "repository": {"id": repository, "full_name": "acme/app"},
        "installation": {"id": world.github.app().installations[0].id},
        "sender": {"login": sender, "type": "User"},
    })
}

#[test]
fn a_check_that_is_asked_for_again_is_a_review_again() {
    let world = world(3);
    let server = Serving::start(&world, &["--room", "1"]);
    changed(&world, &server, 1, "opened", "rita");
    let asked = |count: usize| {
        server.until_idle();
        assert_eq!(world.model.requests().len(), count, "{}", server.said());
    };
    asked(1);
    let run = again(&world, "check_run", "patchy", NAME, "rita");
    server.deliver(&guid(2), "check_run", &run);
    asked(2);
    assert_eq!(said_at(&world, &world.github.head_of(PULL)), ["success", "success"]);
    // Delivered again it is what it was.
    server.deliver(&guid(2), "check_run", &run);
    asked(2);
    let suite = again(&world, "check_suite", "patchy", NAME, "rita");
    server.deliver(&guid(3), "check_suite", &suite);
    asked(3);
    assert_eq!(world.model.unused(), 0);
}

#[test]
fn checks_of_others_and_clicks_of_strangers_start_no_review() {
    let world = world(0);
    let server = Serving::start(&world, &["--room", "1"]);
    let cases = [
        ("check_run", "patchy", NAME, "mallory", "may not start work"),
        ("check_suite", "patchy", NAME, "mallory", "may not start work"),
        ("check_run", "patchy", NAME, "renovate[bot]", "may not start work"),
        ("check_run", "other", NAME, "rita", "the check is of the App `other`, which we are not"),
        ("check_suite", "other", NAME, "rita", "the check is of the App `other`, which we are not"),
    ];
    for (number, (event, app, check, sender, why)) in (1..).zip(cases) {
        let payload = again(&world, event, app, check, sender);
        assert_eq!(server.deliver(&guid(number), event, &payload).status, 202);
        server.until_idle();
        let page = server.get("/").body;
        let said = format!("{}{page}", server.said());
        assert!(said.contains(why), "{event} {app} {sender}: {said}");
    }
    let other = again(&world, "check_run", "patchy", "Patchwright evidence", "rita");
    let answer = server.deliver(&guid(20), "check_run", &other);
    assert!(answer.body.contains("is not that of the review"), "{}", answer.body);
    let mut made = again(&world, "check_run", "patchy", NAME, "rita");
    made["action"] = json!("completed");
    let answer = server.deliver(&guid(21), "check_run", &made);
    assert!(answer.body.starts_with("ignored: "), "{}", answer.body);
    // A head that was pushed over is nobody's.
    let old = again(&world, "check_run", "patchy", NAME, "rita");
    world.github.push_to_pull(PULL, &[("README.md", "# calc\n\nIt adds two.\n")]);
    server.deliver(&guid(22), "check_run", &old);
    server.until_idle();
    assert!(server.said().contains("no open pull request has the head"), "{}", server.said());
    let mut written = world.github.writes();
    written.retain(|written| !written.contains("/access_tokens"));
    assert!(world.model.requests().is_empty() && written.is_empty(), "{written:?}");
}

/// The queue's commit, which is the base branch's here.
fn queued(world: &TestWorld) -> Value {
    let (_, head) = world.github.branches().into_iter().find(|(name, _)| name == "main").unwrap();
    let repository = world.github.world().repository("acme/app").id;
    json!({
        "action": "checks_requested",
        "merge_group": {
            "head_sha": head, "head_ref": "refs/heads/gh-readonly-queue/main/pr-8-0123",
            "base_sha": head, "base_ref": "refs/heads/main", "head_commit": {"id": head},
        },
        "repository": {"id": repository, "full_name": "acme/app"},
        "installation": {"id": world.github.app().installations[0].id},
        "sender": {"login": "rita", "type": "User"},
    })
}

#[test]
fn a_merge_queue_gets_its_check_without_a_model() {
    let world = world(0);
    let server = Serving::start(&world, &["--room", "1"]);
    let payload = queued(&world);
    let head = payload["merge_group"]["head_sha"].as_str().unwrap();
    // One answer of GitHub's is lost on the way.
    world.github.fault(Fault::once("GET", "/check-runs", Kind::ErrorBefore(502)));
    assert_eq!(server.deliver(&guid(1), "merge_group", &payload).status, 202);
    server.until_idle();
    assert_eq!(said_at(&world, head), ["success"], "{}", server.said());
    let check = world.github.check_runs().pop().unwrap();
    assert_eq!(check.title.as_deref(), Some("Reviewed before it came into the queue"));
    assert_eq!(check.app, "patchy");
    assert!(world.model.requests().is_empty());
    let page = server.get("/").body;
    assert!(page.contains("done: "), "{page}");
    // What is no commit of a queue gets none, and neither does one that has left it.
    let mut other = payload.clone();
    other["merge_group"]["head_ref"] = json!("refs/heads/main");
    let mut over = payload.clone();
    over["action"] = json!("destroyed");
    for (number, payload) in [(2, &other), (3, &over)] {
        let answer = server.deliver(&guid(number), "merge_group", payload);
        assert!(answer.body.starts_with("ignored: "), "{}", answer.body);
    }
    server.until_idle();
    assert_eq!(world.github.check_runs().len(), 1);
}
