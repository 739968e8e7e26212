//! Which of several attempts is the best, by what was verified: the checks with the repository's own tests by name,
//! then what may be published, then the size of the change. Pure; what it leaves equal is for a judge.

use std::cmp::Ordering;

use crate::publish::{is_publishable, is_worth_a_draft};
use patchwright_policy::own_checks;
use patchwright_types::attempts::AttemptReport;
use patchwright_types::evidence::{Evidence, EvidenceRow, Standing, Verdict};
use patchwright_types::outcome::{Conclusion, Outcome};

/// Changes are of a similar size when none has more lines than so many times the smallest and so many more.
const SIMILAR: (u64, u64) = (2, 20);

/// The best, and those that nothing verified tells from it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub chosen: u32,
    /// Different changes that are equal, the chosen one, which is the smallest, first; no others: empty.
    pub tied: Vec<u32>,
    pub why: String,
}

/// What becomes of work that a limit or a fault has cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DraftPolicy {
    Published,
    /// Nobody wants them, as in a campaign.
    Dropped,
}

/// What is there to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AttemptResult {
    /// A change or an answer.
    Work,
    /// The model cannot go on without an answer.
    Question,
    Nothing,
    /// The policy, a limit or a fault left nothing to publish.
    Refused,
    Unfinished,
}

/// What the checks say; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CheckRank {
    Passed,
    /// All pass, and the change edits one of them.
    PassedByOwnWord,
    Failed {
        /// Tests, or checks without tests, that did not fail before.
        broke: usize,
        failing: usize,
    },
    /// Nothing speaks for it.
    Unknown,
}

/// How much of the work could be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PublishRank {
    All,
    Part,
    /// The work was cut short.
    Draft,
}

/// Attempts in order; the smaller one is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    kept: AttemptResult,
    checked: CheckRank,
    published: PublishRank,
}

/// Chooses; `None` when there is nothing to choose from.
pub(super) fn choose(candidates: &[(u32, &Outcome)], drafts: DraftPolicy) -> Option<Choice> {
    let rank = |outcome: &Outcome| rank(outcome, drafts);
    let mut sorted = candidates.to_vec();
    sorted.sort_by(|(a, one), (b, other)| {
        let sizes = (lines(one), *a).cmp(&(lines(other), *b));
        rank(one).cmp(&rank(other)).then(sizes)
    });
    let (chosen, best) = *sorted.first()?;
    let most = lines(best) * SIMILAR.0 + SIMILAR.1;
    let is_equal = |outcome: &Outcome| rank(outcome) == rank(best) && lines(outcome) <= most;
    let mut tied: Vec<(u32, &Outcome)> = Vec::new();
    for (number, outcome) in sorted.iter().filter(|(_, outcome)| is_equal(outcome)) {
        // The same change made twice is one.
        if !tied.iter().any(|(_, known)| is_same(known, outcome)) {
            tied.push((*number, *outcome));
        }
    }
    let others =
        sorted.iter().filter(|(number, outcome)| *number != chosen && !is_same(best, outcome));
    let next = others.map(|(_, outcome)| (*outcome, rank(outcome))).next();
    let why = why((best, rank(best)), next);
    let tied: Vec<u32> = tied.into_iter().map(|(number, _)| number).collect();
    let tied =
        if tied.len() > 1 && rank(best).kept == AttemptResult::Work { tied } else { Vec::new() };
    Some(Choice { chosen, tied, why })
}

/// Both left the same files. Answers without a change differ in their words.
fn is_same(one: &Outcome, other: &Outcome) -> bool {
    match (&one.change, &other.change) {
        (Some(one), Some(other)) => one.tree == other.tree,
        (None, None) => one.final_message == other.final_message,
        _ => false,
    }
}

