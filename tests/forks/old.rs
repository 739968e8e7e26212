//! Forks that have been there for a while: behind, without the base branch, or made from another member of the network.

use super::{BRANCH, branches_of_upstream, head, readable, world};
use crate::support::git_http::git;
use crate::support::world::TestWorld;

const FORK: &str = "patchwright-bot/app";

/// How often the fork was asked for this branch.
fn looks(world: &TestWorld, branch: &str) -> usize {
    let path = format!("repos/{FORK}/git/ref/heads/{branch}");
    world.github.requests().iter().filter(|request| request.path.contains(&path)).count()
}

fn tip(world: &TestWorld, branch: &str) -> String {
    git(&world.github.repository_path(), &["rev-parse", branch]).trim().to_owned()
}

/// GitHub's button would bring what the parent has, and the parent is another repository.
#[test]
fn a_fork_of_a_fork_that_is_behind_gets_the_commit_of_the_repository_worked_on() {
    let github = readable().fork("mallory/app").fork_of("mallory/app", FORK);
    let world = world(github);
    world.github.push("main", &[("other.txt", "new\n")]);
    world.issue().expect(0);
    assert_eq!(head(&world).0, format!("{FORK}:{BRANCH}"));
    let fork = world.github.git().path(FORK);
    assert_eq!(git(&fork, &["rev-parse", "main"]).trim(), tip(&world, "main"));
    assert_eq!(git(&fork, &["rev-list", "--count", &format!("main..{BRANCH}")]).trim(), "1");
    let writes = world.github.writes();
    assert!(!writes.iter().any(|write| write.contains("merge-upstream")), "{writes:?}");
}

/// It was made before that branch was, or with the default branch alone. Nobody waits for it to appear.
#[test]
fn a_fork_without_the_base_branch_gets_it() {
    let world = world(readable().fork(FORK).branch("dev", &[("other.txt", "new\n")]));
    world.run(&["issue", "acme/app#7", "--base", "dev"]).expect(0);
    assert_eq!(head(&world).0, format!("{FORK}:{BRANCH}"));
    let fork = world.github.git().path(FORK);
    assert_eq!(git(&fork, &["rev-parse", "dev"]).trim(), tip(&world, "dev"));
    assert!(looks(&world, "dev") <= 3, "{}", looks(&world, "dev"));
    assert_eq!(branches_of_upstream(&world), ["dev", "main"]);
}

/// Neither GitHub nor we have a way to bring the commit there: it ends before the model is asked.
#[test]
fn a_fork_that_cannot_be_brought_up_ends_before_anything_is_paid_for() {
    let github = readable().fork("mallory/app").fork_of("mallory/app", FORK);
    let world = world(github.with(|repository| repository.keeps_its_objects = true));
    world.github.push("main", &[("other.txt", "new\n")]);
    let output = world.issue().expect(60);
    assert!(output.stderr.contains("cannot be brought to"), "{}", output.text());
    assert_eq!(world.model.requests().len(), 0);
}
