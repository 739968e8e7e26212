//! Whether a run that has not ended is still what its command asks for: looked at before it is resumed. One that is not
//! stays in its folder, and the work is begun anew.

use std::path::Path;

use fs_err as fs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::admit::AdmittedIssue;
use super::asked;
use super::earlier::{Heard, since};
use super::failures;
use super::folder::{self, RunFolder};
use super::publish::Origin;
use super::review::admit::AdmittedReview;
use super::run::{Run, RunEnvironment, Start};
use super::workspace::Workspace;
use crate::context::references::LinkedIssues;
use crate::context::thread::{self, Thread};
use crate::world::World;
use patchwright_base::error::Result;
use patchwright_base::invisible::invisible;
use patchwright_base::ui::Ui;
use patchwright_config::Config;
use patchwright_forge::{Comment, Comparison, Forge, Issue, Repository, RepositoryId};
use patchwright_journal::{self as journal, Entry, Line};
use patchwright_types::task::{ExecRequest, Task};

/// What the server said when it refused the push of a run's change.
const REFUSAL: &str = "push-refused.json";
/// What it had said to the run that was not resumed.
const EARLIER: &str = "refused-before.txt";

/// A run that is not resumed.
#[derive(Debug)]
pub(super) struct AbandonedRun {
    pub run: String,
    /// What the server said to it, where it refused the push of its change.
    pub refusal: Option<String>,
}

/// A push that the server refused for what is in it.
#[derive(Debug, Serialize, Deserialize)]
struct RefusedPush {
    words: String,
    /// Digest of what the model was told of the issue.
    issue: String,
}

/// The commit that a run stands on, and the branch that it is for.
#[derive(Clone, Debug)]
pub(super) struct RecordedBase {
    pub commit: String,
    pub branch: String,
}

/// The newest base in a journal.
pub(super) fn recorded_base(lines: &[Line]) -> Option<RecordedBase> {
    lines.iter().rev().find_map(|line| match &line.entry {
        Entry::WorkspaceOpened { base, branch, .. } => {
            Some(RecordedBase { commit: base.clone(), branch: branch.clone() })
        }
        _ => None,
    })
}

/// What an operator calls a branch of a forge.
pub(super) fn branch_name(base: &str) -> &str {
    base.strip_prefix("refs/heads/").unwrap_or(base)
}

/// What the work is to be done on now.
#[derive(Clone, Copy)]
pub(super) struct RequestedWork<'a> {
    pub repository: &'a Repository,
    /// The base branch, where one is asked for.
    pub base: Option<&'a str>,
    pub issue: Option<&'a AdmittedIssue>,
    /// The words of a person beside it.
    pub asked: Option<&'a str>,
    /// How we are named in commands.
    pub mention: &'a str,
}

