//! What must hold for any input of the parsers that read what others wrote: each function takes bytes from
//! anywhere and panics when something does not hold. The fuzz targets call them, and `tests/fuzzed.rs`
//! does on the seeds and on damaged copies of them.

pub mod edits;
pub mod events;
pub mod frames;
pub mod hand_overs;
pub mod hello;
pub mod journals;
pub mod packs;
pub mod patches;
pub mod streams;
pub mod tars;

use patchwright_provider::item::Wire;

/// A parser and what must hold of it.
pub type Check = fn(&[u8]);

/// Every target by its name, as `fuzz/run` takes it, with the folder of its seeds, from the root.
pub const TARGETS: &[(&str, &str, Check)] = &[
    ("responses", "tests/fixtures/streams/responses", |data| streams::check(Wire::Responses, data)),
    ("chat", "tests/fixtures/streams/chat", |data| streams::check(Wire::Chat, data)),
    ("messages", "tests/fixtures/streams/messages", |data| streams::check(Wire::Messages, data)),
    ("gemini", "tests/fixtures/streams/gemini", |data| streams::check(Wire::Gemini, data)),
    ("patches", "tests/fixtures/patches", patches::check),
    ("edits", "tests/fixtures/edit_formats", edits::check),
    ("events", "tests/fixtures/events", events::check),
    ("journals", "fuzz/seeds/journals", journals::check),
    ("hand_overs", "fuzz/seeds/hand_overs", hand_overs::check),
    ("frames", "fuzz/seeds/frames", frames::check),
    ("tars", "fuzz/seeds/tars", tars::check),
    ("packs", "fuzz/seeds/packs", packs::check),
    ("hello", "fuzz/seeds/hello", hello::check),
];
