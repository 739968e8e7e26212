//! The checks that ran on a commit, and the end of their logs.

use http::StatusCode;
use http::header::LOCATION;

use super::http::{Call, segment};
use super::wire_reviews::{AnnotationJson, CheckRunsJson, StatusesJson};
use super::{GitHubForge, route};
use crate::{CheckAnnotation, CheckRun, ForgeError, RepositoryId};

/// Annotations of one check that are read.
const MOST_ANNOTATIONS: usize = 1000;
/// Failed checks whose annotations are read.
const MOST_FAILED: usize = 30;
/// The app whose check runs are jobs of a workflow, with logs.
const ACTIONS: &str = "github-actions";
const ATTEMPTS: u32 = 3;

impl GitHubForge {
    pub(super) async fn list_check_runs(
        &self,
        repository: &RepositoryId,
        sha: &str,
    ) -> Result<Vec<CheckRun>, ForgeError> {
        let path = format!("commits/{}/check-runs?filter=latest&per_page=100", segment(sha));
        let call = Call::get(route(repository, &path), format!("the checks of `{repository}`"))
            .needs("checks: read");
        let runs = self.api.list_in(&call, usize::MAX, |page: CheckRunsJson| page.check_runs);
        let (mut found, mut failed) = (Vec::new(), 0);
        for json in runs.await? {
            let count = json.annotations_count();
            let mut run = CheckRun::from(json);
            let has_failed = matches!(
                run.conclusion.as_deref(),
                Some("failure" | "timed_out" | "action_required")
            );
            if has_failed && count > 0 && failed < MOST_FAILED {
                failed += 1;
                run.annotations = self.annotations_of(repository, run.id).await?;
            }
            found.push(run);
        }
        found.extend(self.list_statuses(repository, sha).await?);
        Ok(found)
    }

    /// The latest commit status of each context, as checks without a log: what has no app reports like
    /// this. None when we may not see them.
    async fn list_statuses(
        &self,
        repository: &RepositoryId,
        sha: &str,
    ) -> Result<Vec<CheckRun>, ForgeError> {
        let path = format!("commits/{}/status?per_page=100", segment(sha));
        let call = Call::get(route(repository, &path), format!("the statuses of `{repository}`"))
            .needs("statuses: read");
        match self.api.list_in(&call, usize::MAX, |page: StatusesJson| page.statuses).await {
            Ok(statuses) => Ok(statuses.into_iter().map(CheckRun::from).collect()),
            Err(ForgeError::Forbidden { .. } | ForgeError::NotFound { .. }) => Ok(Vec::new()),
            Err(err) => Err(err),
        }
    }

    /// The annotations of a check, in its order; none when we may not see them.
    pub(super) async fn annotations_of(
        &self,
        repository: &RepositoryId,
        check: u64,
    ) -> Result<Vec<CheckAnnotation>, ForgeError> {
        let path = format!("check-runs/{check}/annotations?per_page=100");
        let call = Call::get(route(repository, &path), format!("the annotations of check {check}"));
        match self.api.list::<AnnotationJson>(&call, MOST_ANNOTATIONS).await {
            Ok(annotations) => Ok(annotations.into_iter().map(CheckAnnotation::from).collect()),
            Err(ForgeError::Forbidden { .. } | ForgeError::NotFound { .. }) => Ok(Vec::new()),
            Err(err) => Err(err),
        }
    }

    /// The end of a job's log. GitHub sends us to a storage for it, which gets no token from us.
    pub(super) async fn log_tail(
        &self,
        repository: &RepositoryId,
        check: &CheckRun,
        limit: usize,
    ) -> Result<Option<String>, ForgeError> {
        if check.app != ACTIONS {
            return Ok(None);
        }
        let mut call = Call::get(
            route(repository, &format!("actions/jobs/{}/logs", check.id)),
            format!("the log of check `{}`", check.name),
        )
        .needs("actions: read");
        call.tail = Some(limit);
        let mut trouble = String::new();
        for attempt in 1..=ATTEMPTS {
            let reply = self.api.repeat(&call).await?;
            let place = reply.headers.get(LOCATION).and_then(|place| place.to_str().ok());
            let (status, log) = match place.filter(|_| reply.status.is_redirection()) {
                Some(place) => match self.api.download_tail(place, limit).await {
                    Ok(answer) => answer,
                    Err(message) => {
                        trouble = message;
                        self.api.limiter.back_off(attempt).await;
                        continue;
                    }
                },
                None if matches!(reply.status.as_u16(), 404 | 410) => return Ok(None),
                None => {
                    let reply = self.api.good(&call, reply)?;
                    (reply.status, reply.body)
                }
            };
            match status {
                StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(None),
                status if status.is_success() => return Ok(Some(text_of(&log, limit))),
                // The address is good for a minute only, so it is asked for again.
                status => trouble = format!("status {} for the log", status.as_u16()),
            }
            self.api.limiter.back_off(attempt).await;
        }
        Err(self.api.unavailable(trouble))
    }
}

/// The log as text. Where it is cut, it begins with a whole line, or at least a whole character.
fn text_of(log: &[u8], limit: usize) -> String {
    let cut = log.len() > limit;
    let tail = log.get(log.len().saturating_sub(limit)..).unwrap_or_default();
    let line = tail.iter().position(|byte| *byte == b'\n').filter(|_| cut);
    let start = match line {
        Some(end) if end + 1 < tail.len() => end + 1,
        _ if cut => tail.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count(),
        _ => 0,
    };
    String::from_utf8_lossy(tail.get(start..).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use crate::github::check_runs::text_of;

    #[test]
    fn a_cut_log_begins_with_a_whole_line() {
        for (log, limit, text) in [
            ("one\ntwo\n", 100, "one\ntwo\n"),
            ("one\ntwo\n", 8, "one\ntwo\n"),
            ("one\ntwo\n", 6, "two\n"),
            ("one\ntwo\n", 2, "o\n"),
            ("ééé", 3, "é"),
            ("one", 0, ""),
            ("", 5, ""),
        ] {
            assert_eq!(text_of(log.as_bytes(), limit), text, "{log:?} {limit}");
        }
    }
}
