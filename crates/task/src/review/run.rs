//! A review from beginning to end.
//!
//! [`review`] is the whole flow, as `task/run.rs` is for work that changes something. What decides about
//! the run (configuration, instructions, image, checks) comes from the base branch; the head is only
//! what is looked at.

use serde_json::json;

use super::admit::{self, Admitted};
use super::brief::{self, Told};
use super::claim::Slot;
use super::decide::{self, Ending};
use super::earlier::Earlier;
use super::open::{self, Opened};
use super::plan::{Plan, plan};
use super::publish::{self, Seen};
use super::standing::Head;
use super::{nearest, salvage, verdict};
use crate::agent_phase::{self, Phase, Worked};
use crate::brief::Brief;
use crate::checks::Checks;
use crate::folder::RunFolder;
use crate::network::{self, NetworkAccess};
use crate::progress::Progress;
use crate::run::{Run, RunEnvironment, interrupted};
use crate::workspace::{Rules, Workspace};
use crate::world::World;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_config::{Config, Mode};
use patchwright_journal::Entry;
use patchwright_review::anchor::Index;
use patchwright_review::finding::Finding;
use patchwright_sandbox::PreparedImage;
use patchwright_sandbox::packed::Packed;
use patchwright_tools::registry::ToolSet;
use patchwright_tools::review::ReviewContext;
use patchwright_tools::truncate::BYTES_PER_TOKEN;
use patchwright_types::evidence::{CheckRun, Evidence};
use patchwright_types::outcome::Conclusion;
use patchwright_types::published::PublishedReview;
use patchwright_types::reviewed::Reviewed;
use patchwright_types::task::{Task, TaskKind, Trigger};

/// Commits of history that are fetched of the base branch at first.
const DEPTH: u32 = patchwright_git::clone::DEFAULT_DEPTH;

/// A review that came to an end.
#[derive(Debug)]
pub struct Ended {
    pub reviewed: Reviewed,
    pub published: Option<PublishedReview>,
    /// Where journal, findings and report are.
    pub folder: std::path::PathBuf,
}

/// Reviews: admit → open the head → look at what is there → checks → agent → place → publish.
///
/// # Errors
/// A [`Failure`] when there is no outcome to report.
pub async fn review(
    world: &World,
    config: Config,
    task: Task,
    around: RunEnvironment,
) -> Result<Ended> {
    let started = world.clock.instant();
    let config = Config { mode: Mode::Review, ..config };
    let config = network::closed(config, "a review reaches nothing");
    for note in world.model.notes(&world.clock.now().format("%Y-%m-%d").to_string()) {
        around.ui.say(&format!("note: {note}"));
    }
    // A model that cannot review is refused before anything is asked for.
    ToolSet::for_run(&world.model, config.mode, &world.hosted_tools)?;
    let (admitted, task) = admitted(world, &config, task).await?;
    let folder = RunFolder::begin(world, &task, around.out.as_deref())?;
    let issue_title = Some(admitted.pull.title.clone());
    let reach = NetworkAccess::default();
    let mut run = Run { world, config, task, folder, around, started, issue_title, reach };
    run.sweep().await;
    let replies = run.folder.recorded.iter().map(|line| line.entry.replies().len());
    world.provider.resume_at(None, replies.sum());
    run.journal_start()?;
    let progress = Progress::start(&run, None).await?;
    let claim = Slot::default();
    let ended = Box::pin(work(&mut run, &admitted, &claim, &progress)).await;
    let ended = match interrupted(&run.around) {
        Some(failure) => Err(failure.hint(run.kept())),
        None => ended,
    };
    let is_ours = claim.release(&run, &admitted).await;
    if let Err(failure) = &ended {
        match failure.kind {
            FailureKind::NothingToDo | FailureKind::Usage => run.folder.finish(),
            FailureKind::Signal(_) => {}
            // Where another run has the work, it says how it went.
            _ if run.config.dry_run || !is_ours => {}
            _ => verdict::not_run(&run, &admitted, failure.message_in_public()).await,
        }
    }
    ended
}

/// Asks the forge, and pins the head in the task: a killed run of another head is another run.
async fn admitted(world: &World, config: &Config, mut task: Task) -> Result<(Admitted, Task)> {
    let TaskKind::Review { repository, number, trigger, head, .. } = &mut task.kind else {
        return Err(Failure::internal("this is not a review"));
    };
    let (trigger, asked) = (trigger.as_ref(), head.as_deref());
    let admitted = admit::admit(world, config, repository, *number, trigger, asked).await?;
    *head = Some(admitted.head.clone());
    Ok((admitted, task))
}

