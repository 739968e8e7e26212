//! GraphQL documents: operations, fragments, selections, arguments, as far as clients use them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

#[derive(Clone, Debug, Default)]
pub(super) struct Document {
    pub(super) operations: Vec<Operation>,
    /// Name → type condition and selections.
    pub(super) fragments: BTreeMap<String, (String, Vec<Selection>)>,
}

#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// `query` or `mutation`.
    pub(super) kind: String,
    pub(super) name: Option<String>,
    /// Name, type as written, default.
    pub(super) variables: Vec<(String, String, Option<Argument>)>,
    pub(super) selections: Vec<Selection>,
}

#[derive(Clone, Debug)]
pub(super) enum Selection {
    Field(Field),
    /// `... on Type { … }`
    Inline(Option<String>, Vec<Selection>),
    /// `...Name`
    Spread(String),
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) alias: String,
    pub(super) name: String,
    pub(super) arguments: Vec<(String, Argument)>,
    pub(super) selections: Vec<Selection>,
}

#[derive(Clone, Debug)]
pub(super) enum Argument {
    Variable(String),
    /// A number, text, boolean or null.
    Literal(Value),
    Enum(String),
    List(Vec<Argument>),
    Object(Vec<(String, Argument)>),
}

impl Argument {
    /// With the variables in their places; an absent variable is null.
    pub(super) fn value(&self, variables: &Map<String, Value>) -> Value {
        match self {
            Argument::Variable(name) => variables.get(name).cloned().unwrap_or_default(),
            Argument::Literal(value) => value.clone(),
            Argument::Enum(name) => json!(name),
            Argument::List(items) => items.iter().map(|item| item.value(variables)).collect(),
            Argument::Object(fields) => {
                let fields = fields.iter().map(|(key, item)| (key.clone(), item.value(variables)));
                Value::Object(fields.collect())
            }
        }
    }

    /// Names of the variables in it.
    pub(super) fn variables(&self, found: &mut Vec<String>) {
        match self {
            Argument::Variable(name) => found.push(name.clone()),
            Argument::List(items) => items.iter().for_each(|item| item.variables(found)),
            Argument::Object(fields) => fields.iter().for_each(|(_, item)| item.variables(found)),
            Argument::Literal(_) | Argument::Enum(_) => {}
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Mark(char),
    Dots,
    Text(String),
    Number(Value),
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut rest = text;
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let until = |end: fn(char) -> bool| rest.find(end).unwrap_or(rest.len());
        let length = if first.is_whitespace() || first == ',' {
            first.len_utf8()
        } else if first == '#' {
            until(|c| c == '\n')
        } else if rest.starts_with("...") {
            tokens.push(Token::Dots);
            3
        } else if first.is_alphabetic() || first == '_' {
            let end = until(|c| !c.is_alphanumeric() && c != '_');
            tokens.push(Token::Name(rest[..end].to_owned()));
            end
        } else if first.is_ascii_digit() || first == '-' {
            let end = rest[1..].find(|c: char| !c.is_ascii_digit() && c != '.');
            let end = end.map_or(rest.len(), |end| end + 1);
            let number = serde_json::from_str(&rest[..end]).map_err(|err| err.to_string())?;
            tokens.push(Token::Number(number));
            end
        } else if first == '"' {
            let (value, end) = string(rest)?;
            tokens.push(Token::Text(value));
            end
        } else if "{}()[]:!$=@|&".contains(first) {
            tokens.push(Token::Mark(first));
            1
        } else {
            return Err(format!("Parse error on {first:?}"));
        };
        rest = &rest[length..];
    }
    Ok(tokens)
}

/// A string, which is written as in JSON, and how long it was.
fn string(rest: &str) -> Result<(String, usize), String> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !escaped => {
                let value = serde_json::from_str(&rest[..=at]);
                return Ok((value.map_err(|err| err.to_string())?, at + 1));
            }
            '\\' => escaped = !escaped,
            '\n' => break,
            _ => escaped = false,
        }
    }
    Err("Parse error: a string without an end".to_owned())
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

/// Reads a document.
pub(super) fn parse(text: &str) -> Result<Document, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let mut document = Document::default();
    while let Some(token) = parser.tokens.get(parser.at).cloned() {
        match token {
            Token::Mark('{') => {
                let selections = parser.selections()?;
                let operation = Operation {
                    kind: "query".to_owned(),
                    name: None,
                    variables: Vec::new(),
                    selections,
                };
                document.operations.push(operation);
            }
            Token::Name(kind) if kind == "fragment" => {
                parser.at += 1;
                let name = parser.name()?;
                parser.keyword("on")?;
                let on = parser.name()?;
                let selections = parser.selections()?;
                document.fragments.insert(name, (on, selections));
            }
            Token::Name(kind) if kind == "query" || kind == "mutation" => {
                parser.at += 1;
                document.operations.push(parser.operation(kind)?);
            }
            other => return Err(format!("Parse error on {other:?}")),
        }
    }
    if document.operations.is_empty() {
        return Err("A query attribute must be specified and must be a string.".to_owned());
    }
    Ok(document)
}

