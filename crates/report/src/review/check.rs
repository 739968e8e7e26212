//! The verdict: the check run on the reviewed commit.

use std::fmt::Write as _;

use super::kept_words::KeptWords;
use super::{
    SAYS_NEEDS_WORK, beyond, counts, details, is_anything, is_left_out, is_whole,
    is_without_reason, not_read, open, plural, read, shortfall, skipped, state, sticky,
};
use crate::sections;
use patchwright_base::text;
use patchwright_forge::{CheckAnnotation, CheckConclusion, CheckDraft, RunningCheck, Side};
use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::finding::Priority;
use patchwright_review::incremental::KnownFinding;
use patchwright_types::evidence::{CheckRun, EvidenceRow, newly_failing};
use patchwright_types::reviewed::{Coverage, Reviewed, Skipped, SkippedBecause};

/// What people see in the list of checks.
pub const NAME: &str = "Patchwright review";
/// Characters of a check's summary, and bytes of an annotation's message, that GitHub takes.
const SUMMARY: usize = 60_000;
const MESSAGE: usize = 16_000;
/// Files that are named in a sentence.
const NAMED: usize = 10;
/// Annotations of one check.
const ANNOTATIONS: usize = 200;

const NOTHING_WAS_READ: &str = "Nothing was read";
/// The operator's rules leave everything out.
const NOTHING_TO_REVIEW: &str = "Nothing to review";

/// What the check is made of.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    pub reviewed: &'a Reviewed,
    pub known: &'a [KnownFinding],
    /// Findings at least this important fail it; `None`: none does.
    pub fail_on: Option<Priority>,
    /// Findings at least this important keep it from success; `None`: none does.
    pub neutral_on: Option<Priority>,
    /// Checks of the repository that the pull request breaks fail it.
    pub fail_on_checks: bool,
    /// The findings come from a job that we do not trust: the check can fail, never succeed.
    pub handed_over: bool,
    /// Findings that contain one of our own secrets: they are counted, and nothing else is published.
    pub withheld: &'a [Priority],
    /// Findings that were open at the last look, and of which nothing but that is remembered.
    pub forgotten: usize,
    /// What a model said of an earlier commit, for a review that asked none.
    pub kept: Option<&'a KeptWords>,
    /// The page that has the findings. Without one, the check does.
    pub page: Option<&'a str>,
    /// Findings that an annotation shows, because no comment on their lines does.
    pub annotated: &'a [&'a Anchored],
}

impl Check<'_> {
    /// Findings that fail the check.
    pub fn failing(&self) -> usize {
        self.open_from(self.fail_on)
    }

    /// Open findings at least this important, those that are withheld too.
    fn open_from(&self, least: Option<Priority>) -> usize {
        let Some(least) = least else { return 0 };
        let open = open(self.known).map(|known| known.priority);
        open.chain(self.withheld.iter().copied()).filter(|priority| *priority <= least).count()
    }

    /// The repository's checks that fail this one. What did not run on the base may have been red before.
    fn broken_checks(&self) -> Vec<&EvidenceRow> {
        if !self.fail_on_checks {
            return Vec::new();
        }
        let mut broken = newly_failing(&self.reviewed.evidence);
        broken.retain(|row| row.base.as_ref().is_some_and(CheckRun::passed));
        broken
    }

    fn is_left_out(&self) -> bool {
        is_left_out(&self.reviewed.coverage.skipped) && self.reviewed.coverage.read_files == 0
    }

    /// Success only when everything was read, nothing fails, and nothing that is open matters.
    pub fn conclusion(&self) -> CheckConclusion {
        if self.failing() > 0 || !self.broken_checks().is_empty() {
            CheckConclusion::Failure
        // Where the check is required, GitHub takes `neutral` for a pass, so what is no complete review that we made
        // ourselves and showed whole waits for a person.
        } else if self.handed_over
            || !self.withheld.is_empty()
            || !is_whole(self.reviewed)
            || self.reviewed.dropped > 0
            || self.forgotten > 0
            || (!is_anything(self.reviewed) && !self.is_left_out())
        {
            CheckConclusion::ActionRequired
        // The operator's word for findings that are worth a look and no reason to stop: those go into `fail_on`.
        } else if self.open_from(self.neutral_on) > 0
            || self.is_left_out()
            // How grave it is, nobody knows: as a finding that is worth a look.
            || is_without_reason(self.reviewed, self.known, self.kept)
        {
            CheckConclusion::Neutral
        } else {
            CheckConclusion::Success
        }
    }
}

