//! Everything said so far, in the order in which it was said.
//!
//! A [`History`] grows at its end only: each request is an exact prefix of the next one, which is what
//! prompt caches are keyed by. The exceptions are compaction, which starts a new one, and results that were
//! lost in an interruption.

use std::collections::HashSet;

use patchwright_provider::Previous;
use patchwright_provider::item::{CallOutput, Content, Item, Message, Role};

/// Most pictures of a conversation. Anthropic takes large ones only up to this number.
const MOST_PICTURES: usize = 20;
/// Most of their bytes, as base64: the smallest limit of the APIs on a request is 20 MB.
const MOST_PICTURE_BYTES: usize = 15 << 20;
/// What stands where an earlier picture was.
const EARLIER_PICTURE: &str =
    "[an earlier picture was here; it is not sent again, for APIs take only so many]";

/// The conversation; append-only.
#[derive(Clone, Debug, Default)]
pub struct History {
    items: Vec<Item>,
    /// Pictures in it, and their bytes as base64.
    pictures: (usize, usize),
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
        let (pictures, bytes) = size_of_pictures(&item);
        self.pictures = (self.pictures.0 + pictures, self.pictures.1 + bytes);
        self.items.push(item);
    }

    pub fn extend(&mut self, items: impl IntoIterator<Item = Item>) {
        items.into_iter().for_each(|item| self.push(item));
        self.bound_pictures();
    }

    /// Takes the earliest pictures out where there are too many, but for those with which the conversation began: at
    /// once half of what may be there, because each time costs the provider's cache of the conversation.
    fn bound_pictures(&mut self) {
        if self.pictures.0 <= MOST_PICTURES && self.pictures.1 <= MOST_PICTURE_BYTES {
            return;
        }
        let opening = self.items.iter().position(is_of_model).unwrap_or(self.items.len());
        let (mut count, mut bytes) = (0, 0);
        for item in self.items[opening..].iter_mut().rev() {
            let (pictures, size) = size_of_pictures(item);
            (count, bytes) = (count + pictures, bytes + size);
            let is_too_much = count > MOST_PICTURES / 2 || bytes > MOST_PICTURE_BYTES / 2;
            if pictures > 0 && is_too_much && count > pictures {
                item.without_pictures(EARLIER_PICTURE);
                self.stored = None;
            }
        }
        self.count_pictures();
    }

    fn count_pictures(&mut self) {
        let add = |all: (usize, usize), (pictures, bytes)| (all.0 + pictures, all.1 + bytes);
        self.pictures = self.items.iter().map(size_of_pictures).fold((0, 0), add);
    }

    /// Answers the calls that were made last, in the order of the calls.
    pub fn answer(&mut self, outputs: impl IntoIterator<Item = CallOutput>) {
        self.extend(outputs.into_iter().map(Item::Output));
    }

    /// Replaces the whole conversation by other items; the ids of earlier calls stay in use.
    pub fn replace(&mut self, items: Vec<Item>) {
        self.items.clear();
        self.pictures = (0, 0);
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
        let behind = self.items.iter().rposition(is_of_model).map_or(0, |at| at + 1);
        let mut dropped =
            self.items[behind..].iter_mut().map(|item| item.without_pictures(text)).sum();
        if dropped == 0 {
            dropped = self.items.iter_mut().map(|item| item.without_pictures(text)).sum();
            // What the provider has stored is another history.
            self.stored = None;
        }
        self.count_pictures();
        dropped
    }

    /// The conversation has pictures.
    pub fn has_pictures(&self) -> bool {
        self.pictures.0 > 0
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

/// The model said it.
fn is_of_model(item: &Item) -> bool {
    match item {
        Item::Message(message) => message.role == Role::Assistant,
        Item::Call(_) | Item::Reasoning(_) => true,
        Item::Output(_) | Item::Opaque(_) => false,
    }
}

/// How many pictures an item has, and their bytes as base64.
fn size_of_pictures(item: &Item) -> (usize, usize) {
    let pictures = item.content().iter().filter_map(|part| match part {
        Content::Image { data, .. } => Some(data.len()),
        Content::Text { .. } | Content::Refusal { .. } => None,
    });
    pictures.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(size: usize) -> Item {
        let data = "A".repeat(size);
        let content = vec![Content::Image { media_type: "image/png".to_owned(), data }];
        Item::Message(Message { role: Role::User, content, native: None })
    }

    /// Which of the items still are pictures.
    fn shown(history: &History) -> Vec<usize> {
        let has = |item: &Item| size_of_pictures(item).0 > 0;
        let all = history.items().iter().enumerate();
        all.filter(|(_, item)| has(item)).map(|(at, _)| at).collect()
    }

    fn begun() -> History {
        let mut history = History::default();
        history.extend([picture(10), message(Role::Assistant, ["I see it."])]);
        history.ends_with_reply(Some("resp_1"));
        history
    }

    #[test]
    fn the_earliest_pictures_go_where_there_are_too_many_and_those_of_the_task_stay() {
        let mut history = begun();
        history.extend((0..MOST_PICTURES - 1).map(|_| picture(10)));
        assert_eq!(shown(&history).len(), MOST_PICTURES);
        assert!(history.previous().is_some());
        history.extend([picture(10)]);
        let expected: Vec<usize> = std::iter::once(0).chain(12..22).collect();
        assert_eq!(shown(&history), expected, "the first, and the last ten");
        assert!(history.previous().is_none(), "the provider has stored another conversation");
        // Nothing changes again for a while.
        let before = history.items().to_vec();
        history.extend((0..5).map(|_| picture(10)));
        assert_eq!(history.items()[..before.len()], before);
    }

    #[test]
    fn pictures_are_bounded_in_bytes_and_the_last_one_always_stays() {
        let mut history = begun();
        history.extend((0..4).map(|_| picture(MOST_PICTURE_BYTES / 4)));
        assert_eq!(shown(&history), [0, 4, 5]);
        history.extend([picture(MOST_PICTURE_BYTES + 1)]);
        assert_eq!(shown(&history), [0, 6]);
    }

    #[test]
    fn only_pictures_that_no_request_was_answered_with_are_dropped() {
        let mut history = begun();
        history.extend([picture(10)]);
        assert_eq!(history.drop_pictures("gone"), 1);
        assert_eq!((shown(&history), history.previous().is_some()), (vec![0], true));
        assert_eq!(history.drop_pictures("gone"), 1);
        assert_eq!((shown(&history), history.previous().is_some()), (vec![], false));
        assert!(!history.has_pictures());
    }
}
