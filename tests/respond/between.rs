//! Work on an issue that was not brought to its end, and what somebody else asks for then: no words are answered that
//! no model has heard, and nothing that is paid for is made again.

use super::{answers, comment_on, conversation, project};
use crate::resume::wait_for;
use crate::support::git_http::git;
use crate::support::github::{Fault, GitHub, Kind};
use crate::support::model::{Turn, custom, say, unauthorized};
use crate::support::world::{PATCH, TestWorld, fix};

const ISSUE: u64 = 7;
const README: &str =
    "*** Begin Patch\n*** Update File: README.md\n@@\n-# calc\n+# calc in feet\n*** End Patch\n";
const IN_FEET: &str = "@patchwright fix the README, which has to say FEET";
/// Before words that meet work which has begun.
const MEANWHILE: &str = "This was asked after the work had begun";

fn issue() -> GitHub {
    project().issue("acme/app", ISSUE, "add subtracts", "`add 2 2` prints 0.").by("rita")
}

/// The journals of the runs that work on the issue itself.
fn of_issue(world: &TestWorld) -> Vec<String> {
    let journals = world.runs().into_iter().map(|run| run.join("journal.jsonl"));
    let texts = journals.map(|path| fs_err::read_to_string(path).unwrap_or_default());
    texts.filter(|text| text.contains("\"kind\":{\"kind\":\"issue\"")).collect()
}

/// What the model was sent last.
fn last_told(world: &TestWorld) -> String {
    let requests = world.model.requests();
    String::from_utf8_lossy(&requests.last().unwrap().raw).into_owned()
}

/// Replaces the sign and the title.
fn in_feet() -> Vec<Turn> {
    vec![
        custom("apply_patch", README),
        say("Add in feet\n\nThe sign in `calc.sh` was wrong, and the README says feet."),
    ]
}

#[track_caller]
fn is_done_in_feet(world: &TestWorld, when: &str) {
    let journals = of_issue(world);
    assert_eq!(journals.len(), 1, "{when}: what was paid for is resumed");
    assert_eq!(journals[0].matches("\"is\":\"prompted\"").count(), 1, "{when}");
    let told = last_told(world);
    assert!(told.contains(MEANWHILE) && told.contains("which has to say FEET"), "{when}: {told}");
    let path = world.github.repository_path();
    let show = |file: &str| git(&path, &["show", &format!("patchwright/issue-7:{file}")]);
    assert!(show("calc.sh").contains("$1 + $2"), "{when}");
    assert!(show("README.md").contains("in feet"), "{when}");
    assert_eq!(world.github.pulls().len(), 1, "{when}");
    assert!(answers(world, ISSUE).last().unwrap().contains("**Pull request: #8**"), "{when}");
}

/// An account whose key does not work any more ends a run so that it is resumed.
fn interrupted(begun: Vec<Turn>) -> Vec<Turn> {
    begun.into_iter().chain([unauthorized()]).collect()
}

#[test]
fn words_that_meet_unfinished_work_are_told_to_its_model() {
    let world = TestWorld::new(issue(), interrupted(vec![custom("apply_patch", PATCH)]));
    comment_on(&world, ISSUE, "rita", "@patchwright fix the sign").expect(50);
    world.model.replace(in_feet());
    comment_on(&world, ISSUE, "rita", IN_FEET).expect(0);
    is_done_in_feet(&world, "after a comment");
}

#[test]
fn words_that_meet_unfinished_work_of_a_label_are_told_to_its_model() {
    let world = TestWorld::new(issue(), interrupted(vec![custom("apply_patch", PATCH)]));
    world.issue().expect(50);
    world.model.replace(in_feet());
    comment_on(&world, ISSUE, "rita", IN_FEET).expect(0);
    is_done_in_feet(&world, "after a label");
}

/// The model had finished, the checks had run, and nothing could be published.
#[test]
fn words_that_meet_work_that_was_finished_and_not_published_are_told_to_its_model() {
    let world = TestWorld::new(issue(), fix());
    world.github.fault(Fault::once("POST", "/pulls", Kind::ErrorBefore(500)).times(1000));
    let output = comment_on(&world, ISSUE, "rita", "@patchwright fix the sign");
    assert_eq!(output.code, 60, "{}", output.text());
    world.github.world().faults.clear();
    world.model.replace(in_feet());
    comment_on(&world, ISSUE, "rita", IN_FEET).expect(0);
    is_done_in_feet(&world, "after a refusal");
    // The checks have run on what came of it, too.
    let journal = of_issue(&world).remove(0);
    let checked = "\"is\":\"checked\",\"when\":\"loop\"";
    assert_eq!(journal.matches(checked).count(), 2, "{journal}");
}

