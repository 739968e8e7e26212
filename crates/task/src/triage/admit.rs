//! From an issue to one that is to be triaged. Reads only.

use sha2::{Digest, Sha256};

use crate::admit::{self, at_base, check_actor};
use crate::context::references::LinkedIssues;
use crate::run::Run;
use crate::workspace::Workspace;
use crate::world::World;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_config::triage::Triage;
use patchwright_forge::{Comment, Issue, Repository};
use patchwright_report as report;
use patchwright_report::triage::{Memory, PURPOSE};
use patchwright_types::task::{IssueSnapshot, TriageRequest};

/// Most comments that are read; the newest are kept. Ours has to be among them: what it remembers bounds what others may
/// have us pay for.
const MAX_COMMENTS: usize = 1_000;

/// An issue that we may and shall triage.
pub(super) struct AdmittedTriage {
    pub request: TriageRequest,
    pub repository: Repository,
    pub issue: Issue,
    pub comments: Vec<Comment>,
    pub linked: LinkedIssues,
    /// The comment of the triage before.
    pub sticky: Option<u64>,
    pub memory: Memory,
    /// Digest of what the issue says now.
    pub digest: String,
}

/// Checks state and access. The author needs no access: whether issues of strangers are triaged is the
/// operator's to say.
pub(super) async fn admit(
    world: &World,
    config: &Config,
    request: TriageRequest,
) -> Result<AdmittedTriage> {
    let (id, number) = (&request.repository, request.number);
    let forge = world.forge()?.as_ref();
    let repository = forge.repository(id).await.map_err(|err| admit::unreachable(id, err))?;
    check_actor(forge, config, &repository.id, request.trigger.as_ref()).await?;
    if repository.archived {
        return Err(Failure::nothing_to_do(format!("`{}` is archived", repository.id))
            .hint("unarchive the repository to have its issues triaged"));
    }
    let issue = forge
        .issue(&repository.id, number)
        .await
        .map_err(|err| admit::no_issue(&format!("{id}#{number}"), err))?;
    wanted(config, &repository, &issue)?;
    let comments =
        forge.comments(&repository.id, number, MAX_COMMENTS).await.map_err(Failure::from)?;
    let snapshot = IssueSnapshot { title: issue.title.clone(), body: issue.body.clone() };
    let linked = LinkedIssues::fetch(forge, &repository, number, &snapshot, &comments).await;
    let marked = comments.iter().filter(|it| report::marked(&it.body, PURPOSE).is_some());
    let sticky = Comment::newest(marked);
    let memory = sticky.map(|comment| Memory::read(&comment.body)).unwrap_or_default();
    let (sticky, digest) = (sticky.map(|comment| comment.id), digest(&issue, &comments));
    Ok(AdmittedTriage { request, repository, issue, comments, linked, sticky, memory, digest })
}

/// Whether an issue like this is triaged.
pub(super) fn wanted(config: &Config, repository: &Repository, issue: &Issue) -> Result<()> {
    let name = format!("{}#{}", repository.id, issue.number);
    admit::check_issue(issue, &name, "triaged")?;
    let author = &issue.author;
    let is_allowed = config.access.allow_bots.iter().any(|bot| author.has_login(bot));
    if author.is_machine() && !is_allowed {
        let why = format!("issue {name} is by the bot `{}`", author.login);
        return Err(Failure::nothing_to_do(why).hint("list it in `access.allow-bots`"));
    }
    Ok(())
}

/// What a triage depends on: the issue, and what its author has said below it.
fn digest(issue: &Issue, comments: &[Comment]) -> String {
    let mut digest = Sha256::new();
    let said = comments.iter().filter(|it| !it.ours && it.author.is_same(&issue.author));
    let texts = [&issue.title, &issue.body].into_iter().chain(said.map(|it| &it.body));
    for text in texts {
        digest.update(text.as_bytes());
        digest.update([0]);
    }
    hex::encode(&digest.finalize()[..16])
}

impl AdmittedTriage {
    /// Why there is nothing to be done any more.
    pub(super) fn is_done(&self, rules: &Triage) -> Option<String> {
        let name = format!("issue {}#{}", self.repository.id, self.issue.number);
        if self.request.full {
            return None;
        }
        if self.memory.digest == self.digest {
            return Some(format!("{name} has not changed since it was triaged"));
        }
        let runs = self.memory.runs;
        (runs >= rules.max_runs).then(|| {
            format!("{name} was triaged {runs} times, which is all that `triage.max-runs` allows")
        })
    }

    pub(super) async fn open(&self, run: &Run<'_>) -> Result<Workspace> {
        at_base(run, &self.repository, None).await
    }
}
