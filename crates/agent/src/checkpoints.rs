//! What a journal says about checkpoints of the workspace: which there are, and which results are newer
//! than one of them. Pure; [`patchwright_tools::checkpoints`] says when they are made.

use std::collections::{BTreeMap, BTreeSet};

use patchwright_journal::{Entry, Line, NotRecorded};

/// A recorded checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint<'a> {
    /// The line of the journal.
    pub seq: u64,
    pub tree: &'a str,
    pub after: Option<&'a str>,
    /// The first one: the uploaded tree.
    pub is_first: bool,
    pub sessions: &'a [String],
    pub shell: bool,
    pub not_recorded: &'a NotRecorded,
}

/// A workspace that has been put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredWorkspace {
    /// The line of the journal that has the checkpoint.
    pub checkpoint: u64,
    pub tree: String,
    /// Where it was made, to go behind `as it was`: `after the call …`.
    pub place: String,
    /// What was running in sessions, as number and command.
    pub sessions: Vec<String>,
    /// There was a shell that outlives its commands.
    pub shell: bool,
    /// Paths that differ from the base.
    pub changed: Vec<String>,
    /// The sandbox is a new one because setup has run again, and not because the run was interrupted.
    pub has_new_setup: bool,
    /// How the sandbox differs from the one before the run was interrupted, in whole sentences.
    pub other_sandbox: Option<String>,
}

/// The checkpoints, latest first.
pub fn latest_first(recorded: &[Line]) -> Vec<Checkpoint<'_>> {
    let mut found: Vec<Checkpoint<'_>> = Vec::new();
    for line in recorded {
        let Entry::Checkpoint { tree, after, sessions, shell, not_recorded } = &line.entry else {
            continue;
        };
        found.push(Checkpoint {
            seq: line.seq,
            tree,
            after: after.as_deref(),
            is_first: found.is_empty(),
            sessions,
            shell: *shell,
            not_recorded,
        });
    }
    found.reverse();
    found
}

/// The checkpoint from which the workspace was put back last; `None` when it never was.
pub fn restored(recorded: &[Line]) -> Option<Checkpoint<'_>> {
    let seq = recorded.iter().rev().find_map(|line| match &line.entry {
        Entry::Restored { checkpoint, .. } => Some(*checkpoint),
        _ => None,
    })?;
    latest_first(recorded).into_iter().find(|checkpoint| checkpoint.seq == seq)
}

impl Checkpoint<'_> {
    /// To go behind `as it was`.
    pub fn place(&self) -> String {
        match self.after {
            Some(call) => format!("after the call `{call}`"),
            None if self.is_first => "at the beginning".to_owned(),
            None => "at the last look at it while a command ran".to_owned(),
        }
    }
}

/// Calls that may have changed the workspace and whose results were written down, although no checkpoint
/// from this one on has what they did; by agent, with the names of their tools.
pub fn lost(recorded: &[Line], checkpoint: u64) -> BTreeMap<Option<&str>, Vec<(&str, &str)>> {
    // Results before the last time that the workspace was put back were dealt with then.
    let restored = recorded.iter().rev().find_map(|line| match &line.entry {
        Entry::Restored { checkpoint: it, .. } if *it == checkpoint => Some(line.seq),
        _ => None,
    });
    let since = restored.unwrap_or(checkpoint);
    // What is unchanged is not recorded again: up to here the checkpoint has it all.
    let is_beyond = |line: &&Line| {
        line.seq > since
            && matches!(line.entry, Entry::Checkpoint { .. } | Entry::Unrecorded { .. })
    };
    let Some(from) = recorded.iter().find(is_beyond).map(|line| line.seq) else {
        return BTreeMap::new();
    };
    let mut writes = BTreeSet::new();
    let mut lost: BTreeMap<Option<&str>, Vec<(&str, &str)>> = BTreeMap::new();
    for line in recorded {
        let (agent, entry) = line.entry.of_agent();
        match entry {
            Entry::CallStarted { id, writes: true, .. } => {
                writes.insert((agent, id.as_str()));
            }
            Entry::CallEnded { output, .. }
                if line.seq > from && writes.contains(&(agent, output.id.as_str())) =>
            {
                lost.entry(agent).or_default().push((&output.id, &output.name));
            }
            _ => {}
        }
    }
    lost
}

/// A call that may change the workspace was begun.
pub fn has_begun_to_write(recorded: &[Line]) -> bool {
    recorded
        .iter()
        .any(|line| matches!(line.entry.of_agent().1, Entry::CallStarted { writes: true, .. }))
}
