//! A review from beginning to end.
//!
//! [`review`] is the whole flow, as [`crate::pipeline`] is for work that changes something. What decides about
//! the run (configuration, instructions, image, checks) comes from the base branch; the head is only
//! what is looked at.

use super::admit::{self, AdmittedReview};
use super::answered::AnsweredLines;
use super::brief::{self, ReviewText};
use super::claim::ClaimSlot;
use super::code_search::Head;
use super::decide::{self, ReviewFacts};
use super::earlier::EarlierReviews;
use super::folded::{KnownBefore, is_grave};
use super::locked::{self, LockedFile};
use super::open::{self, ReviewRange};
use super::outbox::{Effected, Outbox};
use super::plan::{Plan, plan};
use super::publish::{self, HeadView};
use super::{approval, nearest, salvage, settling, verdict};
use crate::agent_phase::{self, AgentResult, Phase};
use crate::brief::Brief;
use crate::checks::{self, CheckTarget, Checks};
use crate::context::references::LinkedIssues;
use crate::guard;
use crate::network;
use crate::packing::Packing;
use crate::pipeline;
use crate::progress::Progress;
use crate::resumption;
use crate::run::{Run, RunEnvironment, Start};
use crate::workspace::{Rules, Workspace};
use crate::world::World;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_config::{Config, Mode};
use patchwright_journal::Entry;
use patchwright_review::anchor::Index;
use patchwright_review::finding::Finding;
use patchwright_review::overall;
use patchwright_sandbox::PreparedImage;
use patchwright_tools::registry::ToolSet;
use patchwright_tools::review::ReviewContext;
use patchwright_tools::truncate::BYTES_PER_TOKEN;
use patchwright_types::events::Event;
use patchwright_types::evidence::{CheckRun, Evidence};
use patchwright_types::outcome::Conclusion;
use patchwright_types::published::PublishedReview;
use patchwright_types::reviewed::Reviewed;
use patchwright_types::task::{IssueSnapshot, ReviewRequest};

/// Commits of history that are fetched of the base branch at first.
const DEPTH: u32 = patchwright_git::clone::DEFAULT_DEPTH;

/// A review that came to an end.
#[derive(Debug)]
pub struct ReviewReport {
    pub reviewed: Reviewed,
    pub published: Option<PublishedReview>,
    /// Where journal, findings and report are.
    pub folder: std::path::PathBuf,
}

/// Reviews: admit → begin → open the head → look at what is there → checks → agent → place → publish.
///
/// # Errors
/// A [`Failure`](patchwright_base::error::Failure) when there is no outcome to report.
pub async fn review(
    world: &World,
    config: Config,
    request: ReviewRequest,
    environment: RunEnvironment,
) -> Result<ReviewReport> {
    let config = Config { mode: Mode::Review, ..config };
    let config = network::closed(config, "a review reaches nothing");
    let mut start = Start::new(world, config, environment);
    // A model that cannot review is refused before anything is asked for.
    ToolSet::for_run(&world.model, start.config.mode, &world.hosted_tools)?;
    let admitted = start.unless_interrupted(admit::admit(world, &start.config, request)).await?;
    start.abandons_review(&admitted).await?;
    let run = start.run(admitted.request.clone(), Some(admitted.pull.title.clone()))?;
    run.begin().await?;
    let progress = Progress::on_terminal(&run);
    let claim = ClaimSlot::default();
    let result = Box::pin(work(&run, &admitted, &claim, &progress)).await;
    let result = run.or_interruption(result);
    run.within_grace(close(&run, &admitted, &claim, &result)).await;
    result
}

/// Leaves nothing behind that says that the review is at work.
async fn close(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    claim: &ClaimSlot,
    result: &Result<ReviewReport>,
) {
    let is_ours = claim.release(run, admitted).await;
    if let Err(failure) = result {
        match failure.kind {
            FailureKind::NothingToDo if claim.is_kept() => {}
            FailureKind::NothingToDo | FailureKind::Usage => run.folder.finish(),
            FailureKind::Signal(_) => {}
            // Where another run has the work, it says how it went.
            _ if run.config.dry_run || !is_ours || claim.is_checked() => {}
            // What was found stands there, whatever else could not be written.
            _ if Outbox::may_have(run, "check", Effected::Done) => {}
            _ => verdict::not_run(run, admitted, failure.message_in_public()).await,
        }
    }
    // Another run that has taken the work over ends the check, too.
    if claim.is_announced() && is_ours {
        verdict::end(run, admitted, result).await;
    }
}

