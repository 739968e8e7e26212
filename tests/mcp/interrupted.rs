//! A run that is ended while a token is exchanged.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::json;

use super::run::{args, world};
use crate::support::mcp::{HttpServer, named};
use crate::support::model::say;

const REFRESH: &str = "refresh-5d20c1-quiet";

/// The authorization server has used the old token up when it answers: whoever does not write the new one down has none.
#[test]
fn a_token_that_is_replaced_while_the_run_is_interrupted_is_kept() {
    let world = world(&named([]), vec![say("Done.")]);
    let server = HttpServer::oauth(&world.path("asked"));
    let file = world.path("token");
    fs_err::write(&file, format!("{REFRESH}\n")).unwrap();
    fs_err::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let at = format!("localhost:{}", server.port);
    let auth = json!({
        "issuer": format!("http://{at}/issuer/slow"), "client-id": "a client", "token-file": file,
    });
    let far = json!({"url": format!("http://{at}/mcp/slow"), "auth": auth});
    let allow = [format!("{at}=127.0.0.1")];
    let config = json!({"mcp": {"far": far}, "network": {"allow": allow}, "verify": ["true"]});
    fs_err::write(world.path("config.yml"), config.to_string()).unwrap();
    let child = world.spawn(&args("gpt-5.3-codex"));
    let began = Instant::now();
    while !fs_err::read_to_string(world.path("asked")).is_ok_and(|asked| asked.contains(REFRESH)) {
        assert!(began.elapsed() < Duration::from_mins(2), "no token was asked for");
        std::thread::sleep(Duration::from_millis(10));
    }
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let output = world.wait(child);
    assert_eq!(output.code, 130, "{}", output.text());
    let kept = fs_err::read_to_string(&file).unwrap();
    assert_eq!(kept, format!("{REFRESH}-1\n"), "{}", output.text());
}
