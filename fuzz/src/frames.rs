//! What a guest writes to its host: frames, and the JSON in them.

use patchwright_guest::protocol::{Answer, Hello, Request, read_frame, write_frame};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Checks all of it for one input.
pub fn check(data: &[u8]) {
    let mut rest = data;
    let mut written = Vec::new();
    while let Ok(Some(frame)) = read_frame(&mut rest) {
        write_frame(&mut written, frame.kind, frame.call, &frame.body).expect("it has been read");
        json::<Answer>(&frame.body);
        json::<Hello>(&frame.body);
        json::<Request>(&frame.body);
        assert_eq!(written, data[..written.len()], "another frame than was read");
    }
    assert!(written.len() + rest.len() <= data.len(), "bytes from nowhere");
}

/// What was read is the same after it was written and read.
fn json<T: DeserializeOwned + Serialize>(body: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(body) else { return };
    let once = serde_json::to_vec(&value).expect("it was JSON");
    let again: T = serde_json::from_slice(&once).expect("it was written by us");
    assert_eq!(serde_json::to_vec(&again).expect("it was JSON"), once);
}
