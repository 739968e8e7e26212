//! The repository's own checks: which they are, and running them in fresh sandboxes on base and head.

use super::agent_phase;
use super::run::Run;
use super::workspace::{Rules, Workspace};
use crate::verify;
use patchwright_base::error::Result;
use patchwright_config::Config;
use patchwright_journal::Entry;
use patchwright_sandbox::client::Client;
use patchwright_sandbox::packed::Packed;
use patchwright_sandbox::{PreparedImage, Running, SandboxSpec};
use patchwright_types::evidence::{CheckRun, Evidence};

/// The commands, and how they were found.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    pub commands: Vec<String>,
    /// For the report: `--verify`, the configuration, or the repository's kind.
    pub source: String,
}

impl Checks {
    /// From the configuration; otherwise by what the repository is.
    pub async fn find(config: &Config, rules: &Rules) -> Result<Checks> {
        if !config.verify.is_empty() {
            let source = config.sources.get("verify").map_or_else(String::new, ToString::to_string);
            return Ok(Checks { commands: config.verify.clone(), source });
        }
        let workspace = rules.workspace();
        let names = workspace.root_names().await?;
        let commands = verify::detect(&names, &|path| workspace.file_now(path));
        Ok(Checks { commands, source: "found by the repository's kind".to_owned() })
    }

    /// Runs all checks in a fresh sandbox on the given tree. `when` is `base` or `head`.
    pub async fn run_fresh(
        &self,
        run: &Run<'_>,
        image: &PreparedImage,
        tree: &Packed,
        when: &'static str,
    ) -> Result<Vec<CheckRun>> {
        if self.commands.is_empty() {
            return Ok(Vec::new());
        }
        let recorded: Vec<CheckRun> = recorded(run, when);
        if recorded.len() == self.commands.len() {
            return Ok(recorded);
        }
        let sandbox = start(run, image, tree, when).await?;
        let ran = run.unless_interrupted(self.run_in(run, &sandbox.client, when)).await;
        agent_phase::stop(run, sandbox).await;
        ran
    }

    /// Runs all checks in a sandbox that is already there.
    pub async fn run_in(
        &self,
        run: &Run<'_>,
        client: &Client,
        when: &'static str,
    ) -> Result<Vec<CheckRun>> {
        let timeout = run.config.limits.command_timeout.min(run.remaining());
        let ran = verify::run(client, &self.commands, timeout).await;
        for check in &ran {
            run.journal(&Entry::Checked { when: when.to_owned(), run: check.clone() })?;
            run.environment.ui.say(&describe(check, when));
        }
        Ok(ran)
    }

    /// Runs the checks on the change in a fresh sandbox and joins them with the baseline.
    pub async fn evidence(
        &self,
        run: &Run<'_>,
        image: &PreparedImage,
        baseline: &[CheckRun],
        tree: &Packed,
    ) -> Result<Evidence> {
        let head = self.run_fresh(run, image, tree, "head").await?;
        Ok(verify::compare(baseline.to_vec(), head, &self.source))
    }

    /// The same on a commit that is not packed yet.
    pub async fn evidence_on(
        &self,
        run: &Run<'_>,
        image: &PreparedImage,
        baseline: &[CheckRun],
        change: &Workspace,
    ) -> Result<Evidence> {
        if self.commands.is_empty() {
            return Ok(self.without_change(baseline));
        }
        let tree = run.pack(change).await?;
        self.evidence(run, image, baseline, &tree).await
    }

    /// The evidence when nothing was changed: the base alone.
    pub fn without_change(&self, baseline: &[CheckRun]) -> Evidence {
        verify::compare(baseline.to_vec(), Vec::new(), &self.source)
    }
}

/// Starts a sandbox with the given tree in it.
pub async fn start(
    run: &Run<'_>,
    image: &PreparedImage,
    tree: &Packed,
    purpose: &'static str,
) -> Result<Running> {
    let spec = SandboxSpec {
        image: image.clone(),
        run: run.folder.id.clone(),
        purpose,
        env: std::collections::BTreeMap::new(),
        limits: run.config.container.clone(),
        egress: run.egress()?,
    };
    let running = run.world.sandbox.start(&spec).await?;
    if let Err(err) = tree.upload(&running.client).await {
        let why = running.autopsy().await;
        // The first error is the one to report.
        let _ = running.stop().await;
        return Err(patchwright_base::error::Failure::sandbox(
            "the tree could not be copied into the sandbox",
        )
        .caused_by(err)
        .hint(why.unwrap_or_else(|| "run `patchwright doctor`".to_owned())));
    }
    Ok(running)
}

/// Checks that a killed attempt already ran, in order.
fn recorded(run: &Run<'_>, asked: &str) -> Vec<CheckRun> {
    run.folder
        .recorded
        .iter()
        .filter_map(|line| match &line.entry {
            Entry::Checked { when, run } if when == asked => Some(run.clone()),
            _ => None,
        })
        .collect()
}

fn describe(check: &CheckRun, when: &str) -> String {
    let verdict = match (check.exit_code, check.timed_out) {
        (_, true) => "timed out".to_owned(),
        (Some(0), _) => "passed".to_owned(),
        (Some(code), _) => format!("failed with exit code {code}"),
        (None, _) => "could not be run".to_owned(),
    };
    format!("check on {when}: `{}` {verdict}", check.command)
}
