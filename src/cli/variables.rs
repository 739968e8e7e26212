//! The variables of flags, before the parser sees them. To it a variable that is there is a flag that was given, whatever
//! its value: an empty one lacks its value, and a switch that is `false` cannot be used with others.

use std::ffi::OsString;

use clap::ArgAction;
use clap::builder::Resettable;
use patchwright_base::env::Env;

/// A variable that says something beside one switch only, and the switch with its own. Workflows set it for all their
/// steps; as a flag without the switch it stays a mistake.
const BESIDE: (&str, &str, &str) = ("PATCHWRIGHT_SHARDS", "--matrix", "PATCHWRIGHT_MATRIX");

/// The command line without the variables that say nothing.
pub fn heed(command: clap::Command, env: &Env, words: &[OsString]) -> clap::Command {
    let unset = |arg: clap::Arg| {
        let Some(name) = arg.get_env().and_then(|name| name.to_str()) else { return arg };
        let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
        let says_nothing = env.is_empty(name)
            || (is_switch && env.var(name) == Some("false"))
            || (name == BESIDE.0 && !is_asked(BESIDE, env, words));
        if says_nothing { arg.env(Resettable::Reset) } else { arg }
    };
    command.mut_args(unset).mut_subcommands(|sub| heed(sub, env, words))
}

fn is_asked((_, flag, variable): (&str, &str, &str), env: &Env, words: &[OsString]) -> bool {
    words.iter().any(|word| word == flag) || env.var(variable) == Some("true")
}
