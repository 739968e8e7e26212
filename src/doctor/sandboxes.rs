//! What each sandbox can enforce on this machine, and what follows where something is missing. Pure:
//! from what Docker says of itself, and from the report of a local sandbox that has just started.

use super::Finding;
use patchwright_sandbox::docker::{Engine, Seccomp};

/// What the Docker engine can enforce.
pub fn docker(engine: &Engine) -> Vec<Finding> {
    let mut findings = vec![Finding::fine(
        "docker",
        format!(
            "engine {} (API {}), cgroup v{}, storage {}",
            engine.version, engine.api_version, engine.cgroup_version, engine.storage
        ),
    )];
    let named = |name: &str| {
        let wanted = format!("name={name}");
        // Docker lists options as `name=seccomp,profile=builtin`.
        engine.security.iter().find(|one| one.split(',').next() == Some(wanted.as_str()))
    };
    let seccomp = Seccomp::of(&engine.security);
    findings.push(match seccomp.refusal() {
        Some(_) => Finding::broken(
            "docker seccomp",
            "the engine applies no seccomp profile: no container is started",
            "start dockerd with its default seccomp profile, on a kernel with seccomp",
        ),
        None => {
            Finding::fine("docker seccomp", format!("{}, and our own on top", seccomp.report()))
        }
    });
    findings.push(if named("rootless").is_some() {
        Finding::fine("docker user", "rootless: who breaks out is an ordinary user")
    } else if named("userns").is_some() {
        Finding::fine("docker user", "user namespaces: who breaks out is nobody")
    } else {
        Finding::note(
            "docker user",
            "the engine runs as root without user namespaces: who breaks out of a container is root",
            Some("rootless Docker, or `userns-remap` in `/etc/docker/daemon.json`, makes the wall thicker"),
        )
    });
    findings.push(if engine.unbounded.is_empty() {
        Finding::fine("docker limits", "memory, swap, cpus and processes are bounded")
    } else {
        let what = engine.unbounded.join(", ");
        Finding::broken(
            "docker limits",
            format!("this kernel does not bound {what}: no container is started"),
            "enable the controllers of control groups (for memory on Debian: `cgroup_enable=memory \
             swapaccount=1` on the kernel's command line)",
        )
    });
    if let Some(module) = ["apparmor", "selinux"].into_iter().find(|name| named(name).is_some()) {
        findings.push(Finding::fine("docker confinement", module));
    }
    findings.extend(engine.warnings.iter().map(|it| Finding::note("docker limits", it, None)));
    findings
}

/// What setup commands reach in a container when every host is allowed to them; nothing to say otherwise.
pub fn setup_network(hosts: &[String]) -> Option<Finding> {
    hosts.iter().any(|host| host == "*").then(|| {
        Finding::note(
            "setup network",
            "`network.setup-allow` is `*`: setup commands are on Docker's bridge, past the relay: they \
             reach everything that this machine reaches, its own services, the local network and a \
             cloud's metadata service too, and nothing of it is checked, listed or bounded",
            Some("name the hosts that setup needs"),
        )
    })
}

/// One thing that a local sandbox may enforce: how the lines of its report begin that are about it.
struct Wall {
    what: &'static str,
    lines: &'static [&'static str],
    /// What follows, and what to do, when there is no such line, or one that says no.
    missing: (&'static str, &'static str),
}

const WALLS: &[Wall] = &[
    Wall {
        what: "files",
        lines: &["landlock", "files", "private files"],
        missing: (
            "commands could write wherever this user can",
            "use a kernel with Landlock (5.13 or newer, `landlock` in `lsm=`), or `--sandbox docker`",
        ),
    },
    Wall {
        what: "terminals",
        lines: &["terminals"],
        missing: ("commands reach this user's terminals", "report this: it cannot happen"),
    },
    Wall {
        what: "signals",
        lines: &["signals"],
        missing: (
            "a command can end other programs of this user",
            "use Linux 6.12 or newer, which keeps signals inside",
        ),
    },
    Wall {
        what: "system calls",
        lines: &["seccomp"],
        missing: ("commands reach all of the kernel", "use a kernel with `CONFIG_SECCOMP_FILTER`"),
    },
    Wall {
        what: "namespaces",
        lines: &["namespaces"],
        missing: (
            "commands see the programs of this machine, and only Landlock keeps them from signalling these",
            "in a container, run it with an uncovered `/proc`; elsewhere allow process namespaces",
        ),
    },
    Wall {
        what: "network",
        lines: &["network"],
        missing: (
            "this machine's interfaces can be seen; there are no sockets to use them with",
            "report this: it cannot happen",
        ),
    },
    Wall {
        what: "temporary files",
        lines: &["/tmp"],
        missing: ("nothing bounds `/tmp` and the home folder", "report this: it cannot happen"),
    },
    Wall {
        what: "memory",
        lines: &["memory"],
        missing: ("a command can take all memory of this machine", GROUPS),
    },
    Wall { what: "cpus", lines: &["cpus"], missing: ("a command can use every processor", GROUPS) },
    Wall {
        what: "processes",
        lines: &["processes"],
        missing: ("a fork bomb takes all processes of this user", GROUPS),
    },
    Wall {
        what: "workspace",
        lines: &["workspace"],
        missing: ("nothing watches the size of the workspace", "report this: it cannot happen"),
    },
];

