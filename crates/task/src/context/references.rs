//! The issues and pull requests that a conversation refers to, one level deep: often they say what is
//! really wanted. Only those of the same repository are read, because what is said here is not always for
//! the readers of another one.
//!
//! What refers to them may be hidden from people, so [`fetch`] reads more than is shown: a reference counts
//! when it stands in the text that is left after cleaning ([`super::thread`]).

use std::sync::LazyLock;

use futures_util::future::join_all;
use regex::Regex;

use patchwright_forge::{Comment, Forge, ForgeError, Issue, Repository};
use patchwright_types::task::{IssueSnapshot, Trigger};

/// Most that are read.
const MAX_FETCHED: usize = 12;
/// Most that are shown.
pub(super) const MAX_SHOWN: usize = 6;
/// Bytes in which references are looked for.
const MAX_TEXT: usize = 256 << 10;

/// What a conversation refers to.
#[derive(Clone, Debug, Default)]
pub struct LinkedIssues {
    pub issues: Vec<Issue>,
    /// What could not be read, and why.
    pub notes: Vec<String>,
    /// `OWNER/REPO` and the address of its page, by which references are known.
    repository: String,
    page: String,
}

/// The number of an issue or a pull request, where GitHub makes a link of it: `#12`, `GH-12`,
/// `OWNER/REPO#12` or a whole address. Names of GitHub are ASCII, and only the words are read in any case: letters of all
/// scripts, folded, would take longer to compile than the rest of a run's start.
static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let name = "[A-Za-z0-9_.-]+";
    let repository = format!("(?P<repository>{name}/{name})");
    let address = format!(r"(?P<page>(?i-u:https?)://[^\s/]+/{name}/{name})/(?i-u:issues|pull)/");
    Regex::new(&format!(
        r"(?:^|[^\w/&#-])(?:{address}|(?:{repository})?#|(?i-u:GH)-)(?P<number>[1-9][0-9]{{0,8}})\b"
    ))
    .ok()
});

impl LinkedIssues {
    /// Reads what the snapshot and the comments refer to. What cannot be read is a note: the task does not
    /// depend on it.
    pub async fn fetch(
        forge: &dyn Forge,
        repository: &Repository,
        own: u64,
        snapshot: &IssueSnapshot,
        comments: &[Comment],
    ) -> LinkedIssues {
        let (name, page) = (repository.id.to_string(), repository.html_url.clone());
        let mut linked = LinkedIssues { repository: name, page, ..LinkedIssues::default() };
        let said = comments.iter().filter(|comment| !comment.ours).map(|comment| &comment.body);
        let mut wanted = Vec::new();
        for text in [&snapshot.title, &snapshot.body].into_iter().chain(said) {
            for number in linked.numbers(super::hidden::head(text, MAX_TEXT)) {
                if number != own && !wanted.contains(&number) && wanted.len() < MAX_FETCHED {
                    wanted.push(number);
                }
            }
        }
        let asked = wanted.iter().map(|number| forge.issue(&repository.id, *number));
        for (number, answer) in wanted.iter().zip(join_all(asked).await) {
            match answer {
                Ok(issue) => linked.issues.push(issue),
                // A colour or a heading of somebody looks the same.
                Err(ForgeError::NotFound { .. }) => {}
                Err(err) => {
                    let why = patchwright_base::text::line(&err.to_string());
                    linked
                        .notes
                        .push(format!("#{number}, which is referred to, was not read: {why}"));
                }
            }
        }
        linked
    }

    /// Without what was changed after the trigger: what it said then is not known.
    #[must_use]
    pub fn as_of(mut self, trigger: Option<&Trigger>) -> LinkedIssues {
        let Some(at) = trigger.and_then(|trigger| trigger.at) else { return self };
        let (kept, late) = self.issues.into_iter().partition(|issue| issue.updated_at <= at);
        self.issues = kept;
        self.notes.extend(late.iter().map(|issue: &Issue| {
            format!(
                "#{}, which is referred to, left out: it changed after the trigger",
                issue.number
            )
        }));
        self
    }

    /// The issues that a cleaned text refers to, in its order.
    pub(super) fn of(&self, text: &str) -> Vec<&Issue> {
        let mut found: Vec<&Issue> = Vec::new();
        for number in self.numbers(text) {
            let issue = self.issues.iter().find(|issue| issue.number == number);
            let Some(issue) = issue else { continue };
            if !found.iter().any(|known| known.number == number) {
                found.push(issue);
            }
        }
        found
    }

    /// The numbers of this repository that a text names.
    fn numbers(&self, text: &str) -> Vec<u64> {
        let Some(reference) = REFERENCE.as_ref() else { return Vec::new() };
        let is_here = |found: &regex::Captures<'_>| {
            let is = |name, own: &str| {
                found.name(name).is_none_or(|it| it.as_str().eq_ignore_ascii_case(own))
            };
            is("repository", &self.repository) && is("page", &self.page)
        };
        let here = reference.captures_iter(text).filter(is_here);
        here.filter_map(|found| found.name("number")?.as_str().parse().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_github_reads_them() {
        let linked = LinkedIssues {
            repository: "acme/app".to_owned(),
            page: "https://github.com/acme/app".to_owned(),
            ..LinkedIssues::default()
        };
        let rows: [(&str, &[u64]); 9] = [
            ("Fixes #12, closes (#13) and GH-14.", &[12, 13, 14]),
            ("#7", &[7]),
            ("acme/app#3 and Acme/App#4", &[3, 4]),
            (
                "see https://github.com/acme/app/issues/21 and https://github.com/acme/app/pull/22#x",
                &[21, 22],
            ),
            (
                "other/app#3, https://github.com/other/app/issues/5, https://evil.example/acme/app/pull/6",
                &[],
            ),
            ("a#1 &#39; ##2 #0 #x9 #12abc /#3", &[]),
            ("#99999999999", &[]),
            ("#1 #2\n#3", &[1, 2, 3]),
            ("", &[]),
        ];
        for (text, expected) in rows {
            assert_eq!(linked.numbers(text), expected, "{text}");
        }
    }
}
