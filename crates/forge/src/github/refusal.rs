//! What a refusal of GitHub's means: thing, cause, and the permission or setting that would help.
//!
//! Called by [`super::http`] for every answer that is not 2xx. The texts that it looks for are
//! GitHub's own messages; without them the status alone decides.

use serde_json::Value;

use super::http::{Call, Reply};
use crate::transfer::too_large;
use crate::{Credential, ForgeError, Requirement, StateProblem};
use patchwright_base::invisible::is_invisible;
use patchwright_base::redact::Redactor;

/// Longest part of an answer that goes into an error message.
const LONGEST_MESSAGE: usize = 300;

/// The repository setting without which an Actions token may not open pull requests.
const PULL_REQUESTS_BY_ACTIONS: &str = "the repository setting \u{201c}Allow GitHub Actions to \
    create and approve pull requests\u{201d} (Settings, Actions, General)";

/// Turns an answer that is not 2xx into the error for it.
pub(super) fn explain(host: &str, call: &Call, reply: &Reply, secrets: &[&str]) -> ForgeError {
    let message = message(reply, secrets);
    let text = message.to_lowercase();
    let action = call.action.clone();
    match reply.status.as_u16() {
        401 => ForgeError::Authentication { credential: Credential::Token, message },
        // What signs itself as an App that is not there, or not any more.
        404 if text.contains("integration not found") => {
            ForgeError::Authentication { credential: Credential::App, message }
        }
        403 if text.contains("archived") => ForgeError::State {
            what: StateProblem::Archived,
            message: format!("cannot {action}: the repository is archived and read-only"),
        },
        403 if text.contains("too large") => ForgeError::State {
            what: StateProblem::TooLarge,
            message: format!("cannot {action}: {message}"),
        },
        403 if text.contains("is locked") => {
            ForgeError::state(format!("cannot {action}: the conversation is locked"))
        }
        403 if text.contains("not permitted to create or approve pull requests") => {
            ForgeError::Forbidden {
                action,
                message,
                need: Some(Requirement::Setting(PULL_REQUESTS_BY_ACTIONS)),
            }
        }
        403 if text.contains("installation has been suspended") => {
            ForgeError::Forbidden { action, message, need: Some(Requirement::ActiveInstallation) }
        }
        // No permission of a token changes that.
        403 if text.contains("forking is disabled") => {
            ForgeError::Forbidden { action, message, need: None }
        }
        403 => ForgeError::Forbidden { action, message, need: permission(call, reply) },
        404 => ForgeError::NotFound { what: absent(call) },
        410 => ForgeError::State {
            what: StateProblem::Gone,
            message: format!("cannot {action}: it was deleted, or issues are turned off there"),
        },
        409 if text.contains("is empty") => ForgeError::State {
            what: StateProblem::Empty,
            message: format!("cannot {action}: the repository is empty; push a first commit to it"),
        },
        409 => ForgeError::Conflict { message: format!("cannot {action}: {message}") },
        451 => ForgeError::NotFound { what: format!("{} (blocked for legal reasons)", call.thing) },
        413 => too_large(&action),
        422 | 400 => ForgeError::Invalid { action, message },
        status => ForgeError::Malformed {
            host: host.to_owned(),
            message: format!("status {status} to the attempt to {action}: {message}"),
        },
    }
}

/// A 404 for a write also means that the token may not.
fn absent(call: &Call) -> String {
    if call.need.is_empty() {
        format!("{} (or the token may not see it)", call.thing)
    } else {
        format!("{} (or the token lacks `{}`)", call.thing, call.need)
    }
}

/// What GitHub says that it accepts, or else what the documentation asks for.
fn permission(call: &Call, reply: &Reply) -> Option<Requirement> {
    let accepted = reply
        .headers
        .get("x-accepted-github-permissions")
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(|value| value.trim().replace('_', "-").replace('=', ": "))
        .filter(|value| !value.is_empty());
    let documented = (!call.need.is_empty()).then(|| call.need.to_owned());
    accepted.or(documented).map(|permission| match clean(&permission, &[]) {
        permission if permission.starts_with("workflows") => Requirement::Workflows,
        permission => Requirement::Permission(permission),
    })
}

/// GitHub's message and its list of errors, in one line fit for a terminal.
pub(super) fn message(reply: &Reply, secrets: &[&str]) -> String {
    let text = match serde_json::from_slice::<Value>(&reply.body) {
        Ok(json) => words(&json),
        Err(_) => String::from_utf8_lossy(&reply.body).into_owned(),
    };
    let text = text.trim();
    if text.is_empty() {
        return format!("status {}", reply.status.as_u16());
    }
    if text.starts_with('<') {
        return format!("status {} with a web page", reply.status.as_u16());
    }
    clean(text, secrets)
}

fn words(json: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(json["message"].as_str().map(str::to_owned));
    for error in json["errors"].as_array().into_iter().flatten().take(5) {
        let field = error["field"].as_str().unwrap_or_default();
        let words = error
            .as_str()
            .or_else(|| error["message"].as_str())
            .map(str::to_owned)
            .or_else(|| error["code"].as_str().map(|code| format!("{field} {code}")));
        parts.extend(words.map(|words| words.trim().to_owned()));
    }
    // One of the forms has the list as a plain string.
    parts.extend(json["errors"].as_str().map(str::to_owned));
    parts.join(": ")
}

/// One line, no control characters, no secret, bounded.
pub(super) fn clean(text: &str, secrets: &[&str]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        text = text.replace(secret, "***");
    }
    // Tokens that were minted are in no list.
    let text = Redactor::default().redact(&text);
    let line: String = text
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|c| !c.is_control() && !is_invisible(*c))
        .collect();
    if line.chars().count() <= LONGEST_MESSAGE {
        return line.trim().to_owned();
    }
    let cut: String = line.chars().take(LONGEST_MESSAGE).collect();
    format!("{}…", cut.trim())
}
