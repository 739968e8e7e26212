//! Tools that the provider runs: configured, declared, with secrets nowhere but on the wire. Tools that it
//! defines and we run: done by the kind of their items, in their own forms. Strict schemas of our own.

use expect_test::expect;
use patchwright_base::env::Env;
use patchwright_config::Mode;
use patchwright_config::{file, merge};
use patchwright_provider::ToolForm;
use patchwright_provider::hosted;
use patchwright_provider::item::{OutputForm, Payload, ToolCall, Wire};
use patchwright_tools::profile::{self, Profile, Setting};
use patchwright_tools::registry::ToolSet;
use patchwright_tools::services::Services;
use patchwright_tools::{arguments, schema};
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

use crate::exec::project;
use crate::support::model::{item, say};
use crate::support::tool_desk::{ToolDesk, model, shown};
use crate::support::world::TestWorld;

const TOKEN: &str = "mcp-token-4b1f9e0c77aa52d3";

const CONFIG: &str = "
hosted-tools:
  - type: web_search
    filters: { allowed_domains: [example.org] }
  - type: mcp
    server_label: docs
    server_url: https://mcp.example.org/
    require_approval: never
    authorization: ${PATCHWRIGHT_TOOL_DOCS}
";

#[test]
fn each_wire_takes_its_own_providers_tools() {
    let taken = [
        (Wire::Responses, json!({"type": "web_search"}), "web_search"),
        (
            Wire::Responses,
            json!({"type": "file_search", "vector_store_ids": ["vs_1"]}),
            "file_search",
        ),
        (
            Wire::Responses,
            json!({"type": "code_interpreter", "container": {"type": "auto"}}),
            "code_interpreter",
        ),
        (Wire::Responses, json!({"type": "image_generation"}), "image_generation"),
        (
            Wire::Responses,
            json!({"type": "computer_use_preview", "display_width": 800, "display_height": 600, "environment": "browser"}),
            "computer_use_preview",
        ),
        (
            Wire::Responses,
            json!({"type": "shell", "environment": {"type": "container_auto"}}),
            "shell",
        ),
        (
            Wire::Responses,
            json!({"type": "mcp", "server_label": "d", "server_url": "https://d", "require_approval": {"never": {"tool_names": ["a"]}}}),
            "mcp",
        ),
        (
            Wire::Messages,
            json!({"type": "web_search_20260318", "name": "web_search"}),
            "web_search_20260318",
        ),
        (
            Wire::Messages,
            json!({"type": "code_execution_20250825", "name": "code_execution"}),
            "code_execution_20250825",
        ),
        (Wire::Gemini, json!({"googleSearch": {}}), "googleSearch"),
        (Wire::Gemini, json!({"urlContext": {}}), "urlContext"),
        (Wire::Gemini, json!({"codeExecution": {}}), "codeExecution"),
    ];
    for (wire, entry, name) in taken {
        let declared = hosted::declarations(std::slice::from_ref(&entry), wire).unwrap();
        assert_eq!(declared[0].name, name);
        assert_eq!(declared[0].form, ToolForm::Native { value: entry });
    }
}

