//! Any text as Markdown of others: on its way out GitHub's own parser finds nothing in it that acts, and
//! on its way in nothing is left to clean.
#![no_main]

use std::sync::Mutex;

use libfuzzer_sys::fuzz_target;
use patchwright_report::markdown::passage;
use patchwright_task::context::hidden;

#[path = "../../tests/markdown/oracle.rs"]
mod oracle;

/// Inputs that one process of the judge gets at a time, with what became of them.
static WAITING: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
const TOGETHER: usize = 50;
const MOST: usize = 60_000;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let out = passage(text, MOST);
    assert!(out.len() <= MOST);
    let cleaned = hidden::clean(text);
    assert_eq!(hidden::clean(&cleaned.text).text, cleaned.text);
    let Ok(mut waiting) = WAITING.lock() else { return };
    waiting.push((text.to_owned(), out));
    if waiting.len() < TOGETHER {
        return;
    }
    let (inputs, outputs): (Vec<String>, Vec<String>) = waiting.drain(..).unzip();
    // The input that fails may be an earlier one than libFuzzer writes down.
    for (at, what) in oracle::judge(&outputs) {
        panic!("{what}\nfrom {:?}\nmade {:?}", inputs[at], outputs[at]);
    }
});
