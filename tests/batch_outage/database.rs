//! The database goes away while a command works on a campaign.

use std::process::Stdio;
use std::time::Duration;

use super::{paid, until, world};
use crate::batch_run::{batch, counted, states};
use crate::support::github::fleet_name;
use crate::support::postgres::postgres;

/// Longer than a connection that is refused is tried again.
const AWAY: Duration = Duration::from_secs(13);

#[test]
fn a_database_that_is_restarted_is_waited_for() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(server) = runtime.block_on(postgres()) else { return };
    let world = world(2).set("DATABASE_URL", runtime.block_on(server.database()));
    let args = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex"];
    let log = world.path("run.log");
    let mut command = world.command(&args);
    command.stdout(Stdio::null()).stderr(fs_err::File::create(&log).unwrap().into_file());
    let mut child = command.spawn().unwrap();
    until("a request", || !world.model.requests().is_empty());
    runtime.block_on(server.crash(AWAY));
    let said = || fs_err::read_to_string(&log).unwrap();
    assert!(child.wait().unwrap().success(), "{}", said());
    assert!(said().contains("the database answers again"), "{}", said());
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 2)]), "{}", output.text());
    assert!(paid(&world, 2).values().all(|turns| *turns == 4), "{:?}", paid(&world, 2));
}

/// Nothing is run again, and what commands of the new database leave out is said.
#[test]
fn a_database_that_was_lost_is_told_by_the_pull_requests_that_are_there() {
    let world = world(2);
    batch(&world, &["run"]).expect(0);
    let paid = world.model.requests().len();
    for file in ["fleet.db", "fleet.db-wal", "fleet.db-shm"] {
        let _ = fs_err::remove_file(world.path("state").join(file));
    }
    let run = world.run(&["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex"]).expect(10);
    for number in [1, 2] {
        let part = format!("{} (pull request #1 is open)", fleet_name(number));
        assert!(run.stderr.contains(&part), "{part}: {}", run.text());
    }
    assert!(
        run.stderr.contains("`batch status` and `batch close` know nothing of it: "),
        "{}",
        run.text()
    );
    assert_eq!(world.model.requests().len(), paid, "it was paid for again");
}
