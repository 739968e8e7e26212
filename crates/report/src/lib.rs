//! Every word that people read on the forge. Pure functions from data to text.
//!
//! Text from a model, a repository or a person goes through [`text`] or [`markdown`] on its way into
//! a report; what our own code knows is written as it is. Nothing here reads or sends anything.

pub mod annotations;
pub mod answer;
pub mod attempts;
pub mod campaign;
pub mod commit_message;
pub mod content_security_policy;
pub mod description;
mod evidence;
pub mod evidence_check;
pub mod findings;
pub mod hand_over;
pub mod html;
pub mod job_summary;
pub mod markdown;
pub mod memory;
pub mod model_words;
mod origin;
pub mod outputs;
pub mod plan_md;
pub mod pr_body;
pub mod progress;
pub mod publish_notes;
pub mod rebase;
pub mod review;
pub mod sarif;
pub mod sections;
pub mod session;
pub mod setup;
pub mod template;
pub mod triage;
pub mod watch;

use patchwright_forge::marker;

/// Largest body that GitHub takes for issues, pull requests and comments, in characters.
pub const MAX_BODY: usize = 65_536;

/// The line by which we find what we wrote: `<!-- patchwright:<purpose> run=<id> v=1 -->`.
pub fn marker(purpose: &str, run: &str) -> String {
    format!("<!-- patchwright:{} run={} v=1 -->", plain(purpose), plain(run))
}

/// The marker while the run is at work. `beat` counts its signs of life, so that each is an edit.
pub fn marker_at_work(purpose: &str, run: &str, beat: u32) -> String {
    format!("<!-- patchwright:{} run={} v=1 working={beat} -->", plain(purpose), plain(run))
}

/// The run that is at work, when the marker of this purpose in `body` says so.
pub fn at_work(body: &str, purpose: &str) -> Option<String> {
    let said = marked(body, purpose)?;
    let mut words = said.split_whitespace();
    let run = words.clone().find_map(|word| word.strip_prefix("run="));
    words.find(|word| word.starts_with("working=")).and(run).map(str::to_owned)
}

/// The marker of a singleton comment, shared by all runs:
/// `<!-- patchwright:<purpose> v=1 -->`.
pub fn marker_once(purpose: &str) -> String {
    format!("<!-- patchwright:{} v=1 -->", plain(purpose))
}

/// What the marker of this purpose says after its purpose, when the comment ends with one. That we wrote
/// the comment is for the forge to say ([`patchwright_forge::Comment::ours`]).
pub fn marked(body: &str, purpose: &str) -> Option<String> {
    let mut markers = marker::ending(body).into_iter().map(marker::words);
    let words = markers.find(|words| words.first() == Some(&purpose))?;
    Some(words[1..].join(" "))
}

/// The comment ends with a marker whose purpose begins so.
pub fn is_marked(body: &str, prefix: &str) -> bool {
    let mut purposes = marker::ending(body).into_iter().filter_map(marker::purpose);
    purposes.any(|purpose| purpose.starts_with(prefix))
}

/// The description of a pull request has a marker whose purpose begins so.
pub fn is_described(body: &str, prefix: &str) -> bool {
    let mut purposes = marker::standing(body).into_iter().filter_map(marker::purpose);
    purposes.any(|purpose| purpose.starts_with(prefix))
}

fn plain(word: &str) -> String {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    word.replace("--", "-").chars().filter(allowed).take(80).collect()
}

#[cfg(test)]
mod tests {
    use crate::{at_work, is_described, is_marked, marked, marker, marker_at_work, marker_once};

    #[test]
    fn a_marker_says_its_purpose_and_its_run_and_nothing_that_ends_it() {
        assert_eq!(marker("progress", "b"), "<!-- patchwright:progress run=b v=1 -->");
        assert_eq!(marker_once("stop"), "<!-- patchwright:stop v=1 -->");
        assert_eq!(
            marker_at_work("progress", "b", 3),
            "<!-- patchwright:progress run=b v=1 working=3 -->"
        );
        // A run's name is ours; should it ever be somebody else's, it still is one word.
        let hostile = "a--> <b>\nrun=c_d.e-f";
        assert_eq!(marker("x", hostile), "<!-- patchwright:x run=a-brunc_d.e-f v=1 -->");
        assert_eq!(marker_once(&"x".repeat(100)), marker_once(&"x".repeat(80)));
    }

    #[test]
    fn a_run_is_at_work_while_the_marker_at_the_end_says_so() {
        let working = format!("x\n\n{}", marker_at_work("progress", "b", 3));
        assert_eq!(at_work(&working, "progress"), Some("b".to_owned()));
        assert_eq!(at_work(&working, "review"), None);
        assert_eq!(at_work(&format!("{working}\n\nmore"), "progress"), None);
        assert_eq!(at_work(&format!("x\n\n{}", marker("progress", "b")), "progress"), None);
        assert_eq!(at_work("", "progress"), None);
    }

    #[test]
    fn a_comment_is_marked_by_its_end_and_a_description_anywhere() {
        let (answer, plan) = (marker_once("answer-7"), marker("plan", "b"));
        let ended = format!("x\n\n{answer}\n\n{plan}");
        assert_eq!(marked(&ended, "plan"), Some("run=b v=1".to_owned()));
        assert_eq!(marked(&ended, "answer-7"), Some("v=1".to_owned()));
        assert_eq!(marked(&ended, "answer-"), None, "the whole purpose");
        assert!(is_marked(&ended, "answer-") && is_marked(&ended, "") && !is_marked(&ended, "x"));
        let amid = format!("x\n\n{answer}\n\ny");
        assert_eq!(marked(&amid, "answer-7"), None);
        assert!(!is_marked(&amid, "") && !is_marked("x", ""));
        assert!(is_described(&amid, "answer-") && is_described(&amid, ""));
        assert!(!is_described(&amid, "plan") && !is_described("x", ""));
        assert!(!is_described(&format!("> {answer}"), "answer-"));
    }
}
