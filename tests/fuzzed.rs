//! What the fuzz targets check, on their seeds and on damaged copies of them, for a bounded time. `fuzz/run`
//! goes on from there with coverage.
#![expect(clippy::disallowed_methods, reason = "reads the seeds, and asks git for a commit")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[path = "../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "it is a crate of its own, too")]
mod parsers;

use self::parsers::{Check, TARGETS};

/// How long one target may take beyond its seeds.
const PATIENCE: Duration = Duration::from_secs(2);

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound.max(1) as u64).unwrap()
    }
}

/// Cut off, a byte changed, a piece left out, a piece of another one put in.
fn damaged(seed: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut data = seed.to_vec();
    for _ in 0..=dice.below(3) {
        let place = dice.below(data.len() + 1);
        let length = dice.below(data.len() - place + 1).min(64);
        match dice.below(4) {
            0 => data.truncate(place),
            1 if place < data.len() => data[place] = u8::try_from(dice.below(256)).unwrap(),
            2 => drop(data.drain(place..place + length)),
            _ => {
                let from = dice.below(other.len());
                let piece = &other[from..(from + 1 + dice.below(64)).min(other.len())];
                data.splice(place..place, piece.iter().copied());
            }
        }
    }
    data
}

#[track_caller]
fn holds(name: &str) {
    let (_, folder, check) = *TARGETS.iter().find(|(other, ..)| *other == name).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seeds: Vec<Vec<u8>> = files(&root.join(folder))
        .iter()
        .map(|path| fs_err::read(path).unwrap())
        .filter(|seed| seed.len() < 64 << 10)
        .collect();
    assert!(seeds.len() > 1, "{folder} has no seeds");
    for seed in &seeds {
        checked(check, seed);
    }
    let (mut dice, began) = (Dice(0x9e37_79b9_7f4a_7c15), Instant::now());
    while began.elapsed() < PATIENCE {
        let seed = &seeds[dice.below(seeds.len())];
        let other = &seeds[dice.below(seeds.len())];
        checked(check, &damaged(seed, other, &mut dice));
    }
}

/// The input is shown when something does not hold.
fn checked(check: Check, data: &[u8]) {
    let held = std::panic::catch_unwind(|| check(data));
    assert!(held.is_ok(), "the input was {:?}", String::from_utf8_lossy(data));
}

#[test]
fn fuzzed_every_target_is_a_test_and_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tested = fs_err::read_to_string(root.join("tests/fuzzed.rs")).unwrap();
    let manifest = fs_err::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
    for (name, ..) in TARGETS {
        assert!(tested.contains(&format!("fuzzed_{name} = \"{name}\"")), "{name} is not tested");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not built");
        assert!(root.join(format!("fuzz/targets/{name}.rs")).is_file(), "{name} has no program");
    }
}

macro_rules! holds {
    ($($test:ident = $name:literal),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                holds($name);
            }
        )*
    };
}

holds! {
    fuzzed_responses = "responses", fuzzed_chat = "chat",
    fuzzed_messages = "messages", fuzzed_gemini = "gemini",
    fuzzed_patches = "patches", fuzzed_edits = "edits",
    fuzzed_events = "events", fuzzed_journals = "journals",
    fuzzed_hand_overs = "hand_overs", fuzzed_frames = "frames",
    fuzzed_tars = "tars", fuzzed_packs = "packs",
    fuzzed_hello = "hello",
}

/// What the seeds are for is reached with them: a check that refuses everything would hold, too.
#[test]
fn fuzzed_seeds_are_taken() {
    use patchwright_guest::protocol::read_frame;

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    let seed = |name: &str| fs_err::read(root.join(name)).unwrap();
    let lines = patchwright_journal::parse(&seed("journals/run"), Path::new("run")).unwrap().0;
    assert!(lines.len() > 10, "{} lines", lines.len());
    let handed: patchwright_task::review::hand_over::HandOver =
        serde_json::from_slice(&seed("hand_overs/review")).unwrap();
    assert_eq!(handed.reviewed.findings.len(), 2);
    let answers = seed("frames/answers");
    let mut rest = answers.as_slice();
    let mut frames = 0;
    while let Ok(Some(frame)) = read_frame(&mut rest) {
        if frame.kind == patchwright_guest::protocol::FrameKind::Response {
            let answer: patchwright_guest::protocol::Answer =
                serde_json::from_slice(&frame.body).unwrap();
            assert!(answer.is_ok());
        }
        frames += 1;
    }
    assert_eq!((frames, rest.len()), (6, 0));
    let limits = patchwright_sandbox::client::CollectLimits::default();
    assert_eq!(
        patchwright_sandbox::collected::parse(seed("tars/files").as_slice(), limits).unwrap().len(),
        3
    );
    let limits = patchwright_sandbox::client::CollectLimits::default();
    assert_eq!(
        patchwright_sandbox::collected::parse(seed("tars/long").as_slice(), limits).unwrap().len(),
        1
    );
    let mut reader = patchwright_sandbox::egress::hello::Reader::default();
    let name = Some("docs.rs".to_owned());
    assert_eq!(
        reader.push(&seed("hello/docs")),
        patchwright_sandbox::egress::hello::Opening::Hello(name)
    );
    assert!(
        parsers::packs::is_taken(&seed("packs/change"))
            && !parsers::packs::is_taken(&seed("packs/more"))
    );
}
