//! What a model said of the change at an earlier commit, for a review that asks none: after a merge of the base branch
//! nothing else on the page has these words. They are taken from the comment as it was, which is ours, and stay there
//! between two lines that no page shows.

use super::plain_sha;
use patchwright_base::text;
use patchwright_review::overall::{self, OverallVerdict};

/// Begins the line before the words, with the commit that they are about, and the one after them.
const BEGIN: &str = "[//]: # (patchwright:words at=";
const END: &str = "[//]: # (patchwright:words end)";

/// Words with the commit that they are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWords {
    at: String,
    /// As they stood in the comment: harmless already.
    words: String,
}

impl KeptWords {
    /// Those in a comment of ours.
    pub fn of(body: &str) -> Option<KeptWords> {
        let begin = body.find(BEGIN)?;
        let (at, rest) = body[begin + BEGIN.len()..].split_once(")\n")?;
        let (words, _) = rest.split_once(END)?;
        let is_commit = !at.is_empty() && at.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (at, words) = (at.to_owned(), words.trim().to_owned());
        (is_commit && !words.is_empty()).then_some(KeptWords { at, words })
    }

    /// What they say of the change as a whole.
    pub(super) fn verdict(&self) -> Option<OverallVerdict> {
        overall::said(&self.words)
    }

    /// The words again, with what they are about; empty where that is more than `most` bytes.
    pub(super) fn again(&self, most: usize) -> String {
        if self.words.len() > most {
            return String::new();
        }
        let at = text::code(&self.at);
        format!(
            "Of {at}, the last commit that a model has read:\n\n{}",
            between(&self.at, &self.words)
        )
    }
}

/// Words of the comment, so that the next review finds them.
pub(super) fn kept(head: &str, words: &str) -> String {
    between(&plain_sha(head), words)
}

fn between(at: &str, words: &str) -> String {
    format!("{BEGIN}{at})\n\n{}\n\n{END}\n\n", words.trim())
}

#[cfg(test)]
mod tests {
    use crate::review::kept_words::{KeptWords, kept};

    #[test]
    fn words_are_found_again_and_kept_once_more() {
        let words = "Adds it.\n\nVerdict: needs work\n\n<sub>Written by the model.</sub>";
        let body = format!("### Title\n\n{}| table |\n", kept("6124cd3abcdef", words));
        let found = KeptWords::of(&body).unwrap();
        assert_eq!((found.at.as_str(), found.words.as_str()), ("6124cd3", words));
        let again = found.again(1000);
        assert!(again.starts_with("Of `6124cd3`, the last commit"), "{again}");
        assert_eq!(KeptWords::of(&again), Some(found.clone()));
        assert_eq!(found.again(10), "");
        for damaged in
            ["", "[//]: # (patchwright:words at=`x`)\n\na\n\n[//]: # (patchwright:words end)"]
        {
            assert_eq!(KeptWords::of(damaged), None, "{damaged}");
        }
    }
}
