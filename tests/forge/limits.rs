//! Rate limits, servers that are down, and long lists.

use std::time::Duration;

use expect_test::expect;
use patchwright_forge::Forge;

use super::{MARKER, app, connect, github, said};
use crate::support::github::{Fault, Kind};

#[tokio::test]
async fn forge_waits_for_limits_and_everybody_waits() {
    let window = Duration::from_millis(55);
    let limits = [
        Kind::Secondary { retry_after: Some(60), window },
        Kind::Secondary { retry_after: None, window },
        Kind::Primary { reset_in: 60, window },
    ];
    for kind in limits {
        for (method, path) in [("GET", "issues/1"), ("POST", "issues/1/comments")] {
            // The server complains when it is dropped if anybody asks within the window.
            let github = github().fault(Fault::once(method, path, kind.clone())).start();
            let forge = connect(&github);
            forge.upsert_comment(&app(), 1, MARKER, None, "Working").await.unwrap();
            let app = app();
            let (one, other, third) = tokio::join!(
                forge.issue(&app, 1),
                forge.repository(&app),
                forge.role(&app, "alice")
            );
            assert!(one.is_ok() && other.is_ok() && third.is_ok());
            assert_eq!(github.comments(1).len(), 1);
        }
    }
}

#[tokio::test]
async fn forge_says_how_long_a_limit_lasts_that_is_too_long_to_wait_for() {
    let kind = Kind::Primary { reset_in: 3030, window: Duration::from_mins(1) };
    let github = github().fault(Fault::once("GET", "issues/1", kind)).start();
    let result = connect(&github).issue(&app(), 1).await;
    expect!["RateLimited: the rate limit lasts until 51 minutes from now"]
        .assert_eq(&said(&github, &result));
}

#[tokio::test]
async fn forge_gives_up_on_a_server_that_is_down() {
    let fault = Fault { method: "GET", path: "issues/1", times: 99, kind: Kind::ErrorBefore(502) };
    let github = github().fault(fault).start();
    let result = connect(&github).issue(&app(), 1).await;
    expect!["Unavailable: HOST is unavailable: 502: status 502 with a web page"]
        .assert_eq(&said(&github, &result));
    assert_eq!(github.requests().len(), 5);
}

#[tokio::test]
async fn forge_reads_every_page_or_the_newest_ones() {
    let github = github().start();
    for number in 0..250 {
        github.post_comment(1, "bob", &format!("comment {number}"));
    }
    let forge = connect(&github);
    for (limit, first, pages) in
        [(1000, 0, 3), (250, 0, 3), (120, 130, 3), (10, 240, 3), (0, 250, 3)]
    {
        let before = github.requests().len();
        let comments = forge.comments(&app(), 1, limit).await.unwrap();
        let bodies: Vec<String> = comments.into_iter().map(|comment| comment.body).collect();
        let expected: Vec<String> =
            (first..250).map(|number| format!("comment {number}")).collect();
        assert_eq!(bodies, expected, "limit {limit}");
        assert!(github.requests().len() - before <= pages, "limit {limit}");
    }
    // Ours is found on whatever page it is.
    let ours = forge.upsert_comment(&app(), 1, MARKER, None, "Working").await.unwrap();
    let again = forge.upsert_comment(&app(), 1, MARKER, None, "Done").await.unwrap();
    assert_eq!(ours.id, again.id);
}
