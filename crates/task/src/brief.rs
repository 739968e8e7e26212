//! What the agent is told at the start, in layers and in this order: the system prompt, the
//! environment, the repository's instruction files, its skills, the mode, the task.
//!
//! [`Brief::assemble`] is pure: the same sources give the same text.

use std::collections::BTreeSet;

use super::admit::AdmittedIssue;
use super::checks::Checks;
use super::earlier;
use super::job::{Job, Subject};
use super::probe;
use super::respond::work::{self, ChangedFiles};
use super::run::Run;
use super::structured;
use super::title;
use super::workspace::{Checkout, Workspace};
use crate::context::agents::AgentFiles;
use crate::context::baseline;
use crate::context::environment::{self, Environment, InstalledPrograms};
use crate::context::instructions::{self, Instructions};
use crate::context::map;
use crate::context::memory;
use crate::context::pictures::{self, Pictures};
use crate::context::services;
use crate::context::setup;
use crate::context::skills::{self, Skills};
use crate::context::thread::{self, Thread};
use patchwright_agent::ExpectedChange;
use patchwright_base::error::Result;
use patchwright_config::{Mode, Personality};
use patchwright_journal::Entry;
use patchwright_prompt::{self as prompt, SystemPrompt};
use patchwright_provider::ToolDeclaration;
use patchwright_provider::catalogue::Model;
use patchwright_provider::item::{Content, Item, Message, Role};
use patchwright_sandbox::{PreparedImage, Running};
use patchwright_tools::registry::ToolSet;
use patchwright_types::evidence::CheckRun;

/// Files that are looked at for instructions and skills.
const MAX_PATHS: usize = 500_000;

/// What is known before the sandbox runs.
#[derive(Debug, Default)]
pub struct Brief {
    /// The system prompt.
    pub instructions: String,
    pub files: Instructions,
    pub skills: Skills,
    /// Who may be started as a sub-agent, besides the built-in ones.
    pub agents: AgentFiles,
    pub mode: Mode,
    /// Overrides the default text about the mode.
    mode_text: Option<&'static str>,
    /// What the operator wants of every run.
    standing: String,
    /// The repository in short.
    map: String,
    /// The image of the sandbox, and what was found in it.
    pub(super) image: String,
    pub(super) found: InstalledPrograms,
    /// The toolchains that the repository's files are for.
    toolchains: BTreeSet<&'static str>,
    /// The task in words.
    pub task: String,
    /// The pictures that belong to it.
    pictures: Vec<Content>,
    /// The task is a change: a model that makes none is asked about it.
    pub expects_change: ExpectedChange,
    /// The JSON Schema of the result, where the task ends with one.
    pub output_schema: Option<serde_json::Value>,
    /// For the report: what was removed from or left out of the input.
    pub notes: Vec<String>,
    checks: Vec<String>,
    /// What was installed, as a block of text.
    setup: String,
    /// The servers beside the sandbox, as a block of text.
    services: String,
    /// How the checks went before.
    baseline: String,
    /// The sandbox has the folders of `checkout.sparse` only.
    is_sparse: bool,
}

/// What a brief is made of.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    pub model: &'a Model,
    /// What the model can call.
    pub tools: &'a [ToolDeclaration],
    pub personality: Personality,
    pub mode: Mode,
    /// The files of the base commit, and how one is read.
    pub paths: &'a [String],
    pub read: &'a dyn Fn(&str) -> Option<Vec<u8>>,
    /// The task in words.
    pub task: &'a str,
    /// The commands by which the change will be judged.
    pub checks: &'a [String],
    /// The files of what is worked on, and the subjects of its last commits, clean.
    pub worked_on: (&'a [String], &'a [String]),
}

impl Brief {
    /// The brief of a job. Instructions and skills come from the rules, whatever is worked on.
    pub(super) async fn of_job(
        run: &Run<'_>,
        job: &Job<'_>,
        checks: &Checks,
        before: &[CheckRun],
    ) -> Result<Brief> {
        let (mut task, mut notes) = job.subject.task_text(run, job.checkout, checks).await?;
        if !job.earlier.is_empty() {
            let (workspace, trigger) = (&job.checkout.workspace, job.trigger());
            let (told, left_out) = earlier::text(run, workspace, job.earlier, trigger).await?;
            task = format!("{}\n\n{told}", task.trim_end());
            notes.extend(left_out);
        }
        if job.names_its_change()
            && run.config.mode == Mode::Execute
            && let Some(told) = title::title_rules(&run.config)?
        {
            task = format!("{}\n\n{told}", task.trim_end());
        }
        let seen = (job.checkout.rules.workspace(), &job.checkout.workspace);
        let mut brief = Brief::with(run, seen, &task, notes, &checks.told()).await?;
        let shown = job.subject.pictures(run).await?;
        brief.pictures = shown.content;
        brief.notes.extend(shown.notes);
        let expects_change = match run.config.mode {
            Mode::Execute => job.expected_change(),
            Mode::Plan | Mode::Review => ExpectedChange::None,
        };
        let baseline = baseline::render(before)?;
        let output_schema = run.config.output_schema.clone().filter(|_| job.has_result);
        if let Some(schema) = &output_schema {
            brief.task = format!("{}\n\n{}", brief.task.trim_end(), structured::ahead(schema)?);
        }
        let mode_text = job.mode_text;
        Ok(Brief { mode_text, expects_change, output_schema, baseline, ..brief })
    }

