//! Images of the engine: found, or pulled.

use std::time::Duration;

use bollard::models::{ImageConfig, ImageInspect};
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::TryStreamExt;

use super::api::{ApiError, bounded};
use super::setup::SETUP_LABEL;
use super::{CALL, DockerSandbox};
use crate::sandbox::{SandboxError, image};

/// Bound of one attempt to pull.
const PULL: Duration = Duration::from_mins(15);
/// Waits between attempts to pull.
const RETRIES: &[Duration] = &[Duration::from_secs(2), Duration::from_secs(10)];

/// An image that the engine has.
pub(super) struct Image {
    /// `sha256:…`; what containers are made from, so that a moving tag cannot change it meanwhile.
    pub id: String,
    /// For the report: name and digest.
    pub description: String,
    pub config: ImageConfig,
}

impl Image {
    /// One that our own setup made.
    pub(super) fn is_setup_result(&self) -> bool {
        self.config.labels.iter().flatten().any(|(name, _)| name == SETUP_LABEL)
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

    /// The image of this name, pulled when it is not there.
    pub(super) async fn present_or_pulled(&self, name: &str) -> Result<Image, SandboxError> {
        if let Some(image) = self.find(name).await? {
            return Ok(image);
        }
        if name.starts_with("sha256:") {
            return Err(no_image(name, "an image id cannot be pulled"));
        }
        let mut waits = RETRIES.iter();
        loop {
            match self.pull(name).await {
                Ok(()) => return self.image(name).await,
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

    async fn pull(&self, name: &str) -> Result<(), ApiError> {
        tracing::info!(image = name, "pulling");
        let (from, tag) = image::split(name);
        let mut options = CreateImageOptionsBuilder::default().from_image(from);
        if let Some(tag) = tag {
            options = options.tag(tag);
        }
        let progress = self.docker.create_image(Some(options.build()), None, None);
        bounded("pull", PULL, progress.try_for_each(|_| std::future::ready(Ok(())))).await
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
    Ok(Image { id, description, config: found.config.unwrap_or_default() })
}

fn no_image(name: &str, message: &str) -> SandboxError {
    SandboxError::NoImage { image: name.to_owned(), message: message.to_owned() }
}
