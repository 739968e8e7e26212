//! READ FIRST: a task from beginning to end.
//!
//! | Task | Asked by | What it is made of | What becomes of the result |
//! |---|---|---|---|
//! | [`issue`] | a label, `patchwright issue` | the issue and its comments | one branch, one pull request |
//! | [`prompt`] | the Action's input `prompt` | a prompt and a repository | one branch, one pull request |
//! | [`exec`] | `patchwright exec` | a prompt and a repository | files in a folder |
//! | [`respond`](crate::respond::respond) | a comment, failing checks | the command and the conversation | commits on the branch, or an answer |
//! | [`campaign`](crate::campaign) | a job of the fleet | a prompt and a pinned commit | a change in the store |
//! | [`review`](crate::review::run::review) | a pull request | the difference of two commits | one review |
//! | [`triage`](crate::triage::triage) | a new issue | the issue and those like it | labels and one comment |
//! | [`learn`](crate::learn::learn) | `patchwright learn` | what maintainers said | lessons, one pull request |
//! | [`measure`](crate::measure::measure) | `patchwright eval` | patches for a commit | what the checks say |
//!
//! They go the same way. *Admit*: may they, and is there something to do? This reads only, and has a type of its own
//! for each kind of task, so that no later phase can be handed a task of another kind. *Begin*: the run's lock, folder
//! and journal; a killed run is resumed here. *Open*: pin the commit to work on, and the [`Rules`] that decide about
//! the run, and read the repository's configuration. Those that change something, and a triage, then describe their
//! work as a [`Job`] and hand it to [`carry_out`]; a review, which changes nothing, shares [`prepare`] and the agent
//! with it; `learn` asks a model without tools or a sandbox. Last, each *publishes* what may be published.
//!
//! Each phase journals what it did before the next one starts, so that a killed run is resumed where it was.

use std::path::PathBuf;

use futures_util::future::BoxFuture;

use super::admit;
use super::agent_phase::{self, AgentResult, Phase};
use super::brief::Brief;
use super::checks::{self, CheckTarget, Checks};
use super::earlier::{self, Heard};
use super::job::{Baseline, Job};
use super::packing::Packing;
use super::place::{self, Place, Target};
use super::progress::Progress;
use super::proposal::{self, Goal};
use super::publish::{self, Origin};
use super::respond::stop;
use super::run::{Run, RunEnvironment, Start};
use super::settle::JudgedChange;
use super::workspace::{Checkout, Rules, Workspace};
use super::{
    asked, attempts, authorship, base_moved, decide, ending, guard, kept_work, resumption, salvage,
};
use crate::world::World;
use patchwright_agent::StopKind;
use patchwright_base::error::{Failure, Hint, Result};
use patchwright_config::Config;
use patchwright_git::Oid;
use patchwright_git::clone::Repo;
use patchwright_sandbox::PreparedImage;
use patchwright_types::events::{Event, Object};
use patchwright_types::evidence::{CheckRun, Evidence};
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::published::Published;
use patchwright_types::task::{ExecRequest, IssueRequest, PromptRequest};

/// A run that came to an end with an outcome (which may be a refusal or a used-up budget).
#[derive(Debug)]
pub struct RunReport {
    /// What the run was about.
    pub subject: String,
    pub outcome: Outcome,
    pub published: Option<Published>,
    /// The commit of the change, in `repo`.
    pub commit: Option<Oid>,
    /// How the model's work ended: `finished`, `budget_tokens`, `refused`, …
    pub stop: &'static str,
    /// What to do about an end that is not good.
    pub hints: Vec<String>,
    /// Where journal, patch, plan and report are.
    pub folder: PathBuf,
    /// The bare repository that holds the change.
    pub repo: Repo,
}

/// Works on an issue and opens or updates its pull request.
///
/// # Errors
/// A [`Failure`](patchwright_base::error::Failure) when there is no outcome to report: access refused,
/// nothing to do, no sandbox, no forge. An outcome that is not good is not an error; its conclusion says how
/// the run ended.
pub async fn issue(
    world: &World,
    config: Config,
    request: IssueRequest,
    environment: RunEnvironment,
) -> Result<RunReport> {
    Box::pin(issue_within(world, config, request, environment, |_| Ok(()))).await
}

