//! Many repositories at once: those of an owner, those that a search finds, and what decides about each.
//!
//! [`GitHubForge::preflight_all`] asks GraphQL, fifty repositories to a question, each under its own alias, so
//! that one that is gone does not take the rest with it. What GraphQL leaves out, or all where it is
//! refused, is asked over REST, one repository after the other ([`super::preflight`]).

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::GitHubForge;
use super::http::{Call, segment};
use super::names::RepositoryNames;
use super::token::Scope;
use super::wire::lenient;
use crate::{ForgeError, RepositoryId};

/// Results of one search that GitHub gives at most.
const SEARCH_CAP: usize = 1_000;
const SEARCH_PAGE: usize = 100;
/// More searches than this are not made for one query.
const MOST_SEARCHES: usize = 200;

/// Names of repositories, and notes on how complete the list is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryList {
    pub repositories: RepositoryNames,
    /// For people: results that were left out, and why.
    pub notes: Vec<String>,
    /// Owners whose repositories could not be looked for.
    pub left_out: Vec<String>,
}

/// What is asked about each repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreflightQuery {
    /// The branch that is looked at; each one's default branch when absent.
    pub base: Option<String>,
    /// The branch whose tip and pull requests are told.
    pub head_branch: String,
    /// Tell the open pull requests instead, whatever their branch.
    pub open_pulls: bool,
    /// Paths on the base branch that are looked for.
    pub files: Vec<String>,
}

/// What decides about a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as GitHub tells them")]
pub struct RepositoryFacts {
    /// As it was asked for.
    pub asked: String,
    /// `OWNER/REPO` as it is called now; what was asked for when nothing is known.
    pub repository: String,
    /// GitHub's id of it, the same after a rename; empty when nothing is known.
    pub node_id: String,
    pub base_branch: String,
    /// `None` when the repository is empty or has no such branch.
    pub base_sha: Option<String>,
    pub archived: bool,
    pub disabled: bool,
    pub fork: bool,
    pub template: bool,
    pub private: bool,
    /// We may push; `None` when GitHub does not tell (it does not tell Apps).
    pub can_push: Option<bool>,
    pub topics: Vec<String>,
    /// Those of [`PreflightQuery::files`] that are not there.
    pub missing_files: Vec<String>,
    pub pulls: Vec<PullFacts>,
    /// The last commit of [`PreflightQuery::head_branch`]; `None` when there is no such branch. Not looked at for
    /// [`PreflightQuery::open_pulls`].
    pub head: Option<HeadFacts>,
    /// Why nothing more is known.
    pub trouble: Option<String>,
}

/// What decides about a branch: whose its last commit is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadFacts {
    pub sha: String,
    pub committer_email: String,
    pub message: String,
}

/// The commit by which a pull request came into its base branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeFacts {
    pub sha: String,
    /// Its first parent: where the base branch was before, unless several commits were rebased.
    pub parent: String,
}

/// What decides about a pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as GitHub tells them")]
pub struct PullFacts {
    pub number: u64,
    pub open: bool,
    pub merged: bool,
    pub draft: bool,
    pub head_sha: String,
    /// The base branch's commit as the pull request has it.
    pub base_sha: String,
    /// Its description has the marker of our pull requests. Not looked at for [`PreflightQuery::open_pulls`].
    pub ours: bool,
    /// How it was merged, where GitHub tells. Not looked at for [`PreflightQuery::open_pulls`].
    pub merge: Option<MergeFacts>,
}

#[derive(Deserialize)]
struct ListedJson {
    #[serde(default, deserialize_with = "lenient")]
    full_name: String,
}

impl ListedJson {
    fn id(&self) -> Option<RepositoryId> {
        self.full_name.parse().ok()
    }
}

#[derive(Deserialize)]
struct InstallationPage {
    #[serde(default, deserialize_with = "lenient")]
    repositories: Vec<ListedJson>,
}

#[derive(Deserialize)]
struct SearchPage {
    #[serde(default, deserialize_with = "lenient")]
    total_count: usize,
    #[serde(default, deserialize_with = "lenient")]
    incomplete_results: bool,
    #[serde(default, deserialize_with = "lenient")]
    items: Vec<ListedJson>,
}

/// A span of creation dates, in days; a search is split by it.
type DateRange = (DateTime<Utc>, DateTime<Utc>);

impl GitHubForge {
    /// All repositories of an organisation or user that we may see: complete, or an error.
    ///
    /// # Errors
    /// [`ForgeError::NotFound`] when there is no such account.
    pub async fn repositories_of(&self, owner: &str) -> Result<RepositoryNames, ForgeError> {
        let thing = format!("the repositories of `{owner}`");
        let list = async |path: String| {
            let call = Call::get(path, thing.clone());
            let mut names = RepositoryNames::default();
            let take = |page: Vec<ListedJson>| names.extend(page.iter().filter_map(ListedJson::id));
            self.api.each_page(&call, take).await?;
            Ok(names)
        };
        let name = segment(owner);
        match list(format!("orgs/{name}/repos?type=all&per_page=100")).await {
            Err(ForgeError::NotFound { .. }) => {
                let viewer = self.own_account().await.ok().flatten();
                // Only this list has a person's private repositories.
                if viewer.is_some_and(|viewer| viewer.login.eq_ignore_ascii_case(owner)) {
                    list("user/repos?affiliation=owner&per_page=100".to_owned()).await
                } else {
                    list(format!("users/{name}/repos?type=owner&per_page=100")).await
                }
            }
            found => found,
        }
    }

