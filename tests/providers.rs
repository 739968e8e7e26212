//! Models over HTTP: every row of `docs/reliability.md`, and whole conversations.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

use patchwright_base::error::Failure;
use patchwright_provider::catalogue::{Catalogue, Model};
use patchwright_provider::http::{Deadlines, HttpProvider, client};
use patchwright_provider::item::{CallOutput, Content, Item, Message, OutputForm, Role, Usage};
use patchwright_provider::retry::Policy;
use patchwright_provider::{
    Progress, Provider, ProviderError, Reply, Request, ToolChoice, ToolDeclaration, ToolForm,
};
use secrecy::SecretString;
use serde_json::json;

use crate::support::model::{
    ModelServer, Turn, call, custom, cut, error_event, fail, fail_raw, failed, html, incomplete,
    no_final, raw_stream, say, stall,
};

pub(crate) const KEY: &str = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789";

pub(crate) fn catalogue() -> Catalogue {
    Catalogue::load(&BTreeMap::new()).unwrap()
}

pub(crate) fn model() -> Model {
    catalogue().resolve("gpt-5.3-codex", None).unwrap()
}

pub(crate) fn provider(url: &str) -> HttpProvider {
    HttpProvider::new(url, Some(SecretString::from(KEY)), client().unwrap())
        .unwrap()
        .with_policy(Policy { scale: 0.001, ..Policy::default() })
        .with_deadlines(Deadlines { idle: Duration::from_secs(20), turn: Duration::from_secs(40) })
}

/// One that does not wait long for a server that has fallen silent.
fn impatient(url: &str) -> HttpProvider {
    provider(url).with_deadlines(Deadlines {
        idle: Duration::from_millis(300),
        turn: Duration::from_secs(40),
    })
}

pub(crate) fn user(text: &str) -> Item {
    Item::Message(Message { role: Role::User, content: vec![Content::text(text)], native: None })
}

pub(crate) async fn ask(
    provider: &dyn Provider,
    history: &[Item],
    waits: &Mutex<Vec<Duration>>,
) -> Result<Reply, ProviderError> {
    let model = model();
    let request = Request {
        model: &model,
        instructions: "You fix issues.",
        tools: &tools(),
        history,
        effort: Some("medium"),
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "run-1",
        previous: None,
    };
    let progress = |progress: Progress<'_>| {
        if let Progress::Retrying { wait, .. } = progress {
            waits.lock().push(wait);
        }
    };
    provider.reply(&request, &progress).await
}

fn tools() -> Vec<ToolDeclaration> {
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"], "additionalProperties": false});
    vec![
        ToolDeclaration {
            name: "shell_command".to_owned(),
            description: "Runs a command".to_owned(),
            form: ToolForm::Function { schema, strict: true },
        },
        ToolDeclaration {
            name: "apply_patch".to_owned(),
            description: "Edits files".to_owned(),
            form: ToolForm::Freeform {
                syntax: "lark".to_owned(),
                definition: "start: X".to_owned(),
            },
        },
    ]
}

/// How a turn ended, in a word.
pub(crate) fn word(outcome: &Result<Reply, ProviderError>) -> String {
    match outcome {
        Ok(reply) => format!("{:?}", reply.stop),
        Err(ProviderError::RateLimited { .. }) => "RateLimited".to_owned(),
        Err(ProviderError::Quota { .. }) => "Quota".to_owned(),
        Err(ProviderError::Authentication { .. }) => "Authentication".to_owned(),
        Err(ProviderError::SignIn { .. }) => "SignIn".to_owned(),
        Err(ProviderError::ContextOverflow { .. }) => "ContextOverflow".to_owned(),
        Err(ProviderError::Filtered { .. }) => "Filtered".to_owned(),
        Err(ProviderError::PicturesRefused { .. }) => "PicturesRefused".to_owned(),
        Err(ProviderError::Unavailable { .. }) => "Unavailable".to_owned(),
        Err(ProviderError::Rejected { status, .. }) => format!("Rejected {status}"),
        Err(ProviderError::Malformed { .. }) => "Malformed".to_owned(),
        Err(ProviderError::ScriptExhausted { .. }) => "ScriptExhausted".to_owned(),
    }
}