async fn work(
    run: &mut Run<'_>,
    admitted: &Admitted,
    claim: &Slot,
    progress: &Progress,
) -> Result<Ended> {
    let ready = prepare(run, admitted, claim, progress).await?;
    let Ready { base, opened, earlier, plan, checks, image, .. } = &ready;
    let head = base.at(opened.head);
    let tree = run.pack(&head).await?;
    let (baseline, evidence) = ready.check(run, &tree, progress).await?;
    let is_file = |path: &str| head.has_file(path);
    let index = Index::new(&opened.diff).with_files(&is_file);
    let place = |finding: &Finding| nearest::place(&index, &opened.diff, finding);
    let desk = ReviewContext::new(
        &opened.diff,
        &plan.scope.order,
        plan.fresh.as_ref().map(|since| &since.lines),
        &checks.commands,
        &place,
        page_bytes(run.world.model.output_tokens),
    );
    let worked = if plan.scope.order.is_empty() {
        agent_phase::nothing_to_ask(&baseline, earlier.notes.clone())
    } else {
        let brief = ready.brief(run, admitted, &evidence, &desk).await?;
        progress.phase("Reviewing");
        if let Some(worked) = agent_phase::recorded(run, &baseline, &brief) {
            worked
        } else {
            claim.confirm(run, admitted).await?;
            let phase = Phase {
                run,
                workspace: &head,
                tree: tree.into(),
                image,
                checks,
                baseline: &baseline,
                progress,
            };
            agent_phase::review(&phase, brief, &desk).await?
        }
    };
    let reviewed = decide::reviewed(Ending {
        run,
        admitted,
        opened,
        base,
        head: &head,
        image,
        scope: &plan.scope,
        since: plan.since.clone(),
        desk: &desk,
        worked: &worked,
        evidence,
        index: &index,
        earlier: &earlier.memory.findings,
    });
    let seen = Seen { head: Head { workspace: &head, diff: &opened.diff }, renamed: &plan.renamed };
    finish(run, admitted, &ready, seen, reviewed, worked, progress).await
}

/// What is known before the model is asked.
async fn prepare<'a>(
    run: &mut Run<'_>,
    admitted: &Admitted,
    claim: &'a Slot,
    progress: &Progress,
) -> Result<Ready<'a>> {
    progress.phase("Cloning the repository");
    let branch = &admitted.pull.base_branch;
    let base = Workspace::open(run.world, &admitted.repository, branch, DEPTH);
    let base = run.unless_interrupted(base).await?;
    let base = run.pinned(base)?;
    let rules = base.rules(run.world, &run.config, Some(&admitted.repository));
    let rules = run.unless_interrupted(rules).await?;
    run.tighten(&rules).await?;
    admit::wanted(&run.config.review, &admitted.pull)?;
    let id = &admitted.repository.id;
    admit::labeled(run.world, &run.config, id, trigger(&run.task)).await?;
    let opened =
        run.unless_interrupted(open::open(run.world, admitted, &base, &run.stop())).await?;
    let earlier = run.unless_interrupted(Earlier::load(run, admitted)).await?;
    let plan = plan(run, admitted, &base, &opened, &earlier.memory).await?;
    run.unless_interrupted(claim.take(run, admitted, &earlier)).await?;
    let checks = Checks::find(&run.config, &rules).await?;
    progress.phase("Preparing the sandbox");
    let image = run.unless_interrupted(run.prepare_image(&rules, None)).await?;
    run.opened(&base, &image)?;
    Ok(Ready { base, rules, opened, earlier, claim, plan, checks, image })
}

