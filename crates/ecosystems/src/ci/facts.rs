//! What the contexts of GitHub's expressions hold: of every run, and of one for an ordinary pull request.

use github_actions_expressions::Evaluation;

use super::expressions::{ExpressionValues, Facts};
use super::functions::below;

/// The value of a name, such as `matrix.os`. `None` where only a run has one.
pub(super) fn find(
    head: &str,
    path: &[&str],
    known: &ExpressionValues,
    facts: Facts,
) -> Option<Evaluation> {
    let text = |text: &str| Some(Evaluation::String(text.to_owned()));
    match (head, path) {
        ("matrix", path) => known.matrix.find(path),
        ("env", [name]) => known.environment.get(*name).and_then(|value| text(value)),
        ("inputs", [name, rest @ ..]) => match known.inputs.get(&name.to_ascii_lowercase()) {
            Some(value) => below(Evaluation::try_from(value.clone()?).ok()?, rest),
            // No event that concerns a change has inputs of its own.
            None => Some(Evaluation::Null),
        },
        ("steps", [step, "outputs", _]) if known.skipped.contains(*step) => Some(Evaluation::Null),
        ("steps", [step, "outputs", name]) => {
            known.outputs.get(&format!("{step}.{name}")).and_then(|value| text(value))
        }
        ("needs", [job, "outputs", name]) => {
            known.needs.get(&format!("{job}.{name}")).and_then(|value| text(value))
        }
        // A port of a service is reached at the port itself here.
        ("job", ["services", _, "ports", port]) => port.parse::<u16>().ok().and(text(port)),
        ("runner", ["os"]) => text("Linux"),
        ("runner", ["arch"]) => text("X64"),
        ("runner", ["temp"]) => text("/tmp"),
        ("github", ["workspace"]) => text("."),
        ("github", ["action_path"]) => known
            .action_folder
            .as_deref()
            .and_then(|folder| text(if folder.is_empty() { "." } else { folder })),
        _ if facts == Facts::Ordinary => ordinary(head, path, known),
        _ => None,
    }
}

/// What holds for a pull request of a branch of the repository that a person opened a while ago and has just
/// pushed to, or for a push to a branch.
fn ordinary(head: &str, path: &[&str], known: &ExpressionValues) -> Option<Evaluation> {
    let text = |text: &str| Some(Evaluation::String(text.to_owned()));
    match (head, path) {
        ("steps", [_, "outcome" | "conclusion"])
        | ("needs", [_, "result"])
        | ("job", ["status"]) => text("success"),
        // Variables of the repository are seldom set.
        ("vars", _) | ("runner", ["debug"]) => text(""),
        ("runner", ["environment"]) => text("github-hosted"),
        ("github", ["event", rest @ ..]) => event(rest, known),
        ("github", [name]) => match (*name, known.is_push_only) {
            ("event_name", true) => text("push"),
            ("event_name", false) => text("pull_request"),
            ("ref", true) => text("refs/heads/change"),
            ("ref", false) => text("refs/pull/1/merge"),
            ("ref_name", false) => text("1/merge"),
            ("ref_type", _) => text("branch"),
            ("actor" | "triggering_actor", _) => text(""),
            ("run_attempt", _) => text("1"),
            ("server_url", _) => text("https://github.com"),
            _ => None,
        },
        _ => None,
    }
}

fn event(path: &[&str], known: &ExpressionValues) -> Option<Evaluation> {
    let text = |text: &str| Some(Evaluation::String(text.to_owned()));
    match path {
        ["pull_request", ..] if known.is_push_only => Some(Evaluation::Null),
        ["pull_request", "draft" | "merged"] => Some(Evaluation::Boolean(false)),
        ["pull_request", "labels", ..] => Some(Evaluation::Array(Vec::new())),
        ["pull_request", "title" | "body"] | ["pull_request", "user", "login"] => text(""),
        ["pull_request", "state"] => text("open"),
        ["action"] if !known.is_push_only => text("synchronize"),
        ["head_commit" | "commits", ..] if known.is_push_only => text(""),
        // Of events that say nothing about a change.
        [
            "head_commit" | "commits" | "inputs" | "label" | "schedule" | "issue" | "comment"
            | "review" | "release" | "workflow_run" | "client_payload" | "ref",
            ..,
        ] => Some(Evaluation::Null),
        _ => None,
    }
}
