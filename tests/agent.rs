//! The agent loop with a scripted model and the real guest: what the model sees, how runs end, and
//! that a run cut anywhere goes on to the same end.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use expect_test::{Expect, expect};
use patchwright::agent::journal::{self, Entry, Journal, Line};
use patchwright::agent::{Agent, AgentSpec, Happening, Stopped, history};
use patchwright::guest::client::Client;
use patchwright::provider::catalogue::{Catalogue, Model};
use patchwright::provider::item::{Item, Role, Wire};
use patchwright::provider::scripted::ScriptedProvider;
use patchwright::provider::{OnProgress, Provider, ProviderError, Reply, Request, wire};
use patchwright::task::Limits;
use patchwright::tools::profile::Profile;
use patchwright::tools::registry::ToolSet;
use patchwright::world::Clock;
use tokio_util::sync::CancellationToken;

use crate::support::transcript::{transcript, without_times};

/// A small project with a bug and a check that finds it.
const FILES: &[(&str, &str)] = &[
    ("calc.sh", "add() {\n  echo $(($1 - $2))\n}\n"),
    ("check.sh", ". ./calc.sh\n[ \"$(add 2 2)\" = 4 ] && echo pass\n"),
];

/// A workspace, a run folder, and everything that an agent is given besides the script.
struct Bench {
    folder: tempfile::TempDir,
    limits: Limits,
    deadline: Duration,
    cancel: CancellationToken,
    /// What happens when the first call starts.
    mishap: Mishap,
    model: Model,
}

#[derive(Clone, Copy)]
enum Mishap {
    None,
    /// Somebody presses Ctrl-C.
    Signal,
    /// The guest dies.
    GuestKilled,
}

/// A run that came to its end.
struct Ended {
    stopped: Stopped,
    /// Bodies as sent, times replaced.
    requests: Vec<String>,
    /// The history of the last request.
    seen: Vec<Item>,
    journal: Vec<Line>,
}

/// Gives out scripted replies and keeps what was asked.
struct Recorder {
    script: ScriptedProvider,
    asked: Mutex<Vec<(String, Vec<Item>)>>,
}

