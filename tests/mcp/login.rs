//! `patchwright mcp login`: the program as an operator runs it, a page that agrees at once, and those that do not.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};

use super::run::{exec, world};
use crate::support::mcp::{HttpServer, named};
use crate::support::model::{call, say};
use crate::support::world::TestWorld;

const REFRESH: &str = "refresh-5d20c1-quiet";

/// A world whose operator has configured a server, in one mode or another.
fn configured(world: &TestWorld, server: &HttpServer, mode: &str) {
    configured_as(world, server, mode, "a client");
}

/// Configures the server for a login as another client; as none when it is empty.
fn configured_as(world: &TestWorld, server: &HttpServer, mode: &str, client: &str) {
    let at = format!("localhost:{}", server.port);
    let mut auth = json!({
        "issuer": format!("http://{at}/issuer/{mode}"),
        "token-file": world.path("token"), "scopes": ["read", "offline_access"],
    });
    if !client.is_empty() {
        auth["client-id"] = json!(client);
    }
    let far = json!({"url": format!("http://{at}/mcp/{mode}"), "auth": auth});
    let allow = [format!("{at}=127.0.0.1")];
    let config = json!({"mcp": {"far": far}, "network": {"allow": allow}, "verify": ["true"]});
    fs_err::write(world.path("config.yml"), config.to_string()).unwrap();
}

