//! `patchwright doctor`: one line a check, and the fix for what is wrong.

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
