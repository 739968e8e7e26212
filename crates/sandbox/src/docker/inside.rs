//! The walls of a container as a process in it sees them, for engines whose answers do not describe all of them. The
//! guest looks, in an exec like the one that it serves in and before any command runs; what it sees is compared here
//! with what was asked for. What is missing, or not understood, counts as looser. But for the exec, pure.

use std::collections::BTreeMap;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::models::{ContainerCreateBody, HostConfig};
use futures_util::StreamExt;
use patchwright_guest::confinement::{self, CONFINEMENT, Confinement, Mount};
use patchwright_guest::programs;

use super::api::bounded;
use super::hardening::{MASKED, READ_ONLY};
use super::{CALL, GUEST, VOLUME, WORKSPACE};
use crate::SandboxError;

mod groups;
mod mounts;

/// How long a look may take, and most bytes of what is seen.
const LOOK: Duration = Duration::from_secs(30);
const MOST: usize = 2 << 20;

/// Lets the guest look around in a running container, as `user`.
pub(super) async fn look(
    docker: &Docker,
    container: &str,
    user: &str,
) -> Result<Confinement, SandboxError> {
    let programs = format!("{VOLUME}/{}", programs::FOLDER);
    let own = [VOLUME, GUEST, WORKSPACE, &programs];
    let command = [GUEST, CONFINEMENT].into_iter().chain(own);
    let command = command.chain(MASKED.iter().copied()).chain(READ_ONLY.iter().copied());
    let options = CreateExecOptions {
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        privileged: Some(false),
        cmd: Some(command.collect()),
        user: Some(user),
        ..CreateExecOptions::default()
    };
    let exec = bounded("exec", CALL, docker.create_exec(container, options)).await?.id;
    let options = StartExecOptions { detach: false, tty: false, output_capacity: None };
    let started = bounded("exec start", CALL, docker.start_exec(&exec, Some(options))).await?;
    let StartExecResults::Attached { mut output, .. } = started else {
        return Err(SandboxError::Other("docker exec start: did not attach".to_owned()));
    };
    let (mut said, mut words) = (Vec::new(), Vec::new());
    let reading = async {
        while let Some(Ok(part)) = output.next().await {
            match part {
                LogOutput::StdOut { message } => said.extend_from_slice(&message),
                LogOutput::StdErr { message } => words.extend_from_slice(&message),
                LogOutput::StdIn { .. } | LogOutput::Console { .. } => {}
            }
            if said.len() + words.len() > MOST {
                return;
            }
        }
    };
    // Whatever has arrived by then is judged.
    let _ = tokio::time::timeout(LOOK, reading).await;
    serde_json::from_slice(&said).map_err(|err| {
        let words = patchwright_base::text::line(&String::from_utf8_lossy(&words));
        let words = patchwright_base::text::cut(&words, 300);
        SandboxError::HardeningMismatch(format!(
            "the container cannot be inspected from inside: {err}{}{words}",
            if words.is_empty() { "" } else { "; " }
        ))
    })
}

/// What is looser than asked for, one sentence each; empty when all is well.
pub(super) fn differences(asked: &ContainerCreateBody, seen: &Confinement) -> Vec<String> {
    let host = asked.host_config.clone().unwrap_or_default();
    let mut found = Vec::new();
    rights(asked, &host, seen, &mut found);
    found.extend(unbounded(asked, seen));
    ulimits(&host, &seen.limits, &mut found);
    match confinement::mounts(&seen.mounts) {
        Some(mounts) => found.extend(mounts::differences(&host, &mounts, &seen.writable)),
        None => found.push("what is mounted is not understood".to_owned()),
    }
    hidden_paths(seen, &mut found);
    let is_alone = host.network_mode.as_deref() == Some("bridge") || seen.interfaces == ["lo"];
    if !is_alone {
        found.push(format!("it has the network interfaces {}", shown(&seen.interfaces)));
    }
    let command: Vec<String> =
        asked.entrypoint.iter().chain(&asked.cmd).flatten().cloned().collect();
    if seen.first_command != command {
        found.push("its first process is another one's: it has no process namespace".to_owned());
    }
    if host.readonly_rootfs == Some(true) {
        own_files(&host, seen, &mut found);
    }
    found
}

