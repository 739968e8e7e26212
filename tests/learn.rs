//! What maintainers corrected becomes a file of lessons: collected from GitHub, put into words by a model, proposed
//! by one pull request, merged by a person, and read by the next run from the base branch alone.

use serde_json::{Value, json};

use patchwright_forge::Role;

use crate::support::github::GitHub;
use crate::support::model::{Turn, say};
use crate::support::world::{Output, TestWorld, fix, github};

const FILE: &str = ".github/patchwright-memory.md";
const BRANCH: &str = "patchwright/memory";
const DAY: i64 = 24 * 60 * 60;
/// What `rita` says on the pull request, and the lesson that comes of it.
const WISH: &str = "Please always quote variables in shell scripts from now on.";
const LESSON: &str = "Quote variables in shell scripts, as in `\"$1\"`.";

/// `rita` may write, `mallory` may not.
fn project() -> GitHub {
    github().user("rita", Role::Write).user("mallory", Role::Read)
}

/// A world in which we have opened a pull request; its number. It is early in the year of the comments there.
fn with_proposal(github: GitHub, turns: Vec<Turn>) -> (TestWorld, u64) {
    let world = TestWorld::new(github, fix()).set("PATCHWRIGHT_NOW", "2026-01-02T00:00:00Z");
    world.issue().expect(0);
    let number = world.github.pulls()[0].number;
    world.model.add(turns);
    (world, number)
}

/// A reply with lessons.
fn lessons(all: &[Value]) -> Turn {
    say(&json!({ "lessons": all }).to_string())
}

fn lesson(text: &str, sources: &[String], wish: &str) -> Value {
    json!({ "text": text, "sources": sources, "wish": wish, "replaces": [] })
}

fn learn(world: &TestWorld, more: &[&str]) -> Output {
    world.run(&[&["learn", "acme/app"], more].concat())
}

/// A file on a branch; empty without it.
fn file(world: &TestWorld, branch: &str) -> String {
    let path = world.github.repository_path();
    let found = crate::support::git_quick::object(&path, &format!("refs/heads/{branch}:{FILE}"));
    found.map(|found| String::from_utf8(found.content).unwrap()).unwrap_or_default()
}

/// What the model was sent last.
fn asked(world: &TestWorld) -> String {
    String::from_utf8(world.model.requests().pop().unwrap().raw).unwrap()
}

#[test]
fn what_a_maintainer_asked_for_is_proposed_merged_and_read_by_the_next_run() {
    let (world, pull) = with_proposal(project(), Vec::new());
    let comment = world.github.comment_on_line("rita", pull, "calc.sh", 2, WISH);
    world.model.add([lessons(&[lesson(LESSON, &[format!("d{comment}")], WISH)])]);
    let learned = learn(&world, &[]).expect(0);
    assert!(learned.stdout.contains(LESSON), "{}", learned.text());
    let proposal = world.github.pulls().into_iter().find(|pull| pull.head == BRANCH).unwrap();
    assert_eq!(proposal.base, "main");
    assert!(proposal.body.contains("read each line before you merge"), "{}", proposal.body);
    let url = format!("{}/acme/app/pull/{pull}#discussion_r{comment}", world.github.server_url());
    assert!(file(&world, BRANCH).ends_with(&format!("\n\n- {LESSON} ([#{pull}]({url}))\n")));
    assert_eq!(file(&world, "main"), "");
    let said = asked(&world);
    assert!(said.contains("always quote variables") && said.contains("calc.sh"), "{said}");

    world.github.merge(proposal.number);
    world.github.merge(pull);
    assert!(file(&world, "main").contains(LESSON));
    world.model.add([say("Nothing is left to do.")]);
    world.run(&["exec", "--repo", &world.github.repository_path().display().to_string(), "Look."]).expect(0);
    let told = asked(&world);
    assert!(told.contains("# patchwright-memory.md instructions for"), "{told}");
    assert!(told.contains("Quote variables in shell scripts"), "{told}");
    assert!(!told.contains("discussion_r"), "links lead where a run cannot go: {told}");
}