const GROUPS: &str = "start patchwright where it may make control groups (`systemd-run --user --scope \
                      -p Delegate=yes patchwright …`, or as root), or use `--sandbox docker`";

/// What a local sandbox enforces, by its report.
pub fn local(enforced: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for wall in WALLS {
        let what = format!("local sandbox, {}", wall.what);
        let is_about = |line: &&String| wall.lines.iter().any(|start| line.starts_with(start));
        let lines: Vec<&str> = enforced.iter().filter(is_about).map(String::as_str).collect();
        let (follows, fix) = wall.missing;
        findings.push(if lines.is_empty() {
            Finding::note(&what, follows, Some(fix))
        } else if lines.iter().any(|line| is_weak(line)) {
            Finding::note(&what, format!("{}: {follows}", lines.join("; ")), Some(fix))
        } else {
            Finding::fine(&what, lines.join("; "))
        });
    }
    let is_known =
        |line: &&String| WALLS.iter().any(|wall| wall.lines.iter().any(|it| line.starts_with(it)));
    // A newer guest may report what this table does not know; the line is still shown.
    let others = enforced.iter().filter(|line| !is_known(line));
    findings.extend(others.map(|line| Finding::fine("local sandbox", line)));
    findings
}

/// A line that says what is not in force.
fn is_weak(line: &str) -> bool {
    // The user namespace alone does not hide the machine's processes.
    let has_no_processes = line.starts_with("namespaces") && !line.contains("processes");
    has_no_processes
        || ["not bounded", "network: present", "network: unknown"]
            .iter()
            .any(|weak| line.contains(weak))
}

#[cfg(test)]
mod tests {
    use crate::doctor::CheckState;
    use crate::doctor::sandboxes::*;

    fn engine(security: &[&str]) -> Engine {
        Engine {
            version: "29.0.0".to_owned(),
            api_version: "1.52".to_owned(),
            cgroup_version: "2".to_owned(),
            security: security.iter().map(|&option| option.to_owned()).collect(),
            storage: "overlay2".to_owned(),
            unbounded: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn says_which_seccomp_profile_the_engine_applies() {
        for (security, state, message) in [
            (
                &["name=seccomp,profile=builtin"][..],
                CheckState::Fine,
                "default seccomp, and our own on top",
            ),
            (
                &["name=seccomp,profile=/own.json"],
                CheckState::Fine,
                "seccomp profile `/own.json` of the engine, and our own on top",
            ),
            (
                &["name=seccomp,profile=unconfined"],
                CheckState::Fine,
                "default seccomp (asked for; the daemon applies none), and our own on top",
            ),
            (
                &["name=rootless"],
                CheckState::Broken,
                "the engine applies no seccomp profile: no container is started",
            ),
        ] {
            let findings = docker(&engine(security));
            let found = findings.iter().find(|found| found.what == "docker seccomp").unwrap();
            assert_eq!((found.state, found.message.as_str()), (state, message));
        }
    }

    #[test]
    fn warns_of_setup_that_reaches_everything() {
        let hosts = |hosts: &[&str]| hosts.iter().map(|&host| host.to_owned()).collect::<Vec<_>>();
        assert_eq!(setup_network(&hosts(&[])), None);
        assert_eq!(setup_network(&hosts(&["pypi.org", "*.npmjs.org"])), None);
        let found = setup_network(&hosts(&["*"])).unwrap();
        assert_eq!(found.state, CheckState::Note);
        assert!(found.message.contains("metadata service"), "{found}");
    }
}
