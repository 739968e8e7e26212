//! Compares what Docker made with what was asked for. An engine that cannot enforce a limit drops it
//! with a warning, an image adds volumes and variables, a daemon has defaults of its own; a run does
//! not start in a container that is looser than documented. Pure; called once per container, between
//! creating and starting it.

use std::collections::BTreeMap;
use std::fmt::Debug;

use bollard::models::{ContainerCreateBody, ContainerInspectResponse, HealthConfig, HostConfig};

/// Paths of /proc and /sys that Docker must hide.
pub(super) const MASKED: &[&str] =
    &["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"];
/// Paths of /proc that must not be writable.
pub(super) const READ_ONLY: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What is looser than asked for, one sentence each; empty when all is well.
pub(super) fn differences(
    asked: &ContainerCreateBody,
    made: &ContainerInspectResponse,
) -> Vec<String> {
    let mut found = told(asked, made);
    found.extend(made.host_config.iter().flat_map(hidden_paths));
    found
}

/// What is looser than asked for, apart from hidden paths, which not every engine tells.
pub(super) fn told(asked: &ContainerCreateBody, made: &ContainerInspectResponse) -> Vec<String> {
    let (Some(asked_host), Some(made_host)) = (&asked.host_config, &made.host_config) else {
        return vec!["the engine did not describe the container".to_owned()];
    };
    let wanted = facts(asked_host).into_iter().chain(process_facts_asked(asked));
    let got: BTreeMap<&str, String> =
        facts(made_host).into_iter().chain(process_facts_made(made)).collect();
    // One that joins another container's network has that one's name.
    let is_given = |name: &str| name != "hostname" || asked.hostname.is_some();
    let mut found: Vec<String> = wanted
        .filter(|(name, _)| is_given(name))
        .filter_map(|(name, wanted)| {
            let got = got.get(name).cloned().unwrap_or_default();
            (got != wanted).then(|| format!("{name} is {got} instead of {wanted}"))
        })
        .collect();
    found.extend(unconfined(made_host));
    found.extend(foreign_mounts(asked_host, made));
    found.extend(foreign_variables(asked, made));
    found
}

/// What must be equal, by name. `None`, empty and `false` are the same to Docker.
fn facts(host: &HostConfig) -> Vec<(&'static str, String)> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let count = |length: Option<usize>| length.unwrap_or(0).to_string();
    let mut facts = vec![
        ("privileged", shown(&host.privileged.unwrap_or(false))),
        ("cap-drop", capabilities(host.cap_drop.as_ref())),
        ("cap-add", capabilities(host.cap_add.as_ref())),
        ("network", text(&host.network_mode)),
        ("ipc", text(&host.ipc_mode)),
        ("pid namespace", text(&host.pid_mode)),
        ("uts namespace", text(&host.uts_mode)),
        ("user namespace", text(&host.userns_mode)),
        ("cgroup parent", text(&host.cgroup_parent)),
        ("memory", shown(&host.memory.unwrap_or(0))),
        ("memory with swap", shown(&host.memory_swap.unwrap_or(0))),
        ("cpus (nano)", shown(&host.nano_cpus.unwrap_or(0))),
        ("pids limit", shown(&host.pids_limit.unwrap_or(0))),
        ("read-only root", shown(&host.readonly_rootfs.unwrap_or(false))),
        ("/dev/shm", shown(&host.shm_size.unwrap_or(0))),
        ("init", shown(&host.init.unwrap_or(false))),
        ("auto-remove", shown(&host.auto_remove.unwrap_or(false))),
        ("out-of-memory killer off", shown(&host.oom_kill_disable.unwrap_or(false))),
        ("publish all ports", shown(&host.publish_all_ports.unwrap_or(false))),
        ("ports", count(host.port_bindings.as_ref().map(std::collections::HashMap::len))),
        ("bind mounts", count(host.binds.as_ref().map(Vec::len))),
        ("volumes from", count(host.volumes_from.as_ref().map(Vec::len))),
        ("links", count(host.links.as_ref().map(Vec::len))),
        ("devices", count(host.devices.as_ref().map(Vec::len))),
        ("device rules", count(host.device_cgroup_rules.as_ref().map(Vec::len))),
        ("device requests", count(host.device_requests.as_ref().map(Vec::len))),
        ("extra groups", count(host.group_add.as_ref().map(Vec::len))),
        ("sysctls", count(host.sysctls.as_ref().map(std::collections::HashMap::len))),
    ];
    let log = host.log_config.as_ref().and_then(|log| log.typ.clone());
    facts.push(("log driver", log.unwrap_or_default()));
    let tmpfs: BTreeMap<_, _> = host.tmpfs.iter().flatten().collect();
    facts.push(("tmpfs", shown(&tmpfs)));
    let mut ulimits: Vec<String> = host
        .ulimits
        .iter()
        .flatten()
        .map(|limit| {
            let name = limit.name.as_deref().unwrap_or_default();
            format!("{name}={}:{}", limit.soft.unwrap_or(-1), limit.hard.unwrap_or(-1))
        })
        .collect();
    ulimits.sort();
    facts.push(("ulimits", ulimits.join(",")));
    facts
}

