//! What works in a pod, what it cannot do, and what passes over its stream.

use std::collections::BTreeMap;

use patchwright_sandbox::client::{CollectLimits, CollectedKind, Pipe};
use patchwright_sandbox::{PreparedImage, Sandbox, SandboxSpec};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{connected, pods};
use crate::egress::Sink;
use crate::sandboxes::{sh, spec};
use crate::support::cluster::{rights, schema};
use crate::support::docker::{BUSYBOX, IMAGE};
use crate::support::guest::packed;
use crate::support::pods::MANIFEST;

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_locked_in_and_the_guest_is_not_theirs() {
    let Some(pods) = pods().await else { return };
    let running = pods.start().await.unwrap();
    let cases = [
        ("id -u; id -g; pwd -P", "10000\n10000\n/pw/workspace"),
        ("stat -c '%u %a' /pw/workspace ~; echo $HOME", "10000 755\n10000 700\n/pw-home/agent"),
        ("touch /x /usr/x 2>&1 | grep -c 'Read-only'", "2"),
        ("echo no > /pw-guest/patchwright-guest; rm -rf /pw-guest/bin; echo $?", "1"),
        (
            "touch /pw-guest/x; mv /pw-guest/patchwright-guest /tmp; ls /pw-guest",
            "bin\ngo\npatchwright-guest",
        ),
        ("grep -c CapEff:.0000000000000000 /proc/self/status", "1"),
        ("grep NoNewPrivs /proc/self/status | tr -dc 01", "1"),
        ("env | grep -c KUBERNETES; echo $CI; echo $USER", "0\n1\nagent"),
        ("ls /sys/class/net", "lo"),
        ("echo x > /tmp/x && echo y > ~/y && cat /tmp/x ~/y", "x\ny"),
        ("ulimit -c; ulimit -n", "0\n4096"),
        ("echo 'echo hi' > run && sh run", "hi"),
    ];
    for (script, expected) in cases {
        let said = sh(&running, script).await;
        assert!(said == expected || said.ends_with(&format!("\n{expected}")), "{script}: {said}");
    }
    let enforced: Vec<String> = running.enforced.iter().map(ToString::to_string).collect();
    for line in [
        "network: none",
        "root: read-only",
        "memory: 256 MiB without swap",
        "processes: not bounded",
    ] {
        assert!(enforced.iter().any(|one| one == line), "{line}: {enforced:?}");
    }
    assert_eq!(running.exit_reason().await, None);
    running.stop().await.unwrap();
    pods.assert_nothing_left();
    let world = pods.server.world();
    assert_eq!(schema::softness(&world.made[0]["spec"]), Vec::<String>::new());
    assert!(world.used.is_subset(&rights(MANIFEST)));
}

#[tokio::test(flavor = "multi_thread")]
async fn works_over_the_older_protocol_and_with_nothing_but_busybox() {
    let Some(pods) = pods().await else { return };
    pods.server.world().is_old = true;
    let running = pods.sandbox.start(&spec(&pods.run, BUSYBOX)).await.unwrap();
    assert_eq!(sh(&running, "id -u; pwd -P").await, "10000\n/pw/workspace");
    running.stop().await.unwrap();
    pods.assert_nothing_left();
}

/// A tar with so many bytes that nothing compresses, in files of a megabyte.
fn tree(megabytes: usize) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut content: Vec<u8> = (0..1 << 20).map(|_| rand::random()).collect();
    for number in 0..megabytes {
        content[0] = u8::try_from(number).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, format!("big/{number}"), content.as_slice()).unwrap();
    }
    tar.into_inner().unwrap()
}

