//! `patchwright respond`: a comment → commits on the branch, or an answer.

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::host;
use patchwright_base::ui::Ui;
use patchwright_config::file::{self, File};
use patchwright_config::flags::Common;
use patchwright_config::{Source, merge};
use patchwright_task::respond::reference::{self, CommentReference, Reference};
use patchwright_task::respond::respond;
use patchwright_task::run::RunEnvironment;
use patchwright_task::world::World;
use patchwright_types::outcome::Conclusion;
use patchwright_types::task::CommandRequest;

/// Carry out what a comment asks for, or answer it
///
/// A mention in an issue, a pull request or a review thread becomes commits on the branch, a plan, a
/// review or an answer in the same thread. The author of the comment needs write access. A person at
/// a shell can name the issue or pull request and say what to do instead.
///
/// Needs `GITHUB_TOKEN` with `contents: write`, `issues: write` and `pull-requests: write` (and
/// `checks: read` and `actions: read` for `fix-ci`), and the key of the model's provider.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The comment's web address; or the issue or pull request, as `OWNER/REPO#N`, before a command
    #[arg(value_name = "COMMENT_URL")]
    pub comment: Reference,

    /// What to do when no comment says it: `fix …`, `fix-ci`, `review`, `plan …`, `approve HASH`,
    /// `stop`, or a question
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,

    #[command(flatten)]
    pub common: Common,

    /// Do everything but write to GitHub; the change is kept in the run's folder
    #[arg(long, env = "PATCHWRIGHT_DRY_RUN")]
    pub dry_run: bool,

    /// In a review, whether the model is to confirm each finding before anything is posted: `true` unless said
    /// otherwise
    #[arg(long, env = "PATCHWRIGHT_SECOND_LOOK", value_name = "BOOL")]
    pub second_look: Option<bool>,
}

impl Args {
    /// What its own flags say about settings, in the form of a configuration file.
    fn settings(&self) -> File {
        File {
            publish: file::Publish {
                dry_run: self.dry_run.then_some(true),
                ..file::Publish::default()
            },
            review: file::Review { second_look: self.second_look, ..file::Review::default() },
            ..File::default()
        }
    }
}

/// Where the command is.
enum CommandSource {
    InWords(Box<CommandRequest>),
    InComment(CommentReference),
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<Conclusion> {
    host::check(args.comment.host.as_deref(), env)?;
    let mut config = args.common.resolve()?;
    merge::lay(&mut config, args.settings(), Source::Flag);
    // What is wrong with words is said before anything is opened; a comment has to be read first.
    let asked = match (args.comment.comment, args.command.as_slice()) {
        (Some(_), [_, ..]) => {
            return Err(Failure::usage("a comment says itself what is to be done")
                .hint("leave the command out, or name the pull request as `OWNER/REPO#N`"));
        }
        (None, words) => {
            CommandSource::InWords(Box::new(reference::task_of_words(&args.comment, words)?))
        }
        (Some(named), []) => CommandSource::InComment(named),
    };
    let world = World::for_github(&config, &args.common, env).await?;
    let request = match asked {
        CommandSource::InWords(request) => *request,
        CommandSource::InComment(named) => {
            reference::task_of_comment(&world, &config, &args.comment, named).await?
        }
    };
    let responded = respond(&world, config, request, RunEnvironment::new(ui, env)).await?;
    ui.data(&responded.message);
    Ok(responded.conclusion)
}
