//! When we may not write to a pull request (a fork's token), what was found becomes annotations of the
//! workflow run and a file, and a second workflow that may write posts it.
//!
//! The first workflow runs with what the pull request brought, so the second takes the file for what
//! an attacker wrote: which pull request it is about is said by the event (the branch that the first
//! workflow ran for, and its commit), and a file that names another is refused, as is one about a
//! commit that is not the head. Its sizes are bounded, its texts are made harmless like a model's, and it
//! can neither approve nor let the check succeed nor spare later reviews any reading.

use std::io::Read;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::claim::{self, ClaimRules, Links};
use super::earlier::EarlierReviews;
use super::outbox::Outbox;
use super::publish::{Origin, Publishable, Work, publish_at};
use crate::event::HeadBranch;
use patchwright_base::error::{Failure, Result};
use patchwright_base::redact::Redactor;
use patchwright_base::ui::Ui;
use patchwright_config::Config;
use patchwright_forge::{Forge, PullRequest, RepositoryId, Side};
use patchwright_git::stop::Stop;
use patchwright_provider::item::Usage;
use patchwright_report::annotations::{self, Level, Lines};
use patchwright_report::review::{check, state};
use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::finding::Priority;
use patchwright_review::suggestion;
use patchwright_types::evidence::Evidence;
use patchwright_types::outcome::Spending;
use patchwright_types::published::PublishedReview;
use patchwright_types::reviewed::Reviewed;

/// Name of the file in the run's folder.
pub const FILE: &str = "review.json";
/// Bytes of the file, and what is taken of it.
const MAX_FILE: u64 = 8 << 20;
const MAX_FINDINGS: usize = 500;
const MAX_TEXT: usize = 20_000;
/// Beyond these no run of ours comes.
const MOST_LINES: u64 = 100_000_000;
const MOST_FILES: usize = 1_000_000;
const MOST_DOLLARS: f64 = 10_000.0;
const MOST_SECONDS: f64 = 7.0 * 24.0 * 3600.0;
const MOST_TURNS: u32 = 100_000;
const MOST_TOKENS: u64 = 100_000_000_000;
/// Stands below the checks of a review that was handed over.
const NOT_RUN_HERE: &str = "As the workflow run of the pull request reported them; they were not run again where this was posted";
/// Annotations of one level that GitHub shows for a step.
const ANNOTATIONS: usize = 10;

/// The content of `review.json`.
#[derive(Debug, Serialize, Deserialize)]
pub struct HandOver {
    /// Version of this format.
    pub version: u32,
    pub reviewed: Reviewed,
}

