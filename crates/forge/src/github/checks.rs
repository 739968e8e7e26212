//! Our check on a commit: announced when the work begins, made or ended once, replaced by the next, a commit status where
//! the token may not write checks.
//!
//! Annotations are only ever added, fifty at a time; they cannot be taken away. So a check that
//! carries others than ours now is not edited: a new one of the same name takes its place.

use async_trait::async_trait;
use http::Method;
use serde_json::{Value, json};

use super::body::{fit_text, fit_title};
use super::comments::{LOOKS, WRITES};
use super::http::{Call, Reply, WriteOutcome, segment};
use super::wire_reviews::{CheckRunJson, CheckRunsJson};
use super::{GitHubForge, route};
use crate::{
    BegunCheck, CheckAnnotation, CheckConclusion, CheckDraft, ForgeError, RepositoryId,
    RunningCheck, RunningChecks,
};

const CHECKS_WRITE: &str = "checks: write";
const STATUSES_WRITE: &str = "statuses: write";
/// By this we know our own among checks of the same name.
const EXTERNAL_ID: &str = "patchwright";
const LONGEST_SUMMARY: usize = 65_535;
const LONGEST_DESCRIPTION: usize = 140;
/// Annotations that one request may carry.
const AT_ONCE: usize = 50;
/// Annotations that a check gets at most; nobody reads more.
const MOST_ANNOTATIONS: usize = 1000;

/// A check that is there, and how many of the annotations it has.
struct ExistingCheck {
    id: u64,
    page: Option<String>,
    annotations: usize,
}

/// How an attempt to create it ended.
enum CreateOutcome {
    Yes(ExistingCheck),
    MayNot,
}

#[async_trait]
impl RunningChecks for GitHubForge {
    /// Says that the check runs. Nothing is tried again: the end of the work writes the check in any case.
    async fn begin_check(
        &self,
        repository: &RepositoryId,
        check: &RunningCheck,
    ) -> Result<BegunCheck, ForgeError> {
        // One that was cut off stands before an older one that has a verdict.
        let ours = match self.all_our_checks(repository, &check.head_sha, &check.name, "all").await
        {
            Err(ForgeError::Forbidden { .. } | ForgeError::NotFound { .. }) => {
                return Ok(BegunCheck::default());
            }
            ours => ours?,
        };
        let has_verdict = |run: &&CheckRunJson| {
            matches!(run.conclusion.as_deref(), Some("success" | "neutral" | "failure"))
        };
        let verdict = ours.iter().filter(has_verdict).max_by_key(|run| run.id);
        let failed_before = verdict.is_some_and(|run| run.conclusion.as_deref() == Some("failure"));
        let begun = |runs: bool| BegunCheck { runs, failed_before };
        let newest = ours.iter().max_by_key(|run| run.id);
        if newest.is_some_and(|run| !run.is_completed()) {
            return Ok(begun(true));
        }
        // Beside one that has ended: the newest of a name is the one that GitHub counts.
        let mut body = json!({
            "status": "in_progress",
            "output": { "title": fit_title(&check.title), "summary": check.summary },
        });
        if let Some(url) = &check.details_url {
            body["details_url"] = url.as_str().into();
        }
        let call = creation(repository, &check.head_sha, &check.name, body);
        match self.api.write(&call).await? {
            WriteOutcome::Answered(reply) if matches!(reply.status.as_u16(), 403 | 404) => {
                Ok(begun(false))
            }
            WriteOutcome::Answered(reply) => self.api.good(&call, reply).map(|_| begun(true)),
            // It may be there.
            WriteOutcome::Lost(_) => Ok(begun(true)),
        }
    }

    /// Ends our check if it still runs.
    async fn end_running_check(
        &self,
        repository: &RepositoryId,
        check: &CheckDraft,
    ) -> Result<(), ForgeError> {
        let ours = self.our_checks(repository, &check.head_sha, &check.name).await?;
        let running = ours.into_iter().max_by_key(|run| run.id).filter(|run| !run.is_completed());
        let Some(run) = running else { return Ok(()) };
        let annotations = run.annotations_count();
        let run = ExistingCheck { id: run.id, page: run.html_url, annotations };
        self.complete(repository, check, &run, true).await
    }
}

