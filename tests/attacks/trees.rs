//! Paths and trees that mean to reach outside: patches, links, special files, nested repositories,
//! and a `.git` that would run programs on the host if anything there believed it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::arena::{Arena, GITHUB_TOKEN, Place, WhatTheModelSaw, on_the_host, shell};
use crate::support::docker::docker;
use crate::support::model::{Turn, custom, say};

/// A program on the host that leaves a trace when something runs it.
fn tripwire(folder: &Path) -> String {
    let path = folder.join("tripwire");
    let trace = folder.join("TRIPPED");
    fs_err::write(&path, format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\n", trace.display())).unwrap();
    fs_err::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// Whatever git can be told to run or to believe, in place of the workspace's own `.git`.
fn hostile_git(program: &str) -> String {
    let mut script = String::from(
        "rm -rf .git; git init -q; git add -A; git -c user.name=a -c user.email=a@b commit -qm a\n",
    );
    for (key, value) in [
        ("core.fsmonitor", "P"),
        ("core.sshCommand", "P"),
        ("core.askPass", "P"),
        ("core.editor", "P"),
        ("core.pager", "P"),
        ("core.gitProxy", "P"),
        ("core.alternateRefsCommand", "P"),
        ("core.hooksPath", "hooks"),
        ("credential.helper", "!P"),
        ("gpg.program", "P"),
        ("commit.gpgSign", "true"),
        ("diff.external", "P"),
        ("diff.evil.textconv", "P"),
        ("diff.evil.command", "P"),
        ("filter.evil.clean", "P"),
        ("filter.evil.smudge", "P"),
        ("filter.evil.process", "P"),
        ("merge.evil.driver", "P"),
        ("alias.status", "!P"),
        ("uploadpack.packObjectsHook", "P"),
        ("remote.origin.url", "ext::P"),
        ("remote.origin.pushurl", "ext::P"),
        ("url.ext::P.insteadOf", "http://"),
        ("http.proxy", "http://127.0.0.1:1"),
        ("http.extraHeader", "X: y"),
        ("include.path", "/nowhere"),
    ] {
        let (key, value) = (key.replace('P', program), value.replace('P', program));
        script += &format!("git config --file .git/config '{key}' '{value}'\n");
    }
    script += "mkdir -p hooks .git/hooks\n";
    for hook in ["pre-push", "pre-commit", "post-checkout", "reference-transaction", "update"] {
        script += &format!(
            "printf '#!/bin/sh\\n{program}\\n' > .git/hooks/{hook}; cp .git/hooks/{hook} hooks/\n"
        );
    }
    script
        + "chmod +x .git/hooks/* hooks/*\n\
        printf '* filter=evil diff=evil merge=evil export-subst ident\\n' > .gitattributes\n\
        printf '[lfs]\\n\\turl = http://127.0.0.1:1\\n' > .lfsconfig\n"
}

/// Things that cannot be part of a change, and a few that can.
const ODD_FILES: &str = "sed -i s/teh/the/ README.md
    mkfifo pipe; truncate -s 1900M sparse; ln README.md hard; cp README.md setuid
    chmod 6755 setuid; python3 -c \"import socket; socket.socket(1).bind('sock')\"
    mknod device c 1 3; git init -q nested; echo x > nested/x; ln -s README.md inside
    mkdir -p deep/.git deep/.GIT; echo x > deep/.git/config; echo x > deep/.GIT/config
    echo x > -rf; echo x > :name; echo x > \"$(printf 'bad\\nname')\"
    echo x > \"$(printf 'bad\\377')\"; ls -la";

/// Patches that mean to reach outside. Each is refused, and the run goes on.
fn patches(outside: &str) -> Turn {
    let add = |path: &str| {
        custom(
            "apply_patch",
            &format!("*** Begin Patch\n*** Add File: {path}\n+PATCHED\n*** End Patch\n"),
        )
    };
    let paths = [
        "../../outside",
        "src/../../../outside",
        outside,
        ".git/hooks/pre-push",
        ".git/config",
        ".GIT/config",
        ".g\u{200c}it/config",
        "git~1/config",
        "src/.git/config",
        "up/outside",
        "etc/outside",
        "../.git/config",
    ];
    paths.iter().map(|path| add(path)).reduce(Turn::and).unwrap()
}

async fn check(place: Place<'_>) {
    let arena = Arena::new();
    let program = tripwire(arena.folder.path());
    let outside = arena.folder.path().join("outside").display().to_string();
    let ended = arena
        .run(
            place,
            vec![
                shell("ln -s ../.. up; ln -s /etc etc"),
                patches(&outside),
                shell("rm -f up etc; find / -name outside -newer README.md 2>/dev/null"),
                shell(&hostile_git(&program)),
                shell(ODD_FILES),
                say("Fixed the typo"),
                // Asked about what can be part of no change.
                say("Fixed the typo"),
            ],
        )
        .await;
    assert_eq!(ended.code, 20, "{}", ended.stderr);
    assert!(!arena.folder.path().join("TRIPPED").exists(), "something ran on the host");
    assert!(!Path::new(&outside).exists(), "a patch reached the host");
    let pushed = arena.pushed();
    let paths: Vec<&str> = pushed.iter().map(|(path, _)| path.as_str()).collect();
    for (path, mode) in &pushed {
        let lower = path.to_lowercase();
        assert!(!lower.split('/').any(|part| part == ".git" || part == "git~1"), "{paths:?}");
        assert!(["100644", "100755", "120000"].contains(&mode.as_str()), "{path} has mode {mode}");
    }
    for never in ["pipe", "sock", "device", "sparse", "nested", "nested/x", "outside", "etc", "up"]
    {
        assert!(!paths.contains(&never), "`{never}` was published: {paths:?}");
    }
    assert!(!paths.iter().any(|path| path.ends_with("/config")), "{paths:?}");
    for kept in ["setuid", "hard", "inside"] {
        assert!(paths.contains(&kept), "`{kept}` was not published: {paths:?}");
    }
    assert_eq!(arena.pushed_file("README.md"), "the app\n");
    let body = &arena.github.pulls()[0].body;
    for named in ["pipe", "sparse", "nested", "named pipe", "nested repository"] {
        assert!(body.contains(named), "the description does not name `{named}`:\n{body}");
    }
    arena.assert_nothing_leaked(&ended, WhatTheModelSaw::Counts);
    arena.assert_nothing_left(place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_nothing_odd_in_a_container_reaches_host_or_branch() {
    let Some(docker) = docker().await else { return };
    check(Place::Docker(&docker)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_nothing_odd_in_the_local_sandbox_reaches_host_or_branch() {
    check(Place::Local).await;
}

/// The hostile repository makes git on the host run the attacker's program.
#[tokio::test]
async fn attacks_the_hostile_repository_trips_an_unprotected_git() {
    let arena = Arena::new();
    let program = tripwire(arena.folder.path());
    let folder = arena.folder.path().join("work");
    fs_err::create_dir(&folder).unwrap();
    fs_err::write(folder.join("README.md"), "teh\n").unwrap();
    let script = hostile_git(&program) + "git status; git diff; git add -A";
    on_the_host(&arena, &folder, &script).await;
    assert!(arena.folder.path().join("TRIPPED").exists(), "the hostile repository is harmless");
}

/// Links that leave the tree, names that are one name elsewhere and workflows stay out, by name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_links_outside_twin_names_and_workflows_are_kept_out() {
    let arena = Arena::new();
    let script = "sed -i s/teh/the/ README.md; ln -s /etc/passwd absolute
        ln -s ../../x relative; ln -s src/../../y winding; echo x > readme.MD
        mkdir -p .github/workflows ci/setup; echo 'on: push' > .github/workflows/x.yml
        echo 'runs: {using: composite}' > ci/setup/action.yml";
    let fixed = || say("Fixed the typo");
    let ended = arena.run(Place::Local, vec![shell(script), fixed(), fixed()]).await;
    assert_eq!(ended.code, 20, "{}", ended.stderr);
    let paths: Vec<String> = arena.pushed().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["README.md", "src/a.txt"]);
    let body = &arena.github.pulls()[0].body;
    let workflows = [".github/workflows/x.yml", "ci/setup/action.yml"];
    for named in ["absolute", "relative", "winding", "readme.MD"].into_iter().chain(workflows) {
        assert!(body.contains(named), "the description does not name `{named}`:\n{body}");
    }
    assert!(arena.github.pulls()[0].draft, "not a draft");
}

/// What is refused is not judged, so nothing of it may stay in our repository either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_a_secret_in_a_file_that_is_refused_is_nowhere() {
    let arena = Arena::new();
    let token = arena.oracle.value(GITHUB_TOKEN);
    let script = format!("sed -i s/teh/the/ README.md; echo '{token}' > readme.MD");
    let fixed = || say("Fixed the typo");
    let ended = arena.run(Place::Local, vec![shell(&script), fixed(), fixed()]).await;
    assert_eq!(ended.code, 20, "{}", ended.stderr);
    assert_eq!(arena.pushed_file("README.md"), "the app\n");
    let body = &arena.github.pulls()[0].body;
    assert!(body.contains("readme.MD"), "the description does not name the file:\n{body}");
    arena.assert_nothing_leaked(&ended, WhatTheModelSaw::IsItsOwn);
}
