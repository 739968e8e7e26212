//! How runs end, that every end keeps the work so far, and that a run cut anywhere is resumed to the
//! same end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use patchwright_journal::{self as journal, Entry};
use patchwright_provider::item::{Content, Item};

use crate::support::bench::{Bench, FIX, Mishap, without_notice};
use crate::support::outside;
use crate::support::transcript::transcript;

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

/// Calls that are made by a script, and one after it.
const SCRIPTED: &str = r"
- calls:
    - tool: exec
      input: |
        for (const n of [1, 2, 3]) await tools.shell_command({command: `echo ${n} >> calc.sh`});
- calls: [{ tool: shell_command, args: { command: echo 4 >> calc.sh } }]
- text: Done
";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_a_script_cut_after_any_line_goes_on_to_the_same_end() {
    sweep(SCRIPTED, "finished").await;
}

/// Runs a script, then again from its journal cut after each line (and in the middle of the next). Where no
/// call was interrupted, all is the same.
async fn sweep(script_text: &str, word: &str) {
    let bench = Bench::new();
    let whole = bench.run(script_text).await;
    assert_eq!(whole.stopped.reason.word(), word, "{}", transcript(&whole.seen));
    let tree = bench.file("calc.sh");
    let text = written(&bench);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for kept in OPENED..=lines.len() {
        let torn = lines.get(kept).map_or("", |line| &line[..line.len() / 2]);
        let content = lines[..kept].concat() + torn;
        let resumed = bench.go_on(script_text, &content).await;
        assert_eq!(resumed.known, kept);
        let (one, other) = (&whole.stopped, &resumed.ended.stopped);
        assert_eq!(other.reason.word(), one.reason.word(), "cut after {kept}");
        assert_eq!(other.final_message, one.final_message, "cut after {kept}");
        assert_eq!(other.plan, one.plan, "cut after {kept}");
        // What goes in is more, by what the model is told of the interruption.
        let (turns, output) = (other.spending.turns, other.spending.usage.output);
        assert_eq!((turns, output), (one.spending.turns, one.spending.usage.output), "{kept}");
        assert_eq!(other.notes, one.notes, "cut after {kept}");
        if resumed.journal.contains("\"is\":\"call_dropped\"") {
            continue;
        }
        let bare = |body: &String| without_notice(body);
        let requests: Vec<String> = whole.requests[resumed.asked..].iter().map(bare).collect();
        let now: Vec<String> = resumed.ended.requests.iter().map(bare).collect();
        assert_eq!(now, requests, "cut after {kept}");
        assert_eq!(bench.file("calc.sh"), tree, "cut after {kept}");
    }
}

/// Lines of a journal from which a run can be resumed: the first checkpoint and the prompt.
const OPENED: usize = 2;

/// Commands that do something else each time. What they did is counted outside of the workspace.
const STAMPS: &str = r"
- calls: [{ tool: shell_command, args: { command: 'date +%s%N >> log; echo a >> ../ran; cat log' } }]
- calls:
    - { tool: shell_command, args: { command: 'date +%s%N >> log; echo b >> ../ran; cat log' } }
    - { tool: shell_command, args: { command: 'date +%s%N >> log; echo c >> ../ran; cat log' } }
- calls:
    - tool: exec
      input: |
        for (const n of ['d', 'e'])
          text((await tools.shell_command({command: `date +%s%N >> log; echo ${n} >> ../ran; cat log`})).output);
