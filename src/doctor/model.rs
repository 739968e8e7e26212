//! The models: which are asked how and where, and how each request there is authenticated. No model is asked
//! anything; credentials that no variable holds are fetched, to say whether that works and when they end.

use super::Finding;
use super::machine::fix;
use patchwright_base::clock::Clock;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_provider::catalogue::Model;
use patchwright_provider::endpoint::Endpoint;
use patchwright_provider::http::{self, HttpProvider};
use patchwright_provider::wire;
use patchwright_task::{fallbacks, world};

/// What is known about the configured models.
pub(super) async fn check(config: &Config, env: &Env) -> Vec<Finding> {
    let model = match world::model(config) {
        Ok(model) => model,
        Err(failure) => return vec![broken("model", &failure)],
    };
    let mut findings = described(&model, env);
    if model.provider == "scripted" {
        return findings;
    }
    match Endpoint::from_request(config.endpoint(), &model, env) {
        Ok(endpoint) => {
            let mut address = endpoint.url(model.wire, &model.slug);
            address.set_query(None);
            findings.push(Finding::fine("model endpoint", address.to_string()));
            let checked = endpoint.check(&model, env).map(|()| endpoint);
            findings.push(key("model key", &model, checked).await);
        }
        Err(failure) => findings.push(broken("model endpoint", &failure)),
    }
    match fallbacks::endpoints(config, &model, env) {
        Ok(others) => {
            for (name, model, endpoint) in others {
                findings.push(key(&format!("key of {name}"), &model, endpoint).await);
            }
        }
        Err(failure) => findings.push(broken("fallback models", &failure)),
    }
    findings
}

fn described(model: &Model, env: &Env) -> Vec<Finding> {
    let known = if model.assumed { " (not in the catalogue; family defaults)" } else { "" };
    let (slug, wire) = (&model.slug, wire::word(model.wire));
    let mut findings = vec![Finding::fine(
        "model",
        format!(
            "{slug}{known}, wire: {wire}, tools: {}, context {} tokens",
            model.profile, model.context_window
        ),
    )];
    if let Ok(clock) = Clock::new(env) {
        let notes = model.notes(&clock.now().format("%Y-%m-%d").to_string());
        findings.extend(notes.into_iter().map(|note| Finding::note("model", note, None)));
    }
    findings
}

/// How requests to an endpoint are authenticated, and until when.
async fn key(what: &str, model: &Model, endpoint: Result<Endpoint>) -> Finding {
    let endpoint = match endpoint {
        Ok(endpoint) => endpoint,
        Err(failure) => return broken(what, &failure),
    };
    let Some(identity) = endpoint.identity().cloned() else {
        return match endpoint.key() {
            Some(key) => Finding::fine(what, format!("`{}` is set", key.name)),
            None => Finding::note(what, "none is set, none is sent", None),
        };
    };
    let signed = match http::client() {
        Ok(client) => {
            HttpProvider::at(endpoint, client).sign_in(model).await.map_err(Failure::from)
        }
        Err(failure) => Err(failure),
    };
    match signed {
        Ok(minted) => {
            let until = minted.and_then(|minted| minted.until);
            let until = until.map_or_else(
                || "they do not say until when".to_owned(),
                |until| format!("until {}", until.format("%Y-%m-%d %H:%M:%S UTC")),
            );
            Finding::fine(what, format!("{}, {until}", identity.name()))
        }
        Err(failure) => broken(what, &failure),
    }
}

fn broken(what: &str, failure: &Failure) -> Finding {
    Finding::broken(what, &failure.message, fix(&failure.hints))
}
