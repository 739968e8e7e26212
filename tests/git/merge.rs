//! A change put onto another commit, with conflict markers where both sides have changed the same lines.

use super::*;
use patchwright_git::commit::{between, merge, replay};
use patchwright_git::merge::{
    BaseComparison, Conflict, ConflictKind, Labels, MergeResult, common_tree, compare_with_base,
    with_markers,
};
use patchwright_git::push::NewCommits;
use patchwright_git::tree;

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
        files.iter().map(|Conflict { path, kind, .. }| (path.as_str(), *kind)).collect();
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

/// A case of [`what_was_moved_is_merged_or_in_conflict_as_in_git`]: what was there, on the base, in the change, and the
/// conflicts.
type Moved<'a> =
    (&'a str, Vec<Entry>, Vec<Entry>, Vec<Entry>, &'a [(&'a str, ConflictKind, Option<&'a str>)]);

const WAS: Option<&str> = Some("old");

/// A text that is found again where it was moved to.
fn lines(first: &str, last: &str) -> String {
    let middle = (0..20).fold(String::new(), |text, line| text + &format!("line {line}\n"));
    format!("{first}\n{middle}{last}\n")
}

/// A file of which the attributes want the lines of both sides.
fn united(path: &str, content: &str) -> Vec<Entry> {
    let attributes = file(".gitattributes", format!("{path} merge=union\n"));
    let name = if path == "*" { "more" } else { path };
    vec![attributes, file(name, content)]
}

fn moved_cases() -> Vec<Moved<'static>> {
    let old = || vec![file("old", lines("a", "z")), file("other", "x\n")];
    let gone = || vec![deleted("old")];
    let at = |path: &str| vec![deleted("old"), file(path, lines("a", "z"))];
    let with = |path: &str, first: &str, last: &str| {
        let deleted = (path != "old").then(|| deleted("old"));
        deleted.into_iter().chain([file(path, lines(first, last))]).collect::<Vec<_>>()
    };
    vec![
        (
            "deleted here",
            old(),
            at("in/old"),
            gone(),
            &[("in/old", ConflictKind::MovedOnBase, WAS)],
        ),
        (
            "and changed",
            old(),
            with("new", "A", "z"),
            gone(),
            &[("new", ConflictKind::MovedOnBase, WAS)],
        ),
        ("deleted there", old(), gone(), at("new"), &[("new", ConflictKind::MovedByChange, WAS)]),
        (
            "apart",
            old(),
            at("b"),
            at("c"),
            &[("b", ConflictKind::MovedApart, WAS), ("c", ConflictKind::MovedApart, WAS)],
        ),
        ("alike", old(), at("new"), at("new"), &[]),
        ("alike, with changes", old(), with("new", "A", "z"), with("new", "a", "Z"), &[]),
        ("changed here", old(), at("new"), with("old", "a", "Z"), &[]),
        ("changed there", old(), with("old", "A", "z"), at("new"), &[]),
        (
            "the same line",
            old(),
            with("new", "a", "Y"),
            with("old", "a", "Z"),
            &[("new", ConflictKind::Marked, WAS)],
        ),
        ("deleted by both", old(), gone(), gone(), &[]),
        ("by one only", old(), at("new"), vec![file("other", "y\n")], &[]),
        (
            "that is not merged",
            vec![file("old", lines("a", "z")), file(".gitattributes", "old -merge\n")],
            with("old", "A", "z"),
            with("old", "a", "Z"),
            &[("old", ConflictKind::Unmerged, None)],
        ),
    ]
}

/// Files whose lines are taken from both sides, and files that are nothing.
fn united_cases() -> Vec<Moved<'static>> {
    let old = || vec![file("old", lines("a", "z")), file("other", "x\n")];
    let with =
        |path: &str, first: &str, last: &str| vec![deleted("old"), file(path, lines(first, last))];
    let changed = || vec![file("old", lines("b", "z"))];
    vec![
        (
            "that takes the lines of both",
            united("NEWS", "a\nz\n"),
            vec![file("NEWS", "a\nbase\nz\n")],
            vec![file("NEWS", "a\nchange\nz\n")],
            &[],
        ),
        (
            "that takes the lines of both, added by both",
            vec![file(".gitattributes", "NEWS merge=union\n")],
            vec![file("NEWS", "a\nbase\nz\n")],
            vec![file("NEWS", "a\nchange\nz\n")],
            &[],
        ),
        (
            "that takes the lines of both, moved here",
            united("old", &lines("a", "z")),
            with("new", "A", "z"),
            changed(),
            &[("new", ConflictKind::Marked, WAS)],
        ),
        (
            "that takes the lines of both at the new place",
            united("*", &lines("a", "z")).into_iter().chain(old()).collect(),
            with("new", "A", "z"),
            changed(),
            &[],
        ),
        (
            "that takes the lines of both and is deleted",
            united("NEWS", "a\nz\n"),
            vec![file("NEWS", "a\nbase\nz\n")],
            vec![deleted("NEWS")],
            &[("NEWS", ConflictKind::DeletedByChange, None)],
        ),
        (
            "of nothing",
            vec![file("old", ""), file("other", "x\n")],
            vec![deleted("old"), file("new", "")],
            vec![deleted("old")],
            &[],
        ),
    ]
}

