//! A run again, offline: the recorded model replies, real tools in a fresh sandbox, and the tree that
//! comes out compared with the recorded one.

mod harness;
mod lanes;

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use self::lanes::ReplyScheduler;
use super::workspace::{Additions, Workspace};
use super::{equip, failures, fallbacks, recorded_tools};
use crate::world::World;
use patchwright_agent::fallback::{Fallbacks, ModelSetup};
use patchwright_agent::{Agent, AgentEvent, AgentSpec, StopKind, Stopped};
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_config::{Config, SandboxChoice};
use patchwright_git::clone::{Repo, fetch, mirror};
use patchwright_git::{Oid, blocking};
use patchwright_journal::{self as journal, Entry, Journal, Line};
use patchwright_provider::Provider;
use patchwright_provider::item::Item;
use patchwright_provider::scripted::{RecordedOutcome, ScriptedProvider};
use patchwright_sandbox::client::{CollectLimits, GuestError};
use patchwright_sandbox::{ImageSpec, PreparedImage, Running, SandboxSpec};
use patchwright_tools::mcp::{self, Outside};
use patchwright_tools::registry::ToolSet;
use patchwright_tools::services::Services;
use patchwright_tools::{alias, custom};
use patchwright_types::task::{ReviewRequest, Task, TaskKind};

/// What came of a replay.
#[derive(Debug)]
pub struct ReplayReport {
    /// Tree that the recorded run ended with.
    pub recorded: String,
    /// Tree that came out now; the base's tree when nothing was changed.
    pub tree: String,
    pub turns: u32,
    /// How the loop ended now.
    pub ended: String,
}

impl ReplayReport {
    pub fn is_same(&self) -> bool {
        self.recorded == self.tree
    }

    pub fn summary(&self) -> String {
        let verdict = if self.is_same() { "same tree" } else { "another tree" };
        format!(
            "{verdict} after {} turns ({})\nreplayed tree {}",
            self.turns, self.ended, self.tree
        )
    }
}

/// A journal, read for replaying.
struct Recording {
    run: String,
    config: Config,
    repository: std::path::PathBuf,
    base: Oid,
    branch: String,
    image: String,
    /// What setup left, when it ran: the image is used as it is.
    prepared: Option<PreparedImage>,
    instructions: String,
    opening: Vec<Item>,
    /// What became of each request.
    requests: Vec<RecordedOutcome>,
    /// The model could start agents.
    with_agents: bool,
    /// What the harness said after failing checks, in order.
    rounds: Vec<Vec<Item>>,
    tree: String,
    /// All of the journal.
    lines: Vec<Line>,
}

/// Replays a journal. `repository` replaces the recorded run's clone.
pub async fn run(
    journal: &Path,
    repository: Option<&str>,
    sandbox: Option<SandboxChoice>,
    state: &Path,
    env: &Env,
    ui: Ui,
) -> Result<ReplayReport> {
    let mut recording = Recording::read(journal)?;
    if let Some(sandbox) = sandbox.filter(|sandbox| *sandbox != recording.config.sandbox) {
        recording.config.sandbox = sandbox;
        recording.prepared = None;
    }
    let common = Common { state_dir: Some(state.to_owned()), ..Common::default() };
    let longest = recording.config.limits.command_timeout;
    let conductor = ReplyScheduler::new(&recording.lines, longest);
    let conductor = recording.with_agents.then(|| Arc::new(conductor));
    let world = offline_world(&recording, conductor.clone(), &common, env).await?;
    let workspace = open(&world, &recording, repository).await?;
    let image = match &recording.prepared {
        Some(image) if is_there(image, state) => image.clone(),
        Some(_) | None => world.sandbox.prepare(&image_spec(&recording)).await?,
    };
    let running = world
        .sandbox
        .start(&SandboxSpec {
            image,
            run: format!("replay-{}", recording.run),
            purpose: "replay",
            env: std::collections::BTreeMap::new(),
            limits: recording.config.container.clone(),
            egress: None,
            services: Vec::new(),
        })
        .await?;
    let replayed = again(&world, &recording, conductor.as_deref(), &workspace, &running, ui).await;
    let stopped = running.stop().await;
    let replayed = replayed?;
    stopped?;
    Ok(replayed)
}

