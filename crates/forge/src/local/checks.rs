//! Checks in the folder: one file per commit, one entry per name.

use std::fmt::Write as _;

use async_trait::async_trait;

use super::LocalForge;
use crate::{
    BegunCheck, CheckConclusion, CheckDraft, CheckRun, ForgeError, RepositoryId, RunningCheck,
    RunningChecks,
};

#[async_trait]
impl RunningChecks for LocalForge {
    async fn begin_check(
        &self,
        repository: &RepositoryId,
        check: &RunningCheck,
    ) -> Result<BegunCheck, ForgeError> {
        let _guard = self.store.lock();
        self.writable(repository, "write a check")?;
        let checks = self.checks_on(plain(&check.head_sha)?)?;
        let last = checks.iter().find(|run| run.name == check.name);
        let failed_before = last
            .is_some_and(|run| run.conclusion.as_deref() == Some(word(CheckConclusion::Failure)));
        let run = CheckRun {
            id: 0,
            name: check.name.clone(),
            app: "patchwright".to_owned(),
            completed: false,
            conclusion: None,
            html_url: String::new(),
            summary: check.summary.clone(),
            annotations: Vec::new(),
        };
        self.put_run(&check.head_sha, run).map(|_| BegunCheck { runs: true, failed_before })
    }

    async fn end_running_check(
        &self,
        repository: &RepositoryId,
        check: &CheckDraft,
    ) -> Result<(), ForgeError> {
        let _guard = self.store.lock();
        self.writable(repository, "write a check")?;
        let checks = self.checks_on(plain(&check.head_sha)?)?;
        let is_running = |run: &CheckRun| run.name == check.name && !run.completed;
        if checks.iter().any(is_running) {
            self.write_check(check)?;
        }
        Ok(())
    }
}

impl LocalForge {
    /// Creates or replaces the check of this name; returns its page.
    pub(super) fn write_check(&self, check: &CheckDraft) -> Result<String, ForgeError> {
        self.put_run(
            &check.head_sha,
            CheckRun {
                id: 0,
                name: check.name.clone(),
                app: "patchwright".to_owned(),
                completed: true,
                conclusion: Some(word(check.conclusion).to_owned()),
                html_url: String::new(),
                summary: check.summary.clone(),
                annotations: check.annotations.clone(),
            },
        )
    }

    /// Writes a check in place of that of the same name; gives it its number and page.
    fn put_run(&self, sha: &str, mut run: CheckRun) -> Result<String, ForgeError> {
        let sha = plain(sha)?;
        let mut checks = self.checks_on(sha)?;
        let page = format!("checks/{sha}.md");
        let known = checks.iter().find(|other| other.name == run.name).map(|other| other.id);
        let last = checks.iter().map(|other| other.id).max().unwrap_or(0);
        run.id = known.unwrap_or(last + 1);
        run.html_url = self.dir.join(&page).display().to_string();
        checks.retain(|other| other.id != run.id);
        checks.push(run.clone());
        self.store.write(&format!("checks/{sha}.json"), &checks)?;
        let mut text = format!("# Checks on `{sha}`\n");
        for check in &checks {
            let conclusion = check.conclusion.as_deref().unwrap_or("running");
            let _ = write!(text, "\n## {}: {conclusion}\n\n{}\n", check.name, check.summary);
            for note in &check.annotations {
                let place = format!("{}:{}", note.path, note.start_line);
                let _ = write!(text, "\n- `{place}` {}: {}", note.title, note.message);
            }
        }
        self.store.put(&page, text.as_bytes())?;
        Ok(run.html_url)
    }

    pub(super) fn checks_on(&self, sha: &str) -> Result<Vec<CheckRun>, ForgeError> {
        Ok(self.store.read(&format!("checks/{}.json", plain(sha)?))?.unwrap_or_default())
    }
}

/// The id of a commit, which becomes the name of a file.
fn plain(sha: &str) -> Result<&str, ForgeError> {
    let is_id = sha.len() == 40 && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some(sha).ok_or_else(|| ForgeError::Invalid {
        action: "a check".to_owned(),
        message: "its commit is no commit id".to_owned(),
    })
}

fn word(conclusion: CheckConclusion) -> &'static str {
    match conclusion {
        CheckConclusion::Success => "success",
        CheckConclusion::Neutral => "neutral",
        CheckConclusion::Failure => "failure",
        CheckConclusion::ActionRequired => "action_required",
    }
}
