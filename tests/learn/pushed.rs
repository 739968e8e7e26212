//! How a proposal comes to GitHub: with commits that are signed, from a fork where nobody lets us push; and what a
//! replay says of such a run.

use patchwright_forge::Role;

use super::{BRANCH, FILE, LESSON, WISH, learn, lesson, lessons, project, run, with_proposal};
use crate::commits::key;
use crate::resume::wait_for;
use crate::support::git_repo::git;
use crate::support::github::{Fault, Kind};
use crate::support::world::{TestWorld, fix, github};

const US: &str = "patchwright-bot";
const EMAIL: &str = "patchwright[bot]@users.noreply.github.com";

/// Has something said on our pull request, and the model make a lesson of it.
fn said(world: &TestWorld, pull: u64) {
    let comment = world.github.post_comment(pull, "rita", WISH);
    world.model.add([lessons(&[lesson(LESSON, &[format!("c{comment}")], WISH)])]);
}

#[test]
fn a_proposal_is_signed_as_other_commits_are() {
    let (private, public) = key("ed25519", "");
    let github = || project().refuses_unsigned_commits().rule("required_signatures", None);
    for (github, sign) in [(github(), "github"), (github().signing_key(EMAIL, &public), "ssh")] {
        let world = TestWorld::new(github, fix())
            .set("PATCHWRIGHT_NOW", "2026-01-02T00:00:00Z")
            .set("PATCHWRIGHT_SIGN", sign)
            .set("PATCHWRIGHT_SIGNING_KEY", &private);
        world.issue().expect(0);
        said(&world, world.github.pulls()[0].number);
        let learned = learn(&world, &[]).expect(0);
        assert_eq!(world.github.verification_of(BRANCH)["verified"], true, "{}", learned.text());
        let path = world.github.repository_path();
        let count = git(&path, &["rev-list", "--count", &format!("main..{BRANCH}")]);
        assert_eq!(count.trim(), "1", "{sign}");
        let names = git(&path, &["diff", "--name-only", "main", BRANCH]);
        assert_eq!(names.trim(), FILE, "{sign}");
        let body = private.lines().nth(2).unwrap();
        assert!(world.holds(body).is_empty() && !learned.text().contains(body), "{sign}");
        // The next proposal takes its place, signed as well.
        let number = world.github.pulls()[0].number;
        world.github.pass(2 * super::DAY);
        let world = world.set("PATCHWRIGHT_NOW", "2026-01-05T00:00:00Z");
        let wish = "Please use long options from now on.";
        let comment = world.github.post_comment(number, "rita", wish);
        let long = lesson("Use long options in scripts.", &[format!("c{comment}")], wish);
        world.model.add([lessons(&[long])]);
        learn(&world, &[]).expect(0);
        assert_eq!(world.github.verification_of(BRANCH)["verified"], true, "{sign}");
        assert_eq!(world.github.pulls().iter().filter(|pull| pull.head == BRANCH).count(), 1);
    }
}

#[test]
fn who_may_not_push_proposes_lessons_from_a_fork() {
    let github = github().user("rita", Role::Write).user(US, Role::Read);
    let world = TestWorld::new(github, fix())
        .set("PATCHWRIGHT_NOW", "2026-01-02T00:00:00Z")
        .set("PATCHWRIGHT_FORK", "auto");
    world.issue().expect(0);
    said(&world, world.github.pulls()[0].number);
    learn(&world, &[]).expect(0);
    let heads = world.github.change(|repository| {
        let heads = repository.pulls.values();
        heads.map(|pull| format!("{}:{}", pull.head_repository, pull.head)).collect::<Vec<_>>()
    });
    let expected = format!("{US}/app:{BRANCH}");
    assert_eq!(heads.iter().filter(|head| **head == expected).count(), 1, "{heads:?}");
    let upstream: Vec<String> = world.github.branches().into_iter().map(|(name, _)| name).collect();
    assert_eq!(upstream, ["main"]);
    let fork = world.github.git().path("patchwright-bot/app");
    assert!(git(&fork, &["show", &format!("{BRANCH}:{FILE}")]).contains(LESSON));
    // What it has read is known there, too, and the proposal is brought up to date.
    learn(&world, &[]).expect(10);
    world.github.pass(2 * super::DAY);
    let world = world.set("PATCHWRIGHT_NOW", "2026-01-05T00:00:00Z");
    let wish = "Please use long options from now on.";
    let number = world.github.pulls()[0].number;
    let comment = world.github.post_comment(number, "rita", wish);
    let long = lesson("Use long options in scripts.", &[format!("c{comment}")], wish);
    world.model.add([lessons(&[long])]);
    learn(&world, &[]).expect(0);
    let text = git(&fork, &["show", &format!("{BRANCH}:{FILE}")]);
    assert!(text.contains(LESSON) && text.contains("Use long options"), "{text}");
    assert_eq!(world.github.pulls().iter().filter(|pull| pull.head == BRANCH).count(), 1);
    // Without a fork it is said before anybody is asked.
    let world = world.set("PATCHWRIGHT_FORK", "off");
    world.github.post_comment(number, "rita", "Please never use eval from now on.");
    let asked = world.model.requests().len();
    let refused = learn(&world, &[]);
    assert_ne!(refused.code, 0, "{}", refused.text());
    assert_eq!(world.model.requests().len(), asked);
}

#[test]
fn a_replay_says_that_there_is_nothing_to_replay() {
    let (world, pull) = with_proposal(project(), Vec::new());
    said(&world, pull);
    learn(&world, &[]).expect(0);
    let run = run(&world).unwrap();
    let replayed = world.run(&["replay", &run.display().to_string()]).expect(2);
    assert!(replayed.stderr.contains("a run of `learn` calls no tools"), "{}", replayed.text());
    assert!(replayed.stderr.contains("hint: "), "{}", replayed.text());
}

#[test]
fn lessons_bring_no_commit_back_in_that_was_taken_back_meanwhile() {
    let (world, pull) = with_proposal(project(), Vec::new());
    let path = world.github.repository_path();
    let before = git(&path, &["rev-parse", "main"]);
    world.github.push("main", &[("other.txt", "new\n")]);
    said(&world, pull);
    let asked = world.model.requests().len();
    let slow = Kind::Delay(std::time::Duration::from_secs(4));
    world.github.fault(Fault::once("GET", "/compare/", slow));
    let child = world.spawn(&["learn", "acme/app"]);
    wait_for(|| world.model.requests().len() > asked);
    git(&path, &["update-ref", "refs/heads/main", before.trim()]);
    let output = world.wait(child);
    assert_eq!(output.code, 30, "{}", output.text());
    assert!(output.stderr.contains("`main` does not have the commit"), "{}", output.text());
    assert!(world.github.pulls().iter().all(|pull| pull.head != BRANCH));
    // The same command begins anew.
    world.model.add([lessons(&[lesson(LESSON, &["c1".to_owned()], WISH)])]);
    let output = learn(&world, &[]);
    assert!(!output.stderr.contains("does not have the commit"), "{}", output.text());
}