#[test]
fn what_is_not_the_providers_to_run_is_refused_with_a_way_out() {
    let mcp = |more: Value| {
        let mut entry = json!({"type": "mcp", "server_label": "d", "server_url": "https://d", "require_approval": "never"});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    };
    let refused = [
        (Wire::Chat, json!({"type": "web_search"})),
        (Wire::Responses, json!("web_search")),
        (Wire::Responses, json!({"googleSearch": {}})),
        (Wire::Responses, json!({"type": "function", "name": "f"})),
        (Wire::Responses, json!({"type": "shell", "environment": {"type": "local"}})),
        (Wire::Messages, json!({"type": "web_search_20260318"})),
        (Wire::Messages, json!({"type": "bash_20250124", "name": "bash"})),
        (Wire::Gemini, json!({"type": "web_search"})),
        (Wire::Gemini, json!({"googleSearch": {}, "urlContext": {}})),
        (Wire::Gemini, json!({"functionDeclarations": []})),
        (Wire::Responses, json!({"type": "mcp", "server_label": "d", "server_url": "https://d"})),
        (Wire::Responses, json!({"type": "mcp", "require_approval": "never"})),
        (Wire::Responses, mcp(json!({"authorization": "abc"}))),
        (Wire::Responses, mcp(json!({"authorization": {"type": "bearer", "token": "abc"}}))),
        (Wire::Responses, mcp(json!({"headers": {"X-Api-Key": "abc"}}))),
        (Wire::Responses, mcp(json!({"authorization": "${GITHUB_TOKEN}"}))),
    ];
    let mut said = String::new();
    for (wire, entry) in refused {
        let failure = hosted::declarations(&[entry], wire).unwrap_err().to_string();
        assert!(!failure.contains("abc"), "{failure}");
        said.push_str(failure.lines().next().unwrap());
        said.push('\n');
    }
    expect![[r#"
        error: `hosted-tools` cannot be used on the `chat` wire
        error: an entry of `hosted-tools` is not an object
        error: an entry of `hosted-tools` has no `type`
        error: `hosted-tools`: `function` is not run by the provider
        error: `hosted-tools`: `shell` is not run by the provider
        error: `hosted-tools`: `web_search_20260318` has no `name`
        error: `hosted-tools`: `bash_20250124` is not run by the provider
        error: an entry of `hosted-tools` is not an object with one key
        error: an entry of `hosted-tools` is not an object with one key
        error: `hosted-tools`: functions are not run by the provider
        error: `hosted-tools`: the calls of an `mcp` server would wait for an approval, and nobody is asked
        error: `hosted-tools`: an `mcp` server has no `server_label`
        error: `hosted-tools`: `authorization` of `mcp` refers to no secret in the environment
        error: `hosted-tools`: `authorization` of `mcp` is not a text
        error: `hosted-tools`: `X-Api-Key` of `mcp` refers to no secret in the environment
        error: `hosted-tools`: `authorization` of `mcp` refers to no secret in the environment
    "#]].assert_eq(&said);
}

#[test]
fn secrets_come_from_the_environment_and_go_into_declarations_only() {
    let entries = file::parse("config.yml", CONFIG).unwrap().hosted_tools.unwrap();
    let env = Env::from_pairs([("PATCHWRIGHT_TOOL_DOCS", TOKEN), ("OTHER", "x")]);
    let secrets = hosted::secrets(&entries, &env).unwrap();
    assert_eq!(secrets.len(), 1);
    assert_eq!(secrets["PATCHWRIGHT_TOOL_DOCS"].expose_secret(), TOKEN);
    let declared = hosted::declarations(&entries, Wire::Responses).unwrap();
    assert!(format!("{declared:?}").contains("${PATCHWRIGHT_TOOL_DOCS}"));
    let filled = serde_json::to_string(&hosted::filled(&declared, &secrets)).unwrap();
    assert!(filled.contains(TOKEN) && !filled.contains("${"), "{filled}");
    let missing = hosted::secrets(&entries, &Env::default()).unwrap_err().to_string();
    assert!(missing.contains("`PATCHWRIGHT_TOOL_DOCS`, which is not set"), "{missing}");
    // Other variables are no secrets of tools, and stay text.
    let other = [json!({"type": "web_search", "note": "${OPENAI_API_KEY}"})];
    let env = Env::from_pairs([("OPENAI_API_KEY", "k")]);
    assert!(hosted::secrets(&other, &env).unwrap().is_empty());
    let names: Vec<String> = Env::from_pairs([("PATCHWRIGHT_TOOL_DOCS", TOKEN)])
        .secrets()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["PATCHWRIGHT_TOOL_DOCS"]);
}

#[test]
fn a_repository_may_not_set_hosted_tools() {
    let mut config = merge::defaults().unwrap();
    merge::tighten(&mut config, file::parse("r", CONFIG).unwrap());
    merge::tighten(&mut config, file::parse("r", "stateful: true\n").unwrap());
    assert!(config.hosted_tools.is_empty() && !config.stateful);
    let notes = config.notes.join("\n");
    assert!(notes.contains("`hosted-tools` in") && notes.contains("`stateful` in"), "{notes}");
}

#[test]
fn a_run_declares_them_denies_approvals_and_keeps_the_secret() {
    let request = json!({"id": "mcpr_1", "type": "mcp_approval_request", "server_label": "docs", "name": "delete_all", "arguments": "{}"});
    let world =
        TestWorld::local([item(request), say(format!("Use ${{PATCHWRIGHT_TOOL_DOCS}}, {TOKEN}."))])
            .set("PATCHWRIGHT_TOOL_DOCS", TOKEN);
    project(&world);
    fs_err::write(world.path("config.yml"), CONFIG).unwrap();
    let prompt = "What is ${PATCHWRIGHT_TOOL_DOCS}?";
    let output = world
        .run(&["exec", prompt, "--repo", "project", "--config", "config.yml", "--out", "out"])
        .expect(0);
    assert!(!output.text().contains(TOKEN), "{}", output.text());
    let asked = world.model.requests();
    let tools = asked[0].body["tools"].as_array().unwrap();
    assert_eq!(tools[tools.len() - 2]["filters"], json!({"allowed_domains": ["example.org"]}));
    assert_eq!(tools[tools.len() - 1]["authorization"], TOKEN);
    // The conversation is not filled in.
    assert!(!asked[0].body["input"].to_string().contains(TOKEN));
    assert!(asked[0].body["input"].to_string().contains("${PATCHWRIGHT_TOOL_DOCS}"));
    let answer = asked[1].body["input"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(answer["type"], "mcp_approval_response");
    assert_eq!(
        (&answer["approve"], &answer["approval_request_id"]),
        (&json!(false), &json!("mcpr_1"))
    );
    assert_eq!(world.holds(TOKEN), Vec::<std::path::PathBuf>::new());
    let journal = fs_err::read_to_string(world.path("out/journal.jsonl")).unwrap();
    assert!(!journal.contains(TOKEN) && journal.contains("${PATCHWRIGHT_TOOL_DOCS}"));
    let denied = journal.lines().find(|line| line.contains("\"call_ended\"")).unwrap();
    assert!(denied.contains("mcp_approval") && denied.contains("\"success\":false"), "{denied}");
    world.model.take_violations();
    let shown =
        world.run(&["tools", "--model", "gpt-5.3-codex", "--config", "config.yml"]).expect(0);
    assert!(shown.stdout.contains("${PATCHWRIGHT_TOOL_DOCS}") && !shown.stdout.contains(TOKEN));
    let refused = world.run(&["tools", "--model", "chat/x", "--config", "config.yml"]).expect(2);
    assert!(refused.stderr.contains("cannot be used on the `chat` wire"), "{}", refused.text());
}

/// A call of a tool that OpenAI defines and we execute.
fn native(desk: &ToolDesk, name: &str, args: &Value) -> ToolCall {
    desk.call(name, Payload::Native(args.to_string()))
}

#[tokio::test]
async fn items_of_openai_s_tools_are_done_whatever_the_profile_has() {
    for slug in ["gpt-5.3-codex", "gpt-5.1", "gpt-4.1", "gpt-6.1-sol"] {
        let desk = ToolDesk::new(slug).await;
        desk.write("a.txt", "one\n");
        let patch = json!({"type": "update_file", "path": "a.txt", "diff": "@@\n-one\n+two\n"});
        let calls = vec![
            native(&desk, "apply_patch", &patch),
            native(
                &desk,
                "shell",
                &json!({"commands": ["cat a.txt", "exit 3"], "timeout_ms": null}),
            ),
            native(&desk, "local_shell", &json!({"command": ["cat", "a.txt"]})),
        ];
        let outputs = desk.run_all(calls).await;
        let forms = [OutputForm::ApplyPatch, OutputForm::Shell, OutputForm::LocalShell];
        assert!(outputs.iter().map(|it| it.form).eq(forms), "{slug}: {outputs:?}");
        assert_eq!(desk.file("a.txt"), "two\n", "{slug}");
        assert!(outputs[0].success && outputs[2].success, "{slug}: {outputs:?}");
        assert!(shown(&outputs[0]).contains("M a.txt"), "{slug}: {outputs:?}");
        assert!(shown(&outputs[2]).ends_with("two\n"), "{slug}: {outputs:?}");
        let chunks: Value = serde_json::from_str(&shown(&outputs[1])).unwrap();
        let exit = |code: i32| json!({"type": "exit", "exit_code": code});
        assert_eq!(
            chunks,
            json!([
                {"stdout": "two\n", "stderr": "", "outcome": exit(0)},
                {"stdout": "", "stderr": "", "outcome": exit(3)},
            ]),
            "{slug}"
        );
        // A function of the same name is the profile's own.
        let own = desk.json("shell", json!({"command": ["echo", "own"]})).await;
        assert!(shown(&own).ends_with("own\n"), "{slug}: {own:?}");
    }
}

#[tokio::test]
async fn items_of_openai_s_tools_give_no_power_that_a_run_does_not_have() {
    let model = model("gpt-5.3-codex");
    let tools = ToolSet::for_run(&model, Mode::Plan, &[]).unwrap();
    let desk = ToolDesk::with(model.clone(), tools, Services::default()).await;
    let patch = json!({"type": "create_file", "path": "new.txt", "diff": "+x"});
    let calls = vec![
        native(&desk, "shell", &json!({"commands": ["touch new.txt"]})),
        native(&desk, "apply_patch", &patch),
    ];
    for output in desk.run_all(calls).await {
        assert!(!output.success && shown(&output).contains("only plans"), "{output:?}");
    }
    for (off, name, args) in [
        ("exec_command", "shell", json!({"commands": ["touch new.txt"]})),
        ("apply_patch", "apply_patch", patch),
    ] {
        let all = ToolSet::for_run(&model, Mode::Execute, &[]).unwrap();
        let tools = all.without(&[off.to_owned()]);
        let desk = ToolDesk::with(model.clone(), tools, Services::default()).await;
        let output = desk.run_all(vec![native(&desk, name, &args)]).await.remove(0);
        assert!(!output.success && shown(&output).contains("switched off"), "{off}: {output:?}");
        assert!(!desk.guest.workspace().join("new.txt").exists());
    }
}

#[tokio::test]
async fn a_hosted_shell_has_output_and_errors_apart() {
    let mut model = model("gpt-5.3-codex");
    profile::choose(&mut model, "openai-hosted");
    let tools = ToolSet::for_run(&model, Mode::Execute, &[]).unwrap();
    let desk = ToolDesk::with(model, tools, Services::default()).await;
    let commands = [
        "echo out; echo err >&2; exit 2",
        "echo only >&2",
        "seq 1 30000; seq 1 30000 >&2",
        "seq 1 30000 >&2; echo end",
    ];
    let run = async |args: Value| -> Value {
        let output = desk.run_all(vec![native(&desk, "shell", &args)]).await.remove(0);
        serde_json::from_str(&shown(&output)).unwrap()
    };
    let chunks = run(json!({"commands": commands})).await;
    let texts = |at: usize| {
        let text = |key: &str| chunks[at][key].as_str().unwrap().to_owned();
        (text("stdout"), text("stderr"))
    };
    assert_eq!(texts(0), ("out\n".to_owned(), "err\n".to_owned()));
    assert_eq!(chunks[0]["outcome"], json!({"type": "exit", "exit_code": 2}));
    assert_eq!(texts(1), (String::new(), "only\n".to_owned()));
    // Both ends of both, and what one does not need is the other's.
    let limit = usize::try_from(desk.model.output_tokens).unwrap() * 4 / commands.len();
    let (stdout, stderr) = texts(2);
    for text in [&stdout, &stderr] {
        assert!(text.starts_with("1\n2\n") && text.ends_with("30000\n"), "{text}");
        assert!(text.len() > limit / 3, "{} of {limit}", text.len());
    }
    assert!(stdout.len() + stderr.len() < limit + 400, "{}", stdout.len() + stderr.len());
    let (stdout, stderr) = texts(3);
    assert_eq!(stdout, "end\n");
    assert!(stderr.len() > limit / 2 && stderr.len() < limit + 200, "{}", stderr.len());
    let late = "echo before; echo late >&2; sleep 600";
    let chunks = run(json!({"commands": [late], "timeout_ms": 5000})).await;
    let ended = json!([{"stdout": "before\n", "stderr": "late\n", "outcome": {"type": "timeout"}}]);
    assert_eq!(chunks, ended);
    // In words where the call had another form.
    let call = desk.json("shell", json!({"commands": ["echo out; echo err >&2"]})).await;
    assert!(shown(&call).ends_with("Output:\nout\nErrors:\nerr\n"), "{call:?}");
}

#[tokio::test]
async fn a_local_shell_sets_the_variables_that_a_call_names() {
    let desk = ToolDesk::new("codex-mini-latest").await;
    let run = async |env: Value| {
        let script = "echo \"$FOO $CI $HOME\"; env | grep -ci _proxy";
        let args = json!({"command": ["sh", "-c", script], "env": env});
        desk.run_all(vec![native(&desk, "local_shell", &args)]).await.remove(0)
    };
    let plain = shown(&run(json!({})).await);
    let (_, before) = plain.split_once("Output:\n").unwrap();
    let set = json!({"FOO": "bar", "CI": "no", "HOME": "/nowhere", "https_proxy": "http://h", "LD_PRELOAD": "/x"});
    let set = shown(&run(set).await);
    let (_, after) = set.split_once("Output:\n").unwrap();
    assert_eq!(after, format!("bar{before}"), "what the sandbox sets stays");
    let many: serde_json::Map<String, Value> =
        (0..200).map(|number| (format!("V{number}"), json!("x"))).collect();
    for (env, says) in [(json!(many), "at most 128"), (json!({"A=B": "x"}), "has a `=`")] {
        let output = run(env).await;
        assert!(!output.success && shown(&output).contains(says), "{output:?}");
    }
}

#[test]
fn codex_mini_gets_the_local_shell_that_was_made_for_it() {
    let tools = ToolSet::for_run(&model("codex-mini-latest"), Mode::Execute, &[]).unwrap();
    let [shell, patch] = &tools.declarations()[..2] else { panic!("two tools at least") };
    assert_eq!(shell.form, ToolForm::Native { value: json!({"type": "local_shell"}) });
    assert!(matches!(patch.form, ToolForm::Function { .. }) && patch.name == "apply_patch");
}

/// OpenAI's rules for strict schemas.
fn objections(schema: &Value, at: &str, found: &mut Vec<String>) {
    let allowed = [
        "type",
        "description",
        "enum",
        "const",
        "anyOf",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "pattern",
        "items",
        "properties",
        "required",
        "additionalProperties",
    ];
    let Some(fields) = schema.as_object() else { return found.push(format!("{at}: no object")) };
    found.extend(
        fields
            .keys()
            .filter(|key| !allowed.contains(&key.as_str()))
            .map(|key| format!("{at}: {key}")),
    );
    if !["type", "enum", "const", "anyOf"].iter().any(|key| fields.contains_key(*key)) {
        found.push(format!("{at}: no type"));
    }
    if fields.contains_key("properties") || schema["type"] == "object" {
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        if schema["additionalProperties"] != false || json!(names) != schema["required"] {
            found.push(format!("{at}: open, or not all required"));
        }
    }
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        objections(part, &format!("{at}.{name}"), found);
    }
    for part in schema["anyOf"].as_array().into_iter().flatten().chain(fields.get("items")) {
        objections(part, &format!("{at}[]"), found);
    }
}

/// Arguments that a model bound to a strict schema can write: everything optional is `null`.
fn least(schema: &Value) -> Value {
    let kind = match &schema["type"] {
        Value::Array(kinds) if kinds.iter().any(|kind| kind == "null") => return Value::Null,
        Value::Array(kinds) => kinds[0].as_str().unwrap(),
        kind => kind.as_str().unwrap_or_default(),
    };
    let variants = schema["anyOf"].as_array();
    if let Some(options) = schema["enum"].as_array() {
        return options[0].clone();
    }
    if let Some(variants) = variants {
        let null = variants.iter().any(|variant| variant["type"] == "null");
        return if null { Value::Null } else { least(&variants[0]) };
    }
    match kind {
        "object" => {
            let fields = schema["properties"].as_object().unwrap();
            let fields = fields.iter().map(|(name, part)| (name.clone(), least(part)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        "array" => {
            let count = usize::try_from(schema["minItems"].as_u64().unwrap_or(1)).unwrap();
            Value::Array(vec![least(&schema["items"]); count])
        }
        "string" => json!("x"),
        "boolean" => json!(true),
        _ => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
    }
}

#[test]
fn strict_declarations_of_every_profile_keep_the_rules_and_take_null_for_what_is_left_out() {
    let mut strict_tools = 0;
    for profile in Profile::ALL {
        for wire in [Wire::Responses, Wire::Chat] {
            let setting = Setting { strict: true, ..Setting::plain(wire) };
            // The tools that a provider defines exist on its own wire only.
            let Ok(tools) = ToolSet::with(*profile, &setting) else { continue };
            for declared in tools.declarations() {
                let ToolForm::Function { schema, strict: true } = &declared.form else { continue };
                strict_tools += 1;
                let mut found = Vec::new();
                objections(schema, &declared.name, &mut found);
                assert!(found.is_empty(), "{found:#?}");
                let tool = tools.find(&declared.name).unwrap();
                let args = Payload::Json(least(schema).to_string());
                let parsed = arguments::parse(tool, &args)
                    .unwrap_or_else(|refusal| panic!("{args:?}: {}", refusal.message));
                assert!(!parsed.to_string().contains("null"), "{parsed}");
            }
            let plain = ToolSet::new(*profile, wire).unwrap();
            let is_plain =
                |form: &ToolForm| !matches!(form, ToolForm::Function { strict: true, .. });
            assert!(plain.declarations().iter().all(|tool| is_plain(&tool.form)));
        }
    }
    assert!(strict_tools > 10, "{strict_tools}");
}

#[test]
fn schemas_that_strict_mode_cannot_express_are_known() {
    let fits = [
        json!({"type": "object", "properties": {"a": {"type": "string", "minLength": 1, "default": "x"}}}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"b": {"enum": ["c"]}}}}}, "required": ["a"]}),
    ];
    for schema in fits {
        assert!(schema::can_be_strict(&schema), "{schema}");
        let mut found = Vec::new();
        objections(&schema::strict(&schema), "", &mut found);
        assert!(found.is_empty(), "{schema}: {found:?}");
    }
    let cannot = [
        json!(true),
        json!({"type": "string"}),
        json!({"anyOf": [{"type": "object"}]}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": {"a": {}}}),
        json!({"type": "object", "properties": {"a": true}}),
        json!({"type": "object", "properties": {"a": {"type": "array"}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}}),
    ];
    for schema in cannot {
        assert!(!schema::can_be_strict(&schema), "{schema}");
    }
}
