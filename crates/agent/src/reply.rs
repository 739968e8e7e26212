//! What of a reply goes into the history. Pure, and the same for a fresh and for a recorded reply.
//!
//! Calls that could never be answered properly (a name that is not a name, megabytes of arguments) are
//! left out, and the model is told so; a history with one of them in it would be refused by the provider
//! from then on. A call without an id of its own gets one.

use super::history::{History, text_of};
use super::written_calls;
use patchwright_provider::item::{Content, Item, Message, Payload, Role, StopReason, ToolCall};
use patchwright_provider::{Reply, ToolDeclaration};
use patchwright_tools::{dispatch, registry};
use patchwright_types::calls::Fault;

/// Characters of what a provider says about a call that it could not read.
const MAX_DETAILS: usize = 500;

/// A reply, sorted.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one reply")]
pub struct AcceptedReply {
    /// What goes into the history.
    pub items: Vec<Item>,
    /// The calls in it, in order.
    pub calls: Vec<ToolCall>,
    /// What to tell the model about calls that were left out.
    pub remarks: Vec<String>,
    /// Set when calls were left out because of their form.
    pub fault: Option<Fault>,
    /// The last thing that the model said.
    pub text: Option<String>,
    pub stop: StopReason,
    /// The model declined in words, and does nothing else.
    pub is_refusal: bool,
    /// The calls were read out of its text, and are not among the items.
    pub is_text: bool,
    /// A call had a name that no tool can have.
    pub is_misnamed: bool,
    /// The last thing said is not meant as the answer, as the provider has it.
    pub is_commentary: bool,
    /// What to say of code in the text that was not carried out, if the text is not to be the end.
    pub not_carried_out: Option<String>,
}

impl AcceptedReply {
    /// The history gets all that the provider has of this reply, so that both speak of the same.
    pub fn is_whole(&self, reply: &Reply) -> bool {
        let named = |call: &ToolCall| (call.id.clone(), call.name.clone());
        let made = reply.items.iter().filter_map(|item| match item {
            Item::Call(call) => Some(named(call)),
            _ => None,
        });
        let is_named_alike = self.is_text || made.eq(self.calls.iter().map(named));
        reply.stop == StopReason::EndTurn && self.remarks.is_empty() && is_named_alike
    }

    /// There is nothing in it but words.
    pub fn is_words(&self) -> bool {
        self.stop == StopReason::EndTurn
            && self.text.is_some()
            && self.calls.is_empty()
            && self.remarks.is_empty()
    }

    /// There is nothing in it: no text, no calls, not even bad ones.
    pub fn is_empty(&self) -> bool {
        self.text.is_none() && self.calls.is_empty() && self.remarks.is_empty()
    }

    /// Takes a call, or says why it cannot be run.
    fn take_call(&mut self, call: &ToolCall, history: &History, tools: &[ToolDeclaration]) {
        let mut call = with_own_id(call, &self.calls, history);
        if let Some(name) = meant_name(&call.name, tools) {
            call.name = name;
        }
        if let Some(objection) = objection(&call) {
            self.is_misnamed |= !dispatch::is_tool_name(&call.name);
            self.remarks.push(objection);
            self.fault = Some(Fault::Malformed);
        } else {
            self.calls.push(call.clone());
            self.items.push(Item::Call(call));
        }
    }
}

/// Sorts a reply of a model that was given these tools.
pub fn accept(reply: &Reply, history: &History, tools: &[ToolDeclaration]) -> AcceptedReply {
    let mut accepted = AcceptedReply {
        items: Vec::with_capacity(reply.items.len()),
        calls: Vec::new(),
        remarks: Vec::new(),
        fault: None,
        text: None,
        stop: reply.stop,
        is_refusal: false,
        is_text: false,
        is_misnamed: false,
        is_commentary: false,
        not_carried_out: None,
    };
    for item in &reply.items {
        match item {
            Item::Call(_) if reply.stop == StopReason::MaxOutput => continue,
            Item::Call(call) if reply.stop == StopReason::MalformedCall => {
                accepted.remarks.push(unreadable(call.payload.as_str()));
                continue;
            }
            Item::Call(call) => {
                accepted.take_call(call, history, tools);
                continue;
            }
            Item::Message(message) if message.role == Role::Assistant => {
                let is_refusal = |part: &Content| matches!(part, Content::Refusal { .. });
                accepted.is_refusal |= message.content.iter().any(is_refusal);
                let text = text_of(message);
                if !text.trim().is_empty() {
                    accepted.text = Some(text);
                    accepted.is_commentary = message.is_commentary();
                }
            }
            // A model answers; it does not speak for others or answer its own calls.
            Item::Message(_) | Item::Output(_) => continue,
            Item::Reasoning(_) | Item::Opaque(_) => {}
        }
        accepted.items.push(item.clone());
    }
    if reply.stop == StopReason::MalformedCall {
        accepted.fault = Some(Fault::Malformed);
        if accepted.remarks.is_empty() {
            accepted.remarks.push(unreadable(""));
        }
    }
    if accepted.is_words() {
        take_written(&mut accepted, history, tools);
        refuse_written(&mut accepted, tools);
    }
    accepted.is_refusal &= accepted.calls.is_empty();
    if reply.stop != StopReason::Pause {
        drop_trailing_reasoning(&mut accepted.items);
    }
    accepted
}

