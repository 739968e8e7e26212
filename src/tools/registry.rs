//! The tools of one run: what is declared to the model, and what is found under a name that it calls.

use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;

use super::guest::{self, GuestTool};
use super::host::{self, Tool};
use super::profile::{self, Profile};
use super::{Effect, ToolError};
use crate::config::Mode;
use crate::error::{Failure, Result};
use crate::provider::ToolDeclaration;
use crate::provider::catalogue::Model;
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
    mode: Mode,
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
                || ALIASES.iter().any(|(_, runs, power)| *runs == name && is_declared(power))
        };
        let guests = guest::ALL.iter().filter(|tool| has_power(tool.name)).map(from_guest);
        let hosts =
            host::ALL.iter().filter(|tool| has_power(tool.name())).map(|tool| from_host(*tool));
        let known = guests.chain(hosts).collect::<Result<Vec<Known>>>()?;
        Ok(ToolSet { declarations, known, mode: Mode::Execute })
    }

    /// The tools of a model in a mode. Who only plans gets none that write; a family whose tools all
    /// write (one shell and one editor) gets the reading ones of the generic profile instead.
    ///
    /// # Errors
    /// For a model without tool calls that shall plan: what it does, it does in a shell.
    pub fn for_mode(model: &Model, mode: Mode) -> Result<ToolSet> {
        let tools = ToolSet::new(Profile::for_model(model), model.wire)?;
        match mode {
            Mode::Execute => Ok(tools),
            Mode::Plan if tools.declarations.is_empty() => {
                Err(Failure::usage("the mode `plan` needs a model with tool calls")
                    .hint("choose another model or profile, or leave out `--mode plan`"))
            }
            Mode::Plan => match tools.read_only() {
                tools if tools.can_read_files() => Ok(tools),
                _ => Ok(ToolSet::new(Profile::Generic, model.wire)?.read_only()),
            },
        }
    }

    /// Without the tools that write.
    fn read_only(mut self) -> ToolSet {
        let mut declarations = std::mem::take(&mut self.declarations);
        declarations
            .retain(|tool| self.find(&tool.name).is_ok_and(|known| known.effect == Effect::Reads));
        self.known.retain(|tool| tool.effect == Effect::Reads);
        ToolSet { declarations, known: self.known, mode: Mode::Plan }
    }

    fn can_read_files(&self) -> bool {
        self.declarations.iter().any(|tool| tool.name == "read_file")
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
            let why = match self.mode {
                Mode::Execute => "",
                Mode::Plan => " in this run, which only plans and changes nothing",
            };
            ToolError::tell(format!(
                "there is no tool `{}`{why}; the tools are {}",
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
