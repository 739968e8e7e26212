//! Tokens by OAuth for servers over HTTP: had, renewed, refused; servers and issuers that lie.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use patchwright_base::env::Env;
use patchwright_base::redact::Redactor;
use patchwright_config::tools::{McpAuth, McpServer};
use serde_json::{Value, json};

use super::run::{exec, result, world};
use super::{call, failure, open, told, words};
use crate::support::guest::Guest;
use crate::support::mcp::{HttpServer, named};
use crate::support::model::{call as calls, say};

const REFRESH: &str = "refresh-5d20c1-quiet";
const SECRET: &str = "client-secret-9ab3-quiet";

/// An authorization server with an MCP server behind it.
struct Issuer {
    server: HttpServer,
    asked: PathBuf,
}

impl Issuer {
    fn start(folder: &Path) -> Issuer {
        let asked = folder.join("asked");
        Issuer { server: HttpServer::oauth(&asked), asked }
    }

    /// A server whose tokens are issued in one way or another.
    fn at(&self, mode: &str, auth: McpAuth) -> McpServer {
        let issuer = format!("http://127.0.0.1:{}/issuer/{mode}", self.server.port);
        let auth = Some(McpAuth { issuer, client_id: "a client".to_owned(), ..auth });
        McpServer { auth, ..self.server.at(&format!("/mcp/{mode}")) }
    }