async fn again(
    world: &World,
    recording: &Recording,
    conductor: Option<&ReplyScheduler>,
    workspace: &Workspace,
    running: &Running,
    ui: Ui,
) -> Result<ReplayReport> {
    let tree = workspace.pack(&recording.config.container, Additions::default()).await?;
    tree.upload(&running.client).await.map_err(|err| {
        let message = "the tree could not be copied into the sandbox";
        failures::of_disk(Failure::sandbox(message).caused_by(err), &world.state)
    })?;
    drop(tree);
    let stopped = converse(world, recording, conductor, running, ui).await?;
    let change = workspace.collect(&running.client, recording.limits()).await?;
    let tree = if change.files.is_empty() { workspace.base_tree()? } else { change.tree };
    Ok(ReplayReport {
        recorded: if recording.tree.is_empty() {
            workspace.base_tree()?.to_string()
        } else {
            recording.tree.clone()
        },
        tree: tree.to_string(),
        turns: stopped.spending.turns,
        ended: stopped.reason.sentence(),
    })
}

async fn converse(
    world: &World,
    recording: &Recording,
    conductor: Option<&ReplyScheduler>,
    running: &Running,
    ui: Ui,
) -> Result<Stopped> {
    let scratch = tempfile::tempdir()
        .map_err(|err| Failure::machine("no temporary folder").caused_by(err))?;
    let journal = Journal::create(scratch.path(), world.clock, world.redaction())?;
    let progress = |what: AgentEvent<'_>| {
        let (who, what) = match what {
            AgentEvent::Agent { id, what } => (Some(id), *what),
            what => (None, what),
        };
        match (what, who) {
            (AgentEvent::CallStarted { call, is_nested }, who) => {
                let lane = who.map(|id| format!("[{id}] ")).unwrap_or_default();
                ui.say(&format!("· {lane}{}", call.name));
                // Those of scripts are not in the lanes.
                conductor.filter(|_| !is_nested).inspect(|conductor| conductor.call_started(who));
            }
            (AgentEvent::CallEnded { is_nested: false, .. }, who) => {
                conductor.inspect(|conductor| conductor.call_ended(who));
            }
            _ => {}
        }
    };
    let (tools, services) = tools(world, recording, running).await?;
    let fallbacks = fallbacks(world, recording, running, &tools).await?;
    let sub_agents = recording
        .with_agents
        .then(|| lanes::sub_agent_config(&recording.lines, &tools, world))
        .transpose()?;
    let mut agent = Agent::new(AgentSpec {
        provider: world.provider.as_ref(),
        clock: world.clock,
        run: &recording.run,
        client: running.client.clone(),
        model: &world.model,
        effort: None,
        instructions: recording.instructions.clone(),
        tools,
        limits: &recording.config.limits,
        deadline: world.clock.instant() + recording.config.limits.timeout,
        journal: &journal,
        cancel: CancellationToken::new(),
        progress: &progress,
        services: &services,
        // Who was asked for a change in the recording is asked here.
        expects_change: harness::expected_change(&recording.lines),
        fallbacks,
    })
    .with_agents(sub_agents);
    let stopped = again_from_the_start(&mut agent, recording, running).await?;
    super::mcp::finish(services.servers.as_ref()).await;
    if let StopKind::Provider(err) = &stopped.reason {
        ui.warn(&format!("the recording ends here: {err}"));
    }
    Ok(stopped)
}

/// The conversation, with what the harness said in it.
async fn again_from_the_start(
    agent: &mut Agent<'_>,
    recording: &Recording,
    running: &Running,
) -> Result<Stopped> {
    let mut stopped = agent.run(recording.opening.clone()).await;
    let mut resumed = harness::resumed_stops(&recording.lines);
    resume(agent, &mut resumed, &mut stopped).await;
    for items in &recording.rounds {
        if !matches!(stopped.reason, StopKind::Finished) {
            break;
        }
        // The checks ran elsewhere; what still ran in sessions was ended for them.
        running.client.end_sessions().await.map_err(lost)?;
        stopped = agent.continue_with(items.clone()).await;
        resume(agent, &mut resumed, &mut stopped).await;
    }
    Ok(stopped)
}

