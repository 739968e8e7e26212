//! Models that go on when the first one cannot: what providers say in each case, on each protocol, and the
//! conversation that goes on in another. Resumed and replayed runs come to the same model.

use serde_json::Value;

use super::{CHAT, GEMINI, MESSAGES, RESPONSES, Voice, committed, configured, world};
use crate::resume::{kill_when, rest};
use crate::support::model::{Turn, fail, limited, overloaded, quota, refuse, unauthorized};
use crate::support::scenario::scenario;
use crate::support::world::TestWorld;

/// Requests to a model that is out, while another can be asked.
const BRIEF: usize = 4;

/// Why the first model is given up, and how often it is asked for that.
fn troubles() -> Vec<(&'static str, Vec<Turn>)> {
    vec![
        ("out", vec![overloaded(); BRIEF]),
        ("limited for an hour", vec![limited(3600)]),
        ("out of quota", vec![quota()]),
        ("a key that was revoked", vec![unauthorized()]),
        ("a refusal", vec![refuse("I cannot help with that.")]),
    ]
}

/// A world in which a second model goes on for the first, and the trouble comes before its second reply.
fn troubled(first: &Voice, second: &Voice, trouble: &[Turn]) -> TestWorld {
    let mut turns: Vec<Turn> = scenario("parallel", first.family).into_iter().take(1).collect();
    turns.extend(trouble.iter().cloned());
    turns.extend(scenario("parallel", second.family).into_iter().skip(1));
    world(first, turns).set("PATCHWRIGHT_FALLBACK_MODEL", second.model)
}

fn result(world: &TestWorld) -> Value {
    serde_json::from_str(&world.result("result.json")).unwrap()
}

/// The first model is given up, and the second one finishes the work.
#[track_caller]
fn goes_on(first: &Voice, second: &Voice, about: &str, trouble: &[Turn]) -> TestWorld {
    let about = format!("{} to {}: {about}", first.model, second.model);
    let world = troubled(first, second, trouble);
    let output = world.issue();
    assert_eq!(output.code, 0, "{about}: {}", output.text());
    let requests = world.model.requests();
    let by_first = 1 + trouble.len();
    assert_eq!((requests.len(), world.model.unused()), (by_first + 2, 0), "{about}");
    assert!(requests[..by_first].iter().all(|request| request.path == first.path), "{about}");
    assert!(requests[by_first..].iter().all(|request| request.path == second.path), "{about}");
    // What was said before goes on; a refusal is not passed on.
    let body = String::from_utf8_lossy(&requests[by_first].raw).into_owned();
    assert!(body.contains("näive") && !body.contains("I cannot help"), "{about}: {body}");
    let sealed = match first.path {
        path if path == RESPONSES.path => "encrypted_content",
        path if path == CHAT.path => "reasoning_content",
        path if path == MESSAGES.path => "\"signature\"",
        _ => "thoughtSignature",
    };
    assert!(!body.contains(sealed), "{about}: {body}");
    assert_eq!(committed(&world, "calc.sh"), "add() {\n  echo $(($1 + $2))\n}\n", "{about}");
    let result = result(&world);
    let slugs = [first.model, second.model].map(|it| it.trim_start_matches("chat/"));
    assert_eq!(result["provenance"]["model"], slugs.join(", "), "{about}");
    let models = result["spending"]["models"].as_array().unwrap();
    let used: Vec<&str> = models.iter().map(|it| it["model"].as_str().unwrap()).collect();
    assert_eq!(used, slugs, "{about}");
    let turns: u64 = models.iter().map(|it| it["turns"].as_u64().unwrap()).sum();
    assert_eq!(result["spending"]["turns"], turns, "{about}");
    let pull = &world.github.pulls()[0];
    let note = format!("switched from `{}` to `{}` after turn", slugs[0], slugs[1]);
    assert!(pull.body.contains(&note), "{about}: {}", pull.body);
    let switching = format!("switching from `{}` to `{}`: ", slugs[0], slugs[1]);
    assert!(output.stderr.contains(&switching), "{}", output.text());
    world
}

