//! `patchwright doctor`: one line a check, and the fix for what is wrong.

use std::os::unix::fs::PermissionsExt;

use expect_test::expect;
use serde_json::json;

use crate::support::github::GitHub;
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

/// Each is tried as a run would use it; what one says is no other's trouble, and no secret is printed.
#[test]
fn mcp_servers_are_asked_for_their_tools() {
    let script = include_str!("support/mcp_server.py");
    let config = json!({
        "network": {"allow": ["away.example:9=127.0.0.1"]},
        "mcp": {
            "good": {"command": ["python3", "-u", "-c", script, "tells"], "start-timeout-seconds": 60},
            "absent": {"command": ["no-such-server"]},
            "silent": {"command": ["python3", "-u", "-c", script, "silent"], "start-timeout-seconds": 1},
            "away": {
                "url": "http://away.example:9/mcp", "headers": {"Authorization": "Bearer ${PATCHWRIGHT_MCP_AWAY}"},
            },
            "barred": {"url": "https://mcp.example/mcp"},
        },
    });
    let world = TestWorld::local([]).set("PATCHWRIGHT_MCP_AWAY", "hush-hush-0123456789");
    world.write("config.yml", &config.to_string());
    let output = world.run(&["doctor", "--config", "config.yml"]).expect(2);
    let line = |name: &str| {
        let what = format!("MCP server {name}: ");
        let line = output.stdout.lines().find(|line| line.contains(&what));
        line.unwrap_or_else(|| panic!("no {name}: {}", output.text())).to_owned()
    };
    assert!(line("good").starts_with("ok"), "{}", line("good"));
    assert!(line("good").contains("`mcp__good__go`"), "{}", line("good"));
    for (name, words) in [
        ("absent", "there is no program `no-such-server`"),
        ("silent", "did not start"),
        ("away", "did not start"),
        ("barred", "may not be reached"),
    ] {
        let line = line(name);
        assert!(line.starts_with("FAIL") && line.contains(words), "{line}");
    }
    assert!(!output.text().contains("hush-hush"), "{}", output.text());
    let world = world.set("PATCHWRIGHT_SANDBOX", "docker");
    let output = world.run(&["doctor", "--config", "config.yml"]);
    let tried = |line: &&str| line.contains("MCP server good: not tried: ");
    assert!(output.stdout.lines().any(|line| tried(&line)), "{}", output.text());
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

/// The line of a check, and its fix below it.
fn line<'a>(said: &'a str, about: &str) -> &'a str {
    let at = said.find(&format!("  {about}: ")).unwrap_or_else(|| panic!("{about}: {said}"));
    let start = said[..at].rfind('\n').map_or(0, |end| end + 1);
    said[start..].split("\nok ").next().unwrap()
}

#[test]
fn an_app_is_told_where_it_is_installed_and_what_it_lacks() {
    // What the App signs is dated by the real clock.
    let now = patchwright_base::clock::Clock::default().now().to_rfc3339();
    let patchy = || github().app("patchy");
    let doctor = |github: GitHub, code: u8| {
        let world = TestWorld::new(github, []).unset("GITHUB_TOKEN");
        let (id, key) = (world.github.app().client_id, world.github.app_key());
        let world = world
            .set("PATCHWRIGHT_NOW", &now)
            .set("PATCHWRIGHT_APP_ID", id)
            .set("PATCHWRIGHT_APP_PRIVATE_KEY", key)
            .set("DOCKER_HOST", "unix:///nowhere/docker.sock");
        let output = world.run(&["doctor", "acme/app"]);
        assert_eq!(i32::from(code), output.code, "{}", output.text());
        output.stdout
    };
    let said = doctor(patchy().installation("acme"), 0);
    assert!(line(&said, "app").starts_with("ok    app: is `patchy[bot]`"), "{said}");
    assert!(line(&said, "installation").contains("of `acme`"), "{said}");
    assert!(line(&said, "contents").starts_with("ok"), "{said}");

    let fewer = patchy().installation("acme").with_installation(|one| {
        one.permissions.remove("pull_requests");
        one.permissions.remove("checks");
    });
    let said = doctor(fewer, 2);
    assert!(said.contains("FAIL  permissions: lacks `pull-requests: write`\n"), "{said}");
    assert!(line(&said, "permissions").contains("accept the change"), "{said}");
    assert!(said.contains("`checks: write`"), "{said}");

    let said = doctor(patchy(), 2);
    assert!(line(&said, "installation").contains("install the App for `acme`"), "{said}");
}

/// GitHub knows no role of a bot.
#[test]
fn the_token_of_a_job_is_no_person_without_access() {
    let world = TestWorld::new(github().actions_token(), []);
    let output =
        world.set("DOCKER_HOST", "unix:///nowhere/docker.sock").run(&["doctor", "acme/app"]);
    assert_eq!(output.code, 0, "{}", output.text());
    assert!(line(&output.stdout, "access").starts_with("note  access: `github-actions[bot]`"));
}

#[test]
fn a_workflow_is_told_of_in_bounded_words() {
    let world = TestWorld::local([]);
    let text = format!("on: push\njobs: {}\n", "x".repeat(3 << 20));
    let path = world.path("w.yml");
    fs_err::write(&path, text).unwrap();
    let output = world.run(&["doctor", "--workflow", &path.display().to_string()]);
    assert!(output.stdout.contains("is no workflow"), "{}", output.code);
    assert!(output.stdout.len() < 10_000, "{} bytes", output.stdout.len());
}

#[test]
fn a_prompt_that_quotes_what_others_write_is_flagged() {
    let check = |prompt: &str| {
        let step =
            format!("{{ uses: patchwright/patchwright@v0, with: {{ prompt: '{prompt}' }} }}");
        let text = format!("on: issue_comment\njobs: {{ a: {{ steps: [ {step} ] }} }}\n");
        let found = patchwright::doctor::workflow::check("w.yml", &text);
        found.iter().any(|it| it.message.contains("stands in a prompt"))
    };
    assert!(check("Do ${{ github.event.comment.body }}"));
    assert!(check("Do ${{ github.event.issue.title }}"));
    assert!(!check("Look at issue ${{ github.event.issue.number }}"));
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
