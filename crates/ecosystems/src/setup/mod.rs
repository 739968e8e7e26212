//! How the dependencies of a repository are installed, when nobody wrote it.
//!
//! [`detect`] reads lock files and manifests (one row of [`RULES`] an ecosystem), the repository's
//! `copilot-setup-steps.yml`, `devcontainer.json` and CI files, and makes commands of them. The commands
//! run with `sh -c` in the folder that they name, in a container with a network for the hosts of their
//! ecosystem, as root or as an ordinary user whose home stays. They change no lock file and no tracked
//! file; what they create is in [`SetupPlan::artefacts`]. Each stands for itself: one that fails is a
//! note, and the next one runs.

mod absent;
mod node;
mod others;
mod python;
mod tox;
mod versions;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::absent::absent_packages;
use crate::ci::{self, CiPlan, StepPurpose};
use crate::files::{Files, Tree, join};
use crate::packages;
use crate::registries::Ecosystem;

/// Most steps of a plan, and most bytes of a command.
const MAX_STEPS: usize = 40;
const MAX_COMMAND: usize = 8_000;
/// Most packages below the root that get steps of their own.
const MAX_NESTED: usize = 12;

/// Where something is said, or which rule follows from what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file of the repository.
    pub file: String,
    /// From 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The rule that made a command of it: `npm ci`, `job test`.
    pub rule: String,
}

/// Something to say about a file, for the report and for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub file: String,
    pub text: String,
}

/// One command of setup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// For `sh -c`.
    pub command: String,
    /// Where it runs; the root of the tree is empty.
    pub folder: String,
    pub why: Source,
    /// Whose registries it asks. `None` when the repository wrote the command: any of them.
    pub ecosystem: Option<Ecosystem>,
}

impl Step {
    /// The command with its folder, for a list of commands that run at the root.
    pub fn line(&self) -> String {
        match self.folder.as_str() {
            "" => self.command.clone(),
            folder => format!("cd {} && {{ {}\n}}", crate::files::quote(folder), self.command),
        }
    }

    /// The hosts that it needs.
    pub fn hosts(&self) -> Vec<&'static str> {
        self.ecosystem.map_or_else(crate::registries::hosts, |it| it.hosts().to_vec())
    }
}

/// A version that the repository asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// As it is written: `3.12`, `>=20`, `lts/*`.
    pub value: String,
    pub why: Source,
}

/// How a repository is set up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupPlan {
    pub steps: Vec<Step>,
    /// By tool: `python`, `node`, `go`, `rust`, `ruby`, `java`, `php`, `dotnet`, `elixir`, `pnpm`, …
    pub versions: BTreeMap<String, Version>,
    pub notes: Vec<Note>,
    /// Patterns, as in a `.gitignore`, of what the steps leave in the tree.
    pub artefacts: BTreeSet<String>,
    /// Folders that belong in front of `PATH` for every later command, relative to the root.
    pub paths: Vec<String>,
    /// Variables for every later command: there is no network then.
    pub environment: BTreeMap<String, String>,
}

/// A folder with manifests, as the rules see it.
pub(crate) struct Package<'a> {
    pub files: &'a Files<'a>,
    pub folder: &'a str,
    notes: &'a RefCell<Vec<Note>>,
}

impl Package<'_> {
    pub(crate) fn path(&self, name: &str) -> String {
        join(self.folder, name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.files.has_file(&self.path(name))
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.files.text(&self.path(name))
    }

    fn note(&self, name: &str, text: impl Into<String>) {
        self.notes.borrow_mut().push(Note { file: self.path(name), text: text.into() });
    }

    /// A step because of a file.
    fn step(&self, ecosystem: Ecosystem, file: &str, rule: &str, command: String) -> Step {
        let why = Source { file: self.path(file), line: None, rule: rule.to_owned() };
        Step { command, folder: self.folder.to_owned(), why, ecosystem: Some(ecosystem) }
    }
}

