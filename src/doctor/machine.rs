//! This machine: the sandbox and what it can enforce, the state folder.

use std::io::Write;
use std::path::Path;

use super::{Finding, collector, database, mcp, model, pods, sandboxes};
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Hint};
use patchwright_config::flags::Common;
use patchwright_config::{Config, SandboxChoice};
use patchwright_sandbox::docker::DockerSandbox;
use patchwright_sandbox::local::LocalSandbox;
use patchwright_sandbox::{JOIN_DOCKER, PreparedImage, Sandbox, SandboxError, SandboxSpec};
use patchwright_task::world;

/// Bytes that a run cannot do without.
const LEAST: usize = 1 << 20;

/// All checks of this machine.
pub async fn check(config: &Config, common: &Common, env: &Env) -> Vec<Finding> {
    let mut findings = Vec::new();
    let state = match world::state_dir(common, env) {
        Ok(state) => {
            findings.push(room(&state));
            Some(state)
        }
        Err(failure) => {
            findings.push(Finding::broken("state folder", words(&failure), fix(&failure.hints)));
            None
        }
    };
    findings.extend(docker(config, env).await);
    if config.sandbox == SandboxChoice::Docker {
        findings.extend(sandboxes::setup_network(&config.setup_hosts));
    }
    if let Some(state) = state.as_deref().filter(|_| config.sandbox == SandboxChoice::Kubernetes) {
        findings.extend(pods::check(config, env, state).await);
    }
    if let Some(state) = state {
        findings.extend(database::check(env, &state).await);
        findings.extend(local(config, env, &state).await);
    }
    findings.extend(model::check(config, env).await);
    findings.extend(collector::check(env).await);
    findings
}

pub(super) fn fix(hints: &[Hint]) -> String {
    hints.first().map_or_else(|| "see the message".to_owned(), Hint::to_string)
}

/// What went wrong, with its cause.
pub(super) fn words(failure: &Failure) -> String {
    match &failure.cause {
        Some(cause) => format!("{}: {cause:#}", failure.message),
        None => failure.message.clone(),
    }
}

/// Whether something can be written into the state folder: on a full disk files can still be made.
fn room(state: &Path) -> Finding {
    let what = "state folder";
    let written = tempfile::tempfile_in(state)
        .and_then(|mut file| file.write_all(&vec![0; LEAST]).and_then(|()| file.sync_all()));
    match written {
        Ok(()) => Finding::fine(what, state.display().to_string()),
        Err(err) => Finding::broken(
            what,
            format!("`{}` cannot be written to: {err}", state.display()),
            "free some space on that disk, or choose another one with `--state-dir`",
        ),
    }
}

async fn docker(config: &Config, env: &Env) -> Vec<Finding> {
    let wanted = config.sandbox == SandboxChoice::Docker;
    let engine = match DockerSandbox::connect(env.var("DOCKER_HOST")).await {
        Ok(sandbox) => sandbox.engine().await,
        Err(err) => Err(err),
    };
    let engine = match engine {
        Ok(engine) => engine,
        Err(err) if wanted => {
            return vec![Finding::broken(
                "docker",
                err.to_string(),
                if err.is_closed_socket() {
                    format!("{JOIN_DOCKER}, or set `DOCKER_HOST`, or use `--sandbox local`")
                } else {
                    "install and start Docker (`apt-get install docker.io`, `systemctl start docker`), \
                     or set `DOCKER_HOST`, or use `--sandbox local`"
                        .to_owned()
                },
            )];
        }
        Err(err) => return vec![Finding::note("docker", err.to_string(), None)],
    };
    sandboxes::docker(&engine)
}

/// Starts a local sandbox for a moment and reports what it enforces, and what the MCP servers say.
async fn local(config: &Config, env: &Env, state: &Path) -> Vec<Finding> {
    let sandbox = LocalSandbox::new(state.to_owned());
    let spec = SandboxSpec {
        image: PreparedImage {
            reference: String::new(),
            description: "local".to_owned(),
            ..PreparedImage::default()
        },
        run: format!("doctor-{}", std::process::id()),
        purpose: "doctor",
        env: std::collections::BTreeMap::new(),
        limits: config.container.clone(),
        egress: None,
        services: Vec::new(),
    };
    match sandbox.start(&spec).await {
        Ok(running) => {
            let mut findings =
                vec![Finding::fine("local sandbox", format!("starts, {}", kernel()))];
            findings.extend(sandboxes::local(&running.enforced));
            findings.extend(mcp::check(config, env, &running.client).await);
            // What is left behind is swept by the next run.
            let _ = running.stop().await;
            findings
        }
        Err(err) if config.sandbox == SandboxChoice::Local => vec![Finding::broken(
            "local sandbox",
            err.to_string(),
            match &err {
                SandboxError::GuestFile { hint, .. } => hint,
                SandboxError::Folder { .. } => {
                    "free some space there, or choose another state folder with `--state-dir`"
                }
                _ => {
                    "use a kernel with Landlock (5.13 or newer) and allow user namespaces, or `--sandbox docker`"
                }
            },
        )],
        Err(err) => vec![Finding::note("local sandbox", err.to_string(), None)],
    }
}

/// The kernel's version, which decides what the local sandbox can enforce.
fn kernel() -> String {
    let release = fs_err::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("kernel {}", release.trim())
}
