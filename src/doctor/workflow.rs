//! The traps of workflows that start an agent: who can trigger them, what of others they run, what the token may do,
//! and runs that cancel themselves.

use serde::Deserialize;
use serde_json::{Map, Value};

use patchwright_base::text;
use patchwright_config::yaml;

use super::{Finding, check_name, concurrency, untrusted};

/// A workflow file, as far as the checks need it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Workflow {
    /// YAML 1.1 readers turn this key into `true`; ours does not.
    on: Value,
    permissions: Value,
    pub(super) concurrency: Value,
    pub(super) env: Value,
    pub(super) jobs: Map<String, Value>,
}

/// Bytes of what is wrong about a file, which may quote a value of any length.
const MOST_SAID: usize = 1500;

/// Events that somebody's comment is.
const COMMENTS: &[&str] = &["issue_comment", "pull_request_review_comment", "pull_request_review"];
/// Events that are about a pull request as such.
const PULLS: &[&str] = &["pull_request", "pull_request_target"];

/// Checks one workflow file. `name` is its path, for the messages.
pub fn check(name: &str, text: &str) -> Vec<Finding> {
    let workflow = match read(text) {
        Ok(workflow) => workflow,
        Err(why) => return vec![Finding::broken(name, why, "correct it")],
    };
    let mut findings = Vec::new();
    findings.extend(untrusted::check(name, &workflow));
    findings.extend(permissions(name, &workflow));
    findings.extend(concurrency::check(name, &workflow));
    findings.extend(check_name::check(name, &workflow));
    findings.extend(label_condition(name, &workflow, text));
    findings.extend(mention_condition(name, &workflow, text));
    findings.extend(fork_condition(name, &workflow, text));
    findings.extend(unpinned(name, &workflow));
    if findings.is_empty() {
        findings.push(Finding::fine(name, "none of the known traps"));
    }
    findings
}

/// A workflow, or what is wrong about the file as a whole.
fn read(text: &str) -> Result<Workflow, String> {
    let file: Value = serde_saphyr::from_str(text).map_err(|err| {
        let said = yaml::explained(&err);
        format!("is not valid YAML: {}", text::cut(&text::head(&said, MOST_SAID), MOST_SAID))
    })?;
    let workflow: Workflow = match file {
        Value::Null => Workflow::default(),
        file => serde_json::from_value(file).map_err(|err| {
            format!("is no workflow: {}", text::line(&text::head(&err.to_string(), MOST_SAID)))
        })?,
    };
    let absent = [("`on`", workflow.on.is_null()), ("`jobs`", workflow.jobs.is_empty())];
    let absent: Vec<String> = absent
        .iter()
        .filter(|(_, is_absent)| *is_absent)
        .map(|(key, _)| format!("no {key}"))
        .collect();
    match absent.as_slice() {
        [] => Ok(workflow),
        absent => Err(format!("is no workflow: it has {}", absent.join(" and "))),
    }
}

impl Workflow {
    pub(super) fn has_event(&self, event: &str) -> bool {
        match &self.on {
            Value::String(only) => only == event,
            Value::Array(many) => many.iter().any(|one| one == event),
            Value::Object(map) => map.contains_key(event),
            _ => false,
        }
    }

