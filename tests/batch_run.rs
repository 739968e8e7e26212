//! `patchwright batch run`: many repositories, whole processes against GitHub and a model.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::resume::wait_for;
use crate::support::event_lines;
use crate::support::github::{Fault, GitHub, Kind, fleet_name};
use crate::support::model::{ModelServer, Turn, call, custom, fail, quota, say, unauthorized};
use crate::support::world::{FILES, Output, PATCH, TestWorld};

pub(crate) const CAMPAIGN: &str = "name: sums
description: Sums are right everywhere
select:
  organizations: [acme]
task:
  prompt: In {{ repository }} `add` subtracts. Make it add.
verify: [sh test.sh]
publish:
  labels: [bug]
";

/// How long anything here may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) fn repositories(count: usize) -> GitHub {
    GitHub::new().organization("acme").repositories(count, |number| {
        let readme = format!("# calc {number}\n");
        let files = FILES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        files.chain([("NUMBER.md".to_owned(), readme)]).collect::<Vec<_>>()
    })
}

/// The work in one repository.
pub(crate) fn fixed() -> Vec<Turn> {
    vec![custom("apply_patch", PATCH), say("Add instead of subtracting\n\nThe sign was wrong.")]
}

/// A world in which every conversation is the work, but for those that have a script of their own.
fn world(count: usize, others: Vec<(usize, Vec<Turn>)>) -> TestWorld {
    within(repositories(count), others)
}

pub(crate) fn within(github: GitHub, others: Vec<(usize, Vec<Turn>)>) -> TestWorld {
    let others: Vec<(String, Vec<Turn>)> =
        others.into_iter().map(|(number, turns)| (fleet_name(number), turns)).collect();
    let model = ModelServer::conversations(move |said| {
        let other = others.iter().find(|(name, _)| said.names(name));
        let is_interrupted = said.request.body.to_string().contains("interrupted, result unknown");
        match other {
            Some((_, turns)) => turns.clone(),
            // It looks whether its patch is there, and it is not.
            None if is_interrupted => [&fixed()[..1], &fixed()[..]].concat(),
            None => fixed(),
        }
    });
    let world = TestWorld::asking(github, model);
    write(&world, CAMPAIGN);
    world
}

pub(crate) fn write(world: &TestWorld, campaign: &str) {
    fs_err::write(world.path("campaign.yml"), campaign).unwrap();
}

pub(crate) fn batch(world: &TestWorld, args: &[&str]) -> Output {
    let mut all = vec!["batch", args[0], "campaign.yml", "--model", "gpt-5.3-codex", "--json"];
    all.extend(&args[1..]);
    world.run(&all)
}

/// The last line of `--json`.
fn result(output: &Output) -> Value {
    let last = output.stdout.lines().last().unwrap_or_default();
    let value: Value = serde_json::from_str(last).unwrap_or_default();
    assert_eq!(value["is"], "result", "{}", output.text());
    event_lines::checked(&output.stdout);
    value
}

/// How many targets are in each state.
pub(crate) fn states(output: &Output) -> BTreeMap<String, u64> {
    let targets = result(output)["targets"].clone();
    serde_json::from_value(targets).unwrap()
}

pub(crate) fn counted(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect()
}

/// Every pull request on GitHub, as `repository#number`.
pub(crate) fn pulls(world: &TestWorld) -> Vec<String> {
    let github = world.github.world();
    let all = github.repositories.iter();
    let mut names: Vec<String> = all
        .flat_map(|one| one.pulls.keys().map(move |number| format!("{}#{number}", one.full_name())))
        .collect();
    names.sort();
    names
}

/// Everything that was written to GitHub; questions are no writes.
pub(crate) fn writes(world: &TestWorld) -> Vec<String> {
    let mut writes = world.github.writes();
    writes.retain(|write| !write.contains("/graphql"));
    writes
}

