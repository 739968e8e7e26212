//! The files that every review leaves, however it ended: `findings.json`, `findings.sarif`,
//! `review.json`, `report.html`, `result.json`.

use serde_json::{Value, json};

use super::files;
use crate::run::Run;
use crate::salvage;
use patchwright_base::error::Result;
use patchwright_journal as journal;
use patchwright_types::outcome::Outcome;
use patchwright_types::published::PublishedReview;
use patchwright_types::reviewed::Reviewed;

/// Writes the findings before anything is published, so that a failing forge loses nothing.
pub fn write(run: &Run<'_>, reviewed: &Reviewed) -> Result<()> {
    files::write(&run.folder, &run.world.redactor, reviewed, &[])
}

/// Writes the report and the machine-readable result. The run is over by then, so an error here is
/// printed and ends nothing.
pub fn write_report(
    run: &Run<'_>,
    reviewed: &Reviewed,
    outcome: &Outcome,
    published: Option<&PublishedReview>,
) {
    // A value as text: there is nothing in it that could fail.
    let result = format!("{:#}", result(run, reviewed, published));
    let url = published.and_then(|it| it.url.as_deref());
    let pages = salvage::known_pages(run, outcome, url);
    salvage::write_page(run, outcome, "", Some(reviewed), &pages);
    if let Err(failure) = run.folder.write("result.json", result.as_bytes()) {
        run.environment.ui.say(&failure.to_string());
    }
}

/// The review in a form for programs: `result.json`, and the last line of `--json`.
pub fn result(run: &Run<'_>, reviewed: &Reviewed, published: Option<&PublishedReview>) -> Value {
    let mut whole = serde_json::to_value(reviewed).unwrap_or_default();
    if let Value::Object(fields) = &mut whole {
        fields.insert("is".to_owned(), json!("result"));
        fields.insert("published".to_owned(), json!(published));
        fields.insert("folder".to_owned(), json!(run.folder.path));
    }
    journal::redact_strings(&mut whole, &run.world.redaction());
    whole
}
