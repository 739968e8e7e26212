//! The same command once more, from another person, on another machine, or when things have changed since.

use patchwright_forge::Role;
use serde_json::{Value, json};

use super::{PULL, answers, conversation, say_on_pull, with_pull};
use crate::action_pulls::told;
use crate::resume::{meanwhile, signalled, wait_for};
use crate::support::git_http::git;
use crate::support::github::{Fault, Kind};
use crate::support::model::{ModelServer, call, custom, say, stall, unauthorized};
use crate::support::world::{Output, PATCH, TestWorld, fix};

/// `rita` has asked for something on the pull request; the comment's address.
fn asked(world: &TestWorld, words: &str) -> String {
    let comment = world.github.post_comment(PULL, "rita", words);
    conversation(world, PULL, comment)
}

/// The command on another machine, which shares nothing with this one but GitHub.
fn elsewhere(world: &TestWorld, url: &str) -> Output {
    let mut command = world.command(&["respond", url]);
    let child = command.env("PATCHWRIGHT_STATE_DIR", world.path("elsewhere")).spawn().unwrap();
    world.wait(child)
}

#[track_caller]
fn is_stopped(world: &TestWorld, head: &str, asked: usize) {
    assert_eq!(world.github.head_of(PULL), head, "nothing is pushed");
    assert_eq!(world.model.requests().len(), asked, "nothing is asked");
    let said = answers(world, PULL);
    assert!(said.len() == 1 && said[0].starts_with("**Stopped.**"), "{said:?}");
}

#[test]
fn what_was_asked_before_a_stop_does_not_lift_it_when_it_comes_again() {
    let world = TestWorld::new(with_pull(), fix());
    let head = world.github.head_of(PULL);
    let url = asked(&world, "@patchwright fix the sign");
    let output = meanwhile(&world, &["respond", &url], || {
        say_on_pull(&world, "@patchwright stop").expect(0);
    });
    assert_eq!(output.code, 10, "{}", output.text());
    let requests = world.model.requests().len();
    for _ in 0..2 {
        let output = world.run(&["respond", &url]).expect(10);
        assert!(output.text().contains("said stop here after this was asked"), "{}", output.text());
        is_stopped(&world, &head, requests);
    }
    // What is asked after it does.
    world.model.replace(fix());
    say_on_pull(&world, "@patchwright fix the sign").expect(0);
    assert_ne!(world.github.head_of(PULL), head);
}

#[test]
fn a_killed_command_is_not_resumed_against_a_stop() {
    let world = TestWorld::new(with_pull(), vec![custom("apply_patch", PATCH), stall()]);
    let head = world.github.head_of(PULL);
    let url = asked(&world, "@patchwright fix the sign");
    let mut child = world.spawn(&["respond", &url]);
    wait_for(|| world.model.requests().len() == 2);
    child.kill().unwrap();
    world.wait(child);
    say_on_pull(&world, "@patchwright stop").expect(0);
    let requests = world.model.requests().len();
    world.run(&["respond", &url]).expect(10);
    is_stopped(&world, &head, requests);
}

#[test]
fn an_issue_that_was_labeled_before_a_stop_is_not_worked_on_when_that_comes_again() {
    let github = super::project().issue("acme/app", 7, "add subtracts", "`add 2 2` prints 0.");
    let world = TestWorld::new(github.by("rita"), vec![custom("apply_patch", PATCH)]);
    world.model.add([unauthorized()]);
    let event = world.github.issue_event("acme/app", 7, Some("patchwright"), "rita");
    let world = told(world, &event);
    world.run(&["action"]).expect(50);
    super::comment_on(&world, 7, "rita", "@patchwright stop").expect(0);
    let before = (world.model.requests().len(), world.github.pulls().len());
    let output = world.run(&["action"]).expect(0);
    assert!(output.text().contains("said stop on issue #7 after"), "{}", output.text());
    assert_eq!((world.model.requests().len(), world.github.pulls().len()), before);
}

#[test]
fn a_killed_command_is_resumed_whoever_starts_its_job_again() {
    let github = with_pull().user("otto", Role::Write);
    let world = TestWorld::new(github, vec![custom("apply_patch", PATCH), unauthorized()]);
    let comment = world.github.post_comment(PULL, "rita", "@patchwright fix the sign");
    let event = world.github.issue_comment_event(comment);
    let world = told(world, &event);
    world.run(&["action"]).expect(50);
    world.model.replace([say("Add instead of subtracting\n\nDone.")]);
    let world = world.set("GITHUB_TRIGGERING_ACTOR", "otto");
    let output = world.run(&["action"]).expect(0);
    assert_eq!(world.runs().len(), 1, "{}", output.text());
    assert_eq!(world.model.requests().len(), 3, "{}", output.text());
    let said = answers(&world, PULL).pop().unwrap();
    assert!(said.starts_with("**Pushed [`"), "{said}");
}

