//! Patches that are written as commands. Rules about `apply_patch` hold for them, and what is wrong with
//! them counts as if the tool itself had been called. Pure.

use serde_json::{Value, json};

use super::alias;
use super::fault;
use super::registry::ResolvedTool;
use super::rules::{HookRule, Rules};
use patchwright_guest::programs::Patches;
use patchwright_guest::tool::{CommandOutput, ToolOutput};
use patchwright_guest::tools::apply_patch::{intercept, intercept_script};
use patchwright_types::calls::Fault;

/// The tool in whose place such a command stands.
pub const APPLY_PATCH: &str = "apply_patch";

/// A call with these arguments, under the tool's own names, is a command that is nothing but a patch; of
/// several commands, that one of them is.
pub fn is_one(tool: &ResolvedTool, args: &Value) -> bool {
    let is_script = |name: &str| {
        args.get(name).and_then(Value::as_str).is_some_and(|it| intercept_script(it).is_some())
    };
    let words = |name: &str| -> Vec<String> {
        let words = args.get(name).and_then(Value::as_array).into_iter().flatten();
        words.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    match tool.tool.as_ref() {
        "exec_command" => is_script("cmd"),
        "shell_command" | "bash" => is_script("command"),
        "shell" => intercept(&words("command")).is_some(),
        "hosted_shell" => words("commands").iter().any(|it| intercept_script(it).is_some()),
        _ => false,
    }
}

/// Tells a tool that runs commands which patches in them are applied.
pub fn rule(rules: &Rules, tool: &ResolvedTool, args: &mut Value) {
    if !tool.is_shell() || tool.is_ours(&alias::WRITE_STDIN) {
        return;
    }
    let applied = applied(rules, tool);
    if let Value::Object(fields) = args
        && applied != Patches::Anywhere
    {
        fields.insert("patches".to_owned(), json!(applied));
    }
}

fn applied(rules: &Rules, tool: &ResolvedTool) -> Patches {
    if rules.disabled.has(APPLY_PATCH) {
        return Patches::Nowhere;
    }
    // Hooks about the command itself see a patch in the middle of it.
    let sees_patches_only =
        |hook: &HookRule| hook.is_about(&[APPLY_PATCH]) && !hook.is_about(&[&tool.name]);
    if rules.hooks.iter().any(sees_patches_only) { Patches::Whole } else { Patches::Anywhere }
}

/// What is wrong with patches that were written as commands, when nothing came of the call.
pub fn fault(output: &ToolOutput) -> Option<Fault> {
    let failed = |command: &&CommandOutput| command.exit_code != 0;
    let mut commands = output.command.iter().chain(&output.commands);
    if !commands.clone().all(|command| failed(&command)) {
        return None;
    }
    commands.find_map(|command| fault::of_patch(&command.output))
}
