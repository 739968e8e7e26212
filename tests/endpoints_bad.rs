//! What users get wrong about models, keys and endpoints: one clear message that names the setting,
//! nothing sent that cannot succeed, nothing sent twice, and no key in any output.

use serde_json::json;

use crate::support::model::{Turn, fail, fail_raw, html};
use crate::support::world::{Output, TestWorld, fix, github};

const ISSUE: &[&str] = &["issue", "acme/app#7", "--quiet"];

/// The secret part of every key in this file.
const SECRET: &str = "c0ffee5ec2e7c0ffee5ec2e7c0ffee5ec2e7";

fn key(mark: &str) -> String {
    format!("{mark}{SECRET}")
}

/// A world whose model is asked at the provider's public service, if ever.
fn public() -> TestWorld {
    TestWorld::new(github(), []).unset("OPENAI_BASE_URL").unset("OPENAI_API_KEY")
}

/// Runs `issue`, which must fail with all of these words and without the key.
#[track_caller]
fn refused(world: &TestWorld, args: &[&str], code: i32, words: &[&str]) -> Output {
    let args = [ISSUE, args].concat();
    let output = world.run(&args).expect(code);
    let text = output.text();
    for word in words {
        assert!(text.contains(word), "`{word}` is not in:\n{text}");
    }
    assert!(!text.contains(SECRET), "a key was printed");
    output
}

