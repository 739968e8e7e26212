//! What a container is, seen from outside (`docker inspect`) and from inside, and what attacks on it
//! do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::InspectContainerOptions;
use expect_test::expect;
use patchwright_guest::tool::OutOfMemory;
use patchwright_sandbox::client::GuestError;
use patchwright_sandbox::{ContainerLimits, Sandbox};
use serde_json::json;

use super::{assert_nothing_left, sh, spec, started, try_sh};
use crate::support::docker::{IMAGE, docker};

/// What an inspection shows of the container's walls, one line each.
fn table(made: ContainerInspectResponse, run: &str) -> String {
    let host = serde_json::to_value(made.host_config.unwrap()).unwrap();
    let config = serde_json::to_value(made.config.unwrap()).unwrap();
    let mut table = String::new();
    for key in [
        "CapDrop",
        "CapAdd",
        "SecurityOpt",
        "Privileged",
        "NetworkMode",
        "IpcMode",
        "PidMode",
        "UsernsMode",
        "Memory",
        "MemorySwap",
        "NanoCpus",
        "PidsLimit",
        "ReadonlyRootfs",
        "Tmpfs",
        "Ulimits",
        "ShmSize",
        "Init",
        "AutoRemove",
        "LogConfig",
        "Binds",
        "Devices",
        "RestartPolicy",
    ] {
        // Engines differ in how they say nothing, and in the order of maps.
        let value = match host[key].as_object() {
            Some(map) => json!(map.iter().collect::<BTreeMap<_, _>>()).to_string(),
            None => host[key].to_string(),
        };
        let value = if value == "null" { "[]" } else { &value };
        writeln!(table, "{key}: {value}").unwrap();
    }
    for key in ["User", "Hostname", "Env", "Entrypoint", "Cmd", "Healthcheck", "Tty", "OpenStdin"] {
        writeln!(table, "{key}: {}", config[key]).unwrap();
    }
    for mount in made.mounts.unwrap() {
        let kind = mount.typ.unwrap();
        writeln!(table, "mount: {kind} {} {}", mount.destination.unwrap(), mount.rw.unwrap())
            .unwrap();
    }
    let labels = config["Labels"].as_object().unwrap();
    let mut names: Vec<&str> =
        labels.keys().filter_map(|key| key.strip_prefix("patchwright.")).collect();
    names.retain(|name| *name != "test-image");
    names.sort_unstable();
    writeln!(table, "run: {}", labels["patchwright.run"] == run).unwrap();
    writeln!(table, "labels: {}", names.join(" ")).unwrap();
    table
}

