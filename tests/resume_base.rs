//! Which branch a resumed run is for, and base branches that are moved, renamed, replaced or deleted meanwhile: what
//! is proposed is the change and nothing else.

use serde_json::{Value, json};

use crate::exec::project;
use crate::resume::meanwhile;
use crate::support::git_http::{Fault, Step};
use crate::support::git_repo::git;
use crate::support::model::{Turn, call, custom, fail, say};
use crate::support::world::{Output, PATCH, TestWorld, fix, github};

const ISSUE: &[&str] = &["issue", "acme/app#7"];
const ON_DEV: &[&str] = &["issue", "acme/app#7", "--base", "dev"];

/// `main` and `dev` have a commit each that the other lacks.
fn two_branches(turns: Vec<Turn>) -> TestWorld {
    let world = TestWorld::new(github().branch("dev", &[("dev.txt", "dev\n")]), turns);
    world.github.push("main", &[("main.txt", "not released yet\n")]);
    world
}

/// The run comes to its change, and the push has to wait for hours.
pub(crate) fn unpushed(world: &TestWorld, args: &[&str]) {
    let wait = vec![("retry-after", "7200".to_owned())];
    world.github.git().fault(Step::Push, Fault::Answer(403, wait, "slow down".to_owned()));
    world.run(args).expect(60);
}

/// The branch has another name from now on, in the place of the default branch too.
fn rename(world: &TestWorld, from: &str, to: &str) {
    let path = world.github.repository_path();
    git(&path, &["branch", "-m", from, to]);
    world.github.change(|repository| {
        if repository.default_branch == from {
            to.clone_into(&mut repository.default_branch);
        }
    });
}

/// Somebody forces a history without the old commits onto the branch.
pub(crate) fn replace(world: &TestWorld, branch: &str) {
    let path = world.github.repository_path();
    let tree = format!("{branch}^{{tree}}");
    let root = git(&path, &["commit-tree", "-m", "Begin again", &tree]);
    git(&path, &["update-ref", &format!("refs/heads/{branch}"), root.trim()]);
}

/// The only pull request is for this branch, and has one commit that this branch lacks.
#[track_caller]
fn proposes_one_commit(world: &TestWorld, base: &str, output: &Output) {
    let pulls = world.github.pulls();
    let [pull] = &pulls[..] else { panic!("one pull request: {pulls:?}\n{}", output.text()) };
    assert_eq!(pull.base, base, "{}", output.text());
    let range = format!("{base}..{}", pull.head_sha);
    let count = git(&world.github.repository_path(), &["rev-list", "--count", &range]);
    assert_eq!(count.trim(), "1", "{}", output.text());
    assert!(pull.body.contains(&format!("base `{base}` at")), "{}", pull.body);
}

/// The repair, after a command that takes a second.
fn slow_fix() -> Vec<Turn> {
    let mut turns = fix();
    turns.insert(0, call("shell_command", json!({"command": "sleep 1"})));
    turns
}

#[test]
fn a_run_for_one_branch_is_not_resumed_for_another() {
    let world = two_branches(fix());
    unpushed(&world, ISSUE);
    world.model.add(fix());
    let output = world.run(ON_DEV).expect(0);
    let why = "is not resumed: it was for `main`, and `dev` is asked for";
    assert!(output.stderr.contains(why), "{}", output.text());
    proposes_one_commit(&world, "dev", &output);
    assert_eq!((world.runs().len(), world.model.requests().len()), (2, 10));
}

#[test]
fn a_run_stays_with_its_branch_when_another_becomes_the_default() {
    let world = two_branches(fix());
    unpushed(&world, ISSUE);
    world.github.change(|repository| "dev".clone_into(&mut repository.default_branch));
    let output = world.run(ISSUE).expect(0);
    assert!(output.stderr.contains("the run stays with `main`"), "{}", output.text());
    proposes_one_commit(&world, "main", &output);
    assert_eq!((world.runs().len(), world.model.requests().len()), (1, 5));
}

