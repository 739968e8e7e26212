//! Journals of runs. What is read is read again in the same way when it has been written, and a run's state
//! can be put together from it.

use std::path::Path;

use patchwright_agent::state::State;
use patchwright_journal::{Line, parse};

/// Checks all of it for one input.
pub fn check(data: &[u8]) {
    let place = Path::new("journal.jsonl");
    let Ok((lines, length)) = parse(data, place) else { return };
    let length = usize::try_from(length).expect("a length in memory");
    assert!(length <= data.len(), "more than there is");
    let kept = parse(&data[..length], place).expect("what was kept is whole");
    assert_eq!(kept, (lines.clone(), length as u64), "without the torn line");
    let mut written = Vec::new();
    for line in &lines {
        written.extend(serde_json::to_vec(line).expect("it was JSON"));
        written.push(b'\n');
    }
    let again = parse(&written, place).expect("what was written is whole");
    assert_eq!(texts(&again.0), texts(&lines), "written and read again");
    let mut state = State::default();
    for line in &lines {
        state.apply(&line.entry);
    }
    let _ = (state.total(), state.pending());
}

fn texts(lines: &[Line]) -> String {
    serde_json::to_string(lines).expect("it was JSON")
}
