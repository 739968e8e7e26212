//! What maintainers said on pull requests of ours, and in answer to reviews of ours, since a moment.
//!
//! A maintainer is a person who may write, as the forge itself says: what an account calls itself, or is called in a
//! comment's own JSON, does not count. Of what they wrote their own words count, not what they quote. What it is
//! about (the lines of a difference, a finding of ours) goes along and is never a source.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};

use super::words;
use crate::admit::is_us;
use crate::context::hidden;
use crate::event::access::{self, AccessConfig};
use crate::failures;
use crate::run::Run;
use crate::workspace::{RUN_TRAILER, Workspace};
use patchwright_base::error::Result;
use patchwright_base::text;
use patchwright_forge::{
    Account, Forge, ForgeError, PullCommit, PullRequest, Repository, ReviewState, Thread,
};
use patchwright_git::diff::{self, DiffSpec};
use patchwright_git::{GitError, Oid, blocking, commit};
use patchwright_report as report;
use patchwright_report::review::inline;

/// Pull requests that are looked at, the last changed ones.
const MAX_PULLS: usize = 100;
/// Comments of one conversation.
const MAX_COMMENTS: usize = 1_000;
/// Commits of one pull request whose changes are read.
const MAX_COMMITS: usize = 5;
/// People whose role the forge is asked for, each once: anybody may comment.
const MAX_PEOPLE: usize = 100;
/// What is read in all, and bytes of it.
const MAX_SAID: usize = 200;
const MAX_BYTES: usize = 96 << 10;
/// Bytes of one text, of what it is about, and of the change of a commit.
const MAX_TEXT: usize = 2 << 10;
const MAX_ABOUT: usize = 1 << 10;
const MAX_CHANGE: usize = 4 << 10;

/// Something that a maintainer said or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    /// Stable between runs: made from the forge's number.
    pub id: String,
    /// Number of the pull request.
    pub number: u64,
    pub url: String,
    pub author: String,
    /// Where.
    pub place: String,
    pub at: DateTime<Utc>,
    pub about: String,
    pub text: String,
    /// It is words, not a change.
    pub in_words: bool,
}

impl Remark {
    pub(super) fn heading(&self) -> String {
        format!("`{}`, {}, {}", self.author, self.place, self.at.format("%Y-%m-%d"))
    }
}

/// All that was found, the newest first.
#[derive(Debug, Default)]
pub(super) struct CollectedRemarks {
    pub said: Vec<Remark>,
    /// Pull requests in which something was said.
    pub pulls: usize,
    /// What could not be read.
    pub notes: Vec<String>,
}

/// Reads what was said since then.
///
/// # Errors
/// When the forge does not answer.
pub(super) async fn collect(
    run: &Run<'_>,
    repository: &Repository,
    workspace: &Workspace,
    since: DateTime<Utc>,
) -> Result<CollectedRemarks> {
    let forge = run.world.forge()?.as_ref();
    let read = async {
        let viewer = forge.viewer().await?;
        let mut collector = Collector {
            run,
            forge,
            repository,
            workspace,
            since,
            viewer,
            maintainers: HashMap::new(),
            unknown: HashSet::new(),
            collected: CollectedRemarks::default(),
        };
        let pulls = forge.pull_requests_since(&repository.id, since, MAX_PULLS).await?;
        if pulls.len() == MAX_PULLS {
            let note = format!("only the {MAX_PULLS} pull requests that changed last were read");
            collector.collected.notes.push(note);
        }
        for pull in &pulls {
            collector.pull(pull).await?;
        }
        collector.note_unknown();
        Ok(collector.collected)
    };
    let what = format!("cannot read what was said in `{}`", repository.id);
    let collected = run
        .unless_interrupted(async { read.await.map_err(|err| failures::of_forge(what, err)) })
        .await?;
    Ok(bounded(collected))
}

fn bounded(mut collected: CollectedRemarks) -> CollectedRemarks {
    let said = &mut collected.said;
    said.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.id.cmp(&b.id)));
    let (all, mut room) = (said.len(), MAX_BYTES);
    said.truncate(MAX_SAID);
    said.retain(|said| {
        let bytes = said.text.len() + said.about.len();
        let fits = bytes <= room;
        // What is older than something that has no room has none either.
        room = if fits { room - bytes } else { 0 };
        fits
    });
    if said.len() < all {
        let note = format!("{} older remarks were left out", all - said.len());
        collected.notes.push(note);
    }
    let mut numbers: Vec<u64> = said.iter().map(|said| said.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    collected.pulls = numbers.len();
    collected
}

