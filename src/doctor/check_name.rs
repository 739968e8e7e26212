//! A job that is called like the check that reviews write. GitHub reports a job that is skipped as a success, so a required
//! check of that name would pass without a review.

use serde_json::Value;

use super::Finding;
use super::workflow::Workflow;
use patchwright_report::review::check::NAME;

/// The job for the merge queue, whose commits were reviewed before, may have the name: in a workflow that nothing else
/// starts, it is never skipped on a pull request.
pub(super) fn check(name: &str, workflow: &Workflow) -> Vec<Finding> {
    let called = workflow.jobs.iter().filter(|(id, job)| {
        let shown = job.get("name").and_then(Value::as_str).unwrap_or(id);
        shown.trim() == NAME
    });
    if workflow.only_event() == Some("merge_group") {
        return Vec::new();
    }
    let finding = |id: &String| {
        Finding::broken(
            name,
            format!(
                "job `{id}` is called `{NAME}`, like the check of reviews: where that is required, GitHub takes the job \
                 for it, even one that is skipped"
            ),
            "give the job another name; one for the merge queue goes into a workflow of its own, as \
             `workflows/pr-review-queue.yml`",
        )
    };
    called.map(|(id, _)| finding(id)).collect()
}
