//! A stored change, treated as a stranger's: it may come from another job or from a cache. What is
//! published of it is its tree, when policy lets that through; branch, author, words, labels and draft
//! state are ours, made here from the campaign, the configuration and the tree itself.

use std::sync::Arc;

use super::{PublishError, PublishResult};
use crate::batch::campaign::{Campaign, Repeat};
use patchwright_base::error::Failure;
use patchwright_base::redact::Redactor;
use patchwright_base::text;
use patchwright_config::{Config, file, merge};
use patchwright_forge::Repository;
use patchwright_git::clone::Repo;
use patchwright_git::commit::{self, CommitSpec};
use patchwright_git::tree::{self, Change};
use patchwright_git::{GitError, Oid};
use patchwright_policy::{self as policy, Judgement, owners};
use patchwright_report::{self as report, MAX_BODY, commit_message, markdown, pr_body, template};
use patchwright_task::campaign::ChangeReport;
use patchwright_task::settle::BlobsOf;
use patchwright_task::workspace::RUN_TRAILER;
use patchwright_task::{authorship, decorate, title};
use patchwright_types::campaign::{Changeset, ErrorClass};
use patchwright_types::evidence::Verdict;
use patchwright_types::outcome::Conclusion;

/// Bytes of the campaign's own words in a description, and of somebody's words that are no record.
const WORDS: usize = 10_000;

/// Characters of what the operator is told of the checks.
const CAUTION: usize = 300;

/// How the sentence about a base branch that has moved begins.
const MOVED: &str = "This change was ";

/// The description of a pull request of ours says below the campaign's words, which may be a warning of their own, why
/// it is a draft.
pub(super) fn has_warning(body: &str, above: &str) -> bool {
    let Some(below) = body.strip_prefix(above) else { return false };
    let below = below.trim_start();
    let below = match below.split_once("\n\n") {
        Some((moved, below)) if moved.starts_with(MOVED) => below,
        _ => below,
    };
    pr_body::has_warning(below)
}

/// What the judgement needs.
pub(super) struct StoredChange {
    pub campaign: Campaign,
    /// With the campaign laid over it; the repository's own file comes here.
    pub config: Config,
    pub changeset: Changeset,
    pub repository: Repository,
    pub base_branch: String,
    /// A commit of the base branch.
    pub base: Oid,
    /// Where the base branch is, when that is somewhere else.
    pub moved: Option<MovedBase>,
    /// The commit that was stored.
    pub commit: Oid,
    pub redactor: Arc<Redactor>,
}

/// A base branch that has moved since the change was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MovedBase {
    pub tip: Oid,
    pub conflicts: bool,
}

/// What may be published.
pub(super) struct VettedChange {
    pub commit: Oid,
    pub tree: Oid,
    pub title: String,
    pub body: String,
    /// The campaign's own words, with which the body begins.
    pub above: String,
    pub marker: String,
    pub draft: bool,
    pub labels: Vec<String>,
    pub reviewers: Vec<String>,
    /// Owners of the changed files, by the base; empty when none is to be asked.
    pub owners: Vec<String>,
    /// Why a person has to merge it.
    pub by_people: Option<&'static str>,
    /// What the operator should know of its checks without opening it.
    pub caution: Option<String>,
    /// Our committer, by which our commits are known.
    pub email: String,
    /// With the repository's own file laid over it.
    pub config: Config,
}

impl VettedChange {
    /// Why a person has to merge it, a draft included.
    pub(super) fn manual_merge_reason(&self) -> Option<&'static str> {
        if self.draft { Some("it is a draft") } else { self.by_people }
    }
}

fn refused(class: ErrorClass, message: impl Into<String>) -> PublishError {
    PublishError::Final { class, message: message.into() }
}

/// The run's own record of its outcome. A text that is no record is somebody's description; a damaged
/// record is refused, because it says whether the checks passed.
fn parse_record(body: &str) -> PublishResult<Option<ChangeReport>> {
    match serde_json::from_str(body) {
        Ok(told) => Ok(Some(told)),
        Err(err) if body.trim_start().starts_with('{') => {
            let message = format!("what the run said about its change cannot be read: {err}");
            Err(refused(ErrorClass::Policy, message))
        }
        Err(_) => Ok(None),
    }
}

