//! A campaign that is run night after night: what people merged meanwhile, limits that were changed, a process that
//! was killed.

use serde_json::{Value, json};

use crate::batch_run::{CAMPAIGN, batch, counted, fixed, repositories, states, within, write};
use crate::resume::wait_for;
use crate::support::model::{Turn, call, say};
use crate::support::world::TestWorld;

fn status(world: &TestWorld) -> Value {
    let output = world.run(&["batch", "status", "campaign.yml", "--json", "-q"]);
    serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{}", output.text()))
}

/// The work, and what is said when the model is asked once more, because nothing has changed or a check fails.
fn asked_again() -> Vec<Turn> {
    let more = (0..4).map(|_| say("Add instead of subtracting\n\nNothing more is to be changed."));
    fixed().into_iter().chain(more).collect()
}

#[test]
fn what_people_merged_is_not_worked_on_because_of_their_merge_and_stays_merged() {
    let world = within(repositories(1), vec![(1, asked_again())]);
    write(&world, &format!("{CAMPAIGN}repeat: when-moved\n"));
    assert_eq!(states(&batch(&world, &["run"]).expect(0)), counted(&[("open", 1)]));
    let of = world.github.of("acme/app-001");
    let number = of.pulls()[0].number;
    {
        let mut github = world.github.world();
        let place = github.place("acme/app-001").unwrap();
        github.sync_pulls();
        assert!(github.merge(place, number));
    }
    let asked = world.model.requests().len();
    let night = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&night), counted(&[("merged", 1)]), "{}", night.text());
    assert_eq!(world.model.requests().len(), asked, "a merge of ours is no news: {}", night.text());
    // Somebody else's commit is, and there is nothing to do for it.
    of.push("main", &[("more", "more")]);
    let night = batch(&world, &["run"]).expect(0);
    assert!(world.model.requests().len() > asked, "{}", night.text());
    assert_eq!(states(&night), counted(&[("merged", 1)]), "{}", night.text());
    let one = status(&world)["repositories"][0].clone();
    assert_eq!((&one["state"], &one["pull_request"]), (&json!("merged"), &json!(1)), "{one:#}");
    let why = one["reason"].as_str().unwrap_or_default();
    assert!(why.starts_with("#1 was merged, and nothing is to be added: "), "{one:#}");
    let again = world.model.requests().len();
    batch(&world, &["run"]).expect(0);
    assert_eq!(world.model.requests().len(), again);
}

#[test]
fn a_limit_that_was_changed_is_no_other_campaign() {
    let world = within(repositories(2), Vec::new());
    write(&world, &format!("{CAMPAIGN}agent:\n  max-turns: 1\n"));
    assert_eq!(states(&batch(&world, &["run"]).expect(20)), counted(&[("failed", 2)]));
    write(&world, &format!("{CAMPAIGN}agent:\n  max-turns: 20\n"));
    let plan = world.run(&["batch", "plan", "campaign.yml"]).expect(10);
    assert!(plan.stdout.contains("finished: 2"), "{}", plan.text());
    let hint = status(&world);
    assert_eq!(hint["classes"], json!({"budget": 2}), "{hint:#}");
    let retried = world.run(&["batch", "retry", "campaign.yml", "--class", "budget"]).expect(0);
    assert!(retried.stderr.contains("2 queued again"), "{}", retried.text());
    assert_eq!(states(&batch(&world, &["run"]).expect(0)), counted(&[("open", 2)]));
}

#[test]
fn a_run_that_was_killed_is_called_interrupted_until_it_is_resumed() {
    let slow = call("shell_command", json!({"command": "sleep 30"}));
    let turns = vec![slow, say("Nothing to do.")];
    let world = within(repositories(2), vec![(1, turns.clone()), (2, turns)]);
    let mut child = world.spawn(&["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex"]);
    wait_for(|| world.model.requests().len() >= 2);
    let running = world.run(&["batch", "status", "campaign.yml"]).expect(0);
    assert!(running.stdout.contains("2 running"), "{}", running.text());
    child.kill().unwrap();
    world.wait(child);
    let after = world.run(&["batch", "status", "campaign.yml"]).expect(20);
    assert!(after.stdout.contains("0/2 done · 2 interrupted · $"), "{}", after.text());
    assert!(after.stdout.contains("runs were interrupted, and nobody"), "{}", after.text());
    assert!(!after.stdout.contains("running"), "{}", after.text());
    let value = status(&world);
    assert_eq!((&value["interrupted"], &value["eta"]), (&json!(2), &Value::Null), "{value:#}");
    assert_eq!(value["repositories"][0]["seconds"], Value::Null, "{value:#}");
    // Another campaign in the same folder says nothing of them.
    let other = CAMPAIGN
        .replace("name: sums", "name: other")
        .replace("organizations: [acme]", "repositories: [acme/none]");
    world.write("other.yml", &other);
    let other = world.run(&["batch", "run", "other.yml", "--model", "gpt-5.3-codex"]);
    assert!(other.stderr.contains("1 skipped (acme/none: "), "{}", other.text());
    assert!(!other.text().contains("taken over"), "{}", other.text());
    let resumed = world.run(&["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex"]);
    let said = "2 interrupted runs are resumed: acme/app-001, acme/app-002";
    assert!(resumed.stderr.contains(said), "{}", resumed.text());
}

#[test]
fn a_pull_request_that_nothing_has_checked_and_a_draft_say_so_to_the_operator() {
    let world = within(repositories(2), Vec::new());
    let unchecked = CAMPAIGN.replace("verify: [sh test.sh]", "verify: [no-such-program]");
    let title = "environment: {setup: [\"no-such-setup\"]}\n";
    write(&world, &format!("{unchecked}{title}"));
    let output = world.run(&["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex"]);
    let said = "unchecked: no check could be run (setup failed: `no-such-setup`";
    assert!(output.stderr.contains(said), "{}", output.text());
    assert!(output.stdout.contains("2 pull requests are unchecked"), "{}", output.text());
    let one = status(&world)["repositories"][0].clone();
    assert!(one["reason"].as_str().unwrap_or_default().starts_with(said), "{one:#}");
    let world = within(repositories(1), vec![(1, asked_again())]);
    write(&world, &CAMPAIGN.replace("verify: [sh test.sh]", "verify: [\"false\"]"));
    let output = world.run(&["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex"]);
    let said = "draft: `false` still fails, as it did before the change";
    assert!(output.stderr.contains(said), "{}", output.text());
}
