//! `apply_patch` in commands: a program in the middle of scripts, in the local sandbox and in containers;
//! and whole commands, which are answered as commands and meet the rules about patches.

use std::time::Duration;

use patchwright_config::tools::Tools;
use patchwright_guest::tool::{CommandOutput, ToolOutput};
use patchwright_provider::item::{CallOutput, Content};
use patchwright_sandbox::client::Client;
use patchwright_sandbox::local::LocalSandbox;
use patchwright_sandbox::{ContainerLimits, ImageSpec, PreparedImage, Sandbox, SandboxSpec};
use patchwright_tools::services::Services;
use serde_json::{Value, json};

use crate::support::docker::{BUSYBOX, IMAGE, docker};
use crate::support::guest::{Guest, sh};
use crate::support::tool_desk::{ToolDesk, model};

/// Adds a file of this name.
fn adding(name: &str) -> String {
    format!("*** Begin Patch\n*** Add File: {name}\n+it's\n*** End Patch")
}

fn heredoc(name: &str) -> String {
    format!("apply_patch <<'EOF'\n{}\nEOF", adding(name))
}

const MISSING: &str = "*** Begin Patch\n*** Update File: none\n@@\n-a\n+b\n*** End Patch";

async fn call(client: &Client, tool: &str, args: Value) -> ToolOutput {
    client.tool(tool, args, 64 << 10, Duration::from_mins(2)).await.unwrap()
}

async fn run(client: &Client, args: Value) -> CommandOutput {
    call(client, "exec_command", args).await.command.unwrap()
}

async fn cat(client: &Client, name: &str) -> String {
    client.exec(sh(&format!("cat '{name}'"))).await.unwrap().output
}

/// Every way in which scripts call the program. `login` is how login shells are started here.
async fn scripts_patch(client: &Client, login: &str) {
    client.exec(sh("mkdir -p src")).await.unwrap();
    let table = [
        ("then", format!("{}\necho then", heredoc("then"))),
        ("and", heredoc("and").replacen("'EOF'", "'EOF' && echo ok", 1)),
        ("src/semicolon", format!("cd src; {}", heredoc("semicolon"))),
        ("set", format!("set -e\n{}", heredoc("set"))),
        ("comment", format!("# adds a file\n{}", heredoc("comment"))),
        ("file", format!("cat > p <<'X'\n{}\nX\napply_patch < p; rm p", adding("file"))),
        ("echo", format!("echo \"{}\" | apply_patch", adding("echo"))),
        ("argument", format!("true && apply_patch \"{}\"", adding("argument"))),
        ("alias", format!("true; applypatch <<'EOF'\n{}\nEOF", adding("alias"))),
        ("two", format!("{}\n{}", heredoc("one"), heredoc("two"))),
        ("login", format!("true; {login} \"{}\"", heredoc("login"))),
    ];
    for (name, script) in table {
        let output = run(client, json!({"cmd": script})).await;
        let updated = format!(
            "Success. Updated the following files:\nA {}\n",
            name.trim_start_matches("src/")
        );
        assert_eq!(output.exit_code, 0, "{script}\n{}", output.output);
        assert!(output.output.contains(&updated), "{script}\n{}", output.output);
        assert_eq!(cat(client, name).await, "it's\n", "{script}");
    }
    assert_eq!(cat(client, "one").await, "it's\n");
    let output =
        run(client, json!({"cmd": format!("true; {}", heredoc("as-login")), "login": true})).await;
    assert_eq!(output.exit_code, 0, "{}", output.output);
}

