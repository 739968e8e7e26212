//! A change put onto another commit, with conflict markers where both sides have changed the same lines.

use super::*;
use patchwright_git::commit::{between, merge, replay};
use patchwright_git::merge::{Conflict, ConflictKind, Labels, MergeResult, with_markers};
use patchwright_git::push::NewCommits;

const LABELS: Labels<'_> = Labels { base: "main", change: "pull request #8" };

/// Commits on `main` and on `topic`, both from the same one, fetched.
async fn sides(before: &[Entry], base: &[Entry], change: &[Entry]) -> (World, Repo, [Oid; 3]) {
    let world = World::with(before).await;
    let path = world.server.path(REPOSITORY);
    git(&path, &["branch", "topic", "main"]);
    let old = world.server.tip(REPOSITORY, "main").unwrap();
    world.server.commit(REPOSITORY, "main", "Base", base);
    world.server.commit(REPOSITORY, "topic", "Change", change);
    let repo = world.fetch(world.remote(), &["main", "topic"], 0).await.unwrap();
    let [base, change] = ["main", "topic"].map(|branch| world.server.tip(REPOSITORY, branch));
    let oids = [old, base.unwrap(), change.unwrap()].map(|oid| oid.parse().unwrap());
    (world, repo, oids)
}

fn merged(repo: &Repo, [old, base, change]: [Oid; 3]) -> MergeResult {
    let [old, base, change] = [old, base, change].map(|commit| tree_of(repo, commit).unwrap());
    with_markers(repo, old, base, change, LABELS).unwrap()
}

