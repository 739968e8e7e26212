//! Started sandboxes that wait for a run: its first request leaves some 200 ms earlier. Each is made for one exact
//! shape (image, limits, network, user, mounts, environment), used by one run and never again, and inspected like
//! any other, when it is made and when it is taken.
//!
//! What is asked for is kept ready: whoever starts a sandbox gets a waiting one of its shape, if there is one, and
//! leaves one behind for the next. How many wait, how long and with how much memory is bounded; what waited longest
//! goes first. They are removed at the end of the process, and swept when it was killed, as all containers are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{InspectContainerOptions, RenameContainerOptionsBuilder};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::api::bounded;
use super::bring_up::{NAMES, Order, name};
use super::takedown::Container;
use super::{CALL, DockerSandbox};
use crate::SandboxError;
use crate::client::Client;

/// The label and the name of what waits, in place of a run's.
const RUN: &str = "warm";
const PURPOSE: &str = "waiting";
/// The next one is made so long after one was taken: making it takes both processors of a small machine, and the run
/// that has just begun comes first. It waits for its model soon.
const PAUSE: Duration = Duration::from_millis(250);
/// How long what is being made may take to be done at the end of the process.
const LAST: Duration = Duration::from_secs(30);

/// How many sandboxes wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmLimits {
    /// At once; none at 0.
    pub count: usize,
    /// How long one waits.
    pub age: Duration,
    /// The limits of memory of all that wait together.
    pub memory_bytes: u64,
}

/// What waits, and what is being made to wait.
pub(super) struct Pool {
    limits: WarmLimits,
    state: Mutex<State>,
    /// Cancelled at the end of the process: nothing more is made.
    ended: CancellationToken,
}

#[derive(Default)]
struct State {
    /// The one that has waited longest first.
    waiting: Vec<Warm>,
    /// One task for each that is made, or removed.
    making: JoinSet<()>,
    /// The shapes and the memory of those that are made.
    made: Vec<(Value, u64)>,
}

struct Warm {
    key: Value,
    asked: ContainerCreateBody,
    container: Container,
    client: Client,
    memory_bytes: u64,
    since: Instant,
}

impl Pool {
    pub(super) fn new(limits: WarmLimits) -> Pool {
        Pool { limits, state: Mutex::default(), ended: CancellationToken::new() }
    }

    fn take(&self, key: &Value) -> Option<Warm> {
        let mut state = self.state.lock();
        let at = state.waiting.iter().position(|warm| warm.key == *key)?;
        Some(state.waiting.remove(at))
    }

    /// Makes room for one more of this shape: what has to go for it, or `None` when there is no room.
    fn reserve(&self, key: &Value, memory_bytes: u64) -> Option<Vec<Warm>> {
        let mut state = self.state.lock();
        while state.making.try_join_next().is_some() {}
        let mut gone = Vec::new();
        loop {
            let count = state.waiting.len() + state.made.len();
            let memory: u64 = state.waiting.iter().map(|warm| warm.memory_bytes).sum::<u64>()
                + state.made.iter().map(|(_, bytes)| bytes).sum::<u64>();
            let has_room = count < self.limits.count
                && memory.saturating_add(memory_bytes) <= self.limits.memory_bytes;
            if has_room {
                state.made.push((key.clone(), memory_bytes));
                return Some(gone);
            }
            // Those of the same shape are as good as the new one.
            let Some(oldest) = state.waiting.iter().position(|warm| warm.key != *key) else {
                return if gone.is_empty() { None } else { give_up(state, gone) };
            };
            let oldest = state.waiting.remove(oldest);
            gone.push(oldest);
        }
    }

    /// What was made, or was not.
    fn made(&self, key: &Value, warm: Option<Warm>) {
        let mut state = self.state.lock();
        if let Some(at) = state.made.iter().position(|(made, _)| made == key) {
            state.made.swap_remove(at);
        }
        state.waiting.extend(warm);
    }

