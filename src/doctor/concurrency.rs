//! Runs that cancel, delay or overtake each other: the `concurrency:` groups of workflows.
//!
//! GitHub looks at a group before it looks at `if:`, so an event that no job wants still cancels what is
//! running in its group, or takes the place of what waits there.

use serde_json::Value;

use super::Finding;
use super::workflow::Workflow;

/// A group and what it does to what is running in it.
struct Group {
    name: String,
    /// Always.
    cancels: bool,
    /// Always, or when an expression says so.
    may_cancel: bool,
}

impl Group {
    fn parse(value: &Value) -> Group {
        let cancel = value.get("cancel-in-progress");
        let expression = cancel.and_then(Value::as_str).map(|text| {
            text.trim().trim_start_matches("${{").trim_end_matches("}}").trim().to_owned()
        });
        let cancels = cancel == Some(&Value::Bool(true)) || expression.as_deref() == Some("true");
        let name = value.as_str().or_else(|| value.get("group").and_then(Value::as_str));
        Group {
            name: name.unwrap_or_default().to_owned(),
            cancels,
            may_cancel: cancels || expression.is_some_and(|text| text != "false"),
        }
    }

    /// Whether one of these is part of the group's name, so that other events have another group.
    fn tells(&self, parts: &[&str]) -> bool {
        parts.iter().any(|part| self.name.contains(part))
    }
}

pub(super) fn check(name: &str, workflow: &Workflow) -> Vec<Finding> {
    let of_jobs = workflow.jobs.values().filter_map(|job| job.get("concurrency"));
    let of_workflow = Some(&workflow.concurrency).filter(|value| !value.is_null());
    let groups: Vec<Group> = of_jobs.chain(of_workflow).map(Group::parse).collect();
    if groups.is_empty() {
        return missing(name, workflow).into_iter().collect();
    }
    let checks = [issues(name, workflow, &groups), comments(name, workflow, &groups)];
    checks.into_iter().chain([labels(name, workflow, &groups)]).flatten().collect()
}

fn missing(name: &str, workflow: &Workflow) -> Option<Finding> {
    let (what, fix) = if workflow.has_event("issues") {
        (
            "two labels in a row run at the same time",
            "add `concurrency: { group: patchwright-${{ github.event.issue.number }}, cancel-in-progress: false }` to the job",
        )
    } else if workflow.reviews() && workflow.ours().next().is_some() {
        (
            "two pushes in a row are reviewed at the same time, and both are paid for",
            "take the group of `workflows/pr-review.yml`",
        )
    } else {
        return None;
    };
    Some(Finding::note(name, format!("no `concurrency:` group: {what}"), Some(fix)))
}

fn issues(name: &str, workflow: &Workflow, groups: &[Group]) -> Option<Finding> {
    (workflow.has_event("issues") && groups.iter().any(|group| group.cancels)).then(|| {
        Finding::broken(
            name,
            "`cancel-in-progress: true` lets the removal of the label cancel the run that removed it",
            "set `cancel-in-progress: false`",
        )
    })
}

/// Patchwright's own answer is a comment like any other.
fn comments(name: &str, workflow: &Workflow, groups: &[Group]) -> Option<Finding> {
    if !workflow.hears_comments() {
        return None;
    }
    let own = ["comment.id", "review.id", "github.run_id"];
    let shared = groups.iter().find(|group| !group.tells(&own))?;
    let with_actor = shared.tells(&["github.actor", "sender.login", "user.login"]);
    let fix = "put the comment into the group: `${{ github.event.comment.id || github.event.review.id }}`";
    if shared.may_cancel && !with_actor {
        return Some(Finding::broken(
            name,
            "the group is the same for every comment, so Patchwright's own answer cancels the run that wrote it",
            fix,
        ));
    }
    Some(Finding::note(
        name,
        "the group is the same for several comments, so a comment can push a waiting command out",
        Some(fix),
    ))
}

fn labels(name: &str, workflow: &Workflow, groups: &[Group]) -> Option<Finding> {
    let tells = ["label", "event.action", "github.run_id"];
    let shared = |group: &&Group| group.cancels && !group.tells(&tells);
    let hears = workflow.hears_labels_of_pulls() && workflow.ours().next().is_some();
    (hears && groups.iter().find(shared).is_some()).then(|| {
        Finding::broken(
            name,
            "with `cancel-in-progress: true` a label on the pull request cancels its review",
            "cancel on pushes only: `cancel-in-progress: ${{ github.event.action == 'synchronize' }}`",
        )
    })
}
