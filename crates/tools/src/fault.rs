//! Why a call could not be run as it was written: the kinds that are counted, so that a model that
//! cannot form a call, or cannot stay in its workspace, is stopped with its work.

use super::registry::ResolvedTool;
use patchwright_types::calls::Fault;

/// How the file tools word a refusal because of where a path leads.
const OUTSIDE: &[&str] = &["outside the workspace", "out of the workspace"];
/// How the patch tools word that a text is no patch.
const NO_PATCH: &[&str] = &["Invalid patch", "the patch is not valid UTF-8"];

/// The kind of a refusal that a tool itself has worded, where it is one of these.
pub fn told(tool: &ResolvedTool, words: &str) -> Option<Fault> {
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
