//! From nothing to a serving guest: create, compare, bring the guest in, look at the network, attach. Whatever fails on
//! the way, the pod is removed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::exec::{self, RunError, exec};
use super::manifest::{self, BRINGER, GO, GUEST_FOLDER, HOME, Shape, WORKSPACE};
use super::reference::Reference;
use super::refusal::{refused, refused_pod};
use super::takedown::{self, SandboxPod};
use super::template::{CONTAINER, NETWORK, OPEN};
use super::{KubernetesSandbox, hardening, network, setup};
use crate::client::Client;
use crate::docker::owned::Owned;
use crate::environment::{self, CommandContext};
use crate::services::Service;
use crate::{ContainerLimits, EngineTrouble, PreparedImage, SandboxError, Stop, guest_binary};
use patchwright_guest::enforced::Enforced;
use patchwright_guest::programs;

/// How long the guest may take to arrive, and to say hello.
const BRING: Duration = Duration::from_mins(3);
const HELLO: Duration = Duration::from_mins(1);
/// How long a small command may take.
const SHORT: Duration = Duration::from_secs(30);
/// Longest list of variables that an image may have, in bytes.
const ENVIRONMENT: u64 = 256 << 10;
/// Writes the guest and the links to it; `$0` is the folder, `$1` the size, the rest are names. `head` needs no end of
/// the stream, which the older protocol cannot tell.
const BRING_SCRIPT: &str = "set -e; umask 022; cd \"$0\"; size=$1; shift; head -c \"$size\" >part; \
    test \"$(wc -c <part)\" -eq \"$size\"; chmod 0755 part; mkdir bin; \
    for name; do ln -s ../patchwright-guest \"bin/$name\"; done; mv part patchwright-guest";
/// Lets the first container end; `$0` is what it waits for.
const GO_SCRIPT: &str = ": >\"$0\"";
/// Starts the guest; `$0` is the workspace, `$1` the home folder, the rest the command. Limits that the shell can set.
const SERVE_SCRIPT: &str = "ulimit -c 0; ulimit -n 4096; home=$1; shift; \
    mkdir -p \"$0\" \"$home\" && chmod 0755 \"$0\" && chmod 0700 \"$home\" && cd \"$0\" && exec env -i \"$@\"";

/// A pod to be made, and what its guest is told.
pub(super) struct Order {
    pub(super) image: Reference,
    pub(super) run: String,
    pub(super) purpose: &'static str,
    pub(super) env: BTreeMap<String, String>,
    pub(super) prepared: PreparedImage,
    pub(super) limits: ContainerLimits,
    /// Servers beside it.
    pub(super) services: Vec<Service>,
    /// Setup leaves, or has left, files in the home folder.
    pub(super) has_home: bool,
    pub(super) has_relay: bool,
}

/// A pod with a serving guest. Dropped before it is kept, it is removed.
pub(super) struct Up {
    pub(super) pod: SandboxPod,
    pub(super) client: Client,
    pub(super) enforced: Vec<Enforced>,
    /// The image as the node has it.
    pub(super) exact: Reference,
}

impl KubernetesSandbox {
    pub(super) async fn bring_up(&self, order: &Order) -> Result<Up, SandboxError> {
        self.owner.hold_lock();
        let name = manifest::name(&order.run, order.purpose);
        let counts = self.heartbeat.counts.as_secs();
        let shape = Shape {
            name: &name,
            namespace: self.cluster.namespace(),
            image: &order.image.image,
            is_public: order.image.is_public,
            has_home: order.has_home,
            services: &order.services,
            run: &order.run,
            purpose: order.purpose,
            limits: &order.limits,
            template: &self.template,
            owner: self.owner.id(),
            own_pod: self.own_pod.as_ref(),
            heartbeat: (self.cluster.now(), counts),
        };
        let asked = manifest::pod(&shape);
        self.closed(&asked).await?;
        let (made, mut pod) = self.make(&name, &asked, order.limits.memory_bytes).await?;
        match Box::pin(self.start(order, &asked, &made, &mut pod)).await {
            Ok((client, reached, exact)) => {
                let enforced = manifest::enforced(&shape, network::report(&reached));
                Ok(Up { pod, client, enforced, exact })
            }
            Err(err) => {
                let err = judged(&pod, err).await;
                if let Err(left) = pod.remove().await {
                    tracing::warn!(%left, "cannot remove a pod that did not start");
                }
                Err(err)
            }
        }
    }

    /// A policy closes the network of the pod, before there is one.
    async fn closed(&self, asked: &Value) -> Result<(), SandboxError> {
        let unclosed = network::unclosed(&self.cluster, asked).await;
        let unclosed = unclosed.map_err(|err| refused("list network policies", &err))?;
        match unclosed.filter(|_| !self.template.is_open) {
            None => Ok(()),
            Some(why) => Err(SandboxError::Kubernetes {
                message: format!("sandbox pods would have a network: {why}"),
                hint: Some(
                    "`docs/kubernetes/sandboxes.yaml` has a NetworkPolicy that takes it away"
                        .to_owned(),
                ),
                trouble: Some(EngineTrouble::Refuses),
            }),
        }
    }

