//! Checks in the folder: one file per commit, one entry per name.

use std::fmt::Write as _;

use super::LocalForge;
use crate::{CheckConclusion, CheckDraft, CheckRun, ForgeError};

impl LocalForge {
    /// Creates or replaces the check of this name; returns its page.
    pub(super) fn write_check(&self, check: &CheckDraft) -> Result<String, ForgeError> {
        let sha = plain(&check.head_sha)?;
        let mut checks = self.checks_on(sha)?;
        let page = format!("checks/{sha}.md");
        let known = checks.iter().find(|other| other.name == check.name).map(|other| other.id);
        let last = checks.iter().map(|other| other.id).max().unwrap_or(0);
        let run = CheckRun {
            id: known.unwrap_or(last + 1),
            name: check.name.clone(),
            app: "patchwright".to_owned(),
            completed: true,
            conclusion: Some(word(check.conclusion).to_owned()),
            html_url: self.dir.join(&page).display().to_string(),
            summary: check.summary.clone(),
            annotations: check.annotations.clone(),
        };
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
    }
}