#[test]
fn a_command_whose_comment_says_the_same_after_an_edit_is_resumed_and_other_words_are_other_work() {
    for (edited, runs) in [("@patchwright fix the sign", 1), ("@patchwright fix the README", 2)] {
        let turns = vec![custom("apply_patch", PATCH), unauthorized()];
        let world = TestWorld::new(with_pull(), turns);
        let comment = world.github.post_comment(PULL, "rita", "@patchwright fix the sign");
        let url = conversation(&world, PULL, comment);
        world.run(&["respond", &url]).expect(50);
        world.github.edit_comment(comment, edited);
        world.model.replace(if runs == 1 { vec![say("Add it\n\nDone.")] } else { fix() });
        world.run(&["respond", &url]).expect(0);
        assert_eq!(world.runs().len(), runs, "{edited}");
    }
}

#[test]
fn what_had_landed_before_the_pull_request_was_ended_is_the_answer() {
    type End = fn(&TestWorld);
    let ends: [(&str, End); 3] = [
        ("merged", |world| world.github.merge(PULL)),
        ("closed", |world| world.github.set_open(PULL, false)),
        ("locked", |world| world.github.set_locked(PULL, true)),
    ];
    for (how, end) in ends {
        for has_state in [true, false] {
            let world = TestWorld::new(with_pull(), fix());
            let url = asked(&world, "@patchwright fix the sign");
            let answering = Fault::once("POST", "/issues/8/comments", Kind::ErrorBefore(500));
            world.github.fault(answering.times(1000));
            let output = world.run(&["respond", &url]);
            assert_eq!(output.code, 60, "{how}: {}", output.text());
            world.github.world().faults.clear();
            end(&world);
            let output =
                if has_state { world.run(&["respond", &url]) } else { elsewhere(&world, &url) };
            assert_eq!(output.code, 0, "{how}: {}", output.text());
            assert!(output.stdout.to_lowercase().contains("pushed "), "{how}: {}", output.text());
            assert_eq!(world.model.requests().len(), 5, "{how}");
            let said = answers(&world, PULL);
            let is_said = said.iter().any(|said| said.starts_with("**Pushed [`"));
            assert_eq!(is_said, how != "locked", "{how}: {said:?}");
        }
    }
}

#[test]
fn what_another_machine_has_answered_meanwhile_is_not_resumed() {
    let world = TestWorld::new(with_pull(), vec![custom("apply_patch", PATCH), unauthorized()]);
    let url = asked(&world, "@patchwright fix the sign");
    world.run(&["respond", &url]).expect(50);
    world.model.replace(fix());
    elsewhere(&world, &url).expect(0);
    let (requests, head) = (world.model.requests().len(), world.github.head_of(PULL));
    for _ in 0..2 {
        let output = world.run(&["respond", &url]).expect(10);
        assert!(output.stderr.contains("answered already"), "{}", output.text());
    }
    assert_eq!(world.model.requests().len(), requests, "nothing is asked again");
    assert_eq!(world.github.head_of(PULL), head);
}

#[test]
fn a_description_that_was_written_before_its_answer_names_the_title_that_was_there() {
    const WRITTEN: &str = "Say that it adds\n\nThe README says what the program does.";
    for is_merged in [false, true] {
        let world = TestWorld::new(with_pull().body("Fixes #7."), vec![say(WRITTEN)]);
        let url = asked(&world, "@patchwright describe this PR");
        let answering = Fault::once("POST", "/issues/8/comments", Kind::ErrorBefore(500));
        world.github.fault(answering.times(1000));
        let output = world.run(&["respond", &url]);
        assert_eq!(output.code, 60, "{}", output.text());
        world.github.world().faults.clear();
        let written = world.github.pulls().remove(0).body;
        if is_merged {
            world.github.merge(PULL);
        }
        world.run(&["respond", &url]).expect(0);
        let said = answers(&world, PULL).pop().unwrap();
        assert!(said.contains("The title was `Say more`."), "{said}");
        assert_eq!(world.github.pulls().remove(0).body, written);
        assert_eq!(world.model.requests().len(), 1);
    }
}

#[test]
fn a_stop_that_was_lifted_does_not_count_when_it_comes_again() {
    let world = TestWorld::new(with_pull(), Vec::new());
    let stop = asked(&world, "@patchwright stop");
    world.run(&["respond", &stop]).expect(0);
    let head = world.github.head_of(PULL);
    world.model.add(fix());
    let fixing = asked(&world, "@patchwright fix the sign");
    let output = meanwhile_of(&world, &fixing, || {
        let output = world.run(&["respond", &stop]).expect(10);
        assert!(output.text().contains("this was said before, and heard"), "{}", output.text());
    });
    assert_eq!(output.code, 0, "{}", output.text());
    assert_ne!(world.github.head_of(PULL), head);
    // One that is said later does.
    say_on_pull(&world, "@patchwright stop").expect(0);
    assert!(answers(&world, PULL)[0].starts_with("**Stopped.**"));
}

