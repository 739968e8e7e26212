//! `rebase`: our own pull request on top of its base branch as that is now. Where both have changed the same
//! lines, an agent puts them together, and the checks run on what it made.

use serde_json::json;

use super::CommandReply;
use super::admit::AdmittedCommand;
use super::ci::is_own;
use super::fix;
use super::land::{self, PushResult};
use super::landed;
use super::rebased::{
    Attempt, REBASED_TRAILER, RebaseSpec, RebasedCommits, Resolution, ResolutionResult,
};
use super::taken_back::TakenBack;
use super::target;
use super::work::{self, ChangedFiles, ConflictTask, Instruction};
use crate::admit::is_us;
use crate::collected;
use crate::decorate;
use crate::kept_work;
use crate::publish;
use crate::review::open::{self, PullHead};
use crate::run::{DEPTH, Run};
use crate::salvage;
use crate::workspace::{self, Checkout, RUN_TRAILER, Workspace};
use patchwright_base::error::{Failure, Result};
use patchwright_base::text;
use patchwright_forge::{PullRequest, revised};
use patchwright_git::merge::Conflict;
use patchwright_git::{GitError, Oid, blocking, commit};
use patchwright_journal::Entry;
use patchwright_report::answer as words;
use patchwright_report::rebase::{self as said, Method};
use patchwright_report::{self as report, pr_body};
use patchwright_types::outcome::{Conclusion, Outcome};

/// Why nothing can be pushed to the branch, as far as that is known before anything is paid for.
///
/// # Errors
/// When a rule of the repository is against it.
async fn out_of_reach(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
) -> Result<Option<String>> {
    if run.config.dry_run {
        return Ok(None);
    }
    let unreachable = run.unless_interrupted(target::unreachable(run, admitted, pull)).await?;
    if unreachable.is_none() {
        run.unless_interrupted(target::guard(run, admitted, pull)).await?;
    }
    Ok(unreachable)
}

/// Does it, or says why not. `onto`: the branch that was named, if one was.
pub(super) async fn rebase(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    onto: Option<&str>,
) -> Result<CommandReply> {
    let nothing = |body: String| Ok(CommandReply::with_body(Conclusion::NothingToDo, body));
    let Some(pull) = &admitted.pull else {
        return nothing(words::only_for_pull_requests("rebased"));
    };
    if let Some(PushResult::Pushed { commit, url, branch, .. }) = landed::pushed(run, admitted) {
        return Ok(landed::said_again(pull, &commit, url.as_deref(), &branch));
    }
    if let Some(landed) = landed::before_the_end(run, admitted, pull).await? {
        return Ok(landed);
    }
    if let Some(onto) = onto.filter(|onto| *onto != pull.base_branch) {
        return nothing(said::other_base(onto, &pull.base_branch));
    }
    let opened = run.unless_interrupted(RebaseWorkspace::new(run, admitted, pull)).await?;
    let RebaseWorkspace { base, head, old, .. } = &opened;
    if !is_own(run, admitted, pull, &base.at(*head)) {
        return nothing(said::not_our_pull_request(&run.config.respond.mention));
    }
    if let Some(why) = out_of_reach(run, admitted, pull).await? {
        return Ok(CommandReply::with_body(Conclusion::Partial, said::unreachable(&why)));
    }
    let before = intended(run)?;
    if let Some((intended, _)) = before {
        if is_rebased(run, base, *head) {
            let head = head.to_string();
            let url = land::commit_url(&admitted.repository, &head);
            return Ok(landed::said_again(pull, &head, url.as_deref(), &pull.head_branch));
        }
        // What was put together is not about these commits.
        if intended != *head {
            return nothing(said::moved(&pull.head_branch, &run.config.respond.mention));
        }
    }
    let Some(old) = *old else {
        return nothing(said::nothing_in_common(&pull.base_branch));
    };
    let mut sides = sides(run, pull, &opened, old);
    let below = in_background(&sides, RebaseSpec::below_ours).await?;
    let decided = before.and_then(|(_, left_out)| left_out);
    let taken_back = TakenBack::of(run, admitted, pull, (&opened, below), decided).await?;
    sides.left_out = taken_back.left_out;
    let task = Rebase { run, admitted, pull, opened: &opened, sides };
    Ok(Box::pin(task.carry_out()).await?.with_note(&taken_back.note))
}

