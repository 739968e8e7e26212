//! Setup commands for the local sandbox: run once, their result kept and copied.
//!
//! There is no image to cache it in, so it is a folder `setup/<key>/{workspace,home}` with what the
//! commands left besides the tree. The key covers the repository, the commands, the hosts that they reach, the
//! lock files, and the machine's programs ([`super::programs`]).

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};
use sha1::{Digest, Sha1};

use super::{LocalSandbox, folders};
use crate::setup::{self, Failed, SetupExtent, SetupRun};
use crate::setup_cache::{SetupResult, surplus};
use crate::turn::Turn;
use crate::{ImageSpec, PreparedImage, SandboxError, SandboxSpec};
use patchwright_guest::view;

/// What a sandbox in which setup commands run is for.
pub(super) const PURPOSE: &str = "setup";
/// In the folder that marks a result as whole: how the commands went, as JSON.
const RUNS: &str = "runs.json";
/// The program that installs the package manager that `package.json` names.
const COREPACK: &str = "corepack";
/// Digits of a [`key`].
const KEY: usize = 40;

/// The folder with the result, made when it is not there yet. One in which a command failed is only good
/// for the run in which it did, and named after it: a registry that was down may be up again. So is one of a
/// tree that a model has written.
pub(super) async fn prepare(
    sandbox: &LocalSandbox,
    spec: &ImageSpec<'_>,
    programs: &[u8],
) -> Result<PreparedImage, SandboxError> {
    let all = sandbox.base.join("setup");
    let shared = key(spec, programs);
    let own = format!("{shared}.{}", spec.run);
    let (whole, partly) = (all.join(&shared), all.join(&own));
    let known = || {
        let begun = spec.begun_with.map(|begun| Path::new(&begun.reference));
        // What the run began with comes before what others have set up since.
        let first = if begun == Some(&*partly) { [&partly, &whole] } else { [&whole, &partly] };
        let is_usable = |it: &&PathBuf| **it == whole || !spec.setup_required;
        first.into_iter().filter(is_usable).find(|template| is_complete(template))
    };
    if let Some(template) = known() {
        return Ok(cached(template));
    }
    let name = if spec.is_for_this_run { &own } else { &shared };
    let _turn = Turn::wait(&sandbox.base, name, spec.setup_timeout).await;
    // Whoever had the turn before has made it, as a rule.
    if let Some(template) = known() {
        return Ok(cached(template));
    }
    let bare = SandboxSpec {
        image: PreparedImage::default(),
        run: spec.run.to_owned(),
        purpose: PURPOSE,
        // npm's own folder for programs is the machine's; pip turns to the user's by itself.
        env: BTreeMap::from([("npm_config_prefix".to_owned(), format!("{}/.local", view::HOME))]),
        limits: spec.setup_limits(),
        egress: spec.setup_egress.clone(),
        services: Vec::new(),
    };
    let running = sandbox.launch(&bare, None).await?;
    offer_corepack(&Path::new(&running.id).join("home"), spec.setup, sandbox.toolchains.path());
    let (deadline, shell) = (Instant::now() + spec.setup_timeout, &running.client.hello().shell);
    // The guest bounds the folders, and there is nothing else to write to.
    let full = std::future::pending();
    let ran = setup::run(&running.client, spec, shell, deadline, SetupExtent::Folders, full).await;
    let ran = ran.map_err(|failed| match failed {
        Failed::Guest(err) => SandboxError::Gone(err.to_string()),
        Failed::Full(_) => SandboxError::DiskFull("setup has written too much".to_owned()),
        Failed::Command(err) => err,
    });
    let kept = ran.and_then(|runs| {
        let has_failed = runs.iter().any(SetupRun::has_failed);
        let template = if has_failed || spec.is_for_this_run { &partly } else { &whole };
        keep(Path::new(&running.id), template, &runs)?;
        prune(&all);
        Ok(prepared(template, runs))
    });
    let stopped = running.stop().await;
    let prepared = kept?;
    stopped?;
    Ok(prepared)
}

/// Puts a link to Corepack where a user's programs are: `corepack enable` writes the package managers beside the program
/// that `PATH` leads to, and beside the machine's it may not.
fn offer_corepack(home: &Path, commands: &[String], path: &str) {
    if !commands.iter().any(|command| command.contains(COREPACK)) {
        return;
    }
    let folders = path.split(':').map(Path::new).filter(|folder| folder.is_absolute());
    let Some(program) = folders.map(|it| it.join(COREPACK)).find(|it| it.is_file()) else { return };
    let folder = home.join(".local/bin");
    // Without it the command fails, and says so.
    let _ = fs_err::create_dir_all(&folder).and_then(|()| symlink(program, folder.join(COREPACK)));
}

