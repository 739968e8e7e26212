//! The agent in its sandbox: start, work, check, feed failures back, collect, take down.

use std::sync::Arc;

use serde_json::json;

use super::agents;
use super::brief::{Brief, message};
use super::checkpoint::Checkpoints;
use super::checks::{self, Checks};
use super::equip;
use super::mcp;
use super::progress::Progress;
use super::run::Run;
use super::workspace::Workspace;
use crate::verify;
use patchwright_agent::state::State;
use patchwright_agent::{Agent, AgentSpec, Happening, StopKind, Stopped};
use patchwright_base::error::{Failure, Result};
use patchwright_config::Mode;
use patchwright_git::tree::Change;
use patchwright_journal::{Entry, Line};
use patchwright_prompt::{self as prompt, Before, FailedCheck};
use patchwright_provider::Progress as ModelProgress;
use patchwright_provider::item::Role;
use patchwright_sandbox::client::CollectLimits;
use patchwright_sandbox::packed::Packed;
use patchwright_sandbox::{PreparedImage, Running};
use patchwright_tools::review::ReviewContext;
use patchwright_tools::{self as tools, metrics};
use patchwright_types::evidence::CheckRun;
use patchwright_types::outcome::Spending;
use patchwright_types::plan::Plan;

/// What the agent left: its stop, and the change that came out of the sandbox.
#[derive(Debug)]
pub struct AgentResult {
    pub stopped: Stopped,
    /// `None` when nothing differs from the base.
    pub change: Option<Change>,
    pub baseline: Vec<CheckRun>,
    /// What was removed from the input.
    pub notes: Vec<String>,
    pub instruction_files: Vec<String>,
    /// What the sandbox enforced.
    pub enforced: Vec<String>,
}

/// The agent's part of a killed run that had already been collected: nothing is asked of the model
/// again. Where the file with the change cannot be read, that is said, and the change is collected once
/// more from the conversation that the journal has: nothing is lost by it but time.
pub fn recorded(run: &Run<'_>, baseline: &[CheckRun], brief: &Brief) -> Option<AgentResult> {
    let change = run.folder.find(|entry| match entry {
        Entry::Collected { .. } => Some(()),
        _ => None,
    });
    change?;
    let read = fs_err::read_to_string(run.folder.path.join(CHANGE_FILE));
    let read = read.map_err(anyhow::Error::from);
    let change = read.and_then(|text| Ok(serde_json::from_str::<Option<Change>>(&text)?));
    let change = match change {
        Ok(change) => change,
        // It goes with a change that has a secret in it.
        Err(err) if is_missing(&err) => return None,
        Err(err) => {
            run.environment.ui.say(&format!(
                "the change that was collected cannot be read and is collected again: {err}"
            ));
            return None;
        }
    };
    let mut state = State::default();
    for line in &run.folder.recorded {
        state.apply(&line.entry);
    }
    let entries = run.folder.recorded.iter().map(|line| &line.entry);
    let spending = Spending { tools: metrics::table(entries), ..state.total() };
    let stopped = Stopped {
        reason: StopKind::Finished,
        final_message: state.final_message,
        plan: state.plan,
        findings: state.findings,
        spending,
        touched: std::collections::BTreeSet::new(),
        notes: Vec::new(),
    };
    Some(AgentResult {
        stopped,
        change,
        baseline: baseline.to_vec(),
        notes: brief.notes.clone(),
        instruction_files: brief.instruction_files(),
        enforced: Vec::new(),
    })
}

/// Of a review in which there is nothing to show to a model.
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
        baseline: baseline.to_vec(),
        notes,
        instruction_files: Vec::new(),
        enforced: Vec::new(),
    }
}

/// The collected change, for a run that is resumed after a crash. The objects are in the mirror.
pub(super) const CHANGE_FILE: &str = "change.json";

fn is_missing(err: &anyhow::Error) -> bool {
    let err = err.downcast_ref::<std::io::Error>();
    err.is_some_and(|err| err.kind() == std::io::ErrorKind::NotFound)
}

/// What the agent phase works with.
pub struct Phase<'a> {
    pub run: &'a Run<'a>,
    pub workspace: &'a Workspace,
    pub image: &'a PreparedImage,
    pub checks: &'a Checks,
    pub baseline: &'a [CheckRun],
    pub progress: &'a Progress,
}

