//! Images of the engine: found, or pulled. A repository may name the image of its runs, so what is pulled
//! is bounded: one that is too large must not fill the engine's disk.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use bollard::models::{CreateImageInfo, ImageConfig, ImageInspect};
use bollard::query_parameters::{CreateImageOptionsBuilder, RemoveImageOptionsBuilder};
use futures_util::TryStreamExt;

use super::api::{ApiError, bounded};
use super::setup::{HOME_LABEL, SETUP_LABEL};
use super::{CALL, DockerSandbox};
use crate::{SandboxError, image};

/// Bound of one attempt to pull.
const PULL: Duration = Duration::from_mins(15);
/// Waits between attempts to pull.
const RETRIES: &[Duration] = &[Duration::from_secs(2), Duration::from_secs(10)];
/// Most that is pulled of one image, and most that it may hold afterwards, in GiB. Images of toolchains
/// have a few.
const MAX_IMAGE_GIB: u64 = 20;
const MAX_IMAGE: u64 = MAX_IMAGE_GIB << 30;

/// An image that the engine has.
pub(super) struct Image {
    /// `sha256:…`; what containers are made from, so that a moving tag cannot change it meanwhile.
    pub id: String,
    /// For the report: name and digest.
    pub description: String,
    pub config: ImageConfig,
    /// All of its layers, unpacked, as the engine counts them.
    pub(super) bytes: u64,
}

/// How a pull went that met no error.
enum Pulled {
    Whole,
    /// It was given up on the way.
    TooLarge,
}

impl Image {
    /// One that our own setup made.
    pub(super) fn is_setup_result(&self) -> bool {
        self.label(SETUP_LABEL).is_some()
    }

    /// One that our own setup made and that has something in the home folder.
    pub(super) fn has_home(&self) -> bool {
        self.is_setup_result() && self.label(HOME_LABEL).is_some()
    }

    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.config.labels.as_ref()?.get(name).map(String::as_str)
    }
}

impl DockerSandbox {
    /// The image of this name, which must be there.
    pub(super) async fn image(&self, name: &str) -> Result<Image, SandboxError> {
        match self.find(name).await? {
            Some(image) => Ok(image),
            None => Err(no_image(name, "it is not there any more")),
        }
    }

    /// The image of this name, when its registry gives it to somebody without credentials. That it is here
    /// says nothing: it may have been pulled for another repository. Asked once in the life of a process.
    pub(super) async fn given_to_anybody(&self, name: &str) -> Result<Image, SandboxError> {
        let is_known = self.public.lock().contains(name);
        if is_known && let Some(image) = self.find(name).await? {
            return Ok(image);
        }
        let had = self.find(name).await?.is_some();
        self.pull_again_and_again(name).await?;
        // One that was here before is not ours to remove, however large.
        let image = if had { self.image(name).await? } else { self.pulled(name).await? };
        self.public.lock().insert(name.to_owned());
        Ok(image)
    }

    /// The image of this name, pulled when it is not there.
    pub(super) async fn present_or_pulled(&self, name: &str) -> Result<Image, SandboxError> {
        if let Some(image) = self.find(name).await? {
            return Ok(image);
        }
        self.pull_again_and_again(name).await?;
        self.pulled(name).await
    }

    /// Pulls, also what is here already.
    async fn pull_again_and_again(&self, name: &str) -> Result<(), SandboxError> {
        image::check_name(name)?;
        if name.starts_with("sha256:") {
            return Err(no_image(name, "an image id cannot be pulled"));
        }
        let mut waits = RETRIES.iter();
        loop {
            match self.pull(name).await {
                Ok(Pulled::Whole) => return Ok(()),
                Ok(Pulled::TooLarge) => return Err(too_large(name)),
                Err(err) => {
                    // There is no point in asking again for what does not exist or is forbidden.
                    let cause = err.cause();
                    let is_final = err.is_missing() || cause.contains("access denied");
                    match waits.next() {
                        Some(wait) if !is_final => tokio::time::sleep(*wait).await,
                        _ => return Err(no_image(name, &cause)),
                    }
                }
            }
        }
    }

    /// Whether the engine has the image of this name.
    pub async fn has(&self, name: &str) -> Result<bool, SandboxError> {
        Ok(self.find(name).await?.is_some())
    }

    /// Pulls an image that is not there: once, and for no longer than `patience`.
    pub async fn pull_once(&self, name: &str, patience: Duration) -> Result<(), SandboxError> {
        match tokio::time::timeout(patience, self.pull(name)).await {
            Ok(Ok(Pulled::Whole)) => self.pulled(name).await.map(drop),
            Ok(Ok(Pulled::TooLarge)) => Err(too_large(name)),
            Ok(Err(err)) => Err(no_image(name, &err.cause())),
            Err(_) => Err(no_image(name, &format!("it took longer than {patience:?}"))),
        }
    }

    async fn pull(&self, name: &str) -> Result<Pulled, ApiError> {
        tracing::info!(image = name, "pulling");
        let (from, tag) = image::split(name);
        let mut options = CreateImageOptionsBuilder::default().from_image(from);
        if let Some(tag) = tag {
            options = options.tag(tag);
        }
        let watched = async {
            let mut progress = pin!(self.docker.create_image(Some(options.build()), None, None));
            let mut layers = Layers::default();
            while let Some(said) = progress.try_next().await? {
                if layers.add(&said) > MAX_IMAGE {
                    // Engines give a pull up whose client has gone, with what they have of it.
                    return Ok(Pulled::TooLarge);
                }
            }
            Ok(Pulled::Whole)
        };
        bounded("pull", PULL, watched).await
    }

