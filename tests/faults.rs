//! What providers do wrong, each fault in the shape of each of the four protocols: how often and when
//! it is tried again, how it ends, that the work so far is kept, and that nothing half-received is run.
//! `docs/reliability.md` is the table.

use parking_lot::Mutex;
use std::time::Duration;

use patchwright_base::error::Failure;
use patchwright_provider::http::{Deadlines, HttpProvider, client};
use patchwright_provider::item::{Usage, Wire};
use patchwright_provider::retry::Policy;
use patchwright_provider::wire::fault::{Fault, FaultKind};
use patchwright_provider::{
    Progress, Provider, ProviderError, Reply, Request, ToolChoice, ToolDeclaration, ToolForm,
};
use secrecy::SecretString;
use serde_json::json;

use crate::exec::project;
use crate::providers::{catalogue, times, user, word};
use crate::support::model::{
    ModelServer, Turn, call, cut, error_event, fail, fail_raw, failed, incomplete, limited,
    no_final, nothing, overflow, overloaded, quota, say, stall, unauthorized,
};
use crate::support::world::{KEY, Output, TestWorld};

/// A model of each protocol, as users name it, and its shell.
struct Voice {
    wire: Wire,
    model: &'static str,
    shell: &'static str,
}

const RESPONSES: Voice =
    Voice { wire: Wire::Responses, model: "gpt-5.3-codex", shell: "shell_command" };
const CHAT: Voice =
    Voice { wire: Wire::Chat, model: "chat/some-model", shell: "run_shell_command" };
const MESSAGES: Voice = Voice { wire: Wire::Messages, model: "claude-sonnet-5", shell: "bash" };
const GEMINI: Voice =
    Voice { wire: Wire::Gemini, model: "gemini-3.5-flash", shell: "run_shell_command" };
const VOICES: [&Voice; 4] = [&RESPONSES, &CHAT, &MESSAGES, &GEMINI];

/// A script as each protocol needs it.
type Script = fn(Wire) -> Vec<Turn>;

/// One turn against a script on each protocol: how it ends, and how many requests it takes.
struct Row {
    script: Script,
    ends: &'static str,
    requests: usize,
    /// What the waits must be at least, in order, and are at most a tenth above.
    waits: &'static [f64],
}

/// What came of one turn.
struct Seen {
    outcome: Result<Reply, ProviderError>,
    waits: Vec<f64>,
    lost: Vec<Usage>,
}

fn provider(voice: &Voice, server: &ModelServer) -> HttpProvider {
    provider_within(voice, server, Duration::from_secs(20))
}

/// `idle` is how long a silent server is waited for.
fn provider_within(voice: &Voice, server: &ModelServer, idle: Duration) -> HttpProvider {
    let base = match voice.wire {
        Wire::Responses | Wire::Chat => server.url(),
        Wire::Messages | Wire::Gemini => server.root(),
    };
    HttpProvider::new(&base, Some(SecretString::from(KEY)), client().unwrap())
        .unwrap()
        .with_policy(Policy { scale: 0.0005, ..Policy::default() })
        .with_deadlines(Deadlines { idle, turn: Duration::from_secs(40) })
}

async fn reply(voice: &Voice, provider: &HttpProvider) -> Seen {
    let model = catalogue().resolve(voice.model, None).unwrap();
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"], "additionalProperties": false});
    let tools = [ToolDeclaration {
        name: "shell_command".to_owned(),
        description: "Runs a command".to_owned(),
        form: ToolForm::Function { schema, strict: false },
    }];
    let history = [user("Fix it")];
    let request = Request {
        model: &model,
        instructions: "You fix issues.",
        tools: &tools,
        history: &history,
        effort: None,
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "run-1",
        previous: None,
    };
    let (waits, lost) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let progress = |progress: Progress<'_>| match progress {
        Progress::Retrying { attempt, wait, .. } => {
            let mut waits = waits.lock();
            waits.push(wait.as_secs_f64());
            assert_eq!(attempt as usize, waits.len() + 1);
        }
        Progress::Lost { usage } => lost.lock().push(usage),
        Progress::Text(_) | Progress::Reasoning(_) => {}
    };
    let outcome = provider.reply(&request, &progress).await;
    Seen { outcome, waits: waits.into_inner(), lost: lost.into_inner() }
}