/// As [`issue`], inside of another run, which notes by `begun` the id of the one that it begins or resumes, before
/// anything is spent.
///
/// # Errors
/// As [`issue`], and what `begun` returns.
pub(super) async fn issue_within(
    world: &World,
    config: Config,
    request: IssueRequest,
    environment: RunEnvironment,
    begun: impl FnOnce(&str) -> Result<()> + Send,
) -> Result<RunReport> {
    let mut start = Start::new(world, config, environment);
    let mut issue = admit::admit(world, &start.config, request).await?;
    if stop::holds_against(issue.request.trigger.as_ref(), stop::state(&issue.comments)) {
        let number = issue.issue.number;
        let why = format!("somebody said stop on issue #{number} after this was asked");
        return Err(Failure::nothing_to_do(why).hint("ask again to have it done"));
    }
    let abandoned = start.abandons(Origin::Issue(&issue)).await?;
    let mut run = start.run(issue.request.clone(), Some(issue.snapshot.title.clone()))?;
    begun(&run.folder.id)?;
    run.news = asked::since_cut_off(&run, &issue)?;
    issue.refused_before = resumption::refused_before(&run, abandoned.as_deref())?;
    run.begin().await?;
    let progress = Progress::on_issue(&run, &issue).await?;
    let result = Box::pin(propose(&run, Origin::Issue(&issue), &progress)).await;
    end(&run, progress, result).await
}

/// Follows a prompt of the operator in a repository of the forge, and opens or updates a pull request with what
/// came of it. It may also come to an answer.
///
/// # Errors
/// As [`issue`].
pub async fn prompt(
    world: &World,
    config: Config,
    request: PromptRequest,
    environment: RunEnvironment,
) -> Result<RunReport> {
    let mut start = Start::new(world, config, environment);
    let admitted = admit::admit_prompt(world, &start.config, request).await?;
    start.abandons(Origin::Prompt(&admitted)).await?;
    let run = start.run(admitted.request.clone(), admitted.title())?;
    run.begin().await?;
    let progress = Progress::on_terminal(&run);
    let result = Box::pin(propose(&run, Origin::Prompt(&admitted), &progress)).await;
    end(&run, progress, result).await
}

/// Follows a prompt in a repository; there is no forge, and nothing is published.
///
/// # Errors
/// As [`issue`].
pub async fn exec(
    world: &World,
    config: Config,
    request: ExecRequest,
    environment: RunEnvironment,
) -> Result<RunReport> {
    let mut start = Start::new(world, config, environment);
    start.abandons_exec(&request).await?;
    let run = start.run(request.clone(), None)?;
    run.begin().await?;
    let progress = Progress::on_terminal(&run);
    let result = Box::pin(follow(&run, &request, &progress)).await;
    end(&run, progress, result).await
}

/// An issue, or a prompt: open, carry out, publish.
async fn propose(run: &Run<'_>, origin: Origin<'_>, progress: &Progress) -> Result<RunReport> {
    progress.phase("Cloning the repository");
    let Place { workspace, target } =
        run.unless_interrupted(Box::pin(place::find(run, origin))).await?;
    let rules = workspace.rules(run.world, &run.config, origin.repository());
    let rules = run.unless_interrupted(rules).await?;
    let mut run = run.configured(&rules).await?;
    let earlier = target.as_ref().map(|target| target.earlier.as_slice()).unwrap_or_default();
    run.news.extend(earlier::since::on_pulls(&run, origin, earlier)?);
    let run = &run;
    if let Some(Target { head, branch, .. }) = &target {
        let guarded = guard::check(run, head, guard::Branch::Ours(branch));
        run.unless_interrupted(guarded).await?;
        let forge = run.world.forge()?.as_ref();
        let permitted = guard::may_propose(forge, origin.repository());
        run.unless_interrupted(permitted).await?;
    }
    let mut checkout = Checkout { workspace, rules }.sparse(run).await?;
    let heard = Heard::keep(run, origin, earlier)?;
    let beside = earlier::branch_in_sandbox(earlier, &checkout.workspace.base_branch);
    checkout.workspace = checkout.workspace.with_beside(beside);
    let job = origin.job(&checkout, earlier);
    let mut finished = Box::pin(carry_out(run, &job, progress)).await?;
    let mut published = None;
    if let (Some(target), Some(commit)) = (&target, finished.judged.commit) {
        let outcome = &mut finished.outcome;
        let looked = base_moved::look(run, origin, &mut checkout.workspace, commit, outcome).await;
        looked.inspect_err(|failure| salvage::write_failed(run, outcome, None, failure))?;
        let goal = Goal { target, heard: &heard, commit };
        let publishing = proposal::publish(run, origin, &checkout, &goal, &mut finished, progress);
        published = match publishing.await {
            Ok(published) => published,
            Err(failure) => return Err(kept_work::named(run, failure, &finished.outcome)),
        };
    }
    Ok(finished.report(run, checkout, published))
}

