//! Everything that can be wrong before work starts: one clear message, the documented exit code, and
//! nothing done on GitHub.

use std::os::unix::fs::PermissionsExt;

use expect_test::{Expect, expect};
use patchwright_forge::Role;

use crate::resume::wait_for;
use crate::store::full::SmallDisk;
use crate::support::git_http::{self, Step};
use crate::support::github::{Fault, GitHub, Kind};
use crate::support::model::{call, fail, stall};
use crate::support::world::{Output, TestWorld, github};

/// Runs `issue` in a world that is wrong in some way.
#[track_caller]
fn check(world: &TestWorld, args: &[&str], expected: &Expect) {
    let output = world.run(args);
    expected.assert_eq(&output.text());
    assert_eq!(world.github.writes(), Vec::<String>::new(), "nothing half done");
    assert_eq!(world.github.branches().len(), 1);
}

const ISSUE: &[&str] = &["issue", "acme/app#7", "--quiet"];

fn world(github: GitHub) -> TestWorld {
    TestWorld::new(github, [])
}

#[test]
fn without_a_token() {
    check(
        &world(github()).unset("GITHUB_TOKEN"),
        ISSUE,
        &expect![[r#"
        exit 60
        --- stderr
        error: no GitHub token

        hint: set `GITHUB_TOKEN` to a token with `contents: write`, `issues: write` and `pull-requests: write`
    "#]],
    );
}

#[test]
fn with_a_token_that_github_does_not_know() {
    let world = world(github()).set("GITHUB_TOKEN", "github_pat_11AAAAAAA0wrong");
    check(
        &world,
        ISSUE,
        &expect![[r#"
        exit 60
        --- stderr
        error: the token is missing, wrong or expired: Bad credentials

        hint: set `GITHUB_TOKEN` to a token with `contents: write`, `issues: write` and `pull-requests: write`
    "#]],
    );
}

#[test]
fn with_a_repository_that_is_not_there() {
    check(
        &world(github()),
        &["issue", "acme/ap#7", "--quiet"],
        &expect![[r#"
        exit 60
        --- stderr
        error: repository `acme/ap` (or the token may not see it) was not found

        hint: check the name `acme/ap`, and that the token may see the repository
    "#]],
    );
}

#[test]
fn with_an_issue_that_is_not_there() {
    check(
        &world(github()),
        &["issue", "acme/app#70", "--quiet"],
        &expect![[r#"
        exit 60
        --- stderr
        error: issue `acme/app#70` (or the token may not see it) was not found

        hint: check the number: acme/app#70
    "#]],
    );
}

#[test]
fn with_an_archived_repository() {
    check(
        &world(github().with(|repository| repository.archived = true)),
        ISSUE,
        &expect![[r#"
        exit 60
        --- stderr
        error: `acme/app` is archived, so nothing can be pushed to it

        hint: unarchive the repository in its settings, or choose another one
    "#]],
    );
}

#[test]
fn with_a_closed_issue() {
    check(
        &world(github().with_issue(|issue| issue.open = false)),
        ISSUE,
        &expect![[r#"
        exit 10
        --- stderr
        error: issue acme/app#7 is closed

        hint: reopen it to have it worked on
    "#]],
    );
}

#[test]
fn with_a_base_branch_that_is_not_there() {
    let world = world(github());
    let output = world.run(&["issue", "acme/app#7", "--quiet", "--base", "release"]);
    expect![[r#"
        exit 60
        --- stderr
        error: cannot fetch `acme/app`
          cause: `release` in `GITHUB/acme/app.git` was not found
    "#]]
    .assert_eq(&output.text());
    assert_eq!(world.github.branches().len(), 1);
}

#[test]
fn with_no_docker() {
    let world = world(github())
        .set("PATCHWRIGHT_SANDBOX", "docker")
        .set("DOCKER_HOST", "unix:///nowhere/docker.sock");
    check(
        &world,
        ISSUE,
        &expect![[r#"
        exit 70
        --- stderr
        error: Docker does not answer at `unix:///nowhere/docker.sock`: Socket not found: /nowhere/docker.sock

        hint: start Docker, or name its socket with `DOCKER_HOST`, or use `--sandbox local` (in a workflow `sandbox: local`); `patchwright doctor` checks it
    "#]],
    );
}

#[test]
fn with_a_model_that_nobody_knows() {
    check(
        &world(github()),
        &["issue", "acme/app#7", "--quiet", "--model", "gtp-5.3-codex"],
        &expect![[r#"
            exit 2
            --- stderr
            error: unknown model `gtp-5.3-codex`

            hint: did you mean `gpt-5.3-codex`?
            hint: for a server of your own, write `chat/NAME` and set `--base-url`
        "#]],
    );
}

#[test]
fn with_a_part_of_a_models_name() {
    for (name, models) in
        [("sonnet-5", "`claude-sonnet-5`, `claude-sonnet-5-5`"), ("codex", "`codex-mini-latest`, ")]
    {
        let output = world(github()).run(&["issue", "acme/app#7", "--quiet", "--model", name]);
        let hint = format!("hint: models of that name are {models}");
        assert!(output.expect(2).stderr.contains(&hint), "{hint}");
    }
}

#[test]
fn with_a_misspelt_model_and_no_key_for_it() {
    let world = world(github()).unset("OPENAI_API_KEY").unset("OPENAI_BASE_URL");
    let output = world.run(&["issue", "acme/app#7", "--quiet", "--model", "gpt-5.3-codx"]);
    let hint =
        "hint: `gpt-5.3-codx` is not in the catalogue: did you mean `--model gpt-5.3-codex`?";
    let output = output.expect(50);
    assert!(output.stderr.contains(hint), "{}", output.text());
}

#[test]
fn without_a_key_for_the_public_endpoint() {
    let world = world(github()).unset("OPENAI_API_KEY").unset("OPENAI_BASE_URL");
    check(
        &world,
        ISSUE,
        &expect![[r#"
        exit 50
        --- stderr
        error: no key for `gpt-5.3-codex`

        hint: set `OPENAI_API_KEY`
    "#]],
    );
}

#[test]
fn with_a_key_that_the_provider_refuses() {
    let refused = fail(401, "invalid_api_key", "Incorrect API key provided: test-mod**8c06.");
    let world = TestWorld::new(github(), [refused]);
    let output = world.run(ISSUE);
    expect![[r#"
        exit 50
        --- stderr
        error: MODEL refuses the key: Incorrect API key provided: test-mod**8c06.

        hint: check that `OPENAI_API_KEY` holds a key for this endpoint, that it is still valid, and that it may use `gpt-5.3-codex`
        hint: the files of the run so far are in DIR/state/runs/RUN
    "#]]
    .assert_eq(&output.text());
    assert_eq!((world.github.pulls().len(), world.github.branches().len()), (0, 1));
}

#[test]
fn with_an_unknown_key_in_the_operators_configuration() {
    let world = world(github());
    fs_err::write(world.path("config.yml"), "limits:\n  max-turn: 3\n").unwrap();
    check(
        &world,
        &["issue", "acme/app#7", "--config", "config.yml"],
        &expect![[r#"
            exit 2
            --- stderr
            error: configuration `config.yml` is not valid
              cause: error: line 2 column 3: unknown key `max-turn`; did you mean `max-turns`?
             --> <input>:2:3
              |
            1 | limits:
            2 |   max-turn: 3
              |   ^ unknown key `max-turn`; did you mean `max-turns`?

            hint: every key is described in `docs/configuration.md`
        "#]],
    );
}

/// It may lower limits, and so could make every run end as it begins.
#[test]
fn with_a_limit_that_no_run_can_keep_in_the_repositorys_configuration() {
    for (key, value, least) in [
        ("max-turns", "0", "1: 0"),
        ("max-tokens", "0", "1: 0"),
        ("timeout", "0s", "1s: 0s"),
        ("command-timeout", "0s", "1s: 0s"),
        ("setup-timeout", "0s", "1s: 0s"),
        ("max-cost-usd", "-1", "0: -1"),
        ("max-cost-usd", ".nan", "0: NaN"),
    ] {
        let config = format!("limits: {{ {key}: {value} }}\n");
        let files =
            [crate::support::world::FILES, &[(".github/patchwright.yml", &config)]].concat();
        let world = world(crate::support::world::github_with(&files));
        let output = world.issue();
        assert_eq!(output.code, 2, "{key}: {}", output.text());
        for words in [
            "configuration `.github/patchwright.yml` is not valid",
            &format!("`limits.{key}` must be at least {least}"),
            "leave the key out for the default",
        ] {
            assert!(output.stderr.contains(words), "{key}: {words:?} {}", output.text());
        }
        assert!(world.model.requests().is_empty(), "{key}");
        let output = world.run(&["issue", "acme/app#7", &format!("--{key}={value}")]);
        assert_eq!(output.code, 2, "{key}: {}", output.text());
    }
}

#[test]
fn with_a_container_that_nothing_can_start_or_write_in() {
    for (key, value, words) in [
        ("memory", "0", "at least 1: 0"),
        ("cpus", "-1", "at least 0.01: -1"),
        ("cpus", "0", "at least 0.01: 0"),
        ("cpus", ".nan", "at least 0.01: NaN"),
        ("cpus", ".inf", "at most 4096: inf"),
        ("pids", "0", "at least 1: 0"),
        ("tmp", "0", "at least 1: 0"),
        ("workspace", "0", "at least 1: 0"),
        ("workspace-files", "0", "at least 1: 0"),
    ] {
        let world = world(github());
        let config = format!("container: {{ {key}: {value} }}\n");
        fs_err::write(world.path("config.yml"), config).unwrap();
        let output = world.run(&["issue", "acme/app#7", "--config", "config.yml"]).expect(2);
        let said = format!("`container.{key}` must be {words}");
        assert!(output.stderr.contains(&said), "{said}: {}", output.text());
    }
}

/// Values without their unit, or for the commands alone.
#[test]
fn with_a_container_that_the_sandbox_itself_does_not_start_in() {
    for (key, value, words) in [
        ("memory", "4", "hint: `container.memory` is 4 bytes, with which hardly anything starts: "),
        ("pids", "1", "hint: `container.pids` is 1, and the sandbox has processes and threads"),
    ] {
        let world = world(github());
        let config = format!("container: {{ {key}: {value} }}\n");
        fs_err::write(world.path("config.yml"), config).unwrap();
        let output = world.run(&["issue", "acme/app#7", "--config", "config.yml"]).expect(70);
        assert!(output.stderr.contains(words), "{words}: {}", output.text());
        assert!(world.model.requests().is_empty(), "{key}");
    }
}

#[test]
fn with_a_wrong_value_in_the_operators_configuration() {
    let world = world(github());
    fs_err::write(world.path("config.yml"), "verify: [a]\nlimits:\n  timeout: soon\n").unwrap();
    check(
        &world,
        &["issue", "acme/app#7", "--config", "config.yml"],
        &expect![[r#"
        exit 2
        --- stderr
        error: configuration `config.yml` is not valid
          cause: error: line 3 column 12: `soon` is not a duration; write for example `TIME`, `5m` or `1h`
         --> <input>:3:12
          |
        1 | verify: [a]
        2 | limits:
        3 |   timeout: soon
          |            ^ `soon` is not a duration; write for example `TIME`, `5m` or `1h`

        hint: every key is described in `docs/configuration.md`
    "#]],
    );
}

#[test]
fn with_a_repository_configuration_that_is_not_valid() {
    let mut files = crate::support::world::FILES.to_vec();
    files.push((".github/patchwright.yml", "verify:\n  - sh test.sh\nnonsense: 1\n"));
    let world = world(crate::support::world::github_with(&files));
    let output = world.run(ISSUE);
    expect![[r#"
        exit 2
        --- stderr
        error: configuration `.github/patchwright.yml` is not valid
          cause: error: line 3 column 1: unknown key `nonsense`
         --> <input>:3:1
          |
        1 | verify:
        2 |   - sh test.sh
        3 | nonsense: 1
          | ^ unknown key `nonsense`

        hint: every key is described in `docs/configuration.md`
    "#]]
    .assert_eq(&output.text());
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn with_something_that_is_no_issue() {
    check(
        &world(github()),
        &["issue", "acme/app"],
        &expect![[r#"
        exit 2
        --- stderr
        error: invalid value 'acme/app' for '<OWNER/REPO#N>': `acme/app` is not an issue; write it as `OWNER/REPO#N`

        For more information, try '--help'.
    "#]],
    );
}

#[test]
fn with_a_state_folder_that_is_a_file() {
    let world = world(github());
    fs_err::write(world.path("file"), "").unwrap();
    let world = world.set("PATCHWRIGHT_STATE_DIR", "file");
    check(
        &world,
        ISSUE,
        &expect![[r#"
        exit 1
        --- stderr
        error: the state folder `file` cannot be written
          cause: File exists (os error 17)

        hint: choose a folder that you can write to with `--state-dir`
    "#]],
    );
}

#[test]
fn with_an_output_folder_that_cannot_be_written() {
    let world = TestWorld::local([]);
    crate::exec::project(&world);
    let output = world.run(&["exec", "x", "--repo", "project", "--out", "/dev/null"]).expect(1);
    expect![[r#"
        exit 1
        --- stderr
        error: cannot write to the output folder `/dev/null`
          cause: File exists (os error 17)

        hint: choose a folder that you can write to with `--out`
    "#]]
    .assert_eq(&output.text());
}

/// Anybody could have made it, and put a program into it.
#[test]
fn with_a_state_folder_that_another_user_has_made() {
    if !rustix::process::geteuid().is_root() {
        // Nobody else can give a folder away.
        return;
    }
    let world = world(github());
    let (shared, theirs) = (world.path("shared"), world.path("shared/theirs"));
    fs_err::create_dir_all(&theirs).unwrap();
    fs_err::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).unwrap();
    std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
    let world = world.set("PATCHWRIGHT_STATE_DIR", theirs.display().to_string());
    check(
        &world,
        ISSUE,
        &expect![[r#"
        exit 1
        --- stderr
        error: the state folder `DIR/shared/theirs` is within reach of others
          cause: `DIR/shared/theirs` belongs to another user (65534)

        hint: what is in it is run as you, so choose a folder of your own with `--state-dir`; where you know what the other one has, `chown` or `chmod` makes it yours
    "#]],
    );
    let doctor = world.run(&["doctor"]).expect(2).stdout;
    let line = doctor.lines().find(|line| line.starts_with("FAIL  state folder: ")).unwrap();
    assert!(line.contains("belongs to another user (65534)"), "{doctor}");
    assert_eq!(fs_err::read_dir(&theirs).unwrap().count(), 0, "nothing is made in it");
}

#[test]
fn with_a_token_that_may_not_push() {
    let world = TestWorld::new(github().token_lacks("contents"), crate::support::world::fix());
    let output = world.run(ISSUE);
    expect![[r#"
        exit 60
        --- stderr
        error: not allowed to push to `GITHUB/acme/app.git`: remote: Permission to acme/app.git denied to test.

        hint: give the token `contents: write`
    "#]].assert_eq(&output.text());
    assert!(world.model.requests().is_empty(), "nothing is paid for");
    assert_eq!((world.github.pulls().len(), world.github.branches().len()), (0, 1));
}

#[test]
fn with_a_push_that_is_refused_when_the_work_is_done() {
    let world = TestWorld::new(github(), crate::support::world::fix());
    let words = "remote: Permission to acme/app.git denied to test.";
    world
        .github
        .git()
        .fault(Step::Push, git_http::Fault::Answer(403, Vec::new(), words.to_owned()));
    let output = world.run(ISSUE);
    expect![[r#"
        exit 60
        --- stderr
        error: cannot push to `patchwright/issue-7`: not allowed to push to `GITHUB/acme/app.git`: remote: Permission to acme/app.git denied to test.

        hint: give the token `contents: write`
        hint: the work is done and kept: once that is put right, run the same command again, and it is published without asking the model again
    "#]].assert_eq(&output.text());
    assert_eq!((world.github.pulls().len(), world.github.branches().len()), (0, 1));
}

/// Whether a push is taken is asked before the model is. That it cannot be asked then has refused nothing.
#[test]
fn with_a_server_that_is_asked_too_early_whether_a_push_is_taken() {
    for status in [404, 429, 500, 503] {
        let world = TestWorld::new(github(), crate::support::world::fix());
        world.github.git().fault(Step::AdvertiseForPush, git_http::Fault::Status(status));
        let output = world.run(ISSUE).expect(0);
        assert_eq!(world.github.pulls().len(), 1, "{status}: {}", output.text());
    }
}

#[test]
fn with_the_number_of_a_pull_request() {
    let world = TestWorld::new(github().user("ann", Role::Write), crate::support::world::fix());
    world.issue().expect(0);
    let number = world.github.pulls()[0].number;
    let before = world.github.writes().len();
    let output = world.run(&["issue", &format!("acme/app#{number}"), "--quiet"]);
    expect![[r#"
        exit 2
        --- stderr
        error: acme/app#8 is a pull request, not an issue

        hint: give the number of an issue; `patchwright review` reviews pull requests
    "#]]
    .assert_eq(&output.text());
    assert_eq!(world.github.writes().len(), before);
}

#[test]
fn with_an_image_that_is_not_there() {
    if !crate::issue::docker_answers() {
        return;
    }
    let world = world(github())
        .set("PATCHWRIGHT_SANDBOX", "docker")
        .set("PATCHWRIGHT_IMAGE", "patchwright-no-such-image:1");
    let output = world.run(ISSUE).expect(70);
    assert!(output.stderr.contains("`patchwright-no-such-image:1`"), "{}", output.text());
    assert!(output.stderr.contains("hint: "), "{}", output.text());
    assert_eq!(world.github.branches().len(), 1);
}

/// A full disk, wherever in a run it fills up: the state folder is a small file system of its own.
#[test]
fn with_a_disk_that_fills_up() {
    for kilobytes in [16, 64, 256, 1024, 4096] {
        let world = TestWorld::new(github(), crate::support::world::fix());
        let args = &["issue", "acme/app#7"];
        let output = on_own_disk(&world, args, &format!("size={kilobytes}k"));
        let Some(output) = output else { return };
        let (text, said) = (output.text(), &output.stderr);
        assert_eq!(output.code, 1, "{kilobytes} KB: this machine is to blame: {text}");
        assert!(
            said.contains("error: ") && said.contains("No space left"),
            "{kilobytes} KB: {text}"
        );
        assert!(said.contains("hint: free some space on "), "{kilobytes} KB: {text}");
        let before = " MB left, and the run may end for it: free some space on the disk";
        assert!(said.contains(before), "{kilobytes} KB: {text}");
        assert!(!said.contains("`patchwright doctor`"), "{kilobytes} KB: {text}");
        assert!(!said.contains("panicked"), "{kilobytes} KB: {text}");
        assert_eq!((world.github.pulls().len(), world.github.branches().len()), (0, 1));
    }
}

/// What a model goes on with is paid for, so the run ends as soon as nothing can be kept.
#[test]
fn with_a_disk_that_fills_up_while_the_model_works() {
    for kilobytes in [0, 4, 16, 32] {
        let Some(disk) = SmallDisk::mount(128 << 20) else { return };
        let mut turns = crate::support::world::fix();
        let command = "echo '# more' >> calc.sh; until test -e go; do sleep 0.1; done";
        turns[2] = call("shell_command", serde_json::json!({"command": command}));
        let end = turns[4].clone();
        let state = disk.path().join("state");
        let world = TestWorld::new(github(), turns)
            .set("PATCHWRIGHT_STATE_DIR", state.display().to_string());
        let child = world.spawn(ISSUE);
        wait_for(|| world.model.requests().len() == 3);
        disk.fill(kilobytes << 10);
        for output in [world.wait(child), world.run(ISSUE)] {
            let (said, text) = (&output.stderr, output.text());
            assert_eq!(output.code, 1, "{kilobytes} KB: {text}");
            for part in ["No space left", "hint: free some space"] {
                assert!(said.contains(part), "{kilobytes} KB: {part}: {text}");
            }
            assert!(!said.contains("`patchwright doctor`"), "{kilobytes} KB: {text}");
        }
        assert!(world.github.pulls().is_empty(), "{kilobytes} KB");
        disk.free();
        world.model.replace([end.clone(), end]);
        world.run(ISSUE).expect(0);
        assert_eq!(world.github.pulls().len(), 1, "{kilobytes} KB");
        assert_eq!(fs_err::read_dir(state.join("runs")).unwrap().count(), 1, "it was resumed");
    }
}

/// The machine may be one that nobody comes back to. What the sandbox took is free again by then.
#[test]
fn with_a_disk_that_fills_up_the_work_so_far_is_kept() {
    let Some(disk) = SmallDisk::mount(128 << 20) else { return };
    let shell = |command: &str| call("shell_command", serde_json::json!({"command": command}));
    let mut turns = crate::support::world::fix();
    turns[2] = shell("head -c 8000000 /dev/zero > .git/large; echo kept >> kept.txt");
    turns.insert(3, shell("echo '# more' >> calc.sh; until test -e go; do sleep 0.1; done"));
    let state = disk.path().join("state");
    let world =
        TestWorld::new(github(), turns).set("PATCHWRIGHT_STATE_DIR", state.display().to_string());
    let child = world.spawn(ISSUE);
    wait_for(|| world.model.requests().len() == 4);
    disk.fill(0);
    let output = world.wait(child).expect(1);
    for part in ["No space left", "hint: free some space", "change.patch"] {
        assert!(output.stderr.contains(part), "{part}: {}", output.text());
    }
    let run = fs_err::read_dir(state.join("runs")).unwrap().next().unwrap().unwrap().path();
    let patch = fs_err::read_to_string(run.join("change.patch")).unwrap();
    assert!(patch.contains("kept.txt") && patch.contains("$1 + $2"), "{patch}");
}

/// A model that was told of a full disk would do without what it needs.
#[test]
fn with_a_disk_that_has_room_again() {
    let Some(disk) = SmallDisk::mount(128 << 20) else { return };
    let shell = |command: &str| call("shell_command", serde_json::json!({"command": command}));
    // No faster than the guest looks: it ends the command before there is no room at all.
    let fills = "while head -c 1000000 /dev/zero >> .git/large; do sleep 0.03; done; rm .git/large";
    let fix = crate::support::world::fix();
    let state = disk.path().join("state");
    let world = TestWorld::new(github(), [shell(fills), stall()])
        .set("PATCHWRIGHT_STATE_DIR", state.display().to_string());
    for asked in [2, 3] {
        let mut child = world.spawn(ISSUE);
        wait_for(|| world.model.requests().len() == asked);
        child.kill().unwrap();
        world.wait(child);
        world.model.replace([stall()]);
    }
    world.model.replace(fix);
    world.run(ISSUE).expect(0);
    assert!(world.told().contains("the disk below the workspace is nearly full"));
    let again = "The disk that was full has room again.";
    let last = world.model.requests().pop().unwrap();
    let last = String::from_utf8_lossy(&last.raw).into_owned();
    assert_eq!(last.matches(again).count(), 1, "once: {last}");
}

/// What a call could not write is no work that was done, whatever the model makes of it.
#[test]
fn with_a_disk_that_a_call_finds_full() {
    let Some(disk) = SmallDisk::mount(128 << 20) else { return };
    let writes = "head -c 400000 /dev/zero > big || { rm -f big; exit 1; }";
    let shell = |command: &str| call("shell_command", serde_json::json!({"command": command}));
    let said = crate::support::model::say("There is nothing to change.");
    let state = disk.path().join("state");
    let world = TestWorld::new(github(), [shell("sleep 8"), shell(writes), said])
        .set("PATCHWRIGHT_STATE_DIR", state.display().to_string());
    let child = world.spawn(ISSUE);
    wait_for(|| world.model.requests().len() == 1);
    std::thread::sleep(std::time::Duration::from_secs(1));
    disk.fill(128 << 10);
    let output = world.wait(child);
    assert_eq!(output.code, 1, "{}", output.text());
    for part in ["No space left", "hint: free some space"] {
        assert!(output.stderr.contains(part), "{part}: {}", output.text());
    }
    assert_eq!(world.model.requests().len(), 2, "no other turn is paid for");
    disk.free();
    world.model.replace(crate::support::world::fix().split_off(1));
    world.run(ISSUE).expect(0);
    assert_eq!(world.github.pulls().len(), 1);
    assert_eq!(fs_err::read_dir(state.join("runs")).unwrap().count(), 1, "it was resumed");
}

/// On a full disk files can still be made.
#[test]
fn with_a_full_disk_the_doctor_says_so() {
    let world = world(github());
    let Some(output) = on_own_disk(&world, &["doctor"], "size=16k") else { return };
    let line = output.stdout.lines().find(|line| line.contains("  state folder: ")).unwrap();
    assert!(line.starts_with("FAIL") && line.contains("No space left"), "{}", output.text());
}

#[test]
fn with_a_disk_from_which_nothing_may_be_started() {
    let world = world(github());
    let Some(output) = on_own_disk(&world, &["doctor"], "size=100m,noexec") else { return };
    let said = &output.expect(2).stdout;
    assert!(
        said.contains("the guest of the local sandbox does not start: Permission denied"),
        "{said}"
    );
    assert!(said.contains("fix: its disk is mounted `noexec`"), "{said}");
    assert!(!said.contains("namespaces for mounts"), "{said}");
}

/// Runs a command with a state folder on a disk with these options; `None` where one may not mount anything.
#[expect(clippy::disallowed_methods, reason = "starts the program in a namespace of its own")]
fn on_own_disk(
    world: &TestWorld,
    args: &[&str],
    options: &str,
) -> Option<crate::support::world::Output> {
    fs_err::create_dir(world.path("state")).unwrap();
    let plain = world.command(args);
    let script = format!("mount -t tmpfs -o {options} none state || exit 99; exec \"$@\"");
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    command.arg(plain.get_program()).args(plain.get_args()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(world.folder.path());
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let output = world.wait(command.spawn().unwrap());
    if output.code == 99 || output.stderr.starts_with("unshare: ") {
        eprintln!("no mounts for ordinary users here, skipped: {}", output.stderr.trim());
        return None;
    }
    Some(output)
}

/// A token of which nobody needs to be asked: it cannot even be sent.
#[test]
fn with_a_token_that_cannot_be_sent() {
    let world = world(github()).set("GITHUB_TOKEN", "ghp_test0123456789abcdefghijkl\nAAAA");
    check(
        &world,
        ISSUE,
        &expect![[r#"
        exit 60
        --- stderr
        error: the token is missing, wrong or expired: it has a line break, or another character that no token has

        hint: set `GITHUB_TOKEN` to a token with `contents: write`, `issues: write` and `pull-requests: write`
    "#]],
    );
    let output = world.run(&["worker", "--until-idle"]).expect(60);
    assert!(output.stderr.contains("it has a line break"), "{}", output.text());
    let doctor = world.run(&["doctor"]).expect(2).stdout;
    assert!(
        doctor.contains("FAIL  token: the token is missing, wrong or expired: it has"),
        "{doctor}"
    );
    assert!(!doctor.contains("AAAA"), "{doctor}");
}

/// Nobody else on this machine has it.
const SOMEBODY: u32 = 54_321;

/// A world whose folder is somebody else's, and a command that they run there; `None` where nobody can be made them.
fn of_somebody() -> Option<TestWorld> {
    // Nobody else can become another user.
    rustix::process::geteuid().is_root().then(|| {
        let world = world(github());
        std::os::unix::fs::chown(world.folder.path(), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        world
    })
}

fn by_somebody(world: &TestWorld, args: &[&str]) -> Output {
    use std::os::unix::process::CommandExt;
    world.wait(world.command(args).uid(SOMEBODY).gid(SOMEBODY).spawn().unwrap())
}

/// The everyday way to it is one command with `sudo`.
#[test]
fn with_a_part_of_the_state_folder_that_another_user_has_made() {
    let Some(world) = of_somebody() else { return };
    for part in ["runs", "locks", "unfinished", "mirrors"] {
        let folder = world.path("state").join(part);
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(world.path("state"), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        let output = by_somebody(&world, ISSUE).expect(1);
        let said = format!("state/{part}` in the state folder cannot be used");
        assert!(output.stderr.contains(&said), "{}", output.text());
        assert!(output.stderr.contains("give it back with `chown -R`"), "{}", output.text());
        let doctor = by_somebody(&world, &["doctor"]).expect(2).stdout;
        assert!(doctor.contains("FAIL  state folder: ") && doctor.contains(&said), "{doctor}");
        fs_err::remove_dir(&folder).unwrap();
    }
}

#[test]
fn with_a_database_that_another_user_has_made() {
    let Some(world) = of_somebody() else { return };
    fs_err::create_dir(world.path("state")).unwrap();
    std::os::unix::fs::chown(world.path("state"), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    let database = world.path("state/fleet.db");
    fs_err::write(&database, "").unwrap();
    fs_err::set_permissions(&database, std::fs::Permissions::from_mode(0o600)).unwrap();
    let worker = by_somebody(&world, &["worker", "--until-idle"]).expect(1);
    let doctor = by_somebody(&world, &["doctor"]).expect(2);
    for (said, fix) in [(worker.stderr, "hint: "), (doctor.stdout, "fix: ")] {
        assert!(said.contains("fleet.db`: cannot open it: Permission denied"), "{said}");
        assert!(said.contains("; it belongs to the user 0"), "{said}");
        assert!(said.contains(&format!("{fix}the user who runs this has to be able to")), "{said}");
        assert!(!said.contains("restore it"), "{said}");
    }
}

/// As in a small cgroup.
#[test]
#[expect(clippy::disallowed_methods, reason = "starts the program under a limit")]
fn with_too_few_threads() {
    use std::os::unix::process::CommandExt;
    let Some(world) = of_somebody() else { return };
    for most in 1..=6 {
        let program = world.command(&[]);
        let limited = format!("ulimit -u {most}; exec \"$0\" completions bash");
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &limited]).arg(program.get_program()).current_dir(world.folder.path());
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = command.uid(SOMEBODY).gid(SOMEBODY).spawn().unwrap();
        let output = world.wait(child).expect(1);
        let text = output.text();
        assert!(output.stderr.contains("cannot start: there are too few threads for it"), "{text}");
        assert!(output.stderr.contains("hint: raise the limit"), "{text}");
        assert!(!output.stderr.contains("panicked"), "{text}");
    }
}

/// Without an end: a device, a pipe of a program that goes on, and a file of the wrong kind.
#[test]
fn files_without_an_end_are_refused() {
    let most = "`/dev/zero` has more than";
    for (args, cause) in [
        (&["issue", "acme/app#7", "--config", "/dev/zero"][..], most),
        (&["issue", "acme/app#7", "--model", "scripted:/dev/zero"], most),
        (&["batch", "plan", "/dev/zero"], most),
        (&["exec", "Look", "--repo", ".", "--output-schema", "/dev/zero"], most),
        (&["doctor", "--workflow", "/dev/zero"], most),
        (
            &[
                "issue",
                "acme/app#7",
                "--sandbox-pod-template",
                "/dev/zero",
                "--sandbox",
                "kubernetes",
            ],
            most,
        ),
    ] {
        let output = world(github()).run(args);
        assert!(output.text().contains(cause), "{args:?}: {}", output.text());
        assert_eq!(output.code, 2, "{args:?}: {}", output.text());
    }
    let names = "`/dev/zero` is a device";
    for (name, args) in [
        ("SSL_CERT_FILE", ISSUE),
        ("KUBECONFIG", &["issue", "acme/app#7", "--sandbox", "kubernetes"][..]),
    ] {
        let output = world(github()).set(name, "/dev/zero").run(args);
        assert!(output.stderr.contains(names), "{name}: {}", output.text());
    }
}

/// The pages of a server are no API: what they answer says so, and not that something is not there.
#[test]
fn an_address_of_pages_in_place_of_the_api() {
    let world = world(github());
    let server = world.github.server_url();
    let page = Kind::Text(404, "<html><title>Page not found</title></html>".to_owned());
    world.github.fault(Fault::once("GET", "", page).times(99));
    let world =
        world.set("GITHUB_API_URL", server.clone()).set("GITHUB_SERVER_URL", server.clone());
    let output = world.run(ISSUE).expect(60);
    let told = format!("set `GITHUB_API_URL` to `{server}/api/v3`").replace("http://", "");
    let said = output.stderr.replace("http://", "");
    assert!(said.contains(&told), "{said}");
    assert!(!said.contains("was not found"), "{said}");
}