impl<'a> RequestedWork<'a> {
    pub(super) fn of(origin: Origin<'a>, config: &'a Config) -> RequestedWork<'a> {
        let issue = match origin {
            Origin::Issue(issue) => Some(issue),
            Origin::Prompt(_) => None,
        };
        let (repository, base) = (origin.repository(), origin.asked_base(config));
        RequestedWork { repository, base, issue, asked: None, mention: &config.respond.mention }
    }

    /// A review: into another branch, a pull request is another change.
    pub(super) fn of_review(admitted: &'a AdmittedReview) -> RequestedWork<'a> {
        let AdmittedReview { repository, pull, .. } = admitted;
        let base = Some(pull.base_branch.as_str());
        RequestedWork { repository, base, issue: None, asked: None, mention: "" }
    }

    /// Looks at the unfinished run of a task, and says why it is not resumed when it is not.
    ///
    /// # Errors
    /// When it cannot be found out.
    pub(super) async fn abandons(
        self,
        world: &World,
        ui: Ui,
        task: &Task,
    ) -> Result<Option<AbandonedRun>> {
        let Some(path) = RunFolder::unfinished_folder(world, task)? else { return Ok(None) };
        let Some((run, lines)) = unfinished(&path, task) else { return Ok(None) };
        let refusal = refusal(&path);
        let has_changed = self.issue.zip(refusal.as_ref());
        let has_changed = has_changed.is_some_and(|(issue, it)| issue_digest(issue) != it.issue);
        let why = if has_changed {
            Some(
                "the server refused its change, and the issue says something else by now"
                    .to_owned(),
            )
        } else if self.is_unaware(world, &path, &lines)? {
            Some("its attempts do not know all of what is asked for by now".to_owned())
        } else {
            match recorded_base(&lines) {
                Some(base) => self.other_base(world.forge()?.as_ref(), &base).await?,
                None => None,
            }
        };
        let Some(why) = why else { return Ok(None) };
        let files = path.display();
        ui.warn_all(&format!("run {run} is not resumed: {why}; its files stay in {files}"));
        let refusal = refusal.filter(|_| has_changed).map(|it| it.words);
        Ok(Some(AbandonedRun { run, refusal }))
    }

    /// Its attempts do not know what is asked for, and what has come of one is not changed any more. A run without
    /// attempts is told.
    fn is_unaware(self, world: &World, folder: &Path, lines: &[Line]) -> Result<bool> {
        let has_attempts =
            lines.iter().any(|line| matches!(line.entry, Entry::AttemptStarted { .. }));
        if !has_attempts {
            return Ok(false);
        }
        let news = match self.issue.zip(Heard::kept(folder, lines)) {
            Some((issue, heard)) => since::text(&heard, issue, self.mention)?,
            None => None,
        };
        match self.asked {
            Some(words) if news.is_none() => {
                asked::is_unaware(&world.redactor, folder, lines, words)
            }
            _ => Ok(news.is_some()),
        }
    }

    /// Why the commit that a run stands on is no base for what is wanted now. A branch that is gone was renamed where
    /// the wanted one has that commit.
    async fn other_base(self, forge: &dyn Forge, base: &RecordedBase) -> Result<Option<String>> {
        let RequestedWork { repository, base: asked, .. } = self;
        let id = &repository.id;
        let wanted = asked.map_or(repository.default_branch.as_str(), branch_name);
        let RecordedBase { commit, branch } = base;
        let mut now = wanted;
        if branch != wanted && exists(forge, id, branch).await? {
            if asked.is_some() {
                return Ok(Some(format!("it was for `{branch}`, and `{wanted}` is asked for")));
            }
            now = branch;
        }
        if contains(forge, id, now, commit).await? || !exists(forge, id, now).await? {
            return Ok(None);
        }
        Ok(Some(format!("`{now}` does not have the commit {} that it stands on", short(commit))))
    }
}

impl Start<'_> {
    /// As [`Start::abandons`], for a prompt in a repository without a forge.
    pub(super) async fn abandons_exec(&mut self, request: &ExecRequest) -> Result<()> {
        let Start { world, config, environment, .. } = &*self;
        let task = Task { kind: request.clone().into(), limits: config.limits.clone() };
        let found = stands_elsewhere(world, environment, &task, request);
        self.abandoned = self.unless_interrupted(found).await?;
        Ok(())
    }
}

/// The unfinished run of a prompt in a folder of this machine, where it stands on another commit than the one that is
/// asked for now: its change would be judged on files that nobody has any more, and be written over those that are there.
///
/// # Errors
/// When the repository cannot be read.
async fn stands_elsewhere(
    world: &World,
    environment: &RunEnvironment,
    task: &Task,
    request: &ExecRequest,
) -> Result<Option<String>> {
    let at = environment.out.as_deref();
    let Some(path) = RunFolder::unfinished_folder_at(world, task, at)? else { return Ok(None) };
    let Some((run, lines)) = unfinished(&path, task) else { return Ok(None) };
    // Whoever works on it holds its lock, and is not disturbed.
    if journal::is_open(&path) {
        return Ok(None);
    }
    let Some(base) = recorded_base(&lines) else { return Ok(None) };
    let now = Workspace::where_exec_begins(world, request).await?;
    // What is far away goes on meanwhile, and nothing is written there.
    if now.folder.is_none() || now.base.to_string() == base.commit {
        return Ok(None);
    }
    let asked = request.base.as_deref().unwrap_or("HEAD");
    let files = match at {
        Some(_) => "are set aside as `*.old.*`".to_owned(),
        None => format!("stay in {}", path.display()),
    };
    environment.ui.say(&format!(
        "run {run} is not resumed: it stands on the commit {}, and `{asked}` is {} by now; its files {files}",
        short(&base.commit),
        short(&now.base.to_string())
    ));
    Ok(Some(run))
}

