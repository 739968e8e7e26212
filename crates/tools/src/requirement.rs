//! What a tool needs to be of use in a run. A tool whose needs are not met withdraws: it is neither
//! declared nor run, and a call of it is told why. Nothing is found out by calling.

use patchwright_config::Config;

/// Something that a tool needs besides the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// One of these programs, in the sandbox.
    Program(&'static [&'static str]),
    /// Hosts that the run may reach.
    Hosts,
    /// The configuration says `js-repl`.
    JsRepl,
}

/// What there is in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Available {
    /// Those of the asked programs that the sandbox has.
    pub programs: Vec<String>,
    pub hosts: bool,
    pub js_repl: bool,
}

impl Available {
    /// As far as the configuration says it, without a look into the sandbox.
    pub fn of(config: &Config) -> Available {
        Available {
            programs: Vec::new(),
            hosts: !config.allow_hosts.is_empty(),
            js_repl: config.tools.js_repl == Some(true),
        }
    }
}

impl Requirement {
    /// The run has what the tool requires.
    pub fn is_met(self, present: &Available) -> bool {
        match self {
            Requirement::Program(any) => {
                any.iter().any(|name| present.programs.iter().any(|there| there == name))
            }
            Requirement::Hosts => present.hosts,
            Requirement::JsRepl => present.js_repl,
        }
    }

    /// The operator asked for this tool, so a warning is due when the requirement is not met.
    pub fn should_warn(self) -> bool {
        matches!(self, Requirement::Program(_))
    }

    /// What is missing, for people and models.
    pub fn missing(self) -> String {
        match self {
            Requirement::Program([one]) => format!("the sandbox has no `{one}`"),
            Requirement::Program(any) => {
                let any: Vec<String> = any.iter().map(|name| format!("`{name}`")).collect();
                format!("the sandbox has none of {}", any.join(", "))
            }
            Requirement::Hosts => "this run has no network".to_owned(),
            Requirement::JsRepl => "it is not switched on".to_owned(),
        }
    }
}
