//! What a rule would refuse in the end is said before the agent is paid for; what only the push shows keeps the
//! change.

use serde_json::json;

use super::{BRANCH, branches};
use crate::respond::{say_on_pull, with_pull};
use crate::support::git_http::git;
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

/// As [`refused`], of work that GitHub signs for a person.
fn refused_signed(github: GitHub, said: &str, hint: &str) {
    let world = TestWorld::new(github, fix()).set("PATCHWRIGHT_SIGN", "github");
    let output = world.issue().expect(30);
    assert!(output.stderr.contains(said), "{}", output.text());
    assert!(output.stderr.contains(hint), "{}", output.text());
    assert_eq!(world.model.requests().len(), 0, "{said}: the model was asked");
    assert_eq!((branches(&world), world.github.pulls().len()), (vec!["main".to_owned()], 0));
}

#[test]
fn a_rule_against_the_branch_that_signing_takes_is_told_first() {
    const STAGING: &str = "patchwright-staging/";
    let named = || Some(json!({"operator": "starts_with", "pattern": "patchwright/"}));
    let except = "have the rule except `patchwright-staging/**`";
    refused_signed(
        github().rule_below(STAGING, "branch_name_pattern", named()),
        "refuses the branch `patchwright-staging/",
        except,
    );
    refused_signed(
        github().rule_below(STAGING, "creation", None),
        "does not let the branch `patchwright-staging/",
        except,
    );
    // An App, a rule that does not hold for us, and nobody who signs take no such branch.
    for github in [
        github().rule_below(STAGING, "creation", None).actions_token(),
        github()
            .rule_below(STAGING, "creation", None)
            .with(|it| it.governance.bypass = Some("always")),
    ] {
        let world = TestWorld::new(github, fix()).set("PATCHWRIGHT_SIGN", "github");
        world.issue().expect(0);
        assert_eq!(world.github.pulls().len(), 1);
    }
    let world = TestWorld::new(github().rule_below(STAGING, "creation", None), fix());
    world.issue().expect(0);
    assert_eq!(world.github.pulls().len(), 1);
}

#[test]
fn a_branch_in_the_way_of_those_that_signing_takes_is_told_first() {
    let world = TestWorld::new(github(), fix()).set("PATCHWRIGHT_SIGN", "github");
    git(&world.github.repository_path(), &["branch", "patchwright-staging", "main"]);
    let output = world.issue().expect(30);
    let said = "beside the branch `patchwright-staging`";
    assert!(output.stderr.contains(said), "{}", output.text());
    assert!(output.stderr.contains("delete or rename `patchwright-staging`"), "{}", output.text());
    assert_eq!(world.model.requests().len(), 0, "the model was asked");
}

#[test]
fn a_branch_that_may_not_be_made_is_told_first_but_one_that_is_there_is_used() {
    refused(
        github().rule_below("patchwright/", "creation", None),
        "does not let the branch `patchwright/issue-7` be made",
        "`--branch`",
    );
    let world = TestWorld::new(github(), fix());
    world.issue().expect(0);
    world.github.change(|it| {
        let rule = json!({"type": "creation", "ruleset_id": 42, "ruleset_source": "acme",
            "ruleset_source_type": "Organization"});
        it.governance.rules.push(rule);
    });
    world.github.push("main", &[("other.txt", "new\n")]);
    world.model.add(fix());
    world.issue().expect(0);
    assert_eq!(world.github.pulls().len(), 1);
}

#[test]
fn a_pull_request_whose_branch_takes_no_push_is_not_worked_on() {
    let world = TestWorld::new(with_pull().rule_below("topic", "update", None), fix());
    let output = say_on_pull(&world, "@patchwright fix the sign in calc.sh").expect(30);
    for part in ["does not let the branch `topic` be pushed to", "have the rule except the branch"]
    {
        assert!(output.stderr.contains(part), "{part}: {}", output.text());
    }
    assert_eq!(world.model.requests().len(), 0);
}

/// Without a look at the rules, GitHub says it in the end.
#[test]
fn a_refusal_of_the_branch_that_signing_takes_says_what_can_be_done() {
    let github = github().rule_below("patchwright-staging/", "creation", None);
    let world = TestWorld::new(github, fix()).set("PATCHWRIGHT_SIGN", "github");
    let gone = Kind::Answer(404, json!({"message": "Not Found"}));
    world.github.fault(Fault::once("GET", "/rules/branches/", gone).times(2));
    let output = world.issue().expect(60);
    assert!(output.stderr.contains("creations being restricted"), "{}", output.text());
    assert!(output.stderr.contains("below `patchwright-staging/`"), "{}", output.text());
    assert!(output.stderr.contains("the change is kept in"), "{}", output.text());
}

/// Each run makes its commit anew: where a rule takes nothing but what is added, it has another branch.
#[test]
fn what_may_not_be_rewritten_stays_and_the_change_is_proposed_from_another_branch() {
    let world = TestWorld::new(github(), fix());
    let script = "#!/bin/sh\nwhile read old new ref; do\n\
        case \"$old\" in 0000000*) continue;; esac\n\
        git merge-base --is-ancestor \"$old\" \"$new\" && continue\n\
        echo \"error: GH013: Repository rule violations found for $ref.\" >&2\n\
        echo '- Cannot force-push to this branch' >&2\n\
        exit 1\ndone\n";
    world.github.git().hook("acme/app", "pre-receive", script);
    world.issue().expect(0);
    let first = world.github.pulls()[0].head_sha.clone();
    for count in 2..=5 {
        let path = format!("other-{count}.txt");
        world.github.push("main", &[(path.as_str(), "new\n")]);
        world.model.add(fix());
        let output = world.issue().expect(0);
        assert!(output.stderr.contains("may not be rewritten"), "{}", output.text());
        assert_eq!(world.github.pulls().len(), count, "{}", output.text());
        let newest = world.github.pulls().remove(count - 1);
        let beside = "#8 is open for this as well. A rule lets nobody rewrite its branch";
        assert!(newest.body.contains(beside), "{}", newest.body);
        // The same once more is there.
        world.model.add(fix());
        world.issue().expect(0);
        assert_eq!(world.github.pulls().len(), count);
    }
    assert!(world.github.pulls().iter().any(|pull| pull.head == BRANCH && pull.head_sha == first));
}

#[test]
fn where_pull_requests_are_turned_off_nothing_is_paid_for() {
    let world = TestWorld::new(github().with(|it| it.has_pulls = false), fix());
    let output = world.issue().expect(60);
    let said = "pull requests are turned off in `acme/app`";
    assert!(output.stderr.contains(said), "{}", output.text());
    assert_eq!((world.model.requests().len(), branches(&world)), (0, vec!["main".to_owned()]));
    // Without any, the change is made all the same.
    world.run(&["issue", "acme/app#7", "--dry-run"]).expect(0);
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
        ("identity: {email: ''}", "`identity.email` is empty"),
        ("identity: {committer-name: ' <> '}", "`identity.committer-name` is empty"),
        ("publish: {code-owners: 16}", "from 0 to 15"),
    ] {
        fs_err::write(world.path("c.yml"), text).unwrap();
        let output = world.run(&["issue", "acme/app#7", "--config", "c.yml"]).expect(2);
        assert!(output.stderr.contains(said), "{}", output.text());
    }
    assert_eq!((world.model.requests().len(), world.github.writes().len()), (0, 0));
}