    fn expired(&self) -> Vec<Warm> {
        let mut state = self.state.lock();
        let age = self.limits.age;
        state.waiting.extract_if(.., |warm| warm.since.elapsed() >= age).collect()
    }
}

/// There is no room, whatever goes: all stay.
fn give_up(mut state: MutexGuard<'_, State>, gone: Vec<Warm>) -> Option<Vec<Warm>> {
    for (at, warm) in gone.into_iter().enumerate() {
        state.waiting.insert(at, warm);
    }
    None
}

impl Warm {
    async fn remove(self) {
        self.client.close().await;
        if let Err(err) = self.container.remove().await {
            tracing::warn!(%err, "cannot remove a sandbox that nobody has used");
        }
    }
}

impl DockerSandbox {
    /// A waiting sandbox of this shape, as that of its run, if there is one.
    pub(super) async fn take_warm(&self, order: &Order) -> Option<(Container, Client)> {
        let pool = self.pool.as_ref()?;
        let key = key(order);
        loop {
            let warm = pool.take(&key)?;
            match self.hand_over(&warm, order).await {
                Ok(()) => return Some((warm.container, warm.client)),
                Err(err) => {
                    tracing::info!(%err, "a waiting sandbox is of no use");
                    warm.remove().await;
                }
            }
        }
    }

    /// Looks at it as at a fresh one, and gives it the name of its run.
    async fn hand_over(&self, warm: &Warm, order: &Order) -> Result<(), SandboxError> {
        let id = &warm.container.id;
        let inspection = self.docker.inspect_container(id, None::<InspectContainerOptions>);
        // One that is of no use is removed, whatever its name is then.
        let (made, alive, renamed) = tokio::join!(
            bounded("inspect", CALL, inspection),
            warm.client.ping(),
            self.rename(id, order)
        );
        alive.map_err(|err| SandboxError::Gone(err.to_string()))?;
        self.as_asked(&warm.asked, made?)?;
        renamed
    }

    /// Gives it the name of a run's sandbox that is free.
    async fn rename(&self, id: &str, order: &Order) -> Result<(), SandboxError> {
        for number in 1..=NAMES {
            let name = name(&order.run, order.purpose, number);
            let options = RenameContainerOptionsBuilder::default().name(&name).build();
            match bounded("rename", CALL, self.docker.rename_container(id, options)).await {
                Ok(()) => return Ok(()),
                Err(err) if err.is_conflict() => {}
                Err(err) => return Err(err.into()),
            }
        }
        Err(SandboxError::Other(format!("all names of run {} are taken", order.run)))
    }

    /// Makes one more of this shape in the background, if there is room for it.
    pub(super) fn leave_warm(&self, order: &Order) {
        let Some(pool) = self.pool.as_ref().filter(|pool| pool.limits.count > 0) else { return };
        let key = key(order);
        let Some(gone) = pool.reserve(&key, order.limits.memory_bytes) else { return };
        let (sandbox, pool) = (self.clone(), Arc::clone(pool));
        let order = order.of(RUN, PURPOSE);
        let shared = Arc::clone(&pool);
        let task = async move {
            let has_ended = tokio::time::timeout(PAUSE, pool.ended.cancelled()).await.is_ok();
            for warm in gone {
                warm.remove().await;
            }
            let made = if has_ended {
                None
            } else {
                let made = Box::pin(sandbox.bring_up(&order)).await;
                made.inspect_err(|err| tracing::info!(%err, "no sandbox is kept ready")).ok()
            };
            let warm = made.map(|(container, client)| Warm {
                key: key.clone(),
                memory_bytes: order.limits.memory_bytes,
                asked: order.asked,
                container,
                client,
                since: Instant::now(),
            });
            if warm.is_some() {
                expire(Arc::clone(&pool));
            }
            pool.made(&key, warm);
        };
        shared.state.lock().making.spawn(task);
    }