/// Takes calls that were written as text for what they are meant to be. In the conversation they stand as
/// calls, so that the model sees how they are made.
fn take_written(accepted: &mut AcceptedReply, history: &History, tools: &[ToolDeclaration]) {
    let said =
        |item: &Item| matches!(item, Item::Message(message) if !text_of(message).trim().is_empty());
    let Some(at) = accepted.items.iter().rposition(said) else { return };
    let Some(Item::Message(message)) = accepted.items.get(at) else { return };
    let Some(written) = written_calls::read(&text_of(message), tools) else { return };
    let payloads: Vec<(String, String)> =
        written.calls.into_iter().map(|(name, value)| (name, value.to_string())).collect();
    if payloads.iter().any(|(_, payload)| payload.len() > dispatch::MAX_ARGUMENTS) {
        return;
    }
    if written.rest.is_empty() {
        accepted.items.remove(at);
        accepted.text = None;
    } else {
        let content = vec![Content::text(written.rest.clone())];
        accepted.items[at] =
            Item::Message(Message { role: Role::Assistant, content, native: None });
        accepted.text = Some(written.rest);
    }
    for (name, payload) in payloads {
        let (id, payload) = (String::new(), Payload::Json(payload));
        let call = ToolCall { id, name, payload, native: None };
        let call = with_own_id(&call, &accepted.calls, history);
        accepted.calls.push(call.clone());
        accepted.items.push(Item::Call(call));
    }
}

/// Says what is wrong with a call in the text that cannot be read. Taken for the final message, it would end the run.
fn refuse_written(accepted: &mut AcceptedReply, tools: &[ToolDeclaration]) {
    let text = accepted.text.as_deref().unwrap_or_default();
    let Some(found) = written_calls::fault::of(text, tools) else { return };
    accepted.is_misnamed |= found.fault == Fault::UnknownTool;
    accepted.fault = Some(found.fault);
    let begin = if accepted.calls.is_empty() {
        "Your last reply did nothing"
    } else {
        "Not all of your last reply was run"
    };
    accepted.remarks.push(format!("{begin}: {}", found.remark));
}

/// The id of a call that has none.
const NO_ID: &str = "call";

/// The call, with an id that no other call of the run has. Providers make ids new in the conversation as
/// it is sent; those of calls that compaction took out of that are still in the journal.
fn with_own_id(call: &ToolCall, earlier: &[ToolCall], history: &History) -> ToolCall {
    let is_taken = |id: &str| history.has_call(id) || earlier.iter().any(|other| other.id == id);
    let mut call = call.clone();
    if call.id.is_empty() {
        NO_ID.clone_into(&mut call.id);
    }
    if is_taken(&call.id) {
        let mut ids = (2u32..).map(|number| format!("{}_{number}", call.id));
        call.id = ids.find(|id| !is_taken(id)).unwrap_or_default();
    }
    call
}

/// The name without what servers leave in it. `None` when no tool is meant by that, or nothing is to be left out.
fn meant_name(name: &str, tools: &[ToolDeclaration]) -> Option<String> {
    let meant = registry::unmarked(name);
    let is_declared =
        tools.iter().any(|tool| tool.name.eq_ignore_ascii_case(registry::bare(meant)));
    (meant != name && is_declared).then(|| meant.to_owned())
}

/// Why a call cannot even be put into the history.
fn objection(call: &ToolCall) -> Option<String> {
    let name = dispatch::printable(&call.name);
    let size = call.payload.as_str().len();
    if !dispatch::is_tool_name(&call.name) {
        Some(format!("A call of `{name}` was not run: that is not the name of a tool."))
    } else if size > dispatch::MAX_ARGUMENTS {
        Some(format!(
            "A call of `{name}` was not run: its arguments have {size} bytes, and at most {} are \
             allowed. Do the work in smaller steps.",
            dispatch::MAX_ARGUMENTS
        ))
    } else {
        None
    }
}

/// What the model is told when the provider could not read its call.
fn unreadable(details: &str) -> String {
    let clean = details.chars().filter(|c| !c.is_control() || c.is_whitespace());
    let details: String = clean.take(MAX_DETAILS).collect();
    let details = if details.is_empty() { details } else { format!(" ({details})") };
    format!(
        "Your last reply tried to call a tool, but the call could not be read{details}, so nothing \
         was run. Call one of the declared tools by its exact name, with one JSON object as its \
         arguments. If the arguments are long, do the work in smaller steps."
    )
}

