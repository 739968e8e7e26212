//! The outside, in one struct that is passed first: forge, model, sandbox, clock, state folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::SecretString;
use url::Url;

use crate::fallbacks::{FallbackModel, OtherModels};
use crate::signing;
use patchwright_base::clock::Clock;
use patchwright_base::env::{Env, SETUP_SECRET};
use patchwright_base::error::{Failure, Result};
use patchwright_base::nearby;
use patchwright_base::ownership;
use patchwright_base::redact::Redactor;
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_config::{Config, SandboxChoice};
use patchwright_forge::Forge;
use patchwright_forge::github::Pace;
use patchwright_forge::github::{AppKey, GitHubForge, GitHubOptions};
use patchwright_forge::seal::Seal;
use patchwright_git::signing::SigningKey;
use patchwright_git::transport::{Credentials, Remote};
use patchwright_provider::catalogue::{Catalogue, Model};
use patchwright_provider::endpoint;
use patchwright_provider::http;
use patchwright_provider::item::Wire;
use patchwright_provider::scripted::ScriptedProvider;
use patchwright_provider::{Provider, ToolDeclaration};
use patchwright_sandbox::docker::DockerSandbox;
use patchwright_sandbox::kubernetes::{KubernetesSandbox, OwnPod, PodSettings};
use patchwright_sandbox::local::LocalSandbox;
use patchwright_sandbox::{Sandbox, disk};
use patchwright_tools::host::web_search::SearchEngine;
use patchwright_tools::mcp::headers::Headers;
use patchwright_tools::profile::{self, Profile};
use patchwright_tools::registry::ToolSet;

/// Sandboxes that wait for runs in a process that has one run.
const WARM_OF_ONE: usize = 0;

/// Everything a run needs of the outside. Cheap to clone, but for the lists of models.
#[derive(Clone)]
pub struct World {
    forge: Option<Arc<dyn Forge>>,
    pub provider: Arc<dyn Provider>,
    /// The model that `provider` is asked for.
    pub model: Model,
    /// The models beside it: fallbacks, those of attempts, the judge.
    pub others: OtherModels,
    /// Tools that the model's provider runs.
    pub hosted_tools: Vec<ToolDeclaration>,
    /// Where models search the web whose providers do not.
    pub search: Option<Arc<SearchEngine>>,
    /// Headers for MCP servers over HTTP, with their secrets.
    pub mcp_headers: Headers,
    pub sandbox: Arc<dyn Sandbox>,
    pub clock: Clock,
    pub redactor: Arc<Redactor>,
    /// Variables of the commands of setup.
    pub setup_secrets: Arc<[(String, SecretString)]>,
    /// By which commits are signed, where the operator has one for that.
    pub signing_key: Option<Arc<SigningKey>>,
    /// `…/patchwright`; runs live in `runs/<run-id>` below it, clone mirrors in `mirrors/`.
    pub state: PathBuf,
    /// The one HTTP client.
    pub http: reqwest::Client,
    /// For repositories of `exec` that are on the forge's own host.
    git_token: Option<(Url, SecretString)>,
    /// Whose run it is: who has the folder of it removed one day.
    pub(crate) run_by: RunBy,
}

/// Who runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunBy {
    /// Whoever has typed the command.
    Command,
    /// Campaigns and the server, whose runs nobody counts.
    Fleet,
}

/// The models of a process, and where they are asked.
struct Models {
    provider: Arc<dyn Provider>,
    model: Model,
    others: OtherModels,
    search: Option<Arc<SearchEngine>>,
}

impl Models {
    fn open(config: &Config, env: &Env, http: &reqwest::Client) -> Result<Models> {
        let model = model(config)?;
        let provider = endpoint::open(config.endpoint(), &model, env, http)?;
        let others = OtherModels::open(config, &model, env, http)?;
        let search = SearchEngine::find(config, env, http)?;
        Ok(Models { provider, model, others, search })
    }
}

