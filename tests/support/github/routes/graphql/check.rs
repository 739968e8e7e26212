//! A query against the schema, before it runs: fields, arguments, variables, fragments.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::parse::{Argument, Document, Operation, Selection};
use super::schema::{Kind, schema};

/// The variables with their defaults, and everything that is wrong.
pub(super) fn check(
    document: &Document,
    operation: &Operation,
    given: &Map<String, Value>,
    unknown: &BTreeSet<&'static str>,
) -> (Map<String, Value>, Vec<String>) {
    let mut check = Check { document, unknown, problems: Vec::new(), used: Vec::new() };
    let root = if operation.kind == "mutation" { "Mutation" } else { "Query" };
    check.selections(root, &operation.selections, 0);
    let mut variables = Map::new();
    for (name, kind, default) in &operation.variables {
        if !check.used.contains(name) {
            let of = operation.name.clone().unwrap_or_else(|| "anonymous query".to_owned());
            check.problems.push(format!("Variable ${name} is declared by {of} but not used"));
        }
        let value = given.get(name).cloned();
        let value = value.or_else(|| default.as_ref().map(|default| default.value(&Map::new())));
        let fits = match (&value, kind.trim_end_matches('!')) {
            (None | Some(Value::Null), _) => !kind.ends_with('!'),
            (Some(value), "Int") => value.is_i64() || value.is_u64(),
            (Some(value), "Boolean") => value.is_boolean(),
            (Some(value), "ID") => value.is_string() || value.is_u64(),
            (Some(value), "String" | "ReportedContentClassifiers" | "DiffSide") => {
                value.is_string()
            }
            _ => true,
        };
        if !fits {
            check
                .problems
                .push(format!("Variable ${name} of type {kind} was provided invalid value"));
        }
        if let Some(value) = value {
            variables.insert(name.clone(), value);
        }
    }
    for name in &check.used {
        if !operation.variables.iter().any(|(declared, ..)| declared == name) {
            check.problems.push(format!("Variable ${name} is used by the query but not declared"));
        }
    }
    for name in given.keys() {
        if !operation.variables.iter().any(|(declared, ..)| declared == name) {
            check.problems.push(format!("variable ${name} is given but not declared"));
        }
    }
    (variables, check.problems)
}

/// Values of enumerations are written without quotation marks.
fn has_enum_as_text(argument: &str, value: &Argument) -> bool {
    match value {
        Argument::Literal(Value::String(_)) => ["states", "field", "direction"].contains(&argument),
        Argument::List(items) => items.iter().any(|item| has_enum_as_text(argument, item)),
        Argument::Object(fields) => fields.iter().any(|(key, item)| has_enum_as_text(key, item)),
        _ => false,
    }
}

struct Check<'a> {
    document: &'a Document,
    unknown: &'a BTreeSet<&'static str>,
    problems: Vec<String>,
    used: Vec<String>,
}

impl Check<'_> {
    fn selections(&mut self, of: &str, selections: &[Selection], depth: usize) {
        if depth > 30 {
            self.problems.push("the query is too deep".to_owned());
            return;
        }
        for selection in selections {
            match selection {
                Selection::Field(field) => self.field(of, field, depth),
                Selection::Inline(on, inner) => {
                    let on = on.as_deref().unwrap_or(of);
                    self.fragment(of, on, inner, depth);
                }
                Selection::Spread(name) => {
                    if let Some((on, inner)) = self.document.fragments.get(name) {
                        self.fragment(of, on, inner, depth);
                    } else {
                        let problem = format!("Fragment {name} was used, but not defined");
                        self.problems.push(problem);
                    }
                }
            }
        }
    }

    fn fragment(&mut self, of: &str, on: &str, inner: &[Selection], depth: usize) {
        if !schema().may_be(of, on) && of != on {
            self.problems.push(format!("Fragment on {on} can't be spread inside {of}"));
            return;
        }
        self.selections(on, inner, depth + 1);
    }

    fn field(&mut self, of: &str, field: &super::parse::Field, depth: usize) {
        let name = &field.name;
        let is_unknown = self.unknown.contains(format!("{of}.{name}").as_str());
        let Some(known) = schema().field(of, name).filter(|_| !is_unknown) else {
            self.problems.push(format!("Field '{name}' doesn't exist on type '{of}'"));
            return;
        };
        for (argument, value) in &field.arguments {
            value.variables(&mut self.used);
            if !known.arguments.iter().any(|(known, _)| known == argument) {
                self.problems.push(format!("Field '{name}' doesn't accept argument '{argument}'"));
            }
            if has_enum_as_text(argument, value) {
                let problem =
                    format!("Argument '{argument}' on Field '{name}' has an invalid value");
                self.problems.push(problem);
            }
            if of == "Mutation" && argument == "input" {
                self.input(name, value);
            }
        }
        for (argument, _) in known.arguments.iter().filter(|(_, required)| *required) {
            if !field.arguments.iter().any(|(given, _)| given == argument) {
                self.problems
                    .push(format!("Field '{name}' is missing required arguments: {argument}"));
            }
        }
        let inner = match known.kind {
            Kind::Scalar => {
                if !field.selections.is_empty() {
                    let problem = format!(
                        "Selections can't be made on scalars (field '{name}' returns a scalar but has selections)"
                    );
                    self.problems.push(problem);
                }
                return;
            }
            Kind::Object(inner) | Kind::List(inner) => inner,
            Kind::Connection(item) => format!("{item}Connection"),
        };
        if field.selections.is_empty() {
            self.problems.push(format!(
                "Field must have selections (field '{name}' returns {inner} but has no selections. Did you mean '{name} {{ ... }}'?)"
            ));
        }
        self.selections(&inner, &field.selections, depth + 1);
    }

    fn input(&mut self, mutation: &str, value: &Argument) {
        let Argument::Object(fields) = value else { return };
        let Some(known) = schema().inputs.get(mutation) else { return };
        for (name, value) in fields {
            if !known.iter().any(|(known, _)| known == name) {
                let problem =
                    format!("InputObject of '{mutation}' doesn't accept argument '{name}'");
                self.problems.push(problem);
            }
            let is_enum =
                ["classifier", "side", "startSide", "subjectType"].contains(&name.as_str());
            if is_enum && matches!(value, Argument::Literal(Value::String(_))) {
                let problem = format!("Argument '{name}' of '{mutation}' has an invalid value");
                self.problems.push(problem);
            }
        }
        for (name, _) in known.iter().filter(|(_, required)| *required) {
            if !fields.iter().any(|(given, _)| given == name) {
                let problem = format!("Argument '{name}' of '{mutation}' is required");
                self.problems.push(problem);
            }
        }
    }
}

/// What is wrong with the input of a mutation, wherever it came from.
pub(super) fn input_problem(mutation: &str, input: &Value) -> Option<String> {
    let known = schema().inputs.get(mutation)?;
    let fields = input.as_object()?;
    let stranger = fields.keys().find(|name| !known.iter().any(|(known, _)| known == *name));
    if let Some(name) = stranger {
        return Some(format!("InputObject of '{mutation}' doesn't accept argument '{name}'"));
    }
    let mut required = known.iter().filter(|(_, required)| *required);
    let missing = required.find(|(name, _)| fields.get(name).is_none_or(Value::is_null))?;
    Some(format!("Argument '{}' of '{mutation}' is required", missing.0))
}
