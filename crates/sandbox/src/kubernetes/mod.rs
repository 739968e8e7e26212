//! Sandboxes as pods: one locked pod per sandbox, with one guest in it.
//!
//! [`KubernetesSandbox`] is what `World` holds. The pod's shape is [`manifest`], of which the operator's [`template`] says
//! a part; what the server made of it is checked by [`hardening`] (field by field: [`comparison`]), and that it reaches
//! nothing by [`network`]. [`services`] are containers of the same pod, and [`readiness`] waits for them.
//! [`bring_up`] brings the guest in, once the pod has come so far ([`waiting`], [`events`]); [`exec`] speaks to it over
//! what [`connect`] has opened ([`upgrade`]), [`takedown`] shows that a pod is in use and removes it, [`sweep`] removes what nobody
//! uses, and [`setup`] keeps what setup commands leave.
//!
//! A pod has no network of its own: allowed hosts are reached by the relay through the guest's stream
//! ([`crate::egress`]), as in a container. Nothing here reads Secrets, mounts a folder of a node, or gives a token to a
//! pod. The requests are those of [`api`], to the server that [`config`] finds, from who [`login`] says that we are; the
//! fleet's launcher uses it, too.

pub mod api;
mod bring_up;
pub mod comparison;
mod config;
mod connect;
pub mod events;
mod exec;
mod hardening;
mod login;
mod manifest;
mod network;
pub mod pod;
mod probe;
mod readiness;
mod reference;
mod refusal;
pub mod rights;
mod services;
mod setup;
mod sweep;
mod takedown;
mod template;
mod upgrade;
mod waiting;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::api::Cluster;
use self::bring_up::{Order, Up, lost};
pub use self::manifest::OwnPod;
use self::reference::Reference;
use self::template::Template;
use crate::docker::HeartbeatTiming as DockerHeartbeatTiming;
use crate::docker::owner::Owner;
use crate::image::{self, NamedBy};
use crate::{ImageSpec, PreparedImage, Running, Sandbox, SandboxError, SandboxSpec, Stop};
use patchwright_base::error::Result as BaseResult;

/// What the operator says about pods.
#[derive(Clone, Copy, Debug)]
pub struct PodSettings<'a> {
    /// Files of kubeconfigs, as in `KUBECONFIG`; found as `kubectl` finds them when absent.
    pub kubeconfig: Option<&'a str>,
    /// The file of the template.
    pub template: Option<&'a Path>,
    /// The state folder: what setup leaves, and the locks of those who live.
    pub state: &'a Path,
    /// The pod that this process runs in.
    pub own_pod: Option<&'a OwnPod>,
    /// 1, or less in tests, which have no minutes to lose.
    pub time_scale: f64,
}

/// How a living process shows that its pods are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatTiming {
    /// Between two signs of life.
    pub every: Duration,
    /// How long one counts. Many times longer, because API servers can be away.
    pub counts: Duration,
}

/// How long one waits for a pod.
#[derive(Clone, Copy, Debug)]
struct Waits {
    /// Until it begins, images and all.
    start: Duration,
    /// While its image does not come, or a container cannot be made.
    image: Duration,
    /// While the container of a service cannot be made.
    configuration: Duration,
    /// While no node takes it; one may be on its way.
    node: Duration,
    /// Until a network policy is in force.
    policy: Duration,
}

/// Pods in one namespace of a cluster. Clones share everything.
#[derive(Clone)]
pub struct KubernetesSandbox {
    cluster: Cluster,
    template: Template,
    owner: Arc<Owner>,
    own_pod: Option<OwnPod>,
    state: PathBuf,
    heartbeat: HeartbeatTiming,
    waits: Waits,
}

