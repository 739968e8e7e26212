//! The Action and the workflows that users copy: their linters find nothing, the Action's inputs and
//! outputs are the documented ones, and its shell steps do what they should in a simulated runner.
#![allow(clippy::disallowed_methods, reason = "runs linters and the Action's own shell")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use expect_test::expect;
use serde_json::Value;

const WORKFLOWS: &[&str] = &[
    "workflows/issue-to-pr.yml",
    "workflows/pr-review.yml",
    "workflows/pr-review-forks.yml",
    "workflows/mention.yml",
    "workflows/nightly-batch.yml",
    "workflows/scheduled-prompt.yml",
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
        "model fallback-models attempts attempt-models attempts-at-once judge-model base-url effort instructions output-schema sandbox image setup setup-required setup-again \
         verify allow-hosts setup-allow max-turns max-cost-usd max-tokens timeout title-pattern fail-on second-look \
         mention label allow-users allow-bots base branch draft labels reviewers code-owners assignees milestone \
         auto-merge check-run dry-run sign sign-off config state-dir prompt prompt-file post-from"
    );
    assert_eq!(
        names("outputs").join(" "),
        "conclusion checks final-message pull-request-number pull-request-url pull-request-operation \
         pull-request-head-sha branch review-id review-url review-verdict coverage findings \
         findings-file sarif-file review-file handed-over plan-file patch-file held-back-file \
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
fn what_a_run_that_was_cut_short_left_is_there_for_the_next_one_on_the_same_issue() {
    let [restore] = &using("actions/cache/restore@")[..] else { panic!("one step restores") };
    let [save] = &using("actions/cache/save@")[..] else { panic!("one step saves") };
    let condition = save["if"].as_str().unwrap();
    for part in ["always()", "inputs.state-dir == ''", "steps.run.outcome != 'success'"] {
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
        "patchwright-review-${{ github.event.pull_request.number || github.run_id }}-${{ (github.event.action != 'labeled' || github.event.label.name == 'review') && 'work' || github.run_id }}"
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
    let workflow = yaml("workflows/pr-review.yml");
    for job in ["fork", "queue"] {
        let job = &workflow["jobs"][job];
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
    let queue = &yaml("workflows/pr-review.yml")["jobs"]["queue"];
    assert_eq!(queue["name"], Value::from(patchwright_report::review::check::NAME));
    assert_eq!(queue["if"], Value::from("github.event_name == 'merge_group'"));
    assert!(queue["steps"][0].get("uses").is_none());
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

/// A runner with a `gh` and a `cargo` of ours, which serve and build a `patchwright` that says how
/// it was called.
struct Runner {
    folder: tempfile::TempDir,
    context: BTreeMap<String, String>,
}

const PROGRAM: &str = "#!/bin/sh\n\
    if [ \"$1\" = --version ]; then echo 'patchwright fake'; exit; fi\n\
    echo \"called: $*\"\n\
    echo \"setup: $INPUT_SETUP\"\n\
    echo \"verify: $INPUT_VERIFY\"\n\
    echo \"token: $GITHUB_TOKEN\"\n";

impl Runner {
    /// `reference` is what the workflow wrote behind the `@`.
    fn new(reference: &str) -> Runner {
        let folder = tempfile::tempdir().unwrap();
        for name in ["bin", "temp", "release", "action"] {
            fs_err::create_dir_all(folder.path().join(name)).unwrap();
        }
        let at = |path: &str| folder.path().join(path);
        fs_err::write(at("action/Cargo.toml"), "[package]\nname = \"x\"\nversion = \"0.3.1\"\n")
            .unwrap();
        let gh = "#!/bin/sh\n\
            case \"$1 $2\" in\n\
            'api '*) echo 1111111111111111111111111111111111111111 ;;\n\
            'release download')\n\
              echo \"downloading $3\" >&2\n\
              [ \"$3\" = v0.3.1 ] || exit 1\n\
              while [ $# -gt 0 ]; do [ \"$1\" = --dir ] && to=$2; shift; done\n\
              if [ -e \"$RELEASE/../busy\" ]; then\n\
                echo 'HTTP 403: API rate limit exceeded' >&2\n\
                echo x >> \"$RELEASE/../busy\"; [ \"$(wc -l < \"$RELEASE/../busy\")\" -gt 2 ] || exit 1\n\
              fi\n\
              [ -e \"$RELEASE/SHA256SUMS\" ] || { echo 'release not found' >&2; exit 1; }\n\
              cp \"$RELEASE\"/* \"$to\" ;;\n\
            'attestation --help') [ -e \"$RELEASE/../attested\" ] ;;\n\
            'attestation verify') shift 2; echo \"verifying ${1##*/} $2 $3 $4 $5\" >&2\n\
              [ \"$(cat \"$RELEASE/../attested\")\" = yes ] ;;\n\
            *) exit 1 ;;\n\
            esac\n";
        let cargo = "#!/bin/sh\n\
            echo \"cargo $1 $2\" >&2\n\
            while [ $# -gt 0 ]; do [ \"$1\" = --root ] && to=$2; shift; done\n\
            mkdir -p \"$to/bin\" && cp \"$BUILT\" \"$to/bin/patchwright\"\n";
        for (path, text) in [("bin/gh", gh), ("bin/cargo", cargo), ("patchwright", PROGRAM)] {
            fs_err::write(at(path), text).unwrap();
            run("chmod", &["+x".into(), at(path)]);
        }
        let path = |name: &str| at(name).display().to_string();
        let context = [
            ("github.action_path", path("action")),
            ("github.action_ref", reference.to_owned()),
            ("github.action_repository", "patchwright/patchwright".to_owned()),
            ("github.token", "the-token".to_owned()),
            ("github.api_url", "https://api.github.example".to_owned()),
            ("github.server_url", "https://github.example".to_owned()),
            ("env.GITHUB_TOKEN || github.token", "the-token".to_owned()),
        ];
        let context = context.map(|(name, value)| (name.to_owned(), value)).into();
        Runner { folder, context }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Publishes a release whose `SHA256SUMS` is made from the archive and then edited.
    fn release(self, edit: impl Fn(String) -> String) -> Runner {
        let machine = String::from_utf8(run("uname", &["-m".into()]).stdout).unwrap();
        let name = format!("patchwright-{}-linux.tar.gz", machine.trim());
        let archive = self.at("release").join(&name);
        run(
            "tar",
            &["-czf".into(), archive.clone(), "-C".into(), self.at("."), "patchwright".into()],
        );
        let sum = String::from_utf8(run("sha256sum", &[archive]).stdout).unwrap();
        let sum = sum.split(' ').next().unwrap().to_owned();
        fs_err::write(self.at("release/SHA256SUMS"), edit(format!("{sum}  {name}\n"))).unwrap();
        self
    }

    fn input(mut self, name: &str, value: &str) -> Runner {
        self.context.insert(format!("inputs.{name}"), value.to_owned());
        self
    }

    /// Runs the steps one after the other, as the runner does, and returns all that they said.
    fn run(mut self) -> String {
        let action = yaml("action.yml");
        let mut out = String::new();
        for step in action["runs"]["steps"].as_array().unwrap() {
            // A step that uses another action is that action's business.
            let Some(lines) = step["run"].as_str() else { continue };
            let outputs = self.at("outputs");
            fs_err::write(&outputs, "").unwrap();
            let script = self.at("step.sh");
            fs_err::write(&script, lines).unwrap();
            let mut bash = Command::new("bash");
            bash.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(&script);
            bash.env_clear().current_dir(self.folder.path());
            bash.env("PATH", format!("{}:/usr/bin:/bin", self.at("bin").display()));
            bash.env("RUNNER_TEMP", self.at("temp")).env("GITHUB_OUTPUT", &outputs);
            bash.env("RELEASE", self.at("release")).env("BUILT", self.at("patchwright"));
            for (name, value) in step["env"].as_object().unwrap() {
                bash.env(name, self.evaluate(value.as_str().unwrap()));
            }
            let output = bash.output().unwrap();
            out += &said(&output);
            if !output.status.success() {
                return format!("{out}exit {}\n", output.status.code().unwrap());
            }
            for line in fs_err::read_to_string(&outputs).unwrap().lines() {
                let (name, value) = line.split_once('=').unwrap();
                let id = step["id"].as_str().unwrap();
                self.context.insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
            }
        }
        out
    }

    fn evaluate(&self, template: &str) -> String {
        let Some(expression) = template.strip_prefix("${{ ").and_then(|t| t.strip_suffix(" }}"))
        else {
            return template.to_owned();
        };
        let unset = expression.starts_with("inputs.").then(String::new);
        self.context.get(expression).cloned().or(unset).unwrap_or_else(|| panic!("{expression}"))
    }
}

fn run(program: &str, args: &[PathBuf]) -> Output {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    output
}

const TAGGED_COMMIT: &str = "1111111111111111111111111111111111111111";

#[test]
fn a_tag_or_its_commit_runs_the_released_program() {
    for reference in ["v0.3.1", "v0", "v0.3", TAGGED_COMMIT] {
        let runner = Runner::new(reference).release(|sums| sums);
        assert_eq!(
            runner.run(),
            "patchwright fake\ncalled: action\nsetup: \nverify: \ntoken: the-token\n",
            "{reference}"
        );
    }
}

#[test]
fn anything_else_is_built_from_source() {
    let other = "2222222222222222222222222222222222222222";
    for reference in ["main", "v2-dev", "vnext", "", other] {
        let runner = Runner::new(reference).release(|sums| sums);
        assert_eq!(
            runner.run(),
            "building Patchwright 0.3.1 from source\npatchwright fake\ncargo install --locked\n\
             called: action\nsetup: \nverify: \ntoken: the-token\n",
            "{reference}"
        );
    }
}

#[test]
fn a_wrong_or_missing_checksum_stops_the_action() {
    let edits: [fn(String) -> String; 3] = [
        |sums| sums.replacen(|c: char| c.is_ascii_hexdigit(), "g", 1),
        |_| String::new(),
        |sums| format!("{}{sums}", "0".repeat(64) + &sums[64..]),
    ];
    for edit in edits {
        let said = Runner::new("v0.3.1").release(edit).run();
        assert!(said.contains("::error title=Patchwright::the checksum of "), "{said}");
        assert!(said.ends_with("exit 1\n"), "{said}");
    }
}

impl Runner {
    /// Puts a program of ours before those of the machine.
    fn program(self, name: &str, script: &str) -> Runner {
        let path = self.at("bin").join(name);
        fs_err::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        run("chmod", &["+x".into(), path]);
        self
    }

    fn file(self, name: &str, text: &str) -> Runner {
        fs_err::write(self.at(name), text).unwrap();
        self
    }
}

#[test]
fn a_limit_that_passes_is_waited_for_instead_of_building() {
    let runner = Runner::new("v0.3.1").release(|sums| sums).file("busy", "");
    let said = runner.program("sleep", "echo \"waiting $1\" >&2").run();
    assert!(said.contains("rate limit exceeded") && said.contains("waiting 10"), "{said}");
    assert!(said.contains("called: action") && !said.contains("building"), "{said}");
}

#[test]
fn a_release_that_is_not_there_is_said_before_it_is_built() {
    let said = Runner::new("v0.3.1").program("sleep", "exit 9").run();
    assert!(said.contains("::warning title=Patchwright::v0.3.1 cannot be downloaded"), "{said}");
    assert!(said.contains("building Patchwright 0.3.1 from source"), "{said}");
}

#[test]
fn a_machine_without_an_archive_gets_a_build_and_is_told() {
    let runner = Runner::new("v0.3.1").release(|sums| sums).program("uname", "echo aarch64");
    let said = runner.run();
    assert!(said.contains("v0.3.1 has no patchwright-aarch64-linux.tar.gz"), "{said}");
    assert!(said.contains("building Patchwright 0.3.1 from source"), "{said}");
}

#[test]
fn an_archive_that_is_cut_short_or_has_no_sums_stops_the_action() {
    let cut = Runner::new("v0.3.1").release(|sums| sums);
    let archive = fs_err::read_dir(cut.at("release")).unwrap().map(|file| file.unwrap().path());
    let archive = archive.into_iter().find(|file| file.extension().is_some()).unwrap();
    let whole = fs_err::read(&archive).unwrap();
    fs_err::write(&archive, &whole[..whole.len() / 2]).unwrap();
    let said = cut.run();
    assert!(said.contains("::error title=Patchwright::the checksum of "), "{said}");
    assert!(said.ends_with("exit 1\n") && !said.contains("building"), "{said}");
}

#[test]
fn what_the_release_workflow_did_not_build_is_not_run() {
    let release = |attested| Runner::new("v0.3.1").release(|sums| sums).file("attested", attested);
    let said = release("yes").run();
    assert!(said.contains("called: action") && !said.contains("building"), "{said}");
    let said = release("no").run();
    let verified = "--repo patchwright/patchwright --signer-workflow \
                    patchwright/patchwright/.github/workflows/release.yml";
    assert!(said.contains("verifying patchwright-") && said.contains(verified), "{said}");
    assert!(said.contains("::error title=Patchwright::nothing shows that the release workflow"));
    assert!(said.ends_with("exit 1\n") && !said.contains("called"), "{said}");
}

#[test]
fn a_runner_without_gh_downloads_by_curl() {
    for reference in ["v0.3.1", TAGGED_COMMIT] {
        let runner = Runner::new(reference).release(|sums| sums);
        fs_err::remove_file(runner.at("bin/gh")).unwrap();
        // A `gh` of the machine would be found as well.
        if Path::new("/usr/bin/gh").exists() {
            eprintln!("skipped: this machine has `gh`");
            return;
        }
        let curl = "while [ $# -gt 1 ]; do [ \"$1\" = --output ] && to=$2; shift; done\n\
                    echo \"asking $1\" >&2\n\
                    case $1 in\n\
                    https://github.example/patchwright/patchwright/releases/download/v0.3.1/*)\n\
                      cp \"$RELEASE/${1##*/}\" \"$to\" ;;\n\
                    https://api.github.example/repos/patchwright/patchwright/commits/v0.3.1)\n\
                      printf 1111111111111111111111111111111111111111 ;;\n\
                    *) exit 22 ;;\n\
                    esac";
        let said = runner.program("curl", curl).run();
        assert!(said.contains("called: action") && !said.contains("building"), "{said}");
    }
}

#[test]
fn inputs_reach_the_program_and_never_the_shell() {
    let hostile = "$(touch pwned) `touch pwned`; touch pwned '\"\n::set-env name=A::b";
    let runner = Runner::new("main").input("setup", hostile).input("verify", "make test");
    let folder = runner.folder.path().to_owned();
    let said = runner.run();
    assert!(said.contains(&format!("setup: {hostile}\nverify: make test\n")), "{said}");
    assert!(!folder.join("pwned").exists());
}

#[test]
fn only_the_last_job_of_a_night_can_write() {
    let workflow = yaml("workflows/nightly-batch.yml");
    assert_eq!(workflow["permissions"], serde_json::json!({}));
    for name in ["plan", "run"] {
        let job = &workflow["jobs"][name];
        assert_eq!(job["permissions"], serde_json::json!({"contents": "read"}), "{name}");
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
    assert_eq!(may_write("packages"), ["image"]);
    assert_eq!(may_write("id-token"), ["attest", "image"]);
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
    // What has the right to write to the repository runs nothing that was checked out.
    assert!(!jobs["publish"].to_string().contains("checkout"));
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
