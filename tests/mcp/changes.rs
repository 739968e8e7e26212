//! Tools that change during a run: declared again at the next turn, a bounded number of times.

use serde_json::{Value, json};

use super::run::{bad, exec, result, world};
use crate::support::git_repo::git;
use crate::support::mcp::named;
use crate::support::model::{ModelServer, Turn, call, say, unauthorized};
use crate::support::world::TestWorld;

fn go() -> Turn {
    call("mcp__it__go", json!({}))
}

/// A world with a server that changes its tools with every call of `go`.
fn changing(mode: &str, turns: Vec<Turn>) -> TestWorld {
    let mut world = world(&named([("it", bad(mode))]), turns);
    world.model = world.model.allow_rewrites();
    let url = world.model.url();
    world.set("OPENAI_BASE_URL", url)
}

/// The servers' tools that each request declares.
fn declared(world: &TestWorld) -> Vec<String> {
    let names = |body: &Value| -> String {
        let tools = body["tools"].as_array().unwrap().iter();
        let names = tools.filter_map(|tool| tool["name"].as_str());
        names.filter_map(|name| name.strip_prefix("mcp__it__")).collect::<Vec<_>>().join(" ")
    };
    world.model.requests().iter().map(|request| names(&request.body)).collect()
}

fn prompted(world: &TestWorld) -> usize {
    result(world, "journal.jsonl").matches("\"is\":\"prompted\"").count()
}

#[test]
fn a_tool_that_a_server_gets_can_be_called_at_the_next_turn() {
    let world = changing("grows", vec![go(), call("mcp__it__more_1", json!({})), say("Done.")]);
    exec(&world, "gpt-5.3-codex").expect(0);
    assert_eq!(declared(&world), ["go", "go more_1", "go more_1"]);
    let told = world.told();
    assert!(told.contains("New: `mcp__it__more_1`."), "{told}");
    assert!(told.contains("more_1 at step 1"), "{told}");
    assert_eq!(prompted(&world), 2);
    // The same once more, from the journal alone.
    let journal = world.path("out/journal.jsonl").display().to_string();
    let project = world.path("project").display().to_string();
    let replayed = world.run(&["replay", &journal, "--repo", &project]).expect(0);
    assert!(replayed.text().contains("same tree"), "{}", replayed.text());
}

#[test]
fn what_is_announced_and_did_not_happen_costs_nothing() {
    let world = changing("same", vec![go(), go(), say("Done.")]);
    exec(&world, "gpt-5.3-codex").expect(0);
    assert_eq!(prompted(&world), 1);
    assert!(!world.told().contains("are others from here on"));
}

#[test]
fn a_server_that_changes_its_mind_all_the_time_is_believed_five_times() {
    let turns = (0..8).map(|_| go()).chain([say("Done.")]).collect();
    let world = changing("flaps", turns);
    exec(&world, "gpt-5.3-codex").expect(0);
    let expected =
        ["go", "blink go", "go", "blink go", "go", "blink go", "blink go", "blink go", "blink go"];
    assert_eq!(declared(&world), expected);
    assert_eq!(prompted(&world), 6);
    let said = result(&world, "report.html");
    assert!(said.contains("changes its tools over and over"), "{said}");
}

#[test]
fn thousands_of_announcements_are_one_question() {
    let world = changing("storms", vec![go(), go(), say("Done.")]);
    exec(&world, "gpt-5.3-codex").expect(0);
    let told = world.told();
    assert!(told.contains("go at step 1 after 1 lists"), "{told}");
    assert!(told.contains("go at step 2 after 2 lists"), "{told}");
    assert_eq!(prompted(&world), 1);
}

#[test]
fn a_schema_that_changes_is_what_the_model_sees_next() {
    let there = call("mcp__it__go", json!({"to": "there"}));
    let world = changing("rewords", vec![go(), go(), there, say("Done.")]);
    exec(&world, "gpt-5.3-codex").expect(0);
    let described = |at: usize| -> Value {
        let requests = world.model.requests();
        let tools = requests[at].body["tools"].as_array().unwrap().clone();
        tools.into_iter().find(|tool| tool["name"] == "mcp__it__go").unwrap()
    };
    assert_eq!(described(0)["description"], "does go");
    assert_eq!(described(1)["description"], "goes somewhere");
    assert_eq!(described(1)["parameters"]["required"], json!(["to"]));
    // The second call is one of the old kind: checked here, before the server has it.
    let told = world.told();
    assert!(told.contains("go at step 1") && told.contains("go at step 2"), "{told}");
    assert!(!told.contains("go at step 3"), "{told}");
    let said = result(&world, "report.html");
    assert!(said.contains("changed its tools during the run: 0 new, 2 gone, 1 described anew"));
}

#[test]
fn hundreds_of_new_tools_are_found_by_searching() {
    let world = changing("crowds", vec![go(), say("Done.")]);
    exec(&world, "gpt-5.3-codex").expect(0);
    let requests = world.model.requests();
    let tools = requests[1].body["tools"].as_array().unwrap();
    assert!(tools.len() < 40, "{} are declared", tools.len());
    assert!(
        tools.iter().any(|tool| tool["name"] == "tool_search" || tool["type"] == "tool_search")
    );
    let said = result(&world, "report.html");
    assert!(said.contains("has more than 512 tools"), "{said}");
    assert!(said.contains("changed its tools during the run: 511 new"), "{said}");
}

