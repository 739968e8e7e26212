//! Servers that people run themselves: the lines and the refusals of `docs/local-models.md`, chat templates
//! in which roles alternate, and certificates of one's own authority.
#![expect(clippy::disallowed_methods, reason = "starts a server with a certificate of its own")]

use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::support::git_repo::git;
use crate::support::model::{Turn, call, fail_raw, raw_stream, say};
use crate::support::world::{FILES, TestWorld, fix, github};

/// The text between a fence of this kind and its end, for each.
fn blocks(document: &str, kind: &str) -> Vec<String> {
    let start = format!("```{kind}\n");
    let rest = document.split(&start).skip(1);
    rest.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

fn document() -> String {
    fs_err::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/local-models.md")).unwrap()
}

/// A world with the small project as a repository in the folder from which the program is called.
fn world(turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    let world = TestWorld::local(turns);
    let folder = world.path("");
    for (name, content) in FILES {
        fs_err::write(folder.join(name), content).unwrap();
    }
    git(&folder, &["init", "--quiet", "--initial-branch=main"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "--quiet", "--message=First"]);
    world
}

/// The words of a line of a shell, as far as the document uses it.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('"').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[test]
fn the_lines_of_the_document_work() {
    let document = document();
    let config = blocks(&document, "yaml").concat();
    let lines: Vec<String> = blocks(&document, "sh")
        .iter()
        .flat_map(|block| block.lines())
        .filter(|line| line.starts_with("patchwright "))
        .map(str::to_owned)
        .collect();
    assert_eq!(lines.len(), 6, "{lines:?}");
    for line in lines {
        let world =
            world([call("glob", json!({"pattern": "*"})), say("There is no failing test.")]);
        fs_err::write(world.path("local.yml"), &config).unwrap();
        let mut args = words(&line);
        args.remove(0);
        let base = args.iter().position(|word| word == "--base-url").unwrap() + 1;
        assert!(args[base].ends_with("/v1"), "{line}");
        args[base] = world.model.url();
        let args: Vec<&str> = args.iter().map(String::as_str).chain(["--out", "out"]).collect();
        if line.contains("--profile text") {
            world.model.replace([say("There is no failing test.")]);
        }
        let output = world.run(&args).expect(0);
        let name = args.iter().find_map(|word| word.strip_prefix("chat/")).unwrap();
        for request in world.model.requests() {
            assert_eq!(
                (request.path.as_str(), &request.body["model"]),
                ("/v1/chat/completions", &json!(name))
            );
        }
        let result = fs_err::read_to_string(world.path("out/result.json")).unwrap();
        let result: serde_json::Value = serde_json::from_str(&result).unwrap();
        let is_unknown = result["spending"]["price_is_unknown"] == true;
        assert_eq!(is_unknown, !line.contains("local.yml"), "{}", output.text());
    }
}

#[test]
fn a_refusal_with_a_known_remedy_is_asked_once_and_named() {
    let document = document();
    let mut rows = 0;
    for row in document.lines().filter(|line| line.starts_with("| ") && line.contains('`')) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, status, says, remedy] = cells[..] else { panic!("{row}") };
        let status: u16 = status.parse().unwrap();
        let body = json!({"error": {"code": status, "message": says.trim_matches('`'), "type": "server_error"}});
        let world = world([fail_raw(status, body.to_string()), say("late")]);
        let url = world.model.url();
        let output = world
            .run(&["exec", "Fix it", "--model", "chat/some-model", "--base-url", &url, "--quiet"])
            .expect(50);
        assert_eq!((world.model.requests().len(), world.model.unused()), (1, 1), "{row}");
        let hint = output.stderr.split("hint: ").nth(1).unwrap_or_default();
        for setting in remedy.split('`').skip(1).step_by(2) {
            assert!(hint.contains(setting), "`{setting}` is not in:\n{}", output.text());
        }
        rows += 1;
    }
    assert_eq!(rows, 12);
}

/// What passes is told from what does not by more than a word of the prompt in it.
#[test]
fn a_server_that_is_out_of_order_is_still_asked_again() {
    let body = json!({"error": {"code": 500, "message": "The template engine is restarting", "type": "server_error"}});
    let world = world([fail_raw(500, body.to_string()), say("There is nothing to do.")]);
    let url = world.model.url();
    world.run(&["exec", "Say hello", "--model", "chat/some-model", "--base-url", &url]).expect(0);
    assert_eq!(world.model.requests().len(), 2);
}