fn process_facts_asked(asked: &ContainerCreateBody) -> Vec<(&'static str, String)> {
    vec![
        ("user", asked.user.clone().unwrap_or_default()),
        ("entrypoint", shown(&asked.entrypoint.clone().unwrap_or_default())),
        ("command", shown(&asked.cmd.clone().unwrap_or_default())),
        ("healthcheck", healthcheck(asked.healthcheck.as_ref())),
        ("terminal", shown(&asked.tty.unwrap_or(false))),
        ("hostname", asked.hostname.clone().unwrap_or_default()),
    ]
}

fn process_facts_made(made: &ContainerInspectResponse) -> Vec<(&'static str, String)> {
    let Some(config) = &made.config else { return Vec::new() };
    vec![
        ("user", config.user.clone().unwrap_or_default()),
        ("entrypoint", shown(&config.entrypoint.clone().unwrap_or_default())),
        ("command", shown(&config.cmd.clone().unwrap_or_default())),
        ("healthcheck", healthcheck(config.healthcheck.as_ref())),
        ("terminal", shown(&config.tty.unwrap_or(false))),
        ("hostname", config.hostname.clone().unwrap_or_default()),
    ]
}

fn shown(value: &impl Debug) -> String {
    format!("{value:?}")
}

fn healthcheck(check: Option<&HealthConfig>) -> String {
    shown(&check.and_then(|check| check.test.clone()).unwrap_or_default())
}

fn capabilities(names: Option<&Vec<String>>) -> String {
    let mut names: Vec<&str> =
        names.into_iter().flatten().map(|name| name.trim_start_matches("CAP_")).collect();
    names.sort_unstable();
    names.join(",")
}

/// Engines add options of their own (`SELinux` labels); what may not be there is `unconfined`.
fn unconfined(host: &HostConfig) -> Vec<String> {
    let options: Vec<&str> = host.security_opt.iter().flatten().map(String::as_str).collect();
    let mut found: Vec<String> = options
        .iter()
        .filter(|option| option.ends_with("unconfined") || option.ends_with("disable"))
        .map(|option| format!("security option `{option}` is set"))
        .collect();
    if !options.iter().any(|option| option.starts_with("no-new-privileges")) {
        found.push("no-new-privileges is not set".to_owned());
    }
    found
}

fn hidden_paths(host: &HostConfig) -> Vec<String> {
    let lists =
        [("masked", MASKED, &host.masked_paths), ("read-only", READ_ONLY, &host.readonly_paths)];
    let mut found = Vec::new();
    for (name, wanted, got) in lists {
        for path in wanted {
            if !got.iter().flatten().any(|got| got == path) {
                found.push(format!("`{path}` is not {name}"));
            }
        }
    }
    found
}

/// Mounts that nobody asked for, or of another kind than asked for.
fn foreign_mounts(asked: &HostConfig, made: &ContainerInspectResponse) -> Vec<String> {
    let wanted: BTreeMap<&str, String> = asked
        .mounts
        .iter()
        .flatten()
        .filter_map(|mount| Some((mount.target.as_deref()?, mount.typ.as_ref()?.to_string())))
        .collect();
    made.mounts
        .iter()
        .flatten()
        .filter_map(|mount| {
            let target = mount.destination.as_deref().unwrap_or_default();
            let kind = mount.typ.clone().unwrap_or_default();
            let is_tmpfs = asked.tmpfs.iter().flatten().any(|(path, _)| path == target);
            let is_wanted = wanted.get(target) == Some(&kind) || (is_tmpfs && kind == "tmpfs");
            (!is_wanted).then(|| format!("there is a {kind} mount at `{target}`"))
        })
        .collect()
}

