//! What waits for a service, and what need not: other tokens go on when one is limited, and a campaign goes on when one
//! of its models does.

use std::process::Child;
use std::time::Duration;

use patchwright_fleet::store::Store;
use patchwright_types::campaign::TargetState;
use sha2::{Digest, Sha256};

use super::{TURNS, start, stored, turns, until, world};
use crate::batch_run::{CAMPAIGN, batch, counted, pulls, states, write};
use crate::support::github::{Fault, GitHub, Kind};
use crate::support::model::ModelServer;
use crate::support::world::{FILES, TestWorld};

const OTHER_TOKEN: &str = "ghp_another0token0of0the0same0person0000";

fn log(world: &TestWorld, name: &str) -> String {
    fs_err::read_to_string(world.path(&format!("{name}.log"))).unwrap_or_default()
}

fn end(mut worker: Child) {
    let pid = rustix::process::Pid::from_child(&worker);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(worker.wait().unwrap().success());
}

fn url(world: &TestWorld) -> String {
    format!("sqlite:{}", world.path("state/fleet.db").display())
}

/// Jobs by the worker that had them last; those that nobody has had have an empty name.
fn holders(world: &TestWorld) -> Vec<String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let file = world.path("state/fleet.db");
        let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}", file.display())).await;
        let owners = "SELECT COALESCE(owner, '') FROM jobs ORDER BY id";
        sqlx::query_scalar(owners).fetch_all(&pool.unwrap()).await.unwrap()
    })
}

/// As the store knows a token.
fn fingerprint(world: &TestWorld) -> String {
    let mut hash = Sha256::new();
    hash.update(world.github.api_url().as_bytes());
    hash.update([0]);
    hash.update(world.github.token().as_bytes());
    format!("{:016x}", u64::from_be_bytes(hash.finalize()[..8].try_into().unwrap()))
}

/// GitHub takes nothing of the world's own token for so many minutes, or takes it again.
fn limit(world: &TestWorld, minutes: i64) {
    let (url, token) = (url(world), fingerprint(world));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Store::open(&url).await.unwrap();
        store.close_pace(&token, minutes * 60_000).await.unwrap();
        if minutes == 0 {
            let pool = sqlx::AnyPool::connect(&url).await.unwrap();
            let open = sqlx::query("UPDATE pace SET closed_until = 0 WHERE token = $1");
            assert_eq!(open.bind(token).execute(&pool).await.unwrap().rows_affected(), 1);
        }
        store.close().await;
    });
}

#[test]
fn a_worker_whose_token_is_limited_takes_nothing_until_that_is_over_and_others_go_on() {
    let world = world(2);
    {
        let mut github = world.github.world();
        let own = github.tokens[world.github.token()].clone();
        github.tokens.insert(OTHER_TOKEN.to_owned(), own);
        github.sync_git();
    }
    let queue = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--detach"];
    world.run(&queue).expect(0);
    limit(&world, 20);
    let limited = start(&world, "limited", &[], &[]);
    until("the notice", || log(&world, "limited").contains("limits this token for another"));
    // Two jobs wait, and it has room for one.
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(holders(&world), ["", ""], "{}", log(&world, "limited"));
    assert!(world.model.requests().is_empty());

    let mut other = start(&world, "other", &["--until-idle"], &[("GITHUB_TOKEN", OTHER_TOKEN)]);
    until("the end", || other.try_wait().unwrap().is_some());
    assert!(other.wait().unwrap().success(), "{}", log(&world, "other"));
    assert_eq!(pulls(&world).len(), 2);
    let name = holders(&world)[0].clone();
    assert!(holders(&world).iter().all(|holder| *holder == name), "{:?}", holders(&world));
    assert!(log(&world, "other").contains(name.split('@').next().unwrap()));

    // There is new work, and the limit ends.
    let again = CAMPAIGN.replace("Make it add.", "Make it add again.");
    write(&world, &again.replace("name: sums", "name: again"));
    let mut command = world.command(&queue);
    assert!(command.env("GITHUB_TOKEN", OTHER_TOKEN).output().unwrap().status.success());
    let before = holders(&world);
    assert!(before.iter().filter(|holder| holder.is_empty()).count() == 2, "{before:?}");
    limit(&world, 0);
    until("its turn", || !holders(&world).iter().any(String::is_empty));
    assert!(log(&world, "limited").contains("limit on this token is over"));
    end(limited);
}

/// An App that is installed at two organisations, and a campaign for a repository of each.
fn world_of_two() -> TestWorld {
    let github = GitHub::new().organization("acme").repository("acme/app", FILES);
    let github = github.app("patchwright").installation("acme");
    let github = github.organization("beta").repository("beta/app", FILES).installation("beta");
    let world = TestWorld::asking(github, ModelServer::conversations(|_| turns()));
    let listed = CAMPAIGN.replace("organizations: [acme]", "repositories: [acme/app, beta/app]");
    write(&world, &listed);
    let world = world.with_app_credentials();
    world.run(&["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--detach"]).expect(0);
    world
}

