//! What an agent does for a comment: on the pinned head, with the configuration, the instructions and
//! the checks of the base, judged like every change.

use super::admit::Admitted;
use super::unseen;
use crate::agent_phase::{self, Phase};
use crate::brief::Brief;
use crate::checks::Checks;
use crate::context::thread::{self, Thread, ThreadContext};
use crate::decide;
use crate::progress::Progress;
use crate::run::{DEPTH, Run};
use crate::salvage;
use crate::settle::Settled;
use crate::workspace::{Rules, Workspace};
use patchwright_base::error::Result;
use patchwright_config::Mode;
use patchwright_forge::PullRequest;
use patchwright_git::Oid;
use patchwright_prompt::{self as prompt, CommentTask};
use patchwright_types::outcome::Outcome;

/// What the work stands on.
pub(super) struct Checkouts {
    /// Where configuration, instructions, skills, setup and checks come from: the base branch, unless it is
    /// one of ours. What a pull request changes about them is not obeyed.
    pub rules: Rules,
    /// What is worked on: the head of the pull request, or the base branch.
    pub workspace: Workspace,
}

impl Checkouts {
    /// Fetches and pins what the comment is about.
    pub(super) async fn of(run: &Run<'_>, admitted: &Admitted) -> Result<Checkouts> {
        run.around.ui.say("cloning the repository");
        let opened = if let Some(pull) = &admitted.pull {
            run.unless_interrupted(Checkouts::of_pull(run, admitted, pull)).await?
        } else {
            let base = run.config.publish.base.as_deref();
            let base = base.unwrap_or(&admitted.repository.default_branch);
            let opening = Workspace::open(run.world, &admitted.repository, base, DEPTH);
            let workspace = run.unless_interrupted(opening).await?;
            let rules = Checkouts::rules(run, admitted, &workspace);
            Checkouts { rules: run.unless_interrupted(rules).await?, workspace }
        };
        let workspace = run.pinned(opened.workspace)?;
        Ok(Checkouts { workspace, ..opened })
    }

    async fn of_pull(run: &Run<'_>, admitted: &Admitted, pull: &PullRequest) -> Result<Checkouts> {
        let base = &pull.base_branch;
        let base = Workspace::open(run.world, &admitted.repository, base, DEPTH).await?;
        let head =
            base.fetch_head(run.world, &admitted.repository, pull.number, &pull.head_sha).await?;
        let rules = Checkouts::rules(run, admitted, &base).await?;
        let mut workspace = base.at(head);
        workspace.base_branch.clone_from(&pull.head_branch);
        Ok(Checkouts { rules, workspace })
    }

    async fn rules(run: &Run<'_>, admitted: &Admitted, base: &Workspace) -> Result<Rules> {
        base.rules(run.world, &run.config, Some(&admitted.repository)).await
    }
}

/// What the agent is asked.
pub(super) struct Job<'a> {
    /// The file in `prompts/`.
    pub template: &'static str,
    /// What was asked, in the words of who asked; may be empty.
    pub words: &'a str,
    /// The failing checks with their logs, clean and delimited.
    pub failures: &'a str,
    /// Overrides the default text about the mode.
    pub mode: Option<&'static str>,
    /// Lines below the commit's message.
    pub trailers: Vec<String>,
}

/// What came of it.
pub(super) struct Done {
    pub outcome: Outcome,
    pub settled: Settled,
}

impl Done {
    pub(super) fn commit(&self) -> Option<Oid> {
        self.settled.commit
    }
}

/// Checks, agent, checks, judgement. The repository's configuration has been laid over ours before.
pub(super) async fn work(
    run: &Run<'_>,
    admitted: &Admitted,
    grounds: &Checkouts,
    job: &Job<'_>,
) -> Result<Done> {
    let workspace = &grounds.workspace;
    unseen::check(run, admitted, workspace).await?;
    let progress = Progress::start(run, None).await?;
    let tree = run.pack(workspace).await?;
    let checks = Checks::find(&run.config, &grounds.rules).await?;
    progress.phase("Preparing the sandbox");
    // Setup runs in the base's tree whoever wrote the head: what a pull request changes about its
    // dependencies is not installed, and nothing of it is there for later runs.
    let image = run.unless_interrupted(run.prepare_image(&grounds.rules, None)).await?;
    run.opened(workspace, &image)?;
    let baseline = if run.config.mode == Mode::Execute {
        progress.phase("Running the repository's checks on the head");
        checks.run_fresh(run, &image, &tree, "base").await?
    } else {
        Vec::new()
    };
    let (text, notes) = task_text(run, admitted, job, &checks.commands)?;
    let brief = Brief::for_task(run, &text, notes, grounds.rules.workspace(), &checks).await?;
    let brief = brief.in_mode(job.mode);
    progress.phase("Working on it");
    let worked = if let Some(worked) = agent_phase::recorded(run, &baseline, &brief) {
        worked
    } else {
        let phase = Phase {
            run,
            workspace,
            tree: tree.into(),
            image: &image,
            checks: &checks,
            baseline: &baseline,
            progress: &progress,
        };
        agent_phase::work(&phase, brief).await?
    };
    let settled = Settled::new(run, workspace, &worked, &job.trailers)?;
    let evidence = match &settled.commit {
        Some(commit) if settled.judgement.violations.is_empty() && !run.is_interrupted() => {
            progress.phase("Running the repository's checks on the change");
            checks.evidence_on(run, &image, &baseline, &workspace.at(*commit)).await?
        }
        _ => checks.without_change(&baseline),
    };
    run.journal_reached()?;
    let mut outcome = decide::decide(run, workspace, &image, &worked, &settled, evidence);
    salvage::write(run, workspace, &mut outcome, &settled)?;
    salvage::write_report(run, &outcome, None);
    Ok(Done { outcome, settled })
}

/// The task in words: what was asked, where, and the conversation around it.
fn task_text(
    run: &Run<'_>,
    admitted: &Admitted,
    job: &Job<'_>,
    checks: &[String],
) -> Result<(String, Vec<String>)> {
    let trigger = admitted.request.trigger.as_ref();
    let stop = run.stop();
    let conversation = thread::thread_within(
        &Thread { issue: &admitted.issue, comments: &admitted.comments, trigger },
        &|| stop.is_over(),
        &mut rand::random,
    );
    let said = match admitted.threads.as_slice() {
        [] => ThreadContext::default(),
        threads => thread::review_threads(threads, trigger, &|| stop.is_over(), &mut rand::random),
    };
    let words = crate::context::hidden::clean(job.words);
    let text = prompt::comment_task(
        job.template,
        &CommentTask {
            repository: &admitted.repository.id.to_string(),
            number: admitted.request.number,
            is_pull_request: admitted.pull.is_some(),
            conversation: &conversation.text,
            threads: &said.text,
            words: words.text.trim(),
            failures: job.failures,
            checks,
        },
    )?;
    Ok((text, conversation.notes.into_iter().chain(said.notes).collect()))
}
