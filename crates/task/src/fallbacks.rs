//! The models beside the run's own, as the operator lists them: those that go on when it cannot, those of several
//! attempts, and the judge of these. Each is written `MODEL`, or `MODEL@URL` for a server of one's own, and is asked
//! at its own provider, with that provider's key.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::brief::Brief;
use super::equip;
use super::run::Run;
use crate::world;
use patchwright_agent::fallback::{Fallbacks, ModelSetup};
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_provider::catalogue::{Catalogue, Model};
use patchwright_provider::endpoint::{self, Endpoint, EndpointRequest, EndpointSettings, OWN_KEY};
use patchwright_provider::{Provider, ToolDeclaration};
use patchwright_sandbox::client::Client;
use patchwright_tools::profile;
use patchwright_tools::registry::ToolSet;

/// Models of one list at most.
const MOST: usize = 8;

/// The settings that name such models.
const FALLBACKS: &str = "fallback-models";
const ATTEMPTS: &str = "attempt-models";
const JUDGE: &str = "judge-model";

/// A model beside the run's own.
#[derive(Clone)]
pub struct FallbackModel {
    /// As the operator wrote it.
    pub name: String,
    pub model: Model,
    pub provider: Arc<dyn Provider>,
    /// Tools that its provider runs.
    pub hosted_tools: Vec<ToolDeclaration>,
}

/// All of them, by what they are for.
#[derive(Clone, Default)]
pub struct OtherModels {
    /// They go on when those before them cannot, in this order.
    pub fallbacks: Vec<FallbackModel>,
    /// The models of attempts, each once; the run's own is not among them.
    pub attempts: Vec<FallbackModel>,
    /// It compares attempts, where that is not for the run's own model to do.
    pub judge: Option<FallbackModel>,
}

impl OtherModels {
    /// Each able to be asked.
    ///
    /// # Errors
    /// When one is unknown, or has no key.
    pub(crate) fn open(
        config: &Config,
        own: &Model,
        env: &Env,
        http: &reqwest::Client,
    ) -> Result<OtherModels> {
        let addressed = addressed(config);
        OtherModels::with(config, own, &|key, name, model| {
            let asked = FallbackEndpoint::of(config, own, name, model, &addressed, env);
            endpoint::open(asked.wanted, model, &asked.env, http)
                .map_err(|failure| asked_for(failure, key, name))
        })
    }

    /// The other models for replies that are there already: nobody is asked, so no key is needed.
    pub(crate) fn offline(
        config: &Config,
        own: &Model,
        provider: &Arc<dyn Provider>,
    ) -> Result<OtherModels> {
        OtherModels::with(config, own, &|_, _, _| Ok(Arc::clone(provider)))
    }

    fn with(config: &Config, own: &Model, provider: &Opener<'_>) -> Result<OtherModels> {
        let all = |key: &'static str, resolved: Vec<(String, Model)>| {
            resolved
                .into_iter()
                .map(|(name, model)| {
                    let provider = provider(key, &name, &model)?;
                    Ok(FallbackModel::new(config, own, name, model, provider))
                })
                .collect::<Result<Vec<FallbackModel>>>()
        };
        let judge: Vec<String> = config.judge_model.iter().cloned().collect();
        Ok(OtherModels {
            fallbacks: all(FALLBACKS, resolved(config)?)?,
            attempts: all(ATTEMPTS, others(config, ATTEMPTS, &config.attempt_models)?)?,
            judge: all(JUDGE, others(config, JUDGE, &judge)?)?.pop(),
        })
    }
}