impl StoredChange {
    /// Judges the change and says what is published of it. Reads and writes `repo` only.
    pub(super) fn vet(mut self, repo: &Repo) -> PublishResult<VettedChange> {
        self.tighten(repo)?;
        let facts = commit::read(repo, self.commit)?;
        if facts.parents != [self.base] {
            let message = "the stored commit is not on the commit that it was made for";
            return Err(refused(ErrorClass::Policy, message));
        }
        let change = tree::between(repo, self.base, facts.tree)?;
        let title = self.title().map_err(|err| configuration(&err))?;
        if let Some(violation) = title::violation(&self.config, &title) {
            return Err(refused(ErrorClass::Policy, violation.message));
        }
        let (run, message) = words_of(&facts.message);
        let message = subject_as_wanted(&self.config, message);
        let run = run.unwrap_or_else(|| format!("target-{}", self.changeset.target));
        let told = parse_record(&self.changeset.body)?;
        let judgement = self.judge(repo, &change, &message, told.as_ref())?;
        let spec = CommitSpec {
            message: self.redactor.redact(&message),
            trailers: std::iter::once(format!("{RUN_TRAILER}{run}"))
                .chain(authorship::trailers(&self.config, None))
                .collect(),
            time: commit::time_of(repo, self.commit)?,
            ..self.signed()
        };
        // A new commit with our author and message: those of the stored one are not trusted.
        let commit = commit::create(repo, self.base, facts.tree, &spec)?;
        let draft = self.wants_draft(told.as_ref(), &judgement);
        let marker = report::marker("pull-request", &run);
        let owners = self.owners(repo, &change);
        let conflicts = self.moved.is_some_and(|moved| moved.conflicts);
        let by_people = by_people(told.as_ref(), &judgement)
            .or(conflicts.then_some("its base branch has moved, and conflicts with it"));
        let caution = caution(told.as_ref(), &judgement);
        let above = self.above().map_err(|err| configuration(&err))?;
        let body = self.body(repo, told, change, (judgement, &above), &marker);
        Ok(VettedChange {
            commit,
            tree: facts.tree,
            title: self.redactor.redact(&title),
            body: self.redactor.redact(&body),
            above: self.redactor.redact(above.trim_end()),
            marker,
            draft,
            labels: self.config.publish.labels.clone(),
            reviewers: self.config.publish.reviewers.clone(),
            owners,
            by_people,
            caution: caution.map(|words| self.redactor.redact(&words)),
            email: self.config.identity.committer_email().to_owned(),
            config: self.config,
        })
    }

    /// The repository's own file, from the base: it may forbid more than we do.
    fn tighten(&mut self, repo: &Repo) -> PublishResult<()> {
        let Some(text) = tree::file_at(repo, self.base, file::REPOSITORY_FILE)? else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(&text);
        let wishes =
            file::parse(file::REPOSITORY_FILE, &text).map_err(|err| configuration(&err))?;
        merge::tighten(&mut self.config, wishes);
        Ok(())
    }

    /// Fails with the first reason against publishing. Nothing is held back here: a
    /// run has taken out of the tree what may not be published.
    fn judge(
        &self,
        repo: &Repo,
        change: &Change,
        message: &str,
        told: Option<&ChangeReport>,
    ) -> PublishResult<Judgement> {
        if change.files.is_empty() {
            return Err(refused(ErrorClass::Policy, "the stored commit changes nothing"));
        }
        if let Some((path, why)) = change.refused.first() {
            return Err(refused(ErrorClass::Policy, format!("`{path}`: {why}")));
        }
        let words = told.map_or(&self.changeset.body, |told| &told.outcome.final_message);
        let outbound = [
            ("commit message", message),
            ("title", self.changeset.title.as_str()),
            ("description", words.as_str()),
        ];
        let (policy, blobs) = (&self.config.policy, BlobsOf(repo));
        let judgement = policy::check(policy, change, &blobs, &self.redactor, &outbound);
        if let Some(violation) = judgement.violations.first() {
            let place = violation.path.as_deref().map(|path| format!("`{path}`: "));
            let place = place.unwrap_or_default();
            let message = format!(
                "policy refuses the change: {place}{} ({})",
                violation.message, violation.rule
            );
            return Err(refused(ErrorClass::Policy, message));
        }
        if let Some(held) = judgement.held_back.first() {
            let message = format!(
                "policy refuses the change: `{}` is not published ({})",
                held.file.path, held.rule
            );
            return Err(refused(ErrorClass::Policy, message));
        }
        Ok(judgement)
    }

