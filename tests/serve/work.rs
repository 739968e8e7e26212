//! What a delivery sets off, and what becomes of it when processes end.

use patchwright_forge::Role;
use patchwright_task::folder::OF_FLEET;
use serde_json::{Value, json};

use super::{Serving, guid, labeled, labeled_at, served};
use crate::support::github::{Fault, GitHub, Kind, Trouble};
use crate::support::model::{ModelServer, Turn, call, fail, unauthorized};
use crate::support::world::{TestWorld, fix, github};

fn world(github: GitHub) -> TestWorld {
    served(TestWorld::new(github.user("ann", Role::Write), fix()))
}

#[test]
fn a_label_ends_in_a_pull_request() {
    let world = world(github()).set("PATCHWRIGHT_LOG_FORMAT", "json");
    let server = Serving::start(&world, &["--room", "1"]);
    let payload = labeled("acme/app", 7, "patchwright", "ann");
    assert_eq!(server.deliver(&guid(1), "issues", &payload).status, 202);
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    let page = server.get("/").body;
    let pull = format!("/acme/app/pull/{}", world.github.pulls()[0].number);
    assert!(page.contains("done: ") && page.contains(&pull), "{page}");
    assert_eq!(server.metric("patchwright_delivery_runs_total{conclusion=\"done\"}"), 1.0);
    assert!(server.metric("patchwright_delivery_cost_usd_total") > 0.0);
    let (code, said) = server.stop(15);
    assert_eq!(code, 0, "{said}");
    // The log is one object a line, with the ids that a reader looks for.
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = |message: &str| {
        let found = lines.iter().find(|line| line["message"] == message);
        found.unwrap_or_else(|| panic!("no `{message}`: {said}"))
    };
    assert_eq!(
        (&line("delivery")["delivery"], &line("delivery")["status"]),
        (&json!(guid(1)), &json!(202))
    );
    let run = line("run");
    assert_eq!(
        (&run["repository"], &run["number"], &run["conclusion"]),
        (&json!("acme/app"), &json!(7), &json!("done"))
    );
    assert!(run["milliseconds"].is_u64() && run["cost_usd"].is_f64(), "{run}");
    assert!(world.runs()[0].ends_with(run["run"].as_str().unwrap()), "{run}");
    assert!(world.runs()[0].join(OF_FLEET).exists(), "it may be removed one day");
    assert_eq!(line("job")["kind"], "delivery");
    assert!(!said.contains("prints 0"), "{said}");
}

#[test]
fn a_body_that_is_sent_again_under_another_guid_starts_nothing() {
    let world = world(github());
    let server = Serving::start(&world, &["--room", "1"]);
    let payload = labeled("acme/app", 7, "patchwright", "ann");
    server.deliver(&guid(1), "issues", &payload);
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    server.deliver(&guid(2), "issues", &payload);
    server.until_idle();
    let same = format!("delivery {} had the same body", guid(1));
    assert!(server.said().contains(&same), "{}", server.said());
    assert_eq!(world.runs().len(), 1);
}