/// Where the models of `fallback-models` are asked, each by its name.
///
/// # Errors
/// When the list is wrong; what is wrong with one endpoint stands in its place.
pub fn endpoints(
    config: &Config,
    own: &Model,
    env: &Env,
) -> Result<Vec<(String, Model, Result<Endpoint>)>> {
    let addressed = addressed(config);
    let endpoint = |(name, model): (String, Model)| {
        let asked = FallbackEndpoint::of(config, own, &name, &model, &addressed, env);
        let endpoint = Endpoint::from_request(asked.wanted, &model, &asked.env)
            .and_then(|endpoint| endpoint.check(&model, &asked.env).map(|()| endpoint));
        (name, model, endpoint)
    };
    Ok(resolved(config)?.into_iter().map(endpoint).collect())
}

/// How one of them is asked.
struct FallbackEndpoint<'a> {
    wanted: EndpointRequest<'a>,
    env: Cow<'a, Env>,
}

impl<'a> FallbackEndpoint<'a> {
    fn of(
        config: &'a Config,
        own: &Model,
        name: &'a str,
        model: &Model,
        addressed: &'a BTreeMap<String, EndpointSettings>,
        env: &'a Env,
    ) -> FallbackEndpoint<'a> {
        let (spec, url) = parts(name);
        // Where a model of the same provider is asked, the others are too.
        let own_url = config.base_url.as_deref().filter(|_| model.provider == own.provider);
        let wanted = EndpointRequest {
            model: spec,
            base_url: url.or(own_url),
            hosted_tools: &config.hosted_tools,
            // What is meant for a provider is sent to no server of the user's own.
            endpoints: if url.is_some() { addressed } else { &config.endpoints },
        };
        // That key is one for the run's own model, whatever its provider.
        let is_elsewhere = url.is_some() || model.provider != own.provider;
        let env = if is_elsewhere {
            Cow::Owned(env.clone().with(OWN_KEY, ""))
        } else {
            Cow::Borrowed(env)
        };
        FallbackEndpoint { wanted, env }
    }
}

/// What is said about endpoints by their addresses.
fn addressed(config: &Config) -> BTreeMap<String, EndpointSettings> {
    let mut addressed = config.endpoints.clone();
    addressed.retain(|name, _| endpoint::is_address(name));
    addressed
}

/// Opens the provider of a model that a setting names.
type Opener<'a> = dyn Fn(&'static str, &str, &Model) -> Result<Arc<dyn Provider>> + 'a;

impl FallbackModel {
    fn new(
        config: &Config,
        own: &Model,
        name: String,
        model: Model,
        provider: Arc<dyn Provider>,
    ) -> FallbackModel {
        let hosted_tools = if model.wire == own.wire {
            config.hosted_tools(&model).unwrap_or_default()
        } else {
            Vec::new()
        };
        FallbackModel { name, model, provider, hosted_tools }
    }

    /// The configuration of a run in which it is the run's own model.
    pub(super) fn config(&self, config: &Config, own: &Model) -> Config {
        let (spec, url) = parts(&self.name);
        let is_elsewhere = url.is_some() || self.model.provider != own.provider;
        let base_url = if is_elsewhere { url.map(str::to_owned) } else { config.base_url.clone() };
        let effort = self.effort(config).map(str::to_owned);
        Config { model: spec.to_owned(), base_url, effort, wire: None, ..config.clone() }
    }

    /// One of the model's reasoning levels: the one that was asked for, where it has that.
    pub(super) fn effort<'a>(&'a self, config: &'a Config) -> Option<&'a str> {
        let asked = config.effort.as_ref().filter(|effort| self.model.efforts.contains(effort));
        asked.or(self.model.default_effort.as_ref()).map(String::as_str)
    }
}

/// The models by name, in order.
fn resolved(config: &Config) -> Result<Vec<(String, Model)>> {
    if config.fallback_models.is_empty() {
        return Ok(Vec::new());
    }
    if config.fallback_models.len() > MOST {
        return Err(Failure::usage(format!("`fallback-models` has more than {MOST} entries")));
    }
    let catalogue = Catalogue::load(&config.models)?;
    let mut all: Vec<(String, Model)> = Vec::new();
    for name in &config.fallback_models {
        if *name == config.model || all.iter().any(|(known, _)| known == name) {
            return Err(Failure::usage(format!("`fallback-models` has `{name}` twice")).hint(
                "several keys of one provider stand in its variable, with commas between them",
            ));
        }
        let model =
            model(config, &catalogue, name).map_err(|err| asked_for(err, FALLBACKS, name))?;
        all.push((name.clone(), model));
    }
    Ok(all)
}

