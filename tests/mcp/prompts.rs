//! Prompts of servers: part of the opening where the operator names them, and errors before the model is asked.

use std::collections::BTreeMap;

use patchwright_config::tools::McpServer;
use patchwright_tools::mcp::prompts;
use serde_json::Value;

use super::open;
use super::run::{bad, exec, result, world};
use crate::support::git_repo::git as git_program;
use crate::support::guest::Guest;
use crate::support::mcp::{everything, named};
use crate::support::model::say;

/// A prompt with its arguments, as the configuration has it.
fn prompt(name: &str, arguments: &[(&str, &str)]) -> BTreeMap<String, BTreeMap<String, String>> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    [(name.to_owned(), arguments.iter().map(owned).collect())].into()
}

fn with(prompts: BTreeMap<String, BTreeMap<String, String>>) -> BTreeMap<String, McpServer> {
    named([("it", McpServer { prompts, ..bad("prompts") })])
}

#[test]
fn a_prompt_that_the_operator_names_is_told_before_the_task() {
    let world = world(&with(prompt("style", &[("area", "the API")])), vec![say("Done.")]);
    let output = exec(&world, "gpt-5.3-codex").expect(0);
    let note = "the prompt `style` of the MCP server `it` is part of the task";
    assert!(output.stderr.contains(note), "{}", output.stderr);
    assert!(result(&world, "journal.jsonl").contains(note));
    let requests = world.model.requests();
    let items = requests[0].body["input"].as_array().unwrap().iter().map(Value::to_string);
    let items: Vec<String> = items.collect();
    let at = items.iter().position(|it| it.contains("has chosen the prompt `style`")).unwrap();
    let item = &items[at];
    assert!(items[at + 1].contains("Do it") && at + 2 == items.len(), "{items:?}");
    assert!(item.contains("\"role\":\"user\""), "{item}");
    assert!(item.contains("Write for the API.\\n") && item.contains("Tone: plain"), "{item}");
    assert!(item.contains("(as the assistant:) I will."), "{item}");
    // What the server writes cannot close the tag.
    assert_eq!(item.matches("</prompt-").count(), 2, "{item}");
    assert!(!item.ends_with("</prompt-0>"), "{item}");
}

#[test]
fn a_prompt_that_cannot_be_had_ends_the_run_before_the_model_is_asked() {
    let none: &[(&str, &str)] = &[];
    for (name, arguments, exit_code, says, hint) in [
        (
            "other",
            none,
            2,
            "`mcp.it.prompts` names `other`, which the server does not have",
            "it has `style`, `long`, `picture`, `refused`",
        ),
        ("style", none, 2, "lacks the argument `area`", "it takes `area`, `tone`"),
        (
            "long",
            &[("size", "1")],
            2,
            "has the argument `size`, which the prompt does not take",
            "it takes none",
        ),
        (
            "long",
            none,
            70,
            "it has 70000 bytes of text; at most 65536 are taken",
            "take the prompt",
        ),
        ("picture", none, 70, "it has something other than text", "take the prompt"),
        ("refused", none, 70, "not today", "take the prompt"),
    ] {
        let world = world(&with(prompt(name, arguments)), vec![say("Never asked.")]);
        let output = exec(&world, "gpt-5.3-codex").expect(exit_code);
        assert!(output.stderr.contains(says), "{name}: {}", output.stderr);
        assert!(output.stderr.contains(hint), "{name}: {}", output.stderr);
        assert!(world.model.requests().is_empty(), "{name}");
    }
}

#[test]
fn a_repository_names_no_prompt() {
    let world = world(&with(BTreeMap::new()), vec![say("Done.")]);
    let project = world.path("project");
    fs_err::create_dir_all(project.join(".github")).unwrap();
    let wish = "mcp:\n  it:\n    prompts:\n      style: { area: evil }\n";
    fs_err::write(project.join(".github/patchwright.yml"), wish).unwrap();
    git_program(&project, &["add", "."]);
    git_program(&project, &["commit", "--quiet", "--message", "Wish"]);
    let output = exec(&world, "gpt-5.3-codex").expect(0);
    assert!(output.stderr.contains("it may have `tools` only"), "{}", output.stderr);
    assert!(!world.told().contains("has chosen the prompt"));
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_of_a_server_that_nobody_here_wrote() {
    let Some(server) = everything() else { return };
    let guest = Guest::start().await;
    let simple = prompt("simple-prompt", &[]);
    let servers = named([("everything", McpServer { prompts: simple, ..server })]);
    let opened = open(&guest.client, &servers).await.unwrap();
    let chosen = prompts::chosen(&opened.servers, &servers).await.unwrap();
    assert_eq!(chosen.len(), 1);
    assert_eq!((chosen[0].name.as_str(), chosen[0].text.is_empty()), ("simple-prompt", false));
    let mut other = servers.clone();
    let wanted = prompt("complex_prompt", &[("colour", "red")]);
    other.get_mut("everything").unwrap().prompts = wanted;
    let failure = prompts::chosen(&opened.servers, &other).await.unwrap_err();
    assert!(failure.to_string().contains("which the server does not have"), "{failure}");
    opened.servers.close().await;
}
