//! From the change that came out of the sandbox to one that may be published: judge it, hold back what may
//! not be published, and make the commit.

use std::collections::BTreeSet;
use std::iter;

use super::agent_phase::AgentResult;
use super::collected;
use super::job::{Job, Subject};
use super::run::Run;
use super::salvage;
use super::workspace::{RUN_TRAILER, Workspace};
use super::{authorship, title};
use patchwright_base::error::{Failure, Result};
use patchwright_git::clone::Repo;
use patchwright_git::tree::Change;
use patchwright_git::{GitError, Oid, commit, tree};
use patchwright_policy::{self as policy, Blobs, Judgement, Unread};
use patchwright_report::{commit_message, model_words};

/// Bytes of one file that the policy reads whole; larger ones are over the size cap anyway.
const BLOB_CAP: usize = 64 << 20;
/// Bytes of one file that is searched at once because it cannot be streamed: as much as comes out of
/// a sandbox.
const SEARCH_CAP: usize = 256 << 20;

/// The blobs of a repository.
pub struct BlobsOf<'a>(pub &'a Repo);

impl Blobs for BlobsOf<'_> {
    fn read(&self, oid: Oid) -> Option<Vec<u8>> {
        tree::read_blob(self.0, oid, BLOB_CAP).ok()
    }

    fn stream(&self, oid: Oid, take: &mut dyn FnMut(&[u8])) -> Result<(), Unread> {
        tree::stream_blob(self.0, oid, SEARCH_CAP, take).map_err(|err| {
            tracing::warn!(%err, "a file of the change cannot be searched");
            Unread
        })
    }
}

/// A judged change.
#[derive(Debug, Default)]
pub struct JudgedChange {
    pub judgement: Judgement,
    /// What may be published; `None` when nothing may, or nothing was changed.
    pub change: Option<Change>,
    /// The commit of `change` on the base.
    pub commit: Option<Oid>,
    /// The files that were kept back, as a patch on top of `change`.
    pub held_back_patch: Option<Vec<u8>>,
}

impl JudgedChange {
    /// Judges and commits. `requester` is the co-author who asked for the work.
    pub(super) fn new(
        run: &Run<'_>,
        job: &Job<'_>,
        worked: &AgentResult,
        requester: Option<&str>,
    ) -> Result<JudgedChange> {
        let workspace = &job.checkout.workspace;
        let Some(whole) = &worked.change else { return Ok(JudgedChange::default()) };
        let mut judgement = policy::check(
            &run.config.policy,
            whole,
            &BlobsOf(&workspace.repo),
            &run.world.redactor,
            &outbound(worked),
        );
        let title = title_of(run, job, &worked.stopped.final_message);
        if !matches!(job.subject, Subject::Exec(_)) {
            judgement.violations.extend(title::violation(&run.config, &title));
        }
        let kept = if judgement.held_back.is_empty() {
            Some(whole.clone())
        } else {
            let is_kept =
                |path: &str| !judgement.held_back.iter().any(|held| held.file.path == path);
            let kept = tree::restrict(&workspace.repo, whole, |file| is_kept(&file.path))
                .map_err(|err| Failure::internal("the change cannot be split").caused_by(err))?;
            (!kept.files.is_empty()).then_some(kept)
        };
        let held_back_patch = held_back_patch(workspace, whole, kept.as_ref(), &mut judgement)?;
        let commit = match &kept {
            Some(kept) => {
                Some(make_commit(run, job, kept, &worked.stopped.final_message, requester)?)
            }
            None => None,
        };
        if judgement.leaks() {
            let changes: Vec<&Change> = iter::once(whole).chain(&kept).collect();
            forget_secrets(run, workspace, &changes, &judgement)?;
        }
        Ok(JudgedChange { judgement, change: kept, commit, held_back_patch })
    }
}

