//! How the layers become one [`Config`]: operator files are laid over the defaults, flags over
//! those, and the repository's file at last, which can only tighten.

use std::time::Duration;

use super::{
    Access, Config, Identity, Mode, Personality, Publish, SandboxChoice, Source, file,
    merge_review, merge_tools,
};
use crate::flags::Common;
use patchwright_base::error::{Failure, Result};
use patchwright_forge::ReviewEvent;
use patchwright_policy::{Policy, RepositoryPolicy};
use patchwright_sandbox::ContainerLimits;
use patchwright_types::task::Limits;

/// Defaults, the operator's file if any, flags.
pub fn resolve(operator_file: Option<(&str, &str)>, flags: &Common) -> Result<Config> {
    let mut config = defaults()?;
    if let Some((name, text)) = operator_file {
        overlay(&mut config, file::parse(name, text)?);
    }
    flags.overlay(&mut config);
    validate(&config)?;
    Ok(config)
}

/// The shipped defaults.
pub fn defaults() -> Result<Config> {
    let mut config = Config {
        model: String::new(),
        base_url: None,
        effort: None,
        profile: None,
        hosted_tools: Vec::new(),
        stateful: false,
        wire: None,
        models: std::collections::BTreeMap::new(),
        sandbox: SandboxChoice::Docker,
        image: None,
        images: Vec::new(),
        tenants: super::Tenants::One,
        setup: Vec::new(),
        setup_hosts: Vec::new(),
        setup_timeout: Duration::ZERO,
        verify: Vec::new(),
        limits: Limits {
            max_turns: 0,
            max_tokens: 0,
            max_cost_usd: 0.0,
            timeout: Duration::ZERO,
            command_timeout: Duration::ZERO,
            verify_rounds: 0,
        },
        container: ContainerLimits::default(),
        policy: Policy::default(),
        publish: Publish::default(),
        access: Access::default(),
        identity: Identity { name: String::new(), email: String::new() },
        review: super::review::Review::default(),
        respond: super::review::Respond::default(),
        personality: Personality::default(),
        mode: Mode::default(),
        allow_hosts: Vec::new(),
        tools: super::tools::Tools::default(),
        mcp: std::collections::BTreeMap::new(),
        dry_run: false,
        sources: std::collections::BTreeMap::new(),
        notes: Vec::new(),
    };
    overlay(&mut config, file::parse("defaults.yml", include_str!("defaults.yml"))?);
    config.sources.clear();
    Ok(config)
}

/// Takes a value when it is given, and remembers that.
#[macro_export]
macro_rules! take {
    ($config:ident, $source:expr, $($field:ident).+ = $value:expr) => {
        if let Some(value) = $value {
            $config.$($field).+ = value;
            $config.sources.insert(stringify!($($field).+).replace('_', "-"), $source);
        }
    };
}
pub use take;

