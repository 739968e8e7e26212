//! `patchwright issue`: issue → pull request.

use std::str::FromStr;

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::host;
use patchwright_base::ui::Ui;
use patchwright_config::Config;
use patchwright_config::flags::{Common, PublishFlags};
use patchwright_forge::RepositoryId;
use patchwright_task::pipeline;
use patchwright_task::run::RunEnvironment;
use patchwright_task::world::World;
use patchwright_types::outcome::Conclusion;
use patchwright_types::task::{IssueRequest, Trigger};

/// Work on an issue and open or update its pull request
///
/// Clones the repository, works on the issue in a locked container, runs the repository's own checks
/// before and after, and opens one pull request with the diff and the evidence. Run it
/// again and the same pull request is brought up to date.
///
/// Needs `GITHUB_TOKEN` with `contents: write`, `issues: write` and `pull-requests: write`, and the key
/// of the model's provider (`OPENAI_API_KEY`, …).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The issue, as `OWNER/REPO#N` or its web address
    #[arg(value_name = "OWNER/REPO#N")]
    pub issue: IssueReference,

    #[command(flatten)]
    pub common: Common,

    #[command(flatten)]
    pub publish: PublishFlags,
}

/// `OWNER/REPO#N`, or the issue's web address.
pub type IssueReference = Reference;

/// A numbered thing of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub repository: RepositoryId,
    pub number: u64,
    /// Of its web address, when it is named by that.
    pub host: Option<String>,
}

impl Reference {
    /// Reads `OWNER/REPO#N`, or a web address with `kind` (`/issues/`, `/pull/`) between repository and
    /// number; what follows the number (`/files`) is part of the page only.
    pub fn parse(text: &str, kind: &str) -> Option<Reference> {
        let (host, repository, number) = match text.split_once('#') {
            Some((repository, number)) if !text.contains("://") => (None, repository, number),
            _ => {
                let host = host::of_address(text)?;
                let path = text.split_once("://")?.1.split_once('/')?.1;
                let path = path.split(['#', '?']).next().unwrap_or(path);
                let (repository, rest) = path.split_once(kind)?;
                (Some(host), repository, rest.split('/').next().unwrap_or(rest))
            }
        };
        let number = number.parse().ok().filter(|n| *n > 0)?;
        Some(Reference { repository: repository.parse().ok()?, number, host })
    }
}

impl FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Reference, String> {
        Reference::parse(text, "/issues/")
            .ok_or_else(|| format!("`{text}` is not an issue; write it as `OWNER/REPO#N`"))
    }
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<Conclusion> {
    host::check(args.issue.host.as_deref(), env)?;
    let mut config = args.common.resolve()?;
    args.publish.overlay(&mut config);
    Box::pin(start(config, &args.common, args.issue, None, env, ui)).await
}

/// Works on an issue; shared with `action`.
pub async fn start(
    config: Config,
    common: &Common,
    issue: IssueReference,
    trigger: Option<Trigger>,
    env: &Env,
    ui: Ui,
) -> Result<Conclusion> {
    if !env.has_github() {
        return Err(Failure::forge("no GitHub token").hint(
            "set `GITHUB_TOKEN` to a token with `contents: write`, `issues: write` and \
             `pull-requests: write`",
        ));
    }
    let world = World::for_github(&config, common, env).await?;
    world.warn_of_disk(ui);
    let IssueReference { repository, number, .. } = issue;
    let request = IssueRequest { repository, number, trigger };
    let report = pipeline::issue(&world, config, request, RunEnvironment::new(ui, env)).await?;
    ui.data(&report.outcome.final_message);
    Ok(report.outcome.conclusion)
}

#[cfg(test)]
mod tests {
    use crate::cli::issue::IssueReference;

    #[test]
    fn issues_are_named_as_people_paste_them() {
        for text in [
            "acme/app#7",
            "https://github.com/acme/app/issues/7",
            "https://ghe.example.com/acme/app/issues/7/#issuecomment-1",
        ] {
            let issue: IssueReference = text.parse().unwrap();
            assert_eq!((issue.repository.to_string().as_str(), issue.number), ("acme/app", 7));
        }
        for text in ["", "7", "#7", "acme/app", "acme/app#0", "acme/app#x", "a/b/c#1", "../x#1"] {
            assert!(text.parse::<IssueReference>().is_err(), "{text}");
        }
    }
}
