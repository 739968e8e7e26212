//! When a run ends: not with a mere announcement, not without a word at a limit, not on a bill that nobody
//! knows; and that every family can run what takes long.

use patchwright_agent::{ExpectedChange, history};
use patchwright_journal::Entry;
use patchwright_provider::catalogue::cost;
use patchwright_provider::item::{Content, Item, Usage, Wire};
use patchwright_tools::profile::Profile;
use patchwright_tools::registry::ToolSet;
use serde_json::{Value, json};

use crate::providers::catalogue;
use crate::support::bench::{Bench, Ended, FIX};
use crate::support::tool_desk::ToolDesk;
use crate::support::transcript::transcript;

const REMARK: &str = "Your last reply did nothing";
const UNCHANGED: &str = "nothing in the working tree has changed";

/// Every family with function calls, and the one without.
const FAMILIES: [(Profile, Wire); 5] = [
    (Profile::Codex, Wire::Responses),
    (Profile::Claude, Wire::Chat),
    (Profile::Gemini, Wire::Gemini),
    (Profile::Generic, Wire::Chat),
    (Profile::Text, Wire::Chat),
];

fn bench(profile: Profile, wire: Wire) -> Bench {
    let mut bench = Bench::new();
    bench.tools = ToolSet::new(profile, wire).unwrap();
    bench
}

/// How it ended: the word, the turns, and how often the remark was made.
fn ending(ended: &Ended, remark: &str) -> (&'static str, u32, usize) {
    let said = ended.journal.iter().filter(|line| match &line.entry {
        Entry::Added { items } => items.iter().any(|item| match item {
            Item::Message(message) => history::text_of(message).contains(remark),
            _ => false,
        }),
        _ => false,
    });
    (ended.stopped.reason.word(), ended.stopped.spending.turns, said.count())
}

#[tokio::test]
async fn a_reply_that_only_announces_is_answered_once_in_every_family() {
    for (profile, wire) in FAMILIES {
        for first in [
            "Reading.",
            "I'll inspect the failing test and then patch the parser.",
            "The sign is wrong. Let me fix it.",
        ] {
            let script =
                format!("- text: \"{first}\"\n- text: Nothing has to be changed\n- text: late\n");
            let ended = bench(profile, wire).run(&script).await;
            assert_eq!(ending(&ended, REMARK), ("finished", 2, 1), "{profile:?} {first}");
            assert_eq!(ended.stopped.final_message, "Nothing has to be changed");
        }
        let ended =
            bench(profile, wire).run("- text: Reading.\n- text: Reading.\n- text: late\n").await;
        assert_eq!(
            ending(&ended, REMARK),
            ("finished", 2, 1),
            "{profile:?}: the second is the end"
        );
        let ended = bench(profile, wire).run("- text: The sum is right as it is.\n").await;
        assert_eq!(ending(&ended, REMARK), ("finished", 1, 0), "{profile:?}: an answer");
        let ended =
            bench(profile, wire).run("- text: \"NEEDS INPUT: let me know which port\"\n").await;
        assert_eq!(ending(&ended, REMARK), ("finished", 1, 0), "{profile:?}: a question");
    }
}

#[tokio::test]
async fn remarks_about_announcements_are_bounded() {
    let step = "- text: Let me look.\n- calls: [{ tool: list_dir, args: { dir_path: . } }]\n";
    let bench = Bench::new();
    let ended = bench.run(&format!("{}- text: late\n", step.repeat(6))).await;
    assert_eq!(ending(&ended, REMARK), ("finished", 7, 3));
}