#[test]
fn a_list_that_is_announced_and_not_given_leaves_the_tools_as_they_were() {
    let world = changing("mute", vec![go(), go(), go(), go(), say("Done.")]);
    exec(&world, "gpt-5.3-codex").expect(0);
    assert_eq!(declared(&world), ["go look remove"; 5]);
    // It is asked twice, and no more.
    assert!(world.told().contains("go at step 4 after 3 lists"), "{}", world.told());
    assert_eq!(prompted(&world), 1);
    let said = result(&world, "report.html");
    assert!(said.contains("its tools have changed, and they stay as they were"), "{said}");
}

#[test]
fn a_model_that_goes_on_for_another_has_the_new_tools_among_its_own() {
    let turns = vec![go(), unauthorized(), call("mcp__it__more_1", json!({})), say("Done.")];
    let world = changing("grows", turns).set("PATCHWRIGHT_FALLBACK_MODEL", "claude-sonnet-5");
    exec(&world, "gpt-5.3-codex").expect(0);
    assert_eq!(declared(&world), ["go", "go more_1", "go more_1", "go more_1"]);
    assert!(world.told().contains("more_1 at step 1"), "{}", world.told());
    let own = |at: usize| -> Vec<String> {
        let requests = world.model.requests();
        let tools = requests[at].body["tools"].as_array().unwrap().iter();
        let names = tools.filter_map(|tool| tool["name"].as_str());
        names.filter(|name| !name.starts_with("mcp__")).map(str::to_owned).collect()
    };
    assert_ne!(own(1), own(2), "the second model has another profile");
    assert_eq!(own(2), own(3));
}

/// A world whose agents are told apart by a word of their task, with a server that gets a tool with every call of `go`.
fn with_sub_agents(scripts: Vec<(&'static str, Vec<Turn>)>, files: &[(&str, &str)]) -> TestWorld {
    let mut world = world(&named([("it", bad("grows"))]), Vec::new());
    world.model = ModelServer::by_word(scripts).allow_rewrites();
    let project = world.path("project");
    fs_err::create_dir_all(project.join(".agents/agents")).unwrap();
    for (name, text) in files {
        fs_err::write(project.join(".agents/agents").join(name), text).unwrap();
    }
    git(&project, &["add", "."]);
    git(&project, &["commit", "--quiet", "--allow-empty", "--message", "Agents"]);
    let text = fs_err::read_to_string(world.path("config.yml")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["tools"] = json!({"agents": 2});
    fs_err::write(world.path("config.yml"), config.to_string()).unwrap();
    let url = world.model.url();
    world.set("OPENAI_BASE_URL", url)
}

/// The servers' tools that the requests about a word declare.
fn declared_to(world: &TestWorld, task: &str) -> Vec<String> {
    let names = |body: &Value| -> String {
        let tools = body["tools"].as_array().unwrap().iter();
        let names = tools.filter_map(|tool| tool["name"].as_str());
        names.filter_map(|name| name.strip_prefix("mcp__it__")).collect::<Vec<_>>().join(" ")
    };
    world.model.requests_about(task).iter().map(|request| names(&request.body)).collect()
}

fn spawn(message: &str, kind: Option<&str>) -> Turn {
    let mut args = json!({"message": message});
    if let Some(kind) = kind {
        args["agent_type"] = json!(kind);
    }
    call("spawn_agent", args)
}

fn wait(id: &str) -> Turn {
    call("wait", json!({"ids": [id], "timeout_ms": 60_000}))
}

#[test]
fn a_sub_agent_follows_a_server_as_the_run_does_and_no_further_than_its_kind() {
    let narrow = "---\nname: narrow\ndescription: looks\ntools: [Read, mcp__it__go]\n---\nLook.\n";
    let wide = "---\nname: wide\ndescription: goes\ntools: [Read, 'mcp__it__*']\n---\nGo.\n";
    let scripts = vec![
        ("first-part", vec![go(), call("mcp__it__more_1", json!({})), say("One.")]),
        ("second-part", vec![go(), go(), say("Two.")]),
        ("third-part", vec![go(), call("mcp__it__more_4", json!({})), say("Three.")]),
        (
            "Do it",
            vec![
                spawn("the first-part of it", None),
                wait("agent-1"),
                spawn("the second-part of it", Some("narrow")),
                wait("agent-2"),
                spawn("the third-part of it", Some("wide")),
                wait("agent-3"),
                say("Done."),
            ],
        ),
    ];
    let world = with_sub_agents(scripts, &[("narrow.md", narrow), ("wide.md", wide)]);
    exec(&world, "gpt-5.3-codex").expect(0);
    assert_eq!(declared_to(&world, "first-part"), ["go", "go more_1", "go more_1"]);
    assert_eq!(declared_to(&world, "second-part"), ["go", "go", "go"]);
    assert!(declared_to(&world, "third-part")[1].ends_with("more_3 more_4"));
    let told = world.told();
    assert!(told.contains("New: `mcp__it__more_1`."), "{told}");
    assert!(told.contains("more_1 at step 1") && told.contains("more_4 at step 4"), "{told}");
    // Whoever noticed it, it is in the report.
    let report = result(&world, "report.html");
    assert!(report.contains("changed its tools during the run: 1 new"), "{report}");
    let journal = world.path("out/journal.jsonl").display().to_string();
    let project = world.path("project").display().to_string();
    let replayed = world.run(&["replay", &journal, "--repo", &project]).expect(0);
    assert!(replayed.text().contains("same tree"), "{}", replayed.text());
}