/// What all runs of a process share. Cheap to clone.
#[derive(Clone)]
pub struct Shared {
    pub sandbox: Arc<dyn Sandbox>,
    pub clock: Clock,
    pub redactor: Arc<Redactor>,
    /// Variables of the commands of setup.
    pub setup_secrets: Arc<[(String, SecretString)]>,
    pub state: PathBuf,
    pub http: reqwest::Client,
}

impl World {
    /// The world of one of many runs: its own forge and model, and what all share. The model is not
    /// asked anything yet.
    ///
    /// # Errors
    /// When the configuration names no model that can be asked.
    pub fn from_shared(
        shared: &Shared,
        forge: Arc<dyn Forge>,
        config: &Config,
        env: &Env,
    ) -> Result<World> {
        let model = model(config)?;
        let mcp_headers = Headers::look_up(&config.mcp, env);
        mcp_headers.check()?;
        let signing_key = signing::key(config, env)?;
        let Shared { sandbox, clock, redactor, setup_secrets, state, http } = shared.clone();
        Ok(World {
            forge: Some(forge),
            provider: endpoint::open(config.endpoint(), &model, env, &http)?,
            others: OtherModels::open(config, &model, env, &http)?,
            hosted_tools: config.hosted_tools(&model)?,
            search: SearchEngine::find(config, env, &http)?,
            mcp_headers,
            model,
            sandbox,
            clock,
            redactor,
            setup_secrets,
            signing_key,
            state,
            http,
            git_token: None,
            run_by: RunBy::Fleet,
        })
    }

    /// The world of work on GitHub.
    pub async fn for_github(config: &Config, common: &Common, env: &Env) -> Result<World> {
        Headers::look_up(&config.mcp, env).check()?;
        let http = http::client()?;
        let forge = github(env, &http, &state_dir(common, env)?)?;
        let models = Models::open(config, env, &http)?;
        World::build(Some(Arc::new(forge)), models, config, common, env, http).await
    }

    /// The world of `exec`: no forge.
    pub async fn for_repository(config: &Config, common: &Common, env: &Env) -> Result<World> {
        Headers::look_up(&config.mcp, env).check()?;
        let http = http::client()?;
        let models = Models::open(config, env, &http)?;
        World::build(None, models, config, common, env, http).await
    }

    /// Says before a run begins that the disk of the state folder has too little room for it.
    pub fn warn_of_disk(&self, ui: Ui) {
        if let Some(short) = disk::shortage(&self.state) {
            ui.warn(&format!("{short}, and the run may end for it: {}", disk::MAKE_ROOM));
        }
    }

    /// A world without a network: prepared replies, and a forge that is already there.
    pub async fn offline(
        forge: Option<Arc<dyn Forge>>,
        provider: Arc<dyn Provider>,
        config: &Config,
        common: &Common,
        env: &Env,
    ) -> Result<World> {
        let model = unchecked_model(config)?;
        let others = OtherModels::offline(config, &model, &provider)?;
        let models = Models { provider, model, others, search: None };
        World::build(forge, models, config, common, env, http::client()?).await
    }

    /// A world in which no model is asked: for work on repositories, with what a forge says of them where there is one.
    ///
    /// # Errors
    /// As [`World::offline`].
    pub async fn without_model(
        forge: Option<Arc<dyn Forge>>,
        config: &Config,
        common: &Common,
        env: &Env,
    ) -> Result<World> {
        let nobody = Arc::new(ScriptedProvider::again(Vec::new()));
        World::offline(forge, nobody, config, common, env).await
    }

