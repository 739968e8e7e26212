//! Runs that are killed anywhere: the same command again pushes once and answers once.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{PULL, answers, conversation, with_pull};
use crate::resume::replies;
use crate::support::git_http::git;
use crate::support::world::{TestWorld, fix};

/// A world in which the command has been given, and the command.
fn asked() -> (TestWorld, String) {
    let world = TestWorld::new(with_pull(), fix());
    let comment = world.github.post_comment(PULL, "rita", "@patchwright fix the sign");
    let url = conversation(&world, PULL, comment);
    (world, url)
}

fn wait_for(mut reached: impl FnMut() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < Duration::from_mins(1), "nothing happens any more");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[track_caller]
fn settled(world: &TestWorld, when: &str) {
    let commits = git(&world.github.repository_path(), &["rev-list", "--count", "main..topic"]);
    assert_eq!(commits.trim(), "2", "{when}");
    let said = answers(world, PULL);
    assert_eq!(said.len(), 1, "{when}: {said:?}");
    assert!(said[0].starts_with("**Pushed [`"), "{when}: {said:?}");
}

/// The journal ends within a call.
fn is_in_a_call(world: &TestWorld) -> bool {
    let journal = world.result("journal.jsonl");
    let count = |is: &str| journal.matches(&format!("\"is\":\"{is}\"")).count();
    count("call_started") > count("call_ended")
}

#[test]
fn a_run_that_was_killed_after_any_line_of_its_journal_pushes_and_answers_once() {
    let (golden, url) = asked();
    golden.run(&["respond", &url]).expect(0);
    let lines = golden.result("journal.jsonl").lines().count();
    for line in (1..lines).step_by(2) {
        let (world, url) = asked();
        let mut child = world.spawn(&["respond", &url]);
        wait_for(|| {
            let journal = world.runs().first().map(|run| run.join("journal.jsonl"));
            let text = journal.and_then(|path| fs_err::read(path).ok()).unwrap_or_default();
            memchr::memchr_iter(b'\n', &text).count() >= line
        });
        child.kill().unwrap();
        world.wait(child);
        if world.result("journal.jsonl").contains("\"is\":\"run_ended\"") {
            continue;
        }
        // A call that was interrupted is not made again by us: the model has to.
        let interrupted = usize::from(is_in_a_call(&world));
        world.model.replace(fix().into_iter().skip(replies(&world) - interrupted));
        let output = world.run(&["respond", &url]);
        assert_eq!(output.code, 0, "killed after line {line}: {}", output.text());
        settled(&world, &format!("killed after line {line}"));
        // Also where the push had been made and not been told.
        let result: Value = serde_json::from_str(&world.result("result.json")).unwrap();
        assert_eq!(
            (&result["conclusion"], &result["published"]["pull_request"], &result["reason"]),
            (&"done".into(), &PULL.into(), &Value::Null),
            "killed after line {line}: {result}"
        );
    }
}

#[test]
fn a_run_that_was_killed_after_its_push_answers_on_a_machine_that_knows_nothing_of_it() {
    let (world, url) = asked();
    let mut child = world.spawn(&["respond", &url]);
    let before = world.github.head_of(PULL);
    wait_for(|| world.github.head_of(PULL) != before);
    child.kill().unwrap();
    world.wait(child);
    if answers(&world, PULL).is_empty() {
        fs_err::remove_dir_all(world.path("state")).unwrap();
        let asked = world.model.requests().len();
        world.run(&["respond", &url]).expect(0);
        assert_eq!(world.model.requests().len(), asked, "nothing is asked again");
    }
    settled(&world, "after the push");
}
