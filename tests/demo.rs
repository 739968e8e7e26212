//! `patchwright demo`: the main job without a key or a network.

use expect_test::expect;

use crate::support::world::TestWorld;

#[test]
fn the_demo_ends_in_a_local_pull_request_and_names_its_files() {
    let world = TestWorld::local([]).unset("OPENAI_API_KEY").unset("PATCHWRIGHT_STATE_DIR");
    let output = world.run(&["demo", "--dir", "demo"]).expect(0);
    let shown = world.tidy(&output.stdout);
    let paths: Vec<&str> = shown.lines().rev().take(4).collect();
    expect![[r#"
        journal: DIR/demo/state/runs/RUN/journal.jsonl
        diff: DIR/demo/state/runs/RUN/change.patch
        report: DIR/demo/state/runs/RUN/report.html
        pull request: demo/forge/pull-requests/2.md"#]]
    .assert_eq(&paths.join("\n"));
    for line in output.stdout.lines().rev().take(4) {
        let path = line.split_once(": ").unwrap().1;
        assert!(world.path(path).is_file(), "{line}");
    }
    for part in ["Fixes #1", "sh test.sh", "subtractive pairs"] {
        assert!(output.stdout.contains(part), "{part}: {}", output.text());
    }
    assert_eq!(world.model.requests().len(), 0);
}

/// The README shows what the demo prints; numbers that differ from machine to machine are left out here.
#[test]
fn the_readme_shows_the_pull_request_of_the_demo() {
    let world = TestWorld::local([]).unset("PATCHWRIGHT_STATE_DIR");
    let output = world.run(&["demo", "--dir", "demo", "--sandbox", "local"]).expect(0);
    let readme = include_str!("../README.md");
    for part in [
        "Write 4, 9, 40, 90, 400 and 900 as subtractive pairs #2\n",
        "`patchwright/issue-1` → `main`\n",
        "`roman.sh` only knew the seven single letters, so 4 came out as IIII and 1994 as MDCCCCLXXXXIIII.\n",
        "The table in `roman.sh` now has the six subtractive pairs, and `test.sh` covers 4 and 9.\n",
        "\n<sub>Written by the model.</sub>\n",
        "| Command | Before | After | Duration |\n",
        "| `sh test.sh` | ❌ failed (1) | ✅ passed | ",
        "<details><summary>Details: <code>gpt-5.3-codex</code> · $0.0",
        " · 5 turns · ",
        "\nbase `main` at `",
        "` · sandbox `local` · ",
        "\n- Input: 1 hidden part removed: 1 HTML comment\n",
    ] {
        assert!(output.stdout.contains(part), "the demo: {part}: {}", output.text());
        assert!(readme.contains(part), "the README: {part}");
    }
}

#[test]
fn a_second_demo_in_the_same_folder_is_refused() {
    let world = TestWorld::local([]).unset("PATCHWRIGHT_STATE_DIR");
    world.run(&["demo", "--dir", "demo"]).expect(0);
    let output = world.run(&["demo", "--dir", "demo"]).expect(2);
    expect![[r#"
        exit 2
        --- stderr
        error: `demo` has a demo already

        hint: remove it, or choose another folder with `--dir`
    "#]]
    .assert_eq(&output.text());
}

#[test]
fn a_demo_without_a_place_says_which_option_names_another() {
    let world = TestWorld::local([]).unset("PATCHWRIGHT_STATE_DIR");
    let output = world.run(&["demo", "--dir", "/dev/null"]).expect(1);
    expect![[r#"
        exit 1
        --- stderr
        error: the demo's folder `/dev/null` cannot be written to
          cause: File exists (os error 17)

        hint: choose another one with `--dir`
    "#]]
    .assert_eq(&output.text());
}

#[test]
fn without_docker_the_demo_says_so_and_works_in_the_local_sandbox() {
    let world = TestWorld::local([])
        .unset("PATCHWRIGHT_SANDBOX")
        .set("DOCKER_HOST", "unix:///nowhere/docker.sock");
    let output = world.run(&["demo", "--dir", "demo"]).expect(0);
    assert!(output.stderr.contains("sandbox: local"), "{}", output.text());
    assert!(output.stderr.contains("/nowhere/docker.sock"), "{}", output.text());
}

/// The demo, with the local sandbox, in a root that `chroot` makes of `root`: a memory file system at `/mnt`, or below that.
#[expect(clippy::disallowed_methods, reason = "starts the program in another root")]
fn in_a_changed_root(world: &TestWorld, root: &str) -> std::process::Output {
    let fill = "set -e; PATH=$PATH:/usr/sbin:/sbin; mount -t tmpfs none /mnt; mkdir -p $0; cd $0
        for path in /*; do
            if [ -L $path ]; then cp -P $path .
            elif [ -d $path ] && [ $path != /mnt ]; then mkdir .$path; mount --rbind $path .$path; fi
        done
        exec chroot $0 \"$@\"";
    // Root of a user namespace may change its root as well.
    let rights: &[&str] =
        if rustix::process::geteuid().is_root() { &[] } else { &["--map-root-user"] };
    let demo = world.command(&["demo", "--dir", "demo", "--sandbox", "local"]);
    let mut command = std::process::Command::new("unshare");
    command.args(rights).args(["--mount", "--propagation", "private", "--", "sh", "-c", fill]);
    command.args([root, "env", "--chdir"]).arg(world.path("")).arg(demo.get_program());
    command.args(demo.get_args()).env_clear();
    for (name, value) in demo.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    command.output().unwrap()
}

/// As in a system that debootstrap has unpacked and mounted.
#[test]
fn the_demo_runs_in_the_local_sandbox_of_a_changed_root() {
    let world = TestWorld::local([]).unset("PATCHWRIGHT_STATE_DIR");
    let output = in_a_changed_root(&world, "/mnt");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(world.path("demo/forge/pull-requests/2.md").is_file(), "{said}");
}

#[test]
fn a_changed_root_that_is_no_mount_is_refused_with_what_to_do() {
    let world = TestWorld::local([]).unset("PATCHWRIGHT_STATE_DIR");
    let output = in_a_changed_root(&world, "/mnt/folder");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("`mount --bind` it onto itself before"), "{said}");
}

#[test]
fn the_demo_says_that_it_pulls_before_it_does() {
    if !crate::support::docker::is_required() {
        return;
    }
    let world = TestWorld::local([]).unset("PATCHWRIGHT_SANDBOX");
    // Nobody listens there.
    let output = world.run(&["demo", "--dir", "demo", "--image", "127.0.0.1:9/none:1"]).expect(0);
    let place = |text: &str| {
        output.stderr.find(text).unwrap_or_else(|| panic!("{text}: {}", output.text()))
    };
    let pulling = place("sandbox: pulling `127.0.0.1:9/none:1`, 8 seconds at most");
    assert!(pulling < place("sandbox: local (Landlock and seccomp), because"));
}
