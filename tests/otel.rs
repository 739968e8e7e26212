//! Telemetry at a collector: the real program, and a collector that takes only what the protocol allows.

use std::collections::BTreeSet;
use std::io::{Read, Write};

use expect_test::expect;
use serde_json::json;

use crate::batch_run::{CAMPAIGN, batch, fixed, repositories, write};
use crate::exec::project;
use crate::support::collector::{Collector, Manner, attribute, body, points};
use crate::support::github::GitHub;
use crate::support::model::{ModelServer, Turn, call, fail, overloaded, say};
use crate::support::world::{KEY, TestWorld, fix, github};

/// A world whose program sends to this collector.
fn observed(collector: &Collector, turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    // With a clock that goes on, so that spans have their order.
    TestWorld::new(github(), turns)
        .unset("PATCHWRIGHT_NOW")
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
}

#[test]
fn a_run_is_one_trace_with_its_turns_requests_tools_checks_and_writes() {
    let collector = Collector::start(Manner::Well);
    let world = observed(&collector, fix());
    world.issue().expect(0);
    collector.check(None);
    expect![[r#"
        run issue
          check base
          invoke_agent patchwright
            turn 1
              chat gpt-5.3-codex
              execute_tool update_plan
              execute_tool shell_command !
            turn 2
              chat gpt-5.3-codex
              execute_tool apply_patch
            turn 3
              chat gpt-5.3-codex
              execute_tool shell_command
            turn 4
              chat gpt-5.3-codex
              execute_tool update_plan
            turn 5
              chat gpt-5.3-codex
            check loop
          publish push
          publish pull_request
    "#]]
    .assert_eq(&collector.tree());
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.trace_id == spans[0].trace_id), "one trace");
    let of = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let run = of("run issue");
    let shown = [
        ("patchwright.repository", "acme/app"),
        ("patchwright.number", "7"),
        ("patchwright.conclusion", "done"),
        ("patchwright.turns", "5"),
        ("gen_ai.usage.input_tokens", "5000"),
        ("gen_ai.usage.output_tokens", "250"),
        ("gen_ai.usage.cache_read.input_tokens", "3000"),
    ];
    for (name, value) in shown {
        assert_eq!(attribute(run, name), value, "{name}");
    }
    let chat = spans.iter().find(|span| span.name.starts_with("chat ")).unwrap();
    for (name, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.usage.input_tokens", "1000"),
        ("gen_ai.response.finish_reasons", "tool_calls"),
    ] {
        assert_eq!(attribute(chat, name), value, "{name}");
    }
    assert_eq!(attribute(chat, "gen_ai.request.model"), chat.name["chat ".len()..]);
    let tool = of("execute_tool apply_patch");
    assert!(!attribute(tool, "gen_ai.tool.call.id").is_empty());
    let resource = collector.resource();
    assert_eq!(resource["service.name"], "patchwright");
    assert_eq!(resource["service.instance.id"].len(), 32);
    assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn tokens_durations_and_costs_are_metrics() {
    let collector = Collector::start(Manner::Well);
    observed(&collector, fix()).issue().expect(0);
    collector.check(None);
    let metrics = collector.metrics();
    let of = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();
    let tokens = of("gen_ai.client.token.usage");
    assert_eq!(tokens.unit, "{token}");
    assert_eq!(
        points(tokens, "gen_ai.token.type"),
        [("input".to_owned(), 5, 5000.0), ("output".to_owned(), 5, 250.0)]
    );
    let requests = points(of("gen_ai.client.operation.duration"), "gen_ai.operation.name");
    assert_eq!((requests[0].0.as_str(), requests[0].1), ("chat", 5));
    let runs = points(of("patchwright.run.duration"), "patchwright.conclusion");
    assert_eq!((runs[0].0.as_str(), runs[0].1), ("done", 1));
    let tools = points(of("patchwright.tool.duration"), "gen_ai.tool.name");
    assert_eq!(tools.iter().map(|(_, count, _)| count).sum::<u64>(), 5);
    assert!(metrics.iter().any(|metric| metric.name == "patchwright.cost"));
}

#[test]
fn what_people_and_models_say_stays_here_unless_it_is_asked_for() {
    let collector = Collector::start(Manner::Well);
    observed(&collector, fix()).issue().expect(0);
    for text in ["Add instead of subtracting", "sh test.sh", "Begin Patch", "echo $"] {
        assert!(!collector.holds(text), "`{text}` was sent");
    }

    let collector = Collector::start(Manner::Well);
    let leak = call("shell_command", json!({ "command": format!("echo said-{KEY}") }));
    observed(&collector, [leak, say("Nothing to do"), say("Nothing")])
        .set("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
        .run(&["issue", "acme/app#7", "--verify", "true"]);
    collector.check(None);
    let spans = collector.spans();
    let chat = spans.iter().find(|span| span.name.starts_with("chat ")).unwrap();
    let said: serde_json::Value =
        serde_json::from_str(&attribute(chat, "gen_ai.output.messages")).unwrap();
    assert_eq!(said[0]["role"], "assistant");
    let parts = said[0]["parts"].as_array().unwrap();
    assert!(parts.iter().any(|part| part["type"] == "tool_call"), "{said}");
    let tool = spans.iter().find(|span| span.name.starts_with("execute_tool ")).unwrap();
    assert!(attribute(tool, "gen_ai.tool.call.result").contains("said-"), "{tool:?}");
    assert!(attribute(tool, "gen_ai.tool.call.arguments").contains("echo said-"), "{tool:?}");
    assert!(!collector.holds(KEY), "no secret is sent");
}

#[test]
fn the_trace_of_whoever_started_us_goes_on() {
    let collector = Collector::start(Manner::Well);
    observed(&collector, fix())
        .set("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .issue()
        .expect(0);
    collector.check(Some([0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]));
    let spans = collector.spans();
    let trace = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes();
    assert!(spans.iter().all(|span| span.trace_id == trace));
    // One that is not sampled is not sent.
    let collector = Collector::start(Manner::Well);
    observed(&collector, fix())
        .set("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
        .issue()
        .expect(0);
    assert!(collector.spans().is_empty());
    // A broken one begins a trace.
    let collector = Collector::start(Manner::Well);
    observed(&collector, fix()).set("TRACEPARENT", "00-not-a-trace").issue().expect(0);
    collector.check(None);
    assert!(!collector.spans().is_empty());
}

#[test]
fn a_run_that_is_stopped_and_resumed_is_one_trace() {
    let collector = Collector::start(Manner::Well);
    let broken = [call("shell_command", json!({ "command": "true" })), fail(401, "key", "no")];
    let world = observed(&collector, broken);
    world.issue().expect(50);
    world.model.replace(fix());
    world.issue().expect(0);
    collector.check(None);
    let spans = collector.spans();
    let runs: Vec<_> = spans.iter().filter(|span| span.name == "run issue").collect();
    assert_eq!(runs.len(), 2);
    assert_eq!(attribute(runs[0], "error.type"), "interrupted");
    assert_eq!(attribute(runs[1], "patchwright.resumed"), "true");
    assert!(spans.iter().all(|span| span.trace_id == runs[0].trace_id), "one trace");
}

#[test]
fn a_collector_that_is_gone_hangs_or_refuses_holds_nobody_up() {
    let silent = Collector::start(Manner::Silent);
    let refusing = Collector::start(Manner::Refuses(401));
    let elsewhere = Collector::start(Manner::Well);
    let redirecting = Collector::start(Manner::SendsTo(elsewhere.url()));
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, said) in [
        (silent.url(), "did not answer in time"),
        (refusing.url(), "it answers 401"),
        (redirecting.url(), "it answers 307"),
        (format!("http://me:Kaesekuchen@{gone}/Kaesekuchen"), "Connection refused"),
    ] {
        let world = TestWorld::new(github(), fix())
            .set("OTEL_EXPORTER_OTLP_ENDPOINT", address)
            .set("OTEL_EXPORTER_OTLP_HEADERS", "x-key=Bearer%20Kaesekuchen-123");
        let output = world.issue().expect(0);
        assert!(output.stderr.contains("warning: telemetry was lost"), "{}", output.text());
        assert!(output.stderr.contains(said), "{}", output.text());
        let at = format!("to the collector at `http://{gone}` failed");
        let is_named = output.stderr.contains(&at);
        assert_eq!(is_named, said == "Connection refused", "{}", output.text());
        assert!(!output.stderr.contains("Kaesekuchen"), "{}", output.text());
    }
    assert!(elsewhere.paths().is_empty(), "keys do not follow a redirect");
}

#[test]
fn a_request_takes_as_long_as_the_environment_says() {
    let silent = Collector::start(Manner::Silent);
    for name in ["OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"] {
        let world = observed(&silent, fix())
            .set("OTEL_METRICS_EXPORTER", "none")
            .set("OTEL_LOGS_EXPORTER", "none")
            .set(name, "100");
        let output = world.issue().expect(0);
        // It is given up by the program and not by the end of it.
        let said = format!("to the collector at `{}` failed", silent.url());
        assert!(output.stderr.contains(&said), "{name}: {}", output.text());
    }
}

#[test]
fn settings_that_cannot_be_followed_are_said_and_the_run_goes_on() {
    let collector = Collector::start(Manner::Well);
    for (name, value, said) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "`OTEL_EXPORTER_OTLP_PROTOCOL` is `grpc`"),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "zstd", "no traces over OTLP"),
        ("OTEL_LOGS_EXPORTER", "console", "only `otlp` and `none` are known"),
    ] {
        let output = observed(&collector, fix()).set(name, value).issue().expect(0);
        assert!(output.stderr.contains(said), "{name}: {}", output.text());
    }
    // Nothing is sent where nothing is asked for.
    let quiet = Collector::start(Manner::Well);
    let off = [("OTEL_SDK_DISABLED", "true")];
    let none = [
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_LOGS_EXPORTER", "none"),
    ];
    for variables in [&off[..], &none[..]] {
        let mut world = observed(&quiet, fix());
        for (name, value) in variables {
            world = world.set(name, *value);
        }
        let output = world.issue().expect(0);
        assert!(!output.stderr.contains("telemetry"), "{}", output.text());
    }
    assert!(quiet.paths().is_empty());
}

