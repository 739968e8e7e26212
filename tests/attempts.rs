//! Several attempts at the same work: which one is kept and why, what is stopped and not begun, what all of them may
//! cost, and that one change is published. Judges are in a file of their own, and so are runs that are killed.

#[path = "attempts/containers.rs"]
mod containers;
#[path = "attempts/judge.rs"]
mod judge;
#[path = "attempts/killed.rs"]
mod killed;

use patchwright_provider::catalogue::cost;
use patchwright_provider::item::Usage;
use serde_json::{Value, json};

use crate::exec::project;
use crate::issue::docker_answers;
use crate::providers::catalogue;
use crate::support::git_repo::git;
use crate::support::model::{ModelServer, Said, Turn, custom, fail, say, stall};
use crate::support::world::{Output, PATCH, TestWorld, github};

/// A change that leaves the check as red as it was.
pub(crate) const WRONG: &str = "*** Begin Patch\n*** Update File: calc.sh\n@@ add() {\n-  echo $(($1 - $2))\n+  echo $(($1 + $2 + 1))\n*** End Patch\n";
pub(crate) const FIXED: &str = "add() {\n  echo $(($1 + $2))\n}\n";

/// An attempt that repairs the project.
pub(crate) fn right() -> Vec<Turn> {
    vec![custom("apply_patch", PATCH), say("Add instead of subtracting\n\nThe sign was wrong.")]
}

/// One that does not.
pub(crate) fn wrong() -> Vec<Turn> {
    vec![custom("apply_patch", WRONG), say("Add one more than that\n\nThe sum was too low.")]
}

/// Attempts in which failing checks do not go back to the model, so that each has the turns of its script.
pub(crate) fn attempts(world: TestWorld, count: u32, at_once: u32) -> TestWorld {
    let path = world.path("operator.yml");
    fs_err::write(&path, "limits: {verify-rounds: 0}\n").unwrap();
    world
        .set("PATCHWRIGHT_CONFIG", path.display().to_string())
        .set("PATCHWRIGHT_ATTEMPTS", count.to_string())
        .set("PATCHWRIGHT_ATTEMPTS_AT_ONCE", at_once.to_string())
}

/// One after the other, which say all of these turns in this order.
pub(crate) fn in_turn(count: u32, turns: Vec<Vec<Turn>>) -> TestWorld {
    attempts(TestWorld::new(github(), turns.into_iter().flatten()), count, 1)
}

/// All at once; each has a script by its number.
fn at_once(count: u32, script: impl Fn(u32) -> Vec<Turn> + Send + Sync + 'static) -> TestWorld {
    let model = ModelServer::conversations(move |said| script(number(said)));
    attempts(TestWorld::asking(github(), model), count, count)
}