/// Sandboxes without ripgrep have one, whatever is switched off; a program of that name elsewhere on `PATH`
/// wins.
async fn scripts_search(client: &Client, login: &str) {
    let made = "mkdir -p found out; printf 'one\\ntwo\\n' > found/a.py; echo two > out/b.py; echo out/ > .ignore";
    client.exec(sh(made)).await.unwrap();
    let own = "mkdir -p own && printf '#!/bin/sh\\necho mine\\n' > own/rg && chmod +x own/rg && \
               PATH=$PWD/own:$PATH rg x; rm -r own";
    let login = format!("{login} 'rg -n two found'");
    for (script, code, end) in [
        ("rg -l two", 0, "found/a.py\n"),
        (login.as_str(), 0, "found/a.py:2:two\n"),
        ("rg three found", 1, ""),
        ("echo two | rg -c two", 0, "1\n"),
        (own, 0, "mine\n"),
    ] {
        let output = run(client, json!({"cmd": script, "patches": "nowhere"})).await;
        assert_eq!((output.exit_code, output.output.as_str()), (code, end), "{script}");
    }
    client.exec(sh("rm -r found out .ignore")).await.unwrap();
}

/// What the program says when it cannot, and what it must not do.
async fn scripts_are_told_what_is_wrong(client: &Client, workspace: &str) {
    let tell = async |args: Value| {
        let output = run(client, args).await;
        (output.exit_code, output.output)
    };
    let missing = format!("true; apply_patch <<'EOF'\n{MISSING}\nEOF");
    let told = format!(
        "Failed to read file to update {workspace}/none: No such file or directory (os error 2)\n"
    );
    assert_eq!(tell(json!({"cmd": missing})).await, (1, told));
    let (code, usage) = tell(json!({"cmd": "true; apply_patch < /dev/null"})).await;
    assert!(code == 2 && usage.starts_with("Usage: apply_patch 'PATCH'"), "{code} {usage}");
    assert_eq!(tell(json!({"cmd": "true; apply_patch a b 2> /dev/null"})).await.0, 2);
    let (code, text) = tell(json!({"cmd": "true; apply_patch 'no patch'"})).await;
    assert!(code == 1 && text.starts_with("Invalid patch: The first line"), "{text}");
    for script in [
        format!("cd /tmp; {}", heredoc("outside")),
        format!("true; {}", heredoc("/tmp/outside")),
        format!("true; {}", heredoc("../outside")),
        format!("ln -s /tmp out; {}", heredoc("out/outside")),
        format!("mkdir -p .git; {}", heredoc(".git/hook")),
    ] {
        let (code, text) = tell(json!({"cmd": script})).await;
        let is_refused = text.contains("Failed to write file") || text.contains("outside");
        assert!(code == 1 && is_refused, "{code} {text}");
    }
    assert_eq!(tell(json!({"cmd": "ls /tmp/outside .git/hook 2> /dev/null"})).await.1, "");

    // A program of the repository's own comes first, and checks do not have ours.
    let script = "mkdir -p own; printf '#!/bin/sh\\necho mine\\n' > own/apply_patch; chmod +x own/apply_patch; \
                  PATH=$PWD/own:$PATH; apply_patch x";
    assert_eq!(tell(json!({"cmd": script})).await, (0, "mine\n".to_owned()));
    assert_ne!(client.exec(sh("command -v apply_patch")).await.unwrap().exit_code, 0);

    // Rules of the host.
    let inner = format!("true; {}", heredoc("ruled"));
    let (code, text) = tell(json!({"cmd": inner, "patches": "whole"})).await;
    assert!(code == 1 && text.contains("This run has rules about patches"), "{text}");
    for script in [inner, heredoc("ruled")] {
        assert_eq!(tell(json!({"cmd": script, "patches": "nowhere"})).await.0, 127);
    }
    assert!(cat(client, "ruled").await.contains("No such file"));
}

fn spec(run: &str, image: PreparedImage) -> SandboxSpec {
    let limits = ContainerLimits { pids: 128, ..ContainerLimits::default() };
    let (run, env) = (run.to_owned(), [].into());
    SandboxSpec { image, run, purpose: "agent", env, limits, egress: None, services: Vec::new() }
}

