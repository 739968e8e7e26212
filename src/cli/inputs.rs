//! The inputs of the Action: which there are, and what they mean for the configuration.

use clap::Parser;

use crate::cli::issue::PublishFlags;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_config::flags::Common;
use patchwright_config::review::FailOn;
use patchwright_config::{Config, Source, check};

/// Every input of `action.yml` and the flag that it stands for. Inputs that are lists take commas
/// or lines.
pub const INPUTS: &[(&str, &str)] = &[
    ("model", "--model"),
    ("base-url", "--base-url"),
    ("effort", "--effort"),
    ("config", "--config"),
    ("sandbox", "--sandbox"),
    ("image", "--image"),
    ("setup", "--setup"),
    ("verify", "--verify"),
    ("allow-hosts", "--allow-host"),
    ("max-turns", "--max-turns"),
    ("max-cost-usd", "--max-cost-usd"),
    ("max-tokens", "--max-tokens"),
    ("timeout", "--timeout"),
    ("state-dir", "--state-dir"),
    ("base", "--base"),
    ("branch", "--branch"),
    ("labels", "--pr-label"),
    ("reviewers", "--reviewer"),
];

/// Inputs that switch a flag on with `true`.
pub const SWITCHES: &[(&str, &str)] = &[("draft", "--draft"), ("dry-run", "--dry-run")];

/// Inputs that are not flags of `issue`.
pub const OWN_INPUTS: &[&str] =
    &["allow-users", "allow-bots", "label", "mention", "fail-on", "post-from"];

/// The flags of `issue`, parsed from inputs.
#[derive(Debug, Parser)]
pub(super) struct Flags {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    publish: PublishFlags,
}

/// The configuration that the inputs make, and the flags among them.
pub(super) fn configuration(env: &Env) -> Result<(Config, Flags)> {
    let flags = flags(env)?;
    let mut config = flags.common.resolve()?;
    flags.publish.overlay(&mut config);
    if let Some(label) = input(env, "label") {
        label.clone_into(&mut config.access.label);
    }
    if let Some(users) = input(env, "allow-users") {
        config.access.allow_users = list(users);
    }
    if let Some(bots) = input(env, "allow-bots") {
        config.access.allow_bots = list(bots);
    }
    if config.access.allow_bots.iter().any(|bot| bot.contains('*')) {
        return Err(Failure::usage("`allow-bots` takes exact logins, not patterns"));
    }
    let wrong = |name: &str, why: String| Failure::usage(format!("input `{name}`: {why}"));
    if let Some(mention) = input(env, "mention") {
        check::mention(mention).map_err(|why| wrong("mention", why))?;
        mention.trim_start_matches('@').clone_into(&mut config.respond.mention);
    }
    if let Some(fail_on) = input(env, "fail-on") {
        let fail_on: FailOn = fail_on.parse().map_err(|why| wrong("fail-on", why))?;
        config.review.fail_on = fail_on.threshold();
        config.sources.insert("review.fail-on".to_owned(), Source::Flag);
    }
    Ok((config, flags))
}

/// Turns inputs into the flags of `issue`, so that both are checked by the same parser.
fn flags(env: &Env) -> Result<Flags> {
    let mut argv = vec!["action".to_owned()];
    for (name, flag) in INPUTS {
        if let Some(value) = input(env, name) {
            argv.push(format!("{flag}={value}"));
        }
    }
    for (name, flag) in SWITCHES {
        match input(env, name) {
            None | Some("false") => {}
            Some("true") => argv.push((*flag).to_owned()),
            Some(other) => {
                return Err(Failure::usage(format!(
                    "input `{name}` must be `true` or `false`: {other}"
                )));
            }
        }
    }
    Flags::try_parse_from(argv).map_err(|err| {
        let text = err.to_string();
        let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        Failure::usage(format!("an input of the action is not valid: {line}"))
            .hint("the inputs are described in `action.yml`")
    })
}

/// An input that is set. Actions hand `max-turns` over as `INPUT_MAX-TURNS`; the composite action
/// passes `INPUT_MAX_TURNS`, which a shell can set.
pub(super) fn input<'a>(env: &'a Env, name: &str) -> Option<&'a str> {
    let upper = name.to_ascii_uppercase();
    env.var(&format!("INPUT_{upper}"))
        .or_else(|| env.var(&format!("INPUT_{}", upper.replace('-', "_"))))
        .map(str::trim)
        .filter(|value| !value.is_empty())
}

fn list(value: &str) -> Vec<String> {
    value.split([',', '\n']).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty()).collect()
}
