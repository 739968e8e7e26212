//! `patchwright tools`: the declarations are what the wire sends, and bad arguments are answered.

use expect_test::{Expect, expect};
use patchwright::cli::tools::{ToolsArgs, run};
use patchwright_config::flags::WireName;
use serde_json::Value;

fn args(model: &str) -> ToolsArgs {
    ToolsArgs { model: model.to_owned(), wire: None, profile: None, config: None }
}

fn printed(args: &ToolsArgs) -> Result<String, patchwright_base::error::Failure> {
    let told = std::cell::RefCell::new(String::new());
    let printed = run(args, "2026-01-01", &|note| told.borrow_mut().push_str(note));
    assert_eq!(told.take(), "", "nothing is wrong with the model's name");
    printed
}

/// One line per declared tool: type, name, and the names of its arguments.
fn check(args: &ToolsArgs, expected: &Expect) {
    let printed = match printed(args) {
        Ok(json) => {
            let tools: Vec<Value> = serde_json::from_str(&json).unwrap();
            tools.iter().map(summary).collect()
        }
        Err(failure) => format!("{failure}\n"),
    };
    expected.assert_eq(&printed);
}

fn summary(tool: &Value) -> String {
    let kind = tool["type"].as_str().unwrap();
    let Some(name) = tool["name"].as_str() else { return format!("{tool}\n") };
    assert!(!tool["description"].as_str().unwrap().is_empty(), "{name} has no description");
    let Some(parameters) = tool.get("parameters") else {
        let format = &tool["format"];
        return format!("{kind} {name}: {} {}\n", format["type"], format["syntax"]);
    };
    assert_eq!(tool["strict"], false);
    assert_eq!(parameters["additionalProperties"], false);
    for noise in ["$schema", "title", "$defs", "$ref", "format"] {
        assert!(parameters.get(noise).is_none(), "{name} has `{noise}`");
    }
    let required: Vec<&str> =
        parameters["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let names = parameters["properties"].as_object().unwrap().keys().map(|name| {
        if required.contains(&name.as_str()) { name.clone() } else { format!("{name}?") }
    });
    format!("{kind} {name}: {}\n", names.collect::<Vec<_>>().join(", "))
}

#[test]
fn the_codex_profile_edits_with_free_text() {
    check(
        &args("gpt-5.3-codex"),
        &expect![[r#"
            function exec_command: cmd, workdir?, shell?, login?, tty?, stdin?, yield_time_ms?, max_output_tokens?, sandbox_permissions?, justification?
            function write_stdin: session_id, chars?, yield_time_ms?, max_output_tokens?
            custom apply_patch: "grammar" "lark"
            function update_plan: explanation?, plan
            function view_image: path
        "#]],
    );
}

#[test]
fn the_generic_profile_has_functions_only() {
    let args = ToolsArgs { profile: Some("generic".to_owned()), ..args("gpt-5.3-codex") };
    check(
        &args,
        &expect![[r#"
            function run_shell_command: command, description?, dir_path?, is_background?, timeout_ms?
            function read_file: absolute_path, offset?, limit?
            function read_many_files: paths, include?, exclude?
            function write_file: file_path, content
            function replace: file_path, old_string, new_string, expected_replacements?
            function search_file_content: pattern, path?, include?, max_matches?
            function list_dir: dir_path, offset?, limit?, depth?
            function glob: pattern, path?, limit?, case_sensitive?
            function update_plan: explanation?, plan
        "#]],
    );
}

#[test]
fn the_hosted_profile_is_for_the_responses_wire_only() {
    let hosted =
        |wire| ToolsArgs { profile: Some("openai-hosted".to_owned()), wire, ..args("gpt-5.5") };
    check(
        &hosted(None),
        &expect![[r#"
            {"type":"shell","environment":{"type":"local"}}
            {"type":"apply_patch"}
            function update_plan: explanation?, plan
            function view_image: path
        "#]],
    );
    check(
        &hosted(Some(WireName::Chat)),
        &expect![[r#"
        error: the tool profile `openai-hosted` cannot be used on the `chat` wire

        hint: its tools exist on the `responses` wire only: use `--wire responses`, or another `--profile`, for example `generic`
    "#]],
    );
}

#[test]
fn the_text_profile_declares_nothing() {
    for model in ["gpt-5.3-codex", "chat/any"] {
        let args = ToolsArgs { profile: Some("text".to_owned()), ..args(model) };
        assert_eq!(printed(&args).unwrap(), "[]\n");
    }
}

#[test]
fn names_that_do_not_exist_are_answered() {
    check(
        &ToolsArgs { profile: Some("codecs".to_owned()), ..args("gpt-5.3-codex") },
        &expect![[r#"
            error: unknown tool profile `codecs` in `profile`

            hint: the profiles are `codex`, `openai-hosted`, `claude`, `gemini`, `generic`, `text`
        "#]],
    );
    check(
        &args("gpt-5.3-codx/"),
        &expect![[r#"
        error: `gpt-5.3-codx/` names no model

        hint: write `gpt-5.3-codx/NAME`
    "#]],
    );
}

#[test]
fn the_same_bytes_every_time() {
    assert_eq!(printed(&args("gpt-5.3-codex")).unwrap(), printed(&args("gpt-5.3-codex")).unwrap());
}

#[test]
fn a_misspelt_model_is_declared_for_and_named() {
    let told = std::cell::RefCell::new(String::new());
    run(&args("claude-sonet-5"), "2026-01-01", &|note| told.borrow_mut().push_str(note)).unwrap();
    let told = told.take();
    assert!(told.contains("did you mean `claude-sonnet-5`?"), "{told}");
}
