//! The tools of a model that calls them from scripts: two are declared, `exec` and `wait`, and the others
//! are listed in the description of `exec` as a script sees them. Pure, and the same bytes for the same
//! tools.

use std::sync::Arc;

use serde_json::Value;

use super::alias::{self, ToolAlias};
use super::profile::{self, Setting, Shape};
use super::registry::{ResolvedTool, ToolSet};
use super::schema;
use patchwright_base::error::Result;
use patchwright_prompt as prompt;
use patchwright_provider::item::Wire;
use patchwright_provider::{ToolDeclaration, ToolForm};

/// Bytes of a description, and of a signature, that are listed of one tool.
const MAX_DESCRIPTION: usize = 1500;
const MAX_SIGNATURE: usize = 4000;

/// The description that has the format of a patch.
const APPLY_PATCH_TEXT: &str = "tools/apply_patch_function.md";

/// How deep a signature shows objects.
const MAX_DEPTH: usize = 6;

/// How the tools of a run are declared to a model that calls them from scripts.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    /// `exec` and `wait` without the list of tools.
    own: Vec<ToolDeclaration>,
    /// What is sent.
    pub(super) declared: Vec<ToolDeclaration>,
}

impl ToolSet {
    /// Declares scripts instead of the tools.
    ///
    /// # Errors
    /// When a description is missing, which is a defect.
    pub(super) fn in_scripts(mut self, wire: Wire) -> Result<ToolSet> {
        let shape = if wire == Wire::Responses { Shape::Freeform } else { Shape::Function };
        let setting = Setting::plain(wire);
        let entries: [profile::Entry; 2] =
            [(&alias::EXEC, shape), (&alias::EXEC_WAIT, Shape::Function)];
        let own = profile::declarations(&entries, &setting)?;
        for alias in [&alias::EXEC_WAIT, &alias::EXEC] {
            self.give_way(alias);
            self.known.insert(0, Arc::new(ResolvedTool::new(alias)?));
        }
        self.scripts = Some(Declared { own, declared: Vec::new() });
        Ok(self.refresh_script_declarations())
    }

    /// Whoever has the name of a tool for scripts gets another one: sub-agents can be waited for too.
    fn give_way(&mut self, alias: &ToolAlias) {
        self.known.retain(|known| !known.is_script() || known.name != alias.name);
        let other = format!("{}_agent", alias.name);
        for known in &mut self.known {
            if known.name == alias.name {
                *known = Arc::new(known.renamed(other.clone()));
            }
        }
        for declared in &mut self.declarations {
            if declared.name == alias.name {
                declared.name.clone_from(&other);
            }
        }
    }

    /// Writes down anew which tools scripts have, after these have changed.
    #[must_use]
    pub(super) fn refresh_script_declarations(mut self) -> ToolSet {
        if self.scripts.is_none() {
            return self;
        }
        for alias in [&alias::EXEC_WAIT, &alias::EXEC] {
            let is_new = |known: &Arc<ResolvedTool>| known.name == alias.name && !known.is_script();
            if self.known.iter().any(is_new) {
                self.give_way(alias);
                self.known.splice(0..0, ResolvedTool::new(alias).ok().map(Arc::new));
            }
        }
        // If scripts are switched off, the tools are offered directly.
        if !self.known.iter().any(|known| known.name == alias::EXEC.name) {
            self.scripts = None;
            return self;
        }
        let list = self.callable().map(listed).collect::<Vec<_>>().join("\n");
        let hosted = self.declarations.iter().filter(|tool| is_hosted(tool)).cloned();
        let hosted: Vec<ToolDeclaration> = hosted.collect();
        if let Some(scripts) = &mut self.scripts {
            scripts.declared.clone_from(&scripts.own);
            if let Some(exec) = scripts.declared.first_mut() {
                exec.description = format!("{}\n\n{list}", exec.description);
            }
            scripts.declared.extend(hosted);
        }
        self
    }

    /// What a call from inside a call can name, as it would be declared to a model with functions.
    pub(super) fn callable(&self) -> impl Iterator<Item = &ToolDeclaration> {
        let is_wrapper = |tool: &ToolDeclaration| {
            self.scripts.is_some() && (is_hosted(tool) || tool.name == alias::CALL_TOOL.name)
        };
        self.declarations.iter().filter(move |tool| !is_wrapper(tool))
    }

