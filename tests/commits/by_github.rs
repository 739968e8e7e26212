//! Commits that GitHub makes and signs: as an App over REST, with any token by the mutation.

use serde_json::json;

use super::{BRANCH, branches, ending, raw, shown};
use crate::resume::{replies, rest};
use crate::support::git_http::git;
use crate::support::github::{Fault, GitHub, Kind};
use crate::support::model::{call, say};
use crate::support::world::{TestWorld, fix, github};

/// GitHub takes nothing that is not verified.
fn strict() -> GitHub {
    github().refuses_unsigned_commits().rule("required_signatures", None)
}

fn world(github: GitHub) -> TestWorld {
    TestWorld::new(github, fix()).set("PATCHWRIGHT_SIGN", "github")
}

fn settled(world: &TestWorld) {
    assert_eq!(world.github.verification_of(BRANCH)["verified"], true);
    assert_eq!(branches(world), ["main", BRANCH]);
    assert_eq!(world.github.pulls().len(), 1);
    let path = world.github.repository_path();
    let between = format!("main..{BRANCH}");
    assert_eq!(git(&path, &["rev-list", "--count", &between]).trim(), "1");
    assert!(
        raw(world, BRANCH).contains("echo") || raw(world, BRANCH).contains("Patchwright-Run: ")
    );
}

#[test]
fn an_app_and_a_person_have_commits_verified() {
    for (github, author) in [
        (strict().actions_token(), "github-actions[bot]"),
        (strict().token_of("fixer[bot]"), "fixer[bot]"),
        (strict(), "patchwright-bot"),
    ] {
        let world = world(github);
        let output = world.issue().expect(0);
        settled(&world);
        assert_eq!(
            shown(&world, BRANCH, "%an|%cn"),
            format!("{author}|GitHub"),
            "{}",
            output.text()
        );
        assert_eq!(world.github.pulls()[0].title, "Add instead of subtracting");
    }
}

#[test]
fn an_app_needs_no_branch_for_it() {
    let world = world(strict().actions_token());
    world.issue().expect(0);
    let asked = world.github.writes().into_iter();
    let asked: Vec<String> = asked.filter(|write| write.contains("/git/")).collect();
    assert_eq!(asked.len(), 2, "a tree and a commit: {asked:#?}");
}

#[test]
fn an_app_whose_commits_are_not_signed_uses_the_mutation() {
    let github = strict().actions_token().with(|it| it.governance.unsigned_apps = true);
    let world = world(github);
    world.issue().expect(0);
    settled(&world);
}

#[test]
fn the_branch_of_an_earlier_run_is_brought_up_to_date() {
    for github in [strict().actions_token(), strict()] {
        let world = world(github);
        world.issue().expect(0);
        let first = shown(&world, BRANCH, "%H");
        // The same again is the same.
        world.model.add(fix());
        world.issue().expect(0);
        assert_eq!(shown(&world, BRANCH, "%H"), first);
        world.github.push("main", &[("other.txt", "new\n")]);
        world.model.add(ending("Add, on what is new"));
        world.issue().expect(0);
        settled(&world);
        assert_ne!(shown(&world, BRANCH, "%H"), first);
        assert_eq!(world.github.pulls()[0].title, "Add, on what is new");
    }
}

#[test]
fn unsigned_work_of_an_earlier_run_is_replaced_by_signed_work() {
    let world = TestWorld::new(github(), fix());
    world.issue().expect(0);
    assert_eq!(world.github.verification_of(BRANCH)["reason"], "unsigned");
    world.model.add(fix());
    let world = world.set("PATCHWRIGHT_SIGN", "github");
    world.issue().expect(0);
    settled(&world);
}

/// A script, a link and a picture beside the fix.
fn odd_files() -> Vec<crate::support::model::Turn> {
    let command = "printf '#!/bin/sh\\n' > run.sh && chmod +x run.sh && ln -s calc.sh link && printf 'a\\0b' > picture.bin && git rm -q README.md";
    let mut turns = fix();
    turns.insert(2, call("shell_command", json!({"command": command})));
    turns
}

#[test]
fn modes_links_deletions_and_binary_files_are_kept_or_refused() {
    let make =
        |github: GitHub| TestWorld::new(github, odd_files()).set("PATCHWRIGHT_SIGN", "github");
    let app = make(strict().actions_token());
    app.issue().expect(0);
    settled(&app);
    let listed = git(&app.github.repository_path(), &["ls-tree", "-r", BRANCH]);
    assert!(listed.contains("100755 blob") && listed.contains("120000 blob"), "{listed}");
    assert!(listed.contains("picture.bin") && !listed.contains("README.md"), "{listed}");
    let person = make(strict());
    let output = person.issue().expect(60);
    assert!(output.stderr.contains("is executable, a symlink or a submodule"), "{}", output.text());
    assert!(output.stderr.contains("the change is kept in"), "{}", output.text());
    assert_eq!((branches(&person), person.github.pulls().len()), (vec!["main".to_owned()], 0));
}

#[test]
fn a_commit_of_other_files_is_never_proposed() {
    let world = world(strict().with(|it| it.governance.loses_files = true));
    let output = world.issue().expect(60);
    assert!(
        output.stderr.contains("it made another commit of what it was given"),
        "{}",
        output.text()
    );
    assert_eq!((branches(&world), world.github.pulls().len()), (vec!["main".to_owned()], 0));
}