    /// The image that has just been pulled. What it holds unpacked shows only now: one that is too large
    /// goes again. Other names that it had before keep it.
    async fn pulled(&self, name: &str) -> Result<Image, SandboxError> {
        let image = self.image(name).await?;
        if image.bytes <= MAX_IMAGE {
            return Ok(image);
        }
        let options = RemoveImageOptionsBuilder::default().force(false).build();
        let removal = self.docker.remove_image(name, Some(options), None);
        if let Err(err) = bounded("remove image", CALL, removal).await {
            tracing::warn!(
                image = name,
                err = err.cause(),
                "cannot remove an image that is too large"
            );
        }
        Err(too_large(name))
    }

    /// The image of this name, if the engine has it.
    pub(super) async fn find(&self, name: &str) -> Result<Option<Image>, SandboxError> {
        image::check_name(name)?;
        match bounded("inspect image", CALL, self.docker.inspect_image(name)).await {
            Ok(found) => Ok(Some(described(name, found)?)),
            Err(err) if err.is_missing() => Ok(None),
            Err(err) => Err(err.into()),
        }
    }
}

fn described(name: &str, found: ImageInspect) -> Result<Image, SandboxError> {
    let id = found.id.unwrap_or_default();
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let architecture = found.architecture.unwrap_or_default();
    if !architecture.is_empty() && architecture != machine {
        let message = format!("it is for {architecture}, and the guest for {machine}");
        return Err(no_image(name, &message));
    }
    let digest = found.repo_digests.unwrap_or_default().into_iter().next();
    let exact =
        digest.and_then(|digest| digest.split_once('@').map(|(_, digest)| digest.to_owned()));
    let exact = exact.unwrap_or_else(|| id.clone());
    let description = if name == exact { exact } else { format!("{name} ({exact})") };
    let bytes = found.size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
    Ok(Image { id, description, config: found.config.unwrap_or_default(), bytes })
}

fn too_large(name: &str) -> SandboxError {
    let message = format!(
        "it holds more than {MAX_IMAGE_GIB} GiB, and no more is pulled unasked; one that Docker has already \
         may be larger"
    );
    no_image(name, &message)
}

/// What a pull has told of its layers, in bytes of the archives that travel. Source: the progress messages
/// of `POST /images/create` in Docker's API; `id` is the layer's, and `total` comes with its download.
#[derive(Debug, Default)]
struct Layers {
    bytes: HashMap<String, u64>,
    total: u64,
}

impl Layers {
    /// Takes one message; what is known of all layers together.
    fn add(&mut self, said: &CreateImageInfo) -> u64 {
        let (Some(id), Some(detail)) = (&said.id, &said.progress_detail) else { return self.total };
        // Registries that do not say how much it will be still show how much there is so far.
        let largest = detail.total.max(detail.current).unwrap_or(0);
        let bytes = u64::try_from(largest).unwrap_or(0);
        let known = self.bytes.entry(id.clone()).or_default();
        if bytes > *known {
            self.total = self.total.saturating_add(bytes - *known);
            *known = bytes;
        }
        self.total
    }
}

fn no_image(name: &str, message: &str) -> SandboxError {
    SandboxError::NoImage { image: name.to_owned(), message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use crate::docker::pull::*;

    /// What engines print, line by line, and what is known of the image after it.
    const PROGRESS: &[(&str, u64)] = &[
        (r#"{"status":"Pulling from library/python","id":"3.13"}"#, 0),
        (r#"{"status":"Already exists","progressDetail":{},"id":"0e29546d541c"}"#, 0),
        (r#"{"status":"Pulling fs layer","progressDetail":{},"id":"9b829c73b52b"}"#, 0),
        (r#"{"status":"Pulling fs layer","progressDetail":{},"id":"cb5b7ae36172"}"#, 0),
        (
            r#"{"status":"Downloading","progressDetail":{"current":52428,"total":5155728},"progress":"[>   ]  52.43kB/5.156MB","id":"9b829c73b52b"}"#,
            5_155_728,
        ),
        (
            r#"{"status":"Downloading","progressDetail":{"current":110592,"total":10876341},"progress":"[>   ]  110.6kB/10.88MB","id":"cb5b7ae36172"}"#,
            16_032_069,
        ),
        (
            r#"{"status":"Downloading","progressDetail":{"current":5155728,"total":5155728},"id":"9b829c73b52b"}"#,
            16_032_069,
        ),
        (r#"{"status":"Verifying Checksum","progressDetail":{},"id":"9b829c73b52b"}"#, 16_032_069),
        (
            r#"{"status":"Extracting","progressDetail":{"current":65536,"total":5155728},"id":"9b829c73b52b"}"#,
            16_032_069,
        ),
        // Engines with containerd's store count seconds here.
        (
            r#"{"status":"Extracting","progressDetail":{"current":3,"units":"s"},"id":"cb5b7ae36172"}"#,
            16_032_069,
        ),
        // A registry that does not know how long a layer is.
        (
            r#"{"status":"Downloading","progressDetail":{"current":1000,"total":-1},"id":"6494e4811622"}"#,
            16_033_069,
        ),
        (
            r#"{"status":"Downloading","progressDetail":{"current":9223372036854775807},"id":"6494e4811622"}"#,
            9_223_372_036_870_807_876,
        ),
        (r#"{"status":"Digest: sha256:0000"}"#, 9_223_372_036_870_807_876),
    ];

    #[test]
    fn adds_up_the_layers_of_a_pull() {
        let mut layers = Layers::default();
        for (line, expected) in PROGRESS {
            let said: CreateImageInfo = serde_json::from_str(line).unwrap();
            assert_eq!(layers.add(&said), *expected, "{line}");
        }
    }
}
