//! The disk of the state folder, which has the database as well, becomes full in the middle of a run, and has room again.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::until;
use crate::batch_run::{batch, fixed, pulls, repositories, shell, within};
use crate::store::full::SmallDisk;
use crate::support::github::fleet_name;
use crate::support::world::TestWorld;

/// A campaign of one repository whose disk is full for so long while the model's first command runs.
fn through_a_full_disk(lease: &str, how_long: Duration) -> Option<(TestWorld, SmallDisk, String)> {
    let disk = SmallDisk::mount(128 << 20)?;
    // The first patch may be what cannot be written.
    let turns = [vec![shell("sleep 2; echo '# more' >> calc.sh")], fixed()[..1].to_vec(), fixed()];
    let turns = turns.concat();
    let world = within(repositories(1), vec![(1, turns)])
        .set("PATCHWRIGHT_STATE_DIR", disk.path().join("state").display().to_string())
        .set("PATCHWRIGHT_TIME_SCALE", "0.05");
    let args = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--lease", lease];
    let log = world.path("run.log");
    let mut command = world.command(&args);
    command.stdout(Stdio::null()).stderr(fs_err::File::create(&log).unwrap().into_file());
    let mut child = command.spawn().unwrap();
    until("a request", || world.model.requests().len() == 1);
    disk.fill(0);
    let said = || fs_err::read_to_string(&log).unwrap();
    until("a word", || said().contains("nothing is begun here until that is put right"));
    std::thread::sleep(how_long);
    disk.free();
    let status = child.wait().unwrap();
    // Where the end of the run could be stored all the same, nothing is left to wait for, and the command has ended.
    match status.code() {
        Some(20) => drop(world.run(&args).expect(0)),
        code => assert_eq!(code, Some(0), "{}", said()),
    }
    Some((world, disk, said()))
}

#[track_caller]
fn no_attempt_was_counted(world: &TestWorld, said: &str) {
    assert_eq!(pulls(world), [format!("{}#1", fleet_name(1))], "{said}");
    assert!(!said.contains("was lost"), "{said}");
    let status = batch(world, &["status"]).expect(0);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let target = &status["repositories"][0];
    assert_eq!((&target["attempts"], &target["state"]), (&json!(1), &json!("open")), "{status}");
    let cost = target["cost_usd"].as_f64().unwrap();
    // Each turn costs more than a tenth of a cent.
    let asked = u32::try_from(world.model.requests().len()).unwrap();
    assert!(cost > 0.001 * f64::from(asked), "{asked} turns: {status}");
}

#[test]
fn a_disk_that_is_full_for_a_while_costs_no_attempt() {
    let run = through_a_full_disk("15s", Duration::from_secs(4));
    let Some((world, _disk, said)) = run else { return };
    no_attempt_was_counted(&world, &said);
}

/// The lease cannot be renewed in that time, and is given up.
#[test]
fn a_disk_that_is_full_for_longer_than_a_lease_costs_no_attempt() {
    let run = through_a_full_disk("5s", Duration::from_secs(12));
    let Some((world, _disk, said)) = run else { return };
    no_attempt_was_counted(&world, &said);
}
