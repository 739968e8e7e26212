//! What an engine says of its seccomp profile. A container's inspection does not show the profile that the
//! daemon applies by itself, so the daemon is asked. Pure.

/// The profile that containers get when nobody names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seccomp {
    /// The engine's own.
    Default,
    /// Another one, which the daemon's operator chose (`seccomp-profile` of its configuration).
    Named(String),
    /// The daemon is told to apply none by itself. Containers of ours ask for the engine's own then
    /// ([`ASKED`]).
    Unconfined,
    /// The engine was built without, or the kernel has none.
    Absent,
}

/// The security option for a container that is to have the engine's own profile, whatever the daemon does by
/// itself. Engines that do not know it make no container.
pub(super) const ASKED: &str = "seccomp=builtin";

impl Seccomp {
    /// By the engine's security options, one string each: `name=seccomp,profile=builtin`. Sources:
    /// `SecurityOptions` of `GET /info` in Docker's API; older engines say `default` for `builtin`, or
    /// nothing but `seccomp`.
    pub fn of(options: &[String]) -> Seccomp {
        let about = options.iter().find_map(|option| {
            let rest = option.strip_prefix("name=").unwrap_or(option).strip_prefix("seccomp")?;
            (rest.is_empty() || rest.starts_with(',')).then_some(rest)
        });
        let Some(about) = about else { return Seccomp::Absent };
        match about.split(',').find_map(|part| part.strip_prefix("profile=")) {
            None | Some("" | "default" | "builtin") => Seccomp::Default,
            Some("unconfined") => Seccomp::Unconfined,
            Some(other) => Seccomp::Named(other.to_owned()),
        }
    }

    /// Why no container is started, when none is.
    pub fn refusal(&self) -> Option<&'static str> {
        match self {
            Seccomp::Default | Seccomp::Named(_) | Seccomp::Unconfined => None,
            Seccomp::Absent => Some(
                "the engine applies no seccomp profile (it does not list one); use a kernel and an \
                 engine with seccomp",
            ),
        }
    }

    /// For the report: `default seccomp`.
    pub fn report(&self) -> String {
        match self {
            Seccomp::Default => "default seccomp".to_owned(),
            Seccomp::Named(profile) => format!("seccomp profile `{profile}` of the engine"),
            Seccomp::Unconfined => {
                "default seccomp (asked for; the daemon applies none)".to_owned()
            }
            Seccomp::Absent => "no seccomp profile".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::docker::seccomp::*;

    #[test]
    fn knows_the_forms_of_all_engines() {
        let named = |profile: &str| Seccomp::Named(profile.to_owned());
        for (options, expected) in [
            (&["name=seccomp,profile=default"][..], Seccomp::Default),
            (&["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"], Seccomp::Default),
            (&["name=seccomp,profile=default", "name=rootless"], Seccomp::Default),
            (&["name=seccomp"], Seccomp::Default),
            (&["apparmor", "seccomp"], Seccomp::Default),
            (&["name=seccomp,profile=/etc/docker/own.json"], named("/etc/docker/own.json")),
            (&["name=selinux", "name=seccomp,profile=unconfined"], Seccomp::Unconfined),
            (&["name=apparmor", "name=userns"], Seccomp::Absent),
            (&["name=seccomplike,profile=default"], Seccomp::Absent),
            (&[], Seccomp::Absent),
        ] {
            let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
            let found = Seccomp::of(&options);
            assert_eq!(found, expected, "{options:?}");
            assert_eq!(found.refusal().is_some(), expected == Seccomp::Absent, "{options:?}");
            assert_eq!(found.report() == "default seccomp", expected == Seccomp::Default);
        }
    }
}