    /// Makes the pod. A request that is on its way is not called back: when nobody waits for its end any more, what it has
    /// made is removed in the background.
    async fn make(
        &self,
        name: &str,
        asked: &Value,
        memory: u64,
    ) -> Result<(Value, SandboxPod), SandboxError> {
        let owned = Arc::clone(&self.owner.owned);
        // It may be there although the answer was lost.
        owned.begin(name);
        let given_up = GivenUp { owned: &owned, name };
        let (this, asked, its) = (self.clone(), asked.clone(), name.to_owned());
        let made = tokio::spawn(async move {
            let owned = &this.owner.owned;
            match this.create(&asked).await {
                Ok(made) => {
                    let pod = SandboxPod::new(&this.cluster, &made, memory, this.heartbeat, owned);
                    Ok((made, pod))
                }
                Err(err) => {
                    if err.trouble() == Some(EngineTrouble::Away) {
                        owned.leave(&its);
                    } else {
                        owned.gone(&its);
                    }
                    Err(err)
                }
            }
        });
        let made = made.await;
        std::mem::forget(given_up);
        made.unwrap_or_else(|err| Err(SandboxError::Other(err.to_string())))
    }

    /// An answer that is lost is asked for again; the name is ours alone.
    async fn create(&self, asked: &Value) -> Result<Value, SandboxError> {
        // Strict: a field that is misspelt in the template would be dropped without a word.
        let path = format!(
            "/api/v1/namespaces/{}/pods?fieldManager=patchwright&fieldValidation=Strict",
            self.cluster.namespace()
        );
        let name = asked["metadata"]["name"].as_str().unwrap_or_default();
        let made = match self.cluster.ask(Method::POST, &path, Some(asked)).await {
            Err(err) if err.is_there_already() => {
                let there = takedown::raw(&self.cluster, name).await;
                there.and_then(|there| there.ok_or(err))
            }
            made => made,
        };
        made.map_err(|err| refused_pod(&err, asked))
    }

    async fn start(
        &self,
        order: &Order,
        asked: &Value,
        made: &Value,
        pod: &mut SandboxPod,
    ) -> Result<(Client, Vec<String>, Reference), SandboxError> {
        as_asked(asked, made)?;
        self.until(pod, |pod| pod.runs(BRINGER)).await?;
        self.bring_guest(pod).await?;
        let environment = self.environment(pod).await?;
        let reached = self.reached(pod, &environment).await?;
        let made = takedown::raw(&self.cluster, &pod.name).await;
        let made = made.map_err(|err| refused("look at a sandbox pod", &err))?.unwrap_or_default();
        as_asked(asked, &made)?;
        self.let_go(pod).await?;
        let running = self.until(pod, |pod| pod.runs(CONTAINER)).await?;
        let client = self.attach(order, pod, &environment).await?;
        Ok((client, reached, setup::exact(&order.image, running.image_id(CONTAINER))))
    }

    /// Sends the guest into the first container.
    async fn bring_guest(&self, pod: &SandboxPod) -> Result<(), SandboxError> {
        let guest = guest_binary();
        let size = guest.len().to_string();
        let mut argv = vec!["sh", "-c", BRING_SCRIPT, GUEST_FOLDER, &size];
        argv.extend(programs::NAMES);
        let place = (pod.name.as_str(), BRINGER);
        let brought = exec::run(&self.cluster, place, &argv, &guest, (BRING, 0)).await;
        brought.map(drop).map_err(|err| failed("the guest cannot be brought into the pod", &err))
    }

    /// Ends the first container. That may be faster than the answer that all went well, so what counts is that the next
    /// one begins.
    async fn let_go(&self, pod: &SandboxPod) -> Result<(), SandboxError> {
        let place = (pod.name.as_str(), BRINGER);
        let argv = ["sh", "-c", GO_SCRIPT, GO];
        let gone = exec::run(&self.cluster, place, &argv, &[], (SHORT, 0)).await;
        let Err(err) = gone else { return Ok(()) };
        let found = takedown::read(&self.cluster, &pod.name).await;
        if found.is_ok_and(|found| found.is_some_and(|found| !found.runs(BRINGER))) {
            return Ok(());
        }
        Err(failed("its first container does not end", &err))
    }

