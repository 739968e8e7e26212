//! The operator's template of sandbox pods, a `PodTemplate` of Kubernetes in a file: which nodes, which runtime, how
//! much is reserved. It says where pods run, never what runs in them: a field that is not listed here is refused, so
//! that nothing in it makes a sandbox weaker.

use std::path::Path;

use serde_json::{Map, Value, json};

use patchwright_base::error::{Failure, Result};
use patchwright_base::named_file;

/// The container that commands run in.
pub(super) const CONTAINER: &str = "sandbox";
/// The longest template that is read.
const LONGEST: u64 = 1 << 20;
/// An annotation of the template. With the value [`OPEN`] sandboxes are started although they reach the network.
pub(super) const NETWORK: &str = "patchwright/sandbox-network";
pub(super) const OPEN: &str = "open-to-everything-the-cluster-reaches";
/// Another annotation: with the value [`OF_IMAGE`] services run as their images say, root included, as they do with
/// Docker.
const SERVICE_USERS: &str = "patchwright/service-users";
pub(super) const OF_IMAGE: &str = "of-the-image";
/// Fields of the specification that are taken.
const FIELDS: &[&str] = &[
    "affinity",
    "hostUsers",
    "imagePullSecrets",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
];

/// A template that can be used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Template {
    /// Where pods are made, when the template says so.
    pub(super) namespace: Option<String>,
    pub(super) labels: Map<String, Value>,
    pub(super) annotations: Map<String, Value>,
    /// Fields of the pod's specification.
    pub(super) fields: Map<String, Value>,
    /// What is reserved for the container, in Kubernetes' words.
    pub(super) requests: Map<String, Value>,
    /// The operator wants sandboxes although they reach the network.
    pub(super) is_open: bool,
    /// Services run as their images say.
    pub(super) users_of_image: bool,
}

impl Template {
    /// # Errors
    /// When the file cannot be read, is no template, or says more than a template may.
    pub(super) fn read(path: &Path) -> Result<Template> {
        let name = path.display();
        let unreadable = |err: std::io::Error| {
            Failure::usage(format!("the template of sandbox pods `{name}` cannot be read"))
                .caused_by(err)
        };
        let text = named_file::read_text(path, LONGEST).map_err(unreadable)?;
        Template::parse(&text).map_err(|why| {
            let message = format!("the template of sandbox pods `{name}` cannot be used: {why}");
            Failure::usage(message)
                .hint("`docs/kubernetes/sandbox-template.yaml` is one to start from")
        })
    }

    pub(super) fn parse(text: &str) -> Result<Template, String> {
        let file: Value =
            serde_saphyr::from_str(text).map_err(|err| format!("it is no YAML: {err}"))?;
        if file["apiVersion"] != "v1" || file["kind"] != "PodTemplate" {
            return Err("it is no `kind: PodTemplate` of `apiVersion: v1`".to_owned());
        }
        let pod = &file["template"];
        let is = |name: &str, only: &str| {
            let value = &file["metadata"]["annotations"][name];
            if value.is_null() || value == only {
                return Ok(value == only);
            }
            Err(format!("the annotation `{name}` can only be `{only}`"))
        };
        let mut template = Template {
            namespace: file["metadata"]["namespace"].as_str().map(str::to_owned),
            labels: object(&pod["metadata"]["labels"]),
            annotations: object(&pod["metadata"]["annotations"]),
            is_open: is(NETWORK, OPEN)?,
            users_of_image: is(SERVICE_USERS, OF_IMAGE)?,
            ..Template::default()
        };
        let ours = |name: &&String| name.starts_with("patchwright/");
        if let Some(name) = template.labels.keys().chain(template.annotations.keys()).find(ours) {
            return Err(format!("`{name}` is for Patchwright to say"));
        }
        for (name, value) in object(&pod["spec"]) {
            match name.as_str() {
                "containers" => template.requests = requests(&value)?,
                "hostUsers" if value != false => {
                    return Err("`hostUsers` can only be `false`".to_owned());
                }
                field if FIELDS.contains(&field) => {
                    template.fields.insert(name, value);
                }
                _ => {
                    let known = FIELDS.join("`, `");
                    return Err(format!(
                        "`template.spec.{name}` is not for it to say; it can have `{known}`, and \
                         `containers` with `resources.requests`"
                    ));
                }
            }
        }
        Ok(template)
    }
}

