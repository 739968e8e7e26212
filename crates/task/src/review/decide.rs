//! How a review ended, decided from what was recorded: what was found and where it stands, what was
//! shown, how the agent stopped.

use super::admit::AdmittedReview;
use super::final_message::{self, ParsedMessage};
use super::locked::LockedFile;
use super::open::ReviewRange;
use super::scope::Scope;
use super::unheard::{self, UnheardFinding};
use crate::agent_phase::AgentResult;
use crate::decide;
use crate::run::Run;
use crate::workspace::Workspace;
use patchwright_agent::StopKind;
use patchwright_base::text;
use patchwright_config::review::Review;
use patchwright_report::model_words;
use patchwright_review::anchor::{Anchor, Anchored, Index};
use patchwright_review::distinct::{distinct, has_same_title};
use patchwright_review::finding::{Finding, MOST_FINDINGS, Priority, Verdict};
use patchwright_review::incremental::KnownFinding;
use patchwright_review::title::is_same_title;
use patchwright_sandbox::PreparedImage;
use patchwright_tools::review::ReviewContext;
use patchwright_types::attempts::Attempts;
use patchwright_types::evidence::Evidence;
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::plan::Plan;
use patchwright_types::publish_notes::PublishNotes;
use patchwright_types::reviewed::{Coverage, Reviewed, Skipped, SkippedBecause};

/// Files of the head that are read for their lines.
const MAX_FILE: usize = 4 << 20;

/// What the decision is made of.
pub struct ReviewFacts<'a> {
    pub run: &'a Run<'a>,
    pub admitted: &'a AdmittedReview,
    pub opened: &'a ReviewRange,
    /// The repository at the base branch, and at the head.
    pub base: &'a Workspace,
    pub head: &'a Workspace,
    pub image: &'a PreparedImage,
    pub scope: &'a Scope,
    /// The commit that was reviewed before, when only what came after it was read.
    pub since: Option<String>,
    pub review_context: &'a ReviewContext<'a>,
    /// The lock files among them.
    pub(super) locked: &'a [LockedFile],
    pub worked: &'a AgentResult,
    /// The model ended with words about what it had seen.
    pub is_concluded: bool,
    /// Reports of findings that were not taken, because they were too many calls of one reply.
    pub unheard: &'a [UnheardFinding],
    pub evidence: Evidence,
    pub index: &'a Index<'a>,
    /// What earlier reviews found.
    pub earlier: &'a [KnownFinding],
}

/// Places what was found and says how the review ended.
pub fn reviewed(ending: ReviewFacts<'_>) -> Reviewed {
    let coverage = coverage(&ending);
    let ReviewFacts { run, admitted, opened, base, image, scope, review_context, worked, .. } =
        ending;
    let ParsedMessage { summary, findings: said, trouble } = last_words(&ending);
    let rules = &run.config.review;
    let said = said.into_iter().map(|finding| without_second_look(rules, finding));
    let found: Vec<Finding> = worked.stopped.findings.iter().cloned().chain(said).collect();
    // Nobody has asked about them again either.
    let unrepeated = unrepeated(review_context.sent_back(), &found, review_context)
        .into_iter()
        .map(|finding| without_second_look(rules, finding))
        .collect();
    let unheard = unheard::still(ending.unheard, &found);
    let (withdrawn, found): (Vec<Finding>, Vec<Finding>) =
        found.into_iter().partition(|finding| finding.verdict == Verdict::Withdrawn);
    let (mut findings, mut below) = placed(rules, ending.index, found);
    let (unplaced, more_below) = placed(rules, ending.index, unrepeated);
    findings.extend(unplaced.into_iter().map(sent_back));
    below += more_below;
    let mut findings = distinct(findings, ending.earlier);
    sort(&mut findings);
    let dropped = drop_least(&mut findings);
    // What was found in a message that cannot be read or was not taken is lost, so its files do not count as read. Nor do
    // those of a model that was cut off in the middle of its work.
    let is_partly_done = trouble.is_none()
        && unheard == 0
        && match worked.stopped.reason {
            StopKind::Finished => true,
            StopKind::Budget(_) => ending.is_concluded,
            _ => false,
        };
    let (conclusion, reason) = if scope.is_nothing() {
        let why = Scope::why_nothing(admitted.pull.number, ending.since.as_deref());
        (Conclusion::NothingToDo, Some(why))
    } else {
        let lost = trouble.map(|trouble| unreadable(&trouble, &findings));
        conclude(run, worked, &coverage, lost.or_else(|| unheard::sentence(unheard)))
    };
    let provenance = decide::provenance(run, base, image, worked);
    Reviewed {
        run: run.folder.id.clone(),
        repository: admitted.repository.id.clone(),
        number: admitted.pull.number,
        head: opened.head.to_string(),
        base: opened.base.to_string(),
        since: ending.since,
        conclusion,
        reason,
        summary,
        findings,
        below,
        dropped,
        withdrawn: withdrawn.len(),
        coverage,
        is_partly_done,
        evidence: ending.evidence,
        spending: decide::spending(run, worked),
        notes: provenance.input_notes.clone(),
        provenance,
    }
}

