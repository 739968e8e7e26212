//! Every tool of every profile, called through the dispatch in a real guest: what the model sees, and
//! what it must not reach.
#![expect(clippy::too_many_lines, reason = "tables of calls and what comes back")]

use std::collections::BTreeMap;
use std::ops::Deref;
use std::os::unix::fs::symlink;

use expect_test::{Expect, expect};
use fs_err as fs;
use patchwright_config::Mode;
use patchwright_provider::catalogue::{Catalogue, Model};
use patchwright_provider::item::{CallOutput, Content, Item, Payload, ToolCall, Wire};
use patchwright_provider::{Request, ToolChoice, ToolForm, wire};
use patchwright_tools::profile::Profile;
use patchwright_tools::registry::ToolSet;
use patchwright_tools::services::Services;
use serde_json::{Value, json};

use crate::support::tool_desk::ToolDesk;
use crate::support::transcript::without_times;

/// A desk with a small workspace.
struct ReviewContext {
    desk: ToolDesk,
}

impl Deref for ReviewContext {
    type Target = ToolDesk;

    fn deref(&self) -> &ToolDesk {
        &self.desk
    }
}

const FILES: &[(&str, &str)] = &[
    ("src/main.py", "import sys\n\n\ndef main():\n    print('hello')\n\n\nmain()\n"),
    ("src/util.py", "def twice(x):\n    return x * 2\n"),
    ("README.md", "# Demo\n"),
    (".gitignore", "build/\n"),
    ("build/out.py", "generated\n"),
    ("dos.txt", "one\r\ntwo\r\nthree\r\n"),
];

fn model(profile: Profile, wire: Wire) -> Model {
    let catalogue = Catalogue::load(&BTreeMap::new()).unwrap();
    let model = catalogue.resolve("chat/test", None).unwrap();
    Model { profile: profile.name().to_owned(), wire, images: true, ..model }
}

impl ReviewContext {
    async fn new(profile: Profile, wire: Wire) -> ReviewContext {
        ReviewContext::with(model(profile, wire)).await
    }

    async fn with(model: Model) -> ReviewContext {
        let tools = ToolSet::for_run(&model, Mode::Execute, &[]).unwrap();
        let desk = ToolDesk::with(model, tools, Services::default()).await;
        for (name, content) in FILES {
            desk.write(name, content);
        }
        fs::write(desk.guest.folder.path().join("secret"), "secret\n").unwrap();
        symlink("../../secret", desk.guest.workspace().join("src/leak")).unwrap();
        symlink("..", desk.guest.workspace().join("up")).unwrap();
        ReviewContext { desk }
    }

    async fn output(&self, call: &ToolCall) -> CallOutput {
        self.run_all(vec![call.clone()]).await.remove(0)
    }

    /// `ok` or `failed`, and the text.
    async fn call(&self, name: &str, args: Value) -> String {
        self.say(&json_call(name, &args)).await
    }

    async fn say(&self, call: &ToolCall) -> String {
        let output = self.output(call).await;
        let head = if output.success { "ok" } else { "failed" };
        // A terminal ends its lines with both.
        let text = without_times(&text(&output)).replace("\r\n", "\n");
        let text = text.replace(self.guest.workspace().to_str().unwrap(), "WORK");
        let text = match text.split_once("timed out after ") {
            Some((before, after)) => {
                format!(
                    "{before}timed out after #{}",
                    after.trim_start_matches(|c: char| c.is_ascii_digit())
                )
            }
            None => text,
        };
        format!("{head}: {}\n", without_ids(&without_line_numbers(text.trim_end())))
    }

    /// Calls in a row, each with what comes back.
    async fn check(&self, calls: &[(&str, Value)], expected: &Expect) {
        let mut seen = String::new();
        for (name, args) in calls {
            seen.push_str(&format!("> {name} {args}\n{}", self.call(name, args.clone()).await));
        }
        expected.assert_eq(&seen);
    }
}