/// An ecosystem: what its steps are, and what is true after them.
struct Rule {
    ecosystem: Ecosystem,
    /// The manifest by which a workspace above takes care of packages below.
    manifest: &'static str,
    steps: fn(&Package<'_>) -> Vec<Step>,
    artefacts: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

/// One row an ecosystem.
const RULES: &[Rule] = &[
    Rule {
        ecosystem: Ecosystem::Python,
        manifest: "pyproject.toml",
        steps: python::steps,
        artefacts: &["*.egg-info/", ".venv/", "__pycache__/", ".pdm-python", "build/"],
        environment: &[("UV_OFFLINE", "1"), ("PIP_NO_INDEX", "1")],
    },
    Rule {
        ecosystem: Ecosystem::Node,
        manifest: "package.json",
        steps: node::steps,
        artefacts: &["node_modules/", ".yarn/cache/", ".yarn/install-state.gz", ".pnp.*"],
        environment: &[("npm_config_offline", "true"), ("COREPACK_ENABLE_NETWORK", "0")],
    },
    Rule {
        ecosystem: Ecosystem::Deno,
        manifest: "deno.json",
        steps: others::deno,
        artefacts: &["node_modules/"],
        environment: &[],
    },
    Rule {
        ecosystem: Ecosystem::Rust,
        manifest: "Cargo.toml",
        steps: others::cargo,
        artefacts: &["target/"],
        environment: &[("CARGO_NET_OFFLINE", "true")],
    },
    Rule {
        ecosystem: Ecosystem::Go,
        manifest: "go.mod",
        steps: others::go,
        artefacts: &[],
        environment: &[("GOPROXY", "off"), ("GOTOOLCHAIN", "local")],
    },
    Rule {
        ecosystem: Ecosystem::Ruby,
        manifest: "Gemfile",
        steps: others::bundler,
        artefacts: &[".bundle/", "vendor/bundle/"],
        environment: &[],
    },
    Rule {
        ecosystem: Ecosystem::Php,
        manifest: "composer.json",
        steps: others::composer,
        artefacts: &["vendor/"],
        environment: &[("COMPOSER_DISABLE_NETWORK", "1")],
    },
    Rule {
        ecosystem: Ecosystem::Jvm,
        manifest: "pom.xml",
        steps: others::maven,
        artefacts: &["target/"],
        environment: &[],
    },
    Rule {
        ecosystem: Ecosystem::Jvm,
        manifest: "build.gradle",
        steps: others::gradle,
        artefacts: &["build/", ".gradle/"],
        environment: &[],
    },
    Rule {
        ecosystem: Ecosystem::Dotnet,
        manifest: ".sln",
        steps: others::dotnet,
        artefacts: &["bin/", "obj/"],
        environment: &[],
    },
    Rule {
        ecosystem: Ecosystem::Elixir,
        manifest: "mix.exs",
        steps: others::mix,
        artefacts: &["_build/", "deps/"],
        environment: &[("HEX_OFFLINE", "1")],
    },
];

/// How the repository is set up. In this order, later ones only for what is not covered yet:
/// 1. packages of the distribution that CI, `copilot-setup-steps.yml` or `devcontainer.json` install;
/// 2. `copilot-setup-steps.yml`, which is written for an agent;
/// 3. lock files and manifests, without the ecosystems that 2 installs;
/// 4. where 2 and 3 found nothing: the commands of `devcontainer.json`, or else CI's install steps, as [`of_tested`] has them.
pub fn detect(tree: &dyn Tree) -> SetupPlan {
    let files = Files::new(tree);
    let ci = ci::read(&files);
    let notes = RefCell::new(ci.notes.clone());
    let mut plan = SetupPlan::default();
    system(&ci, &mut plan);
    let system = plan.steps.len();
    let written = steps_of(&ci, |job| job.is_for_agents);
    let manager = node::manager_before(&files, &written);
    plan.steps.extend(written);
    rules((&files, &ci), &notes, &mut plan);
    if let Some(manager) = manager {
        plan.steps.insert(system, manager);
    }
    if plan.steps.len() == system {
        plan.steps.extend(steps_of(&ci, |job| job.is_container));
    }
    if plan.steps.len() == system {
        plan.steps.extend(of_tested(&ci));
    }
    versions::collect(&files, &ci, &mut plan.versions);
    plan.notes = notes.into_inner();
    bound(&mut plan);
    plan
}

/// Packages of the distribution, in one step: those of jobs with tests, where there are any. Only names are taken from CI's
/// commands. One that the distribution of the image does not have is left out.
fn system(ci: &CiPlan, plan: &mut SetupPlan) {
    let mut names: Vec<String> = Vec::new();
    let mut why = None;
    let is_wanted =
        |job: &ci::Job| job.is_for_agents || job.is_container || job.tests().next().is_some();
    let has_wanted = ci.jobs.iter().any(is_wanted);
    let jobs = ci.jobs.iter().filter(|job| !has_wanted || is_wanted(job));
    for step in jobs.flat_map(|job| &job.steps).filter(|step| step.unusable.is_none()) {
        for name in ci::system_packages(&step.command) {
            why.get_or_insert_with(|| step.why.clone());
            if !names.contains(&name) && names.len() < 60 {
                names.push(name);
            }
        }
    }
    let Some(why) = why else { return };
    let install = "apt-get install -q -y --no-install-recommends";
    let all = names.join(" ");
    let all = match names.as_slice() {
        [one] => format!("{install} {one}"),
        _ => format!(
            "{{ {install} {all} || for package in {all}; do {install} \"$package\" || echo \"$package is left out\" >&2; done; }}"
        ),
    };
    let command = format!(
        "[ \"$(id -u)\" = 0 ] && command -v apt-get >/dev/null || exit 0\nexport DEBIAN_FRONTEND=noninteractive\n\
         apt-get update -q && {all}"
    );
    plan.steps.push(Step {
        command,
        folder: String::new(),
        why,
        ecosystem: Some(Ecosystem::System),
    });
}

/// The install steps of the jobs that checks come from, and of those whose files these take over; of all jobs where none
/// has tests that can be run here. What a job installs that deploys or writes documents is of no use to the tests.
fn of_tested(ci: &CiPlan) -> Vec<Step> {
    let is_tested = |job: &ci::Job| !job.is_container && job.tests().next().is_some();
    if !ci.jobs.iter().any(is_tested) {
        return steps_of(ci, |job| !job.is_container);
    }
    let is_taken_over = |job: &ci::Job| {
        let takes = |it: &ci::Job| it.file == job.file && it.takes_from.contains(&job.name);
        ci.jobs.iter().any(|it| is_tested(it) && takes(it))
    };
    steps_of(ci, |job| !job.is_container && (is_tested(job) || is_taken_over(job)))
}

fn steps_of(ci: &CiPlan, is_wanted: impl Fn(&ci::Job) -> bool) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for job in ci.jobs.iter().filter(|job| is_wanted(job)) {
        for step in job
            .steps
            .iter()
            .filter(|step| step.unusable.is_none() && step.is_for == StepPurpose::Install)
        {
            if ci::is_system_only(&step.command) {
                continue;
            }
            let made = Step {
                // Setup runs as root, where `sudo` is not installed.
                command: step.with_environment().replace("sudo ", ""),
                folder: step.folder.clone(),
                why: step.why.clone(),
                ecosystem: None,
            };
            if !steps
                .iter()
                .any(|known| known.command == made.command && known.folder == made.folder)
            {
                steps.push(made);
            }
        }
    }
    steps
}

fn rules((files, ci): (&Files<'_>, &CiPlan), notes: &RefCell<Vec<Note>>, plan: &mut SetupPlan) {
    let written: String = plan.steps.iter().map(|step| format!("{}\n", step.command)).collect();
    let mut nested = 0;
    let mut left_out = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for folder in packages::folders(files) {
        // What tests only read is not installed, unless CI does something there.
        if packages::is_beside_code(&folder)
            && known.iter().any(|above| is_below(&folder, above))
            && !ci.steps().any(|step| names_folder(step, &folder))
        {
            continue;
        }
        if nested >= MAX_NESTED {
            left_out.push(folder);
            continue;
        }
        let package = Package { files, folder: &folder, notes };
        let mut has_steps = false;
        for rule in RULES {
            if packages::is_member(files, &folder, rule.manifest)
                || (folder.is_empty() && is_installed_by(&written, rule.ecosystem))
            {
                continue;
            }
            let steps = (rule.steps)(&package);
            if steps.is_empty() {
                continue;
            }
            has_steps = true;
            plan.steps.extend(steps);
            plan.artefacts.extend(rule.artefacts.iter().map(|it| (*it).to_owned()));
            let pairs =
                rule.environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            plan.environment.extend(pairs);
            if rule.ecosystem == Ecosystem::Python && python::makes_venv(&package) {
                plan.paths.push(join(&folder, ".venv/bin"));
            }
        }
        nested += usize::from(has_steps && !folder.is_empty());
        if has_steps {
            known.push(folder);
        }
    }
    if !left_out.is_empty() {
        let text = format!("{} more packages are not set up: {}", left_out.len(), some(&left_out));
        notes.borrow_mut().push(Note { file: String::new(), text });
    }
}

fn is_below(folder: &str, above: &str) -> bool {
    above.is_empty() || folder.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// A step runs in a folder, or its words name it.
fn names_folder(step: &ci::CiStep, folder: &str) -> bool {
    let is_end = |c: char| c.is_whitespace() || "'\";&|()=".contains(c);
    let mut words = step.command.split(is_end).map(|word| word.trim_start_matches("./"));
    let inside = join(&step.folder, "");
    let inside = folder.strip_prefix(&inside).unwrap_or(folder);
    step.folder == folder
        || words.any(|word| word.trim_end_matches('/') == inside || is_below(word, inside))
}

/// The first names of a list.
fn some(names: &[String]) -> String {
    let mut text = names.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > 5 {
        text.push_str(", …");
    }
    text
}

/// Whether commands that the repository wrote install what a rule would.
fn is_installed_by(commands: &str, ecosystem: Ecosystem) -> bool {
    let words: &[&str] = match ecosystem {
        Ecosystem::Python => {
            &["pip install", "uv sync", "uv pip", "poetry install", "pdm ", "pipenv "]
        }
        Ecosystem::Node => {
            &["npm ci", "npm install", "npm i\n", "pnpm i", "yarn\n", "yarn install", "bun i"]
        }
        Ecosystem::Deno => &["deno install", "deno cache"],
        Ecosystem::Rust => &["cargo fetch", "cargo build"],
        Ecosystem::Go => &["go mod download", "go get", "go build"],
        Ecosystem::Ruby => &["bundle install"],
        Ecosystem::Php => &["composer install"],
        Ecosystem::Jvm => &["mvn ", "mvnw ", "gradle ", "gradlew "],
        Ecosystem::Dotnet => &["dotnet restore", "dotnet build"],
        Ecosystem::Elixir => &["mix deps.get"],
        Ecosystem::System => &[],
    };
    words.iter().any(|word| commands.contains(word))
}

fn bound(plan: &mut SetupPlan) {
    let notes = &mut plan.notes;
    plan.steps.retain(|step| {
        let fits = step.command.len() <= MAX_COMMAND;
        if !fits {
            let text = format!("a step of more than {MAX_COMMAND} bytes is left out");
            notes.push(Note { file: step.why.file.clone(), text });
        }
        fits
    });
    if plan.steps.len() > MAX_STEPS {
        let text = format!("{} more steps are left out", plan.steps.len() - MAX_STEPS);
        notes.push(Note { file: String::new(), text });
        plan.steps.truncate(MAX_STEPS);
    }
    notes.dedup();
    notes.truncate(50);
}

#[cfg(test)]
mod tests;
