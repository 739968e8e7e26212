//! How runs end, that every end keeps the work so far, and that a run cut anywhere goes on to the
//! same end.

use std::time::Duration;

use patchwright::agent::Agent;
use patchwright::agent::journal::{self, Entry, Journal};
use patchwright::provider::Provider;
use patchwright::provider::scripted::ScriptedProvider;

use crate::support::bench::{Bench, FIX, Mishap, clock, no_redaction};
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
        let asked = recorded.iter().map(|line| line.entry.replies().len()).sum();
        let script = ScriptedProvider::parse("test", script_text).unwrap();
        script.resume_at(None, asked);
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