#[test]
fn each_kind_of_trouble_makes_the_next_model_go_on() {
    for (about, trouble) in troubles() {
        goes_on(&RESPONSES, &MESSAGES, about, &trouble);
    }
}

#[test]
fn the_conversation_goes_on_in_every_other_protocol() {
    let all = [RESPONSES, CHAT, MESSAGES, GEMINI];
    for first in &all {
        for second in all.iter().filter(|second| second.path != first.path) {
            goes_on(first, second, "out of quota", &[quota()]);
        }
    }
}

#[test]
fn a_run_that_fell_back_comes_to_the_same_tree_again() {
    for (about, trouble) in troubles() {
        let world = goes_on(&RESPONSES, &MESSAGES, about, &trouble);
        let asked = world.model.requests().len();
        let id = world.runs()[0].file_name().unwrap().to_string_lossy().into_owned();
        let output = world.run(&["replay", &id]);
        assert_eq!(output.code, 0, "{about}: {}", output.text());
        assert_eq!(world.model.requests().len(), asked, "{about}");
    }
}

#[test]
fn a_run_that_was_killed_after_it_fell_back_goes_on_with_the_second_model() {
    let world = troubled(&RESPONSES, &MESSAGES, &[quota()]);
    kill_when(&world, |journal| {
        journal.contains("\"is\":\"switched\"")
            && journal.matches("\"is\":\"replied\"").count() == 2
    });
    let before = world.model.requests().len();
    world.model.replace(rest(&world, scenario("parallel", MESSAGES.family)));
    world.issue().expect(0);
    let requests = world.model.requests();
    assert!(requests.len() > before);
    assert!(requests[before..].iter().all(|request| request.path == MESSAGES.path));
    assert_eq!(world.result("journal.jsonl").matches("\"is\":\"switched\"").count(), 1);
}

#[test]
fn when_all_are_out_the_run_ends_and_goes_on_later_where_it_stopped() {
    let out = [vec![overloaded(); BRIEF], vec![overloaded(); 8]].concat();
    let mut turns: Vec<Turn> = scenario("parallel", RESPONSES.family).into_iter().take(1).collect();
    turns.extend(out);
    let world = world(&RESPONSES, turns).set("PATCHWRIGHT_FALLBACK_MODEL", MESSAGES.model);
    let output = world.issue().expect(50);
    assert!(output.stderr.contains("the run continues where it stopped"), "{}", output.text());
    // The last of the list gets all the patience that a model alone would get.
    assert_eq!((world.model.requests().len(), world.model.unused()), (1 + BRIEF + 8, 0));
    world.model.add(scenario("parallel", MESSAGES.family).into_iter().skip(1));
    world.issue().expect(0);
    assert_eq!(world.github.pulls().len(), 1);
}

#[test]
fn a_request_that_is_wrong_in_itself_is_nobody_elses() {
    let turns = vec![fail(404, "model_not_found", "The model does not exist.")];
    let world = world(&RESPONSES, turns).set("PATCHWRIGHT_FALLBACK_MODEL", MESSAGES.model);
    world.issue().expect(50);
    assert_eq!(world.model.requests().len(), 1);
}

#[test]
fn keys_of_one_variable_are_used_one_after_the_other() {
    let keys = ["test-key-one-5f0c81", "test-key-two-a92d47", "test-key-three-0be6"];
    let sealed = fail(
        400,
        "invalid_encrypted_content",
        "The encrypted content could not be verified. Reason: Encrypted content could not be decrypted.",
    );
    let mut fix = scenario("parallel", RESPONSES.family).into_iter();
    let mut turns: Vec<Turn> = fix.by_ref().take(1).map(|it| it.thinking("**Reading**")).collect();
    turns.extend([quota(), unauthorized(), sealed]);
    turns.extend(fix);
    let mut world = world(&RESPONSES, turns).set("OPENAI_API_KEY", keys.join(", "));
    world.model = world.model.allow_rewrites();
    let output = world.issue().expect(0);
    let used: Vec<String> = world
        .model
        .requests()
        .iter()
        .map(|request| request.header("authorization").trim_start_matches("Bearer ").to_owned())
        .collect();
    let [one, two, three] = keys;
    assert_eq!(used, [one, one, two, three, three, three], "{}", output.text());
    // What another account has sealed is left out from then on.
    let requests = world.model.requests();
    let is_sealed =
        |at: usize| requests[at].body["input"].to_string().contains("encrypted_content");
    let sealed: Vec<bool> = (0..6).map(is_sealed).collect();
    assert_eq!(sealed, [false, true, true, true, false, true], "{}", requests[4].body["input"]);
    for key in keys {
        assert!(!output.text().contains(key) && world.holds(key).is_empty(), "{key}");
    }
}

