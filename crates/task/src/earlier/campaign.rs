//! The open pull request that a campaign works on again. Nobody has asked for that run after having read what is said there,
//! so only the words of those count who could have asked: people with write access, and bots that are named.

use std::collections::BTreeMap;

use super::{Becomes, EarlierPull, Said, open_from};
use crate::admit;
use crate::branch::BranchState;
use crate::branch_target;
use crate::event::access::{self, AccessConfig, Denied};
use crate::run::Run;
use crate::workspace::Workspace;
use patchwright_base::error::Result;
use patchwright_base::text;
use patchwright_forge::{Account, Repository, RepositoryId};

/// People of one pull request who are asked about: each is a request.
const MOST_PEOPLE: usize = 20;

/// The open pull request from the campaign's branch, where all that it has is ours: the publisher leaves every other one
/// alone. A token that may not read pull requests is no reason not to work; then there is a note for the report.
///
/// # Errors
/// When the forge does not answer just now: without that, what reviewers asked for would be lost.
pub(crate) async fn of_campaign(
    run: &Run<'_>,
    repository: &Repository,
    branch: &str,
    workspace: &Workspace,
) -> Result<(Vec<EarlierPull>, Option<String>)> {
    match find(run, repository, branch, workspace).await {
        Ok(found) => Ok((found, None)),
        Err(failure) if failure.outage.is_none() => {
            let why = failure.cause.map_or(failure.message, |cause| cause.to_string());
            let note = format!(
                "the model was told nothing of an open pull request from `{branch}`: {}",
                text::line(&why)
            );
            Ok((Vec::new(), Some(note)))
        }
        Err(failure) => Err(failure),
    }
}

async fn find(
    run: &Run<'_>,
    repository: &Repository,
    branch: &str,
    workspace: &Workspace,
) -> Result<Vec<EarlierPull>> {
    let id = &repository.id;
    // Most repositories have none, and then this is the only request.
    let open = open_from(run, id, repository, branch).await?;
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let state = branch_target::state_of(run, id, repository, workspace, branch).await?;
    let BranchState::Ours { tip, .. } = state else { return Ok(Vec::new()) };
    let rules = admit::access_rules(&run.config);
    let mut people = People { run, id, rules, known: BTreeMap::new() };
    let mut pulls = Vec::new();
    for pull in open.into_iter().filter(|pull| pull.base_branch == workspace.base_branch) {
        let said = people.heard(Said::read(run, id, pull.number).await?).await?;
        pulls.push(EarlierPull { pull, tip, becomes: Becomes::Replaced, said });
    }
    Ok(pulls)
}

/// Who of those that have said something may set us to work.
struct People<'a> {
    run: &'a Run<'a>,
    id: &'a RepositoryId,
    rules: AccessConfig,
    known: BTreeMap<String, bool>,
}

impl People<'_> {
    /// What counts of it.
    async fn heard(&mut self, said: Said) -> Result<Said> {
        let Said { mut issue, comments, threads, reviews, mut notes } = said;
        let mut left_out = 0;
        let mut kept = Vec::new();
        for comment in comments {
            if comment.ours || self.may_speak(&comment.author).await? {
                kept.push(comment);
            } else {
                left_out += 1;
                // It is not among those of which the model is told that they were too many.
                issue.comments = issue.comments.saturating_sub(1);
            }
        }
        let mut kept_threads = Vec::new();
        for mut thread in threads {
            let mut remarks = Vec::new();
            for comment in std::mem::take(&mut thread.comments) {
                if comment.ours || self.may_speak(&comment.author).await? {
                    remarks.push(comment);
                } else {
                    left_out += 1;
                }
            }
            thread.comments = remarks;
            if !thread.comments.is_empty() {
                kept_threads.push(thread);
            }
        }
        let mut kept_reviews = Vec::new();
        for said in reviews {
            if self.may_speak(&said.review.author).await? {
                kept_reviews.push(said);
            } else {
                left_out += 1;
            }
        }
        if left_out > 0 {
            notes.push(format!("left out {left_out} remarks by accounts without write access"));
        }
        Ok(Said { issue, comments: kept, threads: kept_threads, reviews: kept_reviews, notes })
    }

    /// Whoever is not known to may not.
    async fn may_speak(&mut self, account: &Account) -> Result<bool> {
        let login = account.login.to_lowercase();
        if let Some(known) = self.known.get(&login) {
            return Ok(*known);
        }
        if self.known.len() == MOST_PEOPLE {
            return Ok(false);
        }
        let forge = self.run.world.forge()?.as_ref();
        let may = match access::check(forge, self.id, account, &self.rules).await {
            Ok(_) => true,
            Err(Denied::Unknown(failure)) if failure.outage.is_some() => return Err(*failure),
            Err(denied) => {
                let why = denied.why();
                self.run.environment.ui.detail(&format!("what they say does not count: {why}"));
                false
            }
        };
        self.known.insert(login, may);
        Ok(may)
    }
}