#[test]
fn every_repository_gets_one_pull_request_and_a_second_run_asks_and_writes_nothing() {
    let world = world(6, Vec::new());
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 6)]));
    assert_eq!(pulls(&world).len(), 6, "{:?}", pulls(&world));
    let asked = world.model.requests().len();
    assert_eq!(asked, 12);
    let written = writes(&world).len();
    let page = result(&output)["page"].as_str().unwrap().to_owned();
    let page = fs_err::read_to_string(page).unwrap();
    assert!(page.contains("acme/app-006"), "{page}");
    let again = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&again), counted(&[("open", 6)]));
    assert_eq!(world.model.requests().len(), asked);
    assert_eq!(writes(&world).len(), written, "{:?}", &writes(&world)[written..]);
}

#[test]
fn a_dry_run_stores_changes_and_a_later_run_publishes_them_without_the_model() {
    let world = world(3, Vec::new());
    let output = batch(&world, &["run", "--dry-run"]).expect(0);
    assert_eq!(states(&output), counted(&[("held", 3)]));
    assert_eq!(writes(&world), Vec::<String>::new());
    let asked = world.model.requests().len();
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 3)]));
    assert_eq!(world.model.requests().len(), asked);
    assert_eq!(pulls(&world).len(), 3);
}

/// What became of each repository: its state, and its class of failure.
#[test]
fn a_configuration_on_a_branch_of_ours_decides_about_nothing() {
    let config =
        |setup: &str| [(".github/patchwright.yml", format!("setup: ['echo {setup} >> ~/seen']\n"))];
    let (main, ours) = (config("main"), config("OWNED"));
    let files = FILES.iter().copied().chain(main.iter().map(|(path, text)| (*path, text.as_str())));
    let ours: Vec<_> = ours.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let github = GitHub::new()
        .organization("acme")
        .repository("acme/app", &files.collect::<Vec<_>>())
        .branch("patchwright/issue-7", &ours);
    let world = within(github, Vec::new());
    write(&world, &format!("{CAMPAIGN}  base: patchwright/issue-7\n"));
    batch(&world, &["run"]).expect(0);
    let setups = fs_err::read_dir(world.path("state/setup")).unwrap();
    let seen = setups.map(|setup| setup.unwrap().path().join("home/seen"));
    let seen: Vec<String> = seen.map(|path| fs_err::read_to_string(path).unwrap()).collect();
    assert_eq!(seen, ["main\n"]);
}

fn outcomes(output: &Output) -> BTreeMap<String, String> {
    let mut outcomes = BTreeMap::new();
    for line in output.stdout.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let event = &line["event"];
        if let (Some(name), Some(kind)) = (event["repository"].as_str(), event["kind"].as_str()) {
            outcomes.insert(name.to_owned(), kind.to_owned());
        }
    }
    outcomes
}

pub(crate) fn shell(command: &str) -> Turn {
    call("shell_command", json!({ "command": command }))
}

#[test]
fn a_question_instead_of_a_change_fails_and_can_be_tried_again() {
    let world = within(repositories(1), vec![(1, vec![say("Which sum do you mean?"); 2])]);
    let output = batch(&world, &["run"]).expect(20);
    assert_eq!(states(&output), counted(&[("failed", 1)]), "{}", output.text());
    let status = batch(&world, &["status"]);
    assert!(status.stdout.contains("ended with a question"), "{}", status.text());
    batch(&world, &["retry", "--class", "question"]).expect(0);
}

