//! What makes two runs the same work, and by which name it is known on this machine.

use std::path::Path;

use fs_err as fs;
use sha2::{Digest, Sha256};

use patchwright_forge::RepositoryId;
use patchwright_types::task::{CommandRequest, PromptRequest, ReviewRequest, Task, TaskKind};

/// What makes two runs the same work: one at a time per issue, output folder, or prompt in a place.
pub(super) fn key(task: &Task, at: Option<&Path>) -> String {
    // GitHub does not tell names of repositories apart by case.
    let mut task = task.clone();
    if let Some(repository) = repository_of(&mut task.kind) {
        repository.owner.make_ascii_lowercase();
        repository.name.make_ascii_lowercase();
    }
    named(&as_typed(&task, at))
}

/// The repository by whose name the work is known.
fn repository_of(kind: &mut TaskKind) -> Option<&mut RepositoryId> {
    match kind {
        TaskKind::Issue(it) => Some(&mut it.repository),
        TaskKind::Review(it) => Some(&mut it.repository),
        TaskKind::Respond(it) => Some(&mut it.repository),
        TaskKind::Triage(it) => Some(&mut it.repository),
        TaskKind::Prompt(it) => Some(&mut it.repository),
        TaskKind::Learn(it) => Some(&mut it.repository),
        // A campaign writes the names itself.
        TaskKind::Campaign(_) | TaskKind::Exec(_) | TaskKind::Measure(_) => None,
    }
}

/// The work in words, with the names as they are in the task.
pub(super) fn as_typed(task: &Task, at: Option<&Path>) -> String {
    match (&task.kind, at) {
        (TaskKind::Issue(it), _) => format!("issue-{}-{}", it.repository, it.number),
        (TaskKind::Review(it), _) => format!("review-{}-{}", it.repository, it.number),
        (TaskKind::Respond(it), _) => {
            format!("respond-{}-{}-{:?}-{:?}", it.repository, it.number, it.place, it.command)
        }
        (TaskKind::Triage(it), _) => format!("triage-{}-{}", it.repository, it.number),
        (TaskKind::Campaign(it), _) => {
            let repository = it.repository.to_string();
            let repository = it.repository_id.as_ref().unwrap_or(&repository);
            format!("{}-{repository}-{}", it.campaign, it.base_sha)
        }
        (TaskKind::Prompt(it), _) => {
            format!("prompt-{}-{:?}-{}", it.repository, it.base, it.prompt)
        }
        (TaskKind::Learn(it), _) => format!("learn-{}", it.repository),
        (TaskKind::Exec(_) | TaskKind::Measure(_), Some(at)) => format!("exec-{}", at.display()),
        (TaskKind::Measure(it), None) => format!("measure-{}-{}", it.repository, it.digest),
        (TaskKind::Exec(it), None) => {
            let place =
                fs::canonicalize(&it.repository).unwrap_or_else(|_| (&it.repository).into());
            format!("exec-{}-{:?}-{}", place.display(), it.base, it.prompt)
        }
    }
}

/// A file name for it.
pub(super) fn named(text: &str) -> String {
    let digest = hex::encode(&Sha256::digest(text.as_bytes())[..4]);
    let readable: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(60).collect();
    format!("{readable}-{digest}")
}

/// Whether a killed run's task is this one. The trigger may differ: a second label event for the
/// same issue resumes the first one's work.
pub(crate) fn is_same_work(recorded: &TaskKind, asked: &TaskKind) -> bool {
    let (mut recorded, mut asked) = (recorded.clone(), asked.clone());
    if let (Some(a), Some(b)) = (repository_of(&mut recorded), repository_of(&mut asked))
        && a.is_same(b)
    {
        a.clone_from(b);
    }
    match (&recorded, &asked) {
        (TaskKind::Issue(a), TaskKind::Issue(b)) => {
            a.repository == b.repository && a.number == b.number
        }
        (TaskKind::Review(a), TaskKind::Review(b)) => {
            ReviewRequest { trigger: None, ..a.clone() }
                == ReviewRequest { trigger: None, ..b.clone() }
        }
        // Whoever runs a job again asks for what the comment asked for. A failing check is of one commit.
        (TaskKind::Respond(a), TaskKind::Respond(b)) => {
            let of_event = |it: &CommandRequest| {
                let place = it.place.is_none().then_some(it.trigger.as_ref());
                place.flatten().and_then(|trigger| trigger.at)
            };
            of_event(a) == of_event(b)
                && CommandRequest { trigger: None, ..a.clone() }
                    == CommandRequest { trigger: None, ..b.clone() }
        }
        (TaskKind::Triage(a), TaskKind::Triage(b)) => {
            a.repository == b.repository && a.number == b.number
        }
        // What is not in the campaign's id does not decide about the work.
        (TaskKind::Campaign(a), TaskKind::Campaign(b)) => {
            let same = match (&a.repository_id, &b.repository_id) {
                (Some(a), Some(b)) => a == b,
                _ => a.repository == b.repository,
            };
            a.campaign == b.campaign && same && a.base_sha == b.base_sha
        }
        (TaskKind::Prompt(a), TaskKind::Prompt(b)) => {
            PromptRequest { trigger: None, ..a.clone() }
                == PromptRequest { trigger: None, ..b.clone() }
        }
        (TaskKind::Learn(a), TaskKind::Learn(b)) => a.repository == b.repository,
        (a, b) => a == b,
    }
}
