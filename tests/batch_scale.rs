//! A campaign over sixty repositories, with trouble in one of six.

use crate::batch_run::{CAMPAIGN, batch, counted, fixed, pulls, states, within, write, writes};
use crate::support::github::{GitHub, Trouble, fleet_name};
use crate::support::model::{fail, overloaded};
use crate::support::world::FILES;

const ALL: usize = 60;

/// One of them has a set-up that fails.
fn repositories() -> GitHub {
    GitHub::new().organization("acme").repositories(ALL, |number| {
        let own = (".github/patchwright.yml", "setup: [exit 7]\nsetup-required: true\n");
        FILES.iter().copied().chain((number == 21).then_some(own)).collect::<Vec<_>>()
    })
}

#[test]
fn sixty_repositories_are_done_whatever_goes_wrong_in_some() {
    // What passes, or whose answer is lost, costs nothing; what stays is a failure of its class.
    let github = repositories()
        .fault_for(&fleet_name(3), Trouble::CloneCut)
        .fault_times(&fleet_name(13), Trouble::CloneError(500), 1_000)
        .fault_for(&fleet_name(33), Trouble::PullErrorAfter(502))
        .fault_for(&fleet_name(39), Trouble::PullLost)
        .fault_for(&fleet_name(45), Trouble::Secondary(Some(1)))
        .fault_for(&fleet_name(51), Trouble::Secondary(None))
        .fault_for(&fleet_name(57), Trouble::PushLost);
    let broken = || vec![fail(400, "invalid_request", "no such thing")];
    let mut late = vec![overloaded()];
    late.extend(fixed());
    let world = within(github, vec![(25, broken()), (29, late)]);
    write(&world, CAMPAIGN);

    let output = batch(&world, &["run", "--concurrency", "8"]).expect(20);
    assert_eq!(states(&output), counted(&[("failed", 3), ("open", 57)]), "{}", output.stderr);
    let status = batch(&world, &["status"]);
    for (number, class) in [(13, "clone"), (21, "sandbox"), (25, "model")] {
        let line = status.stdout.lines().find(|line| line.contains(&fleet_name(number)));
        let line = line.unwrap_or_else(|| panic!("{number}: {}", status.text()));
        assert!(line.contains(class), "{number}: {line}");
    }
    assert_eq!(pulls(&world).len(), 57);
    assert!(world.github.all_pulls().values().all(|pulls| pulls.len() == 1));
    let sandboxes = fs_err::read_dir(world.path("state/sandboxes"));
    assert_eq!(sandboxes.map_or(0, Iterator::count), 0, "a sandbox was left");

    let (asked, written) = (world.model.requests().len(), writes(&world).len());
    let again = batch(&world, &["run"]).expect(20);
    assert_eq!(states(&again), counted(&[("failed", 3), ("open", 57)]));
    assert_eq!(world.model.requests().len(), asked, "the model was asked again");
    assert_eq!(writes(&world).len(), written, "{:?}", &writes(&world)[written..]);
    assert_eq!(pulls(&world).len(), 57);
}
