//! Tools of servers that change during a run: asked for again before the next turn, and declared anew.
//!
//! What is declared stands at the beginning of every request, so each change costs what a provider has cached of
//! the conversation. That is why a server is followed a bounded number of times, why any number of announcements
//! between two turns is one question, and why nothing is declared anew where the list comes out as it was.

use std::sync::Arc;

use parking_lot::Mutex;

use super::offers::Offers;
use crate::dynamic::DynamicTool;
use patchwright_base::error::Result;

/// Follows what the servers of a run offer.
pub struct ToolUpdates {
    /// The tools that only this run has, without the servers'.
    others: Vec<Arc<dyn DynamicTool>>,
    offers: tokio::sync::Mutex<Offers>,
    now: Mutex<ServerTools>,
}

#[derive(Default)]
struct ServerTools {
    /// The servers' tools since the last change; nothing before the first one.
    servers: Vec<Arc<dyn DynamicTool>>,
    changes: u32,
    notes: Vec<String>,
}

impl ToolUpdates {
    pub fn new(others: Vec<Arc<dyn DynamicTool>>, offers: Offers) -> ToolUpdates {
        ToolUpdates { others, offers: tokio::sync::Mutex::new(offers), now: Mutex::default() }
    }

    /// Asks the servers that say that their tools have changed; how many changes there were in the run.
    ///
    /// # Errors
    /// When a tool of ours cannot be declared, which is a defect.
    pub async fn look(&self) -> Result<u32> {
        let mut offers = self.offers.lock().await;
        let mut notes = Vec::new();
        let again = if offers.are_old() { offers.list_again(&mut notes).await? } else { None };
        let mut now = self.now.lock();
        now.notes.extend(notes);
        if let Some(servers) = again {
            now.servers = servers;
            now.changes += 1;
        }
        Ok(now.changes)
    }

    /// For the report, what has been noticed since it was asked last.
    pub fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.now.lock().notes)
    }

    /// All tools that only this run has, as they have been since the last change.
    pub fn extras(&self) -> Vec<Arc<dyn DynamicTool>> {
        self.others.iter().chain(&self.now.lock().servers).cloned().collect()
    }
}
