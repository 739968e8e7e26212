//! Who is asked to look at a pull request, and what it gets beside its text.

use patchwright_forge::Role;

use super::BRANCH;
use crate::support::github::GitHub;
use crate::support::model::say;
use crate::support::world::{FILES, TestWorld, fix, github, github_with};

/// The first file that is there counts; the others would ask other people.
const OWNERS: &[(&str, &str)] = &[
    (
        ".github/CODEOWNERS",
        "* @nobody\n*.sh @patchwright-bot @reader @ann @acme/shell @bea @cleo\n/test.sh @dora\n",
    ),
    ("CODEOWNERS", "* @zoe\n"),
];

fn owned() -> GitHub {
    github_with(&[FILES, OWNERS].concat())
        .user("ann", Role::Write)
        .user("bea", Role::Maintain)
        .user("cleo", Role::Admin)
        .user("reader", Role::Read)
        .user("zoe", Role::Write)
        .with(|it| it.governance.teams.extend(["acme/shell".to_owned()]))
}

fn reviewers(world: &TestWorld) -> Vec<String> {
    let mut names = world.github.pulls()[0].reviewers.clone();
    names.sort();
    names
}

#[test]
fn owners_of_the_changed_files_are_asked_up_to_a_number() {
    // Not the author, and nobody who may not write.
    for (most, names) in [
        ("1", &["ann"][..]),
        ("2", &["acme/shell", "ann"]),
        ("3", &["acme/shell", "ann", "bea"]),
        ("9", &["acme/shell", "ann", "bea", "cleo"]),
    ] {
        let world = TestWorld::new(owned(), fix()).set("PATCHWRIGHT_CODE_OWNERS", most);
        world.issue().expect(0);
        assert_eq!(reviewers(&world), names, "{most}");
    }
    let world = TestWorld::new(owned(), fix());
    world.issue().expect(0);
    assert_eq!(reviewers(&world), Vec::<String>::new());
}

#[test]
fn a_team_that_may_not_look_costs_nobody_else_the_question() {
    let github = owned().with(|it| it.governance.teams.clear());
    let world = TestWorld::new(github, fix())
        .set("PATCHWRIGHT_CODE_OWNERS", "3")
        .set("PATCHWRIGHT_REVIEWERS", "zoe,bea");
    let output = world.issue().expect(0);
    assert_eq!(reviewers(&world), ["ann", "bea", "cleo", "zoe"], "{}", output.text());
    let said = "could not be asked for a review: acme/shell";
    assert!(output.stderr.contains(said), "{}", output.text());
}

#[test]
fn an_update_asks_no_owners_again() {
    let world = TestWorld::new(owned(), fix()).set("PATCHWRIGHT_CODE_OWNERS", "1");
    world.issue().expect(0);
    world.github.change(|it| it.pulls.values_mut().for_each(|pull| pull.reviewers.clear()));
    world.github.push("main", &[("other.txt", "new\n")]);
    world.model.add(fix());
    world.issue().expect(0);
    assert_eq!(reviewers(&world), Vec::<String>::new());
}

#[test]
fn a_pull_request_gets_assignees_and_a_milestone() {
    let github = github().user("ann", Role::Write).milestone(3, "Spring").milestone(4, "Autumn");
    let world = TestWorld::new(github, fix())
        .set("PATCHWRIGHT_ASSIGNEES", "ann,stranger")
        .set("PATCHWRIGHT_MILESTONE", "autumn");
    let output = world.issue().expect(0);
    let number = world.github.pulls()[0].number;
    let governance = world.github.governance();
    assert_eq!(governance.assignees[&number], ["ann"]);
    assert_eq!(governance.milestone_of[&number], 4);
    let said = "could not be assigned: stranger";
    assert!(output.stderr.contains(said), "{}", output.text());
    let world = TestWorld::new(crate::support::world::github(), fix())
        .set("PATCHWRIGHT_MILESTONE", "Winter");
    let output = world.issue().expect(0);
    assert!(output.stderr.contains("there is no open milestone `Winter`"), "{}", output.text());
}

#[test]
fn a_good_pull_request_is_merged_by_github_when_it_may_be() {
    let world = TestWorld::new(github(), fix()).set("PATCHWRIGHT_AUTO_MERGE", "true");
    fs_err::write(world.path("c.yml"), "publish: {merge-method: squash}\n").unwrap();
    world.run(&["issue", "acme/app#7", "--config", "c.yml", "--verify", "sh test.sh"]).expect(0);
    let pull = &world.github.pulls()[0];
    let merge = &world.github.governance().auto_merge[&pull.number];
    assert_eq!(merge, &("SQUASH".to_owned(), pull.head_sha.clone()));
}

