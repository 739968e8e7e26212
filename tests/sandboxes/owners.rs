//! Whose containers they are: processes that cannot see each other, with the same names and numbers, on one engine.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bollard::query_parameters::{InspectContainerOptions, ListVolumesOptionsBuilder};
use patchwright_sandbox::Sandbox;
use patchwright_sandbox::docker::{DockerSandbox, HeartbeatTiming};

use super::{assert_nothing_left, sh, spec, started};
use crate::issue::{containers, docker_answers};
use crate::resume::{replies, rest, until};
use crate::support::docker::{BUSYBOX, RealDocker, docker};
use crate::support::model::{Turn, call};
use crate::support::world::{TestWorld, fix, github};

/// The program in process and host name spaces of its own, in which it has the number and the host name of every
/// other that is started like this.
#[expect(clippy::disallowed_methods, reason = "starts the program under test")]
fn twin(world: &TestWorld, args: &[&str]) -> Child {
    let program = world.command(args);
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args(["--pid", "--fork", "--kill-child", "--mount-proc", "--uts"])
        .args(["sh", "-c", "hostname twin && exec \"$@\"", "sh"])
        .arg(program.get_program())
        .args(program.get_args())
        .current_dir(world.folder.path())
        .env_clear()
        .envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What repairs the project, after a command that goes on until it is let go.
fn held() -> Vec<Turn> {
    let wait = "until [ -e /tmp/go ]; do sleep 0.1; done; sh test.sh";
    let args = serde_json::json!({"command": wait, "timeout_ms": 300_000});
    let mut turns = vec![call("shell_command", args)];
    turns.extend(fix().into_iter().skip(1));
    turns
}

/// The name of the only container of a world's run.
fn only_container(world: &TestWorld) -> String {
    let found = containers(world);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].split(' ').next().unwrap().to_owned()
}

#[expect(clippy::disallowed_methods, reason = "asks the real Docker")]
fn let_go(container: &str) {
    let done = Command::new("docker").args(["exec", container, "touch", "/tmp/go"]).status();
    assert!(done.unwrap().success(), "{container} is gone");
}

#[test]
fn a_live_run_survives_a_twin_with_its_number_and_its_host_name() {
    if !docker_answers() {
        return;
    }
    let (one, two) = (TestWorld::new(github(), held()), TestWorld::new(github(), fix()));
    let (one, two) = (one.in_docker(), two.in_docker());
    let first = twin(&one, &["issue", "acme/app#7"]);
    until(&one, |journal| journal.contains("\"is\":\"call_started\""));
    let container = only_container(&one);
    // It sweeps, works and ends; so does one that sees every process of the machine.
    let second = twin(&two, &["issue", "acme/app#7"]);
    two.wait(second).expect(0);
    let third = TestWorld::new(github(), fix()).in_docker();
    third.issue().expect(0);
    let_go(&container);
    one.wait(first).expect(0);
    assert_eq!(one.github.pulls().len(), 1);
    for world in [&one, &two, &third] {
        assert_eq!(containers(world), Vec::<String>::new());
    }
}

#[test]
fn a_killed_run_is_resumed_and_its_container_gone_though_nobody_can_see_its_number() {
    if !docker_answers() {
        return;
    }
    let world = TestWorld::new(github(), held()).in_docker();
    let mut child = twin(&world, &["issue", "acme/app#7"]);
    until(&world, |journal| journal.contains("\"is\":\"call_started\""));
    let before = only_container(&world);
    child.kill().unwrap();
    world.wait(child);
    world.model.settle();
    assert_eq!(only_container(&world), before, "it is left");
    let lost = world.model.requests().len() - replies(&world);
    assert_eq!(lost, 0);
    world.model.replace(rest(&world, fix()));
    let again = twin(&world, &["issue", "acme/app#7", "--verbose"]);
    let output = world.wait(again).expect(0);
    assert!(output.stderr.contains(&format!("removed {before}")), "{}", output.text());
    assert_eq!(containers(&world), Vec::<String>::new());
    assert_eq!(world.github.pulls().len(), 1);
    let locks = fs_err::read_dir(world.path("state/owners")).unwrap().count();
    assert_eq!(locks, 0, "a lock is left");
}

/// Beats fast, so that a test can see it die.
const FAST: HeartbeatTiming =
    HeartbeatTiming { every: Duration::from_millis(300), counts: Duration::from_secs(3) };

async fn connected() -> DockerSandbox {
    DockerSandbox::connect(None).await.unwrap()
}

