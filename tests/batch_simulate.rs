//! `patchwright batch simulate`: what it counts with is what happens, and both of its queues agree.

use patchwright_fleet::batch::campaign::{self, Campaign};
use patchwright_fleet::batch::simulate::profile::AssumedProfile;
use patchwright_fleet::batch::simulate::{
    self, GIT_OF_A_PULL, GIT_OF_A_RUN, Options, Profile, REST_OF_A_PULL, REST_OF_A_RUN, Simulation,
    WRITES_OF_A_PULL, discovery,
};
use serde_json::Value;

use crate::batch_run::{CAMPAIGN, batch, within, write, writes};
use crate::support::github::GitHub;
use crate::support::model::say;
use crate::support::world::{FILES, Output, TestWorld};

/// More than the number from which a campaign's own runs are drawn from.
const COUNT: usize = 12;

fn world() -> TestWorld {
    let github = GitHub::new().organization("acme").repositories(COUNT, |_| FILES.to_vec());
    let world = within(github, vec![(3, vec![say("There is nothing to do here."); 2])]);
    write(&world, CAMPAIGN);
    world
}

fn simulated(output: &Output) -> Value {
    let last = output.stdout.lines().last().unwrap_or_default();
    let value: Value = serde_json::from_str(last).unwrap_or_default();
    assert_eq!(value["is"], "simulation", "{}", output.text());
    value
}

/// All but the time that the store really took.
fn repeatable(output: &Output) -> Value {
    let mut value = simulated(output);
    assert!(value["check"]["store_milliseconds"].take().is_f64(), "{}", output.stdout);
    value
}

fn parsed(more: &str) -> Campaign {
    let text = format!(
        "name: sums\nselect:\n  organizations: [acme]\ntask:\n  prompt: Make it add.\n{more}"
    );
    campaign::parse("campaign.yml", &text, None).unwrap()
}

fn simulate(campaign: &Campaign, options: &Options) -> Simulation {
    let profile = Profile::Assumed(AssumedProfile { passing: 0.1, ..AssumedProfile::default() });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(simulate::simulate(campaign, options, &profile, 2.0)).unwrap()
}

fn small() -> Options {
    Options { repositories: 60, workers: 6, rounds: 1, check: 60, ..Options::default() }
}

#[test]
fn requests_are_as_many_as_a_real_campaign_makes() {
    let world = world();
    let github = &world.github;
    let count = || {
        let api = github.requests().iter().filter(|one| !one.path.contains("/graphql")).count();
        (api, github.git().requests().len(), writes(&world).len())
    };
    // What is asked once for all is less than one for each.
    let is_near = |seen: usize, each: u32, what: &str| {
        let known = COUNT * each as usize;
        assert!(seen.abs_diff(known) <= COUNT, "{what}: {seen} of {COUNT}, not {known}");
    };
    batch(&world, &["plan"]).expect(0);
    let planned = count();
    let found = discovery(COUNT as u64);
    assert!(planned.0 as u64 <= found.rest + 1, "{planned:?}, not {found:?}");
    batch(&world, &["run", "--dry-run"]).expect(0);
    let ran = count();
    // It has planned once more.
    is_near(ran.0 - 2 * planned.0, REST_OF_A_RUN, "REST of a run");
    is_near(ran.1 - planned.1, GIT_OF_A_RUN, "git of a run");
    batch(&world, &["run"]).expect(0);
    let done = count();
    is_near(done.0 - ran.0 - planned.0, REST_OF_A_PULL, "REST of publishing");
    is_near(done.1 - ran.1, GIT_OF_A_PULL, "git of publishing");
    // Of the writes, the push is git's; the campaign has a label.
    let opened = COUNT - 1;
    assert_eq!(done.2, opened * WRITES_OF_A_PULL as usize, "{:?}", writes(&world));
}

#[test]
fn runs_are_drawn_from_a_campaign_that_was_run_and_the_same_seed_gives_the_same() {
    let world = world();
    batch(&world, &["run"]).expect(0);
    let args = ["simulate", "--repositories", "300", "--workers", "5", "--check", "20"];
    let first = batch(&world, &args).expect(0);
    let value = simulated(&first);
    assert_eq!(value["measured"][1], COUNT, "{}", first.stdout);
    assert_eq!(value["check"]["same"], true, "{}", first.stdout);
    // One of twelve runs changed nothing.
    let states = &value["courses"][0]["states"];
    let (open, unchanged) = (states["open"].as_u64(), states["unchanged"].as_u64());
    assert_eq!(open.unwrap() + unchanged.unwrap(), 300, "{states}");
    assert!((10..50).contains(&unchanged.unwrap()), "{states}");
    assert_eq!(repeatable(&first), repeatable(&batch(&world, &args)));
    let other = batch(&world, &[&args[..], &["--seed", "2"]].concat());
    assert_ne!(repeatable(&first), repeatable(&other));
    let named = batch(&world, &[&args[..], &["--from", "sums"]].concat());
    assert_eq!(repeatable(&first), repeatable(&named));
}

