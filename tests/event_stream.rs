//! The lines of `--json`: each that the program prints is in `docs/events.schema.json`, and each kind that is in
//! there is printed by real work of the real program.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::exec::project;
use crate::resume::{signalled, until};
use crate::support::event_lines::{checked, kinds};
use crate::support::github::GitHub;
use crate::support::model::{
    ModelServer, Turn, call, custom, limited, overloaded, say, unauthorized,
};
use crate::support::world::{Output, PATCH, TestWorld, fix, github};

const EXEC: &[&str] = &["exec", "Make add add", "--repo", "project", "--out", "out", "--json"];

/// The lines of a run, of which the first and the last are what they have to be.
#[track_caller]
fn whole(output: &Output, end: &str) -> Vec<Value> {
    let lines = checked(&output.stdout);
    let first = lines.first().unwrap_or(&Value::Null);
    assert_eq!((&first["is"], &first["format"]), (&json!("run"), &json!(1)), "{}", output.text());
    assert_eq!(lines.last().unwrap()["is"], end, "{}", output.text());
    let ends = lines.iter().filter(|line| line["is"] == "result" || line["is"] == "failure");
    assert_eq!(ends.count(), 1, "{}", output.text());
    lines
}

#[test]
fn a_change_that_cannot_be_written_into_the_folder_does_not_end_the_stream_twice() {
    let world = local(fix());
    fs_err::write(world.path("project/calc.sh"), "# mine\n").unwrap();
    let command = ["exec", "Make add add", "--repo", "project", "--apply", "--json"];
    let output = world.run(&command).expect(2);
    assert_eq!(whole(&output, "result").last().unwrap()["conclusion"], "done");
    assert!(output.stderr.contains("`calc.sh` was edited"), "{}", output.text());
}

fn of<'a>(lines: &'a [Value], kind: &'a str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["is"] == kind).collect()
}

