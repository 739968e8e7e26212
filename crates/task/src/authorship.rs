//! Whose commits are: author, committer, and the lines below the message that name people.

use super::run::Run;
use patchwright_config::publish::REQUESTER;
use patchwright_config::{Config, Identity};
use patchwright_git::commit;
use patchwright_types::task::{
    CommandRequest, IssueRequest, LearnRequest, PromptRequest, ReviewRequest, TaskKind, Trigger,
};

/// The author of our commits.
pub fn author(config: &Config) -> commit::Identity {
    let Identity { name, email, .. } = &config.identity;
    commit::Identity { name: name.clone(), email: email.clone() }
}

/// Their committer, by whom they are known.
pub fn committer(config: &Config) -> commit::Identity {
    commit::Identity {
        name: config.identity.committer_name().to_owned(),
        email: config.identity.committer_email().to_owned(),
    }
}

/// Trailers that name people: co-authors, then the sign-off. `requester` is the co-author who asked.
pub fn trailers(config: &Config, requester: Option<&str>) -> Vec<String> {
    let mut people: Vec<&str> = Vec::new();
    for person in &config.commits.co_authors {
        let person = if person == REQUESTER { requester } else { Some(person.as_str()) };
        people.extend(person.filter(|person| !people.contains(person)));
    }
    let mut lines: Vec<String> =
        people.into_iter().map(|person| format!("Co-authored-by: {}", person.trim())).collect();
    if config.commits.sign_off {
        let Identity { name, email, .. } = &config.identity;
        lines.push(format!("Signed-off-by: {name} <{email}>"));
    }
    lines
}

/// Who asked for the work, as a co-author; nobody when that is not wanted, was a bot, or cannot be told.
pub(super) async fn requester(run: &Run<'_>) -> Option<String> {
    if !run.config.commits.co_authors.iter().any(|person| person == REQUESTER) {
        return None;
    }
    let login = &trigger(&run.task.kind)?.actor;
    let address = run.world.forge().ok()?.commit_address(login).await;
    match address {
        Ok(address) => address.map(|address| format!("{login} <{address}>")),
        Err(err) => {
            run.environment.ui.warn(&format!("`{login}` is not named as a co-author: {err}"));
            None
        }
    }
}

fn trigger(kind: &TaskKind) -> Option<&Trigger> {
    match kind {
        TaskKind::Issue(IssueRequest { trigger, .. })
        | TaskKind::Review(ReviewRequest { trigger, .. })
        | TaskKind::Respond(CommandRequest { trigger, .. })
        | TaskKind::Learn(LearnRequest { trigger, .. })
        | TaskKind::Prompt(PromptRequest { trigger, .. }) => trigger.as_ref(),
        TaskKind::Campaign(_) | TaskKind::Exec(_) | TaskKind::Triage(_) | TaskKind::Measure(_) => {
            None
        }
    }
}

/// The last paragraph of a message. What stands above it are words of a model, or of whoever has written the issue.
pub(crate) fn trailer_lines(message: &str) -> impl Iterator<Item = &str> {
    message.trim_end().rsplit("\n\n").next().unwrap_or_default().lines()
}
