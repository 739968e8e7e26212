//! Instances from reviews that led to a change: the task is what reviewers said of a commit of a merged pull request, the
//! solution is what its branch had when it was reviewed next, or merged.

use std::collections::BTreeSet;

use chrono::DateTime;

use crate::candidate::{Candidate, Patches, Task, patches};
use crate::collection::{Collection, Refusal};
use crate::instance::Instance;
use crate::mine::{Mine, Miner};
use crate::statement::{self, MAX_STATEMENT, Statement};
use patchwright_base::error::{Failure, Result};
use patchwright_base::text;
use patchwright_forge::{PullRequest, RepositoryId, Review, ReviewState, Thread};
use patchwright_git::clone::Repo;
use patchwright_git::{GitError, Oid, blocking, commit};
use patchwright_prompt::{ReviewRemark, reviewed};
use patchwright_task::context::hidden;

/// Commits of a pull request that are followed: GitHub lists no more.
const MAX_COMMITS: u32 = 250;
/// Lines before a comment that are shown with it.
const LINES_SHOWN: usize = 8;

/// A reviewed commit, and the one that its review led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Round {
    before: Oid,
    after: Oid,
    /// Another branch was merged between the two.
    has_merges: bool,
}

impl Miner<'_> {
    /// Adds instances of reviews to the collection until there are enough of them.
    pub(crate) async fn mine_reviews(
        &self,
        mine: &Mine,
        collection: &mut Collection,
    ) -> Result<()> {
        let Some(repository) = &mine.issues else {
            return Err(Failure::usage("reviews are read on GitHub, and no repository is named")
                .hint("name it: `--issues OWNER/REPO`"));
        };
        let forge = self.world.forge()?;
        let most = usize::try_from(mine.commits).unwrap_or(usize::MAX);
        let pulls = forge.pull_requests_since(repository, DateTime::UNIX_EPOCH, most).await?;
        for pull in pulls {
            if collection.is_over(mine.most) {
                break;
            }
            collection.mined.looked_at += 1;
            // What is open may still be reviewed: a later call looks at it.
            let Ok(head) = pull.head_sha.parse::<Oid>() else { continue };
            if pull.merged && !collection.knows(head) {
                self.mine_pull(mine, repository, &pull, head, collection).await?;
            }
        }
        Ok(())
    }

    /// The last round ends at the head, so a pull request whose head is known has been looked at.
    async fn mine_pull(
        &self,
        mine: &Mine,
        repository: &RepositoryId,
        pull: &PullRequest,
        head: Oid,
        collection: &mut Collection,
    ) -> Result<()> {
        let forge = self.world.forge()?;
        let reviews = statement::found(forge.reviews(repository, pull.number).await)?;
        let reviews = of_others(reviews.unwrap_or_default(), pull);
        if reviews.is_empty() {
            let why = Refusal::Change("nobody has reviewed it".to_owned());
            return collection.add(head, Err(why), self.ui);
        }
        let workspace = self.open(mine, Some(&pull.head_sha), MAX_COMMITS + 1).await;
        let workspace = workspace.map_err(|failure| {
            if mine.repository.contains("://") {
                return failure;
            }
            failure.hint(
                "a clone usually lacks the commits of pull requests: leave `--repo` out, and they come from GitHub",
            )
        })?;
        let rounds = match rounds(&workspace.repo, head, &reviews).await? {
            Ok(rounds) => rounds,
            Err(why) => return collection.add(head, Err(Refusal::Change(why)), self.ui),
        };
        let threads = statement::found(forge.threads(repository, pull.number).await)?;
        let threads = threads.unwrap_or_default();
        for round in rounds {
            if collection.is_over(mine.most) {
                break;
            }
            if !collection.knows(round.after) {
                let of_round: Vec<&Review> = reviews
                    .iter()
                    .filter(|review| commit_of(review) == Some(round.before))
                    .collect();
                let made = match statement_of(pull, &of_round, &threads)? {
                    None => Err(Refusal::Change("its review asks for nothing".to_owned())),
                    Some(told) => {
                        let ids = &collection.ids;
                        self.of_round(mine, &workspace.repo, pull, round, told, ids).await?
                    }
                };
                collection.add(round.after, made, self.ui)?;
            }
        }
        Ok(())
    }

    async fn of_round(
        &self,
        mine: &Mine,
        repo: &Repo,
        pull: &PullRequest,
        round: Round,
        told: Statement,
        taken: &BTreeSet<String>,
    ) -> Result<std::result::Result<Instance, Refusal>> {
        let Round { before, after, has_merges } = round;
        if has_merges {
            let why = "another branch was merged into it after the review";
            return Ok(Err(Refusal::Change(why.to_owned())));
        }
        let Patches { code, tests } = match patches(repo, before, after, mine.max_lines).await? {
            Ok(patches) => patches,
            Err(why) => return Ok(Err(why)),
        };
        let candidate = Candidate {
            before,
            after,
            title: format!("review of #{}, {}", pull.number, text::line(&pull.title)),
            number: Some(pull.number),
            task: Task::Known(told),
            patch: code,
            tests,
        };
        self.instance(mine, repo, &candidate, taken).await
    }
}