/// Works in a fresh sandbox that holds `tree` (the workspace's, packed) and collects what came of it,
/// whatever ended the work.
pub async fn work(phase: &Phase<'_>, tree: Packed, brief: Brief) -> Result<AgentResult> {
    work_on(phase, tree, brief, None).await
}

/// The same for a review, whose sandbox is thrown away.
pub async fn review(
    phase: &Phase<'_>,
    tree: Packed,
    brief: Brief,
    desk: &ReviewContext<'_>,
) -> Result<AgentResult> {
    work_on(phase, tree, brief, Some(desk)).await
}

async fn work_on(
    phase: &Phase<'_>,
    tree: Packed,
    brief: Brief,
    desk: Option<&ReviewContext<'_>>,
) -> Result<AgentResult> {
    let run = phase.run;
    let sandbox = checks::start(run, phase.image, &tree, "agent").await?;
    // It would stay on the disk for as long as the model works.
    drop(tree);
    let notes = brief.notes.clone();
    let instruction_files = brief.instruction_files();
    let enforced = sandbox.enforced.clone();
    let Conversation { mut stopped, change: collected } =
        match converse(phase, &sandbox, &brief, desk).await {
            Ok(conversed) => conversed,
            Err(failure) => {
                stop(run, sandbox).await;
                return Err(failure);
            }
        };
    let collected = match (&stopped.reason, run.config.mode, collected) {
        (StopKind::Sandbox(_), _, _) | (_, Mode::Plan | Mode::Review, _) => None,
        (_, Mode::Execute, Some(change)) => Some(change),
        (_, Mode::Execute, None) => match collect(phase, &sandbox).await {
            Ok(change) => Some(change),
            // What is known is reported all the same.
            Err(failure) => {
                stopped.reason = uncollected(failure);
                None
            }
        },
    };
    if let StopKind::Sandbox(why) = &mut stopped.reason
        && let Some(autopsy) = sandbox.autopsy().await
    {
        *why = format!("{why} ({autopsy})");
    }
    stop(run, sandbox).await;
    let change = collected.filter(|change| !change.files.is_empty() || !change.refused.is_empty());
    if matches!(stopped.reason, StopKind::Finished) {
        remember(run, change.as_ref())?;
    }
    let baseline = phase.baseline.to_vec();
    Ok(AgentResult { stopped, change, baseline, notes, instruction_files, enforced })
}

async fn collect(phase: &Phase<'_>, sandbox: &Running) -> Result<Change> {
    let policy = &phase.run.config.policy;
    let limits = CollectLimits::at_least(policy.max_files, policy.max_bytes);
    phase.workspace.collect(&sandbox.client, limits).await
}

/// How a run ended whose change could not be had.
fn uncollected(failure: Failure) -> StopKind {
    let Failure { message, cause, .. } = failure;
    StopKind::Sandbox(match cause {
        Some(cause) => format!("{message}: {cause}"),
        None => message,
    })
}

/// A conversation that has ended.
struct Conversation {
    stopped: Stopped,
    /// What the model left, when that was collected already: before the last check.
    change: Option<Change>,
}

/// The conversation, with failing checks fed back a bounded number of times.
async fn converse(
    phase: &Phase<'_>,
    sandbox: &Running,
    brief: &Brief,
    desk: Option<&ReviewContext<'_>>,
) -> Result<Conversation> {
    let run = phase.run;
    let progress = |what: Happening<'_>| tell(phase, &what, None);
    let recorded = &run.folder.recorded;
    let checkpoints = Arc::new(Checkpoints::of(phase, &sandbox.client).await?);
    // Before anything is started there that may look at the workspace.
    let restored =
        if Agent::can_resume(recorded) { Some(checkpoints.restore(recorded).await?) } else { None };
    let (tools, mut services) = equip::equip(run, sandbox).await?;
    services.checkpoints = tools::checkpoints::Checkpoints::new(Arc::clone(&checkpoints) as _);
    let (tools, company) = agents::company(run, brief, sandbox, tools).await?;
    let mut agent = Agent::new(AgentSpec {
        provider: run.world.provider.as_ref(),
        clock: run.world.clock,
        run: &run.folder.id,
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
    })
    .reviewing(desk)
    .with_agents(company);
    let mut stopped = if let Some(restored) = &restored {
        agent.resume(recorded, restored).await
    } else {
        checkpoints.begin()?;
        agent.run(brief.items(run, sandbox)?).await
    };
    let change = with_checks(phase, sandbox, &mut agent, &mut stopped).await?;
    stopped.notes.extend(mcp::finish(services.servers.as_ref()).await);
    if let StopKind::Machine(failure) = stopped.reason {
        return Err(failure);
    }
    Ok(Conversation { stopped, change })
}

