//! The traps of workflows that start an agent: who can trigger them, what code they check out, what
//! the token may do, and runs that cancel themselves.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Finding;

/// A workflow file, as far as the checks need it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Workflow {
    /// YAML 1.1 readers turn this key into `true`; ours does not.
    on: Value,
    permissions: Value,
    concurrency: Value,
    jobs: Map<String, Value>,
}

/// Checks one workflow file. `name` is its path, for the messages.
pub fn check(name: &str, text: &str) -> Vec<Finding> {
    let workflow: Workflow = match serde_saphyr::from_str(text) {
        Ok(workflow) => workflow,
        Err(err) => {
            return vec![Finding::broken(name, format!("is not valid YAML: {err}"), "correct it")];
        }
    };
    let mut findings = Vec::new();
    findings.extend(triggers(name, &workflow, text));
    findings.extend(permissions(name, &workflow));
    findings.extend(concurrency(name, &workflow));
    findings.extend(label_condition(name, &workflow, text));
    findings.extend(unpinned(name, &workflow));
    if findings.is_empty() {
        findings.push(Finding::fine(name, "none of the known traps"));
    }
    findings
}

fn has_event(workflow: &Workflow, event: &str) -> bool {
    match &workflow.on {
        Value::String(only) => only == event,
        Value::Array(many) => many.iter().any(|one| one == event),
        Value::Object(map) => map.contains_key(event),
        _ => false,
    }
}

fn triggers(name: &str, workflow: &Workflow, text: &str) -> Option<Finding> {
    let privileged = ["pull_request_target", "workflow_run"]
        .into_iter()
        .find(|event| has_event(workflow, event))?;
    let checks_out_head =
        text.contains("head.sha") || text.contains("head_ref") || text.contains("refs/pull/");
    checks_out_head.then(|| {
        Finding::broken(
            name,
            format!("`{privileged}` runs with secrets and checks out code of the pull request"),
            "check out the base only, or use `pull_request` without secrets",
        )
    })
}

fn permissions(name: &str, workflow: &Workflow) -> Vec<Finding> {
    let mut findings = Vec::new();
    let needed = ["contents", "issues", "pull-requests"];
    let jobs = workflow.jobs.values().filter(|job| runs_patchwright(job));
    for job in jobs {
        let granted = match job.get("permissions") {
            Some(granted) => granted,
            None => &workflow.permissions,
        };
        match granted {
            Value::Null => findings.push(Finding::broken(
                name,
                "`permissions:` is not spelled out, so the token has the repository's default",
                "add `permissions:` with `contents: write`, `issues: write`, `pull-requests: write`",
            )),
            Value::String(all) if all == "write-all" => findings.push(Finding::broken(
                name,
                "`permissions: write-all` gives the token more than the work needs",
                "name `contents: write`, `issues: write`, `pull-requests: write` instead",
            )),
            Value::Object(granted) => {
                for scope in needed {
                    if granted.get(scope) != Some(&Value::from("write")) {
                        findings.push(Finding::broken(
                            name,
                            format!("the job lacks `{scope}: write`"),
                            format!("add `{scope}: write` below `permissions:`"),
                        ));
                    }
                }
            }
            _ => {}
        }
    }
    findings
}

fn runs_patchwright(job: &Value) -> bool {
    let steps = job.get("steps").and_then(Value::as_array);
    steps.into_iter().flatten().any(|step| {
        let text = |key| step.get(key).and_then(Value::as_str).unwrap_or_default();
        text("uses").to_lowercase().contains("patchwright") || text("run").contains("patchwright")
    })
}

fn concurrency(name: &str, workflow: &Workflow) -> Option<Finding> {
    if !has_event(workflow, "issues") {
        return None;
    }
    let of_jobs = workflow.jobs.values().filter_map(|job| job.get("concurrency"));
    let mut groups = of_jobs.chain(Some(&workflow.concurrency).filter(|v| !v.is_null())).peekable();
    if groups.peek().is_none() {
        return Some(Finding::note(
            name,
            "no `concurrency:` group: two labels in a row run at the same time",
            Some(
                "add `concurrency: { group: patchwright-${{ github.event.issue.number }}, cancel-in-progress: false }` to the job",
            ),
        ));
    }
    let cancels = groups.any(|group| group.get("cancel-in-progress") == Some(&Value::Bool(true)));
    cancels.then(|| {
        Finding::broken(
            name,
            "`cancel-in-progress: true` lets the removal of the label cancel the run that removed it",
            "set `cancel-in-progress: false`",
        )
    })
}

fn label_condition(name: &str, workflow: &Workflow, text: &str) -> Option<Finding> {
    if !has_event(workflow, "issues") || text.contains("github.event.label.name") {
        return None;
    }
    Some(Finding::note(
        name,
        "every label on an issue starts a job (which then finds nothing to do)",
        Some("add `if: github.event.label.name == 'patchwright'` to the job"),
    ))
}

fn unpinned(name: &str, workflow: &Workflow) -> Vec<Finding> {
    let steps = workflow
        .jobs
        .values()
        .filter_map(|job| job.get("steps").and_then(Value::as_array))
        .flatten();
    let uses = steps.filter_map(|step| step.get("uses").and_then(Value::as_str));
    uses.filter(|action| !action.starts_with("./"))
        .filter(|action| {
            let reference = action.rsplit_once('@').map_or("", |(_, reference)| reference);
            reference.len() != 40 || !reference.chars().all(|c| c.is_ascii_hexdigit())
        })
        .map(|action| {
            Finding::note(
                name,
                format!("`{action}` is not pinned to a commit, so its owner can change what runs"),
                Some("replace the tag by the full commit id"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        check("w.yml", text)
            .iter()
            .map(|found| found.message.clone())
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn names_each_trap() {
        let good = "on: { issues: { types: [labeled] } }\njobs:\n  fix:\n    if: github.event.label.name == 'patchwright'\n    permissions: { contents: write, issues: write, pull-requests: write }\n    concurrency: { group: x, cancel-in-progress: false }\n    steps:\n      - run: patchwright action\n";
        assert_eq!(words(good), "none of the known traps");
        let traps = [
            (good.replace("cancel-in-progress: false", "cancel-in-progress: true"), "cancel the run"),
            (good.replace("issues: write, ", ""), "lacks `issues: write`"),
            (good.replace("    permissions: { contents: write, issues: write, pull-requests: write }\n", ""), "not spelled out"),
            (good.replace("    concurrency: { group: x, cancel-in-progress: false }\n", ""), "no `concurrency:`"),
            (good.replace("    if: github.event.label.name == 'patchwright'\n", ""), "every label"),
            (good.replace("- run: patchwright action", "- uses: patchwright/patchwright@v1"), "not pinned"),
            ("on: pull_request_target\njobs: { a: { steps: [ { run: 'git checkout ${{ github.event.pull_request.head.sha }}' } ] } }".to_owned(), "runs with secrets"),
            ("on: [".to_owned(), "not valid YAML"),
        ];
        for (text, expected) in traps {
            assert!(words(&text).contains(expected), "{expected}: {}", words(&text));
        }
    }
}