fn overlay(config: &mut Config, file: file::File) {
    let source = Source::OperatorFile;
    take!(config, source, model = file.model);
    take!(config, source, base_url = file.base_url.map(Some));
    take!(config, source, effort = file.effort.map(Some));
    take!(config, source, profile = file.profile.map(Some));
    let hosted = Some(file.hosted_tools).filter(|tools| !tools.is_empty());
    take!(config, source, hosted_tools = hosted);
    take!(config, source, stateful = file.stateful);
    take!(config, source, personality = file.personality);
    take!(config, source, mode = file.mode);
    take!(config, source, wire = file.wire.map(Some));
    if !file.models.is_empty() {
        take!(config, source, models = Some(file.models));
    }
    take!(config, source, image = file.image.map(Some));
    take!(config, source, images = Some(file.images).filter(|images| !images.is_empty()));
    take!(config, source, setup = file.setup);
    take!(config, source, setup_hosts = file.network.setup_allow);
    take!(config, source, allow_hosts = file.network.allow);
    take!(
        config,
        source,
        tools = Some(file.tools).filter(|it| *it != super::tools::Tools::default())
    );
    take!(config, source, mcp = Some(file.mcp).filter(|it| !it.is_empty()));
    take!(config, source, verify = file.verify);
    take!(config, source, setup_timeout = file.limits.setup_timeout);
    take!(config, source, limits.max_turns = file.limits.max_turns);
    take!(config, source, limits.max_tokens = file.limits.max_tokens);
    take!(config, source, limits.max_cost_usd = file.limits.max_cost_usd);
    take!(config, source, limits.timeout = file.limits.timeout);
    take!(config, source, limits.command_timeout = file.limits.command_timeout);
    take!(config, source, limits.verify_rounds = file.limits.verify_rounds);
    take!(config, source, container.memory_bytes = file.container.memory);
    take!(config, source, container.cpus = file.container.cpus);
    take!(config, source, container.pids = file.container.pids);
    take!(config, source, container.tmp_bytes = file.container.tmp);
    take!(config, source, container.workspace_bytes = file.container.workspace);
    take!(config, source, container.workspace_files = file.container.workspace_files);
    take!(config, source, policy.max_files = file.policy.max_files);
    take!(config, source, policy.max_bytes = file.policy.max_bytes);
    take!(config, source, policy.allow_workflows = file.policy.allow_workflows);
    config.policy.protected_paths.extend(file.policy.protected_paths);
    config.policy.blocked_paths.extend(file.policy.blocked_paths);
    config.policy.secret_allow_paths.extend(file.policy.secret_allow_paths);
    take!(config, source, publish.base = file.publish.base.map(Some));
    take!(config, source, publish.branch = file.publish.branch.map(Some));
    take!(config, source, publish.draft = file.publish.draft);
    take!(config, source, publish.labels = file.publish.labels);
    take!(config, source, publish.reviewers = file.publish.reviewers);
    take!(config, source, access.label = file.access.label);
    take!(config, source, access.allow_users = file.access.allow_users);
    take!(config, source, access.allow_bots = file.access.allow_bots);
    take!(config, source, identity.name = file.identity.name);
    take!(config, source, identity.email = file.identity.email);
    merge_review::overlay(config, file.review, file.respond);
}

/// Lays the repository's own file over an operator's configuration: what it may choose is taken
/// where the operator left it open, limits go down only, lists of protected files only grow, and
/// everything else is refused and noted.
pub fn tighten(config: &mut Config, file: file::File) {
    let source = Source::RepositoryFile;
    refuse_operator_keys(config, &file);
    if config.image.is_none() {
        take!(config, source, image = file.image.map(Some));
    }
    if config.setup.is_empty() {
        take!(config, source, setup = file.setup);
    }
    if config.verify.is_empty() {
        take!(config, source, verify = file.verify);
    }
    lower_limits(config, &file.limits);
    let wishes = RepositoryPolicy {
        max_files: file.policy.max_files,
        max_bytes: file.policy.max_bytes,
        protected_paths: file.policy.protected_paths,
        blocked_paths: file.policy.blocked_paths,
        allow_workflows: file.policy.allow_workflows,
    };
    config.policy = std::mem::take(&mut config.policy).tighten(&wishes);
    if config.publish.labels.is_empty() {
        take!(config, source, publish.labels = file.publish.labels);
    }
    if config.publish.reviewers.is_empty() {
        take!(config, source, publish.reviewers = file.publish.reviewers);
    }
    if file.publish.draft == Some(true) {
        config.publish.draft = true;
    }
    merge_review::tighten(config, file.review, &file.respond);
    merge_tools::tighten(config, &file.tools, &file.mcp, &file.network);
}

fn lower_limits(config: &mut Config, wishes: &file::Limits) {
    let (limits, notes) = (&mut config.limits, &mut config.notes);
    lower(notes, "limits.max-turns", &mut limits.max_turns, wishes.max_turns);
    lower(notes, "limits.max-tokens", &mut limits.max_tokens, wishes.max_tokens);
    lower(notes, "limits.max-cost-usd", &mut limits.max_cost_usd, wishes.max_cost_usd);
    lower(notes, "limits.timeout", &mut limits.timeout, wishes.timeout);
    lower(notes, "limits.command-timeout", &mut limits.command_timeout, wishes.command_timeout);
    lower(notes, "limits.setup-timeout", &mut config.setup_timeout, wishes.setup_timeout);
    lower(notes, "limits.verify-rounds", &mut limits.verify_rounds, wishes.verify_rounds);
}

