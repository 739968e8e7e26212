//! The files that every review leaves, however it ended: `findings.json`, `findings.sarif`,
//! `review.json`, `report.html`, `result.json`.

use super::files;
use crate::run::Run;
use crate::salvage::{self, Page};
use patchwright_base::error::{Failure, Result};
use patchwright_types::events::{Event, Object, ReviewResult, RunConclusion};
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
    write_ended(run, reviewed, outcome, published, None);
}

/// Writes both for a review that is not posted, or not yet: whoever reads them must not take it for posted.
pub(super) fn write_failed(
    run: &Run<'_>,
    reviewed: &Reviewed,
    outcome: &Outcome,
    failure: &Failure,
) {
    write_ended(run, reviewed, outcome, None, Some(failure));
}

fn write_ended(
    run: &Run<'_>,
    reviewed: &Reviewed,
    outcome: &Outcome,
    published: Option<&PublishedReview>,
    failure: Option<&Failure>,
) {
    let url = published.and_then(|it| it.url.as_deref());
    let pages = salvage::known_pages(run, outcome, url);
    let page = Page { diff: "", failure, reviewed: Some(reviewed), pages: &pages };
    salvage::write_page(run, outcome, &page);
    let result = salvage::as_text(run, &result(run, reviewed, published, failure));
    if let Err(failure) = run.folder.write("result.json", result.as_bytes()) {
        run.environment.ui.warn(&failure.to_string());
    }
}

/// The review in a form for programs: `result.json`, and the last line of `--json`.
fn result<'a>(
    run: &'a Run<'_>,
    reviewed: &Reviewed,
    published: Option<&'a PublishedReview>,
    failure: Option<&Failure>,
) -> Event<'a> {
    let (conclusion, reason) = match failure {
        Some(failure) => (failure.kind.into(), Some(salvage::in_one_line(failure))),
        None => (RunConclusion::Work(reviewed.conclusion), reviewed.reason.clone()),
    };
    let (reviewed, folder) = (reviewed.clone().ended(conclusion, reason), &run.folder.path);
    Event::ReviewResult(Box::new(ReviewResult { reviewed, published, folder }))
}

/// The last events of a review.
pub fn tell_end(run: &Run<'_>, reviewed: &Reviewed, published: Option<&PublishedReview>) {
    let number = Some(reviewed.number);
    let told = |object, url| run.tell(&Event::Published { object, url, number, operation: None });
    if let Some(published) = published {
        if published.review.is_some() {
            told(Object::Review, published.url.as_deref());
        }
        if let Some(url) = &published.check_url {
            told(Object::CheckRun, Some(url.as_str()));
        }
    }
    run.tell_files();
    run.tell(&result(run, reviewed, published, None));
}