impl GitHubForge {
    pub(super) async fn write_check(
        &self,
        repository: &RepositoryId,
        check: &CheckDraft,
    ) -> Result<Option<String>, ForgeError> {
        let earlier = match self.our_checks(repository, &check.head_sha, &check.name).await {
            Ok(ours) => ours,
            // What may not be read may not be written either; the attempt decides.
            Err(ForgeError::Forbidden { .. } | ForgeError::NotFound { .. }) => Vec::new(),
            Err(err) => return Err(err),
        };
        let newest = earlier.iter().map(|run| run.id).max().unwrap_or(0);
        if let Some(run) = earlier.into_iter().max_by_key(|run| run.id)
            && let Some(annotations) = self.common_annotations(repository, &run, check).await?
        {
            let run = ExistingCheck { id: run.id, page: run.html_url, annotations };
            match self.complete(repository, check, &run, true).await {
                // Deleted, or made by another app that we were then.
                Err(ForgeError::Forbidden { .. } | ForgeError::NotFound { .. }) => {}
                result => return result.map(|()| run.page),
            }
        }
        match self.create_check(repository, check, newest).await? {
            CreateOutcome::Yes(run) => {
                self.complete(repository, check, &run, false).await?;
                Ok(run.page)
            }
            CreateOutcome::MayNot => self.write_status(repository, check).await,
        }
    }

    /// Our newest check of this name on this commit.
    async fn our_checks(
        &self,
        repository: &RepositoryId,
        head_sha: &str,
        check_name: &str,
    ) -> Result<Vec<CheckRunJson>, ForgeError> {
        self.all_our_checks(repository, head_sha, check_name, "latest").await
    }

    /// Our checks of this name on this commit, as a filter of GitHub's has them.
    async fn all_our_checks(
        &self,
        repository: &RepositoryId,
        head_sha: &str,
        check_name: &str,
        filter: &str,
    ) -> Result<Vec<CheckRunJson>, ForgeError> {
        let (sha, name) = (segment(head_sha), segment(check_name));
        let query = format!("check_name={name}&filter={filter}&per_page=100");
        let call = Call::get(
            route(repository, &format!("commits/{sha}/check-runs?{query}")),
            format!("the checks of `{repository}`"),
        );
        let pages = |page: CheckRunsJson| page.check_runs;
        let mut runs = self.api.list_in(&call, usize::MAX, pages).await?;
        runs.retain(|run| {
            run.name == check_name && run.external_id.as_deref() == Some(EXTERNAL_ID)
        });
        Ok(runs)
    }

    /// How many of our annotations the check has already; `None` when it has others.
    async fn common_annotations(
        &self,
        repository: &RepositoryId,
        run: &CheckRunJson,
        check: &CheckDraft,
    ) -> Result<Option<usize>, ForgeError> {
        if run.annotations_count() == 0 {
            return Ok(Some(0));
        }
        let there = self.annotations_of(repository, run.id).await?;
        let same = there.len() <= check.annotations.len()
            && there.iter().zip(&check.annotations).all(|(there, ours)| {
                (&there.path, there.start_line, &there.message)
                    == (&ours.path, ours.start_line.max(1), &message(ours))
            });
        Ok(same.then_some(there.len()))
    }

    async fn create_check(
        &self,
        repository: &RepositoryId,
        check: &CheckDraft,
        newest: u64,
    ) -> Result<CreateOutcome, ForgeError> {
        let first = AT_ONCE.min(check.annotations.len());
        let call = creation(repository, &check.head_sha, &check.name, body(check, 0));
        let mut lost = None;
        for _ in 0..WRITES {
            match self.api.write(&call).await? {
                WriteOutcome::Answered(reply) if matches!(reply.status.as_u16(), 403 | 404) => {
                    return Ok(CreateOutcome::MayNot);
                }
                WriteOutcome::Answered(reply) => {
                    let reply = self.api.good(&call, reply)?;
                    let run: CheckRunJson = self.api.parse(&call, &reply)?;
                    let (id, page) = (run.id, run.html_url);
                    return Ok(CreateOutcome::Yes(ExistingCheck { id, page, annotations: first }));
                }
                WriteOutcome::Lost(err) => lost = Some(err),
            }
            for pause in LOOKS {
                self.api.limiter.sleep(pause).await;
                let ours = self.our_checks(repository, &check.head_sha, &check.name).await?;
                let new = ours.into_iter().filter(|run| run.id > newest).max_by_key(|run| run.id);
                if let Some(run) = new {
                    let (id, page) = (run.id, run.html_url);
                    return Ok(CreateOutcome::Yes(ExistingCheck { id, page, annotations: first }));
                }
            }
        }
        Err(lost.unwrap_or_else(|| self.api.unavailable("the check was not written")))
    }

    /// Brings the check up to date and adds the annotations that it lacks.
    async fn complete(
        &self,
        repository: &RepositoryId,
        check: &CheckDraft,
        run: &ExistingCheck,
        is_old: bool,
    ) -> Result<(), ForgeError> {
        let wanted = check.annotations.len().min(MOST_ANNOTATIONS);
        let (mut there, mut pending) = (run.annotations, is_old);
        let mut failures = 0;
        while pending || there < wanted {
            let call = Call::write(
                Method::PATCH,
                route(repository, &format!("check-runs/{}", run.id)),
                format!("check `{}`", check.name),
            )
            .for_action(format!("write check `{}`", check.name), CHECKS_WRITE)
            .json(body(check, there));
            match self.api.write(&call).await? {
                WriteOutcome::Answered(reply) => {
                    self.api.good(&call, reply)?;
                    there = wanted.min(there + AT_ONCE);
                    pending = false;
                }
                WriteOutcome::Lost(err) => {
                    failures += 1;
                    if failures >= WRITES {
                        return Err(err);
                    }
                    self.api.limiter.back_off(failures).await;
                    // Written again only when it was not: annotations would double.
                    let now = self.read_check(repository, run.id).await?.annotations_count();
                    if now > there {
                        there = now;
                        pending = false;
                    }
                }
            }
        }
        Ok(())
    }