fn rank(outcome: &Outcome, drafts: DraftPolicy) -> Rank {
    let is_answer = outcome.conclusion == Conclusion::Done && outcome.change.is_none();
    let is_draft = drafts == DraftPolicy::Published && is_worth_a_draft(outcome);
    let kept = match outcome.conclusion {
        _ if is_publishable(outcome) || is_answer || is_draft => AttemptResult::Work,
        Conclusion::NeedsInput => AttemptResult::Question,
        Conclusion::Done | Conclusion::NothingToDo | Conclusion::Partial => AttemptResult::Nothing,
        Conclusion::Refused => AttemptResult::Refused,
        Conclusion::Interrupted
        | Conclusion::Budget
        | Conclusion::Provider
        | Conclusion::Sandbox => AttemptResult::Unfinished,
    };
    let published = match outcome.conclusion {
        Conclusion::Done => PublishRank::All,
        _ if is_draft => PublishRank::Draft,
        _ => PublishRank::Part,
    };
    Rank { kept, checked: checked(outcome), published }
}

fn checked(outcome: &Outcome) -> CheckRank {
    let evidence = &outcome.evidence;
    let edits_a_check = outcome.judgement.flags.iter().any(|flag| flag.rule == own_checks::RULE);
    match evidence.verdict() {
        Verdict::Passed(_) if edits_a_check => CheckRank::PassedByOwnWord,
        Verdict::Passed(_) => CheckRank::Passed,
        Verdict::None => CheckRank::Unknown,
        Verdict::Failed(_) => {
            let Counts { broke, failing, .. } = counts(evidence);
            CheckRank::Failed { broke, failing }
        }
    }
}

/// Tests by name where they are known, checks otherwise.
#[derive(Debug, Default)]
struct Counts {
    fixed: usize,
    broke: usize,
    failing: usize,
}

fn counts(evidence: &Evidence) -> Counts {
    evidence.rows.iter().map(of_row).fold(Counts::default(), |sum, row| Counts {
        fixed: sum.fixed + row.fixed,
        broke: sum.broke + row.broke,
        failing: sum.failing + row.failing,
    })
}

fn of_row(row: &EvidenceRow) -> Counts {
    let standing = row.standing();
    let fails = matches!(
        standing,
        Standing::Broken
            | Standing::StillFailing
            | Standing::Improved
            | Standing::Silenced
            | Standing::Altered
    );
    let was_red = row.base.as_ref().is_some_and(patchwright_types::evidence::CheckRun::failed);
    let by_name = row.tests.as_ref().map(|tests| {
        let broke = [&tests.broke, &tests.new_failing, &tests.no_longer_passing];
        let broke = broke.iter().map(|list| list.count).sum();
        let failing = broke + tests.still_failing.count;
        Counts { fixed: tests.fixed.count, broke, failing }
    });
    let whole = Counts {
        fixed: usize::from(was_red && standing == Standing::Passed),
        broke: usize::from(standing == Standing::Broken),
        failing: usize::from(fails),
    };
    match by_name {
        // A check can fail for other reasons than its tests.
        Some(tests) => Counts {
            fixed: tests.fixed,
            broke: tests.broke.max(whole.broke),
            failing: tests.failing.max(whole.failing),
        },
        None => whole,
    }
}

fn lines(outcome: &Outcome) -> u64 {
    let files = outcome.change.iter().flat_map(|change| &change.files);
    files.map(|file| file.added_lines + file.removed_lines + u64::from(file.binary)).sum()
}

