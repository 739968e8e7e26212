//! The files that every review leaves for programs: `findings.json`, `findings.sarif`, and
//! `review.json`, from which another workflow can post it.

use super::hand_over::{self, HandOver};
use super::withhold;
use crate::folder::RunFolder;
use patchwright_base::error::Result;
use patchwright_base::redact::Redactor;
use patchwright_report::{findings, sarif};
use patchwright_review::incremental::KnownFinding;
use patchwright_types::reviewed::Reviewed;

/// Where absolute paths in `findings.json` begin: the folder that the model saw.
const ROOT: &str = "/workspace";

/// Writes them, without our own secrets. `known` is what became of the findings, as far as that is
/// known.
pub(super) fn write(
    folder: &RunFolder,
    redactor: &Redactor,
    reviewed: &Reviewed,
    known: &[KnownFinding],
) -> Result<()> {
    let (reviewed, _) = withhold::without_secrets(redactor, reviewed);
    let files = [
        ("findings.json", findings::json(&reviewed, known, ROOT)),
        ("findings.sarif", sarif::json(&reviewed, known, None)),
        (hand_over::FILE, HandOver::new(&reviewed).json()),
    ];
    for (name, text) in files {
        folder.write(name, redactor.redact(&text).as_bytes())?;
    }
    Ok(())
}
