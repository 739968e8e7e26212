//! The tool system in whole runs: tools of the configuration, hooks, search, what is switched off, how
//! much of an output the model gets, numbers of each tool, and faults that end a run with its work.

mod faults;
mod narrowing;
mod nested;

use patchwright_journal::{self as journal, Entry};
use serde_json::{Value, json};

use crate::exec::project;
use crate::resume::kill_when;
use crate::support::model::{Turn, call, custom, item, say};
use crate::support::world::{PATCH, TestWorld, github};

/// A world with a project and an operator's configuration, in which a prompt has been run.
fn ran(config: &str, model: &str, turns: Vec<Turn>) -> TestWorld {
    let world = TestWorld::local(turns);
    project(&world);
    fs_err::write(world.path("config.yml"), config).unwrap();
    let args = ["exec", "Do it", "--repo", "project", "--out", "out", "--config", "config.yml"];
    let output = world.run(&[&args[..], &["--model", model]].concat());
    // Some leave the project's own check as red as it was.
    assert!([0, 20].contains(&output.code), "{}", output.text());
    assert_eq!(world.model.unused(), 0);
    world
}

/// Names of the declared tools, in order.
fn declared(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().unwrap().iter();
    let name = |tool: &Value| tool["name"].as_str().or(tool["type"].as_str()).unwrap().to_owned();
    tools.map(name).collect()
}

/// The output of the call with this number, as the model was told; the first is 0.
fn answer(world: &TestWorld, number: usize) -> String {
    let requests = world.model.requests();
    let items = requests.last().unwrap().body["input"].as_array().unwrap().clone();
    let outputs = items
        .iter()
        .filter(|item| item["type"].as_str().is_some_and(|kind| kind.ends_with("_output")));
    let output = outputs.clone().nth(number).unwrap_or_else(|| panic!("{items:#?}"));
    output["output"].as_str().map_or_else(|| output.to_string(), str::to_owned)
}

fn entries(world: &TestWorld) -> Vec<Entry> {
    let lines = journal::read(&world.path("out/journal.jsonl")).unwrap();
    lines.into_iter().map(|line| line.entry).collect()
}

fn numbers(world: &TestWorld, tool: &str) -> Value {
    let result = fs_err::read(world.path("out/result.json")).unwrap();
    let result: Value = serde_json::from_slice(&result).unwrap();
    let tools = result["spending"]["tools"].as_array().unwrap();
    tools.iter().find(|row| row["name"] == tool).unwrap_or_else(|| panic!("{tools:#?}")).clone()
}

const CUSTOM: &str = r#"
tools:
  custom:
    peek:
      description: Shows how it was called.
      command: |
        cat; echo; echo "$TOOL_FILE_PATH|$TOOL_DEEP|$TOOL_WHY|${TOOL_LIST-none}"
        echo made > made.txt; echo oops >&2; exit 3
      parameters:
        type: object
        properties:
          file-path: { type: string }
          deep: { type: integer }
          why: { type: boolean }
          list: { type: array, items: { type: string } }
        required: [file-path]
        additionalProperties: false
    quiet: { description: Says nothing., command: "true", reads: true }
"#;

#[test]
fn a_tool_of_the_configuration_is_called_with_its_arguments() {
    let args = json!({"file-path": "a b'\"$x", "deep": 2, "why": true, "list": ["x"]});
    let world = ran(
        CUSTOM,
        "gpt-5.3-codex",
        vec![
            call("peek", args.clone()).and(call("quiet", json!({}))),
            call("peek", json!({"file-path": 5})),
            call("peek", json!({"path": "x"})),
            say("Done."),
            // The check still fails, and is given back once.
            say("Done."),
        ],
    );
    let first = &world.model.requests()[0].body;
    let names = declared(first);
    assert!(names.ends_with(&["peek".to_owned(), "quiet".to_owned()]), "{names:?}");
    let text = answer(&world, 0);
    assert!(text.starts_with("Exit code: 3\n"), "{text}");
    let printed = text.split_once("Output:\n").unwrap().1;
    let mut lines = printed.lines();
    assert_eq!(serde_json::from_str::<Value>(lines.next().unwrap()).unwrap(), args);
    assert_eq!(lines.collect::<Vec<_>>(), ["a b'\"$x|2|true|none", "oops"]);
    assert!(answer(&world, 1).starts_with("Exit code: 0\n"));
    assert!(
        answer(&world, 2).contains("wrong type in `file-path`: number"),
        "{}",
        answer(&world, 2)
    );
    assert!(answer(&world, 3).contains("missing: `file-path`"), "{}", answer(&world, 3));
    let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
    assert!(patch.contains("made.txt"), "{patch}");

    let row = numbers(&world, "peek");
    let counts = ["calls", "failures", "refusals"].map(|key| row[key].as_u64().unwrap());
    assert_eq!(counts, [3, 1, 2]);
    assert!(row["bytes"].as_u64().unwrap() > text.len() as u64);
    assert!(row["max_ms"].as_u64() >= row["median_ms"].as_u64());
    let page = fs_err::read_to_string(world.path("out/report.html")).unwrap();
    assert!(page.contains("<h2>Tools</h2>") && page.contains("<code>peek</code>"), "{page}");
}

