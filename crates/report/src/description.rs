//! A pull request's description that was asked for: from what the model said to what stands on the page.

use super::markdown;
use patchwright_base::text;

/// Where our part of the description begins and ends, so that the next one replaces it.
const BEGIN: &str = "<!-- patchwright:description v=1 -->";
const END: &str = "<!-- patchwright:description-end v=1 -->";
/// Characters of a title, and bytes of a description and of what was there before. GitHub takes 65,536
/// characters in all.
const MAX_TITLE: usize = 200;
const MAX_BODY: usize = 20_000;
const MAX_BEFORE: usize = 40_000;

/// Title and description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub title: String,
    /// Markdown, as the model wrote it.
    pub body: String,
}

/// The first line, and what follows it; `None` without both.
pub fn read(message: &str) -> Option<Description> {
    let message = message.trim();
    let (first, rest) = message.split_once('\n')?;
    let title = text::line(first.trim().trim_start_matches('#').trim().trim_matches('*'));
    let title = title.strip_prefix("Title: ").unwrap_or(&title).trim();
    let body = rest.trim();
    let is_whole = !title.is_empty() && !body.is_empty();
    is_whole.then(|| Description { title: text::cut(title, MAX_TITLE), body: body.to_owned() })
}

/// The description with what was there before, which is people's: what they said about reasons and which issues
/// are closed still counts.
pub fn body(written: &Description, before: &str) -> String {
    let ours = markdown::passage(&written.body, MAX_BODY);
    let ours = format!("{BEGIN}\n{}\n{END}", ours.trim());
    let replaced =
        before.split_once(BEGIN).and_then(|(above, rest)| Some((above, rest.split_once(END)?.1)));
    if let Some((above, below)) = replaced {
        return format!("{above}{ours}{below}");
    }
    let before = before.trim();
    if before.is_empty() {
        return ours;
    }
    let before = text::head(before, MAX_BEFORE);
    format!(
        "{ours}\n\n<details><summary>The description before</summary>\n\n{before}\n\n</details>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_title_and_the_rest_the_description() {
        let both = |title: &str, body: &str| {
            Some(Description { title: title.to_owned(), body: body.to_owned() })
        };
        assert_eq!(read("Add `divide`\n\nIt divides.\n"), both("Add `divide`", "It divides."));
        assert_eq!(read("# **Add it**\nIt does."), both("Add it", "It does."));
        assert_eq!(read("Only a title"), None);
        assert_eq!(read("\n\n"), None);
    }

    #[test]
    fn what_people_wrote_stays_and_what_we_wrote_is_replaced() {
        let written = |body: &str| Description { title: "T".to_owned(), body: body.to_owned() };
        let first = body(&written("First."), "Fixes #7.");
        assert!(first.contains("First.") && first.contains("Fixes #7."), "{first}");
        let second = body(&written("Second."), &format!("Note.\n\n{first}"));
        assert!(second.starts_with("Note.\n\n<!--") && second.contains("Second."), "{second}");
        assert!(!second.contains("First.") && second.contains("Fixes #7."), "{second}");
        assert_eq!(second.matches("<details>").count(), 1, "{second}");
        assert_eq!(body(&written("Alone."), " "), format!("{BEGIN}\nAlone.\n{END}"));
    }
}
