//! A campaign that is run night after night: what people merged meanwhile, limits that were changed, a process that
//! was killed.

use patchwright_forge::Role;
use serde_json::{Value, json};

use crate::batch_run::{
    CAMPAIGN, batch, counted, fixed, pulls, repositories, shell, states, within, write, writes,
};
use crate::resume::wait_for;
use crate::support::github::{Fault, Kind};
use crate::support::model::{Turn, call, custom, say};
use crate::support::world::{PATCH, TestWorld};

fn status(world: &TestWorld) -> Value {
    let output = world.run(&["batch", "status", "campaign.yml", "--json", "-q"]);
    serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{}", output.text()))
}

/// The campaign's page.
fn shown(world: &TestWorld) -> String {
    let id = status(world)["id"].as_str().unwrap().to_owned();
    fs_err::read_to_string(world.path(&format!("state/campaigns/{id}.html"))).unwrap()
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
    assert_eq!((&one["checks"], &one["setup_failed"]), (&json!("none"), &json!(true)), "{one:#}");
    let said = "setup failed in 2 of 2 repositories; with what it needs, `patchwright batch retry ";
    assert!(output.stdout.contains(said), "{}", output.text());
    // With what was missing, they are worked on anew, in the same pull requests.
    let asked = world.model.requests().len();
    let retried = world.run(&["batch", "retry", "campaign.yml", "--setup-failed"]).expect(0);
    assert!(retried.stderr.contains("2 queued again"), "{}", retried.text());
    assert_eq!(states(&batch(&world, &["run"]).expect(0)), counted(&[("open", 2)]));
    assert!(world.model.requests().len() > asked);
    assert_eq!(pulls(&world).len(), 2);
    let none = ["batch", "retry", "campaign.yml", "--setup-failed", "--class", "checks"];
    assert!(world.run(&none).expect(2).stderr.contains("cannot be used with"));
    let world = within(repositories(1), vec![(1, asked_again())]);
    write(&world, &CAMPAIGN.replace("verify: [sh test.sh]", "verify: [\"false\"]"));
    let output = world.run(&["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex"]);
    let said = "draft: `false` still fails, as it did before the change";
    assert!(output.stderr.contains(said), "{}", output.text());
}

#[test]
fn an_open_pull_request_is_left_alone_until_something_that_it_touches_moves() {
    let world = within(repositories(1), vec![(1, asked_again())]);
    let campaign = format!("{CAMPAIGN}repeat: when-moved\n");
    write(&world, &campaign);
    assert_eq!(states(&batch(&world, &["run"]).expect(0)), counted(&[("open", 1)]));
    let of = world.github.of("acme/app-001");
    let branch = || of.branches().into_iter().find(|(name, _)| name == "patchwright/sums").unwrap();
    let (pushed, asked, written) = (branch(), world.model.requests().len(), writes(&world).len());
    let tip = of.push("main", &[("more.md", "more")]);
    let plan = world.run(&["batch", "plan", "campaign.yml"]).expect(10);
    let said = "pull request #1 is open, and nothing that it touches has changed on `main` since";
    assert!(plan.stdout.contains(said), "{}", plan.text());
    let night = world.run(&["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex"]).expect(0);
    let said = "one open pull request is left as it is, because nothing that it touches has changed \
                on its base branch: acme/app-001#1";
    assert!(night.stderr.contains(said), "{}", night.text());
    assert!(
        night.stdout.contains(&format!("fits `main` at {}, too", &tip[..10])),
        "{}",
        night.text()
    );
    let one = status(&world)["repositories"][0].clone();
    assert_eq!((&one["state"], &one["fits_sha"]), (&json!("open"), &json!(tip)), "{one:#}");
    let page = shown(&world);
    let fits = format!("fits <code>main</code> at <code>{}</code>, too", &tip[..10]);
    let passed = "<span class=\"badge good\">passed</span>";
    assert!(page.contains(&fits) && page.contains(passed), "{page}");
    assert_eq!(world.model.requests().len(), asked, "{}", night.text());
    assert_eq!((branch(), writes(&world).len()), (pushed.clone(), written));
    // A file that it changes moves as well; what people wrote stays, and its commits are new.
    of.change(|repository| {
        let pull = repository.issues.get_mut(&1).unwrap();
        pull.title = "Sums are sums".to_owned();
        pull.body = pull.body.as_ref().map(|body| format!("Reviewed by QA.\r\n\r\n{body}"));
    });
    of.push("main", &[("calc.sh", "# Sums.\nadd() {\n  echo $(($1 - $2))\n}\n")]);
    let night = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&night), counted(&[("open", 1)]), "{}", night.text());
    let again = world.model.requests().len();
    assert!(again > asked, "{}", night.text());
    assert_ne!(branch(), pushed);
    assert!(night.stderr.contains("/pull/1 (updated)"), "{}", night.text());
    assert_eq!(of.pulls()[0].title, "Sums are sums");
    // Whoever wants it anew each time says so.
    of.push("main", &[("more.md", "still more")]);
    batch(&world, &["run"]).expect(0);
    assert_eq!(world.model.requests().len(), again);
    write(&world, &campaign.replace("when-moved", "every-move"));
    batch(&world, &["run"]).expect(0);
    assert!(world.model.requests().len() > again);
    assert_eq!(pulls(&world), ["acme/app-001#1"]);
}