/// The real git is the judge of what is a conflict, and of what comes of it where there is none.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_moved_is_merged_or_in_conflict_as_in_git() {
    for (name, before, base, change, wanted) in moved_cases().into_iter().chain(united_cases()) {
        let (_world, repo, oids) = sides(&before, &base, &change).await;
        let [_, ours, theirs] = oids.map(|oid| oid.to_string());
        let attributes = format!("attr.tree={ours}");
        let judge = command(
            repo.path(),
            &["-c", &attributes, "merge-tree", "--write-tree", &ours, &theirs],
        )
        .output()
        .unwrap();
        let said = String::from_utf8(judge.stdout).unwrap();
        let (tree, found) = match merged(&repo, oids) {
            MergeResult::Clean(tree) => (tree, Vec::new()),
            MergeResult::Conflicts { tree, files } => (tree, files),
        };
        let shown: Vec<(&str, ConflictKind, Option<&str>)> =
            found.iter().map(|it| (it.path.as_str(), it.kind, it.from.as_deref())).collect();
        assert_eq!(shown, wanted, "{name}: {said}");
        assert_eq!(judge.status.code(), Some(i32::from(!found.is_empty())), "{name}: {said}");
        if found.is_empty() {
            assert_eq!(format!("{tree}\n"), said, "{name}");
        }
        let [old, base, change] = oids;
        let compared = compare_with_base(&repo, old, base, change).unwrap();
        assert_eq!(compared == BaseComparison::Conflicts, !found.is_empty(), "{name}");
        git(repo.path(), &["fsck", "--strict"]);
    }
}

/// Each side has taken in a commit of the other: the real git merges what they have in common before it merges them.
#[tokio::test(flavor = "multi_thread")]
async fn sides_that_have_merged_each_other_are_merged_as_git_does_it() {
    let text = |first: &str, last: &str| file("text", lines(first, last));
    for (first, last) in [("a", "z"), ("main", "topic")] {
        let (world, _, [_, base, change]) =
            sides(&[text("a", "z")], &[text("A", "z")], &[text("a", "Z")]).await;
        let path = world.server.path(REPOSITORY);
        let both = git(&path, &["merge-tree", "--write-tree", "main", "topic"]);
        let merge = |one: Oid, other: Oid| {
            let (one, other) = (one.to_string(), other.to_string());
            let args = ["commit-tree", both.trim(), "-p", &one, "-p", &other, "-m", "Merge"];
            git(&path, &args).trim().to_owned()
        };
        for (branch, commit) in [("main", merge(base, change)), ("topic", merge(change, base))] {
            git(&path, &["update-ref", &format!("refs/heads/{branch}"), &commit]);
        }
        // One side takes back what the other had before, which one of the two merge bases alone has as it is.
        world.server.commit(REPOSITORY, "main", "More", &[text(first, "Z")]);
        world.server.commit(REPOSITORY, "topic", "More", &[text("A", last)]);
        let repo = world.fetch(world.remote(), &["main", "topic"], 0).await.unwrap();
        let tip = |branch| world.server.tip(REPOSITORY, branch).unwrap().parse::<Oid>().unwrap();
        let (base, change) = (tip("main"), tip("topic"));
        let old = common_tree(&repo, base, change).unwrap().unwrap();
        assert_eq!(old.to_string(), both.trim());
        let [now, new] = [base, change].map(|commit| tree_of(&repo, commit).unwrap());
        let MergeResult::Clean(tree) = with_markers(&repo, old, now, new, LABELS).unwrap() else {
            panic!("{first} and {last} are in conflict")
        };
        let judge = git(&path, &["merge-tree", "--write-tree", "main", "topic"]);
        assert_eq!(format!("{tree}\n"), judge);
        assert_eq!(shown(&repo, tree, "text"), lines(first, last));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_is_carried_over_to_a_tree_that_has_more() {
    let (_world, repo, [old, base, more]) = sides(
        &[file("a", "1\n"), file("b", "1\n"), file("dir/c", "1\n")],
        &[file("a", "2\n"), deleted("b"), file("new", "1\n"), file("dir/d", "1\n")],
        &[
            file("kept", "1\n"),
            submodule("lib", &"1".repeat(40)),
            symlink("dir/out", "/etc/passwd"),
        ],
    )
    .await;
    let [from, to, onto] = [old, base, more].map(|commit| tree_of(&repo, commit).unwrap());
    let carried = tree::carry(&repo, from, to, onto).unwrap();
    let listed = git(repo.path(), &["ls-tree", "-r", "--name-only", &carried.to_string()]);
    assert_eq!(listed, "a\ndir/c\ndir/d\ndir/out\nkept\nlib\nnew\n");
    assert_eq!(shown(&repo, carried, "a"), "2\n");
    let differing = tree::differing_paths(&repo, onto, carried).unwrap();
    assert_eq!(differing.into_iter().collect::<Vec<_>>(), ["a", "b", "dir/d", "new"]);
    assert!(tree::is_same_at(&repo, onto, carried, "dir/out").unwrap());
    assert!(!tree::is_same_at(&repo, onto, carried, "b").unwrap());
    // A file in the place of a folder would take along what nobody has seen.
    let file_for_folder = [deleted("dir/c"), file("dir", "1\n")];
    let (_world, repo, [old, base, more]) =
        sides(&[file("dir/c", "1\n")], &file_for_folder, &[file("dir/unseen", "1\n")]).await;
    let [from, to, onto] = [old, base, more].map(|commit| tree_of(&repo, commit).unwrap());
    let error = tree::carry(&repo, from, to, onto).unwrap_err();
    assert!(error.to_string().contains("`dir/unseen` cannot stay"), "{error}");
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
