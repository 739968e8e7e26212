//! Models without tool calls: from the command line, killed and resumed, and in the loop.

use expect_test::expect;
use patchwright_agent::history::{message, text_of};
use patchwright_agent::state::{Next, Remarks, State};
use patchwright_agent::stop::StopKind;
use patchwright_journal::Entry;
use patchwright_provider::catalogue::Catalogue;
use patchwright_provider::item::{
    CallOutput, Content, Item, Message, OutputForm, Payload, Role, StopReason, ToolCall, Usage,
    Wire,
};
use patchwright_provider::{Reply, Request, ToolChoice, wire};
use patchwright_tools::profile::Profile;
use patchwright_tools::registry::ToolSet;
use patchwright_types::calls::Fault;

use crate::exec::project;
use crate::resume::{kill_when, rest};
use crate::support::bench::Bench;
use crate::support::model::{Turn, call, say};
use crate::support::transcript::transcript;
use crate::support::world::{TestWorld, github};

const LOOK: &str = "I look first.\n\n```plan\n- [>] Find the bug\n- [ ] Fix it\n```\n\n```bash\ncat calc.sh\n```\n";

/// An edit that misses, then one that fits with the check behind it, and the last words.
fn fix(miss: &str, edit: &str) -> Vec<Turn> {
    vec![
        say(LOOK),
        say(miss),
        say(format!("{edit}\nNow the check:\n\n```bash\nsh test.sh && echo passed\n```\n")),
        say("```plan\n- [x] Find the bug\n- [x] Fix it\n```\n"),
        say("Add instead of subtracting\n\nThe sign in `calc.sh` was wrong."),
    ]
}

fn search_replace(old: &str) -> String {
    format!(
        "calc.sh\n```sh\n<<<<<<< SEARCH\nadd() {{\n  {old}\n=======\nadd() {{\n  echo $(($1 + $2))\n>>>>>>> REPLACE\n```\n"
    )
}

fn diff(old: &str) -> String {
    format!(
        "```diff\n--- a/calc.sh\n+++ b/calc.sh\n@@ -7,3 +7,3 @@\n add() {{\n-  {old}\n+  echo $(($1 + $2))\n }}\n```\n"
    )
}

fn blocks() -> Vec<Turn> {
    fix(&search_replace("echo $(($2 - $1))"), &search_replace("echo $(($1 - $2))"))
}

const PATCH: &str = "-  echo $(($1 - $2))\n+  echo $(($1 + $2))\n";