/// What has ended was begun, and the other way round, where nothing broke off.
#[track_caller]
fn is_balanced(lines: &[Value]) {
    let mut open: BTreeMap<(String, String), &str> = BTreeMap::new();
    for line in lines {
        let agent = line["agent"].as_str().unwrap_or_default().to_owned();
        let id = |field: &str| (agent.clone(), line[field].to_string());
        match line["is"].as_str().unwrap() {
            "call_started" => assert!(open.insert(id("id"), "call").is_none(), "{line}"),
            "call_ended" => assert_eq!(open.remove(&id("id")), Some("call"), "{line}"),
            "turn_started" => assert!(open.insert(id("turn"), "asked").is_none(), "{line}"),
            "reply" => assert_eq!(open.insert(id("turn"), "replied"), Some("asked"), "{line}"),
            "turn_ended" => assert_eq!(open.remove(&id("turn")), Some("replied"), "{line}"),
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

fn configured(world: TestWorld, config: &str) -> TestWorld {
    let path = world.path("config.yml");
    fs_err::write(&path, config).unwrap();
    world.set("PATCHWRIGHT_CONFIG", path.display().to_string())
}

fn local(turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    let world = TestWorld::local(turns);
    project(&world);
    world
}

/// A run that goes well, step by step.
fn a_fix() -> Vec<Value> {
    let mut turns = fix();
    turns[1] = turns[1].clone().thinking("The sign looks wrong.");
    let world = local(turns);
    let lines = whole(&world.run(EXEC).expect(0), "result");
    is_balanced(&lines);
    let run = &lines[0];
    assert_eq!((&run["task"], &run["resumed"]), (&json!("exec"), &json!(false)), "{run}");
    assert_eq!(run["folder"], "out");
    let phases: Vec<&str> =
        of(&lines, "phase").iter().map(|it| it["phase"].as_str().unwrap()).collect();
    assert!(phases.contains(&"Working on it"), "{phases:?}");
    let checks: Vec<_> =
        of(&lines, "check").iter().map(|it| (it["when"].clone(), it["passed"].clone())).collect();
    assert_eq!(checks[0], (json!("base"), json!(false)));
    assert_eq!(checks.last().unwrap().1, json!(true), "{checks:?}");
    let turns: Vec<u64> =
        of(&lines, "turn_ended").iter().map(|it| it["turn"].as_u64().unwrap()).collect();
    assert_eq!(turns, [1, 2, 3, 4, 5]);
    let spent = &of(&lines, "turn_ended")[4]["spent"];
    let result = lines.last().unwrap();
    assert_eq!(spent["cost_usd"], result["spending"]["cost_usd"]);
    let replies = of(&lines, "reply");
    let cost: f64 = replies.iter().map(|it| it["cost_usd"].as_f64().unwrap()).sum();
    assert!((cost - spent["cost_usd"].as_f64().unwrap()).abs() < 1e-9, "{cost} {spent}");
    let calls: Vec<_> = of(&lines, "call_ended")
        .iter()
        .map(|it| format!("{} {}", it["tool"].as_str().unwrap(), it["success"]))
        .collect();
    // The test of the base fails, which the shell says by its exit code.
    assert_eq!(calls.len(), 5, "{calls:?}");
    assert!(calls.contains(&"apply_patch true".to_owned()), "{calls:?}");
    let plans = of(&lines, "plan");
    assert_eq!(plans[0]["steps"][0], json!({"step": "Find the bug", "status": "in_progress"}));
    assert_eq!(plans.last().unwrap()["steps"][1]["status"], "completed");
    let thought = of(&lines, "reasoning");
    let is_there = |it: &&Value| it["text"].as_str().unwrap().contains("The sign looks wrong.");
    assert_eq!(thought.into_iter().filter(is_there).count(), 1);
    let words = of(&lines, "message").last().unwrap()["text"].as_str().unwrap().to_owned();
    assert!(words.starts_with("Add instead of subtracting"), "{words}");
    let files = of(&lines, "files")[0];
    let named = files["files"].as_array().unwrap();
    assert!(named.contains(&json!("change.patch")) && named.contains(&json!("result.json")));
    let kept = fs_err::read_to_string(world.path("out/result.json")).unwrap();
    let mut kept: Value = serde_json::from_str(&kept).unwrap();
    let mut printed = result.clone();
    // Only this differs: the file is written before.
    for it in [&mut kept, &mut printed] {
        it["spending"]["wall_seconds"] = json!(0);
    }
    assert_eq!(kept, printed);
    lines
}

/// Two lost answers, and a key that is revoked: the next model goes on.
fn trouble() -> Vec<Value> {
    let turns =
        [overloaded(), limited(1), unauthorized(), custom("apply_patch", PATCH), say("Done.")];
    let world = local(turns)
        .set("PATCHWRIGHT_MODEL", "gpt-5.3-codex")
        .set("PATCHWRIGHT_FALLBACK_MODEL", "gpt-5.2-codex");
    let lines = whole(&world.run(EXEC).expect(0), "result");
    let model = of(&lines, "model")[0];
    assert_eq!(model["model"], "gpt-5.2-codex", "{model}");
    assert!(model["why"].as_str().unwrap().len() > 5, "{model}");
    assert_eq!(of(&lines, "retry")[0]["attempt"], 2);
    lines
}

/// A conversation that is too long after its first reply.
fn long() -> Vec<Value> {
    let tokens = json!({"input_tokens": 90_000, "output_tokens": 200, "total_tokens": 90_200});
    let turns = [
        call("shell_command", json!({"command": "true"})).usage(Some(tokens)),
        say("The sign is wrong; it is mended next."),
        custom("apply_patch", PATCH),
        say("Done."),
    ];
    let mut world = local(turns);
    world.model = world.model.allow_rewrites();
    let world = configured(world, "models:\n  gpt-5.3-codex: {compact-at: 60000}\n")
        .set("PATCHWRIGHT_MODEL", "gpt-5.3-codex");
    let lines = whole(&world.run(EXEC).expect(0), "result");
    let compacted = of(&lines, "compacted")[0];
    assert!(compacted["before"].as_u64() > compacted["after"].as_u64(), "{compacted}");
    lines
}

/// A limit ends the run.
fn limited_to_a_turn() -> Vec<Value> {
    let world = local([call("shell_command", json!({"command": "true"})), say("That was all.")]);
    let args = [EXEC, &["--max-turns", "1"]].concat();
    let lines = whole(&world.run(&args).expect(40), "result");
    is_balanced(&lines);
    assert_eq!(lines.last().unwrap()["conclusion"], "budget_exhausted");
    lines
}

/// The model cannot be asked; what is left goes on later.
fn without_a_model() -> Vec<Value> {
    let world = local([unauthorized()]);
    let lines = whole(&world.run(EXEC).expect(50), "result");
    assert_eq!(lines.last().unwrap()["conclusion"], "provider_error");
    let (asked, answered) = (of(&lines, "turn_started").len(), of(&lines, "turn_ended").len());
    assert_eq!((asked, answered), (1, 0));
    world.model.add(fix());
    let lines = whole(&world.run(EXEC).expect(0), "result");
    assert_eq!(lines[0]["resumed"], true);
    lines
}

/// Sub-agents are told apart.
fn with_agents() -> Vec<Value> {
    let scripts = vec![
        (
            "first-part",
            vec![call("shell_command", json!({"command": "echo 1 > one.txt"})), say("Done")],
        ),
        (
            "Make add add",
            vec![
                call("spawn_agent", json!({"message": "the first-part of it"})),
                call("wait", json!({"ids": ["agent-1"], "timeout_ms": 60_000})),
                say("All is done"),
            ],
        ),
    ];
    let world =
        TestWorld::asking(GitHub::new(), ModelServer::by_word(scripts)).unset("GITHUB_TOKEN");
    project(&world);
    let world = configured(world, "tools: {agents: 2}\nverify: ['true']\n")
        .set("PATCHWRIGHT_MODEL", "gpt-5.3-codex");
    let lines = whole(&world.run(EXEC).expect(0), "result");
    is_balanced(&lines);
    let theirs = lines.iter().filter(|line| line["agent"] == "agent-1");
    let theirs: BTreeSet<&str> = theirs.map(|line| line["is"].as_str().unwrap()).collect();
    let expected = "call_ended call_started message reasoning reply turn_ended turn_started";
    assert_eq!(theirs.into_iter().collect::<Vec<_>>().join(" "), expected);
    assert_eq!(lines.last().unwrap()["agents"][0]["id"], "agent-1");
    lines
}

/// An issue ends in a pull request.
fn an_issue() -> Vec<Value> {
    let world = TestWorld::new(github(), fix());
    let lines = whole(&world.run(&["issue", "acme/app#7", "--json"]).expect(0), "result");
    is_balanced(&lines);
    let published = of(&lines, "published")[0];
    assert_eq!(
        (&published["object"], &published["operation"]),
        (&json!("pull_request"), &json!("created"))
    );
    assert_eq!(published["url"], lines.last().unwrap()["published"]["url"]);
    lines
}

/// A review with a finding.
fn a_review() -> Vec<Value> {
    let (github, turns) = crate::review::with_a_finding();
    let world = TestWorld::new(github.actions_token(), turns);
    let lines = whole(&world.run(&["review", "acme/app#8", "--json"]).expect(0), "result");
    let objects: Vec<_> = of(&lines, "published").iter().map(|it| it["object"].clone()).collect();
    assert_eq!(objects, [json!("review"), json!("check_run")]);
    assert_eq!(lines.last().unwrap()["findings"].as_array().unwrap().len(), 1);
    lines
}

/// A new issue is sorted.
fn a_triage() -> Vec<Value> {
    let world = crate::triage::world(&crate::triage::good());
    let lines = whole(&world.run(&["triage", "acme/app#7", "--json"]).expect(0), "result");
    assert_eq!(of(&lines, "published")[0]["object"], "comment");
    assert_eq!(lines.last().unwrap()["labels"][0]["name"], "bug");
    lines
}

/// A question in a comment.
fn an_answer() -> Vec<Value> {
    let world = TestWorld::new(crate::respond::with_pull(), [say("It adds.")]);
    let args = ["respond", "--json", "acme/app#8", "what does it do?"];
    let lines = whole(&world.run(&args).expect(0), "result");
    assert_eq!(of(&lines, "published")[0]["object"], "comment");
    let result = lines.last().unwrap();
    assert!(result["message"].as_str().unwrap().contains("It adds."), "{result}");
    lines
}

/// Nothing can be begun, and a signal in the middle.
fn failures() -> Vec<Value> {
    let world = TestWorld::local([]);
    let output = world.run(&["exec", "x", "--repo", "nowhere", "--json"]).expect(2);
    let lines = checked(&output.stdout);
    let failure = lines.last().unwrap();
    assert_eq!((&failure["is"], &failure["exit_code"]), (&json!("failure"), &json!(2)));
    assert!(failure["message"].as_str().unwrap().contains("nowhere"), "{failure}");

    let world = local([call("shell_command", json!({"command": "sleep 60"}))]);
    let child = world.spawn(&["exec", "Make add add", "--repo", "project", "--json"]);
    until(&world, |journal| journal.contains("\"is\":\"call_started\""));
    let lines = whole(&signalled(&world, child, "INT"), "failure");
    let failure = lines.last().unwrap();
    assert_eq!(
        (&failure["conclusion"], &failure["exit_code"]),
        (&json!("interrupted"), &json!(130))
    );
    lines
}

#[test]
fn every_line_is_in_the_schema_and_every_kind_in_the_schema_is_printed() {
    let runs = [
        a_fix(),
        trouble(),
        long(),
        limited_to_a_turn(),
        without_a_model(),
        with_agents(),
        an_issue(),
        a_review(),
        a_triage(),
        an_answer(),
        failures(),
    ];
    let printed: BTreeSet<&str> =
        runs.iter().flatten().map(|line| line["is"].as_str().unwrap()).collect();
    let documented = kinds();
    let known: BTreeSet<&str> = documented.iter().map(String::as_str).collect();
    assert_eq!(printed, known);
    // A run's, a review's, a command's and a triage's.
    assert_eq!(documented.iter().filter(|kind| *kind == "result").count(), 4);
    let page = fs_err::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/events.md"));
    let page = page.unwrap();
    for kind in &documented {
        assert!(page.contains(&format!("| `{kind}` |")), "docs/events.md has no `{kind}`");
    }
}

#[test]
fn a_secret_in_what_a_model_says_is_in_no_line() {
    let key = crate::support::world::KEY;
    let turns = [
        call("shell_command", json!({"command": format!("echo {key}")})),
        say(format!("The key is {key}.")),
    ];
    let world = local(turns);
    let output = world.run(EXEC);
    let lines = whole(&output, "result");
    assert_eq!(of(&lines, "message").len(), 1);
    assert!(!output.stdout.contains(key), "{}", output.text());
}
