//! Commits at which nothing is left to read: they have a check all the same, with the verdict of what is known, and no model
//! is asked for it.

use serde_json::{Value, json};

use super::{adds, finding, github, newest_result, review, reviewer, sticky, table, verdicts};
use crate::support::git_repo::{deleted, file, git, submodule};
use crate::support::github::GitHub;
use crate::support::model::say;
use crate::support::world::{Output, TestWorld};

/// Title and conclusion of the newest check on the newest commit.
fn check(world: &TestWorld) -> (String, String) {
    let head = world.github.head_of(3);
    let mut on_head = world.github.check_runs().into_iter().filter(|run| run.sha == head);
    let newest = on_head.next_back().expect("the newest commit has a check");
    (newest.conclusion.unwrap_or_default(), newest.title.unwrap_or_default())
}

fn is(conclusion: &str, title: &str) -> (String, String) {
    (conclusion.to_owned(), title.to_owned())
}

/// As GitHub's button "Update branch" does.
fn update_branch(world: &TestWorld) {
    world.github.push("main", &[("more.txt", "more\n")]);
    let path = world.github.repository_path();
    let tree = git(&path, &["merge-tree", "--write-tree", "feature", "main"]);
    merge(world, tree.trim(), &["feature", "main"]);
}

fn empty_commit(world: &TestWorld) {
    merge(world, "feature^{tree}", &["feature"]);
}

fn merge(world: &TestWorld, tree: &str, parents: &[&str]) {
    let path = world.github.repository_path();
    let mut args = vec!["commit-tree", tree, "-m", "More"];
    args.extend(parents.iter().flat_map(|parent| ["-p", parent]));
    let commit = git(&path, &args);
    world.github.reset_pull_to(3, commit.trim());
}

fn reviewed_again(world: &TestWorld) -> Output {
    let asked = world.model.requests().len();
    let output = review(world);
    assert_eq!(world.model.requests().len(), asked, "no model is asked: {}", output.text());
    output
}

#[test]
fn an_update_of_the_branch_and_an_empty_commit_keep_the_verdict() {
    for (finding, expected) in [
        (None, is("success", "No findings")),
        (Some(adds(3, 0)), is("failure", "1 finding at P0 or above")),
    ] {
        let world = TestWorld::new(github().actions_token(), reviewer(finding));
        review(&world).expect(0);
        assert_eq!(check(&world), expected);
        for push in [update_branch, empty_commit] {
            push(&world);
            let output = reviewed_again(&world).expect(10);
            assert!(
                output.stderr.contains("has changed since the last review"),
                "{}",
                output.stderr
            );
            assert_eq!(check(&world), expected);
            assert!(sticky(&world).contains("No model was asked"), "{}", sticky(&world));
            reviewed_again(&world).expect(10);
        }
        assert!(world.github.reviews(3).len() <= 1, "nothing is posted twice");
    }
}

/// They are nowhere else on the page.
#[test]
fn the_words_of_the_model_stay_when_none_is_asked() {
    let words = "It adds functions; `q=0` is not handled.\n\nVerdict: needs work";
    let world = TestWorld::new(github().actions_token(), [say(words), say(words)]);
    review(&world).expect(0);
    let expected = is("neutral", "No findings, but the model says that it needs work");
    assert_eq!(check(&world), expected);
    let read = world.github.head_of(3);
    for push in [update_branch, empty_commit] {
        push(&world);
        reviewed_again(&world).expect(10);
        let sticky = sticky(&world);
        let said = format!("Of `{}`, the last commit that a model has read:", &read[..7]);
        assert_eq!(sticky.matches(&said).count(), 1, "{sticky}");
        assert!(sticky.contains("`q=0` is not handled."), "{sticky}");
        assert!(sticky.contains("no open findings, but the model says"), "{sticky}");
        assert_eq!(check(&world), expected);
    }
}

#[test]
fn a_check_of_the_repository_that_fails_is_not_shaken_off_by_an_empty_commit() {
    let world = TestWorld::new(github().actions_token(), reviewer([]));
    let world = world.set("PATCHWRIGHT_VERIFY", "! test -e calc.py");
    review(&world).expect(0);
    let expected = is("failure", "1 check fails that passed before");
    assert_eq!(check(&world), expected);
    let heading = "no open findings, 1 check fails that did not fail before\n";
    assert!(sticky(&world).contains(heading), "{}", sticky(&world));
    assert!(sticky(&world).contains("<details open><summary>1 check fails"), "{}", sticky(&world));
    empty_commit(&world);
    reviewed_again(&world).expect(10);
    assert_eq!(check(&world), expected);
}