/// Runs a row on each protocol; what was seen on each.
#[tokio::main(flavor = "current_thread")]
async fn check(row: &Row) -> Vec<Seen> {
    let mut all = Vec::new();
    for voice in VOICES {
        let script = (row.script)(voice.wire);
        let asked = script.len();
        let server = ModelServer::start(script);
        let seen = reply(voice, &provider(voice, &server)).await;
        let (wire, outcome) = (voice.wire, &seen.outcome);
        assert_eq!(word(outcome), row.ends, "{wire:?}: {outcome:?}");
        let requests = server.requests();
        assert_eq!(requests.len(), row.requests, "{wire:?}: {outcome:?}");
        assert_eq!(server.unused(), asked - row.requests, "{wire:?}");
        assert_eq!(seen.waits.len(), row.requests - 1, "{wire:?}: each retry is told");
        for (wait, least) in seen.waits.iter().zip(row.waits) {
            assert!((*least..=least * 1.1 + 0.001).contains(wait), "{wire:?}: {:?}", seen.waits);
        }
        // However it goes, a turn has an end.
        assert!(seen.waits.iter().sum::<f64>() < 600.0, "{wire:?}: {:?}", seen.waits);
        for pair in requests.windows(2) {
            assert_eq!(pair[0].raw, pair[1].raw, "{wire:?}: a retry sends the same");
        }
        match outcome {
            Ok(reply) => {
                let text = format!("{:?}", reply.items);
                assert!(text.contains("Done.") && !text.contains("half"), "{wire:?}: {text}");
            }
            Err(err) => assert!(!err.to_string().contains(KEY), "{wire:?}: {err}"),
        }
        all.push(seen);
    }
    all
}

fn done(mut turns: Vec<Turn>) -> Vec<Turn> {
    turns.push(say("Done."));
    turns
}

/// What a person is told at the end.
fn told(err: ProviderError) -> String {
    let failure = Failure::from(err);
    format!("{failure} {:?}", failure.hints)
}

#[test]
fn faults_waits_are_the_providers_own() {
    for row in [
        Row {
            script: |_| done(times(&limited(2), 2)),
            ends: "EndTurn",
            requests: 3,
            waits: &[2.0, 2.0],
        },
        Row { script: |_| done(vec![limited(20)]), ends: "EndTurn", requests: 2, waits: &[20.0] },
        Row {
            script: |_| done(vec![overloaded().header("retry-after", "3")]),
            ends: "EndTurn",
            requests: 2,
            waits: &[3.0],
        },
        Row { script: |_| done(vec![overloaded()]), ends: "EndTurn", requests: 2, waits: &[] },
    ] {
        check(&row);
    }
}

/// OpenAI's limits may only say when they are filled again.
#[test]
fn faults_limits_that_are_used_up_say_for_how_long() {
    let script = |_| {
        let used_up = fail(429, "rate_limit_exceeded", "Too many requests")
            .header("x-ratelimit-remaining-requests", "12")
            .header("x-ratelimit-reset-requests", "59s")
            .header("x-ratelimit-remaining-tokens", "0")
            .header("x-ratelimit-reset-tokens", "1m30s");
        done(vec![used_up])
    };
    check(&Row { script, ends: "EndTurn", requests: 2, waits: &[90.0] });
}

#[test]
fn faults_an_endless_rate_limit_is_waited_for_longer_and_longer() {
    let script = |_| times(&limited(1), 9);
    let row = Row { script, ends: "RateLimited", requests: 8, waits: &[1.0, 1.0, 1.0] };
    for seen in check(&row) {
        for (wait, least) in seen.waits[3..].iter().zip([4.0, 8.0, 16.0, 32.0]) {
            assert!((least..=2.0 * least).contains(wait), "{:?}", seen.waits);
        }
        assert_eq!(seen.lost, [], "nothing was answered, so nothing is billed");
    }
}

