//! The image of a run: who may name it, and what setup leaves in it. Where nobody has configured setup, what
//! the repository's lock files and manifests ask for is installed.

use std::collections::BTreeMap;

use super::check_runs::with_limits;
use super::mcp;
use super::packing::Packing;
use super::run::Run;
use super::verify;
use super::workspace::{Rules, Workspace};
use patchwright_base::error::{Failure, Result};
use patchwright_base::text;
use patchwright_config::{Config, SandboxChoice, Setup, Source, Tenants, file};
use patchwright_ecosystems::results::digest;
use patchwright_ecosystems::setup::{self as ecosystems, SetupPlan, Step};
use patchwright_git::blocking;
use patchwright_sandbox::image::{self, NamedBy};
use patchwright_sandbox::setup::{SetupRun, network_hint, unreached_hint};
use patchwright_sandbox::{ImageSpec, PreparedImage, SandboxError};
use patchwright_types::setup::{SetupReport, SetupStep};

/// Bytes of a failed command's output in reports.
const OUTPUT: usize = 4_000;

/// Which runs may reuse the result of this setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReuseScope {
    /// Every run on the repository.
    ByAll,
    ByThisRun,
}

impl Run<'_> {
    /// The image with setup done in the tree that decides, which may be on its way already.
    pub(super) async fn prepare_image(
        &self,
        rules: &Rules,
        tree: Option<&Packing>,
    ) -> Result<PreparedImage> {
        let workspace = rules.workspace();
        let (image, report) = self.set_up(rules, workspace, tree, ReuseScope::ByAll).await?;
        for step in report.failed() {
            let hint = step.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
            self.environment.ui.say(&format!(
                "setup: `{}` {}{hint}",
                step.name,
                step.run.verdict()
            ));
        }
        *self.setup.lock() = report;
        Ok(image)
    }

    /// The image with setup done in a tree that the model has written. What image that is made from is still for
    /// the rules to say.
    pub(super) async fn set_up_again(
        &self,
        rules: &Rules,
        workspace: &Workspace,
    ) -> Result<(PreparedImage, SetupReport)> {
        self.set_up(rules, workspace, None, ReuseScope::ByThisRun).await
    }

    async fn set_up(
        &self,
        rules: &Rules,
        workspace: &Workspace,
        tree: Option<&Packing>,
        usable: ReuseScope,
    ) -> Result<(PreparedImage, SetupReport)> {
        mcp::check_addresses(self)?;
        let plan = self.setup_plan(workspace).await?;
        let commands = commands(&self.config, &plan);
        let packed = match tree {
            None if !commands.is_empty() => Some(self.pack(workspace).await?),
            Some(_) | None => None,
        };
        // Without commands nobody waits for it here.
        let tree = match tree.or(packed.as_ref()) {
            Some(tree) if !commands.is_empty() => Some(tree.tree().await?),
            Some(_) | None => None,
        };
        let own_id = self.own_id();
        let root_files = rules.workspace().root_files().await?;
        let asked = self.asked_for(&root_files, &commands);
        // What a model has written is set up anew.
        let begun_with = if usable == ReuseScope::ByAll { self.begun_with(&asked) } else { None };
        let spec = ImageSpec {
            repository: workspace.identity(&self.world.state).await?,
            image: self.config.image.as_deref(),
            named_by: self.named_by()?,
            setup: &commands,
            // What a model has written could send them somewhere.
            setup_secrets: match usable {
                ReuseScope::ByAll => &self.world.setup_secrets,
                ReuseScope::ByThisRun => &[],
            },
            setup_required: self.config.setup_required && usable == ReuseScope::ByAll,
            is_for_this_run: usable == ReuseScope::ByThisRun,
            setup_hosts: &self.config.setup_hosts(),
            setup_egress: if commands.is_empty() { None } else { self.setup_egress()? },
            setup_timeout: self.config.setup_timeout.min(self.remaining()),
            setup_bytes: self.config.container.workspace_bytes,
            setup_memory: self.config.container.memory_bytes,
            root_files: &root_files,
            begun_with: begun_with.as_ref(),
            lock_files: &workspace.lock_files(&commands).await?,
            tree,
            run: &own_id,
        };
        let prepared = self.world.sandbox.prepare(&spec).await;
        let failed = |error| called(error, &self.config, &plan, &commands).into();
        let mut image = prepared.map_err(|error| with_limits(self, failed(error)))?;
        image.asked = asked;
        // The time limit of the whole run is reached, not only that of setup, so the run cannot continue.
        let late = image.setup.iter().zip(&commands).position(|(ran, _)| ran.timed_out);
        if let Some(at) = late.filter(|_| self.remaining().is_zero()) {
            let command = name(&self.config, &plan, at, &commands[at]);
            let (limit, output) = (spec.setup_timeout, image.setup[at].output.clone());
            return Err(SandboxError::SetupTime { command, limit, output }.into());
        }
        if !commands.is_empty() {
            image.paths.clone_from(&plan.paths);
        }
        // Where hosts are allowed, package managers may ask them.
        if !commands.is_empty() && self.egress()?.is_none() {
            image.env.clone_from(&plan.environment);
        }
        let report = report(&self.config, &plan, &commands, &image);
        Ok((image, report))
    }

    /// What the repository's files ask for, unless setup is switched off.
    async fn setup_plan(&self, workspace: &Workspace) -> Result<SetupPlan> {
        if self.config.setup() == Setup::None {
            return Ok(SetupPlan::default());
        }
        let workspace = workspace.clone();
        let detected = blocking(move || Ok(ecosystems::detect(&workspace))).await;
        detected.map_err(|error| {
            super::workspace::failure(error, "cannot read the files that setup depends on")
        })
    }

    /// Who has named the image, when they may.
    fn named_by(&self) -> Result<NamedBy> {
        let config = &self.config;
        let said_by = config.sources.get("image");
        let Some(name) =
            config.image.as_deref().filter(|_| said_by == Some(&Source::RepositoryFile))
        else {
            return Ok(NamedBy::Operator);
        };
        // The local sandbox has no images.
        if config.sandbox == SandboxChoice::Local {
            return Ok(NamedBy::Repository);
        }
        if let Some(why) = image::refusal(name, &config.images) {
            let name = text::inline(name);
            let file = file::REPOSITORY_FILE;
            return Err(Failure::refused(format!("`image: {name}` of `{file}` {why}")).hint(
                "the operator allows images with `images` in `--config`, or `--allow-image`",
            ));
        }
        Ok(match config.tenants {
            Tenants::Many if !image::is_listed(name, &config.images) => NamedBy::OneOfMany,
            Tenants::Many | Tenants::One => NamedBy::Repository,
        })
    }
}

