//! What the commits of a pull request say: its own, also after its branch was brought up to date, and nothing about how
//! a commit is to be written.

use super::{nothing_found, opening, pull, review};
use crate::support::git_repo::git;
use crate::support::world::TestWorld;

/// Commits on the base branch, and then a merge of it into the pull request, as GitHub's button "Update branch" makes it.
fn update_branch(world: &TestWorld, commits: usize) {
    let path = world.github.repository_path();
    let commit = |tree: &str, message: &str, parents: &[&str]| {
        let mut args = vec!["commit-tree", tree, "-m", message];
        args.extend(parents.iter().flat_map(|parent| ["-p", parent]));
        git(&path, &args).trim().to_owned()
    };
    for number in 0..commits {
        let made = commit("main^{tree}", &format!("fix(other): thing {number}"), &["main"]);
        git(&path, &["update-ref", "refs/heads/main", &made]);
    }
    let merged = commit("divide^{tree}", "Merge branch 'main'", &["divide", "main"]);
    world.github.reset_pull_to(8, &merged);
}

#[test]
fn its_commits_are_its_own_after_the_base_branch_was_merged() {
    for commits in [3, 70] {
        let world = TestWorld::new(pull(), [nothing_found()]);
        update_branch(&world, commits);
        world.github.push_to_pull(8, &[("more.sh", "echo more\n")]);
        review(&world, &["--dry-run"]).expect(0);
        let texts = opening(&world);
        let told = texts.last().unwrap();
        let (_, said) = told.split_once("Its commits say, the newest first:").unwrap();
        let said = said.split("\n\n").nth(1).unwrap();
        let said: Vec<&str> = said.lines().filter(|line| line.starts_with("- ")).collect();
        assert_eq!(said, ["- Somebody's commit", "- Add divide"], "{commits}");
        // A review makes no commit.
        assert!(!texts.iter().any(|text| text.contains("Conventional Commits")), "{texts:?}");
    }
}