    async fn build(
        forge: Option<Arc<dyn Forge>>,
        models: Models,
        config: &Config,
        common: &Common,
        env: &Env,
        http: reqwest::Client,
    ) -> Result<World> {
        let Models { provider, model, others, search } = models;
        let state = state_dir(common, env)?;
        // A key that cannot be used is said before anything is asked of anybody.
        let signing_key = if forge.is_some() { signing::key(config, env)? } else { None };
        let hosted_tools = config.hosted_tools(&model)?;
        let git_token = match env.github_token() {
            Some(token) => {
                Some((url("GITHUB_SERVER_URL", &env.github_addresses()?.server)?, token))
            }
            None => None,
        };
        Ok(World {
            forge,
            provider,
            model,
            others,
            sandbox: sandbox(config, env, &state, WARM_OF_ONE).await?,
            clock: Clock::new(env)?,
            hosted_tools,
            search,
            mcp_headers: Headers::look_up(&config.mcp, env),
            redactor: Arc::new(Redactor::new(env.secrets())),
            setup_secrets: setup_secrets(env)?,
            signing_key,
            state,
            http,
            git_token,
            run_by: RunBy::Command,
        })
    }

    /// This world for a run whose own model is another one. It has the fallbacks of this one.
    pub(crate) fn with_model(&self, other: &FallbackModel) -> World {
        let mut others = self.others.clone();
        others.fallbacks.retain(|fallback| fallback.name != other.name);
        World {
            provider: Arc::clone(&other.provider),
            model: other.model.clone(),
            hosted_tools: other.hosted_tools.clone(),
            others,
            ..self.clone()
        }
    }

    /// The forge.
    ///
    /// # Errors
    /// In a world without one, which a task that needs it never gets.
    pub fn forge(&self) -> Result<&Arc<dyn Forge>> {
        self.forge.as_ref().ok_or_else(|| Failure::internal("there is no forge in this world"))
    }

    /// What everything passes through before it is written down.
    pub fn redaction(&self) -> patchwright_journal::Redact {
        let redactor = Arc::clone(&self.redactor);
        Arc::new(move |text: &str| redactor.redact(text))
    }

    /// Where `exec` reads a repository: a folder, or a URL (with the forge's token when it is on the
    /// forge's own host).
    pub fn remote(&self, repository: &str) -> Result<Remote> {
        if !repository.contains("://") {
            let path = fs_err::canonicalize(repository).map_err(|err| {
                Failure::usage(format!("there is no repository at `{repository}`")).caused_by(err)
            })?;
            return Ok(Remote::local(&path));
        }
        let url = url("--repo", repository)?;
        let token = self.git_token.as_ref().filter(|(server, _)| server.origin() == url.origin());
        let credentials = token.map(|(_, token)| Credentials::token(token.clone()));
        Remote::http(&self.http, repository, credentials)
            .map_err(|err| Failure::usage(format!("`{repository}` cannot be read")).caused_by(err))
    }
}