/// Why the best comes before the next one.
fn why((best, ours): (&Outcome, Rank), next: Option<(&Outcome, Rank)>) -> String {
    let Some((next, theirs)) = next else { return "there is no other result".to_owned() };
    if ours.kept < theirs.kept {
        return match ours.kept {
            AttemptResult::Work => {
                "it is the only one with a change or an answer to keep".to_owned()
            }
            _ => format!("none has something to publish, and it is `{}`", best.conclusion.word()),
        };
    }
    match (ours.checked.cmp(&theirs.checked), ours.checked, theirs.checked) {
        (Ordering::Less, CheckRank::Passed, CheckRank::PassedByOwnWord) => {
            return "all checks pass, and it edits none of them".to_owned();
        }
        (Ordering::Less, CheckRank::Passed | CheckRank::PassedByOwnWord, _) => {
            return "all checks pass".to_owned();
        }
        (
            Ordering::Less,
            CheckRank::Failed { broke, failing },
            CheckRank::Failed { broke: more, failing: others },
        ) => {
            return if broke < more {
                format!("it breaks the fewest tests: {broke}, the next one {more}")
            } else {
                format!("it leaves the fewest tests failing: {failing}, the next one {others}")
            };
        }
        (Ordering::Less, ..) => return "checks ran on it, and on no other".to_owned(),
        _ => {}
    }
    if ours.published < theirs.published {
        return "more of it can be published, with checks that say the same".to_owned();
    }
    let checks = match ours.checked {
        CheckRank::Passed | CheckRank::PassedByOwnWord => "all checks pass",
        CheckRank::Failed { .. } => "the same tests fail",
        CheckRank::Unknown => "no check says more",
    };
    if best.change.is_none() && next.change.is_none() {
        return format!("{checks}, and it is the first of the answers without a change");
    }
    format!(
        "{checks}, and it is the smallest change: {} lines, the next one {}",
        lines(best),
        lines(next)
    )
}

