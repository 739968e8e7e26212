//! What is said at the end of a prompt of a session, below the model's own words.

use std::path::Path;

use super::sections;
use patchwright_base::text::code;
use patchwright_types::outcome::{Conclusion, Outcome};

/// What became of the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied<'a> {
    /// There was none.
    Nothing,
    Written,
    /// Why it was not written into the folder.
    Kept(&'a str),
}

/// The end of a prompt; `None` where the model has said everything.
pub fn closing(outcome: &Outcome, applied: Applied<'_>, folder: &Path) -> Option<String> {
    let mut parts = Vec::new();
    if outcome.conclusion != Conclusion::Done {
        let word = outcome.conclusion.word().replace('_', " ");
        let reason = outcome.reason.as_deref().unwrap_or("no reason is known");
        parts.push(format!("This ended early ({word}): {reason}."));
    }
    let count = outcome.change.as_ref().map_or(0, |change| change.files.len());
    let files = if count == 1 { "1 file was".to_owned() } else { format!("{count} files were") };
    let checks = match outcome.evidence.verdict().word() {
        "passed" => "The checks passed.",
        "failed" => "Checks fail on the change.",
        _ if outcome.evidence.has_lost_tests() => "The checks ran no tests on the change.",
        _ => "No check could be run on the change.",
    };
    let patch = code(&folder.join("change.patch").display().to_string());
    match applied {
        Applied::Nothing => {}
        Applied::Written => {
            parts.push(format!("{files} changed in the folder. {checks}"));
            let flags = sections::to_look_at(&outcome.judgement);
            if !flags.is_empty() {
                parts.push(format!("Please look at: {}.", flags.join("; ")));
            }
        }
        Applied::Kept(why) => {
            parts.push(format!("Nothing was written into the folder: {why}. The change is kept in {patch}. {checks}"));
        }
    }
    if parts.is_empty() {
        return None;
    }
    let report = code(&folder.join("report.html").display().to_string());
    parts.push(format!("The report is {report}."));
    Some(parts.join(" "))
}
