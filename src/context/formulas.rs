//! Formulas that show less than they say: white, tiny or shifted text, comments, definitions.
//! Used by [`super::markup`] only.

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

/// Between single dollar signs that GitHub takes for a formula, not for two prices.
pub(super) fn is_formula(body: &str, after: &str) -> bool {
    !body.starts_with(char::is_whitespace)
        && !body.ends_with(char::is_whitespace)
        && !after.starts_with(|c: char| c.is_ascii_digit())
}
