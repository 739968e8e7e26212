//! `patchwright action` on pull requests, comments and checks: from the event to what GitHub shows.

use patchwright_forge::Role;
use serde_json::json;

use crate::support::git_http::git;
use crate::support::github::{Event, GitHub};
use crate::support::model::{Turn, call, say};
use crate::support::world::{FILES, Output, TestWorld, fix};

const PULL: u64 = 8;
const DIVIDE: &str = "divide() {\n  echo $(($1 / $2))\n}\n";

fn project(configuration: &str) -> GitHub {
    let mut files = FILES.to_vec();
    if !configuration.is_empty() {
        files.push((".github/patchwright.yml", configuration));
    }
    GitHub::new()
        .repository("acme/app", &files)
        .user("ann", Role::Write)
        .user("trent", Role::Triage)
        .user("mallory", Role::Read)
}

fn pull(configuration: &str) -> GitHub {
    project(configuration).pull(PULL, "Add divide", "divide", &[("divide.sh", DIVIDE)]).by("rita")
}

fn of_a_fork() -> GitHub {
    project("").fork("mallory/app").pull(
        PULL,
        "Add divide",
        "mallory:divide",
        &[("divide.sh", DIVIDE)],
    )
}

/// A review with one finding.
fn turns() -> Vec<Turn> {
    let finding = json!({
        "path": "divide.sh", "quote": "  echo $(($1 / $2))", "title": "Division by zero",
        "body": "`divide 1 0` fails.", "priority": 1, "confidence": 0.9, "category": "bug",
    });
    vec![call("report_finding", finding), say("Adds `divide`, which fails for zero.")]
}

/// The world in which this event has set the workflow off.
pub(crate) fn told(world: TestWorld, event: &Event) -> TestWorld {
    let path = |name: &str| world.path(name).display().to_string();
    let (payload, outputs, summary) = (path("event.json"), path("outputs"), path("summary"));
    event.write(world.path("event.json").parent().unwrap());
    let _ = fs_err::remove_file(&outputs);
    let sender = event.payload["sender"]["login"].as_str().unwrap().to_owned();
    world
        .set("GITHUB_ACTIONS", "true")
        .set("GITHUB_EVENT_NAME", event.name)
        .set("GITHUB_EVENT_PATH", payload)
        .set("GITHUB_OUTPUT", outputs)
        .set("GITHUB_STEP_SUMMARY", summary)
        .set("GITHUB_REPOSITORY", "acme/app")
        .set("GITHUB_ACTOR", sender)
        .set("GITHUB_RUN_ID", "42")
}

fn act(world: &TestWorld, code: i32) -> Output {
    world.run(&["action"]).expect(code)
}

/// An output of the job.
fn output(world: &TestWorld, name: &str) -> String {
    let text = fs_err::read_to_string(world.path("outputs")).unwrap();
    let block = text.split(&format!("{name}<<")).nth(1).unwrap_or_default();
    let (end, rest) = block.split_once('\n').unwrap_or_default();
    rest.split(&format!("\n{end}")).next().unwrap_or_default().to_owned()
}

#[test]
fn a_new_pull_request_is_reviewed_and_the_job_is_told() {
    let world = TestWorld::new(pull(""), turns());
    let event = world.github.pull_request_event("opened", PULL, "rita");
    let world = told(world, &event);
    act(&world, 0);
    let comments = world.github.review_comments(PULL);
    assert_eq!(comments.len(), 1, "{comments:?}");
    assert_eq!(world.github.quoted(comments[0].id), "  echo $(($1 / $2))");
    for (name, expected) in [
        ("conclusion", "done"),
        ("coverage", "100"),
        ("findings", "1"),
        ("handed-over", "false"),
        ("pull-request-number", "8"),
    ] {
        assert_eq!(output(&world, name), expected, "{name}");
    }
    assert_eq!(output(&world, "review-id"), world.github.reviews(PULL)[0].id.to_string());
    for file in ["findings-file", "sarif-file", "journal-file"] {
        let path = output(&world, file);
        assert!(std::path::Path::new(&path).is_file(), "{file}: {path}");
    }
    let summary = fs_err::read_to_string(world.path("summary")).unwrap();
    assert!(summary.contains("Division by zero"), "{summary}");
}