    /// The brief for a task that is in words already, and that no checks judge: what decides about the run, and what is
    /// worked on.
    pub async fn of(
        run: &Run<'_>,
        seen: (&Workspace, &Workspace),
        task: &str,
        notes: Vec<String>,
    ) -> Result<Brief> {
        Brief::with(run, seen, task, notes, &[]).await
    }

    async fn with(
        run: &Run<'_>,
        (workspace, worked_on): (&Workspace, &Workspace),
        task: &str,
        notes: Vec<String>,
        checks: &[String],
    ) -> Result<Brief> {
        // Of the base commit: what a model or a contributor changes is not obeyed.
        let paths = workspace.paths(MAX_PATHS).await?;
        // Nothing of the map is obeyed, and it is of no use where it is not that of the working tree.
        let names = if worked_on.seen() == workspace.seen() {
            None
        } else {
            Some(worked_on.paths(MAX_PATHS).await?)
        };
        let (repo, base) = (worked_on.repo.clone(), worked_on.base);
        let subjects = tokio::task::spawn_blocking(move || map::subjects(&repo, base)).await;
        let mut brief = Brief::assemble(&Sources {
            model: &run.world.model,
            tools: &tools(run)?.described(),
            personality: run.config.personality,
            mode: run.config.mode,
            paths: &paths,
            read: &|path| workspace.file_now(path),
            task,
            checks,
            // Without subjects the map is only shorter.
            worked_on: (names.as_ref().unwrap_or(&paths), &subjects.unwrap_or_default()),
        })?;
        if run.config.memory {
            let before = brief.files.notes.len();
            memory::add(&mut brief.files, workspace.file_now(patchwright_report::memory::FILE));
            brief.notes.extend(brief.files.notes[before..].iter().cloned());
        }
        brief.notes.splice(0..0, notes);
        brief.notes.extend(run.submodules.notes());
        brief.notes.extend(run.contents.notes());
        brief.notes.extend(workspace.sparse_notes(&run.config.checkout.sparse).await?);
        brief.standing = standing(run)?;
        brief.is_sparse = workspace.seen() != workspace.base;
        brief.setup = setup::render(&run.setup.lock());
        Ok(brief)
    }

    /// Everything that is known before the sandbox runs.
    pub fn assemble(sources: &Sources<'_>) -> Result<Brief> {
        let Sources { model, tools, personality, mode, paths, read, task, checks, worked_on } =
            *sources;
        let files = instructions::instructions(paths.iter().map(String::as_str), read);
        let skills = skills::skills(paths.iter().map(String::as_str), read);
        let agents = AgentFiles::of_repository(paths.iter().map(String::as_str), read);
        let notes = files.notes.iter().chain(&skills.notes).cloned().collect();
        let system = SystemPrompt { model, tools, personality };
        Ok(Brief {
            instructions: instructions_for(&system, mode)?,
            files,
            skills,
            agents,
            mode,
            mode_text: None,
            expects_change: ExpectedChange::None,
            output_schema: None,
            standing: String::new(),
            map: map::render(worked_on.0.iter().map(String::as_str), worked_on.1, mode),
            image: String::new(),
            found: InstalledPrograms::default(),
            toolchains: environment::toolchains_for(paths),
            task: task.to_owned(),
            pictures: Vec::new(),
            notes,
            checks: checks.to_vec(),
            setup: String::new(),
            services: String::new(),
            baseline: String::new(),
            is_sparse: false,
        })
    }

    /// The system prompt, which speaks of the tools that the model really gets.
    pub fn instructions(&self, run: &Run<'_>, tools: &ToolSet) -> Result<String> {
        self.instructions_for(run, &run.world.model, tools)
    }

    /// The instructions for another model than the run's own.
    pub(super) fn instructions_for(
        &self,
        run: &Run<'_>,
        model: &Model,
        tools: &ToolSet,
    ) -> Result<String> {
        let system = SystemPrompt {
            model,
            tools: tools.declarations(),
            personality: run.config.personality,
        };
        instructions_for(&system, self.mode)
    }

