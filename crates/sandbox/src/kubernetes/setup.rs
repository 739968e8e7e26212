//! Setup commands for pods: run once, their result kept and put into every later pod.
//!
//! There is no image to commit it to, and in a pod nobody is root. So setup runs as commands do, in a pod of its own with
//! the hosts that it may reach, and what it leaves in workspace and home is kept as one tar in the state folder,
//! `setup/pod-<key>`, together with the exact image that it fits. The programs of the image make and unpack the tar, as the
//! user of the sandbox: no host ever opens it.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::KubernetesSandbox;
use super::bring_up::Order;
use super::manifest::{HOME, WORKSPACE};
use super::reference::Reference;
use crate::client::{Client, GuestError, Pipe};
use crate::image;
use crate::setup::{self, Failed, SetupExtent, SetupRun};
use crate::{ImageSpec, PreparedImage, SandboxError};
use patchwright_guest::protocol::Exec;

/// What a pod in which setup commands run is for.
const PURPOSE: &str = "setup";
/// In the folder of a result: what setup left, and what is known of it.
const LEFT: &str = "left.tar";
const ABOUT: &str = "about.json";
/// How long packing and unpacking may take.
const PACK: Duration = Duration::from_mins(15);
/// Age after which a result is removed.
const MAX_AGE: Duration = Duration::from_hours(30 * 24);

/// What is known of a result.
#[derive(Serialize, Deserialize)]
struct About {
    /// The image that it fits.
    image: Reference,
    description: String,
    runs: Vec<SetupRun>,
    /// The length of the tar; absent in results of versions that did not write it down.
    #[serde(default)]
    bytes: Option<u64>,
}

impl KubernetesSandbox {
    /// The result of setup on this image, from the state folder or made now. One in which a command failed is only good
    /// for the run in which it did, and named after it; so is one of a tree that a model has written.
    pub(super) async fn with_setup(
        &self,
        base: &Reference,
        spec: &ImageSpec<'_>,
    ) -> Result<PreparedImage, SandboxError> {
        if spec.setup_hosts.iter().any(|host| host == "*") {
            return Err(SandboxError::Kubernetes {
                message: "setup in a pod cannot reach every host: a sandbox has no network but the relay's".to_owned(),
                hint: Some("name the hosts that it needs with `--setup-allow`, or prepare an image with `--image`".to_owned()),
                trouble: None,
            });
        }
        let all = self.state.join("setup");
        prune(&all);
        let key = format!("pod-{}", image::setup_key(&base.image, spec));
        let own = all.join(format!("{key}.{}", spec.run));
        let whole = all.join(key);
        let usable = |at: &&PathBuf| **at == whole || !spec.setup_required;
        let begun = spec.begun_with.map(|begun| Path::new(&begun.reference));
        // What the run began with comes before what others have set up since.
        let places = if begun == Some(&*own) { [&own, &whole] } else { [&whole, &own] };
        for known in places.into_iter().filter(usable) {
            if let Some(about) = read(known) {
                return Ok(PreparedImage { is_cached: true, ..prepared(known, about) });
            }
        }
        let order = Order {
            image: base.clone(),
            run: spec.run.to_owned(),
            purpose: PURPOSE,
            env: BTreeMap::new(),
            prepared: PreparedImage::default(),
            limits: spec.setup_limits(),
            services: Vec::new(),
            has_home: true,
            has_relay: spec.setup_egress.is_some(),
        };
        let up = Box::pin(self.bring_up(&order)).await?;
        if let Some(egress) = &spec.setup_egress {
            egress.relay(&up.client);
        }
        let made = self.run_setup(&up.client, spec, (&whole, &own), &up.exact).await;
        match made {
            Ok(made) => up.pod.remove().await.map(|()| made),
            Err(err) => Err(KubernetesSandbox::unusable(up, err).await),
        }
    }

    async fn run_setup(
        &self,
        client: &Client,
        spec: &ImageSpec<'_>,
        (whole, own): (&Path, &Path),
        exact: &Reference,
    ) -> Result<PreparedImage, SandboxError> {
        let (deadline, shell) = (Instant::now() + spec.setup_timeout, &client.hello().shell);
        // The guest bounds the folders, and there is nothing else to write to.
        let full = std::future::pending();
        let ran = setup::run(client, spec, shell, deadline, SetupExtent::Folders, full).await;
        let runs = ran.map_err(|failed| match failed {
            Failed::Guest(err) => SandboxError::Gone(err.to_string()),
            Failed::Full(_) => SandboxError::DiskFull("setup has written too much".to_owned()),
            Failed::Command(err) => err,
        })?;
        let has_failed = runs.iter().any(SetupRun::has_failed);
        let place = if has_failed || spec.is_for_this_run { own } else { whole };
        let description = format!("{} with {}", exact.image, setup::counted(&runs));
        let mut about = About { image: exact.clone(), description, runs, bytes: None };
        keep(client, place, &mut about, spec.setup_bytes).await?;
        Ok(prepared(place, about))
    }
}

