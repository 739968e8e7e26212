//! What a run costs, to the last digit, on every wire: long requests at their own price, the limits that
//! count them, and that conversations are shortened before they get dear.

use patchwright_provider::catalogue::PriceStep;
use serde_json::json;

use crate::exec::project;
use crate::providers::catalogue;
use crate::resume::{signalled, wait_for};
use crate::support::bench::Bench;
use crate::support::git_repo::git;
use crate::support::model::{call, say, stall};
use crate::support::world::{KEY, Output, TestWorld, fix};

/// A model, its wire, input of which a part was cached, output, and the dollars.
type Row = (&'static str, Option<&'static str>, u64, u64, u64, f64);

const ROWS: &[Row] = &[
    // Up to the step and beyond it: 0.1 and 0.01 or five times as much a million of input, 0.5 of output.
    ("claude-haiku-5-5", None, 100_000, 60_000, 1_000, 0.004 + 0.0006 + 0.0005),
    ("claude-haiku-5-5", None, 100_001, 60_000, 1_000, 0.020_000_5 + 0.003 + 0.0025),
    // 5 and 0.5 of input and 30 of output; twice and one and a half times as much.
    ("gpt-5.5", None, 272_000, 200_000, 2_000, 0.36 + 0.1 + 0.06),
    ("gpt-5.5", None, 300_000, 200_000, 2_000, 1.0 + 0.2 + 0.09),
    ("gpt-5.5", Some("chat"), 272_000, 200_000, 2_000, 0.36 + 0.1 + 0.06),
    ("gpt-5.5", Some("chat"), 300_000, 200_000, 2_000, 1.0 + 0.2 + 0.09),
    // 1.25 and 0.125 of input and 10 of output.
    ("gemini-2.5-pro", None, 200_000, 120_000, 1_000, 0.1 + 0.015 + 0.01),
    ("gemini-2.5-pro", None, 240_000, 120_000, 1_000, 0.3 + 0.03 + 0.015),
];

#[test]
fn a_long_request_costs_what_it_costs_on_every_wire() {
    for (model, wire, input, cached, output, dollars) in ROWS {
        let usage = json!({
            "input_tokens": input,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": 100},
            "total_tokens": input + output,
        });
        let world = TestWorld::local([say("There is nothing to do.").usage(Some(usage))]);
        let project = world.path("project");
        fs_err::create_dir(&project).unwrap();
        fs_err::write(project.join("README.md"), "# calc\n").unwrap();
        git(&project, &["init", "--quiet", "--initial-branch=main"]);
        git(&project, &["add", "."]);
        git(&project, &["commit", "--quiet", "--message=First"]);
        let root = world.model.root();
        let world = world
            .set("ANTHROPIC_BASE_URL", &root)
            .set("ANTHROPIC_API_KEY", KEY)
            .set("GOOGLE_GEMINI_BASE_URL", &root)
            .set("GEMINI_API_KEY", KEY);
        let mut args =
            vec!["exec", "Say hello", "--repo", "project", "--out", "out", "--model", model];
        args.extend(wire.iter().flat_map(|wire| ["--wire", wire]));
        world.run(&args).expect(0);
        let result = fs_err::read_to_string(world.path("out/result.json")).unwrap();
        let result: serde_json::Value = serde_json::from_str(&result).unwrap();
        let spending = &result["spending"];
        let spent = spending["cost_usd"].as_f64().unwrap();
        assert!((spent - dollars).abs() < 1e-9, "{model} {wire:?} {input}: {spent}, not {dollars}");
        assert_eq!(spending["cost_is_estimate"], false, "{spending}");
    }
}

