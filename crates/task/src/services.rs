//! The servers beside a run's sandboxes: which ones the configuration or the repository's CI asks for, and what
//! became of them. Each sandbox gets its own, so that what one has written there is not seen by the next.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use parking_lot::Mutex;

use super::checks::Checks;
use patchwright_base::text;
use patchwright_config::{Config, Source, Tenants};
use patchwright_ecosystems::services::Service as Asked;
use patchwright_sandbox::image::{self, NamedBy};
use patchwright_sandbox::services::{Service, ServiceState};

/// The services of one run.
#[derive(Debug, Default)]
pub struct RunServices {
    wanted: OnceLock<Vec<Service>>,
    /// As they were last seen, by name.
    states: Mutex<BTreeMap<String, ServiceState>>,
    /// Those that ended when they had been ready. They are started again beside the next sandbox.
    ended: Mutex<BTreeMap<String, ServiceState>>,
}

impl RunServices {
    /// Decides which services there are to be: the configured ones, or those of the CI jobs that the checks come
    /// from. Decided once.
    pub(super) fn decide(&self, config: &Config, checks: &Checks) {
        let is_configured = config.sources.contains_key("services");
        let asked = if is_configured { &config.services } else { &checks.services };
        let is_repository =
            !is_configured || config.sources.get("services") == Some(&Source::RepositoryFile);
        let mut wanted = Vec::new();
        for (name, asked) in asked {
            let service = service(name, asked);
            match named_by(config, &asked.image, is_repository) {
                Ok(named_by) => wanted.push(Service { named_by, ..service }),
                Err(why) => {
                    self.states.lock().insert(name.clone(), ServiceState::absent(&service, why));
                }
            }
        }
        // A run prepares once; what it decided first stays.
        let _ = self.wanted.set(wanted);
    }

    /// Those to start beside the next sandbox. What did not come up once is not waited for again.
    pub(super) fn to_start(&self) -> Vec<Service> {
        let states = self.states.lock();
        let is_absent = |service: &&Service| {
            states.get(&service.name).is_some_and(|state| state.problem.is_some())
        };
        let wanted = self.wanted.get().into_iter().flatten();
        wanted.filter(|service| !is_absent(service)).cloned().collect()
    }

    /// Takes what became of them beside a new sandbox; returns a line for each that is not there.
    pub(super) fn started(&self, states: &[ServiceState]) -> Vec<String> {
        let mut known = self.states.lock();
        for state in states {
            known.insert(state.name.clone(), state.clone());
        }
        states.iter().filter_map(complaint).collect()
    }

    /// Takes those that ended before their sandbox did; returns a line for each.
    pub(super) fn ended(&self, states: &[ServiceState]) -> Vec<String> {
        let named = states.iter().map(|state| (state.name.clone(), state.clone()));
        self.ended.lock().extend(named);
        states.iter().filter_map(complaint).collect()
    }

    /// All of them, as they were last seen, or as they once ended.
    pub fn report(&self) -> Vec<ServiceState> {
        let (states, ended) = (self.states.lock(), self.ended.lock());
        let worst = |state: &ServiceState| match ended.get(&state.name) {
            Some(ended) if state.problem.is_none() => ended.clone(),
            _ => state.clone(),
        };
        states.values().map(worst).collect()
    }

    /// A line for each that may not be started.
    pub(super) fn complaints(&self) -> Vec<String> {
        self.states.lock().values().filter_map(complaint).collect()
    }
}

fn service(name: &str, asked: &Asked) -> Service {
    Service {
        name: name.to_owned(),
        image: asked.image.clone(),
        named_by: NamedBy::Operator,
        env: asked.env.clone(),
        health: asked.health.clone(),
        ports: asked.own_ports(),
    }
}

fn complaint(state: &ServiceState) -> Option<String> {
    let why = state.problem.as_ref()?;
    Some(format!("service {} is not there: {}", text::code(&state.name), text::line(why)))
}

/// Who has named the image of a service.
///
/// # Errors
/// Why a repository may not name it.
fn named_by(config: &Config, name: &str, is_repository: bool) -> Result<NamedBy, String> {
    if !is_repository {
        return Ok(NamedBy::Operator);
    }
    if let Some(why) = image::refusal(name, &config.images) {
        return Err(format!(
            "its image {} {why}; the operator allows images with `images` in `--config`, or `--allow-image`",
            text::code(name)
        ));
    }
    Ok(match config.tenants {
        Tenants::Many if !image::is_listed(name, &config.images) => NamedBy::OneOfMany,
        Tenants::Many | Tenants::One => NamedBy::Repository,
    })
}
