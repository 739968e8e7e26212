//! The leak oracle: random canaries, and a search for any twelve characters of one in anything that
//! left the process, however it was written. It knows nothing of the redactor and shares no code with
//! it, so that the two cannot be blind to the same thing.

#![allow(clippy::format_collect, reason = "short texts")]

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::git_repo;

/// Characters of a canary that must not be seen together.
const WINDOW: usize = 12;
const LENGTH: usize = 40;

/// Values that must not get out, by name.
pub(crate) struct Oracle {
    canaries: BTreeMap<&'static str, String>,
    letters: Needles,
    hex: Needles,
    base64: Needles,
}

impl Oracle {
    /// A fresh canary of forty characters for each name.
    pub(crate) fn new(names: &[&'static str]) -> Oracle {
        let canaries: BTreeMap<_, _> = names.iter().map(|name| (*name, random())).collect();
        let (mut letters, mut hex, mut base64) =
            (Needles::new(WINDOW), Needles::new(2 * WINDOW), Needles::new(15));
        for (name, value) in &canaries {
            letters.learn(name, "plain", value.as_bytes());
            letters.learn(name, "reversed", reversed(value).as_bytes());
            letters.learn(name, "rot13", rot13(value).as_bytes());
            hex.learn(name, "hex", hex_of(value).as_bytes());
            for phase in 0..3 {
                let shifted = format!("{}{value}", "\0".repeat(phase));
                let written = STANDARD_NO_PAD.encode(shifted);
                // Characters at the edges also depend on the neighbours.
                let (start, end) = ((8 * phase).div_ceil(6), 8 * (phase + LENGTH) / 6);
                let written = &written[start..end];
                base64.learn(name, "base64", written.as_bytes());
                let url_safe = written.replace('+', "-").replace('/', "_");
                base64.learn(name, "base64", url_safe.as_bytes());
            }
        }
        Oracle { canaries, letters, hex, base64 }
    }

    /// The value of a canary.
    pub(crate) fn value(&self, name: &str) -> &str {
        &self.canaries[name]
    }

    /// Where parts of canaries stand in `bytes`: `name as encoding`, each once.
    pub(crate) fn search(&self, bytes: &[u8]) -> Vec<String> {
        let text = without_escapes(bytes);
        let pick = |keep: &dyn Fn(u8) -> bool| -> Vec<u8> {
            text.iter().copied().filter(|byte| keep(*byte)).collect()
        };
        let letters = pick(&|byte| byte.is_ascii_alphanumeric());
        let digits = pick(&|byte| byte.is_ascii_hexdigit()).to_ascii_lowercase();
        let base64 = pick(&|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte));
        // In a diff each line begins with a plus, which is also a character of the alphabet.
        let in_diff = String::from_utf8_lossy(&text).replace("\n+", "\n");
        let in_diff: Vec<u8> = in_diff
            .bytes()
            .filter(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte))
            .collect();
        let mut found = self.letters.find(&letters);
        found.extend(self.hex.find(&digits));
        found.extend(self.base64.find(&base64));
        found.extend(self.base64.find(&in_diff));
        found.sort();
        found.dedup();
        found
    }

    /// What it finds in every file below a folder; in git repositories as git shows them.
    pub(crate) fn search_folder(&self, folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in walk(folder) {
            let name = entry.display().to_string();
            if entry.join("objects").is_dir() && entry.join("HEAD").is_file() {
                let objects = git_repo::git_bytes(
                    &entry,
                    &["cat-file", "--batch-all-objects", "--unordered", "--batch"],
                );
                found.extend(self.search(&objects).into_iter().map(|hit| format!("{name}: {hit}")));
            }
            if entry.is_file() && !entry.is_symlink() {
                let bytes = fs_err::read(&entry).unwrap();
                if bytes.starts_with(b"\x7fELF") {
                    // The guest's own program.
                    continue;
                }
                found.extend(self.search(&bytes).into_iter().map(|hit| format!("{name}: {hit}")));
            }
            found
                .extend(self.search(name.as_bytes()).into_iter().map(|hit| format!("name: {hit}")));
        }
        found
    }
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut all = vec![folder.to_owned()];
    let mut next = 0;
    while next < all.len() {
        let entry = all[next].clone();
        next += 1;
        if entry.is_dir() && !entry.is_symlink() {
            all.extend(fs_err::read_dir(&entry).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    all
}

/// `\n` and the like as two characters, which text in JSON has.
fn without_escapes(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\\' && bytes.get(at + 1).is_some_and(|next| b"nrt".contains(next)) {
            out.push(b'\n');
            at += 2;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

/// Windows of one length, with what they are.
struct Needles {
    length: usize,
    known: std::collections::HashMap<Vec<u8>, String>,
    /// Beginnings of two bytes.
    begins: Vec<bool>,
}

impl Needles {
    fn new(length: usize) -> Needles {
        Needles { length, known: std::collections::HashMap::new(), begins: vec![false; 1 << 16] }
    }

    fn learn(&mut self, name: &str, encoding: &str, written: &[u8]) {
        for window in written.windows(self.length) {
            self.begins[usize::from(window[0]) << 8 | usize::from(window[1])] = true;
            self.known.insert(window.to_vec(), format!("{name} as {encoding}"));
        }
    }

    fn find(&self, text: &[u8]) -> Vec<String> {
        text.windows(self.length)
            .filter(|window| self.begins[usize::from(window[0]) << 8 | usize::from(window[1])])
            .filter_map(|window| self.known.get(window).cloned())
            .collect()
    }
}

fn random() -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let letter = || char::from(LETTERS[rand::random::<u32>() as usize % LETTERS.len()]);
    std::iter::repeat_with(letter).take(LENGTH).collect()
}

pub(crate) fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

pub(crate) fn rot13(text: &str) -> String {
    let turn = |byte: u8, first: u8| (byte - first + 13) % 26 + first;
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' => char::from(turn(byte, b'a')),
            b'A'..=b'Z' => char::from(turn(byte, b'A')),
            other => char::from(other),
        })
        .collect()
}

