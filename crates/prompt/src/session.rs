//! What a later message of a session is told of the earlier ones.

use minijinja::{Value, context};

use super::render;
use super::tag::tag_of;
use patchwright_base::error::Result;

/// An earlier message, and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    pub asked: &'a str,
    pub answered: &'a str,
}

/// What is known of the session.
#[derive(Clone, Copy, Debug)]
pub struct EarlierExchanges<'a> {
    /// Oldest first.
    pub exchanges: &'a [Exchange<'a>],
    /// More of them, older ones.
    pub left_out: usize,
    /// What they changed is in the tree that is worked on.
    pub has_change: bool,
}

/// A message of a session, with what came before.
///
/// # Errors
/// When the template is damaged, which is a defect.
pub fn in_session(prompt: &str, earlier: &EarlierExchanges<'_>) -> Result<String> {
    let EarlierExchanges { exchanges, left_out, has_change } = *earlier;
    let texts = exchanges.iter().flat_map(|it| [it.asked, it.answered]);
    let tag = tag_of(&texts.chain([prompt]).collect::<Vec<_>>());
    let value = |it: &Exchange<'_>| {
        let Exchange { asked, answered } = *it;
        context! { asked, answered }
    };
    let earlier: Vec<Value> = exchanges.iter().map(value).collect();
    render("task/session.md", context! { prompt, earlier, left_out, has_change, tag })
}
