//! The templates of a campaign file: the prompt, and the title and text of pull requests. `{{ name }}`
//! is replaced by a variable; one that is not defined is an error, before anything is started.

use std::collections::BTreeMap;

use minijinja::{AutoEscape, Environment, UndefinedBehavior};

use patchwright_base::error::{Failure, Result};

/// Variables that every template has: `OWNER/REPO`, its two parts, and the branch that is worked on.
pub(super) const GIVEN: [&str; 4] = ["repository", "owner", "name", "base_branch"];
/// Functions that templates can call.
const FUNCTIONS: [&str; 3] = ["range", "dict", "namespace"];

/// Fills a template; `what` is the key that it stands under.
pub(super) fn fill(what: &str, text: &str, variables: &BTreeMap<String, String>) -> Result<String> {
    let filled = environment().render_str(text, variables);
    filled
        .map(|text| text.trim().to_owned())
        .map_err(|err| Failure::usage(format!("`{what}` cannot be filled in")).caused_by(err))
}

/// What is wrong with a template, with the line of it.
pub(super) fn check(text: &str, variables: &BTreeMap<String, String>) -> Option<(usize, String)> {
    let environment = environment();
    let line = |err: &minijinja::Error| err.line().unwrap_or(1);
    let template = match environment.template_from_str(text) {
        Ok(template) => template,
        Err(err) => return Some((line(&err), format!("is no template: {}", reason(&err)))),
    };
    let is_known = |name: &str| variables.contains_key(name) || FUNCTIONS.contains(&name);
    let mut unknown: Vec<String> = template.undeclared_variables(false).into_iter().collect();
    unknown.retain(|name| !is_known(name));
    unknown.sort();
    if let Some(name) = unknown.first() {
        let at = text.lines().position(|line| line.contains(name.as_str())).unwrap_or(0);
        let known: Vec<String> = variables.keys().map(|name| format!("`{name}`")).collect();
        let known = known.join(", ");
        return Some((at + 1, format!("uses `{name}`, which is not defined; there are {known}")));
    }
    let filled = template.render(variables);
    filled.err().map(|err| (line(&err), format!("cannot be filled in: {}", reason(&err))))
}

fn reason(err: &minijinja::Error) -> String {
    err.detail().map_or_else(|| err.kind().to_string(), str::to_owned)
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment
}
