//! The sessions of a guest, by number; what each of them does is in [`super::session`].

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::session::{Session, lock};
use crate::tool::ToolError;

/// Most sessions at a time.
pub const MAX_SESSIONS: usize = 64;

/// The sessions of a guest, by number.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    last: u32,
    /// Commands whose first call has not ended.
    starting: usize,
    open: BTreeMap<u32, Arc<Session>>,
}

/// Held while a command may become a session.
pub(super) struct Seat<'a>(&'a Sessions);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        lock(&self.0.0).starting -= 1;
    }
}

impl Sessions {
    /// The number of the command that is about to start, and a seat until it is a session or has ended.
    /// When there are too many sessions, the oldest one that has ended makes room.
    pub(super) fn number(&self) -> Result<(u32, Seat<'_>), ToolError> {
        let mut table = lock(&self.0);
        if table.open.len() + table.starting >= MAX_SESSIONS {
            let ended = table.open.iter().find(|(_, session)| session.is_over());
            let Some(ended) = ended.map(|(number, _)| *number) else {
                return Err(ToolError::tell(format!(
                    "the command was not run: {MAX_SESSIONS} sessions are running, and that is all there \
                     can be. End one that is no longer needed (`write_stdin` with Ctrl-C, \\u0003, as \
                     `chars`), then try again. {}",
                    table.listed()
                )));
            };
            table.open.remove(&ended);
        }
        table.last += 1;
        table.starting += 1;
        Ok((table.last, Seat(self)))
    }

    pub(super) fn add(&self, number: u32, session: Arc<Session>) {
        lock(&self.0).open.insert(number, session);
    }

    pub(super) fn forget(&self, number: u32) {
        lock(&self.0).open.remove(&number);
    }

    pub(super) fn find(&self, number: u32) -> Result<Arc<Session>, ToolError> {
        let table = lock(&self.0);
        if let Some(session) = table.open.get(&number) {
            return Ok(Arc::clone(session));
        }
        let why = if (1..=table.last).contains(&number) { "has ended" } else { "does not exist" };
        Err(ToolError::tell(format!("session {number} {why}. {}", table.listed())))
    }

    /// Number and command of each that still runs.
    pub(super) fn running(&self) -> Vec<String> {
        let table = lock(&self.0);
        let running = table.open.iter().filter(|(_, session)| !session.is_over());
        running.map(|(number, session)| format!("{number}: {}", session.label)).collect()
    }

    /// Ends every command; nobody can ask for one any more.
    pub(super) fn cut_all(&self) -> Vec<Arc<Session>> {
        let sessions: Vec<_> = std::mem::take(&mut lock(&self.0).open).into_values().collect();
        for session in &sessions {
            session.cut();
        }
        sessions
    }
}

impl Table {
    /// For the model.
    fn listed(&self) -> String {
        if self.open.is_empty() {
            return "There are no sessions; `exec_command` starts one.".to_owned();
        }
        let line = |(number, session): (&u32, &Arc<Session>)| {
            let ended = if session.is_over() { " (ended)" } else { "" };
            format!("\n- {number}{ended}: {}", session.label)
        };
        format!("The sessions are:{}", self.open.iter().map(line).collect::<String>())
    }
}