/// The attempt that asks.
fn number(said: &Said) -> u32 {
    let key = said.request.body["prompt_cache_key"].as_str().unwrap_or_default();
    key.rsplit("-attempt-").next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

pub(crate) fn result(world: &TestWorld) -> Value {
    serde_json::from_str(&world.result("result.json")).unwrap()
}

/// What the result says about each attempt: how it ended and what its checks say.
pub(crate) fn ends(world: &TestWorld) -> Vec<String> {
    let result = result(world);
    let all = result["attempts"]["all"].as_array().unwrap().clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.iter().map(|it| format!("{} {}", text(&it["end"]), text(&it["checks"]))).collect()
}

pub(crate) fn published(world: &TestWorld) -> String {
    git(&world.github.repository_path(), &["show", "patchwright/issue-7:calc.sh"])
}

/// One pull request, of the attempt with this number.
#[track_caller]
pub(crate) fn kept(world: &TestWorld, output: &Output, chosen: u32) -> Value {
    let result = result(world);
    assert_eq!(result["attempts"]["chosen"], chosen, "{}", output.text());
    assert_eq!(world.github.pulls().len(), 1, "{}", output.text());
    // Every dollar of every attempt is in the sum.
    let all = result["attempts"]["all"].as_array().unwrap();
    let sum: f64 = all.iter().map(|it| it["cost_usd"].as_f64().unwrap()).sum();
    let judge = result["attempts"]["judge"]["cost_usd"].as_f64().unwrap_or_default();
    let whole = result["spending"]["cost_usd"].as_f64().unwrap();
    assert!((whole - sum - judge).abs() < 1e-9, "{whole} is not {sum} and {judge}");
    result
}

#[test]
fn the_attempt_whose_checks_pass_is_kept() {
    let world = in_turn(3, vec![wrong(), right()]);
    let output = world.issue().expect(0);
    let result = kept(&world, &output, 2);
    assert_eq!(ends(&world), ["ended failed", "ended passed", "not_started "]);
    assert!(output.stderr.contains(", 1 file +1 −1, "), "{}", output.text());
    assert_eq!(published(&world), FIXED);
    assert_eq!((world.model.requests().len(), world.model.unused()), (4, 0));
    assert_eq!(result["spending"]["turns"], 4);
    let pull = &world.github.pulls()[0];
    assert!(!pull.draft && pull.body.contains("Fixes #7"), "{}", pull.body);
    let row = "| 1 | `gpt-5.3-codex` | partly done | 1 fail | 1 file, +1 −1 | 2 | ";
    for text in [
        "<summary>Attempt 2 of 3 was kept</summary>",
        "Attempt 2 was kept: all checks pass.",
        "| **2, kept** |",
    ] {
        assert!(pull.body.contains(text), "{}", pull.body);
    }
    assert!(pull.body.contains(row), "{}", pull.body);
    let page = world.result("report.html");
    assert!(page.contains("Attempts") && page.contains("not started"), "{page}");
    // The page shows the conversation that led to the change.
    assert!(page.contains("Add instead of subtracting"), "{page}");
    assert!(world.result("attempts/1/report.html").contains("Add one more than that"));
    assert!(!world.runs()[0].join("attempts/2/checkpoints.git").exists());
}

#[test]
fn an_attempt_that_is_clearly_done_is_the_last() {
    let world = in_turn(3, vec![right()]);
    let output = world.issue().expect(0);
    kept(&world, &output, 1);
    assert_eq!(ends(&world), ["ended passed", "not_started ", "not_started "]);
    assert_eq!(world.model.requests().len(), 2);
    assert!(output.stderr.contains("attempt 1 is done, all checks pass"), "{}", output.text());
}

#[test]
fn the_others_are_stopped_when_one_is_done_and_what_they_cost_is_counted() {
    let world = at_once(2, |number| match number {
        1 => right(),
        // It has asked for something and waits for an answer that does not come.
        _ => vec![wrong().remove(0), stall()],
    });
    let output = world.issue().expect(0);
    let result = kept(&world, &output, 1);
    assert_eq!(ends(&world), ["ended passed", "stopped_early "]);
    assert_eq!(published(&world), FIXED);
    assert!(result["attempts"]["all"][1]["cost_usd"].as_f64().unwrap() > 0.0, "{result}");
    let journals = ["attempts/1/journal.jsonl", "attempts/2/journal.jsonl"];
    let journals = journals.map(|name| world.result(name)).concat();
    let counted =
        ["replied", "lost"].map(|is| journals.matches(&format!("\"is\":\"{is}\"")).count());
    assert_eq!(counted.iter().sum::<usize>(), world.model.requests().len(), "{counted:?}");
    assert_eq!(result["spending"]["cost_is_estimate"], counted[1] > 0, "{result}");
    assert_eq!(fs_err::read_dir(world.path("state/sandboxes")).unwrap().count(), 0);
}

#[test]
fn attempts_side_by_side_work_in_containers_of_their_own() {
    if !docker_answers() {
        return;
    }
    let world = at_once(2, |number| if number == 1 { wrong() } else { right() }).in_docker();
    let output = world.issue().expect(0);
    kept(&world, &output, 2);
    assert_eq!(published(&world), FIXED);
}

/// The attempts of a run, each right by one bit of a draw.
fn drawn(draw: u32, count: u32) -> (TestWorld, Output) {
    let turns = (0..count).map(|at| if draw >> at & 1 == 1 { right() } else { wrong() });
    let world = in_turn(count, turns.collect());
    let output = world.issue();
    (world, output)
}

/// All draws of attempts of which each succeeds with probability one half: how many landed, and the mean cost.
fn suite(count: u32) -> (usize, f64) {
    let (mut landed, mut cost) = (0, 0.0);
    for draw in 0..1 << count {
        let (world, output) = drawn(draw, count);
        let pulls = world.github.pulls();
        let is_landed = output.code == 0 && !pulls[0].draft && published(&world) == FIXED;
        assert_eq!(is_landed, draw > 0, "draw {draw:b}: {}", output.text());
        assert_eq!(pulls.len(), 1, "draw {draw:b}");
        landed += usize::from(is_landed);
        cost += result(&world)["spending"]["cost_usd"].as_f64().unwrap();
    }
    (landed, cost / f64::from(1 << count))
}

#[test]
fn three_attempts_that_each_succeed_half_of_the_time_land_seven_of_eight() {
    let (one, cost_of_one) = suite(1);
    let (three, cost_of_three) = suite(3);
    eprintln!(
        "one attempt: {one} of 2 land at ${cost_of_one:.5} each run; three attempts: {three} of 8 land at \
         ${cost_of_three:.5} each run, {:.2} times as much",
        cost_of_three / cost_of_one
    );
    assert_eq!((one, three), (1, 7));
    // A second attempt is made half of the time, a third one a quarter of it.
    assert!((cost_of_three / cost_of_one - 1.75).abs() < 1e-6);
}

#[test]
fn a_model_that_refuses_or_has_no_key_is_one_attempt_that_failed() {
    for trouble in [
        crate::support::model::refuse("I cannot help with that."),
        crate::support::model::unauthorized(),
        fail(404, "model_not_found", "The model does not exist."),
    ] {
        let world = in_turn(2, vec![vec![trouble], right()]);
        let output = world.issue().expect(0);
        kept(&world, &output, 2);
        assert_eq!(ends(&world), ["ended none", "ended passed"], "{}", output.text());
        let all = result(&world)["attempts"]["all"].clone();
        assert_eq!(all[0]["conclusion"], "provider_error", "{all}");
        assert!(all[0]["reason"].as_str().is_some_and(|why| !why.is_empty()), "{all}");
    }
}

#[test]
fn attempts_with_different_models_are_told_apart() {
    let world = in_turn(2, vec![wrong(), right()])
        .set("PATCHWRIGHT_ATTEMPT_MODEL", "gpt-5.3-codex,gpt-5.2-codex");
    let output = world.issue().expect(0);
    let result = kept(&world, &output, 2);
    let asked = world.model.requests();
    let models: Vec<&str> = asked.iter().map(|it| it.body["model"].as_str().unwrap()).collect();
    assert_eq!(models, ["gpt-5.3-codex", "gpt-5.3-codex", "gpt-5.2-codex", "gpt-5.2-codex"]);
    assert_eq!(result["provenance"]["model"], "gpt-5.2-codex");
    let named: Vec<&Value> = result["spending"]["models"].as_array().unwrap().iter().collect();
    assert_eq!(named.len(), 2, "{result}");
    assert_eq!(result["attempts"]["all"][1]["model"], "gpt-5.2-codex");
}

#[test]
fn the_money_of_a_run_is_that_of_all_its_attempts() {
    // Each reply costs about ten cents: the limit is reached in the second attempt, and there is no third.
    let dear = |turns: Vec<Turn>| -> Vec<Turn> {
        let usage = json!({
            "input_tokens": 50_000, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1_000, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 51_000,
        });
        turns.into_iter().map(|turn| turn.usage(Some(usage.clone()))).collect()
    };
    let world = in_turn(3, vec![dear(wrong()), dear(wrong())]);
    let world = world.set("PATCHWRIGHT_MAX_COST_USD", "0.25");
    let output = world.issue();
    assert_eq!(output.code, 20, "{}", output.text());
    let result = kept(&world, &output, 1);
    let all = &result["attempts"]["all"];
    assert_eq!(all[1]["conclusion"], "budget_exhausted", "{all}");
    assert_eq!(
        (&all[2]["end"], &all[2]["reason"]),
        (&json!("not_started"), &json!("the limit on cost was reached"))
    );
    let spent = result["spending"]["cost_usd"].as_f64().unwrap();
    assert!(spent > 0.2 && spent < 0.4, "{spent}");
    assert!(world.github.pulls()[0].draft);
}

#[test]
fn no_attempt_is_begun_with_what_was_too_little_for_the_one_before() {
    let tokens = json!({
        "input_tokens": 50_000, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1_000, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 51_000,
    });
    let dear = [wrong(), wrong()].concat();
    let dear = dear.into_iter().map(|turn| turn.usage(Some(tokens.clone()))).collect();
    let usage = Usage { input: 50_000, output: 1_000, ..Usage::default() };
    let reply = cost(&catalogue().resolve("gpt-5.3-codex", None).unwrap(), &usage).0;
    // Something is left when the second one ends: less than its next request costs.
    let world = in_turn(3, vec![dear, wrong()]);
    let world = world.set("PATCHWRIGHT_MAX_COST_USD", format!("{:.4}", 3.0 * reply + 0.001));
    let output = world.issue();
    let all = &result(&world)["attempts"]["all"];
    assert_eq!(
        (&all[2]["end"], &all[2]["reason"]),
        (&json!("not_started"), &json!("the limit on cost was reached")),
        "{}",
        output.text()
    );
    assert_eq!(world.model.requests().len(), 3);
}

#[test]
fn when_all_fail_the_best_of_them_is_kept_and_the_exit_code_is_its_own() {
    let worse = "*** Begin Patch\n*** Update File: calc.sh\n@@ add() {\n-  echo $(($1 - $2))\n+  exit 3\n*** End Patch\n";
    let worse = vec![custom("apply_patch", worse), say("End early\n\nIt does not work.")];
    let check = "if [ -n \"$(. ./calc.sh; add 1 1)\" ]; then a=ok n=1; else a=FAILED n=2; fi; \
                 printf 'running 2 tests\\ntest prints ... %s\\ntest adds ... FAILED\\n\\n\
                 test result: FAILED. %s passed; %s failed; 0 ignored; 0 measured\\n' $a $((2-n)) $n; exit 101";
    let world = in_turn(2, vec![worse, wrong()]).set("PATCHWRIGHT_VERIFY", check);
    let output = world.issue().expect(20);
    let result = kept(&world, &output, 2);
    assert_eq!(ends(&world), ["ended failed", "ended failed"], "{}", output.text());
    let why = result["attempts"]["why"].as_str().unwrap();
    assert!(why.starts_with("it breaks the fewest tests"), "{why}: {}", output.text());
    assert!(world.github.pulls()[0].draft);
}

#[test]
fn a_change_that_may_not_be_published_comes_after_one_that_may() {
    let workflow =
        "*** Begin Patch\n*** Add File: .github/workflows/x.yml\n+on: push\n*** End Patch\n";
    let refused = vec![custom("apply_patch", workflow), say("Add a workflow\n\nIt helps.")];
    let world = in_turn(2, vec![refused, wrong()]);
    let output = world.issue().expect(20);
    let result = kept(&world, &output, 2);
    assert_eq!(result["attempts"]["why"], "it is the only one with a change or an answer to keep");
}

#[test]
fn one_attempt_is_a_run_as_it_always_was() {
    let world = in_turn(1, vec![right()]);
    let output = world.issue().expect(0);
    assert!(result(&world)["attempts"].is_null());
    assert!(!world.result("journal.jsonl").contains("attempt_started"));
    assert!(!world.runs()[0].join("attempts").exists());
    assert!(!output.stderr.contains("attempt"), "{}", output.text());
}

#[test]
fn a_prompt_on_a_folder_has_attempts_too_and_its_next_run_begins_anew() {
    let world = TestWorld::local([wrong(), right(), right()].into_iter().flatten());
    project(&world);
    let world = attempts(world, 2, 1);
    let exec = ["exec", "Make add add", "--repo", "project", "--out", "out", "--json"];
    let output = world.run(&exec).expect(0);
    let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
    assert!(patch.contains("+  echo $(($1 + $2))"), "{patch}");
    let last: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["attempts"]["chosen"], 2, "{last}");
    let calls: Vec<Value> =
        output.stdout.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let mut calls = calls.iter().filter(|it| it["is"] == "call");
    assert!(calls.all(|it| it["attempt"].is_number()), "{}", output.stdout);
    // The attempts of the run before are none of this one's.
    let output = world.run(&exec).expect(0);
    let last: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["attempts"]["chosen"], world.model.requests().len()), (&json!(1), 6));
    assert!(world.path("out/attempts.old/2/journal.jsonl").is_file());
}

