//! What the model is told about a result that is wanted as JSON.

use minijinja::context;

use super::{list, render, tag_of};
use patchwright_base::error::Result;

/// What stands behind a task whose result is asked for as JSON.
pub fn output_ahead(schema: &str) -> Result<String> {
    render("task/output_ahead.md", context! { schema })
}

/// The question for the result as JSON; `problems` are those of the answer before, and `schema` is `None` where the task
/// and the request have it.
pub fn output(schema: Option<&str>, problems: &[String]) -> Result<String> {
    let quoted: Vec<&str> = problems.iter().map(String::as_str).collect();
    let tag = tag_of(&quoted);
    render("task/output.md", context! { schema, problems => list(problems), tag })
}