pub(crate) fn times(turn: &Turn, count: usize) -> Vec<Turn> {
    vec![turn.clone(); count]
}

fn then_ok(mut turns: Vec<Turn>) -> Vec<Turn> {
    turns.push(say("Done."));
    turns
}

/// One turn against a script: how it ends, how many requests it takes, how long it waits.
struct Row {
    script: Vec<Turn>,
    ends: &'static str,
    requests: usize,
    /// The least that the waits must be, in order.
    waits: &'static [f64],
}

#[tokio::main(flavor = "current_thread")]
async fn check(row: Row) {
    check_with(row, provider).await;
}

#[tokio::main(flavor = "current_thread")]
async fn check_silent(row: Row) {
    check_with(row, impatient).await;
}

async fn check_with(row: Row, provider: fn(&str) -> HttpProvider) {
    let asked = row.script.len();
    let server = ModelServer::start(row.script);
    let waits = Mutex::new(Vec::new());
    let outcome = ask(&provider(&server.url()), &[user("Fix it")], &waits).await;
    let waits = waits.into_inner();
    assert_eq!(word(&outcome), row.ends, "{outcome:?}");
    assert_eq!(server.requests().len(), row.requests, "{outcome:?}");
    assert_eq!(server.unused(), asked - row.requests);
    assert_eq!(waits.len(), row.requests - 1, "each retry is announced");
    for (wait, least) in waits.iter().zip(row.waits) {
        // At least as long as asked, and not much longer.
        let seconds = wait.as_secs_f64();
        assert!((*least..=least * 1.1 + 0.001).contains(&seconds), "{waits:?}");
    }
    if let Ok(reply) = &outcome {
        let text = format!("{:?}", reply.items);
        assert!(!text.contains("half"), "part of a broken answer was kept: {text}");
    }
    if let Err(err) = outcome {
        let shown = format!("{err} {err:?}");
        let shown = format!("{shown} {}", Failure::from(err));
        assert!(!shown.contains(KEY), "{shown}");
        assert!(shown.contains("hint: "), "{shown}");
    }
    // One request of a turn is as the other.
    for pair in server.requests().windows(2) {
        assert_eq!(pair[0].raw, pair[1].raw);
    }
}

fn limited(header: &str, value: &str) -> Turn {
    fail(429, "rate_limit_exceeded", "Rate limit reached").header(header, value)
}

#[test]
fn providers_waits_as_long_as_retry_after_says() {
    let script = then_ok(times(&limited("retry-after", "2"), 2));
    check(Row { script, ends: "EndTurn", requests: 3, waits: &[2.0, 2.0] });
    let script = then_ok(times(&limited("retry-after", "20"), 1));
    check(Row { script, ends: "EndTurn", requests: 2, waits: &[20.0] });
    let overloaded = fail(503, "server_error", "busy").header("retry-after", "3");
    check(Row { script: then_ok(vec![overloaded]), ends: "EndTurn", requests: 2, waits: &[3.0] });
}