/// Runs the checks on what the model left and gives back those that fail, until they pass or there are
/// no more rounds. Returns the change when it was collected before the last check.
async fn with_checks(
    phase: &Phase<'_>,
    sandbox: &Running,
    agent: &mut Agent<'_>,
    stopped: &mut Stopped,
) -> Result<Option<Change>> {
    let run = phase.run;
    let rounds = match run.config.mode {
        Mode::Execute => run.config.limits.verify_rounds,
        // There is no change to check.
        Mode::Plan | Mode::Review => 0,
    };
    let mut change = None;
    for round in rounds_given(&run.folder.recorded)..rounds {
        if !matches!(stopped.reason, StopKind::Finished) || stopped.needs_input().is_some() {
            break;
        }
        match check_in_loop(phase, sandbox, round).await? {
            LoopCheck::Passed(collected) => {
                change = collected;
                break;
            }
            LoopCheck::Ended(reason, collected) => {
                stopped.reason = reason;
                change = collected;
                break;
            }
            LoopCheck::Failed(text) => {
                run.environment.ui.say("giving the failing checks back to the model");
                *stopped = agent.continue_with(vec![message(Role::User, text)]).await;
            }
        }
    }
    Ok(change)
}

/// What the checks say about what the model left.
enum LoopCheck {
    /// Nothing to give back; the change, when there were checks to run on it.
    Passed(Option<Change>),
    /// What the model is told.
    Failed(String),
    /// The run ends here.
    Ended(StopKind, Option<Change>),
}

/// Runs the checks where the model worked. What they write is not the model's: the change is what there was
/// before, and when the model goes on, it goes on from there.
async fn check_in_loop(phase: &Phase<'_>, sandbox: &Running, round: u32) -> Result<LoopCheck> {
    let run = phase.run;
    if phase.checks.commands.is_empty() {
        return Ok(LoopCheck::Passed(None));
    }
    let change = match collect(phase, sandbox).await {
        Ok(change) => change,
        Err(failure) => return Ok(LoopCheck::Ended(uncollected(failure), None)),
    };
    let checking = phase.checks.run_in(run, &sandbox.client, "loop");
    let ran = match run.unless_interrupted(checking).await {
        Err(_) if run.is_interrupted() => {
            return Ok(LoopCheck::Ended(StopKind::Cancelled, Some(change)));
        }
        ran => ran?,
    };
    let asked_of = asked_of(phase, &change, round);
    let Some(text) = feedback(phase, ran, asked_of)? else {
        return Ok(LoopCheck::Passed(Some(change)));
    };
    if let Err(failure) = phase.workspace.put_back(&sandbox.client, &change).await {
        run.environment.ui.say(&format!("what the checks wrote stays in the workspace: {failure}"));
    }
    Ok(LoopCheck::Failed(text))
}

/// How often a killed attempt had given failing checks back already.
fn rounds_given(recorded: &[Line]) -> u32 {
    let after_check = recorded.windows(2).filter(|pair| {
        matches!(&pair[0].entry, Entry::Checked { when, .. } if when == "loop")
            && matches!(pair[1].entry, Entry::Added { .. })
    });
    u32::try_from(after_check.count()).unwrap_or(u32::MAX)
}

/// Which failing checks are the model's business.
#[derive(Clone, Copy)]
enum AskedOf {
    /// Those that did not fail before.
    Broken,
    /// Those that failed before and still do, too: often they are what is to be repaired.
    StillFailing,
}