    /// What the token endpoint was asked.
    fn asked(&self) -> Vec<Value> {
        let text = fs_err::read_to_string(&self.asked).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn refreshing() -> McpAuth {
    McpAuth { refresh_token: Some("${TEST_REFRESH}".to_owned()), ..McpAuth::default() }
}

/// A file with a refresh token.
fn token_file(folder: &Path, name: &str, token: &str, mode: u32) -> PathBuf {
    let path = folder.join(name);
    fs_err::write(&path, format!("{token}\n")).unwrap();
    fs_err::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

fn in_file(path: &Path) -> McpAuth {
    McpAuth { token_file: Some(path.to_owned()), ..McpAuth::default() }
}

fn by_secret() -> McpAuth {
    McpAuth { client_secret: Some("${TEST_SECRET}".to_owned()), ..McpAuth::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_is_exchanged_and_again_when_a_token_is_refused() {
    let guest = Guest::start().await;
    let issuer = Issuer::start(guest.folder.path());
    let auth = McpAuth { scopes: vec!["read".to_owned(), "write".to_owned()], ..refreshing() };
    let opened = open(&guest.client, &named([("it", issuer.at("ok", auth))])).await.unwrap();
    // Each token is good for one call; the call that is refused is made once all the same.
    for expected in ["call 1 with 1", "call 2 with 2", "call 3 with 3"] {
        let output = call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
        assert_eq!(words(&output), expected);
    }
    opened.servers.close().await;
    let asked = issuer.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    let resource = issuer.server.at("/mcp/ok").url.unwrap();
    let expected = json!({
        "grant_type": "refresh_token", "refresh_token": REFRESH, "resource": resource,
        "scope": "read write", "client_id": "a client",
    });
    assert_eq!(asked[0], expected);
    // What was issued is known to everything that redacts.
    let redactor = Redactor::new(Env::default().secrets());
    let clean = redactor.redact("access-1-quiet-77e1 access-3-quiet-77e1");
    assert!(!clean.contains("quiet"), "{clean}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_that_is_replaced_is_used_from_then_on() {
    let guest = Guest::start().await;
    let issuer = Issuer::start(guest.folder.path());
    let servers = named([("it", issuer.at("rotates", refreshing()))]);
    let opened = open(&guest.client, &servers).await.unwrap();
    for _ in 0..2 {
        call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
    }
    opened.servers.close().await;
    let used: Vec<Value> = issuer.asked().iter().map(|it| it["refresh_token"].clone()).collect();
    assert_eq!(used, [json!(REFRESH), json!(format!("{REFRESH}-2"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_tokens_by_its_own_secret_in_the_way_that_the_issuer_takes() {
    let guest = Guest::start().await;
    let issuer = Issuer::start(guest.folder.path());
    for (mode, by) in [("unsaid", json!("basic")), ("post", Value::Null)] {
        let servers = named([("it", issuer.at(mode, by_secret()))]);
        let opened = open(&guest.client, &servers).await.unwrap();
        call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
        opened.servers.close().await;
        let asked = issuer.asked().pop().unwrap();
        assert_eq!(asked["grant_type"], "client_credentials", "{mode}: {asked}");
        assert_eq!((&asked["client_secret"], &asked["by"]), (&json!(SECRET), &by), "{mode}");
    }
}

/// A request with the client's secret is repeated after a 503 and a 429; one with a refresh token after a 429 only, because
/// a server that fails with 503 may have used the token up.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_endpoint_that_is_busy_for_a_moment_is_asked_again() {
    let guest = Guest::start().await;
    for (mode, auth, is_repeated) in [
        ("busy503", by_secret(), true),
        ("busy429", refreshing(), true),
        ("busy503", refreshing(), false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let issuer = Issuer::start(folder.path());
        let servers = named([("it", issuer.at(mode, auth))]);
        match open(&guest.client, &servers).await {
            Ok(opened) => {
                assert!(is_repeated, "{mode}");
                let output = call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
                assert_eq!(words(&output), "call 1 with 1");
                opened.servers.close().await;
            }
            Err(failure) => {
                assert!(!is_repeated, "{mode}: {failure:?}");
                assert!(format!("{failure:?}").contains("HTTP 503"), "{failure:?}");
            }
        }
        let expected = if is_repeated { 3 } else { 1 };
        assert_eq!(issuer.asked().len(), expected, "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_place_that_a_refusal_names_comes_before_the_well_known_one() {
    let guest = Guest::start().await;
    let issuer = Issuer::start(guest.folder.path());
    // The second one names a place of another host, which nobody asks.
    for mode in ["named", "away"] {
        let servers = named([("it", issuer.at(mode, refreshing()))]);
        let opened = open(&guest.client, &servers).await.unwrap();
        call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
        opened.servers.close().await;
        let resource = issuer.server.at(&format!("/mcp/{mode}")).url.unwrap();
        assert_eq!(issuer.asked().pop().unwrap()["resource"], json!(resource), "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_has_run_out_is_not_sent() {
    let guest = Guest::start().await;
    let issuer = Issuer::start(guest.folder.path());
    let servers = named([("it", issuer.at("short", refreshing()))]);
    let opened = open(&guest.client, &servers).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let output = call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
    assert!(!words(&output).ends_with("with 1"), "{}", words(&output));
    opened.servers.close().await;
}

/// A token file of a client that was registered, cut off in the middle of the token.
const CUT: &str =
    r#"{"issuer":"http://127.0.0.1","client-id":"a-client","refresh-token":"refresh-5d20c1-qu"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_work_is_said_before_anything_is_started_and_without_a_secret() {
    let guest = Guest::start().await;
    let issuer = Issuer::start(guest.folder.path());
    let with =
        |refresh: &str| McpAuth { refresh_token: Some(refresh.to_owned()), ..McpAuth::default() };
    let named_so = |issuer: &str| McpServer {
        auth: Some(McpAuth {
            issuer: issuer.to_owned(),
            client_id: "x".to_owned(),
            ..refreshing()
        }),
        ..McpServer { url: Some("http://127.0.0.1:1/mcp".to_owned()), ..McpServer::default() }
    };
    let folder = guest.folder.path();
    let open_to_all = token_file(folder, "open", "refresh-5d20c1-quiet", 0o644);
    let stale = token_file(folder, "stale", "refresh-stale-40-quiet", 0o600);
    let good = token_file(folder, "good", REFRESH, 0o600);
    let cut = token_file(folder, "cut", CUT, 0o600);
    let plain = Some("http://mcp.example.com/mcp".to_owned());
    let unencrypted = McpServer { url: plain, ..named_so("https://auth.example.com") };
    let cases = [
        (issuer.at("ok", with("${TEST_STALE}")), 70, "issues no token (invalid_grant"),
        (
            issuer.at("ok", with("${TEST_STALE}")),
            70,
            "log in anew and put the new one into the variable",
        ),
        (issuer.at("elsewhere", refreshing()), 70, "takes tokens of other authorization servers"),
        (issuer.at("other", refreshing()), 70, "says that it is another one"),
        (issuer.at("astray", refreshing()), 70, "says that it is another one"),
        (issuer.at("sibling", refreshing()), 70, "says that it is another one"),
        (issuer.at("liar", refreshing()), 70, "says that it is another issuer"),
        (issuer.at("foreign", refreshing()), 70, "names no token endpoint that can be used"),
        (issuer.at("huge", refreshing()), 70, "more than 65536 bytes"),
        (issuer.at("html", refreshing()), 70, "did not answer as one does (HTTP 200)"),
        (issuer.at("never", refreshing()), 70, "does not take the tokens that are issued for it"),
        (named_so("http://auth.example.com"), 2, "is not the address of an authorization server"),
        (unencrypted, 2, "would carry tokens where others can read them"),
        (named_so("nonsense"), 2, "is not the address of an authorization server"),
        (issuer.at("ok", with("literal-quiet")), 2, "holds a secret in the configuration"),
        (issuer.at("ok", with("${TEST_UNSET}")), 2, "`TEST_UNSET`, which is not set"),
        (issuer.at("ok", McpAuth::default()), 2, "has neither `token-file`, `refresh-token` nor"),
        (issuer.at("ok", in_file(&folder.join("none"))), 70, "cannot be read"),
        (issuer.at("ok", in_file(&cut)), 70, "is damaged: `patchwright mcp login` writes another"),
        (issuer.at("echoes", refreshing()), 70, "issues no token (an error without a name)"),
        (issuer.at("scopeless", in_file(&good)), 70, "`patchwright mcp login it` asks for it"),
        (issuer.at("ok", in_file(&open_to_all)), 70, "may be read by others (mode 644)"),
        (
            issuer.at("ok", in_file(&stale)),
            70,
            "or was withdrawn: `patchwright mcp login it` gets another",
        ),
    ];
    for (server, code, says) in cases {
        let failure = failure(&guest.client, &named([("it", server)])).await;
        let text = failure.to_string();
        assert!(text.contains(says) && text.contains("hint: "), "{says}: {text}");
        assert_eq!(failure.kind.exit_code(), code, "{text}");
        let shown = Redactor::new(Env::default().secrets()).redact(&text);
        assert!(!shown.contains("quiet"), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_withdrawn_in_the_middle_is_told_to_the_model() {
    let guest = Guest::start().await;
    let issuer = Issuer::start(guest.folder.path());
    let servers = named([("it", issuer.at("ok", refreshing()))]);
    let opened = open(&guest.client, &servers).await.unwrap();
    call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
    drop(issuer);
    let said = told(call(&guest.client, &opened, "mcp__it__go", json!({})).await);
    assert!(said.contains("gave no usable answer") && !said.contains("quiet"), "{said}");
    opened.servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_a_file_is_replaced_there_and_the_next_run_uses_the_new_one() {
    let guest = Guest::start().await;
    let issuer = Issuer::start(guest.folder.path());
    let file = token_file(guest.folder.path(), "token", REFRESH, 0o600);
    let servers = named([("it", issuer.at("strict", in_file(&file)))]);
    for _ in 0..2 {
        let opened = open(&guest.client, &servers).await.unwrap();
        for _ in 0..2 {
            call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
        }
        opened.servers.close().await;
    }
    // Two runs at the same time never use the same one.
    let (one, other) = tokio::join!(open(&guest.client, &servers), open(&guest.client, &servers));
    for opened in [one.unwrap(), other.unwrap()] {
        call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
        opened.servers.close().await;
    }
    let used: Vec<Value> = issuer.asked().iter().map(|it| it["refresh_token"].clone()).collect();
    let later = (1..used.len()).map(|at| json!(format!("{REFRESH}-{at}")));
    let expected: Vec<Value> = [json!(REFRESH)].into_iter().chain(later).collect();
    assert_eq!(used, expected);
    assert_eq!(fs_err::read_to_string(&file).unwrap(), format!("{REFRESH}-{}\n", used.len()));
    assert_eq!(fs_err::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_that_is_revoked_in_the_middle_is_told_with_the_next_step() {
    let guest = Guest::start().await;
    let issuer = Issuer::start(guest.folder.path());
    let file = token_file(guest.folder.path(), "token", REFRESH, 0o600);
    let servers = named([("it", issuer.at("revoked", in_file(&file)))]);
    let opened = open(&guest.client, &servers).await.unwrap();
    call(&guest.client, &opened, "mcp__it__go", json!({})).await.unwrap();
    assert_eq!(opened.servers.troubles(), Vec::<String>::new());
    let said = told(call(&guest.client, &opened, "mcp__it__go", json!({})).await);
    let why = "issues no token (invalid_grant: the user withdrew it)";
    assert!(said.contains(why) && said.contains("`patchwright mcp login it`"), "{said}");
    let troubles = opened.servers.troubles();
    assert_eq!(troubles.len(), 1);
    assert!(troubles[0].contains("no token any more for the MCP server `it`"), "{troubles:?}");
    assert!(!format!("{said}{troubles:?}").contains("quiet"), "{said}");
    opened.servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_does_not_reach_far_enough_is_told_with_the_scope_and_the_next_step() {
    let guest = Guest::start().await;
    let issuer = Issuer::start(guest.folder.path());
    let file = token_file(guest.folder.path(), "token", REFRESH, 0o600);
    let read = || vec!["read".to_owned()];
    let both = || vec!["read".to_owned(), "files:write".to_owned()];
    let add = "the server wants the scope `files:write`; add it to `mcp.it.auth.scopes`, then";
    // Some servers refuse with 403, and some with 401, though another token would not do either.
    for (mode, auth, says) in [
        (
            "scope",
            McpAuth { scopes: read(), ..in_file(&file) },
            format!("{add} `patchwright mcp login it` asks for it"),
        ),
        (
            "narrow",
            McpAuth { scopes: read(), ..refreshing() },
            format!("{add} log in anew with it and put the new token into the variable"),
        ),
        ("narrow", by_secret(), "the server wants the scope `files:write`, `read`".to_owned()),
        (
            "scope",
            McpAuth { scopes: both(), ..in_file(&file) },
            "it was asked for with `files:write`, `read`, and issued without".to_owned(),
        ),
    ] {
        let before = issuer.asked().len();
        let opened = open(&guest.client, &named([("it", issuer.at(mode, auth))])).await.unwrap();
        let said = told(call(&guest.client, &opened, "mcp__it__go", json!({})).await);
        assert!(said.contains(&says), "{mode}: {said}");
        assert_eq!(issuer.asked().len(), before + 1, "{mode}: no other token was asked for");
        let troubles = opened.servers.troubles().concat();
        assert!(
            troubles.contains("`it` refused something") && troubles.contains(&says),
            "{troubles}"
        );
        opened.servers.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_odd_about_an_answer_loses_no_token_that_takes_the_old_ones_place() {
    let guest = Guest::start().await;
    let issuer = Issuer::start(guest.folder.path());
    let file = token_file(guest.folder.path(), "token", REFRESH, 0o600);
    let kept = || fs_err::read_to_string(&file).unwrap();
    let server = |mode: &str| named([("it", issuer.at(mode, in_file(&file)))]);
    let failure = failure(&guest.client, &server("typeless")).await;
    assert!(failure.to_string().contains("issues no bearer tokens"), "{failure}");
    assert_eq!(kept(), format!("{REFRESH}-1\n"));
    // A lifetime in quotation marks is one.
    let opened = open(&guest.client, &server("worded")).await.unwrap();
    opened.servers.close().await;
    assert_eq!(kept(), format!("{REFRESH}-2\n"));
    // An empty refresh token replaces nothing.
    let opened = open(&guest.client, &server("empty")).await.unwrap();
    opened.servers.close().await;
    assert_eq!(kept(), format!("{REFRESH}-2\n"));
    let lock = fs_err::metadata(guest.folder.path().join("token.lock")).unwrap();
    assert_eq!(lock.permissions().mode() & 0o077, 0, "nobody else can hold it");
}

#[test]
fn a_run_uses_the_operators_token_and_no_secret_is_left_anywhere() {
    let turns = vec![
        calls("mcp__far__go", json!({})),
        calls("shell_command", json!({"command": "env; cat /proc/self/environ"})),
        calls("mcp__far__go", json!({})),
        say("Done."),
    ];
    let world = world(&named([]), turns);
    let server = HttpServer::oauth(&world.path("asked"));
    let file = token_file(&world.path("."), "token", REFRESH, 0o600);
    let at = format!("localhost:{}", server.port);
    let auth = json!({
        "issuer": format!("http://{at}/issuer/strict"), "client-id": "a client", "token-file": file,
    });
    let far = json!({"url": format!("http://{at}/mcp/strict"), "auth": auth});
    let allow = [format!("{at}=127.0.0.1")];
    let config = json!({"mcp": {"far": far}, "network": {"allow": allow}, "verify": ["true"]});
    fs_err::write(world.path("config.yml"), config.to_string()).unwrap();
    let output = exec(&world, "gpt-5.3-codex").expect(0);
    let told = world.told();
    assert!(told.contains("call 1 with 1") && told.contains("call 2 with 2"), "{told}");
    assert_eq!(fs_err::read_to_string(&file).unwrap(), format!("{REFRESH}-2\n"));
    let written = ["journal.jsonl", "report.html"].map(|name| result(&world, name)).concat();
    for secret in [REFRESH, "quiet-77e1"] {
        assert!(world.holds(secret).is_empty(), "{:?}", world.holds(secret));
        assert!(!told.contains(secret) && !written.contains(secret));
        assert!(!output.text().contains(secret), "{}", output.text());
    }
}

/// Each process reads the file, has its token replaced and writes the new one; without a lock between them one would send
/// what the other has used up, and then no token counts any more.
#[test]
fn two_processes_at_once_lose_no_token_that_is_replaced() {
    let turns = vec![say("Done."), say("Done.")];
    let world = world(&named([]), turns);
    let server = HttpServer::oauth(&world.path("asked"));
    let file = token_file(&world.path("."), "token", REFRESH, 0o600);
    let at = format!("localhost:{}", server.port);
    let auth = json!({
        "issuer": format!("http://{at}/issuer/meets"), "client-id": "a client", "token-file": file,
    });
    let far = json!({"url": format!("http://{at}/mcp/meets"), "auth": auth});
    let allow = [format!("{at}=127.0.0.1")];
    let config = json!({"mcp": {"far": far}, "network": {"allow": allow}, "verify": ["true"]});
    fs_err::write(world.path("config.yml"), config.to_string()).unwrap();
    let start = |task: &str, out: &str| {
        let args = ["exec", task, "--repo", "project", "--out", out];
        let more = ["--config", "config.yml", "--model", "gpt-5.3-codex"];
        world.spawn(&[args.as_slice(), &more].concat())
    };
    let both = [start("Do one thing", "one"), start("Do another thing", "other")];
    for child in both {
        world.wait(child).expect(0);
    }
    let asked = fs_err::read_to_string(world.path("asked")).unwrap();
    let asked = asked.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let used: Vec<Value> = asked.map(|it| it["refresh_token"].clone()).collect();
    assert_eq!(used, [json!(REFRESH), json!(format!("{REFRESH}-1"))]);
    assert_eq!(fs_err::read_to_string(&file).unwrap(), format!("{REFRESH}-2\n"));
}