/// The file of the finding is no part of the pull request any more, and nothing else is to be read.
#[test]
fn what_is_gone_with_its_file_is_fixed() {
    let turns = reviewer([adds(3, 0)]);
    let world = TestWorld::new(github().actions_token(), turns);
    world.github.push_to_pull(3, &[("more.py", "a = 1\n")]);
    review(&world).expect(0);
    assert_eq!(check(&world).0, "failure");
    world.github.push_entries_to_pull(3, &[deleted("calc.py")]);
    reviewed_again(&world).expect(10);
    assert_eq!(table(&world), ["fixed: Adds 3"]);
    assert_eq!(check(&world), is("success", "No findings"));
}

/// Its code was there before the change, and is there after it.
#[test]
fn a_finding_in_a_file_that_is_taken_back_is_fixed() {
    let about = finding("old.py", "import os", "Imports too much", 0);
    let world = TestWorld::new(github().actions_token(), reviewer([about]));
    let extended = "import os\nimport sys\n";
    world.github.push_to_pull(3, &[("old.py", extended)]);
    review(&world).expect(0);
    assert_eq!(check(&world).0, "failure");
    // A merge of the base branch takes nothing back.
    update_branch(&world);
    reviewed_again(&world).expect(10);
    assert_eq!(check(&world).0, "failure");
    world.github.push_to_pull(3, &[("old.py", "import os\n")]);
    reviewed_again(&world).expect(10);
    assert_eq!(table(&world), ["fixed: Imports too much"]);
    assert_eq!(check(&world), is("success", "No findings"));
}

/// An approval is for what was read, by the review that read it.
#[test]
fn what_was_not_approved_is_not_approved_because_nothing_came_after_it() {
    let config = "review:\n  event: approve\n  minimum-priority: 1\n";
    let world = TestWorld::new(github(), reviewer([adds(3, 2)]));
    let path = world.path("config.yml");
    fs_err::write(&path, config).unwrap();
    let run = || world.run(&["review", "acme/app#3", "--config", &path.display().to_string()]);
    run().expect(0);
    empty_commit(&world);
    run().expect(10);
    assert!(world.github.reviews(3).iter().all(|review| review.state != "APPROVED"));
    assert_eq!(verdicts(&world), ["success", "success"]);
}

fn with(files: &[crate::support::git_repo::Entry], rules: &str) -> TestWorld {
    let github = GitHub::new()
        .repository("acme/app", &[("README.md", "# app\n"), (".github/patchwright.yml", rules)])
        .pull_onto("main", 3, "Add files", "feature", files)
        .actions_token();
    TestWorld::new(github, [])
}

#[test]
fn where_nothing_can_be_read_the_check_says_so_and_only_what_the_rules_leave_out_lets_it_through() {
    let rules = "review:\n  ignore-paths: [\"*.lock\"]\n";
    let (lock, png) = (|| file("app.lock", "a\n"), || file("logo.png", vec![0x89, b'P', 0, 1, 2]));
    let module = || submodule("lib", &"ab".repeat(20));
    for (files, name, expected) in [
        (vec![lock()], "app.lock", is("neutral", "Nothing to review")),
        (vec![png()], "logo.png", is("action_required", "Nothing was read")),
        (vec![module()], "lib", is("action_required", "Nothing was read")),
        (vec![lock(), png()], "logo.png", is("action_required", "Nothing was read")),
    ] {
        let world = with(&files, rules);
        for args in [&[][..], &["--full"]] {
            let output = world.run(&[&["review", "acme/app#3"], args].concat()).expect(10);
            assert!(output.stderr.contains("has no file to review"), "{}", output.stderr);
            assert_eq!(check(&world), expected);
        }
        let summary = world.github.check_runs()[0].summary.clone().unwrap();
        assert!(summary.contains(&format!("`{name}`")), "{summary}");
        assert!(world.github.comments(3).is_empty(), "nobody is told");
        assert!(world.model.requests().is_empty());
    }
    let world = with(&[lock()], rules);
    world.run(&["review", "acme/app#3", "--dry-run"]).expect(10);
    assert!(world.github.check_runs().is_empty());
}