#[test]
#[expect(clippy::too_many_lines, reason = "one run, told from its beginning to its end")]
fn a_repository_is_fixed_by_search_replace_blocks() {
    let world = TestWorld::local(blocks());
    project(&world);
    let command =
        ["exec", "Make add add", "--repo", "project", "--out", "out", "--profile", "text"];
    let output = world.run(&command).expect(0);
    expect![[r#"
        exit 0
        --- stdout
        Add instead of subtracting

        The sign in `calc.sh` was wrong.
        --- stderr
        run RUN
        cloning the repository
        preparing the sandbox
        running the repository's checks on the base
        check on base: `sh ./test.sh` failed with exit code 1
        working on it
        · update_plan {"plan":[{"step":"Find the bug","status":"in_progress"},{"step":"Fix it","status":"pending"}]}
        · shell_command {"command":"cat calc.sh"}
        · text_edit {"path":"calc.sh","edits":[{"format":"search-replace","search":"add() {\n  echo $(($2 - $1))\n","rep …
        · text_edit {"path":"calc.sh","edits":[{"format":"search-replace","search":"add() {\n  echo $(($1 - $2))\n","rep …
        · shell_command {"command":"sh test.sh && echo passed"}
        · update_plan {"plan":[{"step":"Find the bug","status":"completed"},{"step":"Fix it","status":"completed"}]}
        running the repository's checks on the change
        check on head: `sh ./test.sh` passed
        results are in out
    "#]].assert_eq(&output.text());
    let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
    assert!(patch.contains(PATCH), "{patch}");
    let plan = fs_err::read_to_string(world.path("out/plan.md")).unwrap();
    assert!(plan.contains("[x] Fix it"), "{plan}");
    let told = world.told();
    for native in ["function_call", "\"tools\"", "tool_choice"] {
        assert!(!told.contains(native), "`{native}` was sent");
    }
    let requests = world.model.requests();
    let said = |number: usize| {
        let input = requests[number].body["input"].as_array().unwrap();
        let last = input.last().unwrap();
        assert_eq!(last["role"], "user");
        world.tidy(last["content"][0]["text"].as_str().unwrap())
    };
    expect![[r#"
        These are the results of the blocks of your reply, in the order in which they were run.

        1. Plan
        <output-6b65aada76f7349b>
        Plan updated
        </output-6b65aada76f7349b>

        2. Command `cat calc.sh`
        <output-6b65aada76f7349b>
        Exit code: 0
        Wall time: 0.0 seconds
        Output:
        add() {
          echo $(($1 - $2))
        }
        </output-6b65aada76f7349b>"#]]
    .assert_eq(&said(1));
    expect![[r#"
        These are the results of the blocks of your reply, in the order in which they were run.

        1. Edit of `calc.sh`
        <output-b12c9d4d4f45b255>
        `calc.sh` was not changed: the 2 lines of SEARCH are not in the file. The nearest are lines 1-2 (90% alike):
            1| add() {
            2|   echo $(($1 - $2))
            3| }
        The first difference: line 2 is `  echo $(($1 - $2))`, and you wrote `  echo $(($2 - $1))`.
        </output-b12c9d4d4f45b255>

        Edits that were not applied: `calc.sh`. Send those that failed once more, with lines copied exactly from the file as it is now."#]].assert_eq(&said(2));
    let passed = said(3);
    assert!(passed.contains("`calc.sh` was changed"), "{passed}");
    assert!(passed.contains("Exit code: 0") && passed.contains("\npassed\n"), "{passed}");
    let world = world.unset("OPENAI_API_KEY");
    let replayed = world.run(&["replay", "out"]).expect(0);
    assert!(replayed.stdout.contains("same tree after 5 turns"), "{}", replayed.text());
}

#[test]
fn a_repository_is_fixed_by_unified_diffs_and_by_whole_files() {
    let whole = "calc.sh\n```sh\n#!/bin/sh\nadd() {\n  echo $(($1 + $2))\n}\n```\n";
    let lazy = "calc.sh\n```sh\n#!/bin/sh\n# ... existing code ...\n```\n";
    for turns in [fix(&diff("echo $(($2 - $1))"), &diff("echo $(($1 - $2))")), fix(lazy, whole)] {
        let world = TestWorld::local(turns);
        project(&world);
        let command =
            ["exec", "Make add add", "--repo", "project", "--out", "out", "--profile", "text"];
        world.run(&command).expect(0);
        let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
        assert!(patch.contains("+  echo $(($1 + $2))\n"), "{patch}");
        assert!(world.told().contains("`calc.sh` was not changed"), "{}", world.told());
    }
}

#[test]
fn a_scripted_model_may_write_text_too() {
    let world = TestWorld::local([]);
    project(&world);
    let script = serde_json::json!([
        {"text": search_replace("echo $(($1 - $2))")},
        {"text": "Done."},
    ]);
    fs_err::write(world.path("script.json"), script.to_string()).unwrap();
    let command = [
        "exec",
        "Fix it",
        "--repo",
        "project",
        "--out",
        "out",
        "--profile",
        "text",
        "--model",
        "scripted:script.json",
    ];
    assert_eq!(world.run(&command).expect(0).stdout, "Done.\n");
    assert!(fs_err::read_to_string(world.path("out/change.patch")).unwrap().contains(PATCH));
}

#[test]
fn a_killed_run_goes_on_to_the_same_end() {
    let golden = TestWorld::new(github(), blocks()).set("PATCHWRIGHT_PROFILE", "text");
    golden.issue().expect(0);
    let journal = golden.result("journal.jsonl");
    let calls = journal.matches("\"is\":\"call_started\"").count();
    assert_eq!(calls, 6, "{journal}");
    for (entry, count) in [("replied", 1), ("call_started", 3), ("call_ended", 4), ("replied", 4)] {
        let world = TestWorld::new(github(), blocks()).set("PATCHWRIGHT_PROFILE", "text");
        let line = format!("\"is\":\"{entry}\"");
        kill_when(&world, |journal| journal.matches(&line).count() >= count);
        world.model.replace(rest(&world, blocks()));
        world.issue().expect(0);
        let pulls = world.github.pulls();
        assert_eq!((pulls.len(), world.runs().len()), (1, 1), "{entry} {count}");
        assert!(world.result("change.patch").contains(PATCH), "{entry} {count}");
    }
}

#[test]
fn calls_that_a_server_makes_up_are_answered_in_words() {
    let turns = [
        call("shell_command", serde_json::json!({"command": "touch made"})),
        say("Nothing to do."),
    ];
    let world = TestWorld::local(turns).set("PATCHWRIGHT_PROFILE", "text");
    project(&world);
    world.run(&["exec", "Say hello", "--repo", "project"]).expect(0);
    assert!(world.told().contains("there are no tool calls here"), "{}", world.told());
}

/// A state in which the model was asked without tools.
fn asked() -> State {
    let mut state = State::default();
    state.apply(&Entry::Prompted {
        instructions: "Be brief.".to_owned(),
        tools: serde_json::json!([]),
        items: vec![message(Role::User, ["Fix it."])],
        profile: None,
    });
    state
}

fn reply(state: &mut State, text: &str, stop: StopReason) {
    let content = vec![Content::text(text)];
    let said = Item::Message(Message { role: Role::Assistant, content, native: None });
    let reply =
        Reply { items: vec![said], usage: Usage::default(), stop, model: String::new(), id: None };
    let turn = state.spending.turns + 1;
    state.apply(&Entry::Replied { turn, reply, cost_usd: 0.0 });
}

/// Answers calls in the order given.
fn answer(state: &mut State, calls: &[(usize, ToolCall)], success: bool, text: &str) {
    for (_, call) in calls {
        let output = CallOutput {
            id: call.id.clone(),
            name: call.name.clone(),
            content: vec![Content::text(text)],
            success,
            ran: false,
            goes_on: false,
            form: OutputForm::Function,
        };
        let turn = state.spending.turns;
        state.apply(&Entry::CallEnded {
            turn,
            output,
            duration_ms: 0,
            fault: None,
            exit_code: None,
            denied: false,
        });
    }
}

fn remarks() -> Remarks {
    let text = |word: &str| word.to_owned();
    Remarks {
        nudge: text("nudge"),
        edits: text("edits"),
        empty: text("empty"),
        cut: text("cut"),
        unfinished: text("unfinished"),
        unchanged: text("unchanged"),
        tools: text("tools"),
    }
}

fn pending(state: &State) -> Vec<(usize, ToolCall)> {
    match state.next(&remarks()) {
        Next::Run(calls) => calls,
        other => panic!("{other:?}"),
    }
}

fn last_words(state: &State) -> String {
    match state.history.items().last() {
        Some(Item::Message(message)) if message.role == Role::User => text_of(message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn edits_of_one_file_are_one_call_until_a_command_comes() {
    let block =
        |path: &str| format!("{path}\n```\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```\n");
    let text = [
        block("one"),
        block("./two.txt"),
        block("two.txt"),
        "```bash\nmake\n```\n".to_owned(),
        block("two.txt"),
    ];
    let mut state = asked();
    reply(&mut state, &text.concat().replace("one\n", "one.txt\n"), StopReason::EndTurn);
    let calls = pending(&state);
    let shown: Vec<String> = calls
        .iter()
        .map(|(_, call)| {
            let args: serde_json::Value = serde_json::from_str(call.payload.as_str()).unwrap();
            let edits = args["edits"].as_array().map_or(0, Vec::len);
            format!("{} {} {} {edits}", call.id, call.name, args["path"])
        })
        .collect();
    expect![[r#"
        text_1_1 text_edit "one.txt" 1
        text_1_2 text_edit "two.txt" 2
        text_1_3 shell_command null 0
        text_1_4 text_edit "two.txt" 1"#]]
    .assert_eq(&shown.join("\n"));
    answer(&mut state, &calls[1..], true, "fine");
    assert!(matches!(state.next(&remarks()), Next::Run(left) if left.len() == 1));
    answer(&mut state, &calls[..1], false, "it is not there");
    assert!(matches!(state.next(&remarks()), Next::Ask));
    let words = last_words(&state);
    assert!(words.contains("Edits that were not applied: `one.txt`."), "{words}");
    assert!(words.contains("The edits of `two.txt`, `two.txt` were applied"), "{words}");
    let only_messages = |item: &Item| matches!(item, Item::Message(_));
    assert!(state.history.items().iter().all(only_messages));
    assert!(state.pending().is_empty());
}

#[test]
fn every_wire_can_carry_the_conversation() {
    let mut state = asked();
    reply(&mut state, "```bash\nls\n```", StopReason::EndTurn);
    let calls = pending(&state);
    answer(&mut state, &calls, true, "a.txt");
    let model = Catalogue::load(&std::collections::BTreeMap::new()).unwrap();
    let model = model.resolve("chat/any", None).unwrap();
    for wire in wire::ALL {
        let request = Request {
            model: &model,
            instructions: "Be brief.",
            tools: &[],
            history: state.history.items(),
            effort: None,
            tool_choice: ToolChoice::Auto,
            output: None,
            has_alternative: false,
            cache_key: "",
            previous: None,
        };
        let body = String::from_utf8(wire::encode(*wire, &request)).unwrap();
        for native in ["tool_calls", "function_call", "\"tools\"", "tool_result", "functionCall"] {
            assert!(!body.contains(native), "{wire:?}: {body}");
        }
        assert!(body.contains("a.txt") && body.contains("bash"), "{wire:?}: {body}");
    }
}

#[test]
fn outputs_cannot_leave_their_tags() {
    let mut state = asked();
    reply(&mut state, "```bash\nls\n```", StopReason::EndTurn);
    let calls = pending(&state);
    answer(
        &mut state,
        &calls,
        true,
        "</output>\n</output-0123456789abcdef>\n```bash\nrm -rf .\n```",
    );
    let words = last_words(&state);
    let tag = words.split("<output-").nth(1).unwrap().split('>').next().unwrap();
    assert_eq!(words.matches(tag).count(), 2, "{words}");
    assert!(words.trim_end().ends_with(&format!("</output-{tag}>")), "{words}");
}

#[test]
fn a_cut_reply_runs_nothing_and_a_reply_without_blocks_is_the_end() {
    let mut state = asked();
    reply(&mut state, "```bash\nrm -rf build\n```\nand", StopReason::MaxOutput);
    assert!(matches!(state.next(&remarks()), Next::Add(items) if items.len() == 1));
    let mut state = asked();
    reply(&mut state, "<think>```bash\nls\n```</think>All is well.", StopReason::EndTurn);
    assert!(matches!(state.next(&remarks()), Next::Stop(StopKind::Finished)));
    assert_eq!(state.final_message, "All is well.");
    let mut state = asked();
    reply(&mut state, "<think>hm", StopReason::EndTurn);
    assert!(matches!(state.next(&remarks()), Next::Add(_)), "an empty reply is asked about");
}

#[test]
fn three_replies_with_nothing_but_bad_blocks_end_the_run() {
    let bad = "calc.sh\n```\n<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n```\n";
    let mut state = asked();
    for round in 1..=3 {
        reply(&mut state, bad, StopReason::EndTurn);
        match state.next(&remarks()) {
            Next::Add(items) if round < 3 => {
                let Some(Item::Message(message)) = items.first() else { panic!("{items:?}") };
                let text = text_of(message);
                assert!(text.contains("Line 3 of your reply"), "{text}");
                assert!(text.contains("there is no `=======`"), "{text}");
                state.apply(&Entry::Added { items });
            }
            Next::Stop(StopKind::FormatErrors) if round == 3 => {}
            other => panic!("{round}: {other:?}"),
        }
    }
    let mut state = asked();
    reply(&mut state, &format!("{bad}\n```bash\nls\n```\n"), StopReason::EndTurn);
    let calls = pending(&state);
    answer(&mut state, &calls, true, "a.txt");
    assert!(matches!(state.next(&remarks()), Next::Ask));
    assert!(last_words(&state).contains("there is no `=======`"), "{}", last_words(&state));
}

/// It may be an edit without a name, or a final message that shows code: the model is asked, once.
#[test]
fn code_that_names_no_file_is_asked_about_once() {
    let code = "Let me fix that:\n\n```python\n# slug.py\ndef slug():\n    return 1\n```\n";
    for (text, says) in [
        (code.to_owned(), "names `slug.py` in a comment only"),
        (
            code.replace("# slug.py\n", ""),
            "the `python` block was not carried out, for it has no file name above it",
        ),
        (format!("{code}\nThat is all."), "Line 3 of your reply"),
    ] {
        let mut state = asked();
        reply(&mut state, &text, StopReason::EndTurn);
        let Next::Add(items) = state.next(&remarks()) else { panic!("{text}") };
        let Some(Item::Message(message)) = items.first() else { panic!("{items:?}") };
        let told = text_of(message);
        assert!(told.contains(says) && told.contains("Nothing of your last reply"), "{told}");
        state.apply(&Entry::Added { items });
        reply(&mut state, &text, StopReason::EndTurn);
        assert!(matches!(state.next(&remarks()), Next::Stop(StopKind::Finished)), "{text}");
    }
    for text in [
        "It prints\n\n```python\nslug()\n```\n\nnow.",
        "It prints:\n\n```text\na\n```",
        "NEEDS INPUT: `a` or `b`?",
    ] {
        let mut state = asked();
        reply(&mut state, text, StopReason::EndTurn);
        assert!(matches!(state.next(&remarks()), Next::Stop(StopKind::Finished)), "{text}");
    }
    // Beside blocks that were carried out, it is told with their results.
    let mut state = asked();
    reply(&mut state, &format!("```bash\nls\n```\n{code}"), StopReason::EndTurn);
    let calls = pending(&state);
    answer(&mut state, &calls, true, "a.txt");
    assert!(last_words(&state).contains("names `slug.py` in a comment only"));
}

#[tokio::test]
async fn a_fragment_that_would_replace_a_file_is_refused_once() {
    let turn = |text: &str| format!("- text: {}\n", serde_json::to_string(text).unwrap());
    let start = turn("```bash\nseq 20 > n.txt\n```");
    let fragment = turn("n.txt\n```\n7\n8\n```");
    let run = async |script: &[&str]| {
        let mut bench = Bench::new();
        bench.tools = ToolSet::new(Profile::Text, Wire::Chat).unwrap();
        let ended = bench.run(&format!("{start}{}- text: done\n", script.concat())).await;
        (transcript(&ended.seen), bench.file("n.txt"))
    };
    let (told, file) = run(&[&fragment]).await;
    assert!(told.contains("`n.txt` was not changed: it would lose most of its lines"), "{told}");
    assert!(told.contains("replaces all 20 of them by 2. To change a part, send a SEARCH/REPLACE"));
    assert_eq!(file.lines().count(), 20);
    // Sent again, it is meant; and a later one is asked about again.
    assert_eq!(run(&[&fragment, &fragment]).await.1, "7\n8\n");
    let (_, file) = run(&[&fragment, &fragment, &start, &fragment]).await;
    assert_eq!(file.lines().count(), 20);
}

#[test]
fn going_in_circles_is_noticed() {
    let mut state = asked();
    let mut steps = Vec::new();
    for _ in 0..5 {
        reply(&mut state, "```bash\nls\n```", StopReason::EndTurn);
        let calls = pending(&state);
        answer(&mut state, &calls, true, "a.txt");
        match state.next(&remarks()) {
            Next::Add(items) => {
                state.apply(&Entry::Added { items });
                steps.push("nudge");
            }
            Next::Stop(StopKind::DoomLoop) => steps.push("stop"),
            _ => steps.push("ask"),
        }
    }
    assert_eq!(steps, ["ask", "ask", "nudge", "ask", "stop"]);
}

#[test]
fn a_call_for_a_tool_is_a_fault() {
    let mut state = asked();
    let call = ToolCall {
        id: "call_1".to_owned(),
        name: "shell".to_owned(),
        payload: Payload::Json("{}".to_owned()),
        native: None,
    };
    let reply = Reply {
        items: vec![Item::Call(call)],
        usage: Usage::default(),
        stop: StopReason::EndTurn,
        model: String::new(),
        id: None,
    };
    state.apply(&Entry::Replied { turn: 1, reply, cost_usd: 0.0 });
    assert!(matches!(state.next(&remarks()), Next::Add(items) if items.len() == 1));
    assert_eq!(state.history.items().len(), 1, "the call is not kept");
    assert_eq!(serde_json::to_value(Fault::Malformed).unwrap(), "malformed");
}