/// Some check what the model writes, and report its mistake as one of the request: as the answer, or within it.
#[test]
fn a_call_that_the_server_could_not_read_is_told_to_the_model() {
    let error = json!({
        "message": "parameters for tool glob did not match schema: missing properties: 'pattern'",
        "type": "invalid_request_error", "code": "tool_use_failed",
        "failed_generation": "{\"name\": \"glob\", \"arguments\": {\"patern\": \"*\"}}",
    });
    let thought =
        json!({"id": "c", "choices": [{"index": 0, "delta": {"reasoning": "Look first."}}]});
    let body = json!({"error": error});
    let streamed = format!("data: {thought}\n\nevent: error\ndata: {body}\n\n");
    for refusal in [fail_raw(400, body.to_string()), raw_stream([streamed])] {
        let world = world([refusal, say("There is nothing to do.")]);
        let url = world.model.url();
        let asked = ["exec", "Fix it", "--model", "chat/some-model", "--base-url", &url];
        let output = world.run(&[&asked[..], &["--out", "out"]].concat()).expect(0);
        let requests = world.model.requests();
        assert_eq!(requests.len(), 2, "{}", output.text());
        let told = requests[1].body.to_string();
        for part in ["could not be read", "missing properties: 'pattern'", "patern"] {
            assert!(told.contains(part), "`{part}` is not in {told}");
        }
        let result = fs_err::read_to_string(world.path("out/result.json")).unwrap();
        let result: serde_json::Value = serde_json::from_str(&result).unwrap();
        // The refused reply is counted once, as what it may have been.
        assert_eq!(result["spending"]["turns"], 2);
        assert_eq!(result["spending"]["cost_is_estimate"], true);
    }
}

/// A reply that the server broke off is no final message, and its calls are not made.
#[test]
fn a_reply_that_the_server_broke_off_is_asked_for_again() {
    let half = json!({"id": "c", "choices": [{"index": 0, "delta": {"content": "I will now"}}]});
    let end = json!({"id": "c", "choices": [
        {"index": 0, "delta": {}, "finish_reason": "insufficient_system_resource"}
    ]});
    let stream = format!("data: {half}\n\ndata: {end}\n\ndata: [DONE]\n\n");
    let world = world([raw_stream([stream]), say("There is nothing to do.")]);
    let url = world.model.url();
    let asked = ["exec", "Say hello", "--model", "chat/some-model", "--base-url", &url];
    let output = world.run(&asked).expect(0);
    assert_eq!(output.stdout.trim(), "There is nothing to do.", "{}", output.text());
    assert_eq!(world.model.requests().len(), 2);
}

/// A server whose certificate is signed by an authority of its own; stopped when dropped.
struct Guarded(Child, u16);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn guarded(world: &TestWorld) -> Guarded {
    let folder = world.path("");
    let openssl = |args: &str| {
        let made = Command::new("openssl")
            .args(args.split(' '))
            .current_dir(&folder)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .status();
        assert!(made.unwrap().success(), "openssl {args}");
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {key} -days 2 -subj /CN=Home -keyout ca.key -out ca.pem"));
    openssl(&format!("req -new {key} -subj /CN=localhost -keyout key.pem -out cert.csr"));
    fs_err::write(folder.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl(
        "x509 -req -in cert.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem",
    );
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Command::new("openssl")
        .args(["s_server", "-quiet", "-www", "-cert", "cert.pem", "-key", "key.pem"])
        .args(["-accept", &format!("127.0.0.1:{port}")])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Guarded(server, port);
    for _ in 0..200 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return server;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the server does not start");
}

#[test]
fn a_certificate_of_ones_own_authority_is_named_with_the_variable_that_trusts_it() {
    let world = world([]);
    let server = guarded(&world);
    let base = format!("https://localhost:{}/v1", server.1);
    let args = ["exec", "Fix it", "--model", "chat/some-model", "--base-url", &base, "--quiet"];
    let output = world.run(&args).expect(50);
    assert!(
        output.stderr.contains("the certificate of `localhost` is not trusted"),
        "{}",
        output.text()
    );
    assert!(output.stderr.contains("`SSL_CERT_FILE`"), "{}", output.text());
    assert!(!output.stderr.contains("again later"), "{}", output.text());
    // Once it is named, what the server answers is all that is wrong.
    let world = world.set("SSL_CERT_FILE", "ca.pem");
    let output = world.run(&[&args[..], &["--timeout", "5s"]].concat());
    assert!(!output.stderr.contains("is not trusted"), "{}", output.text());
}

#[test]
fn a_github_with_a_certificate_of_ones_own_authority_is_named_too() {
    let world = TestWorld::new(github(), fix());
    let server = guarded(&world);
    let api = format!("https://localhost:{}/api/v3", server.1);
    let world = world.set("GITHUB_API_URL", api);
    let output = world.run(&["issue", "acme/app#7", "--quiet"]).expect(60);
    assert!(output.stderr.contains("`SSL_CERT_FILE`"), "{}", output.text());
    assert!(!output.stderr.contains("again later"), "{}", output.text());
    assert_eq!(world.model.requests().len(), 0);
}
