//! Who reads the streams of `exec` and `acp`, slowly, not at all, or as JSON; and terminals that are gone.
#![expect(clippy::disallowed_methods, reason = "sends a signal")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::exec::project;
use crate::support::model::{Turn, call, custom, say};
use crate::support::world::{PATCH, TestWorld, fix};

const FIXED: &str = "add() {\n  echo $(($1 + $2))\n}\n";

/// Commands that say much.
const WORDS: usize = 24;

/// The repair, and more words before it than a pipe holds.
fn wordy() -> Vec<Turn> {
    let command = |number| format!("echo {number}; head -c 30000 /dev/zero | tr '\\0' x");
    let words = |number| call("shell_command", json!({"command": command(number)}));
    let mut turns: Vec<Turn> = (0..WORDS).map(words).collect();
    turns.extend([custom("apply_patch", PATCH), say("Add adds now.")]);
    turns
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let status = std::process::Command::new("kill").arg(name).arg(pid).status();
    assert!(status.unwrap().success());
}

fn until(child: &mut Child, what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..12_000 {
        if is_so() {
            return;
        }
        if child.try_wait().unwrap().is_some() {
            let mut said = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut said);
            panic!("it ended before {what}: {said}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    panic!("it has waited too long for {what}");
}

/// Its exit code, though nobody reads what it says.
fn ended(child: &mut Child) -> i32 {
    for _ in 0..6_000 {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or_default();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    panic!("it does not end");
}

fn is_done(out: &Path) -> bool {
    let result = fs_err::read_to_string(out.join("result.json")).unwrap_or_default();
    serde_json::from_str::<Value>(&result).is_ok_and(|it| it["conclusion"] == "done")
}

const WITH_JSON: &[&str] =
    &["exec", "Make add add", "--repo", "project", "--apply", "--out", "out", "--json"];

#[test]
fn a_reader_that_stands_still_holds_up_no_run_and_has_everything_in_the_end() {
    let world = TestWorld::local(wordy());
    let folder = project(&world);
    let mut child = world.spawn(WITH_JSON);
    until(&mut child, "the result", || is_done(&world.path("out")));
    until(&mut child, "the change", || {
        fs_err::read_to_string(folder.join("calc.sh")).unwrap() == FIXED
    });
    let output = world.wait(child).expect(0);
    let lines: Vec<Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(output.stdout.len() > 80_000, "more than a pipe holds: {}", output.stdout.len());
    assert_eq!(lines.last().unwrap()["is"], "result");
}

#[test]
fn a_reader_that_stands_still_holds_up_no_signal() {
    let mut turns = wordy();
    turns.insert(WORDS + 1, call("shell_command", json!({"command": "sleep 300"})));
    let world = TestWorld::local(turns);
    project(&world);
    let mut child = world.spawn(WITH_JSON);
    until(&mut child, "the command", || {
        let journal = fs_err::read_to_string(world.path("out/journal.jsonl")).unwrap_or_default();
        journal.matches("\"is\":\"call_started\"").count() == WORDS + 2
    });
    signal(&child, "-TERM");
    assert_eq!(ended(&mut child), 143);
    assert!(world.path("out/change.patch").exists());
}

#[test]
fn an_editor_that_reads_nothing_any_more_holds_up_no_run_and_no_end() {
    let world = TestWorld::local(wordy());
    let folder = project(&world);
    let mut child = world.command(&["acp"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let mut ask = |id: u32, method: &str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(to, "{message}").unwrap();
    };
    ask(1, "initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
    from.read_line(&mut line).unwrap();
    ask(2, "session/new", json!({"cwd": folder, "mcpServers": []}));
    line.clear();
    from.read_line(&mut line).unwrap();
    let session: Value = serde_json::from_str(&line).unwrap();
    let prompt = json!([{"type": "text", "text": "Make add add"}]);
    let session = session["result"]["sessionId"].clone();
    ask(3, "session/prompt", json!({"sessionId": session, "prompt": prompt}));
    until(&mut child, "the change", || {
        fs_err::read_to_string(folder.join("calc.sh")).unwrap() == FIXED
    });
    drop(to);
    let code = ended(&mut child);
    assert!([0, 143].contains(&code), "{code}");
}

/// The log of a job shows both streams, and only one of them is for programs.
#[test]
fn json_stays_json_in_a_job_of_github_actions() {
    let world = TestWorld::local(fix()).set("GITHUB_ACTIONS", "true");
    let folder = project(&world);
    fs_err::write(folder.join("calc.sh"), "mine\n").unwrap();
    let output = world.run(WITH_JSON);
    let missing = ["exec", "Do it", "--repo", "project", "--json", "--model", "scripted:none.yml"];
    let refused = world.run(&missing);
    for (output, last) in [(output, "result"), (refused, "failure")] {
        let lines: Vec<Value> =
            output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.last().unwrap()["is"], last, "{}", output.text());
        assert!(output.stderr.contains("\n::error title=Patchwright::"), "{}", output.text());
    }
}

#[test]
fn a_terminal_that_is_gone_ends_no_run() {
    let mut turns = fix();
    turns.insert(0, call("shell_command", json!({"command": "touch begun; sleep 2"})));
    let world = TestWorld::local(turns);
    let folder = project(&world);
    let args = ["exec", "Make add add", "--repo", "project", "--apply", "--out", "out"];
    let mut child = world.spawn(&args);
    until(&mut child, "the command", || {
        let journal = fs_err::read_to_string(world.path("out/journal.jsonl")).unwrap_or_default();
        journal.contains("\"is\":\"call_started\"")
    });
    signal(&child, "-HUP");
    world.wait(child).expect(0);
    assert_eq!(fs_err::read_to_string(folder.join("calc.sh")).unwrap(), FIXED);
    assert!(is_done(&world.path("out")));
}

#[test]
fn what_serves_a_terminal_that_is_gone_ends() {
    let world = TestWorld::local(Vec::new());
    project(&world);
    for (nohup, expected) in [(false, 129), (true, 0)] {
        let mut command = if nohup {
            let mut command = std::process::Command::new("nohup");
            let acp = world.command(&["acp"]);
            command.arg(acp.get_program()).arg("acp").env_clear().current_dir(world.path(""));
            command.envs(acp.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command
        } else {
            world.command(&["acp"])
        };
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut to = child.stdin.take().unwrap();
        let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        writeln!(to, "{message}").unwrap();
        let mut from = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        signal(&child, "-HUP");
        if nohup {
            writeln!(to, "{message}").unwrap();
            line.clear();
            from.read_line(&mut line).unwrap();
            assert!(line.contains("\"id\":1"), "{line}");
            drop(to);
        }
        assert_eq!(ended(&mut child), expected);
        let mut rest = String::new();
        from.read_to_string(&mut rest).unwrap();
    }
}

/// Whoever opens the folder next, or only has git in their prompt, runs what is in it.
#[test]
fn a_change_that_runs_commands_when_somebody_looks_is_not_written_into_a_folder() {
    let patch = "*** Begin Patch\n*** Add File: assets/HEAD\n+ref: refs/heads/main\n*** Add File: assets/config\n+[core]\n+\trepositoryformatversion = 0\n+\tfsmonitor = touch /tmp/pwned\n*** End Patch\n";
    let turns = |patch| [custom("apply_patch", PATCH), custom("apply_patch", patch), say("Added.")];
    let world = TestWorld::local(turns(patch));
    let folder = project(&world);
    let args = ["exec", "Add assets", "--repo", "project", "--apply"];
    let output = world.run(&args).expect(2);
    assert!(output.stderr.contains("makes a folder a git repository"), "{}", output.text());
    assert!(output.stderr.contains("change.patch"), "{}", output.text());
    assert!(!folder.join("assets").exists());
    // What a person only has to look at is written, and named.
    let patch = "*** Begin Patch\n*** Add File: .envrc\n+echo hello\n*** End Patch\n";
    world.model.replace(turns(patch));
    let output = world.run(&args).expect(0);
    let said = "please look at: `.envrc`: can run commands when the folder is opened";
    assert!(output.stderr.contains(said), "{}", output.text());
    assert!(folder.join(".envrc").exists());
}

#[test]
fn a_change_that_is_not_written_because_its_run_was_cut_short_is_named() {
    let world = TestWorld::local([custom("apply_patch", PATCH)]);
    let folder = project(&world);
    let args = ["exec", "Make add add", "--repo", "project", "--apply", "--max-turns", "1"];
    let before = fs_err::read_to_string(folder.join("calc.sh")).unwrap();
    world.model.add([say("There was no time to test it.")]);
    let output = world.run(&args);
    assert_ne!(output.code, 0, "{}", output.text());
    assert!(output.stderr.contains("nothing was written into `project`"), "{}", output.text());
    assert_eq!(fs_err::read_to_string(folder.join("calc.sh")).unwrap(), before);
}