/// The word for outputs.
pub fn word(conclusion: CheckConclusion) -> &'static str {
    match conclusion {
        CheckConclusion::Success => "success",
        CheckConclusion::Neutral => "neutral",
        CheckConclusion::Failure => "failure",
        CheckConclusion::ActionRequired => "action_required",
    }
}

/// The check run.
pub fn check(check: &Check<'_>) -> CheckDraft {
    let reviewed = check.reviewed;
    let found = open(check.known).count();
    let broken = check.broken_checks().len();
    let title = match (check.failing(), found) {
        (0, found) if broken > 0 => {
            let findings = plural(found, "finding");
            let verb = if broken == 1 { "fails" } else { "fail" };
            let checks = format!("{} {verb} that passed before", plural(broken, "check"));
            if found == 0 { checks } else { format!("{findings}; {checks}") }
        }
        (0, 0) if !check.withheld.is_empty() => {
            format!("{} withheld", plural(check.withheld.len(), "finding"))
        }
        _ if check.is_left_out() && found == 0 => NOTHING_TO_REVIEW.to_owned(),
        _ if !is_anything(reviewed) && found == 0 => NOTHING_WAS_READ.to_owned(),
        (0, 0) if check.forgotten > 0 => {
            format!("{} beyond what is remembered", plural(check.forgotten, "open finding"))
        }
        (0, 0) if is_without_reason(reviewed, check.known, check.kept) => {
            format!("No findings, but {SAYS_NEEDS_WORK}")
        }
        (0, 0) if is_whole(reviewed) => "No findings".to_owned(),
        (0, 0) => "No findings in what was read".to_owned(),
        (0, found) => plural(found, "finding"),
        (failing, _) => match check.fail_on {
            Some(least) => format!("{} at {least} or above", plural(failing, "finding")),
            None => plural(failing, "finding"),
        },
    };
    CheckDraft {
        name: NAME.to_owned(),
        head_sha: reviewed.head.clone(),
        conclusion: check.conclusion(),
        title,
        summary: summary(check),
        annotations: annotations(check),
        details_url: reviewed
            .provenance
            .run_url
            .clone()
            .filter(|url| crate::pr_body::is_plain_url(url)),
    }
}

/// The check run while the review works.
pub fn running(head: &str, run_url: Option<&str>) -> RunningCheck {
    RunningCheck {
        name: NAME.to_owned(),
        head_sha: head.to_owned(),
        title: "Reviewing".to_owned(),
        summary: "Patchwright is reviewing this commit.".to_owned(),
        details_url: run_url.filter(|url| crate::pr_body::is_plain_url(url)).map(str::to_owned),
    }
}

/// The check run of a review that came to no result: `why`, as it was said elsewhere.
pub fn not_run(head: &str, why: &str, run_url: Option<&str>) -> CheckDraft {
    CheckDraft {
        name: NAME.to_owned(),
        head_sha: head.to_owned(),
        conclusion: CheckConclusion::ActionRequired,
        title: "Not reviewed".to_owned(),
        summary: format!(
            "The review came to no result, so this says nothing about the change.\n\n{}",
            text::fence(&text::head(why, 4000), "")
        ),
        annotations: Vec::new(),
        details_url: run_url.filter(|url| crate::pr_body::is_plain_url(url)).map(str::to_owned),
    }
}