#[test]
fn plan_mode_has_only_the_tools_of_the_configuration_that_read() {
    let config = format!("{CUSTOM}\nmode: plan\n");
    let turns =
        vec![call("quiet", json!({})), call("peek", json!({"file-path": "x"})), say("1. Do it.")];
    let world = ran(&config, "gpt-5.3-codex", turns);
    let names = declared(&world.model.requests()[0].body);
    assert!(
        names.contains(&"quiet".to_owned()) && !names.contains(&"peek".to_owned()),
        "{names:?}"
    );
    assert!(answer(&world, 1).contains("there is no tool `peek`"), "{}", answer(&world, 1));
}

const HOOKS: &str = r#"
tools:
  shell-env: { GREETING: "hello there" }
  hooks:
    - when: before
      tools: ["shell*"]
      command: |
        cat >> .seen; echo >> .seen
        if grep -q swap .seen; then
          n=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
          printf '{"arguments": {"command": "echo \\"$GREETING\\" %s > out.txt; cat out.txt"}}' "$n"
        fi
    - when: before
      tools: [apply_patch]
      command: echo '{"deny":"no patches on Sundays"}'
    - { when: before, tools: [read_file], command: "echo broken >&2; exit 7" }
    - { when: before, tools: [list_dir], command: "echo '[null, null]'" }
    - { when: before, tools: [grep_files], command: "echo '{\"arguments\": {\"pattern\": 5}}'" }
    - when: after
      tools: ["shell*", update_plan]
      command: |
        grep -q '"exit_code":0' && echo after >> after.txt
        echo '{"note":"keep it short"}'
    - { when: after, tools: [view_image], command: exit 9 }
"#;

fn swap() -> Turn {
    call("shell_command", json!({"command": "echo swap me"}))
}

/// Whoever wrote the hooks learns of those that fail.
#[track_caller]
fn notes_failed_hooks(world: &TestWorld) {
    let result = fs_err::read_to_string(world.path("out/result.json")).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    for note in [
        "a hook failed before a call of `read_file`, and the call was not run (said once): \
         `echo broken >&2; exit 7`: exit code 7: broken",
        "a hook failed after a call of `view_image` (said once): `exit 9`: exit code 9",
    ] {
        assert_eq!(result["provenance"]["input_notes"].to_string().matches(note).count(), 1);
    }
}

