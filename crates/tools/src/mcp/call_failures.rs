//! The calls of one server that came to nothing: no answer, or none of the protocol. A refusal by the server is an answer.

use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(super) struct CallFailures(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    count: u32,
    /// Why the last of them failed, in our words.
    last: String,
}

impl CallFailures {
    pub(super) fn note(&self, why: &str) {
        let mut noted = self.0.lock();
        noted.count += 1;
        why.clone_into(&mut noted.last);
    }

    /// How many and why, as the end of a sentence about the calls; empty when there are none.
    pub(super) fn words(&self) -> String {
        let Noted { count, last } = &*self.0.lock();
        match count {
            0 => String::new(),
            1 => format!("; one call failed: {last}"),
            count => format!("; {count} calls failed, the last: {last}"),
        }
    }
}
