//! Campaigns keep to what single runs keep to: what could not be pushed, or proposed, is said before the model is paid
//! for, and the publisher looks again.

use serde_json::json;

use super::key;
use crate::batch_run::{CAMPAIGN, batch, counted, pulls, states, within, write};
use crate::support::github::{Fault, GitHub, Kind};
use crate::support::world::{FILES, TestWorld};

const BRANCH: &str = "patchwright/sums";

/// One repository with these files besides.
fn github(more: &[(&str, &str)]) -> GitHub {
    GitHub::new().organization("acme").repository("acme/app", &[FILES, more].concat())
}

fn world(github: GitHub) -> TestWorld {
    within(github, Vec::new())
}

/// Nothing was pushed or proposed; returns what is said about the repository.
fn refused(world: &TestWorld, class: &str) -> String {
    let output = batch(world, &["run"]).expect(20);
    assert_eq!(states(&output), counted(&[("failed", 1)]), "{}", output.text());
    assert_eq!(pulls(world), Vec::<String>::new(), "{}", output.text());
    let said = batch(world, &["status"]).expect(20).stdout;
    assert!(said.contains(class), "{said}");
    said
}

fn refused_unpaid(github: GitHub, said: &str) {
    let world = world(github);
    let told = refused(&world, "policy");
    assert!(told.contains(said), "{said}: {told}");
    assert_eq!(world.model.requests().len(), 0, "{said}: the model was asked");
    assert_eq!(super::branches(&world), ["main"], "{said}");
}

#[test]
fn what_could_not_be_pushed_ends_the_run_of_a_campaign_before_the_model_is_asked() {
    let file = ".github/patchwright.yml";
    refused_unpaid(
        github(&[(file, "commits: {require-verified: true}\n")]),
        "`commits.require-verified` wants verified commits",
    );
    refused_unpaid(
        github(&[(file, "policy: {branches: ['prefix:feature/']}\n")]),
        "is not as `policy.branches` wants it",
    );
    refused_unpaid(
        github(&[]).rule("required_signatures", None),
        "takes signed commits only on `patchwright/sums`",
    );
    let pattern = json!({"operator": "starts_with", "pattern": "fix/"});
    refused_unpaid(
        github(&[]).rule("branch_name_pattern", Some(pattern)),
        "its name must begin with `fix/`",
    );
}

#[test]
fn rules_that_may_be_bypassed_and_changes_that_are_held_stop_no_campaign() {
    let bypassed = github(&[])
        .rule("required_signatures", None)
        .with(|it| it.governance.bypass = Some("always"));
    let proposed = world(bypassed);
    batch(&proposed, &["run"]).expect(0);
    assert_eq!(pulls(&proposed).len(), 1);
    // It may be published with a signer later.
    let held = world(github(&[]).rule("required_signatures", None));
    let output = batch(&held, &["run", "--dry-run"]).expect(0);
    assert_eq!(states(&output), counted(&[("held", 1)]), "{}", output.text());
    let asked = held.model.requests().len();
    let signing = held.set("PATCHWRIGHT_SIGN", "github");
    batch(&signing, &["run"]).expect(0);
    assert_eq!((pulls(&signing).len(), signing.model.requests().len()), (1, asked));
}

#[test]
fn a_change_that_was_held_is_not_published_unsigned_where_it_has_to_be_verified() {
    let world = world(github(&[]));
    batch(&world, &["run", "--dry-run"]).expect(0);
    fs_err::write(world.path("c.yml"), "commits: {require-verified: true}\n").unwrap();
    let output = batch(&world, &["run", "--config", "c.yml"]).expect(20);
    assert_eq!((pulls(&world).len(), super::branches(&world).len()), (0, 1), "{}", output.text());
    assert!(output.text().contains("nobody signs them"), "{}", output.text());
}

#[test]
fn github_is_asked_whether_it_verifies_what_a_campaign_has_pushed() {
    let (private, public) = key("ed25519", "");
    let wish = "commits: {require-verified: true}\n";
    let sign = |github: GitHub, config: &str| {
        let world =
            world(github).set("PATCHWRIGHT_SIGN", "ssh").set("PATCHWRIGHT_SIGNING_KEY", &private);
        fs_err::write(world.path("c.yml"), config).unwrap();
        world
    };
    // Nobody has told GitHub of the key.
    let unknown = sign(github(&[]), wish);
    let output = batch(&unknown, &["run", "--config", "c.yml"]).expect(20);
    assert!(output.text().contains("GitHub would not verify the commit"), "{}", output.text());
    assert!(output.text().contains("SHA256:"), "{}", output.text());
    assert_eq!(pulls(&unknown), Vec::<String>::new());
    assert_eq!(super::branches(&unknown), ["main"]);
    // Where it need not be, it is only said.
    let said = sign(github(&[]), "commits: {require-verified: false}\n");
    let output = batch(&said, &["run", "--config", "c.yml"]).expect(0);
    assert_eq!(pulls(&said).len(), 1, "{}", output.text());
    let status = batch(&said, &["status"]).expect(0);
    assert!(status.stdout.contains("GitHub does not verify commit"), "{}", status.text());
    let email = "patchwright[bot]@users.noreply.github.com";
    let known = sign(github(&[]).signing_key(email, &public), wish);
    batch(&known, &["run", "--config", "c.yml"]).expect(0);
    assert_eq!(pulls(&known).len(), 1);
}