    /// The repositories that the App is installed for, when the token is an App's; `None` when it is a
    /// person's.
    pub async fn installed_for(&self) -> Result<Option<RepositoryNames>, ForgeError> {
        let call = Call::get(
            "installation/repositories?per_page=100",
            "the repositories of the installation",
        );
        let mut names = RepositoryNames::default();
        let take = |page: InstallationPage| {
            names.extend(page.repositories.iter().filter_map(ListedJson::id));
        };
        match self.api.each_page(&call, take).await {
            Ok(()) => Ok(Some(names)),
            Err(
                ForgeError::Forbidden { .. }
                | ForgeError::NotFound { .. }
                | ForgeError::Authentication { .. },
            ) => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// The repositories that a search finds. GitHub gives at most 1,000 results, so a query that finds
    /// more is asked again for parts of the time in which they were created; `now` ends that time. `scope`
    /// chooses the token; without one the query does.
    pub(super) async fn search_in(
        &self,
        query: &str,
        now: DateTime<Utc>,
        scope: Option<&Scope>,
    ) -> Result<RepositoryList, ForgeError> {
        let mut listed = RepositoryList::default();
        let is_split_by_hand = query.split_whitespace().any(|word| word.starts_with("created:"));
        // Before GitHub opened.
        let start = DateTime::from_timestamp(1_167_609_600, 0).unwrap_or(now);
        let mut spans: Vec<Option<DateRange>> = vec![None];
        let mut searches = 0;
        let mut missed = 0;
        while let Some(span) = spans.pop() {
            searches += 1;
            let whole = span.unwrap_or((start, now));
            let may_split = !is_split_by_hand
                && searches + spans.len() < MOST_SEARCHES
                && (whole.1 - whole.0).num_days() > 0;
            let (page, rest) = self.search_span((query, scope), span, may_split).await?;
            match rest {
                MissingResults::None => {}
                MissingResults::Missed(count) => missed += count,
                MissingResults::TooMany => {
                    let middle = whole.0 + (whole.1 - whole.0) / 2;
                    spans.push(Some((whole.0, middle)));
                    spans.push(Some((middle + chrono::TimeDelta::days(1), whole.1)));
                    continue;
                }
            }
            listed.repositories.extend(page);
        }
        if missed > 0 {
            listed.notes.push(format!(
                "the search `{query}` has {missed} results more than GitHub gives; narrow it, for \
                 example by `created:`"
            ));
        }
        Ok(listed)
    }

    /// All pages of one search, or the word that there are too many results.
    async fn search_span(
        &self,
        (query, scope): (&str, Option<&Scope>),
        span: Option<DateRange>,
        may_split: bool,
    ) -> Result<(Vec<RepositoryId>, MissingResults), ForgeError> {
        let day = |time: DateTime<Utc>| time.format("%Y-%m-%d");
        let query = match span {
            Some((from, to)) => format!("{query} created:{}..{}", day(from), day(to)),
            None => query.to_owned(),
        };
        let mut found = Vec::new();
        let mut total = 0;
        // The last changed first: what changes meanwhile moves to the front, so nothing falls between
        // two pages.
        let path = format!(
            "search/repositories?q={}&sort=updated&order=desc&per_page={SEARCH_PAGE}",
            segment(&query)
        );
        for number in 1..=SEARCH_CAP / SEARCH_PAGE {
            let mut call =
                Call::get(format!("{path}&page={number}"), format!("the search `{query}`"))
                    .for_action(format!("search by `{query}`"), "");
            if let Some(scope) = scope {
                call.scope = scope.clone();
            }
            let mut page: SearchPage = self.api.read_json(&call).await?;
            if page.incomplete_results {
                // GitHub ran out of time; the second answer is often whole.
                page = self.api.read_json(&call).await?;
            }
            total = page.total_count.max(total);
            if total > SEARCH_CAP && may_split {
                return Ok((Vec::new(), MissingResults::TooMany));
            }
            let is_last = page.items.len() < SEARCH_PAGE;
            found.extend(page.items.iter().filter_map(ListedJson::id));
            if is_last || found.len() >= total {
                break;
            }
        }
        let missed = total.saturating_sub(found.len());
        Ok((found, if missed > 0 { MissingResults::Missed(missed) } else { MissingResults::None }))
    }
}

/// What a search did not give.
enum MissingResults {
    None,
    Missed(usize),
    TooMany,
}