/// Asks again where the recorded run was resumed after the model had ended the work.
async fn resume(agent: &mut Agent<'_>, left: &mut usize, stopped: &mut Stopped) {
    while *left > 0 && StopKind::is_of_model(stopped.reason.word()) {
        *left -= 1;
        *stopped = agent.again(stopped).await;
    }
}

/// The tools of the run: MCP servers in the sandbox work again, what reached outside answers as it did.
async fn tools(
    world: &World,
    recording: &Recording,
    running: &Running,
) -> Result<(ToolSet, Services)> {
    let inside = super::mcp::inside(&recording.config.mcp);
    let http = super::mcp::nobody();
    let outside = Outside { client: &running.client, http, headers: &world.mcp_headers };
    let opened = mcp::open(&inside, &outside).await?;
    let mut tools = ToolSet::for_run(&world.model, recording.config.mode, &world.hosted_tools)?;
    if recording.with_agents {
        tools = tools.with_agents(&world.model, "")?;
    }
    let present = equip::present(&recording.config, &running.client, &tools).await?;
    equip::environment(&recording.config, &running.client).await?;
    let mut extras = custom::tools(&recording.config.tools);
    extras.extend(opened.extras);
    let missing = recorded_tools::missing(&recording.lines, &tools, &extras)
        .map_err(|err| unreadable_tools(&recording.run).caused_by(err))?;
    extras.extend(missing);
    let services = Services {
        config: recording.config.tools.clone(),
        servers: Some(opened.servers),
        ..Services::default()
    };
    let config = &recording.config.tools;
    Ok((tools.offered(&world.model, config, &present, extras)?, services))
}

/// The models that the run went on with, or could have.
async fn fallbacks<'a>(
    world: &'a World,
    recording: &Recording,
    running: &Running,
    own: &ToolSet,
) -> Result<Fallbacks<'a>> {
    let mut all = Fallbacks { name: recording.config.model.clone(), ..Fallbacks::default() };
    for fallback in &world.others.fallbacks {
        let tools = fallbacks::tools(&recording.config, fallback, &running.client, own).await?;
        let tools =
            if recording.with_agents { tools.with_agents(&fallback.model, "")? } else { tools };
        all.others.push_back(ModelSetup {
            name: fallback.name.clone(),
            provider: fallback.provider.as_ref(),
            model: &fallback.model,
            effort: None,
            instructions: recording.instructions.clone(),
            tools,
        });
    }
    Ok(all)
}

fn unreadable_tools(run: &str) -> Failure {
    Failure::usage(format!("run `{run}` cannot be replayed: its tools are not readable"))
        .hint("another version of patchwright may have written it; replay it with that one")
}

impl Recording {
    fn read(path: &Path) -> Result<Recording> {
        let lines = journal::read(path)?;
        let unusable = |what: &str| {
            Failure::usage(format!("`{}` cannot be replayed: {what}", path.display()))
                .hint("a run can be replayed once its agent has started")
        };
        let find =
            |pick: &dyn Fn(&Entry) -> bool| lines.iter().map(|line| &line.entry).find(|e| pick(e));
        let started = find(&|entry| matches!(entry, Entry::RunStarted { .. }));
        let Some(Entry::RunStarted { run, config, task, .. }) = started else {
            return Err(unusable("it has no beginning"));
        };
        if let TaskKind::Learn(_) = task.kind {
            return Err(harness::without_tools(path));
        }
        let opened = find(&|entry| matches!(entry, Entry::WorkspaceOpened { .. }));
        let Some(opened @ Entry::WorkspaceOpened { base, branch, image, repository, .. }) = opened
        else {
            return Err(unusable("no repository was opened"));
        };
        let prepared = harness::prepared(opened);
        let prompted = find(&|entry| matches!(entry, Entry::Prompted { .. }));
        let Some(Entry::Prompted { instructions, items, tools, .. }) = prompted else {
            return Err(unusable("the model was never asked"));
        };
        let mut declared = tools.as_array().into_iter().flatten();
        // A model with scripts calls them from there, and is not told of them as tools.
        let with_agents = declared.any(|tool| tool["name"] == alias::SPAWN_AGENT.name)
            || lines.iter().any(|line| matches!(line.entry, Entry::Lane { .. }));
        let tree = find(&|entry| matches!(entry, Entry::Collected { .. }));
        let Some(Entry::Collected { tree, .. }) = tree else {
            return Err(unusable("no change was collected"));
        };
        Ok(Recording {
            run: run.clone(),
            config: serde_json::from_value(config.clone())
                .map_err(|err| unusable("its configuration is not readable").caused_by(err))?,
            repository: repository.into(),
            base: looked_at(task, base)
                .parse()
                .map_err(|_| unusable("its base is not a commit"))?,
            branch: branch.clone(),
            image: image.clone(),
            prepared,
            instructions: instructions.clone(),
            opening: items.clone(),
            requests: lines.iter().flat_map(|line| line.entry.requests()).collect(),
            with_agents,
            rounds: harness::rounds(&lines),
            tree: tree.clone(),
            lines,
        })
    }
}

