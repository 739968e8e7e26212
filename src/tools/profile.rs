//! Which tools a model family gets, under which names, and in which wire form.
//!
//! One way to do a thing per family: a profile that edits with `apply_patch` declares no
//! `write_file`, and one shell. Two spellings of the same power are understood anyway (see
//! [`super::registry`]), because models call what they were trained on.

use serde_json::Value;

use super::schema;
use super::{guest, host};
use crate::error::{Failure, Result};
use crate::prompt;
use crate::provider::catalogue::Model;
use crate::provider::item::Wire;
use crate::provider::{ToolDeclaration, ToolForm};

/// A set of declared tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// What the gpt-5 codex models were trained on: `shell_command` with a string, and `apply_patch`
    /// as free text under a grammar.
    Codex,
    /// The same tools as plain functions, with the patch format explained.
    Generic,
    /// No tool calls: edits and commands are written as text (see [`crate::edit_format`]).
    Text,
}

/// How a tool of a profile is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Function,
    /// Free text under `prompts/apply_patch.lark`; a function on wires without free-text tools.
    Patch,
}

impl Profile {
    pub const ALL: &[Profile] = &[Profile::Codex, Profile::Generic, Profile::Text];

    pub fn name(self) -> &'static str {
        match self {
            Profile::Codex => "codex",
            Profile::Generic => "generic",
            Profile::Text => "text",
        }
    }

    pub fn named(name: &str) -> Option<Profile> {
        Profile::ALL.iter().copied().find(|profile| profile.name() == name)
    }

    /// The profile of a catalogue entry; families without one of their own get plain functions.
    pub fn for_model(model: &Model) -> Profile {
        Profile::named(&model.profile).unwrap_or(Profile::Generic)
    }

    /// What is declared, in order: a function of profile and wire alone, so that it is the same bytes
    /// in every run.
    pub fn declarations(self, wire: Wire) -> Result<Vec<ToolDeclaration>> {
        let tools = self.tools().iter();
        tools.map(|(name, shape)| declaration(name, self.form(*shape, wire))).collect()
    }

    fn tools(self) -> &'static [(&'static str, Shape)] {
        match self {
            Profile::Codex | Profile::Generic => &[
                ("shell_command", Shape::Function),
                ("apply_patch", Shape::Patch),
                ("update_plan", Shape::Function),
                ("read_file", Shape::Function),
                ("list_dir", Shape::Function),
                ("grep_files", Shape::Function),
            ],
            Profile::Text => &[],
        }
    }

    /// The tools that can be called without being declared: what a reply of a model without tool
    /// calls is turned into.
    pub fn undeclared(self) -> &'static [&'static str] {
        match self {
            Profile::Text => &["shell_command", "text_edit", "update_plan"],
            Profile::Codex | Profile::Generic => &[],
        }
    }

    fn form(self, shape: Shape, wire: Wire) -> Shape {
        match (self, shape, wire) {
            (Profile::Codex, Shape::Patch, Wire::Responses) => Shape::Patch,
            (_, _, _) => Shape::Function,
        }
    }
}

fn declaration(name: &str, shape: Shape) -> Result<ToolDeclaration> {
    let (description, form) = match shape {
        Shape::Patch => {
            let definition = prompt::text("apply_patch.lark")?.to_owned();
            let form = ToolForm::Freeform { syntax: "lark".to_owned(), definition };
            (prompt::text("tools/apply_patch.md")?, form)
        }
        Shape::Function => {
            let schema = arguments(name)?;
            (prompt::text(&description_file(name))?, ToolForm::Function { schema, strict: false })
        }
    };
    Ok(ToolDeclaration { name: name.to_owned(), description: description.trim().to_owned(), form })
}

fn description_file(name: &str) -> String {
    match name {
        "apply_patch" => "tools/apply_patch_function.md".to_owned(),
        name => format!("tools/{name}.md"),
    }
}

/// The cleaned schema of a tool's arguments.
pub fn arguments(name: &str) -> Result<Value> {
    let guest = guest::find(name).map(|tool| (tool.schema)());
    let schema = guest.or_else(|| host::find(name).map(host::Tool::schema));
    schema
        .as_ref()
        .map(schema::clean)
        .ok_or_else(|| Failure::internal(format!("there is no tool `{name}`")))
}