#[tokio::test]
async fn a_call_that_is_written_as_text_is_run() {
    let written = |text: &str| {
        let text = serde_json::to_string(text).unwrap();
        format!("- text: {text}\n- text: Add a line\n")
    };
    let json = r#"{"name": "run_shell_command", "arguments": {"command": "echo more >> calc.sh"}}"#;
    for (profile, wire) in [(Profile::Generic, Wire::Chat), (Profile::Gemini, Wire::Gemini)] {
        for text in [
            format!("<tool_call>\n{json}\n</tool_call>"),
            format!("I add a line.\n\n<tool_call>{json}</tool_call>"),
            "<tool_call>\n<function=run_shell_command>\n<parameter=command>\necho more >> calc.sh\n\
             </parameter>\n</function>\n</tool_call>"
                .to_owned(),
            json.to_owned(),
            format!("```json\n{json}\n```"),
        ] {
            let bench = bench(profile, wire);
            let ended = bench.run(&written(&text)).await;
            assert_eq!(ending(&ended, REMARK), ("finished", 2, 0), "{text}");
            assert!(bench.file("calc.sh").ends_with("more\n"), "{text}");
            let seen = transcript(&ended.seen);
            assert!(seen.contains("call run_shell_command") && !seen.contains("tool_call>"), "{seen}");
        }
        // Of what is no tool the model is told that nothing was run.
        let ended = bench(profile, wire)
            .run(&written(&format!("<tool_call>{}</tool_call>", json.replace("run_shell", "sudo"))))
            .await;
        assert_eq!(ending(&ended, REMARK), ("finished", 2, 1));
    }
}

#[tokio::test]
async fn who_ends_without_the_change_that_was_asked_for_is_asked_once() {
    let edit = "- calls: [{ tool: shell_command, args: { command: echo more >> calc.sh } }]\n";
    for (script, turns, asked) in [
        (format!("- text: Use a plus\n{edit}- text: Use a plus\n"), 3, 1),
        (format!("{edit}- text: Use a plus\n- text: late\n"), 2, 0),
        ("- text: It is right as it is\n- text: It is right\n- text: late\n".to_owned(), 2, 1),
        ("- text: \"NEEDS INPUT: which?\"\n- text: late\n".to_owned(), 1, 0),
    ] {
        let mut bench = Bench::new();
        bench.expects_change = ExpectedChange::Required;
        let ended = bench.run(&script).await;
        assert_eq!(ending(&ended, UNCHANGED), ("finished", turns, asked), "{script}");
    }
    // Where words may be all that is wanted, a question to somebody is not.
    let offer = "- text: \"It takes a plus. Shall I write it?\"\n";
    for (script, turns, asked) in [
        (format!("{offer}{edit}- text: Use a plus\n"), 3, 1),
        (format!("{edit}{offer}- text: late\n"), 2, 0),
        ("- text: It adds.\n- text: late\n".to_owned(), 1, 0),
    ] {
        let mut bench = Bench::new();
        bench.expects_change = ExpectedChange::Possible;
        let ended = bench.run(&script).await;
        assert_eq!(ending(&ended, UNCHANGED), ("finished", turns, asked), "{script}");
    }
    // Where there may be nothing to do, whoever says so is believed.
    for (text, turns, asked) in [
        ("It is there already.", 1, 0),
        ("Add a plus", 2, 1),
        ("It is there. Shall I go on?", 2, 1),
    ] {
        let mut bench = Bench::new();
        bench.expects_change = ExpectedChange::UnlessSaid;
        let ended = bench.run(&format!("- text: \"{text}\"\n").repeat(3)).await;
        assert_eq!(ending(&ended, UNCHANGED), ("finished", turns, asked), "{text}");
    }
}

