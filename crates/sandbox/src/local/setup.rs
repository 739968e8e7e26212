//! Setup commands for the local sandbox: run once, their result kept and copied.
//!
//! There is no image to cache it in, so it is a folder `setup/<key>/{workspace,home}` with what the
//! commands left besides the tree. The key covers the repository, the commands, the
//! hosts that they reach, and the lock files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sha1::{Digest, Sha1};

use super::{LocalSandbox, folders};
use crate::{ContainerLimits, ImageSpec, PreparedImage, Running, SandboxError, SandboxSpec};
use patchwright_guest::protocol::Exec;

/// What a sandbox in which setup commands run is for.
pub(super) const PURPOSE: &str = "setup";
/// Bytes of a failed command's output that are kept.
const OUTPUT: usize = 16 << 10;

/// The folder with the result, made when it is not there yet.
pub(super) async fn prepare(
    sandbox: &LocalSandbox,
    spec: &ImageSpec<'_>,
) -> Result<PathBuf, SandboxError> {
    let template = sandbox.base.join("setup").join(key(spec));
    if is_complete(&template) {
        return Ok(template);
    }
    let bare = SandboxSpec {
        image: PreparedImage { reference: String::new(), description: String::new() },
        run: spec.run.to_owned(),
        purpose: PURPOSE,
        env: BTreeMap::new(),
        limits: ContainerLimits::default(),
        egress: spec.setup_egress.clone(),
    };
    let running = sandbox.launch(&bare, None).await?;
    let result = run(&running, spec).await;
    let kept = result.and_then(|()| keep(Path::new(&running.id), &template));
    let stopped = running.stop().await;
    kept?;
    stopped?;
    Ok(template)
}

fn is_complete(template: &Path) -> bool {
    template.join("complete").is_dir()
}

/// Copies what setup left in the sandbox `top` to `template`. The copy is made beside the workspace, out
/// of the guest's reach and swept with the sandbox, and gets its name when it is whole: others may be
/// at the same setup, or start from its result.
fn keep(top: &Path, template: &Path) -> Result<(), SandboxError> {
    let fresh = top.join("kept");
    for inner in ["workspace", "home"] {
        folders::make_private(&fresh.join(inner))?;
        folders::copy(&top.join(inner), &fresh.join(inner))?;
    }
    folders::make_private(&fresh.join("complete"))?;
    if let Some(all) = template.parent() {
        folders::make_private(all)?;
    }
    match fs_err::rename(&fresh, template) {
        Ok(()) => Ok(()),
        // Another run was faster: its result is as good, and ours goes with the sandbox.
        Err(_) if is_complete(template) => Ok(()),
        Err(err) => Err(folders::failed("make", template, &err)),
    }
}

async fn run(running: &Running, spec: &ImageSpec<'_>) -> Result<(), SandboxError> {
    let gone = |err: crate::client::GuestError| SandboxError::Gone(err.to_string());
    if let Some(tree) = spec.tree {
        tree.upload(&running.client).await.map_err(gone)?;
    }
    let started = Instant::now();
    for command in spec.setup {
        let left = spec.setup_timeout.saturating_sub(started.elapsed());
        let exec = Exec {
            argv: vec![running.client.hello().shell.clone(), "-c".to_owned(), command.clone()],
            cwd: None,
            env: BTreeMap::new(),
            timeout_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1),
            output_cap: OUTPUT,
        };
        let output = running.client.exec(exec).await.map_err(gone)?;
        spec.judge(command, output)?;
    }
    running.client.remove_base(None).await.map_err(gone)
}

fn key(spec: &ImageSpec<'_>) -> String {
    let mut hash = Sha1::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(b"2");
    part(spec.repository.as_bytes());
    for command in spec.setup {
        part(command.as_bytes());
    }
    part(b"");
    // What they could reach decides what they left.
    for host in spec.setup_egress.iter().flat_map(|egress| egress.hosts()) {
        part(host.as_bytes());
    }
    for (path, content) in spec.lock_files {
        part(path.as_bytes());
        part(content);
    }
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use crate::local::setup::*;

    fn sandbox(base: &Path, name: &str, made: &str) -> PathBuf {
        let top = base.join("sandboxes").join(name);
        for inner in ["workspace", "home"] {
            folders::make_private(&top.join(inner)).unwrap();
        }
        fs_err::write(top.join("workspace/made"), made).unwrap();
        top
    }

    #[test]
    fn the_first_complete_setup_stays() {
        let base = tempfile::tempdir().unwrap();
        let template = base.path().join("setup/key");
        assert!(!is_complete(&template));
        keep(&sandbox(base.path(), "a", "first"), &template).unwrap();
        assert!(is_complete(&template));
        keep(&sandbox(base.path(), "b", "second"), &template).unwrap();
        assert_eq!(fs_err::read_to_string(template.join("workspace/made")).unwrap(), "first");
        assert_eq!(fs_err::read_dir(base.path().join("setup")).unwrap().count(), 1);
    }
}
