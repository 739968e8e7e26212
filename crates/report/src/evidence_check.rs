//! The check on a proposed commit: the evidence, where people look for it first.

use super::{pr_body, sections};
use patchwright_forge::{CheckConclusion, CheckDraft};
use patchwright_types::evidence::Verdict;
use patchwright_types::outcome::{Conclusion, Outcome};

/// What people see in the list of checks. Reviews have another one.
const NAME: &str = "Patchwright: change";

/// The check of a run's outcome on the commit that it proposes.
pub fn check(outcome: &Outcome, head: &str, run_url: Option<&str>) -> CheckDraft {
    let verdict = outcome.evidence.verdict();
    let conclusion = match (outcome.conclusion, verdict) {
        (_, _) if outcome.evidence.is_red() => CheckConclusion::Failure,
        (Conclusion::Done, Verdict::Passed(_)) if !outcome.evidence.has_lost_tests() => {
            CheckConclusion::Success
        }
        _ => CheckConclusion::Neutral,
    };
    let count =
        |count: usize| if count == 1 { "1 check".to_owned() } else { format!("{count} checks") };
    let title = match verdict {
        Verdict::Passed(passed) => format!("{} passed", count(passed)),
        Verdict::Failed(failed) => format!("{} failed", count(failed)),
        Verdict::None if outcome.evidence.has_lost_tests() => {
            "No test ran on the change".to_owned()
        }
        Verdict::None => "No check ran on the change".to_owned(),
    };
    let title = match outcome.conclusion {
        Conclusion::Done => title,
        conclusion => format!("{title}; {}", sections::state(conclusion)),
    };
    CheckDraft {
        name: NAME.to_owned(),
        head_sha: head.to_owned(),
        conclusion,
        title,
        summary: sections::evidence(&outcome.evidence),
        annotations: Vec::new(),
        details_url: run_url.filter(|url| pr_body::is_plain_url(url)).map(str::to_owned),
    }
}