/// Carries out a command, and does something when its model works on it.
fn meanwhile_of(world: &TestWorld, url: &str, change: impl FnOnce()) -> Output {
    let asked = world.model.requests().len();
    let child = world.spawn(&["respond", url]);
    wait_for(|| world.model.requests().len() > asked);
    change();
    world.wait(child)
}

/// What the journal knows to be pushed is said, whatever has become of it since.
#[test]
fn what_was_pushed_before_its_answer_is_said_and_not_pushed_again() {
    type Change = fn(&TestWorld, &str);
    let changes: [(&str, Change); 3] = [
        ("dropped", |world, before| {
            git(&world.github.repository_path(), &["update-ref", "refs/heads/topic", before]);
        }),
        ("pushed over", |world, before| {
            git(&world.github.repository_path(), &["update-ref", "refs/heads/topic", before]);
            world.github.push("topic", &[("calc.sh", "echo another\n")]);
        }),
        ("merged", |world, _| world.github.merge(PULL)),
    ];
    for (how, change) in changes {
        let world = TestWorld::new(with_pull(), fix());
        let before = world.github.head_of(PULL);
        let url = asked(&world, "@patchwright fix the sign");
        let answering = Fault::once("POST", "/issues/8/comments", Kind::ErrorBefore(500));
        world.github.fault(answering.times(1000));
        assert_eq!(world.run(&["respond", &url]).code, 60, "{how}");
        world.github.world().faults.clear();
        let pushed = world.github.head_of(PULL);
        change(&world, &before);
        let tip = git(&world.github.repository_path(), &["rev-parse", "topic"]);
        let output = world.run(&["respond", &url]);
        assert_eq!(output.code, 0, "{how}: {}", output.text());
        assert_eq!(git(&world.github.repository_path(), &["rev-parse", "topic"]), tip, "{how}");
        let said = answers(&world, PULL).pop().unwrap();
        assert!(said.starts_with(&format!("**Pushed [`{}`]", &pushed[..10])), "{how}: {said}");
        assert_eq!(world.model.requests().len(), 5, "{how}");
    }
}

#[test]
fn a_review_that_was_posted_before_its_answer_is_answered_as_such() {
    let world = TestWorld::new(with_pull(), vec![say("Looks fine.")]);
    let url = asked(&world, "@patchwright review");
    let child = world.spawn(&["respond", &url]);
    // What the review says of itself is there by then.
    wait_for(|| !world.model.requests().is_empty());
    let answering = Fault::once("POST", "/issues/8/comments", Kind::ErrorBefore(500));
    world.github.fault(answering.times(1000));
    let output = world.wait(child);
    assert_eq!(output.code, 60, "{}", output.text());
    world.github.world().faults.clear();
    world.run(&["respond", &url]).expect(0);
    let said = answers(&world, PULL).pop().unwrap();
    assert!(said.contains("eviewed") && !said.contains("Nothing to review"), "{said}");
    assert_eq!(world.model.requests().len(), 1);
}

#[test]
fn a_signal_ends_a_run_whose_answer_is_not_taken() {
    // At the pace of people: the waits between its tries are long.
    let world =
        TestWorld::new(with_pull(), vec![say("It subtracts.")]).set("PATCHWRIGHT_TIME_SCALE", "1");
    let url = asked(&world, "@patchwright does it add?");
    let answering = Fault::once("POST", "/issues/8/comments", Kind::ErrorBefore(502));
    world.github.fault(answering.times(1000));
    let child = world.spawn(&["respond", &url]);
    let tried = |world: &TestWorld| 1000 - world.github.world().faults[0].times;
    wait_for(|| tried(&world) > 0);
    let output = signalled(&world, child, "INT");
    assert_eq!(output.code, 130, "{}", output.text());
    assert!(tried(&world) < 4, "it did not try to the end");
    let conclusion = || {
        let result: Value = serde_json::from_str(&world.result("result.json")).unwrap();
        result["conclusion"].as_str().unwrap().to_owned()
    };
    assert_eq!(conclusion(), "interrupted");
    world.github.world().faults.clear();
    world.run(&["respond", &url]).expect(0);
    assert_eq!(conclusion(), "done");
    assert_eq!((answers(&world, PULL).len(), world.model.requests().len()), (1, 1));
}

/// GitHub tells two machines of one comment, and neither sees the other begin.
#[test]
fn one_command_on_two_machines_is_pushed_once_and_answered_once() {
    let slow = || vec![call("shell_command", json!({"command": "sleep 5"}))];
    let model = ModelServer::conversations(move |_| [slow(), fix()].concat());
    let world = TestWorld::asking(with_pull(), model);
    let head = world.github.head_of(PULL);
    let url = asked(&world, "@patchwright fix the sign");
    let first = meanwhile(&world, &["respond", &url], || {
        elsewhere(&world, &url);
    });
    assert_eq!(first.code, 0, "{}", first.text());
    assert_eq!(answers(&world, PULL).len(), 1);
    let path = world.github.repository_path();
    assert_eq!(git(&path, &["rev-list", "--count", &format!("{head}..topic")]).trim(), "1");
}
