//! What Podman's answer to Docker's API has otherwise: how a container is asked for, and how it is described. Nothing
//! depends on a version: what its answers do not say is seen from [`super::inside`], and what is not as asked is
//! refused. Pure.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, HealthConfig, HostConfig, MountType,
    ResourcesUlimits,
};

use super::configuration::as_i64;
use super::{HOME, VOLUME, WORKSPACE};
use crate::{ContainerLimits, SandboxError};

/// Podman's own way to keep what a container prints, in a file; it calls it `json-file` to Docker's clients.
const LOG: &str = "k8s-file";
/// Variables that Podman sets in every container.
const OF_ENGINE: &[&str] = &["TERM", "container", "HOSTNAME"];
/// Where Podman mounts something to write to, without a bound, unless something is mounted there already.
const WRITABLE: &[&str] = &["/run", "/var/tmp"];
/// Processes of one user. Podman asks for a million by itself, which only root with all its rights may do.
const PROCESSES: i64 = 32_768;

/// Asks for the same in Podman's words. The guest is in the container's own layer, which it takes before the start and
/// which is read-only afterwards: the root of a volume becomes the first user's. So only the workspace is a volume.
pub(super) fn adapt(asked: &mut ContainerCreateBody, limits: &ContainerLimits, is_rootless: bool) {
    // A name without a value is that of the engine's own environment.
    asked.env = asked.env.take().map(|env| {
        let is_value =
            |variable: &String| variable.contains('=') || !OF_ENGINE.contains(&variable.as_str());
        let with_value =
            |variable: String| if variable.contains('=') { variable } else { variable + "=" };
        env.into_iter().filter(is_value).map(with_value).collect()
    });
    // Only with systemd are they made by themselves.
    asked.healthcheck =
        Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() });
    // It waits for a stop otherwise, also where one is to be removed at once.
    asked.stop_signal = Some("SIGKILL".to_owned());
    let Some(host) = &mut asked.host_config else { return };
    if let Some(log) = host.log_config.as_mut().filter(|log| log.typ.as_deref() == Some("local")) {
        log.typ = Some(LOG.to_owned());
        log.config = Some(HashMap::from([("max-size".to_owned(), "1m".to_owned())]));
    }
    // It may have no program for it; the guest collects the dead.
    host.init = Some(false);
    for mount in host.mounts.iter_mut().flatten() {
        if mount.typ == Some(MountType::VOLUME) && mount.target.as_deref() == Some(VOLUME) {
            mount.target = Some(WORKSPACE.to_owned());
        }
    }
    tmpfs(host, limits);
    // Rootless ones before Podman 6 drop all limits of processes. The guest sets them for itself and what it starts, and
    // the container's number of processes bounds those of its user.
    if is_rootless {
        host.ulimits = None;
        return;
    }
    host.ulimits.get_or_insert_default().push(ResourcesUlimits {
        name: Some("nproc".to_owned()),
        soft: Some(PROCESSES),
        hard: Some(PROCESSES),
    });
}

/// Podman knows neither owners nor numbers of files for a tmpfs, and copies into one what the image has there. The
/// folder below has the same rights, because runtimes give them to the mount.
fn tmpfs(host: &mut HostConfig, limits: &ContainerLimits) {
    let known = |option: &&str| {
        !["mode=", "uid=", "gid=", "nr_inodes="].iter().any(|name| option.starts_with(name))
    };
    for options in host.tmpfs.iter_mut().flat_map(|tmpfs| tmpfs.values_mut()) {
        let kept: Vec<&str> = options.split(',').filter(known).collect();
        *options = format!("{},mode=1777,notmpcopyup", kept.join(","));
    }
    if host.readonly_rootfs != Some(true) {
        return;
    }
    let is_mounted = |path: &str| {
        host.mounts.iter().flatten().any(|mount| mount.target.as_deref() == Some(path))
    };
    let closed: Vec<&&str> = WRITABLE.iter().filter(|path| !is_mounted(path)).collect();
    let options = format!("ro,nosuid,nodev,noexec,mode=0755,size={}", as_i64(limits.tmp_bytes));
    let tmpfs = host.tmpfs.get_or_insert_default();
    tmpfs.extend(closed.into_iter().map(|path| ((*path).to_owned(), options.clone())));
}

