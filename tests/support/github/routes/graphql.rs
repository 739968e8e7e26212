//! GraphQL: queries and mutations about conversations, checked against the schema before anything is
//! done, answered with the fields that were asked for. Problems come with HTTP 200.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::{Answer, Request, World};

mod check;
mod committing;
mod mutate;
mod parse;
mod repository;
mod resolve;
mod schema;

use parse::{Document, Field, Operation, Selection, parse};
use resolve::{Node, Out};
use schema::{Kind, schema};

pub(super) fn answer(world: &mut World, request: &Request) -> Answer {
    if request.login.is_empty() {
        return Answer::problem(401, "This endpoint requires you to be authenticated.");
    }
    let document = match parse(&request.text("query")) {
        Ok(document) => document,
        Err(message) => return refused(world, &[message]),
    };
    let named = request.field("operationName").as_str();
    let chosen = document.operations.iter().find(|operation| match named {
        Some(name) => operation.name.as_deref() == Some(name),
        None => document.operations.len() == 1,
    });
    let Some(operation) = chosen else {
        return refused(world, &["An operation name is required".to_owned()]);
    };
    let given = request.field("variables").as_object().cloned().unwrap_or_default();
    let unknown = &world.limits.unknown_fields;
    let (variables, problems) = check::check(&document, operation, &given, unknown);
    if !problems.is_empty() {
        return refused(world, &problems);
    }
    let mut run = Run { world, request, document: &document, variables, errors: Vec::new() };
    let data = run.operation(operation);
    let errors = std::mem::take(&mut run.errors);
    let mut body = json!({"data": data});
    if !errors.is_empty() {
        body["errors"] = json!(errors);
    }
    Answer::new(200, body)
}

/// Nothing is done for a query that the schema does not have.
fn refused(world: &mut World, messages: &[String]) -> Answer {
    let mut errors = Vec::new();
    for message in messages {
        let mut error = json!({"message": message, "locations": [{"line": 1, "column": 1}]});
        let parts: Vec<&str> = message.split('\'').collect();
        if let ["Field ", field, " doesn", "t exist on type ", kind, ""] = parts.as_slice() {
            let name = format!("{kind}.{field}");
            error["path"] = json!(["query", field]);
            error["extensions"] =
                json!({"code": "undefinedField", "typeName": kind, "fieldName": field});
            if world.limits.unknown_fields.contains(name.as_str()) {
                errors.push(error);
                continue;
            }
        }
        errors.push(error);
        world.violations.push(format!("GraphQL: {message}"));
    }
    Answer::new(200, json!({"errors": errors}))
}

/// What went wrong with one field, in GitHub's words.
#[derive(Debug)]
struct Trouble {
    kind: &'static str,
    message: String,
}

fn trouble(kind: &'static str, message: impl Into<String>) -> Trouble {
    Trouble { kind, message: message.into() }
}

struct Run<'a> {
    world: &'a mut World,
    request: &'a Request,
    document: &'a Document,
    variables: Map<String, Value>,
    errors: Vec<Value>,
}

