//! Work on repositories that nobody lets us push to: in a fork, found or made, and everything afterwards with it.

mod old;

use patchwright_forge::Role;

use crate::respond::{answers, comment_on};
use crate::support::git_http::git;
use crate::support::github::GitHub;
use crate::support::model::say;
use crate::support::world::{TestWorld, fix, github};

const US: &str = "patchwright-bot";
const BRANCH: &str = "patchwright/issue-7";

/// `acme/app` is public, and we may read it.
fn readable() -> GitHub {
    github().user("rita", Role::Write).user(US, Role::Read)
}

fn world(github: GitHub) -> TestWorld {
    TestWorld::new(github, fix()).set("PATCHWRIGHT_FORK", "auto")
}

/// Where the first pull request is from, and whether maintainers may push there.
fn head(world: &TestWorld) -> (String, bool) {
    world.github.change(|repository| {
        let pull = repository.pulls.values().next().expect("a pull request");
        (format!("{}:{}", pull.head_repository, pull.head), pull.maintainer_can_modify)
    })
}

fn branches_of_upstream(world: &TestWorld) -> Vec<String> {
    world.github.branches().into_iter().map(|(name, _)| name).collect()
}

fn forked(world: &TestWorld) -> usize {
    world.github.writes().iter().filter(|write| write.contains("/forks ")).count()
}

#[test]
fn a_fork_is_made_waited_for_and_proposed_from_and_found_again() {
    let world = world(readable());
    let output = world.issue().expect(0);
    assert!(
        output.stderr.contains("pushing to the fork `patchwright-bot/app`"),
        "{}",
        output.text()
    );
    assert_eq!(head(&world), (format!("{US}/app:{BRANCH}"), true));
    assert_eq!(branches_of_upstream(&world), ["main"]);
    assert_eq!(
        world.github.git().tip("patchwright-bot/app", BRANCH).unwrap(),
        world.github.pulls()[0].head_sha
    );
    assert_eq!(forked(&world), 1);
    // Once more, on what is new: the same fork, the same branch, the same pull request.
    world.github.push("main", &[("other.txt", "new\n")]);
    let mut turns = fix();
    turns.pop();
    turns.push(say("Add, on what is new"));
    world.model.add(turns);
    world.issue().expect(0);
    let pulls = world.github.pulls();
    assert_eq!((pulls.len(), forked(&world)), (1, 1));
    assert_eq!(pulls[0].title, "Add, on what is new");
    let fork = world.github.git().path("patchwright-bot/app");
    assert_eq!(
        git(&fork, &["rev-parse", "main"]),
        git(&world.github.repository_path(), &["rev-parse", "main"])
    );
    assert_eq!(git(&fork, &["rev-list", "--count", &format!("main..{BRANCH}")]).trim(), "1");
}

#[test]
fn without_a_fork_it_is_said_before_anything_is_paid_for() {
    let world = TestWorld::new(readable(), fix());
    let output = world.issue().expect(60);
    assert!(output.stderr.contains("may not push to `acme/app`"), "{}", output.text());
    assert!(output.stderr.contains("`--fork auto`"), "{}", output.text());
    assert_eq!((world.model.requests().len(), forked(&world)), (0, 0));
}

#[test]
fn where_only_collaborators_may_propose_no_fork_is_made_and_nothing_is_paid_for() {
    let world = world(readable().with(|it| it.pulls_by_collaborators_only = true));
    let output = world.issue().expect(60);
    for part in ["pull requests from nobody but those who may push", "ask for write access"] {
        assert!(output.stderr.contains(part), "{part}: {}", output.text());
    }
    assert_eq!((world.model.requests().len(), forked(&world)), (0, 0));
    // A collaborator is asked for nothing more.
    let world = self::world(github().with(|it| it.pulls_by_collaborators_only = true));
    world.issue().expect(0);
    assert_eq!(world.github.pulls().len(), 1);
}

#[test]
fn who_may_push_needs_no_fork() {
    for github in [github(), github().actions_token(), github().token_of("fixer[bot]")] {
        let world = world(github);
        world.issue().expect(0);
        assert_eq!((head(&world), forked(&world)), ((format!("acme/app:{BRANCH}"), false), 0));
    }
}

#[test]
fn an_organisation_that_is_named_has_the_fork_always() {
    let github = github().repository("forks/other", &[("x", "1\n")]).issue("acme/app", 9, "x", "x");
    let world = world(github).set("PATCHWRIGHT_FORK", "forks");
    world.issue().expect(0);
    assert_eq!(head(&world).0, format!("forks/app:{BRANCH}"));
    assert_eq!(branches_of_upstream(&world), ["main"]);
    let world =
        TestWorld::new(crate::support::world::github(), fix()).set("PATCHWRIGHT_FORK", "acme");
    let output = world.issue().expect(2);
    assert!(output.stderr.contains("`acme` has `acme/app` itself"), "{}", output.text());
}

#[test]
fn forks_that_are_forbidden_or_cannot_be_are_told_before_anything_is_paid_for() {
    let forbidden = readable().with(|repository| repository.forks_disabled = true);
    let world = world(forbidden);
    let output = world.issue().expect(60);
    assert!(output.stderr.contains("forking is disabled"), "{}", output.text());
    assert!(output.stderr.contains("allow forks in the settings"), "{}", output.text());
    // No permission of the token changes that.
    assert!(!output.stderr.contains("administration"), "{}", output.text());
    assert_eq!(world.model.requests().len(), 0);
    let world = self::world(readable()).set("PATCHWRIGHT_FORK", "rita");
    let output = world.issue().expect(60);
    assert!(output.stderr.contains("cannot be worked on in a fork"), "{}", output.text());
    assert_eq!(world.model.requests().len(), 0);
}