/// Variables with a value that were not asked for. Values are not repeated.
fn foreign_variables(asked: &ContainerCreateBody, made: &ContainerInspectResponse) -> Vec<String> {
    let asked: Vec<&String> = asked.env.iter().flatten().collect();
    made.config
        .iter()
        .flat_map(|config| config.env.iter().flatten())
        .filter(|variable| variable.contains('=') && !asked.contains(variable))
        .map(|variable| {
            let name = variable.split('=').next().unwrap_or_default();
            format!("the variable `{name}` is set")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use bollard::models::{ContainerConfig, MountPoint};

    use crate::docker::hardening::*;

    fn asked() -> ContainerCreateBody {
        let text = |text: &str| Some(text.to_owned());
        ContainerCreateBody {
            user: text("10000:10000"),
            env: Some(vec!["PATH=/bin".to_owned(), "DROPPED".to_owned()]),
            host_config: Some(HostConfig {
                cap_drop: Some(vec!["ALL".to_owned()]),
                security_opt: Some(vec!["no-new-privileges".to_owned()]),
                network_mode: text("none"),
                memory: Some(100),
                memory_swap: Some(100),
                pids_limit: Some(5),
                readonly_rootfs: Some(true),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        }
    }

    /// What a faithful engine makes of it.
    fn made() -> ContainerInspectResponse {
        let asked = asked();
        let owned = |paths: &[&str]| Some(paths.iter().map(|&path| path.to_owned()).collect());
        ContainerInspectResponse {
            config: Some(ContainerConfig {
                user: asked.user,
                env: asked.env,
                ..ContainerConfig::default()
            }),
            host_config: Some(HostConfig {
                masked_paths: owned(MASKED),
                readonly_paths: owned(READ_ONLY),
                cap_add: Some(Vec::new()),
                ..asked.host_config.unwrap()
            }),
            ..ContainerInspectResponse::default()
        }
    }

    type Loosening = fn(&mut HostConfig, &mut ContainerConfig);

    const LOOSENINGS: &[(Loosening, &str)] = &[
        (|host, _| host.privileged = Some(true), "privileged is true instead of false"),
        (|host, _| host.memory = Some(0), "memory is 0 instead of 100"),
        (|host, _| host.memory_swap = Some(-1), "memory with swap is -1 instead of 100"),
        (|host, _| host.pids_limit = None, "pids limit is 0 instead of 5"),
        (|host, _| host.readonly_rootfs = Some(false), "read-only root is false instead of true"),
        (
            |host, _| host.network_mode = Some("bridge".to_owned()),
            "network is bridge instead of none",
        ),
        (|host, _| host.pid_mode = Some("host".to_owned()), "pid namespace is host instead of "),
        (|host, _| host.cap_drop = None, "cap-drop is  instead of ALL"),
        (
            |host, _| host.cap_add = Some(vec!["CAP_SYS_ADMIN".to_owned()]),
            "cap-add is SYS_ADMIN instead of ",
        ),
        (|host, _| host.binds = Some(vec!["/:/host".to_owned()]), "bind mounts is 1 instead of 0"),
        (|host, _| host.security_opt = None, "no-new-privileges is not set"),
        (
            |host, _| host.security_opt.as_mut().unwrap().push("seccomp=unconfined".to_owned()),
            "security option `seccomp=unconfined` is set",
        ),
        (
            |host, _| drop(host.masked_paths.as_mut().unwrap().remove(0)),
            "`/proc/kcore` is not masked",
        ),
        (
            |host, _| drop(host.readonly_paths.as_mut().unwrap().pop()),
            "`/proc/sysrq-trigger` is not read-only",
        ),
        (|_, config| config.user = None, "user is  instead of 10000:10000"),
        (
            |_, config| config.env.as_mut().unwrap().push("TOKEN=canary".to_owned()),
            "the variable `TOKEN` is set",
        ),
        (
            |_, config| {
                config.healthcheck = Some(HealthConfig {
                    test: Some(vec!["CMD".to_owned()]),
                    ..HealthConfig::default()
                });
            },
            "healthcheck is [\"CMD\"] instead of []",
        ),
    ];

    #[test]
    fn names_whatever_is_looser() {
        assert_eq!(differences(&asked(), &made()), Vec::<String>::new());
        for (loosen, expected) in LOOSENINGS {
            let mut made = made();
            let (host, config) =
                (made.host_config.as_mut().unwrap(), made.config.as_mut().unwrap());
            loosen(host, config);
            assert_eq!(differences(&asked(), &made), [*expected]);
        }
    }

    #[test]
    fn names_mounts_that_nobody_asked_for() {
        let mut made = made();
        made.mounts = Some(vec![MountPoint {
            typ: Some("bind".to_owned()),
            destination: Some("/run/docker.sock".to_owned()),
            ..MountPoint::default()
        }]);
        assert_eq!(differences(&asked(), &made), ["there is a bind mount at `/run/docker.sock`"]);
    }
}