/// A finding that was written into the final message: nobody was asked to look at it once more.
fn without_second_look(rules: &Review, finding: Finding) -> Finding {
    let verdict = if rules.second_look { Verdict::Unconfirmed } else { finding.verdict };
    Finding { verdict, ..finding }
}

/// The final message, with findings that were written into it.
fn last_words(ending: &ReviewFacts<'_>) -> ParsedMessage {
    let review_context = ending.review_context;
    let resolve = |path: &str| {
        let file = review_context.find(path).and_then(|at| review_context.diff.files.get(at));
        file.map_or_else(|| path.to_owned(), |file| file.path.clone())
    };
    let read = |path: &str| ending.head.file_now(path).filter(|content| content.len() <= MAX_FILE);
    let said = final_message::read(&ending.worked.stopped.final_message, &resolve, &read);
    // What could not be read is kept as it is.
    let is_read = said.trouble.is_none();
    let summary = if is_read { model_words::of_review(&said.summary) } else { said.summary };
    ParsedMessage { summary, ..said }
}

/// Findings at or above the thresholds with their places, and how many are below.
fn placed(rules: &Review, index: &Index<'_>, found: Vec<Finding>) -> (Vec<Anchored>, usize) {
    let is_wanted = |finding: &Finding| {
        finding.priority <= rules.minimum_priority && finding.confidence >= rules.minimum_confidence
    };
    let (wanted, below): (Vec<Finding>, Vec<Finding>) = found.into_iter().partition(is_wanted);
    let mut placed: Vec<Anchored> =
        wanted.into_iter().map(|finding| index.anchor(finding)).collect();
    if !rules.suggestions {
        for anchored in &mut placed {
            anchored.suggestion = None;
        }
    }
    (placed, below.len())
}

/// The most important first.
fn sort(findings: &mut [Anchored]) {
    findings.sort_by(|one, other| {
        let (a, b) = (&one.finding, &other.finding);
        a.rank()
            .cmp(&b.rank())
            .then(b.confidence.total_cmp(&a.confidence))
            .then_with(|| a.path.cmp(&b.path))
            .then_with(|| line(one).cmp(&line(other)))
    });
}

/// What the model was asked to report again and did not: the last version of each.
fn unrepeated(
    sent_back: Vec<Finding>,
    found: &[Finding],
    review_context: &ReviewContext<'_>,
) -> Vec<Finding> {
    // One kind of fault in several files often has one title. A file that is not on the difference may be the slip
    // that was corrected.
    let is_same_file = |one: &Finding, other: &Finding| {
        let file = review_context.find(&one.path);
        file.is_none() || file == review_context.find(&other.path)
    };
    let has_same_quote = |one: &Finding, other: &Finding| {
        !one.quote.trim().is_empty() && one.quote == other.quote && one.path == other.path
    };
    let is_repeated = |one: &Finding, other: &Finding| {
        (is_same_title(&one.title, &other.title) && is_same_file(one, other))
            || has_same_quote(one, other)
    };
    // Who tries again keeps the title as a rule, and nothing else shows that it is no other fault of a similar kind.
    let is_other_try = |one: &Finding, other: &Finding| {
        (has_same_title(one, other) && is_same_file(one, other)) || has_same_quote(one, other)
    };
    let mut left: Vec<Finding> = Vec::new();
    for one in sent_back.into_iter().rev() {
        let is_there = found.iter().any(|other| is_repeated(&one, other))
            || left.iter().any(|other| is_other_try(&one, other));
        if !is_there {
            left.push(one);
        }
    }
    left.reverse();
    left
}

/// Nobody has confirmed its place, so it has none.
fn sent_back(anchored: Anchored) -> Anchored {
    let more = "the model was asked for a quote that is on the difference, and gave none";
    let anchor = match anchored.anchor {
        Anchor::Lines { path, .. } => Anchor::File { path, why: more.to_owned() },
        Anchor::File { path, why } => Anchor::File { path, why: format!("{why}; {more}") },
        Anchor::Nowhere { why } => Anchor::Nowhere { why: format!("{why}; {more}") },
    };
    Anchored { anchor, suggestion: None, ..anchored }
}

/// Cuts off the least important ones; returns how many. What must not be merged is never among them.
fn drop_least(findings: &mut Vec<Anchored>) -> usize {
    let grave = findings.iter().filter(|one| one.finding.priority == Priority::P0).count();
    let dropped = findings.len().saturating_sub(MOST_FINDINGS.max(grave));
    findings.truncate(findings.len() - dropped);
    dropped
}