async fn work(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    claim: &ClaimSlot,
    progress: &Progress,
) -> Result<ReviewReport> {
    let (base, rules) = open_base(run, admitted, progress).await?;
    let run = &run.configured(&rules).await?;
    let ready = prepare(run, admitted, base, rules, claim, progress).await?;
    let PreparedReview { base, opened, earlier, plan, checks, image, .. } = &ready;
    let (head, tree) = ready.pack_head(run).await?;
    let (baseline, evidence) = ready.check(run, &tree, progress).await?;
    let in_head = Head { workspace: &head, diff: &opened.diff };
    let known = KnownBefore::of(earlier, plan, in_head);
    let is_file = |path: &str| head.has_file(path);
    let index = Index::new(&opened.diff).with_files(&is_file);
    let read = |path: &str| head.file_now(path);
    let place = |finding: &Finding| nearest::place(&index, &opened.diff, &read, finding);
    let review_context = ReviewContext::new(
        &opened.diff,
        &plan.scope.order,
        plan.fresh.as_ref().map(|since| &since.lines),
        &checks.commands,
        &place,
        page_bytes(run.world.model.output_tokens),
    )
    .beside(known.open);
    let under_review = plan.scope.order.iter().copied();
    let locked = async { Ok(locked::read(base, opened, under_review).await) };
    let locked = run.unless_interrupted(locked).await?;
    let worked = if plan.scope.order.is_empty() {
        agent_phase::nothing_to_ask(&baseline, earlier.notes.clone())
    } else {
        let told = (&known, locked.as_slice());
        let brief = ready.brief(run, admitted, &evidence, &review_context, told);
        let brief = run.unless_interrupted(brief).await?;
        let phase = Phase::new(run, &head, image, &ready.rules, checks, &baseline, progress);
        ask(&phase, (admitted, claim), tree, brief, &review_context).await?
    };
    let answered = AnsweredLines::keep(run, &review_context)?;
    let reviewed = decide::reviewed(ReviewFacts {
        run,
        admitted,
        opened,
        base,
        head: &head,
        image,
        scope: &plan.scope,
        since: plan.since.clone(),
        review_context: &review_context,
        locked: &locked,
        worked: &worked,
        is_concluded: answered.is_concluded,
        unheard: &answered.unheard,
        evidence,
        index: &index,
        earlier: &earlier.memory.findings,
    });
    let seen = HeadView::new(in_head, plan, &known.unplaced, admitted.request.full);
    finish(run, admitted, &ready, seen, reviewed, worked, progress).await
}

/// What the model comes to, where that is not recorded.
async fn ask(
    phase: &Phase<'_>,
    (admitted, claim): (&AdmittedReview, &ClaimSlot),
    tree: Packing,
    brief: Brief,
    review_context: &ReviewContext<'_>,
) -> Result<AgentResult> {
    let run = phase.run;
    if let Some(worked) = agent_phase::recorded(run, phase.workspace, phase.baseline, &brief) {
        phase.progress.phase(agent_phase::WORK_IS_DONE);
        return Ok(worked);
    }
    phase.progress.phase("Reviewing");
    run.unless_interrupted(claim.confirm(run, admitted)).await?;
    run.unless_interrupted(verdict::begin(run, admitted, claim)).await?;
    agent_phase::review(phase, tree, brief, review_context).await
}

/// The repository at the base branch, and what decides about the run.
async fn open_base(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    progress: &Progress,
) -> Result<(Workspace, Rules)> {
    progress.phase("Cloning the repository");
    let branch = &admitted.pull.base_branch;
    let base = Workspace::open(run.world, &admitted.repository, branch, DEPTH);
    let base = run.unless_interrupted(base).await?;
    let recorded = resumption::recorded_base(&run.folder.recorded);
    if let Some(commit) = recorded.and_then(|base| base.commit.parse().ok()) {
        // The clone may be newer than the run.
        run.unless_interrupted(async {
            Ok(open::has_commit(run.world, admitted, &base, commit).await)
        })
        .await?;
    }
    let base = run.pinned(base)?;
    let rules = base.rules(run.world, &run.config, &admitted.repository);
    let rules = run.unless_interrupted(rules).await?;
    Ok((base, rules))
}

