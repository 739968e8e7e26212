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

/// What git and GitHub say of a merge.
const MERGES: &[&str] = &[
    "merge pull request #",
    "merge branch '",
    "merge branches '",
    "merge remote-tracking branch '",
    "merge tag '",
    "merge commit '",
];

/// Lines that people or GitHub add for other readers.
const TRAILERS: &[&str] = &["signed-off-by:", "co-authored-by:", "reviewed-by:", "cc:"];

/// The task in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub text: String,
    /// `issue`, `pull_request`, `commit` or `review`.
    pub source: &'static str,
}

/// What commits say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// That of the commit itself.
    pub own: String,
    /// Those of the commits that it merges, where it is a merge.
    pub merged: Vec<String>,
}

/// The best statement that there is; none where nobody has said anything.
///
/// # Errors
/// When the forge does not answer.
pub(crate) async fn of(
    world: &World,
    issues: Option<&RepositoryId>,
    pull_request: Option<u64>,
    message: &Message,
) -> Result<Option<Statement>> {
    let Some(repository) = issues else { return Ok(of_message(message)) };
    let forge = world.forge()?.as_ref();
    let mut words = format!("{}\n{}", message.own, message.merged.join("\n"));
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

/// The message; of a merge that has no more than a title, those of what it merges as well.
fn of_message(message: &Message) -> Option<Statement> {
    let own = told_by(&message.own);
    let mut parts: Vec<String> = own.clone().into_iter().collect();
    if own.is_none_or(|own| !own.contains('\n')) {
        for part in message.merged.iter().filter_map(|message| told_by(message)) {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    let text = hidden::head(&parts.join("\n\n"), MAX_STATEMENT).to_owned();
    (!text.is_empty()).then_some(Statement { text, source: "commit" })
}

/// A message without what git or GitHub says of a merge, and without trailers.
fn told_by(message: &str) -> Option<String> {
    let clean = clean_message(message);
    let lines = clean.lines().filter(|line| {
        let lower = line.trim().to_lowercase();
        !MERGES.iter().chain(TRAILERS).any(|beginning| lower.starts_with(beginning))
    });
    let text = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
    (!text.is_empty()).then_some(text)
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
        let own = "Merge pull request #12 from acme/fix\n\nFix the sum\n\nSigned-off-by: A <a@example.org>\n";
        let statement = of_message(&Message { own: own.to_owned(), merged: Vec::new() }).unwrap();
        assert_eq!((statement.text.as_str(), statement.source), ("Fix the sum", "commit"));
        let own = "Merge pull request #12 from acme/fix\n".to_owned();
        assert_eq!(of_message(&Message { own, merged: Vec::new() }), None);
    }

    #[test]
    fn of_a_merge_that_says_little_what_it_merges_is_told() {
        let told = |own: &str| {
            let merged =
                ["Fix the sum\n\n1 + 1 was 3.\n", "Merge branch 'main' into fix\n", "Test it\n"];
            let merged = merged.map(str::to_owned).to_vec();
            of_message(&Message { own: own.to_owned(), merged }).unwrap().text
        };
        let all = "Fix the sum\n\n1 + 1 was 3.\n\nTest it";
        assert_eq!(told("Merge branch 'fix'\n"), all);
        let with_title = told("Merge pull request #12 from acme/fix\n\nSums\n");
        assert_eq!(with_title, format!("Sums\n\n{all}"));
        let with_body = "Merge pull request #12 from acme/fix\n\nSums\n\nThey were wrong.\n";
        assert_eq!(told(with_body), "Sums\n\nThey were wrong.");
    }
}
