//! The agent loop with a scripted model and the real guest: what the model sees, word for word.

use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use patchwright_agent::{Agent, Stopped, history};
use patchwright_journal::{self as journal, Entry, Journal};
use patchwright_provider::item::{Item, Role, Wire};
use patchwright_provider::scripted::ScriptedProvider;
use patchwright_tools::profile::Profile;
use patchwright_tools::registry::ToolSet;

use crate::support::bench::{Bench, Ended, FIX, clock, no_redaction};
use crate::support::transcript::transcript;

/// Runs a script; compares how it ended, then what the model had seen with its last request.
async fn check(bench: &Bench, script: &str, expected: &Expect) -> Ended {
    let ended = bench.run(script).await;
    let Stopped { reason, spending, final_message, .. } = &ended.stopped;
    let seen = transcript(&ended.seen).replace(&bench.folder.path().display().to_string(), "");
    expected.assert_eq(&format!(
        "{} after {} turns, {} requests: {final_message}\n\n{seen}",
        reason.word(),
        spending.turns,
        ended.requests.len(),
    ));
    ended
}

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
- calls: [{ tool: fetch_page, args: { path: a } }]
- calls: [{ tool: read_file, args: '{"file_path": "calc.sh' }]
- calls: [{ tool: read_file, args: { path: calc.sh, "__proto__": {}, limit: ten } }]
- calls: [{ tool: shell_command, args: [ls] }]
- calls:
    - { tool: fetch_page, args: {} }
    - { tool: list_dir, args: { dir_path: ., depth: 1 } }