#[test]
fn the_key_of_the_collector_goes_there_and_nowhere_else() {
    let collector = Collector::start(Manner::Well);
    let world = observed(
        &collector,
        [
            call("shell_command", json!({ "command": "env; echo Kaesekuchen-123" })),
            say("Done"),
            say("Done"),
        ],
    )
    .set("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=Kaesekuchen-123,x-team=a%20b")
    .set("OTEL_SERVICE_NAME", "night shift");
    world.run(&["issue", "acme/app#7", "--verify", "true"]);
    assert!(collector.header("x-api-key").iter().all(|key| key == "Kaesekuchen-123"));
    assert!(!collector.header("x-api-key").is_empty());
    assert_eq!(collector.resource()["service.name"], "night shift");
    assert!(world.holds("Kaesekuchen").is_empty(), "no journal has it");
    // What a command printed is shown to the model as it is; the variable itself never was there.
    assert!(!world.told().contains("OTEL_"), "commands do not see the environment");
}

#[test]
fn the_log_is_sent_where_it_is_wanted() {
    let collector = Collector::start(Manner::Well);
    let turns = [vec![overloaded()], fix()].concat();
    observed(&collector, turns).issue().expect(0);
    let logs = collector.logs();
    let retry = logs.iter().find(|record| body(record) == "retrying").expect("what was said");
    assert_eq!(retry.severity_text, "WARN");
    assert!(logs.iter().all(|record| record.observed_time_unix_nano > 0), "{logs:?}");
    // It belongs to the span of the run.
    let spans = collector.spans();
    let run = spans.iter().find(|span| span.name == "run issue").unwrap();
    assert_eq!((&retry.trace_id, &retry.span_id), (&run.trace_id, &run.span_id));
}