/// The check run on a commit of a merge queue, which is made of pull requests that have passed it.
pub fn queued(head: &str) -> CheckDraft {
    CheckDraft {
        conclusion: CheckConclusion::Success,
        title: "Reviewed before it came into the queue".to_owned(),
        summary: "This commit of the merge queue is made of pull requests that had this check before they came into it. \
                  It was not read again."
            .to_owned(),
        ..not_run(head, "", None)
    }
}

/// The check run of a pull request that has nothing to read and whose earlier commits had nothing either: `why`, in a
/// sentence. What the operator left out keeps nobody waiting; what nobody could read does.
pub fn nothing_to_read(
    head: &str,
    why: &str,
    skipped: &[Skipped],
    run_url: Option<&str>,
) -> CheckDraft {
    let (conclusion, title) = if is_left_out(skipped) {
        (CheckConclusion::Neutral, NOTHING_TO_REVIEW)
    } else {
        (CheckConclusion::ActionRequired, NOTHING_WAS_READ)
    };
    let summary = format!("{}.\n\n{}", text::inline(why), not_read(skipped));
    let summary = super::cut(&summary, SUMMARY);
    CheckDraft { conclusion, title: title.to_owned(), summary, ..not_run(head, "", run_url) }
}

/// A verdict that lets a change through, when the pull request goes to another branch since the review began: with that
/// one it may be another change, of which parts were not read.
pub fn retargeted(draft: CheckDraft, from: &str, to: &str) -> CheckDraft {
    let (from, to) = (text::code(from), text::code(to));
    withheld(
        draft,
        &format!(
            "The pull request was moved from {from} to {to} while it was reviewed, and what differs has not \
             been read. The next review reads it."
        ),
    )
}

/// A verdict that lets a change through, when the last one on the commit was a failure and nothing tells what it was for.
pub fn failed_before(draft: CheckDraft) -> CheckDraft {
    withheld(
        draft,
        "An earlier review of this commit has failed this check, and what it found is not known to this one. A \
         review with `--full` has the last word.",
    )
}

/// A failure stays one; everything else waits for a person.
fn withheld(draft: CheckDraft, why: &str) -> CheckDraft {
    if draft.conclusion == CheckConclusion::Failure {
        return draft;
    }
    let summary = format!("{why}\n\n{}", draft.summary);
    CheckDraft { conclusion: CheckConclusion::ActionRequired, summary, ..draft }
}

/// The check run of a review whose run was killed before it wrote its verdict: what it found is at `page`.
pub fn left_behind(head: &str, page: Option<&str>, run_url: Option<&str>) -> CheckDraft {
    let page = page.filter(|url| crate::pr_body::is_plain_url(url));
    let found = page.map_or_else(
        || "the conversation has what it found".to_owned(),
        |page| format!("[what it found]({page}) is in the conversation"),
    );
    CheckDraft {
        title: "Reviewed, without a verdict".to_owned(),
        summary: format!(
            "The run that reviewed this commit ended before it could say here how that went; {found}. \
             A full review, or one of a newer commit, says it here."
        ),
        ..not_run(head, "", run_url)
    }
}

fn summary(check: &Check<'_>) -> String {
    let reviewed = check.reviewed;
    let page = check.page.filter(|url| crate::pr_body::is_plain_url(url));
    let mut out = String::new();
    if page.is_none() {
        let _ = writeln!(out, "{}.\n", read(&reviewed.coverage));
    }
    if let Some(shortfall) = shortfall(reviewed) {
        let _ = writeln!(out, "This review is not complete. {shortfall}\n");
    }
    if check.handed_over {
        out.push_str(
            "The findings were handed over by a workflow run that the pull request could change, so \
             this check never passes.\n\n",
        );
    }
    if !check.withheld.is_empty() {
        let _ = writeln!(
            out,
            "{} with one of Patchwright's own secrets in the text: withheld ({}).\n",
            plural(check.withheld.len(), "finding"),
            counts(check.withheld.iter().copied())
        );
    }
    if reviewed.dropped > 0 {
        let _ = writeln!(
            out,
            "Not shown: {} {}.\n",
            plural(reviewed.dropped, "finding"),
            beyond().trim_end_matches(',')
        );
    }
    if check.forgotten > 0 {
        let _ = writeln!(out, "{}\n", state::forgotten_sentence(check.forgotten));
    }
    if let (Some(_), Some(files)) = (page, without_text(&reviewed.coverage)) {
        let _ = writeln!(out, "{files}\n");
    }
    for row in check.broken_checks() {
        let _ = writeln!(
            out,
            "{} passes on the base and fails here.\n",
            text::code(&text::one_line(&row.command))
        );
    }
    let open = counts(open(check.known).map(|known| known.priority));
    if !open.is_empty() {
        let _ = writeln!(out, "Open findings: {open}.\n");
    }
    if let Some(page) = page {
        let _ = writeln!(out, "[Findings, checks and cost]({page})");
        return out;
    }
    out.push_str(&sticky::table(reviewed, check.known, &|_| None));
    out.push('\n');
    out.push_str(&details("Checks", &sections::evidence(&reviewed.evidence)));
    out.push_str(&details("What was not read", &skipped(&reviewed.coverage)));
    super::cut(&out, SUMMARY)
}

