//! Replies of models that write their edits as text.

use patchwright_guest::edit_format::{Edit, What, apply, read};

/// Checks all of it for one input.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let blocks = read(&text);
    assert_eq!(read(&text), blocks, "the same reply twice");
    let lines = text.split('\n').count();
    for block in blocks {
        assert!((1..=lines).contains(&block.line), "line {} of {lines}", block.line);
        match block.what {
            What::Edit { path, edit } => {
                assert!(!path.trim().is_empty(), "a file without a name");
                edited(&edit);
            }
            What::Malformed(why) | What::Unnamed(why) => {
                assert!(!why.is_empty(), "nothing is said about it");
            }
            What::Command(_) | What::Plan(_) => {}
        }
    }
}

fn edited(edit: &Edit) {
    for before in [None, Some(""), Some("one\ntwo\n"), Some("a\r\nb")] {
        let _ = apply(before, edit);
    }
    match edit {
        // What is looked for is there, and nowhere else.
        Edit::SearchReplace { search, .. } if is_plain(search) => {
            let file = format!("first line\n{}\nlast line\n", search.trim_end_matches('\n'));
            assert!(apply(Some(&file), edit).is_ok(), "{search:?} is not found in {file:?}");
        }
        Edit::SearchReplace { .. } | Edit::UnifiedDiff { .. } => {}
        Edit::WholeFile { content } => {
            let made = apply(None, edit);
            let made = made.map(|made| made.content.unwrap_or_default());
            // A new file has line feeds, whatever the lines of the reply end with.
            let content = content.replace("\r\n", "\n");
            let is_it = made.is_ok_and(|made| made.trim_end() == content.trim_end());
            assert!(is_it, "another file than the reply says");
        }
    }
}

/// No dots that leave lines out, and no line that is only there by chance.
fn is_plain(search: &str) -> bool {
    !search.trim().is_empty()
        && !search.contains("...")
        && !search.contains(['\r', '\u{b}', '\u{c}', '…'])
        && search.lines().all(|line| !line.trim().is_empty())
}
