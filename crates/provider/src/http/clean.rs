//! Messages of a server made fit for people and logs: short, one line, without the key.

use patchwright_base::invisible::is_invisible;

/// Characters of a message that are kept.
const LIMIT: usize = 600;

/// Shorter keys are ignored: they would cut words out of messages.
const SHORTEST_KEY: usize = 6;

/// The message without the keys, without control characters, in one line of bounded length.
pub(super) fn message<'a>(text: &str, keys: impl Iterator<Item = &'a str>) -> String {
    let text = keys
        .filter(|key| key.len() >= SHORTEST_KEY)
        .fold(text.to_owned(), |text, key| without_key(&text, key));
    let mut clean = String::with_capacity(text.len().min(LIMIT));
    let mut length = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control() || is_invisible(c)) {
        if word.is_empty() {
            continue;
        }
        if length > 0 {
            clean.push(' ');
        }
        for c in word.chars() {
            if length >= LIMIT {
                clean.push('…');
                return clean;
            }
            clean.push(c);
            length += 1;
        }
        length += 1;
    }
    clean
}

/// Replaces the key, and any long piece of its beginning or end, as servers quote them.
fn without_key(text: &str, key: &str) -> String {
    let mut text = text.replace(key, "[key]");
    if !key.is_ascii() || key.len() < 2 * PIECE {
        return text;
    }
    for piece in [&key[..PIECE], &key[key.len() - PIECE..]] {
        while let Some(at) = text.find(piece) {
            let end = text[at..]
                .find(|c: char| !c.is_ascii_graphic() || matches!(c, '"' | '\'' | '`' | ','))
                .map_or(text.len(), |length| at + length);
            text.replace_range(at..end.max(at + piece.len()), "[key]");
        }
    }
    text
}

/// Characters of a key that are secret enough to hide on their own.
const PIECE: usize = 16;
