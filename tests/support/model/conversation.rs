//! Many conversations on one server: which one a request belongs to, and how far it has come, both
//! told by the request itself. So they may come in any order, again, or from another process.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchwright_provider::item::Wire;
use serde_json::Value;

use super::{Asked, Recorded, Turn};

/// What a request says about its conversation.
#[derive(Clone, Debug)]
pub struct Said {
    /// All text before the model's first words, instructions included.
    pub opening: String,
    /// How often the model has spoken already.
    pub position: usize,
    /// How often this has been asked at this position before.
    pub attempt: usize,
    pub request: Recorded,
}

impl Said {
    /// Whether the opening has a word, which ends where words and names of repositories end:
    /// `acme/app-1` is not in `acme/app-10`.
    pub fn names(&self, word: &str) -> bool {
        names(&self.opening, word)
    }
}

pub(super) fn names(text: &str, word: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let after = text[at + word.len()..].chars().next();
        let before = text[..at].chars().next_back();
        !after.is_some_and(in_word) && !before.is_some_and(in_word)
    })
}

/// Decides what is answered; nothing is a mistake of the test.
pub(super) type Decide = Arc<dyn Fn(&Said) -> Option<Turn> + Send + Sync>;

/// The turn of a script at a position. Turns that put nothing into the conversation (errors, broken
/// streams) come before the next whole one, each once for every time that it is asked.
pub(super) fn at(script: &[Turn], said: &Said) -> Option<Turn> {
    let mut steps: Vec<Vec<&Turn>> = vec![Vec::new()];
    for turn in script {
        steps.last_mut()?.push(turn);
        if turn.is_spoken() {
            steps.push(Vec::new());
        }
    }
    let step = steps.get(said.position)?;
    step.get(said.attempt.min(step.len().checked_sub(1)?)).copied().cloned()
}

/// How often each conversation has been asked at each position.
#[derive(Default)]
pub(super) struct Attempts(BTreeMap<(String, usize), usize>);

impl Attempts {
    pub(super) fn said(&mut self, asked: &Asked, request: &Recorded) -> Said {
        let entries = entries(asked.wire, &asked.body);
        let first = entries.iter().position(is_models).unwrap_or(entries.len());
        let mut opening = String::new();
        for key in ["instructions", "system", "systemInstruction"] {
            texts(&asked.body[key], &mut opening);
        }
        entries[..first].iter().for_each(|entry| texts(entry, &mut opening));
        let spoken =
            |at: usize| is_models(&entries[at]) && (at == 0 || !is_models(&entries[at - 1]));
        let position = (0..entries.len()).filter(|at| spoken(*at)).count();
        let key = asked.body["prompt_cache_key"].as_str().unwrap_or(&opening).to_owned();
        let count = self.0.entry((key, position)).or_default();
        *count += 1;
        Said { opening, position, attempt: *count - 1, request: request.clone() }
    }
}

fn entries(wire: Wire, body: &Value) -> Vec<Value> {
    let key = match wire {
        Wire::Responses => "input",
        Wire::Chat | Wire::Messages => "messages",
        Wire::Gemini => "contents",
    };
    body[key].as_array().cloned().unwrap_or_default()
}

/// Whether an item or message is the model's: a role, or the kinds that Responses has without one.
fn is_models(entry: &Value) -> bool {
    let kind = entry["type"].as_str().unwrap_or_default();
    match entry["role"].as_str() {
        Some(role) => role == "assistant" || role == "model",
        None => kind == "reasoning" || kind.ends_with("_call"),
    }
}

/// Every text in a value, a line each.
fn texts(value: &Value, into: &mut String) {
    match value {
        Value::String(text) => {
            into.push_str(text);
            into.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, into)),
        Value::Object(fields) => {
            let kept =
                fields.iter().filter(|(key, _)| !["type", "role", "id"].contains(&key.as_str()));
            kept.for_each(|(_, value)| texts(value, into));
        }
        _ => {}
    }
}
