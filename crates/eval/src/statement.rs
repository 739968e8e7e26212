//! What a model is told of a task that people have solved: the issue that it closed, else the pull request, else the
//! message of the commit.

use std::sync::LazyLock;

use regex::Regex;

use patchwright_base::error::Result;
use patchwright_forge::{ForgeError, RepositoryId};
use patchwright_git::commit::clean_message;
use patchwright_task::context::hidden;
use patchwright_task::world::World;

/// Bytes of a statement.
pub(crate) const MAX_STATEMENT: usize = 64 << 10;

/// The source of a task that a review has set.
pub(crate) const REVIEW: &str = "review";

/// The words by which GitHub closes an issue.
static CLOSES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+#(\d+)\b")
        .expect("a fixed pattern")
});

/// Lines that people or GitHub add for other readers.
const TRAILERS: &[&str] = &["signed-off-by:", "co-authored-by:", "reviewed-by:", "cc:"];

/// The task in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub text: String,
    /// `issue`, `pull_request`, `commit` or `review`.
    pub source: &'static str,
}

/// The best statement that there is; none where nobody has said anything.
///
/// # Errors
/// When the forge does not answer.
pub(crate) async fn of(
    world: &World,
    issues: Option<&RepositoryId>,
    pull_request: Option<u64>,
    message: &str,
) -> Result<Option<Statement>> {
    let Some(repository) = issues else { return Ok(of_message(message)) };
    let forge = world.forge()?.as_ref();
    let mut words = message.to_owned();
    let mut by_pull_request = None;
    if let Some(number) = pull_request
        && let Some(pull) = found(forge.pull_request(repository, number).await)?
    {
        words = format!("{}\n{}\n{words}", pull.title, pull.body);
        by_pull_request = told(&pull.title, &pull.body, "pull_request");
    }
    for number in closed(&words) {
        if let Some(issue) = found(forge.issue(repository, number).await)?
            && !issue.is_pull_request
            && let Some(statement) = told(&issue.title, &issue.body, "issue")
        {
            return Ok(Some(statement));
        }
    }
    Ok(by_pull_request.or_else(|| of_message(message)))
}

/// What is gone is nothing to fail for.
pub(crate) fn found<T>(answer: std::result::Result<T, ForgeError>) -> Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(ForgeError::NotFound { .. }) => Ok(None),
        Err(err) => Err(err.into()),
    }
}

/// The issues that a text closes, in its order.
fn closed(text: &str) -> Vec<u64> {
    let numbers = CLOSES.captures_iter(text).filter_map(|found| found[1].parse().ok());
    let mut seen = Vec::new();
    for number in numbers {
        if !seen.contains(&number) {
            seen.push(number);
        }
    }
    seen
}

/// Without what nobody sees on the page, as in a run on the issue.
fn told(title: &str, body: &str, source: &'static str) -> Option<Statement> {
    let body = hidden::clean(body).text;
    let text = format!("{}\n\n{}", hidden::clean(title).text.trim(), body.trim());
    let text = hidden::head(text.trim(), MAX_STATEMENT).to_owned();
    (!text.is_empty()).then_some(Statement { text, source })
}

/// The message, without GitHub's line about the merge and without trailers.
fn of_message(message: &str) -> Option<Statement> {
    let clean = clean_message(message);
    let lines = clean.lines().filter(|line| {
        let lower = line.trim().to_lowercase();
        !lower.starts_with("merge pull request #")
            && !TRAILERS.iter().any(|trailer| lower.starts_with(trailer))
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = hidden::head(text.trim(), MAX_STATEMENT).to_owned();
    (!text.is_empty()).then_some(Statement { text, source: "commit" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issues_are_closed_by_githubs_words() {
        assert_eq!(closed("Fixes #7, closes: #8 and Resolved #7; see #9"), [7, 8]);
        assert!(closed("prefixes #7").is_empty());
    }

    #[test]
    fn a_message_is_told_without_what_is_for_others() {
        let message = "Merge pull request #12 from acme/fix\n\nFix the sum\n\nSigned-off-by: A <a@example.org>\n";
        let statement = of_message(message).unwrap();
        assert_eq!((statement.text.as_str(), statement.source), ("Fix the sum", "commit"));
        assert_eq!(of_message("Merge pull request #12 from acme/fix\n"), None);
    }
}