- calls: [{ tool: read_file, args: { file_path: log } }]
- calls: [{ tool: shell_command, args: { command: 'cat log' } }]
- text: Done
";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_knows_and_what_is_there_agree_after_a_cut_anywhere() {
    let bench = Bench::new();
    let whole = bench.run(STAMPS).await;
    assert_eq!(whole.stopped.reason.word(), "finished", "{}", transcript(&whole.seen));
    let ran = bench.folder.path().join("ran");
    assert_eq!(fs_err::read_to_string(&ran).unwrap(), "a\nb\nc\nd\ne\n");
    let text = written(&bench);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for kept in OPENED..=lines.len() {
        fs_err::write(&ran, "").unwrap();
        let resumed = bench.go_on(STAMPS, &lines[..kept].concat()).await;
        assert_eq!(resumed.ended.stopped.reason.word(), "finished", "cut after {kept}");
        // What had begun is not run again, and of a script that had not ended nothing more is.
        let known = lines[..kept].concat();
        let mut begun: Vec<char> = Vec::new();
        for (id, names) in
            [("call_1_1", "a"), ("call_2_1", "b"), ("call_2_2", "c"), ("call_3_1", "de")]
        {
            let is_start = |line: &str| line.contains("call_started") && line.contains(id);
            if known.lines().any(is_start) {
                begun.extend(names.chars());
            }
        }
        let again = fs_err::read_to_string(&ran).unwrap();
        let twice: Vec<&char> = begun.iter().filter(|name| again.contains(**name)).collect();
        assert!(twice.is_empty(), "cut after {kept}: {twice:?} ran twice");
        let rest = ['a', 'b', 'c', 'd', 'e'].iter().filter(|name| !begun.contains(name));
        assert!(rest.clone().all(|name| again.contains(*name)), "cut after {kept}: {again}");
        // What was printed of the file is how it begins.
        let log = bench.file("log");
        for item in &resumed.ended.seen {
            let Item::Output(output) = item else { continue };
            let said = Content::texts(&output.content);
            let is_stamp =
                |line: &&str| line.len() == 19 && line.bytes().all(|b| b.is_ascii_digit());
            let stamps: Vec<&str> = said.lines().map(str::trim).filter(is_stamp).collect();
            let own: Vec<&str> = log.lines().take(stamps.len()).collect();
            if output.name != "exec" && !said.contains("result unknown") {
                assert_eq!(stamps, own, "cut after {kept}: {said}");
            }
        }
    }
}

/// The journal of the run.
fn written(bench: &Bench) -> String {
    fs_err::read_to_string(bench.run_folder().join(journal::FILE)).unwrap()
}

