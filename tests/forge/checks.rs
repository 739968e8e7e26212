//! Checks: one per name and commit, statuses where checks are not allowed, logs without the token.

use patchwright_forge::{CheckAnnotation, CheckConclusion, CheckDraft, Forge};
use serde_json::json;

use super::reviews::with_pull;
use super::{app, connect, said};
use crate::support::github::{Fault, Kind, Server};

fn check(github: &Server, conclusion: CheckConclusion, annotations: u32) -> CheckDraft {
    let annotation = |number: u32| CheckAnnotation {
        path: "a.txt".to_owned(),
        start_line: number + 1,
        end_line: number + 1,
        is_failure: number == 0,
        title: format!("Title {number}"),
        message: format!("Message {number}"),
    };
    CheckDraft {
        name: "patchwright review".to_owned(),
        head_sha: github.head_of(2),
        conclusion,
        title: "2 findings".to_owned(),
        summary: "Read 1 of 1 files.".to_owned(),
        annotations: (0..annotations).map(annotation).collect(),
        details_url: Some("https://example.com/run".to_owned()),
    }
}

/// Messages of the annotations of the check that people see.
fn messages(github: &Server) -> Vec<String> {
    let runs = github.check_runs();
    let last = runs.last().unwrap();
    last.annotations.iter().map(|a| a["message"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn forge_makes_one_check_and_replaces_it() {
    let github = with_pull().actions_token().start();
    let forge = connect(&github);
    let url = forge.put_check(&app(), &check(&github, CheckConclusion::Failure, 0)).await.unwrap();
    assert!(url.is_some());
    forge.put_check(&app(), &check(&github, CheckConclusion::Neutral, 120)).await.unwrap();
    let runs = github.check_runs();
    assert_eq!(runs.len(), 1);
    assert_eq!(
        (runs[0].status.as_str(), runs[0].conclusion.as_deref()),
        ("completed", Some("neutral"))
    );
    let wanted: Vec<String> = (0..120).map(|number| format!("Message {number}")).collect();
    assert_eq!(messages(&github), wanted);
    // The same once more, as after a restart: nothing is doubled.
    forge.put_check(&app(), &check(&github, CheckConclusion::Neutral, 120)).await.unwrap();
    assert_eq!((github.check_runs().len(), messages(&github)), (1, wanted));
    // Other annotations cannot be taken away, so a new check stands in front of the old one.
    let mut other = check(&github, CheckConclusion::Success, 1);
    other.annotations[0].message = "Another".to_owned();
    forge.put_check(&app(), &other).await.unwrap();
    assert_eq!(messages(&github), ["Another"]);
    let seen = forge.check_runs(&app(), &github.head_of(2)).await.unwrap();
    assert_eq!(
        seen.iter().map(|run| run.conclusion.as_deref()).collect::<Vec<_>>(),
        [Some("success")]
    );
    let bodies = github.requests();
    let most = bodies.iter().filter_map(|r| r.body.as_ref()?["output"]["annotations"].as_array());
    assert!(most.map(Vec::len).all(|count| count <= 50));
}

#[tokio::test]
async fn forge_makes_one_check_when_answers_are_lost() {
    for (method, path) in [("POST", "/check-runs"), ("PATCH", "/check-runs/")] {
        for kind in [Kind::ErrorAfter(502), Kind::CutAfter, Kind::ErrorBefore(503)] {
            for count in [0, 130] {
                let shown = format!("{method} {kind:?} {count}");
                let github = with_pull().actions_token().start();
                let forge = connect(&github);
                github.fault(Fault::once(method, path, kind.clone()));
                let draft = check(&github, CheckConclusion::Failure, count);
                forge.put_check(&app(), &draft).await.unwrap();
                let wanted: Vec<String> = (0..count).map(|n| format!("Message {n}")).collect();
                assert_eq!((github.check_runs().len(), messages(&github)), (1, wanted), "{shown}");
            }
        }
    }
}

#[tokio::test]
async fn forge_writes_a_status_where_checks_are_for_apps() {
    let github = with_pull().start();
    let forge = connect(&github);
    let states = [
        (CheckConclusion::Success, "success"),
        (CheckConclusion::Failure, "failure"),
        (CheckConclusion::Neutral, "pending"),
        (CheckConclusion::ActionRequired, "pending"),
    ];
    for (conclusion, state) in states {
        let mut draft = check(&github, conclusion, 3);
        draft.title = "x".repeat(300);
        let page = forge.put_check(&app(), &draft).await.unwrap();
        assert_eq!(page, draft.details_url);
        let statuses = github.statuses();
        let last = statuses.last().unwrap();
        assert_eq!((last.state.as_str(), last.context.as_str()), (state, "patchwright review"));
        assert_eq!(last.description.as_ref().unwrap().chars().count(), 140);
    }
    assert!(github.check_runs().is_empty());
    let last = github.statuses().pop().unwrap();
    assert!(last.description.unwrap().starts_with("No verdict: "));

    let github = with_pull().token_lacks("statuses").start();
    let draft = check(&github, CheckConclusion::Success, 0);
    let result = connect(&github).put_check(&app(), &draft).await;
    assert!(said(&github, &result).starts_with("Forbidden: "), "{result:?}");
}

#[tokio::test]
async fn forge_leaves_checks_of_others_alone() {
    let github = with_pull().actions_token().failing_check("patchwright review", "log").start();
    let draft = check(&github, CheckConclusion::Success, 0);
    connect(&github).put_check(&app(), &draft).await.unwrap();
    let runs: Vec<_> = github.check_runs().into_iter().map(|run| run.conclusion.unwrap()).collect();
    assert_eq!(runs, ["failure", "success"]);
    assert!(github.writes().iter().all(|write| !write.starts_with("PATCH")));
}

#[tokio::test]
async fn forge_reads_checks_their_annotations_and_the_end_of_their_logs() {
    let log: Vec<String> = (0..10_000).map(|number| format!("line {number}\n")).collect();
    let log = log.concat();
    let mut github = with_pull().failing_check("test", &log);
    for number in 0..120 {
        github = github.failing_check(&format!("job {number}"), "short");
    }
    let github = github.start();
    github.change(|repository| {
        let run = &mut repository.check_runs[0];
        run.title = Some("It failed".to_owned());
        run.summary = Some(String::new());
        run.annotations = vec![json!({
            "path": "a.txt", "start_line": 5, "end_line": 5,
            "annotation_level": "failure", "message": "expected five",
        })];
    });
    let forge = connect(&github);
    let runs = forge.check_runs(&app(), &github.head_of(2)).await.unwrap();
    assert_eq!(runs.len(), 121);
    let test = runs.iter().find(|run| run.name == "test").unwrap();
    assert_eq!(
        (test.app.as_str(), test.completed, test.conclusion.as_deref(), test.summary.as_str()),
        ("github-actions", true, Some("failure"), "It failed")
    );
    let annotation = &test.annotations[0];
    assert_eq!((annotation.start_line, annotation.is_failure), (5, true));
    assert_eq!(annotation.message, "expected five");

    // The server of the logs refuses, and reports, requests that carry the token.
    let end = forge.check_log(&app(), test, 100).await.unwrap().unwrap();
    assert!(end.len() <= 100 && end.starts_with("line ") && end.ends_with("line 9999\n"), "{end}");
    assert_eq!(forge.check_log(&app(), test, 1 << 20).await.unwrap(), Some(log));
    assert_eq!(github.logs_read().len(), 2);
    github.change(|repository| repository.check_runs[0].log = None);
    assert_eq!(forge.check_log(&app(), test, 100).await.unwrap(), None);
    let mut other = test.clone();
    other.app = "some-app".to_owned();
    assert_eq!(forge.check_log(&app(), &other, 100).await.unwrap(), None);
}

#[tokio::test]
async fn forge_follows_the_way_to_a_log_once_and_nowhere_else() {
    let github = with_pull().failing_check("test", "the log").start();
    let forge = connect(&github);
    let run = forge.check_runs(&app(), &github.head_of(2)).await.unwrap().remove(0);
    // Back to the API itself: asked without the token, so it is nobody's.
    let here = format!("{}/user", github.api_url());
    for to in ["ftp://127.0.0.1/log".to_owned(), "http://127.0.0.1:9/log".to_owned(), here] {
        github.fault(Fault::once("GET", "/logs", Kind::Redirect(to)).times(3));
        let result = forge.check_log(&app(), &run, 100).await;
        assert!(said(&github, &result).starts_with("Unavailable: "), "{result:?}");
    }
    github.fault(Fault::once("GET", "/logs", Kind::ErrorBefore(502)));
    assert_eq!(forge.check_log(&app(), &run, 100).await.unwrap().as_deref(), Some("the log"));
    // Some servers answer with the log itself.
    github.fault(Fault::once("GET", "/logs", Kind::Text(200, "x".repeat(5000))));
    assert_eq!(forge.check_log(&app(), &run, 100).await.unwrap(), Some("x".repeat(100)));
    github.fault(Fault::once("GET", "/logs", Kind::Text(410, String::new())));
    assert_eq!(forge.check_log(&app(), &run, 100).await.unwrap(), None);
}