#[tokio::test]
async fn a_limit_leaves_one_turn_for_words_where_that_is_affordable() {
    for (profile, wire) in FAMILIES {
        let mut bench = bench(profile, wire);
        bench.limits.max_turns = 1;
        let call = match profile {
            Profile::Text => "- text: \"```bash\\necho more >> calc.sh\\n```\"\n",
            Profile::Codex => {
                "- calls: [{ tool: shell_command, args: { command: echo more >> calc.sh } }]\n"
            }
            Profile::Claude => {
                "- calls: [{ tool: bash, args: { command: echo more >> calc.sh } }]\n"
            }
            _ => {
                "- calls: [{ tool: run_shell_command, args: { command: echo more >> calc.sh } }]\n"
            }
        };
        let ended = bench.run(&format!("{call}- text: Half of it is done\n- text: late\n")).await;
        assert_eq!(ended.stopped.reason.word(), "budget_turns", "{profile:?}");
        assert_eq!(ended.stopped.final_message, "Half of it is done", "{profile:?}");
        assert_eq!(ended.requests.len(), 2, "{profile:?}");
        assert!(bench.file("calc.sh").ends_with("more\n"), "{profile:?}");
        if profile != Profile::Text {
            assert!(
                ended.requests[1].contains("\"tool_choice\":\"none\""),
                "{}",
                ended.requests[1]
            );
        }
    }
    // Beyond what there is to spend nothing more is asked.
    let mut bench = Bench::new();
    bench.limits.max_cost_usd = 0.001;
    let ended = bench.run(FIX).await;
    assert_eq!(ended.stopped.reason.word(), "budget_dollars");
    assert_eq!(ended.requests.len(), ended.stopped.spending.turns as usize);
}

#[tokio::test]
async fn limits_that_are_near_are_said_once_at_the_end_of_the_conversation() {
    let mut bench = Bench::new();
    bench.limits.max_turns = 20;
    let look = |step: u32| {
        format!("- calls: [{{ tool: shell_command, args: {{ command: echo {step} }} }}]\n")
    };
    let script: String = (0..19).map(look).collect();
    let ended = bench.run(&format!("{script}- text: done\n")).await;
    assert_eq!(ended.stopped.reason.word(), "finished");
    let seen = transcript(&ended.seen);
    for percent in [75, 90] {
        let said = format!("{percent} % of the turns of this run are used.");
        assert_eq!(seen.matches(&said).count(), 1, "{seen}");
    }
    for pair in ended.requests.windows(2) {
        let end = pair[0].len() - "]}".len();
        assert_eq!(pair[0][..end], pair[1][..end], "a request is not a prefix of the next one");
    }
}

#[test]
fn nothing_is_made_up_for_a_model_without_a_price() {
    let usage = Usage { input: 300_000, cached_input: 200_000, output: 1_000, ..Usage::default() };
    for unknown in ["chat/any", "gpt-6-cyber", "claude-fable-5-2"] {
        let model = catalogue().resolve(unknown, None).unwrap();
        assert_eq!(cost(&model, &usage), (0.0, false), "{unknown}");
    }
    let known = catalogue().resolve("gpt-5.5", None).unwrap();
    assert!(cost(&known, &usage).0 > 0.0);
    assert_eq!(cost(&known.without_price(), &usage), (0.0, false));
}

#[tokio::test]
async fn a_model_without_a_price_is_not_ended_by_the_limit_on_money() {
    let mut bench = Bench::new();
    bench.model.price = None;
    bench.limits.max_cost_usd = 0.001;
    let ended = bench.run(FIX).await;
    assert_eq!(ended.stopped.reason.word(), "finished");
    assert!(ended.stopped.spending.price_is_unknown);
    assert!(ended.stopped.spending.cost_usd.abs() < f64::EPSILON);
    assert!(ended.stopped.notes[0].contains("price of `gpt-5.3-codex` is unknown"));
    let mut bench = Bench::new();
    bench.model.price = None;
    bench.limits.max_turns = 2;
    assert_eq!(bench.run(FIX).await.stopped.reason.word(), "budget_turns");
}

/// A model of each family, its shell, and the argument that holds the command.
const SHELLS: [(&str, &str, &str); 5] = [
    ("gpt-5.3-codex", "exec_command", "cmd"),
    ("gpt-5.5", "exec_command", "cmd"),
    ("claude-sonnet-5", "bash", "command"),
    ("gemini-3.5-flash", "run_shell_command", "command"),
    ("chat/any", "run_shell_command", "command"),
];

async fn run(desk: &ToolDesk, tool: &str, args: Value) -> String {
    Content::texts(&desk.json(tool, args).await.content)
}

