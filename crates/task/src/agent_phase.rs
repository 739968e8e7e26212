//! The agent in its sandbox: start, work, check, feed failures back, collect, take down.

use std::borrow::Cow;
use std::sync::Arc;

use super::agents;
use super::asked;
use super::brief::Brief;
use super::check_loop::{self, CheckedTree, CheckedWork};
use super::check_runs;
use super::checkpoint::Checkpoints;
use super::checks::Checks;
use super::collected;
use super::ending::{self, HandedOver, stop};
use super::equip;
use super::failures;
use super::fallbacks;
use super::install::{self, InstallRequests};
use super::mcp;
use super::packing::Packing;
use super::progress::Progress;
use super::review::{agreement, second_look};
use super::run::Run;
use super::structured::{self, Output};
use super::tell::tell;
use super::title;
use super::workspace::{Rules, Workspace};
use patchwright_agent::checkpoints::RestoredWorkspace;
use patchwright_agent::state::State;
use patchwright_agent::{Agent, AgentEvent, AgentSpec, StopKind, Stopped};
use patchwright_base::error::{Failure, Result};
use patchwright_git::Oid;
use patchwright_git::tree::Change;
use patchwright_journal::{Entry, Line};
use patchwright_sandbox::{PreparedImage, Running};
use patchwright_tools::review::ReviewContext;
use patchwright_tools::{self as tools, metrics};
use patchwright_types::evidence::CheckRun;
use patchwright_types::outcome::Spending;
use patchwright_types::plan::Plan;

/// The phase of a run that is resumed when its model has nothing more to do.
pub(super) const WORK_IS_DONE: &str = "The model's work is done already";

/// What the agent left: its stop, and the change that came out of the sandbox.
#[derive(Debug)]
pub struct AgentResult {
    pub stopped: Stopped,
    /// `None` when nothing differs from the base.
    pub change: Option<Change>,
    /// The change is that of a checkpoint, because the sandbox did not hand over what it had last.
    pub is_salvaged: bool,
    /// What the checks said of what the model left last, where they ran on it.
    pub checked: Option<CheckedTree>,
    /// The checks before the change.
    pub baseline: Vec<CheckRun>,
    /// What came of asking for the result as JSON.
    pub output: Output,
    /// What was removed from the input.
    pub notes: Vec<String>,
    pub instruction_files: Vec<String>,
    /// What the sandbox enforced.
    pub enforced: Vec<String>,
    /// What sandboxes are made of since setup has run again.
    pub image: Option<PreparedImage>,
}

/// The agent's part of a killed run that had already been collected: nothing is asked of the model
/// again. Where the file with the change cannot be read, that is said, and the change is collected once
/// more from the conversation that the journal has: nothing is lost by it but time.
pub fn recorded(
    run: &Run<'_>,
    workspace: &Workspace,
    baseline: &[CheckRun],
    brief: &Brief,
) -> Option<AgentResult> {
    let settled = asked::settled(run, &run.folder.recorded);
    settled.iter().find(|line| matches!(line.entry, Entry::Collected { .. }))?;
    let change = match collected::read(run) {
        Ok(change) => change,
        // It goes with a change that has a secret in it.
        Err(err) if collected::is_missing(&err) => return None,
        Err(err) => {
            run.environment.ui.say(&format!(
                "the change that was collected cannot be read and is collected again: {err}"
            ));
            return None;
        }
    };
    if let Err(err) = collected::check(run, workspace) {
        run.environment.ui.say(&format!(
            "the change that was collected is not in the clone any more and is collected again: {err}"
        ));
        return None;
    }
    Some(rebuilt(run, baseline, brief, (StopKind::Finished, change)))
}