/// Runs the login, with somebody who opens the page where there is one. The exit code and what was said.
fn log_in(world: &TestWorld) -> (i32, String) {
    let mut command = world.command(&["mcp", "login", "far", "--config", "config.yml"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while stderr.read_line(&mut said).unwrap() > 0 {
        let last = said.lines().last().unwrap_or_default();
        if last.starts_with("http://") {
            open_page(last);
            break;
        }
    }
    stderr.read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code().unwrap(), said)
}

/// What a browser does with the address.
fn open_page(page: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stray = page.split("redirect_uri=").nth(1).unwrap().split('&').next().unwrap();
    let stray = stray.replace("%3A", ":").replace("%2F", "/");
    // Browsers open connections in advance, and anybody on this machine can.
    let port: u16 = stray.split([':', '/']).nth(4).unwrap().parse().unwrap();
    let _silent: Vec<_> =
        (0..40).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    runtime.block_on(async {
        let client = patchwright_provider::http::client().unwrap();
        // Somebody who does not know the state changes nothing.
        let other = client.get(format!("{stray}?code=evil&state=evil")).send().await.unwrap();
        assert_eq!(other.status(), 404);
        let sent = client.get(page).send().await.unwrap();
        let back = sent.headers()["location"].to_str().unwrap().to_owned();
        client.get(back).send().await.unwrap();
    });
}

#[test]
fn an_operator_logs_in_and_runs_use_the_token() {
    let world = world(&named([]), vec![call("mcp__far__go", json!({})), say("Done.")]);
    let server = HttpServer::oauth(&world.path("asked"));
    configured(&world, &server, "strict");
    let output = exec(&world, "gpt-5.3-codex").expect(70);
    assert!(output.stderr.contains("patchwright mcp login far"), "{}", output.stderr);
    let (code, said) = log_in(&world);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("logged in; the refresh token is in `"), "{said}");
    assert!(!said.contains("quiet"), "{said}");
    let file = world.path("token");
    assert_eq!(fs_err::read_to_string(&file).unwrap(), format!("{REFRESH}\n"));
    assert_eq!(fs_err::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let asked = fs_err::read_to_string(world.path("asked")).unwrap();
    let asked: Vec<Value> = asked.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let resource = format!("http://localhost:{}/mcp/strict", server.port);
    assert_eq!(
        (asked[0]["resource"].as_str(), &asked[0]["scope"]),
        (Some(resource.as_str()), &json!("read offline_access"))
    );
    assert_eq!(
        (asked[1]["resource"].as_str(), &asked[1]["grant_type"]),
        (Some(resource.as_str()), &json!("authorization_code"))
    );
    exec(&world, "gpt-5.3-codex").expect(0);
    assert!(world.told().contains("call 1 with 1"), "{}", world.told());
}

#[test]
fn a_login_that_does_not_work_says_why_and_keeps_nothing() {
    let world = world(&named([]), vec![say("Never asked.")]);
    let server = HttpServer::oauth(&world.path("asked"));
    for (mode, says) in [
        ("denies", "the page answers `access_denied`"),
        ("mixed", "the answer is one of another authorization server"),
        ("anonymous", "the answer does not say of which authorization server it is"),
        ("proofless", "does not say that it takes proofs"),
        ("once", "gave no refresh token"),
        ("liar", "says that it is another issuer"),
    ] {
        configured(&world, &server, mode);
        let (code, said) = log_in(&world);
        assert_eq!(code, 1, "{mode}: {said}");
        assert!(said.contains(says) && said.contains("hint: "), "{mode}: {said}");
        assert!(!world.path("token").exists() && !said.contains("quiet"), "{mode}");
    }
    world.run(&["mcp", "login", "near", "--config", "config.yml"]).expect(2);
    world.model.replace(Vec::new());
}

fn asked(world: &TestWorld) -> Vec<Value> {
    let asked = fs_err::read_to_string(world.path("asked")).unwrap_or_default();
    asked.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

fn kept(world: &TestWorld) -> Value {
    serde_json::from_str(&fs_err::read_to_string(world.path("token")).unwrap()).unwrap()
}

#[test]
fn a_client_is_registered_where_the_operator_has_none_and_runs_are_that_client() {
    let turns =
        vec![call("mcp__far__go", json!({})), call("mcp__far__go", json!({})), say("Done.")];
    let world = world(&named([]), turns);
    let server = HttpServer::oauth(&world.path("asked"));
    configured_as(&world, &server, "registers", "");
    let (code, said) = log_in(&world);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("registered as the client `made-1`"), "{said}");
    assert!(!said.contains("quiet"), "{said}");
    let registered = asked(&world).remove(0);
    let back = registered["redirect_uris"][0].as_str().unwrap().to_owned();
    assert!(back.starts_with("http://127.0.0.1:") && back.ends_with("/callback"), "{back}");
    let expected = json!({
        "client_name": "Patchwright", "redirect_uris": [back], "response_types": ["code"],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "none", "scope": "read offline_access",
    });
    assert_eq!(registered, expected);
    let issuer = format!("http://localhost:{}/issuer/registers", server.port);
    let file = |token: &str| {
        json!({
            "issuer": issuer, "client-id": "made-1", "refresh-token": token, "redirect-uri": back,
            "scopes": ["read", "offline_access"],
        })
    };
    assert_eq!(kept(&world), file(REFRESH));
    let mode = fs_err::metadata(world.path("token")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The client stays with the tokens that take the first one's place.
    exec(&world, "gpt-5.3-codex").expect(0);
    let exchanged = asked(&world).split_off(3);
    assert_eq!(exchanged.len(), 2, "{exchanged:?}");
    for form in &exchanged {
        assert_eq!((&form["client_id"], &form["client_secret"]), (&json!("made-1"), &Value::Null));
    }
    assert_eq!(kept(&world), file(&format!("{REFRESH}-2")));
    assert!(world.holds("refresh-5d20c1").is_empty());
}

#[test]
fn a_token_is_not_used_as_another_client_or_elsewhere() {
    let world = world(&named([]), Vec::new());
    let server = HttpServer::oauth(&world.path("asked"));
    configured_as(&world, &server, "registers", "");
    assert_eq!(log_in(&world).0, 0);
    let (before, file) = (asked(&world).len(), kept(&world));
    for (mode, client, says) in [
        ("strict", "", "by another authorization server than `issuer`"),
        ("registers", "another", "to another client than `client-id`"),
    ] {
        configured_as(&world, &server, mode, client);
        let output = exec(&world, "gpt-5.3-codex").expect(70);
        assert!(output.stderr.contains(says), "{}", output.stderr);
        assert!(output.stderr.contains("`patchwright mcp login far`"), "{}", output.stderr);
    }
    // A token that somebody put there is for a client that somebody has to name.
    fs_err::write(world.path("token"), format!("{REFRESH}\n")).unwrap();
    configured_as(&world, &server, "registers", "");
    let output = exec(&world, "gpt-5.3-codex").expect(70);
    assert!(output.stderr.contains("has no `client-id`, and there is none"), "{}", output.stderr);
    assert_eq!(asked(&world).len(), before, "no token was sent anywhere");
    assert_eq!(file["refresh-token"], json!(REFRESH));
}

#[test]
fn a_client_that_cannot_be_registered_is_told_why() {
    let world = world(&named([]), Vec::new());
    let server = HttpServer::oauth(&world.path("asked"));
    for (mode, says) in [
        ("strict", "registers no clients by itself"),
        ("registers-nobody", "registers no client (invalid_client_metadata: not you)"),
        ("registers-secrets", "registers clients with a secret only (`client_secret_basic`)"),
        ("registers-nameless", "registered a client without an id"),
        ("registers-page", "did not answer as one does (HTTP 200)"),
    ] {
        configured_as(&world, &server, mode, "");
        let (code, said) = log_in(&world);
        assert_eq!(code, 1, "{mode}: {said}");
        assert!(said.contains(says) && said.contains("hint: "), "{mode}: {said}");
        assert!(!said.contains("open this page") && !world.path("token").exists(), "{mode}");
    }
}

#[test]
fn a_client_that_was_registered_is_used_again_where_it_is_still_known() {
    let world = world(&named([]), Vec::new());
    let server = HttpServer::oauth(&world.path("asked"));
    configured_as(&world, &server, "registers", "");
    let login = |says: &str| {
        let before = asked(&world).len();
        let (code, said) = log_in(&world);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains(says), "{said}");
        let kinds = |it: Value| {
            let of = |key: &str| it[key].as_str().map(|_| key.to_owned());
            of("client_name").or_else(|| of("response_type")).or_else(|| of("code")).unwrap()
        };
        asked(&world).split_off(before).into_iter().map(kinds).collect::<Vec<_>>()
    };
    let anew = ["client_name", "response_type", "code"];
    assert_eq!(login("registered as the client `made-1`\n"), anew);
    let first = kept(&world);
    // It is asked whether it knows the client, with a code that there is not.
    let again = login("registered as the client `made-1`, as the login before was\n");
    assert_eq!(again, ["code", "response_type", "code"]);
    assert_eq!(kept(&world)["client-id"], first["client-id"]);
    // Its port is taken: another address is another client.
    let port = first["redirect-uri"].as_str().unwrap().split([':', '/']).nth(4).unwrap().to_owned();
    let taken = std::net::TcpListener::bind(("127.0.0.1", port.parse().unwrap())).unwrap();
    assert_eq!(login("registered as the client `made-2`\n"), anew);
    drop(taken);
    // Other scopes may need another client.
    let config = fs_err::read_to_string(world.path("config.yml")).unwrap();
    let more = config.replace("\"read\"", "\"read\",\"write\"");
    fs_err::write(world.path("config.yml"), more).unwrap();
    assert_eq!(login("registered as the client `made-3`\n"), anew);
    // The authorization server has forgotten it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = patchwright_provider::http::client().unwrap();
        client.get(format!("http://localhost:{}/forget", server.port)).send().await.unwrap();
    });
    let forgotten = login("registered as the client `made-1`\n");
    assert_eq!(forgotten, ["code", "client_name", "response_type", "code"]);
}

