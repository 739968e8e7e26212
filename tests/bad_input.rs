//! Everything that can be wrong before work starts: one clear message, the documented exit code, and
//! nothing done on GitHub.

use expect_test::{Expect, expect};
use patchwright::forge::Role;

use crate::support::github::GitHub;
use crate::support::model::fail;
use crate::support::world::{TestWorld, github};

/// Runs `issue` in a world that is wrong in some way.
#[track_caller]
fn check(world: &TestWorld, args: &[&str], expected: &Expect) {
    let output = world.run(args);
    expected.assert_eq(&output.text());
    assert_eq!(world.github.writes(), Vec::<String>::new(), "nothing half done");
    assert_eq!(world.github.branches().len(), 1);
}

const ISSUE: &[&str] = &["issue", "acme/app#7", "--quiet"];

fn world(github: GitHub) -> TestWorld {
    TestWorld::new(github, [])
}

#[test]
fn without_a_token() {
    check(&world(github()).unset("GITHUB_TOKEN"), ISSUE, &expect![[""]]);
}

#[test]
fn with_a_token_that_github_does_not_know() {
    let world = world(github()).set("GITHUB_TOKEN", "github_pat_11AAAAAAA0wrong");
    check(&world, ISSUE, &expect![[""]]);
}

#[test]
fn with_a_repository_that_is_not_there() {
    check(&world(github()), &["issue", "acme/ap#7", "--quiet"], &expect![[""]]);
}

#[test]
fn with_an_issue_that_is_not_there() {
    check(&world(github()), &["issue", "acme/app#70", "--quiet"], &expect![[""]]);
}

#[test]
fn with_an_archived_repository() {
    check(&world(github().with(|repository| repository.archived = true)), ISSUE, &expect![[""]]);
}

#[test]
fn with_a_closed_issue() {
    check(&world(github().with_issue(|issue| issue.open = false)), ISSUE, &expect![[""]]);
}

#[test]
fn with_a_base_branch_that_is_not_there() {
    let world = world(github());
    let output = world.run(&["issue", "acme/app#7", "--quiet", "--base", "release"]);
    expect![[""]].assert_eq(&output.text());
    assert_eq!(world.github.branches().len(), 1);
}

#[test]
fn with_no_docker() {
    let world = world(github())
        .set("PATCHWRIGHT_SANDBOX", "docker")
        .set("DOCKER_HOST", "unix:///nowhere/docker.sock");
    check(&world, ISSUE, &expect![[""]]);
}

#[test]
fn with_a_model_that_nobody_knows() {
    check(
        &world(github()),
        &["issue", "acme/app#7", "--quiet", "--model", "gpt-5.3-codx"],
        &expect![[""]],
    );
}

#[test]
fn without_a_key_for_the_public_endpoint() {
    let world = world(github()).unset("OPENAI_API_KEY").unset("OPENAI_BASE_URL");
    check(&world, ISSUE, &expect![[""]]);
}

#[test]
fn with_a_key_that_the_provider_refuses() {
    let refused = fail(401, "invalid_api_key", "Incorrect API key provided: test-mod**8c06.");
    let world = TestWorld::new(github(), [refused]);
    let output = world.run(ISSUE);
    expect![[""]].assert_eq(&output.text());
    assert_eq!((world.github.pulls().len(), world.github.branches().len()), (0, 1));
}

#[test]
fn with_an_unknown_key_in_the_operators_configuration() {
    let world = world(github());
    fs_err::write(world.path("config.yml"), "limits:\n  max-turn: 3\n").unwrap();
    check(&world, &["issue", "acme/app#7", "--config", "config.yml"], &expect![[""]]);
}

#[test]
fn with_a_wrong_value_in_the_operators_configuration() {
    let world = world(github());
    fs_err::write(world.path("config.yml"), "verify: [a]\nlimits:\n  timeout: soon\n").unwrap();
    check(&world, &["issue", "acme/app#7", "--config", "config.yml"], &expect![[""]]);
}

#[test]
fn with_a_repository_configuration_that_is_not_valid() {
    let mut files = crate::support::world::FILES.to_vec();
    files.push((".github/patchwright.yml", "verify:\n  - sh test.sh\nnonsense: 1\n"));
    let world = world(crate::support::world::github_with(&files));
    let output = world.run(ISSUE);
    expect![[""]].assert_eq(&output.text());
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn with_something_that_is_no_issue() {
    check(&world(github()), &["issue", "acme/app"], &expect![[""]]);
}

#[test]
fn with_a_state_folder_that_is_a_file() {
    let world = world(github());
    fs_err::write(world.path("file"), "").unwrap();
    let world = world.set("PATCHWRIGHT_STATE_DIR", "file");
    check(&world, ISSUE, &expect![[""]]);
}

#[test]
fn with_a_token_that_may_not_push() {
    let world = TestWorld::new(github().token_lacks("contents"), crate::support::world::fix());
    let output = world.run(ISSUE);
    expect![[""]].assert_eq(&output.text());
    assert_eq!((world.github.pulls().len(), world.github.branches().len()), (0, 1));
}

#[test]
fn with_the_number_of_a_pull_request() {
    let world = TestWorld::new(github().user("ann", Role::Write), crate::support::world::fix());
    world.issue().expect(0);
    let number = world.github.pulls()[0].number;
    let before = world.github.writes().len();
    let output = world.run(&["issue", &format!("acme/app#{number}"), "--quiet"]);
    expect![[""]].assert_eq(&output.text());
    assert_eq!(world.github.writes().len(), before);
}

#[test]
fn with_an_image_that_is_not_there() {
    if !crate::issue::docker_answers() {
        return;
    }
    let world = world(github())
        .set("PATCHWRIGHT_SANDBOX", "docker")
        .set("PATCHWRIGHT_IMAGE", "patchwright-no-such-image:1");
    let output = world.run(ISSUE).expect(70);
    assert!(output.stderr.contains("`patchwright-no-such-image:1`"), "{}", output.text());
    assert!(output.stderr.contains("hint: "), "{}", output.text());
    assert_eq!(world.github.branches().len(), 1);
}