/// Everything that a review needs before the model is asked.
async fn prepare<'a>(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    base: Workspace,
    rules: Rules,
    claim: &'a ClaimSlot,
    progress: &Progress,
) -> Result<PreparedReview<'a>> {
    if let Err(failure) = admit::wanted(&run.config.review, &admitted.pull) {
        // A label that keeps reviews away must not keep what was approved before other commits came.
        if !run.config.dry_run {
            approval::take_back_unread(run, admitted, "it is not reviewed").await;
        }
        return Err(failure);
    }
    let id = &admitted.repository.id;
    let trigger = admitted.request.trigger.as_ref();
    run.unless_interrupted(admit::labeled(run.world, &run.config, id, trigger)).await?;
    if !run.config.dry_run {
        let permitted = guard::permitted(run.world.forge()?.as_ref(), id, &[guard::PULLS]);
        run.unless_interrupted(permitted).await?;
    }
    let opened =
        run.unless_interrupted(open::open(run.world, admitted, &base, &run.stop())).await?;
    let earlier = run.unless_interrupted(EarlierReviews::load(run, admitted)).await?;
    let plan = run.unless_interrupted(plan(run, admitted, &base, &opened, &earlier)).await?;
    run.unless_interrupted(claim.take(run, admitted, &opened, &earlier, &plan)).await?;
    let (checks, image) = pipeline::prepare(run, &rules, None, &base, progress).await?;
    let paths = opened.diff.files.iter().map(|file| file.path.clone()).collect();
    let checks = checks.of_change(&rules, paths).await?.into_owned();
    Ok(PreparedReview { base, rules, opened, earlier, claim, plan, checks, image })
}

/// Leaves the files, publishes, and writes the journal's last line.
async fn finish(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    PreparedReview { earlier, claim, .. }: &PreparedReview<'_>,
    seen: HeadView<'_>,
    mut reviewed: Reviewed,
    worked: AgentResult,
    progress: &Progress,
) -> Result<ReviewReport> {
    let settled = settling::settled(earlier, &reviewed, seen);
    if is_grave(&settled.findings) {
        reviewed.summary = overall::of_grave(&reviewed.summary);
    }
    let outcome = decide::outcome(&reviewed, worked.stopped.plan);
    salvage::write(run, &reviewed)?;
    let is_publishable = matches!(
        reviewed.conclusion,
        Conclusion::Done | Conclusion::NothingToDo | Conclusion::Partial | Conclusion::Budget
    );
    let published = if is_publishable && !run.config.dry_run && !run.is_interrupted() {
        let failed = |failure: &Failure| salvage::write_failed(run, &reviewed, &outcome, failure);
        failed(&crate::salvage::unpublished());
        progress.phase("Publishing");
        let published = Box::pin(publish::publish(run, admitted, earlier, claim, &reviewed, seen));
        let published = run.unless_interrupted(published).await.inspect_err(failed)?;
        salvage::write_report(run, &reviewed, &outcome, Some(&published));
        Some(published)
    } else {
        salvage::write_report(run, &reviewed, &outcome, None);
        if !run.config.dry_run && run.unless_interrupted(claim.confirm(run, admitted)).await.is_ok()
        {
            let why = reviewed.reason.as_deref().unwrap_or(reviewed.conclusion.word());
            run.within_grace(verdict::not_run(run, admitted, why)).await;
        }
        None
    };
    run.conclude(&outcome, &worked.stopped.reason.hints("pull requests"));
    salvage::tell_end(run, &reviewed, published.as_ref());
    // What may not be posted is posted by the same command, with a better token: made anew, the review would be paid for
    // again, and might not find again what has failed the check.
    if !published.as_ref().is_some_and(|published| published.handed_over) {
        run.end(&outcome)?;
    }
    Ok(ReviewReport { reviewed, published, folder: run.folder.path.clone() })
}

/// Half of what a model reads of one output, so that a page is never cut.
fn page_bytes(output_tokens: u64) -> usize {
    let tokens = usize::try_from(output_tokens).unwrap_or(usize::MAX);
    (tokens.saturating_mul(BYTES_PER_TOKEN) / 2).clamp(2 << 10, 48 << 10)
}

/// A review that is ready for the model.
struct PreparedReview<'a> {
    /// The repository at the base branch.
    base: Workspace,
    rules: Rules,
    opened: ReviewRange,
    earlier: EarlierReviews,
    claim: &'a ClaimSlot,
    plan: Plan,
    checks: Checks,
    image: PreparedImage,
}

