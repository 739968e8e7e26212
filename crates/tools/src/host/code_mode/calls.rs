//! The calls that a script asks for: those that wait for their turn and those that run, bounded in number
//! and in bytes. Pure.

use std::collections::VecDeque;

use serde_json::Value;

use patchwright_guest::script::lines::MAX_VALUE;
use patchwright_guest::tool::ToolError;

/// Calls of one script that run at the same time, and that wait.
const MAX_AT_ONCE: usize = 16;
const MAX_QUEUED: usize = 1024;

/// Bytes of one call. Arguments may be written a little longer here than the script wrote them.
const MAX_CALL: usize = MAX_VALUE + (4 << 10);

/// Bytes of all calls that wait or run.
const MAX_BYTES: usize = 8 << 20;

/// Bytes of results that the script has not taken; no more calls begin beyond it.
const MAX_PENDING: usize = 8 << 20;

/// A call that a script asks for.
pub(crate) struct ScriptCall {
    pub id: u64,
    pub name: String,
    /// JSON. It becomes a value when the call runs: as a text it takes far less memory.
    pub args: String,
}

impl ScriptCall {
    /// The bytes that it counts for.
    pub(crate) fn size(&self) -> usize {
        self.name.len() + self.args.len()
    }

    /// Its arguments.
    ///
    /// # Errors
    /// For the script: they are no JSON that is read here.
    pub(crate) fn value(&self) -> Result<Value, ToolError> {
        serde_json::from_str(&self.args)
            .map_err(|err| ToolError::tell(format!("the arguments cannot be read: {err}")))
    }
}

/// The calls of one script.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: VecDeque<ScriptCall>,
    /// Bytes of the calls that wait and of those that run.
    bytes: usize,
}

impl Queue {
    /// Lets a call wait for its turn.
    ///
    /// # Errors
    /// For the script: why it cannot be made.
    pub(crate) fn push(&mut self, wanted: ScriptCall) -> Result<(), String> {
        let size = wanted.size();
        if size > MAX_CALL {
            return Err(format!(
                "a call has a name and arguments of at most {MAX_VALUE} bytes; these have {size}"
            ));
        }
        if self.waiting.len() >= MAX_QUEUED || self.bytes + size > MAX_BYTES {
            return Err("too many calls at the same time".to_owned());
        }
        self.bytes += size;
        self.waiting.push_back(wanted);
        Ok(())
    }

    /// The next call, when it may begin besides those that run and with so many bytes of results that the
    /// script has not taken. Its end has to be told with [`ended`](Queue::ended).
    pub(crate) fn begin(&mut self, running: usize, pending: usize) -> Option<ScriptCall> {
        if running >= MAX_AT_ONCE || pending >= MAX_PENDING {
            return None;
        }
        self.waiting.pop_front()
    }

    /// A call waits for nothing but the script, which has to take results first.
    pub(crate) fn is_held_up(&self, running: usize) -> bool {
        running < MAX_AT_ONCE && !self.waiting.is_empty()
    }

    /// A call of this size has come to its end.
    pub(crate) fn ended(&mut self, size: usize) {
        self.bytes = self.bytes.saturating_sub(size);
    }
}

#[cfg(test)]
mod tests {
    use crate::host::code_mode::calls::*;

    fn wanted(bytes: usize) -> ScriptCall {
        ScriptCall { id: 1, name: "n".to_owned(), args: "x".repeat(bytes) }
    }

    #[test]
    fn a_call_that_is_too_large_is_refused() {
        let mut queue = Queue::default();
        queue.push(wanted(MAX_VALUE)).unwrap();
        let why = queue.push(wanted(MAX_CALL)).unwrap_err();
        assert!(why.contains("at most 1048576 bytes"), "{why}");
    }

    #[test]
    fn bytes_count_until_a_call_has_ended() {
        let mut queue = Queue::default();
        for _ in 0..7 {
            queue.push(wanted(MAX_VALUE)).unwrap();
        }
        queue.push(wanted(MAX_VALUE)).unwrap_err();
        let begun = queue.begin(0, 0).unwrap();
        queue.push(wanted(MAX_VALUE)).unwrap_err();
        queue.ended(begun.size());
        queue.push(wanted(MAX_VALUE)).unwrap();
    }

    #[test]
    fn so_many_wait_and_so_many_run() {
        let mut queue = Queue::default();
        for _ in 0..MAX_QUEUED {
            queue.push(wanted(1)).unwrap();
        }
        queue.push(wanted(1)).unwrap_err();
        assert!(queue.begin(MAX_AT_ONCE, 0).is_none() && !queue.is_held_up(MAX_AT_ONCE));
        assert!(queue.begin(0, MAX_PENDING).is_none() && queue.is_held_up(0));
        assert!(queue.begin(MAX_AT_ONCE - 1, MAX_PENDING - 1).is_some());
    }

    #[test]
    fn arguments_that_cannot_be_read_are_told() {
        let deep = ScriptCall { args: "[".repeat(500) + &"]".repeat(500), ..wanted(0) };
        assert!(deep.value().unwrap_err().to_string().contains("cannot be read"));
        assert_eq!(
            ScriptCall { args: "{}".to_owned(), ..wanted(0) }.value().unwrap(),
            serde_json::json!({})
        );
    }
}
