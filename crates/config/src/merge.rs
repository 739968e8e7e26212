//! How the sources become one [`Config`]: an operator's file is laid over the defaults, a campaign over
//! that, flags over those, and last the repository's own file, which can only tighten.

use super::{Config, Source, file};
use crate::flags::Common;
use crate::settings;
use patchwright_base::error::{Failure, Result};

/// The shipped defaults, in the form of an operator's file.
pub const DEFAULTS: &str = include_str!("defaults.yml");

/// Defaults, the operator's file if any, flags.
pub fn resolve(operator_file: Option<(&str, &str)>, flags: &Common) -> Result<Config> {
    let mut config = defaults()?;
    if let Some((name, text)) = operator_file {
        lay(&mut config, file::parse(name, text)?, Source::OperatorFile);
    }
    lay(&mut config, flags.settings(), Source::Flag);
    validate(&config)?;
    Ok(config)
}

/// The shipped defaults.
pub fn defaults() -> Result<Config> {
    let mut config = Config::default();
    lay(&mut config, file::parse("defaults.yml", DEFAULTS)?, Source::OperatorFile);
    config.sources.clear();
    Ok(config)
}

/// Lays what an operator's source says over a configuration. What a source that counts more has said
/// stays: flags, then a campaign, then the operator's file.
pub fn lay(config: &mut Config, said: file::File, source: Source) {
    settings::lay(config, said, source);
}

/// Lays the repository's own file over an operator's configuration, each key by its rule
/// ([`crate::rules`]): it may tighten. What it may not, is noted by its key.
pub fn tighten(config: &mut Config, wishes: file::File) {
    settings::tighten(config, wishes);
}

/// `none` among other words: one of the two is not meant.
pub(crate) fn has_none_beside_others(words: &[String]) -> bool {
    words.len() > 1 && words.iter().any(|word| word.trim() == super::NONE)
}

/// Checks what the sources together say.
///
/// # Errors
/// Naming the flag or the key.
pub fn validate(config: &Config) -> Result<()> {
    if let Some(low) = settings::too_low_in(config) {
        return Err(Failure::usage(low).hint("leave it out for the default"));
    }
    if !config.limits.max_cost_usd.is_finite() {
        return Err(Failure::usage("`--max-cost-usd` must be a number of dollars"));
    }
    for (flag, words) in [("--setup", &config.setup), ("--setup-allow", &config.setup_hosts)] {
        if has_none_beside_others(words) {
            return Err(Failure::usage(format!("`none` stands beside others in `{flag}`"))
                .hint("`none` alone switches it off; leave it out, or the others"));
        }
    }
    let is_nowhere = |server: &super::tools::McpServer| {
        server.command.is_empty() && server.url.as_deref().is_none_or(str::is_empty)
    };
    if let Some((name, _)) = config.mcp.iter().find(|(_, server)| is_nowhere(server)) {
        return Err(Failure::usage(format!("`mcp.{name}` has neither `command` nor `url`"))
            .hint("`command` starts a server in the sandbox, `url` reaches one over HTTP"));
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
