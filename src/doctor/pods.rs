//! Whether sandboxes can be pods: the cluster, what we may do there, and the network policy. It only reads: that the
//! policy is enforced is found out by each sandbox, before anything of a model runs in it.

use std::path::Path;

use super::Finding;
use super::machine::{fix, words};
use patchwright_base::env::Env;
use patchwright_base::error::Failure;
use patchwright_config::Config;
use patchwright_sandbox::SandboxError;
use patchwright_sandbox::kubernetes::KubernetesSandbox;
use patchwright_sandbox::kubernetes::rights::missing;
use patchwright_task::world;

/// The manifest with Role and policy.
const MANIFEST: &str = "docs/kubernetes/sandboxes.yaml";

/// All checks of sandboxes that are pods.
pub(super) async fn check(config: &Config, env: &Env, state: &Path) -> Vec<Finding> {
    let sandbox = match world::pods(config, env, state).await {
        Ok(sandbox) => sandbox,
        Err(failure) => return vec![broken("kubernetes", &failure)],
    };
    let version = match sandbox.version().await {
        Ok(version) => version,
        Err(err) => return vec![of(err, "kubernetes")],
    };
    let place = sandbox.place();
    let mut findings = vec![Finding::fine("kubernetes", format!("{version}, {place}"))];
    findings.push(rights(&sandbox).await);
    findings.push(network(&sandbox).await);
    findings
}

async fn rights(sandbox: &KubernetesSandbox) -> Finding {
    let what = "kubernetes rights";
    let rights = match sandbox.rights().await {
        Ok(rights) => rights,
        Err(err) => return of(err, what),
    };
    let Some(missing) = missing(&rights) else {
        return Finding::fine(what, "pods, exec, logs and network policies");
    };
    let message = format!("not allowed: {missing}");
    Finding::broken(what, message, format!("give the rights of the Role in `{MANIFEST}`"))
}

async fn network(sandbox: &KubernetesSandbox) -> Finding {
    let what = "kubernetes network";
    match sandbox.unclosed().await {
        Ok(_) if sandbox.is_open() => Finding::note(
            what,
            "commands in sandboxes reach whatever pods of this cluster reach, because the template says so",
            Some("take the annotation `patchwright/sandbox-network` out of the template"),
        ),
        Ok(None) => Finding::fine(
            what,
            "a NetworkPolicy takes it away; each sandbox looks whether the cluster enforces that",
        ),
        Ok(Some(why)) => Finding::broken(
            what,
            format!("sandbox pods would have a network: {why}"),
            format!("`{MANIFEST}` has a NetworkPolicy that takes it away"),
        ),
        Err(err) => of(err, what),
    }
}

fn of(err: SandboxError, what: &str) -> Finding {
    broken(what, &Failure::from(err))
}

fn broken(what: &str, failure: &Failure) -> Finding {
    Finding::broken(what, words(failure), fix(&failure.hints))
}