async fn is_there(docker: &RealDocker, id: &str) -> bool {
    docker.engine.inspect_container(id, None::<InspectContainerOptions>).await.is_ok()
}

/// The owner's name on a container.
async fn owner_of(docker: &RealDocker, id: &str) -> String {
    let made = docker.engine.inspect_container(id, None::<InspectContainerOptions>).await.unwrap();
    made.config.unwrap().labels.unwrap()["patchwright.owner"].clone()
}

/// How many volumes carry this owner's name and are no container's: its heartbeats.
async fn heartbeats(docker: &RealDocker, owner: &str) -> usize {
    let filters = std::collections::HashMap::from([
        ("label".to_owned(), vec![format!("patchwright.owner={owner}")]),
        ("dangling".to_owned(), vec!["true".to_owned()]),
    ]);
    let options = ListVolumesOptionsBuilder::default().filters(&filters).build();
    docker.engine.list_volumes(Some(options)).await.unwrap().volumes.unwrap_or_default().len()
}

/// A process of its own with a container, as far as the engine can see; dropped without a word, as if killed.
struct Process {
    runtime: Option<tokio::runtime::Runtime>,
    container: String,
}

impl Process {
    async fn start(run: &str, timing: HeartbeatTiming) -> Process {
        let run = run.to_owned();
        let started = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let container = runtime.block_on(async {
                let sandbox = connected().await.with_heartbeat(timing);
                let running = sandbox.start(&spec(&run, BUSYBOX)).await.unwrap();
                let id = running.id.clone();
                // Its streams are the runtime's.
                tokio::spawn(async move {
                    std::future::pending::<()>().await;
                    drop((running, sandbox));
                });
                id
            });
            Process { runtime: Some(runtime), container }
        });
        started.await.unwrap()
    }

    fn kill(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[tokio::test]
async fn what_a_process_left_that_nobody_can_judge_goes_when_its_heartbeat_has_stopped() {
    let Some(docker) = docker().await else { return };
    let mut process = Process::start(&docker.run, FAST).await;
    let owner = owner_of(&docker, &process.container).await;
    let others = connected().await;
    // Longer than one beat counts: it lives by the next ones.
    tokio::time::sleep(FAST.counts + Duration::from_secs(2)).await;
    others.sweep(None).await.unwrap();
    assert!(is_there(&docker, &process.container).await, "a live one was swept");
    assert!(heartbeats(&docker, &owner).await >= 1);
    process.kill();
    others.sweep(None).await.unwrap();
    assert!(is_there(&docker, &process.container).await, "its last beat still counts");
    tokio::time::sleep(FAST.counts + Duration::from_secs(1)).await;
    others.sweep(None).await.unwrap();
    assert!(!is_there(&docker, &process.container).await, "a dead one was left");
    assert_eq!(heartbeats(&docker, &owner).await, 0);
    assert_nothing_left(&docker).await;
}

/// It was suspended, or somebody removed its volumes: the streams of its guests show that it is there.
#[tokio::test]
async fn a_run_without_a_heartbeat_is_left_alone_while_its_guest_runs() {
    let Some(docker) = docker().await else { return };
    let silent = HeartbeatTiming { every: Duration::from_hours(1), counts: Duration::from_secs(1) };
    let mut process = Process::start(&docker.run, silent).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let others = connected().await;
    others.sweep(None).await.unwrap();
    assert!(is_there(&docker, &process.container).await, "a live one was swept");
    process.kill();
    for _ in 0..20 {
        others.sweep(None).await.unwrap();
        if !is_there(&docker, &process.container).await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(!is_there(&docker, &process.container).await, "a dead one was left");
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn a_heartbeat_is_there_with_the_first_container_and_gone_with_the_last() {
    let Some(docker) = docker().await else { return };
    let (one, two) = (started(&docker).await, started(&docker).await);
    let owner = owner_of(&docker, &one.id).await;
    assert_eq!(owner_of(&docker, &two.id).await, owner);
    assert_eq!(heartbeats(&docker, &owner).await, 1);
    one.stop().await.unwrap();
    assert_eq!(heartbeats(&docker, &owner).await, 1);
    assert_eq!(sh(&two, "echo works").await, "works");
    two.stop().await.unwrap();
    assert_eq!(heartbeats(&docker, &owner).await, 0);
    let three = started(&docker).await;
    assert_eq!(heartbeats(&docker, &owner).await, 1);
    three.stop().await.unwrap();
    assert_eq!(heartbeats(&docker, &owner).await, 0);
    assert_nothing_left(&docker).await;
}