/// More than all buffers on the way, in both directions, and at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn large_trees_go_in_and_come_out_as_they_were() {
    let Some(pods) = pods().await else { return };
    let running = pods.start().await.unwrap();
    packed(&tree(24)).upload(&running.client).await.unwrap();
    let script = "for f in big/*; do cp $f copy-${f#big/}; done; cat big/* | sha256sum";
    let before = sh(&running, script).await;
    // Beside it a command that reads as it writes: neither may wait for the other.
    let client = running.client.clone();
    let echo = tokio::spawn(async move {
        let argv = ["cat".to_owned()].to_vec();
        let exec = patchwright_guest::protocol::Exec { argv, ..crate::support::guest::sh("") };
        let Pipe { mut stdin, mut stdout, ended } = client.pipe(exec).await.unwrap();
        let (sent, mut came) = (vec![7; 12 << 20], Vec::new());
        let writing = async {
            stdin.write_all(&sent).await.unwrap();
            drop(stdin);
        };
        tokio::join!(writing, async { stdout.read_to_end(&mut came).await.unwrap() });
        ended.await.unwrap().unwrap();
        came == sent
    });
    let collected = running.client.collect(CollectLimits::default()).await.unwrap();
    assert!(echo.await.unwrap());
    let mut copies: Vec<_> =
        collected.files.iter().filter(|file| file.path.starts_with("copy-")).collect();
    copies.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(copies.len(), 24);
    let mut hash = sha2::Sha256::default();
    for copy in copies {
        let CollectedKind::File { content, .. } = &copy.kind else {
            panic!("{} is no file", copy.path)
        };
        sha2::Digest::update(&mut hash, content);
    }
    assert_eq!(before, format!("{}  -", hex::encode(sha2::Digest::finalize(hash))));
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_hosts_are_reached_through_the_stream_and_no_others() {
    let Some(pods) = pods().await else { return };
    let sink = Sink::start().await;
    let spec = SandboxSpec { egress: Some(sink.egress()), ..spec(&pods.run, IMAGE) };
    let running = pods.sandbox.start(&spec).await.unwrap();
    let get = |host: &str| {
        format!(
            "python3 -c \"import urllib.request as r; print(r.urlopen('http://{host}:{}/x', timeout=20).read().decode().strip())\" \
             2>&1 | tail -n 1",
            sink.port
        )
    };
    assert_eq!(sh(&running, &get("web.test")).await, "you asked: GET /x HTTP/1.1");
    assert!(sh(&running, &get("other.test")).await.contains("403"));
    assert_eq!(sink.count(), 1);
    let direct = "python3 -c \"import socket; socket.create_connection(('1.1.1.1', 443), timeout=3)\" 2>&1 | tail -n 1";
    assert!(sh(&running, direct).await.contains("unreachable"));
    assert!(running.enforced.iter().any(|one| one.to_string().starts_with("relay: only web.test")));
    running.stop().await.unwrap();
}

/// What the operator's template says is in the pod, and what it does not is as ever.
#[tokio::test(flavor = "multi_thread")]
async fn the_template_decides_where_pods_run() {
    let Some(pods) = pods().await else { return };
    let template = "apiVersion: v1\nkind: PodTemplate\ntemplate:\n  metadata: {labels: {team: builds}}\n  spec:\n    \
                    runtimeClassName: gvisor\n    imagePullSecrets: [{name: ours}]\n    containers: [{name: sandbox, \
                    resources: {requests: {cpu: 100m, memory: 64Mi}}}]\n";
    let sandbox = connected(&pods.server, pods.state.path(), Some(template)).await;
    let running = sandbox.start(&spec(&pods.run, IMAGE)).await.unwrap();
    running.stop().await.unwrap();
    let public = SandboxSpec {
        env: BTreeMap::new(),
        image: PreparedImage { reference: format!("public {IMAGE}"), ..PreparedImage::default() },
        ..spec(&pods.run, IMAGE)
    };
    let running = sandbox.start(&public).await.unwrap();
    running.stop().await.unwrap();
    // The one of the documentation can be used as it is.
    let shipped = include_str!("../../docs/kubernetes/sandbox-template.yaml");
    connected(&pods.server, pods.state.path(), Some(shipped)).await;
    let world = pods.server.world();
    let (first, second) = (&world.made[0], &world.made[1]);
    assert_eq!(first["metadata"]["labels"]["team"], "builds");
    assert_eq!(first["spec"]["runtimeClassName"], "gvisor");
    assert_eq!(first["spec"]["imagePullSecrets"], json!([{"name": "ours"}]));
    let requests = &first["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(
        *requests,
        json!({"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "1073741824"})
    );
    assert_eq!(first["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
    // An image that a repository names among many is not given to it because a node has it, or we have a key.
    assert_eq!(second["spec"]["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(second["spec"]["imagePullSecrets"], json!(null));
}
