//! `patchwright acp`: an editor of our own drives the real program over its standard streams. Both sides of each
//! conversation are checked against the schema of the protocol. Editors that are wrong, hostile or suddenly gone.
#![expect(clippy::disallowed_methods, reason = "sends a signal")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::attempts::{attempts, right, wrong};
use crate::exec::project;
use crate::support::git_repo::git;
use crate::support::model::{Turn, call, custom, fail, say, stall};
use crate::support::world::{FILES, KEY, PATCH, TestWorld, fix};

/// How long anything may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_mins(2);

const FIXED: &str = "add() {\n  echo $(($1 + $2))\n}\n";

/// An editor.
struct Editor<'a> {
    world: &'a TestWorld,
    child: Child,
    to: Option<ChildStdin>,
    lines: Receiver<String>,
    last: i64,
    /// What has come and was not asked for yet.
    updates: Vec<Value>,
}

impl Editor<'_> {
    fn start<'a>(world: &'a TestWorld, args: &[&str]) -> Editor<'a> {
        let mut command = world.command(&[&["acp"], args].concat());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let to = child.stdin.take();
        let lines = lines(child.stdout.take().unwrap());
        Editor { world, child, to, lines, last: 0, updates: Vec::new() }
    }

    fn write(&mut self, text: &[u8]) {
        let to = self.to.as_mut().unwrap();
        // Whoever has ended reads nothing any more.
        let _ = to.write_all(text).and_then(|()| to.flush());
    }

    fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Sends a request; its id.
    fn ask(&mut self, method: &str, params: &Value) -> i64 {
        self.last += 1;
        let definition = match method {
            "initialize" => Some("InitializeRequest"),
            "session/new" => Some("NewSessionRequest"),
            "session/prompt" => Some("PromptRequest"),
            "session/set_mode" => Some("SetSessionModeRequest"),
            "session/close" => Some("CloseSessionRequest"),
            _ => None,
        };
        definition.inspect(|name| valid(name, params));
        let id = self.last;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next message.
    #[track_caller]
    fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|err| {
            let _ = self.child.kill();
            let mut said = String::new();
            let _ = self.child.stderr.take().unwrap().read_to_string(&mut said);
            panic!("no message comes: {err}; {said}")
        });
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// The answer to a request; what comes before is kept.
    #[track_caller]
    fn answer(&mut self, id: i64) -> Value {
        loop {
            let message = self.next();
            if message["method"] == "session/update" {
                valid("SessionNotification", &message["params"]);
                self.updates.push(message["params"]["update"].clone());
            } else if message["id"] == id {
                return message;
            } else {
                panic!("unexpected: {message}");
            }
        }
    }

    #[track_caller]
    fn result(&mut self, id: i64, definition: &str) -> Value {
        let message = self.answer(id);
        assert!(message.get("error").is_none(), "{message}");
        valid(definition, &message["result"]);
        message["result"].clone()
    }

    #[track_caller]
    fn error(&mut self, id: i64) -> (i64, String) {
        let message = self.answer(id);
        valid("Error", &message["error"]);
        let text = message["error"]["message"].as_str().unwrap().to_owned();
        (message["error"]["code"].as_i64().unwrap(), text)
    }

    #[track_caller]
    fn initialize(&mut self) {
        let capabilities =
            json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true});
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let id = self.ask("initialize", &params);
        let said = self.result(id, "InitializeResponse");
        assert_eq!((&said["protocolVersion"], &said["authMethods"]), (&json!(1), &json!([])));
        assert_eq!(said["agentInfo"]["name"], "patchwright");
    }

    #[track_caller]
    fn session(&mut self) -> String {
        self.session_in(&self.world.path("project"))
    }

    fn session_in(&mut self, folder: &Path) -> String {
        let id = self.ask("session/new", &json!({"cwd": folder, "mcpServers": []}));
        let created = self.result(id, "NewSessionResponse");
        created["sessionId"].as_str().unwrap().to_owned()
    }

    fn prompt(&mut self, session: &str, text: &str) -> i64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.ask("session/prompt", &json!({"sessionId": session, "prompt": prompt}))
    }

    /// Why a prompt ended.
    #[track_caller]
    fn stop(&mut self, id: i64) -> String {
        self.result(id, "PromptResponse")["stopReason"].as_str().unwrap().to_owned()
    }

    fn cancel(&mut self, session: &str) {
        let params = json!({"sessionId": session});
        valid("CancelNotification", &params);
        self.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}));
    }

    /// Updates of one kind, taken out of what has come.
    fn took(&mut self, kind: &str) -> Vec<Value> {
        let (these, others) =
            self.updates.drain(..).partition(|update| update["sessionUpdate"] == kind);
        self.updates = others;
        these
    }

    /// Waits for an update of a kind.
    #[track_caller]
    fn until(&mut self, kind: &str) {
        loop {
            let message = self.next();
            assert_eq!(message["method"], "session/update", "{message}");
            self.updates.push(message["params"]["update"].clone());
            if message["params"]["update"]["sessionUpdate"] == kind {
                return;
            }
        }
    }

    /// Closes our end; the exit code, and what was said on standard error.
    fn hang_up(mut self) -> (i32, String) {
        self.to = None;
        self.end()
    }

    fn end(mut self) -> (i32, String) {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = self.child.wait().unwrap();
        let output = self.world.output(status, String::new(), String::new());
        (output.code, said)
    }
}