#[tokio::test]
async fn scripts_find_the_program_in_the_local_sandbox() {
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sandbox = LocalSandbox::new(state.path().to_owned());
    let plain = ImageSpec::plain("acme/app".to_owned(), None, "r1");
    let image = sandbox.prepare(&plain).await.unwrap();
    let running = sandbox.start(&spec("r1", image)).await.unwrap();
    scripts_search(&running.client, "bash -lc").await;
    scripts_patch(&running.client, "bash -lc").await;
    scripts_are_told_what_is_wrong(&running.client, &running.workspace).await;
    // The shell that stays has it too, and knows where it is.
    let bash =
        async |command: String| call(&running.client, "bash", json!({"command": command})).await;
    assert!(bash("mkdir -p deep; cd deep".to_owned()).await.success);
    assert!(bash(format!("true; {}", heredoc("inner"))).await.success);
    assert_eq!(cat(&running.client, "deep/inner").await, "it's\n");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn scripts_find_the_program_in_containers() {
    let Some(docker) = docker().await else { return };
    for (image, login) in [(IMAGE, "bash -lc"), (BUSYBOX, "sh -lc")] {
        let prepared = PreparedImage {
            reference: image.to_owned(),
            description: image.to_owned(),
            ..PreparedImage::default()
        };
        let running = docker.sandbox.start(&spec(&docker.run, prepared)).await.unwrap();
        scripts_search(&running.client, login).await;
        scripts_patch(&running.client, login).await;
        scripts_are_told_what_is_wrong(&running.client, &running.workspace).await;
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_whole_command_is_answered_as_a_command_by_every_shell() {
    let guest = Guest::start().await;
    let workspace = guest.workspace();
    let told = format!(
        "apply_patch verification failed: Failed to read file to update {}/none: No such file or \
         directory (os error 2)\n",
        workspace.display()
    );
    let fails = format!("apply_patch <<'EOF'\n{MISSING}\nEOF");
    for (tool, field) in
        [("exec_command", "cmd"), ("shell_command", "command"), ("bash", "command")]
    {
        let output = call(&guest.client, tool, json!({field: heredoc(tool)})).await;
        let command = output.command.unwrap();
        let text = format!("Success. Updated the following files:\nA {tool}\n");
        assert_eq!((command.exit_code, command.output), (0, text), "{tool}");
        assert_eq!((output.success, output.changed), (true, vec![tool.to_owned()]), "{tool}");
        let output = call(&guest.client, tool, json!({field: fails})).await;
        let command = output.command.unwrap();
        assert_eq!((command.exit_code, command.output), (1, told.clone()), "{tool}");
        assert!(!output.success && output.changed.is_empty(), "{tool}");
    }
    let words = json!({"commands": [heredoc("hosted"), fails, "echo next"]});
    let output = call(&guest.client, "hosted_shell", words).await;
    let codes: Vec<i32> = output.commands.iter().map(|command| command.exit_code).collect();
    assert_eq!((codes, output.changed), (vec![0, 1, 0], vec!["hosted".to_owned()]));
    // In the shell that stays, it is where the shell is, and a `cd` before it counts for what comes.
    let bash =
        async |command: String| call(&guest.client, "bash", json!({"command": command})).await;
    bash("mkdir -p a/b; cd a".to_owned()).await;
    assert_eq!(bash(heredoc("here")).await.changed, ["a/here"]);
    assert_eq!(bash(format!("cd b && {}", heredoc("there"))).await.changed, ["a/b/there"]);
    assert_eq!(
        bash("pwd".to_owned()).await.command.unwrap().output,
        format!("{}/a/b\n", workspace.display())
    );
    let inner = format!("bash -lc \"cd .. && {}\"", heredoc("above"));
    assert_eq!(bash(inner).await.changed, ["a/above"]);
    assert!(bash("pwd".to_owned()).await.command.unwrap().output.ends_with("/a/b\n"));
    assert!(!bash(format!("cd none && {}", heredoc("never"))).await.success);
}

fn text(output: &CallOutput) -> &str {
    match output.content.as_slice() {
        [Content::Text { text }, ..] => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_family_reads_the_answer_as_that_of_a_command() {
    let fails = format!("apply_patch <<'EOF'\n{MISSING}\nEOF");
    let heads = [
        (
            "gpt-5.3-codex",
            "exec_command",
            "cmd",
            "Process exited with code 0\n",
            "Process exited with code 1\n",
        ),
        ("claude-sonnet-5", "bash", "command", "Exit code 0\n", "Exit code 1\n"),
        ("gemini-3-pro", "run_shell_command", "command", "\nExit Code: 0", "\nExit Code: 1"),
    ];
    for (slug, tool, field, good, bad) in heads {
        let desk = ToolDesk::new(slug).await;
        let output = desk.json(tool, json!({field: heredoc("made")})).await;
        assert!(output.success && text(&output).contains(good), "{slug}: {}", text(&output));
        assert!(text(&output).contains("A made"), "{slug}: {}", text(&output));
        let output = desk.json(tool, json!({field: fails})).await;
        assert!(!output.success && text(&output).contains(bad), "{slug}: {}", text(&output));
        assert!(text(&output).contains("apply_patch verification failed: "), "{slug}");
    }
}

/// A desk with the operator's rules.
async fn ruled(config: Value) -> ToolDesk {
    let config: Tools = serde_json::from_value(config).unwrap();
    let model = model("gpt-5.3-codex");
    let tools = patchwright_tools::registry::ToolSet::for_run(
        &model,
        patchwright_config::Mode::Execute,
        &[],
    );
    let tools = tools.unwrap().without(&config.disabled);
    ToolDesk::with(model, tools, Services { config, ..Services::default() }).await
}

#[tokio::test]
async fn a_patch_that_is_switched_off_is_off_in_commands_too() {
    let desk = ruled(json!({"disabled": ["apply_patch"]})).await;
    for script in [heredoc("off"), format!("true; {}", heredoc("off"))] {
        let output = desk.json("exec_command", json!({"cmd": script})).await;
        assert!(text(&output).contains("Process exited with code 127\n"), "{}", text(&output));
    }
    assert!(!desk.guest.workspace().join("off").exists());
}

#[tokio::test]
async fn hooks_about_patches_hear_of_those_in_commands() {
    let hook = |when: &str, answer: &str| json!({"hooks": [{"when": when, "tools": ["apply_patch"], "command": format!("echo '{answer}'")}]});
    let desk = ruled(hook("before", r#"{"deny":"frozen"}"#)).await;
    let commands = [
        ("exec_command", json!({"cmd": heredoc("x")})),
        ("shell", json!({"command": ["bash", "-lc", heredoc("x")]})),
        ("bash", json!({"command": heredoc("x")})),
    ];
    for (tool, args) in commands {
        let output = desk.json(tool, args).await;
        assert!(
            text(&output).contains("not run, by a rule of this run: frozen"),
            "{}",
            text(&output)
        );
    }
    assert!(!desk.guest.workspace().join("x").exists());
    let output = desk.json("exec_command", json!({"cmd": "echo free"})).await;
    assert!(text(&output).ends_with("free\n"), "{}", text(&output));

    let desk = ruled(hook("after", r#"{"note":"formatted"}"#)).await;
    let output = desk.json("exec_command", json!({"cmd": heredoc("x")})).await;
    assert!(text(&output).ends_with("\nNote: formatted"), "{}", text(&output));
    assert_eq!(desk.file("x"), "it's\n");
}

#[tokio::test]
async fn a_script_of_the_model_sees_the_exit_code() {
    let desk = ToolDesk::new("gpt-6.1-sol").await;
    let fails = format!("apply_patch <<'EOF'\n{MISSING}\nEOF");
    for (script, code) in [(heredoc("made"), 0), (fails, 1)] {
        let source = format!(
            "const r = await tools.exec_command({{cmd: {}}}); text('exit ' + r.exit_code)",
            json!(script)
        );
        let output = desk.free("exec", &source).await;
        let shown = format!("{:?}", output.content);
        assert!(output.success && shown.contains(&format!("exit {code}")), "{shown}");
    }
}