#[test]
fn the_same_commit_again_is_nothing_to_do_and_no_red_job() {
    let world = TestWorld::new(pull(""), turns());
    let event = world.github.pull_request_event("opened", PULL, "rita");
    let world = told(world, &event);
    act(&world, 0);
    let event = world.github.pull_request_event("reopened", PULL, "rita");
    let world = told(world, &event);
    let said = act(&world, 0);
    assert!(said.stderr.contains("nothing to do: "), "{}", said.text());
    assert_eq!(output(&world, "conclusion"), "nothing_to_do");
    assert_eq!(world.github.reviews(PULL).len(), 1);
    assert_eq!(world.model.requests().len(), 2);
}

#[test]
fn drafts_wait_unless_the_base_branch_says_otherwise() {
    for (configuration, reviews) in [("", 0), ("review: { drafts: true }\n", 1)] {
        let world = TestWorld::new(pull(configuration).draft(), turns());
        let event = world.github.pull_request_event("opened", PULL, "rita");
        let world = told(world, &event);
        act(&world, 0);
        assert_eq!(world.github.reviews(PULL).len(), reviews, "{configuration}");
    }
}

#[test]
fn a_label_of_the_configuration_starts_a_review_for_people_with_write_access() {
    let labels = "review: { labels: [review] }\n";
    for (configuration, label, sender, code, reviews) in [
        (labels, "review", "ann", 0, 1),
        (labels, "review", "trent", 30, 0),
        (labels, "bug", "trent", 0, 0),
        ("", "review", "trent", 0, 0),
    ] {
        let world = TestWorld::new(pull(configuration).label("review").label("bug"), turns());
        let event = world.github.pull_labeled_event(PULL, label, sender);
        let world = told(world, &event);
        let said = act(&world, code);
        assert_eq!(world.github.reviews(PULL).len(), reviews, "{label} {sender}: {}", said.text());
    }
}

#[test]
fn a_forks_pull_request_is_found_by_the_commit_of_the_event() {
    let world = TestWorld::new(of_a_fork(), turns());
    let event = world.github.workflow_run_event(PULL, "Patchwright review", "success");
    let world = told(world, &event);
    act(&world, 0);
    assert_eq!(world.github.review_comments(PULL).len(), 1);
    let stale = event.with(|payload| payload["workflow_run"]["head_sha"] = json!("1".repeat(40)));
    let world = told(world, &stale);
    let said = act(&world, 0);
    assert!(said.stderr.contains("no open pull request of a fork has the head"), "{}", said.text());
    assert_eq!(output(&world, "conclusion"), "ignored");
}

#[test]
fn without_a_writing_token_the_review_is_handed_over_and_posted_later() {
    let github = of_a_fork().another_token("ghs_writes", "patchwright-bot").fork_actions_token();
    let world = TestWorld::new(github, turns());
    let event = world.github.pull_request_event("opened", PULL, "mallory");
    let world = told(world, &event);
    let said = act(&world, 0);
    assert!(said.stdout.contains("file=divide.sh"), "{}", said.text());
    assert_eq!(output(&world, "handed-over"), "true");
    assert_eq!(world.github.reviews(PULL).len(), 0);
    let handed = world.path("handed");
    fs_err::create_dir(&handed).unwrap();
    fs_err::copy(output(&world, "review-file"), handed.join("review.json")).unwrap();
    let event = world.github.workflow_run_event(PULL, "Patchwright review", "success");
    let world = told(world, &event)
        .set("GITHUB_TOKEN", "ghs_writes")
        .set("INPUT_POST_FROM", handed.display().to_string())
        .unset("OPENAI_API_KEY");
    act(&world, 0);
    assert_eq!(world.github.review_comments(PULL).len(), 1);
    assert_eq!(world.model.requests().len(), 2, "posting asks no model");
    let other = event.with(|payload| payload["workflow_run"]["head_sha"] = json!("1".repeat(40)));
    let world = told(world, &other);
    act(&world, 30);
    assert_eq!(world.github.reviews(PULL).len(), 1);
}