    /// The event that starts it, when nothing else does.
    pub(super) fn only_event(&self) -> Option<&str> {
        match &self.on {
            Value::String(only) => Some(only),
            Value::Array(many) => match many.as_slice() {
                [only] => only.as_str(),
                _ => None,
            },
            Value::Object(map) => match map.len() {
                1 => map.keys().next().map(String::as_str),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn hears_comments(&self) -> bool {
        COMMENTS.iter().any(|event| self.has_event(event))
    }

    pub(super) fn reviews(&self) -> bool {
        PULLS.iter().any(|event| self.has_event(event))
    }

    /// Whether labels on pull requests start it.
    pub(super) fn hears_labels_of_pulls(&self) -> bool {
        let types = PULLS.iter().filter_map(|event| self.on.get(*event)?.get("types"));
        types.filter_map(Value::as_array).flatten().any(|kind| kind == "labeled")
    }

    /// Whether labels on issues start it: where it does not say what does, everything does.
    fn hears_labels_of_issues(&self) -> bool {
        let types = self.on.get("issues").and_then(|event| event.get("types"));
        let hears = types.is_none_or(|types| match types {
            Value::Array(types) => types.iter().any(|kind| kind == "labeled"),
            only => only == "labeled",
        });
        self.has_event("issues") && hears
    }

    /// The jobs that run Patchwright.
    pub(super) fn ours(&self) -> impl Iterator<Item = &Value> {
        self.jobs.values().filter(|job| {
            let steps = job["steps"].as_array().map(Vec::as_slice);
            steps.unwrap_or_default().iter().any(runs_patchwright)
        })
    }
}

/// What the jobs of a workflow need: scope, and what is missing without it where the work can do without.
fn needed(workflow: &Workflow) -> Vec<(&'static str, Option<&'static str>)> {
    const STATUS: &str = "the verdict of a review becomes a commit status instead of a check";
    if workflow.hears_comments() || workflow.has_event("check_suite") {
        return vec![
            ("contents", None),
            ("issues", None),
            ("pull-requests", None),
            ("checks", Some(STATUS)),
        ];
    }
    if workflow.reviews() || workflow.has_event("workflow_run") {
        return vec![("pull-requests", None), ("checks", Some(STATUS))];
    }
    vec![("contents", None), ("issues", None), ("pull-requests", None)]
}

fn permissions(name: &str, workflow: &Workflow) -> Vec<Finding> {
    let mut findings = Vec::new();
    for job in workflow.ours().filter(|job| !only_reads(job)) {
        let needed = if has_prompt(job) {
            vec![("contents", None), ("pull-requests", None)]
        } else if !workflow.hears_labels_of_issues() && gives(job, &["triage"]) {
            // It sorts new issues; no label starts work in it.
            vec![("issues", None)]
        } else {
            needed(workflow)
        };
        let list: Vec<String> =
            needed.iter().map(|(scope, _)| format!("`{scope}: write`")).collect();
        let list = list.join(", ");
        let granted = match job.get("permissions") {
            Some(granted) => granted,
            // `permissions` of a job replaces that of the workflow; the two are not merged.
            None => &workflow.permissions,
        };
        match granted {
            // The default of a repository or organisation may be read and write for everything.
            Value::Null => findings.push(Finding::broken(
                name,
                "`permissions:` is not spelled out, so the token has the repository's default",
                format!("add `permissions:` with {list}"),
            )),
            Value::String(all) if all == "write-all" => findings.push(Finding::broken(
                name,
                "`permissions: write-all` gives the token more than the work needs",
                format!("name {list} instead"),
            )),
            Value::Object(granted) => {
                let lacks = |scope: &str| granted.get(scope) != Some(&Value::from("write"));
                for (scope, without) in needed.iter().filter(|(scope, _)| lacks(scope)) {
                    findings.push(missing(name, scope, *without));
                }
            }
            _ => {}
        }
    }
    findings
}

fn missing(name: &str, scope: &str, without: Option<&str>) -> Finding {
    let fix = format!("add `{scope}: write` below `permissions:`");
    let lacks = format!("the job lacks `{scope}: write`");
    match without {
        Some(without) => Finding::note(name, format!("{lacks}: {without}"), Some(fix.as_str())),
        None => Finding::broken(name, lacks, fix),
    }
}

/// It follows a prompt of its author, or proposes lessons, and says nothing on issues.
fn has_prompt(job: &Value) -> bool {
    gives(job, &["prompt", "prompt-file", "learn"])
}

/// A step has one of these inputs, and it is not switched off.
fn gives(job: &Value, inputs: &[&str]) -> bool {
    let steps = job["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_given = |step: &Value| {
        inputs.iter().any(|input| match &step["with"][*input] {
            Value::Bool(is_on) => *is_on,
            Value::String(text) => !matches!(text.trim(), "" | "false"),
            _ => false,
        })
    };
    steps.iter().any(is_given)
}

/// A part of a campaign that publishes nothing.
fn only_reads(job: &Value) -> bool {
    let steps = job["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let runs: Vec<&str> = steps.iter().filter_map(|step| step["run"].as_str()).collect();
    let says = |words: &str| runs.iter().any(|run| run.contains(words));
    // Such a job needs no write permission, so asking for one would be wrong advice.
    (says("batch plan") || says("--hold")) && !says("--publish-from") && !says("action")
}

/// The step, by an Action or in a script.
pub(super) fn runs_patchwright(step: &Value) -> bool {
    let text = |key| step.get(key).and_then(Value::as_str).unwrap_or_default();
    text("uses").to_lowercase().contains("patchwright") || text("run").contains("patchwright")
}

fn label_condition(name: &str, workflow: &Workflow, text: &str) -> Option<Finding> {
    if !workflow.hears_labels_of_issues() || text.contains("github.event.label.name") {
        return None;
    }
    Some(Finding::note(
        name,
        "every label on an issue starts a job (which then finds nothing to do)",
        Some("add `if: github.event.label.name == 'patchwright'` to the job"),
    ))
}

fn mention_condition(name: &str, workflow: &Workflow, text: &str) -> Option<Finding> {
    let looks = text.contains("comment.body") || text.contains("review.body");
    (workflow.hears_comments() && !looks).then(|| {
        Finding::note(
            name,
            "every comment starts a job (which then finds nothing to do)",
            Some("add `if: contains(github.event.comment.body, '@patchwright')` to the job"),
        )
    })
}

/// GitHub gives no secrets to what a fork's pull request starts.
fn fork_condition(name: &str, workflow: &Workflow, text: &str) -> Option<Finding> {
    let looks = text.contains("head.repo.");
    let ours = workflow.ours().next().is_some();
    (workflow.has_event("pull_request") && ours && !looks).then(|| {
        Finding::note(
            name,
            "pull requests of forks start this job without secrets, and it fails for want of a key",
            Some(
                "add `if: github.event.pull_request.head.repo.full_name == github.repository`, and \
                 `workflows/pr-review-forks.yml` for those of forks",
            ),
        )
    })
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
            // Only a full commit id is immutable: tags and short ids can be moved or made
            // ambiguous.
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
    use crate::doctor::workflow::*;

    fn words(text: &str) -> String {
        check("w.yml", text)
            .iter()
            .map(|found| found.message.clone())
            .collect::<Vec<_>>()
            .join("; ")
    }

    const REVIEW: &str = "on: { pull_request: { types: [opened, labeled] } }\nconcurrency: { group: 'x-${{ github.event.number }}', cancel-in-progress: \"${{ github.event.action == 'synchronize' }}\" }\njobs:\n  review:\n    if: github.event.pull_request.head.repo.full_name == github.repository\n    permissions: { contents: read, pull-requests: write, checks: write }\n    steps:\n      - run: patchwright action\n";
    const MENTION: &str = "on: { issue_comment: { types: [created] } }\nconcurrency: { group: 'x-${{ github.event.comment.id }}', cancel-in-progress: false }\njobs:\n  respond:\n    if: contains(github.event.comment.body, '@patchwright')\n    permissions: { contents: write, issues: write, pull-requests: write, checks: write }\n    steps:\n      - run: patchwright action\n";

    #[test]
    fn names_each_trap() {
        assert_eq!(words(REVIEW), "none of the known traps");
        assert_eq!(words(MENTION), "none of the known traps");
        let good = "on: { issues: { types: [labeled] } }\njobs:\n  fix:\n    if: github.event.label.name == 'patchwright'\n    permissions: { contents: write, issues: write, pull-requests: write }\n    concurrency: { group: x, cancel-in-progress: false }\n    steps:\n      - run: patchwright action\n";
        assert_eq!(words(good), "none of the known traps");
        let traps = [
            (good.replace("cancel-in-progress: false", "cancel-in-progress: true"), "cancel the run"),
            (good.replace("issues: write, ", ""), "lacks `issues: write`"),
            (good.replace("    permissions: { contents: write, issues: write, pull-requests: write }\n", ""), "not spelled out"),
            (good.replace("    concurrency: { group: x, cancel-in-progress: false }\n", ""), "no `concurrency:`"),
            (good.replace("    if: github.event.label.name == 'patchwright'\n", ""), "every label"),
            (good.replace("    if: github.event.label.name == 'patchwright'\n", "").replace("{ types: [labeled] }", "{}"), "every label"),
            (good.replace("- run: patchwright action", "- uses: patchwright/patchwright@v1"), "not pinned"),
            ("on: pull_request_target\njobs: { a: { steps: [ { run: 'git checkout ${{ github.event.pull_request.head.sha }}' } ] } }".to_owned(), "runs with secrets"),
            ("on: [".to_owned(), "not valid YAML"),
            (REVIEW.replace("pull-requests: write, ", ""), "lacks `pull-requests: write`"),
            (REVIEW.replace(", checks: write", ""), "becomes a commit status"),
            (REVIEW.replace("\"${{ github.event.action == 'synchronize' }}\"", "true"), "a label on the pull request cancels"),
            (REVIEW.replace("concurrency: {", "env: {"), "two pushes in a row"),
            (REVIEW.replace("    if: github.event.pull_request.head.repo.full_name == github.repository\n", ""), "forks start this job"),
            (MENTION.replace("-${{ github.event.comment.id }}", ""), "can push a waiting command out"),
            (MENTION.replace("-${{ github.event.comment.id }}", "").replace("progress: false", "progress: true"), "cancels the run that wrote it"),
            (MENTION.replace("-${{ github.event.comment.id }}", "").replace("progress: false", "progress: \"${{ true }}\""), "cancels the run that wrote it"),
            (MENTION.replace("    if: contains(github.event.comment.body, '@patchwright')\n", ""), "every comment"),
            (MENTION.replace("contents: write, ", ""), "lacks `contents: write`"),
        ];
        for (text, expected) in traps {
            assert!(words(&text).contains(expected), "{expected}: {}", words(&text));
        }
    }

    #[test]
    fn a_triage_needs_to_write_issues_only_however_its_input_is_written() {
        let triage = "on: { issues: { types: [opened] } }\njobs:\n  sort:\n    permissions: { contents: read }\n    concurrency: { group: x, cancel-in-progress: false }\n    steps:\n      - { uses: 'patchwright/patchwright@0123456789012345678901234567890123456789', with: { triage: IT } }\n";
        for on in ["true", "'true'", "\"${{ vars.TRIAGE }}\""] {
            let said = words(&triage.replace("IT", on));
            assert!(
                said.contains("lacks `issues: write`") && !said.contains("contents"),
                "{on}: {said}"
            );
        }
        for off in ["false", "'false'", "''"] {
            let said = words(&triage.replace("IT", off));
            assert!(said.contains("lacks `contents: write`"), "{off}: {said}");
        }
    }
}