#[test]
fn a_branch_that_was_pushed_unsigned_is_pushed_anew_by_who_signs() {
    let world = world(github(&[]));
    world.github.fault(Fault::once("POST", "/pulls", Kind::ErrorBefore(422)));
    batch(&world, &["run"]).expect(20);
    assert_eq!(world.github.verification_of(BRANCH)["verified"], false);
    let world = world.set("PATCHWRIGHT_SIGN", "github");
    let output = batch(&world, &["retry"]).expect(0);
    batch(&world, &["run"]).expect(0);
    assert_eq!(pulls(&world).len(), 1, "{}", output.text());
    assert_eq!(world.github.verification_of(BRANCH)["verified"], true);
}

#[test]
fn an_app_that_may_not_propose_anything_pays_for_no_run() {
    for lacking in ["pull_requests", "contents"] {
        let github = github(&[]).app("patchwright").installation("acme").with_installation(|it| {
            it.permissions.insert(lacking.to_owned(), "read".to_owned());
        });
        let world = world(github).with_app_credentials();
        let told = refused(&world, "access");
        let words = format!("does not grant `{}: write`", lacking.replace('_', "-"));
        assert!(told.contains(&words), "{told}");
        assert_eq!(world.model.requests().len(), 0, "{lacking}");
    }
}

#[test]
fn a_repository_that_cannot_be_read_once_keeps_its_place_and_its_pull_request() {
    let github = github(&[]).repository("acme/two", FILES);
    let world = world(github);
    write(&world, CAMPAIGN);
    batch(&world, &["run"]).expect(0);
    assert_eq!(pulls(&world).len(), 2);
    let nothing = json!({"errors": [{"message": "no"}]});
    let question = Fault::once("POST", "graphql", Kind::Answer(200, nothing));
    world.github.fault(question.times(100));
    let down = Fault::once("GET", "repos/acme/two", Kind::ErrorBefore(502));
    world.github.fault(down.times(1_000));
    for _ in 0..2 {
        let output = batch(&world, &["run"]);
        assert_eq!(states(&output), counted(&[("open", 2)]), "{}", output.text());
        world.github.world().faults.clear();
    }
    let status = batch(&world, &["status"]).expect(0);
    assert!(!status.stdout.contains("skipped"), "{}", status.text());
    let output = world.run(&["batch", "close", "sums"]).expect(0);
    assert!(output.text().contains("2 pull requests closed"), "{}", output.text());
}

#[test]
fn an_installation_that_is_suspended_fails_nothing() {
    let github = github(&[]).app("patchwright").installation("acme");
    let github = github.organization("beta").repository("beta/app", FILES).installation("beta");
    let world = world(github);
    let listed = CAMPAIGN.replace("organizations: [acme]", "repositories: [acme/app, beta/app]");
    write(&world, &listed);
    let world = world.with_app_credentials();
    let output = batch(&world, &["run", "--dry-run"]).expect(0);
    assert_eq!(states(&output), counted(&[("held", 2)]), "{}", output.text());
    let suspend = |is_suspended| {
        world.github.change_app(|app| {
            let one = app.installations.iter_mut().find(|one| one.account == "beta").unwrap();
            one.suspended = is_suspended;
        });
    };
    suspend(true);
    let output = batch(&world, &["run"]);
    assert!(
        output.text().contains("the installation of the GitHub App at `beta` is suspended"),
        "{}",
        output.text()
    );
    let status = batch(&world, &["status"]);
    assert!(status.stdout.contains(r#""failed":0"#), "{}", status.text());
    suspend(false);
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 2)]), "{}", output.text());
    assert_eq!(world.model.requests().len(), 4, "nothing was paid for twice");
}

#[test]
fn a_token_that_may_not_push_is_no_matter_of_another_attempt() {
    let world = world(github(&[]).token_lacks("contents"));
    let told = refused(&world, r#""class":"access""#);
    for part in ["not allowed to push to", "; it takes `contents: write`", r#""attempts":1"#] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(world.model.requests().len(), 0, "the model was asked");
}