#[test]
fn a_hand_over_of_a_branch_of_the_repository_itself_is_posted_too() {
    let github = project("")
        .pull(PULL, "Add divide", "divide", &[("divide.sh", DIVIDE)])
        .another_token("ghs_writes", "github-actions[bot]")
        .fork_actions_token();
    let world = TestWorld::new(github, turns());
    let event = world.github.pull_request_event("opened", PULL, "ann");
    let world = told(world, &event);
    act(&world, 0);
    assert_eq!(output(&world, "handed-over"), "true");
    let handed = world.path("handed");
    fs_err::create_dir(&handed).unwrap();
    fs_err::copy(output(&world, "review-file"), handed.join("review.json")).unwrap();
    let event = world.github.workflow_run_event(PULL, "Patchwright review", "success");
    let world = told(world, &event)
        .set("GITHUB_TOKEN", "ghs_writes")
        .set("INPUT_POST_FROM", handed.display().to_string());
    act(&world, 0);
    assert_eq!(world.github.review_comments(PULL).len(), 1);
    // Another branch is another pull request.
    let of_other = event.with(|it| it["workflow_run"]["head_branch"] = json!("other"));
    let world = told(world, &of_other);
    act(&world, 0);
    assert_eq!(output(&world, "conclusion"), "nothing_to_do");
    assert_eq!(world.github.reviews(PULL).len(), 1);
}

#[test]
fn a_hand_over_is_posted_on_the_pull_request_of_its_event_only() {
    let github = project("")
        .fork("bob/app")
        .pull(PULL, "Add divide", "bob:divide", &[("divide.sh", DIVIDE)])
        .fork("mallory/app")
        .another_token("ghs_writes", "github-actions[bot]")
        .fork_actions_token();
    let world = TestWorld::new(github, turns());
    let event = world.github.pull_request_event("opened", PULL, "bob");
    let world = told(world, &event);
    act(&world, 0);
    let handed = world.path("handed");
    fs_err::create_dir(&handed).unwrap();
    fs_err::copy(output(&world, "review-file"), handed.join("review.json")).unwrap();
    // Mallory has a copy of Bob's branch, and a pull request from it.
    let (bob, mallory) = (world.github.of("bob/app").path(), world.github.of("mallory/app").path());
    git(&mallory, &["fetch", "-q", &bob.display().to_string(), "divide:divide"]);
    world.github.open_pull(9, "Mine", "mallory:divide", "mallory");
    assert_eq!(world.github.head_of(9), world.github.head_of(PULL));
    let of_mallory = world.github.workflow_run_event(9, "Patchwright review", "success");
    let of_bob = world.github.workflow_run_event(PULL, "Patchwright review", "success");
    let world = told(world, &of_mallory)
        .set("GITHUB_TOKEN", "ghs_writes")
        .set("INPUT_POST_FROM", handed.display().to_string());
    let said = act(&world, 30);
    assert!(said.stderr.contains("the workflow run was for another one"), "{}", said.text());
    assert_eq!((world.github.reviews(PULL).len(), world.github.reviews(9).len()), (0, 0));
    assert!(world.github.comments(PULL).is_empty() && world.github.check_runs().is_empty());
    let world = told(world, &of_bob);
    act(&world, 0);
    assert_eq!((world.github.reviews(PULL).len(), world.github.reviews(9).len()), (1, 0));
    // An ancestor of what is there now is not what is there now.
    world.github.push_to_pull(PULL, &[("more.sh", "exit 0\n")]);
    let world = told(world, &of_bob);
    act(&world, 0);
    assert_eq!(output(&world, "conclusion"), "nothing_to_do");
    assert_eq!(world.github.reviews(PULL).len(), 1);
}

#[test]
fn a_mention_is_done_for_those_who_may_and_nobody_else() {
    // Anybody can write a comment, so one that is refused makes no red job.
    for (login, code, pushed) in [("ann", 0, true), ("mallory", 0, false)] {
        let world = TestWorld::new(pull(""), fix());
        let before = world.github.head_of(PULL);
        let comment =
            world.github.post_comment(PULL, login, "@patchwright fix the sign in calc.sh");
        let event = world.github.issue_comment_event(comment);
        let world = told(world, &event);
        let said = act(&world, code);
        assert_eq!(world.github.head_of(PULL) != before, pushed, "{login}: {}", said.text());
        let conclusion = if pushed { "done" } else { "refused" };
        assert_eq!(output(&world, "conclusion"), conclusion);
    }
}

