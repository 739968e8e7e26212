//! Whole runs: the program as people run it, a scripted model, servers in its sandbox and outside of it.

use std::collections::BTreeMap;

use patchwright::config::tools::McpServer;
use serde_json::{Value, json};

use crate::exec::project;
use crate::support::git_repo::git as git_program;
use crate::support::mcp::{bad, everything, git, named};
use crate::support::model::{Turn, call, say};
use crate::support::world::{KEY, Output, TestWorld};

/// A world whose operator has configured servers.
fn world(servers: &BTreeMap<String, McpServer>, turns: Vec<Turn>) -> TestWorld {
    let world = TestWorld::local(turns);
    project(&world);
    configure(&world, servers);
    let root = world.model.root();
    world
        .set("ANTHROPIC_BASE_URL", &root)
        .set("ANTHROPIC_API_KEY", KEY)
        .set("GOOGLE_GEMINI_BASE_URL", &root)
        .set("GEMINI_API_KEY", KEY)
}

fn configure(world: &TestWorld, servers: &BTreeMap<String, McpServer>) {
    let config = json!({"mcp": servers, "verify": []});
    fs_err::write(world.path("config.yml"), config.to_string()).unwrap();
}

fn exec(world: &TestWorld, model: &str) -> Output {
    world.run(&[
        "exec",
        "Do it",
        "--repo",
        "project",
        "--out",
        "out",
        "--config",
        "config.yml",
        "--model",
        model,
    ])
}

fn result(world: &TestWorld, name: &str) -> String {
    fs_err::read_to_string(world.path("out").join(name)).unwrap_or_default()
}

#[test]
fn real_servers_work_in_a_run_on_every_wire() {
    let (Some(everything), Some(git)) = (everything(), git()) else { return };
    let servers = named([("everything", everything), ("git", git)]);
    for model in ["gpt-5.3-codex", "chat/some-model", "claude-sonnet-5", "gemini-3.5-flash"] {
        let world = world(
            &servers,
            vec![
                call("mcp__everything__echo", json!({"message": "salut"})),
                call("mcp__everything__get-tiny-image", json!({})),
                call("mcp__git__git_log", json!({"repo_path": ".", "max_count": 1})),
                call(
                    "mcp__git__git_create_branch",
                    json!({"repo_path": ".", "branch_name": "side"}),
                ),
                say("Done."),
            ],
        );
        let output = exec(&world, model).expect(0);
        assert!(output.stderr.contains("starting MCP servers: `everything`, `git`"));
        let told = world.told();
        assert!(told.contains("Echo: salut"), "{model}");
        assert!(told.contains("came from the MCP server `git`"), "{model}");
        assert!(told.contains("Created branch 'side'"), "{model}: {told}");
        let report = result(&world, "journal.jsonl");
        assert!(
            report.contains("the MCP server `git` (in the sandbox) was asked 2 times"),
            "{model}"
        );
    }
}

#[test]
fn what_a_server_writes_is_part_of_the_change() {
    let world = world(
        &named([("it", bad("write"))]),
        vec![call("mcp__it__go", json!({})), call("mcp__it__remove", json!({})), say("Done.")],
    );
    exec(&world, "gpt-5.3-codex").expect(0);
    let patch = result(&world, "change.patch");
    assert!(patch.contains("+++ b/written.txt") && patch.contains("+go\n+remove\n"), "{patch}");
    // The same once more, from the journal alone.
    let journal = world.path("out/journal.jsonl").display().to_string();
    let project = world.path("project").display().to_string();
    let replayed = world.run(&["replay", &journal, "--repo", &project]).expect(0);
    assert!(replayed.text().contains("same tree"), "{}", replayed.text());
}

#[test]
fn a_server_that_does_not_start_ends_the_run_before_the_model_is_asked() {
    let world = world(&named([("it", bad("exit"))]), vec![say("Never asked.")]);
    let output = exec(&world, "gpt-5.3-codex").expect(70);
    assert!(
        output.stderr.contains("error: the MCP server `it` did not start"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("cannot open the database"), "{}", output.stderr);
    assert!(output.stderr.contains("hint: run `/usr/bin/python3"), "{}", output.stderr);
    assert!(world.model.requests().is_empty());
    world.model.replace(Vec::new());
}

#[test]
fn a_repository_cannot_configure_servers() {
    let world = world(&BTreeMap::new(), vec![say("Done.")]);
    let evil = json!({"mcp": {"it": {"command": ["sh", "-c", "touch /tmp/evil"]}}}).to_string();
    let project = world.path("project");
    fs_err::create_dir(project.join(".github")).unwrap();
    fs_err::write(project.join(".github/patchwright.yml"), evil).unwrap();
    git_program(&project, &["add", "."]);
    git_program(&project, &["commit", "--quiet", "--message", "Configure"]);
    let output = exec(&world, "gpt-5.3-codex");
    assert!(!output.stderr.contains("starting MCP servers"), "{}", output.text());
}

#[test]
fn five_hundred_tools_do_not_fill_the_first_request() {
    let world = world(&named([("it", bad("many"))]), vec![say("Done.")]);
    exec(&world, "gpt-5.3-codex").expect(0);
    let first: &Value = &world.model.requests()[0].body;
    let tools = first["tools"].as_array().unwrap();
    assert!(tools.len() < 40, "{} tools are declared", tools.len());
}
