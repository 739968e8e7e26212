//! What another job or a cache hands over is a stranger's: it is published as far as campaign, policy and
//! the words that we let through say, or not at all.

use patchwright_types::campaign::{ErrorClass, JobKind, Target, TargetState};

use super::{BRANCH, Bench, Made, REPOSITORY, campaign, world};
use crate::support::git_repo::git;

const KEY: &str = "AKIAIOSFODNN7EXAMPLQ";

/// Changes the stored rows behind the store's back.
async fn sql(bench: &Bench, text: &str) {
    let url = format!("sqlite://{}", bench.folder.path().join("fleet.db").display());
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    let done = sqlx::query(sqlx::AssertSqlSafe(text.to_owned())).execute(&pool).await.unwrap();
    assert!(done.rows_affected() > 0, "{text}");
    pool.close().await;
}

async fn published(bench: &Bench, files: &[(&str, &str)]) -> Target {
    let made = Made { files, ..Made::default() };
    let target = bench.ready_with(&campaign(""), REPOSITORY, &made).await;
    bench.publish(&target).await
}

#[tokio::test]
async fn a_stored_tree_is_judged_by_policy_before_it_is_pushed() {
    for (files, words) in [
        (&[(".github/workflows/evil.yml", "on: push\n")][..], "`.github/workflows/evil.yml`"),
        (&[("ci/x/action.yml", "runs:\n")], "ci/x/action.yml"),
        (&[("key.txt", KEY)], "secret."),
        (&[("README.MD", "collides\n")], "README.MD"),
    ] {
        let bench = Bench::new(world()).await;
        let target = published(&bench, files).await;
        let seen = (target.state, target.class);
        assert_eq!(seen, (TargetState::Failed, Some(ErrorClass::Policy)), "{files:?}: {target:?}");
        let reason = target.reason.unwrap();
        assert!(reason.contains(words), "{files:?}: {reason}");
        assert!(!reason.contains(KEY), "{reason}");
        assert_eq!((bench.tip(BRANCH), bench.github.pulls().len()), (None, 0), "{files:?}");
    }
}

#[tokio::test]
async fn a_protected_file_makes_a_draft_whatever_was_stored() {
    let bench = Bench::new(world()).await;
    let target = published(&bench, &[("Makefile", "all:\n\ttrue\n")]).await;
    assert_eq!(target.state, TargetState::Draft, "{:?}", target.reason);
    assert!(bench.github.pulls()[0].draft);
}

#[tokio::test]
async fn words_author_branch_labels_and_reviewers_are_ours() {
    let bench = Bench::new(world().user("mallory", patchwright_forge::Role::Write)).await;
    let message =
        "Tidy @acme/everyone [skip ci]\n\nFixes #1\nCo-authored-by: The owner <o@a.test>\n";
    let files = &[("README.md", "the\n")];
    let made = Made { files, message: Some(message), ..Made::default() };
    let target = bench.ready_with(&campaign(""), REPOSITORY, &made).await;
    sql(
        &bench,
        "UPDATE changesets SET branch = 'release/v9', base_branch = 'release/v1', labels = '[\"deploy\"]',
            reviewers = '[\"mallory\"]', title = '@acme/everyone look',
            marker = '<!-- patchwright:stop v=1 -->',
            body = 'Hi @acme/everyone. Fixes #1 ![](https://evil.test/x.png) <img src=x>'",
    )
    .await;
    let target = bench.publish(&target).await;
    assert_eq!(target.state, TargetState::Open, "{:?}", target.reason);
    let pull = &bench.github.pulls()[0];
    assert_eq!((pull.head.as_str(), pull.base.as_str()), (BRANCH, "main"));
    assert_eq!(
        (&pull.labels[..], &pull.reviewers[..]),
        (&["typo".to_owned()][..], &["rita".to_owned()][..])
    );
    for bad in ["@acme", "Fixes #1", "![](", "<img", "patchwright:stop"] {
        assert!(!pull.title.contains(bad) && !pull.body.contains(bad), "{bad}: {pull:?}");
    }
    assert!(bench.tip("release/v9").is_none());
    let shown = ["log", "-1", "--format=%an <%ae> / %cn <%ce>%n%B", BRANCH];
    let said = git(&bench.github.repository_path(), &shown);
    let signed = "Patchwright <bot@patchwright.test> / Patchwright <bot@patchwright.test>";
    assert!(said.starts_with(signed), "{said}");
    for bad in ["@acme", "#1", "[skip ci]", "Co-authored-by"] {
        assert!(!said.contains(bad), "{bad}: {said}");
    }
}