fn sides(run: &Run<'_>, pull: &PullRequest, opened: &RebaseWorkspace, old: Oid) -> RebaseSpec {
    RebaseSpec {
        repo: opened.base.repo.clone(),
        old,
        left_out: None,
        base: opened.base.base,
        head: opened.head,
        base_branch: pull.base_branch.clone(),
        branch: pull.head_branch.clone(),
        number: pull.number,
        committer: land::identity(run),
        time: run.world.clock.now(),
        run: run.folder.id.clone(),
    }
}

/// The head that an earlier process of this run began with, and what it left out of the branch.
fn intended(run: &Run<'_>) -> Result<Option<(Oid, Option<Oid>)>> {
    let found = run.folder.find(|entry| match entry {
        Entry::EffectIntended { effect, detail, .. } if effect == EFFECT => {
            let left_out = detail["left_out"].as_str().and_then(|commit| commit.parse().ok());
            Some((detail["head"].as_str().unwrap_or_default().to_owned(), left_out))
        }
        _ => None,
    });
    let Some((found, left_out)) = found else { return Ok(None) };
    found.parse().map(|head| Some((head, left_out))).map_err(|_| {
        Failure::machine(format!("the journal names `{found}` as the head, which is no commit"))
            .hint("move the run's folder away to begin anew")
    })
}

const EFFECT: &str = "rebase";

/// This run has pushed it.
fn is_rebased(run: &Run<'_>, base: &Workspace, head: Oid) -> bool {
    let id = &run.folder.id;
    let lines = [format!("{RUN_TRAILER}{id}"), format!("{REBASED_TRAILER}{id}")];
    commit::read(&base.repo, head)
        .is_ok_and(|facts| facts.message.lines().any(|line| lines.iter().any(|own| line == own)))
}

/// Both sides in our repository.
pub(super) struct RebaseWorkspace {
    /// The base branch as it is now.
    pub(super) base: Workspace,
    head: Oid,
    /// Where they parted.
    old: Option<Oid>,
}

impl RebaseWorkspace {
    async fn new(
        run: &Run<'_>,
        admitted: &AdmittedCommand,
        pull: &PullRequest,
    ) -> Result<RebaseWorkspace> {
        run.environment.ui.say("cloning the repository");
        let (world, repository) = (run.world, &admitted.repository);
        let base = Workspace::open(world, repository, &pull.base_branch, DEPTH).await?;
        let base = run.pinned(base)?;
        let of = PullHead { repository, pull, head: &pull.head_sha };
        let (head, old) = open::common_ancestor(world, of, &base).await?;
        Ok(RebaseWorkspace { base, head, old })
    }
}

/// One request, opened.
struct Rebase<'a> {
    run: &'a Run<'a>,
    admitted: &'a AdmittedCommand,
    pull: &'a PullRequest,
    opened: &'a RebaseWorkspace,
    sides: RebaseSpec,
}

async fn in_background<T: Send + 'static>(
    sides: &RebaseSpec,
    work: impl FnOnce(&RebaseSpec) -> Result<T, GitError> + Send + 'static,
) -> Result<T> {
    let sides = sides.clone();
    let done = blocking(move || work(&sides)).await;
    done.map_err(|err| workspace::failure(err, "the pull request cannot be rebased"))
}