/// The secrets of setup, by the names that its commands have for them.
///
/// # Errors
/// When a name is not a valid name of a shell variable.
pub fn setup_secrets(env: &Env) -> Result<Arc<[(String, SecretString)]>> {
    let secrets = env.setup_secrets();
    let is_name = |name: &str| {
        let mut chars = name.chars();
        chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match secrets.iter().find(|(name, _)| !is_name(name)) {
        None => Ok(secrets.into()),
        Some((name, _)) => Err(Failure::usage(format!(
            "`{SETUP_SECRET}{name}` does not end with the name of a variable"
        ))
        .hint("write the name that setup has for it behind the prefix, such as `NPM_TOKEN`")),
    }
}

/// GitHub as the environment names it: with a token, else as an App. `state` is the state folder.
///
/// # Errors
/// When there is neither, or an address is invalid or of another GitHub than the others.
pub fn github(env: &Env, http: &reqwest::Client, state: &Path) -> Result<GitHubForge> {
    let token = env.github_token();
    let app = if token.is_some() { None } else { AppKey::of(env)? };
    let addresses = env.github_addresses()?;
    let options = GitHubOptions {
        api_url: url("GITHUB_API_URL", &addresses.api)?,
        graphql_url: url("GITHUB_GRAPHQL_URL", &addresses.graphql)?,
        server_url: url("GITHUB_SERVER_URL", &addresses.server)?,
        token: token.clone().unwrap_or_default(),
        http: http.clone(),
        pace: Pace { scale: env.time_scale(), ..Pace::default() },
        seal: Seal::of(env, Some(state))?,
    };
    match (token, app) {
        (Some(_), _) => GitHubForge::new(options),
        (None, Some(key)) => GitHubForge::of_app(options, key),
        (None, None) => {
            return Err(Failure::forge("no GitHub token").hint(
                "set `GITHUB_TOKEN` to a token with `contents: write`, `issues: write` and \
                 `pull-requests: write`, or `PATCHWRIGHT_APP_ID` and a private key to be a GitHub App",
            ));
        }
    }
    .map_err(Failure::from)
}

/// The model that the configuration names, checked: it can be asked, with the configured effort and
/// tool profile.
///
/// # Errors
/// When one of them does not exist.
pub fn model(config: &Config) -> Result<Model> {
    let model = unchecked_model(config)?;
    model.check(config.effort.as_deref())?;
    Ok(model)
}

/// The model as it is charged where it is asked: what an address of one's own costs is only known where the
/// configuration says it, whatever the maker of a model of that name charges.
pub(crate) fn at_its_address(config: &Config, spec: &str, model: Model) -> Model {
    let is_own = config.base_url.is_some() || model.provider == "chat";
    if is_own { at_own_address(config, spec, model) } else { model }
}

/// A model as it is at an address of one's own.
pub(crate) fn at_own_address(config: &Config, spec: &str, model: Model) -> Model {
    let entry = config.models.get(spec);
    let is_given = entry.is_some_and(|fields| fields.price.is_some() || fields.like.is_some());
    if is_given { model } else { model.without_price() }
}

/// The model that the configuration names, for replies that are there already.
fn unchecked_model(config: &Config) -> Result<Model> {
    let model = Catalogue::load(&config.models)?.resolve(&config.model, config.wire)?;
    let mut model = at_its_address(config, &config.model, model);
    let of_models = config.models.iter().filter_map(|(name, fields)| {
        Some((format!("models.{name}.profile"), fields.profile.as_ref()?))
    });
    // By its setting: it may come from a file or a variable, too.
    let of_run = config.profile.iter().map(|profile| ("profile".to_owned(), profile));
    for (setting, name) in of_models.chain(of_run) {
        check_profile(&setting, name)?;
    }
    if let Some(profile) = &config.profile {
        profile::choose(&mut model, profile);
    }
    model.stateful |= config.stateful && model.wire == Wire::Responses;
    // What cannot be declared is said before anything is started.
    ToolSet::for_run(&model, config.mode, &[])?;
    Ok(model)
}

fn check_profile(setting: &str, name: &str) -> Result<()> {
    let known = Profile::ALL.iter().map(|profile| profile.name());
    if known.clone().any(|known| known == name) {
        return Ok(());
    }
    let failure = Failure::usage(format!("unknown tool profile `{name}` in `{setting}`"));
    let names: Vec<String> = known.clone().map(|name| format!("`{name}`")).collect();
    Err(nearby::suggest(failure, name, known)
        .hint(format!("the profiles are {}", names.join(", "))))
}

/// Where commands run, as the configuration chooses; Docker is asked whether it is there. So many sandboxes
/// wait for runs where the configuration does not say how many.
///
/// # Errors
/// Without it.
pub async fn sandbox(
    config: &Config,
    env: &Env,
    state: &Path,
    warm: usize,
) -> Result<Arc<dyn Sandbox>> {
    Ok(match config.sandbox {
        SandboxChoice::Docker => {
            let docker = DockerSandbox::connect(env.var("DOCKER_HOST")).await?.in_state(state);
            Arc::new(docker.with_warm(config.warm.or(warm)))
        }
        SandboxChoice::Kubernetes => Arc::new(pods(config, env, state).await?),
        SandboxChoice::Local => Arc::new(LocalSandbox::new(state.to_owned())),
    })
}

/// Why no sandbox can be started at this moment, when that is nobody's here: Docker or the API server does not answer.
pub async fn sandbox_is_away(config: &Config, env: &Env, state: &Path) -> Option<String> {
    match config.sandbox {
        SandboxChoice::Docker => {
            let asked = DockerSandbox::connect(env.var("DOCKER_HOST")).await;
            asked.err().map(|err| err.to_string())
        }
        SandboxChoice::Kubernetes => match pods(config, env, state).await {
            Ok(sandbox) => sandbox.version().await.err().map(|err| err.to_string()),
            Err(failure) => Some(failure.message),
        },
        SandboxChoice::Local => None,
    }
}

/// Sandboxes as pods. `POD_NAME`, `POD_NAMESPACE` and `POD_UID` say which pod this process runs in, where it does.
///
/// # Errors
/// When the template cannot be used, or there is no cluster.
pub async fn pods(config: &Config, env: &Env, state: &Path) -> Result<KubernetesSandbox> {
    let word = |name: &str| env.var(name).filter(|value| !value.is_empty()).map(str::to_owned);
    let own_pod = word("POD_NAME").zip(word("POD_UID")).zip(word("POD_NAMESPACE"));
    let own_pod = own_pod.map(|((name, uid), namespace)| OwnPod { name, uid, namespace });
    KubernetesSandbox::connect(PodSettings {
        kubeconfig: env.var("KUBECONFIG").filter(|files| !files.is_empty()),
        template: config.sandbox_pod_template.as_deref(),
        state,
        own_pod: own_pod.as_ref(),
        time_scale: env.time_scale(),
    })
    .await
}

/// The state folder, writable, and out of the reach of other users: what lies in it is run and believed.
///
/// # Errors
/// When it is not.
pub fn state_dir(common: &Common, env: &Env) -> Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let state = common.state_dir.clone().filter(|dir| !dir.as_os_str().is_empty());
    let state = state.unwrap_or_else(|| env.state_dir());
    let unusable = |err: std::io::Error| {
        Failure::machine(format!("the state folder `{}` cannot be written", state.display()))
            .hint(match err.kind() {
                std::io::ErrorKind::StorageFull => disk::MAKE_ROOM,
                _ => "choose a folder that you can write to with `--state-dir`",
            })
            .caused_by(err)
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&state).map_err(unusable)?;
    if let Some(why) = ownership::intrusion(&state).map_err(unusable)? {
        let message = format!("the state folder `{}` is within reach of others", state.display());
        return Err(Failure::machine(message).caused_by(anyhow::anyhow!(why)).hint(
            "what is in it is run as you, so choose a folder of your own with `--state-dir`; where you know what \
             the other one has, `chown` or `chmod` makes it yours",
        ));
    }
    tempfile::tempfile_in(&state).map_err(unusable)?;
    // A file in place of a folder is told by the run that meets it, also where the task came from.
    if let Some((part, err)) = closed_part(&state).filter(|(part, _)| part.is_dir()) {
        let message = format!("`{}` in the state folder cannot be used", part.display());
        return Err(Failure::machine(message).caused_by(err).hint(
            "another user has made it, as with `sudo`: give it back with `chown -R`, or choose another folder with \
             `--state-dir`",
        ));
    }
    fs_err::canonicalize(&state).map_err(unusable)
}

/// What all runs share below the state folder.
const PARTS: [&str; 6] = ["runs", "locks", "unfinished", "mirrors", "setup", "owners"];

/// The first of the folders that all runs share which is there and that this user may not use. One look at the state folder
/// itself does not tell: what a command has made that another user ran is that user's.
pub fn closed_part(state: &Path) -> Option<(PathBuf, std::io::Error)> {
    PARTS.into_iter().map(|part| state.join(part)).find_map(|part| {
        let closed = ownership::closed(&part)?;
        Some((part, closed))
    })
}

fn url(name: &str, text: &str) -> Result<Url> {
    Url::parse(text).map_err(|err| {
        Failure::usage(format!("`{name}` is not a web address: {text}")).caused_by(err)
    })
}