#[test]
fn faults_a_wait_of_hours_is_told_and_not_sat_out() {
    let row = Row { script: |_| vec![limited(7200)], ends: "RateLimited", requests: 1, waits: &[] };
    for seen in check(&row) {
        let told = told(seen.outcome.unwrap_err());
        assert!(
            told.contains("the provider asks for a wait of 2 h, longer than a run waits"),
            "{told}"
        );
        assert!(told.contains("run it again in 2 h; the run continues where it stopped"), "{told}");
    }
    let script = |_| vec![overloaded().header("retry-after", "5400")];
    for seen in check(&Row { script, ends: "Unavailable", requests: 1, waits: &[] }) {
        let told = told(seen.outcome.unwrap_err());
        assert!(told.contains("run it again in 90 min"), "{told}");
    }
}

#[test]
fn faults_server_errors_are_tried_again_with_growing_waits() {
    check(&Row {
        script: |_| done(times(&fail(500, "server_error", "trouble"), 2)),
        ends: "EndTurn",
        requests: 3,
        waits: &[],
    });
    check(&Row {
        script: |_| done([408, 409, 502, 504, 529].map(|it| fail(it, "x", "trouble")).to_vec()),
        ends: "EndTurn",
        requests: 6,
        waits: &[],
    });
    let script = |_| times(&fail(500, "server_error", "trouble"), 9);
    for seen in check(&Row { script, ends: "Unavailable", requests: 8, waits: &[] }) {
        for (wait, base) in seen.waits.iter().zip([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]) {
            assert!((base..=2.0 * base).contains(wait), "{:?}", seen.waits);
        }
    }
}

#[test]
fn faults_that_no_retry_can_mend_are_asked_once() {
    let rows: [(Script, &str); 6] = [
        (|_| vec![fail(400, "invalid_request_error", "Unknown parameter")], "Rejected 400"),
        (|_| vec![unauthorized()], "Authentication"),
        (|_| vec![fail(403, "permission_error", "Not for you")], "Authentication"),
        (|_| vec![quota()], "Quota"),
        (|_| vec![fail(501, "server_error", "Not implemented")], "Rejected 501"),
        (|_| vec![overloaded().header("x-should-retry", "false")], "Unavailable"),
    ];
    for (script, ends) in rows {
        for seen in check(&Row { script, ends, requests: 1, waits: &[] }) {
            let told = told(seen.outcome.unwrap_err());
            assert!(told.len() > 40 && !told.contains("[]"), "a next step: {told}");
        }
    }
}

