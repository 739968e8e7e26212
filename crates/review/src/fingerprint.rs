//! What makes a finding the same one after a push: its file, the code it is about without white space
//! and signs, and its category; neither lines nor words of the model.

use sha2::{Digest, Sha256};

use super::code;
use super::finding::{Category, Finding};
use super::quote::QuoteVariant;

/// Lines of which a [`sketch`] consists at most.
const SKETCHED: usize = 8;
/// Lines that say too little to be sketched, bytes of their key.
const MIN_SKETCHED: usize = 4;
/// Hexadecimal digits of a line in a sketch: few enough to be remembered by the hundred, and enough that
/// a line of a long file is not taken for another.
const DIGITS: usize = 6;

/// 16 hexadecimal digits, from the finding alone: when its code is not in the diff.
pub fn of(finding: &Finding) -> String {
    digest(&finding.path, &quoted(&finding.quote).concat(), finding.category)
}

/// All fingerprints that count as this finding: by its own path first, then by the path that the file
/// had before.
pub fn fingerprints(finding: &Finding, old_path: Option<&str>) -> Vec<String> {
    let key = quoted(&finding.quote).concat();
    let paths = [Some(finding.path.as_str()), old_path];
    let mut all: Vec<String> = Vec::new();
    for path in paths.into_iter().flatten() {
        let one = digest(path, &key, finding.category);
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// The fingerprint of code that stands in the diff; of a renamed file with its old path, so that it
/// stays the same when the file is renamed later. The same code may stand there several times: `nth` is
/// 0 for the first of them.
pub(super) fn of_code(path: &str, code: &[&str], category: Category, nth: usize) -> String {
    let key = keys(code.iter().copied()).concat();
    if nth == 0 {
        digest(path, &key, category)
    } else {
        digest(path, &format!("{key}\0{nth}"), category)
    }
}

/// The fingerprint of another finding about the very same code.
pub(super) fn another(fingerprint: &str, nth: usize) -> String {
    short(format!("another\0{fingerprint}\0{nth}").as_bytes())
}

/// A short hash of each line that says something, for [`overlap`] and [`SketchIndex::times`].
pub(super) fn sketch<'a>(code: impl IntoIterator<Item = &'a str>) -> String {
    let keys = keys(code);
    let take_all = !keys.iter().any(|key| is_telling(key));
    let chosen = keys.iter().filter(|key| take_all || is_telling(key));
    chosen.take(SKETCHED).map(|key| hashed(key)).collect()
}

fn is_telling(key: &str) -> bool {
    key.len() >= MIN_SKETCHED && code::has_word(key)
}

fn hashed(key: &str) -> String {
    short(key.as_bytes())[..DIGITS].to_owned()
}

/// Lines, indexed for the search by sketch.
#[derive(Clone, Debug, Default)]
pub struct SketchIndex {
    /// Hashes of all lines that are not blank, and of those that say something.
    all: Vec<String>,
    telling: Vec<String>,
}

impl SketchIndex {
    pub fn new<'a>(lines: impl IntoIterator<Item = &'a str>) -> SketchIndex {
        let mut sketched = SketchIndex::default();
        for key in keys(lines) {
            let hash = hashed(&key);
            if is_telling(&key) {
                sketched.telling.push(hash.clone());
            }
            sketched.all.push(hash);
        }
        sketched
    }

    /// How often the code of a sketch stands in these lines, one line right after the other; lines that
    /// say nothing do not count. A sketch without code is nowhere.
    pub fn times(&self, sketch: &str) -> usize {
        let wanted = hashes(sketch);
        if wanted.is_empty() {
            return 0;
        }
        let times = |lines: &[String]| {
            lines.windows(wanted.len()).filter(|window| *window == wanted.as_slice()).count()
        };
        // Code of which no line says anything is sketched whole.
        times(&self.telling).max(times(&self.all))
    }
}

fn hashes(sketch: &str) -> Vec<&str> {
    let at = 0..sketch.len() / DIGITS;
    at.filter_map(|at| sketch.get(at * DIGITS..(at + 1) * DIGITS)).collect()
}

/// Where the code of a sketch stands in lines: its first and last line of each place, counted from 0, by the rules of
/// [`SketchIndex::times`].
pub fn places(lines: &[&str], sketch: &str) -> Vec<(usize, usize)> {
    let wanted = hashes(sketch);
    if wanted.is_empty() {
        return Vec::new();
    }
    let keys = lines.iter().map(|line| code::key(line)).enumerate();
    let all: Vec<(usize, String, bool)> = keys
        .filter(|(_, key)| !key.is_empty())
        .map(|(at, key)| (at, hashed(&key), is_telling(&key)))
        .collect();
    let telling = all.iter().filter(|(_, _, is_telling)| *is_telling).cloned().collect();
    let found = |lines: Vec<(usize, String, bool)>| -> Vec<(usize, usize)> {
        let fits = |window: &&[(usize, String, bool)]| {
            window.iter().map(|(_, hash, _)| hash.as_str()).eq(wanted.iter().copied())
        };
        let windows = lines.windows(wanted.len()).filter(fits);
        windows.filter_map(|window| Some((window.first()?.0, window.last()?.0))).collect()
    };
    let (telling, all): (Vec<_>, Vec<_>) = (found(telling), found(all));
    if telling.len() >= all.len() { telling } else { all }
}

