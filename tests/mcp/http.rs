//! Streamable HTTP: a real server, one of our own that loses its sessions, and headers with secrets.

use patchwright_config::tools::McpServer;
use patchwright_guest::tool::Effect;
use serde_json::json;

use super::{call, failure, find, names, open, told, words};
use crate::support::guest::Guest;
use crate::support::mcp::{HttpServer, named};

#[tokio::test(flavor = "multi_thread")]
async fn server_everything_works_over_http_too() {
    let Some(server) = HttpServer::everything() else { return };
    let guest = Guest::start().await;
    let opened = open(&guest.client, &named([("far", server.at("/mcp"))])).await.unwrap();
    assert!(names(&opened).contains(&"read_mcp_resource"));
    let output = call(&guest.client, &opened, "mcp__far__echo", json!({"message": "hi"})).await;
    assert_eq!(words(&output.unwrap()), "Echo: hi");
    let image = call(&guest.client, &opened, "mcp__far__get-tiny-image", json!({})).await.unwrap();
    assert_eq!(image.images.len(), 1);
    assert_eq!(find(&opened, "mcp__far__echo").effect(), Effect::Writes);
    assert!(find(&opened, "mcp__far__echo").is_outside());
    opened.servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_session_is_made_anew_and_the_call_with_it() {
    let guest = Guest::start().await;
    let calls = guest.folder.path().join("calls");
    let server = HttpServer::own(&calls);
    let opened = open(&guest.client, &named([("it", server.at("/ok"))])).await.unwrap();
    let go =
        async |name: &str| words(&call(&guest.client, &opened, name, json!({})).await.unwrap());
    assert_eq!(go("mcp__it__go").await, "session-1, call 1");
    assert_eq!(go("mcp__it__lose").await, "session-1, call 2");
    assert_eq!(go("mcp__it__go").await, "session-2, call 3");
    assert_eq!(go("mcp__it__go").await, "session-2, call 4");
    opened.servers.close().await;
    assert_eq!(fs_err::read_to_string(&calls).unwrap().lines().count(), 4, "none was made twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_come_from_the_environment_and_appear_nowhere() {
    let guest = Guest::start().await;
    let server = HttpServer::own(&guest.folder.path().join("calls"));
    let with = |value: &str| McpServer {
        headers: [("Authorization".to_owned(), value.to_owned())].into(),
        ..server.at("/auth")
    };
    let right = named([("it", with("Bearer ${TEST_TOKEN}"))]);
    let opened = open(&guest.client, &right).await.unwrap();
    let output = call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
    assert_eq!(words(&output), "session-1, call 1");
    for (servers, exit_code, says) in [
        (named([("it", server.at("/auth"))]), 70, "it wants to know who asks"),
        (named([("it", with("Basic ${TEST_TOKEN}"))]), 70, "it wants to know who asks"),
        (
            named([("it", with("Bearer ${NO_SUCH_TOKEN}"))]),
            2,
            "names the environment variable `NO_SUCH_TOKEN`, which is not set",
        ),
    ] {
        let failure = failure(&guest.client, &servers).await;
        let text = failure.to_string();
        assert!(text.contains(says) && !text.contains("quiet-6f1c77"), "{text}");
        assert_eq!(failure.kind.exit_code(), exit_code, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_over_http_says_where_and_how() {
    let guest = Guest::start().await;
    let server = HttpServer::own(&guest.folder.path().join("calls"));
    let opened = open(&guest.client, &named([("it", server.at("/ok"))])).await.unwrap();
    let text = told(call(&guest.client, &opened, "mcp__it__fail", json!({})).await);
    let port = server.port;
    let says = format!(
        "the MCP server `it` at `127.0.0.1:{port}` gave no usable answer: it has failed by itself (HTTP 503)."
    );
    assert!(text.starts_with(&says) && !text.contains("::"), "{text}");
    let output = call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
    assert!(words(&output).starts_with("session-"), "it goes on");
    let used = format!(
        "the MCP server `it` (http://127.0.0.1:{port}/ok) was asked 2 times; one call failed: it has failed by itself (HTTP 503)"
    );
    assert_eq!(opened.servers.used(), [used]);
    opened.servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_too_large_is_told_and_the_session_goes_on() {
    let guest = Guest::start().await;
    let server = HttpServer::own(&guest.folder.path().join("calls"));
    let opened = open(&guest.client, &named([("it", server.at("/ok"))])).await.unwrap();
    let text = told(call(&guest.client, &opened, "mcp__it__large", json!({})).await);
    let says =
        "the MCP server `it` answered with a message of more than 8 MB, of which nothing is read";
    assert!(text.contains(says), "{text}");
    let output = call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
    assert!(words(&output).starts_with("session-1, "), "{}", words(&output));
    opened.servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_server_is_an_error() {
    let guest = Guest::start().await;
    let server = HttpServer::own(&guest.folder.path().join("calls"));
    let soon = |at: McpServer| McpServer { start_timeout_seconds: Some(20), ..at };
    for (path, says) in [
        ("/redirect", "it sends to another address, which is not followed (HTTP 307)"),
        ("/broken", "it has failed by itself (HTTP 500)"),
        ("/stranger", "it wants to know who asks (HTTP 401)"),
        ("/page", "cause: it "),
    ] {
        let failure = failure(&guest.client, &named([("it", soon(server.at(path)))])).await;
        let text = failure.to_string();
        assert!(text.contains(says) && !text.contains("::"), "{path}: {text}");
        assert!(text.contains("the MCP server `it` did not start"), "{path}: {text}");
        assert!(text.contains("hint: see whether `http://127.0.0.1"), "{path}: {text}");
    }
}
