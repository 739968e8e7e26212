//! `patchwright review`: pull request → one review.

use std::path::{Path, PathBuf};

use crate::cli::issue::Reference;
use patchwright_base::clock::Clock;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::host;
use patchwright_base::redact::Redactor;
use patchwright_base::ui::Ui;
use patchwright_config::file::{self, File};
use patchwright_config::flags::Common;
use patchwright_config::review::Threshold;
use patchwright_config::{Config, Source, merge};
use patchwright_provider::http;
use patchwright_report::findings;
use patchwright_task::review::hand_over::{self, Expected, Poster};
use patchwright_task::review::run::{self, ReviewReport};
use patchwright_task::run::RunEnvironment;
use patchwright_task::world::{self, World};
use patchwright_types::outcome::Conclusion;
use patchwright_types::published::PublishedReview;
use patchwright_types::reviewed::Reviewed;
use patchwright_types::task::ReviewRequest;

/// Review a pull request
///
/// Reads the change in a locked container on its pinned head, runs the repository's checks, and posts
/// one review with comments on the lines that hold the quoted code. Run it again after a push, and only
/// what is new is read and posted.
///
/// Needs `GITHUB_TOKEN` with `contents: read` and `pull-requests: write` (for the check run also
/// `checks: write`), and the key of the model's provider (`OPENAI_API_KEY`, …).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pull request, as `OWNER/REPO#N` or its web address
    #[arg(value_name = "OWNER/REPO#N")]
    pub pull_request: PullRequestReference,

    #[command(flatten)]
    pub review: ReviewFlags,

    #[command(flatten)]
    pub common: Common,
}

/// Flags of reviews.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Review")]
pub struct ReviewFlags {
    /// Review everything again, whatever was reviewed before
    #[arg(long, env = "PATCHWRIGHT_FULL")]
    pub full: bool,

    /// Review this commit of the pull request instead of its newest
    #[arg(long, env = "PATCHWRIGHT_HEAD", value_name = "SHA")]
    pub head: Option<String>,

    /// Findings at least this important make the check fail: 0 to 3, or `never`
    #[arg(long, env = "PATCHWRIGHT_FAIL_ON", value_name = "PRIORITY")]
    pub fail_on: Option<Threshold>,

    /// Whether the model is to confirm each finding before anything is posted: `true` unless said otherwise
    #[arg(long, env = "PATCHWRIGHT_SECOND_LOOK", value_name = "BOOL")]
    pub second_look: Option<bool>,

    /// Post the review that another run handed over: the folder with its `review.json`. Asks no model
    #[arg(long, env = "PATCHWRIGHT_POST_FROM", value_name = "DIR", conflicts_with_all = ["full", "dry_run"])]
    pub post_from: Option<PathBuf>,

    /// Do everything but write to GitHub; the findings are kept in the run's folder
    #[arg(long, env = "PATCHWRIGHT_DRY_RUN")]
    pub dry_run: bool,
}

impl ReviewFlags {
    /// What the flags say about settings, in the form of a configuration file.
    fn settings(&self) -> File {
        File {
            publish: file::Publish {
                dry_run: self.dry_run.then_some(true),
                ..file::Publish::default()
            },
            review: file::Review {
                fail_on: self.fail_on,
                second_look: self.second_look,
                ..file::Review::default()
            },
            ..File::default()
        }
    }
}

/// `OWNER/REPO#N`, or the pull request's web address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequestReference(pub Reference);

impl std::str::FromStr for PullRequestReference {
    type Err = String;

    fn from_str(text: &str) -> Result<PullRequestReference, String> {
        Reference::parse(text, "/pull/")
            .map(PullRequestReference)
            .ok_or_else(|| format!("`{text}` is not a pull request; write it as `OWNER/REPO#N`"))
    }
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<Conclusion> {
    host::check(args.pull_request.0.host.as_deref(), env)?;
    let mut config = args.common.resolve()?;
    merge::lay(&mut config, args.review.settings(), Source::Flag);
    if let Some(folder) = &args.review.post_from {
        let Reference { repository, number, .. } = args.pull_request.0;
        let (number, head) = (Some(number), args.review.head);
        let expected = Expected { repository, number, head, source: None };
        let (reviewed, _) = post_from(&config, &args.common, folder, &expected, env, ui).await?;
        return Ok(reviewed.conclusion);
    }
    let Reference { repository, number, .. } = args.pull_request.0;
    let (head, full) = (args.review.head, args.review.full);
    let (trigger, only_judges) = (None, false);
    let request = ReviewRequest { repository, number, trigger, head, full, only_judges };
    let report = Box::pin(start(config, &args.common, request, env, ui)).await?;
    Ok(report.reviewed.conclusion)
}

/// Posts a review that a run without the right to do so handed over; shared with `action`.
pub async fn post_from(
    config: &Config,
    common: &Common,
    folder: &Path,
    expected: &Expected,
    env: &Env,
    ui: Ui,
) -> Result<(Reviewed, PublishedReview)> {
    let forge = world::github(env, &http::client()?, &world::state_dir(common, env)?)?;
    let redactor = Redactor::new(env.secrets());
    let now = Clock::new(env)?.now();
    let poster = Poster { forge: &forge, config, redactor: &redactor, ui, now };
    let (reviewed, published) = hand_over::post_from(poster, folder, expected).await?;
    if let Some(url) = &published.url {
        ui.say(&format!("review of #{}: {url}", reviewed.number));
    }
    Ok((reviewed, published))
}

/// Reviews a pull request; shared with `action`.
pub async fn start(
    config: Config,
    common: &Common,
    request: ReviewRequest,
    env: &Env,
    ui: Ui,
) -> Result<ReviewReport> {
    if !env.has_github() {
        return Err(Failure::forge("no GitHub token").hint(
            "set `GITHUB_TOKEN` to a token with `contents: read` and `pull-requests: write`",
        ));
    }
    let world = World::for_github(&config, common, env).await?;
    let report = run::review(&world, config, request, RunEnvironment::new(ui, env)).await?;
    for line in listed(&report) {
        ui.say(&line);
    }
    ui.data(&report.reviewed.summary);
    Ok(report)
}

/// What was found, and where it was posted, for people who look at a terminal.
fn listed(report: &ReviewReport) -> Vec<String> {
    let reviewed = &report.reviewed;
    let mut lines: Vec<String> = reviewed.findings.iter().map(findings::line).collect();
    let published = report.published.as_ref();
    let known = published.map(|published| published.known.as_slice()).unwrap_or_default();
    lines.insert(0, findings::headline(reviewed, known));
    if let Some(url) = published.and_then(|published| published.url.as_deref()) {
        lines.push(format!("review of #{}: {url}", reviewed.number));
    }
    if let Some(url) = published.and_then(|published| published.check_url.as_deref()) {
        lines.push(format!("check: {url}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use crate::cli::review::PullRequestReference;

    #[test]
    fn pull_requests_are_named_as_people_paste_them() {
        for text in [
            "acme/app#7",
            "https://github.com/acme/app/pull/7",
            "https://ghe.example.com/acme/app/pull/7/files#diff-1",
            "https://github.com/acme/app/pull/7/commits/0123abc",
        ] {
            let PullRequestReference(found) = text.parse().unwrap();
            assert_eq!((found.repository.to_string().as_str(), found.number), ("acme/app", 7));
        }
        for text in
            ["", "7", "#7", "acme/app", "acme/app#0", "https://github.com/acme/app/issues/7"]
        {
            assert!(text.parse::<PullRequestReference>().is_err(), "{text}");
        }
    }
}