#[test]
fn what_goes_wrong_in_one_repository_is_only_its_own_and_has_a_class() {
    let broken = || fail(400, "invalid_request", "no such thing");
    let others = vec![
        (2, vec![say("NEEDS INPUT: which sum?")]),
        (3, vec![say("There is nothing to do here.")]),
        // The failing check is given back to it, and it insists.
        (
            4,
            [vec![shell("rm README.md && echo 1 > x")], vec![say("Remove the readme"); 6]].concat(),
        ),
        (
            5,
            vec![
                shell("mkdir -p .github/workflows && echo on: > .github/workflows/x.yml"),
                say("Add a workflow"),
            ],
        ),
        (6, vec![broken()]),
    ];
    // Gone between the plan and the run.
    let gone = Fault::once("GET", "/repos/acme/app-007", Kind::ErrorBefore(404)).times(9);
    let world = within(repositories(8).fault(gone), others);
    write(&world, &CAMPAIGN.replace("verify: [sh test.sh]", "verify: [test -f README.md]"));
    let output = batch(&world, &["run"]).expect(20);
    let seen = outcomes(&output);
    let status = batch(&world, &["status"]);
    assert_eq!(
        states(&output),
        counted(&[("failed", 5), ("open", 2), ("unchanged", 1)]),
        "{seen:?}"
    );
    for (number, class) in
        [(2, "question"), (4, "checks"), (5, "policy"), (6, "model"), (7, "access")]
    {
        let line = status.stdout.lines().find(|line| line.contains(&fleet_name(number)));
        let line = line.unwrap_or_else(|| panic!("{number}: {}", status.text()));
        assert!(line.contains(class), "{number}: {line}");
    }
    assert_eq!(pulls(&world).len(), 2, "{:?}", pulls(&world));
    // A person looks, and has one class done again; the others stay as they are.
    let asked = world.model.requests().len();
    let answer = "--repository acme/app-002 --run --instructions 'ANSWER'`";
    assert!(output.stderr.contains(answer), "{}", output.text());
    assert!(world.run(&["batch", "status", "campaign.yml"]).stdout.contains(answer));
    let again = batch(&world, &["retry", "--class", "question", "--run"]).expect(20);
    assert_eq!(states(&again), counted(&[("failed", 5), ("open", 2), ("unchanged", 1)]));
    assert_eq!(world.model.requests().len(), asked + 1);
    assert!(
        batch(&world, &["retry", "--class", "budget"]).expect(10).stderr.contains("of this class")
    );
}

#[test]
fn a_wrong_key_or_an_empty_account_stops_the_campaign_once_with_one_line() {
    for turn in [unauthorized(), quota()] {
        let all = (1..=4).map(|number| (number, vec![turn.clone()])).collect();
        let world = world(4, all);
        let output = batch(&world, &["run", "--concurrency", "1"]).expect(20);
        assert_eq!(world.model.requests().len(), 1, "{}", output.text());
        let said = output.stderr.lines().filter(|line| line.contains("the campaign is paused"));
        assert_eq!(said.count(), 1, "{}", output.text());
        assert_eq!(states(&output), counted(&[("queued", 4)]));
        // Put right, it goes on by itself.
        let right = TestWorld::asking(repositories(1), ModelServer::conversations(|_| fixed()));
        let again = world.set("OPENAI_BASE_URL", right.model.url());
        let output = batch(&again, &["run"]).expect(0);
        assert!(output.stderr.contains("resuming; it had paused"), "{}", output.text());
        assert_eq!(states(&output), counted(&[("open", 4)]));
    }
}

#[test]
fn no_run_is_begun_that_the_budget_has_no_room_for() {
    let world = world(3, Vec::new());
    let budget = |dollars: &str| {
        format!("{CAMPAIGN}agent:\n  max-cost-usd: 1\nlimits:\n  budget-usd: {dollars}\n")
    };
    write(&world, &budget("1"));
    let output = batch(&world, &["run"]).expect(40);
    assert_eq!(states(&output), counted(&[("open", 1), ("queued", 2)]), "{}", output.text());
    assert!(output.stderr.contains("the budget of $1.00 has no room"), "{}", output.text());
    write(&world, &budget("10"));
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 3)]));
    assert_eq!(world.model.requests().len(), 6);
    assert!(result(&output)["cost_usd"].as_f64().unwrap() > 0.0);
}