impl HandOver {
    pub fn new(reviewed: &Reviewed) -> HandOver {
        HandOver { version: 1, reviewed: reviewed.clone() }
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// Says what was found where people without a review see it: as annotations of the workflow run.
pub(super) fn annotate(work: &Work<'_>, why: &str) {
    let ui = work.outbox.ui;
    ui.warn(&format!("the review could not be posted: {why}"));
    if let Some(folder) = work.outbox.folder {
        ui.say(&format!(
            "it is in `{}`; a workflow that may write posts it with `patchwright review --post-from`",
            folder.path.join(FILE).display()
        ));
    }
    // Whoever did not mean to hand it over waits for a review that never comes.
    let message = "the review is not on the pull request, because the token may not write there; give the job \
                   `pull-requests: write` and `checks: write`, or have a workflow that may write post it (`post-from`)";
    ui.workflow_command(&annotations::annotation(Level::Warning, "Patchwright", message));
    let (mut errors, mut warnings) = (0, 0);
    for anchored in &work.reviewed.findings {
        let finding = &anchored.finding;
        let (level, count) = if finding.priority <= Priority::P1 {
            (Level::Error, &mut errors)
        } else {
            (Level::Warning, &mut warnings)
        };
        *count += 1;
        if *count > ANNOTATIONS {
            continue;
        }
        let title = format!("{} {}: {}", finding.priority, finding.category.word(), finding.title);
        let command = if let Some((path, first, last)) = check::lines(anchored) {
            annotations::on_lines(level, Lines { path, first, last }, &title, &finding.body)
        } else {
            let message = format!("{}: {}", finding.path, finding.body);
            annotations::annotation(level, &title, &message)
        };
        ui.workflow_command(&command);
    }
    let left = errors.saturating_sub(ANNOTATIONS) + warnings.saturating_sub(ANNOTATIONS);
    if left > 0 {
        let message = format!("{left} more findings are in the job summary and in `{FILE}`");
        ui.workflow_command(&annotations::annotation(Level::Notice, "Patchwright", &message));
    }
}

/// Where a handed-over review may be posted: what the privileged workflow knows from its own event.
#[derive(Clone, Debug)]
pub struct Expected {
    pub repository: RepositoryId,
    /// The pull request, when the event or the command names it.
    pub number: Option<u64>,
    /// The head commit of the workflow run that handed it over.
    pub head: Option<String>,
    /// The branch that this workflow run was for, where the event tells that instead of a number.
    pub source: Option<HeadBranch>,
}

impl Expected {
    /// The pull request that the event is about, as it is now.
    async fn pull(&self, forge: &dyn Forge, reviewed: &Reviewed) -> Result<PullRequest> {
        let (repository, head) = (&self.repository, &reviewed.head);
        if let Some(source) = &self.source {
            let pulls = forge.pull_requests_at(repository, head).await.map_err(Failure::from)?;
            let of_event: Vec<_> = pulls.iter().filter(|pull| source.has(pull, head)).collect();
            if of_event.is_empty() {
                return Err(Failure::nothing_to_do(format!(
                    "no open pull request from `{}` of `{}` has the head `{head}`",
                    source.branch, source.repository
                ))
                .hint("the review of its newest commit is posted when that has ended"));
            }
            if !of_event.iter().any(|pull| pull.number == reviewed.number) {
                return Err(Failure::refused(format!(
                    "the review is about pull request #{}, and the workflow run was for another one",
                    reviewed.number
                )));
            }
        }
        let pull = forge.pull_request(repository, reviewed.number).await.map_err(Failure::from)?;
        if !pull.head_sha.eq_ignore_ascii_case(head) {
            return Err(Failure::nothing_to_do(format!(
                "pull request #{} has moved on from `{head}`",
                reviewed.number
            ))
            .hint("the review of its newest commit is posted when that has ended"));
        }
        Ok(pull)
    }
}

/// What posting it needs.
#[derive(Clone, Copy)]
pub struct Poster<'a> {
    pub forge: &'a dyn Forge,
    pub config: &'a Config,
    pub redactor: &'a Redactor,
    pub ui: Ui,
    pub now: DateTime<Utc>,
}

/// Posts the review that is in a folder.
///
/// # Errors
/// When there is none, when it is not what it should be, or when the forge does not answer.
pub async fn post_from(
    poster: Poster<'_>,
    folder: &Path,
    expected: &Expected,
) -> Result<(Reviewed, PublishedReview)> {
    let reviewed = read(folder, expected)?;
    let Poster { forge, config, redactor, ui, now } = poster;
    let viewer = forge.viewer().await.map_err(Failure::from)?;
    let pull = expected.pull(forge, &reviewed).await?;
    if config.dry_run {
        ui.say("the review could be posted; nothing was, because this is a dry run");
        return Ok((reviewed, PublishedReview::default()));
    }
    let outbox = Outbox {
        forge,
        config,
        redactor,
        ui,
        repository: &expected.repository,
        number: reviewed.number,
        viewer: viewer.as_ref(),
        folder: None,
    };
    let earlier = EarlierReviews::read(&outbox, &pull.author, &Stop::never()).await?;
    // A run that reviews this commit itself says more than what was handed over.
    let claim = claim::to_post(&reviewed.head, now);
    let rules = ClaimRules { now, newest: &pull.head_sha, is_dead: &|_| false, is_alone: false };
    let held = claim::take(&outbox, claim, earlier.sticky.as_ref(), &rules).await?;
    let found = Publishable {
        reviewed: &reviewed,
        placed_at: None,
        doubt: None,
        seen: None,
        origin: Origin::HandedOver,
        claim: held.as_ref(),
    };
    let published = publish_at(outbox, &earlier, &pull, &found).await;
    if let Some(held) = &held {
        // What was closed meanwhile got no review that could link to it.
        let links = if published.is_err() { Links::Perhaps } else { Links::Nothing };
        held.release(&outbox, links).await;
    }
    Ok((reviewed, published?))
}

/// Reads the file as what somebody hostile wrote.
///
/// # Errors
/// When there is none, or when it may not be posted here.
pub fn read(folder: &Path, expected: &Expected) -> Result<Reviewed> {
    let path = folder.join(FILE);
    let refused = |why: &str| {
        Failure::refused(format!("`{}` is not posted: {why}", path.display()))
            .hint("it has to come unchanged from a run of Patchwright on this pull request")
    };
    let missing = |err: std::io::Error| {
        Failure::usage(format!("there is no review in `{}`", folder.display()))
            .caused_by(err)
            .hint(format!("the folder of a run that handed its review over has a `{FILE}`"))
    };
    let kind = fs_err::symlink_metadata(&path).map_err(missing)?;
    if !kind.is_file() || kind.len() > MAX_FILE {
        return Err(refused("it is too large or no file"));
    }
    let mut text = String::new();
    let file = fs_err::File::open(&path).map_err(missing)?;
    if file.take(MAX_FILE).read_to_string(&mut text).is_err() {
        return Err(refused("it is not text"));
    }
    let handed: HandOver =
        serde_json::from_str(&text).map_err(|err| refused("it cannot be read").caused_by(err))?;
    let HandOver { version: 1, mut reviewed } = handed else {
        return Err(refused("it is of another version"));
    };
    if !reviewed.repository.to_string().eq_ignore_ascii_case(&expected.repository.to_string()) {
        return Err(refused("it is about another repository"));
    }
    if expected.number.is_some_and(|number| number != reviewed.number) || reviewed.number == 0 {
        return Err(refused("it is about another pull request"));
    }
    let is_commit = |sha: &str| state::is_hex(sha, 40) || state::is_hex(sha, 64);
    let all = [Some(&reviewed.head), Some(&reviewed.base), reviewed.since.as_ref()];
    if !all.into_iter().flatten().all(|sha| is_commit(sha)) {
        return Err(refused("it names something that is no commit"));
    }
    if expected.head.as_ref().is_some_and(|head| !head.eq_ignore_ascii_case(&reviewed.head)) {
        return Err(refused("it is about another commit than the run that handed it over"));
    }
    bound(&mut reviewed);
    Ok(reviewed)
}

/// Cuts everything to sizes that our own runs stay below.
fn bound(reviewed: &mut Reviewed) {
    reviewed.repository.owner = plain(&reviewed.repository.owner);
    reviewed.repository.name = plain(&reviewed.repository.name);
    reviewed.run = plain(&reviewed.run);
    cut(&mut reviewed.summary, MAX_TEXT);
    if let Some(reason) = &mut reviewed.reason {
        cut(reason, 1000);
    }
    reviewed.notes.truncate(40);
    reviewed.notes.iter_mut().for_each(|note| cut(note, 500));
    bound_coverage(reviewed);
    bound_spending(&mut reviewed.spending);
    bound_evidence(&mut reviewed.evidence);
    reviewed.findings.truncate(MAX_FINDINGS);
    reviewed.findings.iter_mut().for_each(bound_finding);
    reviewed.findings.sort_by_key(|found| found.finding.priority);
    let mut seen = std::collections::HashSet::new();
    reviewed.findings.retain(|found| seen.insert(found.fingerprint.clone()));
    // The page is a link in what we write, so it is not theirs to choose.
    reviewed.provenance.run_url = None;
}

/// The checks that it says were run. Where, and whether by us, nobody can know here.
fn bound_evidence(evidence: &mut Evidence) {
    evidence.rows.truncate(60);
    evidence.notes.truncate(5);
    evidence.source = String::new();
    evidence.rows.iter_mut().for_each(|row| row.found = None);
    if !evidence.rows.is_empty() {
        evidence.notes.insert(0, NOT_RUN_HERE.to_owned());
    }
}

fn bound_coverage(reviewed: &mut Reviewed) {
    let coverage = &mut reviewed.coverage;
    coverage.skipped.truncate(5000);
    coverage.skipped.iter_mut().for_each(|it| {
        cut(&mut it.path, 1000);
        it.lines = it.lines.min(MOST_LINES);
    });
    coverage.lines = coverage.lines.min(MOST_LINES);
    coverage.read_lines = coverage.read_lines.min(coverage.lines);
    coverage.files = coverage.files.min(MOST_FILES);
    coverage.read_files = coverage.read_files.min(coverage.files);
    for count in [&mut reviewed.below, &mut reviewed.dropped, &mut reviewed.withdrawn] {
        *count = (*count).min(MOST_FILES);
    }
}

fn bound_spending(spending: &mut Spending) {
    let amount = |amount: &mut f64, most: f64| *amount = amount.clamp(0.0, most);
    let usage = |usage: &mut Usage| {
        let Usage { input, cached_input, cache_write, output, reasoning, estimated: _ } = usage;
        for tokens in [input, cached_input, cache_write, output, reasoning] {
            *tokens = (*tokens).min(MOST_TOKENS);
        }
    };
    amount(&mut spending.cost_usd, MOST_DOLLARS);
    amount(&mut spending.wall_seconds, MOST_SECONDS);
    spending.turns = spending.turns.min(MOST_TURNS);
    usage(&mut spending.usage);
    spending.models.truncate(20);
    for model in &mut spending.models {
        cut(&mut model.model, 200);
        amount(&mut model.cost_usd, MOST_DOLLARS);
        model.turns = model.turns.min(MOST_TURNS);
        usage(&mut model.usage);
    }
    // No report of a review has them.
    spending.tools.clear();
}

fn bound_finding(anchored: &mut Anchored) {
    let finding = &mut anchored.finding;
    cut(&mut finding.path, 1000);
    cut(&mut finding.title, 300);
    cut(&mut finding.body, MAX_TEXT);
    cut(&mut finding.quote, MAX_TEXT);
    finding.confidence = if finding.confidence.is_finite() { finding.confidence } else { 0.0 };
    let is_allowed = match &anchored.anchor {
        Anchor::Lines { path, side, .. } => *side == Side::Right && suggestion::is_allowed(path),
        Anchor::File { .. } | Anchor::Nowhere { .. } => false,
    };
    if !is_allowed || anchored.suggestion.as_ref().is_some_and(|text| text.len() > MAX_TEXT) {
        anchored.suggestion = None;
    }
    if !state::is_hex(&anchored.fingerprint, 16) {
        anchored.fingerprint = patchwright_review::fingerprint::of(finding);
    }
    if anchored.sketch.len() > 48 || !anchored.sketch.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        anchored.sketch = String::new();
    }
    let is_wrong = match &anchored.anchor {
        Anchor::Lines { path, line, start_line, .. } => {
            let start_is_wrong = start_line.is_some_and(|start| start == 0 || start >= *line);
            path.len() > 1000 || *line == 0 || start_is_wrong
        }
        Anchor::File { .. } | Anchor::Nowhere { .. } => false,
    };
    if is_wrong {
        anchored.anchor = Anchor::Nowhere { why: "its lines make no sense".to_owned() };
    }
    if let Anchor::File { why, .. } | Anchor::Nowhere { why } = &mut anchored.anchor {
        cut(why, 500);
    }
}

fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let mut end = most;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
}

fn plain(name: &str) -> String {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().filter(allowed).take(100).collect()
}
