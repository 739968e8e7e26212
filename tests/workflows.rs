//! The Action and the workflows that users copy: their linters find nothing, the Action's inputs and
//! outputs are the documented ones.
#![allow(clippy::disallowed_methods, reason = "runs linters and the Action's own shell")]

mod install; // what the Action installs, on runners of every kind
mod server; // where it downloads

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use expect_test::expect;
use serde_json::Value;

const WORKFLOWS: &[&str] = &[
    "workflows/issue-to-pr.yml",
    "workflows/issue-triage.yml",
    "workflows/pr-review.yml",
    "workflows/pr-review-forks.yml",
    "workflows/pr-review-queue.yml",
    "workflows/mention.yml",
    "workflows/nightly-batch.yml",
    "workflows/scheduled-prompt.yml",
    "workflows/learn.yml",
    ".github/workflows/ci.yml",
    ".github/workflows/docs.yml",
    ".github/workflows/release.yml",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn yaml(path: &str) -> Value {
    let text = fs_err::read_to_string(root().join(path)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// A linter on the path or in one of the folders where `./test` installs it.
fn linter(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["target/lint-venv/bin", "target/lint/bin"].map(|folder| root().join(folder)));
    let found = folders.into_iter().map(|folder| folder.join(name)).find(|file| file.exists());
    let required = std::env::var_os("CI").is_some();
    assert!(found.is_some() || !required, "{name} must be installed in CI; run ./test");
    found
}

fn lint(name: &str, args: &[&str], files: &[&str]) {
    // Without the linter there is nothing to run; `./test` installs it, and CI insists on it.
    let Some(program) = linter(name) else { return };
    let output = Command::new(program).args(args).args(files).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{name}:\n{}", said(&output));
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn run(program: &str, args: &[PathBuf]) -> Output {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    output
}

#[test]
fn actionlint_finds_nothing() {
    lint("actionlint", &[], WORKFLOWS);
}

#[test]
fn zizmor_finds_nothing() {
    let files: Vec<&str> = WORKFLOWS.iter().copied().chain(["action.yml"]).collect();
    lint("zizmor", &["--offline", "--no-progress"], &files);
}

#[test]
fn the_action_has_the_documented_inputs_and_outputs() {
    let action = yaml("action.yml");
    let names =
        |key: &str| -> Vec<String> { action[key].as_object().unwrap().keys().cloned().collect() };
    assert_eq!(
        names("inputs").join(" "),
        "model fallback-models attempts attempt-models attempts-at-once judge-model base-url effort instructions memory output-schema sandbox image setup setup-required setup-again \
         verify allow-hosts setup-allow submodules sparse lfs max-turns max-cost-usd max-tokens timeout title-pattern fail-on second-look \
         mention triage triage-labels label assignee allow-users allow-bots base branch draft labels reviewers code-owners assignees milestone \
         auto-merge check-run fork dry-run sign sign-off config state-dir prompt prompt-file learn post-from"
    );
    assert_eq!(
        names("outputs").join(" "),
        "conclusion checks final-message pull-request-number pull-request-url pull-request-operation \
         pull-request-head-sha branch review-id review-url review-verdict coverage findings \
         findings-file sarif-file review-file handed-over output output-file plan-file patch-file held-back-file \
         journal-file report-file cost-usd"
    );
    for input in names("inputs") {
        let variable = format!("INPUT_{}", input.to_uppercase().replace('-', "_"));
        let steps = action["runs"]["steps"].as_array().unwrap();
        let run = steps.iter().find(|step| step["id"] == "run").unwrap();
        // Without a folder of the user's own there is one that the action keeps.
        let source = match input.as_str() {
            "state-dir" => "steps.install.outputs.state".to_owned(),
            input => format!("inputs.{input}"),
        };
        assert_eq!(run["env"][&variable], format!("${{{{ {source} }}}}"), "{input}");
    }
}

#[test]
fn no_expression_stands_in_a_script() {
    for path in WORKFLOWS.iter().chain(&["action.yml"]) {
        let mut scripts = Vec::new();
        collect_scripts(&yaml(path), &mut scripts);
        assert!(!path.ends_with("action.yml") || scripts.len() == 2);
        for script in scripts {
            assert!(!script.contains("${{"), "{path}: {script}");
        }
    }
}

fn collect_scripts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(script)) = fields.get("run") {
                into.push(script.clone());
            }
            fields.values().for_each(|field| collect_scripts(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_scripts(item, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The steps of the action that use another one, by the name of that.
fn using(name: &str) -> Vec<Value> {
    let action = yaml("action.yml");
    let steps = action["runs"]["steps"].as_array().unwrap().iter();
    let uses = |step: &&Value| step["uses"].as_str().is_some_and(|uses| uses.starts_with(name));
    steps.filter(uses).cloned().collect()
}

#[test]
fn patch_journal_and_report_are_kept_as_an_artifact_however_the_run_ended() {
    let action = yaml("action.yml");
    let [keep] = &using("actions/upload-artifact@")[..] else { panic!("one step uploads") };
    let condition = keep["if"].as_str().unwrap();
    assert!(condition.contains("always()"), "{condition}");
    let paths: Vec<&str> = keep["with"]["path"].as_str().unwrap().lines().collect();
    for output in ["patch-file", "held-back-file", "plan-file", "journal-file", "report-file"] {
        assert!(action["outputs"][output].is_object(), "{output}");
        let path = format!("${{{{ steps.run.outputs.{output} }}}}");
        assert!(paths.contains(&path.as_str()), "{path}");
    }
    // A run that broke has no outputs.
    for name in ["*.patch", "journal.jsonl", "report.html"] {
        let is_found = |path: &&str| path.contains(&format!("/runs/*/{name}'"));
        assert!(paths.iter().any(is_found), "{name}");
    }
    assert_eq!(keep["with"]["if-no-files-found"], "ignore");
    assert_eq!(keep["continue-on-error"], true, "the job's result is that of the run");
}

#[test]
fn what_was_paid_for_is_kept_when_a_job_runs_out_of_time() {
    let keepers = ["actions/upload-artifact@", "actions/cache/save@"];
    let mut kept = 0;
    for path in WORKFLOWS.iter().filter(|path| path.starts_with("workflows/")) {
        let workflow = yaml(path);
        for (name, job) in workflow["jobs"].as_object().unwrap() {
            let steps = job["steps"].as_array().into_iter().flatten();
            let keeps = |step: &&Value| {
                let uses = step["uses"].as_str().unwrap_or_default();
                keepers.iter().any(|keeper| uses.starts_with(keeper))
            };
            for step in steps.clone().filter(keeps) {
                kept += 1;
                assert_eq!(step["if"], "${{ always() }}", "{path}: {name}");
                // The program ends by itself, with everything written, while the job has time left.
                let minutes = job["timeout-minutes"].as_u64().unwrap();
                let mut scripts = Vec::new();
                collect_scripts(job, &mut scripts);
                let run = scripts.iter().find(|script| script.contains(" batch run ")).unwrap();
                let (_, rest) = run.split_once("timeout --signal=INT ").unwrap();
                let deadline: u64 = rest.split_once('m').unwrap().0.parse().unwrap();
                assert!(deadline + 15 <= minutes, "{path}: {name}: {deadline} of {minutes}");
            }
        }
    }
    assert_eq!(kept, 2);
}

#[test]
fn what_a_run_that_was_cut_short_left_is_there_for_the_next_one_on_the_same_issue() {
    let [restore] = &using("actions/cache/restore@")[..] else { panic!("one step restores") };
    let [save] = &using("actions/cache/save@")[..] else { panic!("one step saves") };
    let condition = save["if"].as_str().unwrap();
    let learns = "(steps.run.outcome != 'success' || inputs.learn == 'true')";
    for part in ["always()", "inputs.state-dir == ''", learns] {
        assert!(condition.contains(part), "{condition}");
    }
    assert_eq!(restore["with"]["path"], save["with"]["path"]);
    assert_eq!(restore["with"]["key"], save["with"]["key"]);
    let key = save["with"]["key"].as_str().unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let prefix = words(restore["with"]["restore-keys"].as_str().unwrap());
    assert!(words(key).starts_with(&prefix), "{key} does not begin with {prefix}");
    assert!(prefix.contains("github.event.issue.number"), "{prefix}");
    assert!(prefix.contains("github.event.pull_request.number"), "{prefix}");
    for step in [restore, save] {
        assert_eq!(step["continue-on-error"], true, "a cache that is away ends no run");
    }
}

/// Every place from which the program takes the number of an issue or pull request, in its order.
#[test]
fn what_is_kept_is_kept_under_the_number_of_the_issue_or_pull_request() {
    let [restore] = &using("actions/cache/restore@")[..] else { panic!("one step restores") };
    let prefix = restore["with"]["restore-keys"].as_str().unwrap();
    let inside =
        prefix.strip_prefix("patchwright-state-${{ ").unwrap().strip_suffix(" }}-").unwrap();
    let sources: Vec<&str> = inside.split("||").map(str::trim).collect();
    let dispatched = ["inputs", "client_payload"].into_iter().flat_map(|place| {
        let names = ["pull-request", "pull_request", "number", "issue"];
        names.map(|name| format!("github.event.{place}.{name}"))
    });
    let mut expected = vec!["github.event.issue.number".to_owned()];
    expected.push("github.event.pull_request.number".to_owned());
    expected.extend(dispatched);
    for event in ["workflow_run", "check_suite"] {
        expected.push(format!("github.event.{event}.pull_requests[0].number"));
        expected.push(format!("github.event.{event}.head_sha"));
    }
    expected.push("github.ref_name".to_owned());
    assert_eq!(sources, expected);
}

#[test]
fn a_second_attempt_of_a_night_has_the_first_ones_database_and_keeps_its_own() {
    let workflow = yaml("workflows/nightly-batch.yml");
    let jobs = workflow["jobs"].as_object().unwrap().values();
    let steps = jobs.flat_map(|job| job["steps"].as_array().unwrap());
    let cached =
        steps.filter(|step| step["uses"].as_str().is_some_and(|it| it.contains("/cache/")));
    let mut restored = 0;
    for step in cached {
        let with = &step["with"];
        let key = "patchwright-batch-${{ github.run_id }}-${{ github.run_attempt }}";
        assert_eq!(with["key"], key, "an entry of the cache is never written again");
        if let Some(before) = with["restore-keys"].as_str() {
            let before: Vec<&str> = before.lines().collect();
            assert_eq!(before, ["patchwright-batch-${{ github.run_id }}-", "patchwright-batch-"]);
            restored += 1;
        }
    }
    assert_eq!(restored, 3);
}

#[test]
fn a_foreign_label_cannot_join_the_group_of_a_run() {
    let workflow = yaml("workflows/issue-to-pr.yml");
    let group = workflow["concurrency"]["group"].as_str().unwrap();
    expect![
        "patchwright-${{ github.event.issue.number || inputs.issue }}-${{ (github.event_name == 'workflow_dispatch' || github.event.label.name == 'patchwright') && 'work' || github.run_id }}"
    ]
    .assert_eq(group);
    assert_eq!(workflow["concurrency"]["cancel-in-progress"], Value::Bool(false));
    assert_eq!(workflow["permissions"], serde_json::json!({}));
    let job = &workflow["jobs"]["fix"];
    assert_eq!(
        job["permissions"],
        serde_json::json!({"contents": "write", "issues": "write", "pull-requests": "write"})
    );
    assert!(job["timeout-minutes"].as_u64().is_some());
}

/// The words of an expression with single spaces.
fn words(value: &Value) -> String {
    value.as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn nothing_that_a_review_writes_can_cancel_or_replace_it() {
    let workflow = yaml("workflows/pr-review.yml");
    expect![
        "patchwright-review-${{ github.event.pull_request.number }}-${{ (github.event.action != 'labeled' || github.event.label.name == 'review') && (github.event.action != 'edited' || github.event.changes.base) && 'work' || github.run_id }}"
    ]
    .assert_eq(&words(&workflow["concurrency"]["group"]));
    assert_eq!(
        workflow["concurrency"]["cancel-in-progress"],
        Value::from("${{ github.event.action == 'synchronize' }}")
    );
    let group = words(&yaml("workflows/mention.yml")["concurrency"]["group"]);
    assert!(group.contains("github.actor") && group.contains("comment.id"), "{group}");
    assert!(group.contains("review.id"), "{group}");
}

/// A pull request that goes to another branch is another change; one with another title is not.
#[test]
fn an_edit_starts_a_review_only_when_it_changes_the_base() {
    let workflow = yaml("workflows/pr-review.yml");
    let types = workflow["on"]["pull_request"]["types"].as_array().unwrap();
    assert!(types.iter().any(|it| it == "edited"), "{types:?}");
    let condition = "(github.event.action != 'edited' || github.event.changes.base)";
    for job in ["review", "fork"] {
        let when = words(&workflow["jobs"][job]["if"]);
        assert!(when.contains(condition), "{job}: {when}");
    }
    let group = words(&yaml("workflows/pr-review-forks.yml")["concurrency"]["group"]);
    assert!(group.contains("conclusion == 'success' && 'work' || github.run_id"), "{group}");
}

#[test]
fn reviews_have_no_more_rights_than_they_need() {
    for path in ["workflows/pr-review.yml", "workflows/pr-review-forks.yml"] {
        let workflow = yaml(path);
        assert_eq!(workflow["permissions"], serde_json::json!({}), "{path}");
        assert_eq!(
            workflow["jobs"]["review"]["permissions"],
            serde_json::json!({"contents": "read", "pull-requests": "write", "checks": "write"}),
            "{path}"
        );
    }
    for (path, job) in [("pr-review.yml", "fork"), ("pr-review-queue.yml", "queue")] {
        let job = &yaml(&format!("workflows/{path}"))["jobs"][job];
        assert_eq!(job["permissions"], serde_json::json!({}));
        assert!(!job.to_string().contains("secrets"), "{job}");
    }
}

#[test]
fn the_workflow_with_secrets_reads_nothing_of_the_fork_on_the_machine() {
    let text = fs_err::read_to_string(root().join("workflows/pr-review-forks.yml")).unwrap();
    for word in ["checkout", "artifact", "- run:", "head.sha", "refs/pull"] {
        assert!(!text.contains(word), "{word}");
    }
    let review = yaml("workflows/pr-review.yml");
    let forks = yaml("workflows/pr-review-forks.yml");
    assert_eq!(forks["on"]["workflow_run"]["workflows"][0], review["name"]);
    let condition = words(&forks["jobs"]["review"]["if"]);
    assert!(condition.contains("head_repository.full_name != github.repository"), "{condition}");
}

#[test]
fn the_merge_queue_gets_the_required_check_without_a_model() {
    let workflow = yaml("workflows/pr-review-queue.yml");
    let queue = &workflow["jobs"]["queue"];
    assert_eq!(queue["name"], Value::from(patchwright_report::review::check::NAME));
    assert!(queue.get("if").is_none() && queue["steps"][0].get("uses").is_none());
    assert_eq!(workflow["on"], serde_json::json!({"merge_group": null}));
}

/// GitHub takes a job that is skipped for a success of its name, required or not.
#[test]
fn no_job_of_a_pull_request_is_called_like_the_check_that_may_be_required() {
    for path in WORKFLOWS {
        let workflow = yaml(path);
        let of_pulls = workflow["on"].get("merge_group").is_none() || path.contains(".github");
        for (id, job) in workflow["jobs"].as_object().unwrap() {
            let name = job.get("name").and_then(Value::as_str).unwrap_or(id);
            let is_ours = name == patchwright_report::review::check::NAME;
            assert!(!(of_pulls && is_ours), "{path}: {id}");
        }
    }
    // What was shipped once, and what people may write.
    let job = "jobs: { queue: { name: Patchwright review, if: github.event_name == 'merge_group', steps: [] } }";
    for (on, is_told) in [
        ("[pull_request, merge_group]", true),
        ("{ pull_request: { types: [opened] }, merge_group: }", true),
        ("pull_request", true),
        ("merge_group", false),
        ("[merge_group]", false),
        ("{ merge_group: { types: [checks_requested] } }", false),
    ] {
        let found = patchwright::doctor::workflow::check("w.yml", &format!("on: {on}\n{job}\n"));
        let told = found.iter().any(|it| it.message.contains("is called `Patchwright review`"));
        assert_eq!(told, is_told, "{on}: {found:#?}");
    }
}

#[test]
fn shipped_workflows_have_none_of_the_traps_that_doctor_knows() {
    for path in WORKFLOWS.iter().filter(|path| path.starts_with("workflows/")) {
        let text = fs_err::read_to_string(root().join(path)).unwrap();
        let broken: Vec<String> = patchwright::doctor::workflow::check(path, &text)
            .into_iter()
            .map(|found| found.message)
            .filter(|message| !message.contains("not pinned") && !message.contains("known traps"))
            .collect();
        assert!(broken.is_empty(), "{path}: {broken:#?}");
    }
}

#[test]
fn only_the_last_job_of_a_night_can_write() {
    let workflow = yaml("workflows/nightly-batch.yml");
    assert_eq!(workflow["permissions"], serde_json::json!({}));
    for name in ["plan", "run"] {
        let job = &workflow["jobs"][name];
        // Of a private repository, GitHub shows pull requests to no token without the second one.
        let permissions = serde_json::json!({"contents": "read", "pull-requests": "read"});
        assert_eq!(job["permissions"], permissions, "{name}");
        assert!(!job.to_string().contains("WRITE_TOKEN"), "{name}");
        assert!(job["timeout-minutes"].as_u64().is_some_and(|minutes| minutes <= 360));
    }
    let publish = &workflow["jobs"]["publish"];
    assert!(!publish.to_string().contains("OPENAI_API_KEY"), "the publisher asks no model");
    assert_eq!(publish["needs"], serde_json::json!(["plan", "run"]));
    assert_eq!(publish["concurrency"]["cancel-in-progress"], Value::Bool(false));
    let matrix = workflow["jobs"]["run"]["strategy"]["matrix"].as_str().unwrap();
    assert_eq!(matrix, "${{ fromJSON(needs.plan.outputs.matrix) }}");
}

#[test]
fn each_job_of_a_release_may_do_its_own_part_only() {
    let workflow = yaml(".github/workflows/release.yml");
    assert_eq!(workflow["permissions"], serde_json::json!({}));
    let jobs = workflow["jobs"].as_object().unwrap();
    let may_write = |scope: &str| -> Vec<&str> {
        let writes = |job: &&Value| job["permissions"][scope] == "write";
        jobs.iter().filter(|(_, job)| writes(job)).map(|(name, _)| name.as_str()).collect()
    };
    assert_eq!(may_write("contents"), ["publish"]);
    assert_eq!(may_write("packages"), ["image", "index"]);
    assert_eq!(may_write("id-token"), ["attest", "image", "index"]);
    assert_eq!(jobs["build"]["permissions"], serde_json::json!({"contents": "read"}));
    for (name, job) in jobs {
        assert!(job["timeout-minutes"].as_u64().is_some(), "{name}");
        for step in job["steps"].as_array().unwrap() {
            let Some(action) = step["uses"].as_str() else { continue };
            let (_, commit) = action.split_once('@').unwrap();
            assert!(
                commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit()),
                "{action}"
            );
        }
    }
    // What has the right to write to the repository, or names an image, runs nothing that was checked out.
    for name in ["publish", "index"] {
        assert!(!jobs[name].to_string().contains("checkout"), "{name}");
    }
}

/// Archive, package and image are built where they can be run; everything is there before the release is.
#[test]
fn both_machines_are_released_and_nothing_before_the_rest() {
    let jobs = yaml(".github/workflows/release.yml")["jobs"].clone();
    let runners = ["ubuntu-latest", "ubuntu-24.04-arm"];
    let of_build = &jobs["build"]["strategy"]["matrix"]["runner"];
    assert_eq!(*of_build, serde_json::json!(runners));
    let of_image = jobs["image"]["strategy"]["matrix"]["include"].as_array().unwrap();
    let of_image: Vec<&Value> = of_image.iter().map(|one| &one["runner"]).collect();
    assert_eq!(of_image, runners);
    let needed = |job: &str| -> String { jobs[job]["needs"].to_string() };
    for (job, before) in
        [("attest", "build"), ("image", "attest"), ("index", "image"), ("publish", "index")]
    {
        assert!(needed(job).contains(before), "{job} does not wait for {before}");
    }
    for job in jobs.as_object().unwrap().values() {
        assert!(job["strategy"].is_null() || job["strategy"]["fail-fast"].is_null());
        assert!(job.get("if").is_none() && job.get("continue-on-error").is_none());
    }
    let publish = words_of_scripts(&jobs["publish"]);
    let (draft, shown) = (publish.find("--draft --verify-tag"), publish.find("--draft=false"));
    assert!(draft.is_some() && draft < shown, "{publish}");
}

fn words_of_scripts(job: &Value) -> String {
    let mut scripts = Vec::new();
    collect_scripts(job, &mut scripts);
    scripts.concat()
}

#[test]
fn the_release_says_what_it_would_make_and_what_has_changed() {
    let script = |args: &[&str]| {
        let output = Command::new(root().join(".ci/release")).args(args).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let files = script(&["--plan"]);
    let machine = std::env::consts::ARCH;
    // The names that the Action asks for.
    assert!(files.contains(&format!("patchwright-{machine}-linux.tar.gz\n")), "{files}");
    assert!(files.contains("\nSHA256SUMS\n") && files.contains(".cdx.json\n"), "{files}");
    let notes = script(&["--notes"]);
    let changelog = fs_err::read_to_string(root().join("CHANGELOG.md")).unwrap();
    assert!(notes.len() > 100 && changelog.contains(&notes), "{notes}");
    assert!(!notes.contains("\n## ") && notes.starts_with("### "), "one version's part");
}
