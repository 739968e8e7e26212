//! Commits that are fetched by their ids, in one request of version 2 of the protocol.

use super::*;

impl World {
    /// The requests of this work, by method and the last part of the path.
    async fn requests_of(&self, work: impl Future<Output = Repo>) -> (Repo, Vec<String>) {
        let before = self.server.requests().len();
        let repo = work.await;
        let requests = self.server.requests().into_iter().skip(before);
        let short = |target: &str| target.rsplit('/').next().unwrap().to_owned();
        let told = requests.map(|it| format!("{} {}", it.method, short(&it.target)));
        (repo, told.collect())
    }

    async fn fetch_id(&self, id: &str, depth: u32) -> Repo {
        self.fetch(self.remote(), &[id], depth).await.unwrap()
    }
}

fn count(repo: &Repo, id: &str) -> usize {
    git(repo.path(), &["rev-list", "--count", id]).trim().parse().unwrap()
}

const ONE: [&str; 1] = ["POST git-upload-pack"];

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_fetched_in_one_request() {
    let world = World::with(&[file("a", "1\n"), file("dir/b", "1\n")]).await;
    let mut ids = vec![world.server.tip(REPOSITORY, "main").unwrap()];
    for number in 2..=9 {
        let files = [file("a", format!("{number}\n"))];
        ids.push(world.server.commit(REPOSITORY, "main", "More", &files));
    }
    let (repo, requests) = world.requests_of(world.fetch_id(&ids[5], 3)).await;
    assert_eq!((requests, count(&repo, &ids[5])), (ONE.map(str::to_owned).to_vec(), 3));
    let kept = git(repo.path(), &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(kept, format!("refs/patchwright/commits/{}\n", ids[5]));
    git(repo.path(), &["fsck", "--strict"]);

    let (_, requests) = world.requests_of(world.fetch_id(&ids[5], 3)).await;
    assert_eq!(requests, Vec::<String>::new(), "it is here");
    let (repo, requests) = world.requests_of(world.fetch_id(&ids[5], 5)).await;
    assert_eq!((requests, count(&repo, &ids[5])), (ONE.map(str::to_owned).to_vec(), 5), "deeper");
    let sent = world.server.requests().last().unwrap().clone();
    assert!(sent.authorization.is_some());
    git(repo.path(), &["fsck", "--strict"]);

    let (repo, requests) = world.requests_of(world.fetch_id(&ids[8], 50)).await;
    assert_eq!((requests, count(&repo, &ids[8])), (ONE.map(str::to_owned).to_vec(), 9), "newer");
    assert!(!repo.path().join("shallow").exists(), "all of history is here");
    git(repo.path(), &["fsck", "--strict"]);
    assert_without(&world.state(), TOKEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_commit_comes_to_a_history_that_is_cut_off() {
    let world = World::with(&[file("a", "1\n")]).await;
    for number in 2..=9 {
        world.server.commit(REPOSITORY, "main", "More", &[file("a", format!("{number}\n"))]);
    }
    world.fetch(world.remote(), &["main"], 3).await.unwrap();
    let newest = world.server.commit(REPOSITORY, "main", "Newest", &[file("b", "1\n")]);
    let (repo, requests) = world.requests_of(world.fetch_id(&newest, 3)).await;
    assert_eq!(requests, ONE);
    assert_eq!(count(&repo, &newest), 3);
    git(repo.path(), &["fsck", "--strict"]);
    let (repo, requests) = world.requests_of(world.fetch_id(&newest, 0)).await;
    assert_eq!((requests, count(&repo, &newest)), (ONE.map(str::to_owned).to_vec(), 10), "all");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_speak_no_second_version_are_asked_in_the_older_way() {
    let world = World::with(&[file("a", "1\n")]).await;
    let first = world.server.tip(REPOSITORY, "main").unwrap();
    world.server.is_old(true);
    let (repo, requests) = world.requests_of(world.fetch_id(&first, 50)).await;
    assert_eq!(repo.resolve(&first).unwrap().to_string(), first);
    assert_eq!(requests[1], "GET refs?service=git-upload-pack", "{requests:?}");
    git(repo.path(), &["fsck", "--strict"]);

    world.server.is_old(false);
    let second = world.server.commit(REPOSITORY, "main", "Second", &[file("a", "2\n")]);
    world.server.rename(REPOSITORY, "acme/renamed");
    world.server.make_private("acme/renamed");
    let (repo, requests) = world.requests_of(world.fetch_id(&second, 50)).await;
    assert_eq!(repo.resolve(&second).unwrap().to_string(), second, "{requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_asked_for_once() {
    let world = World::with(&[file("a", "1\n")]).await;
    let zero = "0123456789012345678901234567890123456789";
    let error = world.fetch(world.remote(), &[zero], 50).await.unwrap_err();
    assert!(matches!(&error, GitError::NotFound(what) if what == zero), "{error:?}");
    let error = world.fetch(world.remote_with(Some("wrong")), &[zero], 50).await.unwrap_err();
    assert!(matches!(error, GitError::Authentication { .. }), "{error:?}");
    assert_eq!(world.server.requests().len(), 2);
    assert_eq!(left_behind(&world), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_is_tried_again() {
    for fault in [Fault::Status(502), Fault::CutAfter(0), Fault::CutAfter(30), Fault::CutAfter(150)]
    {
        let world = World::with(&[file("a", "1\n".repeat(1000)), file("b", "2\n")]).await;
        let id = world.server.tip(REPOSITORY, "main").unwrap();
        world.server.fault(Step::Fetch, fault.clone());
        let (repo, requests) = world.requests_of(world.fetch_id(&id, 50)).await;
        assert_eq!(requests, [ONE[0], ONE[0]], "{fault:?}");
        git(repo.path(), &["fsck", "--strict"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_hostile_server_says_is_bounded() {
    let world = World::with(&[file("a", "1\n")]).await;
    let id = world.server.tip(REPOSITORY, "main").unwrap();
    let line = format!("0035shallow {id}\n");
    let section = b"0011shallow-info\n".to_vec();
    world
        .server
        .fault(Step::Fetch, Fault::Endless(section.clone(), line.repeat(1000).into_bytes()));
    let error = world.fetch(world.remote(), &[&id], 50).await.unwrap_err();
    assert!(error.to_string().contains("ends in too many places"), "{error}");

    // A pack of nothing, whose server says that it is all.
    let nothing = b"\x01PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";
    let mut body = section;
    body.extend_from_slice(format!("{line}0001000dpackfile\n").as_bytes());
    body.extend_from_slice(format!("{:04x}", nothing.len() + 4).as_bytes());
    body.extend_from_slice(nothing);
    body.extend_from_slice(b"0000");
    world.server.fault(Step::Fetch, Fault::Body(body));
    let error = world.fetch(world.remote(), &[&id], 50).await.unwrap_err();
    assert!(matches!(&error, GitError::NotFound(what) if *what == id), "{error:?}");
    assert_eq!(left_behind(&world), Vec::<String>::new());
    let repo = world.fetch_id(&id, 50).await;
    assert_eq!(repo.resolve(&id).unwrap().to_string(), id);
}

/// Files of packs that are left in mirrors, on their way in.
fn left_behind(world: &World) -> Vec<String> {
    let paths = walk(&world.state().join("mirrors")).into_iter();
    let paths = paths.map(|path| path.display().to_string());
    paths.filter(|path| path.contains("incoming-")).collect()
}

/// Whoever names a repository is told by its server whether they may have the commit, whatever others have brought here.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_another_has_brought_is_asked_for_again() {
    let world = World::with(&[file("a", noise(50_000))]).await;
    let id = world.server.tip(REPOSITORY, "main").unwrap();
    let module = async |remote: Remote, asker| {
        let (state, url, refs) = (world.state(), world.clone_url(), [id.clone()]);
        blocking(move || {
            let repo = module_mirror(&state, &url, asker)?;
            fetch(&repo, &remote, &refs, 1)?;
            Ok(repo)
        })
        .await
    };
    let ours = module(world.remote(), Asker::Ourselves).await.unwrap();
    let before = world.server.requests().len();
    let again = module(world.remote(), Asker::Ourselves).await.unwrap();
    assert_eq!(ours.path(), again.path());
    let requests = world.server.requests();
    assert_eq!(requests.len(), before + 1, "one question");
    git(ours.path(), &["fsck", "--strict"]);
    let size: u64 = walk(ours.path()).iter().map(|it| it.metadata().unwrap().len()).sum();
    assert!(size < 80_000, "it is there once: {size} bytes");
    for (token, asker) in
        [(Some("wrong"), Asker::Ourselves), (None, Asker::Ourselves), (None, Asker::Anybody)]
    {
        let error = module(world.remote_with(token), asker).await.unwrap_err();
        assert!(matches!(error, GitError::Authentication { .. }), "{token:?}: {error:?}");
    }
    // Where the server speaks another version as well.
    world.server.is_old(true);
    module(world.remote(), Asker::Ourselves).await.unwrap();
    let error = module(world.remote_with(None), Asker::Ourselves).await.unwrap_err();
    assert!(matches!(error, GitError::Authentication { .. }), "{error:?}");
    world.server.is_old(false);
    // A commit of other people under the same name.
    let other = world.server.commit(REPOSITORY, "other", "Other", &[file("b", "1\n")]);
    git(&world.server.path(REPOSITORY), &["update-ref", "refs/heads/main", &other]);
    git(&world.server.path(REPOSITORY), &["update-ref", "-d", "refs/heads/other"]);
    git(&world.server.path(REPOSITORY), &["reflog", "expire", "--expire=now", "--all"]);
    git(&world.server.path(REPOSITORY), &["gc", "--quiet", "--prune=now"]);
    let error = module(world.remote(), Asker::Ourselves).await.unwrap_err();
    assert!(matches!(error, GitError::NotFound(_)), "{error:?}");

    let fetched = world.fetch(world.remote(), &[&other], 1).await;
    fetched.unwrap();
    let error = world.fetch(world.remote_with(None).asked_always(), &[&other], 1).await;
    assert!(matches!(error.unwrap_err(), GitError::Authentication { .. }));
}