#[test]
fn providers_reads_retry_after_dates_by_the_servers_clock() {
    let turn = limited("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")
        .header("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    check(Row { script: then_ok(vec![turn]), ends: "EndTurn", requests: 2, waits: &[30.0] });
}

#[test]
fn providers_reads_the_old_forms_of_http_dates_and_numbers_that_are_too_large() {
    for text in ["Sunday, 06-Nov-94 08:50:07 GMT", "Sun Nov  6 08:50:07 1994"] {
        let turn = limited("retry-after", text).header("date", "Sunday, 06-Nov-94 08:49:37 GMT");
        check(Row { script: then_ok(vec![turn]), ends: "EndTurn", requests: 2, waits: &[30.0] });
    }
    for text in ["inf", "99999999999999999999", "9999999999", "1e400"] {
        let script = times(&limited("retry-after", text), 2);
        check(Row { script, ends: "RateLimited", requests: 1, waits: &[] });
    }
    let script = times(&limited("retry-after-ms", "99999999999999999999999"), 2);
    check(Row { script, ends: "RateLimited", requests: 1, waits: &[] });
}

#[test]
fn providers_prefers_milliseconds_and_texts_that_name_a_wait() {
    let exact = limited("retry-after-ms", "1500").header("retry-after", "9");
    check(Row { script: then_ok(vec![exact]), ends: "EndTurn", requests: 2, waits: &[1.5] });
    let texts = [
        ("Please try again in 1.898s.", 1.898),
        ("try again in 44ms", 0.044),
        ("Please try again in 1m30s", 90.0),
        ("Rate limit of 10 per 60s exceeded. Please wait 7 seconds before retrying.", 7.0),
    ];
    for (text, seconds) in texts {
        let turn = fail(429, "rate_limit_exceeded", text);
        let waits: &'static [f64] = Box::leak(Box::new([seconds]));
        check(Row { script: then_ok(vec![turn]), ends: "EndTurn", requests: 2, waits });
    }
}

#[test]
fn providers_gives_up_an_endless_rate_limit_after_eight_requests() {
    let script = times(&limited("retry-after", "1"), 9);
    check(Row { script, ends: "RateLimited", requests: 8, waits: &[1.0, 1.0, 1.0] });
}

#[test]
fn providers_does_not_sit_out_a_wait_beyond_ten_minutes() {
    let script = times(&limited("retry-after", "3600"), 2);
    check(Row { script, ends: "RateLimited", requests: 1, waits: &[] });
    let text = "Rate limit of 150 per 86400s exceeded. Please wait 43200 seconds before retrying.";
    let script = times(&fail(429, "RateLimitReached", text), 2);
    check(Row { script, ends: "RateLimited", requests: 1, waits: &[] });
    let script = times(&limited("retry-after", "250"), 4);
    check(Row { script, ends: "RateLimited", requests: 3, waits: &[250.0, 250.0] });
}

#[test]
fn providers_retries_server_errors_with_growing_waits() {
    for status in [500, 502, 503, 504, 408, 409, 425, 529] {
        let script = then_ok(times(&fail(status, "server_error", "trouble"), 2));
        check(Row { script, ends: "EndTurn", requests: 3, waits: &[] });
    }
    let script = times(&fail(500, "server_error", "trouble"), 9);
    check(Row { script, ends: "Unavailable", requests: 8, waits: &[] });
}

#[tokio::test]
async fn providers_backs_off_exponentially_with_jitter() {
    let server = ModelServer::start(times(&fail(500, "server_error", "trouble"), 8));
    let waits = Mutex::new(Vec::new());
    ask(&provider(&server.url()), &[user("Fix it")], &waits).await.unwrap_err();
    let waits = waits.into_inner();
    for (wait, base) in waits.iter().zip([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]) {
        assert!((base..=2.0 * base).contains(&wait.as_secs_f64()), "{waits:?}");
    }
}

#[test]
fn providers_asks_once_when_no_retry_can_help() {
    let rows = [
        (fail(400, "invalid_request_error", "Unknown parameter"), "Rejected 400"),
        (
            fail(401, "invalid_api_key", &format!("Incorrect API key provided: {KEY}")),
            "Authentication",
        ),
        (fail(403, "permission_error", "Not for you"), "Authentication"),
        (fail(404, "model_not_found", "no such model"), "Rejected 404"),
        (fail(413, "request_too_large", "too large"), "ContextOverflow"),
        (fail(422, "invalid_request_error", "no"), "Rejected 422"),
        (fail(501, "server_error", "Not implemented"), "Rejected 501"),
        (fail(505, "server_error", "HTTP Version Not Supported"), "Rejected 505"),
        (fail(402, "billing_error", "pay"), "Quota"),
        (fail(429, "insufficient_quota", "You exceeded your current quota"), "Quota"),
        (fail(429, "billing_hard_limit_reached", "limit"), "Quota"),
        (fail(400, "context_length_exceeded", "too long"), "ContextOverflow"),
        (
            fail(
                400,
                "invalid_request_error",
                "This model's maximum context length is 8192 tokens",
            ),
            "ContextOverflow",
        ),
        (fail(400, "content_filter", "blocked"), "Filtered"),
        (limited("x-should-retry", "false"), "RateLimited"),
        (fail(500, "server_error", "no").header("x-should-retry", "false"), "Unavailable"),
        (fail(400, "invalid_request_error", "no").header("x-should-retry", "true"), "Rejected 400"),
        (html(), "Malformed"),
        (fail_raw(200, r#"{"object":"list","data":[]}"#), "Malformed"),
    ];
    for (turn, ends) in rows {
        check(Row { script: vec![turn, say("never asked")], ends, requests: 1, waits: &[] });
    }
}

#[test]
fn providers_sends_again_when_a_stream_breaks() {
    let rows: [(Turn, fn(Row)); 5] = [
        (cut(), check),
        (no_final(), check),
        (stall(), check_silent),
        (raw_stream([""; 0]), check),
        (fail_raw(200, ""), check),
    ];
    for (turn, check) in rows {
        let script = then_ok(vec![turn.clone()]);
        check(Row { script, ends: "EndTurn", requests: 2, waits: &[] });
        check(Row { script: times(&turn, 6), ends: "Unavailable", requests: 5, waits: &[] });
    }
}

#[test]
fn providers_treats_errors_inside_a_stream_as_what_they_are() {
    let limit = "Rate limit reached. Please try again in 1.5s";
    let nested =
        |code: &str| error_event(json!({"error": {"type": "x", "code": code, "message": limit}}));
    let rows = [
        (failed("rate_limit_exceeded", limit), "EndTurn", 2),
        (nested("rate_limit_exceeded"), "EndTurn", 2),
        (error_event(json!({"code": "rate_limit_exceeded", "message": limit})), "EndTurn", 2),
        (failed("server_error", "trouble"), "EndTurn", 2),
        (failed("insufficient_quota", "pay"), "Quota", 1),
        (failed("context_length_exceeded", "too long"), "ContextOverflow", 1),
        (nested("context_length_exceeded"), "ContextOverflow", 1),
        (failed("cyber_policy", "no"), "Filtered", 1),
        (failed("invalid_prompt", "no"), "Rejected 400", 1),
        (
            fail_raw(200, r#"{"error":{"code":"rate_limit_exceeded","message":"slow down"}}"#),
            "EndTurn",
            2,
        ),
        (incomplete("max_output_tokens"), "MaxOutput", 1),
        (incomplete("content_filter"), "ContentFilter", 1),
    ];
    for (turn, ends, requests) in rows {
        let stays = !matches!(ends, "EndTurn");
        // An incomplete reply may keep its words, never its calls.
        if stays && requests == 1 && matches!(ends, "MaxOutput" | "ContentFilter") {
            check_incomplete(turn, ends);
        } else {
            check(Row { script: then_ok(vec![turn]), ends, requests, waits: &[] });
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn check_incomplete(turn: Turn, ends: &str) {
    let server = ModelServer::start([turn]);
    let outcome = ask(&provider(&server.url()), &[user("x")], &Mutex::default()).await;
    assert_eq!(word(&outcome), ends);
    let calls = outcome.unwrap().items.into_iter().filter(|item| matches!(item, Item::Call(_)));
    assert_eq!(calls.count(), 0);
}

#[tokio::test]
async fn providers_runs_a_conversation_that_the_api_accepts() {
    let both = say("Looking.")
        .and(call("shell_command", json!({"command": "ls"})))
        .and(custom("apply_patch", "*** Begin Patch\n*** End Patch"));
    let server = ModelServer::start([both, cut(), call("no/such tool", json!({})), say("Done.")]);
    let provider = provider(&server.url());
    let mut history = vec![user("Fix it")];
    let mut usage = Usage::default();
    for _ in 0..3 {
        let reply = ask(&provider, &history, &Mutex::default()).await.unwrap();
        usage += reply.usage;
        history.extend(reply.items.iter().cloned());
        for item in &reply.items {
            if let Item::Call(call) = item {
                history.push(Item::Output(CallOutput {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    content: vec![Content::text("ok")],
                    success: true,
                    ran: false,
                    goes_on: false,
                    form: call.output_form(),
                }));
            }
        }
    }
    let forms: Vec<OutputForm> = history
        .iter()
        .filter_map(|item| match item {
            Item::Output(output) => Some(output.form),
            _ => None,
        })
        .collect();
    assert_eq!(forms, [OutputForm::Function, OutputForm::Custom, OutputForm::Function]);
    assert_eq!(server.requests().len(), 4);
    // The broken attempt was paid for, and is no part of a reply's length.
    assert_eq!((usage.input, usage.estimated), (3000, false));
    let request = &server.requests()[0];
    assert_eq!(request.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(request.headers["user-agent"], concat!("patchwright/", env!("CARGO_PKG_VERSION")));
    // The API would refuse to take this name back, so it differs: nothing else may.
    let violations = server.take_violations();
    assert!(violations.iter().all(|it| it.contains(".name is not what")), "{violations:?}");
}

#[tokio::test]
async fn providers_takes_answers_without_a_stream_and_counts_missing_usage() {
    let whole = json!({"id": "r", "object": "response", "status": "completed", "model": "m", "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}]});
    let server = ModelServer::start([fail_raw(200, whole.to_string()), say("Hello").usage(None)]);
    let provider = provider(&server.url());
    for _ in 0..2 {
        let reply = ask(&provider, &[user("Fix it")], &Mutex::default()).await.unwrap();
        assert!(reply.usage.estimated && reply.usage.input > 100 && reply.usage.output > 0);
        let text = format!("{:?}", reply.items.last());
        assert!(text.contains("Hello"), "{text}");
    }
}

#[tokio::test]
async fn providers_speaks_chat_to_compatible_servers() {
    let chunk = r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}"#;
    let server = ModelServer::start([
        fail(503, "overloaded", "Loading model").header("retry-after", "1"),
        raw_stream([format!("data: {chunk}\n\ndata: [DONE]\n\n")]),
    ]);
    let model = catalogue().resolve("chat/some-model", None).unwrap();
    let history = [user("Hi")];
    let request = Request {
        model: &model,
        instructions: "Be brief.",
        tools: &[],
        history: &history,
        effort: None,
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "run-1",
        previous: None,
    };
    let reply = provider(&server.url()).reply(&request, &|_| {}).await.unwrap();
    assert!(format!("{:?}", reply.items).contains("Hello") && reply.usage.estimated);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].path, "/v1/chat/completions");
}

#[tokio::test]
async fn providers_share_one_rate_limit() {
    let server = ModelServer::start([limited("retry-after", "500"), say("one"), say("two")]);
    let policy = Policy { scale: 0.004, ..Policy::default() };
    let provider = provider(&server.url()).with_policy(policy);
    let history = [user("Fix it")];
    let first_waits = Mutex::new(Vec::new());
    let first = ask(&provider, &history, &first_waits);
    let second_waits = Mutex::new(Vec::new());
    let second = async {
        while first_waits.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The first waits two seconds; this one holds back as long, without having been told.
        let asking = ask(&provider, &history, &second_waits);
        let (outcome, asked) = tokio::join!(asking, async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            server.requests().len()
        });
        assert_eq!(asked, 1);
        outcome
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((word(&first), word(&second)), ("EndTurn".to_owned(), "EndTurn".to_owned()));
    assert_eq!(server.requests().len(), 3);
    assert!(second_waits.into_inner().is_empty());
}
