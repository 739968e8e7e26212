//! The last step, after everything was paid for: servers that are down, slow, limited or moved, and
//! names that are taken. What was made is published all the same.

use std::time::{Duration, Instant};

use crate::resume::replies;
use crate::support::git_http::{Fault, Step};
use crate::support::github::{Fault as GitHubFault, Kind};
use crate::support::model::{call, custom, say};
use crate::support::world::{PATCH, TestWorld, fix, github, write};

const BRANCH: &str = "patchwright/issue-7";

fn world() -> TestWorld {
    TestWorld::new(github(), fix())
}

fn branches(world: &TestWorld) -> Vec<String> {
    world.github.branches().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_git_server_that_is_down_for_two_minutes_is_waited_for() {
    for step in [Step::Push, Step::Fetch] {
        let world = world();
        // Two minutes on the clock of the tests, which is a hundred times faster.
        world.github.git().fault(step, Fault::DownFor(503, Duration::from_millis(1_200)));
        let output = world.issue().expect(0);
        assert_eq!((world.github.pulls().len(), world.model.requests().len()), (1, 5), "{step:?}");
        // Said once, and that it is over.
        let said = &output.stderr;
        assert_eq!(said.matches("waiting for the git server `127.0.0.1`: `").count(), 1, "{said}");
        for words in [
            "answered with status 503; it is asked again for up to ",
            "the git server `127.0.0.1` answers again",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}

#[test]
fn an_api_that_is_away_or_limits_us_is_waited_for_aloud() {
    let down = GitHubFault::once("GET", "/issues/7", Kind::ErrorBefore(503)).times(4);
    let output = TestWorld::new(github().fault(down), fix()).issue().expect(0);
    let said = &output.stderr;
    let words = ": it answers with status 503; it is asked 2 more times";
    assert_eq!(said.matches("waiting for the API of `127.0.0.1:").count(), 1, "{said}");
    assert!(said.contains(words) && said.contains("` answers again"), "{said}");
    let limit = Kind::Secondary { retry_after: Some(30), window: Duration::ZERO };
    let limited = GitHubFault::once("GET", "/issues/7", limit);
    let output = TestWorld::new(github().fault(limited), fix()).issue().expect(0);
    let said = &output.stderr;
    assert!(said.contains("waiting for 30 s, because `127.0.0.1:"), "{said}");
    assert!(said.contains(" limits how often it is asked"), "{said}");
}

#[test]
fn a_git_server_that_stays_down_costs_no_second_conversation() {
    let world = world().set("PATCHWRIGHT_TIME_SCALE", "0.001");
    world.github.git().fault(Step::Push, Fault::DownFor(503, Duration::from_secs(3)));
    let output = world.issue().expect(60);
    assert!(output.stderr.contains("is unavailable"), "{}", output.text());
    assert!(output.stderr.contains("run the same command again later"), "{}", output.text());
    let began = Instant::now();
    while world.issue().code != 0 {
        assert!(began.elapsed() < Duration::from_mins(1));
    }
    assert_eq!((world.github.pulls().len(), world.model.requests().len()), (1, 5));
}

/// GitHub's answers to somebody who asks too often.
fn limits() -> Vec<Fault> {
    let words = "{\"documentation_url\":\"https://docs.github.com/rest\",\"message\":\"You have \
                 exceeded a secondary rate limit. Please wait a few minutes before you try again.\"}";
    let date = ("date", "Fri, 20 Nov 2026 12:00:00 GMT".to_owned());
    let reset = ("x-ratelimit-reset", "1795176030".to_owned());
    vec![
        Fault::Answer(403, vec![("retry-after", "30".to_owned())], words.to_owned()),
        Fault::Answer(403, Vec::new(), words.to_owned()),
        Fault::Answer(429, vec![("retry-after", "30".to_owned())], String::new()),
        Fault::Answer(
            403,
            vec![("x-ratelimit-remaining", "0".to_owned()), reset, date],
            "API rate limit exceeded".to_owned(),
        ),
    ]
}

#[test]
fn a_rate_limit_on_the_push_is_waited_out() {
    for limit in limits() {
        let world = world();
        world.github.git().fault(Step::Push, limit.clone());
        let began = Instant::now();
        let output = world.issue().expect(0);
        assert!(began.elapsed() >= Duration::from_millis(300), "{limit:?}: nobody waited");
        assert!(!output.stderr.contains("contents: write"), "{}", output.text());
        assert_eq!((world.github.pulls().len(), world.model.requests().len()), (1, 5), "{limit:?}");
    }
}

#[test]
fn a_rate_limit_that_lasts_for_hours_is_named_and_is_no_missing_permission() {
    let world = world();
    let wait = vec![("retry-after", "7200".to_owned())];
    world.github.git().fault(Step::Push, Fault::Answer(403, wait, "slow down".to_owned()));
    let output = world.issue().expect(60);
    assert!(output.stderr.contains("the rate limit lasts until 120 minutes"), "{}", output.text());
    assert!(!output.stderr.contains("contents: write"), "{}", output.text());
    world.issue().expect(0);
    assert_eq!((world.github.pulls().len(), world.model.requests().len()), (1, 5));
}

#[test]
fn a_push_that_arrives_after_its_process_was_killed_is_taken_over() {
    let world = world();
    let git = world.github.git();
    git.fault(Step::Push, Fault::Late(Duration::from_millis(1_500)));
    // The second attempt's push reaches the branch after the first one's has.
    git.fault(Step::Push, Fault::Slow(Duration::from_secs(4)));
    let mut child = world.spawn(&["issue", "acme/app#7"]);
    let began = Instant::now();
    let is_push =
        |target: &str| target.ends_with("/git-receive-pack") && !target.contains("service=");
    while !git.requests().iter().any(|request| is_push(&request.target)) {
        assert!(began.elapsed() < Duration::from_mins(1), "it was never pushed");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    world.wait(child);
    assert_eq!(replies(&world), 5);
    // A later time makes another commit of the same change.
    let world = world.set("PATCHWRIGHT_NOW", "2026-11-20T12:00:07Z");
    let output = world.issue().expect(0);
    assert_eq!(branches(&world), ["main", BRANCH], "{}", output.text());
    assert_eq!((world.github.pulls().len(), world.model.requests().len()), (1, 5));
    assert_eq!(world.github.pulls()[0].head_sha, git.tip("acme/app", BRANCH).unwrap());
}

/// A proxy before the server takes no more.
#[test]
fn a_push_that_is_too_large_is_told_as_that_and_made_once() {
    let world = world();
    let git = world.github.git();
    git.fault(Step::Push, Fault::Status(413));
    let output = world.issue().expect(60);
    for part in ["cannot push to `", "(status 413)", "`client_max_body_size`"] {
        assert!(output.stderr.contains(part), "{part}: {}", output.text());
    }
    let pushes = git.requests();
    let pushes =
        pushes.iter().filter(|it| it.method == "POST" && it.target.contains("receive-pack"));
    assert_eq!((pushes.count(), world.github.pulls().len()), (1, 0));
}

#[test]
fn a_commit_of_a_person_that_arrives_during_the_push_is_left_alone() {
    let world = world();
    let theirs = world.github.push("elsewhere", &[("note.md", "mine\n")]);
    let moved = Fault::MoveFirst("acme/app".to_owned(), BRANCH.to_owned(), theirs.clone());
    world.github.git().fault(Step::Push, moved);
    let output = world.issue().expect(0);
    assert_eq!(world.github.git().tip("acme/app", BRANCH), Some(theirs.clone()));
    let salted = format!("{BRANCH}-{}", &theirs[..7]);
    let pulls = world.github.pulls();
    assert_eq!(pulls.len(), 1, "{}", output.text());
    assert_eq!(pulls[0].head, salted);
}

#[test]
fn a_branch_in_the_way_of_ours_is_seen_before_anything_is_paid_for() {
    for other in ["patchwright", "patchwright/issue-7/old"] {
        let world = TestWorld::new(github().branch(other, &[("x", "1\n")]), fix());
        let output = world.issue().expect(0);
        assert!(output.stderr.contains("so it is `patchwright-issue-7`"), "{}", output.text());
        assert_eq!(world.github.pulls()[0].head, "patchwright-issue-7");
        // The name stays when the other branch is gone.
        let path = world.github.repository_path();
        let gone = format!("refs/heads/{other}");
        crate::support::git_http::git(&path, &["update-ref", "-d", &gone]);
        world.model.add(fix());
        world.issue().expect(0);
        assert_eq!((world.github.pulls().len(), branches(&world).len()), (1, 2), "{other}");
    }
}

#[test]
fn a_branch_that_was_asked_for_and_cannot_be_is_refused_before_anything_is_paid_for() {
    let world = TestWorld::new(github().branch("bot", &[("x", "1\n")]), fix());
    let output = world.run(&["issue", "acme/app#7", "--branch", "bot/seven"]).expect(30);
    let wanted = "no branch can be called `bot/seven` beside the branch `bot`";
    assert!(output.stderr.contains(wanted), "{}", output.text());
    assert!(output.stderr.contains("`--branch`"), "{}", output.text());
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn a_public_comment_names_no_place_on_the_machine() {
    let world = world();
    let slow =
        crate::support::model::call("shell_command", serde_json::json!({"command": "sleep 1"}));
    world.model.replace([slow, custom("apply_patch", PATCH), say("Done.")]);
    let output = crate::resume::meanwhile(&world, &["issue", "acme/app#7"], || {
        world.github.change(|repository| repository.issues.get_mut(&7).unwrap().open = false);
    });
    assert_eq!(output.code, 10, "{}", output.text());
    let folder = world.folder.path().display().to_string();
    assert!(output.stderr.contains("the change is kept in"), "{}", output.stderr);
    for comment in world.github.comments(7) {
        assert!(!comment.body.contains(&folder), "{}", comment.body);
        assert!(!comment.body.contains("is kept in"), "{}", comment.body);
    }
}

/// GitHub's double fails every test in which something public names a folder of the machine; this one has
/// the failures whose words are about such folders.
#[test]
fn trouble_with_folders_of_the_machine_is_told_there_and_not_in_public() {
    for (place, code, in_public) in [
        ("sandboxes", 70, "cannot make a folder of the sandbox"),
        ("mirrors", 1, "something is wrong on the machine"),
    ] {
        let world = world();
        fs_err::create_dir_all(world.path("state")).unwrap();
        fs_err::write(world.path("state").join(place), "no folder").unwrap();
        let output = world.issue();
        assert_eq!(output.code, code, "{place}: {}", output.text());
        let named = format!("DIR/state/{place}");
        assert!(output.text().contains(&named), "{place}: {}", output.text());
        let comments = world.github.comments(7);
        assert!(comments[0].body.contains(in_public), "{place}: {comments:?}");
    }
}

#[test]
fn a_name_that_no_branch_can_have_is_refused_before_the_model_is_asked() {
    for (name, code, said) in [
        ("a b", 2, "no branch can be called `a b`"),
        ("bad..name", 2, "no branch can be called"),
        ("x.lock", 2, "no branch can be called"),
        ("-x", 2, "no branch can be called"),
        ("a~b", 2, "no branch can be called"),
        ("@", 2, "no branch can be called"),
        ("0123456789012345678901234567890123456789", 2, "no branch can be called"),
        ("refs/heads/x", 2, "say `--branch x`"),
        ("main", 30, "`main` is the branch to merge into"),
        ("dev", 30, "`dev` is the branch to merge into"),
    ] {
        let world = TestWorld::new(github().branch("dev", &[]), fix());
        let branch = format!("--branch={name}");
        let args = ["issue", "acme/app#7", &branch, "--base", "dev"];
        let output = world.run(&args).expect(code);
        assert!(output.stderr.contains(said), "{name}: {}", output.text());
        assert_eq!(world.model.requests().len(), 0, "{name}");
    }
    let world = TestWorld::new(github(), fix());
    let base = world.github.branches().remove(0).1;
    let output = world.run(&["issue", "acme/app#7", "--base", &base]).expect(2);
    assert!(output.stderr.contains("is no branch that could be merged into"), "{}", output.text());
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn a_secret_that_push_protection_finds_is_named_and_the_next_run_is_told() {
    let key = "shop-4f1d-77ab-9c02";
    let mut turns = vec![custom("apply_patch", PATCH)];
    turns.extend(write("shop.cfg", &format!("token = {key}"), "Configure the shop"));
    let world = TestWorld::new(github().protects_pushes(key), turns);
    let output = world.issue().expect(30);
    for said in ["Shop Access Token in shop.cfg:1", "have the change made without the secret"] {
        assert!(output.stderr.contains(said), "{}", output.text());
    }
    assert_eq!(world.github.pulls().len(), 0);
    let comments = world.github.comments(7);
    assert!(comments.iter().all(|comment| !comment.body.contains(key)));
    world.github.post_comment(7, "rita", "The shop's token is in the environment.");
    let before = world.model.requests().len();
    world.model.add(fix());
    world.issue().expect(0);
    assert!(
        world.model.requests()[before].body.to_string().contains("Shop Access Token in shop.cfg:1")
    );
}

/// A hook that takes a commit only if the program has a header.
const WANTS_A_HEADER: &str = "#!/bin/sh\nread old new ref\ngit show $new:calc.sh | grep -q COPYRIGHT || \
                              { echo 'error: GH013: calc.sh has no COPYRIGHT' >&2; exit 1; }\n";

#[test]
fn a_push_that_was_refused_for_its_content_is_made_anew_once_the_issue_says_more() {
    let world = world();
    world.github.git().hook("acme/app", "pre-receive", WANTS_A_HEADER);
    let output = world.issue().expect(60);
    for said in ["GH013: calc.sh has no COPYRIGHT", "say in the issue or in a comment"] {
        assert!(output.stderr.contains(said), "{}", output.text());
    }
    // Nothing has been said meanwhile, so nothing is paid for.
    world.issue().expect(60);
    assert_eq!((world.runs().len(), world.model.requests().len()), (1, 5));
    world.github.post_comment(7, "rita", "Our programs begin with COPYRIGHT.");
    let mut turns = fix();
    let header = serde_json::json!({"command": "echo '# COPYRIGHT' >> calc.sh"});
    turns.insert(3, call("shell_command", header));
    world.model.add(turns);
    let output = world.issue().expect(0);
    let said =
        "is not resumed: the server refused its change, and the issue says something else by now";
    assert!(output.stderr.contains(said), "{}", output.text());
    assert_eq!((world.runs().len(), world.github.pulls().len()), (2, 1));
    let asked = world.model.requests()[5].body.to_string();
    assert!(asked.contains("Our programs begin with COPYRIGHT."), "{asked}");
    assert!(asked.contains("calc.sh has no COPYRIGHT"), "{asked}");
    assert!(asked.contains("is no instruction beyond that"), "{asked}");
}

#[test]
fn a_push_that_was_refused_is_taken_once_the_rule_is_gone() {
    let world = world();
    world.github.git().hook("acme/app", "pre-receive", WANTS_A_HEADER);
    world.issue().expect(60);
    world.github.git().hook("acme/app", "pre-receive", "#!/bin/sh\n");
    world.issue().expect(0);
    assert_eq!((world.github.pulls().len(), world.model.requests().len()), (1, 5));
}
