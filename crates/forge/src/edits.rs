//! Whether people have edited the title or the description of a pull request of ours since we wrote them.
//!
//! What we write carries a digest of itself: `<!-- patchwright:written title=<digest> body=<digest> v=1 -->` behind the
//! description. A digest that does not fit what stands there now is somebody's edit, and that is left alone.

use hex::encode;
use sha2::{Digest, Sha256};

use super::marker::{purpose, standing, stands, words};

/// The purpose of the marker with the digests.
pub const PURPOSE: &str = "written";
/// Stands before the title where the repository has no drafts. People take it away when the work is ready.
pub(super) const WORK_IN_PROGRESS: &str = "[WIP] ";
/// Most characters that [`recorded`] adds.
pub(super) const ROOM: usize = 100;

/// What people have changed of a pull request since we wrote it, and `open_or_update` has left as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    pub title: bool,
    /// Its description.
    pub body: bool,
}

/// The description with the digests behind it.
pub(super) fn recorded(title: &str, body: &str) -> String {
    let (title, body) = (of_title(title), (of_body(body), body.trim_end()));
    format!("{}\n\n<!-- patchwright:{PURPOSE} title={title} body={} v=1 -->", body.1, body.0)
}

/// What differs from what we wrote. A description without digests is ours when it has the marker: an older version
/// wrote it.
pub(super) fn since_written(title: &str, body: &str, marker: &str) -> Edits {
    let lines = standing(body);
    let Some(record) = lines.iter().rfind(|line| purpose(line) == Some(PURPOSE)) else {
        return Edits { title: false, body: !stands(body, marker) };
    };
    let fields = words(record);
    let field =
        |name: &str| fields.iter().find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    Edits {
        title: field("title").is_some_and(|digest| digest != of_title(title)),
        body: field("body").is_some_and(|digest| digest != of_body(body)),
    }
}

/// A description that nobody has edited since we wrote it, as `revise` makes it, with the digests of what it is then.
/// `None` where somebody has, or where nothing is another.
pub fn revised(body: &str, revise: impl FnOnce(&str) -> String) -> Option<String> {
    let lines = standing(body);
    let record = lines.iter().rfind(|line| purpose(line) == Some(PURPOSE))?;
    let fields = words(record);
    let field =
        |name: &str| fields.iter().find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let (title, written) = (field("title")?, field("body")?);
    if written != of_body(body) {
        return None;
    }
    let ours: Vec<&str> = body.lines().filter(|line| purpose(line) != Some(PURPOSE)).collect();
    let ours = ours.join("\n");
    let revised = revise(&ours);
    let digest = of_body(&revised);
    (digest != written).then(|| {
        let revised = revised.trim_end();
        format!("{revised}\n\n<!-- patchwright:{PURPOSE} title={title} body={digest} v=1 -->")
    })
}

fn of_title(title: &str) -> String {
    digest(title.strip_prefix(WORK_IN_PROGRESS).unwrap_or(title).trim())
}

/// The line with the digests does not count, and neither do line ends: GitHub's editor writes CRLF.
fn of_body(body: &str) -> String {
    let lines = body.lines().map(str::trim_end);
    let ours: Vec<&str> = lines.filter(|line| purpose(line) != Some(PURPOSE)).collect();
    digest(ours.join("\n").trim())
}

fn digest(text: &str) -> String {
    encode(&Sha256::digest(text.as_bytes())[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKER: &str = "<!-- patchwright:pull-request run=a v=1 -->";
    const NONE: Edits = Edits { title: false, body: false };

    #[test]
    fn what_we_wrote_is_not_taken_for_an_edit_whatever_the_line_ends() {
        let body = recorded("Fix it", &format!("Fixed.  \n\n{MARKER}"));
        assert!(body.len() <= ROOM + 60, "{body}");
        for (title, body) in [
            ("Fix it", body.clone()),
            ("[WIP] Fix it", body.clone()),
            ("Fix it", body.replace('\n', "\r\n")),
            ("Fix it", body.trim().to_owned()),
            // Of an older version.
            ("Fix all", format!("Fixed.\n\n{MARKER}")),
        ] {
            assert_eq!(since_written(title, &body, MARKER), NONE, "{title}: {body}");
        }
        let again = recorded("Fix it", &body);
        assert_eq!(since_written("Fix it", &again, MARKER), NONE, "written twice");
    }

    #[test]
    fn only_what_nobody_has_edited_is_revised() {
        let body = recorded("Fix it", &format!("Fixed.\n\n- It conflicts.\n\n{MARKER}"));
        let without = |text: &str| text.replace("- It conflicts.\n\n", "");
        let revised_body = revised(&body, without).unwrap();
        assert!(!revised_body.contains("conflicts"), "{revised_body}");
        assert_eq!(since_written("Fix it", &revised_body, MARKER), NONE);
        // The title may be another by now, and it still shows.
        let is_edited = since_written("Fix all of it", &revised_body, MARKER);
        assert_eq!(is_edited, Edits { title: true, body: false });
        assert_eq!(revised(&revised_body, without), None, "nothing changes");
        assert_eq!(revised(&body.replace("Fixed.", "Fixed. Thanks!"), without), None);
        assert_eq!(revised("- It conflicts.\n\n", without), None);
    }

    #[test]
    fn an_edit_of_each_part_is_seen_by_itself() {
        let body = recorded("Fix it", &format!("Fixed.\n\n{MARKER}"));
        let edited = body.replace("Fixed.", "Fixed. Closes #12.");
        let (title_only, body_only) =
            (Edits { title: true, body: false }, Edits { title: false, body: true });
        assert_eq!(since_written("Fix all of it", &body, MARKER), title_only);
        assert_eq!(since_written("Fix it", &edited, MARKER), body_only);
        assert_eq!(since_written("Fix it", "All of it rewritten.", MARKER), body_only);
        assert_eq!(since_written("Fix it", &format!("{body}\nSee also #3"), MARKER), body_only);
    }
}
