//! The inputs of the Action, and what they mean for the configuration. Those of settings stand in the
//! table of settings ([`patchwright_config::settings`]); here are the others.

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::cli::variables;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_config::file::{self, File};
use patchwright_config::flags::{Common, PublishFlags};
use patchwright_config::renamed_settings::{self, RenamedSetting};
use patchwright_config::settings::settings;
use patchwright_config::{Config, Source, merge};

/// Inputs that are flags of the process, not settings: the name, the flag, and what it means.
const OF_THE_PROCESS: &[(&str, &str, &str)] = &[
    ("config", "--config", "Configuration file of the operator, relative to the workspace."),
    (
        "state-dir",
        "--state-dir",
        "Folder for journals, reports and clone mirrors, which you keep between jobs. When empty, what a run that was cut off has left is kept in the cache for the next run on the same issue or pull request.",
    ),
];

/// Inputs that the action itself reads.
const OF_THE_ACTION: &[(&str, &str)] = &[
    (
        "prompt",
        "What to do in the repository, in your words, whatever the event is: work on the base branch that becomes a pull request, or a question that is answered in the job's summary.",
    ),
    ("prompt-file", "A file with the prompt, relative to the workspace."),
    (
        "learn",
        "`true` proposes lessons from what maintainers corrected since the last proposal, whatever the event is.",
    ),
    (
        "post-from",
        "Folder with the review that another run found but was not allowed to post; it is posted instead of reviewing.",
    ),
];

/// Every input of `action.yml`, with what it means.
pub fn inputs() -> Vec<(&'static str, &'static str)> {
    let of_settings = settings().into_iter().filter_map(|setting| setting.input);
    of_settings
        .map(|input| (input.name, input.meaning))
        .chain(OF_THE_PROCESS.iter().map(|(name, _, meaning)| (*name, *meaning)))
        .chain(OF_THE_ACTION.iter().copied())
        .collect()
}

/// The flags of the process, with the variables of all flags.
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
    merge::lay(&mut config, said(env)?, Source::Flag);
    merge::validate(&config)?;
    Ok((config, flags))
}

/// What the inputs say, in the form of a configuration file.
fn said(env: &Env) -> Result<File> {
    let mut file = File::default();
    let former = former_inputs();
    let inputs = settings().into_iter().filter_map(|setting| Some((setting.key, setting.input?)));
    for (key, given) in inputs {
        let mut old = former.iter().filter(|(name, _)| *name == given.name);
        let old = old.next().and_then(|(_, former)| input(env, former.name()));
        if let Some(text) = input(env, given.name).or(old) {
            // By itself first: what is said of a value out of bounds would name a key or a flag.
            let mut alone = File::default();
            (given.read)(&mut alone, text)
                .and_then(|()| file::mistake(&alone, &key).map_or(Ok(()), Err))
                .and_then(|()| (given.read)(&mut file, text))
                .map_err(|why| {
                    Failure::usage(format!("input `{}`: {why}", given.name))
                        .hint("the inputs are described in `action.yml`")
                })?;
        }
    }
    Ok(file)
}

/// Inputs that had another name before, by their name now.
pub fn former_inputs() -> Vec<(&'static str, RenamedSetting)> {
    renamed_settings::names()
        .into_iter()
        .filter_map(|former| Some((former.input?, former)))
        .collect()
}

fn flags(env: &Env) -> Result<Flags> {
    let given = OF_THE_PROCESS
        .iter()
        .filter_map(|(name, flag, _)| input(env, name).map(|value| format!("{flag}={value}")));
    let words: Vec<OsString> =
        std::iter::once("action".to_owned()).chain(given).map(OsString::from).collect();
    // What `main.rs` does for the command line: a variable that is set to nothing says nothing.
    let command = variables::heed(Flags::command(), env, &words);
    let flags = command.try_get_matches_from(words).and_then(|it| Flags::from_arg_matches(&it));
    flags.map_err(|err| {
        let text = err.to_string();
        let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        Failure::usage(format!("a variable of the step is not valid: {line}"))
            .hint("variables are described in `docs/cli.md`, inputs in `action.yml`")
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
