//! What a model is told that compares attempts which are equal by their checks.

use minijinja::{Value, context};

use super::{fresh_tag, render};
use patchwright_base::error::Result;

/// One of the attempts. Its texts are clean, and bounded.
#[derive(Clone, Copy, Debug)]
pub struct JudgedAttempt<'a> {
    pub number: u32,
    /// What is known of it, in a line.
    pub facts: &'a str,
    /// What its agent said last.
    pub words: &'a str,
    /// Its change as a patch.
    pub change: &'a str,
}

/// The question which one is the best, at one task.
pub fn judge(task: &str, attempts: &[JudgedAttempt<'_>]) -> Result<String> {
    let texts = attempts.iter().flat_map(|it| [it.words, it.change]);
    let texts: Vec<&str> = texts.chain([task]).collect();
    let tag = fresh_tag(&texts);
    let numbers: Vec<String> = attempts.iter().map(|it| it.number.to_string()).collect();
    let values: Vec<Value> = attempts
        .iter()
        .map(|it| {
            let JudgedAttempt { number, facts, words, change } = *it;
            context! { number, facts, words, change }
        })
        .collect();
    let numbers = numbers.join(", ");
    render("task/judge.md", context! { task, tag, numbers, attempts => values })
}