#[test]
fn a_run_follows_its_branch_to_another_name() {
    let world = two_branches(fix());
    unpushed(&world, ISSUE);
    rename(&world, "main", "trunk");
    let output = world.run(ISSUE).expect(0);
    proposes_one_commit(&world, "trunk", &output);
    let world = two_branches(fix());
    unpushed(&world, ON_DEV);
    rename(&world, "dev", "next");
    let output = world.run(&["issue", "acme/app#7", "--base", "next"]).expect(0);
    proposes_one_commit(&world, "next", &output);
    assert_eq!((world.runs().len(), world.model.requests().len()), (1, 5));
}

#[test]
fn a_run_whose_base_commit_was_taken_away_begins_anew() {
    let world = two_branches(fix());
    unpushed(&world, ISSUE);
    replace(&world, "main");
    world.model.add(fix());
    let output = world.run(ISSUE).expect(0);
    assert!(output.stderr.contains("`main` does not have the commit"), "{}", output.text());
    proposes_one_commit(&world, "main", &output);
    assert_eq!(world.runs().len(), 2);
}

#[test]
fn commits_that_were_taken_from_the_base_meanwhile_are_not_proposed_again() {
    let world = two_branches(slow_fix());
    let output = meanwhile(&world, ISSUE, || replace(&world, "main")).expect(30);
    assert!(output.stderr.contains("does not have the commit"), "{}", output.text());
    assert!(output.stderr.contains("it begins anew"), "{}", output.text());
    assert_eq!((world.github.pulls().len(), world.github.branches().len()), (0, 2));
    assert!(world.result("change.patch").contains("+  echo $(($1 + $2))"));
    world.model.add(fix());
    let output = world.run(ISSUE).expect(0);
    proposes_one_commit(&world, "main", &output);
}

#[test]
fn a_default_branch_that_is_renamed_meanwhile_is_followed() {
    let world = two_branches(slow_fix());
    let output = meanwhile(&world, ISSUE, || rename(&world, "main", "trunk")).expect(0);
    assert!(output.stderr.contains("`main` is `trunk` by now"), "{}", output.text());
    proposes_one_commit(&world, "trunk", &output);
}

#[test]
fn a_base_branch_that_is_deleted_meanwhile_is_named_and_the_change_is_kept() {
    let world = two_branches(slow_fix());
    let path = world.github.repository_path();
    let dev = git(&path, &["rev-parse", "dev"]);
    let output = meanwhile(&world, ON_DEV, || {
        git(&path, &["update-ref", "-d", "refs/heads/dev"]);
    });
    let output = output.expect(30);
    let said = "the base branch `dev` was deleted or renamed while this was made";
    assert!(output.stderr.contains(said), "{}", output.text());
    assert!(!output.stderr.contains("compare/dev"), "{}", output.text());
    assert_eq!((world.github.pulls().len(), world.github.branches().len()), (0, 1));
    git(&path, &["update-ref", "refs/heads/dev", dev.trim()]);
    let output = world.run(ON_DEV).expect(0);
    proposes_one_commit(&world, "dev", &output);
    assert_eq!((world.runs().len(), world.model.requests().len()), (1, 6));
}

/// The branch is pushed by then: what is said about it has to be of use.
#[test]
fn a_base_branch_that_is_gone_when_the_pull_request_is_opened_is_named() {
    let hook = |command: &str| format!("#!/bin/sh\nunset GIT_QUARANTINE_PATH\n{command}\n");
    let world = two_branches(fix());
    let delete = hook("git update-ref -d refs/heads/dev");
    world.github.git().hook("acme/app", "post-receive", &delete);
    let output = world.run(ON_DEV).expect(60);
    let said = "the base branch `dev` was deleted or renamed";
    assert!(output.stderr.contains(said), "{}", output.text());
    assert!(output.stderr.contains("restore `dev`"), "{}", output.text());
    assert!(!output.stderr.contains("compare/dev"), "{}", output.text());
}