/// The commands of setup, for a shell at the root of the tree.
fn commands(config: &Config, plan: &SetupPlan) -> Vec<String> {
    match config.setup() {
        Setup::Detected => plan.steps.iter().map(Step::line).collect(),
        Setup::None => Vec::new(),
        Setup::Commands(commands) => commands.to_vec(),
    }
}

/// The error of a command that was found, by what the command is called instead of its whole text.
fn called(
    mut error: SandboxError,
    config: &Config,
    plan: &SetupPlan,
    commands: &[String],
) -> SandboxError {
    if let SandboxError::Setup { command, .. } | SandboxError::SetupTime { command, .. } =
        &mut error
        && let Some(at) = commands.iter().position(|known| known == command)
    {
        *command = name(config, plan, at, command);
    }
    error
}

/// What a command is called: `npm ci (package-lock.json)` where it was found, else the command itself.
fn name(config: &Config, plan: &SetupPlan, at: usize, command: &str) -> String {
    match plan.steps.get(at).filter(|_| config.setup() == Setup::Detected) {
        Some(step) => format!("{} ({})", step.why.rule, step.why.file),
        None => command.to_owned(),
    }
}

/// What setup did, for the model and for people.
fn report(
    config: &Config,
    plan: &SetupPlan,
    commands: &[String],
    image: &PreparedImage,
) -> SetupReport {
    let is_detected = config.setup() == Setup::Detected;
    let steps = commands.iter().zip(&image.setup).enumerate();
    let steps = steps
        .map(|(at, (command, ran))| step(config, name(config, plan, at, command), command, ran));
    let said_by = config.sources.get("setup").map_or_else(String::new, ToString::to_string);
    let versions: BTreeMap<String, String> = plan
        .versions
        .iter()
        .map(|(tool, version)| (tool.clone(), format!("{} ({})", version.value, version.why.file)))
        .collect();
    let note = |note: &ecosystems::Note| match note.file.as_str() {
        "" => note.text.clone(),
        file => format!("{file}: {}", note.text),
    };
    let notes = plan.notes.iter().filter(|_| is_detected).map(note);
    let purged = image
        .setup
        .iter()
        .flat_map(|ran| &ran.purged)
        .map(|path| format!("{} held a secret of setup and was removed", text::code(path)));
    let notes = notes.chain(purged).collect();
    SetupReport {
        steps: steps.collect(),
        source: if is_detected { "found in the repository's files".to_owned() } else { said_by },
        is_cached: image.is_cached,
        versions,
        notes,
        services: Vec::new(),
    }
}

fn step(config: &Config, name: String, command: &str, ran: &SetupRun) -> SetupStep {
    SetupStep {
        name,
        command: command.to_owned(),
        run: SetupRun { output: digest(&ran.output, OUTPUT), ..ran.clone() },
        hint: ran.has_failed().then(|| hint(config, ran)).flatten(),
    }
}

/// What would help a command that failed.
fn hint(config: &Config, ran: &SetupRun) -> Option<String> {
    if ran.filled_disk {
        return Some("let setup write more with `container.workspace`".to_owned());
    }
    if ran.refused.is_empty() && (ran.timed_out || ran.exit_code.is_none()) {
        return Some("give setup more time with `limits.setup-timeout`".to_owned());
    }
    let is_local = config.sandbox == SandboxChoice::Local;
    let absent = || {
        let what = verify::absent_program(&ran.output, is_local);
        let next = if is_local {
            "install it, or use `--sandbox docker` with an image that has it"
        } else {
            "name another one with `image`"
        };
        format!("{what}: {next}")
    };
    network_hint(&ran.refused, config.setup_hosts().is_empty())
        .or_else(|| unreached_hint(&ran.unreached))
        .or_else(|| (ran.exit_code == Some(127)).then(absent))
}