#[tokio::test]
async fn inspect_shows_every_default() {
    let Some(docker) = docker().await else { return };
    let mut spec = spec(&docker.run, IMAGE);
    spec.limits = ContainerLimits { cpus: 1.0, ..ContainerLimits::default() };
    let running = docker.sandbox.start(&spec).await.unwrap();
    let made = docker
        .engine
        .inspect_container(&running.id, None::<InspectContainerOptions>)
        .await
        .unwrap();
    running.stop().await.unwrap();
    expect![[r#"
        CapDrop: ["ALL"]
        CapAdd: []
        SecurityOpt: ["no-new-privileges"]
        Privileged: false
        NetworkMode: "none"
        IpcMode: "private"
        PidMode: ""
        UsernsMode: ""
        Memory: 4294967296
        MemorySwap: 4294967296
        NanoCpus: 1000000000
        PidsLimit: 512
        ReadonlyRootfs: true
        Tmpfs: {"/home/agent":"rw,exec,nosuid,nodev,mode=0700,uid=10000,gid=10000,size=1073741824,nr_inodes=200000","/tmp":"rw,exec,nosuid,nodev,mode=1777,size=1073741824,nr_inodes=200000"}
        Ulimits: [{"Name":"core","Soft":0,"Hard":0},{"Name":"nofile","Soft":4096,"Hard":4096},{"Name":"fsize","Soft":2147483648,"Hard":2147483648}]
        ShmSize: 67108864
        Init: true
        AutoRemove: false
        LogConfig: {"Config":{},"Type":"none"}
        Binds: []
        Devices: []
        RestartPolicy: {"MaximumRetryCount":0,"Name":"no"}
        User: "10000:10000"
        Hostname: "sandbox"
        Env: ["CI=true","HOME=/home/agent","PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin","USER=agent"]
        Entrypoint: ["/pw/patchwright-guest"]
        Cmd: ["idle"]
        Healthcheck: {"Test":["NONE"]}
        Tty: false
        OpenStdin: false
        mount: volume /pw true
        run: true
        labels: deadline owner purpose run
    "#]].assert_eq(&table(made, &docker.run));
    assert_nothing_left(&docker).await;
}

/// A command inside, and all that it may print.
const INSIDE: &[(&str, &str)] = &[
    (
        "grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr '\\t\\n' '  '",
        "CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 ",
    ),
    ("id", "uid=10000 gid=10000 groups=10000"),
    ("ls /sys/class/net", "lo"),
    ("pwd", "/pw/workspace"),
    ("touch x && ls", "x"),
    ("touch /x 2>&1 | grep -o 'Read-only file system'", "Read-only file system"),
    (
        "echo >> /pw/patchwright-guest 2>&1; mv /pw/patchwright-guest /tmp/ 2>&1 | grep -c denied",
        "sh: line 1: /pw/patchwright-guest: Permission denied\n1",
    ),
    ("cp /bin/true /tmp/t && /tmp/t && cp /bin/true ~/t && ~/t && echo runs", "runs"),
    ("stat -c '%a %u' /tmp ~", "1777 0\n700 10000"),
    ("stat -f -c '%b %c %S' /tmp ~ | awk '{print $1*$3, $2}'", "16777216 200000\n16777216 200000"),
    (
        "ls /var/run/docker.sock /run/docker.sock /root/.ssh 2>&1 | grep -vc 'No such file\\|denied'",
        "0",
    ),
    ("ulimit -c; ulimit -n; ulimit -f", "0\n4096\n4194304"),
    ("ulimit -n 5000 2>&1 | grep -c 'not permitted'", "1"),
    ("date -s 2020-01-01 2>&1 | grep -c 'not permitted'", "1"),
    ("nice -n -20 true 2>&1 | grep -c denied", "1"),
    ("mount -t tmpfs none /tmp 2>&1 | grep -ciE 'denied|permitted|permission'", "1"),
    ("cat /proc/kcore 2>/dev/null | head -c 1 | wc -c", "0"),
    ("echo 1 2>/dev/null > /proc/sys/kernel/panic || echo no", "no"),
    ("find / -xdev -perm -4000 -type f 2>/dev/null | wc -l", "0"),
    ("cat /proc/1/comm; cat /proc/mounts | grep -c ' /host\\| /var/lib/docker'", "docker-init\n0"),
];

#[tokio::test]
async fn inside_nothing_is_loose() {
    let Some(docker) = docker().await else { return };
    let running = started(&docker).await;
    let mut wrong = Vec::new();
    for (script, expected) in INSIDE {
        let output = try_sh(&running, script).await.unwrap().output;
        if output.trim_end_matches('\n') != *expected {
            wrong.push((script, output));
        }
    }
    running.stop().await.unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn environment_is_the_documented_list() {
    let Some(docker) = docker().await else { return };
    let running = started(&docker).await;
    let names =
        sh(&running, "env | cut -d= -f1 | grep -vE '^(_|PWD|SHLVL|OLDPWD)$' | sort | xargs").await;
    running.stop().await.unwrap();
    // The guest may add names of its own to the commands' environment, but nothing of this process.
    let allowed = [
        "CI",
        "GRADLE_USER_HOME",
        "HOME",
        "HOSTNAME",
        "LANG",
        "LC_ALL",
        "LOGNAME",
        "MAVEN_OPTS",
        "PATH",
        "TERM",
        "TMPDIR",
        "USER",
        "SHELL",
        "NO_COLOR",
        "PAGER",
        "GIT_PAGER",
        "GH_PAGER",
        "GIT_TERMINAL_PROMPT",
        "COLORTERM",
        "LC_CTYPE",
        "DEBIAN_FRONTEND",
        "GIT_EDITOR",
        "GIT_SEQUENCE_EDITOR",
        "EDITOR",
        "VISUAL",
    ];
    let foreign: Vec<&str> = names.split(' ').filter(|name| !allowed.contains(name)).collect();
    assert_eq!(foreign, Vec::<&str>::new(), "all: {names}");
}

#[tokio::test]
async fn fork_bomb_is_bounded() {
    let Some(docker) = docker().await else { return };
    let running = started(&docker).await;
    // Whether the bomb's own shell still answers does not matter; what counts is that the sandbox
    // works afterwards, or that its end has a name.
    let _ = try_sh(&running, "bomb() { bomb | bomb & }; bomb; sleep 2").await;
    let mut last = String::new();
    for _ in 0..100 {
        match try_sh(&running, "echo works").await {
            Ok(output) if output.output == "works\n" => {
                last = output.output;
                break;
            }
            Ok(output) => last = output.output,
            Err(GuestError::Failed(message)) => last = message,
            Err(_) => {
                last = running.exit_reason().await.unwrap_or_default();
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    running.stop().await.unwrap();
    assert!(last == "works\n" || last.contains("killed"), "{last}");
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn memory_hog_is_killed_and_the_run_goes_on() {
    let Some(docker) = docker().await else { return };
    let running = started(&docker).await;
    let hog = try_sh(&running, "exec python3 -c 'x = bytearray(1 << 30)'").await;
    let code = hog.as_ref().map(|output| output.exit_code);
    let after = try_sh(&running, "echo works").await;
    match after {
        Ok(after) => {
            assert_eq!(code.unwrap(), 137);
            let ran_out = OutOfMemory { killed: 1, limit_mib: Some(256) };
            assert_eq!(hog.unwrap().out_of_memory, Some(ran_out));
            assert_eq!(after.out_of_memory, None);
            assert_eq!(after.output, "works\n");
        }
        Err(_) => assert_eq!(running.exit_reason().await.unwrap(), "out of memory (limit 256 MiB)"),
    }
    running.stop().await.unwrap();
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn full_folders_are_errors_inside() {
    let Some(docker) = docker().await else { return };
    let running = started(&docker).await;
    for (script, expected) in [
        (
            "head -c 100M /dev/zero 2>&1 > /tmp/f | grep -o 'No space left'; rm /tmp/f",
            "No space left",
        ),
        ("head -c 100M /dev/zero 2>&1 > ~/f | grep -o 'No space left'; rm ~/f", "No space left"),
        (
            "head -c 100M /dev/zero 2>&1 > /dev/shm/f | grep -o 'No space left'; rm /dev/shm/f",
            "No space left",
        ),
        (
            "python3 -c \"open('f', 'wb').truncate(3 << 30)\" 2>&1 | grep -o 'File too large'",
            "File too large",
        ),
        ("echo works", "works"),
    ] {
        assert_eq!(sh(&running, script).await, expected, "{script}");
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn killing_everything_is_survived_or_named() {
    let Some(docker) = docker().await else { return };
    let running = started(&docker).await;
    let _ = try_sh(&running, "kill -9 -1; sleep 1").await;
    if let Ok(output) = try_sh(&running, "echo works").await {
        assert_eq!(output.output, "works\n");
    } else {
        let reason = running.exit_reason().await.unwrap();
        assert!(reason.contains("killed"), "{reason}");
    }
    running.stop().await.unwrap();
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn one_run_cannot_see_another() {
    let Some(docker) = docker().await else { return };
    let (one, two) = (started(&docker).await, started(&docker).await);
    sh(&one, "echo CANARY > secret; echo CANARY > /tmp/secret; echo CANARY > ~/secret").await;
    let seen =
        sh(&two, "cat secret /tmp/secret ~/secret 2>&1 | grep -c CANARY; ps -e | grep -c sleep")
            .await;
    one.stop().await.unwrap();
    two.stop().await.unwrap();
    assert_eq!(seen, "0\n0");
    assert_nothing_left(&docker).await;
}