/// A prompt: open, carry out.
async fn follow(run: &Run<'_>, request: &ExecRequest, progress: &Progress) -> Result<RunReport> {
    progress.phase("Cloning the repository");
    let checkout = run.unless_interrupted(Checkout::of_exec(run, request)).await?;
    let run = &run.configured(&checkout.rules).await?;
    let checkout = checkout.sparse(run).await?;
    let finished = Box::pin(carry_out(run, &Job::exec(request, &checkout), progress)).await?;
    Ok(finished.report(run, checkout, None))
}

/// Says how the run ended, and closes its journal.
async fn end(run: &Run<'_>, progress: Progress, result: Result<RunReport>) -> Result<RunReport> {
    let done = result.as_ref().ok();
    let done = done.map(|report| (report.outcome.clone(), report.published.clone()));
    match run.or_interruption(result) {
        Ok(report) => {
            let RunReport { outcome, published, hints, .. } = &report;
            run.conclude(outcome, hints);
            let held_back = fs_err::read(run.folder.path.join(salvage::HELD_BACK)).ok();
            let held_back = held_back.as_deref().map(String::from_utf8_lossy);
            let telling = progress.finish(outcome, published.as_ref(), held_back.as_deref());
            run.within_grace(telling).await;
            tell_end(run, outcome, published.as_ref());
            run.end(outcome)?;
            Ok(report)
        }
        Err(failure) => {
            let published = done.as_ref().and_then(|(_, published)| published.as_ref());
            if let Some(published) = published {
                tell_published(run, published);
            }
            let failure = published.into_iter().fold(failure, so_far);
            // One that was interrupted in its work says so.
            if let Some((outcome, published)) = &done
                && outcome.conclusion != Conclusion::Interrupted
            {
                salvage::write_failed(run, outcome, published.as_ref(), &failure);
            }
            let failure = kept_work::with_files(run, failure);
            run.within_grace(progress.fail(&failure)).await;
            Err(failure)
        }
    }
}

/// Says where the work is, though the run did not come to its end. The comment has a link of its own.
fn so_far(failure: Failure, published: &Published) -> Failure {
    let number = published.pull_request.to_string();
    let what = if published.draft { "draft" } else { "pull request" };
    failure
        .hint(Hint::on_this_machine(format!("the work so far is in {what} #{number}")))
        .output("pull-request-number", number)
        .output("pull-request-url", published.url.as_str())
        .output("pull-request-operation", published.operation.word())
        .output("pull-request-head-sha", published.head_sha.as_str())
        .output("branch", published.branch.as_str())
}

/// The last events of a run.
fn tell_end(run: &Run<'_>, outcome: &Outcome, published: Option<&Published>) {
    if let Some(published) = published {
        tell_published(run, published);
    }
    run.tell_files();
    run.tell(&Event::Result(Box::new(salvage::result(run, outcome, published))));
}

fn tell_published(run: &Run<'_>, published: &Published) {
    run.tell(&Event::Published {
        object: Object::PullRequest,
        url: Some(&published.url),
        number: Some(published.pull_request),
        operation: Some(published.operation),
    });
}

/// What a job came to, before anything is published.
pub(super) struct FinishedJob {
    pub worked: AgentResult,
    pub judged: JudgedChange,
    pub outcome: Outcome,
}