/// Leaves the files, publishes, and writes the journal's last line.
async fn finish(
    run: &Run<'_>,
    admitted: &Admitted,
    Ready { earlier, claim, .. }: &Ready<'_>,
    seen: Seen<'_>,
    reviewed: Reviewed,
    worked: Worked,
    progress: &Progress,
) -> Result<Ended> {
    let outcome = decide::outcome(&reviewed, worked.stopped.plan);
    salvage::write(run, &reviewed)?;
    salvage::write_report(run, &reviewed, &outcome, None);
    let is_publishable =
        matches!(reviewed.conclusion, Conclusion::Done | Conclusion::Partial | Conclusion::Budget);
    let published = if is_publishable && !run.config.dry_run && !run.is_interrupted() {
        progress.phase("Publishing");
        let published = Box::pin(publish::publish(run, admitted, earlier, claim, &reviewed, seen));
        let published = run.unless_interrupted(published).await?;
        salvage::write_report(run, &reviewed, &outcome, Some(&published));
        Some(published)
    } else {
        if !run.config.dry_run
            && !run.is_interrupted()
            && claim.confirm(run, admitted).await.is_ok()
        {
            let why = reviewed.reason.as_deref().unwrap_or(reviewed.conclusion.word());
            verdict::not_run(run, admitted, why).await;
        }
        None
    };
    run.conclude(&outcome, &worked.stopped.reason.hints());
    run.around.ui.event(&salvage::result(run, &reviewed, published.as_ref()));
    run.end(&outcome)?;
    Ok(Ended { reviewed, published, folder: run.folder.path.clone() })
}

/// Half of what a model reads of one output, so that a page is never cut.
fn page_bytes(output_tokens: u64) -> usize {
    let tokens = usize::try_from(output_tokens).unwrap_or(usize::MAX);
    (tokens.saturating_mul(BYTES_PER_TOKEN) / 2).clamp(2 << 10, 48 << 10)
}

/// What a review works with.
struct Ready<'a> {
    /// The repository at the base branch.
    base: Workspace,
    rules: Rules,
    opened: Opened,
    earlier: Earlier,
    claim: &'a Slot,
    plan: Plan,
    checks: Checks,
    image: PreparedImage,
}

impl Ready<'_> {
    /// The repository's checks on the merge base and on the head, each in a fresh sandbox.
    async fn check(
        &self,
        run: &Run<'_>,
        head: &Packed,
        progress: &Progress,
    ) -> Result<(Vec<CheckRun>, Evidence)> {
        let checks = &self.checks;
        if checks.commands.is_empty() {
            return Ok((Vec::new(), checks.without_change(&[])));
        }
        progress.phase("Running the repository's checks before and after the change");
        let base = run.pack(&self.base.at(self.opened.base)).await?;
        let baseline = checks.run_fresh(run, &self.image, &base, "base").await?;
        let evidence = checks.evidence(run, &self.image, &baseline, head).await?;
        Ok((baseline, evidence))
    }

    /// What the model is told at the start. What it shows of the difference counts as read, or, in a
    /// run that goes on, what was recorded.
    async fn brief(
        &self,
        run: &Run<'_>,
        admitted: &Admitted,
        evidence: &Evidence,
        desk: &ReviewContext<'_>,
    ) -> Result<Brief> {
        let told = brief::tell(&brief::Sources {
            admitted,
            opened: &self.opened,
            rules: &run.config.review,
            since: self.plan.since.as_deref().map(short),
            earlier: &self.earlier,
            comments: &self.earlier.conversation,
            trigger: trigger(&run.task),
            evidence,
            desk,
            room: brief::room(&run.world.model, &run.config.limits),
            stop: &run.stop(),
        })?;
        show(run, desk, &told)?;
        let notes = self.earlier.notes.iter().cloned().chain(told.notes).collect();
        Brief::of(run, self.rules.workspace(), &told.task, notes).await
    }
}

/// Marks what the model has been shown.
fn show(run: &Run<'_>, desk: &ReviewContext<'_>, told: &Told) -> Result<()> {
    let recorded = &run.folder.recorded;
    if recorded.iter().any(|line| matches!(line.entry, Entry::Prompted { .. })) {
        for line in recorded {
            match &line.entry {
                Entry::Shown { path, from, to } => {
                    if let Some(file) = desk.find(path) {
                        desk.mark(file, *from..*to);
                    }
                }
                Entry::SentBack { finding } => desk.send_back(finding.clone()),
                _ => {}
            }
        }
        return Ok(());
    }
    for (file, lines) in &told.shown {
        let Some(changed) = desk.diff.files.get(*file) else { continue };
        let (path, from, to) = (changed.path.clone(), lines.start, lines.end);
        run.journal(&Entry::Shown { path, from, to })?;
        desk.mark(*file, lines.clone());
    }
    run.around.ui.event(&json!({
        "is": "scope", "files": desk.scope.len(), "shown": told.shown.len(),
    }));
    Ok(())
}

fn trigger(task: &Task) -> Option<&Trigger> {
    match &task.kind {
        TaskKind::Review { trigger, .. } => trigger.as_ref(),
        _ => None,
    }
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}
