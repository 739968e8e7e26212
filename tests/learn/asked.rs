//! Which model is asked, and that none is paid for twice.

use serde_json::Value;

use super::{LESSON, WISH, learn, lesson, lessons, project, run, with_proposal};
use crate::support::model::{Turn, fail, refuse, say, unauthorized};
use crate::support::world::{KEY, TestWorld, fix};

/// Requests for lessons so far.
fn questions(world: &TestWorld) -> usize {
    world.model.requests().len() - fix().len()
}

#[test]
fn what_no_lesson_came_of_is_not_paid_for_again_until_more_is_said() {
    let (world, pull) = with_proposal(project(), Vec::new());
    let first = world.github.post_comment(pull, "rita", WISH);
    // A look only is not remembered.
    world.model.add([lessons(&[]), lessons(&[])]);
    learn(&world, &["--dry-run"]).expect(10);
    learn(&world, &[]).expect(10);
    assert_eq!(questions(&world), 2);
    let learned = learn(&world, &[]).expect(10);
    assert!(learned.stderr.contains("has said anything in `acme/app` since"), "{}", learned.text());
    assert!(learned.stderr.contains("has all of it read again"), "{}", learned.text());
    assert_eq!(questions(&world), 2);
    // Whoever says since when has it read, and so has whoever asks another model.
    world.model.add([lessons(&[]), lessons(&[]), lessons(&[])]);
    learn(&world, &["--since", "30d"]).expect(10);
    learn(&world, &["--model", "gpt-5.2"]).expect(10);
    learn(&world, &[]).expect(10);
    assert_eq!(questions(&world), 5);
    // What is new is read with what was there: a lesson may need both.
    let second = world.github.post_comment(pull, "rita", "Quote them, as I said.");
    let sources = [format!("c{first}"), format!("c{second}")];
    world.model.add([lessons(&[lesson(LESSON, &sources, WISH)])]);
    learn(&world, &[]).expect(0);
    assert_eq!(questions(&world), 6);
}

#[test]
fn a_memory_that_cannot_be_read_is_none() {
    let (world, pull) = with_proposal(project(), Vec::new());
    world.github.post_comment(pull, "rita", WISH);
    world.model.add([lessons(&[]), lessons(&[])]);
    learn(&world, &[]).expect(10);
    let mut files = fs_err::read_dir(world.path("state/learned")).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(!fs_err::read_to_string(&file).unwrap().contains("quote"), "digests only");
    fs_err::write(&file, "{\"model\": 1").unwrap();
    learn(&world, &[]).expect(10);
    assert_eq!(questions(&world), 2);
}

/// A world with another model behind the run's own; what that answers first.
fn with_fallback(turns: Vec<Turn>) -> TestWorld {
    let (world, pull) = with_proposal(project(), Vec::new());
    let comment = world.github.post_comment(pull, "rita", WISH);
    world.model.add(turns);
    world.model.add([lessons(&[lesson(LESSON, &[format!("c{comment}")], WISH)])]);
    let root = world.model.root();
    world
        .set("PATCHWRIGHT_FALLBACK_MODEL", "claude-sonnet-5")
        .set("ANTHROPIC_BASE_URL", root)
        .set("ANTHROPIC_API_KEY", KEY)
}

/// The result of the last run.
fn result(world: &TestWorld) -> Value {
    let run = run(world).unwrap();
    serde_json::from_slice(&fs_err::read(run.join("result.json")).unwrap()).unwrap()
}

#[test]
fn another_model_goes_on_where_the_first_one_cannot() {
    for (turns, why) in [
        (vec![unauthorized()], "switching from `"),
        (vec![say("I see."), refuse("I will not.")], "the model refused to answer"),
    ] {
        let world = with_fallback(turns);
        let learned = learn(&world, &[]).expect(0);
        assert!(learned.stderr.contains(why), "{}", learned.text());
        assert!(learned.stderr.contains("` to `claude-sonnet-5`: "), "{}", learned.text());
        let last = world.model.requests().pop().unwrap();
        assert_eq!(last.path, "/v1/messages");
        // It is asked the question, and told nothing of what the other one said.
        let said = String::from_utf8_lossy(&last.raw).into_owned();
        assert!(said.contains("always quote variables") && !said.contains("I see."), "{said}");
        let result = result(&world);
        let models = result["spending"]["models"].as_array().unwrap().clone();
        assert_eq!(models.last().unwrap()["model"], "claude-sonnet-5", "{result}");
        assert_eq!(models.last().unwrap()["turns"], 1, "{result}");
    }
}

#[test]
fn what_another_model_would_come_to_as_well_ends_the_run() {
    let world = with_fallback(vec![fail(400, "invalid_value", "The request is malformed.")]);
    let learned = learn(&world, &[]).expect(50);
    assert!(!learned.stderr.contains("switching from"), "{}", learned.text());
    world.model.replace(Vec::new());
    // Nobody is left to ask.
    let world = with_fallback(vec![unauthorized(), unauthorized()]);
    world.model.replace([unauthorized(), unauthorized()]);
    learn(&world, &[]).expect(50);
}