/// What the one container reserves; it says nothing else.
fn requests(containers: &Value) -> Result<Map<String, Value>, String> {
    let wrong = format!(
        "`containers` can only have `name: {CONTAINER}` with `resources.requests`: image, command and limits are \
         settings of Patchwright"
    );
    let Some([only]) = containers.as_array().map(Vec::as_slice) else { return Err(wrong) };
    let resources = object(&only["resources"]);
    let is_known = |of: &Map<String, Value>, names: &[&str]| {
        of.keys().all(|name| names.contains(&name.as_str()))
    };
    let is_fine = only["name"] == CONTAINER
        && is_known(&object(only), &["name", "resources"])
        && is_known(&resources, &["requests"]);
    if is_fine { Ok(object(&json!(resources)["requests"])) } else { Err(wrong) }
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::kubernetes::template::*;

    const HEAD: &str = "apiVersion: v1\nkind: PodTemplate\n";

    #[test]
    fn says_where_pods_run() {
        let text = format!(
            "{HEAD}metadata: {{namespace: agents}}\ntemplate:\n  metadata: {{labels: {{team: a}}}}\n  spec:\n    \
             runtimeClassName: gvisor\n    containers: [{{name: sandbox, resources: {{requests: {{cpu: 1}}}}}}]\n"
        );
        let template = Template::parse(&text).unwrap();
        assert_eq!(template.namespace.as_deref(), Some("agents"));
        assert_eq!(json!(template.labels), json!({"team": "a"}));
        assert_eq!(json!(template.fields), json!({"runtimeClassName": "gvisor"}));
        assert_eq!(json!(template.requests), json!({"cpu": 1}));
        assert!(!template.is_open);
        let open = format!("{HEAD}metadata: {{annotations: {{{NETWORK}: {OPEN}}}}}\n");
        assert!(Template::parse(&open).unwrap().is_open);
        let users = format!("{HEAD}metadata: {{annotations: {{{SERVICE_USERS}: {OF_IMAGE}}}}}\n");
        assert!(!template.users_of_image && Template::parse(&users).unwrap().users_of_image);
    }

    #[test]
    fn refuses_what_is_not_for_it_to_say() {
        let spec = |text: &str| format!("{HEAD}template: {{spec: {{{text}}}}}\n");
        for (text, expected) in [
            (String::new(), "no `kind: PodTemplate`"),
            ("kind: Pod\napiVersion: v1\n".to_owned(), "no `kind: PodTemplate`"),
            (spec("hostNetwork: true"), "`template.spec.hostNetwork`"),
            (spec("serviceAccountName: admin"), "`template.spec.serviceAccountName`"),
            (spec("securityContext: {runAsUser: 0}"), "`template.spec.securityContext`"),
            (spec("volumes: []"), "`template.spec.volumes`"),
            (spec("hostUsers: true"), "can only be `false`"),
            (spec("containers: [{name: sandbox, image: a}]"), "settings of Patchwright"),
            (spec("containers: [{name: other}]"), "settings of Patchwright"),
            (spec("containers: [{name: sandbox}, {name: b}]"), "settings of Patchwright"),
            (
                spec("containers: [{name: sandbox, resources: {limits: {cpu: 1}}}]"),
                "settings of Patchwright",
            ),
            (
                format!("{HEAD}metadata: {{annotations: {{{NETWORK}: off}}}}\n"),
                "can only be `open-to-everything",
            ),
            (
                format!("{HEAD}metadata: {{annotations: {{{SERVICE_USERS}: root}}}}\n"),
                "can only be `of-the-image`",
            ),
            (
                format!("{HEAD}template: {{metadata: {{labels: {{patchwright/owner: a}}}}}}\n"),
                "is for Patchwright to say",
            ),
        ] {
            let why = Template::parse(&text).unwrap_err();
            assert!(why.contains(expected), "{text}\n{why}");
        }
    }
}
