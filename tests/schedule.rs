//! `patchwright schedule`: campaigns at their times, whatever daemon, clock and files do.

use std::time::Duration;

use expect_test::expect;

use crate::support::github::GitHub;
use crate::support::model::{ModelServer, Turn, custom, drip, say};
use crate::support::world::{FILES, PATCH, TestWorld};

const CAMPAIGN: &str = "name: sums
select:
  repositories: [acme/app]
task:
  prompt: In {{ repository }} `add` subtracts. Make it add.
schedule:
  cron: 0 2 * * *
  timezone: Europe/Berlin
";

fn fixed() -> Vec<Turn> {
    vec![custom("apply_patch", PATCH), say("Add instead of subtracting\n\nThe sign was wrong.")]
}

/// 2026-11-20, just after two in Berlin, unless a test says otherwise.
fn world(turns: fn() -> Vec<Turn>) -> TestWorld {
    let github = GitHub::new().organization("acme");
    let github = github.repository("acme/app", FILES).repository("acme/web", FILES);
    let world = TestWorld::with(github, ModelServer::conversations(move |_| turns()));
    world.write("sums.yml", CAMPAIGN);
    at(world, "2026-11-20T01:00:30Z")
}

fn at(world: TestWorld, now: &str) -> TestWorld {
    world.set("PATCHWRIGHT_NOW", now)
}

const ONCE: &[&str] = &["schedule", "sums.yml", "--once", "--model", "gpt-5.3-codex"];

fn pulls(world: &TestWorld) -> usize {
    world.github.all_pulls().values().map(Vec::len).sum()
}

/// Whether this look started something.
#[track_caller]
fn starts(world: &TestWorld) -> bool {
    let output = world.run(ONCE).expect(0);
    let started = output.stderr.contains("sums: starting");
    assert_ne!(started, output.stderr.contains("sums: next "), "{}", output.text());
    started
}

#[test]
fn each_time_fires_once_and_what_was_missed_is_made_up_for_once() {
    let mut world = world(fixed);
    let output = world.run(ONCE).expect(0);
    assert!(output.stderr.contains("sums: starting\n"), "{}", output.text());
    assert!(output.stderr.contains("sums: ended with 0\n"), "{}", output.text());
    assert_eq!(pulls(&world), 1);
    let again = world.run(ONCE).expect(0);
    assert!(
        again.stderr.contains("sums: next Sat 2026-11-21 02:00 CET (0 2 * * * Europe/Berlin)"),
        "{}",
        again.text()
    );
    // The daemon was away for three nights: one run, and it says for which of them.
    world = at(world, "2026-11-23T09:00:00Z");
    let late = world.run(ONCE).expect(0);
    let said = "sums: starting, for 2026-11-23 02:00, which was missed";
    assert!(late.stderr.contains(said), "{}", late.text());
    // The clock goes back an hour, a day, and forward again.
    for now in ["2026-11-23T08:00:00Z", "2026-11-22T08:00:00Z", "2026-11-23T10:00:00Z"] {
        world = at(world, now);
        assert!(!starts(&world), "at {now}");
    }
    assert_eq!(pulls(&world), 1, "the base has not moved");
}

#[test]
fn what_was_missed_longer_ago_than_asked_for_is_let_go() {
    let world = at(world(fixed), "2026-11-20T12:00:00Z");
    let output = world.run(&[ONCE, &["--catch-up-for", "2h"]].concat()).expect(0);
    assert!(output.stderr.contains("sums: next "), "{}", output.text());
    assert!(starts(&world), "a day is the usual bound");
}

#[test]
fn two_machines_with_the_same_files_fire_once() {
    let world = world(fixed);
    let (one, other) = (world.spawn(ONCE), world.spawn(ONCE));
    let outputs = [world.wait(one).expect(0), world.wait(other).expect(0)];
    let started = outputs.iter().filter(|output| output.stderr.contains("sums: starting")).count();
    assert_eq!(started, 1, "{}{}", outputs[0].text(), outputs[1].text());
    assert_eq!(pulls(&world), 1);
}