#[tokio::test]
async fn a_command_may_take_as_long_as_the_run_says_in_every_family() {
    for (slug, tool, field) in SHELLS {
        let desk = ToolDesk::new(slug).await;
        // No limit of the guest's own comes before the run's.
        let said = run(&desk, tool, json!({ field: "sleep 1; echo done" })).await;
        assert!(said.contains("done"), "{slug}: {said}");
    }
}

#[tokio::test]
async fn a_command_that_ran_out_of_time_says_how_to_go_on() {
    for (slug, tool, command) in [
        ("gpt-5.3-codex", "shell_command", json!("echo begun; sleep 60")),
        ("gpt-5.3-codex", "shell", json!(["bash", "-lc", "echo begun; sleep 60"])),
        ("gemini-3.5-flash", "run_shell_command", json!("echo begun; sleep 60")),
        ("chat/any", "run_shell_command", json!("echo begun; sleep 60")),
        ("claude-sonnet-5", "bash", json!("echo begun; sleep 60")),
    ] {
        let desk = ToolDesk::new(slug).await;
        let said = run(&desk, tool, json!({ "command": command, "timeout_ms": 500 })).await;
        assert!(said.contains("begun"), "{slug}: {said}");
        // That of Claude has not ended it, and says so.
        let is_ended = tool != "bash";
        for next in ["more `timeout_ms`, up to", "`COMMAND > LOG 2>&1 &`"] {
            assert_eq!(said.contains(next), is_ended, "{slug}: {said}");
        }
    }
}

#[tokio::test]
async fn a_server_in_the_background_stays_in_every_family() {
    let serve = "while :; do date >> beat; sleep 0.05; done";
    for (slug, tool, field) in SHELLS {
        // The habit of every family, and the way that one of them has besides.
        let behind = json!({ field: format!("({serve}) > server.log 2>&1 & echo $! > pid") });
        let in_front = json!({ field: serve, "yield_time_ms": 300 });
        stays(slug, tool, field, behind, "In the background run").await;
        if tool == "exec_command" {
            stays(slug, tool, field, in_front, "Process running with session ID").await;
        }
    }
}

/// A server that was started like this is there for the next command, and is gone with the sessions.
async fn stays(slug: &str, tool: &str, field: &str, start: Value, mark: &str) {
    let desk = ToolDesk::new(slug).await;
    let said = run(&desk, tool, start).await;
    assert!(said.contains(mark), "{slug}: {said}");
    let grows =
        "wc -l < beat > before; sleep 0.5; wc -l < beat > after; ! cmp before after && echo grows";
    let said = run(&desk, tool, json!({ field: grows })).await;
    assert!(said.contains("grows"), "{slug}: {said}");
    desk.guest.client.end_sessions().await.unwrap();
    let stands =
        grows.replace("! cmp before after && echo grows", "cmp before after && echo stands");
    let said = run(&desk, tool, json!({ field: stands })).await;
    assert!(said.contains("stands"), "{slug}: {said}");
}

/// Who waits for something that is at work is not going round in circles, and words alone do not tell.
#[tokio::test]
async fn an_output_says_whether_what_it_is_about_goes_on() {
    let codex = ToolDesk::new("gpt-5.3-codex").await;
    let sol = ToolDesk::new("gpt-6.1-sol").await;
    let wait = "// @exec: {\"yield_time_ms\": 50}\nawait tools.exec_command({cmd: 'sleep 1'})";
    for (output, expected) in [
        (codex.json("exec_command", json!({"cmd": "sleep 60", "yield_time_ms": 250})).await, true),
        (codex.json("exec_command", json!({"cmd": "echo still running"})).await, false),
        (codex.json("write_stdin", json!({"session_id": 9})).await, false),
        (sol.free("exec", wait).await, true),
        (sol.json("wait", json!({"cell_id": "1"})).await, false),
        (sol.free("exec", "text('pending')").await, false),
    ] {
        assert_eq!(output.goes_on, expected, "{output:?}");
    }
}