    /// Removes what waits, and what is made to wait.
    pub(super) async fn remove_warm(&self) {
        let Some(pool) = &self.pool else { return };
        pool.ended.cancel();
        let mut making = std::mem::take(&mut pool.state.lock().making);
        let all_made = async { while making.join_next().await.is_some() {} };
        // What is not done by then ends with the process, and is swept.
        let _ = tokio::time::timeout(LAST, all_made).await;
        let waiting = std::mem::take(&mut pool.state.lock().waiting);
        futures_util::future::join_all(waiting.into_iter().map(Warm::remove)).await;
    }
}

/// Removes what has waited too long, once the newest has.
fn expire(pool: Arc<Pool>) {
    tokio::spawn(async move {
        tokio::time::sleep(pool.limits.age).await;
        for warm in pool.expired() {
            warm.remove().await;
        }
    });
}

/// All that shapes a container: what the engine is asked for, without the labels that say whose it is, and what
/// its guest is told.
fn key(order: &Order) -> Value {
    let mut asked = order.asked.clone();
    asked.labels = None;
    let mounts = asked.host_config.iter_mut().flat_map(|host| host.mounts.iter_mut().flatten());
    for mount in mounts {
        if let Some(options) = &mut mount.volume_options {
            options.labels = None;
        }
    }
    serde_json::json!({ "asked": asked, "guest": order.guest, "limits": order.limits })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bollard::models::{HostConfig, Mount, MountVolumeOptions};

    use crate::ContainerLimits;
    use crate::docker::configuration::Task;
    use crate::docker::warm::*;

    fn order(change: impl FnOnce(&mut Order)) -> Order {
        let labels = || Some(HashMap::from([("patchwright.run".to_owned(), "r1".to_owned())]));
        let mut order = Order {
            asked: ContainerCreateBody {
                image: Some("sha256:00".to_owned()),
                labels: labels(),
                host_config: Some(HostConfig {
                    mounts: Some(vec![Mount {
                        volume_options: Some(MountVolumeOptions {
                            labels: labels(),
                            ..MountVolumeOptions::default()
                        }),
                        ..Mount::default()
                    }]),
                    ..HostConfig::default()
                }),
                ..ContainerCreateBody::default()
            },
            run: "r1".to_owned(),
            purpose: "agent",
            limits: ContainerLimits::default(),
            task: Task::Work,
            guest: Vec::new(),
        };
        change(&mut order);
        order
    }

    #[test]
    fn only_the_same_shape_is_the_same() {
        let plain = key(&order(|_| {}));
        let of_others = key(&order(|order| {
            order.run = "r2".to_owned();
            order.purpose = "evidence";
            order.asked.labels = None;
        }));
        assert_eq!(plain, of_others);
        let changes: [fn(&mut Order); 6] = [
            |order| order.asked.image = Some("sha256:01".to_owned()),
            |order| order.asked.env = Some(vec!["A=b".to_owned()]),
            |order| order.asked.user = Some("0:0".to_owned()),
            |order| {
                order.asked.host_config.as_mut().unwrap().extra_hosts =
                    Some(vec!["db:127.0.0.1".to_owned()]);
            },
            |order| order.guest = vec!["--relay"],
            |order| order.limits.workspace_files = 1,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert_ne!(plain, key(&order(change)), "change {number}");
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_so_much() {
        let limits = |count, memory_bytes| WarmLimits { count, age: Duration::MAX, memory_bytes };
        let (a, b) = (Value::from("a"), Value::from("b"));
        let pool = Pool::new(limits(2, 10));
        assert!(pool.reserve(&a, 4).is_some());
        assert!(pool.reserve(&b, 7).is_none(), "eleven in all");
        assert!(pool.reserve(&b, 6).is_some());
        assert!(pool.reserve(&a, 0).is_none(), "three in all");
        pool.made(&a, None);
        assert!(pool.reserve(&b, 4).is_some());
        assert!(Pool::new(limits(0, 10)).reserve(&a, 1).is_none());
    }
}