#[test]
fn comments_that_ask_nothing_cost_nothing() {
    let world = TestWorld::new(pull(""), fix());
    let mut world = world;
    for (login, body) in [
        ("ann", "> @patchwright fix it\n\nWhat does that do?"),
        ("ann", "thanks @patchwright"),
        ("renovate[bot]", "@patchwright fix it"),
    ] {
        let comment = world.github.post_comment(PULL, login, body);
        let event = world.github.issue_comment_event(comment);
        world = told(world, &event);
        let said = act(&world, 0);
        assert!(said.stderr.starts_with("nothing to do: "), "{}", said.text());
        assert_eq!(output(&world, "conclusion"), "ignored");
    }
    assert_eq!(world.github.writes(), Vec::<String>::new());
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn a_thread_is_answered_where_it_asks() {
    let world = TestWorld::new(pull(""), [say("Because zero is refused elsewhere.")]);
    let root = world.github.comment_on_line("ann", PULL, "divide.sh", 2, "@patchwright why?");
    let event = world.github.review_comment_event(root);
    let world = told(world, &event);
    act(&world, 0);
    let thread = &world.github.threads(PULL)[0];
    assert_eq!(thread.comments.len(), 2, "{thread:?}");
    assert!(output(&world, "final-message").contains("refused elsewhere"));
}

#[test]
fn a_failing_workflow_on_our_own_branch_is_repaired() {
    // A machine user, and an App, whose token may not ask who it is. The last commit is a person's.
    for us in ["patchwright-bot", "patchwright[bot]"] {
        let github = project("")
            .token_of(us)
            .pull(PULL, "Say more", "patchwright/issue-7", &[("README.md", "# calc\n\nMore.\n")])
            .by(us)
            .failing_check("test", "2026-11-21T10:00:01.0000000Z wrong\n");
        let world = TestWorld::new(github, fix());
        let before = world.github.head_of(PULL);
        let event = world.github.workflow_run_event(PULL, "CI", "failure");
        let world = told(world, &event);
        let said = act(&world, 0);
        assert_ne!(world.github.head_of(PULL), before, "{}", said.text());
    }
}

#[test]
fn a_dispatch_asks_for_a_review_by_number() {
    let world = TestWorld::new(pull(""), turns());
    let mut event =
        world.github.pull_request_event("opened", PULL, "ann").named("workflow_dispatch");
    event = event.with(|payload| payload["inputs"] = json!({"pull-request": "8"}));
    let world = told(world, &event);
    act(&world, 0);
    assert_eq!(world.github.reviews(PULL).len(), 1);
}

/// A dispatch has no time of its own: whoever starts one asks now, about what the fork has now.
#[test]
fn a_dispatch_asks_about_a_pull_request_of_a_fork() {
    let world = TestWorld::new(of_a_fork(), vec![say("It divides.")]);
    let event = world.github.pull_request_event("opened", PULL, "ann").named("workflow_dispatch");
    let inputs = json!({"pull-request": "8", "command": "does it divide?"});
    let world = told(world, &event.with(|payload| payload["inputs"] = inputs));
    act(&world, 0);
    assert_eq!(world.model.requests().len(), 1);
}

#[test]
fn inputs_about_reviews_and_mentions_are_checked() {
    let world = TestWorld::new(pull(""), turns());
    let event = world.github.pull_request_event("opened", PULL, "rita");
    let world = told(world, &event);
    for (name, value, why) in [
        ("INPUT_FAIL_ON", "4", "input `fail-on`: `4` is not a priority"),
        ("INPUT_MENTION", "a b", "input `mention`: it must be the name of an account"),
        ("INPUT_ATTEMPTS", "9", "input `attempts`: must be from 1 to 8: 9"),
        ("INPUT_ATTEMPTS_AT_ONCE", "0", "input `attempts-at-once`: must be from 1 to 8: 0"),
        ("INPUT_MAX_TURNS", "0", "input `max-turns`: must be at least 1: 0"),
        ("INPUT_MAX_COST_USD", "nan", "input `max-cost-usd`: must be at least 0: NaN"),
        ("INPUT_MAX_COST_USD", "inf", "input `max-cost-usd`: must be a number of dollars"),
    ] {
        let mut command = world.command(&["action"]);
        let said = world.wait(command.env(name, value).spawn().unwrap());
        assert_eq!(said.code, 2, "{}", said.text());
        assert!(said.stderr.contains(why), "{}", said.text());
    }
    assert_eq!(world.github.writes(), Vec::<String>::new());
}

#[test]
fn findings_at_the_threshold_of_the_input_make_the_check_fail() {
    let world = TestWorld::new(pull("").actions_token(), turns());
    let event = world.github.pull_request_event("opened", PULL, "rita");
    let world = told(world, &event).set("INPUT_FAIL_ON", "1");
    act(&world, 0);
    assert_eq!(output(&world, "review-verdict"), "failure");
}