impl Recording {
    fn limits(&self) -> CollectLimits {
        CollectLimits::at_least(self.config.policy.max_files, self.config.policy.max_bytes)
    }
}

/// The commit that the model worked on: of a review the head.
fn looked_at<'a>(task: &'a Task, base: &'a str) -> &'a str {
    match &task.kind {
        TaskKind::Review(ReviewRequest { head, .. }) => head.as_deref().unwrap_or(base),
        TaskKind::Issue(_)
        | TaskKind::Respond(_)
        | TaskKind::Campaign(_)
        | TaskKind::Exec(_)
        | TaskKind::Measure(_)
        | TaskKind::Learn(_)
        | TaskKind::Prompt(_)
        | TaskKind::Triage(_) => base,
    }
}

fn lost(error: GuestError) -> Failure {
    Failure::sandbox("the sandbox of the replay is gone").caused_by(error)
}

/// No forge, no network: the replies come from the journal.
async fn offline_world(
    recording: &Recording,
    conductor: Option<Arc<ReplyScheduler>>,
    common: &Common,
    env: &Env,
) -> Result<World> {
    let provider: Arc<dyn Provider> = match conductor {
        Some(conductor) => conductor,
        None => Arc::new(ScriptedProvider::again(recording.requests.clone())),
    };
    World::offline(None, provider, &recording.config, common, env).await
}

/// What setup left in an image is asked for by its id; in a folder it has to be among those of setup.
pub(super) fn is_there(image: &PreparedImage, state: &Path) -> bool {
    let folder = Path::new(&image.reference);
    let is_ours = folder.parent() == Some(&state.join("setup")) && folder.is_dir();
    image.reference.starts_with("sha256:") || is_ours
}

fn image_spec(recording: &Recording) -> ImageSpec<'_> {
    let repository = recording.repository.display().to_string();
    ImageSpec::plain(repository, Some(&recording.image), &recording.run)
}

async fn open(world: &World, recording: &Recording, given: Option<&str>) -> Result<Workspace> {
    let missing = || {
        Failure::usage(format!("the base commit {} is not there", recording.base))
            .hint("name a repository that has it with `--repo`")
    };
    let repo = match given {
        Some(given) => {
            let (remote, state, key) =
                (world.remote(given)?.asked_always(), world.state.clone(), given.to_owned());
            let refs = [recording.base.to_string()];
            let fetched = blocking(move || {
                let repo = mirror(&state, &key)?;
                fetch(&repo, &remote, &refs, patchwright_git::clone::DEFAULT_DEPTH)?;
                Ok(repo)
            });
            fetched.await.map_err(|err| missing().caused_by(err))?
        }
        None => Repo::open(&recording.repository).map_err(|err| missing().caused_by(err))?,
    };
    let base = recording.base.to_string();
    let mut workspace = Workspace::pin(repo, &base, patchwright_git::clone::DEFAULT_DEPTH)
        .await
        .map_err(|_| missing())?;
    workspace.base_branch.clone_from(&recording.branch);
    let beside = harness::other_branch(&recording.lines, &workspace);
    Ok(workspace.with_beside(beside))
}
