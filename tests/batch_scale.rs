//! A campaign over two hundred repositories, with trouble in one of twenty.

use crate::batch_run::{CAMPAIGN, batch, counted, fixed, pulls, states, within, write, writes};
use crate::support::github::{GitHub, Trouble, fleet_name};
use crate::support::model::{fail, overloaded};
use crate::support::world::FILES;

const ALL: usize = 200;

/// One of them has a set-up that fails.
fn repositories() -> GitHub {
    GitHub::new().organization("acme").repositories(ALL, |number| {
        let own = (".github/patchwright.yml", "setup: [exit 7]\nsetup-required: true\n");
        FILES.iter().copied().chain((number == 51).then_some(own)).collect::<Vec<_>>()
    })
}

#[test]
fn two_hundred_repositories_are_done_whatever_goes_wrong_in_some() {
    // What passes, or whose answer is lost, costs nothing; what stays is a failure of its class.
    let github = repositories()
        .fault_for(&fleet_name(11), Trouble::CloneCut)
        .fault_times(&fleet_name(31), Trouble::CloneError(500), 1_000)
        .fault_for(&fleet_name(111), Trouble::PullErrorAfter(502))
        .fault_for(&fleet_name(131), Trouble::PullLost)
        .fault_for(&fleet_name(151), Trouble::Secondary(Some(1)))
        .fault_for(&fleet_name(171), Trouble::Secondary(None))
        .fault_for(&fleet_name(191), Trouble::PushLost);
    let broken = || vec![fail(400, "invalid_request", "no such thing")];
    let mut late = vec![overloaded()];
    late.extend(fixed());
    let world = within(github, vec![(71, broken()), (91, late)]);
    write(&world, CAMPAIGN);

    let output = batch(&world, &["run", "--concurrency", "8"]).expect(20);
    assert_eq!(states(&output), counted(&[("failed", 3), ("open", 197)]), "{}", output.stderr);
    let status = batch(&world, &["status"]);
    for (number, class) in [(31, "clone"), (51, "sandbox"), (71, "model")] {
        let line = status.stdout.lines().find(|line| line.contains(&fleet_name(number)));
        let line = line.unwrap_or_else(|| panic!("{number}: {}", status.text()));
        assert!(line.contains(class), "{number}: {line}");
    }
    assert_eq!(pulls(&world).len(), 197);
    assert!(world.github.all_pulls().values().all(|pulls| pulls.len() == 1));
    let sandboxes = fs_err::read_dir(world.path("state/sandboxes"));
    assert_eq!(sandboxes.map_or(0, Iterator::count), 0, "a sandbox was left");

    let (asked, written) = (world.model.requests().len(), writes(&world).len());
    let again = batch(&world, &["run"]).expect(20);
    assert_eq!(states(&again), counted(&[("failed", 3), ("open", 197)]));
    assert_eq!(world.model.requests().len(), asked, "the model was asked again");
    assert_eq!(writes(&world).len(), written, "{:?}", &writes(&world)[written..]);
    assert_eq!(pulls(&world).len(), 197);
}
