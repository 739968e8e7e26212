//! Writes whose answer is lost: made once, whatever happened to the answer.

use patchwright_forge::Forge;
use patchwright_forge::seal::without;

use super::{MARKER, app, connect, draft, github};
use crate::support::github::{Fault, Kind};

/// Everything that a run writes, twice, as after a restart.
pub(super) async fn write_everything(forge: &dyn Forge) {
    for _ in 0..2 {
        forge.react(&app(), 1, "eyes").await.unwrap();
        forge.remove_label(&app(), 1, "patchwright").await.unwrap();
        let comment = forge.upsert_comment(&app(), 1, MARKER, None, "Working").await.unwrap();
        let known = Some(comment.id);
        forge.upsert_comment(&app(), 1, MARKER, known, "Done").await.unwrap();
        let (pull, _, _) = forge.open_or_update(&app(), &draft(), MARKER).await.unwrap();
        forge.add_labels(&app(), pull.number, &["bug".to_owned()]).await.unwrap();
        forge.request_reviewers(&app(), pull.number, &["bob".to_owned()]).await.unwrap();
    }
}

#[tokio::test]
async fn forge_writes_once_when_the_answer_is_lost() {
    let kinds =
        || [Kind::ErrorAfter(502), Kind::CutAfter, Kind::ErrorBefore(503), Kind::ErrorAfter(500)];
    let routes = [
        ("POST", "issues/1/comments"),
        ("PATCH", "issues/comments"),
        ("POST", "/pulls"),
        ("POST", "/labels"),
        ("DELETE", "/labels"),
        ("POST", "/reactions"),
        ("POST", "/requested_reviewers"),
    ];
    for (method, path) in routes {
        // What may be repeated without harm has fewer ways to go wrong.
        let ways = if matches!(path, "issues/1/comments" | "/pulls") { 4 } else { 2 };
        for kind in kinds().into_iter().take(ways) {
            let shown = format!("{method} {path} {kind:?}");
            let github = github().fault(Fault::once(method, path, kind)).start();
            write_everything(&connect(&github)).await;
            let pulls = github.pulls();
            assert_eq!(pulls.len(), 1, "{shown}");
            assert_eq!(
                (&pulls[0].labels, &pulls[0].reviewers),
                (&vec!["bug".to_owned()], &vec!["bob".to_owned()]),
                "{shown}"
            );
            let bodies: Vec<String> =
                github.comments(1).into_iter().map(|c| without(&c.body)).collect();
            assert_eq!(bodies, [format!("Done\n\n{MARKER}")], "{shown}");
            assert_eq!(github.labels(1), Vec::<String>::new(), "{shown}");
            let eyes = ("patchwright-bot".to_owned(), "eyes".to_owned());
            assert_eq!(github.reactions(1), [eyes], "{shown}");
        }
    }
}

#[tokio::test]
async fn forge_looks_more_than_once_when_lists_lag_behind_a_lost_write() {
    for (method, list) in [("issues/1/comments", "issues/1/comments"), ("/pulls", "/pulls")] {
        let github = github()
            .fault(Fault::once("POST", method, Kind::ErrorAfter(502)))
            .fault(Fault::once("GET", list, Kind::StaleList).times(3))
            .start();
        write_everything(&connect(&github)).await;
        assert_eq!((github.comments(1).len(), github.pulls().len()), (1, 1), "{list}");
    }
}

#[tokio::test]
async fn forge_tells_a_label_it_removed_from_one_that_was_gone() {
    let removed = async |fault: Option<Kind>, label: &str| {
        let github = github().start();
        if let Some(kind) = fault {
            github.fault(Fault::once("DELETE", "/labels", kind));
        }
        connect(&github).remove_label(&app(), 1, label).await.unwrap()
    };
    assert!(removed(None, "patchwright").await);
    assert!(!removed(None, "bug").await);
    assert!(removed(Some(Kind::ErrorAfter(502)), "patchwright").await);
}