#[test]
fn hooks_change_deny_and_remark_and_the_journal_says_what_ran() {
    let world = ran(
        HOOKS,
        "gpt-5.3-codex",
        vec![
            swap(),
            custom("apply_patch", PATCH),
            call("read_file", json!({"file_path": "calc.sh"})),
            call("list_dir", json!({"dir_path": "."})),
            call("grep_files", json!({"pattern": "add"})),
            call("view_image", json!({"path": "none.png"})),
            say("Done."),
            // The check still fails, and is given back once.
            say("Done."),
        ],
    );
    let text = answer(&world, 0);
    assert!(text.contains("hello there ") && text.ends_with("\nNote: keep it short"), "{text}");
    let denied = |number: usize, why: &str| {
        let text = answer(&world, number);
        assert!(
            text.starts_with("not run, by a rule of this run: ") && text.contains(why),
            "{text}"
        );
    };
    denied(1, "no patches on Sundays");
    denied(2, "exit code 7: broken");
    denied(3, "not what a hook may say");
    denied(4, "wrong type in `pattern`: number");
    assert!(
        answer(&world, 5).ends_with("\nNote: a check after it failed: exit code 9"),
        "{}",
        answer(&world, 5)
    );
    notes_failed_hooks(&world);

    let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
    assert!(!patch.contains("b/calc.sh"), "the patch was denied: {patch}");
    assert!(patch.contains("after.txt"), "{patch}");
    let told = patch.lines().find(|line| line.contains(r#""tool":"shell_command""#)).unwrap();
    let told: Value = serde_json::from_str(told.trim_start_matches('+')).unwrap();
    assert_eq!(told["when"], "before");
    assert_eq!(told["arguments"], json!({"command": "echo swap me"}));

    let entries = entries(&world);
    let started: Vec<_> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::CallStarted { name, arguments, .. } => {
                Some((name.as_str(), arguments.is_some()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(started, [("shell_command", true), ("view_image", false)]);
    let denied =
        entries.iter().filter(|entry| matches!(entry, Entry::CallEnded { denied: true, .. }));
    assert_eq!(denied.count(), 4);
    assert_eq!(numbers(&world, "apply_patch")["refusals"], 1);
}

/// The operator's hook gives another number each time; what counts is what ran.
#[test]
fn a_run_that_was_killed_goes_on_with_the_arguments_that_ran() {
    let turns = || {
        let last = say("Wrote it.\n\nThe greeting is in `out.txt`.");
        // The check still fails, and is given back once.
        [swap(), call("shell_command", json!({"command": "true"})), last.clone(), last]
    };
    let world = TestWorld::new(github(), turns());
    fs_err::write(world.path("config.yml"), HOOKS).unwrap();
    let world = {
        let path = world.path("config.yml").display().to_string();
        world.set("PATCHWRIGHT_CONFIG", path)
    };
    kill_when(&world, |journal| journal.contains("\"is\":\"call_ended\""));
    world.model.replace(turns().into_iter().skip(1));
    world.issue().expect(20);
    let text = world.result("journal.jsonl");
    // The hook remembers the first call, and changes the second one as well.
    let ran = text.lines().rfind(|line| line.contains("\"is\":\"call_started\"")).unwrap();
    let ran: Value = serde_json::from_str(ran).unwrap();
    let command = ran["arguments"]["command"].as_str().unwrap();
    let number = command.split_whitespace().find(|word| word.parse::<u64>().is_ok()).unwrap();
    let patch = world.result("change.patch");
    assert_eq!(patch.matches(r#""id":"call_1_1""#).count(), 1, "the hook ran again: {patch}");
    assert!(patch.contains(&format!("+hello there {number}")), "{number}: {patch}");
}

fn many(above: usize) -> String {
    let mut config = format!("tools:\n  search-above: {above}\n  custom:\n");
    for (name, description) in [
        ("count_words", "Counts the words of a file."),
        ("list_tables", "Lists the tables of the database."),
        ("drop_table", "Removes one table of the database."),
        ("greet", "Says hello to somebody."),
    ] {
        config.push_str(&format!(
            "    {name}:\n      description: {description}\n      command: echo called {name} \"$TOOL_NAME\"\n      \
             parameters: {{ type: object, properties: {{ name: {{ type: string, description: whose }} }} }}\n"
        ));
    }
    config
}

#[test]
fn many_tools_are_found_by_words_and_called_through_another() {
    let world = ran(
        &many(3),
        "gpt-5.3-codex",
        vec![
            call("tool_search", json!({"query": "database tables", "limit": 2})),
            call("call_tool", json!({"name": "list_tables", "arguments": {"name": "main"}})),
            // Those that a model guesses run too.
            call("greet", json!({"name": "you"})),
            call("call_tool", json!({"name": "list_table"})),
            call("call_tool", json!({"name": "greet", "arguments": {"name": 5}})),
            call("call_tool", json!({"name": "call_tool"})),
            call("search_tool_bm25", json!({"query": "database tables"})),
            call("tool_search", json!({"query": "zebra"})),
            call("call_tool", json!({"name": "list_tables", "args": {"name": "side"}})),
            say("Done."),
        ],
    );
    let names = declared(&world.model.requests()[0].body);
    assert!(names.ends_with(&["tool_search".to_owned(), "call_tool".to_owned()]), "{names:?}");
    let found: Vec<Value> = serde_json::from_str(&answer(&world, 0)).unwrap();
    let found: Vec<&str> = found.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(found.len(), 2);
    assert!(found.contains(&"list_tables") && found.contains(&"drop_table"), "{found:?}");
    assert!(answer(&world, 1).ends_with("called list_tables main\n"), "{}", answer(&world, 1));
    assert!(answer(&world, 2).ends_with("called greet you\n"), "{}", answer(&world, 2));
    assert!(
        answer(&world, 3).contains("the nearest first: `list_tables`"),
        "{}",
        answer(&world, 3)
    );
    assert!(answer(&world, 4).contains("wrong type in `name`"), "{}", answer(&world, 4));
    assert!(answer(&world, 5).contains("cannot call itself"), "{}", answer(&world, 5));
    assert!(answer(&world, 6).contains("\"name\":\"list_tables\""), "{}", answer(&world, 6));
    assert!(
        answer(&world, 7).contains("Search with other ones")
            && answer(&world, 7).contains("`greet`"),
        "{}",
        answer(&world, 7)
    );
    assert!(answer(&world, 8).ends_with("called list_tables side\n"), "{}", answer(&world, 8));
    assert_eq!(numbers(&world, "list_tables")["calls"], 2);
    assert_eq!(numbers(&world, "greet")["calls"], 1);

    let few = ran(&many(4), "gpt-5.3-codex", vec![call("greet", json!({})), say("Done.")]);
    let names = declared(&few.model.requests()[0].body);
    let own = ["count_words", "drop_table", "greet", "list_tables"].map(str::to_owned);
    assert!(names.ends_with(&own), "{names:?}");
}

#[test]
fn questions_to_the_user_are_answered_and_stop_nothing() {
    let asked = ["request_user_input", "ask_user", "AskUserQuestion", "ask_followup_question"];
    let questions = json!({"questions": [{"id": "a", "question": "Which one?"}]});
    let turns = asked.iter().map(|name| call(name, questions.clone())).chain([say("Done.")]);
    let world = ran("tools: {}\n", "gpt-5.3-codex", turns.collect());
    for number in 0..asked.len() {
        let text = answer(&world, number);
        assert!(text.contains("nobody is there to answer"), "{text}");
        assert!(text.contains("what you assumed in the final message"), "{text}");
    }
    let names = declared(&world.model.requests()[0].body);
    assert!(!asked.iter().any(|name| names.iter().any(|it| it == name)), "{names:?}");
}

#[test]
fn a_model_with_a_search_of_its_own_gets_that() {
    let world = TestWorld::local([]);
    fs_err::write(world.path("config.yml"), many(0)).unwrap();
    let args = ["tools", "--model", "gpt-5.5", "--config", "config.yml"];
    let tools: Vec<Value> = serde_json::from_str(&world.run(&args).expect(0).stdout).unwrap();
    let declared = tools.iter().find(|tool| tool["type"] == "tool_search").unwrap();
    assert_eq!(declared["execution"], "client");
    assert!(declared["parameters"]["properties"]["query"].is_object(), "{declared}");
    assert!(declared["description"].as_str().unwrap().contains("configuration (4)"), "{declared}");
    assert!(!tools.iter().any(|tool| tool["name"] == "call_tool"));
}

#[test]
fn the_declarations_name_the_hosts_that_can_be_fetched() {
    let world = TestWorld::local([]);
    let config = "network: {allow: [docs.rs]}\ntools: {agents: 2}\n";
    fs_err::write(world.path("config.yml"), config).unwrap();
    let args = ["tools", "--model", "gpt-5.5", "--config", "config.yml"];
    let output = world.run(&args).expect(0);
    let tools: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    let fetch = tools.iter().find(|tool| tool["name"] == "web_fetch").unwrap();
    assert!(fetch["description"].as_str().unwrap().contains("`docs.rs`"), "{fetch}");
    assert!(output.stderr.contains("sub-agent"), "{}", output.text());
}

#[test]
fn what_a_search_of_the_provider_found_is_declared_and_called() {
    let search = json!({
        "type": "tool_search_call", "id": "tsc_1", "call_id": "call_found", "status": "completed",
        "execution": "client", "arguments": {"query": "list tables of the database", "limit": 1},
    });
    let turns = vec![item(search), call("list_tables", json!({"name": "main"})), say("Done.")];
    let world = ran(&many(0), "gpt-5.5", turns);
    let input = world.model.requests()[1].body["input"].as_array().unwrap().clone();
    let found = input.iter().find(|item| item["type"] == "tool_search_output").unwrap();
    assert_eq!((&found["call_id"], &found["execution"]), (&json!("call_found"), &json!("client")));
    let tools = found["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 1, "{found}");
    assert_eq!((&tools[0]["type"], &tools[0]["name"]), (&json!("function"), &json!("list_tables")));
    assert!(tools[0]["parameters"]["properties"]["name"].is_object(), "{found}");
    assert!(answer(&world, 1).ends_with("called list_tables main\n"), "{}", answer(&world, 1));
}

#[test]
fn what_is_switched_off_is_neither_declared_nor_run_under_another_name() {
    let config = "tools:\n  disabled: [\"*shell*\", update_plan]\n";
    let world = ran(
        config,
        "gpt-5.3-codex",
        vec![
            call("shell_command", json!({"command": "echo x > x.txt"})),
            call("bash", json!({"command": "echo x > x.txt"})),
            call("list_dir", json!({"dir_path": "."})),
            call("todowrite", json!({"todos": []})),
            say("Done."),
        ],
    );
    let names = declared(&world.model.requests()[0].body);
    let off = ["shell_command", "exec_command", "write_stdin", "update_plan"];
    assert!(!names.iter().any(|name| off.contains(&name.as_str())), "{names:?}");
    assert!(answer(&world, 0).contains("cannot be used in this run: it is switched off"));
    assert!(answer(&world, 1).contains("cannot be used in this run"), "{}", answer(&world, 1));
    assert!(answer(&world, 3).contains("cannot be used in this run"), "{}", answer(&world, 3));
    assert!(!world.path("out/change.patch").exists());
    let first = world.model.requests()[0].body.to_string();
    assert!(!first.contains("update_plan"), "the instructions do not speak of it either");
}

#[test]
fn who_waits_for_a_command_holds_up_nobody() {
    let begin = json!({"cmd": "until [ -e go ]; do sleep 0.02; done; echo went"});
    let look = json!({"session_id": 1, "yield_time_ms": 300_000});
    let world = ran(
        "tools: {}\n",
        "gpt-5.3-codex",
        vec![
            call("exec_command", begin),
            call("write_stdin", look).and(call("exec_command", json!({"cmd": "touch go"}))),
            say("Done."),
            // The check still fails, and is given back once.
            say("Done."),
        ],
    );
    assert!(answer(&world, 1).contains("\nwent\n"), "{}", answer(&world, 1));
}

#[test]
fn who_only_looks_waits_for_a_while_whatever_the_model_says() {
    let world = ran(
        "tools: {}\n",
        "gpt-5.3-codex",
        vec![
            call("exec_command", json!({"cmd": "sleep 3; echo over", "yield_time_ms": 250})),
            call("write_stdin", json!({"session_id": 1, "yield_time_ms": 0})),
            say("Done."),
        ],
    );
    assert!(answer(&world, 1).contains("\nover\n"), "{}", answer(&world, 1));
}

#[test]
fn rules_hold_for_tools_under_other_names() {
    let config = "tools:\n  disabled: [view_image]\n  hooks:\n    - when: before\n      \
                  tools: [apply_patch]\n      command: echo '{\"deny\":\"no edits\"}'\n";
    let world = ran(
        config,
        "gpt-5.3-codex",
        vec![
            call("write_file", json!({"file_path": "x.txt", "content": "x"})),
            call("create_file", json!({"file_path": "x.txt", "content": "x"})),
            say("Done."),
        ],
    );
    for number in [0, 1] {
        assert!(answer(&world, number).contains("no edits"), "{}", answer(&world, number));
    }
    assert!(!world.path("out/change.patch").exists());

    let generic = "tools: {disabled: [write_file]}\n";
    let turns = vec![
        call("create_file", json!({"file_path": "x.txt", "content": "x"})),
        call("write", json!({"file_path": "x.txt", "content": "x"})),
        say("Done."),
    ];
    let world = TestWorld::local(turns);
    project(&world);
    fs_err::write(world.path("config.yml"), generic).unwrap();
    let args = ["exec", "Do it", "--repo", "project", "--out", "out", "--config", "config.yml"];
    world.run(&[&args[..], &["--model", "chat/some-model"]].concat()).expect(0);
    assert!(!world.path("out/change.patch").exists());
}

/// The numbers of a note about what was left out.
fn left_out(text: &str) -> (u64, u64, u64) {
    let note = text.split_once("[… ").unwrap().1.split_once(" …]").unwrap().0;
    let numbers = note.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    (numbers[0], numbers[1], numbers[2])
}

#[test]
fn the_note_about_what_is_left_out_is_exact() {
    let numbers = |to: u32, between: &str| {
        let numbers: Vec<String> = (1..=to).map(|number| number.to_string()).collect();
        numbers.join(between) + "\n"
    };
    // Below the limit; above it by less than the sandbox keeps; far above it; one line.
    let cases = [
        ("seq 1 8000", numbers(8_000, "\n")),
        ("seq 1 8700", numbers(8_700, "\n")),
        ("seq 1 300000", numbers(300_000, "\n")),
        ("head -c 900000 /dev/zero | tr '\\0' x", "x".repeat(900_000)),
        ("seq -s, 1 90000", numbers(90_000, ",")),
    ];
    let turns = cases.iter().map(|(it, _)| call("shell_command", json!({"command": it})));
    let world = ran("", "gpt-5.3-codex", turns.chain([say("Done.")]).collect());
    for (number, (command, whole)) in cases.iter().enumerate() {
        let text = answer(&world, number);
        let shown = text.split_once("Output:\n").unwrap().1;
        if number == 0 {
            assert_eq!(shown, whole);
            continue;
        }
        let (bytes, lines, tokens) = left_out(shown);
        let (head, rest) = shown.split_once("[… ").unwrap();
        let tail = rest.split_once("…]\n").unwrap().1;
        let head = if whole.starts_with(head) { head } else { head.strip_suffix('\n').unwrap() };
        assert!(whole.starts_with(head) && whole.ends_with(tail), "{command}");
        assert_eq!((head.len() + tail.len()) as u64 + bytes, whole.len() as u64, "{command}");
        let counted = (head.lines().count() + tail.lines().count()) as u64 + lines;
        assert!(counted.abs_diff(whole.lines().count() as u64) <= 1, "{command}: {lines}");
        if whole.lines().count() > 1 {
            assert_eq!(counted, whole.lines().count() as u64, "{command}");
        }
        assert_eq!(tokens, bytes.div_ceil(4), "{command}");
        // What is shown of the output is within the limit; the note that says what is missing comes on top.
        assert!(head.len() + tail.len() <= 40_000, "{command}: {}", shown.len());
    }
}

#[test]
fn a_tool_can_be_left_whole() {
    let config = "tools:\n  untruncated: [\"shell_*\"]\n";
    let turns = vec![call("shell_command", json!({"command": "seq 1 100000"})), say("Done.")];
    let world = ran(config, "gpt-5.3-codex", turns);
    let text = answer(&world, 0);
    assert!(!text.contains("left out"));
    assert_eq!(text.lines().filter(|line| line.parse::<u32>().is_ok()).count(), 100_000);
}

/// Who names one of the names for commands means all of them, as in `disabled` and `hooks`.
#[test]
fn what_is_left_whole_is_named_as_what_is_switched_off() {
    let config = "tools:\n  untruncated: [shell]\n";
    let command = "seq 1 30000";
    let session = call("exec_command", json!({"cmd": command, "yield_time_ms": 30_000}));
    let turns = vec![session.and(call("shell_command", json!({"command": command}))), say("Done.")];
    let world = ran(config, "gpt-5.3-codex", turns);
    for number in 0..2 {
        let text = answer(&world, number);
        let lines = text.lines().filter(|line| line.parse::<u32>().is_ok()).count();
        assert_eq!(lines, 30_000, "the output of call {number}");
    }
}

#[test]
fn patchwright_tools_shows_what_a_configuration_adds() {
    let world = TestWorld::local([]);
    let printed = |config: &str, model: &str| {
        fs_err::write(world.path("config.yml"), config).unwrap();
        let output = world.run(&["tools", "--model", model, "--config", "config.yml"]).expect(0);
        let tools: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
        (declared(&json!({"tools": tools})), output.stderr)
    };
    let (names, _) = printed(CUSTOM, "gpt-5.3-codex");
    assert!(names.ends_with(&["peek".to_owned(), "quiet".to_owned()]), "{names:?}");
    let (names, _) = printed(&many(0), "gpt-5.3-codex");
    assert!(names.ends_with(&["tool_search".to_owned(), "call_tool".to_owned()]), "{names:?}");
    let (names, said) = printed(
        "tools: { disabled: [view_image] }\nmcp: { a: { command: [x] } }\n",
        "gpt-5.3-codex",
    );
    assert!(!names.contains(&"view_image".to_owned()), "{names:?}");
    assert!(said.contains("what MCP servers offer is known when they run"), "{said}");
}