    /// Author and committer from our configuration; the message comes later.
    fn signed(&self) -> CommitSpec {
        CommitSpec {
            author: authorship::author(&self.config),
            committer: authorship::committer(&self.config),
            message: String::new(),
            trailers: Vec::new(),
            time: chrono::DateTime::UNIX_EPOCH,
        }
    }

    /// What was stored can only make it a draft, never the contrary.
    fn wants_draft(&self, told: Option<&ChangeReport>, judgement: &Judgement) -> bool {
        let said = told.is_some_and(|told| {
            told.outcome.evidence.is_red()
                || told.outcome.judgement.wants_draft()
                || told.outcome.conclusion == Conclusion::Partial
        });
        self.changeset.draft || self.config.publish.draft || judgement.wants_draft() || said
    }

    /// The owners of the changed files, by the file that the base has. One that is too large to be read has none, for
    /// GitHub neither.
    fn owners(&self, repo: &Repo, change: &Change) -> Vec<String> {
        if self.config.publish.code_owners == 0 {
            return Vec::new();
        }
        let mut there = owners::PLACES.iter().filter_map(|path| {
            tree::file_within(repo, self.base, path, owners::LARGEST).transpose()
        });
        let Some(Ok(text)) = there.next() else { return Vec::new() };
        decorate::owners_of(&text, change.files.iter().map(|file| file.path.as_str()))
    }

    fn title(&self) -> Result<String, Failure> {
        let (id, base) = (self.repository.id.to_string(), &self.base_branch);
        let title = self.campaign.title_for(&id, base)?;
        Ok(title::fitting(&self.config, title.as_deref().unwrap_or(&self.changeset.title)))
    }

    /// What the run has to say, below the campaign's own words; files and flags are those of the tree.
    fn body(
        &self,
        repo: &Repo,
        told: Option<ChangeReport>,
        change: Change,
        (judgement, above): (Judgement, &str),
        marker: &str,
    ) -> String {
        let mut above = above.to_owned();
        let moved = self.moved.map(|moved| self.said_of_base(moved, told.as_ref()));
        let below = if let Some(told) = told {
            self.description(repo, told, change, judgement, marker)
        } else {
            let words = markdown::passage(&self.changeset.body, WORDS);
            format!("{}\n\n{marker}\n", words.trim_end())
        };
        if let Some(moved) = &moved {
            above = format!("{}\n\n{moved}", above.trim_end());
        }
        let body = format!("{}\n\n{below}", above.trim_end());
        if body.len() <= MAX_BODY {
            return body;
        }
        let body = moved.map_or_else(String::new, |moved| format!("{moved}\n\n")) + &below;
        if body.len() <= MAX_BODY { body } else { below }
    }

    /// The campaign's own words.
    fn above(&self) -> Result<String, Failure> {
        let (id, base) = (self.repository.id.to_string(), &self.base_branch);
        Ok(match self.campaign.body_for(&id, base)? {
            Some(body) => markdown::passage(&body, WORDS),
            None => format!("Part of the campaign `{}`.", self.campaign.name),
        })
    }

    /// Which commit the change stands on, where another one is the newest by now: what its checks say is about that.
    fn said_of_base(&self, moved: MovedBase, told: Option<&ChangeReport>) -> String {
        let is_checked = told.is_some_and(|told| told.outcome.evidence.verdict() != Verdict::None);
        let made = if is_checked { "made and checked" } else { "made" };
        let (branch, base, tip) =
            (text::code(&self.base_branch), self.base.short(), moved.tip.short());
        let and = if moved.conflicts {
            let again = match self.campaign.repeats() {
                Repeat::Never => "whoever runs the campaign can have it made anew there",
                Repeat::WhenMoved | Repeat::EveryMove => {
                    "the campaign makes it anew there when it is run again"
                }
            };
            format!(", which conflicts with it: {again}")
        } else {
            "; what comes of both together was not checked".to_owned()
        };
        format!("{MOVED}{made} on {branch} at {base}, and {branch} is at {tip} by now{and}.")
    }

