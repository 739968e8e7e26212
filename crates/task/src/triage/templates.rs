//! What the repository itself wants to know of an issue: its templates, from the commit of the rules.

use crate::context::hidden;
use crate::workspace::Workspace;
use patchwright_base::error::Result;
use patchwright_base::text;

const FOLDER: &str = ".github/ISSUE_TEMPLATE";
const SINGLE: &[&str] =
    &[".github/ISSUE_TEMPLATE.md", "ISSUE_TEMPLATE.md", "docs/ISSUE_TEMPLATE.md"];
/// Bytes of one, and of all.
const MAX_ONE: usize = 6 << 10;
const MAX_ALL: usize = 24 << 10;
const MAX_FILES: usize = 20;

/// Path and text of each.
pub(super) async fn read(rules: &Workspace) -> Result<Vec<(String, String)>> {
    let listed = rules.list(FOLDER).await?;
    let is_template = |name: &str| {
        let is_text = [".md", ".yml", ".yaml"].iter().any(|end| name.to_lowercase().ends_with(end));
        // It has links, and asks nothing.
        is_text && !name.to_lowercase().starts_with("config.")
    };
    let listed = listed.iter().map(|entry| entry.name.as_str()).filter(|name| is_template(name));
    let in_folder = listed.take(MAX_FILES).map(|name| format!("{FOLDER}/{name}"));
    let single = SINGLE.iter().map(|path| (*path).to_owned());
    let (mut found, mut room) = (Vec::new(), MAX_ALL);
    for path in in_folder.chain(single).filter(|path| rules.has_file(path)) {
        let Some(content) = rules.text_file(&path).await? else { continue };
        // A template explains itself in comments, which a reader of the form does see: they stay.
        let clean = text::visible(&text::head(hidden::head(&content, 4 * MAX_ONE), MAX_ONE));
        if clean.len() > room {
            break;
        }
        room -= clean.len();
        found.push((path, clean.trim().to_owned()));
    }
    Ok(found)
}