pub(crate) fn hex_of(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// A text as people hide one: each way with its name.
pub(crate) fn disguises(text: &str) -> Vec<(&'static str, String)> {
    let spread = |separator: &str| text.split("").collect::<Vec<_>>().join(separator);
    let base64 = |before: &str| STANDARD_NO_PAD.encode(format!("{before}{text} tail"));
    vec![
        ("plain", text.to_owned()),
        ("reversed", reversed(text)),
        ("base64", base64("")),
        ("base64, second phase", base64("x")),
        ("base64, third phase", base64("xy")),
        (
            "base64, in lines",
            base64("")
                .as_bytes()
                .chunks(11)
                .fold(String::new(), |out, chunk| out + &String::from_utf8_lossy(chunk) + "\n"),
        ),
        ("hex", hex_of(text)),
        ("upper hex", hex_of(text).to_uppercase()),
        ("url", text.bytes().map(|byte| format!("%{byte:02X}")).collect()),
        ("rot13", rot13(text)),
        ("one character per line", spread("\n")),
    ]
}

#[test]
fn the_oracle_finds_twelve_characters_in_every_disguise_and_not_eleven() {
    let oracle = Oracle::new(&["token", "key"]);
    let token = oracle.value("token").to_owned();
    for (name, written) in disguises(&token) {
        for around in [written.clone(), format!("{{\"a\":\"{}\"}}", written.replace('\n', "\\n"))] {
            assert!(!oracle.search(around.as_bytes()).is_empty(), "{name} is not found");
        }
    }
    let part = &token[10..22];
    for (name, written) in disguises(part) {
        let in_diff = format!("+{}\n", written.replace('\n', "\n+"));
        assert!(!oracle.search(in_diff.as_bytes()).is_empty(), "{name} in a diff is not found");
    }
    assert_eq!(oracle.search(&token.as_bytes()[3..14]), Vec::<String>::new());
    assert_eq!(oracle.search(include_bytes!("leaks.rs")), Vec::<String>::new());
}

#[test]
fn the_oracle_reads_repositories_and_files() {
    let oracle = Oracle::new(&["token"]);
    let folder = tempfile::tempdir().unwrap();
    fs_err::create_dir(folder.path().join("deep")).unwrap();
    git_repo::git(folder.path(), &["init", "-q", "--bare", "a.git"]);
    let bare = folder.path().join("a.git");
    git_repo::commit(&bare, "main", "One", 1, &[git_repo::file("a", "clean")]);
    assert_eq!(oracle.search_folder(folder.path()), Vec::<String>::new());
    let content = hex_of(oracle.value("token"));
    git_repo::commit(&bare, "side", "Two", 2, &[git_repo::file("b", content)]);
    git_repo::git(&bare, &["gc", "-q", "--prune=now"]);
    fs_err::write(folder.path().join("deep/c"), oracle.value("token")).unwrap();
    let found = oracle.search_folder(folder.path());
    assert!(found.iter().any(|hit| hit.ends_with("a.git: token as hex")), "{found:?}");
    assert!(found.iter().any(|hit| hit.ends_with("deep/c: token as plain")), "{found:?}");
}