/// What an earlier setup has left.
fn cached(template: &Path) -> PreparedImage {
    // It is kept by when it was used last.
    let at = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let used = Timestamps { last_access: at(UTIME_OMIT), last_modification: at(UTIME_NOW) };
    let _ = utimensat(CWD, template, &used, AtFlags::empty());
    PreparedImage { is_cached: true, ..prepared(template, read_runs(template)) }
}

fn prepared(template: &Path, setup: Vec<SetupRun>) -> PreparedImage {
    PreparedImage {
        reference: template.display().to_string(),
        stamp: stamp(template),
        description: format!("local, with {}", setup::counted(&setup)),
        setup,
        ..PreparedImage::default()
    }
}

/// When it was made: another one may come to be in the same place.
fn stamp(template: &Path) -> String {
    let made = fs_err::metadata(template.join("complete").join(RUNS));
    made.map(|it| format!("{}.{}", it.mtime(), it.mtime_nsec())).unwrap_or_default()
}

fn read_runs(template: &Path) -> Vec<SetupRun> {
    let text = fs_err::read(template.join("complete").join(RUNS)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn is_complete(template: &Path) -> bool {
    template.join("complete").is_dir()
}

/// Copies what setup left in the sandbox `top` to `template`. The copy is made beside the workspace, out
/// of the guest's reach and swept with the sandbox, and gets its name when it is whole: others may be
/// at the same setup, or start from its result.
fn keep(top: &Path, template: &Path, runs: &[SetupRun]) -> Result<(), SandboxError> {
    let fresh = top.join("kept");
    for inner in ["workspace", "home"] {
        folders::make_private(&fresh.join(inner))?;
        folders::copy(&top.join(inner), &fresh.join(inner))?;
    }
    let complete = fresh.join("complete");
    folders::make_private(&complete)?;
    let runs = serde_json::to_vec(runs).unwrap_or_default();
    fs_err::write(complete.join(RUNS), runs)
        .map_err(|err| folders::failed("write", &complete, &err))?;
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

/// Removes results that nobody has used for long, best effort.
fn prune(all: &Path) {
    let entries = fs_err::read_dir(all).into_iter().flatten().flatten();
    let results = entries.filter_map(|entry| {
        let id = entry.file_name().into_string().ok()?;
        let used = entry.metadata().and_then(|about| about.modified()).ok()?;
        let age = used.elapsed().map_or(0, |age| i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
        // What pods start from is kept by its own rule.
        let (key, run) = id.split_once('.').unwrap_or((&id, ""));
        let is_ours = key.len() == KEY && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_for_one_run = !run.is_empty();
        is_ours.then_some(SetupResult { at: -age, bytes: 0, is_for_one_run, id })
    });
    for id in surplus(results.collect(), 0) {
        if let Err(err) = folders::remove(&all.join(&id)) {
            tracing::debug!(%err, id, "cannot remove an old result of setup");
        }
    }
}

fn key(spec: &ImageSpec<'_>, programs: &[u8]) -> String {
    let mut hash = Sha1::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(b"5");
    part(spec.repository.as_bytes());
    part(programs);
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
        keep(&sandbox(base.path(), "a", "first"), &template, &[]).unwrap();
        assert!(is_complete(&template));
        keep(&sandbox(base.path(), "b", "second"), &template, &[]).unwrap();
        assert_eq!(fs_err::read_to_string(template.join("workspace/made")).unwrap(), "first");
        assert_eq!(fs_err::read_dir(base.path().join("setup")).unwrap().count(), 1);
    }

    #[test]
    fn results_that_nobody_has_used_for_long_go_and_what_is_in_use_stays() {
        let base = tempfile::tempdir().unwrap();
        let all = base.path().join("setup");
        let make = |name: &str, days: u64| {
            let template = all.join(name);
            keep(&sandbox(base.path(), name, name), &template, &[]).unwrap();
            let used = fs_err::metadata(&template).unwrap().modified().unwrap();
            let at = used - std::time::Duration::from_hours(24 * days);
            fs_err::File::open(&template).unwrap().file().set_modified(at).unwrap();
            template
        };
        let key = |n: u64| format!("{n:040x}");
        for n in 0..25 {
            make(&key(n), 40 + n);
        }
        let [stays, goes] =
            [("a", 1), ("b", 9)].map(|(run, days)| make(&format!("{}.{run}", key(99)), days));
        let of_pods = make("pod-aa", 90);
        cached(&all.join(key(24)));
        prune(&all);
        let is_there = |n: u64| all.join(key(n)).is_dir();
        assert!(stays.is_dir() && of_pods.is_dir() && !goes.exists());
        assert!(is_there(24) && (0..19).all(is_there) && !(19..24).any(is_there));
    }
}