#[test]
fn the_same_words_and_none_resume_without_another_word() {
    let world = TestWorld::new(issue(), interrupted(vec![custom("apply_patch", PATCH)]));
    let comment = world.github.post_comment(ISSUE, "rita", "@patchwright fix the sign");
    let url = conversation(&world, ISSUE, comment);
    world.run(&["respond", &url]).expect(50);
    world.model.replace([unauthorized()]);
    world.issue().expect(50);
    world.model.replace([say("Add instead of subtracting\n\nDone.")]);
    world.run(&["respond", &url]).expect(0);
    assert_eq!(of_issue(&world).len(), 1);
    assert!(!world.told().contains(MEANWHILE), "{}", last_told(&world));
    assert_eq!(world.github.pulls().len(), 1);
}

/// What several attempts have made is not changed any more.
#[test]
fn words_that_meet_unfinished_attempts_begin_anew() {
    let world = TestWorld::new(issue(), interrupted(vec![custom("apply_patch", PATCH)]))
        .set("PATCHWRIGHT_ATTEMPTS", "2")
        .set("PATCHWRIGHT_ATTEMPTS_AT_ONCE", "1");
    world.model.add([unauthorized()]);
    comment_on(&world, ISSUE, "rita", "@patchwright fix the sign").expect(50);
    world.model.replace(fix());
    world.model.add(fix());
    let output = comment_on(&world, ISSUE, "rita", IN_FEET).expect(0);
    assert!(
        output.stderr.contains("its attempts do not know all of what is asked for by now"),
        "{}",
        output.text()
    );
    assert!(last_told(&world).contains("which has to say FEET"));
    assert_eq!(of_issue(&world).len(), 2);
}

/// Once it has been begun, the answer is all that is missing.
#[test]
fn work_on_an_issue_that_had_ended_before_its_answer_is_answered_and_not_made_again() {
    let world = TestWorld::new(issue(), fix());
    let comment = world.github.post_comment(ISSUE, "rita", "@patchwright fix the sign");
    let url = conversation(&world, ISSUE, comment);
    let child = world.spawn(&["respond", &url]);
    // The comment that says how it goes is there by then.
    wait_for(|| !world.model.requests().is_empty());
    let answering = Fault::once("POST", "/issues/7/comments", Kind::ErrorBefore(500));
    world.github.fault(answering.times(1000));
    let output = world.wait(child);
    assert_eq!((output.code, world.github.pulls().len()), (60, 1), "{}", output.text());
    world.github.world().faults.clear();
    world.run(&["respond", &url]).expect(0);
    assert_eq!(world.model.requests().len(), 5, "nothing is paid for again");
    let said = answers(&world, ISSUE).pop().unwrap();
    assert!(said.contains("**Pull request: #8**") && said.contains("answer-comment"), "{said}");
    assert_eq!((of_issue(&world).len(), world.github.pulls().len()), (1, 1));
}

#[test]
fn a_command_that_finds_the_issue_taken_is_carried_out_when_it_is_repeated() {
    for elsewhere in [false, true] {
        let world = TestWorld::new(issue(), fix()).set("PATCHWRIGHT_NOW", "2026-01-01T00:01:00Z");
        let first = world.github.post_comment(ISSUE, "rita", "@patchwright fix the sign");
        let first = world.spawn(&["respond", &conversation(&world, ISSUE, first)]);
        wait_for(|| !world.model.requests().is_empty());
        let second = world.github.post_comment(ISSUE, "rita", IN_FEET);
        let url = conversation(&world, ISSUE, second);
        let again = || {
            let mut command = world.command(&["respond", &url]);
            if elsewhere {
                command.env("PATCHWRIGHT_STATE_DIR", world.path("elsewhere"));
            }
            world.wait(command.spawn().unwrap())
        };
        let refused = again().expect(10);
        assert!(refused.stderr.contains("another run is already working"), "{}", refused.text());
        world.wait(first).expect(0);
        world.model.replace(fix());
        again().expect(0);
        assert!(last_told(&world).contains("which has to say FEET"));
        let said = answers(&world, ISSUE).join("\n");
        assert!(said.contains(&format!("patchwright:answer-comment-{second} ")), "{said}");
    }
}