fn lines(from: ChildStdout) -> Receiver<String> {
    let (to, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// A message is what the protocol says, and nothing beside it.
#[track_caller]
fn valid(definition: &str, value: &Value) {
    let text = include_str!("fixtures/schemas/acp.json");
    let mut schema: Value = serde_json::from_str(text).unwrap();
    for variant in schema["$defs"]["SessionUpdate"]["oneOf"].as_array_mut().unwrap() {
        variant["unevaluatedProperties"] = json!(false);
    }
    schema["$ref"] = json!(format!("#/$defs/{definition}"));
    schema["unevaluatedProperties"] = json!(false);
    let validator: Validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(value).map(|err| err.to_string()).collect();
    assert!(errors.is_empty(), "{definition}: {value:#}\n{errors:#?}");
}

fn text(updates: &[Value]) -> String {
    let texts = updates.iter().map(|it| it["content"]["text"].as_str().unwrap());
    texts.flat_map(|text| [text, "\n"]).collect()
}

fn world(turns: impl IntoIterator<Item = Turn>) -> (TestWorld, PathBuf) {
    let world = TestWorld::local(turns);
    let folder = project(&world);
    (world, folder)
}

#[test]
fn a_session_in_a_part_of_a_repository_works_on_the_repository() {
    let (world, folder) = world(fix());
    let part = folder.join("docs/guide");
    fs_err::create_dir_all(&part).unwrap();
    let mut editor = Editor::start(&world, &[]);
    editor.initialize();
    let session = editor.session_in(&part);
    let id = editor.prompt(&session, "Make add add");
    assert_eq!(editor.stop(id), "end_turn");
    assert_eq!(fs_err::read_to_string(folder.join("calc.sh")).unwrap(), FIXED);
    let begun = editor.took("tool_call");
    let edit = begun.iter().find(|it| it["title"] == "Changed 1 file").unwrap();
    assert_eq!(edit["content"][0]["path"], json!(folder.join("calc.sh")));
}

#[test]
fn a_prompt_is_worked_on_and_its_change_is_in_the_folder() {
    let mut turns = fix();
    turns[1] = turns[1].clone().thinking("The sign looks wrong.");
    let (world, folder) = world(turns);
    let mut editor = Editor::start(&world, &[]);
    editor.initialize();
    let session = editor.session();
    let id = editor.prompt(&session, "Make add add");
    assert_eq!(editor.stop(id), "end_turn");
    assert_eq!(fs_err::read_to_string(folder.join("calc.sh")).unwrap(), FIXED);
    let said = text(&editor.took("agent_message_chunk"));
    assert!(said.contains("The sign in `calc.sh` was wrong."), "{said}");
    assert!(said.contains("1 file was changed in the folder. The checks passed."), "{said}");
    let thought = text(&editor.took("agent_thought_chunk"));
    assert!(thought.contains("The sign looks wrong."), "{thought}");
    let plans = editor.took("plan");
    assert_eq!(plans.last().unwrap()["entries"][1]["status"], "completed");
    let begun = editor.took("tool_call");
    let ended = editor.took("tool_call_update");
    let shell: Vec<_> = begun.iter().filter(|it| it["kind"] == "execute").collect();
    assert!(shell[0]["title"].as_str().unwrap().contains("check before the change"), "{shell:?}");
    assert!(shell.iter().any(|it| it["title"].as_str().unwrap().contains("sh test.sh")));
    // Each call that was begun has ended, and was known before it did.
    for update in &ended {
        let known = begun.iter().any(|call| call["toolCallId"] == update["toolCallId"]);
        assert!(known && update["status"] != "in_progress", "{update}");
    }
    let calls = begun.iter().filter(|it| it["status"] == "in_progress").count();
    assert_eq!((calls, ended.len()), (5, 5));
    let edit = begun.iter().find(|it| it["title"] == "Changed 1 file").unwrap();
    let difference = &edit["content"][0];
    assert_eq!((&difference["type"], &difference["newText"]), (&json!("diff"), &json!(FIXED)));
    assert_eq!(difference["path"], json!(folder.join("calc.sh")));
    assert_eq!(editor.updates, Vec::<Value>::new());
    let (code, said) = editor.hang_up();
    assert_eq!(code, 0, "{said}");
}

/// A change of the second line of the fixed file.
const AGAIN: &str = "*** Begin Patch\n*** Update File: calc.sh\n@@ add() {\n-  echo $(($1 + $2))\n+  echo \"$(($1 + $2))\"\n*** End Patch\n";

#[test]
fn a_later_prompt_knows_what_was_said_and_goes_on_from_what_was_changed() {
    let first = [custom("apply_patch", PATCH), say("Add adds now.")];
    let second = [custom("apply_patch", AGAIN), say("It is quoted now.")];
    let third = [say("It was about quotes.")];
    let (world, folder) = world(first.into_iter().chain(second).chain(third));
    let mut editor = Editor::start(&world, &[]);
    editor.initialize();
    let session = editor.session();
    for prompt in ["Make add add", "Now quote it", "What was that about?"] {
        let id = editor.prompt(&session, prompt);
        assert_eq!(editor.stop(id), "end_turn");
    }
    let calc = fs_err::read_to_string(folder.join("calc.sh")).unwrap();
    assert_eq!(calc, FIXED.replace("$(($1 + $2))", "\"$(($1 + $2))\""));
    assert_eq!(git(&folder, &["status", "--porcelain"]), " M calc.sh\n");
    let requests = world.model.requests();
    let asked = |at: usize| String::from_utf8_lossy(&requests[at].raw).into_owned();
    assert!(!asked(0).contains("a later message"), "{}", asked(0));
    let second = asked(2);
    for part in ["Now quote it", "Make add add", "Add adds now.", "in the working tree already"] {
        assert!(second.contains(part), "{part}: {second}");
    }
    assert!(asked(4).contains("It is quoted now."), "{}", asked(4));
    assert_eq!((requests.len(), world.model.unused()), (5, 0));
    assert_eq!(editor.hang_up().0, 0);
}

#[test]
fn what_people_changed_meanwhile_is_theirs() {
    let turns = || [custom("apply_patch", PATCH), say("Add adds now.")];
    let (world, folder) = world(turns().into_iter().chain(turns()).chain(turns()));
    let mut editor = Editor::start(&world, &[]);
    editor.initialize();
    let session = editor.session();
    let id = editor.prompt(&session, "Make add add");
    assert_eq!(editor.stop(id), "end_turn");
    // Taken back: the next prompt begins at the commit again.
    git(&folder, &["checkout", "--quiet", "calc.sh"]);
    let id = editor.prompt(&session, "Make add add once more");
    assert_eq!(editor.stop(id), "end_turn");
    assert_eq!(fs_err::read_to_string(folder.join("calc.sh")).unwrap(), FIXED);
    // Edited: nothing is written, and the words say so.
    fs_err::write(folder.join("calc.sh"), "# mine\n").unwrap();
    editor.updates.clear();
    let id = editor.prompt(&session, "And again");
    assert_eq!(editor.stop(id), "end_turn");
    assert_eq!(fs_err::read_to_string(folder.join("calc.sh")).unwrap(), "# mine\n");
    let said = text(&editor.took("agent_message_chunk"));
    assert!(said.contains("Nothing was written into the folder: `calc.sh` was edited"), "{said}");
    assert!(said.contains("change.patch"), "{said}");
    assert_eq!(editor.hang_up().0, 0);
}

#[test]
fn a_prompt_that_is_cancelled_ends_as_cancelled_and_goes_on_when_it_is_sent_again() {
    let mut turns: Vec<Turn> = fix().into_iter().take(1).collect();
    turns.push(stall());
    let (world, folder) = world(turns);
    let mut editor = Editor::start(&world, &[]);
    editor.initialize();
    let session = editor.session();
    let id = editor.prompt(&session, "Make add add");
    editor.until("tool_call_update");
    // One prompt at a time, and other sessions are free.
    let second = editor.prompt(&session, "Something else");
    let (code, why) = editor.error(second);
    assert!(code == -32600 && why.contains("working on a prompt already"), "{code} {why}");
    let other = editor.session();
    assert_ne!(session, other);
    editor.cancel("session-99");
    editor.cancel(&session);
    assert_eq!(editor.stop(id), "cancelled");
    assert_eq!(fs_err::read_to_string(folder.join("calc.sh")).unwrap(), FILES[0].1);
    assert_eq!(world.runs().len(), 1);
    // Cancelling what is not worked on does nothing.
    editor.cancel(&session);
    world.model.replace(fix().into_iter().skip(1));
    let id = editor.prompt(&session, "Make add add");
    assert_eq!(editor.stop(id), "end_turn");
    assert_eq!(world.runs().len(), 1, "it was resumed");
    assert_eq!(fs_err::read_to_string(folder.join("calc.sh")).unwrap(), FIXED);
    assert_eq!(editor.hang_up().0, 0);
}

#[test]
fn an_editor_that_is_gone_leaves_a_run_that_is_kept() {
    let (world, folder) = world([call("shell_command", json!({"command": "sleep 300"}))]);
    let mut editor = Editor::start(&world, &[]);
    editor.initialize();
    let session = editor.session();
    editor.prompt(&session, "Make add add");
    editor.until("tool_call");
    while world.runs().is_empty()
        || !world.result("journal.jsonl").contains("\"is\":\"call_started\"")
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (code, said) = editor.hang_up();
    assert_eq!(code, 143, "{said}");
    assert!(said.contains("the client is gone, and 1 of its prompts"), "{said}");
    assert_eq!(fs_err::read_dir(world.path("state/sandboxes")).unwrap().count(), 0);
    assert_eq!(fs_err::read_to_string(folder.join("calc.sh")).unwrap(), FILES[0].1);
    // The same prompt resumes it.
    world.model.replace(fix().into_iter().skip(1));
    let mut editor = Editor::start(&world, &[]);
    editor.initialize();
    let session = editor.session();
    let id = editor.prompt(&session, "Make add add");
    assert_eq!(editor.stop(id), "end_turn");
    assert_eq!((world.runs().len(), editor.hang_up().0), (1, 0));
}

#[test]
fn a_signal_ends_it_with_its_prompts_cancelled() {
    let (world, _) = world([call("shell_command", json!({"command": "sleep 300"}))]);
    let mut editor = Editor::start(&world, &[]);
    editor.initialize();
    let session = editor.session();
    let id = editor.prompt(&session, "Make add add");
    editor.until("tool_call");
    let kill =
        std::process::Command::new("kill").arg("-TERM").arg(editor.child.id().to_string()).status();
    assert!(kill.unwrap().success());
    assert_eq!(editor.stop(id), "cancelled");
    assert_eq!(editor.end().0, 143);
    assert_eq!(fs_err::read_dir(world.path("state/sandboxes")).unwrap().count(), 0);
}

/// Servers of models may give the calls of each conversation the same ids.
#[test]
fn attempts_are_told_apart_and_the_kept_one_speaks_in_the_end() {
    let (world, folder) = world([wrong(), right()].into_iter().flatten());
    let world = attempts(world, 2, 1);
    let mut editor = Editor::start(&world, &[]);
    editor.initialize();
    let session = editor.session();
    let id = editor.prompt(&session, "Make add add");
    assert_eq!(editor.stop(id), "end_turn");
    assert_eq!(fs_err::read_to_string(folder.join("calc.sh")).unwrap(), FIXED);
    let said = text(&editor.took("agent_message_chunk"));
    assert_eq!(said.matches("The sign was wrong.").count(), 1, "{said}");
    let thought = text(&editor.took("agent_thought_chunk"));
    for attempt in 1..=2 {
        assert!(thought.contains(&format!("[attempt {attempt}] ")), "{thought}");
    }
    let begun = editor.took("tool_call");
    let calls = begun.iter().filter(|it| it["status"] == "in_progress");
    let ids: Vec<&str> = calls.map(|it| it["toolCallId"].as_str().unwrap()).collect();
    let [first, second] = &ids[..] else { panic!("{ids:?}") };
    assert!(first.starts_with("1/attempt-1/") && second.starts_with("1/attempt-2/"), "{ids:?}");
    let ended = editor.took("tool_call_update");
    let ended: Vec<&str> = ended.iter().map(|it| it["toolCallId"].as_str().unwrap()).collect();
    assert_eq!(ended, ids);
    assert_eq!(editor.hang_up().0, 0);
}

#[test]
fn messages_that_are_wrong_are_answered_and_nothing_ends() {
    let (world, _) = world(Vec::new());
    let mut editor = Editor::start(&world, &[]);
    let refused = |editor: &mut Editor<'_>, code: i64, why: &str| {
        let message = editor.next();
        valid("Error", &message["error"]);
        assert_eq!(
            (&message["id"], &message["error"]["code"]),
            (&Value::Null, &json!(code)),
            "{message}"
        );
        assert!(message["error"]["message"].as_str().unwrap().contains(why), "{message}");
    };
    editor.write(b"nonsense\n\n  \n");
    refused(&mut editor, -32700, "not JSON");
    editor.write(b"{\"jsonrpc\": \"2.0\", \xff}\n");
    refused(&mut editor, -32700, "UTF-8");
    editor.write(
        &[b"{\"jsonrpc\": \"2.0\", \"method\": \"".as_slice(), &vec![b'a'; 5 << 20], b"\"}\n"]
            .concat(),
    );
    refused(&mut editor, -32700, "4194304 bytes");
    editor.send(&json!([{"jsonrpc": "2.0", "id": 1, "method": "initialize"}]));
    refused(&mut editor, -32600, "one object");
    editor.send(&json!({"jsonrpc": "2.0", "id": 1.5, "method": "initialize"}));
    refused(&mut editor, -32600, "`id`");
    editor.write(format!("{}{}\n", "[".repeat(200_000), "]".repeat(200_000)).as_bytes());
    refused(&mut editor, -32700, "recursion");
    // What is no request is not answered.
    editor.send(&json!({"jsonrpc": "2.0", "method": "nobody/knows"}));
    editor.send(&json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
    editor.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": []}));
    let id = editor.ask("session/new", &json!({"cwd": "/", "mcpServers": []}));
    let (code, why) = editor.error(id);
    assert!(code == -32600 && why.contains("`initialize`"), "{code} {why}");
    editor.send(&json!({"id": 40, "method": "initialize", "params": {"protocolVersion": 1}}));
    assert!(editor.error(40).1.contains("\"2.0\""));
    let id = editor.ask("initialize", &json!({"protocolVersion": 9}));
    assert_eq!(editor.result(id, "InitializeResponse")["protocolVersion"], 1);
    assert_eq!(editor.hang_up().0, 0);
}

#[test]
fn requests_that_cannot_be_done_are_refused_with_their_reason() {
    let (world, _) = world([say("Still here.")]);
    let mut editor = Editor::start(&world, &[]);
    editor.initialize();
    let folder = world.path("project");
    let cases = [
        ("session/load", json!({"sessionId": "x"}), -32601, "no method `session/load`"),
        ("session/new", json!({"cwd": "project", "mcpServers": []}), -32602, "absolute"),
        (
            "session/new",
            json!({"cwd": folder.join("absent"), "mcpServers": []}),
            -32602,
            "absolute",
        ),
        ("session/new", json!({"cwd": 7, "mcpServers": []}), -32602, "`params`"),
        ("session/prompt", json!({"sessionId": "x", "prompt": []}), -32002, "no session `x`"),
        ("session/close", json!({"sessionId": "x"}), -32002, "no session `x`"),
        ("session/set_mode", json!({"sessionId": "x", "modeId": "plan"}), -32002, "no session"),
    ];
    for (method, params, code, why) in cases {
        let id = editor.last + 1;
        editor.last = id;
        editor.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let (is, said) = editor.error(id);
        assert!(is == code && said.contains(why), "{method} {params}: {is} {said}");
    }
    let session = editor.session();
    let cases = [
        (json!([]), "empty"),
        (json!([{"type": "text", "text": " "}]), "empty"),
        (json!([{"type": "image", "data": "", "mimeType": "image/png"}]), "`image`"),
        (json!([{"type": "dance"}]), "cannot be read"),
        (json!([{"type": "text", "text": "x".repeat(2 << 20)}]), "more than"),
    ];
    for (prompt, why) in cases {
        let id = editor.last + 1;
        editor.last = id;
        let params = json!({"sessionId": session, "prompt": prompt});
        editor.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}),
        );
        let (code, said) = editor.error(id);
        assert!(code == -32602 && said.contains(why), "{code} {said}");
    }
    let id = editor.prompt(&session, "Are you there?");
    assert_eq!(editor.stop(id), "end_turn");
    assert_eq!(text(&editor.took("agent_message_chunk")), "Still here.\n");
    assert_eq!(editor.hang_up().0, 0);
}