/// Notes every key that only an operator may set.
fn refuse_operator_keys(config: &mut Config, file: &file::File) {
    let asked = [
        ("model", file.model.is_some()),
        ("base-url", file.base_url.is_some()),
        ("effort", file.effort.is_some()),
        ("profile", file.profile.is_some()),
        ("hosted-tools", !file.hosted_tools.is_empty()),
        ("stateful", file.stateful.is_some()),
        ("personality", file.personality.is_some()),
        ("mode", file.mode.is_some()),
        ("wire", file.wire.is_some()),
        ("models", !file.models.is_empty()),
        ("container", file.container != file::Container::default()),
        ("access", file.access != file::Access::default()),
        ("network.setup-allow", file.network.setup_allow.is_some()),
        ("identity", file.identity != file::Identity::default()),
        ("policy.secret-allow-paths", !file.policy.secret_allow_paths.is_empty()),
        ("policy.allow-workflows", file.policy.allow_workflows == Some(true)),
        ("publish.base", file.publish.base.is_some()),
        ("publish.branch", file.publish.branch.is_some()),
        ("review.event: approve", file.review.event == Some(ReviewEvent::Approve)),
        ("images", !file.images.is_empty()),
        ("review.per-pull-request", file.review.per_pull_request.is_some()),
        ("review.per-author", file.review.per_author.is_some()),
        ("review.per-day", file.review.per_day.is_some()),
        ("respond.mention", file.respond.mention.is_some()),
        ("publish.draft: false", file.publish.draft == Some(false) && config.publish.draft),
    ];
    for (key, _) in asked.iter().filter(|(_, is_set)| *is_set) {
        config.notes.push(format!(
            "`{key}` in `{}` was refused: only the operator may set it",
            file::REPOSITORY_FILE
        ));
    }
}

/// Lowers a limit; a higher wish is refused and noted.
pub(super) fn lower<T: PartialOrd>(
    notes: &mut Vec<String>,
    key: &str,
    limit: &mut T,
    wish: Option<T>,
) {
    match wish {
        Some(wish) if wish <= *limit => *limit = wish,
        Some(_) => notes.push(format!(
            "`{key}` in `{}` was refused: it is looser than the operator's limit",
            file::REPOSITORY_FILE
        )),
        None => {}
    }
}

fn validate(config: &Config) -> Result<()> {
    if config.limits.max_turns == 0 {
        return Err(Failure::usage("`--max-turns` must be at least 1"));
    }
    if !config.limits.max_cost_usd.is_finite() || config.limits.max_cost_usd < 0.0 {
        return Err(Failure::usage("`--max-cost-usd` must be a number of dollars, 0 or more"));
    }
    let is_nowhere = |server: &super::tools::McpServer| {
        server.command.is_empty() && server.url.as_deref().is_none_or(str::is_empty)
    };
    if let Some((name, _)) = config.mcp.iter().find(|(_, server)| is_nowhere(server)) {
        return Err(Failure::usage(format!("`mcp.{name}` has neither `command` nor `url`"))
            .hint("`command` starts a server in the sandbox, `url` reaches one over HTTP"));
    }
    if config.limits.timeout < Duration::from_secs(1) {
        return Err(Failure::usage("`--timeout` must be at least `1s`"));
    }
    if config.access.allow_bots.iter().any(|bot| bot.contains('*')) {
        return Err(Failure::usage("`allow-bots` takes exact logins")
            .hint("name each bot, for example `renovate[bot]`"));
    }
    for globs in [
        &config.policy.protected_paths,
        &config.policy.blocked_paths,
        &config.policy.secret_allow_paths,
    ] {
        for glob in globs {
            globset::Glob::new(glob).map_err(|err| {
                Failure::usage(format!("`{glob}` is not a valid path pattern")).caused_by(err)
            })?;
        }
    }
    Ok(())
}