    /// The files of the repository whose text stands in the opening, for the report.
    pub fn instruction_files(&self) -> Vec<String> {
        let used = self.skills.used(&self.task).into_iter().map(|skill| skill.path.clone());
        self.files.files().into_iter().chain(used).collect()
    }

    /// The opening of the conversation in a running sandbox.
    pub fn items(&self, run: &Run<'_>, sandbox: &Running) -> Result<Vec<Item>> {
        self.opening(&self.environment(run, sandbox)?)
    }

    /// What every agent of the run is told before its own task.
    pub fn surroundings(&self, run: &Run<'_>, sandbox: &Running) -> Result<Vec<Item>> {
        // The task names the checks, and these agents get tasks of their own.
        let checks = self.checks.clone();
        let environment = Environment { checks, ..self.environment(run, sandbox)? };
        let layers = [
            (Role::Developer, environment::render(&environment)),
            (Role::Developer, self.standing.clone()),
            (Role::User, self.setup.clone()),
            (Role::User, self.services.clone()),
            (Role::User, self.baseline.clone()),
            (Role::User, self.map.clone()),
            (Role::User, self.files.render(&environment.cwd)),
            (Role::User, self.skills.render("")?),
        ];
        let layers = layers.into_iter().filter(|(_, text)| !text.is_empty());
        Ok(layers.map(|(role, text)| message(role, text)).collect())
    }

    /// Looks what the sandbox has. What it does not say is not told.
    pub(super) async fn look_around(
        &mut self,
        run: &Run<'_>,
        sandbox: &Running,
        image: &PreparedImage,
    ) {
        self.services = services::render(&run.services.report());
        self.found = probe::look(sandbox, image, &self.toolchains).await;
        self.image = environment::image_name(&image.description);
    }

    fn environment(&self, run: &Run<'_>, sandbox: &Running) -> Result<Environment> {
        let limits = &run.config.limits;
        Ok(Environment {
            cwd: sandbox.workspace.clone(),
            shell: sandbox.client.hello().shell.clone(),
            date: run.world.clock.now().format("%Y-%m-%d").to_string(),
            allowed_hosts: allowed_hosts(run)?,
            writable: environment::writable(self.mode, &sandbox.workspace),
            sandbox: sandbox_words(run),
            image: if has_image(run) { self.image.clone() } else { String::new() },
            found: self.found.clone(),
            memory_mib: sandbox.memory_mib().filter(|_| self.mode != Mode::Plan),
            command_timeout: (self.mode != Mode::Plan).then_some(limits.command_timeout),
            time_budget: run.remaining(),
            max_turns: limits.max_turns,
            // Of a model without a price nobody knows the cost, so the limit ends nothing.
            max_cost_usd: (run.world.model.price.is_some() && limits.max_cost_usd > 0.0)
                .then_some(limits.max_cost_usd),
            submodules: run.submodules.paths(),
            absent_submodules: run.submodules.absent(),
            sparse: if self.is_sparse { run.config.checkout.sparse.clone() } else { Vec::new() },
            checks: Vec::new(),
        })
    }

    /// The opening of the conversation: all layers but the system prompt.
    pub fn opening(&self, environment: &Environment) -> Result<Vec<Item>> {
        let mode = match self.mode_text {
            Some(text) => text,
            None => prompt::mode(self.mode)?.unwrap_or_default(),
        };
        let layers = [
            (Role::Developer, environment::render(environment)),
            (Role::Developer, self.standing.clone()),
            (Role::User, self.setup.clone()),
            (Role::User, self.services.clone()),
            (Role::User, self.baseline.clone()),
            (Role::User, self.map.clone()),
            (Role::User, self.files.render(&environment.cwd)),
            (Role::User, self.skills.render(&self.task)?),
            (Role::Developer, mode.to_owned()),
            (Role::User, self.task.clone()),
        ];
        let layers = layers.into_iter().filter(|(_, text)| !text.is_empty());
        let mut items: Vec<Item> = layers.map(|(role, text)| message(role, text)).collect();
        if let Some(Item::Message(task)) = items.last_mut() {
            task.content.extend(self.pictures.iter().cloned());
        }
        Ok(items)
    }
}

/// What the operator wants of every run, in a layer of its own.
fn standing(run: &Run<'_>) -> Result<String> {
    match run.config.instructions.as_deref().map(str::trim) {
        None | Some("") => Ok(String::new()),
        Some(text) => prompt::standing(text),
    }
}

fn instructions_for(system: &SystemPrompt<'_>, mode: Mode) -> Result<String> {
    match mode {
        Mode::Execute | Mode::Plan => prompt::system(system),
        Mode::Review => prompt::review_system(system),
    }
}

/// The tools of a run, before anything is known of its sandbox.
pub fn tools(run: &Run<'_>) -> Result<ToolSet> {
    ToolSet::for_run(&run.world.model, run.config.mode, &run.world.hosted_tools)
}