    fn description(
        &self,
        repo: &Repo,
        told: ChangeReport,
        change: Change,
        judgement: Judgement,
        marker: &str,
    ) -> String {
        let ChangeReport { mut outcome, held_back_patch } = told;
        outcome.judgement = Judgement {
            violations: Vec::new(),
            held_back: std::mem::take(&mut outcome.judgement.held_back),
            flags: judgement.flags,
        };
        outcome.change = Some(change);
        // A link to another host in our own words would be a stranger's link.
        let ours = |url: &String| origin(url) == origin(&self.repository.html_url);
        outcome.provenance.run_url = outcome.provenance.run_url.filter(ours);
        let template = template_of(repo, self.base);
        pr_body::body(&pr_body::PullRequest {
            outcome: &outcome,
            issue: None,
            title: &self.changeset.title,
            template: template.as_deref(),
            held_back_patch: held_back_patch.as_deref(),
            marker,
        })
    }
}

/// Why nobody but a person may merge it: by what the run says of its checks, and by what is seen in the change here.
fn by_people(told: Option<&ChangeReport>, judgement: &Judgement) -> Option<&'static str> {
    let Some(told) = told else { return Some("nothing says how its checks went") };
    if judgement.flags.is_empty() {
        decorate::not_by_itself(false, &told.outcome)
    } else {
        Some("there is something in it that somebody should look at")
    }
}

/// Why it is a draft, or that nothing has checked it. What failed for the machine of the run, such as setup, is so in
/// every repository of its kind, and stands in no other place that the operator of many of them reads.
fn caution(told: Option<&ChangeReport>, judgement: &Judgement) -> Option<String> {
    let outcome = &told?.outcome;
    let cut = |words: &str| text::cut(&text::line(words), CAUTION);
    if let Some(flag) = judgement.flags.first().filter(|_| judgement.wants_draft()) {
        let place = flag.path.as_deref().map(|path| format!("`{path}`: ")).unwrap_or_default();
        return Some(cut(&format!("{place}{} ({})", flag.message, flag.rule)));
    }
    if outcome.conclusion == Conclusion::Partial {
        return outcome.reason.as_deref().map(cut);
    }
    if outcome.evidence.verdict() != Verdict::None {
        return None;
    }
    let what = if outcome.evidence.rows.is_empty() {
        "unchecked: there is no check"
    } else {
        "unchecked: no check could be run"
    };
    let why = outcome.provenance.setup.why_failed();
    Some(cut(&why.map_or(what.to_owned(), |why| format!("{what} (setup failed: {why})"))))
}

fn configuration(failure: &Failure) -> PublishError {
    refused(ErrorClass::Configuration, failure.to_string())
}

/// Scheme, host and port.
fn origin(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let host = rest.split('/').next().unwrap_or_default();
    url.get(..url.len() - rest.len() + host.len())
}

/// The run that a commit of ours names, and its words, made as ours are.
fn words_of(message: &str) -> (Option<String>, String) {
    let is_plain = |run: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !run.is_empty() && run.len() <= 80 && run.chars().all(plain)
    };
    let mut run = None;
    let mut words = Vec::new();
    for line in message.lines() {
        match line.strip_prefix(RUN_TRAILER) {
            // Ours is the last.
            Some(named) => run = Some(named.trim()).filter(is_plain).or(run),
            None => words.push(line),
        }
    }
    let words = words.join("\n");
    let (title, body) = words.split_once('\n').unwrap_or((&words, ""));
    (run.map(str::to_owned), commit_message::commit_message(title, body, &[]))
}

/// The message with a subject that is as subjects must be.
fn subject_as_wanted(config: &Config, message: String) -> String {
    match message.split_once('\n') {
        Some((subject, rest)) => format!("{}\n{rest}", title::fitting(config, subject)),
        None => message,
    }
}

/// The repository's own pull request template, from the base commit.
fn template_of(repo: &Repo, base: Oid) -> Option<String> {
    let paths = tree::paths_at(repo, base, usize::MAX).ok()?;
    let path = template::find(paths.iter().map(String::as_str))?;
    let text: Result<_, GitError> = tree::file_at(repo, base, path);
    Some(String::from_utf8_lossy(&text.ok()??).into_owned())
}
