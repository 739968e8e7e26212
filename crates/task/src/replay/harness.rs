//! What a recorded run's model was told by the harness, besides what the agent tells it by itself, and runs that have
//! nothing to replay. Pure.

use std::path::Path;

use crate::workspace::Workspace;
use patchwright_agent::{ExpectedChange, StopKind, history};
use patchwright_base::error::Failure;
use patchwright_git::Oid;
use patchwright_journal::{Entry, Line};
use patchwright_prompt as prompt;
use patchwright_provider::item::Item;
use patchwright_sandbox::PreparedImage;

/// The model is asked about a missing change where it was asked in the recording.
pub(super) fn expected_change(lines: &[Line]) -> ExpectedChange {
    let Ok(unchanged) = prompt::text("task/unchanged.md") else { return ExpectedChange::None };
    let is_it = |item: &Item| *item == history::note(unchanged);
    let was_asked = lines
        .iter()
        .any(|line| matches!(&line.entry, Entry::Added { items } if items.iter().any(is_it)));
    if was_asked { ExpectedChange::Required } else { ExpectedChange::None }
}

/// Items that follow checks of the loop were said by the harness; all others the agent says itself.
pub(super) fn rounds(lines: &[Line]) -> Vec<Vec<Item>> {
    let mut rounds = Vec::new();
    let mut is_checked = false;
    for line in lines {
        match &line.entry {
            Entry::Checked { when, .. } if when == "loop" => is_checked = true,
            Entry::Added { items } if is_checked => {
                rounds.push(items.clone());
                is_checked = false;
            }
            Entry::Note { .. } => {}
            _ => is_checked = false,
        }
    }
    rounds
}

/// How often the model had ended the work and was asked again by a run that was resumed.
pub(super) fn resumed_stops(lines: &[Line]) -> usize {
    let (mut count, mut is_stopped) = (0, false);
    for line in lines {
        match &line.entry {
            Entry::Stopped { reason, .. } => is_stopped = StopKind::is_of_model(reason),
            Entry::Replied { .. } if std::mem::take(&mut is_stopped) => count += 1,
            _ => {}
        }
    }
    count
}

/// The image with what setup had made of it, where there was a setup.
pub(super) fn prepared(opened: &Entry) -> Option<PreparedImage> {
    let Entry::WorkspaceOpened { image, env, paths, is_set_up: true, .. } = opened else {
        return None;
    };
    Some(PreparedImage {
        reference: image.clone(),
        description: image.clone(),
        env: env.clone(),
        paths: paths.clone(),
        ..PreparedImage::default()
    })
}

/// The branch that the sandbox had besides the one that was worked on, where the repository has its commit.
pub(super) fn other_branch(lines: &[Line], workspace: &Workspace) -> Option<(String, Oid)> {
    let opened = lines.iter().find_map(|line| match &line.entry {
        Entry::WorkspaceOpened { branches, .. } => Some(branches),
        _ => None,
    });
    let (name, tip) = opened?.first_key_value()?;
    let tip = tip.parse().ok().filter(|tip| workspace.has(*tip))?;
    Some((name.clone(), tip))
}

/// Why a run of `learn` cannot be replayed.
pub(super) fn without_tools(path: &Path) -> Failure {
    Failure::usage(format!(
        "`{}` cannot be replayed: a run of `learn` calls no tools",
        path.display()
    ))
    .hint("`patchwright watch` shows what the model was asked and said")
}