impl Rebase<'_> {
    async fn carry_out(&self) -> Result<CommandReply> {
        let (base_branch, base) = (&self.sides.base_branch, self.sides.base.to_string());
        let nothing = |body: String| CommandReply::with_body(Conclusion::NothingToDo, body);
        match self.blocking(RebaseSpec::attempt).await? {
            Attempt::UpToDate => Ok(nothing(said::up_to_date(base_branch, &base))),
            Attempt::Contained => Ok(nothing(said::contained(base_branch, &base))),
            Attempt::Fits(commits) => {
                if commits.method != Method::Merged {
                    self.may_rewrite().await?;
                }
                self.land_clean(commits).await
            }
            Attempt::Conflicts { tree, files } => {
                if self.blocking(RebaseSpec::is_all_ours).await? {
                    self.may_rewrite().await?;
                }
                Box::pin(self.resolve(tree, &files)).await
            }
        }
    }

    /// What merges the base branch into this one adds a commit, which no rule against rewriting refuses.
    async fn may_rewrite(&self) -> Result<()> {
        let Rebase { run, admitted, pull, .. } = self;
        if run.config.dry_run {
            return Ok(());
        }
        run.unless_interrupted(target::may_rewrite(run, admitted, pull)).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RebaseSpec) -> Result<T, GitError> + Send + 'static,
    ) -> Result<T> {
        in_background(&self.sides, work).await
    }

    /// What a resumed run has to find as it was.
    fn intend(&self) -> Result<()> {
        let RebaseSpec { head, base, left_out, .. } = &self.sides;
        let detail = json!({ "head": head, "base": base, "left_out": left_out });
        self.run.folder.intends(EFFECT, &self.pull.head_branch, detail)
    }

    /// Pushes what fits as it is. No model is asked and no check run.
    async fn land_clean(&self, rebased: RebasedCommits) -> Result<CommandReply> {
        self.intend()?;
        // What was approved is what is pushed, on another base; GitHub runs its checks again.
        let landed = self.push(rebased, None).await?;
        let mention = &self.run.config.respond.mention;
        let conclusion = match &landed {
            PushResult::Pushed { .. } | PushResult::There { .. } => Conclusion::Done,
            PushResult::Patch { .. } | PushResult::Contained { .. } | PushResult::Nothing => {
                Conclusion::Partial
            }
            PushResult::Secret { .. } => Conclusion::Refused,
            PushResult::Stopped => return Ok(CommandReply::stopped()),
        };
        let body = said::fitted(&self.place(), rebased.method, landed.seen(), mention);
        let published = fix::published(self.pull, &landed);
        Ok(CommandReply { published, ..CommandReply::with_body(conclusion, body) })
    }

    fn place(&self) -> said::RebaseTarget<'_> {
        said::RebaseTarget {
            base_branch: &self.sides.base_branch,
            base: self.opened.base.base.to_string(),
        }
    }

    /// `against`: why nobody but a person may merge it.
    async fn push(
        &self,
        rebased: RebasedCommits,
        against: Option<&'static str>,
    ) -> Result<PushResult> {
        if self.run.config.dry_run {
            return Ok(PushResult::Patch { why: "nothing is pushed in a dry run".to_owned() });
        }
        self.run.environment.ui.say("publishing");
        let Rebase { run, admitted, pull, opened, sides } = self;
        let (workspace, head, commits) = (&opened.base, sides.head, rebased.commits);
        let new = land::Replacement { workspace, head, commits, against };
        let landed = run.unless_interrupted(land::replace(run, admitted, pull, new)).await?;
        if matches!(landed, PushResult::Pushed { .. })
            && let Err(err) = self.revise_description().await
        {
            run.environment.ui.warn(&format!(
                "#{} may still say that it conflicts with `{}`: {err}",
                pull.number, sides.base_branch
            ));
        }
        Ok(landed)
    }

    /// What our own description says of a conflict is settled. An edited one is its editor's.
    async fn revise_description(&self) -> Result<()> {
        let Rebase { run, admitted, pull, .. } = self;
        let (forge, repository) = (run.world.forge()?, &admitted.repository.id);
        let now = forge.pull_request(repository, pull.number).await.map_err(Failure::from)?;
        let is_ours = is_us(admitted.viewer.as_ref(), &now.author)
            && report::is_described(&now.body, pr_body::PURPOSE);
        let Some(body) = is_ours.then(|| revised(&now.body, said::without_conflict)).flatten()
        else {
            return Ok(());
        };
        let changed = forge.describe_pull_request(repository, pull.number, &now.title, &body);
        changed.await.map_err(Failure::from)
    }

    /// The repository at the base branch, with the rules of that.
    async fn checkout(&self) -> Result<Checkout> {
        let Rebase { run, admitted, opened, .. } = self;
        let rules = opened.base.rules(run.world, &run.config, &admitted.repository);
        let rules = run.unless_interrupted(rules).await?;
        Ok(Checkout { workspace: opened.base.clone(), rules })
    }

    /// Has an agent put both sides together, and pushes what it made.
    async fn resolve(&self, tree: Oid, files: &[Conflict]) -> Result<CommandReply> {
        let Rebase { run, admitted, pull, opened, sides } = self;
        let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let listed = text::line(&names.join(", "));
        run.environment.ui.say(&format!("in conflict with `{}`: {listed}", sides.base_branch));
        self.intend()?;
        let conflict = ConflictTask {
            tree,
            files: sides.described(files),
            changed: ChangedFiles::between(run, &opened.base, sides.old_side(), sides.head).await,
            title: self.blocking(RebaseSpec::title).await?,
        };
        let instruction = Instruction {
            template: "task/rebase.md",
            words: "",
            failures: "",
            mode: None,
            trailers: fix::trailers(admitted),
            conflict: Some(&conflict),
        };
        let checkout = self.checkout().await?;
        let finished = work::work(run, admitted, &checkout, &instruction).await?;
        let judged = &finished.judged;
        let mut outcome = finished.outcome;
        let publishable = judged.commit.filter(|_| publish::is_publishable(&outcome));
        let (mut kept, mut method) = (Vec::new(), None);
        let landed = match publishable {
            None => PushResult::Nothing,
            // Without these files the pull request would undo what others have committed to it.
            Some(_) if !judged.judgement.held_back.is_empty() => {
                PushResult::Patch { why: said::HELD_BACK.to_owned() }
            }
            Some(made) => {
                let refused = judged.change.as_ref().map(|change| change.refused.clone());
                let (conflicts, refused) = (files.to_vec(), refused.unwrap_or_default());
                let resolution = self.resolution(made, tree, conflicts, refused).await;
                match resolution.map_err(|failure| kept_work::named(run, failure, &outcome))? {
                    ResolutionResult::Undecided(why) => PushResult::Patch { why },
                    ResolutionResult::Resolved(rebased, as_merged) => {
                        kept = as_merged;
                        method = Some(rebased.method);
                        let pushed = self.push(rebased, decorate::speaks_against(&outcome)).await;
                        pushed.map_err(|failure| kept_work::named(run, failure, &outcome))?
                    }
                }
            }
        };
        if matches!(landed, PushResult::Stopped) {
            return Ok(fix::nothing_new(run, CommandReply::stopped(), outcome));
        }
        conclude(&mut outcome, &landed);
        let body = said::resolved(&self.place(), method, (&names, &kept), &outcome, landed.seen());
        let published = fix::published(pull, &landed);
        salvage::write_report(run, &outcome, published.as_ref());
        let message = fix::message(&outcome.final_message, &landed);
        Ok(CommandReply { message, published, ..CommandReply::of_work(outcome, body) })
    }

    async fn resolution(
        &self,
        made: Oid,
        merged: Oid,
        conflicts: Vec<Conflict>,
        refused: Vec<(String, String)>,
    ) -> Result<ResolutionResult> {
        let Some(seen) = collected::at_start(self.run, &self.opened.base).await? else {
            return Ok(ResolutionResult::Undecided(said::UNSEEN.to_owned()));
        };
        let resolution = Resolution { made, merged, seen, conflicts, refused };
        self.blocking(move |sides| sides.resolved(&resolution)).await
    }
}

/// What was not pushed is not done.
fn conclude(outcome: &mut Outcome, landed: &PushResult) {
    let (conclusion, why) = match landed {
        PushResult::Patch { why } => (Conclusion::Partial, why),
        PushResult::Secret { why } => (Conclusion::Refused, why),
        _ => return,
    };
    outcome.conclusion = conclusion;
    outcome.reason = Some(why.clone());
}