#[test]
fn answers_are_for_the_page_and_nothing_is_written() {
    let world = world(2, vec![(1, vec![say("Three sums.")]), (2, vec![say("No sums.")])]);
    let report = CAMPAIGN.replace("publish:\n  labels: [bug]\n", "mode: report\n");
    write(&world, &report.replace("verify: [sh test.sh]\n", ""));
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("reported", 2)]));
    let page = fs_err::read_to_string(result(&output)["page"].as_str().unwrap()).unwrap();
    assert!(page.contains("Three sums.") && page.contains("No sums."), "{page}");
    assert_eq!(writes(&world), Vec::<String>::new());
}

#[test]
fn parts_are_run_apart_and_published_together() {
    let world = world(5, Vec::new());
    for part in ["1/2", "2/2"] {
        let file = format!("parts/{}/shard.db", &part[..1]);
        fs_err::create_dir_all(world.path(&file).parent().unwrap()).unwrap();
        let output = batch(&world, &["run", "--hold", "--shard", part, "--database", &file]);
        assert_eq!(output.code, 0, "{}", output.text());
        // It is carried away as one file.
        let folder = fs_err::read_dir(world.path(&file).parent().unwrap()).unwrap();
        assert_eq!(folder.count(), 1, "something is left beside {file}");
    }
    assert_eq!(writes(&world), Vec::<String>::new());
    let asked = world.model.requests().len();
    assert_eq!(asked, 10);
    let output = batch(&world, &["run", "--publish-from", "parts"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 5)]));
    assert_eq!((pulls(&world).len(), world.model.requests().len()), (5, asked));
    // Once more, as a job that is run again: nothing is left to do.
    batch(&world, &["run", "--publish-from", "parts"]).expect(0);
    assert_eq!((pulls(&world).len(), world.model.requests().len()), (5, asked));
}

#[test]
fn a_part_that_cannot_be_read_is_left_out_and_the_others_are_published() {
    let world = world(2, Vec::new());
    fs_err::create_dir_all(world.path("parts")).unwrap();
    batch(&world, &["run", "--hold", "--database", "parts/a.db"]).expect(0);
    fs_err::write(world.path("parts/b.db"), "half of an upload").unwrap();
    let output = batch(&world, &["run", "--publish-from", "parts"]).expect(20);
    assert!(output.stderr.contains("parts/b.db` is left out"), "{}", output.text());
    assert_eq!(states(&output), counted(&[("open", 2)]), "{}", output.text());
    assert_eq!(pulls(&world).len(), 2);
}

#[test]
fn the_one_file_of_a_killed_part_has_what_had_ended_by_then() {
    let mut slow = fixed();
    slow.insert(0, call("shell_command", json!({"command": "sleep 30"})));
    let world = world(2, vec![(2, slow)]);
    fs_err::create_dir_all(world.path("parts")).unwrap();
    fs_err::create_dir_all(world.path("work")).unwrap();
    let part = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--concurrency", "1"];
    let mut child = world.spawn(&[&part[..], &["--hold", "--database", "work/a.db"]].concat());
    // Of the second conversation, so the first run has ended.
    wait_for(|| world.model.requests().len() == 3 || child.try_wait().unwrap().is_some());
    child.kill().unwrap();
    world.wait(child);
    fs_err::copy(world.path("work/a.db"), world.path("parts/a.db")).unwrap();
    let output = batch(&world, &["run", "--publish-from", "parts"]);
    assert_eq!((pulls(&world).len(), world.model.requests().len()), (1, 3), "{}", output.text());
}

/// A statement behind the back of whoever made the database.
fn sql(world: &TestWorld, file: &str, text: &str) {
    let url = format!("sqlite://{}", world.path(file).display());
    let text = sqlx::AssertSqlSafe(text.to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
        assert!(sqlx::query(text).execute(&pool).await.unwrap().rows_affected() > 0);
        pool.close().await;
    });
}