/// What the journal says that the agent left, with its stop and its change.
pub(super) fn rebuilt(
    run: &Run<'_>,
    baseline: &[CheckRun],
    brief: &Brief,
    (reason, change): (StopKind, Option<Change>),
) -> AgentResult {
    let mut state = State::default();
    for line in &run.folder.recorded {
        state.apply(&line.entry);
    }
    let entries = run.folder.recorded.iter().map(|line| &line.entry);
    let (mut notes, models) = (state.switch_notes(), state.models());
    let mut spending = Spending { tools: metrics::table(entries), models, ..state.total() };
    // The journal has no price where there is none: that is not a price of nothing.
    if run.world.model.price.is_none() {
        spending.price_is_unknown = true;
        notes.push(patchwright_agent::unpriced(&run.world.model));
    }
    let mut stopped = Stopped {
        reason,
        final_message: state.final_message,
        plan: state.plan,
        findings: state.findings,
        spending,
        touched: std::collections::BTreeSet::new(),
        notes,
    };
    agreement::recorded(&run.folder.recorded, &mut stopped);
    second_look::recorded(&run.folder.recorded, &mut stopped);
    let settled = asked::since_told(&run.folder.recorded);
    title::recorded(settled, &mut stopped);
    let output = match stopped.reason {
        StopKind::Finished => structured::recorded(settled, brief, &mut stopped),
        _ => Output::NotWanted,
    };
    let tree = change.as_ref().map(|change| change.tree);
    let enforced = run.folder.recorded.iter().rev().find_map(|line| match &line.entry {
        Entry::Collected { enforced, .. } => Some(enforced.clone()),
        _ => None,
    });
    AgentResult {
        stopped,
        checked: check_loop::recorded(run, &run.folder.recorded, tree),
        change,
        is_salvaged: false,
        output,
        baseline: baseline.to_vec(),
        notes: brief.notes.clone(),
        instruction_files: brief.instruction_files(),
        enforced: enforced.unwrap_or_default(),
        image: install::recorded(run, &run.folder.recorded),
    }
}

/// The result of a review in which there is nothing to show to a model.
pub fn nothing_to_ask(baseline: &[CheckRun], notes: Vec<String>) -> AgentResult {
    let stopped = Stopped {
        reason: StopKind::Finished,
        final_message: String::new(),
        plan: Plan::default(),
        findings: Vec::new(),
        spending: Spending::default(),
        touched: std::collections::BTreeSet::new(),
        notes: Vec::new(),
    };
    AgentResult {
        stopped,
        change: None,
        is_salvaged: false,
        checked: None,
        output: Output::NotWanted,
        baseline: baseline.to_vec(),
        notes,
        instruction_files: Vec::new(),
        enforced: Vec::new(),
        image: None,
    }
}

/// What the agent phase works with.
#[derive(Clone, Copy)]
pub struct Phase<'a> {
    pub run: &'a Run<'a>,
    pub workspace: &'a Workspace,
    pub image: &'a PreparedImage,
    pub rules: &'a Rules,
    pub checks: &'a Checks,
    pub baseline: &'a [CheckRun],
    /// The checks are run before the change, too.
    pub has_baseline: bool,
    /// What the agent finds in the workspace, where that is not the tree that is uploaded.
    pub start_tree: Option<Oid>,
    /// The first line of the final message becomes the title.
    pub names_its_change: bool,
    pub progress: &'a Progress,
}

impl<'a> Phase<'a> {
    /// A phase whose checks were run before the change, and that begins in the tree that is uploaded.
    pub fn new(
        run: &'a Run<'a>,
        workspace: &'a Workspace,
        image: &'a PreparedImage,
        rules: &'a Rules,
        checks: &'a Checks,
        baseline: &'a [CheckRun],
        progress: &'a Progress,
    ) -> Phase<'a> {
        Phase {
            run,
            workspace,
            image,
            rules,
            checks,
            baseline,
            has_baseline: true,
            start_tree: None,
            names_its_change: false,
            progress,
        }
    }
}

/// Works in a fresh sandbox that holds `tree` (the workspace's, packed) and collects what came of it,
/// whatever ended the work. What this machine failed at is a stop too, so that the work so far can be kept.
pub async fn work(phase: &Phase<'_>, tree: Packing, brief: Brief) -> Result<AgentResult> {
    let work = Box::pin(work_on(phase, tree, brief, None));
    patchwright_otel::within(&phase.run.folder.id, work).await
}

/// Lets the agent work on a review, whose sandbox is thrown away.
pub async fn review(
    phase: &Phase<'_>,
    tree: Packing,
    brief: Brief,
    review_context: &ReviewContext<'_>,
) -> Result<AgentResult> {
    let work = Box::pin(work_on(phase, tree, brief, Some(review_context)));
    let worked = patchwright_otel::within(&phase.run.folder.id, work).await?;
    match worked.stopped.reason {
        StopKind::Machine(failure) => Err(failure),
        _ => Ok(worked),
    }
}