#[test]
fn the_queue_in_memory_and_the_store_come_to_the_same_end() {
    let everything = "limits:
  concurrency: 4
  per-organization: 2
  creations-per-hour: 60
  max-open-pull-requests: 40
  max-attempts: 2
waves:
  - size: 5
  - size: 30%
    soak: 1h
  - size: all
windows:
  - { from: '09:00', to: '17:30', timezone: Europe/Berlin }
";
    let outages = ["github:30m@20m", "model:30m@2h", "github:2h@5h", "github:10s@7h"];
    let outages: Vec<_> = outages.iter().map(|text| text.parse().unwrap()).collect();
    for (what, more, options) in [
        ("plain", "", small()),
        ("labels and a budget", "publish: { labels: [a] }\nlimits: { budget-usd: 12 }\n", small()),
        ("failures", "limits: { max-failure-rate: 0.02 }\n", small()),
        ("reviews", "mode: review\n", small()),
        ("reports", "mode: report\n", small()),
        ("held", "publish: { published: [{ repositories: '*/*', as: held }] }\n", small()),
        ("two tokens", "", Options { tokens: 2, workers: 30, ..small() }),
        ("outages", "", Options { outages: outages.clone(), ..small() }),
        ("everything", everything, Options { organizations: 3, outages, ..small() }),
        ("few requests", "", Options { requests_per_hour: 100, workers: 30, ..small() }),
    ] {
        let simulation = simulate(&parsed(more), &options);
        let check = simulation.check.as_ref().unwrap();
        assert!(check.same, "{what}: {simulation:#?}");
        let apart = (check.seconds_in_memory - check.seconds_in_store).abs();
        assert!(apart <= 60 + check.seconds_in_store / 50, "{what}: {check:?}");
    }
}

#[test]
fn an_outage_costs_time_and_neither_attempts_nor_dollars() {
    let campaign = parsed("");
    let quiet = simulate(&campaign, &Options { check: 0, ..small() });
    for outage in ["github:2m@10m", "github:2h@10m", "model:30m@10m", "model:2h@10m"] {
        let outages = vec![outage.parse().unwrap()];
        let options = Options { outages, check: 0, ..small() };
        let cut = simulate(&campaign, &options);
        let (course, before) = (&cut.courses[0], &quiet.courses[0]);
        assert_eq!(course.states, before.states, "{outage}");
        assert!((course.cost_usd - before.cost_usd).abs() < 0.01, "{outage}");
        let lasts = options.outages[0].lasts.as_secs().cast_signed();
        let later = course.seconds - before.seconds;
        // A pause that is growing ends up to five minutes after the outage.
        assert!(later <= lasts + 600, "{outage}: {later} s later");
        assert!(lasts < 1_000 || later > lasts / 2, "{outage}: only {later} s later");
        assert!(course.cut_off > 0, "{outage}");
    }
}

#[test]
fn what_limits_a_campaign_is_named_first() {
    let first = |more: &str, options: Options| {
        let simulation = simulate(&parsed(more), &Options { check: 0, ..options });
        (simulation.what_if[0].change.clone(), simulation.tokens_for_half)
    };
    let many = Options { repositories: 1_000, ..small() };
    let (change, tokens) = first("", Options { workers: 500, ..many.clone() });
    assert_eq!(change, "twice the tokens");
    assert!(tokens.is_some_and(|tokens| (2..=4).contains(&tokens)), "{tokens:?}");
    assert_eq!(first("", Options { workers: 2, ..small() }).0, "twice the workers");
    let soak = "waves:\n  - { size: 10, soak: 48h }\n  - size: all\n";
    assert_eq!(first(soak, small()), ("no waves".to_owned(), None));
    let budget = first("limits: { budget-usd: 5 }\n", small());
    assert_eq!(budget, ("no `limits.budget-usd`".to_owned(), None));
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let world = world();
    for (args, code, words) in [
        (&["simulate"][..], 2, "say `--repositories N`"),
        (&["simulate", "--repositories", "0"], 2, "`--repositories` must be from 1 to"),
        (&["simulate", "--repositories", "9", "--workers", "0"], 2, "`--workers` must be from 1"),
        (&["simulate", "--repositories", "9", "--outage", "moon:1h@1h"], 2, "neither `github` nor"),
        (&["simulate", "--repositories", "9", "--failing", "2"], 2, "`--failing` must be from 0"),
        (&["simulate", "--repositories", "9", "--run-cost=-1"], 2, "which is no price"),
        (&["simulate", "--repositories", "9", "--from", "other"], 10, "there is no database at"),
    ] {
        let output = batch(&world, args).expect(code);
        assert!(output.stderr.contains(words), "{args:?}: {}", output.stderr);
    }
    assert!(!world.path("state/fleet.db").exists());
}

#[test]
fn what_it_costs_to_look_at_many_repositories_is_said_before_that_begins() {
    let github = (1..=520).fold(GitHub::new().organization("acme"), |github, number| {
        github.quick_repository(&format!("acme/app-{number:03}"), &[])
    });
    let world = within(github, Vec::new());
    let output = batch(&world, &["plan"]);
    let words = "520 repositories to look at: 11 GraphQL questions (11 of the 5000 points of an hour), \
                 about 1 min";
    assert!(output.stderr.contains(words), "{}", output.text());
    let asked = world.github.requests().iter().filter(|one| one.path.contains("/graphql")).count();
    // And one for who we are.
    assert!((11..=12).contains(&asked), "{asked}");
}
