//! Answers to people who ask for a review or dismiss a finding, when nothing follows from that.

use std::fmt::Write as _;

use crate::answer::{capital, command};
use crate::markdown;
use patchwright_base::text;

/// A review that was asked for and has nothing to look at. `next` is what to do about it, in plain words;
/// `mention`: a full one would have something to look at.
pub fn not_reviewed(why: &str, next: Option<&str>, mention: Option<&str>) -> String {
    let mut out = format!(
        "**Nothing to review**\n\n{}\n",
        text::fence(&text::head(why, 4000), "").trim_end()
    );
    if let Some(next) = next {
        let _ = write!(out, "\n{}.\n", capital(&markdown::line(next, 1000)));
    }
    if let Some(mention) = mention {
        let command = command(mention, "review full");
        let _ = write!(out, "\n{command} reviews everything, whatever was reviewed before.\n");
    }
    out
}

/// What people have said of the findings changes nothing. `next` is what to do about it, in plain words.
pub fn nothing_dismissed(why: &str, next: Option<&str>) -> String {
    let mut out = format!("**The check stays as it is**: {}.\n", markdown::line(why, 1000));
    if let Some(next) = next {
        let _ = write!(out, "\n{}.\n", capital(&markdown::line(next, 1000)));
    }
    out
}
