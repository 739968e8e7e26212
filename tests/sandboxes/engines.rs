//! Docker's sandbox on other engines than the machine's own: what holds there, and what is refused.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bollard::models::{ContainerConfig, ContainerCreateBody};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, CreateContainerOptions, RemoveContainerOptions,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use patchwright_sandbox::docker::{DockerSandbox, WarmLimits};
use patchwright_sandbox::image::NamedBy;
use patchwright_sandbox::services::Service;
use patchwright_sandbox::{ImageSpec, PreparedImage, Sandbox, SandboxError, SandboxSpec};

use super::{sh, spec, try_sh};
use crate::exec::project;
use crate::support::docker::{BUSYBOX, IMAGE, fresh_run};
use crate::support::engines::{Kind, OtherEngine};
use crate::support::world::{TestWorld, fix};

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
    let limits = "grep -E '^Max (core file|file size|open)' /proc/self/limits | tr -s ' '";
    let expected = "Max file size 2147483648 2147483648 bytes\n\
                    Max core file size 0 0 bytes\nMax open files 4096 4096 files";
    assert_eq!(trimmed(&sh(&running, limits).await), expected);
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

fn trimmed(lines: &str) -> String {
    lines.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
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

/// Containers of the run, or of any, and volumes of anybody: nobody else uses this engine. Podman lists for a moment
/// what it has said to be removed.
fn left(engine: &OtherEngine, run: &str) -> String {
    let of_run = if run.is_empty() { String::new() } else { format!("={run}") };
    let label = format!("label=patchwright.run{of_run}");
    let listed = || {
        let containers = engine.docker(&["ps", "-aq", "--filter", &label]);
        let volumes = engine.docker(&["volume", "ls", "-q"]);
        String::from_utf8([containers.stdout, volumes.stdout].concat()).unwrap()
    };
    settled(listed)
}

/// What it says when it has become empty, or after ten seconds.
fn settled(says: impl Fn() -> String) -> String {
    let began = Instant::now();
    loop {
        let said = says();
        if said.is_empty() || began.elapsed() > Duration::from_secs(10) {
            return said;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
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

/// The whole path of a run: container, check from inside, work, checks, and nothing left.
#[tokio::test]
async fn podman_behind_dockers_socket() {
    let Some(engine) = OtherEngine::start(Kind::Podman) else { return };
    let sandbox = connected(&engine).await;
    assert_eq!(sandbox.engine().await.unwrap().name, "podman");
    does_its_work(&engine, &sandbox).await;
    resists(&sandbox).await;
    waits_and_is_swept(&engine).await;
    has_services(&engine, &sandbox).await;
    for (volume, why) in [
        ("/pw", "the image declares a volume at `/pw`"),
        ("/pw/bin/", "the image declares a volume at `/pw/bin`"),
    ] {
        let image = image_with(&engine, &format!("VOLUME {volume}")).await;
        let err = sandbox.start(&spec(&fresh_run(), &image)).await.err().unwrap();
        let SandboxError::HardeningMismatch(said) = &err else { panic!("{err}") };
        assert!(said.starts_with(why), "{said}");
    }
    assert_eq!(left(&engine, ""), "", "something is left");
    a_whole_run(&engine);
    assert_eq!(left(&engine, ""), "", "something is left of the run");
}

/// What a command would do that wants more than it has.
async fn resists(sandbox: &DockerSandbox) {
    let run = fresh_run();
    let running = sandbox.start(&spec(&run, IMAGE)).await.unwrap();
    for attack in [
        // The guest, and what commands find beside it.
        "cp /bin/sh /pw/patchwright-guest",
        "rm -f /pw/patchwright-guest && test ! -e /pw/patchwright-guest",
        "mv /pw/patchwright-guest /pw/workspace/guest",
        "mv /pw/bin /pw/other",
        "ln -sf /bin/sh /pw/bin/rg",
        "chmod 777 /pw/patchwright-guest",
        "chmod 777 /pw",
        // Folders that Podman would open by itself, and the machine's.
        "echo x > /run/x",
        "echo x > /var/tmp/x",
        "mkdir /sys/fs/cgroup/x /sys/fs/cgroup/memory/x",
        "echo 9999 > /sys/fs/cgroup/pids/pids.max",
        "echo x > /etc/hosts",
        "echo x > /etc/passwd",
        "echo x > /proc/sys/kernel/core_pattern",
        "head -c 1 /proc/kcore | grep -q .",
        "head -c 1 /proc/keys | grep -q .",
        "test -n \"$(ls -A /sys/firmware)\"",
        "mount -t tmpfs none /tmp",
        "umount /proc/keys",
        "mknod /tmp/disk b 254 0",
        "unshare -U true",
        "test -S /run/podman/podman.sock || test -S /var/run/docker.sock",
        "ulimit -n 100000",
        "ulimit -u 100000",
    ] {
        let ended = try_sh(&running, &format!("({attack}) 2>/dev/null")).await.unwrap();
        assert_ne!(ended.exit_code, 0, "{attack}");
    }
    // Files in memory have no number of their own here: they count as memory.
    let seen =
        sh(&running, "grep -c ' /tmp ' /proc/self/mountinfo; env | grep -c '^container='").await;
    assert_eq!(seen, "1\n1");
    running.stop().await.unwrap();
}

/// One waits and is handed over with its run's name; one whose owner is gone is swept.
async fn waits_and_is_swept(engine: &OtherEngine) {
    let limits = WarmLimits { count: 1, age: Duration::from_mins(5), memory_bytes: 1 << 30 };
    let sandbox = connected(engine).await.with_warm(limits);
    let first = fresh_run();
    let running = sandbox.start(&spec(&first, BUSYBOX)).await.unwrap();
    running.stop().await.unwrap();
    let names = || {
        let listed = engine.docker(&["ps", "-a", "--format", "{{.Names}} {{.Status}}"]);
        String::from_utf8(listed.stdout).unwrap()
    };
    for _ in 0..300 {
        if names().contains("-warm-waiting Up") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Its guest has answered a moment after it runs.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let second = fresh_run();
    let running = sandbox.start(&spec(&second, BUSYBOX)).await.unwrap();
    assert!(names().contains(&format!("patchwright-{second}-agent Up")), "{}", names());
    assert_eq!(sh(&running, "id -u").await, "10000");
    let swept = sandbox.sweep(Some(&second)).await.unwrap();
    assert_eq!(swept, [format!("patchwright-{second}-agent")]);
    running.stop().await.unwrap();
    sandbox.drop_warm().await;
    let others = connected(engine).await.sweep(None).await.unwrap();
    assert_eq!(others, Vec::<String>::new(), "what lives is left alone");
    assert_eq!(settled(names), "");
}

/// A server beside a sandbox, with what a service may have and no more.
async fn has_services(engine: &OtherEngine, sandbox: &DockerSandbox) {
    let server = "mkdir /shown && cat /proc/self/status >/shown/status && env >/shown/environ && \
                  exec python3 -m http.server 8000 --directory /shown";
    let changes = format!("CMD [\"sh\", \"-c\", \"{server}\"]\nEXPOSE 8000/tcp");
    let image = image_with(engine, &changes).await;
    let service = |name: &str, health: Option<&str>| Service {
        name: name.to_owned(),
        image: image.clone(),
        named_by: NamedBy::Operator,
        env: BTreeMap::from([("SET".to_owned(), "yes".to_owned())]),
        health: health.map(str::to_owned),
        ports: Vec::new(),
    };
    let healthy = "python3 -c 'import urllib.request as r; r.urlopen(\"http://localhost:8000\")'";
    for health in [None, Some(healthy)] {
        let run = fresh_run();
        let asked = SandboxSpec { services: vec![service("web", health)], ..spec(&run, IMAGE) };
        let running = sandbox.start(&asked).await.unwrap();
        assert_eq!(running.services[0].problem, None);
        let get = |name: &str| {
            format!(
                "python3 -c 'import urllib.request as r; print(r.urlopen(\"http://web:8000/{name}\").read().decode())'"
            )
        };
        let status = sh(&running, &get("status")).await;
        for line in [
            "CapEff:\t00000000000000db",
            "CapBnd:\t00000000000000db",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
        ] {
            assert!(status.contains(line), "{line}: {status}");
        }
        let environ = sh(&running, &get("environ")).await;
        assert!(environ.contains("SET=yes"), "{environ}");
        assert_eq!(sh(&running, "cd /sys/class/net && echo *").await, "lo");
        running.stop().await.unwrap();
        assert_eq!(left(engine, ""), "", "something is left");
    }
    // One that ends at once, which Podman describes in words of its own for a moment.
    let run = fresh_run();
    let ends = image_with(engine, "CMD [\"sh\", \"-c\", \"echo no password; exit 3\"]").await;
    let ending = Service { image: ends, ..service("web", Some("true")) };
    let asked = SandboxSpec { services: vec![ending], ..spec(&run, IMAGE) };
    let running = sandbox.start(&asked).await.unwrap();
    let state = &running.services[0];
    let problem = state.problem.as_deref().unwrap_or_default();
    assert!(problem.starts_with("it ended"), "{state:?}");
    assert!(state.log.contains("no password"), "{state:?}");
    running.stop().await.unwrap();
    // The service of a killed run goes before its sandbox, or Podman keeps both.
    let run = fresh_run();
    let asked = SandboxSpec { services: vec![service("web", None)], ..spec(&run, IMAGE) };
    let running = sandbox.start(&asked).await.unwrap();
    let swept = sandbox.sweep(Some(&run)).await.unwrap();
    let names = ["agent-web", "agent"].map(|purpose| format!("patchwright-{run}-{purpose}"));
    assert_eq!(swept, names);
    running.stop().await.unwrap();
}

/// The test image with these instructions, made by the engine.
async fn image_with(engine: &OtherEngine, changes: &str) -> String {
    let socket = engine.host.trim_start_matches("unix://");
    let api = Docker::connect_with_unix(socket, 60, API_DEFAULT_VERSION).unwrap();
    let api = api.negotiate_version().await.unwrap();
    let asked = ContainerCreateBody {
        image: Some(IMAGE.to_owned()),
        cmd: Some(vec!["true".to_owned()]),
        ..ContainerCreateBody::default()
    };
    let made = api.create_container(None::<CreateContainerOptions>, asked).await.unwrap();
    let options =
        CommitContainerOptionsBuilder::default().container(&made.id).changes(changes).build();
    let image = api.commit_container(options, ContainerConfig::default()).await.unwrap();
    api.remove_container(&made.id, None::<RemoveContainerOptions>).await.unwrap();
    image.id
}

fn a_whole_run(engine: &OtherEngine) {
    let world = TestWorld::local(fix()).in_docker().set("DOCKER_HOST", engine.host.as_str());
    project(&world);
    let exec = ["exec", "Make add add", "--repo", "project", "--out", "out", "--setup", "id -u"];
    let output = world.run(&exec).expect(0);
    let text = output.text();
    assert!(text.contains("check on head: `sh ./test.sh` passed"), "{text}");
    let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
    assert!(patch.contains("+  echo $(($1 + $2))"), "{patch}");
}

/// A rootless Podman ignores limits where control groups are of version 1, and does not say so when it is asked; the
/// container shows it.
#[tokio::test]
async fn rootless_podman_bounds_what_is_asked_or_starts_nothing() {
    let Some(engine) = OtherEngine::start(Kind::RootlessPodman) else { return };
    let sandbox = connected(&engine).await;
    let about = sandbox.engine().await.unwrap();
    let run = fresh_run();
    match sandbox.start(&spec(&run, IMAGE)).await {
        Ok(running) => {
            running.stop().await.unwrap();
            assert_eq!(about.cgroup_version, "2");
            does_its_work(&engine, &sandbox).await;
        }
        Err(SandboxError::HardeningMismatch(why)) => {
            assert!(why.contains("the engine does not bound memory"), "{why}");
            if about.cgroup_version == "1" {
                assert_eq!(about.unbounded, ["memory", "swap", "cpus", "processes"]);
            }
        }
        Err(err) => panic!("{err}"),
    }
    assert_eq!(left(&engine, &run), "");
}
