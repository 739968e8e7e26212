//! The run's `journal.jsonl`: every item and every side effect, appended and flushed before the next
//! step. Resume, replay, reports, cost and evidence are views of it.
//!
//! One JSON object a line: `{"seq":…,"at":…,"is":…,…}`. A torn last line (power cut) is dropped on
//! reading. The file is created with mode 0600.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::provider::Reply;
use crate::provider::item::{CallOutput, Item};
use crate::task::Task;
use crate::task::outcome::Outcome;
use crate::task::plan::Plan;
use crate::verify::CheckRun;

/// One line of the journal, without its sequence number and time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Entry {
    /// First line.
    RunStarted {
        run: String,
        version: String,
        task: Task,
        /// The resolved configuration without secrets, for replay and for comparing on resume.
        config: Value,
    },
    /// The base commit, its branch, and the image were pinned.
    WorkspaceOpened {
        base: String,
        branch: String,
        image: String,
    },
    /// Instructions and declared tools: what the first request is made of besides items.
    Prompted {
        instructions: String,
        tools: Value,
        items: Vec<Item>,
    },
    /// A reply arrived completely.
    Replied {
        turn: u32,
        reply: Reply,
        cost_usd: f64,
    },
    /// A call is about to run.
    CallStarted {
        turn: u32,
        id: String,
        name: String,
        writes: bool,
    },
    /// A call has run.
    CallEnded {
        turn: u32,
        output: CallOutput,
        duration_ms: u64,
    },
    /// Items added by the harness (nudges, check failures, compaction).
    Added {
        items: Vec<Item>,
    },
    PlanUpdated {
        plan: Plan,
    },
    /// A check ran; `when` is `base`, `loop` or `head`.
    Checked {
        when: String,
        run: CheckRun,
    },
    /// The agent stopped.
    Stopped {
        reason: String,
        final_message: String,
    },
    /// What was collected: the tree id and the path of the stored change.
    Collected {
        tree: String,
        files: usize,
    },
    /// A write to the forge is about to happen: `push`, `pull_request`, `comment`, …
    EffectIntended {
        effect: String,
        key: String,
        detail: Value,
    },
    /// It happened; `detail` has ids and links.
    EffectDone {
        effect: String,
        key: String,
        detail: Value,
    },
    /// Last line of a run that came to an end.
    RunEnded {
        outcome: Box<Outcome>,
    },
    /// Something worth keeping that nothing depends on.
    Note {
        text: String,
    },
}
