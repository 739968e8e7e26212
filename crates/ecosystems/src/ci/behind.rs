//! What stands behind a step of CI that starts the tests by another program: a recipe, a script.

use std::collections::BTreeSet;

use super::{CiStep, StepPurpose, classify, needs};
use crate::files::{Files, join, resolve};
use crate::read;

/// Words in names of targets and scripts that are about something else than the tests of the code.
const OTHERS: &[&str] = &[
    "lint",
    "fmt",
    "format",
    "formatted",
    "style",
    "typecheck",
    "types",
    "deploy",
    "release",
    "publish",
    "install",
    "docs",
    "doc",
    "docker",
    "image",
    "license",
    "licenses",
    "spelling",
    "links",
];
/// Most recipes that are read for one step.
const MAX_RECIPES: usize = 30;

/// The lines that a step comes to, as far as they are known: those of recipes and of scripts of the tree.
pub(crate) fn behind(files: &Files<'_>, inside: &str, command: &str) -> String {
    let mut out = String::new();
    for part in command.split(['\n', ';', '&', '|']) {
        let words: Vec<&str> = part.split_whitespace().collect();
        let Some(program) = words.first() else { continue };
        let names: &[&str] = match *program {
            "make" | "gmake" => &["GNUmakefile", "makefile", "Makefile"],
            "just" => &["justfile", "Justfile", ".justfile"],
            _ => &[],
        };
        let below = words.iter().position(|word| *word == "-C").and_then(|at| words.get(at + 1));
        let folder = below.and_then(|below| resolve(inside, below));
        let folder = folder.unwrap_or_else(|| inside.to_owned());
        if let Some(text) = names.iter().find_map(|name| files.text(&join(&folder, name))) {
            let targets =
                words.iter().skip(1).filter(|it| !it.starts_with('-') && !it.contains('='));
            recipes(&text, targets.copied().collect(), &mut out);
        }
        let scripts = words.iter().filter(|it| it.contains('/') || it.contains(".sh"));
        let scripts = scripts.filter_map(|it| files.text(&resolve(inside, it)?));
        scripts.for_each(|text| out.push_str(&text));
    }
    out
}

/// A command, or the script of `package.json` behind it, starts a browser, uploads a report or asks what differs from another
/// commit.
pub(crate) fn needs_more_by_script(files: &Files<'_>, folder: &str, command: &str) -> bool {
    const BROWSERS: &[&str] =
        &["playwright test", "cypress run", "cypress open", "testcafe ", "wdio ", "xvfb-run"];
    let manifest = files.text(&join(folder, "package.json")).and_then(|it| read::json(&it).ok());
    let scripts = manifest.as_ref().and_then(|manifest| manifest.get("scripts"));
    let is_manager = |word: &str| matches!(word, "npm" | "pnpm" | "yarn" | "bun");
    let mut waiting = vec![command.to_owned()];
    let mut known: BTreeSet<String> = BTreeSet::new();
    while let Some(command) = waiting.pop() {
        if classify::uploads(&command)
            || BROWSERS.iter().any(|words| command.contains(words))
            || needs::compares(&command)
        {
            return true;
        }
        for part in command.split(['\n', ';', '&', '|']) {
            let mut words = part.split_whitespace().skip_while(|word| !is_manager(word)).skip(1);
            let name = words.find(|word| !word.starts_with('-') && *word != "run");
            let script = name.and_then(|name| scripts?.get(name)?.as_str());
            if let (Some(name), Some(script)) = (name, script)
                && known.insert(name.to_owned())
            {
                waiting.push(script.to_owned());
            }
        }
    }
    false
}

/// The recipes of targets, and of what they depend on.
fn recipes(text: &str, mut waiting: Vec<&str>, out: &mut String) {
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut found: Vec<String> = Vec::new();
    while let Some(target) = waiting.pop().map(str::to_owned).or_else(|| found.pop()) {
        if known.len() == MAX_RECIPES || !known.insert(target.clone()) {
            continue;
        }
        let mut is_inside = false;
        for line in text.lines() {
            match line.split_once(':') {
                _ if line.starts_with(['\t', ' ']) => {
                    if is_inside {
                        out.push_str(line.trim().trim_start_matches(['@', '-']));
                        out.push('\n');
                    }
                }
                Some((names, rest)) if !rest.starts_with('=') && !line.starts_with('#') => {
                    is_inside = names.split_whitespace().any(|name| is_rule_for(name, &target));
                    if is_inside {
                        let needed = rest.split('#').next().unwrap_or_default();
                        found.extend(needed.split_whitespace().map(str::to_owned));
                    }
                }
                _ => is_inside = is_inside && line.trim().is_empty(),
            }
        }
    }
}

/// The name of a rule is a target, or a pattern of make that it matches: `check-%`.
fn is_rule_for(name: &str, target: &str) -> bool {
    let is_matched = |(start, end): (&str, &str)| {
        target.strip_prefix(start).is_some_and(|rest| rest.len() > end.len() && rest.ends_with(end))
    };
    name == target || name.split_once('%').is_some_and(is_matched)
}

/// What stands behind a step reads the code and runs none of it.
pub(crate) fn is_about_text(behind: &str) -> bool {
    let lines = behind.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut lines = lines.filter(|line| !line.starts_with('#') && !line.starts_with("echo "));
    let is_text = |line: &str| classify::purpose(line) == StepPurpose::Lint;
    lines.clone().any(is_text) && lines.all(is_text)
}

/// A step that starts tests by another program is about the tests of the code: neither its words nor what stands
/// behind it say that it is for something else.
pub(crate) fn is_about_tests(step: &CiStep, behind: &str) -> bool {
    let is_other = |word: &str| OTHERS.contains(&word.to_ascii_lowercase().as_str());
    let mut words = step.command.split(|c: char| !c.is_ascii_alphanumeric());
    let is_for = classify::is_for(behind);
    !words.any(is_other)
        && classify::unusable(behind).is_none()
        && !matches!(is_for, StepPurpose::Lint | StepPurpose::Install)
}
