//! Why a call could not be run as it was written: the kinds that are counted, so that a model that
//! cannot form a call, or cannot stay in its workspace, is stopped with its work.

use serde::{Deserialize, Serialize};

use super::registry::Known;

/// Several of one kind in a row end the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A name that is no name, or too large.
    Malformed,
    UnknownTool,
    NotJson,
    /// JSON, but not what the tool takes.
    Arguments,
    /// More calls in one reply than are run.
    TooMany,
    /// A path that is not in the workspace.
    Outside,
    /// An edit that is not written in the tool's format.
    Dialect,
}

/// How the file tools word a refusal because of where a path leads.
const OUTSIDE: &[&str] = &["outside the workspace", "out of the workspace"];
/// How the patch tools word that a text is no patch.
const NO_PATCH: &[&str] = &["Invalid patch", "the patch is not valid UTF-8"];

/// The kind of a refusal that a tool itself has worded, where it is one of these.
pub fn told(tool: &Known, words: &str) -> Option<Fault> {
    let fault = of_patch(words);
    let is_patch = matches!(tool.tool.as_ref(), "apply_patch" | "hosted_patch");
    fault.filter(|fault| is_patch || *fault != Fault::Dialect)
}

/// The kind of a refusal that the patch tools have worded, under whatever name they were called.
pub fn of_patch(words: &str) -> Option<Fault> {
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    if says(OUTSIDE) {
        Some(Fault::Outside)
    } else if says(NO_PATCH) {
        Some(Fault::Dialect)
    } else {
        None
    }
}