#[test]
fn files_that_a_prompt_names_are_named_as_the_run_sees_them() {
    let (world, folder) = world([say("I see.")]);
    let mut editor = Editor::start(&world, &[]);
    editor.initialize();
    let session = editor.session();
    let uri = |name: &str| format!("file://{}", folder.join(name).display());
    let embedded =
        json!({"uri": uri("notes.md"), "mimeType": "text/markdown", "text": "Not committed yet."});
    let prompt = json!([
        {"type": "text", "text": "Look at "},
        {"type": "resource_link", "uri": uri("calc.sh"), "name": "calc.sh"},
        {"type": "text", "text": " and "},
        {"type": "resource", "resource": embedded},
    ]);
    let id = editor.ask("session/prompt", &json!({"sessionId": session, "prompt": prompt}));
    assert_eq!(editor.stop(id), "end_turn");
    let told = world.told();
    assert!(told.contains("Look at `calc.sh` and `notes.md`"), "{told}");
    assert!(told.contains("Not committed yet."), "{told}");
    assert_eq!(editor.hang_up().0, 0);
}

#[test]
fn plans_are_what_is_asked_for_or_all_that_the_operator_allows() {
    let turns = [custom("apply_patch", PATCH), say("Change the sign.")];
    let (world, folder) = world(turns.clone().into_iter().chain(turns));
    let mut editor = Editor::start(&world, &[]);
    editor.initialize();
    let session = editor.session();
    let id = editor.ask("session/set_mode", &json!({"sessionId": session, "modeId": "plan"}));
    editor.result(id, "SetSessionModeResponse");
    let id = editor.prompt(&session, "Make add add");
    assert_eq!(editor.stop(id), "end_turn");
    assert_eq!(fs_err::read_to_string(folder.join("calc.sh")).unwrap(), FILES[0].1);
    let failed = editor.took("tool_call_update");
    assert!(failed.iter().all(|it| it["status"] == "failed"), "{failed:?}");
    let id = editor.ask("session/close", &json!({"sessionId": session}));
    editor.result(id, "CloseSessionResponse");
    let id = editor.prompt(&session, "More");
    assert_eq!(editor.error(id).0, -32002);
    assert_eq!(editor.hang_up().0, 0);

    let mut editor = Editor::start(&world, &["--mode", "plan"]);
    editor.initialize();
    let session = editor.session();
    let id = editor.ask("session/set_mode", &json!({"sessionId": session, "modeId": "execute"}));
    assert_eq!(editor.error(id).0, -32602);
    assert_eq!(editor.hang_up().0, 0);
}

