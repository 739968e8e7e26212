//! Programs that are left running: their lines, signals, and several of them on one model server.

use std::time::Duration;

use crate::support::github::GitHub;
use crate::support::model::{ModelServer, stall};
use crate::support::world::{FILES, TestWorld, fix};

fn two() -> GitHub {
    ["acme/app", "acme/app-2"].into_iter().fold(GitHub::new(), |github, name| {
        github
            .repository(name, FILES)
            .issue(name, 7, "add subtracts", "`add 2 2` prints 0.")
            .by("rita")
    })
}

#[test]
fn two_runs_at_once_and_one_after_a_kill_each_get_their_own_script() {
    let names = ["acme/app", "acme/app-2"];
    let world = TestWorld::with(two(), ModelServer::by_word(names.map(|name| (name, fix()))));
    let first = world.process(&["issue", "acme/app#7"]);
    let second = world.process(&["issue", "acme/app-2#7"]);
    second.wait_until(|| world.model.requests_about("acme/app-2").len() >= 2);
    assert_eq!(second.kill().code, 137);
    first.end().expect(0);
    let again = world.process(&["issue", "acme/app-2#7"]);
    again.end().expect(0);
    for name in names {
        assert_eq!(world.github.of(name).pulls().len(), 1, "{name}");
    }
    assert_eq!(world.model.requests_about("acme/app").len(), 5);
    let lost = world.model.requests_about("acme/app-2").len() - 5;
    assert!(lost <= 1, "{lost} requests were repeated");
}

#[test]
fn a_process_stands_still_goes_on_and_ends_by_signals() {
    let model = ModelServer::start([stall()]);
    let world = TestWorld::with(two(), model);
    let mut process = world.process(&["issue", "acme/app#7"]);
    process.wait_until(|| world.model.requests().len() == 1);
    process.signal("STOP");
    process.signal("TERM");
    // Whoever stands still does not hear it.
    std::thread::sleep(Duration::from_millis(50));
    assert!(!process.has_ended());
    process.signal("CONT");
    process.wait_for("interrupted");
    let output = process.end();
    assert_eq!(output.code, 143, "{}", output.text());
    assert!(output.stderr.contains("interrupted"), "{}", output.text());
}