/// The models that these names name besides the run's own, each once.
fn others(config: &Config, key: &'static str, names: &[String]) -> Result<Vec<(String, Model)>> {
    let mut all: Vec<(String, Model)> = Vec::new();
    if names.len() > MOST {
        return Err(Failure::usage(format!("`{key}` has more than {MOST} entries")));
    }
    for name in names {
        if *name == config.model || all.iter().any(|(known, _)| known == name) {
            continue;
        }
        let catalogue = Catalogue::load(&config.models)?;
        let model = model(config, &catalogue, name).map_err(|err| asked_for(err, key, name))?;
        all.push((name.clone(), model));
    }
    Ok(all)
}

fn model(config: &Config, catalogue: &Catalogue, name: &str) -> Result<Model> {
    let (spec, url) = parts(name);
    let mut model = catalogue.resolve(spec, None)?;
    model = if url.is_some() {
        world::at_own_address(config, spec, model)
    } else {
        world::at_its_address(config, spec, model)
    };
    if let Some(profile) = &config.profile {
        profile::choose(&mut model, profile);
    }
    ToolSet::for_run(&model, config.mode, &[])?;
    Ok(model)
}

/// `MODEL@URL` in its two parts. A model's own name may have an `@` in it.
fn parts(name: &str) -> (&str, Option<&str>) {
    let at = ["@http://", "@https://"].iter().find_map(|mark| name.find(mark));
    at.map_or((name, None), |at| (&name[..at], Some(&name[at + 1..])))
}

fn asked_for(failure: Failure, key: &str, name: &str) -> Failure {
    failure.hint(format!("it is asked for by `{key}: {name}`"))
}

/// The models of a run, with what each can call in its sandbox.
pub(super) async fn of_run<'a>(
    run: &'a Run<'a>,
    brief: &Brief,
    client: &Client,
    own: &ToolSet,
) -> Result<Fallbacks<'a>> {
    let mut all = Fallbacks { name: run.config.model.clone(), ..Fallbacks::default() };
    for fallback in &run.world.others.fallbacks {
        let tools = tools(&run.config, fallback, client, own).await?;
        all.others.push_back(ModelSetup {
            name: fallback.name.clone(),
            provider: fallback.provider.as_ref(),
            model: &fallback.model,
            effort: fallback.effort(&run.config),
            instructions: brief.instructions_for(run, &fallback.model, &tools)?,
            tools,
        });
    }
    Ok(all)
}

/// Adds the calls for sub-agents to the fallbacks, where the run has them; `list` says which there are.
pub(super) fn with_agents<'a>(
    run: &Run<'_>,
    brief: &Brief,
    mut all: Fallbacks<'a>,
    list: Option<&str>,
) -> Result<Fallbacks<'a>> {
    let Some(list) = list else { return Ok(all) };
    for fallback in &mut all.others {
        let tools = fallback.tools.clone().with_agents(fallback.model, list)?;
        fallback.tools = tools.without(&run.config.tools.disabled);
        fallback.instructions = brief.instructions_for(run, fallback.model, &fallback.tools)?;
    }
    Ok(all)
}

/// What a fallback can call where the run's own model can call these.
pub(super) async fn tools(
    config: &Config,
    fallback: &FallbackModel,
    client: &Client,
    own: &ToolSet,
) -> Result<ToolSet> {
    let tools = ToolSet::for_run(&fallback.model, config.mode, &fallback.hosted_tools)?;
    let present = equip::present(config, client, &tools).await?;
    tools.offered(&fallback.model, &config.tools, &present, own.extras())
}
