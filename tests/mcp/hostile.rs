//! Servers that do everything wrong: the run goes on, and is told.

use patchwright_config::tools::McpServer;
use patchwright_guest::tool::Effect;
use serde_json::json;

use super::{call, failure, find, names, open, told, words};
use crate::support::guest::Guest;
use crate::support::mcp::{bad, named};

fn brief(mode: &str) -> McpServer {
    McpServer { timeout_seconds: Some(4), start_timeout_seconds: Some(30), ..bad(mode) }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_start_is_an_error_with_its_last_words() {
    let guest = Guest::start().await;
    let soon = |mode: &str| McpServer { start_timeout_seconds: Some(1), ..bad(mode) };
    for (server, exit_code, says) in [
        (
            bad("exit"),
            70,
            "it ended before it answered (exit code 3); its last words on standard error:\ncannot open the database",
        ),
        (soon("silent"), 70, "it did not answer within 1 s"),
        (soon("noisy"), 70, "it did not answer within 1 s"),
        (bad("old"), 70, "it speaks revision `1999-01-01` of the protocol; known are 2024-11-05,"),
        (bad("wrong-id"), 70, "it did not answer in the way of the protocol"),
        (soon("no-object"), 70, "cause: it "),
        (
            McpServer { command: vec!["no-such-program-here".to_owned()], ..McpServer::default() },
            2,
            "there is no program `no-such-program-here` in the sandbox",
        ),
        (McpServer::default(), 2, "`mcp.it` needs either `command` or `url`"),
        (
            McpServer { url: Some("ftp://x".to_owned()), ..McpServer::default() },
            2,
            "`mcp.it.url` is not a web address",
        ),
        (
            McpServer { tools: vec!["a[".to_owned()], ..bad("plain") },
            2,
            "`mcp.it.tools` has a pattern that is none: `a[`",
        ),
        (
            McpServer { env: [("KEY".to_owned(), "${SECRET}".to_owned())].into(), ..bad("plain") },
            2,
            "`mcp.it.env.KEY` refers to the environment",
        ),
    ] {
        let failure =
            failure(&guest.client, &named([("it", server), ("well", bad("plain"))])).await;
        let text = failure.to_string();
        assert!(text.contains(says) && text.contains("\nhint: "), "{text}");
        assert_eq!(failure.kind.exit_code(), exit_code, "{text}");
    }
    assert_eq!(descendants(&guest).await, 0, "the servers that had started are ended as well");
}

/// Processes below the guest that run our script.
async fn descendants(guest: &Guest) -> usize {
    let id = guest.process.id().unwrap();
    let script = format!(
        "below() {{ for c in $(cat /proc/$1/task/*/children 2>/dev/null); do tr '\\0' ' ' \
         < /proc/$c/cmdline; echo; below $c; done; }}; below {id}"
    );
    guest.sh(&script).await.output.lines().filter(|line| line.contains("mcp_server.py")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn names_schemas_and_words_are_made_harmless() {
    let guest = Guest::start().await;
    let servers = named([
        ("giant", bad("giant")),
        ("hidden", bad("hidden")),
        ("names", bad("names")),
        ("many", bad("many")),
        ("endless", bad("endless")),
    ]);
    let opened = open(&guest.client, &servers).await.unwrap();
    let names = names(&opened);
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(names.iter().all(|name| name.len() <= 64 && name.chars().all(is_allowed)));
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted, names, "sorted, and each once");
    let of = |server: &str| names.iter().filter(|name| name.starts_with(server)).count();
    assert_eq!(of("mcp__names__"), 5, "a tool that is listed twice is one tool");
    assert_eq!((of("mcp__many__"), of("mcp__endless__")), (512, 512));
    assert_eq!(
        opened.notes,
        [
            "the MCP server `endless` has more than 512 tools; the rest is not offered",
            "the MCP server `many` has more than 512 tools; the rest is not offered",
        ]
    );
    let add = find(&opened, "mcp__hidden__add");
    assert!(add.description().starts_with("Adds numbers.[8m esrever!!!"), "{}", add.description());
    assert!(add.description().len() < 2_100);
    assert!(opened.extras.iter().all(|extra| extra.schema().to_string().len() <= 16 << 10));
    assert_eq!(find(&opened, "mcp__giant__wide").schema()["properties"], json!({"n": {}}));
    opened.servers.close().await;
    assert_eq!(descendants(&guest).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_on_standard_output_is_passed_over() {
    let guest = Guest::start().await;
    let servers = named([("it", bad("chatter"))]);
    let opened = open(&guest.client, &servers).await.unwrap();
    let output = call(&guest.client, &opened, "mcp__it__go", json!({"a": "ö"})).await.unwrap();
    assert_eq!(words(&output), r#"{"a": "\u00f6"}"#);
    assert_eq!(find(&opened, "mcp__it__look").effect(), Effect::Reads);
    assert_eq!(find(&opened, "mcp__it__go").effect(), Effect::Writes);
    assert_eq!(opened.servers.used(), ["the MCP server `it` (in the sandbox) was asked 1 time"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_tools_that_the_operator_wants_are_offered() {
    let guest = Guest::start().await;
    let some = McpServer { tools: vec!["lo*".to_owned(), "go".to_owned()], ..bad("plain") };
    let none = McpServer { tools: vec!["nothing".to_owned()], ..bad("plain") };
    let opened = open(&guest.client, &named([("none", none), ("some", some)])).await.unwrap();
    assert_eq!(names(&opened), ["mcp__some__go", "mcp__some__look"]);
    assert_eq!(opened.notes, ["`mcp.none.tools` matches none of the server's tools"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_asks_of_us_is_declined() {
    let guest = Guest::start().await;
    let opened = open(&guest.client, &named([("it", bad("ask"))])).await.unwrap();
    let output = call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
    assert_eq!(
        words(&output),
        "elicitation/create: {\"action\": \"decline\"}\nsampling/createMessage: -32601\n\
         roots/list: -32601\nping: {}\nmade/up: -32601"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_end_the_connection_and_the_next_call_finds_a_fresh_server() {
    let guest = Guest::start().await;
    for mode in ["flood", "ask-flood"] {
        let opened = open(&guest.client, &named([("it", bad(mode))])).await.unwrap();
        let text = told(call(&guest.client, &opened, "mcp__it__go", json!({})).await);
        assert!(text.contains("it sent more than it was asked for"), "{mode}: {text}");
        opened.servers.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_tool_takes_no_other_with_it() {
    let guest = Guest::start().await;
    let opened = open(&guest.client, &named([("it", bad("malformed"))])).await.unwrap();
    assert_eq!(names(&opened), ["mcp__it__go", "mcp__it__icons"]);
    let output = call(&guest.client, &opened, "mcp__it__go", json!({"a": 1})).await.unwrap();
    assert_eq!(words(&output), r#"{"a": 1}"#);
    assert_eq!(opened.notes.len(), 3, "{:?}", opened.notes);
    let note = &opened.notes[0];
    assert!(note.starts_with("the tool `bare` of the MCP server `it` is not offered: "), "{note}");
    assert!(note.contains("missing field `inputSchema`"), "{note}");
    opened.servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_is_started_again_three_times() {
    let guest = Guest::start().await;
    let opened = open(&guest.client, &named([("it", bad("die"))])).await.unwrap();
    let go = async || told(call(&guest.client, &opened, "mcp__it__go", json!({})).await);
    let died = |text: &str| {
        text.starts_with("the MCP server `it` ended during the call:\n<mcp-")
            && text.contains(
                "the connection ended (exit code 7); its last words on standard error:\n\
                 no more strength\n</mcp-",
            )
            && text.contains("What it did until then is not known.")
    };
    for _ in 0..2 {
        let text = go().await;
        assert!(died(&text), "{text}");
    }
    // In between it works.
    let output = call(&guest.client, &opened, "mcp__it__look", json!({})).await.unwrap();
    assert_eq!(words(&output), "{}");
    assert!(died(&go().await));
    assert!(died(&go().await));
    assert!(go().await.contains("is not started again; go on without it"));
    assert_eq!(fs_err::read_to_string(guest.workspace().join("starts")).unwrap(), "xxxx");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_hangs_is_cancelled() {
    let guest = Guest::start().await;
    let servers = named([("frozen", brief("freeze")), ("slow", brief("hang"))]);
    let opened = open(&guest.client, &servers).await.unwrap();
    let text = told(call(&guest.client, &opened, "mcp__slow__go", json!({})).await);
    assert!(text.contains("did not answer within 4 s, and the call was cancelled"), "{text}");
    let output = call(&guest.client, &opened, "mcp__slow__look", json!({})).await.unwrap();
    assert!(words(&output).starts_with("cancelled: ["), "{}", output.text);
    assert_ne!(words(&output), "cancelled: []", "the server was told");
    let text = told(call(&guest.client, &opened, "mcp__frozen__go", json!({})).await);
    assert!(text.contains("gives no sign of life, so it was ended"), "{text}");
    opened.servers.close().await;
    assert_eq!(descendants(&guest).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_gone_is_told_when_it_is_called() {
    let guest = Guest::start().await;
    let opened = open(&guest.client, &named([("it", bad("changed"))])).await.unwrap();
    call(&guest.client, &opened, "mcp__it__remove", json!({})).await.unwrap();
    let text = told(call(&guest.client, &opened, "mcp__it__go", json!({})).await);
    assert_eq!(text, "the MCP server `it` no longer has this tool; go on without it");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_every_kind_and_of_none_are_results() {
    let guest = Guest::start().await;
    let servers = named([
        ("big", brief("big")),
        ("error", bad("error")),
        ("modern", bad("modern")),
        ("rich", bad("rich")),
        ("strange", bad("strange")),
    ]);
    let opened = open(&guest.client, &servers).await.unwrap();
    let output = call(&guest.client, &opened, "mcp__rich__go", json!({})).await.unwrap();
    assert_eq!(
        words(&output),
        "[picture: image/png, 1 × 1 pixels, 70 bytes]\n[resource why <x://y> — `read_mcp_resource` \
         reads it]\n[audio (audio/wav, 2 bytes): cannot be shown]\n{\"sum\":3}"
    );
    assert_eq!(output.images.len(), 1);
    let output = call(&guest.client, &opened, "mcp__error__go", json!({})).await.unwrap();
    assert_eq!((words(&output).as_str(), output.success), ("it is not possible", false));
    let output = call(&guest.client, &opened, "mcp__modern__go", json!({"a": 1})).await.unwrap();
    assert_eq!(words(&output), r#"{"a": 1}"#, "a server without a handshake");
    let text = told(call(&guest.client, &opened, "mcp__strange__go", json!({})).await);
    assert!(text.contains("gave no usable answer"), "{text}");
    for _ in 0..2 {
        let text = told(call(&guest.client, &opened, "mcp__big__go", json!({})).await);
        let says = "the MCP server `big` answered with a message of more than 8 MB, of which nothing is read";
        assert!(text.contains(says) && text.contains("Ask for less at once"), "{text}");
    }
    let output = call(&guest.client, &opened, "mcp__big__look", json!({})).await.unwrap();
    assert_eq!(words(&output), "small", "the session goes on");
}
