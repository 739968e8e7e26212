//! `read_diff`: the difference of one changed file, in numbered lines, page by page. What was shown
//! counts as reviewed.

use std::fmt::Write as _;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{HostCall, Tool};
use crate::schema;
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};
use patchwright_journal::Entry;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// A changed file; without it the changed files are listed.
    path: Option<String>,
    /// Where to go on, as the page before says.
    from: Option<usize>,
}

pub struct ReadDiff;

#[async_trait]
impl Tool for ReadDiff {
    fn name(&self) -> &'static str {
        "read_diff"
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn schema(&self) -> Value {
        schema::of::<Args>()
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let args: Args = patchwright_guest::tools::parse_args(self.name(), args)?;
        let review_context = super::review_context(ctx)?;
        let from = args.from.unwrap_or(0);
        let Some(path) = args.path.as_deref().filter(|path| !path.trim().is_empty()) else {
            return Ok(ToolOutput::text(review_context.list(from)));
        };
        let found = review_context.find_named(path);
        let page = found.and_then(|file| {
            Some((file, review_context.page(file, from, review_context.page_bytes)?))
        });
        let Some((file, mut page)) = page else {
            return Err(ToolError::tell(format!(
                "this file is not changed by the pull request; the nearest that are: {}",
                review_context.nearest(path)
            )));
        };
        let changed = review_context.diff.files.get(file);
        if changed.is_some_and(|file| file.too_large) {
            page.text.push_str("[look at it in the working directory, and with git]\n");
        } else if page.total == 0 {
            page.text.push_str("[there are no lines to show]\n");
        } else if !page.is_last() {
            let (end, total) = (page.rows.end, page.total);
            let _ = writeln!(page.text, "[line {end} of {total}: go on with `from` {end}]");
        }
        if !page.rows.is_empty() {
            let path = review_context
                .diff
                .files
                .get(file)
                .map(|file| file.path.clone())
                .unwrap_or_default();
            let (from, to) = (page.rows.start, page.rows.end);
            ctx.journal
                .append(&Entry::Shown { path, from, to })
                .map_err(|failure| ToolError::Broken(failure.to_string()))?;
            review_context.mark(file, page.rows);
        }
        Ok(ToolOutput::text(page.text))
    }
}