fn prepared(place: &Path, about: About) -> PreparedImage {
    PreparedImage {
        reference: place.display().to_string(),
        stamp: stamp(place),
        description: about.description,
        setup: about.runs,
        ..PreparedImage::default()
    }
}

/// When it was made: another one may come to be in the same place.
fn stamp(place: &Path) -> String {
    let made = fs_err::metadata(place.join(ABOUT));
    made.map(|it| format!("{}.{}", it.mtime(), it.mtime_nsec())).unwrap_or_default()
}

/// Metadata of a cached setup result; `None` if the result is missing or incomplete, for example after a power failure.
fn read(place: &Path) -> Option<About> {
    let about = fs_err::read(place.join(ABOUT)).ok()?;
    let about: About = serde_json::from_slice(&about).ok()?;
    let left = fs_err::metadata(place.join(LEFT)).ok().filter(std::fs::Metadata::is_file)?;
    let is_whole = left.len() > 0 && about.bytes.is_none_or(|bytes| bytes == left.len());
    is_whole.then_some(about)
}

/// The image that a result of setup fits.
///
/// # Errors
/// When it is not there any more.
pub(super) fn image_of(place: &Path) -> Result<Reference, SandboxError> {
    read(place).map(|about| about.image).ok_or_else(|| {
        SandboxError::Other("what setup left is not in the state folder any more".to_owned())
    })
}

fn tar(arguments: &[&str]) -> Exec {
    Exec {
        argv: [&["tar", "-C", "/"], arguments].concat().into_iter().map(str::to_owned).collect(),
        cwd: None,
        env: BTreeMap::new(),
        timeout_ms: u64::try_from(PACK.as_millis()).unwrap_or(u64::MAX),
        output_cap: 4 << 10,
    }
}

/// Packs what is in workspace and home. The folder gets its name when it is whole and on the disk: others may be at the
/// same setup.
async fn keep(
    client: &Client,
    place: &Path,
    about: &mut About,
    most: u64,
) -> Result<(), SandboxError> {
    let failed = |err: std::io::Error| SandboxError::Folder {
        verb: "write".to_owned(),
        path: place.display().to_string(),
        cause: err,
    };
    let all = place.parent().unwrap_or(place);
    fs_err::create_dir_all(all).map_err(failed)?;
    let fresh = all.join(format!(".pod-{}", hex::encode(rand::random::<[u8; 8]>())));
    fs_err::create_dir(&fresh).map_err(failed)?;
    let packed = async {
        about.bytes = Some(pack(client, &fresh.join(LEFT), most, failed).await?);
        let text = serde_json::to_vec(about).unwrap_or_default();
        fs_err::write(fresh.join(ABOUT), text).map_err(failed)?;
        for written in [&fresh.join(ABOUT), &fresh] {
            fs_err::File::open(written).and_then(|file| file.sync_all()).map_err(failed)?;
        }
        moved(&fresh, place).map_err(failed)
    };
    let kept = packed.await;
    // Gone already when it got its name.
    let _ = fs_err::remove_dir_all(&fresh);
    kept
}

/// Writes the tar to a file; how long it is.
async fn pack(
    client: &Client,
    file: &Path,
    most: u64,
    failed: impl Fn(std::io::Error) -> SandboxError,
) -> Result<u64, SandboxError> {
    let folders = [WORKSPACE, HOME].map(|folder| folder.trim_start_matches('/'));
    let packing = client.pipe(tar(&["-cf", "-", folders[0], folders[1]])).await;
    let Pipe { stdin, mut stdout, ended } = packing.map_err(|err| gone(&err))?;
    drop(stdin);
    let file = tokio::fs::File::create(file).await.map_err(&failed)?;
    let mut file = tokio::io::BufWriter::with_capacity(1 << 20, file);
    // Home and workspace may have so much each; a tar is a little more than its files.
    let most = most.saturating_mul(2).saturating_add(1 << 30);
    let written = tokio::io::copy(&mut (&mut stdout).take(most), &mut file).await;
    let written = written.map_err(&failed)?;
    if written == most {
        return Err(SandboxError::DiskFull(format!("setup left more than {} MiB", most >> 20)));
    }
    file.flush().await.map_err(&failed)?;
    file.get_ref().sync_all().await.map_err(&failed)?;
    finished(ended.await, "pack")?;
    Ok(written)
}

