//! A call whose arguments arrive in pieces, as Vertex AI sends them when asked to
//! (`streamFunctionCallArguments`), and proxies in front of it unasked.
//!
//! The first part has the name; each piece names its place by a JSON path (RFC 9535, the plain part
//! of it: `$.edits[0].text`, `$['a key']`); `willContinue` says that more follows.

use serde_json::{Map, Value};

use super::{FUNCTION_CALL, Name, field, text_field};
use crate::wire::fault::{Fault, FaultKind};

const WILL_CONTINUE: Name = ("willContinue", "will_continue");
const PARTIAL_ARGS: Name = ("partialArgs", "partial_args");
const JSON_PATH: Name = ("jsonPath", "json_path");

/// Steps of one path.
const MAX_DEPTH: usize = 32;
/// Elements of all lists of one call.
const MAX_ELEMENTS: usize = 10_000;

/// The call so far.
#[derive(Debug)]
pub(super) struct Partial {
    /// The first part, with what else it carries (its signature).
    part: Map<String, Value>,
    id: Option<String>,
    name: String,
    args: Value,
    /// The path whose text continues in the next piece.
    growing: Option<String>,
    /// Elements of its lists so far.
    elements: usize,
}

enum PathSegment {
    Key(String),
    Index(usize),
}

impl Partial {
    /// The part begins such a call.
    pub(super) fn begins(part: &Value) -> bool {
        let Some(call) = field(part, FUNCTION_CALL) else { return false };
        will_continue(call) || field(call, PARTIAL_ARGS).is_some()
    }

    pub(super) fn new(part: &Value) -> Partial {
        let call = field(part, FUNCTION_CALL).unwrap_or(&Value::Null);
        Partial {
            part: Map::new(),
            id: text_field(call, ("id", "id")).map(str::to_owned),
            name: text_field(call, ("name", "name")).unwrap_or_default().to_owned(),
            args: Value::Object(Map::new()),
            growing: None,
            elements: 0,
        }
    }

    /// The part continues this call: it names no other.
    pub(super) fn continues(&self, part: &Value) -> bool {
        let call = field(part, FUNCTION_CALL).unwrap_or(&Value::Null);
        let name = text_field(call, ("name", "name"));
        let id = text_field(call, ("id", "id"));
        name.is_none_or(|name| self.name.is_empty() || name == self.name)
            && id.is_none_or(|id| self.id.as_deref().is_none_or(|own| own == id))
    }

    /// Takes the next piece; true when more is to come.
    pub(super) fn take(&mut self, part: &Value) -> Result<bool, Fault> {
        let Some(call) = field(part, FUNCTION_CALL) else { return Ok(true) };
        for (key, value) in part.as_object().into_iter().flatten() {
            if key != FUNCTION_CALL.0 && key != FUNCTION_CALL.1 {
                self.part.insert(key.clone(), value.clone());
            }
        }
        self.id = self.id.take().or_else(|| text_field(call, ("id", "id")).map(str::to_owned));
        if let Some(name) = text_field(call, ("name", "name")).filter(|_| self.name.is_empty()) {
            name.clone_into(&mut self.name);
        }
        if let (Some(whole), Some(args)) =
            (call.get("args").and_then(Value::as_object), self.args.as_object_mut())
        {
            args.extend(whole.clone());
        }
        let pieces = field(call, PARTIAL_ARGS).and_then(Value::as_array);
        for piece in pieces.into_iter().flatten() {
            self.piece(piece)?;
        }
        Ok(will_continue(call))
    }