impl FinishedJob {
    fn report(self, run: &Run<'_>, checkout: Checkout, published: Option<Published>) -> RunReport {
        RunReport {
            subject: run.subject(),
            outcome: self.outcome,
            published,
            commit: self.judged.commit,
            stop: self.worked.stopped.reason.word(),
            hints: self.worked.stopped.reason.hints("issues"),
            folder: run.folder.path.clone(),
            repo: checkout.workspace.repo,
        }
    }
}

/// The work on a change, whoever asked for it: checks → agent → judgement → checks again → outcome. The files
/// of the run are written by then.
pub(super) async fn carry_out(
    run: &Run<'_>,
    job: &Job<'_>,
    progress: &Progress,
) -> Result<FinishedJob> {
    let Checkout { workspace, rules } = job.checkout;
    let tree = run.pack(workspace).await?;
    // Setup runs in the tree of the rules, which is packed already when it is the one that is worked on.
    // With a branch beside it, it has what nobody has merged.
    let is_same = rules.workspace().base == workspace.base && !workspace.has_beside();
    let packed = is_same.then_some(&tree);
    let (checks, image) = prepare(run, rules, packed, workspace, progress).await?;
    let baseline = baseline(run, job, &checks, &image, &tree, progress).await?;
    let prepared = PreparedJob { checks, image, baseline };
    let FinishedJob { worked, judged, mut outcome } = match attempts::wanted(run, job) {
        Some(count) => {
            // Each attempt packs its own.
            drop(tree);
            attempts::carry_out(run, job, &prepared, progress, count).await?
        }
        None => attempt(run, job, &prepared, Some(tree), progress).await?,
    };
    salvage::write(run, workspace, &mut outcome, &judged)?;
    if job.is_published() && !run.config.dry_run && publish::is_publishable(&outcome) {
        salvage::write_failed(run, &outcome, None, &salvage::unpublished());
    } else {
        salvage::write_report(run, &outcome, None);
    }
    Ok(FinishedJob { worked, judged, outcome })
}

/// What the work starts from, however often it is attempted.
pub(super) struct PreparedJob {
    pub checks: Checks,
    pub image: PreparedImage,
    /// How the checks came out before anything is changed.
    pub baseline: Vec<CheckRun>,
}

/// The work, once: agent → judgement → checks again → outcome. `tree` is the workspace's, where that is packed.
/// Boxed, because the compiler looks into all that a future is made of, and this is most of the program.
pub(super) fn attempt<'f>(
    run: &'f Run<'f>,
    job: &'f Job<'f>,
    prepared: &'f PreparedJob,
    tree: Option<Packing>,
    progress: &'f Progress,
) -> BoxFuture<'f, Result<FinishedJob>> {
    Box::pin(once(run, job, prepared, tree, progress))
}

async fn once(
    run: &Run<'_>,
    job: &Job<'_>,
    prepared: &PreparedJob,
    tree: Option<Packing>,
    progress: &Progress,
) -> Result<FinishedJob> {
    let Checkout { workspace, rules } = job.checkout;
    let PreparedJob { checks, image, baseline } = prepared;
    let brief = Brief::of_job(run, job, checks, baseline).await?;
    // The last moment before money is spent.
    progress.must_be_alone(run).await?;
    let worked = if let Some(worked) = agent_phase::recorded(run, workspace, baseline, &brief) {
        progress.phase(agent_phase::WORK_IS_DONE);
        worked
    } else {
        progress.phase("Working on it");
        let phase = Phase {
            run,
            workspace,
            image,
            rules,
            checks,
            baseline,
            has_baseline: job.baseline != Baseline::None,
            start_tree: job.start_tree,
            names_its_change: job.names_its_change(),
            progress,
        };
        let tree = match tree {
            Some(tree) => tree,
            None => run.pack(workspace).await?,
        };
        agent_phase::work(&phase, tree, brief).await?
    };
    // What the checks of the change need may have been installed meanwhile.
    let image = worked.image.as_ref().unwrap_or(image);
    let requester = authorship::requester(run).await;
    let judged = JudgedChange::new(run, job, &worked, requester.as_deref());
    if let StopKind::Machine(failure) = worked.stopped.reason {
        return Err(salvage::failed_machine(run, workspace, judged, failure));
    }
    let judged = judged?;
    // Whatever becomes of the checks, it is there.
    salvage::keep_change(run, workspace, &judged)?;
    let mut evidence = evidence(run, job, checks, image, (&worked, &judged), progress).await?;
    evidence.notes.extend(run.moved());
    run.journal_reached()?;
    let outcome = decide::decide(run, job, image, &worked, &judged, evidence);
    Ok(FinishedJob { worked, judged, outcome })
}