#[test]
fn a_commit_of_more_files_is_never_proposed() {
    let world = world(strict().with(|it| it.governance.adds_files = true));
    let output = world.issue().expect(60);
    let said = "it made another commit of what it was given";
    assert!(output.stderr.contains(said), "{}", output.text());
    assert_eq!((branches(&world), world.github.pulls().len()), (vec!["main".to_owned()], 0));
}

#[test]
fn a_token_that_may_not_change_workflows_is_told_what_it_lacks() {
    let write = json!({"command": "mkdir -p .github/workflows && echo 'on: push' > .github/workflows/ci.yml"});
    for github in [strict().actions_token(), strict()] {
        let github = github.with(|it| it.governance.keeps_workflows = true);
        let mut turns = fix();
        turns.insert(2, call("shell_command", write.clone()));
        let world = TestWorld::new(github, turns).set("PATCHWRIGHT_SIGN", "github");
        fs_err::write(world.path("c.yml"), "policy: {allow-workflows: true}\n").unwrap();
        let output = world.run(&["issue", "acme/app#7", "--config", "c.yml"]).expect(60);
        assert!(output.stderr.contains("the `workflows` permission"), "{}", output.text());
        assert!(!output.stderr.contains("give the token `contents: write`"), "{}", output.text());
        assert_eq!((branches(&world), world.github.pulls().len()), (vec!["main".to_owned()], 0));
    }
}

#[test]
fn a_branch_that_could_not_be_taken_away_is_told() {
    let world = world(strict().with(|it| it.governance.keeps_branches = true));
    let output = world.issue().expect(0);
    let left = branches(&world).into_iter().find(|name| name.starts_with("patchwright-staging/"));
    let said = format!("the branch `{}` of `acme/app` is left", left.unwrap());
    assert!(output.stderr.contains(&said), "{}", output.text());
    assert_eq!(world.github.pulls().len(), 1);
}

#[test]
fn the_branch_of_an_attempt_that_was_killed_is_taken_away_by_one_that_signs_otherwise() {
    let github = github();
    let world = world(github);
    world.github.fault(Fault::once(
        "POST",
        "/graphql",
        Kind::Delay(std::time::Duration::from_mins(1)),
    ));
    let mut child = world.spawn(&["issue", "acme/app#7"]);
    let is_staged = || branches(&world).iter().any(|name| name.starts_with("patchwright-staging/"));
    while !is_staged() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().unwrap();
    world.wait(child);
    assert!(is_staged());
    let world = world.set("PATCHWRIGHT_SIGN", "none");
    world.model.replace(rest(&world, fix()));
    world.issue().expect(0);
    assert_eq!(branches(&world), ["main", BRANCH]);
}

#[test]
fn a_lost_answer_makes_no_second_commit() {
    for kind in [Kind::CutAfter, Kind::ErrorAfter(502), Kind::ErrorBefore(502)] {
        for path in ["/git/refs", "/graphql"] {
            let world = world(strict());
            world.github.fault(Fault::once("POST", path, kind.clone()));
            let output = world.issue();
            assert_eq!(output.code, 0, "{path} {kind:?}: {}", output.text());
            settled(&world);
        }
        for path in ["/git/trees", "/git/commits"] {
            let world = world(strict().actions_token());
            world.github.fault(Fault::once("POST", path, kind.clone()));
            world.issue().expect(0);
            settled(&world);
        }
    }
}

#[test]
fn a_run_that_was_killed_after_any_write_makes_one_commit_and_one_pull_request() {
    for make in [strict as fn() -> GitHub, || strict().actions_token()] {
        let golden = world(make());
        golden.issue().expect(0);
        let writes = golden.github.writes().len();
        for write in 3..=writes {
            let world = world(make());
            let mut child = world.spawn(&["issue", "acme/app#7"]);
            while world.github.writes().len() < write && child.try_wait().unwrap().is_none() {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            child.kill().unwrap();
            world.wait(child);
            if !world.result("journal.jsonl").contains("\"is\":\"run_ended\"") {
                assert!(world.model.requests().len() - replies(&world) <= 1);
                world.model.replace(rest(&world, fix()));
                let output = world.issue();
                assert_eq!(output.code, 0, "killed after write {write}: {}", output.text());
            }
            settled(&world);
        }
    }
}

#[test]
fn a_command_on_a_pull_request_has_its_commit_verified_too() {
    let github = strict().actions_token();
    let world = world(github);
    world.issue().expect(0);
    let number = world.github.pulls()[0].number;
    let turns = [
        call("shell_command", json!({"command": "echo '# how to add' > HOW.md"})),
        say("Say how to add"),
    ];
    world.model.add(turns);
    let comment = world.github.post_comment(number, "rita", "@patchwright fix say how to add");
    world.github.change(|it| {
        it.roles.insert("rita".to_owned(), ("write".to_owned(), "write".to_owned()));
    });
    let url =
        format!("{}/acme/app/pull/{number}#issuecomment-{comment}", world.github.server_url());
    world.run(&["respond", &url]).expect(0);
    let path = world.github.repository_path();
    assert_eq!(git(&path, &["rev-list", "--count", &format!("main..{BRANCH}")]).trim(), "2");
    assert_eq!(world.github.verification_of(BRANCH)["verified"], true);
}