#[test]
fn what_people_with_write_access_said_on_the_open_pull_request_is_told_and_nobody_else() {
    let github = repositories(1).at("acme/app-001").user("tomc", Role::Write);
    let turns = [shell("git log -1 --format=EARLIER-%H pull-request-1")].into_iter();
    let world = within(github, vec![(1, turns.chain(asked_again()).collect())]);
    write(&world, &format!("{CAMPAIGN}repeat: every-move\n"));
    assert_eq!(states(&batch(&world, &["run"]).expect(0)), counted(&[("open", 1)]));
    let of = world.github.of("acme/app-001");
    assert!(!world.told().contains("An earlier run has opened"), "{}", world.told());
    let first = of.pulls()[0].head_sha.clone();
    for (login, word) in [("tomc", "TRUSTED"), ("stranger", "FOREIGN")] {
        of.comment(1, login, &format!("{word}-COMMENT"));
        world.github.review_as(login, 1, "COMMENTED", &format!("{word}-REVIEW"), &[]);
        world.github.comment_on_line(login, 1, "calc.sh", 2, &format!("{word}-LINE"));
    }
    let root = world.github.comment_on_line("tomc", 1, "calc.sh", 2, "TRUSTED-ROOT");
    world.github.reply("stranger", root, "FOREIGN-REPLY");
    of.push("main", &[("more.md", "more")]);
    let night = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&night), counted(&[("open", 1)]), "{}", night.text());
    let told = world.told();
    let wanted = ["An earlier run has opened pull request #1", "TRUSTED-COMMENT", "TRUSTED-REVIEW"];
    for text in wanted.into_iter().chain(["TRUSTED-LINE", "TRUSTED-ROOT"]) {
        assert!(told.contains(text), "{text}: {told}");
    }
    assert!(told.contains(&format!("EARLIER-{first}")), "{told}");
    assert!(!told.contains("FOREIGN"), "{told}");
    let notes = "left out 4 remarks by accounts without write access";
    assert!(of.pulls()[0].body.contains(notes), "{}", of.pulls()[0].body);
}

#[test]
fn a_token_that_may_not_see_pull_requests_still_works_and_the_report_says_what_the_model_was_not_told()
 {
    let world = within(repositories(1), vec![(1, asked_again())]);
    let refused = Fault::once("GET", "/repos/acme/app-001/pulls", Kind::ErrorBefore(403));
    world.github.fault(refused.times(9));
    let output = batch(&world, &["run", "--hold"]).expect(0);
    assert_eq!(states(&output), counted(&[("held", 1)]), "{}", output.text());
    let said = "the model was told nothing of an open pull request from `patchwright/sums`";
    let told = world.result("result.json");
    assert!(told.contains(said), "{told}");
}

#[test]
fn a_draft_whose_checks_fail_is_made_anew_when_its_base_moves_and_becomes_ready() {
    let world = within(repositories(1), vec![(1, asked_again())]);
    let verify = CAMPAIGN.replace("verify: [sh test.sh]", "verify: [test -f more.md]");
    write(&world, &format!("{verify}repeat: when-moved\n"));
    let night = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&night), counted(&[("draft", 1)]), "{}", night.text());
    assert_eq!(status(&world)["repositories"][0]["checks"], "failed");
    let failed = "<span class=\"badge bad\">failed</span>";
    assert!(shown(&world).contains(failed), "{}", shown(&world));
    let asked = world.model.requests().len();
    world.github.of("acme/app-001").push("main", &[("more.md", "more")]);
    let night = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&night), counted(&[("open", 1)]), "{}", night.text());
    assert!(world.model.requests().len() > asked);
    assert!(!world.github.of("acme/app-001").pulls()[0].draft);
}

#[test]
fn a_draft_that_somebody_names_is_worked_on_anew() {
    let world = within(repositories(1), vec![(1, asked_again())]);
    write(&world, &CAMPAIGN.replace("verify: [sh test.sh]", "verify: [\"false\"]"));
    batch(&world, &["run"]).expect(0);
    let asked = world.model.requests().len();
    let nothing = batch(&world, &["retry"]).expect(10);
    assert!(nothing.stderr.contains("nothing has failed"), "{}", nothing.text());
    let named = ["batch", "retry", "campaign.yml", "--repository", "acme/app-001", "--run"];
    let retried = world.run(&[&named[..], &["--model", "gpt-5.3-codex"]].concat()).expect(0);
    assert!(world.model.requests().len() > asked, "{}", retried.text());
    let one = status(&world)["repositories"][0].clone();
    assert_eq!((&one["state"], &one["pull_request"]), (&json!("draft"), &json!(1)), "{one:#}");
}

#[test]
fn the_time_and_the_turns_of_a_run_are_those_of_all_its_pieces() {
    let turns = vec![
        shell("sleep 2"),
        shell("sleep 30"),
        custom("apply_patch", PATCH),
        say("Add instead of subtracting\n\nThe sign was wrong."),
        say("Add instead of subtracting\n\nNothing more is to be changed."),
    ];
    let world = within(repositories(1), vec![(1, turns)]);
    let mut child = world.spawn(&["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex"]);
    wait_for(|| world.model.requests().len() >= 2);
    child.kill().unwrap();
    world.wait(child);
    batch(&world, &["run"]).expect(0);
    let one = status(&world)["repositories"][0].clone();
    assert_eq!(one["state"], "open", "{one:#}");
    assert!(one["seconds"].as_i64().unwrap_or_default() >= 2, "{one:#}");
    let run = one["run"].as_str().unwrap();
    let path = world.path(&format!("state/runs/{run}/result.json"));
    let result: Value = serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap();
    assert!(result["spending"]["turns"].as_u64().unwrap() >= 4, "{result:#}");
    assert!(result["spending"]["wall_seconds"].as_f64().unwrap() >= 2.0, "{result:#}");
}