    /// All the names that the model can use, in calls and in scripts, for the prompt that speaks of them.
    pub fn described(&self) -> Vec<ToolDeclaration> {
        let own = self.scripts.iter().flat_map(|scripts| &scripts.own);
        self.declarations.iter().chain(own).cloned().collect()
    }
}

/// The provider runs it itself.
fn is_hosted(tool: &ToolDeclaration) -> bool {
    matches!(tool.form, ToolForm::Native { .. })
}

/// A tool as a script sees it: what it does, and its signature.
fn listed(tool: &ToolDeclaration) -> String {
    let name = &tool.name;
    // What a grammar says where the tool is declared itself stands in its description as a function.
    let as_function = (matches!(tool.form, ToolForm::Freeform { .. })
        && *name == alias::APPLY_PATCH.name)
        .then(|| prompt::text(APPLY_PATCH_TEXT).ok())
        .flatten()
        .map(|text| text.replacen("`input`", "`text`", 1));
    let what = as_function.as_deref().unwrap_or(&tool.description);
    let what = short(what.trim(), MAX_DESCRIPTION);
    let argument = match &tool.form {
        ToolForm::Freeform { .. } => "text: string".to_owned(),
        ToolForm::Function { schema, .. } | ToolForm::Native { value: schema } => {
            match short(&arguments(schema), MAX_SIGNATURE) {
                shape if shape == "{}" => String::new(),
                shape => format!("args: {shape}"),
            }
        }
    };
    format!("### `tools.{name}({argument})`\n{what}")
}

/// The arguments as an object type.
fn arguments(schema: &Value) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return "{}".to_owned();
    };
    object(schema, properties, MAX_DEPTH)
}

fn object(schema: &Value, properties: &serde_json::Map<String, Value>, depth: usize) -> String {
    if properties.is_empty() {
        return "{}".to_owned();
    }
    let required = schema::required(schema);
    let fields = properties.iter().map(|(name, property)| {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        let about = property.get("description").and_then(Value::as_str).unwrap_or_default();
        let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        let about = match about.replace("*/", "* /") {
            about if about.is_empty() => String::new(),
            about => format!(" /* {} */", short(&about, 300)),
        };
        format!("{}{mark}: {}{about}", key(name), type_of(property, depth - 1))
    });
    format!("{{ {} }}", fields.collect::<Vec<_>>().join("; "))
}

fn key(name: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    let is_identifier =
        name.chars().all(is_word) && !name.starts_with(|c: char| c.is_ascii_digit());
    if is_identifier && !name.is_empty() { name.to_owned() } else { Value::from(name).to_string() }
}

fn type_of(schema: &Value, depth: usize) -> String {
    if depth == 0 {
        return "any".to_owned();
    }
    if let Some(Value::Array(options)) = schema.get("enum") {
        return options.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(variants)) = schema.get(keyword) {
            let mut kinds: Vec<String> = Vec::new();
            for kind in variants.iter().map(|variant| type_of(variant, depth - 1)) {
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            return kinds.join(" | ");
        }
    }
    let named = |kind: &str| match kind {
        "string" | "boolean" | "null" => kind.to_owned(),
        "integer" | "number" => "number".to_owned(),
        "array" => {
            let items = schema.get("items").map(|items| type_of(items, depth - 1));
            match items.as_deref() {
                None => "any[]".to_owned(),
                Some(items) if items.contains(' ') => format!("Array<{items}>"),
                Some(items) => format!("{items}[]"),
            }
        }
        "object" => match schema.get("properties").and_then(Value::as_object) {
            Some(properties) if !properties.is_empty() => object(schema, properties, depth),
            _ => "object".to_owned(),
        },
        _ => "any".to_owned(),
    };
    match schema.get("type") {
        Some(Value::String(kind)) => named(kind),
        Some(Value::Array(kinds)) => {
            let kinds = kinds.iter().filter_map(Value::as_str).map(named);
            kinds.collect::<Vec<_>>().join(" | ")
        }
        _ if schema.get("properties").is_some() => named("object"),
        _ => "any".to_owned(),
    }
}

fn short(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}
