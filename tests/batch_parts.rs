//! Parts of a campaign: shards over several nights, repositories by name, and what is left for the next night.

use crate::batch_run::{
    CAMPAIGN, batch, counted, fixed, pulls, repositories, states, within, write,
};
use crate::support::github::fleet_name;
use crate::support::model::{ModelServer, fail, unauthorized};
use crate::support::world::{Output, TestWorld};

/// A world in which no run gets anywhere.
fn without_a_key(count: usize, campaign: &str) -> TestWorld {
    let others = (1..=count).map(|number| (number, vec![unauthorized()])).collect();
    let world = within(repositories(count), others);
    write(&world, campaign);
    world
}

/// The same with a key that works, and where its requests are counted.
fn with_a_key(world: TestWorld) -> (TestWorld, TestWorld) {
    let right = TestWorld::asking(repositories(1), ModelServer::conversations(|_| fixed()));
    let world = world.set("OPENAI_BASE_URL", right.model.url());
    (world, right)
}

/// Runs a part into `parts/N.db`, from what is in the database of the night before.
fn part(world: &TestWorld, number: usize, of: usize) -> Output {
    let file = format!("parts/{number}.db");
    fs_err::create_dir_all(world.path("parts")).unwrap();
    if world.path("state/fleet.db").exists() {
        fs_err::copy(world.path("state/fleet.db"), world.path(&file)).unwrap();
    }
    let part = format!("{number}/{of}");
    batch(world, &["run", "--hold", "--shard", &part, "--database", &file])
}

#[test]
fn what_a_night_left_is_run_once_by_the_parts_of_the_next() {
    let first = without_a_key(6, CAMPAIGN);
    for number in 1..=2 {
        let output = part(&first, number, 2);
        assert!([10, 20].contains(&output.code), "{}", output.text());
    }
    let output = batch(&first, &["run", "--publish-from", "parts"]).expect(20);
    assert_eq!(states(&output), counted(&[("waiting", 6)]), "{}", output.text());
    assert!(output.stderr.contains("6 repositories have not been run"), "{}", output.text());
    let status = first.run(&["batch", "status", "campaign.yml"]);
    assert!(status.text().contains("6 not begun"), "{}", status.text());

    let (second, right) = with_a_key(first);
    let asked = |world: &TestWorld| world.model.requests().len();
    let mut by_part = Vec::new();
    for number in 1..=3 {
        let before = asked(&right);
        let output = part(&second, number, 3);
        assert!([0, 10].contains(&output.code), "{}", output.text());
        by_part.push(asked(&right) - before);
    }
    assert_eq!(by_part.iter().sum::<usize>(), 6 * fixed().len(), "{by_part:?}");
    let output = batch(&second, &["run", "--publish-from", "parts"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 6)]), "{}", output.text());
    assert_eq!((pulls(&second).len(), asked(&right)), (6, 6 * fixed().len()));
}

#[test]
fn a_repository_that_is_named_is_worked_on_alone() {
    let first = without_a_key(3, &format!("{CAMPAIGN}waves:\n  - size: 1\n"));
    batch(&first, &["run"]).expect(20);
    let (second, right) = with_a_key(first);
    let name = fleet_name(3);
    let output = batch(&second, &["run", "--only", &name]).expect(0);
    assert_eq!(right.model.requests().len(), fixed().len(), "{}", output.text());
    assert_eq!(pulls(&second), [format!("{name}#1")]);
    assert_eq!(states(&output)["open"], 1, "{}", output.text());
    let status = second.run(&["batch", "status", "campaign.yml", "--json"]);
    let status: serde_json::Value = serde_json::from_str(status.stdout.trim()).unwrap();
    assert_eq!(status["wave"], 1, "the wave of the named one is not opened for all: {status}");
    batch(&second, &["run"]).expect(0);
    assert_eq!((pulls(&second).len(), right.model.requests().len()), (3, 3 * fixed().len()));
}

#[test]
fn a_change_that_is_stored_is_published_for_the_repository_that_is_named() {
    let world = within(repositories(3), Vec::new());
    write(&world, CAMPAIGN);
    batch(&world, &["run", "--dry-run"]).expect(0);
    let output = batch(&world, &["run", "--only", &fleet_name(2)]).expect(0);
    assert_eq!(states(&output), counted(&[("held", 2), ("open", 1)]), "{}", output.text());
    assert_eq!(pulls(&world), [format!("{}#1", fleet_name(2))]);
}

