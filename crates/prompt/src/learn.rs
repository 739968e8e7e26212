//! What a model is told that puts into words what maintainers corrected.

use minijinja::{Value, context};

use super::{list, render, tag_of};
use patchwright_base::error::Result;

/// Something that was said. Its texts are clean, and bounded.
#[derive(Clone, Copy, Debug)]
pub struct MaintainerRemark<'a> {
    pub id: &'a str,
    /// Who, where and when, in a line.
    pub heading: &'a str,
    /// What it is about, in words of others; may be empty.
    pub about: &'a str,
    pub text: &'a str,
}

/// What is to be put into lessons, with what is known already.
///
/// # Errors
/// When the template is damaged, which is a defect.
pub fn learn(
    repository: &str,
    instructions: &str,
    lessons: &[String],
    said: &[MaintainerRemark<'_>],
) -> Result<String> {
    let texts = said.iter().flat_map(|it| [it.about, it.text, it.heading]);
    let texts = texts.chain([instructions]).chain(lessons.iter().map(String::as_str));
    let tag = tag_of(&texts.collect::<Vec<_>>());
    let values: Vec<Value> = said
        .iter()
        .map(|it| {
            let MaintainerRemark { id, heading, about, text } = *it;
            context! { id, heading, about, text }
        })
        .collect();
    let values =
        context! { repository, instructions, lessons => list(lessons), tag, said => values };
    render("task/learn.md", values)
}