/// Limits of control groups that a process in a container does not have, one sentence each.
pub(super) fn unbounded(asked: &ContainerCreateBody, seen: &Confinement) -> Vec<String> {
    let host = asked.host_config.clone().unwrap_or_default();
    let mut found = groups::differences(&host, &seen.groups);
    found.extend(seen.outside.iter().map(|group| {
        format!(
            "a process that the engine starts in a running container is not in its control group `{group}`, and not \
             bounded: the engine may not move processes; a rootless one has to be started by its user's systemd \
             (`systemctl --user start …`)"
        )
    }));
    found
}

/// Users, capabilities, `no_new_privs` and seccomp, of this process and the first one.
fn rights(
    asked: &ContainerCreateBody,
    host: &HostConfig,
    seen: &Confinement,
    found: &mut Vec<String>,
) {
    let user = asked.user.as_deref().unwrap_or_default();
    let (user, group) = user.split_once(':').unwrap_or((user, user));
    let wanted = host.cap_add.iter().flatten().fold(0, |all, name| all | capability(name));
    for (who, status) in [("a process", &seen.status), ("the first process", &seen.first_status)] {
        let fields: BTreeMap<&str, Vec<&str>> = status
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name, value.split_whitespace().collect()))
            .collect();
        let field = |name: &str| fields.get(name).map(Vec::as_slice).unwrap_or_default();
        for (name, id) in [("Uid", user), ("Gid", group)] {
            if field(name) != [id; 4] {
                found.push(format!("{who} has the {name} {} instead of {id}", shown(field(name))));
            }
        }
        if field("Groups").iter().any(|it| *it != group) {
            found.push(format!("{who} has the groups {}", shown(field("Groups"))));
        }
        for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            let has = field(name).first().and_then(|bits| u64::from_str_radix(bits, 16).ok());
            if has.is_none_or(|has| has & !wanted != 0) {
                let has = shown(field(name));
                found.push(format!("{who} has the capabilities {name} {has}, not {wanted:016x}"));
            }
        }
        for (name, value) in [("NoNewPrivs", "1"), ("Seccomp", "2")] {
            if field(name) != [value] {
                found.push(format!("{name} of {who} is {} instead of {value}", shown(field(name))));
            }
        }
    }
}

/// The bit of a capability that we ask for; none of another. Source: `linux/capability.h`.
fn capability(name: &str) -> u64 {
    const BITS: &[(&str, u32)] = &[
        ("CHOWN", 0),
        ("DAC_OVERRIDE", 1),
        ("FOWNER", 3),
        ("FSETID", 4),
        ("SETGID", 6),
        ("SETUID", 7),
    ];
    let name = name.trim_start_matches("CAP_");
    BITS.iter().find(|(known, _)| *known == name).map_or(0, |(_, bit)| 1 << bit)
}

/// Limits of a process. Source: `/proc/pid/limits` of `proc(5)`, whose columns are two spaces apart or more.
fn ulimits(host: &HostConfig, limits: &str, found: &mut Vec<String>) {
    const NAMES: &[(&str, &str)] = &[
        ("core", "Max core file size"),
        ("fsize", "Max file size"),
        ("nofile", "Max open files"),
        ("nproc", "Max processes"),
    ];
    for limit in host.ulimits.iter().flatten() {
        let name = limit.name.as_deref().unwrap_or_default();
        let line = NAMES.iter().find(|(known, _)| *known == name).and_then(|(_, label)| {
            limits.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix("  "))
        });
        let hard = line.and_then(|line| line.split_whitespace().nth(1));
        let is_so = hard
            .and_then(|hard| hard.parse::<i64>().ok())
            .is_some_and(|hard| limit.hard.is_some_and(|wanted| hard <= wanted));
        if !is_so {
            found.push(format!("the limit `{name}` is {}", hard.unwrap_or("not to be seen")));
        }
    }
}

/// What exists is hidden, or read-only, by a mount of its own.
fn hidden_paths(seen: &Confinement, found: &mut Vec<String>) {
    let mounts = confinement::mounts(&seen.mounts).unwrap_or_default();
    let top = |path: &str| mounts.iter().rfind(|mount| mount.at.as_os_str() == path);
    for path in MASKED.iter().filter(|path| seen.places.contains_key(**path)) {
        if !top(path).is_some_and(mounts::hides) {
            found.push(format!("`{path}` is not masked"));
        }
    }
    for path in READ_ONLY.iter().filter(|path| seen.places.contains_key(**path)) {
        if !top(path).is_some_and(Mount::is_read_only) {
            found.push(format!("`{path}` is not read-only"));
        }
    }
}

