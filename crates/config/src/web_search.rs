//! Searching the web: by the model's own provider, or at a search engine of the operator's choice. Off until
//! the operator says so, because what is searched for leaves the building.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Config;
use patchwright_base::error::{Failure, Result};
use patchwright_provider::catalogue::Model;
use patchwright_provider::item::Wire;
use patchwright_provider::{ToolDeclaration, ToolForm, hosted};

/// The version of Anthropic's own search that every Claude on sale knows.
const ANTHROPIC: &str = "web_search_20250305";

/// Searches of one reply, where the provider can be told.
const MOST_USES: u32 = 8;

/// What is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct WebSearch {
    /// The provider's own search, where it has one.
    pub provider: bool,
    /// The search engine that is asked otherwise.
    pub engine: Option<Engine>,
    /// Where it is; Brave's own address when absent.
    pub url: Option<String>,
    /// Sent with every search; `${PATCHWRIGHT_NAME}` stands for an environment variable.
    pub headers: BTreeMap<String, String>,
    /// Where a `json` engine has what.
    pub shape: JsonShape,
    /// Hosts of results; those of `network.allow` when absent, `*` for all.
    pub allow: Option<Vec<String>>,
    /// Hosts whose results are left out.
    pub deny: Vec<String>,
    /// Results of one search at most, 1 to 20; 8 when absent.
    pub results: Option<usize>,
    /// For one search, 1 to 120; 20 when absent.
    pub timeout_seconds: Option<u64>,
}

/// A search engine by what it is asked and how it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    Brave,
    Searxng,
    /// Any that answers with JSON, by `shape`.
    Json,
}

/// JSON pointers into an answer, and how it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct JsonShape {
    /// The words go into a JSON body (`POST`) instead of the address.
    pub post: bool,
    /// The parameter or field for the words.
    pub query: String,
    /// The list of results.
    pub results: String,
    /// In each of them.
    pub title: String,
    pub url: String,
    pub text: String,
}

impl Default for JsonShape {
    fn default() -> JsonShape {
        JsonShape {
            post: false,
            query: "q".to_owned(),
            results: "/results".to_owned(),
            title: "/title".to_owned(),
            url: "/url".to_owned(),
            text: "/content".to_owned(),
        }
    }
}

/// Who searches for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Searcher {
    Nobody,
    Provider,
    Engine(Engine),
}

impl WebSearch {
    /// Who searches for this model.
    pub fn searcher(&self, model: &Model) -> Searcher {
        match self.engine {
            _ if self.provider && has_own(model) => Searcher::Provider,
            Some(engine) => Searcher::Engine(engine),
            None => Searcher::Nobody,
        }
    }

    /// What is wrong with it, in a sentence that names the key.
    pub(crate) fn check(&self) -> Result<(), String> {
        let between = |key: &str, value: Option<u64>, most: u64| match value {
            Some(value) if !(1..=most).contains(&value) => {
                Err(format!("`web-search.{key}` has to be between 1 and {most}"))
            }
            _ => Ok(()),
        };
        between("results", self.results.map(|it| it as u64), 20)?;
        between("timeout-seconds", self.timeout_seconds, 120)?;
        if self.engine.is_none() && (self.url.is_some() || !self.headers.is_empty()) {
            return Err("`web-search` has a `url` or `headers` and no `engine`".to_owned());
        }
        if matches!(self.engine, Some(Engine::Searxng | Engine::Json)) && self.url.is_none() {
            return Err("`web-search.url` is needed with this `engine`".to_owned());
        }
        if self.engine != Some(Engine::Json) && self.shape != JsonShape::default() {
            return Err("`web-search.shape` is for `engine: json`".to_owned());
        }
        let shape = &self.shape;
        let pointers = [&shape.results, &shape.title, &shape.url, &shape.text];
        if let Some(pointer) = pointers.iter().find(|it| !it.is_empty() && !it.starts_with('/')) {
            return Err(format!(
                "`{pointer}` in `web-search.shape` is no JSON pointer; it has to begin with `/`"
            ));
        }
        Ok(())
    }
}

/// Its provider searches by itself, beside functions of ours. Gemini's own search cannot be declared beside
/// functions by all of its models, and clouds leave it out.
fn has_own(model: &Model) -> bool {
    matches!(
        (model.provider.as_str(), model.wire),
        ("openai" | "azure", Wire::Responses) | ("anthropic" | "vertex", Wire::Messages)
    )
}

impl Config {
    /// The hosts whose results are shown; `None` for all.
    pub fn search_hosts(&self) -> Option<&[String]> {
        match &self.web_search.allow {
            Some(all) if all.iter().any(|host| host.trim() == "*") => None,
            Some(hosts) => Some(hosts),
            None if self.allow_hosts.is_empty() => None,
            None => Some(&self.allow_hosts),
        }
    }

    /// Tools that the provider of a model runs: those of `hosted-tools`, and its own search.
    ///
    /// # Errors
    /// When one cannot be declared.
    pub fn hosted_tools(&self, model: &Model) -> Result<Vec<ToolDeclaration>> {
        let mut tools = hosted::declarations(&self.hosted_tools, model.wire)?;
        if self.web_search.provider && self.web_search.engine.is_none() && !has_own(model) {
            let slug = &model.slug;
            return Err(Failure::usage(format!(
                "the provider of `{slug}` has no search of its own"
            ))
            .hint("name a search engine in `web-search.engine`, or leave out `web-search`"));
        }
        let is_there = tools.iter().any(|tool| tool.name.starts_with("web_search"));
        if self.web_search.searcher(model) == Searcher::Provider && !is_there {
            tools.push(self.own_search(model)?);
        }
        Ok(tools)
    }

    fn own_search(&self, model: &Model) -> Result<ToolDeclaration> {
        let allowed = self.search_hosts().map(domains);
        let denied = domains(&self.web_search.deny);
        let (name, mut value) = if model.wire == Wire::Responses {
            ("web_search", json!({"type": "web_search"}))
        } else {
            let value = json!({"type": ANTHROPIC, "name": "web_search", "max_uses": MOST_USES});
            (ANTHROPIC, value)
        };
        match (allowed, model.wire) {
            (Some(hosts), Wire::Responses) => {
                value["filters"] = json!({"allowed_domains": without(hosts, &denied)});
            }
            (Some(hosts), _) => value["allowed_domains"] = without(hosts, &denied).into(),
            (None, Wire::Messages) if !denied.is_empty() => {
                value["blocked_domains"] = denied.into();
            }
            (None, _) if !denied.is_empty() => {
                return Err(Failure::usage("this provider's search cannot leave out hosts").hint(
                    "list in `web-search.allow` what is wanted, or name a `web-search.engine`",
                ));
            }
            (None, _) => {}
        }
        let form = ToolForm::Native { value };
        Ok(ToolDeclaration { name: name.to_owned(), description: String::new(), form })
    }
}

/// Names as providers take them: everything below a name is meant with it.
fn domains(hosts: &[String]) -> Vec<String> {
    let name = |host: &String| {
        let host = host.split('=').next().unwrap_or_default().trim();
        let host = host.split(':').next().unwrap_or_default();
        host.trim_start_matches("*.").to_owned()
    };
    let mut names: Vec<String> = hosts.iter().map(name).filter(|it| !it.is_empty()).collect();
    names.dedup();
    names
}

fn without(mut hosts: Vec<String>, denied: &[String]) -> Vec<String> {
    hosts.retain(|host| !denied.contains(host));
    hosts
}

impl JsonShape {
    /// A text in a result.
    pub fn text<'a>(pointer: &str, result: &'a Value) -> &'a str {
        result.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}