/// The hosts that commands can reach, without the addresses that some are pinned to.
fn allowed_hosts(run: &Run<'_>) -> Result<Vec<String>> {
    let egress = run.egress()?;
    let hosts = egress.iter().flat_map(|egress| egress.hosts());
    Ok(hosts.map(|host| host.split('=').next().unwrap_or_default().trim().to_owned()).collect())
}

fn sandbox_words(run: &Run<'_>) -> String {
    match run.world.sandbox.name() {
        _ if has_image(run) => "locked container".to_owned(),
        name => format!("{name}, confined to the workspace"),
    }
}

/// Commands run in a container, Docker's or one of a pod.
fn has_image(run: &Run<'_>) -> bool {
    matches!(run.world.sandbox.name(), "docker" | "kubernetes")
}

impl Subject<'_> {
    /// The task in words, and what was left out of it.
    pub(super) async fn task_text(
        &self,
        run: &Run<'_>,
        checkout: &Checkout,
        checks: &Checks,
    ) -> Result<(String, Vec<String>)> {
        // A run that only plans leaves nothing to check.
        let checks = if run.config.mode == Mode::Plan { Vec::new() } else { checks.told() };
        let checks = checks.as_slice();
        match *self {
            Subject::Issue(issue) => issue_text(run, issue, checks),
            Subject::Triage(told) => Ok((told.text.clone(), told.notes.clone())),
            Subject::Exec(request) => Ok((prompt::exec_task(&request.prompt, checks)?, Vec::new())),
            Subject::Prompt(request) => {
                Ok((prompt::exec_task(&request.prompt, checks)?, Vec::new()))
            }
            Subject::Campaign(request) => {
                let text = prompt::campaign_task(&prompt::CampaignTask {
                    repository: &request.repository.to_string(),
                    base_branch: &request.base_branch,
                    prompt: &request.prompt,
                    checks,
                })?;
                Ok((text, Vec::new()))
            }
            Subject::Command(command, instruction) => {
                let (mut changed, mut on_forge) = (ChangedFiles::default(), String::new());
                if let Some(conflict) = instruction.conflict {
                    changed = conflict.changed.clone();
                } else if command.pull.is_some() {
                    changed = ChangedFiles::of(run, checkout).await;
                    // An agent that repairs checks has been given the failing ones with their logs.
                    if instruction.failures.is_empty() {
                        on_forge = work::results_on_forge(run, command, checkout).await;
                    }
                }
                instruction.task_text(run, command, checks, &changed, &on_forge)
            }
        }
    }
}

impl Subject<'_> {
    /// The pictures of what is worked on, for a model that sees them. A resumed run has them already.
    async fn pictures(&self, run: &Run<'_>) -> Result<Pictures> {
        let is_prompted =
            run.folder.find(|entry| matches!(entry, Entry::Prompted { .. }).then_some(()));
        if !run.world.model.images || is_prompted.is_some() {
            return Ok(Pictures::default());
        }
        let (repository, number, snapshot) = match *self {
            Subject::Issue(issue) => (&issue.repository, issue.issue.number, &issue.snapshot),
            Subject::Command(command, _) => {
                (&command.repository, command.request.number, &command.snapshot)
            }
            Subject::Exec(_) | Subject::Prompt(_) | Subject::Campaign(_) | Subject::Triage(_) => {
                return Ok(Pictures::default());
            }
        };
        let forge = run.world.forge()?.as_ref();
        Ok(pictures::of(forge, &repository.id, number, snapshot).await)
    }
}

/// The conversation as it stood at the trigger, hidden text removed, delimited at random.
fn issue_text(
    run: &Run<'_>,
    issue: &AdmittedIssue,
    checks: &[String],
) -> Result<(String, Vec<String>)> {
    let (stop, trigger) = (run.stop(), issue.request.trigger.as_ref());
    let AdmittedIssue { issue: about, comments, linked, .. } = issue;
    let thread = Thread { issue: about, comments, trigger, linked };
    let thread = thread::thread_within(&thread, &|| stop.is_over(), &mut rand::random);
    let mut text = prompt::issue_task(&prompt::IssueTask {
        repository: &issue.repository.id.to_string(),
        number: issue.issue.number,
        thread: &thread.text,
        checks,
        plans: run.config.mode == Mode::Plan,
    })?;
    if let Some(asked) = &run.environment.asked {
        text = format!("{text}\n\n{}", prompt::asked(asked)?);
    }
    if let Some(words) = &issue.refused_before {
        text = format!("{text}\n\n{}", prompt::push_refused(words)?);
    }
    Ok((text, thread.notes))
}

/// A message of plain text.
pub fn message(role: Role, text: String) -> Item {
    Item::Message(Message { role, content: vec![Content::text(text)], native: None })
}
