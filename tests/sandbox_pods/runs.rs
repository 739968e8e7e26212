//! Whole runs with `--sandbox kubernetes`: processes against GitHub, a model and a cluster.

use serde_json::json;

use super::{in_pods, server};
use crate::exec::project;
use crate::support::model::{Turn, call, say};
use crate::support::pods::Fate;
use crate::support::world::{TestWorld, fix, github};

#[test]
fn an_issue_becomes_a_pull_request() {
    let Some(server) = server() else { return };
    let world = in_pods(TestWorld::new(github(), fix()), &server);
    let output = world.issue().expect(0);
    assert!(output.stderr.contains("check on head: `sh ./test.sh` passed"), "{}", output.text());
    assert_eq!(world.github.world().repositories[0].pulls.len(), 1);
    let result = world.result("result.json");
    assert!(result.contains("\"kubernetes\""), "{result}");
    server.until("the end of all pods", |world| world.pods.is_empty());
    // Nothing of ours is in a pod's specification but what it needs: no token, no key.
    let world_of = server.world();
    assert!(!world_of.made.is_empty());
    for pod in &world_of.made {
        let text = pod.to_string();
        assert!(!text.contains(world.github.token()) && !text.contains("OPENAI"), "{text}");
    }
}

#[test]
fn a_prompt_becomes_a_patch_and_the_template_is_the_operators() {
    let Some(server) = server() else { return };
    let world = in_pods(TestWorld::local(fix()), &server);
    project(&world);
    let template =
        "apiVersion: v1\nkind: PodTemplate\ntemplate:\n  spec:\n    nodeSelector: {pool: agents}\n";
    fs_err::write(world.path("pods.yaml"), template).unwrap();
    let args = ["exec", "Make add add", "--repo", "project", "--out", "out"];
    world.run(&[&args[..], &["--sandbox-pod-template", "pods.yaml"]].concat()).expect(0);
    let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
    assert!(patch.contains("+  echo $(($1 + $2))"), "{patch}");
    server.until("the end of all pods", |world| world.pods.is_empty());
    let world = server.world();
    assert!(world.made.iter().all(|pod| pod["spec"]["nodeSelector"] == json!({"pool": "agents"})));
}

#[test]
fn a_cluster_that_is_away_while_a_pod_begins_is_waited_for_aloud() {
    let Some(server) = server() else { return };
    let world = in_pods(TestWorld::local(fix()), &server);
    project(&world);
    let status = json!({"phase": "Pending", "initContainerStatuses": [{"name": "guest",
        "state": {"waiting": {"reason": "PodInitializing"}}}]});
    server.world().fate = Fate::Waits(status);
    let process = world.process(&["exec", "Make add add", "--repo", "project", "--out", "out"]);
    server.until("a pod", |world| !world.pods.is_empty());
    server.world().is_away = true;
    process.wait_for("waiting for the Kubernetes API at 127.0.0.1:");
    process.wait_for("the server is currently unable to handle the request");
    server.world().is_away = false;
    process.wait_for(" answers again");
    let output = process.kill();
    assert_eq!(output.stderr.matches("waiting for the Kubernetes").count(), 1, "{}", output.stderr);
}

#[test]
fn what_a_killed_process_left_is_removed_by_the_next_one() {
    let Some(server) = server() else { return };
    let turns: Vec<Turn> =
        vec![call("shell_command", json!({"command": "touch begun; sleep 300"}))];
    let world = in_pods(TestWorld::local(turns), &server);
    project(&world);
    let args = ["exec", "Make add add", "--repo", "project", "--out", "out"];
    let mut child = world.spawn(&args);
    server.until("a pod in which the agent works", |world| {
        let runs = |pod: &serde_json::Value| {
            pod["metadata"]["labels"]["patchwright/purpose"] == "agent"
                && pod["status"]["phase"] == "Running"
        };
        world.pods.values().any(runs)
    });
    child.kill().unwrap();
    world.wait(child);
    let left = server.pods();
    assert!(!left.is_empty());
    world.model.replace(vec![say("Nothing to do")]);
    world.run(&["exec", "Look", "--repo", "project", "--mode", "plan", "--out", "out2"]);
    server.until("the end of all pods", |world| world.pods.is_empty());
}

