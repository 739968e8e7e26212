//! Our own count of tokens, where a provider has told none: on the high side, so that no budget is overrun unseen.

use super::PreparedRequest;
use crate::item::{Content, Item, PICTURE_TOKENS, Usage};
use crate::{Reply, Request};

/// English and code have about four bytes a token.
const BYTES_PER_TOKEN: usize = 3;
/// Of a text that costs as much as a picture.
const PICTURE_BYTES: usize = PICTURE_TOKENS * BYTES_PER_TOKEN;

/// What a broken attempt may have cost: a provider bills what it has read and written before the connection broke.
pub(super) fn broken(prepared: &PreparedRequest<'_>, sent: usize, written: usize) -> Usage {
    Usage {
        input: tokens(without_pictures(new(prepared.request), sent)),
        output: tokens(written),
        estimated: true,
        ..Usage::default()
    }
}

/// A server that counts no tokens gets our own count.
pub(super) fn estimate_missing(reply: &mut Reply, request: &Request<'_>, sent: usize) {
    // The wire marks usage as estimated when the server sent none, or impossible figures.
    if !reply.usage.estimated {
        return;
    }
    if reply.usage.input == 0 {
        reply.usage.input = tokens(without_pictures(new(request), sent));
    }
    if reply.usage.output == 0 {
        reply.usage.output = tokens(reply.items.iter().map(length).sum());
    }
}

/// What the provider does not have stored.
fn new<'a>(request: &Request<'a>) -> &'a [Item] {
    let known = request.previous.map_or(0, |previous| previous.known);
    request.history.get(known..).unwrap_or_default()
}

/// The bytes of a body with these items as if it were text alone: a picture costs by its pixels, and a megabyte of it is
/// no megabyte of text.
fn without_pictures(items: &[Item], sent: usize) -> usize {
    items.iter().flat_map(Item::content).fold(sent, |size, part| match part {
        Content::Image { data, .. } => size.saturating_sub(data.len()) + length_of(part),
        Content::Text { .. } | Content::Refusal { .. } => size,
    })
}

fn length(item: &Item) -> usize {
    match item {
        Item::Message(message) => message.content.iter().map(length_of).sum(),
        Item::Reasoning(thought) => thought.summary.iter().map(String::len).sum(),
        Item::Call(call) => call.payload.as_str().len(),
        Item::Output(_) | Item::Opaque(_) => 0,
    }
}

fn length_of(part: &Content) -> usize {
    match part {
        Content::Text { text } | Content::Refusal { text } => text.len(),
        Content::Image { .. } => PICTURE_BYTES,
    }
}

fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{Message, Role};

    #[test]
    fn a_picture_counts_by_what_it_costs_and_not_by_its_bytes() {
        let picture = Content::Image { media_type: "image/png".into(), data: "A".repeat(3 << 20) };
        let content = vec![Content::text("See:"), picture];
        let message = Item::Message(Message { role: Role::User, content, native: None });
        let sent = (3 << 20) + 900;
        assert_eq!(tokens(without_pictures(&[message], sent)), 300 + PICTURE_TOKENS as u64);
        // What the provider has stored was not sent.
        assert_eq!(tokens(without_pictures(&[], 900)), 300);
    }
}