/// The run in a folder that has not come to its end, with its id, where it is of this task. What is damaged is told by
/// whoever opens it, and is no reason to pay twice.
fn unfinished(folder: &Path, task: &Task) -> Option<(String, Vec<Line>)> {
    let (lines, damage) = journal::read_until_damage(&folder.join(journal::FILE));
    let Entry::RunStarted { run, task: recorded, .. } = &lines.first()?.entry else { return None };
    let is_over = lines.iter().any(|line| matches!(line.entry, Entry::RunEnded { .. }));
    // A review of another commit is other work, and is not resumed anyway.
    let is_this = folder::is_same_work(&recorded.kind, &task.kind) && !is_over && damage.is_none();
    let run = is_this.then(|| run.clone())?;
    Some((run, lines))
}

/// The run of a task that has not come to its end on this machine.
pub(super) fn unfinished_run(world: &World, task: &Task) -> Option<String> {
    let path = RunFolder::unfinished_folder(world, task).ok()??;
    unfinished(&path, task).map(|(run, _)| run)
}

/// The branch that a run is for: the one that was recorded, as long as it is there and no other is asked for.
pub(super) async fn branch_to_open(
    run: &Run<'_>,
    repository: &Repository,
    asked: Option<&str>,
) -> Result<String> {
    let wanted = asked.map_or(repository.default_branch.as_str(), branch_name);
    let recorded = recorded_base(&run.folder.recorded).map(|base| base.branch);
    let Some(recorded) = recorded.filter(|it| asked.is_none() && it != wanted) else {
        return Ok(wanted.to_owned());
    };
    if !exists(run.world.forge()?.as_ref(), &repository.id, &recorded).await? {
        return Ok(wanted.to_owned());
    }
    run.environment
        .ui
        .say(&format!("the run stays with `{recorded}`; `--base {wanted}` begins anew"));
    Ok(recorded)
}

async fn exists(forge: &dyn Forge, id: &RepositoryId, branch: &str) -> Result<bool> {
    let tip = forge.branch_tip(id, branch).await;
    let tip = tip.map_err(|err| failures::of_forge(format!("cannot look at `{branch}`"), err))?;
    Ok(tip.is_some())
}

/// A branch has this commit in its history.
///
/// # Errors
/// When the forge does not say.
pub(super) async fn contains(
    forge: &dyn Forge,
    id: &RepositoryId,
    branch: &str,
    commit: &str,
) -> Result<bool> {
    let compared = forge.compare(id, branch, commit).await;
    let compared = compared.map_err(|err| {
        failures::of_forge(format!("cannot look at the commits of `{branch}`"), err)
    })?;
    Ok(matches!(compared, Comparison::Identical | Comparison::Behind))
}

/// A commit as people write it.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}

/// Keeps the server's words, so that the next run of an issue that has changed can be told them.
pub(super) fn keep_refusal(run: &Run<'_>, issue: &AdmittedIssue, words: &str) {
    let words = run.world.redactor.redact(&invisible(words).text);
    let kept =
        serde_json::to_vec(&RefusedPush { words, issue: issue_digest(issue) }).unwrap_or_default();
    if let Err(failure) = run.folder.write(REFUSAL, &kept) {
        run.environment.ui.warn(&failure.to_string());
    }
}

/// The server has taken the change.
pub(super) fn forget_refusal(run: &Run<'_>) {
    let _ = fs::remove_file(run.folder.path.join(REFUSAL));
}

fn refusal(folder: &Path) -> Option<RefusedPush> {
    serde_json::from_slice(&fs::read(folder.join(REFUSAL)).ok()?).ok()
}

/// What the server said to an earlier run of the same issue: of `abandoned`, or kept by this run before it was killed.
///
/// # Errors
/// When it cannot be kept.
pub(super) fn refused_before(run: &Run<'_>, abandoned: Option<&str>) -> Result<Option<String>> {
    if let Some(words) = abandoned {
        run.folder.write(EARLIER, words.as_bytes())?;
    }
    Ok(fs::read_to_string(run.folder.path.join(EARLIER)).ok())
}

/// Digest of what the model is told of an issue, without what changes by our own doing: labels, and our comments.
fn issue_digest(admitted: &AdmittedIssue) -> String {
    let issue = Issue { labels: Vec::new(), comments: 0, ..admitted.issue.clone() };
    let said: Vec<Comment> =
        admitted.comments.iter().filter(|comment| !comment.ours).cloned().collect();
    let trigger = admitted.request.trigger.as_ref();
    let linked = LinkedIssues::default();
    let thread = Thread { issue: &issue, comments: &said, trigger, linked: &linked };
    let mut tag = 0;
    let mut count = || {
        tag += 1;
        tag
    };
    let text = thread::thread(&thread, &mut count).text;
    hex::encode(&Sha256::digest(text.as_bytes())[..16])
}