fn shown(repo: &Repo, tree: Oid, path: &str) -> String {
    git(repo.path(), &["show", &format!("{tree}:{path}")])
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_conflict_leaves_the_file_as_it_says() {
    let binary = |last: u8| file("binary", vec![0, 1, 2, last]);
    let (_world, repo, oids) = sides(
        &[
            file("text", "a\nb\nc\n"),
            file("clean", "1\n2\n3\n4\n5\n"),
            binary(0),
            file("deleted-there", "x\n"),
            file("deleted-here", "x\n"),
        ],
        &[
            file("text", "a\nB\nc\n"),
            file("clean", "one\n2\n3\n4\n5\n"),
            binary(1),
            file("added", "theirs\n"),
            deleted("deleted-there"),
            file("deleted-here", "y\n"),
        ],
        &[
            executable("text", "a\nb!\nc\n"),
            file("clean", "1\n2\n3\n4\nfive\n"),
            binary(2),
            file("added", "ours\n"),
            file("deleted-there", "z\n"),
            deleted("deleted-here"),
        ],
    )
    .await;
    let MergeResult::Conflicts { tree, files } = merged(&repo, oids) else { panic!("clean") };
    let kinds: Vec<(&str, ConflictKind)> =
        files.iter().map(|Conflict { path, kind }| (path.as_str(), *kind)).collect();
    assert_eq!(
        kinds,
        [
            ("added", ConflictKind::Marked),
            ("binary", ConflictKind::Unmerged),
            ("deleted-here", ConflictKind::DeletedByChange),
            ("deleted-there", ConflictKind::DeletedOnBase),
            ("text", ConflictKind::Marked),
        ]
    );
    assert_eq!(
        shown(&repo, tree, "text"),
        "a\n<<<<<<< main\nB\n=======\nb!\n>>>>>>> pull request #8\nc\n"
    );
    assert_eq!(
        shown(&repo, tree, "added"),
        "<<<<<<< main\ntheirs\n=======\nours\n>>>>>>> pull request #8\n"
    );
    assert_eq!(shown(&repo, tree, "clean"), "one\n2\n3\n4\nfive\n");
    assert_eq!(shown(&repo, tree, "deleted-here"), "y\n");
    assert_eq!(shown(&repo, tree, "deleted-there"), "z\n");
    let listed = git(repo.path(), &["ls-tree", &tree.to_string(), "text"]);
    assert!(listed.starts_with("100755 "), "the mode that one side has changed: {listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_the_other_side_made_a_folder_hides_nothing() {
    let (_world, repo, oids) = sides(
        &[file("a", "1\n"), file("b", "1\n")],
        &[deleted("a"), file("a/inner", "x\n")],
        &[file("a", "2\n")],
    )
    .await;
    let MergeResult::Conflicts { tree, files } = merged(&repo, oids) else { panic!("clean") };
    assert!(files.iter().any(|file| file.path == "a"), "{files:?}");
    assert_eq!(shown(&repo, tree, "a/inner"), "x\n");
    git(repo.path(), &["fsck", "--strict"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_commits_are_replayed_and_pushed_at_once() {
    let world = World::with(&[file("a", "1\n"), file("sub/b", "1\n")]).await;
    let path = world.server.path(REPOSITORY);
    git(&path, &["branch", "topic", "main"]);
    for (name, content) in [("c", "one\n"), ("sub/b", "2\n")] {
        world.server.commit(REPOSITORY, "topic", name, &[file(name, content)]);
    }
    world.server.commit(REPOSITORY, "main", "Meanwhile", &[file("a", "2\n")]);
    let repo = world.fetch(world.remote(), &["main", "topic"], 0).await.unwrap();
    let oid = |branch: &str| world.server.tip(REPOSITORY, branch).unwrap().parse().unwrap();
    let (base, head): (Oid, Oid) = (oid("main"), oid("topic"));
    let commits = between(&repo, base, head, 10).unwrap().unwrap();
    assert_eq!(commits.len(), 2);
    assert_eq!(between(&repo, base, head, 1).unwrap(), None, "more than are wanted");
    let identity = Identity { name: "Us".to_owned(), email: "us@example.com".to_owned() };
    let time = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
    let mut tip = base;
    for commit in commits {
        let parent = git(repo.path(), &["rev-parse", &format!("{commit}^")]);
        let trees = [parent.trim().parse().unwrap(), tip, commit];
        let MergeResult::Clean(tree) = merged(&repo, trees) else { panic!("conflict") };
        let who = (&identity, time);
        tip = replay(&repo, commit, tip, tree, who, Some("Rebased-In: 1")).unwrap();
    }
    // Again, under another name: the trailer is not there twice.
    let tree = tree_of(&repo, tip).unwrap();
    let parent = git(repo.path(), &["rev-parse", &format!("{tip}^")]).trim().parse().unwrap();
    tip = replay(&repo, tip, parent, tree, (&identity, time), Some("Rebased-In: 2")).unwrap();
    let remote = world.remote();
    let (from, commits) = (repo.clone(), NewCommits { tip, since: Some(base) });
    let pushed = blocking(move || push(&from, &remote, commits, "topic", Some(head))).await;
    assert_eq!(pushed.unwrap(), PushOutcome::Pushed);
    git(&path, &["fsck", "--strict"]);
    let log = git(&path, &["log", "--format=%an|%cn|%B", "main..topic"]);
    assert!(log.starts_with("Test|Us|sub/b\nRebased-In: 2\n"), "{log}");
    assert_eq!(git(&path, &["rev-list", "--count", "main..topic"]), "2\n");
    assert_eq!(git(&path, &["show", "topic:a"]), "2\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_sends_what_neither_side_has() {
    let (world, repo, [old, base, change]) = sides(
        &[file("a", "1\n"), file("noise", noise(50_000))],
        &[file("base", noise(60_000))],
        &[file("change", noise(70_000))],
    )
    .await;
    let MergeResult::Clean(tree) = merged(&repo, [old, base, change]) else { panic!("conflict") };
    let identity = Identity { name: "Us".to_owned(), email: "us@example.com".to_owned() };
    let spec = CommitSpec {
        author: identity.clone(),
        committer: identity,
        message: "Merge".to_owned(),
        trailers: Vec::new(),
        time: DateTime::from_timestamp(1_800_000_000, 0).unwrap(),
    };
    let tip = merge(&repo, change, base, tree, &spec).unwrap();
    assert_eq!(world.push(&repo, tip, "topic", Some(change)).await.unwrap(), PushOutcome::Pushed);
    let path = world.server.path(REPOSITORY);
    git(&path, &["fsck", "--strict"]);
    assert_eq!(git(&path, &["log", "-1", "--format=%P", "topic"]), format!("{change} {base}\n"));
    let sent = world.server.requests().into_iter().map(|request| request.body_bytes).max();
    assert!(sent < Some(2_000), "only what is new travels: {sent:?} bytes");
}