impl Parser {
    fn next(&mut self) -> Result<Token, String> {
        let token = self.tokens.get(self.at).cloned().ok_or("Unexpected end of document")?;
        self.at += 1;
        Ok(token)
    }

    fn is(&self, mark: char) -> bool {
        self.tokens.get(self.at) == Some(&Token::Mark(mark))
    }

    fn take(&mut self, mark: char) -> bool {
        let is = self.is(mark);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, mark: char) -> Result<(), String> {
        match self.next()? {
            Token::Mark(found) if found == mark => Ok(()),
            other => Err(format!("Parse error on {other:?}, expected {mark:?}")),
        }
    }

    fn name(&mut self) -> Result<String, String> {
        match self.next()? {
            Token::Name(name) => Ok(name),
            other => Err(format!("Parse error on {other:?}, expected a name")),
        }
    }

    fn keyword(&mut self, word: &str) -> Result<(), String> {
        let name = self.name()?;
        if name == word { Ok(()) } else { Err(format!("Parse error on {name:?}")) }
    }

    fn operation(&mut self, kind: String) -> Result<Operation, String> {
        let named = matches!(self.tokens.get(self.at), Some(Token::Name(_)));
        let name = if named { Some(self.name()?) } else { None };
        let mut variables = Vec::new();
        if self.take('(') {
            while !self.take(')') {
                self.expect('$')?;
                let name = self.name()?;
                self.expect(':')?;
                let kind = self.kind()?;
                let default = if self.take('=') { Some(self.argument()?) } else { None };
                variables.push((name, kind, default));
            }
        }
        Ok(Operation { kind, name, variables, selections: self.selections()? })
    }

    fn kind(&mut self) -> Result<String, String> {
        let mut kind = if self.take('[') {
            let inner = self.kind()?;
            self.expect(']')?;
            format!("[{inner}]")
        } else {
            self.name()?
        };
        if self.take('!') {
            kind.push('!');
        }
        Ok(kind)
    }

    fn selections(&mut self) -> Result<Vec<Selection>, String> {
        self.expect('{')?;
        let mut selections = Vec::new();
        while !self.take('}') {
            selections.push(self.selection()?);
        }
        if selections.is_empty() { Err("Parse error on \"}\"".to_owned()) } else { Ok(selections) }
    }

    fn selection(&mut self) -> Result<Selection, String> {
        if self.tokens.get(self.at) == Some(&Token::Dots) {
            self.at += 1;
            return match self.tokens.get(self.at) {
                Some(Token::Name(on)) if on == "on" => {
                    self.at += 1;
                    let on = self.name()?;
                    Ok(Selection::Inline(Some(on), self.selections()?))
                }
                Some(Token::Name(_)) => Ok(Selection::Spread(self.name()?)),
                _ => Ok(Selection::Inline(None, self.selections()?)),
            };
        }
        let mut name = self.name()?;
        let alias = name.clone();
        if self.take(':') {
            name = self.name()?;
        }
        let arguments = if self.take('(') { self.fields(')')? } else { Vec::new() };
        if self.is('@') {
            return Err("directives are not known here".to_owned());
        }
        let selections = if self.is('{') { self.selections()? } else { Vec::new() };
        Ok(Selection::Field(Field { alias, name, arguments, selections }))
    }

    /// `name: value` until the end.
    fn fields(&mut self, end: char) -> Result<Vec<(String, Argument)>, String> {
        let mut fields = Vec::new();
        while !self.take(end) {
            let name = self.name()?;
            self.expect(':')?;
            fields.push((name, self.argument()?));
        }
        Ok(fields)
    }

    fn argument(&mut self) -> Result<Argument, String> {
        Ok(match self.next()? {
            Token::Mark('$') => Argument::Variable(self.name()?),
            Token::Mark('[') => {
                let mut items = Vec::new();
                while !self.take(']') {
                    items.push(self.argument()?);
                }
                Argument::List(items)
            }
            Token::Mark('{') => Argument::Object(self.fields('}')?),
            Token::Text(text) => Argument::Literal(json!(text)),
            Token::Number(number) => Argument::Literal(number),
            Token::Name(name) => match name.as_str() {
                "true" | "false" => Argument::Literal(json!(name == "true")),
                "null" => Argument::Literal(Value::Null),
                _ => Argument::Enum(name),
            },
            other => return Err(format!("Parse error on {other:?}")),
        })
    }
}