#[test]
fn a_run_that_publishes_nothing_ends_though_something_waits_to_be_published() {
    let world = within(repositories(2), Vec::new());
    write(&world, &format!("{CAMPAIGN}limits:\n  max-open-pull-requests: 1\n"));
    let output = batch(&world, &["run"]).expect(20);
    assert_eq!(states(&output), counted(&[("open", 1), ("ready", 1)]), "{}", output.text());
    let output = batch(&world, &["run", "--dry-run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 1), ("ready", 1)]), "{}", output.text());
    // What it waited for is merged, and it is published at once.
    let (name, _) =
        pulls(&world)[0].rsplit_once('#').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    world.github.of(&name).merge(1);
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("merged", 1), ("open", 1)]), "{}", output.text());
}

#[test]
fn parts_with_a_database_each_share_the_budget() {
    let world = within(repositories(6), Vec::new());
    let budget = |dollars: &str| {
        format!("{CAMPAIGN}agent:\n  max-cost-usd: 1\nlimits:\n  budget-usd: {dollars}\n")
    };
    write(&world, &budget("12"));
    let mut all = 0.0;
    for number in 1..=3 {
        let output = part(&world, number, 3);
        let said = format!("part {number}/3 may spend $");
        let (_, rest) =
            output.stderr.split_once(&said).unwrap_or_else(|| panic!("{}", output.text()));
        let dollars = rest.split(' ').next().unwrap();
        all += dollars.parse::<f64>().unwrap();
        // Once more in the same database: it has what it had.
        let file = format!("parts/{number}.db");
        let part = format!("{number}/3");
        let again = batch(&world, &["run", "--hold", "--shard", &part, "--database", &file]);
        assert!(again.stderr.contains(&said), "{}", again.text());
    }
    assert!((all - 12.0).abs() < 0.02, "{all}");
    assert_eq!(world.model.requests().len(), 6 * fixed().len());

    let world = within(repositories(4), Vec::new());
    write(&world, &budget("1"));
    let outputs: Vec<Output> = (1..=2).map(|number| part(&world, number, 2)).collect();
    for output in outputs.iter().filter(|output| output.code != 10) {
        assert!(output.stderr.contains("too little for a run"), "{}", output.text());
    }
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn a_repository_that_is_renamed_before_its_part_is_published_keeps_its_change() {
    let world = within(repositories(3), Vec::new());
    write(&world, CAMPAIGN);
    let night = || {
        for number in 1..=2 {
            let output = part(&world, number, 2);
            assert!([0, 10].contains(&output.code), "{}", output.text());
        }
    };
    night();
    let asked = world.model.requests().len();
    // One is called otherwise, and another one takes over its name.
    world.github.of(&fleet_name(1)).rename("moved");
    world.github.of(&fleet_name(2)).rename("app-001");
    let output = batch(&world, &["run", "--publish-from", "parts"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 3)]), "{}", output.text());
    let opened = [1, 3].map(|number| format!("{}#1", fleet_name(number)));
    assert_eq!(pulls(&world), [opened.as_slice(), &["acme/moved#1".to_owned()]].concat());
    let moved = world.github.of("acme/moved").file("patchwright/sums", "NUMBER.md").unwrap();
    assert_eq!(moved, "# calc 1", "its own change");
    // It is the same repository for the next night as well.
    night();
    let output = batch(&world, &["run", "--publish-from", "parts"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 3)]), "{}", output.text());
    assert_eq!((pulls(&world).len(), world.model.requests().len()), (3, asked));
}

#[test]
fn what_a_lost_part_had_to_do_is_told_and_run_by_the_next_night() {
    let world = within(repositories(6), Vec::new());
    write(&world, CAMPAIGN);
    let of_part = |number: usize| {
        let output = part(&world, number, 3);
        if output.code == 10 { 0 } else { states(&output).values().sum::<u64>() }
    };
    let counts = [1, 2, 3].map(of_part);
    let (lost, most) = counts.iter().enumerate().max_by_key(|(_, count)| **count).unwrap();
    assert!(*most > 0 && *most < 6, "{counts:?}");
    fs_err::remove_file(world.path(&format!("parts/{}.db", lost + 1))).unwrap();
    let output = batch(&world, &["run", "--publish-from", "parts"]).expect(20);
    let expected = counted(&[("open", 6 - most), ("waiting", *most)]);
    assert_eq!(states(&output), expected, "{}", output.text());
    assert!(output.stderr.contains(&format!("part {}/3", lost + 1)), "{}", output.text());
    assert!(output.stderr.contains("not been run"), "{}", output.text());
    let status = world.run(&["batch", "status", "campaign.yml"]);
    assert!(status.text().contains(&format!("{most} not begun")), "{}", status.text());
    // The same once more, as a job that is run again.
    batch(&world, &["run", "--publish-from", "parts"]).expect(20);
    for number in 1..=3 {
        part(&world, number, 3);
    }
    let output = batch(&world, &["run", "--publish-from", "parts"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 6)]), "{}", output.text());
}