/// What is private may not come out in the open, whatever the server says that the fork is.
#[test]
fn a_private_repository_is_never_pushed_to_a_public_fork() {
    let github =
        readable().with(|repository| repository.private = true).fork("patchwright-bot/app");
    let world = world(github);
    let output = world.issue().expect(60);
    assert!(output.stderr.contains("is private and its fork"), "{}", output.text());
    assert_eq!(world.github.git().tip("patchwright-bot/app", BRANCH), None);
}

#[test]
fn a_repository_of_the_same_name_that_is_no_fork_is_left_alone() {
    let github = readable()
        .repository("patchwright-bot/app", &[("mine", "1\n")])
        .issue("acme/app", 9, "x", "x");
    let world = world(github);
    world.issue().expect(0);
    assert_eq!(head(&world).0, format!("patchwright-bot/app-1:{BRANCH}"));
    assert_eq!(world.github.git().tip("patchwright-bot/app", BRANCH), None);
    // It is found again, by asking for it once more.
    world.model.add(fix());
    world.issue().expect(0);
    assert_eq!(world.github.pulls().len(), 1);
}

#[test]
fn a_fork_of_a_fork_belongs_to_the_network() {
    // Ours was made from another member, long ago.
    let github = readable().fork("mallory/app");
    let mut github = github;
    github = github.fork_of("mallory/app", "patchwright-bot/renamed");
    let world = world(github);
    world.issue().expect(0);
    assert_eq!(head(&world).0, format!("patchwright-bot/renamed:{BRANCH}"));
}

#[test]
fn what_somebody_has_committed_to_the_fork_stays_as_it_is() {
    let world = world(readable().fork("patchwright-bot/app"));
    let git = world.github.git();
    let theirs = git.commit(
        "patchwright-bot/app",
        "main",
        "Mine",
        &[crate::support::git_http::file("mine", "1\n")],
    );
    world.github.push("main", &[("other.txt", "new\n")]);
    let output = world.issue().expect(60);
    assert!(output.stderr.contains("has commits of its own"), "{}", output.text());
    assert_eq!(
        (git.tip("patchwright-bot/app", "main"), world.model.requests().len()),
        (Some(theirs), 0)
    );
}

#[test]
fn commands_work_on_the_pull_request_of_our_own_fork() {
    let world = world(readable());
    world.issue().expect(0);
    let number = world.github.pulls()[0].number;
    let first = world.github.head_of(number);
    // Its author does not let maintainers push any more, which is not about us.
    world.github.change_pull(number, |pull| pull.maintainer_can_modify = false);
    let command = "printf '# calc\\n\\nIt adds.\\n' > README.md";
    world.model.add([
        crate::support::model::call("shell_command", serde_json::json!({ "command": command })),
        say("Say what it does"),
    ]);
    comment_on(&world, number, "rita", "@patchwright fix the README").expect(0);
    let fork = world.github.git().path("patchwright-bot/app");
    assert_eq!(git(&fork, &["rev-parse", &format!("{BRANCH}~1")]).trim(), first);
    // On top of what the base branch is now, which the fork has to have as well.
    world.github.push("main", &[("NEWS.md", "New.\n")]);
    comment_on(&world, number, "rita", "@patchwright rebase").expect(0);
    let answer = answers(&world, number).pop().unwrap();
    assert!(answer.starts_with("**Rebased"), "{answer}");
    let main = git(&world.github.repository_path(), &["rev-parse", "main"]);
    assert_eq!(git(&fork, &["rev-parse", &format!("{BRANCH}~2")]), main);
    assert_eq!(branches_of_upstream(&world), ["main"]);
}

#[test]
fn nothing_is_paid_for_where_our_own_fork_takes_no_push_any_more() {
    for (is_archived, said) in [
        (true, "the fork `patchwright-bot/app` is archived"),
        (false, "the token may not push to the fork"),
    ] {
        let world = world(readable());
        world.issue().expect(0);
        let asked = world.model.requests().len();
        let number = world.github.pulls()[0].number;
        world.github.job(number, "test", "failure", "wrong\n");
        world.github.of("patchwright-bot/app").change(|fork| {
            fork.archived = is_archived;
            fork.roles.clear();
        });
        for command in ["fix-ci", "fix the README"] {
            let words = format!("@patchwright {command}");
            let output = comment_on(&world, number, "rita", &words).expect(30);
            assert!(output.stderr.contains(said), "{}", output.text());
            let answer = answers(&world, number).pop().unwrap();
            assert!(answer.contains(said), "{answer}");
        }
        assert_eq!(world.model.requests().len(), asked);
    }
}

#[test]
fn commits_that_github_signs_are_made_in_the_fork() {
    let world = world(readable()).set("PATCHWRIGHT_SIGN", "github");
    world.issue().expect(0);
    let fork = world.github.git().path("patchwright-bot/app");
    assert_eq!(git(&fork, &["log", "-1", "--format=%cn", BRANCH]).trim(), "GitHub");
    let branches = git(&fork, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    assert_eq!(branches.lines().collect::<Vec<_>>(), ["main", BRANCH]);
}