impl KubernetesSandbox {
    /// Reads the template and finds the cluster. Nothing is asked of it yet.
    ///
    /// # Errors
    /// When the template cannot be used, or there is no cluster.
    pub async fn connect(settings: PodSettings<'_>) -> BaseResult<KubernetesSandbox> {
        let template = settings.template.map(Template::read).transpose()?.unwrap_or_default();
        let cluster =
            Cluster::find(settings.kubeconfig, template.namespace.as_deref(), refusal::MANIFEST);
        let cluster = cluster.await?;
        // Not among the locks of those who have containers of Docker's.
        let owner =
            Owner::new(DockerHeartbeatTiming::default()).in_state(&settings.state.join("pods"));
        let scaled = |time: Duration| {
            time.mul_f64(settings.time_scale).max(Duration::from_secs(3)).min(time)
        };
        Ok(KubernetesSandbox {
            cluster,
            template,
            owner: Arc::new(owner),
            own_pod: settings.own_pod.cloned(),
            state: settings.state.to_owned(),
            heartbeat: HeartbeatTiming {
                every: Duration::from_mins(1),
                counts: Duration::from_mins(10),
            },
            waits: Waits {
                start: Duration::from_mins(20),
                image: scaled(Duration::from_mins(2)),
                configuration: scaled(Duration::from_secs(10)),
                node: scaled(Duration::from_mins(10)),
                policy: scaled(Duration::from_secs(20)),
            },
        })
    }

    /// Shows in another rhythm that its pods are in use.
    #[must_use]
    pub fn with_heartbeat(self, heartbeat: HeartbeatTiming) -> KubernetesSandbox {
        KubernetesSandbox { heartbeat, ..self }
    }

    /// Where pods are made, for people.
    pub fn place(&self) -> String {
        self.cluster.to_string()
    }

    /// Sandboxes are started although they reach the network, because the template says so.
    pub fn is_open(&self) -> bool {
        self.template.is_open
    }
}

impl KubernetesSandbox {
    /// Removes a sandbox that has begun and cannot be used. The error that ended it is the one to report.
    async fn unusable(up: Up, err: SandboxError) -> SandboxError {
        let reason = match &err {
            SandboxError::Gone(_) => up.pod.exit_reason().await,
            _ => None,
        };
        let err = match (err, reason) {
            (SandboxError::Gone(why), Some(reason)) => lost(&up.pod, format!("{why}; {reason}")),
            (err, _) => err,
        };
        let _ = up.pod.remove().await;
        err
    }
}

#[async_trait]
impl Sandbox for KubernetesSandbox {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    async fn prepare(&self, spec: &ImageSpec<'_>) -> Result<PreparedImage, SandboxError> {
        let name = image::choose(spec.image, spec.root_files)?;
        let base = match spec.named_by {
            NamedBy::Operator => Reference { image: name, is_public: false },
            NamedBy::Repository => Reference { image: image::whole(&name), is_public: false },
            NamedBy::OneOfMany => Reference { image: image::whole(&name), is_public: true },
        };
        if !spec.setup.is_empty() {
            return Box::pin(self.with_setup(&base, spec)).await;
        }
        let (reference, description) = (base.word(), base.image);
        Ok(PreparedImage { reference, description, ..PreparedImage::default() })
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<Running, SandboxError> {
        let word = &spec.image.reference;
        let left = word.starts_with('/').then(|| Path::new(word));
        let image = left.map_or_else(|| Ok(Reference::parse(word)), setup::image_of)?;
        let (services, mut states) =
            services::chosen(&spec.services, &self.template, image.is_public);
        let order = Order {
            image,
            run: spec.run.clone(),
            purpose: spec.purpose,
            env: spec.env.clone(),
            prepared: spec.image.clone(),
            limits: spec.limits.clone(),
            services,
            has_home: left.is_some(),
            has_relay: spec.egress.is_some(),
        };
        let mut up = Box::pin(self.bring_up(&order)).await?;
        if let Some(left) = left
            && let Err(err) = setup::put_back(&up.client, left).await
        {
            return Err(KubernetesSandbox::unusable(up, err).await);
        }
        states.extend(self.ready_services(&up.pod.name, &order.services).await);
        let mut enforced = up.enforced;
        up.pod.keep();
        if let Some(egress) = &spec.egress {
            egress.relay(&up.client);
            enforced.push(egress.report());
        }
        Ok(Running {
            client: up.client,
            id: up.pod.name.clone(),
            workspace: manifest::WORKSPACE.to_owned(),
            services: states,
            enforced,
            stopper: Box::new(up.pod),
        })
    }

    async fn sweep(&self, run: Option<&str>) -> Result<Vec<String>, SandboxError> {
        self.sweep_pods(run).await
    }

    async fn settled(&self) {
        self.owner.owned.settled().await;
    }
}