#[test]
fn files_that_cannot_be_scheduled_are_said_at_the_start() {
    let world = world(fixed);
    world.write("plain.yml", CAMPAIGN.split("schedule:").next().unwrap());
    world.write("wrong.yml", &CAMPAIGN.replace("0 2 * * *", "0 0 2 * * 1"));
    world.write("again.yml", CAMPAIGN);
    let said = |files: &[&str]| world.run(&[&["schedule"], files].concat()).expect(2).stderr;
    expect![[r#"
        error: `plain.yml`: campaign `sums` has no `schedule`

        hint: write for example `schedule: { cron: "0 2 * * mon-fri", timezone: Europe/Berlin }`
    "#]]
    .assert_eq(&said(&["plain.yml"]));
    expect![[r#"
        error: `sums.yml` and `again.yml` are both campaign `sums`

        hint: give each campaign its own name
    "#]]
    .assert_eq(&said(&["sums.yml", "again.yml"]));
    let wrong = said(&["wrong.yml"]);
    assert!(wrong.contains("wrong.yml") && wrong.contains("6 fields"), "{wrong}");
    assert!(said(&["plain.yml", "wrong.yml"]).contains("none of the campaign files"));
}

#[test]
fn one_file_that_is_broken_from_the_start_keeps_no_other_from_running() {
    let world = world(fixed);
    world.write("wrong.yml", "name: web\nselect: 7\n");
    let args = [&ONCE[..2], &["wrong.yml"], &ONCE[2..]].concat();
    let output = world.run(&args).expect(2);
    assert!(output.stderr.contains("`wrong.yml` is left out"), "{}", output.text());
    assert!(output.stderr.contains("sums: ended with 0\n"), "{}", output.text());
    assert_eq!(pulls(&world), 1);
}

#[test]
fn a_daemon_says_what_comes_next_and_does_not_run_what_was_before_its_time() {
    let world = world(fixed);
    let daemon = world.process(&["schedule", "sums.yml", "--model", "gpt-5.3-codex"]);
    daemon.wait_for("sums: next Sat 2026-11-21 02:00 CET (0 2 * * * Europe/Berlin)");
    std::thread::sleep(Duration::from_secs(1));
    let output = daemon.term().expect(0);
    assert!(!output.stderr.contains("starting"), "{}", output.text());
    assert_eq!(pulls(&world), 0);
}

/// The clock is set back by three hours after a time has fired: the times up to that one do not come again.
#[test]
fn the_next_time_that_is_said_is_one_that_will_fire() {
    let mut world = world(fixed);
    world.write("sums.yml", &CAMPAIGN.replace("0 2 * * *", "0 * * * *"));
    assert!(starts(&world));
    world = at(world, "2026-11-19T22:00:30Z");
    let output = world.run(ONCE).expect(0);
    let next = "sums: next Fri 2026-11-20 03:00 CET";
    assert!(output.stderr.contains(next), "{}", output.text());
    world = at(world, "2026-11-20T01:30:00Z");
    assert!(!starts(&world));
    world = at(world, "2026-11-20T02:00:00Z");
    assert!(starts(&world), "it is not the time that was said");
}

#[test]
fn a_broken_file_is_said_once_and_the_others_go_on() {
    let mut world = world(fixed);
    world.write(
        "web.yml",
        &CAMPAIGN.replace("name: sums", "name: web").replace("acme/app", "acme/web"),
    );
    // Both are known since yesterday.
    let files = ["schedule", "sums.yml", "web.yml", "--model", "gpt-5.3-codex"];
    world = at(world, "2026-11-19T12:00:00Z");
    let daemon = world.process(&files);
    daemon.wait_for("web: next");
    daemon.wait_until(|| world.path("state/fleet.db").exists());
    std::thread::sleep(Duration::from_secs(1));
    daemon.term().expect(0);
    world = at(world, "2026-11-20T01:30:00Z");
    let daemon = world.process(&files);
    daemon.wait_for("web: next");
    daemon.wait_for("web: ended with 0");
    daemon.wait_for("sums: ended with 0");
    world.write("sums.yml", "name: sums\nselect: 7\n");
    daemon.wait_for("error:");
    std::thread::sleep(Duration::from_secs(1));
    let output = daemon.term().expect(0);
    assert_eq!(output.stderr.matches("error:").count(), 1, "{}", output.text());
    assert_eq!(pulls(&world), 2);
}

/// Replies that take long enough to be interrupted.
fn slow() -> Vec<Turn> {
    vec![
        drip(Duration::from_millis(2)).and(custom("apply_patch", PATCH)),
        say("Add instead of subtracting"),
    ]
}

#[test]
fn a_signal_puts_a_run_back_and_the_next_start_goes_on_with_it() {
    let world = world(slow);
    let first = world.process(ONCE);
    first.wait_until(|| !world.model.requests().is_empty());
    let output = first.term();
    assert!(output.stderr.contains("sums: starting"), "{}", output.text());
    assert!([143, 20].contains(&output.code), "{}", output.text());
    assert_eq!(pulls(&world), 0);
    let output = world.run(ONCE).expect(0);
    let said = "sums: resuming a run that was interrupted";
    assert!(output.stderr.contains(said), "{}", output.text());
    assert_eq!(pulls(&world), 1);
    assert!(!starts(&world));
}

#[test]
fn a_time_that_comes_while_the_last_run_goes_on_elsewhere_is_skipped() {
    let mut world = world(slow);
    let first = world.process(ONCE);
    first.wait_until(|| !world.model.requests().is_empty());
    // Another machine, a minute later, with the same database.
    world.write("often.yml", &CAMPAIGN.replace("0 2 * * *", "'* * * * *'"));
    let second = ["schedule", "often.yml", "--once", "--model", "gpt-5.3-codex"];
    let mut command = world.command(&second);
    command.env("PATCHWRIGHT_NOW", "2026-11-20T01:01:00Z");
    let skipped = world.process_of(command).end().expect(0);
    let said = "sums: skipped, because its last run is still going (on another machine)";
    assert!(skipped.stderr.contains(said), "{}", skipped.text());
    first.end().expect(0);
    assert_eq!(pulls(&world), 1);
    world = at(world, "2026-11-20T01:01:00Z");
    let again = world.run(&second).expect(0);
    assert!(!again.stderr.contains("starting"), "the minute was used up: {}", again.text());
}
