//! Compares the pod that the API server has with the one that was asked for. Whoever may change pods on their way in
//! (admission webhooks: service meshes, registries' mirrors, agents of observability) adds containers, volumes,
//! variables and tokens, and an old server drops fields that it does not know; a run does not start in a pod that is
//! looser than documented. Pure.

use serde_json::Value;

use super::comparison::{self, ALWAYS, shown};
use super::manifest::{COMPONENT, OWNER};

/// What is not as it was asked for, one sentence each; empty when all is well.
pub(super) fn differences(asked: &Value, made: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for name in [COMPONENT.0, OWNER] {
        let label = |pod: &Value| pod["metadata"]["labels"][name].clone();
        if label(asked) != label(made) {
            found.push(format!("the label `{name}` is {}", shown(&label(made))));
        }
    }
    let of_spec = comparison::differences(&asked["spec"], &made["spec"]);
    found.extend(of_spec.into_iter().map(|one| one.words));
    // A service account gives its pull secrets to pods that have none. An image that everybody may have needs none, and
    // with them a repository would get what is somebody else's.
    let containers = asked["spec"]["containers"].as_array().into_iter().flatten();
    let is_public = containers.into_iter().any(|one| one["imagePullPolicy"] == ALWAYS);
    let secrets = made["spec"]["imagePullSecrets"].as_array();
    if is_public && secrets.is_some_and(|secrets| !secrets.is_empty()) {
        found.push("`imagePullSecrets` are given to an image that has to be public".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::ContainerLimits;
    use crate::kubernetes::hardening::*;
    use crate::kubernetes::manifest::{Shape, pod};
    use crate::kubernetes::template::Template;
    use crate::services::Service;

    fn asked() -> Value {
        pod(&Shape {
            name: "patchwright-r1-agent-00",
            namespace: "agents",
            image: "python:3.13",
            is_public: false,
            has_home: false,
            services: &[Service {
                name: "db".to_owned(),
                image: "postgres:16".to_owned(),
                env: [("POSTGRES_PASSWORD".to_owned(), "x".to_owned())].into(),
                ..Service::default()
            }],
            run: "r1",
            purpose: "agent",
            limits: &ContainerLimits::default(),
            template: &Template::default(),
            owner: "0123456789abcdef0123456789abcdef",
            own_pod: None,
            heartbeat: (0, 300),
        })
    }

    fn after(change: impl FnOnce(&mut Value)) -> String {
        let (asked, mut made) = (asked(), asked());
        // As a server completes it.
        made["spec"]["schedulerName"] = json!("default-scheduler");
        made["spec"]["serviceAccountName"] = json!("default");
        made["spec"]["serviceAccount"] = json!("default");
        made["spec"]["priority"] = json!(0);
        made["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/not-ready"}]);
        made["spec"]["imagePullSecrets"] = json!([{"name": "of-the-service-account"}]);
        made["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
        made["spec"]["containers"][0]["terminationMessagePath"] = json!("/dev/termination-log");
        made["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("4Gi");
        made["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("2");
        change(&mut made);
        differences(&asked, &made).join("; ")
    }

    #[test]
    fn what_a_server_completes_is_fine() {
        assert_eq!(after(|_| ()), "");
    }

    #[test]
    fn an_image_for_everybody_is_pulled_without_secrets() {
        let mut asked = asked();
        asked["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
        let mut made = asked.clone();
        assert!(differences(&asked, &made).is_empty());
        made["spec"]["imagePullSecrets"] = json!([{"name": "of-the-service-account"}]);
        assert_eq!(
            differences(&asked, &made),
            ["`imagePullSecrets` are given to an image that has to be public"]
        );
    }

    fn set(pointer: &str, value: Value) -> String {
        after(|pod| {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[name] = value;
        })
    }

    #[test]
    fn sees_what_became_looser_of_a_service() {
        for (found, expected) in [
            (
                set("/spec/containers/1/command", json!(["sh"])),
                "`containers[\"service-db\"].command`",
            ),
            (
                set("/spec/containers/1/securityContext/runAsUser", json!(0)),
                "`containers[\"service-db\"].securityContext.runAsUser` is 0",
            ),
            (
                set("/spec/containers/1/env", json!([{"name": "A", "value": "b"}])),
                "`containers[\"service-db\"].env`",
            ),
            (
                set(
                    "/spec/containers/1/volumeMounts",
                    json!([{"name": "work", "mountPath": "/x"}]),
                ),
                "`containers[\"service-db\"].volumeMounts` has \"/x\" besides",
            ),
        ] {
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }

    #[test]
    fn sees_what_became_looser() {
        for (found, expected) in [
            (set("/spec/hostNetwork", json!(true)), "`hostNetwork` is true instead of absent"),
            (
                set("/spec/automountServiceAccountToken", json!(true)),
                "`automountServiceAccountToken`",
            ),
            (set("/spec/shareProcessNamespace", json!(true)), "`shareProcessNamespace`"),
            (set("/spec/dnsPolicy", json!("ClusterFirst")), "`dnsPolicy` is \"ClusterFirst\""),
            (set("/spec/hostAliases", json!([{"ip": "10.0.0.1"}])), "`hostAliases[0].ip`"),
            (set("/spec/securityContext/runAsUser", json!(0)), "`securityContext.runAsUser` is 0"),
            (set("/spec/securityContext/sysctls", json!([{}])), "`securityContext.sysctls`"),
            (set("/spec/ephemeralContainers", json!([{"name": "debug"}])), "`ephemeralContainers`"),
            (
                set("/spec/containers/0/image", json!("mirror/python")),
                "`containers[\"sandbox\"].image`",
            ),
            (
                set("/spec/containers/0/env", json!([{"name": "A"}])),
                "`containers[\"sandbox\"].env`",
            ),
            (set("/spec/containers/0/envFrom", json!([{}])), "envFrom"),
            (set("/spec/containers/0/lifecycle", json!({"postStart": {}})), "lifecycle"),
            (
                set("/spec/containers/0/securityContext/privileged", json!(true)),
                "privileged` is true",
            ),
            (
                set(
                    "/spec/containers/0/securityContext/capabilities",
                    json!({"drop": ["ALL"], "add": ["NET_RAW"]}),
                ),
                "capabilities.add",
            ),
            (set("/spec/containers/0/securityContext/procMount", json!("Unmasked")), "procMount"),
            (
                set("/spec/containers/0/resources/limits/memory", json!("8Gi")),
                "limits.memory` is \"8Gi\"",
            ),
            (set("/spec/containers/0/volumeMounts/0/readOnly", json!(false)), "readOnly` is false"),
            (set("/spec/volumes/1/emptyDir/sizeLimit", json!("99Ti")), "sizeLimit"),
        ] {
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }

    #[test]
    fn sees_what_was_added_and_taken_away() {
        let found = after(|pod| {
            let list = pod["spec"]["containers"].as_array_mut().unwrap();
            list.push(json!({"name": "istio-proxy"}));
            let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap();
            mounts.push(json!({"name": "token", "mountPath": "/var/run/secrets"}));
            let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
            volumes.remove(0);
            volumes.push(json!({"name": "token"}));
            pod["metadata"]["labels"][COMPONENT.0] = json!("other");
        });
        for part in [
            "`containers` has \"istio-proxy\" besides",
            "volumeMounts` has \"/var/run/secrets\" besides",
            "`volumes` has no \"guest\"",
            "`volumes` has \"token\" besides",
            "the label `app.kubernetes.io/component` is \"other\"",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
    }
}