impl Run<'_> {
    fn operation(&mut self, operation: &Operation) -> Value {
        if operation.kind == "query" {
            return self.object("Query", &Node::Query, &operation.selections, &[]);
        }
        let mut data = Map::new();
        for field in self.fields("Mutation", &operation.selections) {
            let path = vec![json!(field.alias)];
            let input = self.arguments(&field)["input"].clone();
            if let Some(problem) = check::input_problem(&field.name, &input) {
                self.world.violations.push(format!("GraphQL: {problem}"));
            }
            let done = mutate::mutate(self.world, self.request, &field.name, &input);
            let value = match done {
                Ok(payload) => {
                    let kind = schema().field("Mutation", &field.name).map(|field| field.kind);
                    let Some(Kind::Object(kind)) = kind else { continue };
                    self.object(&kind, &payload, &field.selections, &path)
                }
                Err(why) => {
                    self.fail(&path, &why);
                    Value::Null
                }
            };
            data.insert(field.alias.clone(), value);
        }
        Value::Object(data)
    }

    fn fail(&mut self, path: &[Value], why: &Trouble) {
        let mut error = json!({
            "type": why.kind, "path": path, "message": why.message,
            "locations": [{"line": 1, "column": 1}],
        });
        if why.message.contains("SAML") {
            error["extensions"] = json!({"saml_failure": true});
        }
        self.errors.push(error);
    }

    fn arguments(&self, field: &Field) -> Value {
        let arguments = field.arguments.iter();
        let values =
            arguments.map(|(name, argument)| (name.clone(), argument.value(&self.variables)));
        Value::Object(values.collect())
    }

    /// The fields that are selected for a type, fragments included. The same alias twice is one.
    fn fields(&self, kind: &str, selections: &[Selection]) -> Vec<Field> {
        let mut fields: Vec<Field> = Vec::new();
        for selection in selections {
            let more = match selection {
                Selection::Field(field) => vec![field.clone()],
                Selection::Inline(on, inner) => {
                    if on.as_ref().is_some_and(|on| !schema().is(kind, on)) {
                        continue;
                    }
                    self.fields(kind, inner)
                }
                Selection::Spread(name) => {
                    let (on, inner) = &self.document.fragments[name];
                    if !schema().is(kind, on) {
                        continue;
                    }
                    self.fields(kind, inner)
                }
            };
            for field in more {
                match fields.iter_mut().find(|other| other.alias == field.alias) {
                    Some(known) => known.selections.extend(field.selections),
                    None => fields.push(field),
                }
            }
        }
        fields
    }

    /// An object with what is selected of it; null when something in it that cannot be null failed.
    fn object(
        &mut self,
        kind: &str,
        node: &Node,
        selections: &[Selection],
        path: &[Value],
    ) -> Value {
        let mut object = Map::new();
        for field in self.fields(kind, selections) {
            let path: Vec<Value> = path.iter().cloned().chain([json!(field.alias)]).collect();
            if field.name == "__typename" {
                object.insert(field.alias, json!(kind));
                continue;
            }
            let arguments = self.arguments(&field);
            let out = resolve::resolve(self.world, self.request, node, &field.name, &arguments);
            let value = match out {
                Err(why) => {
                    self.fail(&path, &why);
                    Value::Null
                }
                Ok(Out::Value(value)) => value,
                Ok(Out::Node(None)) => Value::Null,
                Ok(Out::Node(Some(inner))) => {
                    let kind = inner.type_name(self.world);
                    self.object(kind, &inner, &field.selections, &path)
                }
                Ok(Out::Connection(item, nodes)) => {
                    match self.connection(&field, &arguments, item, nodes, &path) {
                        Ok(value) => value,
                        Err(why) => {
                            // Connections are never null: the object around it is.
                            self.fail(&path, &why);
                            return Value::Null;
                        }
                    }
                }
            };
            object.insert(field.alias, value);
        }
        Value::Object(object)
    }

    fn connection(
        &mut self,
        field: &Field,
        arguments: &Value,
        item: &str,
        mut nodes: Vec<Node>,
        path: &[Value],
    ) -> Result<Value, Trouble> {
        let kind = format!("{item}Connection");
        let fields = self.fields(&kind, &field.selections);
        let (name, total) = (&field.name, nodes.len());
        if self.request.stale {
            nodes.pop();
        }
        let shown = |field: &Field| ["nodes", "edges", "pageInfo"].contains(&field.name.as_str());
        let (start, end) =
            if fields.iter().any(shown) { page(name, arguments, nodes.len())? } else { (0, 0) };
        let mut object = Map::new();
        for field in fields {
            let path: Vec<Value> = path.iter().cloned().chain([json!(field.alias)]).collect();
            let value = match field.name.as_str() {
                "__typename" => json!(kind),
                "totalCount" => json!(total),
                "pageInfo" => self.page_info(&field, (start, end), nodes.len()),
                name => {
                    let mut items = Vec::new();
                    for (at, node) in nodes.iter().enumerate().take(end).skip(start) {
                        let path: Vec<Value> =
                            path.iter().cloned().chain([json!(at - start)]).collect();
                        items.push(if name == "nodes" {
                            self.object(item, node, &field.selections, &path)
                        } else {
                            self.edge(item, node, at, &field, &path)
                        });
                    }
                    Value::Array(items)
                }
            };
            object.insert(field.alias, value);
        }
        Ok(Value::Object(object))
    }

    fn edge(&mut self, item: &str, node: &Node, at: usize, of: &Field, path: &[Value]) -> Value {
        let mut edge = Map::new();
        for field in self.fields(&format!("{item}Edge"), &of.selections) {
            let value = match field.name.as_str() {
                "cursor" => json!(cursor(at)),
                "node" => self.object(item, node, &field.selections, path),
                _ => json!(format!("{item}Edge")),
            };
            edge.insert(field.alias, value);
        }
        Value::Object(edge)
    }

    fn page_info(&self, of: &Field, (start, end): (usize, usize), total: usize) -> Value {
        let mut info = Map::new();
        for field in self.fields("PageInfo", &of.selections) {
            let value = match field.name.as_str() {
                "hasNextPage" => json!(end < total),
                "hasPreviousPage" => json!(start > 0),
                "startCursor" if end > start => json!(cursor(start)),
                "endCursor" if end > start => json!(cursor(end - 1)),
                "__typename" => json!("PageInfo"),
                _ => Value::Null,
            };
            info.insert(field.alias, value);
        }
        Value::Object(info)
    }
}