#[test]
fn a_limited_key_rests_while_another_is_used() {
    let mut fix = scenario("parallel", RESPONSES.family).into_iter();
    let mut turns: Vec<Turn> = fix.by_ref().take(1).collect();
    turns.push(limited(3600));
    turns.extend(fix);
    let world =
        world(&RESPONSES, turns).set("OPENAI_API_KEY", "test-key-one-5f0c81,test-key-two-a92d47");
    world.issue().expect(0);
    let requests = world.model.requests();
    let last = |at: usize| requests[at].header("authorization").ends_with("two-a92d47");
    assert_eq!((0..4).map(last).collect::<Vec<_>>(), [false, false, true, true]);
}

#[test]
fn lists_that_cannot_be_are_refused_before_anything_is_asked() {
    let long = ["claude-sonnet-5"; 9].join(",");
    for (list, key, expected) in [
        ("claude-sonet-5x/y", "k", "unknown provider"),
        ("gpt-5.3-codex", "k", "`gpt-5.3-codex` twice"),
        (long.as_str(), "k", "more than 8 entries"),
        ("gemini-3.5-flash@ftp://x", "k", "unknown provider"),
        ("openrouter-model", "k", "unknown model"),
    ] {
        let world = world(&RESPONSES, Vec::new()).set("PATCHWRIGHT_FALLBACK_MODEL", list);
        let world = world.set("ANTHROPIC_API_KEY", key);
        let output = world.issue().expect(2);
        assert!(output.stderr.contains(expected), "{list}: {}", output.text());
        assert!(output.stderr.contains("fallback-models"), "{list}: {}", output.text());
    }
    let world = world(&RESPONSES, Vec::new()).set("PATCHWRIGHT_FALLBACK_MODEL", "claude-sonnet-5");
    let world = world.unset("ANTHROPIC_BASE_URL").unset("ANTHROPIC_API_KEY");
    let output = world.issue().expect(50);
    assert!(output.stderr.contains("set `ANTHROPIC_API_KEY`"), "{}", output.text());
    assert!(output.stderr.contains("`fallback-models: claude-sonnet-5`"), "{}", output.text());
}

#[test]
fn a_fallback_at_a_server_of_ones_own_is_asked_there_and_without_the_key_of_the_first() {
    let own = crate::support::model::ModelServer::start(
        scenario("parallel", CHAT.family).into_iter().skip(1),
    );
    // It gives its calls the ids that the other server has given.
    own.expect_a_proxy();
    let turns = scenario("parallel", RESPONSES.family).into_iter().take(1).chain([quota()]);
    let world = world(&RESPONSES, turns.collect());
    let config = format!("fallback-models: [\"chat/some-model@{}\"]\n", own.url());
    let world = configured(world, &config)
        .set("PATCHWRIGHT_API_KEY", "test-key-own-77aa01")
        .unset("OPENAI_API_KEY");
    world.issue().expect(0);
    assert_eq!((own.requests().len(), own.unused()), (2, 0));
    let sent = |requests: Vec<crate::support::model::Recorded>| {
        requests.iter().all(|it| it.header("authorization").contains("test-key-own-77aa01"))
    };
    assert!(sent(world.model.requests()) && !sent(own.requests()));
}