/// Gives a whole result its name.
fn moved(fresh: &Path, place: &Path) -> std::io::Result<()> {
    match fs_err::rename(fresh, place) {
        Ok(()) => {}
        // Another run was faster: its result is as good.
        Err(_) if read(place).is_some() => return Ok(()),
        Err(err) => {
            // What is there is not whole. Nobody can use it, and nobody can write into it.
            let mut aside = fresh.as_os_str().to_owned();
            aside.push(".broken");
            fs_err::rename(place, &aside).map_err(|_| err)?;
            let moved = fs_err::rename(fresh, place);
            let _ = fs_err::remove_dir_all(&aside);
            moved.or_else(|err| read(place).map(drop).ok_or(err))?;
        }
    }
    if let Some(all) = place.parent() {
        fs_err::File::open(all)?.sync_all()?;
    }
    Ok(())
}

/// Unpacks what setup left into a pod.
///
/// # Errors
/// When that does not work.
pub(super) async fn put_back(client: &Client, place: &Path) -> Result<(), SandboxError> {
    let failed = |err: std::io::Error| SandboxError::Folder {
        verb: "read".to_owned(),
        path: place.display().to_string(),
        cause: err,
    };
    let mut file = tokio::fs::File::open(place.join(LEFT)).await.map_err(failed)?;
    let Pipe { mut stdin, stdout, ended } =
        client.pipe(tar(&["-xpf", "-"])).await.map_err(|err| gone(&err))?;
    drop(stdout);
    // A program that ends early says why by its exit code.
    let _ = tokio::io::copy(&mut file, &mut stdin).await;
    drop(stdin);
    finished(ended.await, "unpack")
}

fn finished(
    ended: Result<
        Result<patchwright_guest::tool::CommandOutput, GuestError>,
        tokio::task::JoinError,
    >,
    verb: &str,
) -> Result<(), SandboxError> {
    let ended = ended.map_err(|err| SandboxError::Other(err.to_string()))?;
    let ended = ended.map_err(|err| match err {
        GuestError::Failed(why) => {
            SandboxError::Other(format!("`tar` of the image cannot {verb} what setup left: {why}"))
        }
        other => gone(&other),
    })?;
    if ended.exit_code == 0 && !ended.timed_out {
        return Ok(());
    }
    let said = patchwright_base::text::cut(&patchwright_base::text::line(&ended.output), 400);
    let code = ended.exit_code;
    Err(SandboxError::Other(format!(
        "`tar` of the image cannot {verb} what setup left (exit code {code}): {said}"
    )))
}

fn gone(err: &GuestError) -> SandboxError {
    SandboxError::Gone(err.to_string())
}

/// Removes old results.
fn prune(all: &Path) {
    let entries = fs_err::read_dir(all).into_iter().flatten().flatten();
    for entry in entries {
        let is_ours =
            entry.file_name().to_string_lossy().trim_start_matches('.').starts_with("pod-");
        let modified = entry.metadata().and_then(|about| about.modified());
        let is_old = modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > MAX_AGE));
        if is_ours && is_old {
            // One that stays is found again.
            let _ = fs_err::remove_dir_all(entry.path());
        }
    }
}

/// The image as the node has it, when it can be asked for by that name: setup fits this one, whatever the tag means
/// later.
pub(super) fn exact(asked: &Reference, image_id: Option<&str>) -> Reference {
    let id = image_id.map(|id| id.split_once("://").map_or(id, |(_, id)| id)).unwrap_or_default();
    let repository = |name: &str| {
        let whole = image::whole(name.split('@').next().unwrap_or_default());
        image::split(&whole).0.to_owned()
    };
    let is_same = id.contains("@sha256:") && repository(id) == repository(&asked.image);
    let can_be_asked_for = image::check_name(id).is_ok();
    let image = if is_same && can_be_asked_for { id.to_owned() } else { asked.image.clone() };
    Reference { image, ..asked.clone() }
}

#[cfg(test)]
mod tests {
    use crate::kubernetes::reference::Reference;
    use crate::kubernetes::setup::exact;

    #[test]
    fn setup_belongs_to_the_image_that_the_node_had() {
        for (asked, id, expected) in [
            (
                "python:3",
                Some("docker.io/library/python@sha256:00ff"),
                "docker.io/library/python@sha256:00ff",
            ),
            ("python:3", Some("docker-pullable://python@sha256:00ff"), "python@sha256:00ff"),
            ("ghcr.io/a/b:1", Some("ghcr.io/a/b@sha256:0f"), "ghcr.io/a/b@sha256:0f"),
            ("python:3", Some("sha256:00ff"), "python:3"),
            ("python:3", Some("mirror.test/python@sha256:00ff"), "python:3"),
            ("python:3", None, "python:3"),
        ] {
            let asked = Reference { image: asked.to_owned(), is_public: false };
            assert_eq!(exact(&asked, id).image, expected, "{asked:?} {id:?}");
        }
    }
}