/// Two answers have no size, so that none is the smallest change.
#[test]
fn of_answers_that_no_judge_decides_on_the_first_is_kept() {
    let answers = [say("It adds."), say("It subtracts."), say("Both are fine.")];
    let world = TestWorld::local(answers);
    project(&world);
    let world = attempts(world, 2, 1);
    let exec = ["exec", "What does it do?", "--repo", "project", "--out", "out", "--json"];
    let output = world.run(&exec);
    let last: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    let why = last["attempts"]["why"].as_str().unwrap();
    let part = "it is the first of the answers without a change; the judge did not decide";
    assert!(last["attempts"]["chosen"] == 1 && why.contains(part), "{last}");
}

#[test]
fn a_replay_is_one_of_the_attempt_that_was_kept() {
    let world = in_turn(2, vec![wrong(), right()]);
    world.issue().expect(0);
    let run = world.runs()[0].clone();
    let id = run.file_name().unwrap().to_string_lossy().into_owned();
    let output = world.run(&["replay", &id]).expect(0);
    assert!(output.stdout.starts_with("same tree after 2 turns"), "{}", output.text());
    let first = run.join("attempts/1").display().to_string();
    let output = world.run(&["replay", &first]).expect(0);
    assert!(output.stdout.starts_with("same tree after 2 turns"), "{}", output.text());
    assert_eq!(world.model.requests().len(), 4);
    // Of a run without a choice there is nothing to replay.
    let journal = run.join("journal.jsonl");
    let lines = fs_err::read_to_string(&journal).unwrap();
    let begun: Vec<&str> = lines.lines().take_while(|it| !it.contains("\"selected\"")).collect();
    fs_err::write(&journal, begun.join("\n") + "\n").unwrap();
    let output = world.run(&["replay", &id]).expect(2);
    assert!(output.stderr.contains("several attempts, and none was chosen"), "{}", output.text());
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_done() {
    let world = in_turn(2, Vec::new());
    for (flag, value, said) in [
        ("--attempts", "0", "1..=8"),
        ("--attempts", "9", "1..=8"),
        ("--attempts-at-once", "0", "1..=8"),
        ("--attempt-model", "no-such-model", "it is asked for by `attempt-models: no-such-model`"),
        ("--judge-model", "no-such-model", "it is asked for by `judge-model: no-such-model`"),
    ] {
        let output = world.run(&["issue", "acme/app#7", flag, value]).expect(2);
        assert!(output.stderr.contains(said), "{flag} {value}: {}", output.text());
    }
    fs_err::write(world.path("operator.yml"), "attempts: 20\n").unwrap();
    let output = world.issue().expect(2);
    assert!(output.stderr.contains("`attempts` must be from 1 to 8: 20"), "{}", output.text());
    assert_eq!(world.github.writes().len(), 0);
}

#[test]
fn a_campaign_keeps_one_change_of_several_attempts_in_each_repository() {
    let model =
        ModelServer::conversations(|said| if number(said) == 1 { wrong() } else { right() });
    let files = crate::support::world::FILES;
    let world = TestWorld::asking(
        crate::support::github::GitHub::new().repository("acme/app", files),
        model,
    );
    // The flag would win over the campaign.
    let world = attempts(world, 1, 1).unset("PATCHWRIGHT_ATTEMPTS");
    let campaign = "name: add\nselect: {repositories: [acme/app]}\ntask: {prompt: Make add add}\n\
                    agent: {attempts: 2}\n";
    fs_err::write(world.path("campaign.yml"), campaign).unwrap();
    let run = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--json"];
    let output = world.run(&run).expect(0);
    let pulls = world.github.pulls();
    assert_eq!(pulls.len(), 1, "{}", output.text());
    assert!(pulls[0].body.contains("Attempt 2 of 2"), "{}", pulls[0].body);
    assert_eq!(world.model.requests().len(), 4);
    // The campaign is charged with both.
    let last: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    let spent = last["spent_usd"].as_f64().or(last["cost_usd"].as_f64());
    let one: Value = serde_json::from_str(&world.result("result.json")).unwrap();
    let whole = one["spending"]["cost_usd"].as_f64().unwrap();
    assert!(spent.is_none_or(|spent| (spent - whole).abs() < 1e-6), "{last} {whole}");
}
