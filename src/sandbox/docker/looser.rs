//! Compares what Docker made with what was asked for. An engine that cannot enforce a limit drops it
//! with a warning, an image adds volumes and variables, a daemon has defaults of its own; a run does
//! not start in a container that is looser than documented. Pure; called once per container, between
//! creating and starting it.

use std::collections::BTreeMap;
use std::fmt::Debug;

use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, HealthConfig, HostConfig, MountPointType,
};

/// Paths of /proc and /sys that Docker must hide.
const MASKED: &[&str] = &["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"];
/// Paths of /proc that must not be writable.
const READ_ONLY: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What is looser than asked for, one sentence each; empty when all is well.
pub(super) fn differences(
    asked: &ContainerCreateBody,
    made: &ContainerInspectResponse,
) -> Vec<String> {
    let (Some(asked_host), Some(made_host)) = (&asked.host_config, &made.host_config) else {
        return vec!["the engine did not describe the container".to_owned()];
    };
    let wanted = facts(asked_host).into_iter().chain(process_facts_asked(asked));
    let got: BTreeMap<&str, String> =
        facts(made_host).into_iter().chain(process_facts_made(made)).collect();
    let mut found: Vec<String> = wanted
        .filter_map(|(name, wanted)| {
            let got = got.get(name).cloned().unwrap_or_default();
            (got != wanted).then(|| format!("{name} is {got} instead of {wanted}"))
        })
        .collect();
    found.extend(unconfined(made_host));
    found.extend(hidden_paths(made_host));
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

/// Engines add options of their own (SELinux labels); what may not be there is `unconfined`.
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
            let kind = mount.typ.as_ref().map(MountPointType::to_string).unwrap_or_default();
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