#[test]
fn faults_broken_answers_are_asked_for_again_and_counted() {
    let (long, short) = (Duration::from_secs(20), Duration::from_millis(300));
    for (turn, idle) in [(cut(), long), (no_final(), long), (stall(), short)] {
        for voice in VOICES {
            broken(voice, &turn, idle);
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn broken(voice: &Voice, turn: &Turn, idle: Duration) {
    let wire = voice.wire;
    let server = ModelServer::start(done(vec![turn.clone()]));
    let once = reply(voice, &provider_within(voice, &server, idle)).await;
    let usage = once.outcome.unwrap().usage;
    // The broken one is told by itself: the reply has the length of the conversation.
    assert_eq!((usage.input, usage.output, usage.estimated), (1000, 50, false), "{wire:?}");
    assert_eq!((server.requests().len(), once.lost.len()), (2, 1), "{wire:?}");
    let (lost, sent) = (once.lost[0], server.requests()[0].raw.len() as u64 / 3);
    assert!(lost.input >= sent && lost.output > 0 && lost.estimated, "{wire:?}: {lost:?}");
    let server = ModelServer::start(times(turn, 6));
    let ever = reply(voice, &provider_within(voice, &server, idle)).await;
    assert_eq!(word(&ever.outcome), "Unavailable", "{wire:?}");
    assert_eq!((server.requests().len(), ever.waits.len()), (5, 4), "{wire:?}");
    assert_eq!(ever.lost, vec![lost; 5], "{wire:?}: each by itself, at its own price");
    assert!(told(ever.outcome.unwrap_err()).contains("continues where it stopped"));
}

/// A rate limit after the answer began, as each protocol says it.
fn limit_in_stream(wire: Wire) -> Turn {
    let message = "Rate limit reached. Please try again in 1.5s.";
    match wire {
        Wire::Responses => failed("rate_limit_exceeded", message),
        Wire::Chat => error_event(json!({"error": {"code": 429, "message": message}})),
        Wire::Messages => {
            error_event(json!({"error": {"type": "rate_limit_error", "message": message}}))
        }
        Wire::Gemini => error_event(json!({"error": {
            "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Resource exhausted",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}],
        }})),
    }
}

/// Trouble of the server after the answer began.
fn overload_in_stream(wire: Wire) -> Turn {
    match wire {
        Wire::Responses => failed("server_is_overloaded", "Busy"),
        Wire::Chat => error_event(json!({"error": {"code": 502, "message": "Provider error"}})),
        Wire::Messages => failed("overloaded_error", "Overloaded"),
        Wire::Gemini => failed("UNAVAILABLE", "The model is overloaded."),
    }
}

/// Too long, found out after the answer began.
fn overflow_in_stream(wire: Wire) -> Turn {
    match wire {
        Wire::Responses => failed("context_length_exceeded", "Your input is too long."),
        Wire::Chat => error_event(json!({"error": {
            "code": "context_length_exceeded", "message": "Too long.",
        }})),
        Wire::Messages => incomplete("model_context_window_exceeded"),
        Wire::Gemini => error_event(json!({"error": {
            "code": 400, "status": "INVALID_ARGUMENT",
            "message": "The input token count (2000) exceeds the maximum number of tokens allowed (1000).",
        }})),
    }
}

#[test]
fn faults_inside_a_stream_are_what_they_say() {
    check(&Row {
        script: |wire| done(vec![limit_in_stream(wire)]),
        ends: "EndTurn",
        requests: 2,
        waits: &[1.5],
    });
    check(&Row {
        script: |wire| done(vec![overload_in_stream(wire)]),
        ends: "EndTurn",
        requests: 2,
        waits: &[],
    });
    let script = |wire| times(&overload_in_stream(wire), 9);
    for seen in check(&Row { script, ends: "Unavailable", requests: 8, waits: &[] }) {
        assert!(
            seen.lost.iter().all(|lost| lost.input > 0) && !seen.lost.is_empty(),
            "an answer had begun each time"
        );
    }
    for script in [(|_| vec![overflow()]) as Script, |wire| vec![overflow_in_stream(wire)]] {
        check(&Row { script, ends: "ContextOverflow", requests: 1, waits: &[] });
    }
}

/// Two silences of five minutes fill the ten minutes in which a turn may be begun again.
#[test]
fn faults_a_turn_is_begun_again_for_ten_minutes_at_most() {
    let silence = Fault::new(FaultKind::Cut, "the answer stalled");
    let mut retries = Policy::default().begin();
    assert!(retries.next_wait(&silence, Duration::from_mins(5)).is_some());
    assert_eq!(retries.next_wait(&silence, Duration::from_mins(5)), None);
    assert_eq!(retries.attempts(), 2);
}

/// The rate limit of another run holds a run back, but not beyond the end of its turn.
#[tokio::test]
async fn faults_a_turn_ends_in_time_whatever_it_waits_for() {
    for voice in VOICES {
        let server = ModelServer::start([limited(500)]);
        let provider = provider(voice, &server)
            .with_policy(Policy { scale: 0.1, ..Policy::default() })
            .with_deadlines(Deadlines {
                idle: Duration::from_secs(20),
                turn: Duration::from_secs(2),
            });
        let first = reply(voice, &provider).await;
        let second = reply(voice, &provider).await;
        for outcome in [first.outcome, second.outcome] {
            let err = outcome.unwrap_err().to_string();
            assert!(err.contains("not finished within 2 s"), "{err}");
        }
        assert_eq!(server.requests().len(), 1);
    }
}

// From the command line.

const FIXED: &str = "+  echo $(($1 + $2))";

fn run(voice: &Voice, command: &str) -> Turn {
    let mut args = json!({"command": command});
    if voice.wire == Wire::Gemini {
        args["description"] = json!("Runs a command");
    }
    call(voice.shell, args)
}

/// The edit that makes the project's check pass.
fn edit(voice: &Voice) -> Turn {
    run(voice, "sed -i s/-/+/ calc.sh")
}

fn world(voice: &Voice, turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    let world = TestWorld::local(turns);
    let root = world.model.root();
    let world = world
        .set("PATCHWRIGHT_MODEL", voice.model)
        .set("PATCHWRIGHT_TIME_SCALE", "0.001")
        .set("ANTHROPIC_BASE_URL", &root)
        .set("ANTHROPIC_API_KEY", KEY)
        .set("GOOGLE_GEMINI_BASE_URL", &root)
        .set("GEMINI_API_KEY", KEY);
    project(&world);
    world
}

fn exec(world: &TestWorld) -> Output {
    world.run(&["exec", "Make add add", "--repo", "project"])
}

/// The edit is kept, nothing of a half answer was run, and every turn of the script was asked for.
#[track_caller]
fn kept(world: &TestWorld, output: &Output) {
    let patch = world.result("change.patch");
    assert!(patch.contains(FIXED), "{patch}\n{}", output.text());
    assert!(!patch.contains("half-received"), "{patch}");
    assert!(!world.told().contains("half-received"), "{}", output.text());
    assert_eq!(world.model.unused(), 0, "{}", output.text());
}

/// The provider fails after the edit: the run ends with the edit kept, and the same command resumes.
fn keeps_work_and_goes_on(voice: &Voice) {
    let rows = [
        (times(&fail(500, "server_error", "trouble"), 8), "trouble"),
        (times(&cut(), 5), "continues where it stopped"),
        (times(&no_final(), 5), "continues where it stopped"),
        (vec![limited(7200)], "run it again in 2 h"),
        (vec![unauthorized()], "hint"),
    ];
    for (trouble, says) in rows {
        let failing = trouble.len();
        let mut turns = vec![edit(voice)];
        turns.extend(trouble);
        let world = world(voice, turns);
        let output = exec(&world).expect(50);
        assert!(output.stderr.contains(says), "{}", output.text());
        kept(&world, &output);
        assert_eq!(world.model.requests().len(), 1 + failing, "{}", output.text());
        world.model.add([say("Add instead of subtracting")]);
        let output = exec(&world).expect(0);
        kept(&world, &output);
        assert_eq!(world.model.requests().len(), 2 + failing, "one run, resumed");
        let result: serde_json::Value = serde_json::from_str(&world.result("result.json")).unwrap();
        assert_eq!(result["spending"]["turns"], 2);
        let input = result["spending"]["usage"]["input"].as_u64().unwrap();
        assert_eq!(input > 2000, failing == 5, "broken answers are counted, others cost nothing");
    }
}

#[test]
fn faults_keep_the_work_over_responses() {
    keeps_work_and_goes_on(&RESPONSES);
}

#[test]
fn faults_keep_the_work_over_chat() {
    keeps_work_and_goes_on(&CHAT);
}

#[test]
fn faults_keep_the_work_over_messages() {
    keeps_work_and_goes_on(&MESSAGES);
}

#[test]
fn faults_keep_the_work_over_gemini() {
    keeps_work_and_goes_on(&GEMINI);
}

#[test]
fn faults_nothing_half_received_is_run() {
    for voice in VOICES {
        let world = world(
            voice,
            [cut(), no_final(), edit(voice), incomplete("max_output_tokens"), say("Fixed.")],
        );
        let output = exec(&world).expect(0);
        kept(&world, &output);
        assert_eq!(output.stdout, "Fixed.\n");
        assert!(world.told().contains("cut off at the output limit"), "{:?}", voice.wire);
    }
}

#[test]
fn faults_replies_that_are_cut_again_and_again_end_the_run() {
    for voice in VOICES {
        let mut turns = vec![edit(voice)];
        turns.extend(times(&incomplete("max_output_tokens"), 4));
        let world = world(voice, turns);
        let output = exec(&world).expect(50);
        assert!(world.result("result.json").contains("cut off by its output limit"));
        kept(&world, &output);
    }
}

#[test]
fn faults_an_empty_reply_is_asked_for_once_more() {
    for voice in VOICES {
        let world_once = world(voice, [edit(voice), nothing(), say("Fixed.")]);
        let output = exec(&world_once).expect(0);
        kept(&world_once, &output);
        assert_eq!(output.stdout, "Fixed.\n", "{:?}", voice.wire);
        let world_ever = world(voice, [edit(voice), nothing(), nothing()]);
        let output = exec(&world_ever).expect(50);
        kept(&world_ever, &output);
        assert!(world_ever.result("result.json").contains("an empty reply twice"));
    }
}

#[test]
fn faults_calls_that_cannot_be_run_are_explained() {
    for voice in VOICES {
        let wire = voice.wire;
        let world = world(
            voice,
            [
                call("no_such_tool", json!({"depth": 1})),
                call(voice.shell, json!("{\"command\": \"touch half-received")),
                call(voice.shell, json!({})),
                edit(voice),
                say("Fixed."),
            ],
        );
        let output = exec(&world).expect(0);
        let patch = world.result("change.patch");
        assert!(patch.contains(FIXED) && !patch.contains("half-received"), "{patch}");
        let told = world.told();
        assert!(told.contains("there is no tool `no_such_tool`"), "{wire:?}");
        // Gemini's servers read the arguments themselves.
        let unread = if wire == Wire::Gemini { "could not be read" } else { "not valid JSON" };
        assert!(told.contains(unread), "{wire:?}: {}", output.text());
        let missing = ["missing: `command`", "`command` is missing"];
        assert!(missing.iter().any(|words| told.contains(words)), "{wire:?}: {}", output.text());
    }
}

/// The server of the world refuses a conversation with arguments that are no JSON, as vLLM does.
#[test]
fn faults_slips_in_arguments_are_read_and_never_the_end() {
    for voice in VOICES.iter().filter(|voice| voice.wire == Wire::Chat) {
        let slip =
            |command: &str| call(voice.shell, json!(format!("{{\"command\": \"{command}\"")));
        let world = world(
            voice,
            [
                call(voice.shell, json!("{\"command\": \"touch other")),
                slip("true\nsed -i s/-/+/ calc.sh\n"),
                say("Fixed."),
            ],
        );
        let output = exec(&world).expect(0);
        kept(&world, &output);
        assert!(world.told().contains("not valid JSON"), "{}", output.text());
    }
}

const TOO_LONG_IN_VLLM: &str = "You passed 33001 input tokens and requested 4096 output tokens. However, the model's \
     context length is only 32768 tokens, resulting in a maximum input length of 28672 tokens.";

/// A world whose conversations may be shortened.
fn rewriting(voice: &Voice, turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    let mut world = world(voice, turns);
    world.model = world.model.allow_rewrites();
    world
}

#[test]
fn faults_a_conversation_that_is_too_long_is_shortened() {
    for voice in VOICES {
        let notes = || say("The sign was wrong; it is mended.");
        for turns in [
            vec![overflow(), notes()],
            vec![overflow_in_stream(voice.wire), notes()],
            // Not even the request for notes fits.
            vec![overflow(), overflow()],
            // In a proxy's words, and in those of vLLM.
            vec![fail_raw(413, "<html>413 Request Entity Too Large</html>"), notes()],
            vec![fail_raw(413, ""), fail_raw(413, "")],
            vec![fail(400, "BadRequestError", TOO_LONG_IN_VLLM), notes()],
        ] {
            let turns = std::iter::once(edit(voice)).chain(turns).chain([say("Fixed.")]);
            let world = rewriting(voice, turns);
            let output = exec(&world).expect(0);
            kept(&world, &output);
            assert_eq!(world.model.requests().len(), 4);
        }
    }
}

/// Shortening that does not help has an end, whatever the rhythm of the refusals.
#[test]
fn faults_shortening_that_does_not_help_is_bounded() {
    for voice in VOICES {
        let notes = || say("The sign was wrong; it is mended.");
        // Every second request is refused.
        let world = rewriting(voice, [edit(voice), overflow(), notes(), overflow()]);
        let output = exec(&world).expect(40);
        kept(&world, &output);
        // Each turn is refused once.
        let mut turns = vec![edit(voice)];
        for turn in 1..=3 {
            turns.extend([overflow(), notes(), run(voice, &format!("echo turn {turn}"))]);
        }
        turns.push(overflow());
        let world = rewriting(voice, turns);
        let output = exec(&world).expect(40);
        kept(&world, &output);
        assert!(world.result("result.json").contains("no longer fits"), "{}", output.text());
    }
}