#[async_trait]
impl Provider for Recorder {
    async fn reply(
        &self,
        request: &Request<'_>,
        progress: OnProgress<'_>,
    ) -> Result<Reply, ProviderError> {
        let body = String::from_utf8(wire::encode(Wire::Responses, request).unwrap()).unwrap();
        let asked = (without_times(&body), request.history.to_vec());
        self.asked.lock().unwrap().push(asked);
        self.script.reply(request, progress).await
    }
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::load(&BTreeMap::new()).unwrap();
        let bench = Bench {
            folder,
            limits: Limits {
                max_turns: 50,
                max_tokens: 10_000_000,
                max_cost_usd: 100.0,
                timeout: Duration::from_mins(10),
                command_timeout: Duration::from_mins(1),
                verify_rounds: 0,
            },
            deadline: Duration::from_mins(10),
            cancel: CancellationToken::new(),
            mishap: Mishap::None,
            model: catalogue.resolve("gpt-5.3-codex", None).unwrap(),
        };
        bench.fresh_workspace();
        bench
    }

    fn fresh_workspace(&self) {
        let workspace = self.folder.path().join("workspace");
        if workspace.exists() {
            fs_err::remove_dir_all(&workspace).unwrap();
        }
        fs_err::create_dir(&workspace).unwrap();
        for (name, content) in FILES {
            fs_err::write(workspace.join(name), content).unwrap();
        }
    }

    fn file(&self, name: &str) -> String {
        fs_err::read_to_string(self.folder.path().join("workspace").join(name)).unwrap_or_default()
    }

    fn run_folder(&self) -> std::path::PathBuf {
        self.folder.path().join("run")
    }

    /// Runs a script to its end, in a fresh run.
    async fn run(&self, script: &str) -> Ended {
        let journal = Journal::create(&self.run_folder(), clock(), no_redaction()).unwrap();
        let script = ScriptedProvider::parse("test", script).unwrap();
        let opening = vec![history::message(Role::User, ["Make check.sh pass."])];
        self.drive(script, &journal, async |agent: &mut Agent<'_>| agent.run(opening).await).await
    }

    async fn drive(
        &self,
        script: ScriptedProvider,
        journal: &Journal,
        work: impl AsyncFnOnce(&mut Agent<'_>) -> Stopped,
    ) -> Ended {
        let (client, process) = guest(&self.folder.path().join("workspace")).await;
        let pid = rustix::process::Pid::from_raw(process.id().unwrap().cast_signed()).unwrap();
        let recorder = Recorder { script, asked: Mutex::default() };
        let progress = |what: Happening<'_>| match (what, self.mishap) {
            (Happening::CallStarted { .. }, Mishap::Signal) => self.cancel.cancel(),
            (Happening::CallStarted { .. }, Mishap::GuestKilled) => {
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
            _ => {}
        };
        let mut agent = Agent::new(AgentSpec {
            provider: &recorder,
            clock: clock(),
            run: "run-1",
            client,
            model: &self.model,
            effort: None,
            instructions: "Be brief.".to_owned(),
            tools: ToolSet::new(Profile::Codex, Wire::Responses).unwrap(),
            limits: &self.limits,
            deadline: Instant::now() + self.deadline,
            journal,
            cancel: self.cancel.clone(),
            progress: &progress,
        });
        let stopped = work(&mut agent).await;
        let asked = recorder.asked.into_inner().unwrap();
        let seen = asked.last().map(|(_, history)| history.clone()).unwrap_or_default();
        let requests = asked.into_iter().map(|(body, _)| body).collect();
        let journal = journal::read(journal.path()).unwrap();
        Ended { stopped, requests, seen, journal }
    }
}

fn clock() -> Clock {
    Clock { fixed: Some(DateTime::<Utc>::UNIX_EPOCH) }
}

fn no_redaction() -> journal::Redact {
    Arc::new(|text: &str| text.to_owned())
}

/// The guest that cargo built, serving a folder.
#[expect(clippy::disallowed_methods, reason = "starts the guest")]
async fn guest(workspace: &Path) -> (Client, tokio::process::Child) {
    let mut process = tokio::process::Command::new(env!("CARGO_BIN_EXE_patchwright-guest"))
        .arg("serve")
        .arg("--workspace")
        .arg(workspace)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (stdout, stdin) = (process.stdout.take().unwrap(), process.stdin.take().unwrap());
    let client = Client::connect(stdout, stdin, Duration::from_mins(1)).await.unwrap();
    (client, process)
}

/// Runs a script; compares how it ended, then what the model had seen with its last request.
async fn check(bench: &Bench, script: &str, expected: &Expect) -> Ended {
    let ended = bench.run(script).await;
    let Stopped { reason, spending, final_message, .. } = &ended.stopped;
    expected.assert_eq(&format!(
        "{} after {} turns, {} requests: {final_message}\n\n{}",
        reason.word(),
        spending.turns,
        ended.requests.len(),
        transcript(&ended.seen)
    ));
    ended
}

const FIX: &str = r#"
- calls:
    - { tool: update_plan, args: { plan: [{ step: Find the bug, status: in_progress }, { step: Fix it, status: pending }] } }
    - { tool: shell_command, args: { command: sh check.sh } }
- reasoning: The sign.
  calls: [{ tool: read_file, args: { file_path: calc.sh } }]
- calls:
    - tool: apply_patch
      input: |
        *** Begin Patch
        *** Update File: calc.sh
        @@ add() {
        -  echo $(($1 - $2))
        +  echo $(($1 + $2))
        *** End Patch
- calls: [{ tool: shell_command, args: { command: sh check.sh } }]
- calls: [{ tool: update_plan, args: { plan: [{ step: Find the bug, status: completed }, { step: Fix it, status: completed }] } }]
- text: Add instead of subtracting
"#;

#[tokio::test]
async fn fixes_a_bug_in_a_few_turns() {
    let bench = Bench::new();
    let ended = check(&bench, FIX, &expect![[r#"
        finished after 6 turns, 6 requests: Add instead of subtracting

        user: Make check.sh pass.
        call update_plan: {"plan":[{"step":"Find the bug","status":"in_progress"},{"step":"Fix it","status":"pending"}]}
        call shell_command: {"command":"sh check.sh"}
        output ok: Plan updated
        output failed:
            Exit code: 1
            Wall time: # seconds
            Output:
        reasoning: The sign.
        call read_file: {"file_path":"calc.sh"}
        output ok:
            L1: add() {
            L2:   echo $(($1 - $2))
            L3: }
        call apply_patch:
            *** Begin Patch
            *** Update File: calc.sh
            @@ add() {
            -  echo $(($1 - $2))
            +  echo $(($1 + $2))
            *** End Patch
        output ok:
            Exit code: 0
            Wall time: # seconds
            Output:
            Success. Updated the following files:
            M calc.sh
        call shell_command: {"command":"sh check.sh"}
        output ok:
            Exit code: 0
            Wall time: # seconds
            Output:
            pass
        call update_plan: {"plan":[{"step":"Find the bug","status":"completed"},{"step":"Fix it","status":"completed"}]}
        output ok: Plan updated
    "#]]).await;
    assert_eq!(bench.file("calc.sh"), "add() {\n  echo $(($1 + $2))\n}\n");
    assert_eq!(ended.stopped.touched.iter().collect::<Vec<_>>(), ["calc.sh"]);
    assert_eq!(ended.stopped.plan.steps.len(), 2);
    assert!(!ended.stopped.spending.cost_is_estimate);
    for pair in ended.requests.windows(2) {
        let end = pair[0].len() - "]}".len();
        assert_eq!(pair[0][..end], pair[1][..end], "a request is not a prefix of the next one");
    }
}

/// A run with a cut reply, an empty one, a bad call, a repeated call that is pointed out, and one
/// call too many of it.
const STUMBLE: &str = r"
- { text: I will, calls: [{ tool: shell_command, args: { command: echo >> calc.sh } }], stop: max_output }
- {}
- calls: [{ tool: no_such_tool, args: {} }, { tool: ../x, args: {} }]
- calls: [{ tool: shell_command, args: { command: echo '#' >> calc.sh } }]
- calls: [{ tool: shell_command, args: { command: echo '#' >> calc.sh } }]
- calls: [{ tool: shell_command, args: { command: echo '#' >> calc.sh } }]
- calls: [{ tool: shell_command, args: { command: echo '#' >> calc.sh } }, { tool: list_dir, args: { dir_path: . } }]
- calls: [{ tool: list_dir, args: '{' }]
- calls: [{ tool: list_dir, args: '{' }]
- calls: [{ tool: list_dir, args: '{' }]
- text: late
";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_cut_after_any_line_goes_on_to_the_same_end() {
    sweep(FIX, "finished").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stumbling_run_cut_after_any_line_ends_the_same_way() {
    sweep(STUMBLE, "format_errors").await;
}

/// Runs a script, then again from its journal cut after each line (and in the middle of the next).
async fn sweep(script_text: &str, word: &str) {
    let bench = Bench::new();
    let whole = bench.run(script_text).await;
    assert_eq!(whole.stopped.reason.word(), word, "{}", transcript(&whole.seen));
    let tree = bench.file("calc.sh");
    let text = fs_err::read_to_string(bench.run_folder().join(journal::FILE)).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for kept in 1..=lines.len() {
        bench.fresh_workspace();
        let dir = tempfile::tempdir_in(bench.folder.path()).unwrap();
        let torn = lines.get(kept).map_or("", |line| &line[..line.len() / 2]);
        let content = lines[..kept].concat() + torn;
        fs_err::write(dir.path().join(journal::FILE), content).unwrap();
        let (journal, recorded) = Journal::open(dir.path(), clock(), no_redaction()).unwrap();
        assert_eq!(recorded.len(), kept);
        let is_reply = |line: &&Line| matches!(line.entry, Entry::Replied { .. });
        let asked = recorded.iter().filter(is_reply).count();
        let script = ScriptedProvider::parse("test", script_text).unwrap().starting_at(asked);
        let resumed = bench
            .drive(script, &journal, async |agent: &mut Agent<'_>| agent.resume(&recorded).await)
            .await;
        let (one, other) = (&whole.stopped, &resumed.stopped);
        assert_eq!(other.reason.word(), one.reason.word(), "cut after {kept}");
        assert_eq!(other.final_message, one.final_message, "cut after {kept}");
        assert_eq!(other.plan, one.plan, "cut after {kept}");
        assert_eq!(other.touched, one.touched, "cut after {kept}");
        assert_eq!(other.spending.usage, one.spending.usage, "cut after {kept}");
        assert_eq!(other.notes, one.notes, "cut after {kept}");
        assert_eq!(resumed.requests, whole.requests[asked..], "cut after {kept}");
        assert_eq!(bench.file("calc.sh"), tree, "cut after {kept}");
    }
}

#[tokio::test]
async fn reads_of_one_turn_run_together_and_writes_alone() {
    let bench = Bench::new();
    let ended = bench
        .run(
            r"
- calls:
    - { tool: read_file, args: { file_path: calc.sh } }
    - { tool: list_dir, args: { dir_path: . } }
    - { tool: shell_command, args: { command: echo one > order } }
    - { tool: shell_command, args: { command: echo two >> order } }
    - { tool: read_file, args: { file_path: order } }
- text: done
",
        )
        .await;
    let events = ended.journal.iter().filter_map(|line| match &line.entry {
        Entry::CallStarted { id, writes, .. } => Some(format!("{id} {writes}")),
        Entry::CallEnded { output, .. } => Some(format!("{} ended", output.id)),
        _ => None,
    });
    let mut events: Vec<String> = events.collect();
    events[2..4].sort();
    expect![[r"
        call_1_1 false
        call_1_2 false
        call_1_1 ended
        call_1_2 ended
        call_1_3 true
        call_1_3 ended
        call_1_4 true
        call_1_4 ended
        call_1_5 false
        call_1_5 ended"]]
    .assert_eq(&events.join("\n"));
    let outputs = ended.seen.iter().filter_map(|item| match item {
        Item::Output(output) => Some(output.id.as_str()),
        _ => None,
    });
    let outputs: Vec<&str> = outputs.collect();
    assert_eq!(outputs, ["call_1_1", "call_1_2", "call_1_3", "call_1_4", "call_1_5"]);
    assert_eq!(bench.file("order"), "one\ntwo\n");
}

#[tokio::test]
async fn calls_that_cannot_be_run_are_explained_and_three_turns_of_them_end_the_run() {
    let bench = Bench::new();
    check(
        &bench,
        r#"
- calls: [{ tool: "run\u001b[31m`x`", args: {} }]
- calls: [{ tool: write_file, args: { path: a } }]
- calls: [{ tool: read_file, args: '{"file_path": "calc.sh"' }]
- calls: [{ tool: read_file, args: { path: calc.sh, "__proto__": {}, limit: ten } }]
- calls: [{ tool: shell_command, args: [ls] }]
- calls:
    - { tool: write_file, args: {} }
    - { tool: list_dir, args: { dir_path: ., depth: 1 } }
- calls: [{ tool: write_file, args: {} }]
- calls: [{ tool: write_file, args: {} }, { tool: write_file, args: {} }]
- calls: [{ tool: write_file, args: {} }]
- text: never reached
"#,
        &expect![[r#"
            format_errors after 9 turns, 9 requests: 

            user: Make check.sh pass.
            developer: A call of `run?[31m?x?` was not run: that is not the name of a tool.
            call write_file: {"path":"a"}
            output failed: there is no tool `write_file`; the tools are `shell_command`, `apply_patch`, `update_plan`, `read_file`, `list_dir`, `grep_files`
            call read_file: {"file_path": "calc.sh"
            output failed: the arguments of `read_file` are not valid JSON: EOF while parsing an object at line 1 column 23. Send one JSON object: {"file_path": string, "offset"?: integer, "limit"?: integer, "mode"?: "slice" | "indentation", "indentation"?: {"anchor_line"?: integer, "max_levels"?: integer, "include_siblings"?: boolean, "include_header"?: boolean, "max_lines"?: integer}}
            call read_file: {"path":"calc.sh","__proto__":{},"limit":"ten"}
            output failed:
                the arguments of `read_file` do not fit:
                - wrong type in `limit`: string
                - unexpected: `path`, `__proto__`
                - missing: `file_path`
                expected: {"file_path": string, "offset"?: integer, "limit"?: integer, "mode"?: "slice" | "indentation", "indentation"?: {"anchor_line"?: integer, "max_levels"?: integer, "include_siblings"?: boolean, "include_header"?: boolean, "max_lines"?: integer}}
            call shell_command: ["ls"]
            output failed:
                the arguments of `shell_command` do not fit:
                - wrong type: array
                expected: {"command": string, "workdir"?: string, "timeout_ms"?: integer, "login"?: boolean, "sandbox_permissions"?: string, "justification"?: string}
            call write_file: {}
            call list_dir: {"dir_path":".","depth":1}
            output failed: there is no tool `write_file`; the tools are `shell_command`, `apply_patch`, `update_plan`, `read_file`, `list_dir`, `grep_files`
            output ok:
                ./
                  calc.sh
                  check.sh
            call write_file: {}
            output failed: there is no tool `write_file`; the tools are `shell_command`, `apply_patch`, `update_plan`, `read_file`, `list_dir`, `grep_files`
            call write_file: {}
            call write_file: {}
            output failed: there is no tool `write_file`; the tools are `shell_command`, `apply_patch`, `update_plan`, `read_file`, `list_dir`, `grep_files`
            output failed: there is no tool `write_file`; the tools are `shell_command`, `apply_patch`, `update_plan`, `read_file`, `list_dir`, `grep_files`
            developer: You have made the same calls with the same results several times. Repeating them will not change anything. Look at what the results say, and do something different: read another file, check an assumption, or make the edit. If nothing is left to do, end with the final message.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn other_spellings_of_a_tool_are_understood() {
    let bench = Bench::new();
    check(
        &bench,
        r#"
- calls: [{ tool: shell, args: { command: [echo, one] } }]
- calls: [{ tool: container.exec, args: { command: [bash, -lc, echo two], workdir: . } }]
- calls: [{ tool: local_shell, args: { type: exec, command: [echo, three], working_directory: ., timeout_ms: 1000.0 } }]
- calls: [{ tool: shell_command, args: { command: [bash, -lc, "echo four; exit 4"], justification: null } }]
- calls: [{ tool: shell_command, args: { command: id, sandbox_permissions: require_escalated, justification: root } }]
- text: done
"#,
        &expect![[r#"
            finished after 6 turns, 6 requests: done

            user: Make check.sh pass.
            call shell: {"command":["echo","one"]}
            output ok:
                Exit code: 0
                Wall time: # seconds
                Output:
                one
            call container.exec: {"command":["bash","-lc","echo two"],"workdir":"."}
            output ok:
                Exit code: 0
                Wall time: # seconds
                Output:
                two
            call local_shell: {"type":"exec","command":["echo","three"],"working_directory":".","timeout_ms":1000.0}
            output ok:
                Exit code: 0
                Wall time: # seconds
                Output:
                three
            call shell_command: {"command":["bash","-lc","echo four; exit 4"],"justification":null}
            output failed:
                Exit code: 4
                Wall time: # seconds
                Output:
                four
            call shell_command: {"command":"id","sandbox_permissions":"require_escalated","justification":"root"}
            output failed: the command was not run: more permissions were asked for (“root”), but this is an unattended run and nobody can approve that. Reach the goal inside the sandbox, without `sandbox_permissions`; if that is impossible, go on with what can be done and say in the final message what was missing.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn circles_are_pointed_out_and_then_ended() {
    let bench = Bench::new();
    let call = "- calls: [{ tool: shell_command, args: { command: sh check.sh } }]\n";
    let ended = bench.run(&call.repeat(9)).await;
    assert_eq!(ended.stopped.reason.word(), "doom_loop");
    assert_eq!(ended.stopped.spending.turns, 5);
    let nudges = transcript(&ended.seen).matches("developer: You have made the same calls").count();
    assert_eq!(nudges, 1);
}

/// Every way to stop early: the script, the word, the turns, and that the work so far is kept.
#[tokio::test]
async fn every_stop_keeps_what_there_is() {
    let patch = FIX.split("- calls: [{ tool: shell_command").next().unwrap();
    let patched = |rest: &str| format!("{patch}{rest}");
    for (script, word, turns) in [
        (patched("- { error: { kind: context_overflow } }"), "context_exhausted", 3),
        (patched("- { error: { kind: filtered } }"), "filtered", 3),
        (patched("- { error: { kind: unavailable } }"), "provider_error", 3),
        (patched("- { text: No., stop: refusal }"), "refused", 4),
        (patched("- { text: No., stop: content_filter }"), "filtered", 4),
        (patched("- {}\n- {}\n- { text: late }"), "empty_reply", 5),
        (patched("- {}\n- { text: late }"), "finished", 5),
        (patched("- { text: la, stop: pause }\n- { text: late }"), "finished", 5),
        (patched("- { text: x, stop: max_output }\n- { text: late }"), "finished", 5),
        (patched(&"- { text: x, stop: max_output }\n".repeat(4)), "cut_off", 6),
    ] {
        let bench = Bench::new();
        let ended = bench.run(&script).await;
        let stopped = &ended.stopped;
        assert_eq!((stopped.reason.word(), stopped.spending.turns), (word, turns), "{script}");
        assert!(bench.file("calc.sh").contains('+'), "{script}");
        assert_eq!(stopped.plan.steps.len(), 2, "{script}");
        assert!(stopped.touched.contains("calc.sh"), "{script}");
        assert!(stopped.spending.cost_usd > 0.0, "{script}");
        let last = &ended.journal.last().unwrap().entry;
        assert!(matches!(last, Entry::Stopped { reason, .. } if reason == word), "{last:?}");
    }
}

#[tokio::test]
async fn calls_of_a_cut_reply_are_not_run() {
    let bench = Bench::new();
    check(
        &bench,
        r"
- { reasoning: hm, calls: [{ tool: shell_command, args: { command: touch made } }], stop: max_output }
- text: done
",
        &expect![[r#"
            finished after 2 turns, 2 requests: done

            user: Make check.sh pass.
            developer: Your last reply was cut off at the output limit; calls in it were not run. Go on in smaller steps: one smaller call at a time, and split large edits.
        "#]],
    )
    .await;
    assert!(!bench.folder.path().join("workspace/made").exists());
}

#[tokio::test]
async fn each_budget_ends_the_run_with_its_work() {
    type Limit = fn(&mut Bench);
    let set: [(&str, Limit); 4] = [
        ("budget_turns", |bench| bench.limits.max_turns = 3),
        ("budget_tokens", |bench| bench.limits.max_tokens = 600),
        ("budget_dollars", |bench| bench.limits.max_cost_usd = 0.001),
        ("budget_time", |bench| bench.deadline = Duration::ZERO),
    ];
    for (word, limit) in set {
        let mut bench = Bench::new();
        limit(&mut bench);
        let ended = bench.run(FIX).await;
        assert_eq!(ended.stopped.reason.word(), word);
        let is_started = ended.stopped.spending.turns > 0;
        assert_eq!(is_started, word != "budget_time", "{word}");
        assert_eq!(ended.stopped.plan.steps.is_empty(), !is_started, "{word}");
        assert_eq!(ended.requests.len(), ended.stopped.spending.turns as usize, "{word}");
    }
}

#[tokio::test]
async fn the_deadline_and_a_signal_end_a_running_command() {
    let script = "- calls: [{ tool: shell_command, args: { command: sleep 600 } }]\n- text: done\n";
    let mut bench = Bench::new();
    bench.deadline = Duration::from_millis(300);
    assert_eq!(bench.run(script).await.stopped.reason.word(), "budget_time");

    let mut bench = Bench::new();
    bench.mishap = Mishap::Signal;
    let ended = bench.run(script).await;
    assert_eq!(ended.stopped.reason.word(), "cancelled");
    assert!(!ended.journal.iter().any(|line| matches!(line.entry, Entry::CallEnded { .. })));
}

#[tokio::test]
async fn a_command_over_its_limit_is_an_output_like_any_other() {
    let mut bench = Bench::new();
    bench.limits.command_timeout = Duration::from_millis(200);
    let script = "- calls: [{ tool: shell_command, args: { command: sleep 600, timeout_ms: 900000 } }]\n- text: done\n";
    let ended = bench.run(script).await;
    assert_eq!(ended.stopped.reason.word(), "finished");
    let seen = transcript(&ended.seen);
    assert!(seen.contains("Exit code: 124"), "{seen}");
    assert!(seen.contains("command timed out after"), "{seen}");
}

#[tokio::test]
async fn long_outputs_are_cut_in_the_middle_and_counted() {
    let mut bench = Bench::new();
    bench.model.output_tokens = 20;
    check(
        &bench,
        "- calls: [{ tool: shell_command, args: { command: seq 1 30000 } }]\n- text: done\n",
        &expect![[r#"
            finished after 2 turns, 2 requests: done

            user: Make check.sh pass.
            call shell_command: {"command":"seq 1 30000"}
            output ok:
                Exit code: 0
                Wall time: # seconds
                Total output lines: 30000
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
                [… 168819 bytes left out here: 29978 lines, about 42205 tokens …]
                29995
                29996
                29997
                29998
                29999
                30000
        "#]],
    )
    .await;
}

#[tokio::test]
async fn more_than_64_calls_of_one_reply_are_not_run() {
    let bench = Bench::new();
    let call = "    - { tool: shell_command, args: { command: echo x >> ran } }\n";
    let ended = bench.run(&format!("- calls:\n{}- text: done\n", call.repeat(70))).await;
    assert_eq!(bench.file("ran").lines().count(), 64);
    let refused = transcript(&ended.seen).matches("output failed: not run: at most 64").count();
    assert_eq!(refused, 6);
}

#[tokio::test]
async fn more_can_be_said_to_a_model_that_had_finished() {
    let bench = Bench::new();
    let journal = Journal::create(&bench.run_folder(), clock(), no_redaction()).unwrap();
    let script =
        ScriptedProvider::parse("test", "- text: done\n- text: 'NEEDS INPUT: why?'").unwrap();
    let ended = bench
        .drive(script, &journal, async |agent: &mut Agent<'_>| {
            let first = agent.run(vec![history::message(Role::User, ["Do it."])]).await;
            assert_eq!(first.final_message, "done");
            agent.continue_with(vec![history::note("A check fails.")]).await
        })
        .await;
    assert_eq!(ended.stopped.needs_input(), Some("why?"));
    expect![[r"
        user: Do it.
        assistant: done
        developer: A check fails.
    "]]
    .assert_eq(&transcript(&ended.seen));
}

#[tokio::test]
async fn a_plan_has_one_active_step() {
    let bench = Bench::new();
    let ended = check(
        &bench,
        r"
- calls: [{ tool: update_plan, args: { plan: [{ step: a, status: in_progress }, { step: b, status: in_progress }] } }]
- calls: [{ tool: update_plan, args: { plan: [{ step: a, status: doing }] } }]
- calls: [{ tool: update_plan, args: { explanation: why, plan: [{ step: a, status: completed }] } }]
- text: done
",
        &expect![[r#"
            finished after 4 turns, 4 requests: done

            user: Make check.sh pass.
            call update_plan: {"plan":[{"step":"a","status":"in_progress"},{"step":"b","status":"in_progress"}]}
            output failed: 2 steps are `in_progress`; at most one may be. The plan was not changed
            call update_plan: {"plan":[{"step":"a","status":"doing"}]}
            output failed:
                the arguments of `update_plan` do not fit:
                - unknown value in `plan.0.status`: it must be one of ["pending","in_progress","completed"]
                expected: {"explanation"?: string, "plan": [{"step": string, "status": "pending" | "in_progress" | "completed"}]}
            call update_plan: {"explanation":"why","plan":[{"step":"a","status":"completed"}]}
            output ok: Plan updated
        "#]],
    )
    .await;
    assert_eq!(ended.stopped.plan.steps.len(), 1);
}

#[tokio::test]
async fn a_lost_sandbox_ends_the_run_and_says_so() {
    let mut bench = Bench::new();
    bench.mishap = Mishap::GuestKilled;
    let script = "- calls: [{ tool: shell_command, args: { command: sleep 600 } }]\n- text: done\n";
    let ended = bench.run(script).await;
    assert_eq!(ended.stopped.reason.word(), "sandbox_error", "{}", transcript(&ended.seen));
}

#[tokio::test]
async fn an_unknown_price_is_said_and_counted_high() {
    let mut bench = Bench::new();
    bench.model.price = None;
    bench.limits.max_cost_usd = 0.001;
    let ended = bench.run(FIX).await;
    assert_eq!(ended.stopped.reason.word(), "budget_dollars");
    assert!(ended.stopped.spending.cost_is_estimate);
    assert!(ended.stopped.notes[0].contains("price of `gpt-5.3-codex` is unknown"));
}

#[tokio::test]
async fn outputs_are_redacted_before_the_model_sees_them() {
    let bench = Bench::new();
    let redact: journal::Redact = Arc::new(|text: &str| text.replace("hunter2", "***"));
    let journal = Journal::create(&bench.run_folder(), clock(), redact).unwrap();
    let script =
        "- calls: [{ tool: shell_command, args: { command: printf hunter%s 2 } }]\n- text: done\n";
    let script = ScriptedProvider::parse("test", script).unwrap();
    let opening = vec![history::message(Role::User, ["Go."])];
    let ended =
        bench.drive(script, &journal, async |agent: &mut Agent<'_>| agent.run(opening).await).await;
    let seen = transcript(&ended.seen);
    assert!(seen.contains("***") && !seen.contains("hunter2"), "{seen}");
}