#[test]
fn every_model_with_a_step_is_shortened_before_it() {
    let catalogue = catalogue();
    let mut stepped = Vec::new();
    for slug in catalogue.slugs() {
        let model = catalogue.resolve(slug, None).unwrap();
        let Some(step) = model.price_above.first() else { continue };
        assert!(
            model.compact_at() < step.tokens && model.compact_at() >= step.tokens / 10 * 9,
            "{slug}"
        );
        assert!(model.context_window > step.tokens, "{slug}");
        stepped.push((slug, step.tokens, step.input));
    }
    // As LiteLLM's table of prices has them, and the makers' own pages.
    for expected in [
        ("claude-haiku-5-5", 100_000, 5.0),
        ("gemini-2.5-pro", 200_000, 2.0),
        ("gemini-3.1-pro-preview", 200_000, 2.0),
        ("gemini-3.1-pro-preview-customtools", 200_000, 2.0),
        ("gpt-5.4", 272_000, 2.0),
        ("gpt-5.5", 272_000, 2.0),
        ("gpt-5.6", 272_000, 2.0),
        ("gpt-5.6-luna", 272_000, 2.0),
        ("gpt-5.6-sol", 272_000, 2.0),
        ("gpt-5.6-terra", 272_000, 2.0),
        ("gpt-6-astra", 272_000, 2.0),
        ("gpt-6-luna", 272_000, 2.0),
        ("gpt-6-sol", 272_000, 2.0),
        ("gpt-6.1-sol", 272_000, 2.0),
    ] {
        assert!(stepped.contains(&expected), "{expected:?} is not among {stepped:?}");
    }
}

const CALL: &str = "- calls: [{ tool: shell_command, args: { command: sh check.sh } }]\n  \
     usage: { input: 90000, output: 100 }\n";

/// Reads what people read of a run that its limit on cost ended.
#[test]
fn a_run_that_the_limit_on_cost_ends_says_how_much_was_used() {
    let tokens = json!({
        "input_tokens": 50_000, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1_000, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 51_000,
    });
    for (limit, said) in [
        ("0.02", "the limit on cost was reached: $0."),
        ("0.12", "do not fit into what is left of the limit on cost: $0."),
    ] {
        let turns = fix().into_iter().map(|turn| turn.usage(Some(tokens.clone())));
        let world = TestWorld::local(turns);
        project(&world);
        let world = world.set("PATCHWRIGHT_MAX_COST_USD", limit);
        let args = ["exec", "Make add add", "--repo", "project", "--out", "out"];
        let output = world.run(&args).expect(40);
        let result = fs_err::read(world.path("out/result.json")).unwrap();
        let result: serde_json::Value = serde_json::from_slice(&result).unwrap();
        let reason = result["reason"].as_str().unwrap();
        assert!(reason.contains(said), "{reason}");
        assert!(reason.ends_with(&format!("of ${limit} are used")), "{reason}");
        assert!(output.stderr.contains(reason), "{}", output.text());
    }
}

#[tokio::test]
async fn a_request_whose_input_alone_would_break_the_limit_is_not_sent() {
    for (steps, word, turns) in [
        (vec![], "finished", 2),
        (vec![PriceStep { tokens: 50_000, input: 100.0, output: 1.0 }], "budget_dollars", 1),
    ] {
        let mut bench = Bench::new();
        bench.model.price_above = steps;
        bench.model.compact_at = Some(200_000);
        bench.limits.max_cost_usd = 17.0;
        let ended = bench.run(&format!("{CALL}- text: done\n")).await;
        assert_eq!((ended.stopped.reason.word(), ended.requests.len()), (word, turns));
        let is_told =
            ended.stopped.notes.iter().any(|note| note.contains("`limits.max-cost-usd` is 17"));
        assert_eq!(is_told, turns == 1, "{:?}", ended.stopped.notes);
    }
}

#[tokio::test]
async fn the_limit_on_tokens_leaves_out_the_cache_and_says_what_was_reached() {
    let cached = CALL.replace("output: 100", "cached_input: 89000, output: 100");
    for (call, word) in [(CALL, "budget_tokens"), (cached.as_str(), "finished")] {
        let mut bench = Bench::new();
        bench.limits.max_tokens = 50_000;
        let ended = bench.run(&format!("{call}- text: done\n")).await;
        assert_eq!(ended.stopped.reason.word(), word, "{call}");
        let told = ended.stopped.notes.join("\n");
        let figures = "`limits.max-tokens` is 50000, and 90100 tokens were used; 0 more were read";
        assert_eq!(told.contains(figures), word == "budget_tokens", "{told}");
    }
}

