//! Sub-agents: a model starts others for parts of its task. The real program and sandbox; the model server
//! knows by what a request says who of them is asking, so they may work at the same time.

mod files;
mod killed;

use patchwright_journal::{self as journal, Entry, Line};
use patchwright_provider::item::Content;
use serde_json::{Value, json};

use crate::exec::project;
use crate::support::github::GitHub;
use crate::support::model::{ModelServer, Turn, call, custom, fail, say};
use crate::support::world::{KEY, TestWorld};

/// A world with a project, a task, and agents by what they are told.
fn world(scripts: Vec<(&'static str, Vec<Turn>)>) -> TestWorld {
    asking(ModelServer::by_word(scripts))
}

fn asking(model: ModelServer) -> TestWorld {
    let world = TestWorld::asking(GitHub::new(), model).unset("GITHUB_TOKEN");
    project(&world);
    configured(world, "tools: {agents: 2}\nverify: ['true']\n")
}

fn configured(world: TestWorld, config: &str) -> TestWorld {
    let path = world.path("config.yml");
    fs_err::write(&path, config).unwrap();
    world
        .set("PATCHWRIGHT_CONFIG", path.display().to_string())
        .set("PATCHWRIGHT_MODEL", "gpt-5.3-codex")
}

const RUN: &[&str] = &["exec", "Do the whole-task", "--repo", "project", "--out", "out"];

fn spawn(message: &str) -> Turn {
    call("spawn_agent", json!({"message": message}))
}

fn spawn_as(kind: &str, message: &str) -> Turn {
    call("spawn_agent", json!({"message": message, "agent_type": kind}))
}

fn wait(ids: &[&str]) -> Turn {
    call("wait", json!({"ids": ids, "timeout_ms": 60_000}))
}

fn of(tool: &str, id: &str) -> Turn {
    call(tool, json!({"id": id}))
}

fn send(id: &str, message: &str, interrupt: bool) -> Turn {
    call("send_input", json!({"id": id, "message": message, "interrupt": interrupt}))
}

fn run(command: &str) -> Turn {
    call("shell_command", json!({"command": command}))
}

fn lines(world: &TestWorld) -> Vec<Line> {
    journal::read(&world.path("out/journal.jsonl")).unwrap()
}

/// What a tool answered the run's own model, each time that it was called.
fn answers(world: &TestWorld, tool: &str) -> Vec<String> {
    let of_tool = |line: &Line| match &line.entry {
        Entry::CallEnded { output, .. } if output.name == tool => {
            Some(Content::texts(&output.content))
        }
        _ => None,
    };
    lines(world).iter().filter_map(of_tool).collect()
}

/// The only answer of a tool, as JSON.
#[track_caller]
fn answer(world: &TestWorld, tool: &str) -> Value {
    let answers = answers(world, tool);
    assert_eq!(answers.len(), 1, "{answers:?}");
    serde_json::from_str(&answers[0]).unwrap_or_else(|err| panic!("{err}: {answers:?}"))
}

/// Names of the entries in an agent's lane.
fn lane(world: &TestWorld, agent: &str) -> Vec<String> {
    let own = |line: &Line| match line.entry.of_agent() {
        (Some(id), entry) if id == agent => {
            Some(serde_json::to_value(entry).unwrap()["is"].as_str().unwrap().to_owned())
        }
        _ => None,
    };
    lines(world).iter().filter_map(own).collect()
}

fn patch(world: &TestWorld) -> String {
    fs_err::read_to_string(world.path("out/change.patch")).unwrap_or_default()
}

fn result(world: &TestWorld) -> Value {
    serde_json::from_slice(&fs_err::read(world.path("out/result.json")).unwrap()).unwrap()
}

/// Two agents write a file each, in the tools of a family, at the same time.
fn two_write(model: &str, shell: &str) {
    let write = |path: &str| {
        let command = format!("echo of {path} > {path}");
        let args = if shell == "run_shell_command" && model.starts_with("gemini") {
            json!({"command": command, "description": "Writes a file"})
        } else {
            json!({"command": command})
        };
        vec![call(shell, args), say(format!("Wrote {path}"))]
    };
    let whole = vec![
        spawn("the first-part of it").and(spawn("the second-part of it")),
        wait(&["agent-1"]),
        wait(&["agent-2"]),
        of("close_agent", "agent-1").and(of("close_agent", "agent-2")),
        say("Both parts are done"),
    ];
    let world = world(vec![
        ("first-part", write("one.txt")),
        ("second-part", write("two.txt")),
        ("whole-task", whole),
    ]);
    let root = world.model.root();
    let world = world
        .set("PATCHWRIGHT_MODEL", model)
        .set("ANTHROPIC_BASE_URL", &root)
        .set("ANTHROPIC_API_KEY", KEY)
        .set("GOOGLE_GEMINI_BASE_URL", &root)
        .set("GEMINI_API_KEY", KEY);
    let output = world.run(RUN).expect(0);
    assert!(output.stdout.starts_with("Both parts are done"), "{}", output.text());
    let patch = patch(&world);
    assert!(patch.contains("+of one.txt") && patch.contains("+of two.txt"), "{patch}");
    let started: Vec<String> = answers(&world, "spawn_agent");
    let agent = |n: usize| format!("{{\"agent_id\":\"agent-{n}\",\"agent_type\":\"default\"}}");
    assert_eq!(started, [agent(1), agent(2)]);
    let waited: Value = serde_json::from_str(&answers(&world, "wait")[0]).unwrap();
    assert_eq!(waited["status"]["agent-1"]["completed"], "Wrote one.txt");
    assert_eq!(waited["timed_out"], false);
    let closed = answers(&world, "close_agent");
    assert_eq!(closed[1], "{\"status\":{\"completed\":\"Wrote two.txt\"}}");
    // Everybody's turns count for the run.
    let result = result(&world);
    assert_eq!(result["spending"]["turns"], 9);
    assert_eq!(result["agents"][1]["id"], "agent-2");
    assert_eq!(result["agents"][1]["spending"]["turns"], 2);
    assert_eq!(result["agents"][1]["ended"], "finished");
    let page = fs_err::read_to_string(world.path("out/report.html")).unwrap();
    assert!(page.contains("Agent agent-2 (default, "), "{page}");
    assert_eq!(world.model.requests().len(), 9);
}

#[test]
fn two_agents_of_a_codex_model_write_files() {
    two_write("gpt-5.3-codex", "shell_command");
}

#[test]
fn two_agents_of_a_chat_model_write_files() {
    two_write("chat/some-model", "run_shell_command");
}

#[test]
fn two_agents_of_a_claude_write_files() {
    two_write("claude-sonnet-5", "bash");
}

#[test]
fn two_agents_of_a_gemini_write_files() {
    two_write("gemini-3.5-flash", "run_shell_command");
}

#[test]
fn an_agent_that_was_closed_is_opened_again_with_all_that_it_knows() {
    let whole = vec![
        spawn("the first-part of it"),
        wait(&["agent-1"]),
        of("close_agent", "agent-1"),
        send("agent-1", "more of it", false),
        of("resume_agent", "agent-1"),
        send("agent-1", "more of it", false),
        wait(&["agent-1"]),
        send("agent-1", "and again", false),
        wait(&["agent-1"]),
        say("Done"),
    ];
    let part = vec![say("Looked"), run("echo 1 > one"), say("Wrote"), say("Nothing left")];
    let world = world(vec![("first-part", part), ("whole-task", whole)]);
    world.run(RUN).expect(0);
    let sent = answers(&world, "send_input");
    assert!(sent[0].contains("`agent-1` is closed. Open it again with `resume_agent`"), "{sent:?}");
    assert_eq!(sent[1], "{\"submission_id\":\"agent-1-input-1\"}");
    assert_eq!(answers(&world, "resume_agent"), ["{\"status\":{\"completed\":\"Looked\"}}"]);
    let waited = answers(&world, "wait");
    assert!(waited[1].contains("\"completed\":\"Wrote\""), "{waited:?}");
    assert!(waited[2].contains("\"completed\":\"Nothing left\""), "{waited:?}");
    assert!(patch(&world).contains("+++ b/one"));
    let asked = world.model.requests_about("first-part");
    assert_eq!(asked.len(), 4);
    let last = String::from_utf8_lossy(&asked[3].raw).into_owned();
    for known in ["Looked", "more of it", "echo 1", "and again"] {
        assert!(last.contains(known), "{known}: {last}");
    }
    assert!(!last.contains("whole-task"), "an agent knows its part only");
}

#[test]
fn what_cannot_be_done_is_said_and_the_run_goes_on() {
    let whole = vec![
        of("close_agent", "agent-1"),
        call("wait", json!({})),
        spawn(" "),
        spawn_as("astronaut", "fly"),
        call("spawn_agent", json!({"task": 1})),
        spawn("the first-part of it"),
        spawn("the second-part of it"),
        wait(&["agent-7"]),
        of("close_agent", "agent-1"),
        spawn("the second-part of it"),
        wait(&["agent-2"]),
        call("wait", json!({"ids": ["agent-2"], "timeout_ms": 0})),
        call("wait", json!({})),
        say("Done"),
    ];
    let world = world(vec![
        ("first-part", vec![run("sleep 300"), say("never")]),
        ("second-part", vec![say("Looked")]),
        ("whole-task", whole),
    ]);
    let world = configured(world, "tools: {agents: 1}\nverify: ['true']\n");
    world.run(RUN).expect(0);
    let closed = answers(&world, "close_agent");
    assert_eq!(closed[0], "agent with id `agent-1` not found: none was started yet");
    assert_eq!(closed[1], "{\"status\":\"running\"}");
    let started = answers(&world, "spawn_agent");
    assert!(started[0].contains("`message` is empty"), "{started:?}");
    assert!(started[1].contains("no agent type `astronaut`. The types are `default`, `explorer`"));
    assert!(started[2].contains("wrong type in `message`: number"), "{started:?}");
    assert!(started[4].contains("1 agent is working, and that is the most"), "{started:?}");
    assert!(started[5].contains("\"agent-2\""), "{started:?}");
    let waited = answers(&world, "wait");
    assert!(waited[0].contains("no agent is open"), "{waited:?}");
    assert!(waited[1].contains("\"agent-7\":\"not_found\""), "{waited:?}");
    assert!(waited[2].contains("\"completed\":\"Looked\""), "{waited:?}");
    assert!(waited[3].contains("must be greater than zero"), "{waited:?}");
    // It had ended before the call, and its report is to be had all the same.
    assert!(waited[4].contains("\"completed\":\"Looked\""), "{waited:?}");
    assert!(lane(&world, "agent-1").contains(&"closed".to_owned()));
}

#[test]
fn an_agent_that_is_told_to_stop_gives_up_what_it_does() {
    let model = ModelServer::deciding(|said| {
        let body = String::from_utf8_lossy(&said.request.raw).into_owned();
        if said.names("first-part") {
            let is_told = body.contains("stop that");
            return Some(if is_told { say("Stopped") } else { run("sleep 300") });
        }
        let whole = [
            spawn("the first-part of it"),
            send("agent-1", "and then this", false),
            send("agent-1", "stop that", true),
            wait(&["agent-1"]),
            run("echo 1 > one"),
            say("Done"),
        ];
        whole.get(said.position).cloned()
    });
    let world = asking(model);
    world.run(RUN).expect(0);
    let waited = answer(&world, "wait");
    assert_eq!(waited["status"]["agent-1"]["completed"], "Stopped", "{waited}");
    let asked = world.model.requests_about("first-part");
    let last = String::from_utf8_lossy(&asked.last().unwrap().raw).into_owned();
    assert!(last.contains("and then this"), "{last}");
}

#[test]
fn an_agent_at_its_limit_says_so_and_its_caller_goes_on() {
    let whole = vec![
        spawn_as("short", "the first-part of it"),
        wait(&["agent-1"]),
        run("echo 2 > two"),
        say("Done"),
    ];
    let part = vec![run("echo 1 > one"), say("never")];
    let world = world(vec![("first-part", part), ("whole-task", whole)]);
    let agents = world.path("agents");
    fs_err::create_dir(&agents).unwrap();
    let file = "---\ndescription: Does little\nmax-turns: 1\n---\nBe short.\n";
    fs_err::write(agents.join("short.md"), file).unwrap();
    let config =
        format!("tools: {{agents: 2, agent-files: {}}}\nverify: ['true']\n", agents.display());
    let world = configured(world, &config);
    world.run(RUN).expect(0);
    let waited = answer(&world, "wait");
    assert_eq!(waited["status"]["agent-1"]["errored"], "the limit on turns was reached");
    let patch = patch(&world);
    assert!(patch.contains("+++ b/one") && patch.contains("+++ b/two"), "{patch}");
    assert_eq!(world.model.requests_about("first-part").len(), 1);
}

#[test]
fn what_agents_use_counts_against_the_runs_limits() {
    let whole = vec![spawn("the first-part of it"), wait(&["agent-1"]), say("Done")];
    let part = vec![run("true"), run("true # 2"), run("true # 3"), say("never")];
    let world = world(vec![("first-part", part), ("whole-task", whole)]);
    let args = [RUN, &["--max-turns", "3"]].concat();
    world.run(&args).expect(40);
    // The last request is for the last words.
    assert_eq!(world.model.requests().len(), 4);
}

#[test]
fn an_agent_whose_provider_fails_is_reported_and_the_run_goes_on() {
    let whole = vec![spawn("the first-part of it"), wait(&["agent-1"]), say("Done")];
    let world = world(vec![
        ("first-part", vec![fail(400, "invalid_request_error", "no")]),
        ("whole-task", whole),
    ]);
    world.run(RUN).expect(0);
    let waited = answer(&world, "wait");
    let why = waited["status"]["agent-1"]["errored"].as_str().unwrap();
    assert!(why.contains("rejects the request (400)"), "{why}");
    assert_eq!(lane(&world, "agent-1").last().unwrap(), "stopped");
}

#[test]
fn agents_that_still_work_at_the_end_are_closed_and_that_is_noted() {
    let whole = vec![run("echo 2 > two"), spawn("the first-part of it"), say("Done")];
    let world = world(vec![
        ("first-part", vec![run("sleep 300; echo 1 > one"), say("never")]),
        ("whole-task", whole),
    ]);
    world.run(RUN).expect(0);
    assert!(
        lane(&world, "agent-1").contains(&"closed".to_owned()),
        "{:?}",
        lane(&world, "agent-1")
    );
    let notes = result(&world)["provenance"]["input_notes"].to_string();
    assert!(notes.contains("`agent-1` (default) was still working and was closed"), "{notes}");
    assert_eq!(result(&world)["agents"][0]["ended"], "working");
    assert!(!patch(&world).contains("+++ b/one"));
}

#[test]
fn an_agent_starts_none_itself() {
    let whole = vec![spawn("the first-part of it"), wait(&["agent-1"]), say("Done")];
    let part = vec![spawn("the whole-task again"), say("Did it myself")];
    let world = world(vec![("first-part", part), ("whole-task", whole)]);
    world.run(RUN).expect(0);
    let asked = world.model.requests_about("first-part");
    assert!(!String::from_utf8_lossy(&asked[0].raw).contains("spawn_agent"));
    assert!(String::from_utf8_lossy(&asked[1].raw).contains("there is no tool `spawn_agent`"));
}

#[test]
fn other_programs_names_for_it_are_understood() {
    let whole = vec![
        call(
            "Task",
            json!({"description": "x", "prompt": "the first-part", "subagent_type": "general-purpose"}),
        ),
        call("wait_agent", json!({"targets": ["agent-1"]})),
        say("Done"),
    ];
    let world = world(vec![("first-part", vec![say("Looked")]), ("whole-task", whole)]);
    world.run(RUN).expect(0);
    let answer = answer(&world, "Task");
    assert_eq!(answer["status"]["completed"], "Looked");
    assert_eq!(answer["agent_id"], "agent-1");
    let waited = answers(&world, "wait_agent");
    assert!(waited[0].contains("\"agent-1\":\"shutdown\""), "{waited:?}");
}

#[test]
fn nothing_is_declared_unless_agents_are_configured_or_there_are_files() {
    for (config, expected) in [
        ("verify: ['true']\n", false),
        ("tools: {agents: 0}\nverify: ['true']\n", false),
        ("tools: {agents: 1}\nverify: ['true']\n", true),
    ] {
        let world = configured(world(vec![("whole-task", vec![say("Done")])]), config);
        world.run(RUN).expect(0);
        assert_eq!(world.told().contains("spawn_agent"), expected, "{config}");
    }
}

#[test]
fn agents_are_started_from_scripts_and_the_run_can_be_replayed() {
    let write = |path: &str| {
        let script = format!("await tools.exec_command({{cmd: 'echo of {path} > {path}'}})");
        vec![custom("exec", &script), say(format!("Wrote {path}"))]
    };
    let both = "text(await Promise.all(['first', 'second'].map(it => \
                tools.spawn_agent({message: `the ${it}-part of it`}))))";
    let until = "await tools.wait_agent({targets: ['agent-1']})\n\
                 text(await tools.wait_agent({targets: ['agent-2']}))";
    let world = world(vec![
        ("first-part", write("one.txt")),
        ("second-part", write("two.txt")),
        ("whole-task", vec![custom("exec", both), custom("exec", until), say("Both are done")]),
    ])
    .set("PATCHWRIGHT_MODEL", "gpt-6.1-sol");
    world.run(RUN).expect(0);
    let patch = patch(&world);
    assert!(patch.contains("+of one.txt") && patch.contains("+of two.txt"), "{patch}");
    assert_eq!(world.model.requests().len(), 7);
    let output = world.run(&["replay", "out"]).expect(0);
    assert!(output.stdout.starts_with("same tree"), "{}", output.text());
}

#[test]
fn a_run_with_agents_comes_to_the_same_tree_again() {
    let whole = vec![
        spawn("the first-part of it").and(spawn("the second-part of it")),
        wait(&["agent-1"]),
        spawn("too many").and(run("echo w >> both")),
        wait(&["agent-2"]),
        send("agent-1", "once more", false),
        wait(&["agent-1"]),
        of("close_agent", "agent-2"),
        wait(&["agent-3"]),
        say("Done"),
    ];
    let first = vec![
        run("echo 1 >> both"),
        run("echo 11 >> both"),
        say("First"),
        run("echo 111 >> both"),
        say("First again"),
    ];
    let second = vec![run("echo 2 >> both"), run("echo 22 >> both"), say("Second")];
    let world = world(vec![
        ("first-part", first),
        ("second-part", second),
        ("too many", vec![run("echo t >> both"), say("Third")]),
        ("whole-task", whole),
    ]);
    world.run(RUN).expect(0);
    let asked = world.model.requests().len();
    let output = world.run(&["replay", "out"]).expect(0);
    assert!(output.stdout.starts_with("same tree"), "{}", output.text());
    assert!(output.stderr.contains("· [agent-1] shell_command"), "{}", output.text());
    assert_eq!(world.model.requests().len(), asked);
}

#[test]
fn a_script_has_replies_for_each_agent() {
    let script = r"
- calls: [{ tool: spawn_agent, args: { message: Write one } }]
- { agent: agent-1, calls: [{ tool: shell_command, args: { command: echo 1 > one } }] }
- { agent: agent-1, text: Wrote it }
- calls: [{ tool: wait, args: {} }]
- text: Done
";
    let world = world(vec![]);
    fs_err::write(world.path("script.yml"), script).unwrap();
    world.run(&[RUN, &["--model", "scripted:script.yml"]].concat()).expect(0);
    assert!(patch(&world).contains("+++ b/one"));
}
