//! What each sandbox can enforce on this machine, and what follows where something is missing. Pure:
//! from what Docker says of itself, and from the report of a local sandbox that has just started.

use super::Finding;
use patchwright_guest::enforced::Enforced;
use patchwright_sandbox::docker::{Engine, Seccomp};

const CONTROLLERS: &str = "enable the controllers of control groups (for memory on Debian: `cgroup_enable=memory \
                           swapaccount=1` on the kernel's command line)";
/// Source: Docker's and Podman's pages about rootless mode: limits need version 2 of control groups, and older systemd hands
/// ordinary users memory and processes only unless it is told to.
const ROOTLESS: &str = "boot with control groups of version 2 (`systemd.unified_cgroup_hierarchy=1`), and hand all of \
                        them to users: `Delegate=cpu cpuset io memory pids` in \
                        `/etc/systemd/system/user@.service.d/delegate.conf`; or use an engine with `userns-remap`";

/// What the Docker engine can enforce.
pub fn docker(engine: &Engine) -> Vec<Finding> {
    let mut findings = vec![Finding::fine(
        "docker",
        format!(
            "{} {} (API {}), cgroup v{}, storage {}",
            if engine.name == "podman" { "Podman" } else { "engine" },
            engine.version,
            engine.api_version,
            engine.cgroup_version,
            engine.storage
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
    findings.push(if engine.name == "podman" && engine.cgroup_version == "2" {
        // What it says of itself is about version 1.
        let message = "memory, swap, cpus and processes are checked inside each container";
        Finding::fine("docker limits", message)
    } else if engine.unbounded.is_empty() {
        Finding::fine("docker limits", "memory, swap, cpus and processes are bounded")
    } else {
        let what = engine.unbounded.join(", ");
        let (who, fix) = if named("rootless").is_some() {
            ("a rootless engine", ROOTLESS)
        } else {
            ("this kernel", CONTROLLERS)
        };
        let message = format!("{who} does not bound {what} here: no container is started");
        Finding::broken("docker limits", message, fix)
    });
    if let Some(module) = ["apparmor", "selinux"].into_iter().find(|name| named(name).is_some()) {
        findings.push(Finding::fine("docker confinement", module));
    }
    findings.extend((engine.name == "podman").then(podman));
    findings.extend(engine.warnings.iter().map(|it| Finding::note("docker limits", it, None)));
    findings
}

fn podman() -> Finding {
    Finding::note(
        "docker engine",
        "Podman does not describe all of a container: each is inspected from inside, and not used when a wall or a \
         limit is missing",
        None,
    )
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

/// One wall of the local sandbox.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wall {
    Files,
    Terminals,
    Signals,
    SystemCalls,
    Namespaces,
    Network,
    TemporaryFiles,
    Memory,
    Cpus,
    Processes,
    Workspace,
}

const WALLS: [Wall; 11] = [
    Wall::Files,
    Wall::Terminals,
    Wall::Signals,
    Wall::SystemCalls,
    Wall::Namespaces,
    Wall::Network,
    Wall::TemporaryFiles,
    Wall::Memory,
    Wall::Cpus,
    Wall::Processes,
    Wall::Workspace,
];

const GROUPS: &str = "start patchwright where it may make control groups (`systemd-run --user --scope \
                      -p Delegate=yes patchwright …`, or as root), or use `--sandbox docker`";

impl Wall {
    /// The wall that a part of the report is about; `None` for what containers alone have, and for exceptions.
    fn of(enforced: &Enforced) -> Option<Wall> {
        match enforced {
            Enforced::FileTree
            | Enforced::PrivateFiles { .. }
            | Enforced::Landlock
            | Enforced::LandlockAbi(_) => Some(Wall::Files),
            Enforced::Terminals => Some(Wall::Terminals),
            Enforced::Signals => Some(Wall::Signals),
            Enforced::SystemCalls(_) => Some(Wall::SystemCalls),
            Enforced::Namespaces { .. } => Some(Wall::Namespaces),
            Enforced::Network(_) => Some(Wall::Network),
            Enforced::TemporaryFiles { .. } => Some(Wall::TemporaryFiles),
            Enforced::Memory(_) => Some(Wall::Memory),
            Enforced::Cpus(_) => Some(Wall::Cpus),
            Enforced::Processes(_) => Some(Wall::Processes),
            Enforced::Workspace { .. } => Some(Wall::Workspace),
            Enforced::ReadOnlyRoot | Enforced::User { .. } | Enforced::Relay { .. } => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Wall::Files => "files",
            Wall::Terminals => "terminals",
            Wall::Signals => "signals",
            Wall::SystemCalls => "system calls",
            Wall::Namespaces => "namespaces",
            Wall::Network => "network",
            Wall::TemporaryFiles => "temporary files",
            Wall::Memory => "memory",
            Wall::Cpus => "cpus",
            Wall::Processes => "processes",
            Wall::Workspace => "workspace",
        }
    }

    /// What follows when it is missing, and what to do.
    fn missing(self) -> (&'static str, &'static str) {
        const BUG: &str = "report this: it cannot happen";
        match self {
            Wall::Files => (
                "commands could write wherever this user can",
                "use a kernel with Landlock (5.13 or newer, `landlock` in `lsm=`), or `--sandbox docker`",
            ),
            Wall::Terminals => ("commands reach this user's terminals", BUG),
            Wall::Signals => (
                "a command can end other programs of this user",
                "use Linux 6.12 or newer, which keeps signals inside",
            ),
            Wall::SystemCalls => {
                ("commands reach all of the kernel", "use a kernel with `CONFIG_SECCOMP_FILTER`")
            }
            Wall::Namespaces => (
                "commands see the programs of this machine, and only Landlock keeps them from signalling these",
                "in a container, run it with an uncovered `/proc`; elsewhere allow process namespaces",
            ),
            Wall::Network => ("commands may reach what this machine reaches", BUG),
            Wall::TemporaryFiles => ("nothing bounds `/tmp` and the home folder", BUG),
            Wall::Memory => ("a command can take all memory of this machine", GROUPS),
            Wall::Cpus => ("a command can use every processor", GROUPS),
            Wall::Processes => ("a fork bomb takes all processes of this user", GROUPS),
            Wall::Workspace => ("nothing watches the size of the workspace", BUG),
        }
    }
}

/// What a local sandbox enforces, by its report.
pub fn local(enforced: &[Enforced]) -> Vec<Finding> {
    let findings = WALLS.into_iter().map(|wall| {
        let parts = || enforced.iter().filter(|part| Wall::of(part) == Some(wall));
        let lines = parts().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let what = format!("local sandbox, {}", wall.name());
        let (follows, fix) = wall.missing();
        if lines.is_empty() {
            Finding::note(&what, follows, Some(fix))
        } else if parts().any(Enforced::is_missing) {
            Finding::note(&what, format!("{lines}: {follows}"), Some(fix))
        } else {
            Finding::fine(&what, lines)
        }
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use crate::doctor::CheckState;
    use crate::doctor::sandboxes::*;
    use patchwright_guest::enforced::{Bound, Network};

    fn engine(security: &[&str]) -> Engine {
        Engine {
            name: "docker",
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
    fn limits_of_podman_are_those_that_its_containers_show() {
        let engine = Engine { name: "podman", ..engine(&["name=seccomp,profile=default"]) };
        let findings = docker(&engine);
        let found = findings.iter().find(|found| found.what == "docker limits").unwrap();
        assert_eq!(found.state, CheckState::Fine);
        assert!(found.message.contains("inside each container"), "{found}");
    }

    #[test]
    fn says_which_limits_an_engine_cannot_set() {
        let all = vec!["memory", "swap", "cpus", "processes"];
        let rootless = Engine {
            unbounded: all,
            cgroup_version: "1".to_owned(),
            ..engine(&["name=seccomp,profile=default", "name=rootless"])
        };
        let kernel =
            Engine { unbounded: vec!["swap"], ..engine(&["name=seccomp,profile=default"]) };
        for (engine, message, fix) in [
            (
                rootless,
                "a rootless engine does not bound memory, swap, cpus, processes here: no container is started",
                ROOTLESS,
            ),
            (kernel, "this kernel does not bound swap here: no container is started", CONTROLLERS),
        ] {
            let findings = docker(&engine);
            let found = findings.iter().find(|found| found.what == "docker limits").unwrap();
            assert_eq!((found.state, found.message.as_str()), (CheckState::Broken, message));
            assert!(found.to_string().contains(fix), "{found}");
        }
        let podman = Engine { name: "podman", ..engine(&["name=seccomp,profile=default"]) };
        let findings = docker(&podman);
        assert!(findings[0].message.starts_with("Podman 29.0.0"), "{}", findings[0]);
        let about = findings.iter().find(|found| found.what == "docker engine").unwrap();
        assert_eq!(about.state, CheckState::Note);
        assert!(about.message.contains("inspected from inside"), "{about}");
        assert!(findings.iter().all(|found| found.state != CheckState::Broken), "{findings:?}");
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
    #[test]
    fn a_wall_that_is_missing_weak_or_there_is_said_to_be() {
        let report = [
            Enforced::FileTree,
            Enforced::Landlock,
            Enforced::Namespaces { user: true, processes: false },
            Enforced::Network(Network::None),
            Enforced::Memory(Bound::Unbounded),
            Enforced::Cpus(Bound::AtMost(1.5)),
            Enforced::Processes(Bound::InNamespace(512)),
        ];
        let findings = local(&report);
        let found = |what: &str| {
            let what = format!("local sandbox, {what}");
            let found = findings.iter().find(|found| found.what == what).unwrap();
            (found.state, found.message.as_str())
        };
        let (fine, note) = (CheckState::Fine, CheckState::Note);
        let tree = "files: a tree of its own, read-only but for workspace, home and /tmp; \
                    landlock: files fully enforced";
        assert_eq!(found("files"), (fine, tree));
        assert_eq!(found("network"), (fine, "network: none"));
        assert_eq!(found("cpus"), (fine, "cpus: 1.5"));
        assert_eq!(found("processes"), (fine, "processes: 512, counted in the user namespace"));
        assert_eq!(found("signals"), (note, "a command can end other programs of this user"));
        let memory = "memory: not bounded: a command can take all memory of this machine";
        assert_eq!(found("memory"), (note, memory));
        assert_eq!(found("namespaces").0, note);
        assert!(found("namespaces").1.starts_with("namespaces: user, network, mounts: "));
        assert_eq!(findings.len(), WALLS.len());
    }
}