/// Takes what has one of our secrets in it, or could not be searched, out of our repository, which
/// outlives the run: contents, and trees with names. The list of changed files goes as well.
fn forget_secrets(
    run: &Run<'_>,
    workspace: &Workspace,
    changes: &[&Change],
    judgement: &Judgement,
) -> Result<()> {
    let failed =
        |err: GitError| Failure::machine("a file with a secret cannot be removed").caused_by(err);
    let leaks = judgement.violations.iter().filter(|found| found.is_leak());
    let paths: BTreeSet<&str> = leaks.filter_map(|found| found.path.as_deref()).collect();
    let mut oids = BTreeSet::new();
    for change in changes {
        for file in &change.files {
            if paths.contains(file.path.as_str()) {
                oids.extend(file.new.map(|new| new.oid));
            }
            if !run.world.redactor.scan(file.path.as_bytes()).is_empty() {
                let trees = tree::trees_of(&workspace.repo, change.tree, &file.path);
                oids.extend(trees.map_err(failed)?);
            }
        }
    }
    for oid in oids {
        workspace.repo.forget(oid).map_err(failed)?;
    }
    match fs_err::remove_file(run.folder.path.join(collected::FILE)) {
        Err(err) if err.kind() != std::io::ErrorKind::NotFound => Err(failed(err.into())),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn held_back_patch(
    workspace: &Workspace,
    whole: &Change,
    kept: Option<&Change>,
    judgement: &mut Judgement,
) -> Result<Option<Vec<u8>>> {
    if judgement.held_back.is_empty() || judgement.leaks() {
        return Ok(None);
    }
    let from = match kept {
        Some(kept) => kept.tree,
        None => workspace.base_tree()?,
    };
    let handed = salvage::handed_over(workspace, from, whole.tree, salvage::HELD_BACK);
    judgement.flags.extend(handed.flags);
    Ok(handed.patch)
}

/// The subject of the commit, which is the title of a pull request too.
fn title_of(run: &Run<'_>, job: &Job<'_>, final_message: &str) -> String {
    match job.commit_title {
        Some(title) => title::fitting(&run.config, title),
        None => title::of_run(run, final_message),
    }
}

/// The commit of a change on the base. `requester` is the co-author who asked for the work.
pub(super) fn make_commit(
    run: &Run<'_>,
    job: &Job<'_>,
    change: &Change,
    final_message: &str,
    requester: Option<&str>,
) -> Result<Oid> {
    let words = match job.commit_title {
        Some(_) => final_message.to_owned(),
        None => words_of(final_message),
    };
    let words = model_words::without_courtesies(&words);
    let words = match &job.subject {
        // The pull request links it.
        Subject::Issue(admitted) => model_words::without_link(&words, admitted.issue.number),
        _ => words,
    };
    let title = title_of(run, job, final_message);
    let message = commit_message::commit_message(&title, &words, &[]);
    let spec = commit::CommitSpec {
        author: authorship::author(&run.config),
        committer: authorship::committer(&run.config),
        message: run.world.redactor.redact(&message),
        trailers: iter::once(format!("{RUN_TRAILER}{}", run.folder.id))
            .chain(job.trailers.iter().cloned())
            .chain(authorship::trailers(&run.config, requester))
            .collect(),
        time: run.world.clock.now(),
    };
    commit::create(&job.checkout.workspace.repo, change.base, change.tree, &spec)
        .map_err(|err| Failure::internal("the commit cannot be made").caused_by(err))
}

/// The model's last message without its first line, which has become the subject.
fn words_of(final_message: &str) -> String {
    let message = final_message.trim_start();
    message.split_once('\n').map(|(_, rest)| rest.trim().to_owned()).unwrap_or_default()
}

/// Every text of the model that would go out with the change. The names follow "the".
fn outbound(worked: &AgentResult) -> Vec<(&'static str, &str)> {
    let plan = &worked.stopped.plan;
    let mut texts = vec![("final message", worked.stopped.final_message.as_str())];
    texts.extend(plan.explanation.as_deref().map(|text| ("plan", text)));
    texts.extend(plan.steps.iter().map(|step| ("plan", step.step.as_str())));
    texts
}
