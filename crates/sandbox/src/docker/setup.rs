//! Setup commands, run once: a container of their own, as root with few capabilities, without any
//! secret; what they leave is committed to an image that later runs start from.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use bollard::models::ContainerConfig;
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, KillContainerOptions, ListImagesOptionsBuilder,
    RemoveImageOptionsBuilder,
};

use super::api::bounded;
use super::configuration::{Network, Shape, Task};
use super::pull::Image;
use super::takedown::Container;
use super::{CALL, DockerSandbox, USER, owner};
use crate::client::{Client, GuestError};
use crate::{ContainerLimits, ImageSpec, PreparedImage, SandboxError, Stop, image};
use patchwright_guest::protocol::Exec;

/// Carried by the images that setup made; the value is the cache key.
pub(super) const SETUP_LABEL: &str = "patchwright.setup";
/// Name of those images, before `:key`.
const REPOSITORY: &str = "patchwright-setup";
/// Bound of a commit: setup may have installed gigabytes.
const COMMIT: Duration = Duration::from_mins(15);
/// Images that are kept whatever their age.
const KEPT: usize = 20;
/// Age after which the others are removed.
const MAX_AGE: Duration = Duration::from_hours(30 * 24);
/// Bytes of output that a failing command is reported with.
const TAIL: usize = 8 << 10;

impl DockerSandbox {
    /// The image with the setup of `spec` on top of `base`, from the cache or made now.
    pub(super) async fn with_setup(
        &self,
        base: &Image,
        spec: &ImageSpec<'_>,
    ) -> Result<PreparedImage, SandboxError> {
        let network = network(spec)?;
        let name = format!("{REPOSITORY}:{}", image::setup_key(&base.id, spec));
        let made = match self.find(&name).await? {
            Some(image) if image.is_setup_result() => image,
            Some(_) | None => {
                self.make(base, spec, network, &name).await?;
                self.prune().await;
                self.image(&name).await?
            }
        };
        let description = format!("{} with setup ({})", base.description, made.id);
        Ok(PreparedImage { reference: made.id, description })
    }

    async fn make(
        &self,
        base: &Image,
        spec: &ImageSpec<'_>,
        network: Network,
        name: &str,
    ) -> Result<(), SandboxError> {
        let deadline = Instant::now() + spec.setup_timeout;
        let shape = Shape {
            image: base,
            run: spec.run,
            purpose: "setup",
            env: &BTreeMap::new(),
            limits: &self.limits(&ContainerLimits::default()),
            task: Task::Setup(network),
            egress: spec.setup_egress.as_ref(),
            owner: &self.owner,
        };
        let (container, client) = self.bring_up(&shape).await?;
        let ran = run_commands(&client, spec, deadline).await;
        let ran = match ran {
            Err(Failed::Guest(err)) => Err(SandboxError::Gone(format!(
                "during setup: {}",
                container.autopsy().await.unwrap_or_else(|| err.to_string())
            ))),
            Err(Failed::Command(err)) => Err(err),
            Ok(()) => Ok(()),
        };
        // The guest runs until the container is stopped: others see by it that the container is in use.
        let committed = match ran {
            Ok(()) => self.commit(&container, base, name).await,
            Err(err) => Err(err),
        };
        client.close().await;
        if let Err(err) = container.remove().await {
            tracing::warn!(%err, "cannot remove the setup container");
        }
        committed
    }

    /// Commits the stopped container under `name`, with the base image's configuration.
    async fn commit(
        &self,
        container: &Container,
        base: &Image,
        name: &str,
    ) -> Result<(), SandboxError> {
        let kill = self.docker.kill_container(&container.id, None::<KillContainerOptions>);
        if let Err(err) = bounded("kill", CALL, kill).await
            && !err.is_conflict()
        {
            return Err(err.into());
        }
        let (repository, key) = name.split_once(':').unwrap_or((name, "latest"));
        let options = CommitContainerOptionsBuilder::default()
            .container(&container.id)
            .repo(repository)
            .tag(key)
            .comment("patchwright setup")
            .build();
        let mut labels = owner::no_labels();
        labels.insert(SETUP_LABEL.to_owned(), key.to_owned());
        let config = ContainerConfig {
            env: base.config.env.clone(),
            entrypoint: base.config.entrypoint.clone(),
            cmd: base.config.cmd.clone(),
            user: base.config.user.clone().filter(|user| !user.is_empty()).or(Some("0".to_owned())),
            working_dir: base.config.working_dir.clone(),
            labels: Some(labels),
            ..ContainerConfig::default()
        };
        bounded("commit", COMMIT, self.docker.commit_container(options, config)).await?;
        Ok(())
    }

    /// Removes old setup images, best effort: Docker refuses those in use.
    async fn prune(&self) {
        let filter = HashMap::from([("label".to_owned(), vec![SETUP_LABEL.to_owned()])]);
        let options = ListImagesOptionsBuilder::default().filters(&filter).build();
        let Ok(mut images) =
            bounded("list images", CALL, self.docker.list_images(Some(options))).await
        else {
            return;
        };
        images.sort_by_key(|image| std::cmp::Reverse(image.created));
        let oldest = i64::try_from(owner::now().saturating_sub(MAX_AGE.as_secs())).unwrap_or(0);
        for old in images.into_iter().skip(KEPT).filter(|image| image.created < oldest) {
            let options = RemoveImageOptionsBuilder::default().force(false).build();
            let removal = self.docker.remove_image(&old.id, Some(options), None);
            if let Err(err) = bounded("remove image", CALL, removal).await {
                tracing::debug!(
                    image = old.id,
                    err = err.cause(),
                    "cannot remove an old setup image"
                );
            }
        }
    }
}

/// Every host (`*`) is Docker's own network; a list of hosts is reached over the relay, from a container
/// that has no other.
fn network(spec: &ImageSpec<'_>) -> Result<Network, SandboxError> {
    match spec.setup_hosts {
        [all] if all == "*" => Ok(Network::Bridge),
        hosts if hosts.is_empty() || spec.setup_egress.is_some() => Ok(Network::None),
        _ => {
            Err(SandboxError::Other("there is no way to the hosts that setup asks for".to_owned()))
        }
    }
}

enum Failed {
    /// The guest is gone or broken; the container may know why.
    Guest(GuestError),
    Command(SandboxError),
}

impl From<GuestError> for Failed {
    fn from(err: GuestError) -> Failed {
        Failed::Guest(err)
    }
}

/// The tree goes in, the commands run in it, and what they did not make is taken out again.
async fn run_commands(
    client: &Client,
    spec: &ImageSpec<'_>,
    deadline: Instant,
) -> Result<(), Failed> {
    if let Some(tree) = spec.tree {
        tree.upload(client).await?;
    }
    for command in spec.setup {
        let left = deadline.saturating_duration_since(Instant::now());
        let exec = Exec {
            // Not a login shell: /etc/profile would reset the PATH that the image sets for its
            // toolchain.
            argv: ["sh", "-c", command].map(str::to_owned).to_vec(),
            cwd: None,
            env: BTreeMap::new(),
            timeout_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1),
            output_cap: TAIL,
        };
        let output = client.exec(exec).await?;
        spec.judge(command, output).map_err(Failed::Command)?;
    }
    client.remove_base(Some((USER, USER))).await?;
    Ok(())
}