async fn work_on(
    phase: &Phase<'_>,
    tree: Packing,
    mut brief: Brief,
    review_context: Option<&ReviewContext<'_>>,
) -> Result<AgentResult> {
    let run = phase.run;
    let mut recorded = Cow::Borrowed(run.folder.recorded.as_slice());
    let mut image = install::recorded(run, &recorded);
    let (mut tree, mut has_new_setup) = (Some(tree), false);
    let (sandbox, conversation) = loop {
        let phase = Phase { image: image.as_ref().unwrap_or(phase.image), ..*phase };
        let tree = tree.take();
        let known = ConversationStart { recorded: &recorded, has_new_setup };
        let (sandbox, conversation) =
            in_sandbox(&phase, tree, &mut brief, review_context, known).await?;
        let moves = matches!(conversation.stopped.reason, StopKind::NewSandbox);
        if !moves || conversation.image.is_none() {
            break (sandbox, conversation);
        }
        stop(run, sandbox).await;
        image = conversation.image;
        has_new_setup = true;
        recorded = Cow::Owned(patchwright_journal::read(run.folder.journal.path())?);
    };
    let notes = brief.notes.clone();
    let instruction_files = brief.instruction_files();
    let enforced: Vec<String> = sandbox.enforced.iter().map(ToString::to_string).collect();
    let Conversation { mut stopped, work, output, image: newest } = conversation;
    let CheckedWork { change: collected, checked, baseline } = work;
    let handed = ending::hand_over(phase, &sandbox, &mut stopped, collected).await;
    if let StopKind::Sandbox(why) = &mut stopped.reason
        && let Some(exit_reason) = ending::exit_reason(run, &sandbox).await
    {
        *why = format!("{why} ({exit_reason})");
    }
    stop(run, sandbox).await;
    let HandedOver { change, is_salvaged } = match (&stopped.reason, handed) {
        (StopKind::Machine(_), HandedOver { change: None, .. }) => {
            ending::after_failure(phase, &mut stopped).await
        }
        (_, handed) => handed,
    };
    let change = change.filter(|change| {
        !change.files.is_empty() || !change.refused.is_empty() || !change.ignored.is_empty()
    });
    if matches!(stopped.reason, StopKind::Finished) {
        collected::remember(run, change.as_ref(), &enforced)?;
    }
    let image = newest.or(image);
    Ok(AgentResult {
        stopped,
        change,
        is_salvaged,
        checked,
        baseline,
        output,
        notes,
        instruction_files,
        enforced,
        image,
    })
}

/// One conversation in a sandbox of its own, which is left running.
async fn in_sandbox(
    phase: &Phase<'_>,
    tree: Option<Packing>,
    brief: &mut Brief,
    review_context: Option<&ReviewContext<'_>>,
    known: ConversationStart<'_>,
) -> Result<(Running, Conversation)> {
    let run = phase.run;
    let tree = match tree {
        Some(tree) => tree,
        None => run.pack(phase.workspace).await?,
    };
    let sandbox = check_runs::boot(run, phase.image, "agent").await?;
    // What is looked for is no part of the workspace.
    let look = brief.look_around(run, &sandbox, phase.image);
    let (filled, ()) = tokio::join!(check_runs::fill(run, &sandbox, &tree), look);
    if let Err(failure) = filled {
        stop(run, sandbox).await;
        return Err(failure);
    }
    // It would stay on the disk for as long as the model works.
    drop(tree);
    match Box::pin(converse(phase, &sandbox, brief, review_context, known)).await {
        Ok(conversation) => Ok((sandbox, conversation)),
        Err(failure) => {
            stop(run, sandbox).await;
            Err(failure)
        }
    }
}

/// A conversation that has ended.
struct Conversation {
    stopped: Stopped,
    work: CheckedWork,
    output: Output,
    /// What setup has left that ran again meanwhile.
    image: Option<PreparedImage>,
}

/// What a conversation begins with.
#[derive(Clone, Copy)]
struct ConversationStart<'a> {
    /// The journal so far, of a killed attempt or of this one in another sandbox.
    recorded: &'a [Line],
    has_new_setup: bool,
}

