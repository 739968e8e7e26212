//! Reviews, threads, answers and checks in the local folder.

use patchwright_base::clock::Clock;
use patchwright_forge::local::{LocalForge, Seed};
use patchwright_forge::{
    CheckConclusion, CheckDraft, CommentPlace, Comparison, Forge, InlineComment, PullRequestDraft,
    ReviewDraft, ReviewEvent, ReviewPosted, ReviewState, Side,
};

use super::reviews::on_line;
use super::{MARKER, app};
use crate::support::git_http::{GitState, file};

const OLD: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";

/// A folder with pull request 2, which changes the fifth of ten lines.
async fn folder(dir: &std::path::Path) -> LocalForge {
    let seed = Seed {
        id: app(),
        files: vec![("a.txt".to_owned(), OLD.as_bytes().to_vec())],
        issues: vec![(1, "Loud".to_owned(), "Shout.".to_owned())],
        owner: "alice".to_owned(),
    };
    let local = LocalForge::create(dir, &seed, Clock { fixed: None }).unwrap();
    let main = local.branch_tip(&app(), "main").await.unwrap().unwrap();
    let git = git2::Repository::open_bare(local.repository_path()).unwrap();
    git.reference("refs/heads/shout", main.0, false, "").unwrap();
    push(dir, &OLD.replace("five", "FIVE"));
    let draft = PullRequestDraft {
        head_repository: app(),
        title: "Shout".to_owned(),
        body: "Louder.".to_owned(),
        head_branch: "shout".to_owned(),
        base_branch: "main".to_owned(),
        moves_base: true,
        draft: false,
    };
    local.open_or_update(&app(), &draft, MARKER).await.unwrap();
    local
}

fn push(dir: &std::path::Path, text: &str) {
    GitState::new(dir).commit("repository", "shout", "Shout", &[file("a.txt", text)]);
}

#[tokio::test]
async fn folder_takes_a_review_as_github_does() {
    let dir = tempfile::tempdir().unwrap();
    let forge = folder(dir.path()).await;
    let pull = forge.pull_request(&app(), 2).await.unwrap();
    let found = forge.pull_requests_at(&app(), &pull.head_sha).await.unwrap();
    assert_eq!(found, std::slice::from_ref(&pull));
    assert_eq!(
        forge.compare(&app(), &pull.base_sha, &pull.head_sha).await.unwrap(),
        Comparison::Ahead
    );
    assert_eq!(forge.compare(&app(), &"1".repeat(40), "main").await.unwrap(), Comparison::Unknown);

    let mut draft = ReviewDraft {
        commit: pull.head_sha.clone(),
        body: "One remark.".to_owned(),
        event: ReviewEvent::Approve,
        comments: vec![on_line(1, "far away"), on_line(5, "Too loud."), on_line(6, "And this?")],
    };
    let posted = forge.post_review(&app(), 2, &draft, MARKER).await.unwrap();
    assert!(
        matches!(&posted, ReviewPosted::Refused { comments, .. } if comments == &[0]),
        "{posted:?}"
    );
    draft.comments[0] = InlineComment { side: Side::Left, ..on_line(5, "Better before.") };
    for _ in 0..2 {
        let posted = forge.post_review(&app(), 2, &draft, MARKER).await.unwrap();
        let ReviewPosted::Yes { review, weaker } = posted else { panic!("{posted:?}") };
        // The pull request is our own.
        assert_eq!((review.state, weaker.is_some()), (ReviewState::Commented, true));
    }
    assert_eq!(forge.reviews(&app(), 2).await.unwrap().len(), 1);
    let threads = forge.threads(&app(), 2).await.unwrap();
    assert_eq!(threads.len(), 3);
    assert!(threads[1].comments[0].diff_hunk.ends_with("-five\n+FIVE"));

    // A push moves the lines, and changes one of them.
    push(dir.path(), &format!("zero\n{}", OLD.replace("five", "LOUD")));
    let threads = forge.threads(&app(), 2).await.unwrap();
    let now: Vec<_> = threads.iter().map(|thread| (thread.outdated, thread.line)).collect();
    assert_eq!(now, [(false, Some(5)), (true, None), (false, Some(7))]);
    let stray = ReviewDraft { commit: "1".repeat(40), ..draft };
    let other = MARKER.replace("r1", "r2");
    let posted = forge.post_review(&app(), 2, &stray, &other).await.unwrap();
    assert_eq!(posted, ReviewPosted::HeadMoved);
}

