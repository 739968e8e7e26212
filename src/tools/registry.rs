//! The tools of one run: what is declared to the model, and what is found under a name that it calls.

use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;

use super::guest::{self, GuestTool};
use super::host::{self, Tool};
use super::profile::{self, Profile};
use super::{Effect, ToolError};
use crate::error::Result;
use crate::provider::ToolDeclaration;
use crate::provider::item::Wire;

/// Names that mean a tool of ours without being declared: the name, the tool that it runs, and the
/// declared tool that has the same power.
const ALIASES: &[(&str, &str, &str)] = &[
    ("shell", "shell", "shell_command"),
    ("container.exec", "shell", "shell_command"),
    ("local_shell", "shell", "shell_command"),
];

/// The tools of one run.
pub struct ToolSet {
    declarations: Vec<ToolDeclaration>,
    known: Vec<Known>,
}

/// A tool that can be called.
pub struct Known {
    pub name: &'static str,
    pub effect: Effect,
    pub place: Place,
    /// Of the arguments, cleaned.
    pub schema: Value,
    /// Compiled when it is first needed; most runs use a few tools only.
    validator: OnceLock<Option<Validator>>,
}

/// Where a tool runs.
#[derive(Clone, Copy)]
pub enum Place {
    /// In the sandbox.
    Guest,
    /// Beside the agent.
    Host(&'static dyn Tool),
}

impl ToolSet {
    /// The tools of a profile, declared for a wire.
    pub fn new(profile: Profile, wire: Wire) -> Result<ToolSet> {
        let declarations = profile.declarations(wire)?;
        let is_declared = |name: &str| declarations.iter().any(|tool| tool.name == name);
        let has_power = |name: &str| {
            is_declared(name)
                || profile.undeclared().contains(&name)
                || ALIASES.iter().any(|(_, runs, power)| *runs == name && is_declared(power))
        };
        let guests = guest::ALL.iter().filter(|tool| has_power(tool.name)).map(from_guest);
        let hosts =
            host::ALL.iter().filter(|tool| has_power(tool.name())).map(|tool| from_host(*tool));
        let known = guests.chain(hosts).collect::<Result<Vec<Known>>>()?;
        Ok(ToolSet { declarations, known })
    }

    /// What is sent with each request.
    pub fn declarations(&self) -> &[ToolDeclaration] {
        &self.declarations
    }

    /// The tool that a name means, declared or not.
    ///
    /// # Errors
    /// For the model: the names that it can call.
    pub fn find(&self, name: &str) -> Result<&Known, ToolError> {
        let alias = ALIASES.iter().find(|(alias, _, _)| *alias == name);
        let target = alias.map_or(name, |(_, runs, _)| *runs);
        self.known.iter().find(|tool| tool.name == target).ok_or_else(|| {
            let names = self.declarations.iter().map(|tool| format!("`{}`", tool.name));
            ToolError::tell(format!(
                "there is no tool `{}`; the tools are {}",
                super::dispatch::printable(name),
                names.collect::<Vec<_>>().join(", ")
            ))
        })
    }
}

impl Known {
    /// The compiled schema; `None` when it cannot be compiled, which leaves checking to the tool.
    pub fn validator(&self) -> Option<&Validator> {
        self.validator.get_or_init(|| jsonschema::validator_for(&self.schema).ok()).as_ref()
    }

    /// The tool runs commands for the model.
    pub fn is_shell(&self) -> bool {
        matches!(self.name, "shell_command" | "shell")
    }
}

fn from_guest(tool: &GuestTool) -> Result<Known> {
    known(tool.name, tool.effect, Place::Guest)
}

fn from_host(tool: &'static dyn Tool) -> Result<Known> {
    known(tool.name(), tool.effect(), Place::Host(tool))
}

fn known(name: &'static str, effect: Effect, place: Place) -> Result<Known> {
    let schema = profile::arguments(name)?;
    Ok(Known { name, effect, place, schema, validator: OnceLock::new() })
}