/// All lines of `part` stand in `whole`, one after the other.
pub(super) fn contains(whole: &str, part: &str) -> bool {
    let part = part.as_bytes();
    !part.is_empty()
        && (0..whole.len()).step_by(DIGITS).any(|at| whole.as_bytes()[at..].starts_with(part))
}

/// The sketch of a finding whose code is not in the diff.
pub(super) fn sketch_of(quote: &str) -> String {
    sketch(innermost(quote).lines)
}

/// How much of the smaller of two sketches is in the other one, 0 to 1.
pub(super) fn overlap(a: &str, b: &str) -> f64 {
    let parts = |sketch: &str| -> std::collections::BTreeSet<Vec<u8>> {
        sketch.as_bytes().chunks(DIGITS).map(<[u8]>::to_vec).collect()
    };
    let (a, b) = (parts(a), parts(b));
    share(a.intersection(&b).count(), a.len().min(b.len()))
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
pub(super) fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The quote without everything that models copy along.
fn innermost(quote: &str) -> QuoteVariant<'_> {
    let mut reading = QuoteVariant::new(quote);
    while let Some(inner) = reading.peeled() {
        reading = inner;
    }
    reading
}

fn quoted(quote: &str) -> Vec<String> {
    innermost(quote).keys
}

fn keys<'a>(code: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    code.into_iter().map(code::key).filter(|key| !key.is_empty()).collect()
}

fn digest(path: &str, key: &str, category: Category) -> String {
    short(format!("finding\0{path}\0{}\0{key}", category.word()).as_bytes())
}

/// The first 8 bytes of the SHA-256.
fn short(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes)[..8])
}

#[cfg(test)]
mod tests {
    use crate::finding::{Priority, Verdict};
    use crate::fingerprint::*;

    fn finding(path: &str, quote: &str, category: Category) -> Finding {
        Finding {
            path: path.to_owned(),
            quote: quote.to_owned(),
            line: None,
            title: String::new(),
            body: String::new(),
            priority: Priority::P1,
            confidence: 1.0,
            category,
            replacement: None,
            reproduction: None,
            verdict: Verdict::Pending,
        }
    }

    #[test]
    fn only_path_code_and_category_count() {
        let print = |quote: &str| of(&finding("a.rs", quote, Category::Bug));
        let one = print("    let x = 1;\n    y(x);");
        assert_eq!(one.len(), 16);
        for same in [
            "let x=1;\n\n  y(x);  ",
            "+let x = 1;\n+y(x);",
            "```\nlet x = 1;\ny(x);\n```",
            "7: let x = 1;\n8: y(x);",
        ] {
            assert_eq!(print(same), one, "{same:?}");
        }
        assert_ne!(print("let x = 2;\ny(x);"), one);
        assert_ne!(of(&finding("b.rs", "let x = 1;\ny(x);", Category::Bug)), one);
        assert_ne!(of(&finding("a.rs", "let x = 1;\ny(x);", Category::Data)), one);
    }

    #[test]
    fn a_renamed_file_has_two() {
        let new = finding("new.rs", "x", Category::Bug);
        let old = finding("old.rs", "x", Category::Bug);
        assert_eq!(fingerprints(&new, Some("old.rs")), [of(&new), of(&old)]);
        assert_eq!(fingerprints(&new, None), [of(&new)]);
        assert_eq!(fingerprints(&new, Some("new.rs")), [of(&new)]);
    }

    #[test]
    fn repeated_code_and_several_findings_about_it_have_fingerprints_of_their_own() {
        let code = ["uses: x@v1"];
        let first = of_code("ci.yml", &code, Category::Bug, 0);
        let all = [
            first.clone(),
            of_code("ci.yml", &code, Category::Bug, 1),
            of_code("ci.yml", &code, Category::Bug, 2),
            another(&first, 1),
            another(&first, 2),
        ];
        let different: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert!(all.iter().all(|print| print.len() == 16));
    }

    #[test]
    fn code_is_found_again_wherever_it_has_moved_and_not_when_it_was_changed() {
        let file =
            ["fn f() {", "", "    one( );", "    }", "    two();", "}", "// one();", "one();"];
        let file = SketchIndex::new(file);
        for (code, times) in [
            (&["one();"][..], 2),
            (&["  one();", "", "two();"], 1),
            (&["two();", "one();"], 0),
            (&["three();"], 0),
            (&["}"], 2),
            (&[], 0),
        ] {
            assert_eq!(file.times(&sketch(code.iter().copied())), times, "{code:?}");
        }
        assert_eq!(SketchIndex::default().times(&sketch(["one();"])), 0);
    }

    #[test]
    fn sketches_tell_how_much_code_is_shared() {
        let whole = sketch(["fn f() {", "    one();", "    two();", "}"]);
        let part = sketch(["  one();"]);
        assert_eq!(part.len(), DIGITS);
        assert!((overlap(&whole, &part) - 1.0).abs() < f64::EPSILON);
        assert!(overlap(&whole, &sketch(["three();"])) < 0.1);
        assert!(overlap("", "") < 0.1);
        assert_eq!(sketch(["}"]).len(), DIGITS);
    }
}
