//! The same sandbox on other engines than the machine's own: what holds there, and what is refused.

use std::time::Duration;

use patchwright_sandbox::docker::DockerSandbox;
use patchwright_sandbox::{ImageSpec, PreparedImage, Sandbox, SandboxError, SandboxSpec};

use super::{sh, spec, try_sh};
use crate::support::docker::{IMAGE, fresh_run};
use crate::support::engines::{Kind, OtherEngine};

/// What every run relies on.
async fn does_its_work(engine: &OtherEngine, sandbox: &DockerSandbox) {
    let run = fresh_run();
    let running = sandbox.start(&spec(&run, IMAGE)).await.unwrap();
    assert_eq!(sh(&running, "id -u; pwd -P; umask >/dev/null").await, "10000\n/pw/workspace");
    // Writable is what is bounded, and nothing else.
    let writable = "for d in . ~ /tmp; do echo x > $d/made && cat $d/made; done";
    assert_eq!(sh(&running, writable).await, "x\nx\nx");
    let closed =
        "for d in / /usr /etc /pw /pw/bin; do (echo x > $d/made) 2>/dev/null && echo $d; done";
    assert_eq!(sh(&running, closed).await, "");
    let full = "for d in /tmp ~ /run /var/tmp /dev/shm; do \
                test -w $d && head -c 70000000 /dev/zero > $d/big 2>/dev/null && echo $d; \
                rm -f $d/big; done; true";
    assert_eq!(sh(&running, full).await, "", "a folder has no bound");
    let status =
        "grep -E '^(NoNewPrivs|Seccomp|CapBnd|CapEff):' /proc/self/status | tr -s '\\t ' ' '";
    let none = "0000000000000000";
    let expected = format!("CapEff: {none}\nCapBnd: {none}\nNoNewPrivs: 1\nSeccomp: 2");
    assert_eq!(sh(&running, status).await, expected);
    assert_eq!(sh(&running, "cd /sys/class/net && echo *").await, "lo");
    let masked = "for f in /proc/kcore /proc/keys /proc/timer_list; do test -s $f && echo $f; done; \
                  ls -A /sys/firmware; echo x > /proc/sys/kernel/hostname";
    let seen = sh(&running, &format!("({masked}) 2>/dev/null; true")).await;
    assert_eq!(seen, "", "something of the machine shows");
    // 256 MB and 64 processes are what it may have.
    let hog = try_sh(&running, "python3 -c 'x = b\"x\" * (400 << 20)' && echo unbounded").await;
    assert!(hog.is_err() || !hog.unwrap().output.contains("unbounded"), "memory has no bound");
    running.stop().await.unwrap();

    let running = sandbox.start(&spec(&run, IMAGE)).await.unwrap();
    let forks = "for i in $(seq 200); do sleep 30 & done 2>/dev/null; wait -n 2>/dev/null; \
                 ps -e 2>/dev/null | grep -c sleep";
    let bomb = try_sh(&running, &format!("timeout 10 sh -c '{forks}'; true")).await;
    let count: Option<usize> =
        bomb.ok().and_then(|ran| ran.output.trim().lines().last()?.parse().ok());
    assert!(count.is_none_or(|count| count <= 64), "{count:?} processes");
    running.stop().await.unwrap();
    sets_up(sandbox, &run).await;
    assert_eq!(left(engine, &run), "", "something is left");
}

/// Setup works as root, is kept, and what it leaves is there.
async fn sets_up(sandbox: &DockerSandbox, run: &str) {
    let commands = [
        format!("mkdir -p /opt && echo {run} > /opt/marker && id -u"),
        "echo home > ~/made && mkdir -p ~/.cache && chown 10000 ~/.cache".to_owned(),
    ];
    let plain = ImageSpec::plain("acme/app".to_owned(), Some(IMAGE), run);
    let asked = ImageSpec { setup: &commands, setup_timeout: Duration::from_mins(2), ..plain };
    let first = sandbox.prepare(&asked).await.unwrap();
    let again = sandbox.prepare(&asked).await.unwrap();
    assert_eq!((first.is_cached, again.is_cached), (false, true));
    assert_eq!(first.reference, again.reference);
    assert!(first.setup.iter().all(|ran| !ran.has_failed()), "{:?}", first.setup);
    let image = PreparedImage { reference: first.reference, ..again };
    let running = sandbox.start(&SandboxSpec { image, ..spec(run, IMAGE) }).await.unwrap();
    let seen =
        sh(&running, "cat /opt/marker ~/made; echo x > ~/.cache/mine && echo writable").await;
    assert_eq!(seen, format!("{run}\nhome\nwritable"));
    running.stop().await.unwrap();
}

/// Containers of the run, and volumes of anybody: nobody else uses this engine.
fn left(engine: &OtherEngine, run: &str) -> String {
    let containers =
        engine.docker(&["ps", "-aq", "--filter", &format!("label=patchwright.run={run}")]);
    let volumes = engine.docker(&["volume", "ls", "-q"]);
    String::from_utf8([containers.stdout, volumes.stdout].concat()).unwrap()
}

async fn connected(engine: &OtherEngine) -> DockerSandbox {
    DockerSandbox::connect(Some(&engine.host)).await.unwrap()
}

#[tokio::test]
async fn docker_with_remapped_users() {
    let Some(engine) = OtherEngine::start(Kind::Remapped) else { return };
    let sandbox = connected(&engine).await;
    let about = sandbox.engine().await.unwrap();
    assert!(about.security.iter().any(|option| option == "name=userns"), "{about:?}");
    does_its_work(&engine, &sandbox).await;
}

/// Without control groups, which it only has on version 2 of them, a rootless Docker takes limits, repeats them,
/// and enforces none.
#[tokio::test]
async fn rootless_docker_bounds_what_is_asked_or_starts_nothing() {
    let Some(engine) = OtherEngine::start(Kind::Rootless) else { return };
    let sandbox = connected(&engine).await;
    let about = sandbox.engine().await.unwrap();
    assert!(about.security.iter().any(|option| option == "name=rootless"), "{about:?}");
    if about.unbounded.is_empty() {
        return does_its_work(&engine, &sandbox).await;
    }
    let run = fresh_run();
    let err = sandbox.start(&spec(&run, IMAGE)).await.err().unwrap();
    let SandboxError::HardeningMismatch(why) = &err else { panic!("{err}") };
    let named = about.unbounded.join(", ");
    assert!(why.contains(&format!("does not bound {named}")), "{why}");
    if about.cgroup_version == "1" {
        assert_eq!(about.unbounded, ["memory", "swap", "cpus", "processes"]);
    }
    assert_eq!(left(&engine, &run), "");
}

/// Podman gives the root of a volume to the container's user, so that a command could replace the guest.
#[tokio::test]
async fn podman_behind_dockers_socket_is_refused_in_words() {
    let Some(engine) = OtherEngine::start(Kind::Podman) else { return };
    let sandbox = connected(&engine).await;
    assert_eq!(sandbox.engine().await.unwrap().name, "podman");
    let run = fresh_run();
    let err = sandbox.start(&spec(&run, IMAGE)).await.err().unwrap();
    let SandboxError::HardeningMismatch(why) = &err else { panic!("{err}") };
    assert!(why.starts_with("Podman gives the root of a volume"), "{why}");
    assert_eq!(left(&engine, &run), "");
}