#[test]
fn endpoints_bad_names_of_wires_and_profiles() {
    let world = public();
    let wire = ["--wire", "respones"];
    refused(
        &world,
        &wire,
        2,
        &[
            "invalid value 'respones'",
            "[possible values: responses, chat, messages, gemini]",
            "'responses'",
        ],
    );
    let profile = ["--profile", "codx"];
    refused(
        &world,
        &profile,
        2,
        &[
            "unknown tool profile `codx` in `profile`",
            "did you mean `codex`?",
            "the profiles are `codex`",
        ],
    );
    let effort = ["--effort", "hig"];
    refused(
        &world,
        &effort,
        2,
        &[
            "`gpt-5.3-codex` has no reasoning effort `hig`",
            "did you mean `high`?",
            "`--effort` can be low, medium, high, xhigh",
        ],
    );
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn endpoints_bad_a_key_of_another_company_is_not_sent() {
    let cases = [
        (
            "gpt-5.3-codex",
            "OPENAI_API_KEY",
            "sk-ant-api03-",
            "holds a key of Anthropic",
            "is asked at OpenAI",
        ),
        ("gpt-5.3-codex", "OPENAI_API_KEY", "AIza", "holds a key of Google", "is asked at OpenAI"),
        (
            "gpt-5.3-codex",
            "PATCHWRIGHT_API_KEY",
            "sk-ant-",
            "`PATCHWRIGHT_API_KEY` holds",
            "api.openai.com",
        ),
        (
            "azure/gpt-5.5",
            "AZURE_OPENAI_API_KEY",
            "sk-proj-",
            "holds a key of OpenAI",
            "is asked at Azure",
        ),
        (
            "bedrock/openai.gpt-5.5",
            "AWS_BEARER_TOKEN_BEDROCK",
            "sk-ant-",
            "holds a key of Anthropic",
            "Amazon Bedrock",
        ),
    ];
    for (model, variable, mark, holds, asked) in cases {
        let world = public()
            .set("AZURE_OPENAI_ENDPOINT", "https://res.openai.azure.com")
            .set("AWS_REGION", "us-east-1")
            .set(variable, key(mark));
        let hint = format!("hint: set `{variable}` to a key of");
        refused(&world, &["--model", model], 50, &[holds, asked, &hint]);
    }
}

#[test]
fn endpoints_bad_a_missing_key_is_named_beside_those_that_are_there() {
    let world = public().set("ANTHROPIC_API_KEY", key("sk-ant-"));
    let words = [
        "no key for `gpt-5.3-codex`",
        "hint: set `OPENAI_API_KEY`",
        "`ANTHROPIC_API_KEY` is set, which is for models of Anthropic (`--model claude-",
    ];
    refused(&world, &[], 50, &words);
}

#[test]
fn endpoints_bad_a_key_that_a_workflow_does_not_get_is_told_as_that() {
    let secret = "`OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}` to the `env` of the step";
    let world = public().set("GITHUB_ACTIONS", "true");
    refused(&world, &[], 50, &["hint: add the key as a secret of the repository, and ", secret]);
    let world = world.set("OPENAI_API_KEY", "");
    let empty = "hint: `OPENAI_API_KEY` is set, but to nothing: there is no secret of the name";
    refused(&world, &[], 50, &[empty, "(pull requests of Dependabot and of forks)"]);
    let world = world.unset("GITHUB_ACTIONS").set("OPENAI_API_KEY", "");
    refused(&world, &[], 50, &["hint: `OPENAI_API_KEY` is set, but to nothing: set it to the key"]);
}

#[test]
fn endpoints_bad_a_refused_key_is_explained_by_its_looks() {
    let turn = || fail(401, "invalid_api_key", "Incorrect API key provided.");
    let world = TestWorld::new(github(), [turn()]).set("OPENAI_API_KEY", key("sk-ant-api03-"));
    let words = [
        "refuses the key",
        "`OPENAI_API_KEY` holds a key of Anthropic",
        "`gpt-5.3-codex` is a model of OpenAI",
    ];
    refused(&world, &[], 50, &words);
    assert_eq!(world.model.requests().len(), 1, "not sent again");
    let world = TestWorld::new(github(), [turn()]);
    refused(&world, &[], 50, &["check that `OPENAI_API_KEY` holds a key for this endpoint"]);
}

#[test]
fn endpoints_bad_a_responses_model_on_the_chat_wire() {
    let world = public().set("OPENAI_API_KEY", key("sk-proj-"));
    refused(
        &world,
        &["--wire", "chat"],
        2,
        &["`gpt-5.3-codex` answers only on the `responses` wire", "leave out `--wire chat`"],
    );
    let world = world.set("OPENAI_BASE_URL", "https://api.openai.com/v1");
    refused(
        &world,
        &["--model", "chat/gpt-5.3-codex"],
        2,
        &["answers only on the `responses` wire at OpenAI", "instead of `chat/gpt-5.3-codex`"],
    );
    let said = "This model is only supported in v1/responses and not in v1/chat/completions.";
    let world = TestWorld::new(github(), [fail(404, "invalid_request_error", said)]);
    refused(
        &world,
        &["--model", "chat/gpt-9-pro"],
        50,
        &[said, "`--wire responses`, or `openai/gpt-9-pro`"],
    );
    assert_eq!(world.model.requests().len(), 1);
    world.model.take_violations();
}

fn schema_error(param: &str, message: &str) -> Turn {
    let error =
        json!({"message": message, "type": "invalid_request_error", "param": param, "code": "x"});
    fail_raw(400, json!({"error": error}).to_string())
}

#[test]
fn endpoints_bad_a_refused_field_is_shown_with_the_setting_behind_it() {
    let cases = [
        (
            "tools[3].parameters",
            "Invalid schema for function 'grep_files'",
            "`patchwright tools --model gpt-5.3-codex` prints them",
        ),
        ("reasoning.effort", "Unsupported value", "leave out `--effort`"),
        ("max_output_tokens", "Too large", "`models.gpt-5.3-codex.max-output`"),
        ("text.verbosity", "Unsupported value", "`models.gpt-5.3-codex.verbosity`"),
        (
            "parallel_tool_calls",
            "Unknown parameter",
            "`models.gpt-5.3-codex.parallel-calls: false`",
        ),
    ];
    for (param, message, setting) in cases {
        let world = TestWorld::new(github(), [schema_error(param, message)]);
        let shown = format!("{message} (`{param}`)");
        refused(&world, &[], 50, &["(400)", &shown, setting]);
        assert_eq!(world.model.requests().len(), 1, "{param}");
    }
}

#[test]
fn endpoints_bad_a_base_url_with_the_wrong_path() {
    type Case = (&'static str, fn() -> Turn, &'static str, &'static str);
    let not_found = || fail_raw(404, r#"{"detail":"Not Found"}"#);
    let cases: [Case; 5] = [
        (
            "/v1/v1",
            || fail_raw(404, "404 page not found"),
            "the base URL has `/v1` twice: write `MODEL",
            "/v1`",
        ),
        ("", not_found, "the base URL has no `/v1`: try `MODEL", "/v1`"),
        ("/v1/responses", not_found, "leave `/responses` out of the base URL", "MODEL`"),
        ("/v1", html, "names the API", "an HTML page"),
        ("/v1", not_found, "check the base URL in `--base-url`", "`--model`"),
    ];
    for (path, turn, mistake, more) in cases {
        let world = TestWorld::new(github(), [turn()]);
        let base = world.model.url().replace("/v1", path);
        let world = world.set("OPENAI_BASE_URL", base);
        refused(&world, &[], 50, &[mistake, more]);
        assert_eq!(world.model.requests().len(), 1, "{path}");
        world.model.take_violations();
    }
}

#[test]
fn endpoints_bad_a_model_that_ollama_does_not_have_is_to_be_pulled() {
    let said = "model 'qwen3-coder' not found";
    let world = TestWorld::new(github(), [fail(404, "not_found_error", said)]);
    let output = world.run(&["issue", "acme/app#7", "--quiet", "--model", "chat/qwen3-coder"]);
    let hint = "hint: if the server is Ollama, `ollama pull qwen3-coder` fetches the model";
    let output = output.expect(50);
    assert!(output.stderr.contains(hint), "{}", output.text());
}

#[test]
fn endpoints_bad_a_misspelt_model_is_asked_with_a_warning_and_the_404_says_so_again() {
    let said = "The model `gpt-5.3-codx` does not exist or you do not have access to it.";
    let world = TestWorld::new(github(), [fail(404, "model_not_found", said)]);
    let output = world.run(&["issue", "acme/app#7", "--model", "gpt-5.3-codx"]).expect(50);
    for word in [
        "note: `gpt-5.3-codx` is not in the catalogue: did you mean `gpt-5.3-codex`?",
        said,
        "hint: did you mean `--model gpt-5.3-codex`?",
    ] {
        assert!(output.stderr.contains(word), "{}", output.text());
    }
    assert_eq!(world.model.requests().len(), 1);
    // Another version of a known model is news, not a slip.
    let catalogue = crate::providers::catalogue();
    let newer = catalogue.resolve("gpt-6.9-sol", None).unwrap();
    assert_eq!(newer.notes("2026-11-20"), Vec::<String>::new());
}

#[test]
fn endpoints_bad_a_model_past_its_end_gets_a_note() {
    let world = TestWorld::new(github(), fix());
    let output = world.run(&["issue", "acme/app#7", "--model", "gpt-5-codex"]).expect(0);
    assert!(output.stderr.contains("note: `gpt-5-codex` ended on 2026-07-23"), "{}", output.text());
    let ends = crate::providers::model();
    assert_eq!(ends.notes("2027-04-01"), Vec::<String>::new());
    assert_eq!(ends.notes("2027-04-02").len(), 1);
}

#[test]
fn endpoints_bad_a_server_that_is_not_there_is_named() {
    let world = TestWorld::new(github(), []).set("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
    refused(
        &world,
        &[],
        50,
        &["cannot connect", "check that a server runs at `http://127.0.0.1:9/v1`"],
    );
}

#[test]
fn endpoints_bad_values_in_the_models_of_the_configuration() {
    let cases = [
        ("x: {contxt: 5}", "unknown key `contxt`"),
        ("x: {context: many}", "line 2"),
        ("x: {wire: respones}", "unknown value `respones`"),
        ("gpt-5.5: {context: 0}", "`models.gpt-5.5.context` must be more than 0 tokens"),
        (
            "gpt-5.5: {context: 1000, max-output: 2000}",
            "`models.gpt-5.5.max-output` is larger than `context`",
        ),
        ("gpt-5.5: {price: [1, 2]}", "`models.gpt-5.5.price` must be [input, output, cache read]"),
        ("gpt-5.5: {price: [1, -2, 0]}", "a number of `models.gpt-5.5.price` is negative"),
        ("gpt-5.5: {family: gtp}", "`models.gpt-5.5.family` names an unknown family `gtp`"),
        ("gpt-5.5: {provider: opnai}", "did you mean `openai`?"),
        ("gpt-5.5: {profile: codx}", "unknown tool profile `codx` in `models.gpt-5.5.profile`"),
        ("gpt-5.5: {ends: soon}", "`models.gpt-5.5.ends` must be a day"),
        ("gpt-5.5: {slug: y}", "`models.gpt-5.5.slug` is the name of the entry"),
        (
            "gpt-5.5: {efforts: [low], default-effort: high}",
            "`models.gpt-5.5.default-effort` is not one of",
        ),
        ("a: {like: gpt-55}", "`models.a.like` names an unknown model `gpt-55`"),
    ];
    let world = public().set("PATCHWRIGHT_CONFIG", "config.yml");
    for (entry, expected) in cases {
        fs_err::write(world.path("config.yml"), format!("models:\n  {entry}\n")).unwrap();
        refused(&world, &[], 2, &[expected]);
        let tools = world.run(&["tools", "--model", "gpt-5.5"]).expect(2);
        assert!(tools.stderr.contains(expected), "{}", tools.text());
    }
}

#[test]
fn endpoints_bad_models_of_the_repository_are_refused() {
    let mut files = crate::support::world::FILES.to_vec();
    let text = "models:\n  gpt-5.3-codex: {price: [0, 0, 0]}\nwire: chat\nverify: [sh test.sh]\n";
    files.push((".github/patchwright.yml", text));
    let world = TestWorld::new(crate::support::world::github_with(&files), fix());
    world.issue().expect(0);
    let body = world.github.pulls()[0].body.clone();
    for key in ["models", "wire"] {
        assert!(body.contains(&format!("`{key}` in ")), "{body}");
    }
    assert!(world.model.requests().iter().all(|request| request.path == "/v1/responses"));
}

/// A deployment with a name of its own, end to end: its address, its key, and the price of the model
/// behind it.
#[test]
fn endpoints_bad_is_none_of_a_deployment_on_azure() {
    let world = TestWorld::new(github(), fix()).unset("OPENAI_API_KEY");
    let resource = world.model.url().replace("/v1", "");
    let world = world
        .unset("OPENAI_BASE_URL")
        .set("AZURE_OPENAI_ENDPOINT", resource)
        .set("AZURE_OPENAI_API_KEY", key("azure"))
        .set("PATCHWRIGHT_CONFIG", "config.yml");
    let config = "model: azure/team-coder\nmodels:\n  azure/team-coder: {like: gpt-5.3-codex}\n";
    fs_err::write(world.path("config.yml"), config).unwrap();
    let output = world.issue().expect(0);
    assert!(!output.text().contains("note:"), "{}", output.text());
    let requests = world.model.requests();
    assert_eq!(requests.len(), 5);
    for request in &requests {
        assert_eq!(request.path, "/openai/v1/responses");
        assert_eq!(request.headers["api-key"], key("azure"));
        assert!(!request.headers.contains_key("authorization"));
        assert_eq!(request.body["model"], "team-coder");
    }
    let others = |line: &String| !line.contains("/openai/v1/responses") && !line.contains("earer");
    let broken: Vec<String> = world.model.take_violations().into_iter().filter(others).collect();
    assert_eq!(broken, Vec::<String>::new());
    assert_eq!(world.holds(SECRET), Vec::<std::path::PathBuf>::new());
    assert!(!world.result("result.json").contains("estimate\":true"));
}
