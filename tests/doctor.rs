//! `patchwright doctor`: one line a check, and the fix for what is wrong.

use std::os::unix::fs::PermissionsExt;

use expect_test::expect;

use crate::support::world::{TestWorld, github};

#[test]
fn a_sound_machine_and_repository_exit_with_zero() {
    let world = TestWorld::new(github(), []).set("DOCKER_HOST", "unix:///nowhere/docker.sock");
    let output = world.run(&["doctor", "acme/app"]).expect(0);
    let fine = |name: &str| {
        output.stdout.lines().any(|line| line.starts_with("ok") && line.contains(name))
    };
    for name in [
        "state folder",
        "local sandbox",
        "model",
        "model key",
        "token",
        "repository",
        "access",
        "contents",
    ] {
        assert!(fine(name), "{name}: {}", output.text());
    }
    assert_eq!(world.github.writes(), Vec::<String>::new());
}

#[test]
fn a_socket_that_this_user_may_not_use_is_no_absent_docker() {
    if rustix::process::geteuid().is_root() {
        // Who may use everything.
        return;
    }
    let world = TestWorld::local([]).set("PATCHWRIGHT_SANDBOX", "docker");
    let socket = world.path("docker.sock");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    fs_err::set_permissions(&socket, std::fs::Permissions::from_mode(0o000)).unwrap();
    let world = world.set("DOCKER_HOST", format!("unix://{}", socket.display()));
    let output = world.run(&["doctor"]).expect(2);
    assert!(output.stdout.contains("fix: let this user use Docker"), "{}", output.text());
    assert!(!output.stdout.contains("install and start Docker"), "{}", output.text());
}

#[test]
fn a_damaged_guest_is_repaired_and_one_that_may_not_run_is_told_as_such() {
    let world = TestWorld::local([]);
    let local = |output: &str| -> String {
        let line = output.lines().find(|line| line.contains("  local sandbox: "));
        line.unwrap_or_default().to_owned()
    };
    let fine = world.run(&["doctor"]);
    assert!(local(&fine.stdout).starts_with("ok"), "{}", fine.text());
    let version = fs_err::read_dir(world.path("state/guest")).unwrap().next().unwrap().unwrap();
    let guest = version.path().join("patchwright-guest");
    let sound = fs_err::read(&guest).unwrap();
    let mut damaged = sound.clone();
    damaged[..4096].fill(0);
    fs_err::set_permissions(&guest, std::fs::Permissions::from_mode(0o700)).unwrap();
    fs_err::write(&guest, &damaged).unwrap();
    let repaired = world.run(&["doctor"]);
    assert!(local(&repaired.stdout).starts_with("ok"), "{}", repaired.text());
    assert!(fs_err::read(&guest).unwrap() == sound, "the guest is as it was");
}

#[test]
fn what_is_wrong_comes_with_its_fix() {
    let world = TestWorld::new(github(), [])
        .set("PATCHWRIGHT_SANDBOX", "docker")
        .set("DOCKER_HOST", "unix:///nowhere/docker.sock")
        .set("GITHUB_TOKEN", "github_pat_11AAAAAAA0wrong")
        .unset("OPENAI_API_KEY")
        .unset("OPENAI_BASE_URL");
    let output = world.run(&["doctor", "acme/app"]).expect(2);
    let mut lines: Vec<&str> =
        output.stdout.lines().filter(|line| !line.contains("local sandbox")).collect();
    lines.retain(|line| !line.contains("state folder"));
    expect![[r#"
        FAIL  docker: Docker does not answer at `unix:///nowhere/docker.sock`: Socket not found: /nowhere/docker.sock
              fix: install and start Docker (`apt-get install docker.io`, `systemctl start docker`), or set `DOCKER_HOST`, or use `--sandbox local`
        ok    model: gpt-5.3-codex, wire: responses, tools: codex, context 272000 tokens
        ok    model endpoint: https://api.openai.com/v1/responses
        FAIL  model key: no key for `gpt-5.3-codex`
              fix: set `OPENAI_API_KEY`
        FAIL  token: the token is missing, wrong or expired: Bad credentials
              fix: make a new token"#]].assert_eq(&world.tidy(&lines.join("\n")));
}