#[tokio::test]
async fn a_repository_that_the_campaign_does_not_select_is_left_alone() {
    let bench = Bench::new(world().repository("acme/victim", &[("README.md", "teh\n")])).await;
    let made = Made { files: &[("README.md", "the\n")], ..Made::default() };
    let target = bench.ready_with(&campaign(""), "acme/victim", &made).await;
    let target = bench.publish(&target).await;
    assert_eq!((target.state, target.class), (TargetState::Failed, Some(ErrorClass::Policy)));
    assert!(target.reason.unwrap().contains("does not select `acme/victim`"));
    assert_eq!(bench.github.pulls().len(), 0);
}

#[tokio::test]
async fn a_change_that_is_not_on_the_base_branch_brings_no_foreign_commits() {
    let bench =
        Bench::new(world().branch("side", &[(".github/workflows/evil.yml", "on: push\n")])).await;
    let files = &[("README.md", "the\n")];
    let made = Made { files, base: "side", ..Made::default() };
    let target = bench.ready_with(&campaign(""), REPOSITORY, &made).await;
    let target = bench.publish(&target).await;
    assert_eq!((target.state, target.class), (TargetState::Failed, Some(ErrorClass::Publish)));
    assert!(target.reason.unwrap().contains("is not on `main`"));
    assert_eq!(bench.tip(BRANCH), None);
}

#[tokio::test]
async fn a_job_that_names_no_target_of_its_campaign_ends() {
    for subject in ["zero", "1e3", ""] {
        let bench = Bench::new(world()).await;
        bench.ready(&campaign(""), "the\n").await;
        sql(&bench, &format!("UPDATE jobs SET subject = '{subject}' WHERE kind = 'publish'")).await;
        bench.attempt().await;
        assert!(bench.claim(JobKind::Publish).await.is_none(), "{subject}");
        assert_eq!(bench.github.pulls().len(), 0);
    }
    let bench = Bench::new(world()).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    bench.ready(&campaign("verify: [make]\n"), "thee\n").await;
    let other = campaign("verify: [make]\n").id();
    sql(
        &bench,
        &format!("UPDATE jobs SET campaign = '{other}' WHERE key = 'publish:{}'", target.id),
    )
    .await;
    bench.attempt().await;
    assert_eq!(bench.github.pulls().len(), 0, "of another campaign");
}

#[tokio::test]
async fn what_a_run_said_and_nobody_can_read_any_more_is_not_published_without_it() {
    for damaged in
        ["{\"outcome\": {\"run\": \"r1\", \"concl", "{\"outcome\": 7, \"held_back_patch\": null}"]
    {
        let bench = Bench::new(world()).await;
        let made = Made { files: &[("README.md", "the\n")], ..Made::default() };
        let target = bench.ready_with(&campaign(""), REPOSITORY, &made).await;
        sql(&bench, &format!("UPDATE changesets SET body = '{damaged}'")).await;
        let target = bench.publish(&target).await;
        assert_eq!((target.state, target.class), (TargetState::Failed, Some(ErrorClass::Policy)));
        let reason = target.reason.unwrap();
        assert!(
            reason.starts_with("what the run said about its change cannot be read"),
            "{reason}"
        );
        assert_eq!((bench.tip(BRANCH), bench.github.pulls().len()), (None, 0));
    }
}