impl PreparedReview<'_> {
    /// The head as the sandbox gets it, with the commit before the change beside it. Where that is more than
    /// a sandbox can have, the head is alone.
    async fn pack_head(&self, run: &Run<'_>) -> Result<(Workspace, Packing)> {
        let both = self.base.at_pull_request(self.opened.head, self.opened.base);
        let packed = async {
            let tree = run.pack(&both).await?;
            tree.tree().await?;
            Ok::<_, Failure>(tree)
        };
        match packed.await {
            Ok(tree) => Ok((both, tree)),
            Err(failure) => {
                let head = self.base.at(self.opened.head);
                let tree = run.pack(&head).await?;
                let text = format!("the tree before the change is not in the sandbox: {failure}");
                run.environment.ui.say(&text);
                run.journal(&Entry::Note { text })?;
                Ok((head, tree))
            }
        }
    }

    /// The repository's checks on the merge base and on the head, each in a fresh sandbox.
    async fn check(
        &self,
        run: &Run<'_>,
        head: &Packing,
        progress: &Progress,
    ) -> Result<(Vec<CheckRun>, Evidence)> {
        let checks = &self.checks;
        if checks.commands.is_empty() {
            return Ok((Vec::new(), checks.without_change(&[])));
        }
        let are_to_run = |side| checks.are_to_run(run, side);
        if are_to_run(CheckTarget::Base) || are_to_run(CheckTarget::Head(&[])) {
            progress.phase("Running the repository's checks before and after the change");
        }
        let base = run.pack(&self.base.at(self.opened.base)).await?;
        let baseline = checks.run_fresh(run, &self.image, &base, CheckTarget::Base).await?;
        let side = CheckTarget::Head(&baseline);
        let after = checks.run_fresh(run, &self.image, head, side).await?;
        let evidence = checks::short(checks.evidence(&baseline, after));
        Ok((baseline, evidence))
    }

    /// What the model is told at the start. What it shows of the difference counts as read, or, in a
    /// resumed run, what was recorded.
    async fn brief(
        &self,
        run: &Run<'_>,
        admitted: &AdmittedReview,
        evidence: &Evidence,
        review_context: &ReviewContext<'_>,
        (known, locked): (&KnownBefore, &[LockedFile]),
    ) -> Result<Brief> {
        let linked = self.linked(run, admitted).await?;
        let told = brief::tell(&brief::Sources {
            admitted,
            opened: &self.opened,
            rules: &run.config.review,
            since: self.plan.since.as_deref().map(short),
            earlier: &self.earlier,
            known,
            comments: &self.earlier.conversation,
            trigger: admitted.request.trigger.as_ref(),
            linked: &linked,
            evidence,
            review_context,
            locked,
            skipped: &self.plan.scope.skipped,
            room: brief::room(&run.world.model, &run.config.limits),
            stop: &run.stop(),
        })?;
        show(run, review_context, &told)?;
        let notes = self.earlier.notes.iter().cloned().chain(told.notes).collect();
        let head = self.base.at(self.opened.head);
        Brief::of(run, (self.rules.workspace(), &head), &told.task, notes).await
    }

    /// What the pull request and its conversation refer to, as it is now: nothing is changed by a review.
    async fn linked(&self, run: &Run<'_>, admitted: &AdmittedReview) -> Result<LinkedIssues> {
        let AdmittedReview { request, repository, pull, .. } = admitted;
        let at_trigger = request.trigger.as_ref().and_then(|trigger| trigger.snapshot.clone());
        let now = || IssueSnapshot { title: pull.title.clone(), body: pull.body.clone() };
        let snapshot = at_trigger.unwrap_or_else(now);
        let (forge, said) = (run.world.forge()?.as_ref(), &self.earlier.conversation);
        Ok(LinkedIssues::fetch(forge, repository, pull.number, &snapshot, said).await)
    }
}

/// Marks what the model has been shown.
fn show(run: &Run<'_>, review_context: &ReviewContext<'_>, told: &ReviewText) -> Result<()> {
    let recorded = &run.folder.recorded;
    if recorded.iter().any(|line| matches!(line.entry, Entry::Prompted { .. })) {
        for line in recorded {
            match &line.entry {
                Entry::Shown { path, from, to } => {
                    if let Some(file) = review_context.find(path) {
                        review_context.mark(file, *from..*to);
                    }
                }
                Entry::SentBack { finding } => review_context.send_back(finding.clone()),
                Entry::CallEnded { exit_code: Some(_), .. } => review_context.mark_run(),
                _ => {}
            }
        }
        return Ok(());
    }
    for (file, lines) in &told.shown {
        let Some(changed) = review_context.diff.files.get(*file) else { continue };
        let (path, from, to) = (changed.path.clone(), lines.start, lines.end);
        run.journal(&Entry::Shown { path, from, to })?;
        review_context.mark(*file, lines.clone());
    }
    run.tell(&Event::Scope { files: review_context.scope.len(), shown: told.shown.len() });
    Ok(())
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}