#[test]
fn each_end_of_a_run_has_its_answer() {
    let looks = || call("shell_command", json!({"command": "true"}));
    let (world, _) =
        world([looks(), say("That was all."), fail(401, "invalid_api_key", "no such key")]);
    let mut editor = Editor::start(&world, &["--max-turns", "1"]);
    editor.initialize();
    let session = editor.session();
    let id = editor.prompt(&session, "Make add add");
    assert_eq!(editor.stop(id), "max_turn_requests");
    let said = text(&editor.took("agent_message_chunk"));
    assert!(said.contains("This ended early (budget exhausted)"), "{said}");
    let id = editor.prompt(&session, "Something else");
    let message = editor.answer(id);
    valid("Error", &message["error"]);
    assert_eq!(message["error"]["code"], -32603, "{message}");
    assert_eq!(message["error"]["data"]["conclusion"], "provider_error", "{message}");
    assert_eq!(editor.hang_up().0, 0);
}

#[test]
fn nothing_comes_from_the_client_but_the_folder_and_the_words_and_no_secret_goes_to_it() {
    let (world, folder) = world([say(format!("The key is {KEY}."))]);
    // Not even under Actions, where a failure is a line for the runner.
    let world = world.set("GITHUB_ACTIONS", "true");
    let mut editor = Editor::start(&world, &["--json"]);
    editor.initialize();
    let server = json!({"name": "x", "command": "/bin/false", "args": [], "env": []});
    let id = editor.ask("session/new", &json!({"cwd": folder, "mcpServers": [server]}));
    let created = editor.result(id, "NewSessionResponse");
    let session = created["sessionId"].as_str().unwrap().to_owned();
    let id = editor.prompt(&session, "Which key?");
    assert_eq!(editor.stop(id), "end_turn");
    let said = text(&editor.took("agent_message_chunk"));
    assert!(said.contains("The key is") && !said.contains(KEY), "{said}");
    let (code, said) = editor.hang_up();
    assert!(code == 0 && said.contains("MCP servers of the client are not used"), "{said}");
}

#[test]
fn a_configuration_that_cannot_work_is_said_when_a_session_is_opened() {
    let (world, folder) = world([]);
    let server = "mcp: {x: {url: 'http://mcp.test', headers: {X-Key: '${NOT_SET_HERE}'}}}\n";
    let config = world.write("config.yml", server);
    let world = world.set("PATCHWRIGHT_CONFIG", config);
    let mut editor = Editor::start(&world, &[]);
    editor.initialize();
    let id = editor.ask("session/new", &json!({"cwd": folder, "mcpServers": []}));
    let message = editor.answer(id);
    assert!(message["error"]["message"].as_str().unwrap().contains("NOT_SET_HERE"), "{message}");
    assert_eq!(message["error"]["data"]["exitCode"], 2, "{message}");
    assert_eq!(editor.hang_up().0, 0);
}