/// Each attempt resumes the run, whose cost is what the first one spent.
#[test]
fn what_a_run_cost_that_fails_in_all_its_attempts_is_counted_once() {
    let broken = || fail(400, "invalid_request_error", "this request is not understood");
    let turns: Vec<_> = fix().into_iter().take(1).chain((0..20).map(|_| broken())).collect();
    let world = served(TestWorld::new(github().user("ann", Role::Write), turns))
        .set("PATCHWRIGHT_TIME_SCALE", "0.01");
    let server = Serving::start(&world, &["--room", "1"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    let failed = "patchwright_delivery_runs_total{conclusion=\"provider_error\"}";
    server.until("no end of the attempts", || server.metric(failed) >= 1.0);
    server.until_idle();
    let result: Value = serde_json::from_str(&world.result("result.json")).unwrap();
    let cost = result["spending"]["cost_usd"].as_f64().unwrap();
    let counted = server.metric("patchwright_delivery_cost_usd_total");
    assert!(cost > 0.0 && (counted - cost).abs() < 1e-9, "counted once: {counted} of {cost}");
}

/// It was given up with what it had cost, and is resumed when its delivery comes again.
#[test]
fn what_a_run_cost_that_was_given_up_and_is_delivered_again_is_counted_once() {
    let broken = || fail(400, "invalid_request_error", "this request is not understood");
    let turns: Vec<_> = fix().into_iter().take(1).chain((0..4).map(|_| broken())).collect();
    let world = served(TestWorld::new(github().user("ann", Role::Write), turns))
        .set("PATCHWRIGHT_TIME_SCALE", "0.01");
    let server = Serving::start(&world, &["--room", "1"]);
    let payload = labeled("acme/app", 7, "patchwright", "ann");
    server.deliver(&guid(1), "issues", &payload);
    let dead = "patchwright_jobs{kind=\"delivery\",state=\"dead\"}";
    server.until("it is not given up", || server.metric(dead) >= 1.0);
    let counted = || server.metric("patchwright_delivery_cost_usd_total");
    assert!(counted() > 0.0, "{}", server.said());
    world.model.add(fix().into_iter().skip(1));
    server.deliver(&guid(1), "issues", &payload);
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    assert_eq!(world.runs().len(), 1, "{}", server.said());
    let result: Value = serde_json::from_str(&world.result("result.json")).unwrap();
    let cost = result["spending"]["cost_usd"].as_f64().unwrap();
    assert!((counted() - cost).abs() < 1e-9, "{} of {cost}", counted());
}

/// A server whose model says no to everything, and one of the same place whose model works.
fn without_and_with_a_model(turn: Turn) -> (TestWorld, TestWorld) {
    let github = github().user("ann", Role::Write);
    let model = ModelServer::conversations(move |_| vec![turn.clone()]);
    let world = served(TestWorld::asking(github, model)).set("PATCHWRIGHT_TIME_SCALE", "0.001");
    let right = TestWorld::new(GitHub::new(), fix());
    (world, right)
}

#[test]
fn what_was_given_up_is_done_when_it_is_delivered_again() {
    let refusal = fail(400, "invalid_request_error", "this request is not understood");
    let (world, right) = without_and_with_a_model(refusal);
    let dead = "patchwright_jobs{kind=\"delivery\",state=\"dead\"}";
    let payload = labeled("acme/app", 7, "patchwright", "ann");
    {
        let server = Serving::start(&world, &["--room", "1"]);
        server.deliver(&guid(1), "issues", &payload);
        server.until("it is not given up", || server.metric(dead) >= 1.0);
        let said = server.said();
        assert!(said.contains("(attempt 1 of 4, again in "), "{said}");
        assert!(said.contains("(given up after 4 attempts; redeliver it to try again)"), "{said}");
        let runs = "patchwright_delivery_runs_total{conclusion=\"provider_error\"}";
        assert_eq!(server.metric(runs), 1.0, "one run, whatever its attempts");
    }
    let world = world.set("OPENAI_BASE_URL", right.model.url());
    let server = Serving::start(&world, &["--room", "1"]);
    let answer = server.deliver(&guid(1), "issues", &payload);
    assert_eq!(answer.status, 202, "{}", answer.body);
    server.until("no pull request", || !world.github.pulls().is_empty());
}

#[test]
fn deliveries_wait_for_a_key_that_is_taken() {
    let (world, right) = without_and_with_a_model(unauthorized());
    {
        let server = Serving::start(&world, &["--room", "1"]);
        server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
        server.until("it is not tried again", || world.model.requests().len() > 5);
        let said = server.said();
        assert_eq!(said.matches("does not take the credential").count(), 1, "{said}");
        assert_eq!(server.metric("patchwright_jobs{kind=\"delivery\",state=\"dead\"}"), 0.0);
        let health = server.get("/healthz");
        assert!(health.body.contains("\"credentials\":\"refused\""), "{}", health.body);
        assert_eq!(health.status, 200, "deliveries are taken as before");
    }
    let world = world.set("OPENAI_BASE_URL", right.model.url());
    let server = Serving::start(&world, &["--room", "1"]);
    server.until("no pull request", || !world.github.pulls().is_empty());
}

#[test]
fn deliveries_wait_for_a_token_that_is_taken() {
    let answer = Kind::Answer(401, json!({"message": "Bad credentials"}));
    let world = world(github().fault(Fault::once("GET", "", answer).times(14)))
        .set("PATCHWRIGHT_TIME_SCALE", "0.001");
    let server = Serving::start(&world, &["--room", "1"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    server.until("no pull request", || !world.github.pulls().is_empty());
    let said = server.said();
    assert_eq!(said.matches("GitHub does not take the credential").count(), 1, "{said}");
    server.until("no end of it", || {
        server.said().contains("takes the credential of this process again")
    });
    assert!(!said.contains("given up"), "{said}");
}

/// The work is done and paid for, and its pull request cannot be opened.
#[test]
fn what_a_run_cost_that_cannot_be_published_is_counted_once() {
    let refusal = json!({"message": "Validation Failed", "errors": [
        {"resource": "PullRequest", "code": "custom", "message": "Not on a Thursday."},
    ]});
    let refused = Fault::once("POST", "/pulls", Kind::Answer(422, refusal)).times(20);
    let world = world(github().fault(refused)).set("PATCHWRIGHT_TIME_SCALE", "0.01");
    let server = Serving::start(&world, &["--room", "1"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    let dead = "patchwright_jobs{kind=\"delivery\",state=\"dead\"}";
    server.until("no end of the attempts", || server.metric(dead) >= 1.0);
    assert_eq!((world.runs().len(), world.model.unused()), (1, 0), "{}", server.said());
    let page = server.get("/runs").body;
    let run = world.runs()[0].file_name().unwrap().to_string_lossy().into_owned();
    assert!(page.contains(&run), "the row names the run: {page}");
    let cost = server.metric("patchwright_delivery_cost_usd_total");
    let result: Value = serde_json::from_str(&world.result("result.json")).unwrap();
    // Costs in JSON have nine decimals at most.
    assert!((cost - result["spending"]["cost_usd"].as_f64().unwrap()).abs() < 1e-9, "{cost}");
}

#[test]
fn several_events_of_one_act_are_one_run() {
    let world = world(github());
    let server = Serving::start(&world, &["--room", "2"]);
    let payload = labeled("acme/app", 7, "patchwright", "ann");
    let mut opened = payload.clone();
    opened["action"] = json!("opened");
    server.deliver(&guid(1), "issues", &opened);
    server.deliver(&guid(2), "issues", &payload);
    server.deliver(&guid(3), "issues", &payload);
    server.deliver(&guid(4), "issues", &labeled("acme/app", 7, "bug", "ann"));
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    assert_eq!((world.runs().len(), world.model.unused()), (1, 0));
    assert_eq!(server.metric("patchwright_delivery_runs_total{conclusion=\"ignored\"}"), 1.0);
}

/// The first waited so long that the second came before it was begun, with a text that the first does not have; or both
/// came at once, because nobody was there to take them.
#[test]
fn a_label_that_is_set_again_while_the_first_waits_has_a_run_of_its_own() {
    for apart in [1_200_000, 0] {
        let world = world(github());
        world.model.add(fix());
        let server = Serving::start(&world, &["--no-worker"]);
        for (number, at) in [(1, "2026-11-20T11:39:00Z"), (2, "2026-11-20T11:59:00Z")] {
            let payload = labeled_at("acme/app", 7, "patchwright", "ann", at);
            server.deliver(&guid(number), "issues", &payload);
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let file = world.path("state/fleet.db");
            let pool =
                sqlx::SqlitePool::connect(&format!("sqlite://{}", file.display())).await.unwrap();
            let earlier = "UPDATE deliveries SET received_at = received_at - $2 WHERE guid = $1";
            let earlier = sqlx::query(earlier).bind(guid(1)).bind(apart);
            assert_eq!(earlier.execute(&pool).await.unwrap().rows_affected(), 1);
        });
        let output = world.run(&["worker", "--until-idle"]).expect(0);
        assert_eq!(world.runs().len(), 2, "{apart}: {}", output.text());
        assert_eq!(world.github.pulls().len(), 1);
    }
}

#[test]
fn what_has_failed_is_not_taken_for_done() {
    let broken = || fail(400, "invalid_request_error", "this request is not understood");
    // One more than the first delivery has attempts.
    let turns: Vec<_> = (0..5).map(|_| broken()).chain(fix()).collect();
    let world = served(TestWorld::new(github().user("ann", Role::Write), turns))
        .set("PATCHWRIGHT_TIME_SCALE", "0.01");
    let server = Serving::start(&world, &["--room", "1"]);
    for (number, at) in [(1, "2026-11-20T11:59:00Z"), (2, "2026-11-20T11:59:01Z")] {
        let payload = labeled_at("acme/app", 7, "patchwright", "ann", at);
        server.deliver(&guid(number), "issues", &payload);
    }
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    assert_eq!(world.github.pulls().len(), 1, "{}", server.said());
}

#[test]
fn a_role_that_cannot_be_read_is_asked_for_again() {
    let forbidden = json!({"message": "Resource not accessible by integration"});
    for kind in [Kind::ErrorBefore(502), Kind::Answer(403, forbidden)] {
        let world = world(github());
        let fault = Fault::once("GET", "/collaborators/ann/permission", kind);
        world.github.fault(fault.times(1_000));
        let server = Serving::start(&world, &["--room", "1"]);
        server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
        server.until("it is not said", || server.said().contains("the permission of `ann`"));
        assert!(world.model.requests().is_empty() && world.github.pulls().is_empty());
        world.github.world().faults.clear();
        server.until("no pull request", || !world.github.pulls().is_empty());
        server.until_idle();
        let said = server.said();
        assert!(!said.contains("refused: ") && said.contains("again in"), "{said}");
    }
}

/// What is done to the world, and what is said of it.
type Ended = (fn(&TestWorld), &'static str);

/// What was deleted or moved is no outage: it is not tried again, and not counted as an error.
#[test]
fn what_is_gone_ends_at_once() {
    let gone: [Ended; 4] = [
        (
            |it| it.github.change(|here| here.issues.get_mut(&7).unwrap().deleted = true),
            "was deleted",
        ),
        (
            |it| {
                let other = it.github.world().repositories[1].id;
                it.github.change(|here| {
                    here.issues.get_mut(&7).unwrap().transferred_to = Some((other, 1));
                });
            },
            "was transferred to `acme/other#1`; ask for it there",
        ),
        (
            |it| it.github.fault_for("acme/app", Trouble::Gone),
            "`acme/app` is gone, or hidden from us",
        ),
        // What GitHub does not say to everybody.
        (
            |it| it.github.change(|here| drop(here.issues.remove(&7).unwrap())),
            "`acme/app#7` is not there, or not for us; redeliver it if that has changed",
        ),
    ];
    for (go, said) in gone {
        let github = github().user("ann", Role::Write).repository("acme/other", &[("a", "b")]);
        let world = world(github.issue("acme/other", 1, "Moved", "Here."));
        let server = Serving::start(&world, &["--no-worker"]);
        server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
        go(&world);
        let output = world.run(&["worker", "--until-idle"]).expect(0);
        let text = output.text();
        assert!(text.contains(said), "{text}");
        assert!(!text.contains("error: ") && !text.contains("again in"), "{text}");
        assert_eq!(server.metric("patchwright_jobs{kind=\"delivery\",state=\"done\"}"), 1.0);
        assert!(world.model.requests().is_empty() && world.github.writes().is_empty(), "{text}");
    }
}

#[test]
fn a_suspended_installation_is_said_and_nothing_is_tried_again() {
    let github = github().user("ann", Role::Write).app("patchwright").installation("acme");
    let world = served(TestWorld::new(github, fix())).with_app_credentials();
    let server = Serving::start(&world, &["--no-worker"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    world.github.change_app(|app| app.installations[0].suspended = true);
    let text = world.run(&["worker", "--until-idle"]).expect(0).text();
    assert!(text.contains("the App's installation at `acme` is suspended; redeliver it"), "{text}");
    assert!(!text.contains("error: ") && !text.contains("again in"), "{text}");
    let output = world.issue().expect(60);
    for part in ["This installation has been suspended", "an owner of the account ends"] {
        assert!(output.stderr.contains(part), "{part}: {}", output.text());
    }
}

#[test]
fn strangers_old_events_and_our_own_acts_set_nothing_off() {
    let github = github().user("eve", Role::Read);
    let world = world(github);
    let server = Serving::start(&world, &["--room", "1"]);
    let stranger = labeled("acme/app", 7, "patchwright", "eve");
    assert_eq!(server.deliver(&guid(1), "issues", &stranger).status, 202);
    let old = labeled_at("acme/app", 7, "patchwright", "ann", "2026-11-17T11:00:00Z");
    assert_eq!(server.deliver(&guid(2), "issues", &old).status, 202);
    server.until_idle();
    let page = server.get("/").body;
    assert!(page.contains("refused: ") && page.contains("may not start work"), "{page}");
    assert!(page.contains("ignored: it happened 73 hours ago"), "{page}");
    let (_, said) = server.stop(15);
    assert!(world.model.requests().is_empty() && world.github.writes().is_empty(), "{said}");
}

#[test]
fn a_worker_elsewhere_does_what_a_server_has_stored() {
    let world = world(github());
    let server = Serving::start(&world, &["--no-worker"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    let output = world.run(&["worker", "--until-idle"]).expect(0);
    assert_eq!(world.github.pulls().len(), 1, "{}", output.text());
    server.until_idle();
    // The page hears of it, and so does that of a server that was started later.
    let told = |page: &str| {
        let list = page.split("Last deliveries").last().unwrap_or_default();
        let row = list.split("acme/app#7").nth(1).unwrap_or_else(|| panic!("{page}"));
        assert!(row.contains("done: ") && row.contains("/pull/"), "{row}");
        assert!(!row.contains("waiting"), "{row}");
    };
    told(&server.get("/").body);
    server.stop(15);
    let server = Serving::start(&world, &["--no-worker"]);
    told(&server.get("/").body);
}

#[test]
fn what_was_acknowledged_is_done_though_the_process_is_killed() {
    let world = world(github());
    let server = Serving::start(&world, &["--no-worker"]);
    let payload = labeled("acme/app", 7, "patchwright", "ann");
    assert_eq!(server.deliver(&guid(1), "issues", &payload).status, 202);
    server.stop(9);
    // Killed again in the middle of the work.
    let mut turns = fix();
    turns.insert(0, call("shell_command", json!({"command": "sleep 3"})));
    world.model.replace(turns);
    let server = Serving::start(&world, &["--room", "1", "--lease", "8s"]);
    server.until("the model is not asked", || !world.model.requests().is_empty());
    server.stop(9);
    world.model.replace(fix());
    let server = Serving::start(&world, &["--room", "1", "--lease", "8s"]);
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    assert_eq!(server.metric("patchwright_jobs{kind=\"delivery\",state=\"done\"}"), 1.0);
    assert_eq!(world.github.pulls().len(), 1);
}

#[test]
fn told_to_stop_it_ends_what_runs_and_takes_nothing_new() {
    let world = world(github());
    let mut turns = fix();
    turns.insert(0, call("shell_command", json!({"command": "sleep 2"})));
    world.model.replace(turns);
    let server = Serving::start(&world, &["--room", "1"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    server.until("the model is not asked", || !world.model.requests().is_empty());
    let (code, said) = server.stop(15);
    assert_eq!(code, 0, "{said}");
    assert_eq!(world.github.pulls().len(), 1, "{said}");
}

#[test]
fn a_stop_does_not_wait_for_the_work_that_it_is_about() {
    let world = world(github());
    let mut turns = fix();
    turns.insert(0, call("shell_command", json!({"command": "sleep 5"})));
    world.model.replace(turns);
    let server = Serving::start(&world, &["--room", "2"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    server.until("the model is not asked", || !world.model.requests().is_empty());
    let comment = world.github.post_comment(7, "ann", "@patchwright stop");
    let mut event = world.github.issue_comment_event(comment);
    for time in ["created_at", "updated_at"] {
        event.payload["comment"][time] = json!("2026-11-20T11:59:30Z");
    }
    assert_eq!(server.deliver(&guid(2), event.name, &event.payload).status, 202);
    server.until_idle();
    assert!(world.github.pulls().is_empty(), "{}", server.said());
    let said = world.github.comments(7);
    assert!(said.iter().any(|it| it.body.contains("**Stopped.**")), "{}", server.said());
}

#[test]
fn what_does_not_end_in_time_goes_back_and_is_done_by_the_next() {
    let world = world(github());
    let mut turns = fix();
    turns.insert(0, call("shell_command", json!({"command": "sleep 5"})));
    world.model.replace(turns);
    let server = Serving::start(&world, &["--room", "1", "--drain", "0s"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    server.until("the model is not asked", || !world.model.requests().is_empty());
    let (code, said) = server.stop(15);
    assert_eq!((code, world.github.pulls().len()), (0, 0), "{said}");
    world.model.replace(fix());
    let server = Serving::start(&world, &["--room", "1"]);
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    assert_eq!(server.metric("patchwright_jobs{kind=\"delivery\",state=\"done\"}"), 1.0);
}