/// What failed before is given back once, and only to a model that changed something: the rest of the
/// repository may be red for reasons that nobody asked about.
fn asked_of(phase: &Phase<'_>, change: &Change, round: u32) -> AskedOf {
    let was_red = phase.baseline.iter().any(|check| !check.passed());
    if round == 0 && was_red && !change.files.is_empty() {
        AskedOf::StillFailing
    } else {
        AskedOf::Broken
    }
}

/// What the model is told about checks that fail.
fn feedback(phase: &Phase<'_>, ran: Vec<CheckRun>, asked_of: AskedOf) -> Result<Option<String>> {
    let evidence = verify::compare(phase.baseline.to_vec(), ran, "");
    let mut failing = patchwright_types::evidence::newly_failing(&evidence);
    if matches!(asked_of, AskedOf::StillFailing) {
        failing.extend(verify::still_failing(&evidence));
    }
    if failing.is_empty() {
        return Ok(None);
    }
    let failed: Vec<FailedCheck<'_>> = failing
        .iter()
        .filter_map(|row| {
            let before = match &row.base {
                Some(base) if base.passed() => Before::Passed,
                Some(base) if base.exit_code.is_some() => Before::Failed,
                Some(_) | None => Before::Unknown,
            };
            Some(FailedCheck { run: row.head.as_ref()?, before })
        })
        .collect();
    let tails: Vec<&str> = failed.iter().map(|check| check.run.tail.as_str()).collect();
    prompt::check_failed(&failed, &prompt::fresh_tag(&tails)).map(Some)
}

/// What people see while the agent works.
fn tell(phase: &Phase<'_>, what: &Happening<'_>, agent: Option<&str>) {
    let ui = phase.run.environment.ui;
    let who = agent.map(|agent| format!("[{agent}] ")).unwrap_or_default();
    match what {
        Happening::Agent { id, what } => tell(phase, what, Some(id)),
        // The plan that people see is the run's.
        Happening::PlanUpdated { .. } if agent.is_some() => {}
        Happening::PlanUpdated { plan } => phase.progress.plan(plan),
        Happening::CallStarted { call, .. } => {
            ui.say(&format!("· {who}{} {}", call.name, first_line(call.payload.as_str())));
            ui.event(&match agent {
                None => json!({ "is": "call", "tool": call.name }),
                Some(agent) => json!({ "is": "call", "tool": call.name, "agent": agent }),
            });
        }
        Happening::CallEnded { call, success, took } => {
            let ended = if *success { "ok" } else { "failed" };
            ui.detail(&format!("  {who}{} {ended} after {} ms", call.name, took.as_millis()));
        }
        Happening::Replied { spending } => ui.detail(&format!(
            "{who}turn {}: {} tokens, ${:.4} so far",
            spending.turns,
            spending.usage.total(),
            spending.cost_usd
        )),
        Happening::Compacted { before, after } => {
            ui.say(&format!(
                "{who}compacted the conversation from about {before} to {after} tokens"
            ));
        }
        Happening::Model(ModelProgress::Retrying { attempt, wait, why }) => {
            ui.say(&format!("{who}retry {attempt} in {:.1} s: {why}", wait.as_secs_f64()));
        }
        Happening::Model(
            ModelProgress::Text(_) | ModelProgress::Reasoning(_) | ModelProgress::Lost { .. },
        ) => {}
    }
}

/// The beginning of a call's arguments, for one line of talk.
fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let short: String = line.chars().take(100).collect();
    if short.len() < text.trim().len() { format!("{short} …") } else { short }
}

/// Removing a container is worth reporting when it fails, not worth losing the work for: the next
/// run sweeps.
pub(super) async fn stop(run: &Run<'_>, sandbox: Running) {
    if let Err(err) = sandbox.stop().await {
        run.environment.ui.say(&format!("the sandbox was not removed: {err}"));
    }
}

fn remember(run: &Run<'_>, change: Option<&Change>) -> Result<()> {
    let json = serde_json::to_vec(&change)
        .map_err(|err| Failure::internal("the change cannot be written down").caused_by(err))?;
    run.folder.write(CHANGE_FILE, &json)?;
    run.journal(&Entry::Collected {
        tree: change.map(|change| change.tree.to_string()).unwrap_or_default(),
        files: change.map_or(0, |change| change.files.len()),
    })
}