#[test]
fn what_nobody_should_merge_unseen_is_left_to_people() {
    let says = |github: GitHub, args: &[&str], said: &str| {
        let world = TestWorld::new(github, fix()).set("PATCHWRIGHT_AUTO_MERGE", "true");
        if args.contains(&"false") {
            world.model.add([say("Add instead of subtracting\n\nThe rest fails as before.")]);
        }
        let args = [&["issue", "acme/app#7"], args].concat();
        let output = world.run(&args);
        assert!(output.stderr.contains(said), "{}", output.text());
        assert_eq!(world.github.pulls().len(), 1, "{}", output.text());
        assert!(world.github.governance().auto_merge.is_empty());
    };
    let checked: &[&str] = &["--verify", "sh test.sh"];
    says(github(), &["--draft", "--verify", "sh test.sh"], "left off: it is a draft");
    says(github(), &["--verify", "false"], "left off: it is a draft");
    let forbidden = github().with(|it| it.governance.no_auto_merge = true);
    says(forbidden, checked, "does not allow auto-merge (Settings, General");
    let idle = github().with(|it| it.governance.no_requirements = true);
    says(idle, checked, "nothing is required of");
    // What the repository's own file turns off, stays off.
    let off = (".github/patchwright.yml", "publish: {auto-merge: false}\n");
    let world = TestWorld::new(github_with(&[FILES, &[off]].concat()), fix());
    let world = world.set("PATCHWRIGHT_AUTO_MERGE", "true");
    world.run(&["issue", "acme/app#7", "--verify", "sh test.sh"]).expect(0);
    assert!(world.github.governance().auto_merge.is_empty());
}

#[test]
fn an_update_that_nobody_should_merge_unseen_is_not_merged_in_place_of_what_was_good() {
    let world = TestWorld::new(github(), fix()).set("PATCHWRIGHT_AUTO_MERGE", "true");
    world.run(&["issue", "acme/app#7", "--verify", "sh test.sh"]).expect(0);
    let (before, merges) = (world.github.head_of(8), world.github.governance().auto_merge);
    assert_eq!(merges.len(), 1);
    // The same change on a new base, whose checks fail: GitHub would merge it by what the first one had shown.
    world.github.push("main", &[("other.txt", "new\n")]);
    world.model.add(fix());
    world.model.add([say("Add instead of subtracting\n\nThe rest fails as before.")]);
    let output = world.run(&["issue", "acme/app#7", "--verify", "false"]);
    assert_eq!(world.github.pulls().len(), 1, "{}", output.text());
    assert!(world.github.governance().auto_merge.is_empty(), "{}", output.text());
    let said = "auto-merge of #8 was turned off: it is a draft";
    assert!(output.stderr.contains(said), "{}", output.text());
    // It was off before the new commit was there.
    assert_eq!(world.github.governance().merges_left, [(8, before)]);
}

#[test]
fn what_has_to_be_a_draft_is_not_merged_by_github_where_there_are_no_drafts() {
    let github = github().with(|it| it.has_drafts = false);
    let world = TestWorld::new(github, fix()).set("PATCHWRIGHT_AUTO_MERGE", "true");
    let draft = ["issue", "acme/app#7", "--draft", "--verify", "sh test.sh"];
    for _ in 0..2 {
        let output = world.run(&draft).expect(0);
        assert!(output.stderr.contains("left off: it is a draft"), "{}", output.text());
        assert!(world.github.governance().auto_merge.is_empty(), "{}", output.text());
        world.github.push("main", &[("other.txt", "new\n")]);
        world.model.add(fix());
    }
    assert!(world.github.pulls()[0].title.starts_with("[WIP] "));
    world.run(&["issue", "acme/app#7", "--verify", "sh test.sh"]).expect(0);
    assert_eq!(world.github.governance().auto_merge.len(), 1);
}

#[test]
fn a_team_of_another_organisation_is_not_asked_as_one_of_this() {
    let owners: &[_] = &[("CODEOWNERS", "* @other/shell @ann\n")];
    let github = github_with(&[FILES, owners].concat())
        .user("ann", Role::Write)
        .user("bea", Role::Write)
        .with(|it| it.governance.teams.extend(["acme/shell".to_owned()]));
    let world = TestWorld::new(github, fix())
        .set("PATCHWRIGHT_CODE_OWNERS", "2")
        .set("PATCHWRIGHT_REVIEWERS", "else/shell,bea");
    let output = world.issue().expect(0);
    assert_eq!(reviewers(&world), ["ann", "bea"], "{}", output.text());
    let said = "could not be asked for a review: else/shell";
    assert!(output.stderr.contains(said), "{}", output.text());
}

#[test]
fn the_evidence_is_a_check_of_the_commit_too() {
    for (verify, conclusion, code) in [("sh test.sh", "success", 0), ("false", "failure", 20)] {
        let world = TestWorld::new(github().actions_token(), fix());
        if code == 20 {
            world.model.add([say("Add instead of subtracting\n\nThe rest fails as before.")]);
        }
        world.run(&["issue", "acme/app#7", "--check-run", "--verify", verify]).expect(code);
        let checks = world.github.change(|it| it.check_runs.clone());
        let head = world.github.pulls()[0].head_sha.clone();
        assert_eq!(checks.len(), 1);
        assert_eq!(
            (checks[0].sha.as_str(), checks[0].name.as_str()),
            (head.as_str(), "Patchwright: change")
        );
        assert_eq!(checks[0].conclusion.as_deref(), Some(conclusion));
        let asked: Vec<String> = world.github.writes().iter().map(|it| format!("{it:?}")).collect();
        assert_eq!(asked.iter().filter(|it| it.contains("check-runs")).count(), 1, "{asked:#?}");
        assert_eq!(world.github.branches()[1].0, BRANCH);
    }
}
