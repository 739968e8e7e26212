//! Setup commands for the local sandbox: run once, their result kept and copied.
//!
//! There is no image to cache it in, so it is a folder `setup/<key>/{workspace,home}` with what the
//! commands left besides the tree. The key covers the commands and the lock files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use sha1::{Digest, Sha1};

use super::{LocalSandbox, folders};
use crate::guest::protocol::Exec;
use crate::sandbox::{
    ContainerLimits, ImageSpec, PreparedImage, Running, SandboxError, SandboxSpec,
};

/// Bytes of a failed command's output that are kept.
const OUTPUT: usize = 16 << 10;

/// The folder with the result, made when it is not there yet.
pub(super) async fn prepare(
    sandbox: &LocalSandbox,
    spec: &ImageSpec<'_>,
) -> Result<PathBuf, SandboxError> {
    let template = sandbox.base.join("setup").join(key(spec));
    if template.join("complete").is_dir() {
        return Ok(template);
    }
    let bare = SandboxSpec {
        image: PreparedImage { reference: String::new(), description: String::new() },
        run: spec.run.to_owned(),
        purpose: "setup",
        env: BTreeMap::new(),
        limits: ContainerLimits::default(),
    };
    let running = sandbox.launch(&bare, None).await?;
    let result = run(&running, spec).await;
    let kept = result.and_then(|()| {
        // Left by a run that was killed while it copied.
        let _ = fs_err::remove_dir_all(&template);
        for inner in ["workspace", "home"] {
            folders::make_private(&template.join(inner))?;
            folders::copy(&PathBuf::from(&running.id).join(inner), &template.join(inner))?;
        }
        folders::make_private(&template.join("complete"))
    });
    let stopped = running.stop().await;
    kept?;
    stopped?;
    Ok(template)
}

async fn run(running: &Running, spec: &ImageSpec<'_>) -> Result<(), SandboxError> {
    let gone = |err: crate::guest::client::GuestError| SandboxError::Gone(err.to_string());
    running.client.upload(spec.tree).await.map_err(gone)?;
    let started = Instant::now();
    for command in spec.setup {
        let left = spec.setup_timeout.saturating_sub(started.elapsed());
        let exec = Exec {
            argv: vec![running.client.hello().shell.clone(), "-c".to_owned(), command.clone()],
            cwd: None,
            env: BTreeMap::new(),
            timeout_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            output_cap: OUTPUT,
        };
        let output = running.client.exec(exec).await.map_err(gone)?;
        if output.exit_code != 0 {
            return Err(SandboxError::Setup {
                command: command.clone(),
                exit_code: output.exit_code,
                output: output.output,
            });
        }
    }
    running.client.remove_base(None).await.map_err(gone)
}

fn key(spec: &ImageSpec<'_>) -> String {
    let mut hash = Sha1::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    for command in spec.setup {
        part(command.as_bytes());
    }
    part(b"");
    for (path, content) in spec.lock_files {
        part(path.as_bytes());
        part(content);
    }
    hex::encode(hash.finalize())
}
