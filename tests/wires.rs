//! The wires, without a network: streams to replies.
//!
//! `fixtures/streams/<wire>/NAME.sse` decodes to `NAME.json`; `UPDATE=1` rewrites the expectations.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};

use patchwright_provider::item::Wire;
use patchwright_provider::sse;
use patchwright_provider::wire::fault::{Fault, FaultKind};
use patchwright_provider::wire::{self, Stream};
use patchwright_provider::{Progress, Reply};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What a stream came to: everything that a caller can see of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) outcome: Result<Reply, Fault>,
    text: String,
}

pub(crate) fn decode(wire: Wire, chunks: &[&[u8]]) -> Seen {
    let text = Mutex::new(String::new());
    let progress = |progress: Progress<'_>| {
        if let Progress::Text(piece) = progress {
            text.lock().push_str(piece);
        }
    };
    let run = || {
        let mut stream = Stream::new(wire);
        for chunk in chunks {
            stream.push(chunk, &progress)?;
        }
        stream.finish(&progress)
    };
    let outcome = run();
    Seen { outcome, text: text.into_inner() }
}

const WIRES: &[Wire] = wire::ALL;

/// Every stream of every wire.
fn all() -> Vec<(Wire, PathBuf)> {
    WIRES.iter().flat_map(|wire| fixtures(*wire).into_iter().map(|path| (*wire, path))).collect()
}

pub(crate) fn fixtures(wire: Wire) -> Vec<PathBuf> {
    let streams = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/streams");
    let folder = streams.join(wire::word(wire));
    let mut files: Vec<PathBuf> = fs_err::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "sse"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

pub(crate) fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn as_json(seen: &Seen) -> Value {
    match &seen.outcome {
        Ok(reply) => json!({"reply": reply, "text": seen.text}),
        Err(fault) => {
            let mut seen = json!({
                "fault": format!("{:?}", fault.kind),
                "message": fault.message,
                "wait_ms": fault.wait.map(|wait| wait.as_millis()),
                "may_pass": fault.may_pass(),
            });
            if let Some(usage) = fault.usage {
                seen["usage"] = json!(usage);
            }
            seen
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the switch of a test run")]
fn update() -> bool {
    std::env::var_os("UPDATE").is_some()
}

#[test]
fn wires_streams_decode_to_what_is_expected() {
    let mut wrong = Vec::new();
    for (wire, path) in all() {
        let bytes = fs_err::read(&path).unwrap();
        let seen = as_json(&decode(wire, &[&bytes]));
        let expected_path = path.with_extension("json");
        if update() {
            fs_err::write(&expected_path, format!("{seen:#}\n")).unwrap();
        }
        let expected = fs_err::read_to_string(&expected_path).unwrap_or_default();
        if expected != format!("{seen:#}\n") {
            wrong.push(format!("{}: {seen:#}", name(&path)));
        }
        // The names say which of the two it is.
        assert_eq!(
            name(&path).starts_with("fault_"),
            seen.get("fault").is_some(),
            "{}",
            name(&path)
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wires_streams_of_single_bytes_decode_alike() {
    for (wire, path) in all() {
        let bytes = fs_err::read(&path).unwrap();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let whole = decode(wire, &[&bytes]);
        assert_eq!(decode(wire, &single), whole, "{}", name(&path));
    }
}

#[test]
fn wires_streams_that_break_off_are_cut_or_whole() {
    for (wire, path) in all() {
        let bytes = fs_err::read(&path).unwrap();
        let whole = decode(wire, &[&bytes]).outcome;
        // Where lines begin and end, and in the middle of them.
        let is_at_a_line =
            |end: usize| bytes[end.saturating_sub(2)..(end + 2).min(bytes.len())].contains(&b'\n');
        for end in (0..bytes.len()).filter(|end| end.is_multiple_of(7) || is_at_a_line(*end)) {
            let mut outcome = decode(wire, &[&bytes[..end]]).outcome;
            // On Chat and Gemini the token count comes last, and a reply does not depend on it.
            if matches!(wire, Wire::Chat | Wire::Gemini)
                && let (Ok(reply), Ok(whole)) = (&mut outcome, &whole)
            {
                reply.usage = whole.usage;
            }
            let is_cut = matches!(&outcome, Err(fault) if fault.kind == FaultKind::Cut);
            assert!(is_cut || outcome == whole, "{} at byte {end}: {outcome:?}", name(&path));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn wires_streams_decode_alike_however_they_are_cut(
        pick in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let files = all();
        let (wire, path) = pick.get(&files).clone();
        let bytes = fs_err::read(path).unwrap();
        prop_assume!(!bytes.is_empty());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(decode(wire, &chunks), decode(wire, &[&bytes]));
    }

    #[test]
    fn wires_streams_of_noise_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for wire in WIRES {
            prop_assert!(decode(*wire, &[&bytes]).outcome.is_err());
        }
    }

    #[test]
    fn wires_streams_with_damage_never_panic(
        pick in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let files = all();
        let (wire, path) = pick.get(&files).clone();
        let mut bytes = fs_err::read(path).unwrap();
        prop_assume!(!bytes.is_empty());
        for (place, byte) in damage {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = decode(wire, &[&bytes]);
    }
}

#[test]
fn wires_sse_follows_the_standard() {
    let event =
        |name: &str, data: &str| sse::Event { name: name.to_owned(), data: data.to_owned() };
    let cases: Vec<(&str, Vec<sse::Event>)> = vec![
        ("data: a\n\n", vec![event("", "a")]),
        ("data:a\r\rdata:b\r\n\r\n", vec![event("", "a"), event("", "b")]),
        ("data: a\ndata:  b\ndata\n\n", vec![event("", "a\n b\n")]),
        ("event: x\n\ndata: a\n\n", vec![event("", "a")]),
        ("event: x\ndata: a\n\n", vec![event("x", "a")]),
        ("data\n\n", vec![]),
        (": c\n:c\nid: 1\nretry: 2\nfoo: bar\n\n", vec![]),
        ("\u{feff}data: a\n\n\u{feff}data: b\n\n", vec![event("", "a")]),
        ("data: a\u{2028}b\u{85}c\n\n", vec![event("", "a\u{2028}b\u{85}c")]),
        ("data: a\n\ndata: end", vec![event("", "a"), event("", "end")]),
        ("data: a\n\ndata: end\n", vec![event("", "a"), event("", "end")]),
        ("", vec![]),
    ];
    for (text, expected) in cases {
        for size in 1..=text.len().max(1) {
            let mut parser = sse::Parser::default();
            let mut events = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                parser.push(chunk, &mut events).unwrap();
            }
            events.extend(parser.finish().unwrap());
            assert_eq!(events, expected, "{text:?} in pieces of {size}");
        }
    }
}

#[test]
fn wires_sse_bounds_lines_and_events() {
    for text in ["data: 0123456789", "data: 01234\ndata: 56789\n", ": 01234567890123456789"] {
        let mut parser = sse::Parser::with_limit(12);
        let pushed = text.bytes().try_for_each(|byte| parser.push(&[byte], &mut Vec::new()));
        assert_eq!(pushed, Err(sse::TooLarge), "{text:?}");
    }
}
