//! Formulas that show less than they say: white, tiny or shifted text, comments, definitions.
//! Used by [`super::markup`] only.

use patchwright_base::gfm::html::Ends;

/// Commands that can hide what stands in a formula, or move it out of sight.
const HIDING: &[&str] = &[
    "phantom",
    "hphantom",
    "vphantom",
    "smash",
    "mathchoice",
    "def",
    "gdef",
    "edef",
    "xdef",
    "let",
    "newcommand",
    "renewcommand",
    "providecommand",
    "newenvironment",
    "renewenvironment",
    "kern",
    "mkern",
    "hskip",
    "mskip",
    "hspace",
    "mspace",
    "rlap",
    "llap",
    "clap",
    "mathrlap",
    "mathllap",
    "mathclap",
    "raise",
    "lower",
    "moveleft",
    "moveright",
    "color",
    "textcolor",
    "colorbox",
    "fcolorbox",
    "definecolor",
    "style",
    "class",
    "cssId",
    "href",
    "url",
    "tiny",
    "scriptsize",
    "scriptscriptstyle",
    "require",
    "unicode",
    "bbox",
    "rule",
    "label",
    "data",
    "mmlToken",
];

/// It has a command that hides.
pub(super) fn hides(formula: &str) -> bool {
    formula.split('\\').skip(1).any(|rest| {
        let rest = rest.trim_start();
        let length = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        HIDING.contains(&&rest[..length])
    })
}

/// It has a comment: what follows a `%` in its line is not drawn.
pub(super) fn comments(formula: &str) -> bool {
    formula.match_indices('%').any(|(at, _)| {
        let slashes = formula[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        slashes % 2 == 0
    })
}

/// Where a formula ends that begins at `from` and shows less than it says.
pub(super) fn invisible(text: &str, from: usize, ends: &mut Ends) -> Option<usize> {
    let rest = text.get(from..)?;
    let mark = if rest.starts_with("$$") { "$$" } else { "$" };
    let length = ends.find(text, mark, from + mark.len())?;
    let (body, after) = rest.get(mark.len()..)?.split_at(length);
    let after = &after[mark.len()..];
    let is_formula = mark == "$$" || is_formula(body, after);
    (hides(body) || (is_formula && comments(body))).then(|| text.len() - after.len())
}

/// The text without such formulas, and how many there were.
pub(super) fn without_invisible(text: &str) -> (String, usize) {
    let (mut out, mut count, mut at) = (String::with_capacity(text.len()), 0, 0);
    let mut ends = Ends::default();
    while let Some(next) = text[at..].find('$') {
        out.push_str(&text[at..at + next]);
        at += next;
        if let Some(end) = invisible(text, at, &mut ends) {
            (at, count) = (end, count + 1);
        } else {
            let length = if text[at..].starts_with("$$") { 2 } else { 1 };
            out.push_str(&text[at..at + length]);
            at += length;
        }
    }
    out.push_str(&text[at..]);
    (out, count)
}

/// Between single dollar signs that GitHub takes for a formula, not for two prices.
fn is_formula(body: &str, after: &str) -> bool {
    !body.starts_with(char::is_whitespace)
        && !body.ends_with(char::is_whitespace)
        && !after.starts_with(|c: char| c.is_ascii_digit())
}
