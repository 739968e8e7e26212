//! What is ours and what is not: comments and pull requests of other people stay as they are.

use expect_test::expect;
use patchwright_forge::seal::without;
use patchwright_forge::{Forge, Operation, PullRequestDraft};

use super::lost_answers::write_everything;
use super::{BRANCH, MARKER, app, connect, draft, github, said};

#[tokio::test]
async fn forge_comment_is_ours_or_new() {
    let github = github().comment("mallory", &format!("Look:\n{MARKER}")).start();
    let forge = connect(&github);
    let first = forge.upsert_comment(&app(), 1, MARKER, None, "Working").await.unwrap();
    assert_eq!(github.comments(1)[0].body, format!("Look:\n{MARKER}"));
    // Unchanged: nothing is written.
    let writes = github.writes().len();
    forge.upsert_comment(&app(), 1, MARKER, Some(first.id), "Working").await.unwrap();
    forge.upsert_comment(&app(), 1, MARKER, None, "Working").await.unwrap();
    assert_eq!(github.writes().len(), writes);
    // Deleted: a new one.
    github.change(|repository| repository.comments.retain(|comment| comment.id != first.id));
    let second = forge.upsert_comment(&app(), 1, MARKER, Some(first.id), "Working").await.unwrap();
    assert_ne!(first.id, second.id);
    // Too long: cut, with the marker, so that it is found again.
    let long = "é".repeat(70_000);
    let third = forge.upsert_comment(&app(), 1, MARKER, None, &long).await.unwrap();
    assert_eq!(third.id, second.id);
    assert!((65_200..=65_536).contains(&third.body.chars().count()), "room for the seal only");
    assert!(
        without(&third.body).ends_with(&format!(
            "*(cut: GitHub takes no more than 65,536 characters)*\n\n{MARKER}"
        ))
    );
    forge.upsert_comment(&app(), 1, MARKER, None, "Done").await.unwrap();
    assert_eq!(github.comments(1).len(), 2);
}

#[tokio::test]
async fn forge_of_an_app_knows_who_it_is_and_which_comment_is_its_own() {
    let github = github().token_of("github-actions[bot]").comment("mallory", MARKER).start();
    let forge = connect(&github);
    let us = forge.viewer().await.unwrap().expect("GraphQL says who we are");
    assert_eq!((us.login.as_str(), us.is_bot), ("github-actions[bot]", true));
    write_everything(&forge).await;
    let authors: Vec<String> =
        github.comments(1).into_iter().map(|comment| comment.author).collect();
    assert_eq!(authors, ["mallory", "github-actions[bot]"]);
    assert_eq!(github.pulls().len(), 1);
}

#[tokio::test]
async fn forge_leaves_other_peoples_pull_requests_alone() {
    let github = github().start();
    let forge = connect(&github);
    let (pull, _, _) = forge.open_or_update(&app(), &draft(), MARKER).await.unwrap();
    // From a fork with a branch of the same name: not the one.
    github.change(|r| r.pulls.get_mut(&2).unwrap().head_repository = "acme/app-fork".to_owned());
    assert_eq!(forge.pull_requests_from(&app(), &app(), BRANCH).await.unwrap(), []);
    github.change(|r| r.pulls.get_mut(&2).unwrap().head_repository = "acme/app".to_owned());
    // By somebody else, without our marker: a conflict with its address.
    github.change(|repository| {
        let issue = repository.issues.get_mut(&2).unwrap();
        issue.author = Some("bob".to_owned());
        issue.body = None;
    });
    let result = forge.open_or_update(&app(), &draft(), MARKER).await;
    expect!["Conflict: branch `patchwright/issue-1` already has a pull request of `bob`: http://HOST/acme/app/pull/2"].assert_eq(&said(&github, &result));
    // With our marker: adopted, whoever opened it.
    github.change(|r| r.issues.get_mut(&2).unwrap().body = Some(format!("Old.\r\n{MARKER}\r\n")));
    let (adopted, operation, _) = forge.open_or_update(&app(), &draft(), MARKER).await.unwrap();
    assert_eq!((adopted.number, operation), (pull.number, Operation::Updated));
    // Closed: a new one.
    github.change(|repository| repository.issues.get_mut(&2).unwrap().open = false);
    let (new, operation, _) = forge.open_or_update(&app(), &draft(), MARKER).await.unwrap();
    assert_eq!((new.number, operation), (3, Operation::Created));
    let all = forge.pull_requests_from(&app(), &app(), BRANCH).await.unwrap();
    assert_eq!(all.iter().map(|p| (p.number, p.open)).collect::<Vec<_>>(), [(3, true), (2, false)]);
}

#[tokio::test]
async fn forge_marks_the_title_where_there_are_no_drafts() {
    let github = github().with(|repository| repository.has_drafts = false).start();
    let forge = connect(&github);
    let wanted = PullRequestDraft { draft: true, title: "t".repeat(300), ..draft() };
    let (pull, operation, _) = forge.open_or_update(&app(), &wanted, MARKER).await.unwrap();
    assert_eq!(
        (pull.draft, operation, pull.title.chars().count()),
        (false, Operation::Created, 256)
    );
    assert!(pull.title.starts_with("[WIP] ttt"));
    let short = PullRequestDraft { draft: true, ..draft() };
    forge.open_or_update(&app(), &short, MARKER).await.unwrap();
}