/// Puts an answer of Podman's into Docker's words, as far as they mean the same. What it does not say, or says in a
/// way that cannot be compared, is taken from what was asked: [`super::inside`] compares it with what is so.
pub(super) fn in_dockers_words(asked: &ContainerCreateBody, made: &mut ContainerInspectResponse) {
    if let Some(config) = &mut made.config {
        let is_ours = |variable: &String| {
            !OF_ENGINE.contains(&variable.split('=').next().unwrap_or_default())
        };
        config.env = config.env.take().map(|env| env.into_iter().filter(is_ours).collect());
        if config.healthcheck.is_none() {
            config.healthcheck.clone_from(&asked.healthcheck);
        }
    }
    let is_volume = |path: &str| {
        made.mounts.iter().flatten().any(|mount| {
            mount.typ.as_deref() == Some("volume") && mount.destination.as_deref() == Some(path)
        })
    };
    let volumes: Vec<String> = asked
        .host_config
        .iter()
        .flat_map(|host| host.mounts.iter().flatten())
        .filter(|mount| mount.typ == Some(MountType::VOLUME))
        .filter_map(|mount| mount.target.clone().filter(|path| is_volume(path)))
        .collect();
    let (Some(asked), Some(host)) = (&asked.host_config, &mut made.host_config) else { return };
    // Capabilities are listed as what differs from a default that is not told, limits of processes not by every engine.
    host.ulimits.clone_from(&asked.ulimits);
    host.cap_drop.clone_from(&asked.cap_drop);
    host.cap_add.clone_from(&asked.cap_add);
    host.tmpfs.clone_from(&asked.tmpfs);
    host.cgroup_parent.clone_from(&asked.cgroup_parent);
    let same = |value: &mut Option<String>, words: &[&str], asked: &Option<String>| {
        if value.as_deref().is_some_and(|value| words.contains(&value)) {
            value.clone_from(asked);
        }
    };
    // Whom a namespace is shared with is the engine's users' choice; it is one of its own.
    same(&mut host.ipc_mode, &["private", "shareable"], &asked.ipc_mode);
    same(&mut host.pid_mode, &["private"], &asked.pid_mode);
    same(&mut host.uts_mode, &["private"], &asked.uts_mode);
    let log = asked.log_config.as_ref().and_then(|log| log.typ.clone());
    if let Some(made) = host.log_config.as_mut().filter(|_| log.as_deref() == Some(LOG)) {
        same(&mut made.typ, &["json-file"], &log);
    }
    // Volumes are listed as binds, `NAME:PATH:OPTIONS`, and as the mounts that they are.
    let is_bind = |bind: &String| {
        !bind.split(':').nth(1).is_some_and(|path| volumes.iter().any(|volume| volume == path))
    };
    host.binds = host.binds.take().map(|binds| binds.into_iter().filter(is_bind).collect());
}

/// Limits that were asked for and dropped: a rootless engine has none where control groups are of version 1.
pub(super) fn unbounded(
    asked: &ContainerCreateBody,
    made: &ContainerInspectResponse,
) -> Vec<&'static str> {
    let (Some(asked), Some(made)) = (&asked.host_config, &made.host_config) else {
        return Vec::new();
    };
    let limits = [
        ("memory", asked.memory, made.memory),
        ("swap", asked.memory_swap, made.memory_swap),
        ("cpus", asked.nano_cpus, made.nano_cpus),
        ("processes", asked.pids_limit, made.pids_limit),
    ];
    let is_dropped = |asked: Option<i64>, made: Option<i64>| {
        asked.is_some_and(|asked| asked > 0) && made.is_none_or(|made| made <= 0)
    };
    let dropped = limits.into_iter().filter(|&(_, asked, made)| is_dropped(asked, made));
    dropped.map(|(what, _, _)| what).collect()
}

/// The rights of a home folder in memory, which is root's; see [`tmpfs`].
pub(super) const OPEN: u32 = 0o1777;

/// Whether there is one.
pub(super) fn has_open_home(asked: &ContainerCreateBody) -> bool {
    let tmpfs = asked.host_config.as_ref().and_then(|host| host.tmpfs.as_ref());
    tmpfs.is_some_and(|tmpfs| tmpfs.contains_key(HOME))
}

