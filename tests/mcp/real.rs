//! Servers that nobody here wrote, over standard streams in the guest.

use patchwright_guest::tool::Effect;
use patchwright_provider::ToolForm;
use serde_json::json;

use super::{call, find, names, open, told, words};
use crate::support::guest::Guest;
use crate::support::mcp::{everything, git, named};

#[tokio::test(flavor = "multi_thread")]
async fn server_everything_offers_tools_pictures_and_resources() {
    let Some(server) = everything() else { return };
    let guest = Guest::start().await;
    let opened = open(&guest.client, &named([("everything", server)])).await.unwrap();
    let all = names(&opened);
    for name in [
        "list_mcp_resource_templates",
        "list_mcp_resources",
        "mcp__everything__echo",
        "mcp__everything__get-sum",
        "mcp__everything__get-tiny-image",
        "read_mcp_resource",
    ] {
        assert!(all.contains(&name), "{name}: {all:?}");
    }
    let ask = |name: &'static str, args| call(&guest.client, &opened, name, args);
    let output = ask("mcp__everything__echo", json!({"message": "grüße"})).await.unwrap();
    assert_eq!(words(&output), "Echo: grüße");
    assert!(output.text.contains("came from the MCP server `everything`"));
    let output = ask("mcp__everything__get-sum", json!({"a": 2, "b": 3})).await.unwrap();
    assert!(words(&output).contains('5'), "{}", output.text);
    let output = ask("mcp__everything__get-tiny-image", json!({})).await.unwrap();
    assert_eq!(output.images.len(), 1);
    assert_eq!(output.images[0].media_type, "image/png");
    // The server's own check of the arguments reaches the model.
    let wrong = ask("mcp__everything__get-sum", json!({"a": "two"})).await;
    let says = wrong.map_or_else(|err| err.to_string(), |output| output.text);
    assert!(says.to_lowercase().contains("invalid"), "{says}");
    let listed = ask("list_mcp_resources", json!({})).await.unwrap().text;
    let uri = listed.split(['<', '>']).find(|part| part.contains("://")).unwrap().to_owned();
    let read = ask("read_mcp_resource", json!({"server": "everything", "uri": uri})).await.unwrap();
    assert!(read.text.contains(&format!("[resource <{uri}>")), "{}", read.text);
    let templates = ask("list_mcp_resource_templates", json!({"server": "everything"})).await;
    assert!(templates.unwrap().text.contains('{'));
    let text = told(ask("read_mcp_resource", json!({"server": "other", "uri": uri})).await);
    assert_eq!(text, "there is no MCP server `other`; there are `everything`");
    let text =
        told(ask("read_mcp_resource", json!({"server": "everything", "uri": "no:such"})).await);
    assert!(text.contains("refused (code -"), "{text}");
    opened.servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_server_git_works_on_the_workspace() {
    let Some(server) = git() else { return };
    let guest = Guest::start().await;
    guest.sh("git init -q . && echo one > a.txt && git add a.txt").await;
    let opened = open(&guest.client, &named([("git", server)])).await.unwrap();
    let repo = guest.workspace().display().to_string();
    let output = call(&guest.client, &opened, "mcp__git__git_status", json!({"repo_path": repo}));
    let output = output.await.unwrap();
    assert!(output.text.contains("new file:   a.txt"), "{}", output.text);
    let status = find(&opened, "mcp__git__git_status");
    assert_eq!(status.schema()["required"], json!(["repo_path"]));
    assert_eq!(find(&opened, "mcp__git__git_commit").effect(), Effect::Writes);
    assert!(!names(&opened).contains(&"read_mcp_resource"), "it has no resources");
    opened.servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn their_schemas_can_be_declared() {
    let (Some(everything), Some(git)) = (everything(), git()) else { return };
    let guest = Guest::start().await;
    let servers = named([("everything", everything), ("git", git)]);
    let opened = open(&guest.client, &servers).await.unwrap();
    for extra in &opened.extras {
        let form = ToolForm::Function { schema: extra.schema().clone(), strict: false };
        let ToolForm::Function { schema, .. } = form else { unreachable!() };
        assert_eq!(schema["type"], "object", "{}", extra.name());
        assert!(schema["properties"].is_object(), "{}", extra.name());
        assert!(schema.get("$schema").is_none(), "{}", extra.name());
        assert!(!extra.description().is_empty(), "{}", extra.name());
        jsonschema::validator_for(&schema).unwrap();
    }
    opened.servers.close().await;
}