#[test]
fn a_shard_that_names_a_foreign_repository_gets_a_row_and_the_others_are_published() {
    let github = repositories(2).repository("victim/app", FILES);
    let world = within(github, Vec::new());
    fs_err::create_dir_all(world.path("parts")).unwrap();
    batch(&world, &["run", "--hold", "--database", "parts/shard.db"]).expect(0);
    let one = fleet_name(1);
    let node_id = {
        let github = world.github.world();
        let victim = github.repositories.iter().find(|one| one.full_name() == "victim/app");
        format!("R_{}", victim.unwrap().id)
    };
    for table in ["targets", "changesets"] {
        let id = if table == "targets" {
            format!(", repository_id = '{node_id}'")
        } else {
            String::new()
        };
        let text = format!(
            "UPDATE {table} SET repository = 'victim/app'{id} WHERE repository = 'acme/{one}'"
        );
        sql(&world, "parts/shard.db", &text.replace("acme/acme/", "acme/"));
    }
    let output = batch(&world, &["run", "--publish-from", "parts"]).expect(20);
    assert_eq!(states(&output), counted(&[("failed", 1), ("open", 1)]), "{}", output.text());
    assert!(output.stderr.contains("does not select `victim/app`"), "{}", output.text());
    let opened = pulls(&world);
    assert!(opened.len() == 1 && !opened[0].starts_with("victim/"), "{opened:?}");
    // Nor is one that is selected by its name, and another one by its id.
    let forged = format!("UPDATE targets SET repository = '{one}' WHERE repository = 'victim/app'");
    sql(&world, "parts/shard.db", &forged);
    let output = batch(&world, &["run", "--publish-from", "parts"]).expect(20);
    assert_eq!(pulls(&world), opened, "{}", output.text());
    // What is in the database already, as from a cache, is no better.
    batch(&world, &["run", "--hold", "--database", "fleet.db"]).expect(0);
    for table in ["targets", "changesets"] {
        let id = if table == "targets" { ", repository_id = NULL" } else { "" };
        let text = format!(
            "UPDATE {table} SET repository = 'victim/app'{id} WHERE repository = 'acme/{one}'"
        );
        sql(&world, "fleet.db", &text.replace("acme/acme/", "acme/"));
    }
    let again = batch(&world, &["run", "--database", "fleet.db"]);
    assert!(again.text().contains("victim/app"), "{}", again.text());
    assert!(pulls(&world).iter().all(|pull| !pull.starts_with("victim/")), "{:?}", pulls(&world));
}

/// Lines of all journals.
fn journal_lines(world: &TestWorld) -> usize {
    let journals = world.runs().into_iter().map(|run| run.join("journal.jsonl"));
    journals.map(|path| fs_err::read_to_string(path).unwrap_or_default().lines().count()).sum()
}

#[test]
fn a_campaign_that_was_killed_anywhere_comes_to_the_same_end() {
    let args = [
        "batch",
        "run",
        "campaign.yml",
        "--model",
        "gpt-5.3-codex",
        "--concurrency",
        "1",
        "--lease",
        "8s",
    ];
    for line in [1, 4, 7, 9, 11, 13, 15, 17, 20, 26] {
        let world = world(2, Vec::new());
        let mut child = world.spawn(&args);
        let began = Instant::now();
        while journal_lines(&world) < line && child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "line {line} was never reached");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        world.wait(child);
        world.model.settle();
        // Goes on once the lease of the killed one has run out.
        let output = batch(&world, &["run"]);
        assert_eq!(output.code, 0, "killed after {line}: {}", output.text());
        assert_eq!(states(&output), counted(&[("open", 2)]), "killed after {line}");
        assert_eq!(pulls(&world).len(), 2, "killed after {line}");
        let asked = world.model.requests().len();
        // Twice for each, once for what was under way, once for a patch that has to be made again.
        assert!(asked <= 6, "killed after {line}: asked {asked} times");
        assert_eq!(world.runs().len(), 2, "killed after {line}");
    }
}
