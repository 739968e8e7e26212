//! The models that go on when the run's own cannot, as the operator lists them: `MODEL`, or `MODEL@URL` for a
//! server of one's own. Each is asked at its own provider, with that provider's key.

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
use patchwright_provider::endpoint::{self, Endpoint, EndpointSettings, OWN_KEY, Wanted};
use patchwright_provider::{Provider, ToolDeclaration};
use patchwright_sandbox::client::Client;
use patchwright_tools::profile;
use patchwright_tools::registry::ToolSet;

/// Models of one list at most.
const MOST: usize = 8;

/// A model that goes on when those before it cannot.
pub struct FallbackModel {
    /// As the operator wrote it.
    pub name: String,
    pub model: Model,
    pub provider: Arc<dyn Provider>,
    /// Tools that its provider runs.
    pub hosted_tools: Vec<ToolDeclaration>,
}

/// The models of `fallback-models`, each able to be asked.
///
/// # Errors
/// When one is unknown, or has no key.
pub(crate) fn open(
    config: &Config,
    own: &Model,
    env: &Env,
    http: &reqwest::Client,
) -> Result<Vec<FallbackModel>> {
    let addressed = addressed(config);
    resolved(config)?
        .into_iter()
        .map(|(name, model)| {
            let asked = Asked::of(config, own, &name, &model, &addressed, env);
            let provider = endpoint::open(asked.wanted, &model, &asked.env, http)
                .map_err(|failure| of_fallback(failure, &name))?;
            Ok(FallbackModel::new(config, own, name, model, provider))
        })
        .collect()
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
        let asked = Asked::of(config, own, &name, &model, &addressed, env);
        let endpoint = Endpoint::wanted(asked.wanted, &model, &asked.env)
            .and_then(|endpoint| endpoint.check(&model, &asked.env).map(|()| endpoint));
        (name, model, endpoint)
    };
    Ok(resolved(config)?.into_iter().map(endpoint).collect())
}

/// How one of them is asked.
struct Asked<'a> {
    wanted: Wanted<'a>,
    env: Cow<'a, Env>,
}

impl<'a> Asked<'a> {
    fn of(
        config: &'a Config,
        own: &Model,
        name: &'a str,
        model: &Model,
        addressed: &'a BTreeMap<String, EndpointSettings>,
        env: &'a Env,
    ) -> Asked<'a> {
        let (spec, url) = parts(name);
        // Where a model of the same provider is asked, the others are too.
        let own_url = config.base_url.as_deref().filter(|_| model.provider == own.provider);
        let wanted = Wanted {
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
        Asked { wanted, env }
    }
}

/// What is said about endpoints by their addresses.
fn addressed(config: &Config) -> BTreeMap<String, EndpointSettings> {
    let mut addressed = config.endpoints.clone();
    addressed.retain(|name, _| endpoint::is_address(name));
    addressed
}

/// The same for replies that are there already.
pub(crate) fn offline(
    config: &Config,
    own: &Model,
    provider: &Arc<dyn Provider>,
) -> Result<Vec<FallbackModel>> {
    let all = resolved(config)?.into_iter();
    Ok(all
        .map(|(name, model)| FallbackModel::new(config, own, name, model, Arc::clone(provider)))
        .collect())
}

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

    /// One of the model's reasoning levels: the one that was asked for, where it has that.
    fn effort<'a>(&'a self, config: &'a Config) -> Option<&'a str> {
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
        let model = model(config, &catalogue, name).map_err(|err| of_fallback(err, name))?;
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

fn of_fallback(failure: Failure, name: &str) -> Failure {
    failure.hint(format!("it is asked for by `fallback-models: {name}`"))
}

/// The models of a run, with what each can call in its sandbox.
pub(super) async fn of_run<'a>(
    run: &'a Run<'a>,
    brief: &Brief,
    client: &Client,
    own: &ToolSet,
) -> Result<Fallbacks<'a>> {
    let mut all = Fallbacks { name: run.config.model.clone(), ..Fallbacks::default() };
    for fallback in &run.world.fallbacks {
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

/// The same with the calls for sub-agents, where the run has them; `list` says which there are.
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
