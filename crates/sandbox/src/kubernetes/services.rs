//! Servers beside a sandbox: containers of its pod, which share its network: they are `localhost` for its commands, and
//! reach nothing. Here is their shape, and which of those that are asked for can be; [`super::readiness`] waits for
//! them. Pure.
//!
//! They are plain containers and no side-cars of Kubernetes (first containers that are restarted): one that ends stays
//! ended, so that it can be said how; one whose image cannot be had does not keep the sandbox from beginning; and older
//! clusters have them. The sandbox's own container comes first: a kubelet starts them one after the other.

use serde_json::{Value, json};

use super::manifest::{Shape, above, milli_cpus};
use super::template::Template;
use crate::docker::{SETUP_CAPABILITIES, USER};
use crate::image::{self, NamedBy};
use crate::services::{Service, ServiceState};

/// In front of a service's name: what its container is called.
const PREFIX: &str = "service-";
/// Longest name of a container (RFC 1123).
const LONGEST: usize = 63;
/// The group of services that do not run as their images say. Images that are made to run as anybody give their files
/// to it.
const GROUP: u32 = 0;
/// Most memory of one service, as with Docker.
const MEMORY: u64 = 2 << 30;
/// What is reserved for one: memory, processors in thousandths, disk.
const RESERVED_MEMORY: u64 = 128 << 20;
const RESERVED_CPU: u64 = 50;
const RESERVED_DISK: u64 = 256 << 20;

/// The services that a pod can have, and why it cannot have the others. `own_is_public` is what is said of the
/// sandbox's own image.
pub(super) fn chosen(
    asked: &[Service],
    template: &Template,
    own_is_public: bool,
) -> (Vec<Service>, Vec<ServiceState>) {
    let (mut chosen, mut absent) = (Vec::new(), Vec::new());
    for service in asked {
        match refusal(service, template, own_is_public) {
            None => chosen.push(service.clone()),
            Some(why) => absent.push(ServiceState::absent(service, why)),
        }
    }
    (chosen, absent)
}

/// Why there can be no such container. The server would refuse the whole pod.
fn refusal(service: &Service, template: &Template, own_is_public: bool) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = service.name.as_str();
    if !name.chars().all(is_plain) || name.ends_with('-') || container_name(service).len() > LONGEST
    {
        return Some(
            "a service of a pod is called by small letters, digits and `-`, at most 55 of them"
                .to_owned(),
        );
    }
    // https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables
    let starts = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '-' | '.');
    let is_variable = |name: &&String| {
        name.starts_with(starts) && name.chars().all(|c| starts(c) || c.is_ascii_digit())
    };
    if let Some(variable) = service.env.keys().find(|name| !is_variable(name)) {
        return Some(format!("a pod cannot have the variable `{variable}`"));
    }
    // Pull secrets are the whole pod's.
    let has_secrets = template.fields.contains_key("imagePullSecrets");
    (is_public(service) && has_secrets && !own_is_public).then(|| {
        "its image has to be one that everybody may have, and this sandbox's own is pulled with secrets of the operator"
            .to_owned()
    })
}

/// The registry has to give its image to anybody.
pub(super) fn is_public(service: &Service) -> bool {
    service.named_by == NamedBy::OneOfMany
}

pub(super) fn container_name(service: &Service) -> String {
    format!("{PREFIX}{}", service.name)
}

/// Their names as hosts, for every container of the pod.
pub(super) fn aliases(services: &[Service]) -> Value {
    let names: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
    json!([{"ip": "127.0.0.1", "hostnames": names}])
}

/// The image as it is, without privileges. Its own entry point writes to its own layer.
pub(super) fn container(shape: &Shape<'_>, service: &Service) -> Value {
    let limits = shape.limits;
    let memory = limits.memory_bytes.min(MEMORY);
    let (cpu, disk) = (milli_cpus(limits), above(limits.workspace_bytes));
    let image = match service.named_by {
        NamedBy::Operator => service.image.clone(),
        NamedBy::Repository | NamedBy::OneOfMany => image::whole(&service.image),
    };
    // Kubernetes puts variables in for `$(NAME)`; a second `$` keeps it from that.
    let variables = service.env.iter();
    let variables =
        variables.map(|(name, value)| json!({"name": name, "value": value.replace('$', "$$")}));
    let mut container = json!({
        "name": container_name(service),
        "image": image,
        "imagePullPolicy": if is_public(service) { "Always" } else { "IfNotPresent" },
        "resources": {
            "requests": {
                "cpu": format!("{}m", cpu.min(RESERVED_CPU)),
                "memory": memory.min(RESERVED_MEMORY).to_string(),
                "ephemeral-storage": disk.min(RESERVED_DISK).to_string(),
            },
            "limits": {
                "cpu": format!("{cpu}m"),
                "memory": memory.to_string(),
                "ephemeral-storage": disk.to_string(),
            },
        },
        "securityContext": security(shape.template),
    });
    let variables: Vec<Value> = variables.collect();
    if !variables.is_empty() {
        container["env"] = Value::Array(variables);
    }
    container
}

/// Nobody is root in a pod, unless the operator has said that services run as with Docker.
fn security(template: &Template) -> Value {
    let (capabilities, non_root) = if template.users_of_image {
        (json!({"drop": ["ALL"], "add": SETUP_CAPABILITIES}), false)
    } else {
        (json!({"drop": ["ALL"]}), true)
    };
    let mut security = json!({
        "runAsNonRoot": non_root,
        "privileged": false,
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": false,
        "capabilities": capabilities,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    if non_root {
        security["runAsUser"] = json!(USER);
        security["runAsGroup"] = json!(GROUP);
    }
    security
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::image::NamedBy;
    use crate::kubernetes::services::*;

    fn service(name: &str) -> Service {
        Service { name: name.to_owned(), image: "postgres:16".to_owned(), ..Service::default() }
    }

    #[test]
    fn what_a_pod_cannot_have_is_said_and_the_rest_is_there() {
        let variable = |name: &str| Service {
            env: [(name.to_owned(), "x".to_owned())].into(),
            ..service("db")
        };
        let public = Service { named_by: NamedBy::OneOfMany, ..service("db") };
        let mut secrets = Template::default();
        secrets.fields.insert("imagePullSecrets".to_owned(), json!([{"name": "ours"}]));
        let plain = Template::default();
        for (service, template, is_public, expected) in [
            (service("db"), &plain, false, ""),
            (service("0-db"), &plain, false, ""),
            (service(&"a".repeat(55)), &plain, false, ""),
            (service(&"a".repeat(56)), &plain, false, "small letters"),
            (service("my_db"), &plain, false, "small letters"),
            (service("a.b"), &plain, false, "small letters"),
            (service("Db"), &plain, false, "small letters"),
            (service("db-"), &plain, false, "small letters"),
            (variable("A_b.c-1"), &plain, false, ""),
            (variable("1A"), &plain, false, "the variable `1A`"),
            (variable("A B"), &plain, false, "the variable `A B`"),
            (public.clone(), &plain, false, ""),
            (public.clone(), &secrets, true, ""),
            (public, &secrets, false, "pulled with secrets"),
        ] {
            let (chosen, absent) = chosen(std::slice::from_ref(&service), template, is_public);
            let why = absent.first().and_then(|state| state.problem.clone()).unwrap_or_default();
            assert_eq!(chosen.len() + absent.len(), 1);
            assert_eq!(why.is_empty(), expected.is_empty(), "{service:?}: {why}");
            assert!(why.contains(expected), "{service:?}: {why}");
        }
    }
}