/// The guest is root's, and so is the way to it; the workspace has in it only what setup left there.
fn own_files(host: &HostConfig, seen: &Confinement, found: &mut Vec<String>) {
    const OTHERS_WRITE: u32 = 0o022;
    let programs = format!("{VOLUME}/{}", programs::FOLDER);
    for path in [VOLUME, GUEST, &programs] {
        let is_ours = seen
            .places
            .get(path)
            .is_some_and(|place| place.user == 0 && place.mode & OTHERS_WRITE == 0);
        if !is_ours {
            found.push(format!("`{path}` is not root's alone"));
        }
    }
    // Not every engine keeps what the image has there out of a volume.
    let is_new = host.mounts.iter().flatten().any(|mount| {
        let options = mount.volume_options.as_ref();
        mount.target.as_deref() == Some(WORKSPACE)
            && options.is_some_and(|options| options.no_copy == Some(true))
    });
    if is_new && !seen.places.get(WORKSPACE).is_some_and(|place| place.is_empty) {
        found.push(format!("the image has files at `{WORKSPACE}`"));
    }
}

/// No container is used that differs.
pub(super) fn refuse(differences: &[String]) -> Result<(), SandboxError> {
    if differences.is_empty() {
        return Ok(());
    }
    Err(SandboxError::HardeningMismatch(differences.join("; ")))
}