#[test]
fn doctor_says_what_is_there_and_what_is_missing() {
    let Some(server) = server() else { return };
    let world = in_pods(TestWorld::local([]), &server);
    let lines = |text: &str| -> Vec<String> {
        let ours = text.lines().filter(|line| line.contains("kubernetes") || line.contains("fix:"));
        ours.map(str::to_owned).collect()
    };
    let fine = world.run(&["doctor"]);
    for line in [
        "ok    kubernetes: v1.33.2, the namespace `patchwright-sandboxes` of 127.0.0.1:",
        "ok    kubernetes rights: pods, exec, logs and network policies",
        "ok    kubernetes network: a NetworkPolicy takes it away",
    ] {
        assert!(fine.stdout.contains(line), "{line}: {}", fine.text());
    }
    server.forbid("get pods/exec");
    server.forbid("patch pods");
    server.world().policies.clear();
    let broken = world.run(&["doctor"]);
    let said = lines(&broken.stdout).join("\n");
    for line in [
        "FAIL  kubernetes rights: not allowed: `patch pods`, `get pods/exec`",
        "FAIL  kubernetes network: sandbox pods would have a network: no NetworkPolicy",
        "fix: give the rights of the Role in `docs/kubernetes/sandboxes.yaml`",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(server.world().made.is_empty(), "it only reads");
}

#[test]
fn without_a_cluster_or_with_a_bad_template_nothing_begins() {
    let world = TestWorld::local([]).set("PATCHWRIGHT_SANDBOX", "kubernetes");
    project(&world);
    let args = ["exec", "x", "--repo", "project", "--out", "out"];
    let nowhere = world.run(&args).expect(2);
    assert!(
        nowhere.stderr.contains("there is no Kubernetes cluster to launch pods in"),
        "{}",
        nowhere.text()
    );
    assert!(nowhere.stderr.contains("set `KUBECONFIG`"), "{}", nowhere.text());
    fs_err::write(world.path("pods.yaml"), "kind: Pod\n").unwrap();
    let template =
        world.run(&[&args[..], &["--sandbox-pod-template", "pods.yaml"]].concat()).expect(2);
    let said = &template.stderr;
    assert!(said.contains("`pods.yaml` cannot be used: it is no `kind: PodTemplate`"), "{said}");
    let absent =
        world.run(&[&args[..], &["--sandbox-pod-template", "none.yaml"]].concat()).expect(2);
    assert!(absent.stderr.contains("`none.yaml` cannot be read"), "{}", absent.text());
    let none = world.path("none").display().to_string();
    let world = world.set("KUBECONFIG", none);
    let kubeconfig = world.run(&args).expect(2);
    assert!(kubeconfig.stderr.contains("there is no Kubernetes cluster"), "{}", kubeconfig.text());
    assert!(
        kubeconfig.stderr.contains("hint: check the file that `KUBECONFIG` names: `"),
        "{}",
        kubeconfig.text()
    );
    let doctor = world.run(&["doctor"]).expect(2).stdout;
    let line = doctor.lines().find(|line| line.starts_with("FAIL  kubernetes: ")).unwrap();
    assert!(line.contains("No such file or directory"), "{doctor}");
    // A server that does not answer.
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: t\nclusters: [{name: t, cluster: {server: 'http://127.0.0.1:9'}}]\n\
                users: [{name: t, user: {token: x}}]\ncontexts: [{name: t, context: {cluster: t, user: t}}]\n";
    let file = world.path("kubeconfig").display().to_string();
    fs_err::write(&file, text).unwrap();
    let world = world.set("KUBECONFIG", file);
    let silent = world.run(&args).expect(70);
    assert!(silent.stderr.contains("the Kubernetes API does not answer"), "{}", silent.text());
}