struct Collector<'a> {
    run: &'a Run<'a>,
    forge: &'a dyn Forge,
    repository: &'a Repository,
    workspace: &'a Workspace,
    since: DateTime<Utc>,
    viewer: Option<Account>,
    /// Whether an account is one, by its login in lower case.
    maintainers: HashMap<String, bool>,
    /// Accounts beyond [`MAX_PEOPLE`], of which nobody knows.
    unknown: HashSet<String>,
    collected: CollectedRemarks,
}

/// A text on the forge.
struct ForgeText<'a> {
    id: String,
    author: &'a Account,
    body: &'a str,
    url: &'a str,
    at: DateTime<Utc>,
    place: String,
    about: String,
}

impl Collector<'_> {
    async fn pull(&mut self, pull: &PullRequest) -> Result<(), ForgeError> {
        let by_us = is_us(self.viewer.as_ref(), &pull.author);
        if !(by_us && report::is_described(&pull.body, "")) {
            return self.answers_to_findings(pull).await;
        }
        let number = pull.number;
        let ended = match (pull.open, pull.merged) {
            (false, false) => ", which was closed without being merged",
            (false, true) => ", which was merged",
            (true, _) => "",
        };
        let comments = self.forge.comments(&self.repository.id, number, MAX_COMMENTS).await?;
        let is_cut = comments.len() >= MAX_COMMENTS || comments.iter().any(|it| it.left_out);
        if is_cut && comments.first().is_some_and(|oldest| oldest.created_at >= self.since) {
            let read = comments.iter().filter(|it| !it.left_out).count();
            self.collected
                .notes
                .push(format!("of the comments on #{number} only the newest {read} were read"));
        }
        for comment in comments.iter().filter(|comment| !comment.ours && !comment.left_out) {
            self.take(
                number,
                ForgeText {
                    id: format!("c{}", comment.id),
                    author: &comment.author,
                    body: &comment.body,
                    url: &comment.html_url,
                    at: comment.created_at,
                    place: format!("in the conversation of #{number}{ended}"),
                    about: String::new(),
                },
            )
            .await;
        }
        for review in self.forge.reviews(&self.repository.id, number).await? {
            let Some(at) = review.submitted_at.filter(|_| !review.ours) else { continue };
            if review.state == ReviewState::Pending {
                continue;
            }
            self.take(
                number,
                ForgeText {
                    id: format!("r{}", review.id),
                    author: &review.author,
                    body: &review.body,
                    url: &review.html_url,
                    at,
                    place: format!("in a review of #{number} ({}){ended}", review.state.words()),
                    about: String::new(),
                },
            )
            .await;
        }
        for thread in self.forge.threads(&self.repository.id, number).await? {
            self.thread(number, &thread, &format!("on the change of #{number}{ended}")).await;
        }
        self.pushed(pull).await
    }

    /// Answers to findings of ours on somebody's pull request.
    async fn answers_to_findings(&mut self, pull: &PullRequest) -> Result<(), ForgeError> {
        for thread in self.forge.threads(&self.repository.id, pull.number).await? {
            let Some(root) = thread.comments.first() else { continue };
            let by_us = root.ours || is_us(self.viewer.as_ref(), &root.author);
            if by_us && inline::fingerprint(&root.body).is_some() {
                let resolved = if thread.resolved { ", which was resolved" } else { "" };
                let place = format!("in answer to a finding in #{}{resolved}", pull.number);
                self.thread(pull.number, &thread, &place).await;
            }
        }
        Ok(())
    }

    async fn thread(&mut self, number: u64, thread: &Thread, place: &str) {
        let Some(root) = thread.comments.first() else { return };
        let by_us = root.ours || is_us(self.viewer.as_ref(), &root.author);
        let finding = inline::fingerprint(&root.body).filter(|_| by_us).map(|_| &root.body);
        let mut about = shown(&root.diff_hunk, MAX_ABOUT);
        // What others than us began a thread with is not shown: it would be read as if it counted.
        if let Some(finding) = finding {
            let finding = hidden::clean(hidden::head(finding, 4 * MAX_ABOUT)).text;
            about = format!("{about}\n\n{}", text::head(finding.trim(), MAX_ABOUT));
        }
        let path = text::line(&thread.path);
        for comment in thread.comments.iter().filter(|comment| !comment.ours) {
            self.take(
                number,
                ForgeText {
                    id: format!("d{}", comment.id),
                    author: &comment.author,
                    body: &comment.body,
                    url: &comment.html_url,
                    at: comment.created_at,
                    place: format!("{place}, at `{path}`"),
                    about: about.trim().to_owned(),
                },
            )
            .await;
        }
    }

    async fn take(&mut self, number: u64, written: ForgeText<'_>) {
        let ForgeText { id, author, body, url, at, place, about } = written;
        // Texts with markers are ours, whatever account has written them.
        if at < self.since || report::is_marked(body, "") {
            return;
        }
        let text = words::own(body, MAX_TEXT);
        if text.is_empty() || !self.is_maintainer(author).await {
            return;
        }
        let (author, url) = (author.login.clone(), url.to_owned());
        let in_words = true;
        self.collected.said.push(Remark {
            id,
            number,
            url,
            author,
            place,
            at,
            about,
            text,
            in_words,
        });
    }

    async fn is_maintainer(&mut self, account: &Account) -> bool {
        if account.is_machine() {
            return false;
        }
        let login = account.login.to_lowercase();
        if let Some(known) = self.maintainers.get(&login) {
            return *known;
        }
        if self.maintainers.len() == MAX_PEOPLE {
            self.unknown.insert(login);
            return false;
        }
        let rules = AccessConfig::default();
        let checked = access::check(self.forge, &self.repository.id, account, &rules).await;
        let is_one = match checked {
            Ok(_) => true,
            Err(denied) => {
                let why = denied.why();
                self.run.environment.ui.detail(&format!("what they say does not count: {why}"));
                false
            }
        };
        self.maintainers.insert(login, is_one);
        is_one
    }

    fn note_unknown(&mut self) {
        let others = match self.unknown.len() {
            0 => return,
            1 => "another one".to_owned(),
            count => format!("{count} others"),
        };
        self.collected.notes.push(format!(
            "what {others} wrote was left out: whether somebody may write here is asked for {MAX_PEOPLE} people, in the \
             pull requests that changed last first; a later `--since` has fewer"
        ));
    }

    /// What maintainers changed on the branch after our commit.
    async fn pushed(&mut self, pull: &PullRequest) -> Result<(), ForgeError> {
        let commits = self.forge.pull_request_commits(&self.repository.id, pull.number).await?;
        let ours =
            |commit: &PullCommit| commit.message.lines().any(|line| line.starts_with(RUN_TRAILER));
        let Some(first) = commits.iter().position(ours) else { return Ok(()) };
        let mut theirs = Vec::new();
        for commit in commits.iter().skip(first).filter(|commit| !ours(commit)) {
            // A merge brings what others did elsewhere.
            let (Some(author), Some(at), 1) = (&commit.author, commit.committed_at, commit.parents)
            else {
                continue;
            };
            if at >= self.since && self.is_maintainer(author).await {
                theirs.push((commit, author, at));
            }
        }
        if theirs.is_empty() {
            return Ok(());
        }
        let fetched =
            self.workspace.fetch_head(self.run.world, self.repository, pull.number, &pull.head_sha);
        if let Err(failure) = fetched.await {
            self.collected.notes.push(failure.message);
            return Ok(());
        }
        for (commit, author, at) in theirs.into_iter().rev().take(MAX_COMMITS) {
            let text = match self.change_of(commit).await {
                Ok(text) if text.is_empty() => continue,
                Ok(text) => text,
                Err(err) => {
                    let short = commit.sha.get(..10).unwrap_or_default();
                    let note = format!("the change of commit {short} cannot be read: {err}");
                    self.collected.notes.push(note);
                    continue;
                }
            };
            let (number, sha) = (pull.number, &commit.sha);
            self.collected.said.push(Remark {
                id: format!("p{}", sha.get(..12).unwrap_or(sha)),
                number,
                url: format!("{}/commits/{sha}", pull.html_url),
                author: author.login.clone(),
                place: format!("a commit pushed onto the branch of #{number} after ours"),
                at,
                about: String::new(),
                text,
                in_words: false,
            });
        }
        Ok(())
    }

    /// Message and difference of a commit; empty when it changes nothing that can be shown.
    async fn change_of(&self, commit: &PullCommit) -> Result<String, GitError> {
        let id: Oid = commit.sha.parse().map_err(|_| GitError::NotFound(commit.sha.clone()))?;
        let repo = self.workspace.repo.clone();
        let patch = blocking(move || {
            let facts = commit::read(&repo, id)?;
            let parent = facts.parents.first().copied().ok_or(GitError::Empty)?;
            let spec = DiffSpec { paths: &[], max_bytes: 4 * MAX_CHANGE };
            diff::unified(&repo, diff::tree_of(&repo, parent)?, facts.tree, spec)
        });
        let patch = patch.await?;
        let shown = shown(&String::from_utf8_lossy(&patch.bytes), MAX_CHANGE);
        let subject = text::line(commit.message.lines().next().unwrap_or_default());
        Ok(if shown.is_empty() { shown } else { format!("{subject}\n\n{shown}") })
    }
}

/// Code, without what nobody sees.
fn shown(code: &str, most: usize) -> String {
    text::head(text::visible(hidden::head(code, 4 * most)).trim(), most)
}
