//! Servers beside the commands of a run (databases, queues), as `services` of GitHub's workflows has them.
//! Source of the format: "Workflow syntax for GitHub Actions", `jobs.<job_id>.services`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::read::{scalar, scalars};

/// Most services of a run.
pub const MAX_SERVICES: usize = 8;
/// Characters of a service's name, which is the name of a host.
const MAX_NAME: usize = 63;
/// Bytes of a health command and of a variable's value, and variables of one service.
const MAX_TEXT: usize = 4_096;
const MAX_VARIABLES: usize = 100;

/// One service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Service {
    /// The container image.
    pub image: String,
    /// Variables of its container.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// A shell command in its container that succeeds as soon as the service is ready. Without one, the
    /// image's own health check, or else an open port, says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<String>,
    /// Where it is reached, as workflows write it. Services are reached at their own ports, so that these
    /// may be said and not changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
}

impl Service {
    /// The TCP ports among [`Service::ports`].
    pub fn own_ports(&self) -> Vec<u16> {
        let port = |text: &String| {
            let (port, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
            let (_, inside) = port.split_once(':').unwrap_or((port, port));
            inside.parse().ok().filter(|_| protocol == "tcp")
        };
        self.ports.iter().filter_map(port).collect()
    }

    /// Why there can be no such service, in a few words.
    ///
    /// # Errors
    /// When its name is no name of a host, or a part of it is too long or cannot be had.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = name.len() <= MAX_NAME
            && name.chars().all(is_plain)
            && name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !is_name || name.eq_ignore_ascii_case("localhost") {
            return Err("its name is not a name of a host".to_owned());
        }
        if self.image.trim().is_empty() {
            return Err("it has no image".to_owned());
        }
        if let Some(port) = self.ports.iter().find(|port| !is_own_port(port)) {
            return Err(format!("`{port}`: services are reached at their own ports only"));
        }
        if self.env.len() > MAX_VARIABLES {
            return Err(format!("it has more than {MAX_VARIABLES} variables"));
        }
        let is_wrong = |(name, value): (&String, &String)| {
            name.is_empty() || name.contains(['=', '\0']) || !is_text(value)
        };
        if self.env.iter().any(is_wrong) {
            return Err("a variable has no name, or a value that is too long".to_owned());
        }
        match &self.health {
            Some(health) if health.trim().is_empty() || !is_text(health) => {
                Err("its health command is empty or too long".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn is_text(text: &str) -> bool {
    text.len() <= MAX_TEXT && !text.contains('\0')
}

/// `5432`, `5432:5432`, `5432:5432/tcp`.
fn is_own_port(port: &str) -> bool {
    let port = port.split('/').next().unwrap_or_default();
    let (outside, inside) = port.split_once(':').unwrap_or((port, port));
    outside == inside && inside.parse::<u16>().is_ok_and(|port| port > 0)
}

/// A service of a workflow. `resolve` puts in what expressions stand for.
///
/// # Errors
/// Why it cannot be had.
pub(crate) fn of_workflow(
    name: &str,
    value: &Value,
    resolve: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Service, String> {
    let text = |key: &str| value.get(key).and_then(scalar);
    let mut env = BTreeMap::new();
    for (key, value) in value.get("env").and_then(Value::as_object).into_iter().flatten() {
        env.insert(key.clone(), resolve(&scalar(value).unwrap_or_default())?);
    }
    if value.get("credentials").is_some() {
        return Err("its image needs credentials".to_owned());
    }
    if value.get("volumes").is_some() {
        return Err("it shares folders with the runner".to_owned());
    }
    let options = text("options").map(|options| resolve(&options)).transpose()?;
    let ports = value.get("ports").map(scalars).unwrap_or_default();
    let service = Service {
        image: resolve(&text("image").unwrap_or_default())?,
        env,
        health: options.as_deref().and_then(health_command),
        ports: ports.iter().map(|port| resolve(port)).collect::<Result<_, _>>()?,
    };
    service.check(name)?;
    Ok(service)
}

/// The value of `--health-cmd` in options of `docker create`.
fn health_command(options: &str) -> Option<String> {
    let words = shlex::split(options)?;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--health-cmd" {
            return words.next();
        }
        if let Some(command) = word.strip_prefix("--health-cmd=") {
            return Some(command.to_owned());
        }
    }
    None
}

/// A service of GitLab's file, with the name of its host: an alias, or what the image is called. The
/// variables of the job are the service's as well. Source: "Services", docs.gitlab.com.
///
/// # Errors
/// Why it cannot be had.
pub(crate) fn of_gitlab(
    value: &Value,
    variables: &BTreeMap<String, String>,
) -> Result<(String, Service), String> {
    let image = scalar(value.get("name").unwrap_or(value)).unwrap_or_default();
    if image.contains('$') {
        return Err("its image depends on a variable".to_owned());
    }
    let without_tag = image.split('@').next().unwrap_or_default();
    let without_tag = match without_tag.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => without_tag,
    };
    let alias = value.get("alias").and_then(scalar);
    let name = alias.unwrap_or_else(|| without_tag.replace('/', "-"));
    let mut env = variables.clone();
    let own = value.get("variables").and_then(Value::as_object);
    env.extend(own.into_iter().flatten().filter_map(|(key, it)| Some((key.clone(), scalar(it)?))));
    let service = Service { image, env, ..Service::default() };
    service.check(&name)?;
    Ok((name, service))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_of_a_workflow_are_read_with_their_health_command() {
        let value = json!({
            "image": "postgres:16",
            "env": { "POSTGRES_PASSWORD": "postgres", "POSTGRES_PORT": 5432 },
            "ports": ["5432:5432"],
            "options": "--health-cmd \"pg_isready -U postgres\" --health-interval 10s",
        });
        let resolve = |text: &str| Ok(text.to_owned());
        let service = of_workflow("db", &value, &resolve).unwrap();
        assert_eq!(service.image, "postgres:16");
        assert_eq!(service.env["POSTGRES_PORT"], "5432");
        assert_eq!(service.health.as_deref(), Some("pg_isready -U postgres"));
        assert_eq!(health_command("--health-cmd=ping --x").as_deref(), Some("ping"));
        assert_eq!(health_command("--health-cmd \"open"), None);
    }

    #[test]
    fn what_cannot_be_had_is_said() {
        let rows = [
            ("db", json!({ "image": "" }), "it has no image"),
            ("db", json!({ "image": "a", "ports": ["5433:5432"] }), "`5433:5432`: services are"),
            (
                "db",
                json!({ "image": "a", "ports": [5432, "80/tcp"], "volumes": ["a:b"] }),
                "it shares",
            ),
            ("db", json!({ "image": "a", "credentials": {} }), "its image needs credentials"),
            ("d b", json!({ "image": "a" }), "its name is not a name of a host"),
            ("localhost", json!({ "image": "a" }), "its name is not a name of a host"),
            ("db", json!({ "image": "a", "env": { "": "x" } }), "a variable has no name"),
            ("db", json!({ "image": "a", "options": "--health-cmd ''" }), "its health command is"),
            ("db", json!({ "image": "${{ x }}" }), "no"),
        ];
        let resolve = |text: &str| match text.contains("${{") {
            true => Err("no".to_owned()),
            false => Ok(text.to_owned()),
        };
        for (name, value, expected) in rows {
            let why = of_workflow(name, &value, &resolve).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
        }
    }

    #[test]
    fn services_of_gitlab_are_called_as_their_images() {
        let variables = BTreeMap::from([("POSTGRES_DB".to_owned(), "test".to_owned())]);
        let rows = [
            (json!("postgres:16"), "postgres"),
            (json!({ "name": "registry.example.com:5000/a/redis@sha256:00" }), ""),
            (json!({ "name": "tutum/wordpress:latest" }), "tutum-wordpress"),
            (json!({ "name": "mysql:8", "alias": "db", "variables": { "A": 1 } }), "db"),
            (json!("$IMAGE"), ""),
        ];
        for (value, expected) in rows {
            let found = of_gitlab(&value, &variables);
            assert_eq!(found.as_ref().map_or("", |(name, _)| name), expected, "{found:?}");
            if let Ok((_, service)) = found {
                assert_eq!(service.env["POSTGRES_DB"], "test");
            }
        }
    }
}
