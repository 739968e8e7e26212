//! From what a person types at a shell to a task: a comment's web address, or an issue or pull
//! request and a command in words.

use crate::event::mention;
use crate::world::World;
use patchwright_base::error::{Failure, Result};
use patchwright_base::host;
use patchwright_config::Config;
use patchwright_forge::{Comment, CommentPlace, Forge, RepositoryId};
use patchwright_types::task::{CommandRequest, Trigger};

/// What a person named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub repository: RepositoryId,
    /// Number of the issue or pull request.
    pub number: u64,
    pub comment: Option<CommentReference>,
    /// Of its web address, when it is named by that.
    pub host: Option<String>,
}

/// The comment in a web address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentReference {
    /// `#issuecomment-1`
    Conversation(u64),
    /// `#discussion_r1`, or `#r1` behind `/files`
    Thread(u64),
    /// `#pullrequestreview-1`
    Review(u64),
}

impl std::str::FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Reference, String> {
        let mistake = || {
            format!(
                "`{text}` is not a comment; give its web address, or `OWNER/REPO#N` and a command"
            )
        };
        let number = |digits: &str| digits.parse().ok().filter(|number: &u64| *number > 0);
        let Some((_, address)) = text.split_once("://") else {
            let (repository, digits) = text.split_once('#').ok_or_else(mistake)?;
            return Ok(Reference {
                repository: repository.parse().map_err(|_| mistake())?,
                number: number(digits).ok_or_else(mistake)?,
                comment: None,
                host: None,
            });
        };
        let host = host::of_address(text).ok_or_else(mistake)?;
        let (_, path) = address.split_once('/').ok_or_else(mistake)?;
        let (path, fragment) = path.split_once('#').unwrap_or((path, ""));
        let path = path.split('?').next().unwrap_or(path);
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let [owner, name, "issues" | "pull", digits, ..] = parts.as_slice() else {
            return Err(mistake());
        };
        let after = |prefix: &str| fragment.strip_prefix(prefix).and_then(number);
        let comment = after("issuecomment-")
            .map(CommentReference::Conversation)
            .or_else(|| after("discussion_r").map(CommentReference::Thread))
            .or_else(|| after("pullrequestreview-").map(CommentReference::Review))
            .or_else(|| after("r").map(CommentReference::Thread));
        if comment.is_none() && !fragment.is_empty() {
            return Err(mistake());
        }
        Ok(Reference {
            repository: format!("{owner}/{name}").parse().map_err(|_| mistake())?,
            number: number(digits).ok_or_else(mistake)?,
            comment,
            host: Some(host),
        })
    }
}

/// The task that a comment is. Its author is who asks.
///
/// # Errors
/// Nothing to do, when the comment asks nothing of us.
pub async fn task_of_comment(
    world: &World,
    config: &Config,
    reference: &Reference,
    named: CommentReference,
) -> Result<CommandRequest> {
    let forge = world.forge()?.as_ref();
    let (repository, number) = (&reference.repository, reference.number);
    let place = match named {
        CommentReference::Conversation(comment) => CommentPlace::Conversation { comment },
        CommentReference::Review(review) => CommentPlace::Review { review },
        CommentReference::Thread(comment) => {
            CommentPlace::Thread { comment, root: root(forge, reference, comment).await? }
        }
    };
    let comment = forge.comment_at(repository, number, place).await.map_err(|err| {
        Failure::from(err).hint("check the address, and that the token may see the repository")
    })?;
    let mention = &config.respond.mention;
    let command = mention::parse(&comment.body, mention).ok_or_else(|| {
        Failure::nothing_to_do(format!("the comment does not ask `@{mention}` for anything"))
    })?;
    let Comment { author, updated_at, .. } = comment;
    let trigger = Trigger {
        actor: if author.is_bot && !author.login.ends_with("[bot]") {
            format!("{}[bot]", author.login)
        } else {
            author.login
        },
        rerun_by: None,
        label: None,
        at: Some(updated_at),
        snapshot: None,
    };
    Ok(CommandRequest {
        repository: repository.clone(),
        number,
        place: Some(place),
        command,
        trigger: Some(trigger),
    })
}

/// The first comment of the thread that a comment is in.
async fn root(forge: &dyn Forge, reference: &Reference, comment: u64) -> Result<u64> {
    let threads = forge.threads(&reference.repository, reference.number).await;
    let threads = threads.map_err(Failure::from)?;
    let thread =
        threads.iter().find(|thread| thread.comments.iter().any(|said| said.id == comment));
    Ok(thread.and_then(|thread| thread.comments.first()).map_or(comment, |first| first.id))
}

/// The task in words: `fix-ci`, `review`, `fix the typo`.
///
/// # Errors
/// When the words are no command.
pub fn task_of_words(reference: &Reference, words: &[String]) -> Result<CommandRequest> {
    let command = mention::command_of(&words.join(" "));
    let command = command.filter(|_| !words.is_empty()).ok_or_else(|| {
        Failure::usage("there is no command").hint(
            "give a comment's web address, or a command behind `OWNER/REPO#N`: `fix …`, `fix-ci`, \
             `review`, `plan …`, `approve HASH`, `stop`, or a question",
        )
    })?;
    Ok(CommandRequest {
        repository: reference.repository.clone(),
        number: reference.number,
        place: None,
        command,
        trigger: None,
    })
}
