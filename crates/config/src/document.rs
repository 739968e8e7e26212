//! The tables of settings in the documents, as Markdown.

use std::fmt::Write as _;

use clap::Args as _;
use serde_json::Value;

use crate::flags::{Common, PublishFlags};
use crate::merge;
use crate::settings::settings;
use crate::table::{self, Setting};
use patchwright_base::error::{Failure, Result};

/// The table of `docs/configuration.md`: every key of a configuration file.
///
/// # Errors
/// When the shipped defaults cannot be read.
pub fn keys() -> Result<String> {
    let (config, shipped) = (merge::defaults()?, shipped()?);
    let mut text = "| key | repository | meaning | default |\n|---|---|---|---|\n".to_owned();
    for setting in settings().iter().filter(|setting| setting.is_in_files) {
        let Setting { key, meaning, .. } = setting;
        let default = match setting.default {
            Some(words) => words.to_owned(),
            None => shipped
                .pointer(&format!("/{}", key.replace('.', "/")))
                .or(table::value(&config, setting).as_ref())
                .map_or_else(String::new, shown),
        };
        let may = setting.repository.word();
        let least = setting.least.map(|least| format!(", at least {}", least()));
        let least = least.unwrap_or_default();
        let _ = writeln!(text, "| `{key}` | {may} | {meaning}{least} | {default} |");
    }
    Ok(text)
}

/// The other table of `docs/configuration.md`: what else a setting is called.
pub fn names() -> String {
    let mut text =
        "| key | flag | variable | input | campaign |\n|---|---|---|---|---|\n".to_owned();
    for setting in settings() {
        let arg = arg(&setting);
        let flags: Vec<String> = match &arg {
            Some(arg) => vec![format!("`--{}`", arg.get_long().unwrap_or_default())],
            None => setting.own_flags.iter().map(|flag| format!("`{flag}`")).collect(),
        };
        let variable = arg.as_ref().and_then(clap::Arg::get_env);
        let variable = variable.map(|name| name.to_string_lossy().into_owned());
        let variable = variable.or(setting.own_variable.map(str::to_owned));
        let variable = variable.map(|name| format!("`{name}`"));
        let input = setting.input.map(|input| format!("`{}`", input.name));
        let campaign = setting.campaign.map(|key| format!("`{key}`"));
        if flags.is_empty() && input.is_none() && campaign.is_none() {
            continue;
        }
        let key = if setting.is_in_files { format!("`{}`", setting.key) } else { String::new() };
        let cells = [Some(key), Some(flags.join(", ")), variable, input, campaign];
        let cells: Vec<String> = cells.into_iter().map(Option::unwrap_or_default).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// The flag of a setting that several commands share.
pub fn arg(setting: &Setting) -> Option<clap::Arg> {
    let find = |command: clap::Command, id: &str| {
        command.get_arguments().find(|arg| arg.get_id() == id).cloned()
    };
    match (setting.common_flag, setting.publish_flag) {
        (Some(id), _) => find(Common::augment_args(clap::Command::new("common")), id),
        (None, Some(id)) => find(PublishFlags::augment_args(clap::Command::new("publish")), id),
        (None, None) => None,
    }
}

/// The ids of a group of flags.
pub fn flags_of<T: clap::Args>() -> Vec<String> {
    let command = T::augment_args(clap::Command::new("flags"));
    command.get_arguments().map(|arg| arg.get_id().to_string()).collect()
}

/// The defaults as they are written.
fn shipped() -> Result<Value> {
    serde_saphyr::from_str(merge::DEFAULTS)
        .map_err(|err| Failure::internal("the shipped defaults are not valid").caused_by(err))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Array(entries) if entries.is_empty() => "none".to_owned(),
        Value::Object(entries) if entries.is_empty() => "none".to_owned(),
        Value::String(text) => format!("`{text}`"),
        // A time that is no text in the shipped defaults.
        Value::Object(entries) if entries.contains_key("secs") => {
            match entries["secs"].as_u64().unwrap_or_default() {
                seconds if seconds % 60 == 0 => format!("`{}m`", seconds / 60),
                seconds => format!("`{seconds}s`"),
            }
        }
        Value::Number(number) if number.as_f64() == Some(0.0) => "0".to_owned(),
        other => other.to_string(),
    }
}