/// `bash: line 12: …` → `bash: line #: …`: the shell counts what it was given before.
fn without_line_numbers(text: &str) -> String {
    let line = |line: &str| match line.split_once(": line ") {
        Some((before, after)) if before.contains("bash") => {
            format!("{before}: line #{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        _ => line.to_owned(),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn text(output: &CallOutput) -> String {
    output
        .content
        .iter()
        .map(|part| match part {
            Content::Text { text } | Content::Refusal { text } => text.clone(),
            Content::Image { media_type, data } => format!("\n[{media_type}: {data}]"),
        })
        .collect()
}

fn json_call(name: &str, args: &Value) -> ToolCall {
    let payload = Payload::Json(args.to_string());
    ToolCall { id: "call_1".to_owned(), name: name.to_owned(), payload, native: None }
}

fn native_call(name: &str, args: &Value) -> ToolCall {
    ToolCall { payload: Payload::Native(args.to_string()), ..json_call(name, args) }
}

/// One line per declared tool.
fn declared(model: &Model) -> String {
    let tools = match ToolSet::for_run(model, Mode::Execute, &[]) {
        Ok(tools) => tools,
        Err(failure) => return format!("{failure}\n"),
    };
    let line = |tool: &patchwright_provider::ToolDeclaration| {
        assert!(!tool.description.is_empty(), "{} is not described", tool.name);
        match &tool.form {
            ToolForm::Native { value } => format!("{value}\n"),
            ToolForm::Freeform { syntax, .. } => format!("{}: {syntax}\n", tool.name),
            ToolForm::Function { schema, .. } => {
                let required = &schema["required"];
                let required = required.as_array().cloned().unwrap_or_default();
                let names = schema["properties"].as_object().unwrap().keys().map(|name| {
                    if required.contains(&json!(name)) { name.clone() } else { format!("{name}?") }
                });
                format!("{}: {}\n", tool.name, names.collect::<Vec<_>>().join(", "))
            }
        }
    };
    tools.declarations().iter().map(line).collect()
}

#[test]
fn each_profile_declares_its_family_s_tools() {
    let mut all = String::new();
    for profile in Profile::ALL {
        let mut before = None;
        for wire in [Wire::Responses, Wire::Chat, Wire::Messages, Wire::Gemini] {
            let tools = declared(&model(*profile, wire));
            let name = wire::word(wire);
            let is_same = before.as_ref() == Some(&tools);
            let shown = if is_same { "the same\n" } else { tools.as_str() };
            all.push_str(&format!("== {} on {name}\n{shown}", profile.name()));
            before = Some(tools);
        }
    }
    expect![[r#"
        == codex on responses
        shell_command: command, workdir?, timeout_ms?, login?, sandbox_permissions?, justification?
        apply_patch: lark
        update_plan: explanation?, plan
        view_image: path
        == codex on chat
        shell_command: command, workdir?, timeout_ms?, login?, sandbox_permissions?, justification?
        apply_patch: input
        update_plan: explanation?, plan
        view_image: path
        == codex on messages
        the same
        == codex on gemini
        the same
        == openai-hosted on responses
        {"type":"shell","environment":{"type":"local"}}
        {"type":"apply_patch"}
        update_plan: explanation?, plan
        view_image: path
        == openai-hosted on chat
        error: the tool profile `openai-hosted` cannot be used on the `chat` wire

        hint: its tools exist on the `responses` wire only: use `--wire responses`, or another `--profile`, for example `generic`
        == openai-hosted on messages
        error: the tool profile `openai-hosted` cannot be used on the `messages` wire

        hint: its tools exist on the `responses` wire only: use `--wire responses`, or another `--profile`, for example `generic`
        == openai-hosted on gemini
        error: the tool profile `openai-hosted` cannot be used on the `gemini` wire

        hint: its tools exist on the `responses` wire only: use `--wire responses`, or another `--profile`, for example `generic`
        == claude on responses
        bash: command?, restart?, timeout_ms?
        str_replace_based_edit_tool: command, path, view_range?, file_text?, old_str?, new_str?, insert_line?, insert_text?
        update_plan: explanation?, plan
        grep: pattern, path?, glob?, output?, limit?
        glob: pattern, path?, limit?, case_sensitive?
        == claude on chat
        the same
        == claude on messages
        {"type":"bash_20250124","name":"bash"}
        {"type":"text_editor_20250728","name":"str_replace_based_edit_tool"}
        update_plan: explanation?, plan
        grep: pattern, path?, glob?, output?, limit?
        glob: pattern, path?, limit?, case_sensitive?
        == claude on gemini
        bash: command?, restart?, timeout_ms?
        str_replace_based_edit_tool: command, path, view_range?, file_text?, old_str?, new_str?, insert_line?, insert_text?
        update_plan: explanation?, plan
        grep: pattern, path?, glob?, output?, limit?
        glob: pattern, path?, limit?, case_sensitive?
        == gemini on responses
        run_shell_command: command, description?, dir_path?, is_background?, timeout_ms?
        read_file: file_path, start_line?, end_line?
        write_file: file_path, content
        replace: file_path, instruction?, old_string, new_string, allow_multiple?
        list_directory: dir_path
        glob: pattern, dir_path?, case_sensitive?
        grep_search: pattern, dir_path?, include_pattern?, total_max_matches?
        write_todos: todos
        == gemini on chat
        the same
        == gemini on messages
        the same
        == gemini on gemini
        the same
        == generic on responses
        run_shell_command: command, description?, dir_path?, is_background?, timeout_ms?
        read_file: absolute_path, offset?, limit?
        read_many_files: paths, include?, exclude?
        write_file: file_path, content
        replace: file_path, old_string, new_string, expected_replacements?
        search_file_content: pattern, path?, include?, max_matches?
        list_dir: dir_path, offset?, limit?, depth?
        glob: pattern, path?, limit?, case_sensitive?
        update_plan: explanation?, plan
        == generic on chat
        the same
        == generic on messages
        the same
        == generic on gemini
        the same
        == text on responses
        == text on chat
        the same
        == text on messages
        the same
        == text on gemini
        the same
    "#]].assert_eq(&all);
}

#[test]
fn the_catalogue_chooses_between_variants() {
    let variant = |profile, wire, shell: Option<&str>, patch: Option<&str>| {
        let (shell, patch) = (shell.map(str::to_owned), patch.map(str::to_owned));
        let all = declared(&Model { shell, patch, images: false, ..model(profile, wire) });
        all.lines().take(2).collect::<Vec<_>>().join("\n") + "\n"
    };
    let (codex, claude) = (Profile::Codex, Profile::Claude);
    let all = [
        variant(codex, Wire::Responses, Some("unified_exec"), None),
        variant(codex, Wire::Responses, Some("shell"), Some("function")),
        variant(codex, Wire::Responses, Some("local_shell"), Some("none")),
        variant(codex, Wire::Chat, Some("local_shell"), Some("freeform")),
        variant(claude, Wire::Messages, Some("function"), None),
        variant(claude, Wire::Messages, None, Some("function")),
        variant(codex, Wire::Chat, Some("fish"), None),
        variant(claude, Wire::Chat, None, Some("lark")),
    ];
    expect![[r#"
        exec_command: cmd, workdir?, shell?, login?, tty?, stdin?, yield_time_ms?, max_output_tokens?, sandbox_permissions?, justification?
        write_stdin: session_id, chars?, yield_time_ms?, max_output_tokens?
        --
        shell: command, workdir?, timeout_ms?, sandbox_permissions?, justification?
        apply_patch: input
        --
        {"type":"local_shell"}
        update_plan: explanation?, plan
        --
        shell: command, workdir?, timeout_ms?, sandbox_permissions?, justification?
        apply_patch: input
        --
        bash: command?, restart?, timeout_ms?
        {"type":"text_editor_20250728","name":"str_replace_based_edit_tool"}
        --
        {"type":"bash_20250124","name":"bash"}
        str_replace_based_edit_tool: command, path, view_range?, file_text?, old_str?, new_str?, insert_line?, insert_text?
        --
        error: the tool profile `codex` has no `shell` of the kind `fish`

        --
        error: the tool profile `claude` has no `patch` of the kind `lark`

    "#]].assert_eq(&all.join("--\n"));
    let blind = Model { images: false, ..model(codex, Wire::Responses) };
    assert!(!declared(&blind).contains("view_image"));
    let unknown = Model { profile: "codecs".to_owned(), ..model(codex, Wire::Chat) };
    assert!(declared(&unknown).contains("unknown tool profile `codecs`"));
}

#[tokio::test]
async fn codex_s_commands_go_on_in_sessions() {
    let shell = Some("unified_exec".to_owned());
    let desk = ReviewContext::with(Model { shell, ..model(Profile::Codex, Wire::Responses) }).await;
    let exec = |cmd: &str| ("exec_command", json!({ "cmd": cmd }));
    desk.check(
        &[
            exec("echo out; echo err >&2; exit 3"),
            ("exec_command", json!({"command": ["bash", "-lc", "echo $1 | wc -l"], "timeout": 20})),
            ("functions.exec_command", json!({"cmd": "seq 300", "max_output_tokens": 20})),
            ("exec_command", json!({"cmd": "echo on; exec cat", "tty": true, "yield_time_ms": 10000})),
            ("write_stdin", json!({"session_id": 4, "chars": "typed\n", "yield_time_ms": 10000})),
            ("write_stdin", json!({"session": 4, "input": "\u{4}", "yield_time_ms": 20000})),
            ("write_stdin", json!({"session_id": 4})),
            ("write_stdin", json!({"chars": "x"})),
            ("shell_command", json!({"command": "echo other name"})),
        ],
        &expect![[r#"
            > exec_command {"cmd":"echo out; echo err >&2; exit 3"}
            failed: Chunk ID: 5912af
            Wall time: # seconds
            Process exited with code 3
            Original token count: 2
            Output:
            out
            err
            > exec_command {"command":["bash","-lc","echo $1 | wc -l"],"timeout":20}
            ok: Chunk ID: 5912af
            Wall time: # seconds
            Process exited with code 0
            Original token count: 1
            Output:
            1
            > functions.exec_command {"cmd":"seq 300","max_output_tokens":20}
            ok: Chunk ID: 5912af
            Wall time: # seconds
            Process exited with code 0
            Original token count: 273
            Total output lines: 300
            Output:
            1
            2
            3
            4
            5
            6
            7
            8
            9
            10
            11
            12
            13
            14
            15
            16
            [… 1017 bytes left out here: 275 lines, about 255 tokens …]
            292
            293
            294
            295
            296
            297
            298
            299
            300
            > exec_command {"cmd":"echo on; exec cat","tty":true,"yield_time_ms":10000}
            ok: Chunk ID: 5912af
            Wall time: # seconds
            Process running with session ID 4
            Original token count: 1
            Output:
            on
            > write_stdin {"session_id":4,"chars":"typed\n","yield_time_ms":10000}
            ok: Chunk ID: 5912af
            Wall time: # seconds
            Process running with session ID 4
            Original token count: 4
            Output:
            typed
            typed
            > write_stdin {"session":4,"input":"\u0004","yield_time_ms":20000}
            ok: Chunk ID: 5912af
            Wall time: # seconds
            Process exited with code 0
            Original token count: 0
            Output:
            > write_stdin {"session_id":4}
            failed: session 4 has ended. There are no sessions; `exec_command` starts one.
            > write_stdin {"chars":"x"}
            failed: the arguments of `write_stdin` do not fit:
            - missing: `session_id`
            expected: {"session_id": integer, "chars"?: string, "yield_time_ms"?: integer, "max_output_tokens"?: integer}
            > shell_command {"command":"echo other name"}
            ok: Exit code: 0
            Wall time: # seconds
            Output:
            other name
        "#]],
    )
    .await;
}

#[tokio::test]
async fn other_families_have_sessions_too() {
    let mut seen = String::new();
    for (profile, wire) in [
        (Profile::Claude, Wire::Messages),
        (Profile::Gemini, Wire::Gemini),
        (Profile::Generic, Wire::Chat),
    ] {
        let desk = ReviewContext::new(profile, wire).await;
        let args =
            json!({"cmd": "echo on; read it; exit 4", "stdin": true, "yield_time_ms": 10000});
        let typed = json!({"session_id": 1, "chars": "it\n", "yield_time_ms": 20000});
        seen.push_str(&desk.call("exec_command", args).await);
        seen.push_str(&desk.call("write_stdin", typed).await);
    }
    expect![[r#"
        ok: Still running in session 1
        on
        failed: Exit code 4
        ok: Output: on
        Still running in session 1
        failed: Output: (empty)
        Exit Code: 4
        ok: Still running in session 1
        Wall time: # seconds
        Output:
        on
        failed: Exit code: 4
        Wall time: # seconds
        Output:
    "#]]
    .assert_eq(&seen);
}

#[tokio::test]
async fn claude_s_shell_stays() {
    let desk = ReviewContext::new(Profile::Claude, Wire::Messages).await;
    let bash = |command: &str| ("bash", json!({"command": command}));
    desk.check(
        &[
            bash("cd src; export A=1; b=2; f() { echo \"f $1\"; }"),
            bash("pwd; echo $A $b; f x; sh -c 'echo $A $b'"),
            bash("false"),
            bash("echo out; echo err >&2; (exit 3)"),
            bash("cat; read line; echo \"read $?\""),
            bash("cat <<'X'\nit's \"here\"\nX"),
            bash("echo 'not closed"),
            bash("echo $(( 1 +"),
            bash("if true; then"),
            bash("set -x; echo traced"),
            bash("set +x; set -u; echo $none"),
            bash("printf 'no newline'"),
            bash("exec >/dev/null; echo swallowed"),
            bash("echo back"),
            bash("sleep 1000 & sleep 1000 | cat & echo started"),
            bash("jobs; echo nobody"),
            ("bash", json!({"restart": true})),
            bash("pwd; echo \"[$A$b]\""),
            bash("A=3; exit 4"),
            bash("echo \"[$A]\""),
            bash("set -e\nfalse\necho not reached"),
            ("bash", json!({"command": "echo one; sleep 60", "timeout_ms": 4000})),
            bash("echo fresh"),
            ("bash", json!({})),
            ("bash", json!({"cmd": "echo other spelling", "timeout": 20})),
        ],
        &expect![[r#"
            > bash {"command":"cd src; export A=1; b=2; f() { echo \"f $1\"; }"}
            ok: Exit code 0
            > bash {"command":"pwd; echo $A $b; f x; sh -c 'echo $A $b'"}
            ok: Exit code 0
            WORK/src
            1 2
            f x
            1
            > bash {"command":"false"}
            failed: Exit code 1
            > bash {"command":"echo out; echo err >&2; (exit 3)"}
            failed: Exit code 3
            out
            err
            > bash {"command":"cat; read line; echo \"read $?\""}
            ok: Exit code 0
            read 1
            > bash {"command":"cat <<'X'\nit's \"here\"\nX"}
            ok: Exit code 0
            it's "here"
            > bash {"command":"echo 'not closed"}
            failed: Exit code 2
            /usr/bin/bash: eval: line #: unexpected EOF while looking for matching `''
            > bash {"command":"echo $(( 1 +"}
            failed: Exit code 2
            /usr/bin/bash: eval: line #: unexpected EOF while looking for matching `)'
            > bash {"command":"if true; then"}
            failed: Exit code 2
            /usr/bin/bash: eval: line #: syntax error: unexpected end of file
            > bash {"command":"set -x; echo traced"}
            ok: Exit code 0
            ++ echo traced
            traced
            > bash {"command":"set +x; set -u; echo $none"}
            failed: Exit code 1
            ++ set +x
            /usr/bin/bash: line #: none: unbound variable
            The shell has ended; the next command gets a new one in the workspace, without the variables of this one.
            > bash {"command":"printf 'no newline'"}
            ok: Exit code 0
            no newline
            > bash {"command":"exec >/dev/null; echo swallowed"}
            ok: Exit code 0
            > bash {"command":"echo back"}
            ok: Exit code 0
            back
            > bash {"command":"sleep 1000 & sleep 1000 | cat & echo started"}
            ok: Exit code 0
            started
            In the background run `sleep 1000` (#), `sleep 1000` (#), `cat` (#). What is written there from now on is in /tmp/background-#.log.
            > bash {"command":"jobs; echo nobody"}
            ok: Exit code 0
            nobody
            > bash {"restart":true}
            ok: The shell was restarted; it is in the workspace.
            > bash {"command":"pwd; echo \"[$A$b]\""}
            ok: Exit code 0
            WORK
            []
            > bash {"command":"A=3; exit 4"}
            failed: Exit code 4
            The shell has ended; the next command gets a new one in the workspace, without the variables of this one.
            > bash {"command":"echo \"[$A]\""}
            ok: Exit code 0
            []
            > bash {"command":"set -e\nfalse\necho not reached"}
            failed: Exit code 1
            The shell has ended; the next command gets a new one in the workspace, without the variables of this one.
            > bash {"command":"echo one; sleep 60","timeout_ms":4000}
            failed: Exit code 124
            Command timed out after # ms
            one
            The command was not ended: it goes on in the background, and what it writes from now on is in /tmp/background-#.log. `kill #` ends it. The next command gets a new shell in the same folder, without the variables of this one.
            > bash {"command":"echo fresh"}
            ok: Exit code 0
            fresh
            > bash {}
            failed: `command` is missing: give one, or `restart`: true
            > bash {"cmd":"echo other spelling","timeout":20}
            ok: Exit code 0
            other spelling
        "#]],
    )
    .await;
}

#[tokio::test]
async fn claude_s_shell_writes_a_lot_and_is_cut() {
    let desk = ReviewContext::new(Profile::Claude, Wire::Messages).await;
    let text = desk.call("bash", json!({"command": "seq 1 200000; echo end"})).await;
    assert!(text.starts_with("ok: Exit code 0\n1\n2\n"), "{}", &text[..100]);
    assert!(text.ends_with("200000\nend\n") && text.contains("bytes left out here"));
    assert!(text.len() < 50_000);
    let long = format!("# {}\necho \"took it\"", "x".repeat(300_000));
    assert_eq!(desk.call("bash", json!({"command": long})).await, "ok: Exit code 0\ntook it\n");
    let killed = desk.call("bash", json!({"command": "kill -9 $$"})).await;
    assert!(killed.contains("Exit code 137"), "{killed}");
    let stopped = json!({"command": "sh -c 'kill -STOP $PPID'", "timeout_ms": 500});
    assert!(desk.call("bash", stopped).await.contains("Exit code 124"));
    assert_eq!(desk.call("bash", json!({"command": "echo on"})).await, "ok: Exit code 0\non\n");
}

#[tokio::test]
async fn what_claude_s_shell_leaves_behind_ends_before_the_tree_is_collected() {
    let desk = ReviewContext::new(Profile::Claude, Wire::Messages).await;
    // A time that nobody else sleeps.
    let time = format!("9{:07}", std::process::id());
    let bash = |script: &str| json!({"command": script.replace('T', &time), "timeout_ms": 2_000});
    desk.call("bash", bash("setsid sleep T & (setsid sleep T &); :")).await;
    assert_eq!(sleepers(&time), 2);
    desk.guest.client.end_sessions().await.unwrap();
    assert_eq!(sleepers(&time), 0);
    desk.call("bash", bash("setsid sleep T & sleep 50")).await;
    assert_eq!(sleepers(&time), 1);
    desk.call("bash", json!({"restart": true})).await;
    assert_eq!(sleepers(&time), 0);
}

/// Without the numbers of processes and of their logs.
fn without_ids(text: &str) -> String {
    ["` (", "`kill ", "background-"].iter().fold(text.to_owned(), |text, before| {
        let mut parts = text.split(before);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |out, part| {
            let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
            let mark = if rest.len() < part.len() { "#" } else { "" };
            format!("{out}{before}{mark}{rest}")
        })
    })
}

fn sleepers(time: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let is_sleeper = |path: std::path::PathBuf| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.starts_with(b"sleep") && String::from_utf8_lossy(&line).contains(time)
    };
    processes.filter(|entry| is_sleeper(entry.path())).count()
}

#[tokio::test]
async fn claude_s_editor() {
    let desk = ReviewContext::new(Profile::Claude, Wire::Messages).await;
    let edit = |args: Value| ("str_replace_based_edit_tool", args);
    desk.check(
        &[
            edit(json!({"command": "view", "path": "src/main.py"})),
            edit(json!({"command": "view", "path": "src/main.py", "view_range": [4, -1]})),
            edit(json!({"command": "view", "path": "src/main.py", "view_range": [4, 99]})),
            edit(json!({"command": "view", "path": "src/main.py", "view_range": [99, 100]})),
            edit(json!({"command": "view", "path": "."})),
            edit(json!({"command": "view", "path": "nope"})),
            edit(json!({"command": "create", "path": "new/a.txt", "file_text": "a\n"})),
            edit(json!({"command": "str_replace", "path": "src/main.py", "old_str": "hello", "new_str": "bye"})),
            edit(json!({"command": "str_replace", "path": "src/main.py", "old_str": "main()", "new_str": "x"})),
            edit(json!({"command": "str_replace", "path": "src/main.py", "old_str": "def main():\n  print('bye')", "new_str": "x"})),
            edit(json!({"command": "str_replace", "path": "src/main.py", "old_str": "def man():\n    print('hello')", "new_str": "x"})),
            edit(json!({"command": "str_replace", "path": "src/main.py", "old_str": "completely different", "new_str": "x"})),
            edit(json!({"command": "insert", "path": "src/util.py", "insert_line": 0, "insert_text": "# top"})),
            edit(json!({"command": "insert", "path": "dos.txt", "insert_line": 3, "new_str": "four\n"})),
            edit(json!({"command": "insert", "path": "dos.txt", "insert_line": 9, "insert_text": "x"})),
            edit(json!({"command": "undo_edit", "path": "dos.txt"})),
            edit(json!({"command": "create", "path": "x"})),
            ("grep", json!({"pattern": "def", "glob": "*.py"})),
            ("glob", json!({"pattern": "**/*.py"})),
            ("update_plan", json!({"plan": [{"step": "a", "status": "pending"}]})),
        ],
        &expect![[r##"
            > str_replace_based_edit_tool {"command":"view","path":"src/main.py"}
            ok:      1	import sys
                 2	
                 3	
                 4	def main():
                 5	    print('hello')
                 6	
                 7	
                 8	main()
            > str_replace_based_edit_tool {"command":"view","path":"src/main.py","view_range":[4,-1]}
            ok:      4	def main():
                 5	    print('hello')
                 6	
                 7	
                 8	main()
            > str_replace_based_edit_tool {"command":"view","path":"src/main.py","view_range":[4,99]}
            ok:      4	def main():
                 5	    print('hello')
                 6	
                 7	
                 8	main()
            > str_replace_based_edit_tool {"command":"view","path":"src/main.py","view_range":[99,100]}
            failed: cannot view `src/main.py`: `view_range` begins at line 99; the file has lines 1 to 8
            > str_replace_based_edit_tool {"command":"view","path":"."}
            ok: ./
              .gitignore
              README.md
              build/
                out.py
              dos.txt
              src/
                leak@
                main.py
                util.py
              up@
            > str_replace_based_edit_tool {"command":"view","path":"nope"}
            failed: cannot view `nope`: there is no such file or folder
            > str_replace_based_edit_tool {"command":"create","path":"new/a.txt","file_text":"a\n"}
            ok: Created new/a.txt (1 line, 2 bytes)
            > str_replace_based_edit_tool {"command":"str_replace","path":"src/main.py","old_str":"hello","new_str":"bye"}
            ok: Edited src/main.py (1 replacement):
                 2	
                 3	
                 4	def main():
                 5	    print('bye')
                 6	
                 7	
                 8	main()
            > str_replace_based_edit_tool {"command":"str_replace","path":"src/main.py","old_str":"main()","new_str":"x"}
            failed: `src/main.py` was not changed: the old text is there 2 times, not 1 (lines 4, 8). Give more of the lines around the one that you mean
            > str_replace_based_edit_tool {"command":"str_replace","path":"src/main.py","old_str":"def main():\n  print('bye')","new_str":"x"}
            failed: `src/main.py` was not changed: the old text is not in it; these lines differ from it only in white space:
                 4	def main():
                 5	    print('bye')
            Copy the text as it is there
            > str_replace_based_edit_tool {"command":"str_replace","path":"src/main.py","old_str":"def man():\n    print('hello')","new_str":"x"}
            failed: `src/main.py` was not changed: the old text is not in it; these lines come closest:
                 4	def main():
                 5	    print('bye')
            Copy the text as it is there
            > str_replace_based_edit_tool {"command":"str_replace","path":"src/main.py","old_str":"completely different","new_str":"x"}
            failed: `src/main.py` was not changed: the old text is not in it, nor anything like it. Read the file again
            > str_replace_based_edit_tool {"command":"insert","path":"src/util.py","insert_line":0,"insert_text":"# top"}
            ok: Edited src/util.py:
                 1	# top
                 2	def twice(x):
                 3	    return x * 2
            > str_replace_based_edit_tool {"command":"insert","path":"dos.txt","insert_line":3,"new_str":"four\n"}
            ok: Edited dos.txt:
                 1	one
                 2	two
                 3	three
                 4	four
            > str_replace_based_edit_tool {"command":"insert","path":"dos.txt","insert_line":9,"insert_text":"x"}
            failed: `dos.txt` was not changed: `insert_line` is 9, and the file has 4 lines
            > str_replace_based_edit_tool {"command":"undo_edit","path":"dos.txt"}
            failed: the arguments of `str_replace_based_edit_tool` do not fit:
            - unknown value in `command`: it must be one of ["view","create","str_replace","insert"]
            expected: {"command": "view" | "create" | "str_replace" | "insert", "path": string, "view_range"?: [integer], "file_text"?: string, "old_str"?: string, "new_str"?: string, "insert_line"?: integer, "insert_text"?: string}
            > str_replace_based_edit_tool {"command":"create","path":"x"}
            failed: `file_text` is missing; `create` needs it
            > grep {"pattern":"def","glob":"*.py"}
            ok: src/util.py
            src/main.py
            > glob {"pattern":"**/*.py"}
            ok: src/main.py
            src/util.py
            > update_plan {"plan":[{"step":"a","status":"pending"}]}
            ok: Plan updated
        "##]],
    )
    .await;
    assert_eq!(desk.file("dos.txt"), "one\r\ntwo\r\nthree\r\nfour\r\n");
}

#[tokio::test]
async fn gemini_s_tools() {
    let desk = ReviewContext::new(Profile::Gemini, Wire::Gemini).await;
    desk.check(
        &[
            ("run_shell_command", json!({"command": "pwd; exit 3", "description": "Where?", "dir_path": "src"})),
            ("run_shell_command", json!({"command": "true"})),
            ("run_shell_command", json!({"dir_path": "src"})),
            ("read_file", json!({"file_path": "src/util.py", "start_line": 2, "end_line": 2})),
            ("read_file", json!({"file_path": "src/util.py", "offset": 2, "limit": 1})),
            ("read_file", json!({"absolute_path": "README.md"})),
            ("read_many_files", json!({"include": ["src/*.py", "nope.txt"], "exclude": ["**/main.py"]})),
            ("read_many_files", json!({"include": ["**/*.py"]})),
            ("read_many_files", json!({"include": []})),
            ("write_file", json!({"file_path": "a/b.txt", "content": "x\n"})),
            ("write_file", json!({"file_path": "a/b.txt", "content": ""})),
            ("replace", json!({"file_path": "dos.txt", "instruction": "Upper case", "old_string": "one\ntwo", "new_string": "ONE\nTWO"})),
            ("replace", json!({"file_path": "src/main.py", "old_string": "main()", "new_string": "start()", "expected_replacements": 2})),
            ("replace", json!({"file_path": "src/main.py", "old_string": "\n\n\n", "new_string": "\n\n", "allow_multiple": true})),
            ("replace", json!({"file_path": "src/main.py", "old_string": "start", "new_string": "x"})),
            ("replace", json!({"file_path": "made.txt", "old_string": "", "new_string": "made\n"})),
            ("replace", json!({"file_path": "made.txt", "old_string": "", "new_string": "again\n"})),
            ("list_directory", json!({"dir_path": "src"})),
            ("glob", json!({"pattern": "*.PY", "dir_path": "src"})),
            ("glob", json!({"pattern": "src/[", "dir_path": "."})),
            ("grep_search", json!({"pattern": "twice|hello", "include_pattern": "*.py", "total_max_matches": 1})),
            ("grep_search", json!({"pattern": "twice|hello", "include": "*.py"})),
            ("search_file_content", json!({"pattern": "twice", "path": "src"})),
            ("write_todos", json!({"todos": [{"description": "a", "status": "in_progress"}, {"description": "b", "status": "cancelled"}]})),
            ("update_plan", json!({"plan": [{"step": "a", "status": "completed"}]})),
        ],
        &expect![[r#"
            > run_shell_command {"command":"pwd; exit 3","description":"Where?","dir_path":"src"}
            failed: Output: WORK/src
            Exit Code: 3
            > run_shell_command {"command":"true"}
            ok: Output: (empty)
            Exit Code: 0
            > run_shell_command {"dir_path":"src"}
            failed: the arguments of `run_shell_command` do not fit:
            - missing: `command`
            expected: {"command": string, "description"?: string, "dir_path"?: string, "is_background"?: boolean, "timeout_ms"?: integer}
            > read_file {"file_path":"src/util.py","start_line":2,"end_line":2}
            ok:     return x * 2
            > read_file {"file_path":"src/util.py","offset":2,"limit":1}
            ok:     return x * 2
            > read_file {"absolute_path":"README.md"}
            ok: # Demo
            > read_many_files {"include":["src/*.py","nope.txt"],"exclude":["**/main.py"]}
            ok: --- src/util.py ---
            def twice(x):
                return x * 2
            (cannot read `nope.txt`: there is no such file)
            > read_many_files {"include":["**/*.py"]}
            ok: --- src/main.py ---
            import sys


            def main():
                print('hello')


            main()
            --- src/util.py ---
            def twice(x):
                return x * 2
            > read_many_files {"include":[]}
            failed: nothing was read: give 1 to 100 paths, and at most as many patterns
            > write_file {"file_path":"a/b.txt","content":"x\n"}
            ok: Created a/b.txt (1 line, 2 bytes)
            > write_file {"file_path":"a/b.txt","content":""}
            ok: Overwrote a/b.txt (0 lines, 0 bytes)
            > replace {"file_path":"dos.txt","instruction":"Upper case","old_string":"one\ntwo","new_string":"ONE\nTWO"}
            ok: Edited dos.txt (1 replacement):
                 1	ONE
                 2	TWO
                 3	three
            > replace {"file_path":"src/main.py","old_string":"main()","new_string":"start()","expected_replacements":2}
            ok: Edited src/main.py (2 replacements)
            > replace {"file_path":"src/main.py","old_string":"\n\n\n","new_string":"\n\n","allow_multiple":true}
            ok: Edited src/main.py (2 replacements)
            > replace {"file_path":"src/main.py","old_string":"start","new_string":"x"}
            failed: `src/main.py` was not changed: the old text is there 2 times, not 1 (lines 3, 6). Give more of the lines around the one that you mean; or to replace all of them, set `expected_replacements: 2` or `allow_multiple: true`, whichever the tool has
            > replace {"file_path":"made.txt","old_string":"","new_string":"made\n"}
            ok: Created made.txt (1 line, 5 bytes)
            > replace {"file_path":"made.txt","old_string":"","new_string":"again\n"}
            failed: `made.txt` was not changed: it is there already, and the text to replace is empty. Give the text that is to be replaced
            > list_directory {"dir_path":"src"}
            ok: src/
              leak@
              main.py
              util.py
            > glob {"pattern":"*.PY","dir_path":"src"}
            ok: src/main.py
            src/util.py
            > glob {"pattern":"src/[","dir_path":"."}
            failed: the pattern is not valid: unclosed character class; missing ']'
            > grep_search {"pattern":"twice|hello","include_pattern":"*.py","total_max_matches":1}
            ok: src/main.py:4:    print('hello')
            (more than 1 results)
            > grep_search {"pattern":"twice|hello","include":"*.py"}
            ok: src/main.py:4:    print('hello')
            src/util.py:1:def twice(x):
            > search_file_content {"pattern":"twice","path":"src"}
            ok: src/util.py:1:def twice(x):
            > write_todos {"todos":[{"description":"a","status":"in_progress"},{"description":"b","status":"cancelled"}]}
            ok: Plan updated
            > update_plan {"plan":[{"step":"a","status":"completed"}]}
            ok: Plan updated
        "#]],
    )
    .await;
    assert_eq!(desk.file("dos.txt"), "ONE\r\nTWO\r\nthree\r\n");
    assert_eq!(desk.plan.lock().steps.len(), 1);
}

#[tokio::test]
async fn generic_tools() {
    let desk = ReviewContext::new(Profile::Generic, Wire::Chat).await;
    let absolute = desk.guest.workspace().join("src/util.py");
    desk.check(
        &[
            ("run_shell_command", json!({"command": "echo hi"})),
            ("run_shell_command", json!({"command": ["echo", "a b"], "cwd": "src"})),
            ("read_file", json!({"absolute_path": "README.md"})),
            ("read_many_files", json!({"paths": ["README.md", "src"], "include": ["*.md", "util.*"]})),
            ("write_file", json!({"file_path": "n.txt", "content": "n\n"})),
            ("replace", json!({"file_path": "n.txt", "old_string": "n", "new_string": "m", "expected_replacements": 1.0})),
            ("search_file_content", json!({"pattern": "m", "include": "*.txt", "max_matches": 1})),
            ("list_dir", json!({"dir_path": "src"})),
            ("glob", json!({"pattern": "*.txt"})),
            ("update_plan", json!({"todos": [{"content": "a", "status": "pending", "id": "1"}]})),
        ],
        &expect![[r#"
            > run_shell_command {"command":"echo hi"}
            ok: Exit code: 0
            Wall time: # seconds
            Output:
            hi
            > run_shell_command {"command":["echo","a b"],"cwd":"src"}
            ok: Exit code: 0
            Wall time: # seconds
            Output:
            a b
            > read_file {"absolute_path":"README.md"}
            ok: L1: # Demo
            > read_many_files {"paths":["README.md","src"],"include":["*.md","util.*"]}
            ok: --- README.md ---
            # Demo
            --- src/util.py ---
            def twice(x):
                return x * 2
            > write_file {"file_path":"n.txt","content":"n\n"}
            ok: Created n.txt (1 line, 2 bytes)
            > replace {"file_path":"n.txt","old_string":"n","new_string":"m","expected_replacements":1.0}
            ok: Edited n.txt (1 replacement):
                 1	m
            > search_file_content {"pattern":"m","include":"*.txt","max_matches":1}
            ok: n.txt:1:m
            > list_dir {"dir_path":"src"}
            ok: src/
              leak@
              main.py
              util.py
            > glob {"pattern":"*.txt"}
            ok: dos.txt
            n.txt
            > update_plan {"todos":[{"content":"a","status":"pending","id":"1"}]}
            ok: Plan updated
        "#]],
    )
    .await;
    let text = desk.call("read_file", json!({"absolute_path": absolute})).await;
    assert_eq!(text, "ok: L1: def twice(x):\nL2:     return x * 2\n");
    for index in 0..60 {
        let line = format!("file {index}\n").repeat(400);
        fs::write(desk.guest.workspace().join(format!("big{index:02}.txt")), line).unwrap();
    }
    let text = desk.call("read_many_files", json!({"paths": ["big*.txt"]})).await;
    assert!(text.contains("--- big00.txt ---\n") && text.contains("--- big30.txt ---\n"));
    assert!(text.len() < 45_000, "{}", text.len());
}

#[tokio::test]
async fn hosted_tools_answer_in_the_provider_s_form() {
    let desk = ReviewContext::new(Profile::OpenAiHosted, Wire::Responses).await;
    let shell = native_call(
        "shell",
        &json!({"commands": ["echo a; exit 2", "sleep 30", "echo never"], "timeout_ms": 5000}),
    );
    let patch = native_call(
        "apply_patch",
        &json!({"type": "update_file", "path": "README.md", "diff": "@@\n-# Demo\n+# Done\n"}),
    );
    let missing =
        native_call("apply_patch", &json!({"type": "delete_file", "path": "no/such/file"}));
    let mut history = Vec::new();
    for (index, call) in [shell, patch, missing].into_iter().enumerate() {
        let call = ToolCall { id: format!("call_{index}"), ..call };
        let output = desk.output(&call).await;
        history.extend([Item::Call(call), Item::Output(output)]);
    }
    let request = Request {
        model: &desk.model,
        instructions: "",
        tools: desk.tools.declarations(),
        history: &history,
        effort: None,
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "",
        previous: None,
    };
    let body = wire::encode(Wire::Responses, &request);
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        body["input"],
        json!([
            {"type": "shell_call", "call_id": "call_0", "status": "completed", "action": {
                "commands": ["echo a; exit 2", "sleep 30", "echo never"], "timeout_ms": 5000,
            }},
            {"type": "shell_call_output", "call_id": "call_0", "output": [
                {"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 2}},
                {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
                {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
            ]},
            {"type": "apply_patch_call", "call_id": "call_1", "status": "completed", "operation": {
                "type": "update_file", "path": "README.md", "diff": "@@\n-# Demo\n+# Done\n",
            }},
            {"type": "apply_patch_call_output", "call_id": "call_1", "status": "completed",
             "output": "Success. Updated the following files:\nM README.md\n"},
            {"type": "apply_patch_call", "call_id": "call_2", "status": "completed", "operation": {
                "type": "delete_file", "path": "no/such/file",
            }},
            {"type": "apply_patch_call_output", "call_id": "call_2", "status": "failed",
             "output": body["input"][5]["output"]},
        ])
    );
    assert_eq!(desk.file("README.md"), "# Done\n");
    assert_eq!(body["tools"][0], json!({"type": "shell", "environment": {"type": "local"}}));
    let cut = json!({"commands": ["seq 1 5000", "seq 1 5000"], "max_output_length": 400});
    let output = text(&desk.output(&native_call("shell", &cut)).await);
    let chunks: Value = serde_json::from_str(&output).unwrap();
    for chunk in chunks.as_array().unwrap() {
        let stdout = chunk["stdout"].as_str().unwrap();
        assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("5000\n"), "{stdout}");
        assert!(stdout.len() < 600, "{}", stdout.len());
    }
}

#[tokio::test]
async fn codex_s_local_shell_answers_in_the_provider_s_form() {
    let local = Some("local_shell".to_owned());
    let desk =
        ReviewContext::with(Model { shell: local, ..model(Profile::Codex, Wire::Responses) }).await;
    let call = native_call("local_shell", &json!({"command": ["echo", "a b"], "workdir": "src"}));
    let output = desk.output(&call).await;
    assert_eq!(output.form, patchwright_provider::item::OutputForm::LocalShell);
    assert!(text(&output).starts_with("Exit code: 0\n") && text(&output).ends_with("a b\n"));
}

#[tokio::test]
async fn other_families_names_are_understood_where_there_is_the_power() {
    let desk = ReviewContext::new(Profile::Codex, Wire::Responses).await;
    desk.check(
        &[
            ("bash", json!({"command": "echo a"})),
            ("Bash", json!({"command": "echo b", "description": "says b"})),
            ("functions.shell_command", json!({"cmd": "echo c"})),
            ("container.exec", json!({"cmd": ["bash", "-lc", "echo d"]})),
            ("run_shell_command", json!({"command": "pwd", "dir_path": "src"})),
            ("write_file", json!({"file_path": "w.txt", "content": "w\n"})),
            ("Edit", json!({"file_path": "w.txt", "old_string": "w", "new_string": "v", "replace_all": true})),
            ("str_replace_based_edit_tool", json!({"command": "view", "path": "w.txt"})),
            ("Read", json!({"filePath": "w.txt"})),
            ("replace_in_file", json!({"path": "w.txt", "diff": "------- SEARCH\nv\n=======\nu\n+++++++ REPLACE"})),
            ("edit_file", json!({"target_file": "w.txt", "old_string": "u", "new_string": "t"})),
            ("search_files", json!({"path": ".", "regex": "^t$", "file_pattern": "*.txt"})),
            ("list_files", json!({"path": "src", "recursive": false})),
            ("list_directory", json!({"path": "src"})),
            ("glob", json!({"pattern": "*.txt"})),
            ("TodoWrite", json!({"todos": [{"content": "a", "status": "pending", "activeForm": "A"}]})),
            ("modify_file", json!({})),
            ("reed_file", json!({})),
            ("web_search", json!({"query": "x"})),
        ],
        &expect![[r#"
            > bash {"command":"echo a"}
            ok: Exit code: 0
            Wall time: # seconds
            Output:
            a
            > Bash {"command":"echo b","description":"says b"}
            ok: Exit code: 0
            Wall time: # seconds
            Output:
            b
            > functions.shell_command {"cmd":"echo c"}
            ok: Exit code: 0
            Wall time: # seconds
            Output:
            c
            > container.exec {"cmd":["bash","-lc","echo d"]}
            ok: Exit code: 0
            Wall time: # seconds
            Output:
            d
            > run_shell_command {"command":"pwd","dir_path":"src"}
            ok: Exit code: 0
            Wall time: # seconds
            Output:
            WORK/src
            > write_file {"file_path":"w.txt","content":"w\n"}
            ok: Created w.txt (1 line, 2 bytes)
            > Edit {"file_path":"w.txt","old_string":"w","new_string":"v","replace_all":true}
            ok: Edited w.txt (1 replacement):
                 1	v
            > str_replace_based_edit_tool {"command":"view","path":"w.txt"}
            ok:      1	v
            > Read {"filePath":"w.txt"}
            ok: L1: v
            > replace_in_file {"path":"w.txt","diff":"------- SEARCH\nv\n=======\nu\n+++++++ REPLACE"}
            ok: `w.txt` was changed
            > edit_file {"target_file":"w.txt","old_string":"u","new_string":"t"}
            ok: Edited w.txt (1 replacement):
                 1	t
            > search_files {"path":".","regex":"^t$","file_pattern":"*.txt"}
            ok: w.txt:1:t
            > list_files {"path":"src","recursive":false}
            ok: src/
              leak@
              main.py
              util.py
            > list_directory {"path":"src"}
            ok: src/
              leak@
              main.py
              util.py
            > glob {"pattern":"*.txt"}
            ok: dos.txt
            w.txt
            > TodoWrite {"todos":[{"content":"a","status":"pending","activeForm":"A"}]}
            ok: Plan updated
            > modify_file {}
            failed: there is no tool `modify_file`; the tools are, the nearest first: `apply_patch`, `shell_command`, `update_plan`, `view_image`
            > reed_file {}
            failed: there is no tool `reed_file`; the tools are, the nearest first: `view_image`, `apply_patch`, `update_plan`, `shell_command`
            > web_search {"query":"x"}
            failed: there is no tool `web_search`; the tools are, the nearest first: `apply_patch`, `view_image`, `update_plan`, `shell_command`
        "#]],
    )
    .await;
    let without = Some("none".to_owned());
    let desk =
        ReviewContext::with(Model { patch: without, ..model(Profile::Codex, Wire::Responses) })
            .await;
    for name in ["apply_patch", "write_file", "replace", "str_replace_based_edit_tool"] {
        let answer = desk.call(name, json!({"command": "view", "path": "README.md"})).await;
        assert!(answer.starts_with("failed: there is no tool"), "{answer}");
    }
}

#[tokio::test]
async fn no_tool_leaves_the_workspace() {
    let desk = ReviewContext::new(Profile::Gemini, Wire::Gemini).await;
    let claude = ReviewContext::new(Profile::Claude, Wire::Messages).await;
    for desk in [&desk, &claude] {
        let fifo = desk.guest.workspace().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600))
            .unwrap();
        fs::create_dir(desk.guest.workspace().join(".git")).unwrap();
    }
    for path in ["../secret", "/etc/passwd", "src/leak", "up/secret", "fifo", ".git/config", "a\0b"]
    {
        let calls = [
            (&desk, "read_file", json!({"file_path": path})),
            (&desk, "write_file", json!({"file_path": path, "content": "x"})),
            (
                &desk,
                "replace",
                json!({"file_path": path, "old_string": "secret", "new_string": "x"}),
            ),
            (&desk, "replace", json!({"file_path": path, "old_string": "", "new_string": "x"})),
            (&desk, "read_many_files", json!({"include": [path]})),
            (&desk, "view_image", json!({"path": path})),
            (&claude, "str_replace_based_edit_tool", json!({"command": "view", "path": path})),
            (
                &claude,
                "str_replace_based_edit_tool",
                json!({"command": "create", "path": path, "file_text": "x"}),
            ),
            (
                &claude,
                "str_replace_based_edit_tool",
                json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"}),
            ),
        ];
        for (desk, tool, args) in calls {
            let answer = desk.call(tool, args).await;
            assert!(answer.starts_with("failed: "), "{tool} {path:?}: {answer}");
            assert!(!answer.contains("secret\n") && !answer.contains("root:"), "{answer}");
        }
    }
    for pattern in ["../*", "/etc/*", "up/**", "src/leak*"] {
        let answer = desk.call("glob", json!({"pattern": pattern})).await;
        assert!(answer.contains("No files found") || answer.starts_with("failed"), "{answer}");
    }
    for desk in [&desk, &claude] {
        assert_eq!(
            fs::read_to_string(desk.guest.folder.path().join("secret")).unwrap(),
            "secret\n"
        );
    }
}

#[tokio::test]
async fn pictures_are_shown_or_described() {
    let pictures: [(&str, Vec<u8>); 5] = [
        (
            "a.png",
            [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &[0, 0, 2, 128, 0, 0, 1, 224]].concat(),
        ),
        ("a.gif", [b"GIF89a".as_slice(), &[3, 0, 4, 0, 0]].concat()),
        (
            "a.jpg",
            [
                [0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0].as_slice(),
                &[0xff, 0xc4, 0, 2, 0xff, 0xc2, 0, 11, 8, 0, 7, 0, 9],
            ]
            .concat(),
        ),
        (
            "a.webp",
            [b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0".as_slice(), &[0, 0, 0, 0, 9, 0, 0, 19, 0, 0]]
                .concat(),
        ),
        ("cut.png", b"\x89PNG\r\n\x1a\n".to_vec()),
    ];
    let able = ReviewContext::new(Profile::Codex, Wire::Responses).await;
    let blind = Model { images: false, ..model(Profile::Codex, Wire::Responses) };
    let blind = ReviewContext::with(blind).await;
    let mut seen = String::new();
    for (name, content) in &pictures {
        for desk in [&able, &blind] {
            fs::write(desk.guest.workspace().join(name), content).unwrap();
            seen.push_str(&desk.call("view_image", json!({"path": name})).await);
        }
    }
    fs::write(able.guest.workspace().join("huge.png"), vec![0; 4_000_000]).unwrap();
    for name in ["README.md", "src", "huge.png", "nope.png"] {
        seen.push_str(&able.call("view_image", json!({"file_path": name})).await);
    }
    expect![[r#"
        ok: a.png: image/png, 640 × 480 pixels, 24 bytes
        [image/png: iVBORw0KGgoAAAANSUhEUgAAAoAAAAHg]
        ok: a.png: image/png, 640 × 480 pixels, 24 bytes
        (only described: this model takes no pictures)
        ok: a.gif: image/gif, 3 × 4 pixels, 11 bytes
        [image/gif: R0lGODlhAwAEAAA=]
        ok: a.gif: image/gif, 3 × 4 pixels, 11 bytes
        (only described: this model takes no pictures)
        ok: a.jpg: image/jpeg, 9 × 7 pixels, 21 bytes
        [image/jpeg: /9j/4AAEAAD/xAAC/8IACwgABwAJ]
        ok: a.jpg: image/jpeg, 9 × 7 pixels, 21 bytes
        (only described: this model takes no pictures)
        ok: a.webp: image/webp, 10 × 20 pixels, 30 bytes
        [image/webp: UklGRgAAAABXRUJQVlA4WAoAAAAAAAAACQAAEwAA]
        ok: a.webp: image/webp, 10 × 20 pixels, 30 bytes
        (only described: this model takes no pictures)
        ok: cut.png: image/png, 8 bytes
        [image/png: iVBORw0KGgo=]
        ok: cut.png: image/png, 8 bytes
        (only described: this model takes no pictures)
        failed: cannot view `README.md`: it is no PNG, JPEG, GIF or WebP picture
        failed: cannot view `src`: it is a folder
        failed: cannot view `huge.png`: the file is larger than 3750000 bytes
        failed: cannot view `nope.png`: there is no such file
    "#]]
    .assert_eq(&seen);
}

/// Families without a tool for pictures alone see them through the one that shows files.
#[tokio::test]
async fn tools_that_show_files_show_pictures() {
    let png = |width: u32, height: u32| {
        let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
        [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &size].concat()
    };
    let mut seen = String::new();
    for (profile, calls) in [
        (
            Profile::Claude,
            vec![
                ("str_replace_based_edit_tool", json!({"command": "view", "path": "a.png"})),
                ("view_image", json!({"path": "a.png"})),
                ("str_replace_based_edit_tool", json!({"command": "view", "path": "wide.png"})),
                ("str_replace_based_edit_tool", json!({"command": "view", "path": "huge.png"})),
            ],
        ),
        (
            Profile::Gemini,
            vec![
                ("read_file", json!({"file_path": "a.png"})),
                ("read_file", json!({"file_path": "wide.png"})),
                ("read_file", json!({"file_path": "huge.png"})),
                ("read_many_files", json!({"include": ["README.md", "a.png", "wide.png"]})),
                ("read_many_files", json!({"include": ["*.png"], "exclude": ["huge.png"]})),
                ("read_many_files", json!({"include": ["a.*", "README.md"]})),
            ],
        ),
        (Profile::Generic, vec![("read_file", json!({"absolute_path": "a.png"}))]),
    ] {
        for images in [true, false] {
            let desk = ReviewContext::with(Model { images, ..model(profile, Wire::Chat) }).await;
            for (name, width) in [("a.png", 2), ("wide.png", 8001)] {
                fs::write(desk.guest.workspace().join(name), png(width, 2)).unwrap();
            }
            let huge = [png(2, 2), vec![1; 4_000_000]].concat();
            fs::write(desk.guest.workspace().join("huge.png"), huge).unwrap();
            let declared = serde_json::to_string(desk.tools.declarations()).unwrap();
            assert_eq!(declared.contains("is shown as a picture"), images, "{declared}");
            for (name, args) in calls.iter().filter(|(name, _)| images || *name != "view_image") {
                seen.push_str(&desk.call(name, args.clone()).await);
            }
        }
    }
    expect![[r#"
        ok: a.png: image/png, 2 × 2 pixels, 24 bytes
        [image/png: iVBORw0KGgoAAAANSUhEUgAAAAIAAAAC]
        ok: a.png: image/png, 2 × 2 pixels, 24 bytes
        [image/png: iVBORw0KGgoAAAANSUhEUgAAAAIAAAAC]
        failed: cannot view `wide.png`: it is a picture of 8001 × 2 pixels, and 8000 a side can be shown
        failed: cannot view `huge.png`: it is a picture of 4000024 bytes, of which 3750000 can be shown
        ok: a.png: image/png, 2 × 2 pixels, 24 bytes
        (only described: this model takes no pictures)
        failed: cannot view `wide.png`: it is a picture of 8001 × 2 pixels, and 8000 a side can be shown
        failed: cannot view `huge.png`: it is a picture of 4000024 bytes, of which 3750000 can be shown
        ok: a.png: image/png, 2 × 2 pixels, 24 bytes
        [image/png: iVBORw0KGgoAAAANSUhEUgAAAAIAAAAC]
        failed: cannot read `wide.png`: it is a picture of 8001 × 2 pixels, and 8000 a side can be shown
        failed: cannot read `huge.png`: the file is larger than 3750000 bytes
        ok: --- README.md ---
        # Demo
        --- a.png ---
        a.png: image/png, 2 × 2 pixels, 24 bytes
        (cannot read `wide.png`: it is a picture of 8001 × 2 pixels, and 8000 a side can be shown)

        [image/png: iVBORw0KGgoAAAANSUhEUgAAAAIAAAAC]
        ok: --- a.png ---
        a.png: image/png, 2 × 2 pixels, 24 bytes
        (cannot read `wide.png`: it is a picture of 8001 × 2 pixels, and 8000 a side can be shown)

        [image/png: iVBORw0KGgoAAAANSUhEUgAAAAIAAAAC]
        ok: --- README.md ---
        # Demo
        ok: a.png: image/png, 2 × 2 pixels, 24 bytes
        (only described: this model takes no pictures)
        failed: cannot read `wide.png`: it is a picture of 8001 × 2 pixels, and 8000 a side can be shown
        failed: cannot read `huge.png`: the file is larger than 3750000 bytes
        ok: --- README.md ---
        # Demo
        --- a.png ---
        a.png: image/png, 2 × 2 pixels, 24 bytes
        (cannot read `wide.png`: it is a picture of 8001 × 2 pixels, and 8000 a side can be shown)

        (only described: this model takes no pictures)
        ok: --- a.png ---
        a.png: image/png, 2 × 2 pixels, 24 bytes
        (cannot read `wide.png`: it is a picture of 8001 × 2 pixels, and 8000 a side can be shown)

        (only described: this model takes no pictures)
        ok: --- README.md ---
        # Demo
        ok: a.png: image/png, 2 × 2 pixels, 24 bytes
        [image/png: iVBORw0KGgoAAAANSUhEUgAAAAIAAAAC]
        ok: a.png: image/png, 2 × 2 pixels, 24 bytes
        (only described: this model takes no pictures)
    "#]].assert_eq(&seen);
}