fn line(anchored: &Anchored) -> u32 {
    match &anchored.anchor {
        Anchor::Lines { line, .. } => *line,
        Anchor::File { .. } | Anchor::Nowhere { .. } => 0,
    }
}

fn coverage(ending: &ReviewFacts<'_>) -> Coverage {
    let ReviewFacts { opened, scope, review_context, locked, .. } = *ending;
    let lines = |added: u32, deleted: u32| u64::from(added) + u64::from(deleted);
    let files = &opened.diff.files;
    let mut coverage = Coverage {
        files: files.len(),
        lines: files.iter().map(|file| lines(file.added, file.deleted)).sum(),
        skipped: scope.skipped.clone(),
        ..Coverage::default()
    };
    for at in scope.order.iter().copied() {
        let Some(file) = files.get(at) else { continue };
        let (read, whole) = review_context.read(at);
        coverage.read_lines += read;
        if whole && !file.too_large {
            coverage.read_files += 1;
        } else {
            let told = locked.iter().find(|it| it.file == at && review_context.is_told(at));
            let why = match told.map(|told| told.is_by_package) {
                Some(true) => SkippedBecause::ByPackage,
                Some(false) => SkippedBecause::LockFile,
                None if file.too_large => SkippedBecause::TooLarge,
                None => SkippedBecause::NotRead,
            };
            let lines = lines(file.added, file.deleted).saturating_sub(read);
            coverage.skipped.push(Skipped { path: file.path.clone(), lines, why });
        }
    }
    coverage.skipped.sort_by(|one, other| (other.why, &one.path).cmp(&(one.why, &other.path)));
    coverage
}

/// Why some of what the final message found is lost.
fn unreadable(trouble: &str, findings: &[Anchored]) -> String {
    let kept = match findings.len() {
        0 => "the message is kept as the summary".to_owned(),
        1 => "1 finding could be".to_owned(),
        several => format!("{several} findings could be"),
    };
    format!("findings in the final message cannot be read ({trouble}); {kept}")
}

/// The agent's stop decides first, then whether findings are `lost`, then whether all was read.
fn conclude(
    run: &Run<'_>,
    worked: &AgentResult,
    coverage: &Coverage,
    lost: Option<String>,
) -> (Conclusion, Option<String>) {
    let stop = &worked.stopped.reason;
    if let Some(conclusion) = decide::of_stop(stop) {
        let why = decide::limit_reached(run, worked).unwrap_or_else(|| stop.sentence());
        return (conclusion, Some(lost.map_or(why.clone(), |lost| format!("{why}; {lost}"))));
    }
    if lost.is_some() {
        return (Conclusion::Partial, lost);
    }
    if coverage.is_complete() {
        return (Conclusion::Done, None);
    }
    (Conclusion::Partial, Some(unread(coverage)))
}

/// What should have been read and was not.
fn unread(coverage: &Coverage) -> String {
    let of = |why: SkippedBecause| {
        let files = coverage.skipped.iter().filter(move |it| it.why == why);
        files.fold((0, 0), |(count, sum), it| (count + 1, sum + it.lines))
    };
    let files = |count: u64, is: &str, are: &str| match count {
        1 => format!("1 changed file {is}"),
        _ => format!("{count} changed files {are}"),
    };
    let mut said = Vec::new();
    let (count, lines) = of(SkippedBecause::NotRead);
    if count > 0 {
        said.push(format!("{} not read completely ({lines} lines)", files(count, "was", "were")));
    }
    let (count, _) = of(SkippedBecause::TooLarge);
    if count > 0 {
        said.push(format!("{} too large to be shown", files(count, "is", "are")));
    }
    said.join(", and ")
}

/// The review as an outcome, for what all runs have: the journal's last line and the report.
pub fn outcome(reviewed: &Reviewed, plan: Plan) -> Outcome {
    let findings = reviewed.findings.iter().map(|anchored| {
        let finding = &anchored.finding;
        let place = match &anchored.anchor {
            Anchor::Lines { line, .. } => format!("{}:{line}", finding.path),
            Anchor::File { .. } | Anchor::Nowhere { .. } => finding.path.clone(),
        };
        format!("\n- {} {}: {}", finding.priority, text::code(&place), text::inline(&finding.title))
    });
    let findings = findings.collect::<String>();
    let words = if findings.is_empty() {
        reviewed.summary.clone()
    } else {
        format!("{}\n\nFindings:\n{findings}", reviewed.summary)
    };
    Outcome {
        run: reviewed.run.clone(),
        conclusion: reviewed.conclusion,
        reason: reviewed.reason.clone(),
        final_message: words,
        output: None,
        plan,
        change: None,
        evidence: reviewed.evidence.clone(),
        judgement: patchwright_policy::Judgement::default(),
        spending: reviewed.spending.clone(),
        provenance: reviewed.provenance.clone(),
        attempts: Attempts::default(),
        publish_notes: PublishNotes::default(),
    }
}