/// What the sandboxes of the run start from: the checks, and the image with setup done, both as `rules` say.
/// `packed` is the tree of the rules, where that has been packed. A resumed run works on the commit of
/// `pinned`.
pub(super) async fn prepare(
    run: &Run<'_>,
    rules: &Rules,
    packed: Option<&Packing>,
    pinned: &Workspace,
    progress: &Progress,
) -> Result<(Checks, PreparedImage)> {
    let checks = Checks::find(&run.config, rules).await?;
    run.services.decide(&run.config, &checks);
    for line in run.services.complaints() {
        run.environment.ui.say(&line);
    }
    progress.phase("Preparing the sandbox");
    let image = ending::prepared(run, run.prepare_image(rules, packed)).await?;
    run.opened(pinned, &image)?;
    if let Some(moved) = run.moved() {
        run.environment.ui.say(&format!("note: {moved}"));
    }
    Ok((checks, image))
}

/// What the checks say about the change: what they said of the same tree when the model had come to its
/// end, or else what they say now.
async fn evidence(
    run: &Run<'_>,
    job: &Job<'_>,
    checks: &Checks,
    image: &PreparedImage,
    (worked, judged): (&AgentResult, &JudgedChange),
    progress: &Progress,
) -> Result<Evidence> {
    let Checkout { workspace, rules } = job.checkout;
    let (Some(change), Some(commit)) = (&judged.change, judged.commit) else {
        return Ok(checks.without_change(&worked.baseline));
    };
    let checked = worked.checked.as_ref().filter(|checked| checked.tree == Some(change.tree));
    let has_time = !run.remaining().is_zero();
    let is_unfit = !judged.judgement.violations.is_empty();
    // A sandbox that is gone, or says nothing, takes its engine with it as a rule.
    let is_gone = worked.is_salvaged || matches!(worked.stopped.reason, StopKind::Sandbox(_));
    // Without time left every check would be said to have taken too long.
    let may_run = has_time && !is_unfit && !is_gone && !run.is_interrupted();
    if checked.is_none() && !may_run {
        return Ok(checks.without_change(&worked.baseline));
    }
    let paths = change.files.iter().map(|file| file.path.clone()).collect();
    let checks = checks.of_change(rules, paths).await?;
    let mut baseline = worked.baseline.clone();
    if job.baseline != Baseline::None && may_run {
        checks.complete(run, image, workspace, &mut baseline).await?;
    }
    if let Some(checked) = checked {
        return Ok(checks::short(checks.evidence(&baseline, checked.runs.clone())));
    }
    if checks.are_to_run(run, CheckTarget::Head(&baseline)) {
        progress.phase("Running the repository's checks on the change");
    }
    checks::evidence_on(&checks, run, image, &baseline, &workspace.at(commit)).await
}

/// How the checks come out before anything is changed, where something is to be.
async fn baseline(
    run: &Run<'_>,
    job: &Job<'_>,
    checks: &Checks,
    image: &PreparedImage,
    tree: &Packing,
    progress: &Progress,
) -> Result<Vec<CheckRun>> {
    let phase = match job.baseline {
        Baseline::OfBase => "Running the repository's checks on the base",
        Baseline::OfHead => "Running the repository's checks on the head",
        Baseline::None => return Ok(Vec::new()),
    };
    if !checks.is_any() {
        run.environment.ui.say("this repository has no checks that could be run");
    }
    if checks.are_to_run(run, CheckTarget::Base) {
        progress.phase(phase);
    }
    checks.run_fresh(run, image, tree, CheckTarget::Base).await
}
