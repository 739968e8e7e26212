//! What a checkpoint of the workspace does not have, because it can be part of no change. A run that is resumed names it
//! at its end like one that was not interrupted.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Most entries of each list: every checkpoint has them.
const MOST: usize = 200;

/// What was in the workspace and is in no checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRecorded {
    /// Files that no change can have: path and reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, String>,
    /// Files that edit tools wrote and ignore rules hide.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ignored: BTreeSet<String>,
}

impl NotRecorded {
    /// Nothing was left.
    pub fn is_empty(&self) -> bool {
        self.refused.is_empty() && self.ignored.is_empty()
    }

    /// Both, as far as a journal keeps them.
    #[must_use]
    pub fn with(&self, more: NotRecorded) -> NotRecorded {
        let mut all = self.clone();
        all.refused.extend(more.refused);
        all.ignored.extend(more.ignored);
        while all.refused.len() > MOST {
            all.refused.pop_last();
        }
        while all.ignored.len() > MOST {
            all.ignored.pop_last();
        }
        all
    }

    /// Without what is said of this path.
    pub fn forget(&mut self, path: &str) {
        self.refused.remove(path);
        self.ignored.remove(path);
    }
}