/// Its code is in another repository: the model is told which commits of it, and people that nobody has read them.
#[test]
fn a_submodule_that_moves_beside_files_is_named_with_its_commits_and_not_read() {
    let (old, new) = ("ab".repeat(20), "cd".repeat(20));
    let names = "[submodule \"lib\"]\n\tpath = lib\n\turl = https://example.com/lib.git\n";
    let github = GitHub::new().repository("acme/app", &[("calc.py", "a = 1\n")]).actions_token();
    let world = TestWorld::new(github, reviewer([]));
    let base = [file(".gitmodules", names), submodule("lib", &old)];
    let main = world.github.git().commit("acme/app", "main", "Name a library", &base);
    git(&world.github.repository_path(), &["update-ref", "refs/heads/feature", &main]);
    let moved = [file("calc.py", "a = 2\n"), submodule("lib", &new)];
    world.github.git().commit("acme/app", "feature", "Move it", &moved);
    world.github.open_pull(3, "Move it", "feature", "rita");
    world.run(&["review", "acme/app#3"]).expect(0);
    let told = format!("lib (https://example.com/lib.git): {old}..{new}");
    assert!(world.told().contains(&told), "{}", world.told());
    let result = newest_result(&world);
    let skipped = json!([{"path": "lib", "lines": 0, "why": "submodule"}]);
    assert_eq!(result["coverage"]["skipped"], skipped, "{result:#}");
    assert_eq!(result["coverage"]["read_files"], 1, "{result:#}");
    let summary = world.github.check_runs().pop().unwrap().summary.unwrap();
    let said = "1 submodule is at another commit, whose code was not read: `lib`.";
    assert!(summary.contains(said), "{summary}");
    let said = "1 file of submodules, whose code nobody has read here: `lib`";
    assert!(world.github.comments(3).iter().any(|it| it.body.contains(said)));
}

/// What the rules left out was read by nobody.
#[test]
fn a_file_that_a_rule_left_out_is_read_when_the_rule_is_gone() {
    let world = TestWorld::new(github().actions_token(), [reviewer([]), reviewer([])].concat());
    world.github.push_to_pull(3, &[("more.py", "a = 1\n")]);
    let path = world.path("config.yml");
    let run = |rules: &str| {
        fs_err::write(&path, rules).unwrap();
        world.run(&["review", "acme/app#3", "--config", &path.display().to_string()])
    };
    run("review:\n  ignore-paths: [calc.py]\n").expect(0);
    empty_commit(&world);
    run("review:\n  ignore-paths: [calc.py]\n").expect(10);
    world.github.push_to_pull(3, &[("more.py", "a = 2\n")]);
    run("{}\n").expect(0);
    let result: Value = newest_result(&world);
    assert_eq!(result["coverage"]["skipped"], json!([]), "{result}");
    assert_eq!(result["coverage"]["read_files"], 2);
}

/// What people say counts without another review of the same code.
#[test]
fn a_dismissal_changes_the_verdict_of_the_same_commit_and_so_does_taking_it_back() {
    let world = TestWorld::new(github().actions_token(), reviewer([adds(3, 0), adds(5, 3)]));
    review(&world).expect(0);
    let comment = world.github.review_comments(3)[0].id;
    reviewed_again(&world).expect(10);
    assert_eq!(check(&world), is("failure", "1 finding at P0 or above"));
    world.github.resolve("otto", comment);
    reviewed_again(&world).expect(10);
    assert_eq!(table(&world), ["still there: Adds 5", "dismissed: Adds 3"]);
    assert_eq!(check(&world), is("success", "1 finding"));
    let comments = world.github.comments(3);
    let output = reviewed_again(&world).expect(10);
    assert!(output.stderr.contains("was reviewed at"), "{}", output.stderr);
    assert_eq!(world.github.comments(3)[0].body, comments[0].body);
    world.github.unresolve(comment);
    reviewed_again(&world).expect(10);
    assert_eq!(table(&world), ["still there: Adds 5", "still there: Adds 3"]);
    assert_eq!(check(&world), is("failure", "1 finding at P0 or above"));
    assert_eq!(world.github.reviews(3).len(), 1);
}