#[test]
fn what_is_logged_of_several_runs_belongs_to_each_of_them() {
    let collector = Collector::start(Manner::Well);
    // The first request of every conversation is refused once.
    let model = ModelServer::conversations(|_| [vec![overloaded()], fixed()].concat());
    let world = TestWorld::asking(repositories(2), model)
        .unset("PATCHWRIGHT_NOW")
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    write(&world, CAMPAIGN);
    batch(&world, &["run", "--hold"]).expect(0);
    collector.check(None);
    let (spans, logs) = (collector.spans(), collector.logs());
    let runs: BTreeSet<_> = spans
        .iter()
        .filter(|span| span.name == "run campaign")
        .map(|run| (run.trace_id.clone(), run.span_id.clone()))
        .collect();
    let retried: BTreeSet<_> = logs
        .iter()
        .filter(|record| body(record) == "retrying")
        .map(|record| (record.trace_id.clone(), record.span_id.clone()))
        .collect();
    assert_eq!(runs.len(), 2);
    assert_eq!(retried, runs);
    // What is said of the queue is said beside the runs, whichever of them is at work.
    let mut of_queue =
        logs.iter().filter(|record| record.attributes.iter().any(|it| it.key == "job"));
    assert!(of_queue.all(|record| record.trace_id.is_empty()), "{logs:?}");
}