/// The lines of a journal up to the last one of a kind.
#[track_caller]
fn up_to_last(journal: &str, kind: &str) -> String {
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    let is = format!("\"is\":\"{kind}\"");
    let last = lines.iter().rposition(|line| line.contains(&is)).unwrap();
    lines[..=last].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_a_script_that_is_cut_twice_does_nothing_twice() {
    let bench = Bench::new();
    bench.run(SCRIPTED).await;
    let tree = bench.file("calc.sh");
    assert!(tree.ends_with("}\n1\n2\n3\n4\n"), "{tree}");
    let text = written(&bench);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for kept in OPENED + 1..lines.len() {
        let first = bench.go_on(SCRIPTED, &lines[..kept].concat()).await;
        let then = bench.file("calc.sh");
        let (_, added) = then.split_once("}\n").unwrap();
        let dropped = first.journal.contains("\"is\":\"call_dropped\"");
        let known = ["1\n2\n3\n4\n", "4\n", "1\n4\n", "1\n2\n4\n", "1\n2\n3\n"];
        assert!(known.contains(&added), "cut after {kept}: {added}");
        assert!(dropped || then == tree, "cut after {kept}: {added}");
        let second = bench.go_on(SCRIPTED, &up_to_last(&first.journal, "stopped")).await;
        assert_eq!(bench.file("calc.sh"), then, "cut after {kept}, then again");
        assert_eq!(second.ended.stopped.notes, Vec::<String>::new());
    }
}

/// Each waits for what the other one writes.
const SIDE_BY_SIDE: &str = r#"
- calls:
    - tool: exec
      input: |
        // @exec: {"yield_time_ms": 60000}
        const has = async text => {
          while (!JSON.stringify(await tools.shell_command({command: 'cat calc.sh'})).includes(text))
            await new Promise(done => setTimeout(done, 100));
        };
        await tools.shell_command({command: 'echo a1 >> calc.sh'});
        await has('b1');
        await tools.shell_command({command: 'echo a2 >> calc.sh'});
    - tool: exec
      input: |
        // @exec: {"yield_time_ms": 60000}
        const has = async text => {
          while (!JSON.stringify(await tools.shell_command({command: 'cat calc.sh'})).includes(text))
            await new Promise(done => setTimeout(done, 100));
        };
        await has('a1');
        await tools.shell_command({command: 'echo b1 >> calc.sh'});
        await has('a2');
        await tools.shell_command({command: 'echo b2 >> calc.sh'});
- text: Done
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_scripts_side_by_side_wrote_is_there_when_the_run_goes_on() {
    let bench = Bench::new();
    bench.run(SIDE_BY_SIDE).await;
    let tree = bench.file("calc.sh");
    assert!(tree.ends_with("}\na1\nb1\na2\nb2\n"), "{tree}");
    bench.go_on(SIDE_BY_SIDE, &up_to_last(&written(&bench), "call_ended")).await;
    assert_eq!(bench.file("calc.sh"), tree);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_was_interrupted_after_it_acted_elsewhere_is_left_and_keeps_what_it_wrote() {
    let script = r"
- calls:
    - tool: exec
      input: |
        await tools.shell_command({command: 'echo 1 >> calc.sh'});
        await tools.outside({});
        await tools.shell_command({command: 'echo 2 >> calc.sh'});
- calls: [{ tool: shell_command, args: { command: echo 3 >> calc.sh } }]
- text: Done
";
    let mut bench = Bench::new();
    let calls = outside::added_to(&mut bench);
    bench.run(script).await;
    assert!(bench.file("calc.sh").ends_with("}\n1\n2\n3\n"), "{}", bench.file("calc.sh"));
    let text = written(&bench);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_outside = |line: &&str| line.contains("nested_started") && line.contains("outside");
    let began = lines.iter().position(is_outside).unwrap();
    let ended = lines.iter().position(|line| line.contains("\"is\":\"call_ended\"")).unwrap();
    assert!(lines[began..ended].len() >= 4, "{text}");
    for kept in began + 1..=ended {
        let first = bench.go_on(script, &lines[..kept].concat()).await;
        let is_second = |it: &&str| it.contains("checkpoint") && it.contains("#3");
        let has_second = lines[..kept].iter().any(is_second);
        let tree = bench.file("calc.sh");
        let expected = if has_second { "}\n1\n2\n3\n" } else { "}\n1\n3\n" };
        assert!(tree.ends_with(expected), "cut after {kept}: {tree}");
        assert_eq!(first.journal.matches("\"is\":\"call_dropped\"").count(), 1);
        let told = &first.ended.requests[0];
        assert!(told.contains("interrupted, result unknown"), "{told}");
        assert!(told.contains("outside of the sandbox is not known"), "{told}");
        let second = bench.go_on(script, &up_to_last(&first.journal, "call_ended")).await;
        assert_eq!(bench.file("calc.sh"), tree, "cut after {kept}, then again");
        assert_eq!(second.journal.matches("\"is\":\"call_dropped\"").count(), 1);
        assert_eq!(second.ended.stopped.notes, Vec::<String>::new());
        assert_eq!(calls.load(Ordering::Relaxed), 1, "cut after {kept}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_script_of_an_interrupted_agent_wrote_is_there_when_the_run_goes_on() {
    let script = r#"
- calls: [{ tool: spawn_agent, args: { message: Write } }]
- calls:
    - tool: exec
      input: |
        // @exec: {"yield_time_ms": 60000}
        for (;;) {
          try { await tools.read_file({file_path: 'one'}); break; } catch (e) {}
          await new Promise(done => setTimeout(done, 100));
        }
- calls: [{ tool: send_input, args: { id: agent-1, message: Stop, interrupt: true } }]
- calls: [{ tool: wait, args: { ids: [agent-1], timeout_ms: 60000 } }]
- text: Done
- agent: agent-1
  calls:
    - tool: exec
      input: |
        // @exec: {"yield_time_ms": 600000}
        await tools.shell_command({command: 'echo 1 >> one'});
        await new Promise(done => setTimeout(done, 600000));
- { agent: agent-1, text: Stopped }
"#;
    let mut bench = Bench::new();
    bench.with_agents = true;
    let whole = bench.run(script).await;
    assert_eq!(whole.stopped.reason.word(), "finished", "{}", transcript(&whole.seen));
    assert_eq!(bench.file("one"), "1\n");
    let text = written(&bench);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let sent = lines.iter().position(|line| line.contains("\"is\":\"sent\"")).unwrap();
    assert!(text.contains("\"is\":\"call_dropped\""), "{text}");
    for kept in sent + 1..=lines.len() {
        let resumed = bench.go_on(script, &lines[..kept].concat()).await;
        assert_eq!(resumed.ended.stopped.reason.word(), "finished", "cut after {kept}");
        assert_eq!(bench.file("one"), "1\n", "cut after {kept}");
        assert_eq!(
            resumed.journal.matches("\"is\":\"call_dropped\"").count(),
            1,
            "cut after {kept}"
        );
    }
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

#[tokio::test]
async fn edits_that_never_fit_are_pointed_out_and_then_ended() {
    let bench = Bench::new();
    let edit = |index: usize| {
        format!(
            "- calls: [{{ tool: apply_patch, args: \"*** Begin Patch\\n*** Update File: calc.sh\\n@@\\n-absent {index}\\n+new\\n*** End Patch\\n\" }}]\n\
             - calls: [{{ tool: read_file, args: {{ file_path: calc.sh, limit: {} }} }}]\n",
            index + 1
        )
    };
    let script: String = (0..20).map(edit).collect();
    let ended = bench.run(&script).await;
    assert_eq!(ended.stopped.reason.word(), "doom_loop");
    assert_eq!(ended.stopped.spending.turns, 23);
    let remarks = transcript(&ended.seen).matches("developer: Several edits in a row").count();
    assert_eq!(remarks, 2);
}

/// Every way to stop early: the script, the word, the turns, and that the work so far is kept.
#[tokio::test]
async fn every_stop_keeps_what_there_is() {
    let patch = FIX.split("- calls: [{ tool: shell_command").next().unwrap();
    let patched = |rest: &str| format!("{patch}{rest}");
    for (script, word, turns) in [
        (patched(&"- { error: { kind: context_overflow } }\n".repeat(3)), "context_exhausted", 3),
        (patched("- { error: { kind: filtered } }"), "filtered", 3),
        (patched("- { error: { kind: unavailable } }"), "provider_error", 3),
        (patched("- { text: No., stop: refusal }"), "refused", 4),
        (patched("- { text: No., stop: content_filter }"), "filtered", 4),
        (patched("- {}\n- {}\n- { text: late }"), "empty_reply", 5),
        (patched("- {}\n- { text: late }"), "finished", 5),
        (patched("- { text: la, stop: pause }\n- { text: late }"), "finished", 5),
        (patched("- { text: x, stop: max_output }\n- { text: late }"), "finished", 5),
        (patched(&"- { text: x, stop: max_output }\n".repeat(5)), "cut_off", 7),
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
        // The last words are one more.
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
async fn more_than_64_calls_of_one_reply_are_not_run() {
    let bench = Bench::new();
    let call = "    - { tool: shell_command, args: { command: echo x >> ran } }\n";
    let ended = bench.run(&format!("- calls:\n{}- text: done\n", call.repeat(70))).await;
    assert_eq!(bench.file("ran").lines().count(), 64);
    let refused = transcript(&ended.seen).matches("output failed: not run: at most 64").count();
    assert_eq!(refused, 6);
}

#[tokio::test]
async fn a_lost_sandbox_ends_the_run_and_says_so() {
    let mut bench = Bench::new();
    bench.mishap = Mishap::GuestKilled;
    let script = "- calls: [{ tool: shell_command, args: { command: sleep 600 } }]\n- text: done\n";
    let ended = bench.run(script).await;
    assert_eq!(ended.stopped.reason.word(), "sandbox_error", "{}", transcript(&ended.seen));
}
