//! What a refused patch is written in. Models know many formats of edits and mix them up; who is told
//! which one was recognised, and sees the right one, gets the next call right.

use serde::de::IgnoredAny;

use super::parse::ParseError;
use super::plan::PatchError;

/// A whole patch, as short as one can show what matters.
const EXAMPLE: &str = "\
*** Begin Patch
*** Update File: path/of/the/file
@@
 a line that stays
-a line that goes
+the line in its place
*** End Patch";

const LINE_NUMBERS: &str = "Line numbers behind `@@` are those of a unified diff. Write `@@` alone, or with \
                            a whole line of the file behind it.";

const BEGIN: &str = "*** Begin Patch";

/// What to say behind the message about a patch that was refused; nothing when its format is not what
/// is wrong, or when the message says all there is to say.
pub fn advice(text: &str, err: &PatchError) -> Option<String> {
    let what = match err {
        PatchError::Parse(ParseError::Patch(_)) => recognised(text),
        PatchError::Parse(ParseError::NotUtf8 | ParseError::Empty) => return None,
        PatchError::Context { header, .. } if is_range(header) => {
            return Some(LINE_NUMBERS.to_owned());
        }
        PatchError::Lines { nearest, .. } | PatchError::Context { nearest, .. }
            if inside(text).is_none() =>
        {
            return Some(nearest.clone());
        }
        // Inside the envelope the message names the line; only another format needs more words.
        PatchError::Parse(ParseError::Hunk { .. })
        | PatchError::Context { .. }
        | PatchError::Lines { .. }
        | PatchError::Apply(_) => Some(inside(text)?),
    };
    let what = what.map_or_else(String::new, |what| format!("{what} "));
    Some(format!(
        "{what}A patch begins with `{BEGIN}` on its first line and looks like this (`*** Add File: PATH` \
         with `+` lines makes a file, `*** Delete File: PATH` removes one):\n{EXAMPLE}"
    ))
}

/// The format of a text without the envelope of a patch.
fn recognised(text: &str) -> Option<&'static str> {
    let text = text.trim();
    let inner = fenced(text);
    if let Some(other) = other_format(inner.unwrap_or(text)) {
        return Some(other);
    }
    if inner.is_some() {
        return Some("This stands in a Markdown fence: leave the fence out.");
    }
    let mut lines = text.lines().map(str::trim);
    let begins = lines.next() == Some(BEGIN);
    if !begins && lines.any(|line| line == BEGIN) {
        return Some("Something stands before the patch: leave it out.");
    }
    None
}

/// What stands between a first line that opens a fence and a last one that closes it.
fn fenced(text: &str) -> Option<&str> {
    let fence = ["```", "~~~"].into_iter().find(|fence| text.starts_with(fence))?;
    let (_, inner) = text.split_once('\n')?;
    Some(inner.trim_end().strip_suffix(fence).unwrap_or(inner).trim())
}

fn other_format(text: &str) -> Option<&'static str> {
    let is_json =
        || text.starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok();
    let has = |begins: &[&str]| {
        text.lines().any(|line| begins.iter().any(|begin| line.starts_with(begin)))
    };
    if has(&["diff --git "]) {
        Some("This is a git diff.")
    } else if has(&["--- "]) && has(&["+++ "]) {
        Some("This is a unified diff.")
    } else if has(&["<<<<<<< ", "------- SEARCH"]) && has(&[">>>>>>> ", "+++++++ REPLACE"]) {
        Some("These are search/replace blocks.")
    } else if is_json() {
        Some("This is JSON: give the patch itself, as plain text.")
    } else {
        None
    }
}

/// The foreign diff format that was found inside the envelope of a patch.
fn inside(text: &str) -> Option<&'static str> {
    let has = |begin: &str| text.lines().any(|line| line.starts_with(begin));
    if has("diff --git ") {
        Some("Inside is a git diff.")
    } else if (has("--- a/") || has("--- /dev/null")) && (has("+++ b/") || has("+++ /dev/null")) {
        Some("Inside is a unified diff.")
    } else if has("<<<<<<< ") && has(">>>>>>> ") {
        Some("Inside are search/replace blocks.")
    } else {
        None
    }
}

/// `-1,2 +1,2`, as a unified diff says where a hunk stands.
fn is_range(text: &str) -> bool {
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    text.strip_prefix('-')
        .and_then(|rest| rest.split_once(" +"))
        .is_some_and(|(old, new)| is_number(old) && is_number(new))
}
