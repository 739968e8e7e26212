//! What requests must be: right by the provider's schema ([`schema`]), right in what a schema cannot
//! say (a file for each wire), and an extension of the request before ([`history`]).
//!
//! Two kinds of problem are told apart. What the provider would refuse is answered with its 400 in
//! its words; what only we ask for is remembered. Both fail the test in the end.

mod chat;
mod gemini;
mod history;
mod messages;
mod messages_history;
mod responses;
mod schema;
mod tools;

use std::collections::BTreeMap;

use patchwright_provider::item::Wire;
use serde_json::Value;

use self::history::Heads;
use super::fault::Fault;
use super::turn::Answer;
use super::{Asked, Recorded};

/// Checks each request, alone and against the ones before.
#[derive(Default)]
pub(super) struct Validator {
    violations: Vec<String>,
    may_rewrite: bool,
    is_proxied: bool,
    may_store: bool,
    heads: Heads,
    replies: Vec<Reply>,
    /// The conversations that Responses was asked to store, by the id of their last reply.
    stored: BTreeMap<String, Vec<Value>>,
}

/// A reply that the server has sent.
struct Reply {
    wire: Wire,
    /// Which request it answered.
    number: usize,
    /// Its items, blocks or parts, or the one message that it was.
    items: Vec<Value>,
    /// False when the reply was cut short: then what is kept of it is the client's choice.
    is_whole: bool,
}

/// Makes the schema ready that most tests need; the others are made by their first request.
pub(super) fn prepare() {
    schema::validator(Wire::Responses);
}

impl Validator {
    pub(super) fn add(&mut self, number: usize, what: impl std::fmt::Display) {
        self.violations.push(format!("request {number}: {what}"));
    }

    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.violations)
    }

    pub(super) fn allow_rewrites(&mut self) {
        self.may_rewrite = true;
    }

    pub(super) fn expect_a_proxy(&mut self) {
        self.is_proxied = true;
    }

    pub(super) fn allow_stored(&mut self) {
        self.may_store = true;
    }

    pub(super) fn issued(&mut self, asked: &Asked, answer: &Answer, is_whole: bool) {
        let items = answer.items.clone();
        if asked.wire == Wire::Responses && asked.body["store"] == true && is_whole {
            let mut all = self.remembered(&asked.body).unwrap_or_default().to_vec();
            all.extend(list(&asked.body, "input").iter().chain(&items).cloned());
            self.stored.insert(format!("resp_{}", asked.number), all);
        }
        self.replies.push(Reply { wire: asked.wire, number: asked.number, items, is_whole });
    }

    /// What was said before this request, as far as the server has stored it; `None` when it does not
    /// know the reply that the request names.
    fn remembered(&self, body: &Value) -> Option<&[Value]> {
        match body.get("previous_response_id").and_then(Value::as_str) {
            None => Some(&[]),
            Some(id) => self.stored.get(id).map(Vec::as_slice),
        }
    }

    /// Checks a request; the provider's refusal if it would refuse.
    pub(super) fn request(&mut self, asked: &Asked, recorded: &Recorded) -> Option<Fault> {
        if self.is_proxied {
            return None;
        }
        let Some(remembered) = self.remembered(&asked.body) else {
            let id = text(&asked.body, "previous_response_id");
            let words = format!("Previous response with id '{id}' not found.");
            return Some(Fault::new(400, "previous_response_not_found", &words));
        };
        if asked.wire != Wire::Responses || !self.may_store || asked.body["store"] != true {
            return self.whole_request(asked, &asked.body, recorded);
        }
        // The rules are about the conversation as a whole.
        let mut body = asked.body.clone();
        let input: Vec<Value> =
            remembered.iter().chain(list(&asked.body, "input")).cloned().collect();
        body["input"] = Value::Array(input);
        body["store"] = Value::Bool(false);
        if let Some(fields) = body.as_object_mut() {
            fields.shift_remove("previous_response_id");
        }
        let whole =
            Asked { wire: asked.wire, number: asked.number, model: asked.model.clone(), body };
        self.whole_request(&whole, &asked.body, recorded)
    }

    /// `sent` is the body as it came; `asked` holds it with what the server remembers.
    fn whole_request(&mut self, asked: &Asked, sent: &Value, recorded: &Recorded) -> Option<Fault> {
        let mut problems = Problems::default();
        let kind = recorded.header("content-type");
        problems.must(kind.starts_with("application/json"), || {
            "content-type is not application/json".to_owned()
        });
        if sent.is_object() {
            for complaint in schema::check(asked.wire, sent) {
                problems.refuse(complaint);
            }
        } else {
            problems.refuse("We could not parse the JSON body of your request.");
        }
        let replies: Vec<&Reply> =
            self.replies.iter().filter(|reply| reply.wire == asked.wire).collect();
        match asked.wire {
            Wire::Responses => responses::check(&mut problems, recorded, asked, &replies),
            Wire::Chat => chat::check(&mut problems, recorded, asked, &replies),
            Wire::Messages => messages::check(&mut problems, recorded, asked, &replies),
            Wire::Gemini => gemini::check(&mut problems, recorded, asked, &replies),
        }
        let changed = self.heads.advance(asked);
        if !self.may_rewrite {
            problems.rules.extend(changed);
        }
        for problem in problems.refusals.iter().chain(&problems.rules) {
            self.violations.push(format!("request {}: {problem}", asked.number));
        }
        let refusal = problems.refusals.into_iter().next()?;
        Some(Fault::new(400, "invalid_request_error", &refusal))
    }
}

#[derive(Default)]
struct Problems {
    /// Ours.
    rules: Vec<String>,
    /// The provider's, in its words.
    refusals: Vec<String>,
}

impl Problems {
    fn add(&mut self, problem: impl Into<String>) {
        self.rules.push(problem.into());
    }

    fn must(&mut self, holds: bool, rule: impl FnOnce() -> String) {
        if !holds {
            self.rules.push(rule());
        }
    }

    fn refuse(&mut self, words: impl Into<String>) {
        self.refusals.push(words.into());
    }

    fn refuse_if(&mut self, is_wrong: bool, words: impl FnOnce() -> String) {
        if is_wrong {
            self.refusals.push(words());
        }
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A name that OpenAI and Anthropic take, of at most `limit` characters.
fn is_name(name: &str, limit: usize) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= limit && name.chars().all(fits)
}

/// The fields that differ, for a message.
fn differing(one: &Value, other: &Value) -> Vec<String> {
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect()
    };
    let mut all = keys(one);
    all.extend(keys(other));
    all.sort();
    all.dedup();
    all.retain(|key| one.get(key) != other.get(key));
    all
}
