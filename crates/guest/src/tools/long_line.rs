//! Lines that are too long to be shown whole: cut, with a mark that no file has, so that a piece of a
//! file that was copied with it is recognised.

use std::borrow::Cow;

use super::ToolError;

/// Where the mark begins; a number and [`END`] follow.
const BEGIN: &str = "… [line cut here: ";
const END: &str = " more bytes]";

/// Bytes of a line that is shown among others.
pub const SHOWN: usize = 2_000;
/// Bytes of a line that was asked for alone.
pub const ALONE: usize = 64 << 10;

/// The line, of which `beyond` bytes are not in `line`, within about `most` bytes.
pub fn cut(line: &str, most: usize, beyond: usize) -> Cow<'_, str> {
    let kept = line.get(..line.floor_char_boundary(most)).unwrap_or_default();
    match line.len() - kept.len() + beyond {
        0 => Cow::Borrowed(kept),
        gone => Cow::Owned(format!("{kept}{BEGIN}{gone}{END}")),
    }
}

/// Why a text that is to be found or written cannot be meant: it has the mark, and the file has not.
///
/// # Errors
/// For the model: how to see the whole line.
pub fn refuse(path: &str, texts: &[&str], content: &[u8]) -> Result<(), ToolError> {
    if texts.iter().any(|text| is_marked(text))
        && memchr::memmem::find(content, BEGIN.as_bytes()).is_none()
    {
        return Err(ToolError::tell(format!("`{path}` was not changed: {}", advice())));
    }
    Ok(())
}

/// What is said about a text with the mark in it.
pub fn advice() -> String {
    format!(
        "the text has the mark of a line that was cut to be shown (`{BEGIN}N{END}`), which is not in \
         the file. Read that line alone to see all of it (a range of one line, or `sed -n Np FILE`), \
         or use a shorter part of it"
    )
}

/// The text has the mark in it.
pub fn is_marked(text: &str) -> bool {
    text.split(BEGIN).skip(1).any(|rest| {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        after.len() < rest.len() && after.starts_with(END)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use crate::tools::apply_patch::run_verified;
    use crate::tools::long_line::{cut, is_marked};
    use crate::tools::read_file::read_file;
    use crate::tools::replace::replace;
    use crate::tools::root::Root;
    use crate::tools::write_file::write_file;
    use crate::tools::{ToolOutput, parse_args};
    use serde_json::json;

    /// What was copied with the mark of a cut is in no file: nothing is searched, replaced or written
    /// with it.
    #[test]
    fn an_edit_with_the_mark_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let content = format!("{}\nnext\n", "word ".repeat(600));
        fs_err::write(&path, &content).unwrap();
        let root = Root::open(folder.path()).unwrap();
        let never = AtomicBool::new(false);
        let args = parse_args("read_file", json!({"file_path": "f"})).unwrap();
        let shown = read_file(&root, &args, &never).unwrap().text;
        let copied = shown.lines().next().unwrap().trim_start_matches("L1: ");
        assert!(copied.ends_with("… [line cut here: 1000 more bytes]"), "{copied}");
        let edit = |old: &str, new: &str| {
            let args = json!({"file_path": "f", "old_string": old, "new_string": new});
            replace(&root, &parse_args("replace", args).unwrap())
        };
        let hunk =
            format!("*** Begin Patch\n*** Update File: f\n@@\n-{copied}\n+x\n*** End Patch\n");
        let whole = json!({"file_path": "f", "content": format!("{copied}\nother\n")});
        let refused: Vec<Result<ToolOutput, _>> = vec![
            edit(copied, "x"),
            edit("next", copied),
            write_file(&root, &parse_args("write_file", whole).unwrap()),
            run_verified(&root, &hunk, ""),
        ];
        for outcome in refused {
            let said = outcome.unwrap_err().to_string();
            assert!(said.contains("a line that was cut") && said.contains("alone"), "{said}");
        }
        assert_eq!(fs_err::read_to_string(&path).unwrap(), content);
        assert!(edit("next", "last").is_ok());
    }

    /// A patch that does not fit is answered with the lines that are most like it.
    #[test]
    fn a_failed_patch_shows_the_closest_lines() {
        let folder = tempfile::tempdir().unwrap();
        let code = "fn one() {\n    let total = sum(a, b);\n}\n";
        fs_err::write(folder.path().join("f"), code).unwrap();
        let root = Root::open(folder.path()).unwrap();
        let patch = "*** Begin Patch\n*** Update File: f\n@@\n fn one() {\n-    let total = sum(a);\n+    x\n*** End Patch\n";
        let said = run_verified(&root, patch, "").unwrap_err().to_string();
        assert!(said.contains("Failed to find expected lines in"), "{said}");
        assert!(said.contains("The nearest are lines 1-2"), "{said}");
        assert!(said.contains("line 2 is `    let total = sum(a, b);`"), "{said}");
    }

    #[test]
    fn a_cut_says_how_much_is_gone_and_is_recognised() {
        assert_eq!(cut("short", 10, 0), "short");
        let shown = cut("aaaaä", 5, 7);
        assert_eq!(shown, "aaaa… [line cut here: 9 more bytes]");
        assert!(is_marked(&format!("x\n{shown}\ny")));
        assert!(!is_marked("… [line cut here: N more bytes]") && !is_marked("aaaa…"));
    }
}
