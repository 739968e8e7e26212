//! Reviews on GitHub: posted once, refused as a whole, weaker where no verdict is allowed.

use patchwright_forge::seal::without;
use patchwright_forge::{
    Account, CommentPlace, Comparison, Forge, InlineComment, Review, ReviewDraft, ReviewEvent,
    ReviewPosted, ReviewState, Role, Side, marker,
};

use super::{app, connect, said};
use crate::support::github::{Fault, GitHub, Kind, Server};

const MARKER: &str = "<!-- patchwright:review run=r1 v=1 -->";

const OLD: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";
const NEW: &str = "one\ntwo\nthree\nfour\nFIVE\nsix\nseven\neight\nnine\nten\n";

/// A pull request of Alice's that changes the fifth of ten lines.
pub(super) fn with_pull() -> GitHub {
    GitHub::new()
        .repository("acme/app", &[("a.txt", OLD)])
        .user("alice", Role::Write)
        .pull(2, "Shout", "shout", &[("a.txt", NEW)])
        .by("alice")
}

pub(super) fn on_line(line: u32, body: &str) -> InlineComment {
    InlineComment {
        path: "a.txt".to_owned(),
        side: Side::Right,
        line,
        start_line: None,
        body: body.to_owned(),
    }
}

fn review_of(github: &Server, event: ReviewEvent) -> ReviewDraft {
    ReviewDraft {
        commit: github.head_of(2),
        body: format!("One remark.\n\n{MARKER}"),
        event,
        comments: vec![
            InlineComment { start_line: Some(4), ..on_line(5, "Too loud.") },
            InlineComment { side: Side::Left, ..on_line(5, "This was better.") },
        ],
    }
}