/// What a check that passes says nothing about, in a sentence or two.
fn without_text(coverage: &Coverage) -> Option<String> {
    let binary = of_kind(coverage, SkippedBecause::NotText).map(|(count, names)| {
        let is = if count == 1 { "has" } else { "have" };
        format!("{} {is} no text to read (binary): {names}.", plural(count, "changed file"))
    });
    let modules = of_kind(coverage, SkippedBecause::Submodule).map(|(count, names)| {
        let is = if count == 1 { "is" } else { "are" };
        let what = plural(count, "submodule");
        format!("{what} {is} at another commit, whose code was not read: {names}.")
    });
    let locks = of_kind(coverage, SkippedBecause::LockFile).map(|(count, names)| {
        let was = if count == 1 { "was" } else { "were" };
        format!("The lines of {} {was} not read: {names}.", plural(count, "lock file"))
    });
    let said: Vec<String> = binary.into_iter().chain(modules).chain(locks).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// How many files were skipped for this reason, and the first of their names.
fn of_kind(coverage: &Coverage, why: SkippedBecause) -> Option<(usize, String)> {
    let files = coverage.skipped.iter().filter(|file| file.why == why);
    let count = files.clone().count();
    let names: Vec<String> =
        files.take(NAMED).map(|file| text::code(&text::cut(&file.path, 150))).collect();
    let more = count.saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (count > 0).then(|| (count, format!("{}{more}", names.join(", "))))
}

/// Findings on lines of the new version, as annotations.
fn annotations(check: &Check<'_>) -> Vec<CheckAnnotation> {
    let is_open =
        |found: &&&Anchored| open(check.known).any(|known| known.fingerprint == found.fingerprint);
    let found = check.annotated.iter().filter(is_open);
    let annotation = |found: &&Anchored| {
        let (path, start_line, end_line) = lines(found)?;
        let finding = &found.finding;
        Some(CheckAnnotation {
            path: path.to_owned(),
            start_line,
            end_line,
            is_failure: check.fail_on.is_some_and(|least| finding.priority <= least),
            title: text::cut(&format!("{}: {}", finding.priority, text::line(&finding.title)), 250),
            message: message(&finding.body),
        })
    };
    found.filter_map(annotation).take(ANNOTATIONS).collect()
}

/// Path, first and last line of a finding on the new version.
pub fn lines(anchored: &Anchored) -> Option<(&str, u32, u32)> {
    match &anchored.anchor {
        Anchor::Lines { path, side: Side::Right, line, start_line } => {
            Some((path, start_line.unwrap_or(*line), *line))
        }
        Anchor::Lines { .. } | Anchor::File { .. } | Anchor::Nowhere { .. } => None,
    }
}

/// Plain text: annotations are not Markdown.
fn message(body: &str) -> String {
    let plain = text::visible(&text::without_ansi(&text::head(body, MESSAGE)));
    if plain.trim().is_empty() { "See the title.".to_owned() } else { plain }
}