/// The conversation, with failing checks fed back a bounded number of times.
async fn converse(
    phase: &Phase<'_>,
    sandbox: &Running,
    brief: &Brief,
    review_context: Option<&ReviewContext<'_>>,
    ConversationStart { recorded, has_new_setup }: ConversationStart<'_>,
) -> Result<Conversation> {
    let run = phase.run;
    let progress = |what: AgentEvent<'_>| tell(phase, &what, None);
    let checkpoints = Arc::new(Checkpoints::of(phase, &sandbox.client).await?);
    // Before anything is started there that may look at the workspace.
    let restored = restore(phase, &checkpoints, recorded, has_new_setup).await?;
    let questions = InstallRequests::of(run);
    let (tools, mut services) = equip::equip(run, sandbox, questions.tool()).await?;
    services.checkpoints = tools::checkpoints::Checkpoints::new(Arc::clone(&checkpoints) as _);
    let fallbacks = fallbacks::of_run(run, brief, &sandbox.client, &tools).await?;
    let (tools, sub_agents) =
        agents::sub_agent_config(run, brief, sandbox, tools, &fallbacks).await?;
    let list = sub_agents.as_ref().map(|sub_agents| sub_agents.list.as_str());
    let fallbacks = fallbacks::with_agents(run, brief, fallbacks, list)?;
    let (own_id, budget) = (run.own_id(), run.attempt.as_ref().map(|attempt| &attempt.budget));
    let mut agent = Agent::new(AgentSpec {
        provider: run.world.provider.as_ref(),
        clock: run.world.clock,
        run: &own_id,
        client: sandbox.client.clone(),
        model: &run.world.model,
        effort: run.config.effort.as_deref().or(run.world.model.default_effort.as_deref()),
        instructions: brief.instructions(run, &tools)?,
        tools,
        limits: &run.config.limits,
        deadline: run.started + run.config.limits.timeout,
        journal: &run.folder.journal,
        cancel: run.environment.cancel.clone(),
        progress: &progress,
        services: &services,
        expects_change: brief.expects_change,
        fallbacks,
    })
    .reviewing(review_context)
    .within(budget)
    .with_agents(sub_agents);
    let (news, settled) = (asked::untold(run, recorded)?, asked::settled(run, recorded));
    let work = async {
        let mut stopped = if let Some(restored) = &restored {
            let news = asked::noted(run, news)?;
            structured::resume(&mut agent, brief, settled, (recorded, restored, news)).await
        } else {
            checkpoints.begin_at(phase.start_tree).await?;
            let items = brief.items(run, sandbox)?;
            agent.run(mcp::guided(run, services.servers.as_ref(), items).await?).await
        };
        let mut work =
            check_loop::with_checks(phase, sandbox, &mut agent, settled, &mut stopped).await?;
        title::mend(phase, &mut agent, settled, &mut stopped, &mut work).await?;
        let asked_for = (brief, review_context);
        let output = last_words(phase, &mut agent, settled, asked_for, &mut stopped).await?;
        Ok::<_, Failure>((stopped, work, output))
    };
    let (worked, image) = Box::pin(questions.beside(phase, sandbox, work)).await;
    let (mut stopped, work, output) = worked?;
    stopped.notes.extend(mcp::finish(services.servers.as_ref()).await);
    Ok(Conversation { stopped, work, output, image })
}

/// What is asked of the model beyond its work: findings that fit its verdict, a second look at them, and an answer in a form.
async fn last_words(
    phase: &Phase<'_>,
    agent: &mut Agent<'_>,
    settled: &[Line],
    (brief, review_context): (&Brief, Option<&ReviewContext<'_>>),
    stopped: &mut Stopped,
) -> Result<Output> {
    if let Some(review_context) = review_context {
        agreement::take(phase, agent, settled, review_context, stopped).await?;
        second_look::take(phase, agent, settled, review_context, stopped).await?;
    }
    structured::take(phase, agent, settled, brief, stopped).await
}

/// The workspace of a killed attempt, where the journal has one that can be resumed.
async fn restore(
    phase: &Phase<'_>,
    checkpoints: &Checkpoints,
    recorded: &[Line],
    has_new_setup: bool,
) -> Result<Option<RestoredWorkspace>> {
    if !Agent::can_resume(recorded) {
        return Ok(None);
    }
    let restored = checkpoints.restore(recorded).await?;
    let moved = phase.run.told_of_move(recorded, phase.baseline)?;
    let told: Vec<String> =
        moved.into_iter().chain(failures::room_again(phase.run, recorded)).collect();
    let other_sandbox = (!told.is_empty()).then(|| told.join(" "));
    Ok(Some(RestoredWorkspace { has_new_setup, other_sandbox, ..restored }))
}
