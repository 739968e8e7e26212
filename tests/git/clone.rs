//! Mirrors and fetching over HTTP and from local folders.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn clones_shallow_with_a_token_in_the_header_only() {
    let world = World::with(&[file("a", "1\n")]).await;
    for number in 2..=9 {
        world.server.commit(REPOSITORY, "main", "More", &[file("a", format!("{number}\n"))]);
    }
    let repo = world.fetch(world.remote(), &["main"], 3).await.unwrap();

    let tip = world.server.tip(REPOSITORY, "main").unwrap();
    assert_eq!(repo.resolve("main").unwrap().to_string(), tip);
    assert_eq!(git(repo.path(), &["rev-list", "--count", &tip]).trim(), "3");
    let refs = git(repo.path(), &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/patchwright/heads/main\n");
    git(repo.path(), &["fsck", "--strict"]);

    let requests = world.server.requests();
    assert!(requests.iter().all(|request| request.authorization.is_some()), "{requests:?}");
    assert!(requests.iter().all(|request| !request.target.contains(TOKEN)), "{requests:?}");
    assert_without(&world.state(), TOKEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn downloads_nothing_when_it_is_all_here() {
    let world = World::with(&[file("a", "1\n")]).await;
    world.server.commit(REPOSITORY, "main", "Second", &[file("a", "2\n")]);
    let fetches = || {
        let requests = world.server.requests();
        requests
            .iter()
            .filter(|request| {
                request.target.contains("git-upload-pack") && request.method == "POST"
            })
            .count()
    };
    world.fetch(world.remote(), &["main"], 1).await.unwrap();
    let cold = fetches();
    world.fetch(world.remote(), &["main"], 1).await.unwrap();
    assert_eq!(fetches(), cold, "the same depth again");
    let repo = world.fetch(world.remote(), &["main"], 50).await.unwrap();
    assert!(fetches() > cold, "a deeper history");
    assert_eq!(git(repo.path(), &["rev-list", "--count", "refs/patchwright/heads/main"]), "2\n");

    let third = world.server.commit(REPOSITORY, "main", "Third", &[file("b", "3\n")]);
    let repo = world.fetch(world.remote(), &["main"], 50).await.unwrap();
    assert_eq!(repo.resolve("main").unwrap().to_string(), third);
    git(repo.path(), &["fsck", "--strict"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fetches_commits_pulls_and_head_by_name() {
    let world = World::with(&[file("a", "1\n")]).await;
    let first = world.server.tip(REPOSITORY, "main").unwrap();
    let second = world.server.commit(REPOSITORY, "main", "Second", &[file("a", "2\n")]);
    let path = world.server.path(REPOSITORY);
    git(&path, &["update-ref", "refs/pull/7/head", &first]);
    let repo = world
        .fetch(world.remote(), &[&first, "refs/pull/7/head", "HEAD", "refs/heads/main"], 50)
        .await
        .unwrap();
    for (name, expected) in [
        (first.as_str(), &first),
        ("refs/pull/7/head", &first),
        ("HEAD", &second),
        ("main", &second),
    ] {
        assert_eq!(&repo.resolve(name).unwrap().to_string(), expected, "{name}");
    }
    let remote = world.remote();
    let tip = blocking(move || remote_ref(&remote, "main")).await.unwrap();
    assert_eq!(tip.unwrap().to_string(), second);
    let remote = world.remote();
    assert_eq!(blocking(move || remote_ref(&remote, "gone")).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn says_why_there_is_no_clone() {
    let world = World::with(&[file("a", "1\n")]).await;
    world.server.create("acme/empty");
    git(&world.server.path(REPOSITORY), &["tag", "blob", "main:a"]);
    let zero = "0123456789012345678901234567890123456789";
    let cases: [(&str, Option<&str>, &str, &str); 8] = [
        ("acme/app", None, "main", "authentication failed"),
        ("acme/app", Some("wrong"), "main", "authentication failed"),
        ("acme/none", Some(TOKEN), "main", "was not found"),
        ("acme/app", Some(TOKEN), "none", "`none` was not found"),
        ("acme/app", Some(TOKEN), zero, "was not found"),
        ("acme/app", Some(TOKEN), "refs/tags/blob", "was not found"),
        ("acme/app", Some(TOKEN), "a..b", "`a..b` was not found"),
        ("acme/empty", Some(TOKEN), "main", "the repository is empty"),
    ];
    for (repository, token, reference, expected) in cases {
        let url = format!("{}/{repository}.git", world.url);
        let credentials = token.map(|token| Credentials::token(token.to_owned().into()));
        let remote = Remote::http(&client(), &url, credentials).unwrap();
        let (state, refs) = (world.state(), vec![reference.to_owned()]);
        let result = blocking(move || fetch(&mirror(&state, &url)?, &remote, &refs, 1)).await;
        let message = result.unwrap_err().to_string();
        assert!(message.contains(expected), "{repository} {token:?} {reference}: {message}");
        assert!(!message.contains(TOKEN));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_public_repositories_without_credentials() {
    let world = World::with(&[]).await;
    world.server.create("acme/public");
    world.server.commit("acme/public", "main", "First", &[file("a", "1\n")]);
    let url = format!("{}/acme/public", world.url);
    let remote = Remote::http(&client(), &url, None).unwrap();
    let state = world.state();
    let repo = blocking(move || {
        let repo = mirror(&state, &url)?;
        fetch(&repo, &remote, &["main".to_owned()], 1)?;
        Ok(repo)
    });
    assert_eq!(
        file_at(&repo.await.unwrap(), Oid(git2_oid(&world, "acme/public")), "a").unwrap(),
        Some(b"1\n".to_vec())
    );
}

fn git2_oid(world: &World, repository: &str) -> git2::Oid {
    git2::Oid::from_str(&world.server.tip(repository, "main").unwrap()).unwrap()
}

#[test]
fn refuses_clone_urls_with_credentials_or_other_schemes() {
    for url in [
        "https://token@github.com/a/b.git",
        "https://x:y@github.com/a/b.git",
        "ssh://git@github.com/a/b.git",
        "ext::sh -c touch% /tmp/x",
        "file:///etc",
        "https://github.com/a/b?token=x",
        "--upload-pack=x",
    ] {
        let error = Remote::http(&client(), url, None).unwrap_err();
        assert!(matches!(error, GitError::Unacceptable(_)), "{url}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_a_rename_and_takes_the_token_nowhere_else() {
    let world = World::with(&[file("a", "1\n")]).await;
    world.server.rename(REPOSITORY, "acme/renamed");
    world.server.make_private("acme/renamed");
    let repo = world.fetched().await;
    assert_eq!(list_at(&repo, repo.resolve("main").unwrap(), "").unwrap().len(), 1);

    let elsewhere = World::with(&[file("a", "1\n")]).await;
    let target = format!("{}/info/refs?service=git-upload-pack", elsewhere.clone_url());
    world.server.fault(Step::Advertise, Fault::RedirectTo(target));
    let error = world.fetch(world.remote(), &["main"], 1).await.unwrap_err();
    assert!(error.to_string().contains("redirects to another place"), "{error}");
    assert_eq!(elsewhere.server.requests(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_what_a_connection_breaks() {
    for (step, fault) in [
        (Step::Advertise, Fault::Status(503)),
        (Step::Advertise, Fault::CutAfter(20)),
        (Step::Fetch, Fault::Status(502)),
        (Step::Fetch, Fault::CutAfter(0)),
        (Step::Fetch, Fault::CutAfter(150)),
    ] {
        let world = World::with(&[file("a", "1\n".repeat(1000)), file("b", "2\n")]).await;
        world.server.fault(step, fault.clone());
        let repo = world.fetch(world.remote(), &["main"], 50).await;
        let repo = repo.unwrap_or_else(|error| panic!("{step:?} {fault:?}: {error}"));
        git(repo.path(), &["fsck", "--strict"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gives_up_after_three_attempts() {
    let world = World::with(&[file("a", "1\n")]).await;
    for _ in 0..3 {
        world.server.fault(Step::Advertise, Fault::Status(500));
    }
    let error = world.fetch(world.remote(), &["main"], 1).await.unwrap_err();
    assert!(matches!(&error, GitError::Transport(text) if text.contains("500")), "{error}");
    assert_eq!(world.server.requests().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn stops_at_its_limits() {
    let world = World::with(&[file("a", "1\n"), file("b", noise(200_000))]).await;
    let slow = Limits { idle: Duration::from_millis(100), ..Limits::default() };
    for (limits, expected) in [
        (Limits { bytes: 50_000, ..Limits::default() }, "50000 bytes"),
        (Limits { objects: 2, ..Limits::default() }, "more than 2 objects"),
        (slow, "did not answer within"),
    ] {
        if limits.idle == slow.idle {
            for _ in 0..3 {
                world.server.fault(Step::Advertise, Fault::Slow(Duration::from_secs(2)));
            }
        }
        let remote = world.remote().limited(limits);
        let error = world.fetch(remote, &["main"], 1).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replaces_a_damaged_mirror() {
    let damages: [fn(&Path); 4] = [
        |mirror| {
            for path in walk(&mirror.join("objects/pack")) {
                if path.extension().is_some_and(|extension| extension == "pack") {
                    let content = fs_err::read(&path).unwrap();
                    fs_err::remove_file(&path).unwrap();
                    fs_err::write(&path, &content[..content.len() / 2]).unwrap();
                }
            }
        },
        |mirror| fs_err::remove_file(mirror.join("HEAD")).unwrap(),
        |mirror| fs_err::remove_dir_all(mirror.join("objects/pack")).unwrap(),
        |mirror| fs_err::write(mirror.join("config"), "[core\nbroken").unwrap(),
    ];
    for (number, damage) in damages.iter().enumerate() {
        let world = World::with(&[file("a", "1\n"), file("b", noise(5000))]).await;
        let repo = world.fetched().await;
        damage(repo.path());
        let repo = world.fetch(world.remote(), &["main"], 50).await;
        let repo = repo.unwrap_or_else(|error| panic!("damage {number}: {error}"));
        git(repo.path(), &["fsck", "--strict"]);
        assert!(repo.resolve("main").is_ok(), "damage {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_share_one_mirror() {
    let world = World::with(&[file("a", "1\n")]).await;
    let tip = world.server.tip(REPOSITORY, "main").unwrap();
    let runs = (0..6).map(|depth| world.fetch(world.remote(), &["main"], depth + 1));
    for repo in futures_util::future::join_all(runs).await {
        assert_eq!(repo.unwrap().resolve("main").unwrap().to_string(), tip);
    }
    let left: Vec<_> = fs_err::read_dir(world.state().join("mirrors")).unwrap().collect();
    assert_eq!(left.len(), 1);
    let names =
        walk(&world.state()).into_iter().filter(|path| path.to_string_lossy().contains(".new-"));
    assert_eq!(names.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_a_local_repository_without_copying_it() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    fs_err::create_dir_all(&work).unwrap();
    git(&work, &["init", "--quiet", "--initial-branch=main"]);
    fs_err::write(work.join("a"), "1\n").unwrap();
    git(&work, &["add", "a"]);
    git(&work, &["commit", "--quiet", "-m", "First"]);
    let url = work.to_str().unwrap().to_owned();
    let state = dir.path().join("state");
    let repo = blocking(move || {
        let repo = mirror(&state, &url)?;
        let refs = ["main".to_owned(), "HEAD".to_owned()];
        fetch(&repo, &Remote::local(Path::new(&url)), &refs, 50)?;
        Ok(repo)
    });
    let repo = repo.await.unwrap();
    let base = repo.resolve("HEAD").unwrap();
    assert_eq!(file_at(&repo, base, "a").unwrap(), Some(b"1\n".to_vec()));
    assert_eq!(walk(&repo.path().join("objects")), [repo.path().join("objects/info/alternates")]);
    let copy = unpacked(&repo, base, 50);
    assert_eq!(git(copy.path(), &["log", "--format=%s"]), "First\n");
    assert_eq!(git(copy.path(), &["status", "--porcelain"]), "");
}