- calls: [{ tool: fetch_page, args: {} }]
- calls: [{ tool: fetch_page, args: {} }, { tool: fetch_page, args: {} }]
- calls: [{ tool: fetch_page, args: {} }]
- text: never reached
"#,
        &expect![[r#"
            format_errors after 9 turns, 9 requests: 

            user: Make check.sh pass.
            developer: A call of `run?[31m?x?` was not run: that is not the name of a tool.
            developer: The tools are: `shell_command`, `apply_patch`, `update_plan`, `view_image`.
            call fetch_page: {"path":"a"}
            output failed: there is no tool `fetch_page`; the tools are, the nearest first: `view_image`, `apply_patch`, `update_plan`, `shell_command`
            call read_file: {"file_path": "calc.sh
            output failed: the arguments of `read_file` are not valid JSON: EOF while parsing a string at line 1 column 22. Send one JSON object: {"file_path": string, "offset"?: integer, "limit"?: integer, "mode"?: "slice" | "indentation", "indentation"?: {"anchor_line"?: integer, "max_levels"?: integer, "include_siblings"?: boolean, "include_header"?: boolean, "max_lines"?: integer}}
            call read_file: {"path":"calc.sh","__proto__":{},"limit":"ten"}
            output failed:
                the arguments of `read_file` do not fit:
                - wrong type in `limit`: string
                - unexpected: `__proto__`
                expected: {"file_path": string, "offset"?: integer, "limit"?: integer, "mode"?: "slice" | "indentation", "indentation"?: {"anchor_line"?: integer, "max_levels"?: integer, "include_siblings"?: boolean, "include_header"?: boolean, "max_lines"?: integer}}
            call shell_command: ["ls"]
            output failed:
                the arguments of `shell_command` do not fit:
                - wrong type: array
                expected: {"command": string, "workdir"?: string, "timeout_ms"?: integer, "login"?: boolean, "sandbox_permissions"?: string, "justification"?: string}
            call fetch_page: {}
            call list_dir: {"dir_path":".","depth":1}
            output failed: there is no tool `fetch_page`; the tools are, the nearest first: `view_image`, `apply_patch`, `update_plan`, `shell_command`
            output ok:
                ./
                  calc.sh
                  check.sh
            call fetch_page: {}
            output failed: there is no tool `fetch_page`; the tools are, the nearest first: `view_image`, `apply_patch`, `update_plan`, `shell_command`
            call fetch_page: {}
            call fetch_page: {}
            output failed: there is no tool `fetch_page`; the tools are, the nearest first: `view_image`, `apply_patch`, `update_plan`, `shell_command`
            output failed: there is no tool `fetch_page`; the tools are, the nearest first: `view_image`, `apply_patch`, `update_plan`, `shell_command`
            developer: You have made the same calls with the same results several times. Repeating them will not change anything. Look at what the results say, and do something different: read another file, check an assumption, or make the edit. If nothing is left to do, end with the final message.
        "#]],
    )
    .await;
}

/// Slips in it are read, and what cannot be read counts as a call that cannot: taken for the final message, it would be
/// the end of a run that has done nothing.
#[tokio::test]
async fn a_call_written_as_text_is_never_the_end() {
    let written = |arguments: &str| {
        let call = format!("{{\"name\": \"run_shell_command\", \"arguments\": {arguments}");
        let text = format!("I add a line. <tool_call>\n{call}\n</tool_call>");
        format!("- text: {}\n", serde_json::to_string(&text).unwrap())
    };
    let bench = || {
        let mut bench = Bench::new();
        bench.tools = ToolSet::new(Profile::Generic, Wire::Chat).unwrap();
        bench
    };
    let slips = bench();
    let script =
        format!("{}- text: done\n", written("{\"command\": \"echo a\n echo more >> calc.sh\"}"));
    let ended = slips.run(&script).await;
    assert_eq!((ended.stopped.reason.word(), ended.stopped.spending.turns), ("finished", 2));
    assert!(slips.file("calc.sh").ends_with("more\n"));
    let broken = written("{\"command\": \"echo");
    let ended = bench().run(&format!("{broken}- text: done\n")).await;
    assert_eq!(ended.stopped.final_message, "done");
    let seen = transcript(&ended.seen);
    assert!(seen.contains("the call of `run_shell_command` that it has written as text was not run, for it is not valid JSON: EOF"), "{seen}");
    assert!(seen.contains("with one JSON object as its arguments: {\"command\": string"), "{seen}");
    let unknown = broken.replace("run_shell_command", "sudo");
    let ended = bench().run(&format!("{unknown}- text: done\n")).await;
    assert!(
        transcript(&ended.seen).contains("names no tool of this run"),
        "{}",
        transcript(&ended.seen)
    );
    for script in [broken, unknown] {
        let ended = bench().run(&format!("{}- text: never reached\n", script.repeat(3))).await;
        assert_eq!(
            (ended.stopped.reason.word(), ended.stopped.spending.turns),
            ("format_errors", 3)
        );
    }
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
async fn a_command_over_its_limit_is_an_output_like_any_other() {
    let mut bench = Bench::new();
    bench.limits.command_timeout = Duration::from_millis(200);
    let script = "- calls: [{ tool: shell_command, args: { command: sleep 600, timeout_ms: 900000 } }]\n- text: done\n";
    let ended = bench.run(script).await;
    assert_eq!(ended.stopped.reason.word(), "finished");
    let seen = transcript(&ended.seen);
    assert!(seen.contains("Exit code: 124"), "{seen}");
    assert!(seen.contains("command timed out after"), "{seen}");
    assert!(seen.contains("none may take longer: run less of it at a time"), "{seen}");
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
                [… 168819 bytes left out here: 29978 lines, about 42205 tokens; the whole output is in /tmp/outputs/1.txt …]
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
async fn more_can_be_said_to_a_model_that_had_finished() {
    let bench = Bench::new();
    let journal = Journal::create(&bench.run_folder(), clock(), no_redaction()).unwrap();
    let script =
        ScriptedProvider::parse("test", "- text: done\n- text: 'NEEDS INPUT: why?'").unwrap();
    let ended = bench
        .drive(script, &journal, async |agent: &mut Agent<'_>, _| {
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
async fn outputs_are_redacted_before_the_model_sees_them() {
    let bench = Bench::new();
    let redact: journal::Redact = Arc::new(|text: &str| text.replace("hunter2", "***"));
    let journal = Journal::create(&bench.run_folder(), clock(), redact).unwrap();
    let script =
        "- calls: [{ tool: shell_command, args: { command: printf hunter%s 2 } }]\n- text: done\n";
    let script = ScriptedProvider::parse("test", script).unwrap();
    let opening = vec![history::message(Role::User, ["Go."])];
    let ended = bench
        .drive(script, &journal, async |agent: &mut Agent<'_>, _| agent.run(opening).await)
        .await;
    let seen = transcript(&ended.seen);
    assert!(seen.contains("***") && !seen.contains("hunter2"), "{seen}");
}