#[tokio::test]
async fn folder_keeps_threads_answers_drafts_and_checks_for_people_to_read() {
    let dir = tempfile::tempdir().unwrap();
    let forge = folder(dir.path()).await;
    let head = forge.pull_request(&app(), 2).await.unwrap().head_sha;
    let draft = ReviewDraft {
        commit: head.clone(),
        body: "One remark.".to_owned(),
        event: ReviewEvent::Comment,
        comments: vec![on_line(5, "Too loud.")],
    };
    let posted = forge.post_review(&app(), 2, &draft, MARKER).await.unwrap();
    let ReviewPosted::Yes { review, .. } = posted else { panic!("{posted:?}") };
    let thread = forge.threads(&app(), 2).await.unwrap().remove(0);
    let root = thread.comments[0].id;
    let places = [
        (CommentPlace::Thread { comment: root, root }, "Too loud."),
        (CommentPlace::Review { review: review.id }, "One remark."),
    ];
    for (place, text) in places {
        let asked = forge.comment_at(&app(), 2, place).await.unwrap();
        assert!(asked.body.starts_with(text));
        let answer = forge.reply(&app(), 2, place, MARKER, "Because.").await.unwrap();
        assert_eq!(forge.reply(&app(), 2, place, MARKER, "Because.").await.unwrap(), answer);
        forge.react_to(&app(), place, "eyes").await.unwrap();
    }
    let answer = forge.comments(&app(), 2, 9).await.unwrap().remove(0);
    let place = CommentPlace::Conversation { comment: answer.id };
    assert_eq!(forge.comment_at(&app(), 2, place).await.unwrap(), answer);
    assert!(forge.resolve_thread(&app(), thread.id.as_deref().unwrap()).await.unwrap());
    assert!(!forge.resolve_thread(&app(), "nonsense").await.unwrap());
    let thread = forge.threads(&app(), 2).await.unwrap().remove(0);
    assert_eq!((thread.resolved, thread.comments.len()), (true, 2));
    assert_eq!(thread.comments[1].in_reply_to, Some(root));
    forge.set_draft(&app(), 2, true).await.unwrap();
    assert!(forge.pull_request(&app(), 2).await.unwrap().draft);

    let mut check = CheckDraft {
        name: "review".to_owned(),
        head_sha: head.clone(),
        conclusion: CheckConclusion::Failure,
        title: "1 finding".to_owned(),
        summary: "Read everything.".to_owned(),
        annotations: Vec::new(),
        details_url: None,
    };
    let page = forge.put_check(&app(), &check).await.unwrap().unwrap();
    check.conclusion = CheckConclusion::Neutral;
    forge.put_check(&app(), &check).await.unwrap();
    let checks = forge.check_runs(&app(), &head).await.unwrap();
    assert_eq!((checks.len(), checks[0].conclusion.as_deref()), (1, Some("neutral")));
    assert_eq!(forge.check_log(&app(), &checks[0], 10).await.unwrap(), None);
    check.head_sha = "../../etc".to_owned();
    assert!(forge.put_check(&app(), &check).await.is_err());

    let reopened = LocalForge::open(dir.path(), Clock { fixed: None }).unwrap();
    assert_eq!(reopened.reviews(&app(), 2).await.unwrap().len(), 1);
    let text = fs_err::read_to_string(dir.path().join("pull-requests/2.md")).unwrap();
    for part in
        ["# Shout (draft) #2", "commented\n\nOne remark.", "`a.txt:5` (resolved)", "Because."]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(
        fs_err::read_to_string(page).unwrap().contains("## review: neutral\n\nRead everything.")
    );
}