#[test]
fn a_part_without_work_is_not_missed() {
    let world = within(repositories(2), Vec::new());
    write(&world, CAMPAIGN);
    let matrix = ["batch", "plan", "campaign.yml", "--model", "gpt-5.3-codex", "--matrix"];
    let shards = |world: &TestWorld| {
        let matrix = world.run(&[&matrix[..], &["--shards", "16"]].concat());
        let matrix: serde_json::Value = serde_json::from_str(matrix.stdout.trim()).unwrap();
        let shard = |one: &serde_json::Value| one["shard"].as_str().unwrap().to_owned();
        matrix["include"].as_array().unwrap().iter().map(shard).collect::<Vec<_>>()
    };
    let planned = shards(&world);
    assert!(!planned.is_empty() && planned.len() <= 2, "{planned:?}");
    fs_err::create_dir_all(world.path("parts")).unwrap();
    for (place, shard) in planned.iter().enumerate() {
        let file = format!("parts/{place}.db");
        batch(&world, &["run", "--hold", "--shard", shard, "--database", &file]).expect(0);
    }
    // What nobody had planned is for the next night.
    let output = batch(&world, &["run", "--publish-from", "parts"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 2)]), "{}", output.text());
    assert_eq!(shards(&world), Vec::<String>::new());
}

#[test]
fn a_change_that_is_stored_is_something_to_do() {
    let world = within(repositories(2), Vec::new());
    write(&world, &format!("{CAMPAIGN}repeat: when-moved\n"));
    batch(&world, &["run", "--dry-run"]).expect(0);
    let asked = world.model.requests().len();
    let plan = || world.run(&["batch", "plan", "campaign.yml", "--model", "gpt-5.3-codex"]);
    let said = plan().expect(0);
    assert!(said.stdout.contains("to work on: 2"), "{}", said.text());
    assert!(said.stdout.contains("at most $0.00"), "publishing asks no model: {}", said.text());
    let matrix = ["batch", "plan", "campaign.yml", "--model", "gpt-5.3-codex", "--matrix"];
    let matrix = world.run(&matrix).expect(0);
    assert!(matrix.stdout.contains("shard"), "{}", matrix.text());
    // It was paid for, also where the base has moved since.
    world.github.of(&fleet_name(1)).push("main", &[("more.txt", "more\n")]);
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 2)]), "{}", output.text());
    assert_eq!((pulls(&world).len(), world.model.requests().len()), (2, asked));
    // What the checks said is said of what they saw.
    let says_so = |number: usize| {
        let pull = &world.github.of(&fleet_name(number)).pulls()[0];
        pull.body.contains("This change was made and checked on `main` at ")
    };
    assert_eq!([1, 2].map(says_so), [true, false]);
    // What the campaign holds back is finished for it.
    let world = within(repositories(1), Vec::new());
    let held = "  published:\n    - repositories: acme/*\n      as: held\n";
    write(&world, &format!("{CAMPAIGN}{held}"));
    batch(&world, &["run"]).expect(0);
    batch(&world, &["plan"]).expect(10);
}

#[test]
fn what_came_of_a_retry_in_a_part_is_published() {
    let first = without_a_key(2, &format!("{CAMPAIGN}limits:\n  max-failure-rate: 1\n"));
    let broken = |_: &_| vec![fail(400, "invalid_request", "no such thing")];
    let broken = TestWorld::asking(repositories(1), ModelServer::conversations(broken));
    let first = first.set("OPENAI_BASE_URL", broken.model.url());
    part(&first, 1, 1);
    let output = batch(&first, &["run", "--publish-from", "parts"]).expect(20);
    assert_eq!(states(&output), counted(&[("failed", 2)]), "{}", output.text());
    let (second, right) = with_a_key(first);
    let database = "parts/1.db";
    fs_err::copy(second.path("state/fleet.db"), second.path(database)).unwrap();
    batch(&second, &["retry", "--database", database]).expect(0);
    batch(&second, &["run", "--hold", "--shard", "1/1", "--database", database]).expect(0);
    let asked = right.model.requests().len();
    let output = batch(&second, &["run", "--publish-from", "parts"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 2)]), "{}", output.text());
    let paid = |output: &Output| {
        let last = output.stdout.lines().last().unwrap();
        serde_json::from_str::<serde_json::Value>(last).unwrap()["cost_usd"].as_f64().unwrap()
    };
    // Once more, nothing comes twice.
    let again = batch(&second, &["run", "--publish-from", "parts"]).expect(0);
    assert!((paid(&output) - paid(&again)).abs() < 1e-9, "{}", again.text());
    assert_eq!((pulls(&second).len(), right.model.requests().len()), (2, asked));
}