/// Thinking belongs to what follows it; providers refuse a history in which nothing does.
pub(super) fn drop_trailing_reasoning(items: &mut Vec<Item>) {
    while let Some(Item::Reasoning(_)) = items.last() {
        items.pop();
    }
}

#[cfg(test)]
mod tests {
    use crate::reply::*;
    use patchwright_provider::item::Usage;

    fn reply(ids: &[&str]) -> Reply {
        let call = |id: &&str| {
            let payload = Payload::Json("{}".to_owned());
            let (id, name) = ((*id).to_owned(), "list_dir".to_owned());
            Item::Call(ToolCall { id, name, payload, native: None })
        };
        Reply {
            items: ids.iter().map(call).collect(),
            usage: Usage::default(),
            stop: StopReason::EndTurn,
            model: "m".to_owned(),
            id: Some("resp_1".to_owned()),
        }
    }

    fn ids(accepted: &AcceptedReply) -> Vec<&str> {
        accepted.calls.iter().map(|call| call.id.as_str()).collect()
    }

    #[test]
    fn ids_stay_taken_when_the_conversation_was_shortened() {
        let mut history = History::default();
        let first = accept(&reply(&["call_0", "call_1"]), &history, &[]);
        assert!(first.is_whole(&reply(&["call_0", "call_1"])));
        history.extend(first.items);
        history.replace(Vec::new());
        let second = reply(&["call_0", "call_2", "call_0", ""]);
        let accepted = accept(&second, &history, &[]);
        assert_eq!(ids(&accepted), ["call_0_2", "call_2", "call_0_3", "call"]);
        assert_eq!(accepted.items.len(), 4);
        // The provider has them under other ids, so the reply is not its own any more.
        assert!(accepted.remarks.is_empty() && !accepted.is_whole(&second));
    }

    #[test]
    fn what_servers_leave_in_names_of_tools_is_taken_out() {
        use patchwright_provider::{ToolDeclaration, ToolForm};
        let form = ToolForm::Function { schema: serde_json::json!({}), strict: false };
        let (name, description) = ("list_dir".to_owned(), String::new());
        let tools = [ToolDeclaration { name, description, form }];
        let named = |name: &str| {
            let mut made = reply(&["c1"]);
            let Item::Call(call) = &mut made.items[0] else { panic!() };
            name.clone_into(&mut call.name);
            let accepted = accept(&made, &History::default(), &tools);
            (accepted.calls.first().map(|call| call.name.clone()), accepted.is_whole(&made))
        };
        for name in ["list_dir<|channel|>commentary", " list_dir\n", "list_dir <|constrain|>json"] {
            assert_eq!(named(name), (Some("list_dir".to_owned()), false), "{name}");
        }
        let prefixed = named("functions.list_dir<|channel|>commentary");
        assert_eq!(prefixed, (Some("functions.list_dir".to_owned()), false));
        assert_eq!(named("list_dir"), (Some("list_dir".to_owned()), true));
        // What names no tool is refused as it is.
        for name in ["other<|channel|>commentary", "<|channel|>", " "] {
            assert_eq!(named(name).0, None, "{name}");
        }
    }

    #[test]
    fn commentary_is_not_the_end_and_a_written_call_is_one() {
        use patchwright_provider::item::{Native, Wire};
        use patchwright_provider::{ToolDeclaration, ToolForm};
        let said = |text: &str, phase: &str| {
            let native =
                Native { wire: Wire::Responses, value: serde_json::json!({"phase": phase}) };
            let content = vec![Content::text(text)];
            let message = Message { role: Role::Assistant, content, native: Some(native) };
            Reply { items: vec![Item::Message(message)], ..reply(&[]) }
        };
        let history = History::default();
        for (phase, expected) in [("commentary", true), ("final_answer", false)] {
            let accepted = accept(&said("The sign is wrong.", phase), &history, &[]);
            assert_eq!(crate::unfinished::is_unfinished(&accepted), expected, "{phase}");
        }
        let form = ToolForm::Function { schema: serde_json::json!({}), strict: false };
        let (name, description) = ("list_dir".to_owned(), String::new());
        let tools = [ToolDeclaration { name, description, form }];
        let text = "<tool_call>{\"name\": \"list_dir\", \"arguments\": {}}</tool_call>";
        let written = said(text, "final_answer");
        let accepted = accept(&written, &history, &tools);
        assert_eq!(ids(&accepted), ["call"]);
        assert!(accepted.text.is_none() && !accepted.is_whole(&written));
        assert_eq!(accepted.items.len(), 1);
        // A reply with a call of its own means what it says.
        let mut both = said(text, "final_answer");
        both.items.extend(reply(&["c1"]).items);
        assert_eq!(ids(&accept(&both, &history, &tools)), ["c1"]);
    }
}
