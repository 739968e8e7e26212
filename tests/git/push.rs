//! One commit to one branch, under a lease.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn pushes_one_commit_to_one_branch() {
    let world = World::with(&[file("a", "1\n")]).await;
    let repo = world.fetched().await;
    let main = world.server.tip(REPOSITORY, "main").unwrap();
    let one = World::our_commit(&repo, "one");
    let two = World::our_commit(&repo, "two");
    let branch = "patchwright/issue-7";

    assert_eq!(world.push(&repo, one, branch, None).await.unwrap(), PushOutcome::Pushed);
    assert_eq!(world.push(&repo, one, branch, None).await.unwrap(), PushOutcome::UpToDate);
    let error = world.push(&repo, two, branch, None).await.unwrap_err();
    assert!(matches!(error, GitError::Moved { .. }), "{error}");
    assert_eq!(world.push(&repo, two, branch, Some(one)).await.unwrap(), PushOutcome::Pushed);
    let error = world.push(&repo, one, branch, Some(one)).await.unwrap_err();
    assert!(matches!(error, GitError::Moved { .. }), "{error}");
    let error = world.push(&repo, one, "gone", Some(one)).await.unwrap_err();
    assert!(matches!(error, GitError::Moved { .. }), "{error}");

    let path = world.server.path(REPOSITORY);
    let refs = git(&path, &["for-each-ref", "--format=%(refname) %(objectname)"]);
    assert_eq!(refs, format!("refs/heads/main {main}\nrefs/heads/{branch} {two}\n"));
    assert_eq!(
        git(&path, &["log", "--format=%an|%s", &two.to_string()]),
        "Patchwright|Add a file\nTest|First\n"
    );
    git(&path, &["fsck", "--strict"]);
    assert_without(&world.state(), TOKEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_from_a_shallow_mirror_when_the_base_has_moved() {
    let world = World::with(&[file("a", "1\n"), file("big", noise(50_000))]).await;
    for number in 2..=5 {
        world.server.commit(REPOSITORY, "main", "More", &[file("a", format!("{number}\n"))]);
    }
    let repo = world.fetch(world.remote(), &["main"], 2).await.unwrap();
    let commit = World::our_commit(&repo, "one");
    world.server.commit(REPOSITORY, "main", "Meanwhile", &[file("a", "6\n")]);
    assert_eq!(world.push(&repo, commit, "b", None).await.unwrap(), PushOutcome::Pushed);
    let path = world.server.path(REPOSITORY);
    git(&path, &["fsck", "--strict"]);
    assert_eq!(git(&path, &["rev-list", "--count", "b"]), "6\n");
    let sent = world.server.requests().into_iter().map(|request| request.body_bytes).max();
    assert!(sent < Some(2_000), "only what is new travels: {sent:?} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_into_a_local_folder_under_the_same_lease() {
    let world = World::with(&[file("a", "1\n"), file("sub/b", "2\n")]).await;
    let path = world.server.path(REPOSITORY);
    let work = world.dir.path().join("work");
    git(world.dir.path(), &["clone", "--quiet", path.to_str().unwrap(), "work"]);
    let url = path.to_str().unwrap();
    let repo = mirror(&world.state(), url).unwrap();
    fetch(&repo, &Remote::local(&path), &["main".to_owned()], 0).unwrap();
    let one = World::our_commit(&repo, "sub/one");
    let two = World::our_commit(&repo, "two");
    for target in [&path, &work] {
        let push = |commit: Oid, branch, expected| {
            push(&repo, &Remote::local(target), commit.into(), branch, expected)
        };
        assert_eq!(push(one, "b", None).unwrap(), PushOutcome::Pushed);
        assert_eq!(push(one, "b", None).unwrap(), PushOutcome::UpToDate);
        assert!(matches!(push(two, "b", None).unwrap_err(), GitError::Moved { .. }));
        assert_eq!(push(two, "b", Some(one)).unwrap(), PushOutcome::Pushed);
        assert_eq!(git(target, &["show", "--format=", "--name-only", "b"]), "two\n");
        git(target, &["fsck", "--strict"]);
    }
    let base = repo.resolve("main").unwrap();
    let error = push(&repo, &Remote::local(&work), one.into(), "main", Some(base)).unwrap_err();
    assert!(error.to_string().contains("checked out"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tells_why_a_push_was_rejected() {
    let world = World::with(&[file("a", "1\n")]).await;
    let repo = world.fetched().await;
    let commit = World::our_commit(&repo, ".github/workflows/ci.yml");
    world.server.allow("reader", Access::Read);

    world.server.protect(REPOSITORY, "guarded");
    let error = world.push(&repo, commit, "guarded", None).await.unwrap_err();
    let GitError::Rejected { reference, reason, .. } = &error else { panic!("{error:?}") };
    assert_eq!(reference, "refs/heads/guarded");
    assert!(reason.contains("hook declined") && reason.contains("GH006"), "{reason}");

    world.server.refuse_workflow_changes(REPOSITORY);
    let error = world.push(&repo, commit, "b", None).await.unwrap_err();
    assert!(error.to_string().contains("without `workflows` permission"), "{error}");

    world.server.refuse(REPOSITORY, "*", "GH013: \u{1b}[31msecrets\u{7}");
    let error = world.push(&repo, commit, "b", None).await.unwrap_err();
    assert!(error.to_string().contains("GH013:  [31msecrets"), "{error:?}");
    assert!(!error.to_string().chars().any(|c| c.is_control() && c != '\n'), "{error:?}");
    assert_eq!(world.server.tip(REPOSITORY, "b"), None);

    for (token, expected) in [
        (None, "authentication failed"),
        (Some("wrong"), "authentication failed"),
        (Some("reader"), "denied to test"),
    ] {
        let (repo, remote) = (repo.clone(), world.remote_with(token));
        let error =
            blocking(move || push(&repo, &remote, commit.into(), "b", None)).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{token:?}: {error}");
    }
    world.server.archive(REPOSITORY);
    let error = world.push(&repo, commit, "b", None).await.unwrap_err();
    assert!(matches!(&error, GitError::Forbidden { message, .. } if message.contains("archived")));
    for branch in ["--upload-pack=x", "a..b", "x.lock", "@{1}", "a b", "", "a\nb", "-x"] {
        let error = world.push(&repo, commit, branch, None).await.unwrap_err();
        assert!(matches!(error, GitError::Unacceptable(_)), "{branch}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_up_a_push_whose_answer_was_lost() {
    let world = World::with(&[file("a", "1\n")]).await;
    let repo = world.fetched().await;
    let commit = World::our_commit(&repo, "one");
    world.server.fault(Step::Push, Fault::CutAfter(0));
    assert_eq!(world.push(&repo, commit, "b", None).await.unwrap(), PushOutcome::Pushed);
    assert_eq!(world.server.tip(REPOSITORY, "b"), Some(commit.to_string()));

    for _ in 0..3 {
        world.server.fault(Step::Push, Fault::Status(502));
    }
    let error = world.push(&repo, commit, "c", None).await.unwrap_err();
    assert!(matches!(error, GitError::Transport(_)), "{error}");
    assert_eq!(world.server.tip(REPOSITORY, "c"), None);
    assert_eq!(world.push(&repo, commit, "c", None).await.unwrap(), PushOutcome::Pushed);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_itself_guards_the_lease() {
    let world = World::with(&[file("a", "1\n")]).await;
    let repo = world.fetched().await;
    let ours = World::our_commit(&repo, "one");
    let theirs = world.server.commit(REPOSITORY, "theirs", "By a person", &[file("b", "x\n")]);
    // The branch appears after it was advertised as absent, before the push arrives.
    let fault = Fault::MoveFirst(REPOSITORY.to_owned(), "b".to_owned(), theirs.clone());
    world.server.fault(Step::Push, fault);
    let error = world.push(&repo, ours, "b", None).await.unwrap_err();
    assert!(matches!(&error, GitError::Moved { actual, .. } if *actual == theirs), "{error}");
    assert_eq!(world.server.tip(REPOSITORY, "b"), Some(theirs));
}
