//! Results as JSON by a schema: asked for in each protocol's own way, checked, asked for once more, and schemas
//! that cannot be used.

use serde_json::{Value, json};

use crate::action::{event_with, outputs};
use crate::exec::project;
use crate::resume::wait_for;
use crate::support::model::{Turn, call, fail, say, stall};
use crate::support::world::{KEY, TestWorld, github};

const ANSWER: &str = "{\"name\": \"calc\", \"files\": 3}";

/// What every provider can be bound to.
fn plain() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "files": {"type": "integer"}},
        "required": ["name", "files"],
        "additionalProperties": false,
    })
}

/// With a keyword that Anthropic refuses.
fn wide() -> Value {
    let mut schema = plain();
    schema["properties"]["name"]["maxLength"] = json!(10);
    schema
}

fn world(model: &str, schema: &Value, turns: Vec<Turn>) -> TestWorld {
    let world = TestWorld::local(turns);
    project(&world);
    fs_err::write(world.path("schema.json"), schema.to_string()).unwrap();
    let root = world.model.root();
    world
        .set("PATCHWRIGHT_MODEL", model)
        .set("ANTHROPIC_BASE_URL", &root)
        .set("ANTHROPIC_API_KEY", KEY)
        .set("GOOGLE_GEMINI_BASE_URL", &root)
        .set("GEMINI_API_KEY", KEY)
}

const COMMAND: &[&str] = &[
    "exec",
    "What is this project called?",
    "--repo",
    "project",
    "--out",
    "out",
    "--output-schema",
    "schema.json",
];

fn result(world: &TestWorld) -> Value {
    serde_json::from_slice(&fs_err::read(world.path("out/result.json")).unwrap()).unwrap()
}

#[test]
fn each_protocol_is_asked_in_its_own_way_and_stdout_is_the_result() {
    let strict = |pointer| (pointer, json!(true));
    let rows = [
        ("gpt-5.3-codex", plain(), say(ANSWER), strict("/text/format/strict")),
        ("gpt-5.3-codex", wide(), say(ANSWER), ("/text/format/strict", json!(false))),
        (
            "openai/gpt-5.5",
            plain(),
            say(ANSWER),
            ("/text/format/schema/required/1", json!("files")),
        ),
        (
            "claude-sonnet-5",
            plain(),
            say(ANSWER),
            ("/output_config/format/type", json!("json_schema")),
        ),
        (
            "claude-sonnet-5",
            wide(),
            call("give_result", serde_json::from_str(ANSWER).unwrap()),
            // It thinks, and cannot be made to call.
            ("/tool_choice/type", json!("auto")),
        ),
        (
            "gemini-3.5-flash",
            plain(),
            say(ANSWER),
            ("/generationConfig/responseMimeType", json!("application/json")),
        ),
        (
            "chat/some-model",
            plain(),
            say(format!("```json\n{ANSWER}\n```")),
            ("/tool_choice", json!("none")),
        ),
    ];
    for (model, schema, answer, (pointer, expected)) in rows {
        let world = world(model, &schema, vec![say("It is called calc."), answer]);
        let output = world.run(COMMAND);
        assert_eq!(output.code, 0, "{model}: {}", output.text());
        let expected_output: Value = serde_json::from_str(ANSWER).unwrap();
        let printed: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(printed, expected_output, "{model}");
        let result = result(&world);
        assert_eq!((&result["output"], &result["conclusion"]), (&expected_output, &json!("done")));
        assert_eq!(result["final_message"], "It is called calc.", "{model}");
        let file = fs_err::read(world.path("out/output.json")).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&file).unwrap(), expected_output, "{model}");
        let requests = world.model.requests();
        assert_eq!((requests.len(), world.model.unused()), (2, 0), "{model}");
        let first = requests[0].body.pointer(pointer);
        assert!(first != Some(&expected) || pointer == "/tool_choice/type");
        let second = &requests[1].body;
        assert_eq!(second.pointer(pointer), Some(&expected), "{model}: {second}");
        // The model knows from the beginning what it will be asked for.
        let opening = String::from_utf8_lossy(&requests[0].raw).into_owned();
        assert!(opening.contains("additionalProperties"), "{model}");
        // Besides there it is in the request's own field or tool, or else in the question.
        let asked = String::from_utf8_lossy(&requests[1].raw).into_owned();
        let is_bound = model != "chat/some-model";
        assert_eq!(asked.contains("fits the schema that the task names"), is_bound, "{asked}");
        assert_eq!(asked.contains("fits the schema below"), !is_bound, "{asked}");
    }
}