fn yes(posted: ReviewPosted) -> (Review, Option<String>) {
    match posted {
        ReviewPosted::Yes { review, weaker } => (review, weaker),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn forge_posts_a_review_once_and_finds_it_again() {
    let github = with_pull().start();
    let forge = connect(&github);
    let draft = review_of(&github, ReviewEvent::Comment);
    let (first, weaker) = yes(forge.post_review(&app(), 2, &draft, MARKER).await.unwrap());
    assert_eq!((weaker, first.state), (None, ReviewState::Commented));
    // GitHub has taken the HTML comment out; the other form is still there.
    assert!(!first.body.contains("<!--") && marker::carries_exactly(&first.body, MARKER));
    let (again, _) = yes(forge.post_review(&app(), 2, &draft, MARKER).await.unwrap());
    assert_eq!(first, again);
    assert_eq!(forge.reviews(&app(), 2).await.unwrap(), [first]);
    let seen = github.review_comments(2);
    let places: Vec<_> =
        seen.iter().map(|c| (c.start_line, c.line, c.side, c.quoted.clone())).collect();
    assert_eq!(
        places,
        [
            (Some(4), Some(5), "RIGHT", vec!["four".to_owned(), "FIVE".to_owned()]),
            (None, Some(5), "LEFT", vec!["five".to_owned()]),
        ]
    );
    // Another run has another review.
    let other = MARKER.replace("r1", "r2");
    let draft = ReviewDraft { body: "Again.".to_owned(), ..draft };
    yes(forge.post_review(&app(), 2, &draft, &other).await.unwrap());
    assert_eq!(github.reviews(2).len(), 2);
}

#[tokio::test]
async fn forge_posts_a_review_once_when_the_answer_is_lost() {
    let kinds =
        [Kind::ErrorAfter(502), Kind::CutAfter, Kind::ErrorBefore(503), Kind::ErrorAfter(500)];
    for kind in kinds {
        for times in [1, 2] {
            for stale in [0, 3] {
                let shown = format!("{kind:?} {times} {stale}");
                let github = with_pull().start();
                let (forge, draft) = (connect(&github), review_of(&github, ReviewEvent::Approve));
                // What happened is seen after one failure only.
                let happens = !matches!(kind, Kind::ErrorBefore(_));
                github.fault(Fault::once("POST", "/reviews", kind.clone()).times(times));
                github.fault(Fault::once("GET", "/reviews", Kind::StaleList).times(if happens {
                    stale
                } else {
                    0
                }));
                let posted = forge.post_review(&app(), 2, &draft, MARKER).await.unwrap();
                let (review, weaker) = yes(posted);
                assert_eq!((review.state, weaker), (ReviewState::Approved, None), "{shown}");
                assert_eq!(github.reviews(2).len(), 1, "{shown}");
            }
        }
    }
}

#[tokio::test]
async fn forge_removes_a_pending_review_of_its_own_and_leaves_those_of_others() {
    let half = {
        let github = with_pull().start();
        let draft = review_of(&github, ReviewEvent::Comment);
        yes(connect(&github).post_review(&app(), 2, &draft, MARKER).await.unwrap()).0.body
    };
    let half = half.replace("run=r1", "run=r0");
    let github = with_pull().start();
    github.review_as("patchwright-bot", 2, "PENDING", &half, &[]);
    github.review_as("alice", 2, "PENDING", "hers", &[]);
    let (forge, draft) = (connect(&github), review_of(&github, ReviewEvent::Comment));
    let before = forge.reviews(&app(), 2).await.unwrap();
    assert_eq!(before.iter().map(|r| r.state).collect::<Vec<_>>(), [ReviewState::Pending]);
    yes(forge.post_review(&app(), 2, &draft, MARKER).await.unwrap());
    let states: Vec<_> = github.reviews(2).into_iter().map(|r| (r.author, r.state)).collect();
    let states: Vec<_> = states.iter().map(|(a, s)| (a.as_str(), s.as_str())).collect();
    assert_eq!(states, [("alice", "PENDING"), ("patchwright-bot", "COMMENTED")]);

    // One that the list did not show is met by the refusal.
    let github = with_pull().start();
    github.review_as("patchwright-bot", 2, "PENDING", &half, &[]);
    github.fault(Fault::once("GET", "/reviews", Kind::StaleList));
    yes(connect(&github).post_review(&app(), 2, &draft, MARKER).await.unwrap());
    assert_eq!(github.reviews(2).len(), 1);
    assert_eq!(github.reviews(2)[0].state, "COMMENTED");
}

/// With a person's token, that person may have begun a review.
#[tokio::test]
async fn forge_leaves_a_draft_of_the_person_whose_token_it_has() {
    let github = with_pull().start();
    github.review_as("patchwright-bot", 2, "PENDING", "Half an hour of thoughts.", &[]);
    let (forge, draft) = (connect(&github), review_of(&github, ReviewEvent::Comment));
    let posted = forge.post_review(&app(), 2, &draft, MARKER).await.unwrap();
    let ReviewPosted::Unsubmitted { message } = posted else { panic!("{posted:?}") };
    assert_eq!(
        message,
        "you have an unsubmitted review on #2; submit or discard it, then run again"
    );
    let reviews = github.reviews(2);
    assert_eq!((reviews.len(), reviews[0].body.as_str()), (1, "Half an hour of thoughts."));
}

#[tokio::test]
async fn forge_comments_where_it_may_not_judge() {
    for event in [ReviewEvent::Approve, ReviewEvent::RequestChanges] {
        let github = with_pull().by("patchwright-bot").start();
        let draft = review_of(&github, event);
        let posted = connect(&github).post_review(&app(), 2, &draft, MARKER).await.unwrap();
        let (review, weaker) = yes(posted);
        assert_eq!(review.state, ReviewState::Commented);
        assert!(weaker.unwrap().contains("your own pull request"));
        // After a restart it is found, and still said to be weaker.
        let posted = connect(&github).post_review(&app(), 2, &draft, MARKER).await.unwrap();
        assert!(yes(posted).1.is_some());
        assert_eq!(github.reviews(2).len(), 1);
    }
    let github = with_pull().actions_token().start();
    let draft = review_of(&github, ReviewEvent::Approve);
    let (review, weaker) =
        yes(connect(&github).post_review(&app(), 2, &draft, MARKER).await.unwrap());
    assert_eq!(review.author, Account { login: "github-actions[bot]".to_owned(), is_bot: true });
    assert!(weaker.unwrap().contains("not permitted to approve"));
    // Nothing to say but the verdict that is not allowed: nothing is posted.
    let bare = ReviewDraft { body: MARKER.to_owned(), comments: Vec::new(), ..draft };
    let other = MARKER.replace("r1", "r2");
    let posted = connect(&github).post_review(&app(), 2, &bare, &other).await.unwrap();
    assert!(matches!(posted, ReviewPosted::MayNot { .. }), "{posted:?}");
    assert_eq!(github.reviews(2).len(), 1);
}

#[tokio::test]
async fn forge_says_which_comments_are_refused_and_posts_nothing() {
    let github = with_pull().start();
    let forge = connect(&github);
    let mut draft = review_of(&github, ReviewEvent::Comment);
    let elsewhere = InlineComment { path: "b.txt".to_owned(), ..on_line(1, "x") };
    for wrong in [on_line(10, "x"), elsewhere] {
        draft.comments.push(wrong);
        let posted = forge.post_review(&app(), 2, &draft, MARKER).await.unwrap();
        let ReviewPosted::Refused { comments, message } = posted else { panic!("{posted:?}") };
        // GitHub does not say which; its list of files does.
        assert_eq!(comments, (2..draft.comments.len()).collect::<Vec<_>>());
        assert!(message.contains("could not be resolved"), "{message}");
    }
    assert_eq!(github.reviews(2), []);
    // A file of which GitHub shows no difference.
    let hidden = serde_json::json!([{
        "sha": "1".repeat(40), "filename": "a.txt", "status": "modified", "additions": 1,
        "deletions": 1, "changes": 2, "blob_url": "https://example.com/", "raw_url":
        "https://example.com/", "contents_url": "https://example.com/",
    }]);
    for (answer, expected) in
        [(Kind::Answer(200, hidden), vec![0, 1, 2, 3]), (Kind::ErrorBefore(404), Vec::new())]
    {
        github.fault(Fault::once("GET", "/pulls/2/files", answer));
        let posted = forge.post_review(&app(), 2, &draft, MARKER).await.unwrap();
        let ReviewPosted::Refused { comments, .. } = posted else { panic!("{posted:?}") };
        assert_eq!(comments, expected);
    }
    draft.comments.truncate(2);
    draft.body = MARKER.to_owned();
    yes(forge.post_review(&app(), 2, &draft, MARKER).await.unwrap());

    draft.comments.clear();
    let result =
        forge.post_review(&app(), 2, &draft, "<!-- patchwright:review run=r9 v=1 -->").await;
    assert_eq!(
        said(&github, &result),
        "Invalid: the review of `acme/app#2` was rejected: it says nothing"
    );
    assert_eq!(github.reviews(2).len(), 1);
}

#[tokio::test]
async fn forge_knows_a_moved_head_and_a_place_where_it_may_not_write() {
    let github = with_pull().start();
    let forge = connect(&github);
    let draft = review_of(&github, ReviewEvent::Comment);
    let old = github.head_of(2);
    let new = github.force_push(2, &[("a.txt", "other\n")], true);
    assert_eq!(
        forge.post_review(&app(), 2, &draft, MARKER).await.unwrap(),
        ReviewPosted::HeadMoved
    );
    assert_eq!(forge.compare(&app(), &old, &new).await.unwrap(), Comparison::Unknown);
    assert_eq!(forge.compare(&app(), &new, &new).await.unwrap(), Comparison::Identical);
    assert_eq!(forge.compare(&app(), "main", &new).await.unwrap(), Comparison::Ahead);
    assert_eq!(forge.compare(&app(), &new, "main").await.unwrap(), Comparison::Behind);
    assert_eq!(forge.compare(&app(), "", &new).await.unwrap(), Comparison::Unknown);
    github.push("main", &[("c.txt", "c")]);
    assert_eq!(forge.compare(&app(), "main", &new).await.unwrap(), Comparison::Diverged);
    assert_eq!(github.reviews(2), []);

    for github in [
        with_pull().locked(),
        with_pull().fork_actions_token(),
        with_pull().token_lacks("pull_requests"),
    ] {
        let github = github.start();
        let draft = review_of(&github, ReviewEvent::Comment);
        let posted = connect(&github).post_review(&app(), 2, &draft, MARKER).await.unwrap();
        assert!(matches!(posted, ReviewPosted::MayNot { .. }), "{posted:?}");
        assert_eq!(github.reviews(2), []);
    }
}

#[tokio::test]
async fn forge_reads_many_reviews_and_those_of_ghosts() {
    let github = with_pull().start();
    for number in 0..130 {
        github.review_as("alice", 2, "COMMENTED", &format!("review {number}"), &[]);
    }
    github.change(|repository| repository.pulls.get_mut(&2).unwrap().reviews[0].author = None);
    let reviews = connect(&github).reviews(&app(), 2).await.unwrap();
    assert_eq!(reviews.len(), 130);
    assert_eq!((reviews[0].author.login.as_str(), reviews[0].body.as_str()), ("ghost", "review 0"));
    assert_eq!(reviews[129].body, "review 129");
    assert_eq!(reviews[129].commit.as_deref(), Some(github.head_of(2).as_str()));
}

#[tokio::test]
async fn forge_finds_pull_requests_by_number_and_by_commit_also_of_forks() {
    let github = with_pull()
        .label("bug")
        .locked()
        .fork("mallory/app")
        .pull(3, "From outside", "mallory:patch", &[("b.txt", "b\n")])
        .maintainer_can_modify()
        .pull(4, "Gone", "mallory:gone", &[("c.txt", "c\n")])
        .fork_deleted()
        .start();
    let forge = connect(&github);
    let own = forge.pull_request(&app(), 2).await.unwrap();
    assert_eq!(
        (own.is_fork, own.locked, own.labels.as_slice()),
        (false, true, &["bug".to_owned()][..])
    );
    assert_eq!(own.head_repository, Some(app()));
    assert_eq!(own.base_sha, forge.branch_tip(&app(), "main").await.unwrap().unwrap().to_string());
    let fork = forge.pull_request(&app(), 3).await.unwrap();
    assert_eq!((fork.is_fork, fork.maintainer_can_modify), (true, true));
    assert_eq!(fork.head_repository.as_ref().unwrap().to_string(), "mallory/app");
    let gone = forge.pull_request(&app(), 4).await.unwrap();
    assert_eq!((gone.is_fork, gone.head_repository.is_none(), gone.open), (true, true, true));
    for pull in [&own, &fork, &gone] {
        let found = forge.pull_requests_at(&app(), &pull.head_sha).await.unwrap();
        assert_eq!(found.iter().map(|pull| pull.number).collect::<Vec<_>>(), [pull.number]);
    }
    assert!(forge.pull_requests_at(&app(), &fork.head_sha).await.unwrap()[0].maintainer_can_modify);
    assert_eq!(forge.pull_requests_at(&app(), &own.base_sha).await.unwrap(), []);
    assert_eq!(forge.pull_requests_at(&app(), &"0".repeat(40)).await.unwrap(), []);
    github.push_to_pull(2, &[("a.txt", "more\n")]);
    assert_eq!(forge.pull_requests_at(&app(), &own.head_sha).await.unwrap(), []);
    let missing = forge.pull_request(&app(), 99).await;
    assert!(said(&github, &missing).starts_with("NotFound: "));
}

#[tokio::test]
async fn forge_answers_and_reacts_where_it_was_asked() {
    let github = with_pull().comment("alice", "why?").start();
    let forge = connect(&github);
    let root = github.comment_on_line("alice", 2, "a.txt", 5, "Explain this.");
    let reply = github.reply("alice", root, "Please.");
    let asked = github.review_as("alice", 2, "COMMENTED", "And in general?", &[]);
    let conversation = github.comments(2)[0].id;
    let places = [
        (CommentPlace::Conversation { comment: conversation }, "why?", "issues/2/comments"),
        (CommentPlace::Thread { comment: reply, root }, "Please.", "/replies"),
        // Not the root: it is found.
        (CommentPlace::Thread { comment: reply, root: reply }, "Please.", "/replies"),
        (CommentPlace::Review { review: asked }, "And in general?", "issues/2/comments"),
    ];
    for (number, (place, text, path)) in places.into_iter().enumerate() {
        let comment = forge.comment_at(&app(), 2, place).await.unwrap();
        assert_eq!((comment.author.login.as_str(), comment.body.as_str()), ("alice", text));
        assert!(forge.comment_at(&app(), 1, place).await.is_err(), "of another conversation");
        let marker = format!("<!-- patchwright:answer run=r{number} v=1 -->");
        let kind = if number % 2 == 0 { Kind::ErrorAfter(502) } else { Kind::CutAfter };
        github.fault(Fault::once("POST", path, kind));
        let answer = forge.reply(&app(), 2, place, &marker, "Because.").await.unwrap();
        assert_eq!(without(&answer.body), format!("Because.\n\n{marker}"));
        assert_eq!(forge.reply(&app(), 2, place, &marker, "Because.").await.unwrap(), answer);
        for _ in 0..2 {
            forge.react_to(&app(), place, "eyes").await.unwrap();
        }
    }
    assert_eq!(github.comments(2).len(), 3);
    let threads = github.threads(2);
    assert_eq!((threads.len(), threads[0].comments.len()), (1, 4));
    // The thread is deleted: the answer is in the conversation, once.
    for comment in &threads[0].comments {
        github.delete_comment(comment.0);
    }
    let (gone, marker) = (CommentPlace::Thread { comment: reply, root }, MARKER);
    for _ in 0..2 {
        let answer = forge.reply(&app(), 2, gone, marker, "Because.").await.unwrap();
        assert_eq!(without(&answer.body), format!("Because.\n\n{marker}"));
    }
    assert_eq!((github.comments(2).len(), github.threads(2).len()), (4, 0));
    let eyes = ("patchwright-bot".to_owned(), "eyes".to_owned());
    assert_eq!(github.comment_reactions(conversation), [eyes]);
}
