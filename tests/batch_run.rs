//! `patchwright batch run`: many repositories, whole processes against GitHub and a model.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::github::{Fault, GitHub, Kind, fleet_name};
use crate::support::model::{ModelServer, Turn, custom, say};
use crate::support::world::{FILES, Output, PATCH, TestWorld};

const CAMPAIGN: &str = "name: sums
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

fn repositories(count: usize) -> GitHub {
    GitHub::new().organization("acme").repositories(count, |number| {
        let readme = format!("# calc {number}\n");
        let files = FILES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        files.chain([("NUMBER.md".to_owned(), readme)]).collect::<Vec<_>>()
    })
}

/// The work in one repository.
fn fixed() -> Vec<Turn> {
    vec![custom("apply_patch", PATCH), say("Add instead of subtracting\n\nThe sign was wrong.")]
}

/// A world in which every conversation is the work, but for those that have a script of their own.
fn world(count: usize, others: Vec<(usize, Vec<Turn>)>) -> TestWorld {
    within(repositories(count), others)
}

fn within(github: GitHub, others: Vec<(usize, Vec<Turn>)>) -> TestWorld {
    let others: Vec<(String, Vec<Turn>)> =
        others.into_iter().map(|(number, turns)| (fleet_name(number), turns)).collect();
    let model = ModelServer::conversations(move |said| {
        let other = others.iter().find(|(name, _)| said.names(name));
        other.map_or_else(fixed, |(_, turns)| turns.clone())
    });
    let world = TestWorld::asking(github, model);
    write(&world, CAMPAIGN);
    world
}

fn write(world: &TestWorld, campaign: &str) {
    fs_err::write(world.path("campaign.yml"), campaign).unwrap();
}

fn batch(world: &TestWorld, args: &[&str]) -> Output {
    let mut all = vec!["batch", args[0], "campaign.yml", "--model", "gpt-5.3-codex", "--json"];
    all.extend(&args[1..]);
    world.run(&all)
}

/// The last line of `--json`.
fn result(output: &Output) -> Value {
    let last = output.stdout.lines().last().unwrap_or_default();
    let value: Value = serde_json::from_str(last).unwrap_or_default();
    assert_eq!(value["is"], "result", "{}", output.text());
    value
}

/// How many targets are in each state.
fn states(output: &Output) -> BTreeMap<String, u64> {
    let targets = result(output)["targets"].clone();
    serde_json::from_value(targets).unwrap()
}

fn counted(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect()
}

/// Every pull request on GitHub, as `repository#number`.
fn pulls(world: &TestWorld) -> Vec<String> {
    let github = world.github.world();
    let all = github.repositories.iter();
    let mut names: Vec<String> = all
        .flat_map(|one| one.pulls.keys().map(move |number| format!("{}#{number}", one.full_name())))
        .collect();
    names.sort();
    names
}

#[test]
fn every_repository_gets_one_pull_request_and_a_second_run_asks_and_writes_nothing() {
    let world = world(6, Vec::new());
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 6)]));
    assert_eq!(pulls(&world).len(), 6, "{:?}", pulls(&world));
    let asked = world.model.requests().len();
    assert_eq!(asked, 12);
    let writes = world.github.writes().len();
    let page = result(&output)["page"].as_str().unwrap().to_owned();
    let page = fs_err::read_to_string(page).unwrap();
    assert!(page.contains("acme/app-006"), "{page}");
    let again = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&again), counted(&[("open", 6)]));
    assert_eq!(world.model.requests().len(), asked);
    assert_eq!(world.github.writes().len(), writes, "{:?}", &world.github.writes()[writes..]);
}

#[test]
fn a_dry_run_stores_changes_and_a_later_run_publishes_them_without_the_model() {
    let world = world(3, Vec::new());
    let output = batch(&world, &["run", "--dry-run"]).expect(0);
    assert_eq!(states(&output), counted(&[("held", 3)]));
    assert_eq!(world.github.writes(), Vec::<String>::new());
    let asked = world.model.requests().len();
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 3)]));
    assert_eq!(world.model.requests().len(), asked);
    assert_eq!(pulls(&world).len(), 3);
}
