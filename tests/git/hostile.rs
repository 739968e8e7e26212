//! Configuration and contents that try to run or leak something, and the workspace.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_in_a_repository_runs_on_the_host() {
    let mark = tempfile::tempdir().unwrap();
    let oracle = format!("touch {}/fired", mark.path().display());
    let config = format!(
        "[core]\n\tfsmonitor = {oracle}\n\tsshCommand = {oracle}\n\thooksPath = hooks\n\
         \tgitProxy = {oracle}\n\taskPass = {oracle}\n[diff]\n\texternal = {oracle}\n\
         [diff \"x\"]\n\ttextconv = {oracle}\n[filter \"x\"]\n\tclean = {oracle}\n\tsmudge = {oracle}\n\
         \tprocess = {oracle}\n[credential]\n\thelper = !{oracle}\n\
         [url \"http://127.0.0.1:1/\"]\n\tinsteadOf = http://127.0.0.1\n\tpushInsteadOf = http://127.0.0.1\n\
         [http]\n\tproxy = http://127.0.0.1:1\n\textraHeader = X-Evil: 1\n"
    );
    let hook = format!("#!/bin/sh\n{oracle}\n");
    let world = World::with(&[
        file(".gitattributes", "* filter=x diff=x\n"),
        file(".gitconfig", config.clone()),
        executable("hooks/pre-push", &hook),
        executable("hooks/post-checkout", &hook),
        file(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c touch% /tmp/x\n"),
        file("HEAD", "ref: refs/heads/main\n"),
        file("config", config),
        file("a", "1\n"),
    ])
    .await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    unpacked(&repo, base, 50);
    let change = build(&repo, base, &collected(&[added("a", "2\n")], &["HEAD"])).unwrap();
    unified(&repo, tree_of(&repo, base).unwrap(), change.tree, DiffSpec::all()).unwrap();
    let commit = create(&repo, base, change.tree, &spec("Change")).unwrap();
    assert_eq!(world.push(&repo, commit, "b", None).await.unwrap(), PushOutcome::Pushed);
    assert!(!mark.path().join("fired").exists());

    // The same configuration does fire with the git program: the oracle works.
    let copy = unpacked(&repo, base, 1);
    fs_err::copy(copy.path().join("config"), copy.path().join(".git/config")).unwrap();
    fs_err::write(copy.path().join("a"), "changed\n").unwrap();
    let _ = command(copy.path(), &["status"]).output().unwrap();
    assert!(mark.path().join("fired").exists());
}

/// Runs another test of this file in a process whose environment is hostile.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test runs itself")]
fn the_users_git_configuration_is_not_read() {
    let home = tempfile::tempdir().unwrap();
    let config = "[url \"http://127.0.0.1:1/\"]\n\tinsteadOf = http://127.0.0.1\n\
        \tpushInsteadOf = http://127.0.0.1\n[safe]\n\tbareRepository = explicit\n\
        [core]\n\tsshCommand = false\n[http]\n\tproxy = http://127.0.0.1:1\n";
    fs_err::write(home.path().join(".gitconfig"), config).unwrap();
    fs_err::create_dir_all(home.path().join(".config/git")).unwrap();
    fs_err::write(home.path().join(".config/git/config"), config).unwrap();
    for test in
        ["git::push::pushes_one_commit_to_one_branch", "git::clone::many_runs_share_one_mirror"]
    {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact"])
            .env("HOME", home.path())
            .env("XDG_CONFIG_HOME", home.path().join(".config"))
            .env("GIT_DIR", "/nonexistent")
            .env("GIT_OBJECT_DIRECTORY", "/nonexistent")
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "url.http://127.0.0.1:1/.insteadOf")
            .env("GIT_CONFIG_VALUE_0", "http://127.0.0.1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{test}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_is_pinned_to_one_commit() {
    let world = World::with(&[
        file("Cargo.lock", "# lock\n"),
        file("README.md", "# App\n"),
        file("src/main.rs", "fn main() {}\n"),
        symlink("package.json", "README.md"),
    ])
    .await;
    let workspace = Workspace::pin(world.fetched().await, "main", 5).await.unwrap();
    world.server.commit(REPOSITORY, "main", "Meanwhile", &[file("README.md", "later\n")]);
    world.fetched().await;
    assert_eq!(workspace.root_files().await.unwrap(), ["Cargo.lock", "README.md"]);
    let locks = workspace.lock_files(&[]).await.unwrap();
    assert_eq!(locks.len(), 1);
    assert_eq!((locks[0].0.as_str(), locks[0].1.len()), ("Cargo.lock", 40));
    let tree: &dyn Tree = &workspace;
    let names: Vec<String> = tree.list("").into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["Cargo.lock", "README.md", "src"], "links are not shown");
    assert_eq!(tree.list("src")[0].kind, Kind::File);
    assert_eq!(tree.read("README.md", 6), Some(b"# App\n".to_vec()));
    assert_eq!((tree.read("README.md", 5), tree.read("../x", 5)), (None, None));
    let readme = workspace.file("README.md").await.unwrap();
    assert_eq!(readme, Some(b"# App\n".to_vec()));
    for absent in ["none", "src", "package.json", "../x", "/etc/passwd", "README.md/x"] {
        assert_eq!(workspace.file(absent).await.unwrap(), None, "{absent}");
    }
    let guest = Guest::start().await;
    let packed = workspace.pack(&ContainerLimits::default(), Additions::default()).await.unwrap();
    packed.upload(&guest.client).await.unwrap();
    let listed = guest.sh("git ls-files; git status --porcelain; cat README.md").await.output;
    assert_eq!(listed, "Cargo.lock\nREADME.md\npackage.json\nsrc/main.rs\n# App\n");
}

#[test]
fn an_error_text_never_contains_the_token() {
    crate::support::git_quick::name_helper();
    let credentials = Credentials::token(TOKEN.to_owned().into());
    let url = "https://127.0.0.1:1/a/b.git";
    let remote = Remote::http(&client(), url, Some(credentials)).unwrap();
    assert!(!format!("{remote:?}").contains(TOKEN));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let result = runtime.block_on(blocking(move || remote_ref(&remote, "main")));
    let error = result.unwrap_err();
    assert!(error.is_worth_retrying() && !format!("{error:?}").contains(TOKEN), "{error:?}");
}