/// What a fork bomb leaves would leave no room for the next command.
#[tokio::test]
async fn a_command_leaves_so_many_processes_and_no_more() {
    for (slug, tool) in [("claude-sonnet-5", "bash"), ("gpt-5.3-codex", "shell_command")] {
        let desk = ToolDesk::new(slug).await;
        let many = "for i in $(seq 150); do sleep 600 & done; echo made";
        let said = run(&desk, tool, json!({ "command": many })).await;
        assert!(said.contains("made") && said.contains("at most 128 may go on"), "{slug}: {said}");
        let left = "ps -e -o args | grep -c '[s]leep 600'; echo works";
        let said = run(&desk, tool, json!({ "command": left })).await;
        assert!(said.contains("0\nworks"), "{slug}: {said}");
    }
}

#[tokio::test]
async fn a_command_that_is_asked_to_go_on_behind_goes_on() {
    for (slug, tool, name) in [
        ("gemini-3.8-flash", "run_shell_command", "is_background"),
        ("chat/any", "run_shell_command", "is_background"),
        ("gpt-5.3-codex", "shell_command", "run_in_background"),
        ("claude-sonnet-5", "bash", "run_in_background"),
    ] {
        let desk = ToolDesk::new(slug).await;
        let serve = "echo it\\'s up; while [ ! -e go ]; do sleep 0.05; done; echo over > over";
        let said = run(&desk, tool, json!({ "command": serve, name: true })).await;
        assert!(said.contains("it's up") && said.contains("In the background"), "{slug}: {said}");
        let wait =
            "touch go; for i in $(seq 100); do cat over 2> /dev/null && break; sleep 0.05; done";
        let said = run(&desk, tool, json!({ "command": wait })).await;
        assert!(said.contains("over"), "{slug}: {said}");
        // What ends at once is told with its exit code.
        let said = run(&desk, tool, json!({ "command": "echo no; exit 7", name: true })).await;
        assert!(said.contains("no") && said.contains('7'), "{slug}: {said}");
        assert!(!said.contains("In the background"), "{slug}: {said}");
    }
}

#[tokio::test]
async fn what_a_server_writes_later_is_in_its_log() {
    for (slug, tool, field) in [SHELLS[2], SHELLS[4]] {
        let desk = ToolDesk::new(slug).await;
        let said =
            run(&desk, tool, json!({ field: "(echo first; while [ ! -e go ]; do sleep 0.05; done; echo second; sleep 60) & sleep 0.3" })).await;
        assert!(said.contains("first"), "{slug}: {said}");
        let log = said.rsplit("is in ").next().unwrap().trim().trim_end_matches('.').to_owned();
        let wait = format!(
            "touch go; for i in $(seq 100); do grep second {log} && break; sleep 0.05; done"
        );
        let said = run(&desk, tool, json!({ field: wait })).await;
        assert!(said.contains("second"), "{slug}: {said}");
    }
}

#[tokio::test]
async fn a_command_of_claude_that_meets_the_limit_goes_on_and_its_folder_stays() {
    let desk = ToolDesk::new("claude-sonnet-5").await;
    let script =
        "mkdir sub; cd sub; echo begun; while [ ! -e go ]; do sleep 0.05; done; echo ended > end";
    let said = run(&desk, "bash", json!({ "command": script, "timeout_ms": 400 })).await;
    assert!(said.contains("timed out") && said.contains("begun"), "{said}");
    assert!(said.contains("was not ended"), "{said}");
    let next = "basename $PWD; touch go; for i in $(seq 100); do [ -e end ] && cat end && break; sleep 0.05; done";
    let said = run(&desk, "bash", json!({ "command": next })).await;
    assert!(said.contains("sub\nended"), "{said}");
    let said = run(&desk, "bash", json!({ "restart": true })).await;
    assert!(said.contains("restarted"), "{said}");
    assert!(!run(&desk, "bash", json!({ "command": "pwd" })).await.contains("/sub"));
}
