//! Setup commands, run once: a container of their own, as root with few capabilities, with no secrets but the
//! operator's own for it; what they leave is committed to an image that later runs start from.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bollard::models::ContainerConfig;
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, KillContainerOptions, RemoveImageOptionsBuilder,
};

use super::api::bounded;
use super::bring_up::plain;
use super::configuration::{Network, Shape, Task};
use super::disk::{is_filled, until_filled};
use super::pull::Image;
use super::takedown::Container;
use super::{CALL, DockerSandbox, HOME, owner, podman};
use crate::client::Client;
use crate::setup::{self, Failed, SetupExtent, SetupRun};
use crate::turn::Turn;
use crate::{ImageSpec, PreparedImage, SandboxError, Stop, image};
use patchwright_guest::protocol::Exec;
use patchwright_guest::quota;

/// Carried by the images that setup made; the value is the cache key.
pub(super) const SETUP_LABEL: &str = "patchwright.setup";
/// How the commands went, as JSON.
const RUNS_LABEL: &str = "patchwright.setup-runs";
/// The run that alone takes the image: a command has failed in it, which the next run tries again, or a model
/// has written the tree.
pub(super) const OWN_LABEL: &str = "patchwright.setup-failed";
/// Setup left something in the home folder.
pub(super) const HOME_LABEL: &str = "patchwright.setup-home";
/// Name of those images, before `:key`.
const REPOSITORY: &str = "patchwright-setup";
/// Bound of a commit: setup may have installed gigabytes.
const COMMIT: Duration = Duration::from_mins(15);

impl DockerSandbox {
    /// The image with the setup of `spec` on top of `base`, from the cache or made now.
    pub(super) async fn with_setup(
        &self,
        base: &Image,
        spec: &ImageSpec<'_>,
    ) -> Result<PreparedImage, SandboxError> {
        let network = network(spec)?;
        let shared = format!("{REPOSITORY}:{}", image::setup_key(&base.id, spec));
        // Under a name of its own, so that no other run puts its result in this one's place.
        let name = if spec.is_for_this_run {
            format!("{shared}-{}", plain(spec.run))
        } else {
            shared.clone()
        };
        let is_known = |image: &Image| image.is_setup_result() && is_usable(image, spec);
        let mut found = self.found(&shared, &name, spec).await?;
        let mut turn = None;
        if !found.as_ref().is_some_and(is_known)
            && let Some(state) = &self.state
        {
            let key = name.rsplit(':').next().unwrap_or_default();
            turn = Turn::wait(state, key, spec.setup_timeout).await;
            found = self.found(&shared, &name, spec).await?;
        }
        let (made, is_cached) = match found {
            Some(image) if is_known(&image) => (image, true),
            old => {
                if let Some(setup) = Box::pin(self.make(base, spec, network, &name)).await? {
                    let (reference, description) = (base.id.clone(), base.description.clone());
                    return Ok(PreparedImage {
                        reference,
                        description,
                        setup,
                        ..PreparedImage::default()
                    });
                }
                if let Some(old) = old {
                    self.remove_unused(&old.id).await;
                }
                self.prune_setup_images().await;
                (self.image(&name).await?, false)
            }
        };
        drop(turn);
        let description = format!("{} with setup ({})", base.description, made.id);
        let setup = runs_of(&made);
        Ok(PreparedImage {
            reference: made.id,
            description,
            setup,
            is_cached,
            ..PreparedImage::default()
        })
    }

    /// The image that this run began with, by its id, where the engine still has it.
    pub(super) async fn begun_with(
        &self,
        spec: &ImageSpec<'_>,
    ) -> Result<Option<PreparedImage>, SandboxError> {
        let Some(begun) = spec.begun_with.filter(|it| it.reference.starts_with("sha256:")) else {
            return Ok(None);
        };
        let Some(image) = self.find(&begun.reference).await? else { return Ok(None) };
        // An image without what setup left is what there was when that was too large.
        if image.is_setup_result() == spec.setup.is_empty() || !is_usable(&image, spec) {
            return Ok(None);
        }
        Ok(Some(PreparedImage {
            setup: runs_of(&image),
            is_cached: image.is_setup_result(),
            reference: image.id,
            description: begun.description.clone(),
            ..PreparedImage::default()
        }))
    }

    /// What there is under the name that all share, if this run may use it, or else under its own.
    async fn found(
        &self,
        shared: &str,
        name: &str,
        spec: &ImageSpec<'_>,
    ) -> Result<Option<Image>, SandboxError> {
        match self.find(shared).await? {
            Some(image) if image.is_setup_result() && is_usable(&image, spec) => Ok(Some(image)),
            other if shared == name => Ok(other),
            _ => self.find(name).await,
        }
    }

