//! `patchwright doctor`: checks this machine, the token, the repository and its workflows, and prints
//! the exact fix for what is wrong.

use std::path::PathBuf;

use crate::cli::worker::Launch;
use crate::doctor::{self, CheckState};
use patchwright_base::env::Env;
use patchwright_base::error::{FailureKind, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_forge::RepositoryId;

/// Check this machine, the token, a repository and its workflows
///
/// Prints one line a check and the exact fix for what is wrong. Exits 0 when nothing would make a run fail, 2
/// otherwise. Nothing is changed on GitHub and in Docker; on this machine the state folder is made, and a local sandbox
/// started in it for a moment, whose guest (about 15 MB) stays there for runs. The MCP servers of the configuration are
/// reached, or started in that sandbox, and asked for their tools.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Repository to check the token and the settings against
    #[arg(value_name = "OWNER/REPO")]
    pub repository: Option<RepositoryId>,

    /// Workflow file to check for the traps of workflows that run agents; repeatable
    #[arg(long, env = "PATCHWRIGHT_WORKFLOW", value_name = "FILE")]
    pub workflow: Vec<PathBuf>,

    /// Check what `worker --launch` needs as well: the template of its pods, the cluster, and its rights there
    #[arg(long, env = "PATCHWRIGHT_LAUNCH", value_name = "WHERE", requires = "pod_template")]
    pub launch: Option<Launch>,

    /// What pods of `--launch` look like: a file with a Kubernetes `PodTemplate`
    #[arg(long, env = "PATCHWRIGHT_POD_TEMPLATE", value_name = "FILE")]
    pub pod_template: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let config = args.common.resolve()?;
    let ui = Ui { json: args.common.json, ..ui };
    let mut findings = doctor::machine::check(&config, &args.common, env).await;
    findings.extend(doctor::network::check(env));
    if let (Some(Launch::Kubernetes), Some(template)) = (args.launch, &args.pod_template) {
        findings.extend(doctor::launcher::check(template).await);
    }
    findings.extend(doctor::forge::check(args.repository.as_ref(), env).await);
    for path in &args.workflow {
        let text = patchwright_config::file::read_file(path, "workflow")?;
        findings.extend(doctor::workflow::check(&path.display().to_string(), &text));
    }
    for finding in &findings {
        ui.record(finding);
        ui.data(&finding.to_string());
    }
    let broken = findings.iter().filter(|finding| finding.state == CheckState::Broken).count();
    if broken > 0 {
        ui.say(&format!("{broken} of {} checks need your attention", findings.len()));
        return Ok(FailureKind::Usage.exit_code());
    }
    Ok(0)
}