#[test]
fn a_pull_request_that_somebody_moved_to_another_base_stays_there() {
    let world = two_branches(fix());
    world.run(ISSUE).expect(0);
    let number = world.github.pulls()[0].number;
    let retarget = |base: &str| {
        world.github.change(|repository| {
            base.clone_into(&mut repository.pulls.get_mut(&number).unwrap().base);
        });
    };
    retarget("dev");
    world.model.add([custom("apply_patch", PATCH), say("Add and say so\n\nThe sign was wrong.")]);
    let output = world.run(ISSUE).expect(0);
    let said = "the open pull request is for `dev`, and so is the work";
    assert!(output.stderr.contains(said), "{}", output.text());
    proposes_one_commit(&world, "dev", &output);
    // Moved when the work had begun already.
    let mut turns = slow_fix();
    turns.insert(1, call("shell_command", json!({"command": "echo more > more.txt"})));
    world.model.add(turns);
    let asked = world.model.requests().len();
    let child = world.spawn(ISSUE);
    crate::resume::wait_for(|| world.model.requests().len() > asked);
    retarget("main");
    let output = world.wait(child).expect(0);
    let said = format!("pull request #{number} stays for `main`, to which somebody has moved it");
    assert!(output.stderr.contains(&said), "{}", output.text());
    let pulls = world.github.pulls();
    assert_eq!((pulls.len(), pulls[0].base.as_str()), (1, "main"));
}

#[test]
fn who_asks_for_a_base_gets_the_pull_request_moved_there() {
    let world = two_branches(fix());
    world.run(ISSUE).expect(0);
    let number = world.github.pulls()[0].number;
    world.github.change(|repository| {
        "dev".clone_into(&mut repository.pulls.get_mut(&number).unwrap().base);
    });
    world.model.add(fix());
    let output = world.run(&["issue", "acme/app#7", "--base", "main"]).expect(0);
    proposes_one_commit(&world, "main", &output);
}

/// What `exec` works on is the folder as it is committed: a change that was begun on another commit is neither judged nor
/// written there.
#[test]
fn a_prompt_whose_folder_has_another_commit_by_now_begins_anew() {
    let in_out = ["--out", "out"];
    for (out, files) in [(&[][..], "its files stay in"), (&in_out[..], "its files are set aside")] {
        let world = TestWorld::local(Vec::new());
        let project = project(&world);
        let args = [&["exec", "Make add add", "--repo", "project", "--apply"], out].concat();
        let cut_short = || {
            let first = fix().into_iter().take(2);
            first.chain([fail(401, "invalid_api_key", "no such key")]).collect::<Vec<_>>()
        };
        world.model.replace(cut_short());
        world.run(&args).expect(50);
        fs_err::write(project.join("other.txt"), "Meanwhile.\n").unwrap();
        git(&project, &["add", "other.txt"]);
        git(&project, &["commit", "--quiet", "--message", "Meanwhile"]);
        // It was begun anew on this commit, which is still the folder's the next time.
        world.model.replace(cut_short());
        let output = world.run(&args).expect(50);
        let said = output.stderr.contains("is not resumed: it stands on the commit");
        assert!(said && output.stderr.contains(files), "{}", output.text());
        world.model.replace(fix().into_iter().skip(2));
        let output = world.run(&args).expect(0);
        assert!(output.stderr.contains("resuming run"), "{}", output.text());
        let head = git(&project, &["rev-parse", "HEAD"]);
        let results = world.runs().into_iter().chain([world.path("out")]);
        let results = results.filter_map(|it| fs_err::read_to_string(it.join("result.json")).ok());
        let results: Vec<Value> = results.map(|it| serde_json::from_str(&it).unwrap()).collect();
        let done = results.iter().find(|it| it["conclusion"] == "done").unwrap();
        assert_eq!(done["provenance"]["base_sha"], head.trim());
        let calc = fs_err::read_to_string(project.join("calc.sh")).unwrap();
        assert!(calc.contains("echo $(($1 + $2))"), "{calc}");
    }
}