    fn piece(&mut self, piece: &Value) -> Result<(), Fault> {
        let Some(path) = text_field(piece, JSON_PATH) else { return Ok(()) };
        let goes_on = self.growing.as_deref() == Some(path);
        let place = place(&mut self.args, path, &mut self.elements)?;
        let value = |camel, snake| field(piece, (camel, snake));
        if let Some(Value::String(text)) = value("stringValue", "string_value") {
            match place {
                Value::String(whole) if goes_on => whole.push_str(text),
                place => *place = Value::String(text.clone()),
            }
        } else if let Some(number) = value("numberValue", "number_value") {
            *place = whole_number(number);
        } else if let Some(flag) = value("boolValue", "bool_value") {
            *place = flag.clone();
        } else if piece.get("nullValue").or_else(|| piece.get("null_value")).is_some() {
            *place = Value::Null;
        }
        self.growing = will_continue(piece).then(|| path.to_owned());
        Ok(())
    }

    /// The whole call, as it would have come in one part.
    pub(super) fn finished(self) -> Value {
        let mut call = Map::new();
        if let Some(id) = self.id {
            call.insert("id".to_owned(), Value::String(id));
        }
        call.insert("name".to_owned(), Value::String(self.name));
        call.insert("args".to_owned(), self.args);
        let mut part = Map::from_iter([(FUNCTION_CALL.0.to_owned(), Value::Object(call))]);
        part.extend(self.part);
        Value::Object(part)
    }
}

fn will_continue(value: &Value) -> bool {
    field(value, WILL_CONTINUE).and_then(Value::as_bool).unwrap_or(false)
}

/// Numbers come as doubles; `50.0` where an integer is wanted would be refused by the tool.
#[expect(clippy::cast_possible_truncation, reason = "checked to be a small whole number")]
fn whole_number(number: &Value) -> Value {
    match number.as_f64() {
        Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => Value::from(float as i64),
        _ => number.clone(),
    }
}

/// The place that a path names, made where it does not exist yet.
fn place<'a>(
    args: &'a mut Value,
    path: &str,
    elements: &mut usize,
) -> Result<&'a mut Value, Fault> {
    let steps = steps(path).ok_or_else(|| bad_path(path))?;
    let mut place = args;
    for step in steps {
        match step {
            PathSegment::Key(key) => {
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                let fields = place.as_object_mut().ok_or_else(|| bad_path(path))?;
                place = fields.entry(key).or_insert(Value::Null);
            }
            PathSegment::Index(index) => {
                if !place.is_array() {
                    *place = Value::Array(Vec::new());
                }
                let list = place.as_array_mut().ok_or_else(|| bad_path(path))?;
                if list.len() <= index {
                    *elements = elements.saturating_add((index - list.len()).saturating_add(1));
                    if *elements > MAX_ELEMENTS {
                        return Err(bad_path(path));
                    }
                    list.resize(index + 1, Value::Null);
                }
                place = list.get_mut(index).ok_or_else(|| bad_path(path))?;
            }
        }
    }
    Ok(place)
}

fn bad_path(path: &str) -> Fault {
    let path: String = path.chars().take(100).collect();
    Fault::new(FaultKind::Cut, format!("a piece of a call has no usable place: `{path}`"))
}

/// `$.a.b[0]['c d']` as steps; `None` for anything else.
fn steps(path: &str) -> Option<Vec<PathSegment>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == MAX_DEPTH {
            return None;
        }
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (key, tail) = after.split_at(end);
            if key.is_empty() {
                return None;
            }
            steps.push(PathSegment::Key(key.to_owned()));
            rest = tail;
        } else if let Some(after) = rest.strip_prefix('[') {
            let quote = after.chars().next().filter(|c| matches!(c, '\'' | '"'));
            if let Some(quote) = quote {
                let (key, tail) = quoted(&after[1..], quote)?;
                steps.push(PathSegment::Key(key));
                rest = tail.strip_prefix(']')?;
            } else {
                let (index, tail) = after.split_once(']')?;
                steps.push(PathSegment::Index(index.parse().ok()?));
                rest = tail;
            }
        } else {
            return None;
        }
    }
    (!steps.is_empty()).then_some(steps)
}

/// The text up to the closing quote, with `\` before a quote or a backslash taken away.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => key.push(characters.next()?.1),
            character if character == quote => {
                return Some((key, &text[at + character.len_utf8()..]));
            }
            character => key.push(character),
        }
    }
    None
}