    /// Runs setup and commits the result. Where that is too large, it is thrown away, and there is only to say
    /// how the commands went.
    async fn make(
        &self,
        base: &Image,
        spec: &ImageSpec<'_>,
        network: Network,
        name: &str,
    ) -> Result<Option<Vec<SetupRun>>, SandboxError> {
        let deadline = Instant::now() + spec.setup_timeout;
        let env =
            BTreeMap::from(SETUP_ENV.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let shape = Shape {
            image: base,
            run: spec.run,
            purpose: "setup",
            env: &env,
            prepared: None,
            limits: &self.limits(&spec.setup_limits()),
            task: Task::Setup(network),
            egress: spec.setup_egress.as_ref(),
            services: &[],
            owner: self.owner.id(),
        };
        let (container, client) = Box::pin(self.bring_up(&self.order(&shape)?)).await?;
        if let Some(egress) = shape.egress {
            egress.relay(&client);
        }
        let full = until_filled(&self.docker, &container.id, spec.setup_bytes);
        let ran = setup::run(&client, spec, "sh", deadline, SetupExtent::WholeImage, full).await;
        // The last command may have ended before anybody looked.
        let ran = match ran {
            Ok(runs) if is_filled(&self.docker, &container.id, spec.setup_bytes).await => {
                Err(setup::filled_by_last(spec, runs))
            }
            ran => ran,
        };
        let ran = match ran {
            Err(Failed::Guest(err)) => Err(match container.exit_reason().await {
                Some(why) => container.gone(format!("during setup: {why}")),
                // The guest lives, and has ended the command because Docker's disk is nearly full.
                None if err.to_string().contains(quota::DISK_FULL) => {
                    SandboxError::DiskFull(format!("during setup: {err}"))
                }
                None => SandboxError::Gone(format!("during setup: {err}")),
            }),
            Err(Failed::Command(err)) => Err(err),
            Err(Failed::Full(runs)) => Ok((runs, false)),
            Ok(runs) => Ok((runs, true)),
        };
        // The guest runs until the container is stopped: others see by it that the container is in use.
        let committed = match ran {
            Ok((runs, true)) => {
                let labels = labels(spec, &runs, leaves_home(&client).await);
                self.commit(&container, base, name, labels).await.map(|()| None)
            }
            Ok((runs, false)) => Ok(Some(runs)),
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
        result: Vec<(&'static str, String)>,
    ) -> Result<(), SandboxError> {
        let kill = self.docker.kill_container(&container.id, None::<KillContainerOptions>);
        if let Err(err) = bounded("kill", CALL, kill).await
            && !err.is_conflict()
        {
            return Err(err.into());
        }
        let (repository, key) = name.split_once(':').unwrap_or((name, "latest"));
        let mut labels = owner::no_labels();
        labels.insert(SETUP_LABEL.to_owned(), key.to_owned());
        labels.extend(result.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let mut options = CommitContainerOptionsBuilder::default()
            .container(&container.id)
            .repo(repository)
            .tag(key)
            .comment("patchwright setup");
        if self.is_podman {
            labels.entry(RUNS_LABEL.to_owned()).and_modify(|runs| *runs = podman::plain(runs));
            options = options.changes(&podman::labels(&labels)?);
        }
        let config = ContainerConfig {
            env: base.config.env.clone(),
            entrypoint: base.config.entrypoint.clone(),
            cmd: base.config.cmd.clone(),
            user: base.config.user.clone().filter(|user| !user.is_empty()).or(Some("0".to_owned())),
            working_dir: base.config.working_dir.clone(),
            labels: Some(labels.clone()),
            ..ContainerConfig::default()
        };
        let commit = self.docker.commit_container(options.build(), config);
        bounded("commit", COMMIT, commit).await?;
        let made = self.image(name).await?;
        // By its labels it is known whose it is and for whom.
        let has = |(name, value): (&String, &String)| made.label(name).unwrap_or_default() == value;
        if labels.iter().all(has) {
            return Ok(());
        }
        self.remove_unused(&made.id).await;
        Err(SandboxError::Other("the engine did not keep the labels of what setup left".to_owned()))
    }

    /// Removes an image of ours that no container is made from.
    pub(super) async fn remove_unused(&self, id: &str) {
        let options = RemoveImageOptionsBuilder::default().force(false).build();
        let removal = self.docker.remove_image(id, Some(options), None);
        if let Err(err) = bounded("remove image", CALL, removal).await {
            tracing::debug!(image = id, err = err.cause(), "cannot remove an old setup image");
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

/// Variables of setup, besides the image's: Java asks the system for the home folder of root, and pip
/// keeps what it has downloaded although nobody installs it a second time.
const SETUP_ENV: [(&str, &str); 3] = [
    ("GRADLE_USER_HOME", "/home/agent/.gradle"),
    ("MAVEN_OPTS", "-Duser.home=/home/agent"),
    ("PIP_NO_CACHE_DIR", "1"),
];

/// How the commands went that made it.
fn runs_of(image: &Image) -> Vec<SetupRun> {
    let runs = image.label(RUNS_LABEL).and_then(|runs| {
        let plain = podman::from_plain(runs);
        serde_json::from_str(plain.as_deref().unwrap_or(runs)).ok()
    });
    runs.unwrap_or_default()
}

/// A setup in which a command failed is only good for the run in which it did: a registry that was down
/// may be up again.
fn is_usable(image: &Image, spec: &ImageSpec<'_>) -> bool {
    image.label(OWN_LABEL).is_none_or(|run| run == spec.run && !spec.setup_required)
}

fn labels(spec: &ImageSpec<'_>, runs: &[SetupRun], has_home: bool) -> Vec<(&'static str, String)> {
    let mut labels = vec![(RUNS_LABEL, serde_json::to_string(runs).unwrap_or_default())];
    if spec.is_for_this_run || runs.iter().any(SetupRun::has_failed) {
        labels.push((OWN_LABEL, spec.run.to_owned()));
    }
    if has_home {
        labels.push((HOME_LABEL, "yes".to_owned()));
    }
    labels
}

/// Whether anything is in the home folder.
async fn leaves_home(client: &Client) -> bool {
    let exec = Exec {
        argv: ["sh", "-c", "test -n \"$(ls -A \"$0\")\"", HOME].map(str::to_owned).to_vec(),
        cwd: None,
        env: BTreeMap::new(),
        timeout_ms: 60_000,
        output_cap: 100,
    };
    client.exec(exec).await.is_ok_and(|ended| ended.exit_code == 0)
}