#[test]
fn what_the_server_wants_is_asked_for_where_the_operator_says_nothing() {
    let world = world(&named([]), Vec::new());
    let server = HttpServer::oauth(&world.path("asked"));
    configured(&world, &server, "asks");
    let config: Value =
        serde_json::from_str(&fs_err::read_to_string(world.path("config.yml")).unwrap()).unwrap();
    let mut silent = config;
    silent["mcp"]["far"]["auth"].as_object_mut().unwrap().remove("scopes");
    fs_err::write(world.path("config.yml"), silent.to_string()).unwrap();
    let (code, said) = log_in(&world);
    assert_eq!(code, 0, "{said}");
    assert_eq!(asked(&world)[0]["scope"], json!("read files:read offline_access"));
}

#[test]
fn nobody_logs_in_for_a_file_that_cannot_be_written() {
    let world = world(&named([]), Vec::new());
    let server = HttpServer::oauth(&world.path("asked"));
    configured(&world, &server, "strict");
    fs_err::create_dir(world.path("token")).unwrap();
    let (code, said) = log_in(&world);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("it is a folder") && !said.contains("open this page"), "{said}");
    // Replaced by a file it would be gone for others.
    fs_err::remove_dir(world.path("token")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.path("token")).unwrap();
    let (code, said) = log_in(&world);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("no ordinary file") && !said.contains("open this page"), "{said}");
    assert!(!world.path("token").is_file());
}