/// Instructions that give the result of a commit these labels: Podman 4 takes them so, and not from a configuration.
///
/// # Errors
/// When a label cannot be written so: some versions take a value as it is, others read quotes, variables and escapes in
/// it, and an end of a line would begin another instruction. [`plain`] writes any text as one that all read alike.
pub(super) fn labels(labels: &HashMap<String, String>) -> Result<String, SandboxError> {
    let is_plain = |text: &str| {
        text.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '-' | '_' | '.' | ':'))
    };
    let mut lines: Vec<String> = Vec::new();
    for (name, value) in labels {
        if !is_plain(name) || !is_plain(value) {
            return Err(SandboxError::Other(format!("Podman cannot be told the label `{name}`")));
        }
        lines.push(format!("LABEL {name}={value}"));
    }
    lines.sort();
    Ok(lines.join("\n"))
}

/// A text as the value of a label that every version reads alike.
pub(super) fn plain(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

/// What [`plain`] was given.
pub(super) fn from_plain(value: &str) -> Option<String> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(value).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bollard::models::{ContainerConfig, ImageConfig, MountPoint};

    use crate::docker::configuration::{self, Shape, Task};
    use crate::docker::hardening::told;
    use crate::docker::podman::*;
    use crate::docker::pull::Image;

    fn image(volumes: &[&str]) -> Image {
        let volumes = volumes.iter().map(|&path| path.to_owned()).collect();
        let env = ["PATH=/bin", "TERM=dumb", "SECRET=s"].map(str::to_owned).to_vec();
        Image {
            id: "sha256:00".to_owned(),
            description: "python:3".to_owned(),
            config: ImageConfig {
                volumes: Some(volumes),
                env: Some(env),
                ..ImageConfig::default()
            },
            bytes: 0,
        }
    }

    fn asked(volumes: &[&str], is_rootless: bool) -> ContainerCreateBody {
        let limits = ContainerLimits::default();
        let shape = Shape {
            image: &image(volumes),
            run: "r1",
            purpose: "agent",
            env: &BTreeMap::new(),
            prepared: None,
            limits: &limits,
            task: Task::Work,
            egress: None,
            services: &[],
            owner: "0123456789abcdef0123456789abcdef",
        };
        let mut asked = configuration::body(&shape).unwrap();
        adapt(&mut asked, &limits, is_rootless);
        asked
    }

    /// As Podman 4.3 describes what it was asked for, where that is not in Docker's words.
    fn made(asked: &ContainerCreateBody) -> ContainerInspectResponse {
        let mut host = asked.host_config.clone().unwrap();
        host.binds = Some(vec!["1e78:/pw/workspace:rw,rprivate,nosuid,nodev,rbind".to_owned()]);
        host.mounts = None;
        host.cap_drop = Some(["CHOWN", "SETUID"].map(str::to_owned).to_vec());
        host.ipc_mode = Some("shareable".to_owned());
        host.pid_mode = Some("private".to_owned());
        host.uts_mode = Some("private".to_owned());
        host.ulimits = None;
        host.tmpfs = Some(HashMap::from([("/tmp".to_owned(), "rw,rprivate".to_owned())]));
        let mut env = asked.env.clone().unwrap();
        env.extend(["TERM=xterm", "container=podman", "HOSTNAME=sandbox"].map(str::to_owned));
        ContainerInspectResponse {
            config: Some(ContainerConfig {
                user: asked.user.clone(),
                env: Some(env),
                entrypoint: asked.entrypoint.clone(),
                cmd: asked.cmd.clone(),
                hostname: asked.hostname.clone(),
                ..ContainerConfig::default()
            }),
            host_config: Some(host),
            mounts: Some(vec![MountPoint {
                typ: Some("volume".to_owned()),
                destination: Some(WORKSPACE.to_owned()),
                ..MountPoint::default()
            }]),
            ..ContainerInspectResponse::default()
        }
    }

    fn after(change: impl FnOnce(&mut ContainerInspectResponse)) -> String {
        let asked = asked(&[], false);
        let mut made = made(&asked);
        change(&mut made);
        in_dockers_words(&asked, &mut made);
        told(&asked, &made).join("; ")
    }

    #[test]
    fn other_words_for_the_same_are_no_difference() {
        assert_eq!(after(|_| ()), "");
    }

    #[test]
    fn limits_that_were_dropped_are_named() {
        let asked = asked(&[], true);
        let mut made = made(&asked);
        assert_eq!(unbounded(&asked, &made), Vec::<&str>::new());
        let host = made.host_config.as_mut().unwrap();
        (host.memory, host.nano_cpus) = (Some(0), None);
        assert_eq!(unbounded(&asked, &made), ["memory", "cpus"]);
    }

    #[test]
    fn what_is_looser_is_still_named() {
        type Change = fn(&mut HostConfig);
        let changes: [(Change, &str); 9] = [
            (|host| host.memory = Some(0), "memory is 0 instead of"),
            (|host| host.pids_limit = Some(0), "pids limit is 0"),
            (|host| host.ipc_mode = Some("host".to_owned()), "ipc is host"),
            (|host| host.pid_mode = Some("host".to_owned()), "pid namespace is host"),
            (|host| host.uts_mode = Some("host".to_owned()), "uts namespace is host"),
            (|host| host.readonly_rootfs = Some(false), "read-only root is false"),
            (|host| host.security_opt = None, "no-new-privileges is not set"),
            (
                |host| host.log_config.as_mut().unwrap().typ = Some("json-file".to_owned()),
                "log driver is json-file instead of none",
            ),
            (|host| host.binds.as_mut().unwrap().push("/:/host:rw".to_owned()), "bind mounts is 1"),
        ];
        for (change, expected) in changes {
            let found = after(|made| change(made.host_config.as_mut().unwrap()));
            assert!(found.contains(expected), "{expected}: {found}");
        }
        let bound = after(|made| made.mounts = None);
        assert!(bound.contains("bind mounts is 1"), "a bind that is no volume: {bound}");
        let set = |made: &mut ContainerInspectResponse| {
            made.config.as_mut().unwrap().env.as_mut().unwrap().push("TOKEN=t".to_owned());
        };
        assert_eq!(after(set), "the variable `TOKEN` is set");
    }

    #[test]
    fn asks_in_podmans_words() {
        let asked = asked(&["/data", "/var/tmp"], false);
        let env = asked.env.clone().unwrap();
        assert!(env.contains(&"SECRET=".to_owned()), "{env:?}");
        assert!(env.iter().all(|variable| variable.contains('=')), "{env:?}");
        assert!(!env.iter().any(|variable| variable.starts_with("TERM")), "{env:?}");
        let host = asked.host_config.unwrap();
        let tmpfs = host.tmpfs.unwrap();
        assert_eq!(tmpfs[HOME], "rw,exec,nosuid,nodev,size=1073741824,mode=1777,notmpcopyup");
        assert!(tmpfs["/run"].starts_with("ro,"), "{tmpfs:?}");
        assert!(!tmpfs.contains_key("/var/tmp"), "the image's own: {tmpfs:?}");
        let targets: Vec<_> =
            host.mounts.iter().flatten().filter_map(|it| it.target.clone()).collect();
        assert!(targets.contains(&WORKSPACE.to_owned()), "{targets:?}");
        assert!(!targets.contains(&VOLUME.to_owned()), "{targets:?}");
        let limits = host.ulimits.unwrap();
        let processes = limits.iter().find(|limit| limit.name.as_deref() == Some("nproc")).unwrap();
        assert_eq!(processes.hard, Some(PROCESSES));
        let rootless = super::tests::asked(&[], true).host_config.unwrap();
        assert_eq!(rootless.ulimits, None, "the guest sets them");
    }

    #[test]
    fn labels_are_lines_and_nothing_else() {
        let one =
            |name: &str, value: &str| labels(&HashMap::from([(name.to_owned(), value.to_owned())]));
        let json = "[{\"x\":\"y $z \\\\ ä\"}]";
        let written = plain(json);
        assert_eq!(one("a.b", &written).unwrap(), format!("LABEL a.b={written}"));
        assert_eq!(from_plain(&written).as_deref(), Some(json));
        assert_eq!(one("a.b", "").unwrap(), "LABEL a.b=");
        let bad = [("a", "x\nUSER 0"), ("a b", "x"), ("a=b", "x"), ("a\n", "")];
        for (name, value) in
            bad.into_iter().chain(["\"", "'", "$HOME", "x y", "\\"].map(|it| ("a", it)))
        {
            assert!(one(name, value).is_err(), "{name:?} {value:?}");
        }
    }
}