/// What others than the author have said.
fn of_others(reviews: Vec<Review>, pull: &PullRequest) -> Vec<Review> {
    let is_of_another = |review: &Review| {
        review.state != ReviewState::Pending && review.author.login != pull.author.login
    };
    reviews.into_iter().filter(is_of_another).collect()
}

fn commit_of(review: &Review) -> Option<Oid> {
    review.commit.as_deref()?.parse().ok()
}

/// The reviewed commits in the history of a head, the oldest first, each with the next; why there are none.
async fn rounds(
    repo: &Repo,
    head: Oid,
    reviews: &[Review],
) -> Result<std::result::Result<Vec<Round>, String>> {
    let reviewed: BTreeSet<String> =
        reviews.iter().filter_map(commit_of).map(|commit| commit.to_string()).collect();
    let repo = repo.clone();
    let found = blocking(move || {
        let chain = commit::first_parents(&repo, head, MAX_COMMITS as usize)?;
        let mut rounds: Vec<Round> = Vec::new();
        let mut round = Round { before: head, after: head, has_merges: false };
        for commit in chain {
            if commit != head && reviewed.contains(&commit.to_string()) {
                rounds.push(Round { before: commit, ..round });
                round = Round { before: commit, after: commit, has_merges: false };
            }
            round.has_merges |= commit::read(&repo, commit)?.parents.len() > 1;
        }
        rounds.reverse();
        Ok::<_, GitError>(rounds)
    });
    let rounds = found.await.map_err(|err| {
        Failure::machine(format!("the history of {} cannot be read", head.short())).caused_by(err)
    })?;
    let is_only_head = reviews.iter().all(|review| commit_of(review) == Some(head));
    Ok(match rounds.is_empty() {
        false => Ok(rounds),
        true if is_only_head => Err("nothing was changed after its review".to_owned()),
        true => Err("its branch was rewritten after its review".to_owned()),
    })
}

/// What the reviews of one commit ask for; nothing where they have no words.
fn statement_of(
    pull: &PullRequest,
    reviews: &[&Review],
    threads: &[Thread],
) -> Result<Option<Statement>> {
    let whole = reviews.iter().map(|review| remark("", "", &review.body));
    let mut remarks: Vec<ReviewRemark> = whole.flatten().collect();
    for thread in threads {
        let is_of_round = |id: u64| reviews.iter().any(|review| review.id == id);
        let said = thread.comments.iter().filter(|comment| {
            comment.author.login != pull.author.login && comment.review.is_some_and(is_of_round)
        });
        let hunk = thread.comments.first().map_or("", |first| first.diff_hunk.as_str());
        remarks.extend(said.filter_map(|comment| remark(&thread.path, hunk, &comment.body)));
    }
    if remarks.is_empty() {
        return Ok(None);
    }
    let title = hidden::clean(&pull.title).text;
    let body = hidden::clean(&pull.body).text;
    let body = hidden::head(body.trim(), MAX_STATEMENT / 2);
    let text = reviewed(&text::line(title.trim()), body, &remarks)?;
    let text = hidden::head(text.trim(), MAX_STATEMENT).to_owned();
    Ok(Some(Statement { text, source: statement::REVIEW }))
}

/// Without what nobody sees on the page, as in a run on the pull request.
fn remark(path: &str, hunk: &str, body: &str) -> Option<ReviewRemark> {
    let text = hidden::clean(body).text.trim().to_owned();
    let lines: Vec<&str> = hunk.lines().collect();
    let shown = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
    let is_said = !text.is_empty();
    is_said.then(|| ReviewRemark {
        path: text::line(path),
        lines: text::fence(&shown, "diff").trim_end().to_owned(),
        text,
    })
}