    async fn read_check(
        &self,
        repository: &RepositoryId,
        id: u64,
    ) -> Result<CheckRunJson, ForgeError> {
        let path = route(repository, &format!("check-runs/{id}"));
        self.api.read_json(&Call::get(path, format!("check {id} of `{repository}`"))).await
    }

    /// A commit status, where check runs may not be written: one line and a state. It has no state between success and
    /// failure; such a verdict is `pending`, which blocks a merge where the status is required.
    async fn write_status(
        &self,
        repository: &RepositoryId,
        check: &CheckDraft,
    ) -> Result<Option<String>, ForgeError> {
        let state = match check.conclusion {
            CheckConclusion::Success => "success",
            CheckConclusion::Failure => "failure",
            CheckConclusion::Neutral | CheckConclusion::ActionRequired => "pending",
        };
        let title = title(check);
        let description = match check.conclusion {
            CheckConclusion::Success | CheckConclusion::Failure => title,
            CheckConclusion::Neutral | CheckConclusion::ActionRequired => {
                format!("No verdict: {title}")
            }
        };
        let mut body = json!({
            "state": state,
            "context": check.name,
            "description": fit_text(&description, LONGEST_DESCRIPTION),
        });
        if let Some(url) = &check.details_url {
            body["target_url"] = url.as_str().into();
        }
        let call = Call::write(
            Method::POST,
            route(repository, &format!("statuses/{}", segment(&check.head_sha))),
            format!("the status of a commit of `{repository}`"),
        )
        .for_action(format!("write status `{}`", check.name), STATUSES_WRITE)
        .json(body);
        // The last one of the same name counts.
        let (reply, _): (Reply, bool) = self.api.write_repeatable(&call).await?;
        self.api.good(&call, reply)?;
        Ok(check.details_url.clone())
    }
}

/// The request that makes a check run of ours; `body` has what is particular to it.
fn creation(repository: &RepositoryId, head_sha: &str, name: &str, mut body: Value) -> Call {
    body["name"] = name.into();
    body["head_sha"] = head_sha.into();
    body["external_id"] = EXTERNAL_ID.into();
    let what = format!("a check of `{repository}`");
    Call::write(Method::POST, route(repository, "check-runs"), what)
        .for_action(format!("write check `{name}`"), CHECKS_WRITE)
        .json(body)
}

/// The request with the annotations from `from` on, as many as one may carry.
fn body(check: &CheckDraft, from: usize) -> Value {
    let annotations = check.annotations.iter().take(MOST_ANNOTATIONS).skip(from).take(AT_ONCE);
    let annotations: Vec<Value> = annotations.map(annotation).collect();
    let summary = fit_text(&check.summary, LONGEST_SUMMARY);
    let summary = if summary.trim().is_empty() { title(check) } else { summary };
    let mut body = json!({
        "name": check.name,
        "status": "completed",
        "conclusion": match check.conclusion {
            CheckConclusion::Success => "success",
            CheckConclusion::Neutral => "neutral",
            CheckConclusion::Failure => "failure",
            CheckConclusion::ActionRequired => "action_required",
        },
        "output": { "title": title(check), "summary": summary },
    });
    if !annotations.is_empty() {
        body["output"]["annotations"] = annotations.into();
    }
    if let Some(url) = &check.details_url {
        body["details_url"] = url.as_str().into();
    }
    body
}

fn title(check: &CheckDraft) -> String {
    fit_title(if check.title.trim().is_empty() { &check.name } else { &check.title })
}

fn annotation(annotation: &CheckAnnotation) -> Value {
    let start = annotation.start_line.max(1);
    let mut json = json!({
        "path": annotation.path,
        "start_line": start,
        "end_line": annotation.end_line.max(start),
        "annotation_level": if annotation.is_failure { "failure" } else { "warning" },
        "message": message(annotation),
    });
    if !annotation.title.trim().is_empty() {
        json["title"] = fit_title(&annotation.title).into();
    }
    json
}

/// An empty message is refused.
fn message(annotation: &CheckAnnotation) -> String {
    let words = [&annotation.message, &annotation.title, &annotation.path];
    let first = words.into_iter().find(|words| !words.trim().is_empty());
    fit_text(first.map_or("(nothing)", String::as_str), LONGEST_SUMMARY)
}
