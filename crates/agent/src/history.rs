//! Everything said so far, in the order in which it was said.
//!
//! A [`History`] grows at its end only: each request is an exact prefix of the next one, which is what
//! prompt caches are keyed by. The exceptions are compaction, which starts a new one, and results that were
//! lost in an interruption.

use std::collections::HashSet;

use patchwright_provider::Previous;
use patchwright_provider::item::{CallOutput, Content, Item, Message, Role};

/// The conversation; append-only.
#[derive(Clone, Debug, Default)]
pub struct History {
    items: Vec<Item>,
    call_ids: HashSet<String>,
    /// The last reply as the provider has stored it: its id, and how many items it ends at.
    stored: Option<(String, usize)>,
}

impl History {
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    pub fn push(&mut self, item: Item) {
        if let Item::Call(call) = &item {
            self.call_ids.insert(call.id.clone());
        }
        self.items.push(item);
    }

    pub fn extend(&mut self, items: impl IntoIterator<Item = Item>) {
        items.into_iter().for_each(|item| self.push(item));
    }

    /// Answers the calls that were made last, in the order of the calls.
    pub fn answer(&mut self, outputs: impl IntoIterator<Item = CallOutput>) {
        self.extend(outputs.into_iter().map(Item::Output));
    }

    /// Replaces the whole conversation by other items; the ids of earlier calls stay in use.
    pub fn replace(&mut self, items: Vec<Item>) {
        self.items.clear();
        self.stored = None;
        self.extend(items);
    }

    /// Changes the outputs of these calls to this text. What a provider has stored is not this history any
    /// more.
    pub fn overwrite(&mut self, calls: &[String], text: &str) {
        for item in &mut self.items {
            if let Item::Output(output) = item
                && calls.contains(&output.id)
            {
                output.content = vec![Content::text(text)];
                output.success = false;
                self.stored = None;
            }
        }
    }

    /// The history ends with a reply that went in whole: a provider that stores replies knows all of
    /// it under this id. A history that is put together anew starts without one.
    pub fn ends_with_reply(&mut self, id: Option<&str>) {
        self.stored = id.filter(|id| !id.is_empty()).map(|id| (id.to_owned(), self.items.len()));
    }

    /// What the provider has stored of this history.
    pub fn previous(&self) -> Option<Previous<'_>> {
        self.stored.as_ref().map(|(id, known)| Previous { id, known: *known })
    }

    /// A call with this id was made before.
    pub fn has_call(&self, id: &str) -> bool {
        self.call_ids.contains(id)
    }
}

/// A remark of the harness to the model.
pub fn note(text: impl Into<String>) -> Item {
    message(Role::Developer, [text])
}

/// A message with these parts.
pub fn message<T: Into<String>>(role: Role, parts: impl IntoIterator<Item = T>) -> Item {
    let content = parts.into_iter().map(Content::text).collect();
    Item::Message(Message { role, content, native: None })
}

/// The text of a message, its parts joined with line breaks. Pictures are left out.
pub fn text_of(message: &Message) -> String {
    Content::texts(&message.content)
}