#[test]
fn a_result_that_does_not_fit_is_asked_for_once_more() {
    let turns = vec![say("It is calc."), say("{\"name\": \"calc\"}"), say(ANSWER)];
    let world = world("gpt-5.3-codex", &plain(), turns);
    let output = world.run(COMMAND).expect(0);
    assert!(output.stderr.contains("asking for the result as json"), "{}", output.text());
    let requests = world.model.requests();
    assert_eq!(requests.len(), 3);
    let said = String::from_utf8_lossy(&requests[2].raw).into_owned();
    assert!(said.contains("\\\"files\\\" is a required property"), "{said}");
    // A recorded run comes to the same end without a model.
    world.run(&["replay", "out"]).expect(0);
}

/// Providers differ in what they take of JSON Schema.
#[test]
fn a_schema_that_the_provider_refuses_is_told_in_words() {
    let refusal = fail(400, "invalid_request_error", "Invalid schema for response_format");
    let world = world("gpt-5.3-codex", &plain(), vec![say("It is calc."), refusal, say(ANSWER)]);
    let output = world.run(COMMAND).expect(0);
    assert!(output.stderr.contains("asking in words"), "{}", output.text());
    let requests = world.model.requests();
    assert_eq!(requests.len(), 3);
    let body = |at: usize| serde_json::from_slice::<Value>(&requests[at].raw).unwrap();
    assert!(body(1)["text"]["format"].is_object());
    assert!(body(2)["text"]["format"].is_null());
    assert!(body(2)["input"].to_string().contains("additionalProperties"), "the schema is told");
    assert_eq!(result(&world)["final_message"], "It is calc.");
}

#[test]
fn a_document_that_does_not_fit_is_told_at_once_what_is_wrong_with_it() {
    let turns = vec![say("So: {\"name\": 7, \"files\": 3}"), say(ANSWER)];
    let world = world("gpt-5.3-codex", &plain(), turns);
    world.run(COMMAND).expect(0);
    let requests = world.model.requests();
    assert_eq!(requests.len(), 2);
    let said = String::from_utf8_lossy(&requests[1].raw).into_owned();
    assert!(
        said.contains("That is not a result that can be used") && said.contains("/name"),
        "{said}"
    );
}

#[test]
fn a_result_that_never_fits_is_an_error_and_no_result() {
    let turns = vec![say("It is calc."), say("calc"), say("It is calc.")];
    let world = world("gpt-5.3-codex", &plain(), turns);
    let output = world.run(COMMAND).expect(20);
    assert_eq!(output.stdout, "");
    assert!(output.stderr.contains("the result does not fit its schema"), "{}", output.text());
    let result = result(&world);
    assert_eq!((&result["conclusion"], &result["output"]), (&json!("partial"), &Value::Null));
    assert_eq!(result["final_message"], "It is calc.");
    assert!(!world.path("out/output.json").exists());
}

#[test]
fn a_result_that_is_given_unasked_is_taken() {
    let world = world("gpt-5.3-codex", &plain(), vec![say(ANSWER)]);
    let output = world.run(COMMAND).expect(0);
    assert_eq!(world.model.requests().len(), 1);
    assert!(!output.stderr.contains("asking for the result"), "{}", output.text());
}

