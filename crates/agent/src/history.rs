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

    /// Puts `text` in the place of the pictures that the provider has not taken in a request yet, those behind the last
    /// reply; of all when there are none behind it. How many there were.
    pub fn drop_pictures(&mut self, text: &str) -> usize {
        let is_said = |item: &Item| matches!(item, Item::Message(it) if it.role == Role::Assistant);
        let is_reply = |item: &Item| is_said(item) || matches!(item, Item::Call(_));
        let behind = self.items.iter().rposition(is_reply).map_or(0, |at| at + 1);
        let mut dropped =
            self.items[behind..].iter_mut().map(|item| item.without_pictures(text)).sum();
        if dropped == 0 {
            dropped = self.items.iter_mut().map(|item| item.without_pictures(text)).sum();
            // What the provider has stored is another history.
            self.stored = None;
        }
        dropped
    }

    /// The conversation has pictures.
    pub fn has_pictures(&self) -> bool {
        let is_picture = |part: &Content| matches!(part, Content::Image { .. });
        self.items.iter().any(|item| match item {
            Item::Message(message) => message.content.iter().any(is_picture),
            Item::Output(output) => output.content.iter().any(is_picture),
            Item::Reasoning(_) | Item::Call(_) | Item::Opaque(_) => false,
        })
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