#[test]
fn requests_are_compressed_where_that_is_asked_for() {
    for (asked, is_compressed) in [("gzip", true), ("none", false)] {
        let collector = Collector::start(Manner::Well);
        observed(&collector, fix()).set("OTEL_EXPORTER_OTLP_COMPRESSION", asked).issue().expect(0);
        collector.check(None);
        let (compressed, all) = collector.compressed();
        assert!(all >= 2, "{all}");
        assert_eq!(compressed, if is_compressed { all } else { 0 }, "{asked}");
        assert!(collector.spans().iter().any(|span| span.name == "run issue"), "{asked}");
    }
}

#[test]
fn sub_agents_are_below_the_call_that_started_them() {
    let collector = Collector::start(Manner::Well);
    let whole = vec![
        call("spawn_agent", json!({ "message": "the first-part of it" })),
        call("wait", json!({ "ids": ["agent-1"], "timeout_ms": 60_000 })),
        call("close_agent", json!({ "id": "agent-1" })),
        say("Done"),
    ];
    let part = vec![call("shell_command", json!({ "command": "true" })), say("It is there")];
    let model = ModelServer::by_word([("first-part", part), ("whole-task", whole)]);
    let world = TestWorld::asking(GitHub::new(), model).unset("GITHUB_TOKEN");
    project(&world);
    let config = world.path("config.yml");
    fs_err::write(&config, "tools: {agents: 2}\nverify: ['true']\n").unwrap();
    let world = world
        .set("PATCHWRIGHT_CONFIG", config.display().to_string())
        .set("PATCHWRIGHT_MODEL", "gpt-5.3-codex")
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    world.run(&["exec", "Do the whole-task", "--repo", "project", "--out", "out"]).expect(0);
    collector.check(None);
    let spans = collector.spans();
    let agent = spans.iter().find(|span| span.name == "invoke_agent default").unwrap();
    assert_eq!(attribute(agent, "gen_ai.agent.id"), "agent-1");
    let by = spans.iter().find(|span| span.span_id == agent.parent_span_id).unwrap();
    assert_eq!(by.name, "execute_tool spawn_agent");
    let turns = spans.iter().filter(|span| span.parent_span_id == agent.span_id);
    assert_eq!(turns.count(), 2);
    // It has no words of people: neither the prompt nor where the repository is.
    assert!(!collector.holds("whole-task") && !collector.holds("first-part"));
    assert!(!collector.holds(&world.folder.path().display().to_string()));
}

/// A server that answers everything with the same bytes, for collectors that speak no HTTP.
#[test]
fn a_collector_that_speaks_something_else_holds_nobody_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut begin = [0; 64];
            let _ = stream.read(&mut begin);
            let _ = stream.write_all(b"\x00\x00\x06\x04\x00not http at all");
        }
    });
    let world = TestWorld::new(github(), fix())
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"));
    let output = world.issue().expect(0);
    assert!(output.stderr.contains("telemetry was lost"), "{}", output.text());
}

#[test]
fn doctor_says_whether_what_runs_send_would_arrive() {
    let line = |address: &str| {
        let world = TestWorld::new(github(), []).set("OTEL_EXPORTER_OTLP_ENDPOINT", address);
        let output = world.run(&["doctor"]).stdout;
        let line = output.lines().find(|line| line.contains("  collector: "));
        line.unwrap_or_else(|| panic!("{output}")).to_owned()
    };
    let (collector, refusing) =
        (Collector::start(Manner::Well), Collector::start(Manner::Refuses(401)));
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(line(&collector.url()), "ok    collector: takes what runs send");
    for (address, said) in [
        (refusing.url(), "it answers 401"),
        (format!("http://{gone}"), "Connection refused"),
        ("localhost:4318".to_owned(), "no traces over OTLP"),
    ] {
        let line = line(&address);
        assert!(line.starts_with("note  collector: ") && line.contains(said), "{line}");
    }
}