const TEN_HOURS: Kind = Kind::Primary { reset_in: 36_000, window: Duration::ZERO };

#[test]
fn there_is_no_forecast_while_nothing_is_left_but_a_rate_limit() {
    let world = world_of_two();
    world.github.fault(Fault::once("POST", "/repos/acme/app/pulls", TEN_HOURS));
    let worker = start(&world, "worker", &[], &[]);
    let status = || batch(&world, &["status"]).stdout;
    until("the wait", || status().contains("waits for the end of GitHub's rate limit, at 20"));
    until("the other's pull request", || status().contains(r#""state":"open""#));
    assert!(status().contains(r#""eta":null"#), "{}", status());
    assert!(!status().contains("from now"), "that was said some time ago: {}", status());
    end(worker);
}

#[test]
fn an_app_that_is_limited_at_one_organization_works_on_for_the_others() {
    let world = world_of_two();
    world.github.fault(Fault::once("GET", "/repos/acme/app/rules", TEN_HOURS));
    // It has room for one, and takes what is limited first.
    let worker = start(&world, "worker", &[], &[]);
    until("the other's pull request", || !world.github.of("beta/app").pulls().is_empty());
    until("the notice", || log(&world, "worker").contains("limits this App at `acme` for another"));
    assert!(!log(&world, "worker").contains("limits this token"), "{}", log(&world, "worker"));
    assert!(world.github.of("acme/app").pulls().is_empty());
    assert_eq!(world.model.requests().len(), TURNS, "{}", log(&world, "worker"));
    end(worker);

    // What was begun first comes in its turn.
    let (targets, _) = stored(&url(&world));
    let acme = targets.iter().find(|target| target.repository == "acme/app").unwrap();
    assert_eq!(acme.state, TargetState::Queued, "{acme:?}");
}

#[test]
fn a_model_that_is_away_holds_nothing_back_that_another_of_the_list_can_do() {
    // The second model has a server of its own, and both are away.
    let second = ModelServer::conversations(|_| turns());
    let world = world(4);
    let fallback = format!("gpt-5.2-codex@{}", second.url());
    let world = world.set("PATCHWRIGHT_FALLBACK_MODEL", fallback);
    let world = world.set("PATCHWRIGHT_TIME_SCALE", "0.01");
    world.model.is_down(true);
    second.is_down(true);
    let queue = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--detach"];
    world.run(&queue).expect(0);
    let names = ["one", "two"];
    let mut workers = names.map(|name| super::worker(&world, name));
    let logs = || names.map(|name| log(&world, name)).concat();
    until("the pause", || logs().contains("no attempt is counted"));
    assert!(world.model.requests().is_empty() && second.requests().is_empty());

    // Only the second one comes back.
    second.is_down(false);
    for worker in &mut workers {
        until("the end", || worker.try_wait().unwrap().is_some());
        assert!(worker.wait().unwrap().success(), "{}", logs());
    }
    let status = batch(&world, &["status"]).expect(0);
    assert!(status.stdout.contains("\"outages\":[]"), "nothing is waited for: {}", status.text());
    assert!(logs().contains("works again"), "{}", logs());
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 4)]), "{}", output.text());
    let (targets, _) = stored(&url(&world));
    assert!(targets.iter().all(|target| target.attempts == 1), "{targets:?}");
    assert!(world.model.requests().is_empty(), "the first one was away all the time");
    assert_eq!(second.requests().len(), 4 * super::TURNS);
}

/// The campaign's own model is asked by nobody, so only an attempt can notice that its own answers again.
#[test]
fn models_of_attempts_end_the_outage_that_they_began() {
    let second = ModelServer::conversations(|_| turns());
    let world = world(2);
    let world = world.set("PATCHWRIGHT_ATTEMPT_MODEL", format!("gpt-5.2-codex@{}", second.url()));
    let world = world.set("PATCHWRIGHT_ATTEMPTS", "2").set("PATCHWRIGHT_TIME_SCALE", "0.01");
    second.is_down(true);
    let queue = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--detach"];
    world.run(&queue).expect(0);
    let mut worker = super::worker(&world, "one");
    until("the pause", || log(&world, "one").contains("no attempt is counted"));
    second.is_down(false);
    until("the end", || worker.try_wait().unwrap().is_some());
    assert!(worker.wait().unwrap().success(), "{}", log(&world, "one"));
    let status = batch(&world, &["status"]).expect(0);
    assert!(status.stdout.contains("\"outages\":[]"), "nothing is waited for: {}", status.text());
    assert_eq!(pulls(&world).len(), 2, "{}", log(&world, "one"));
}