fn cursor(at: usize) -> String {
    BASE64_STANDARD.encode(format!("cursor:v2:{at}"))
}

/// First and last place of what is asked for.
fn page(name: &str, arguments: &Value, total: usize) -> Result<(usize, usize), Trouble> {
    let place = |argument: &str| -> Result<Option<usize>, Trouble> {
        let Some(text) = arguments[argument].as_str() else { return Ok(None) };
        let bytes = BASE64_STANDARD.decode(text).unwrap_or_default();
        let decoded = String::from_utf8(bytes).unwrap_or_default();
        let at = decoded.strip_prefix("cursor:v2:").and_then(|at| at.parse().ok());
        let message = format!("`{text}` does not appear to be a valid cursor.");
        at.map(Some).ok_or_else(|| trouble("INVALID_CURSOR_ARGUMENTS", message))
    };
    let count = |argument: &str| -> Result<Option<usize>, Trouble> {
        let Some(count) = arguments[argument].as_i64() else { return Ok(None) };
        if count > 100 {
            let message = format!(
                "Requesting {count} records on the `{name}` connection exceeds the `{argument}` limit of 100 records."
            );
            return Err(trouble("EXCESSIVE_PAGINATION", message));
        }
        let message = format!("`{argument}` on the `{name}` connection cannot be less than zero.");
        usize::try_from(count).map(Some).map_err(|_| trouble("ARGUMENT_LIMIT", message))
    };
    let (first, last) = (count("first")?, count("last")?);
    let mut start = place("after")?.map_or(0, |at| at + 1).min(total);
    let mut end = place("before")?.unwrap_or(total).min(total).max(start);
    match (first, last) {
        (Some(first), _) => end = end.min(start + first),
        (None, Some(last)) => start = start.max(end.saturating_sub(last)),
        (None, None) => {
            let message = format!(
                "You must provide a `first` or `last` value to properly paginate the `{name}` connection."
            );
            return Err(trouble("MISSING_PAGINATION_BOUNDARIES", message));
        }
    }
    Ok((start, end))
}
