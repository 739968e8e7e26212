//! How long the conversation is, and whether it has to be shortened.

use super::{OVERFLOWS, State};
use crate::compact;
use patchwright_provider::catalogue::Model;
use patchwright_provider::item::Item;
use patchwright_types::calls::CompactionTrigger;

impl State {
    /// The conversation has to be shortened before the next request. Never twice without a reply in
    /// between: what did not help once does not help again.
    pub fn is_too_long(&self, model: &Model) -> bool {
        let limit = self.limit(model);
        if self.compacted.is_some() || self.context < limit {
            return false;
        }
        // A long opening stays whatever is done: where little came after it, little can be gained.
        let behind = &self.history.items()[self.opening.min(self.history.items().len())..];
        let new = self.context.saturating_sub(self.stays()).max(compact::estimate(behind));
        new > compact::most_kept(limit)
    }

    /// Tokens that no shortening takes away: instructions, tools, and how the conversation began.
    fn stays(&self) -> u64 {
        let items = self.history.items();
        self.fixed + compact::estimate(&items[..self.opening.min(items.len())])
    }

    /// The provider has refused the conversation as too long, and shortening it once more would not
    /// help: it has just been shortened, or was again and again.
    pub fn compaction_exhausted(&self) -> bool {
        self.compacted == Some(CompactionTrigger::Overflow) || self.overflows >= OVERFLOWS
    }

    /// Tokens that a conversation may have. A refusal lowers it, but not so far that what stays in
    /// any case would be too much.
    pub fn limit(&self, model: &Model) -> u64 {
        let Some(refused) = self.refused_at else { return model.compact_at() };
        model.compact_at().min((refused / 10 * 8).max(self.stays() * 2))
    }

    /// Tokens of a request with this conversation, instructions and tools included, as estimated.
    pub fn size_with(&self, items: &[Item]) -> u64 {
        self.fixed + compact::estimate(items)
    }
}
