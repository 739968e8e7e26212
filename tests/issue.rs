//! Issue to pull request: the real program against GitHub and a model, from one command.

mod checks;
mod failures;
mod held_back;

use expect_test::{Expect, expect};

use crate::support::world::{KEY, PATCH, TestWorld, fix, github};

#[test]
fn an_issue_becomes_one_pull_request_with_diff_plan_and_evidence() {
    let world = TestWorld::new(github(), fix());
    let output = world.issue().expect(0);
    check(&output.text(), &expect![[""]]);
    check(&state(&world), &expect![[""]]);
    check(&world.tidy(&world.github.pulls()[0].body), &expect![[""]]);
    assert_eq!(world.model.requests().len(), 5);
}

#[test]
fn the_same_command_again_keeps_the_pull_request_and_the_branch() {
    let world = TestWorld::new(github(), fix());
    world.issue().expect(0);
    let first = world.github.pulls();
    world.model.add(fix());
    world.issue().expect(0);
    let second = world.github.pulls();
    assert_eq!(second.len(), 1);
    assert_eq!(
        (&second[0].head_sha, &second[0].head, second[0].open),
        (&first[0].head_sha, &first[0].head, true)
    );
    assert_eq!(world.github.branches().len(), 2, "{:?}", world.github.branches());
    assert_eq!(world.github.comments(7).len(), 1, "one comment, edited in place");
    assert_eq!(world.github.reactions(7).len(), 1);
}

#[test]
fn another_change_for_the_same_issue_updates_the_pull_request() {
    let world = TestWorld::new(github(), fix());
    world.issue().expect(0);
    let first = world.github.pulls();
    let mut other = fix();
    other.insert(
        0,
        crate::support::model::custom(
            "apply_patch",
            "*** Begin Patch\n*** Add File: NEWS.md\n+Adds.\n*** End Patch\n",
        ),
    );
    world.model.add(other);
    world.issue().expect(0);
    let second = world.github.pulls();
    assert_eq!((second.len(), second[0].number), (1, first[0].number));
    assert_ne!(second[0].head_sha, first[0].head_sha);
    assert!(second[0].body.contains("NEWS.md"), "{}", second[0].body);
    assert_eq!(world.github.branches().len(), 2, "{:?}", world.github.branches());
}

#[test]
fn commits_that_people_pushed_to_the_branch_are_left_alone() {
    let world = TestWorld::new(github(), fix());
    world.issue().expect(0);
    let theirs = world.github.push("patchwright/issue-7", &[("calc.sh", "# mine\n")]);
    for _ in 0..2 {
        world.model.add(fix());
        world.issue().expect(0);
    }
    let branches = world.github.branches();
    let beside = format!("patchwright/issue-7-{}", &theirs[..7]);
    let names: Vec<&str> = branches.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["main", "patchwright/issue-7", &beside]);
    assert_eq!(branches[1].1, theirs);
    assert_eq!(world.github.pulls().len(), 2, "theirs, and one beside it");
}

#[test]
fn work_in_real_containers_leaves_none_behind() {
    if !docker_answers() {
        return;
    }
    let world = TestWorld::new(github(), fix()).in_docker();
    world.issue().expect(0);
    assert_eq!(world.github.pulls().len(), 1);
    assert_eq!(containers(&world), Vec::<String>::new());
}

#[test]
fn a_dry_run_writes_nothing_to_github() {
    let world = TestWorld::new(github(), fix());
    world.run(&["issue", "acme/app#7", "--dry-run"]).expect(0);
    assert_eq!(world.github.writes(), Vec::<String>::new());
    assert_eq!(world.github.branches().len(), 1);
    assert!(world.result("change.patch").contains("+  echo $(($1 + $2))"));
}

#[test]
fn neither_token_nor_key_reaches_the_model_the_files_or_github() {
    let turns = [
        crate::support::model::call(
            "shell_command",
            serde_json::json!({"command": "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'"}),
        ),
        crate::support::model::custom("apply_patch", PATCH),
        crate::support::model::say("Add"),
    ];
    let world = TestWorld::new(github(), turns);
    let output = world.issue().expect(0);
    let token = world.github.token();
    let body = format!("{:?}{:?}", world.github.pulls(), world.github.comments(7));
    for secret in [token, KEY] {
        assert!(!world.told().contains(secret), "the model was sent a secret");
        assert_eq!(world.holds(secret), Vec::<std::path::PathBuf>::new());
        assert!(!body.contains(secret), "{body}");
        assert!(!output.text().contains(secret), "{}", output.text());
    }
}

/// Pull requests, comments, reactions and branches, as people see them.
pub(crate) fn state(world: &TestWorld) -> String {
    let mut text = String::new();
    for pull in world.github.pulls() {
        let draft = if pull.draft { ", draft" } else { "" };
        text.push_str(&format!(
            "pull request #{}: {} ({} → {}{draft}) by {}\n",
            pull.number, pull.title, pull.head, pull.base, pull.author
        ));
    }
    for comment in world.github.comments(7) {
        text.push_str(&format!("comment by {}:\n{}\n", comment.author, comment.body.trim_end()));
    }
    for (login, content) in world.github.reactions(7) {
        text.push_str(&format!("reaction {content} by {login}\n"));
    }
    for (branch, _) in world.github.branches() {
        text.push_str(&format!("branch {branch}\n"));
    }
    world.tidy(&text)
}

#[track_caller]
pub(super) fn check(text: &str, expected: &Expect) {
    expected.assert_eq(text);
}

/// Whether the tests' Docker is there; where it has to be, its absence fails the test.
pub(crate) fn docker_answers() -> bool {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(crate::support::docker::docker()).is_some()
}

/// Containers of the world's runs, running or not.
#[expect(clippy::disallowed_methods, reason = "asks the real Docker")]
pub(crate) fn containers(world: &TestWorld) -> Vec<String> {
    let listed = std::process::Command::new("docker")
        .args(["ps", "--all", "--format", "{{.Names}} {{.Labels}}"])
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let runs: Vec<String> = world
        .runs()
        .iter()
        .map(|run| run.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    let of_ours = |line: &&str| runs.iter().any(|run| line.contains(run.as_str()));
    listed.lines().filter(of_ours).map(str::to_owned).collect()
}