    /// The variables of the image, and what the cluster adds to them.
    async fn environment(&self, pod: &SandboxPod) -> Result<Vec<(String, String)>, SandboxError> {
        let argv = ["cat", "/proc/self/environ"];
        let place = (pod.name.as_str(), BRINGER);
        let read = exec::run(&self.cluster, place, &argv, &[], (SHORT, ENVIRONMENT)).await;
        let read = read.map_err(|err| failed("no program can be started in it", &err))?;
        let variables = read.split(|byte| *byte == 0).filter_map(|variable| {
            let (name, value) = std::str::from_utf8(variable).ok()?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        Ok(variables.collect())
    }

    /// What the pod reaches, which has to be nothing.
    async fn reached(
        &self,
        pod: &SandboxPod,
        environment: &[(String, String)],
    ) -> Result<Vec<String>, SandboxError> {
        let looked =
            network::reached(&self.cluster, &pod.name, environment, self.waits.policy).await;
        let reached = looked.map_err(|err| failed("its network cannot be looked at", &err))?;
        if reached.is_empty() || self.template.is_open {
            return Ok(reached);
        }
        Err(SandboxError::Kubernetes {
            message: format!(
                "a sandbox pod reaches {} although a NetworkPolicy forbids it: the cluster's network plug-in does not \
                 enforce policies",
                reached.join(", ")
            ),
            hint: Some(format!(
                "use a plug-in that does; a template with the annotation `{NETWORK}: {OPEN}` lets commands of the model \
                 reach whatever pods of this cluster reach"
            )),
            trouble: Some(EngineTrouble::Refuses),
        })
    }

    /// Starts the guest, with nothing of the image's variables but what its toolchain needs.
    async fn attach(
        &self,
        order: &Order,
        pod: &mut SandboxPod,
        environment: &[(String, String)],
    ) -> Result<Client, SandboxError> {
        let of_image = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let place = CommandContext { home: HOME, user: "agent", workspace: WORKSPACE };
        let set = environment::of_commands(of_image, place, Some(&order.prepared), &order.env);
        let set = set.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
        let set: Vec<String> = set.collect();
        let guest = format!("{GUEST_FOLDER}/patchwright-guest");
        let (bytes, files) =
            (order.limits.workspace_bytes.to_string(), order.limits.workspace_files.to_string());
        let mut argv = vec!["sh", "-c", SERVE_SCRIPT, WORKSPACE, HOME];
        argv.extend(set.iter().map(String::as_str));
        argv.extend([guest.as_str(), "serve", "--workspace", WORKSPACE]);
        argv.extend(["--max-bytes", &bytes, "--max-files", &files]);
        argv.extend(order.has_relay.then_some("--relay"));
        argv.extend(order.has_home.then_some("--watch-home"));
        let place = (pod.name.as_str(), CONTAINER);
        let started = exec(&self.cluster, place, &argv, pod.lost.clone()).await;
        let (session, reader, stdin) =
            started.map_err(|err| failed("the guest cannot be started in it", &err.into()))?;
        pod.session = Some(session);
        match Client::connect(reader, stdin, HELLO).await {
            Ok(client) => Ok(client),
            Err(err) => {
                let reason = pod.exit_reason().await.unwrap_or_default();
                let why = format!("the guest did not start: {err}; {reason}");
                Err(lost(pod, why))
            }
        }
    }
}

/// Dropped while a pod is being made: it is waited for until it is removed.
struct GivenUp<'a> {
    owned: &'a Owned,
    name: &'a str,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        self.owned.going(self.name);
    }
}

/// Programs in a pod that is taken away end before its start does, as if they had failed by themselves.
async fn judged(pod: &SandboxPod, err: SandboxError) -> SandboxError {
    let SandboxError::Kubernetes { message, hint, trouble: None } = err else { return err };
    match pod.cause_of_death().await {
        Some((why, trouble @ Some(_))) => {
            SandboxError::Kubernetes { message: format!("{message} ({why})"), hint, trouble }
        }
        _ => SandboxError::Kubernetes { message, hint, trouble: None },
    }
}

/// What the cluster does to one pod it does to all of them.
fn as_asked(asked: &Value, made: &Value) -> Result<(), SandboxError> {
    let found = hardening::differences(asked, made);
    if found.is_empty() {
        return Ok(());
    }
    let hint = "an admission webhook of the cluster changes pods, or its API server drops what it does not know: exempt \
                the namespace of sandboxes from such webhooks; see `docs/sandbox.md`";
    Err(SandboxError::Kubernetes {
        message: format!("the sandbox pod is looser than asked for: {}", found.join("; ")),
        hint: Some(hint.to_owned()),
        trouble: Some(EngineTrouble::Refuses),
    })
}

pub(super) fn ended(why: &str, trouble: Option<EngineTrouble>) -> SandboxError {
    SandboxError::Kubernetes {
        message: format!("the sandbox pod did not start: {why}"),
        hint: None,
        trouble,
    }
}

fn failed(what: &str, err: &RunError) -> SandboxError {
    SandboxError::Kubernetes {
        message: format!("the sandbox pod did not start: {what}: {err}"),
        hint: err.hint(),
        trouble: err.trouble(),
    }
}

/// The error of a sandbox that is gone, as its exit reason judges it.
pub(super) fn lost(pod: &SandboxPod, why: String) -> SandboxError {
    match pod.trouble() {
        None => SandboxError::Gone(why),
        trouble => SandboxError::Kubernetes {
            message: format!("the sandbox is gone: {why}"),
            hint: None,
            trouble,
        },
    }
}
