//! Titles: told to the model, asked for once more, mended, or refused.

use super::{BRANCH, ending, shown};
use crate::resume::{replies, rest};
use crate::support::model::say;
use crate::support::world::{FILES, TestWorld, github, github_with};

fn titled(turns: Vec<crate::support::model::Turn>, patterns: &str) -> TestWorld {
    TestWorld::new(github(), turns).set("PATCHWRIGHT_TITLE_PATTERN", patterns)
}

fn titles(world: &TestWorld) -> (String, String) {
    (world.github.pulls()[0].title.clone(), shown(world, BRANCH, "%s"))
}

fn both(title: &str) -> (String, String) {
    (title.to_owned(), title.to_owned())
}

#[test]
fn the_model_is_told_and_its_title_is_taken() {
    let title = "fix(calc)!: add instead of subtracting.";
    let world = titled(ending(&format!("{title}\n\nThe sign was wrong.")), "conventional");
    world.issue().expect(0);
    assert_eq!(titles(&world), both(title));
    let first = String::from_utf8_lossy(&world.model.requests()[0].raw).into_owned();
    assert!(first.contains("it follows Conventional Commits"), "{first}");
    assert_eq!(world.model.requests().len(), 5);
    // What became the title does not stand in the text again.
    let body = world.github.pulls()[0].body.clone();
    assert!(!body.contains("add instead") && body.contains("The sign was wrong."), "{body}");
}

#[test]
fn the_model_may_mend_its_title_once() {
    for (again, body) in [
        ("fix: add the numbers", "The sign was wrong."),
        ("fix: add the numbers\n\nIt was a minus.", "It was a minus."),
    ] {
        let mut turns = ending("Add the numbers\n\nThe sign was wrong.");
        turns.push(say(again));
        let world = titled(turns, "conventional");
        let output = world.issue().expect(0);
        assert!(output.stderr.contains("asking the model for another title"), "{}", output.text());
        assert_eq!(titles(&world), both("fix: add the numbers"));
        assert!(world.github.pulls()[0].body.contains(body), "{}", world.github.pulls()[0].body);
        assert_eq!(world.model.requests().len(), 6);
    }
}

#[test]
fn a_title_that_is_wrong_twice_is_mended_for_it() {
    for (pattern, title) in [
        ("conventional", "fix: add the numbers"),
        ("prefix:[calc] ", "[calc] Add the numbers"),
        ("regex:^docs: [a-z]", "docs: add the numbers"),
        ("prefix:CALC: \nregex:^.{5,30}$", "CALC: Add the numbers"),
    ] {
        let mut turns = ending("Add the numbers\n\nThe sign was wrong.");
        turns.push(say("Add the numbers"));
        let world = titled(turns, pattern);
        world.issue().expect(0);
        assert_eq!(titles(&world), both(title), "{pattern}");
        assert!(world.github.pulls()[0].body.contains("The sign was wrong."));
    }
}

#[test]
fn a_title_that_cannot_be_made_is_refused_and_the_change_kept() {
    let mut turns = ending("Add the numbers\n\nThe sign was wrong.");
    turns.push(say("Add all of the numbers"));
    let world = titled(turns, "regex:^CALC-[0-9]+: ");
    let output = world.issue().expect(30);
    let said = "no title could be found that is as the repository wants it";
    assert!(output.stderr.contains(said) && output.stderr.contains("^CALC-"), "{}", output.text());
    assert!(world.result("change.patch").contains("calc.sh"));
    assert_eq!(world.github.pulls().len(), 0);
    assert_eq!(world.github.branches().len(), 1);
    assert!(world.github.comments(7)[0].body.contains("no title could be found"));
}

#[test]
fn a_repository_adds_to_the_patterns() {
    let wish = (".github/patchwright.yml", "policy: {titles: ['regex:numbers$']}\n");
    let github = github_with(&[FILES, &[wish]].concat());
    let turns = ending("fix: add the numbers\n\nThe sign was wrong.");
    let world = TestWorld::new(github, turns).set("PATCHWRIGHT_TITLE_PATTERN", "conventional");
    world.issue().expect(0);
    assert_eq!(titles(&world), both("fix: add the numbers"));
}

/// The question is asked once also when the run is killed around it.
#[test]
fn a_run_that_is_killed_around_the_question_comes_to_the_same_title() {
    let turns = || {
        let mut turns = ending("Add the numbers\n\nThe sign was wrong.");
        turns.push(say("fix: add the numbers"));
        turns
    };
    let golden = titled(turns(), "conventional");
    golden.issue().expect(0);
    let journal = golden.result("journal.jsonl");
    let asked = journal.lines().position(|line| line.contains("title asked")).unwrap();
    for line in asked..asked + 6 {
        let world = titled(turns(), "conventional");
        crate::resume::kill_at(&world, line);
        if !world.result("journal.jsonl").contains("\"is\":\"run_ended\"") {
            assert!(world.model.requests().len() - replies(&world) <= 1);
            world.model.replace(rest(&world, turns()));
            world.issue().expect(0);
        }
        assert_eq!(titles(&world), both("fix: add the numbers"), "killed after {line}");
        let body = world.github.pulls()[0].body.clone();
        assert!(body.contains("The sign was wrong."), "killed after {line}: {body}");
    }
}
