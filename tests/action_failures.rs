//! What a job says that fails, or has nothing to do: whoever set it off reads its page, and no terminal.

use patchwright_forge::Role;
use serde_json::json;

use crate::action::{event, labeled, outputs};
use crate::support::git_http::{Fault, Step};
use crate::support::model::say;
use crate::support::world::{TestWorld, github};

fn summary(world: &TestWorld) -> String {
    world.tidy(&fs_err::read_to_string(world.path("summary")).unwrap())
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn work_that_could_not_be_pushed_is_in_outputs_and_summary_and_the_next_step_is_said() {
    let world = labeled(github().user("ann", Role::Write), "ann", "patchwright");
    let words = "remote: Permission to acme/app.git denied to test.";
    world.github.git().fault(Step::Push, Fault::Answer(403, Vec::new(), words.to_owned()));
    let output = world.run(&["action"]).expect(60);
    has(
        &outputs(&world),
        &[
            "conclusion = forge_error\n",
            "checks = passed\n",
            "final-message = Add instead of subtracting",
            "patch-file = DIR/state/runs/RUN/change.patch\n",
            "journal-file = DIR/state/runs/RUN/journal.jsonl\n",
            "report-file = DIR/state/runs/RUN/report.html\n",
            "cost-usd = 0.0075\n",
        ],
    );
    let next = "the work is done and kept: once that is put right, set the label again, or run the job again";
    has(&summary(&world), &["cannot push to", next, "### Evidence", "`sh ./test.sh`", "### Cost"]);
    let comment = world.github.comments(7)[0].body.clone();
    has(&comment, &["cannot push to", next]);
    let annotation = output.stdout.lines().find(|line| line.starts_with("::error ")).unwrap();
    assert!(annotation.ends_with("%0Ahint: give the token `contents: write`"), "{annotation}");
}

#[test]
fn a_branch_that_was_pushed_is_named_though_its_pull_request_could_not_be_opened() {
    let github = github().user("ann", Role::Write).actions_token();
    let world = labeled(github, "ann", "patchwright");
    world.github.change(|repository| repository.actions_may_open_pulls = false);
    world.run(&["action"]).expect(60);
    let said = outputs(&world);
    has(&said, &["branch = patchwright/issue-7\n", "checks = passed\n", "patch-file = "]);
    assert!(!said.contains("pull-request-"), "{said}");
}

#[test]
fn what_can_be_done_about_nothing_to_do_is_said_in_the_log_and_the_summary() {
    let world = labeled(github().user("ann", Role::Write), "ann", "patchwright");
    world.github.change(|repository| repository.issues.get_mut(&7).unwrap().locked = true);
    let output = world.run(&["action"]).expect(0);
    has(&output.stderr, &["nothing to do: ", "\nhint: unlock the conversation"]);
    has(&summary(&world), &["had nothing to do: ", "\n- unlock the conversation"]);
}

#[test]
fn a_base_that_is_not_there_is_named_with_its_cause_in_the_annotation() {
    let world = labeled(github().user("ann", Role::Write), "ann", "patchwright");
    let world = world.set("INPUT_BASE", "trunk");
    let output = world.run(&["action"]).expect(60);
    let annotation = output.stdout.lines().find(|line| line.starts_with("::error ")).unwrap();
    has(annotation, &["cannot fetch `acme/app`", "%0Acause: `trunk`", "was not found"]);
}

#[test]
fn an_event_that_asks_nothing_is_told_with_the_inputs_that_would_make_it_ask() {
    let payload = json!({"schedule": "41 4 * * 1", "repository": {"full_name": "acme/app"}});
    let world = event(github(), "schedule", &payload).set("GITHUB_ACTOR", "ann");
    world.model.replace(vec![say("x")]);
    let output = world.run(&["action"]).expect(0);
    let hint = "hint: on this event the Action does what its inputs say: give it `prompt`, `prompt-file` or `learn`";
    has(&output.stderr, &["nothing to do: event `schedule` sets nothing off", hint]);
    has(&output.stdout, &["::warning title=Patchwright::event `schedule` sets nothing off"]);
    has(&summary(&world), &["`prompt-file`"]);
}
