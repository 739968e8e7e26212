//! The files that every review leaves: `findings.json`, `findings.sarif`, `review.json`.

use super::desk::Desk;
use super::hand_over::HandOver;
use super::outcome::Reviewed;
use crate::error::Result;
use crate::report::{findings, sarif};
use crate::review::incremental::Settled;

/// Where absolute paths in `findings.json` begin: the folder that the model saw.
const ROOT: &str = "/workspace";

/// Writes them before anything is posted, so that a failing forge loses nothing.
pub(super) fn write(desk: &Desk<'_>, reviewed: &Reviewed, settled: &Settled) -> Result<()> {
    let Some(folder) = desk.folder else { return Ok(()) };
    let files = [
        ("findings.json", findings::json(reviewed, &settled.findings, ROOT)),
        ("findings.sarif", sarif::json(reviewed, &settled.findings, None)),
        (super::hand_over::FILE, HandOver::new(reviewed).json()),
    ];
    for (name, text) in files {
        folder.write(name, desk.redactor.redact(&text).as_bytes())?;
    }
    Ok(())
}
