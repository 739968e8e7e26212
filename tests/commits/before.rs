//! What a rule would refuse in the end is said before the agent is paid for; what only the push shows keeps the
//! change.

use serde_json::json;

use super::{BRANCH, branches};
use crate::support::github::{Fault, GitHub, Kind};
use crate::support::world::{FILES, TestWorld, fix, github, github_with};

fn refused(github: GitHub, said: &str, hint: &str) {
    let world = TestWorld::new(github, fix());
    let output = world.issue().expect(30);
    assert!(output.stderr.contains(said), "{}", output.text());
    assert!(output.stderr.contains(hint), "{}", output.text());
    assert_eq!(world.model.requests().len(), 0, "{said}: the model was asked");
    assert_eq!((branches(&world), world.github.pulls().len()), (vec!["main".to_owned()], 0));
    // People read it where they asked.
    assert!(world.github.comments(7).iter().any(|it| it.body.contains(said)), "{said}");
}

#[test]
fn a_rule_that_refuses_what_we_would_push_is_told_first() {
    let text =
        |operator: &str, pattern: &str| Some(json!({"operator": operator, "pattern": pattern}));
    let unsigned = "takes signed commits only on `patchwright/issue-7`, and nobody signs them";
    refused(github().rule("required_signatures", None), unsigned, "`commits.signing`");
    for bypass in ["never", "pull_requests_only"] {
        let github = github().rule("required_signatures", None);
        refused(github.with(|it| it.governance.bypass = Some(bypass)), unsigned, "commits.signing");
    }
    refused(
        github().rule("branch_name_pattern", text("starts_with", "fix/")),
        "its name must begin with `fix/`",
        "`--branch`",
    );
    refused(
        github().rule("commit_author_email_pattern", text("ends_with", "@acme.example")),
        "the address must end with `@acme.example`",
        "`identity.email`",
    );
    refused(
        github().rule("committer_email_pattern", text("regex", "^ci@")),
        "the address must match `^ci@`",
        "`identity.committer-email`",
    );
}

#[test]
fn rules_that_are_kept_or_may_be_bypassed_stop_nothing() {
    let kept = json!({"operator": "contains", "pattern": "issue"});
    let github = github()
        .rule("branch_name_pattern", Some(kept))
        .rule("non_fast_forward", None)
        .rule("required_signatures", None)
        .with(|it| it.governance.bypass = Some("always"));
    let world = TestWorld::new(github, fix());
    world.issue().expect(0);
    assert_eq!(world.github.pulls().len(), 1);
}

#[test]
fn without_a_look_at_the_rules_the_push_says_it_and_the_change_is_kept() {
    for status in [403, 404] {
        let github = github().rule("required_signatures", None).refuses_unsigned_commits();
        let world = TestWorld::new(github, fix());
        let gone = Kind::Answer(status, json!({"message": "Not Found"}));
        world.github.fault(Fault::once("GET", "/rules/branches/", gone));
        let output = world.issue().expect(60);
        assert!(output.stderr.contains("GH013"), "{}", output.text());
        assert!(output.stderr.contains("verified signatures"), "{}", output.text());
        assert!(output.stderr.contains("`--sign`"), "{}", output.text());
        assert!(world.result("change.patch").contains("calc.sh"));
        // With a signer, the same command lands it, and the model is not asked again.
        let asked = world.model.requests().len();
        let world = world.set("PATCHWRIGHT_SIGN", "github");
        world.issue().expect(0);
        assert_eq!((world.github.pulls().len(), world.model.requests().len()), (1, asked));
    }
}

#[test]
fn a_repository_that_wants_verified_commits_gets_no_others() {
    let wish = (".github/patchwright.yml", "commits: {require-verified: true}\n");
    let files = [FILES, &[wish]].concat();
    refused(github_with(&files), "`commits.require-verified` wants verified commits", "`github`");
    let world = TestWorld::new(github_with(&files), fix()).set("PATCHWRIGHT_SIGN", "github");
    world.issue().expect(0);
    assert_eq!(world.github.verification_of(BRANCH)["verified"], true);
}

#[test]
fn a_name_that_a_pattern_forbids_is_refused_first() {
    let files = [FILES, &[(".github/patchwright.yml", "policy: {branches: ['prefix:bot/']}\n")]];
    let files = files.concat();
    refused(github_with(&files), "it begins with `bot/`", "`--branch`");
    let world = TestWorld::new(github_with(&files), fix());
    world.run(&["issue", "acme/app#7", "--branch", "bot/seven"]).expect(0);
    assert_eq!(world.github.pulls()[0].head, "bot/seven");
}

#[test]
fn patterns_that_are_none_are_refused_where_they_are_set() {
    let world = TestWorld::new(github(), fix());
    let output = world.run(&["issue", "acme/app#7", "--title-pattern", "regex:("]).expect(2);
    assert!(output.stderr.contains("no regular expression"), "{}", output.text());
    for (text, said) in [
        ("policy: {titles: [Conventional]}", "`conventional`, `prefix:TEXT`, `regex:PATTERN`"),
        ("policy: {branches: ['regex:[']}", "`policy.branches`"),
        ("commits: {co-authors: [somebody]}", "`Name <address>`"),
        ("commits: {signing: gpg}", "signing"),
        ("publish: {code-owners: 16}", "from 0 to 15"),
    ] {
        fs_err::write(world.path("c.yml"), text).unwrap();
        let output = world.run(&["issue", "acme/app#7", "--config", "c.yml"]).expect(2);
        assert!(output.stderr.contains(said), "{}", output.text());
    }
    assert_eq!((world.model.requests().len(), world.github.writes().len()), (0, 0));
}