/// What the result says was spent, and the entries of its journal that say what was lost.
fn spent(world: &TestWorld, output: &Output) -> (serde_json::Value, Vec<serde_json::Value>) {
    let read = |name: &str| fs_err::read_to_string(world.path("out").join(name)).unwrap();
    let result: serde_json::Value = serde_json::from_str(&read("result.json")).unwrap();
    assert!(result["spending"].is_object(), "{}", output.text());
    let journal = read("journal.jsonl");
    let lines = journal.lines().map(|line| serde_json::from_str(line).unwrap());
    let lost = lines.filter(|line: &serde_json::Value| line["is"] == "lost").collect();
    (result["spending"].clone(), lost)
}

/// A request of which a part has arrived, and no more comes.
fn given_up() -> TestWorld {
    let usage = json!({"input_tokens": 10_000, "output_tokens": 1_000, "total_tokens": 11_000});
    let look = call("shell_command", json!({"command": "cat README.md"})).usage(Some(usage));
    let world = TestWorld::local([look, stall(), stall()]);
    crate::dependencies::project(&world, &[("README.md", "# calc\n")]);
    world
}

#[test]
fn a_request_that_the_end_of_the_time_has_cut_is_counted() {
    let world = given_up();
    let args = ["exec", "Say it", "--repo", "project", "--out", "out", "--timeout", "3s"];
    let output = world.run(&args).expect(40);
    let (spending, lost) = spent(&world, &output);
    // That of the work, and that for the last words.
    assert_eq!(lost.len(), world.model.requests().len() - 1, "{}", output.text());
    let input: u64 = lost.iter().map(|it| it["usage"]["input"].as_u64().unwrap()).sum();
    assert!(lost.iter().all(|it| it["usage"]["input"].as_u64().unwrap() > 10_000), "{lost:?}");
    assert!(lost[0]["usage"]["output"].as_u64().unwrap() > 0, "{lost:?}");
    assert_eq!(spending["usage"]["input"], 10_000 + input, "{spending}");
    assert_eq!((&spending["turns"], &spending["cost_is_estimate"]), (&json!(1), &json!(true)));
    assert!(spending["cost_usd"].as_f64().unwrap() > 0.0315, "{spending}");
}

#[test]
fn a_request_that_a_signal_has_cut_is_counted_once() {
    let world = given_up();
    let args = ["exec", "Say it", "--repo", "project", "--out", "out"];
    let child = world.spawn(&args);
    wait_for(|| world.model.requests().len() == 2);
    assert_eq!(signalled(&world, child, "TERM").code, 143);
    world.model.replace([say("It is called calc.")]);
    let output = world.run(&args).expect(0);
    let (spending, lost) = spent(&world, &output);
    assert_eq!((lost.len(), world.model.requests().len()), (1, 3), "{}", output.text());
    let input = lost[0]["usage"]["input"].as_u64().unwrap();
    assert!(input > 10_000, "{lost:?}");
    assert_eq!(spending["usage"]["input"], 10_000 + input + 1_000, "{spending}");
    assert_eq!((&spending["turns"], &spending["cost_is_estimate"]), (&json!(2), &json!(true)));
}

/// More time is no help against a model that says nothing, whether it is reached or not.
#[test]
fn a_time_limit_that_a_silent_model_has_used_up_says_so() {
    let args = ["exec", "Say it", "--repo", "project", "--out", "out", "--timeout", "5s"];
    let silent = TestWorld::local([stall()]);
    let unreachable = TestWorld::local([])
        .set("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        .set("PATCHWRIGHT_TIME_SCALE", "1");
    for (world, words) in [(silent, "did not answer for "), (unreachable, "127.0.0.1:9")] {
        crate::dependencies::project(&world, &[("README.md", "# calc\n")]);
        let output = world.run(&args).expect(40);
        let said = &output.stderr;
        for part in ["error: the time limit was reached: `http", "did not answer for ", words] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(said.contains("hint: look at the model's provider"), "{said}");
        assert!(!said.contains("raise the limit"), "{said}");
    }
}