/// What a report says about an outcome, in what is known of the attempt already.
pub(super) fn report(outcome: &Outcome, known: AttemptReport) -> AttemptReport {
    let Counts { fixed, broke, failing } = counts(&outcome.evidence);
    let files = outcome.change.iter().flat_map(|change| &change.files);
    let (added, removed) = files.fold((0_u64, 0_u64), |(added, removed), file| {
        (added + file.added_lines, removed + file.removed_lines)
    });
    AttemptReport {
        conclusion: Some(outcome.conclusion),
        reason: outcome.reason.clone(),
        checks: outcome.evidence.verdict().word().to_owned(),
        fixed,
        broke,
        failing,
        files: outcome.change.as_ref().map_or(0, |change| change.files.len()),
        added,
        removed,
        ..known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchwright_git::Oid;
    use patchwright_git::tree::{Change, FileChange, OverLimit};
    use patchwright_policy::{Judgement, Violation};
    use patchwright_types::attempts::Attempts;
    use patchwright_types::evidence::CheckRun;
    use patchwright_types::outcome::{Provenance, Spending};
    use patchwright_types::plan::Plan;
    use patchwright_types::publish_notes::PublishNotes;

    /// A change of so many lines; each number of lines is a tree of its own.
    fn change(added_lines: u64) -> Change {
        let tree =
            Oid(git2::Oid::from_bytes(&[u8::try_from(added_lines % 250).unwrap(); 20]).unwrap());
        let path = "a".to_owned();
        let file =
            FileChange { path, old: None, new: None, added_lines, removed_lines: 0, binary: false };
        Change {
            base: tree,
            tree,
            files: vec![file],
            refused: Vec::new(),
            beyond: OverLimit::default(),
            artefacts: Vec::new(),
            ignored: Vec::new(),
        }
    }

    fn outcome(conclusion: Conclusion, change: Option<Change>, checks: &[(i32, i32)]) -> Outcome {
        let run = |exit_code| CheckRun { exit_code: Some(exit_code), ..CheckRun::default() };
        let rows =
            checks.iter().map(|(base, head)| EvidenceRow::new(Some(run(*base)), Some(run(*head))));
        Outcome {
            run: String::new(),
            conclusion,
            reason: None,
            final_message: String::new(),
            output: None,
            plan: Plan::default(),
            change,
            evidence: Evidence { rows: rows.collect(), ..Evidence::default() },
            judgement: Judgement::default(),
            spending: Spending::default(),
            provenance: Provenance::default(),
            attempts: Attempts::default(),
            publish_notes: PublishNotes::default(),
        }
    }

    use Conclusion::{Budget, Done, NeedsInput, NothingToDo, Partial, Refused};

    #[test]
    fn what_was_verified_decides_before_size_and_order() {
        let done = |lines, checks| outcome(Done, Some(change(lines)), checks);
        let part = |lines, checks| outcome(Partial, Some(change(lines)), checks);
        let cut = |lines, checks| outcome(Budget, Some(change(lines)), checks);
        let gutted = |mut outcome: Outcome| {
            outcome.judgement.flags.push(Violation::new(own_checks::RULE, None, "edits a check"));
            outcome
        };
        for (about, better, worse) in vec![
            ("all pass", done(90, &[(1, 0)]), part(2, &[(1, 1)])),
            ("fewest broken", part(90, &[(1, 1), (1, 1)]), part(2, &[(0, 1), (1, 0)])),
            ("fewest failing", part(90, &[(1, 1), (1, 0)]), part(2, &[(1, 1), (1, 1)])),
            ("some check", part(90, &[(1, 1)]), part(2, &[])),
            ("passes, but cut short", cut(9, &[(1, 0)]), part(2, &[(1, 1)])),
            ("edits no check", done(90, &[(1, 0)]), gutted(done(2, &[(1, 0)]))),
            ("complete", done(90, &[(1, 0)]), cut(2, &[(1, 0)])),
            ("the smallest", done(2, &[(1, 0)]), done(90, &[(1, 0)])),
            ("a change", cut(90, &[(1, 1)]), outcome(NothingToDo, None, &[])),
            ("an answer", outcome(Done, None, &[]), outcome(NeedsInput, None, &[])),
            ("a question", outcome(NeedsInput, None, &[]), outcome(NothingToDo, None, &[])),
            (
                "nothing",
                outcome(NothingToDo, None, &[]),
                outcome(Refused, Some(change(1)), &[(1, 0)]),
            ),
            ("refused", outcome(Refused, None, &[]), outcome(Budget, None, &[])),
        ] {
            for (candidates, chosen) in
                [([(1, &better), (2, &worse)], 1), ([(1, &worse), (2, &better)], 2)]
            {
                let choice = choose(&candidates, DraftPolicy::Published).unwrap();
                assert_eq!((choice.chosen, choice.tied.as_slice()), (chosen, &[][..]), "{about}");
                assert!(!choice.why.is_empty(), "{about}");
            }
        }
        assert_eq!(choose(&[], DraftPolicy::Published), None);
    }

    #[test]
    fn work_that_was_cut_short_is_nothing_where_nobody_wants_drafts() {
        let cut = outcome(Budget, Some(change(2)), &[(1, 0)]);
        let red = outcome(Partial, Some(change(9)), &[(1, 1)]);
        for (drafts, chosen) in [(DraftPolicy::Published, 1), (DraftPolicy::Dropped, 2)] {
            assert_eq!(choose(&[(1, &cut), (2, &red)], drafts).unwrap().chosen, chosen);
        }
    }

    #[test]
    fn a_tie_is_of_different_changes_of_a_similar_size() {
        let done = |lines| outcome(Done, Some(change(lines)), &[]);
        let (two, five, again, many) = (done(2), done(5), done(2), done(100));
        let choice =
            choose(&[(1, &many), (2, &five), (3, &two), (4, &again)], DraftPolicy::Published)
                .unwrap();
        assert_eq!((choice.chosen, choice.tied), (3, vec![3, 2]));
        let choice = choose(&[(1, &two), (2, &again)], DraftPolicy::Published).unwrap();
        assert_eq!((choice.chosen, choice.tied), (1, Vec::new()));
        let nothing = outcome(NothingToDo, None, &[]);
        let choice = choose(&[(1, &nothing), (2, &nothing)], DraftPolicy::Published).unwrap();
        assert_eq!((choice.chosen, choice.tied), (1, Vec::new()));
    }

    #[test]
    fn a_report_counts_checks_where_there_are_no_tests_by_name() {
        let made = outcome(Partial, Some(change(3)), &[(1, 0), (0, 1), (1, 1)]);
        let report = report(&made, AttemptReport::default());
        let AttemptReport { fixed, broke, failing, files, added, .. } = report;
        assert_eq!((fixed, broke, failing, files, added), (1, 1, 2, 1, 3));
    }
}
