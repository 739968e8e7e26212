//! Who watches a journal while it is written.

use chrono::{DateTime, Utc};

use patchwright_types::task::Task;

use crate::Entry;

/// A line that has just been written.
#[derive(Clone, Copy, Debug)]
pub struct WrittenLine<'a> {
    pub at: DateTime<Utc>,
    /// The sub-agent that it is about; `None` for the run itself.
    pub agent: Option<&'a str>,
    /// As it was given: what the journal's own line has went through redaction, and this did not.
    pub entry: &'a Entry,
}

/// Sees each line of a journal in their order. It is called while the journal is locked, so it must neither block nor
/// write to the journal.
pub trait Observer: Send + Sync {
    fn wrote(&self, written: &WrittenLine<'_>);

    /// This process resumes a run whose first line another one wrote.
    fn resumes(&self, run: &str, task: &Task);
}
