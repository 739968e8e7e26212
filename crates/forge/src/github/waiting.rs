//! What people are told of waits for GitHub: that its API or its git server does not answer, or limits how often it is
//! asked. Once for each, until it answers.

use std::time::{Duration, Instant};

use super::connection::{BufferedResponse, TransportError};
use super::limits::LimitedAccount;
use patchwright_base::waits;
use patchwright_git::GitError;

/// Trouble of this kind is worth a line.
fn lasts(failures: u32, since: Instant) -> bool {
    failures >= waits::ATTEMPTS || since.elapsed() >= waits::NOTICEABLE
}

/// The API has failed so often since then, and is asked again so often.
pub(super) fn for_api(
    host: &str,
    answer: &Result<BufferedResponse, TransportError>,
    (failures, since): (u32, Instant),
    again: u32,
) {
    if !lasts(failures, since) {
        return;
    }
    let api = api(host);
    waits::begun(&api, || {
        let why = match answer {
            Ok(reply) => format!("it answers with status {}", reply.status().as_u16()),
            Err(err) => err.to_string(),
        };
        let times = if again == 1 { "once more".to_owned() } else { format!("{again} more times") };
        format!("waiting for {api}: {why}; it is asked {times}")
    });
}

/// The API answers.
pub(super) fn api_answers(host: &str) {
    waits::over(&api(host));
}

fn api(host: &str) -> String {
    format!("the API of `{host}`")
}

/// Git's server has failed so often since then, and is asked again for as long as `patience` says.
pub(super) fn for_git(
    server: &str,
    err: &GitError,
    (failures, since): (u32, Instant),
    patience: Duration,
) {
    // A branch that is being written is written in a moment.
    let is_server = !matches!(err, GitError::Rejected { .. });
    if is_server && lasts(failures, since) {
        let left = waits::in_words(patience.saturating_sub(since.elapsed()));
        let server = git(server);
        waits::begun(&server, || {
            format!("waiting for {server}: {err}; it is asked again for up to {left}")
        });
    }
}

/// Git's server answers.
pub(super) fn git_answers(server: &str) {
    waits::over(&git(server));
}

fn git(server: &str) -> String {
    format!("the git server `{server}`")
}

/// A rate limit is waited for.
pub(super) fn for_limit(host: &str, account: &LimitedAccount, wait: Duration) {
    if wait >= waits::NOTICEABLE {
        let (who, wait) = (limited(host, account), waits::in_words(wait));
        waits::begun(&who, || {
            format!("waiting for {wait}, because {who} limits how often it is asked")
        });
    }
}

/// The limit is over.
pub(super) fn limit_is_over(host: &str, account: &LimitedAccount) {
    waits::over(&limited(host, account));
}

fn limited(host: &str, account: &LimitedAccount) -> String {
    match account.owner() {
        Some(owner) => format!("`{host}` (as the App at `{owner}`)"),
        None => format!("`{host}`"),
    }
}