fn shown(values: &[impl AsRef<str>]) -> String {
    if values.is_empty() {
        return "nothing".to_owned();
    }
    let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
    patchwright_base::text::cut(&patchwright_base::text::line(&values.join(" ")), 100)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bollard::models::{Mount as AskedMount, MountType, MountVolumeOptions, ResourcesUlimits};
    use patchwright_guest::confinement::PathState;

    use crate::docker::inside::*;

    const STATUS: &str = "Name:\tpatchwright-gue\nUid:\t10000\t10000\t10000\t10000\n\
        Gid:\t10000\t10000\t10000\t10000\nGroups:\t10000 \nCapInh:\t0000000000000000\n\
        CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n\
        CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";
    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
        Max core file size        0                    0                    bytes     \n\
        Max open files            4096                 4096                 files     \n";
    const MOUNTS: &str = "78 49 0:40 / / ro,relatime - overlay overlay rw,lowerdir=/l\n\
        79 78 0:43 / /sys ro,nosuid,nodev,noexec - sysfs sysfs ro\n\
        80 78 0:44 / /dev rw,nosuid,noexec - tmpfs tmpfs rw,size=65536k,mode=755\n\
        82 78 0:46 / /proc rw,nosuid,nodev,noexec - proc proc rw\n\
        83 78 0:47 / /tmp rw,nosuid,nodev - tmpfs tmpfs rw,size=1024k\n\
        81 78 0:45 / /run ro,nosuid,nodev - tmpfs tmpfs rw,size=1024k,mode=755\n\
        84 80 0:48 / /dev/pts rw,nosuid,noexec - devpts devpts rw,gid=5\n\
        86 80 0:42 / /dev/mqueue rw,nosuid,nodev,noexec - mqueue mqueue rw\n\
        89 78 254:0 /volumes/c0/_data /pw/workspace rw,nosuid,nodev - ext4 /dev/vda rw,discard\n\
        92 78 254:0 /c/hostname /etc/hostname ro,nosuid - ext4 /dev/vda rw,discard\n\
        94 80 0:39 / /dev/shm rw,nosuid,nodev,noexec - tmpfs shm rw,size=65536k\n\
        95 79 0:51 / /sys/fs/cgroup rw,nosuid,nodev - tmpfs tmpfs rw,mode=755\n\
        96 95 0:29 /libpod-c0 /sys/fs/cgroup/cpu ro,nosuid - cgroup cgroup rw,cpu\n\
        53 82 0:46 /sys /proc/sys ro,nosuid - proc proc rw\n\
        55 82 0:44 /null /proc/keys rw,nosuid,noexec - tmpfs tmpfs rw,size=65536k,mode=755\n\
        57 79 0:53 / /sys/firmware ro,relatime - tmpfs tmpfs ro\n\
        85 80 0:6 /null /dev/null rw,relatime - devtmpfs devtmpfs rw\n";

    fn asked() -> ContainerCreateBody {
        let list = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect());
        let limit = |name: &str, most| ResourcesUlimits {
            name: Some(name.to_owned()),
            soft: Some(most),
            hard: Some(most),
        };
        ContainerCreateBody {
            user: Some("10000:10000".to_owned()),
            entrypoint: list(&[GUEST]),
            cmd: list(&["idle"]),
            host_config: Some(HostConfig {
                network_mode: Some("none".to_owned()),
                readonly_rootfs: Some(true),
                memory: Some(1 << 20),
                memory_swap: Some(1 << 20),
                pids_limit: Some(64),
                nano_cpus: Some(1_000_000_000),
                shm_size: Some(64 << 20),
                ulimits: Some(vec![limit("core", 0), limit("nofile", 4096)]),
                tmpfs: Some(HashMap::from([
                    ("/tmp".to_owned(), "rw,exec,size=1048576,mode=1777".to_owned()),
                    ("/run".to_owned(), "ro,size=1048576".to_owned()),
                ])),
                mounts: Some(vec![AskedMount {
                    target: Some(WORKSPACE.to_owned()),
                    typ: Some(MountType::VOLUME),
                    volume_options: Some(MountVolumeOptions {
                        no_copy: Some(true),
                        ..MountVolumeOptions::default()
                    }),
                    ..AskedMount::default()
                }]),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        }
    }

    fn seen() -> Confinement {
        let place = |user, mode| PathState { user, group: user, mode, is_empty: true };
        let places = [
            (VOLUME, place(0, 0o40_755)),
            (GUEST, place(0, 0o100_755)),
            ("/pw/bin", place(0, 0o40_755)),
            (WORKSPACE, place(10_000, 0o40_755)),
            ("/proc/keys", place(0, 0o20_666)),
            ("/proc/sys", place(0, 0o40_555)),
            ("/sys/firmware", place(0, 0o40_755)),
        ];
        let groups = [
            ("memory.max", "1048576"),
            ("memory.swap.max", "0"),
            ("pids.max", "64"),
            ("cpu.max", "100000 100000"),
        ];
        Confinement {
            status: STATUS.to_owned(),
            first_status: STATUS.to_owned(),
            first_command: vec![GUEST.to_owned(), "idle".to_owned()],
            limits: LIMITS.to_owned(),
            mounts: MOUNTS.to_owned(),
            writable: ["/tmp", WORKSPACE, "/dev/shm", "/dev/mqueue", "/dev/null", "/proc/keys"]
                .map(str::to_owned)
                .to_vec(),
            interfaces: vec!["lo".to_owned()],
            groups: groups.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            outside: Vec::new(),
            places: places.map(|(path, place)| (path.to_owned(), place)).into(),
        }
    }

    fn after(change: impl FnOnce(&mut Confinement)) -> String {
        let mut seen = seen();
        change(&mut seen);
        differences(&asked(), &seen).join("; ")
    }

    #[test]
    fn what_is_as_asked_is_fine() {
        assert_eq!(after(|_| ()), "");
    }

    #[test]
    fn names_each_right_that_is_too_much() {
        for (what, instead, expected) in [
            ("Uid:\t10000", "Uid:\t0", "has the Uid 0 10000 10000 10000 instead of 10000"),
            ("Groups:\t10000 ", "Groups:\t10000 42 ", "has the groups 10000 42"),
            ("CapEff:\t0000000000000000", "CapEff:\t0000000000000400", "CapEff 0000000000000400"),
            ("CapBnd:\t0000000000000000", "CapBnd:\t00000000a80425fb", "CapBnd 00000000a80425fb"),
            ("CapAmb:\t0000000000000000\n", "", "CapAmb nothing"),
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "NoNewPrivs of a process is 0"),
            ("Seccomp:\t2", "Seccomp:\t0", "Seccomp of a process is 0"),
        ] {
            let changed = STATUS.replacen(what, instead, 1);
            assert_ne!(changed, STATUS, "{what}");
            let found = after(|seen| seen.status.clone_from(&changed));
            assert!(found.contains(expected) && !found.contains("; "), "{expected}: {found}");
            let first = after(|seen| seen.first_status = changed);
            assert!(first.contains("the first process"), "{first}");
        }
        let root = after(|seen| seen.status.clear());
        assert!(root.contains("Uid nothing instead of 10000"), "{root}");
    }

    #[test]
    fn what_setup_may_is_no_more_than_asked() {
        let mut asked = asked();
        asked.host_config.as_mut().unwrap().cap_add =
            Some(["CHOWN", "CAP_SETUID"].map(str::to_owned).to_vec());
        for (bits, is_fine) in [("0000000000000081", true), ("0000000000000091", false)] {
            let status = STATUS.replace("CapEff:\t0000000000000000", &format!("CapEff:\t{bits}"));
            let found = differences(&asked, &Confinement { status, ..seen() });
            assert_eq!(found.is_empty(), is_fine, "{found:?}");
        }
    }

    #[test]
    fn names_each_mount_that_is_open_or_foreign() {
        for (what, instead, expected) in [
            ("/ / ro,relatime", "/ / rw,relatime", "`/` is not read-only"),
            (
                "/sys ro,nosuid,nodev,noexec - sysfs sysfs ro",
                "/sys rw - sysfs sysfs rw",
                "`/sys` is not",
            ),
            ("tmpfs rw,size=1024k\n", "tmpfs rw\n", "`/tmp` has no bound"),
            ("tmpfs rw,size=1024k\n", "tmpfs rw,size=2048k\n", "`/tmp` has no bound, or another"),
            (
                "- tmpfs tmpfs rw,size=1024k\n",
                "- ext4 /dev/vda rw\n",
                "there is a ext4 mount at `/tmp`",
            ),
            ("/run ro,nosuid", "/run rw,nosuid", "`/run` is not read-only"),
            (
                "/dev/shm rw,nosuid,nodev,noexec - tmpfs shm rw,size=65536k",
                "/dev/shm rw - tmpfs shm rw",
                "`/dev/shm` has",
            ),
            ("/etc/hostname", "/run/secrets", "there is a ext4 mount at `/run/secrets`"),
            ("/etc/hostname", "/pw/bin", "there is a ext4 mount at `/pw/bin`"),
            ("/pw/workspace", "/pw", "nothing is mounted at `/pw/workspace`"),
            ("/proc/sys ro", "/proc/sys rw", "`/proc/sys` is not read-only"),
            ("/null /proc/keys rw", "/keys /proc/keys rw", "`/proc/keys` is not masked"),
            (
                "/sys/firmware ro,relatime - tmpfs tmpfs ro",
                "/sys/firmware rw - tmpfs tmpfs rw",
                "is not masked",
            ),
            ("/null /dev/null", "/sda /dev/null", "there is a devtmpfs mount at `/dev/null`"),
            (
                "/ /proc rw,nosuid,nodev,noexec - proc proc rw",
                "/ /proc rw - tmpfs t rw",
                "mount at `/proc`",
            ),
            ("/libpod-c0 /sys/fs/cgroup/cpu ro", "/ /sys/fs/cgroup/cpu rw", "cgroup mount at"),
            (" - sysfs", "", "not understood"),
        ] {
            let changed = MOUNTS.replacen(what, instead, 1);
            assert_ne!(changed, MOUNTS, "{what}");
            let found = after(|seen| seen.mounts = changed);
            assert!(found.contains(expected), "{expected}: {found}");
        }
        let open = after(|seen| seen.writable.push("/sys/fs/cgroup".to_owned()));
        assert_eq!(open, "commands can write to `/sys/fs/cgroup`");
        let open = after(|seen| seen.writable.push("/etc/hostname".to_owned()));
        assert_eq!(open, "commands can write to `/etc/hostname`");
    }

    #[test]
    fn names_what_else_is_looser() {
        type Change = fn(&mut Confinement);
        let changes: [(Change, &str); 10] = [
            (
                |seen| seen.outside.push("/sys/fs/cgroup".to_owned()),
                "is not in its control group `/sys/fs/cgroup`",
            ),
            (
                |seen| seen.interfaces.push("eth0".to_owned()),
                "it has the network interfaces lo eth0",
            ),
            (|seen| seen.first_command = vec!["/sbin/init".to_owned()], "no process namespace"),
            (|seen| seen.limits = LIMITS.replace("4096", "8192"), "the limit `nofile` is 8192"),
            (|seen| seen.limits.clear(), "the limit `core` is not to be seen"),
            (|seen| drop(seen.groups.remove("pids.max")), "does not bound processes"),
            (
                |seen| seen.places.get_mut(GUEST).unwrap().user = 10_000,
                "`/pw/patchwright-guest` is not",
            ),
            (
                |seen| seen.places.get_mut(VOLUME).unwrap().mode = 0o40_777,
                "`/pw` is not root's alone",
            ),
            (
                |seen| seen.places.retain(|path, _| path != "/pw/bin"),
                "`/pw/bin` is not root's alone",
            ),
            (
                |seen| seen.places.get_mut(WORKSPACE).unwrap().is_empty = false,
                "the image has files at",
            ),
        ];
        for (change, expected) in changes {
            let found = after(change);
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }
}