/// What is answered to the question is not taken for what the model had said before.
#[test]
fn a_run_that_is_killed_around_the_question_keeps_its_final_message() {
    let turns = || vec![say("It is called calc."), say("{\"name\": \"calc\"}"), say(ANSWER)];
    let journal = |world: &TestWorld| {
        fs_err::read_to_string(world.path("out/journal.jsonl")).unwrap_or_default()
    };
    let golden = world("gpt-5.3-codex", &plain(), turns());
    golden.run(COMMAND).expect(0);
    let lines = journal(&golden);
    let asked = lines.lines().position(|line| line.contains("result asked for")).unwrap();
    for line in asked..lines.lines().count() - 1 {
        let world = world("gpt-5.3-codex", &plain(), turns());
        let mut child = world.spawn(COMMAND);
        wait_for(|| journal(&world).matches('\n').count() >= line);
        child.kill().unwrap();
        world.wait(child);
        world.model.settle();
        if !journal(&world).contains("\"is\":\"run_ended\"") {
            let told = journal(&world).matches("\"is\":\"replied\"").count();
            world.model.replace(turns().into_iter().skip(told));
            world.run(COMMAND).expect(0);
        }
        let result = result(&world);
        let given: Value = serde_json::from_str(ANSWER).unwrap();
        assert_eq!(result["final_message"], "It is called calc.", "killed after {line}");
        assert_eq!(result["output"], given, "killed after {line}");
    }
}

/// The work is over: nothing may be changed any more.
#[test]
fn a_question_that_a_killed_run_has_asked_is_asked_in_the_same_way_again() {
    let turns = || vec![say("It is called calc."), stall(), say(ANSWER)];
    let world = world("gpt-5.3-codex", &plain(), turns());
    let mut child = world.spawn(COMMAND);
    wait_for(|| world.model.requests().len() == 2);
    child.kill().unwrap();
    world.wait(child);
    world.model.settle();
    world.model.replace([say(ANSWER)]);
    world.run(COMMAND).expect(0);
    let requests = world.model.requests();
    let body = |at: usize| serde_json::from_slice::<Value>(&requests[at].raw).unwrap();
    for at in [1, 2] {
        assert_eq!(body(at)["text"]["format"]["type"], "json_schema", "request {at}");
        assert_eq!(body(at)["tool_choice"], "none", "request {at}");
    }
    assert_eq!(result(&world)["final_message"], "It is called calc.");
}

#[test]
fn schemas_that_cannot_be_used_are_refused_before_anything_is_asked() {
    let with = |property: Value| {
        json!({"type": "object", "properties": {"a": property}, "required": ["a"]}).to_string()
    };
    let rows = [
        ("{\"type\": \"object\"".to_owned(), "is not JSON"),
        ("[]".to_owned(), "must be a JSON Schema"),
        (with(json!({"type": "text"})), "is not valid JSON Schema"),
        (with(json!({"$ref": "http://127.0.0.1:1/schema.json"})), "nothing is fetched"),
        (with(json!({"not": {}})), "cannot be met by anything"),
        (with(json!({"description": "x".repeat(100_000)})), "at most 65536"),
    ];
    for (schema, expected) in rows {
        let world = world("gpt-5.3-codex", &plain(), Vec::new());
        fs_err::write(world.path("schema.json"), schema).unwrap();
        let output = world.run(COMMAND).expect(2);
        assert!(output.stderr.contains(expected), "{expected}: {}", output.text());
        assert!(output.stderr.contains("`schema.json`"), "{}", output.text());
    }
    let world = world("gpt-5.3-codex", &plain(), Vec::new());
    fs_err::remove_file(world.path("schema.json")).unwrap();
    let output = world.run(COMMAND).expect(2);
    assert!(output.stderr.contains("schema.json"), "{}", output.text());
}

#[test]
fn the_action_has_the_result_as_an_output() {
    let payload = json!({"schedule": "41 4 * * 1", "repository": {"full_name": "acme/app"}});
    let turns = vec![say("It is called calc."), say(ANSWER)];
    let world = event_with(github(), "schedule", &payload, turns)
        .set("GITHUB_ACTOR", "somebody")
        .set("INPUT_PROMPT", "What is this called?")
        .set("INPUT_OUTPUT_SCHEMA", plain().to_string());
    world.run(&["action"]).expect(0);
    let said = outputs(&world);
    assert!(said.contains("output = {\"name\":\"calc\",\"files\":3}"), "{said}");
    assert!(said.contains("output.json"), "{said}");
    let world = world.set("INPUT_OUTPUT_SCHEMA", "{\"type\": \"array\"}");
    let output = world.run(&["action"]).expect(2);
    assert!(output.stderr.contains("output-schema"), "{}", output.text());
}
