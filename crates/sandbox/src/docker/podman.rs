//! Podman behind Docker's API: what it is asked in other words, and its description of a container in Docker's words,
//! for [`super::hardening`]. Pure.
//!
//! Seen with Podman 4.3: a tmpfs has no options for owner and inodes; a read-only root gets unbounded ones at `/run`
//! and `/var/tmp`; the bound of processes per user is raised unless one is given; labels of anonymous volumes are
//! dropped; and `inspect` names volumes as binds, capabilities one by one and limits by their constants, but no
//! masked paths. What it says otherwise than expected counts as looser.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, HostConfig, ResourcesUlimits,
    SystemVersionComponents,
};

use super::configuration::ulimit;
use super::hardening::{MASKED, READ_ONLY};
use crate::ContainerLimits;

/// Processes of the container's user number, in all containers of the engine together. The limit of each container
/// is smaller and another one.
const PROCESSES: i64 = 8_192;
/// Where Podman puts a tmpfs of its own when the root is read-only.
const READ_ONLY_TMPFS: [&str; 2] = ["/run", "/var/tmp"];
/// Does not fill a tmpfs with what the image has there, as Docker never does.
const EMPTY: &str = "notmpcopyup";
/// Capabilities that all versions give to containers, unless they are dropped.
const GIVEN: &[&str] = &[
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Variables that it sets by itself.
const VARIABLES: &[&str] = &["TERM=xterm", "container=podman", "container=oci"];

/// Whether these are the parts of a Podman.
pub(super) fn is_podman(parts: &[SystemVersionComponents]) -> bool {
    parts.iter().any(|part| part.name.starts_with("Podman"))
}

/// Asks for the same in Podman's words.
pub(super) fn translate(asked: &mut ContainerCreateBody, limits: &ContainerLimits) {
    let Some(host) = &mut asked.host_config else { return };
    if host.readonly_rootfs == Some(true) {
        let bounded = format!("rw,exec,nosuid,nodev,mode=1777,size={}", limits.tmp_bytes);
        let tmpfs = host.tmpfs.get_or_insert_default();
        tmpfs.extend(READ_ONLY_TMPFS.map(|path| (path.to_owned(), bounded.clone())));
    }
    for options in host.tmpfs.iter_mut().flat_map(HashMap::values_mut) {
        let known = |option: &&str| {
            !["uid=", "gid=", "nr_inodes="].iter().any(|prefix| option.starts_with(prefix))
        };
        // Without an owner it is root's, so everybody may write there.
        let kept = options.split(',').filter(known);
        let kept = kept.map(|option| if option == "mode=0700" { "mode=1777" } else { option });
        *options = kept.chain([EMPTY]).collect::<Vec<_>>().join(",");
    }
    host.ulimits.get_or_insert_default().push(ulimit("nproc", PROCESSES));
}

/// What Podman says of a container, as Docker would say it.
pub(super) fn in_dockers_words(
    asked: &ContainerCreateBody,
    made: &ContainerInspectResponse,
) -> ContainerInspectResponse {
    let mut made = made.clone();
    let volumes: Vec<String> = made
        .mounts
        .iter()
        .flatten()
        .filter(|mount| mount.typ.as_deref() == Some("volume"))
        .filter_map(|mount| {
            Some(format!("{}:{}:", mount.name.as_ref()?, mount.destination.as_ref()?))
        })
        .collect();
    if let Some(host) = &mut made.host_config {
        capabilities(host);
        for (mode, own) in [(&mut host.pid_mode, ""), (&mut host.uts_mode, "")] {
            if mode.as_deref() == Some("private") {
                *mode = Some(own.to_owned());
            }
        }
        // Others could join it if the engine's operator asked for that.
        if host.ipc_mode.as_deref() == Some("shareable") {
            host.ipc_mode = Some("private".to_owned());
        }
        if let Some(binds) = &mut host.binds {
            binds.retain(|bind| !volumes.iter().any(|volume| bind.starts_with(volume)));
        }
        for limit in host.ulimits.iter_mut().flatten() {
            rename(limit);
        }
        if let Some(asked) = asked.host_config.as_ref().and_then(|host| host.tmpfs.as_ref()) {
            tmpfs(asked, host);
        }
        let is_unmasked = |option: &String| option.contains("unmask");
        if !host.security_opt.iter().flatten().any(is_unmasked) {
            let owned = |paths: &[&str]| Some(paths.iter().map(|&path| path.to_owned()).collect());
            (host.masked_paths, host.readonly_paths) = (owned(MASKED), owned(READ_ONLY));
        }
    }
    let hostname = format!("HOSTNAME={}", asked.hostname.as_deref().unwrap_or_default());
    if let Some(env) = made.config.as_mut().and_then(|config| config.env.as_mut()) {
        env.retain(|variable| !VARIABLES.contains(&variable.as_str()) && *variable != hostname);
    }
    made
}

/// Podman lists what is missing of what it gives, and what is there besides.
fn capabilities(host: &mut HostConfig) {
    let dropped = host.cap_drop.take().unwrap_or_default();
    let plain = |name: &String| name.trim_start_matches("CAP_").to_owned();
    let is_dropped = |name: &str| dropped.iter().any(|it| plain(it) == name);
    let kept = GIVEN.iter().filter(|name| !is_dropped(name)).map(|&name| name.to_owned());
    let mut has: Vec<String> = kept.chain(host.cap_add.iter().flatten().map(plain)).collect();
    has.sort();
    has.dedup();
    (host.cap_drop, host.cap_add) = (Some(vec!["ALL".to_owned()]), Some(has));
}

fn rename(limit: &mut ResourcesUlimits) {
    let name = limit.name.take().unwrap_or_default();
    limit.name = Some(name.trim_start_matches("RLIMIT_").to_ascii_lowercase());
}

/// Options that say nothing else than what was asked for are written as they were asked for.
fn tmpfs(asked: &HashMap<String, String>, host: &mut HostConfig) {
    for (path, made) in host.tmpfs.iter_mut().flatten() {
        let Some(asked) = asked.get(path) else { continue };
        let without = |options: &str, extra: &str| {
            options.split(',').filter(|option| *option != extra).collect::<Vec<_>>().join(",")
        };
        if without(made, "rprivate") == without(asked, EMPTY) {
            made.clone_from(asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::docker::hardening::differences;
    use crate::docker::podman::*;

    fn asked() -> ContainerCreateBody {
        let text = |text: &str| Some(text.to_owned());
        let tmpfs = "rw,exec,nosuid,nodev,mode=0700,uid=10000,gid=10000,size=9,nr_inodes=200000";
        let mut asked = ContainerCreateBody {
            hostname: text("sandbox"),
            env: Some(vec!["CI=true".to_owned()]),
            host_config: Some(HostConfig {
                cap_drop: Some(vec!["ALL".to_owned()]),
                cap_add: Some(vec!["CHOWN".to_owned()]),
                security_opt: Some(vec!["no-new-privileges".to_owned()]),
                ipc_mode: text("private"),
                readonly_rootfs: Some(true),
                tmpfs: Some(HashMap::from([("/home/agent".to_owned(), tmpfs.to_owned())])),
                ulimits: Some(vec![ulimit("core", 0)]),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let limits = ContainerLimits { tmp_bytes: 9, ..ContainerLimits::default() };
        translate(&mut asked, &limits);
        asked
    }

    /// As Podman 4.3.1 describes what it makes of it.
    fn made() -> ContainerInspectResponse {
        let tmpfs = "rw,exec,nosuid,nodev,mode=1777,size=9,rprivate";
        serde_json::from_value(serde_json::json!({
            "Mounts": [{"Type": "volume", "Name": "0a1b", "Destination": "/pw"}],
            "Config": {
                "Hostname": "sandbox",
                "Env": ["TERM=xterm", "container=podman", "CI=true", "HOSTNAME=sandbox"],
            },
            "HostConfig": {
                "CapDrop": GIVEN.iter().filter(|name| **name != "CHOWN").collect::<Vec<_>>(),
                "CapAdd": [],
                "SecurityOpt": ["no-new-privileges"],
                "IpcMode": "shareable",
                "PidMode": "private",
                "UTSMode": "private",
                "ReadonlyRootfs": true,
                "Binds": ["0a1b:/pw:rw,rprivate,nosuid,nodev,rbind"],
                "Tmpfs": {"/home/agent": tmpfs, "/run": tmpfs, "/var/tmp": tmpfs},
                "Ulimits": [
                    {"Name": "RLIMIT_CORE", "Hard": 0, "Soft": 0},
                    {"Name": "RLIMIT_NPROC", "Hard": 8192, "Soft": 8192},
                ],
            },
        }))
        .unwrap()
    }

    fn differences_after(loosen: impl FnOnce(&mut HostConfig)) -> Vec<String> {
        let (mut asked, mut made) = (asked(), made());
        // What is not about words.
        asked.host_config.as_mut().unwrap().mounts = Some(Vec::new());
        made.mounts.as_mut().unwrap().clear();
        let host = made.host_config.as_mut().unwrap();
        host.binds.as_mut().unwrap().clear();
        loosen(host);
        differences(&asked, &in_dockers_words(&asked, &made))
    }

    #[test]
    fn its_words_are_understood_and_what_is_looser_is_named() {
        assert_eq!(differences_after(|_| {}), Vec::<String>::new());
        let found = differences_after(|host| host.binds = Some(vec!["/:/host:rw".to_owned()]));
        assert_eq!(found, ["bind mounts is 1 instead of 0"]);
        let found = differences_after(|host| host.cap_drop = Some(Vec::new()));
        assert!(found[0].starts_with("cap-add is CHOWN,DAC_OVERRIDE,FOWNER"), "{found:?}");
        let found = differences_after(|host| host.cap_add = Some(vec!["CAP_SYS_ADMIN".to_owned()]));
        assert_eq!(found, ["cap-add is CHOWN,SYS_ADMIN instead of CHOWN"]);
        let found = differences_after(|host| host.pid_mode = Some("host".to_owned()));
        assert_eq!(found, ["pid namespace is host instead of "]);
        let found = differences_after(|host| {
            host.security_opt.as_mut().unwrap().push("unmask=ALL".to_owned());
        });
        assert_eq!(found.len(), MASKED.len() + READ_ONLY.len());
        let found = differences_after(|host| {
            let unbounded = "rw,rprivate,nosuid,nodev,tmpcopyup".to_owned();
            host.tmpfs.as_mut().unwrap().insert("/run".to_owned(), unbounded);
        });
        assert!(found.len() == 1 && found[0].starts_with("tmpfs is"), "{found:?}");
    }

    #[test]
    fn a_volume_is_no_bind() {
        let made = in_dockers_words(&asked(), &made());
        assert_eq!(made.host_config.unwrap().binds, Some(Vec::new()));
    }
}
