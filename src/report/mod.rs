//! Every word that people read on the forge. Pure functions from data to text.
//!
//! Text from a model, a repository or a person goes through [`text`] or [`markdown`] on its way into
//! a report; what our own code knows is written as it is. Nothing here reads or sends anything.

pub mod annotations;
pub mod answer;
pub mod campaign;
pub mod commit_message;
pub mod findings;
pub mod hand_over;
pub mod html;
pub mod job_summary;
pub mod markdown;
pub mod outputs;
pub mod plan_md;
pub mod pr_body;
pub mod progress;
pub mod review;
pub mod sarif;
pub mod sections;
pub mod template;
pub mod text;

/// Largest body that GitHub takes for issues, pull requests and comments, in characters.
pub const MAX_BODY: usize = 65_536;

/// The line by which we find what we wrote: `<!-- patchwright:<purpose> run=<id> v=1 -->`.
pub fn marker(purpose: &str, run: &str) -> String {
    format!("<!-- patchwright:{} run={} v=1 -->", plain(purpose), plain(run))
}

/// The same line while the run is at work. `beat` counts its signs of life, so that each is an edit.
pub fn marker_at_work(purpose: &str, run: &str, beat: u32) -> String {
    format!("<!-- patchwright:{} run={} v=1 working={beat} -->", plain(purpose), plain(run))
}

/// The run that is at work, when the marker of this purpose in `body` says so.
pub fn at_work<'a>(body: &'a str, purpose: &str) -> Option<&'a str> {
    let mut words = marked(body, purpose)?.split_whitespace();
    let run = words.clone().find_map(|word| word.strip_prefix("run="));
    words.find(|word| word.starts_with("working=")).and(run)
}

/// The line by which we find again what there is one of, whichever run wrote it:
/// `<!-- patchwright:<purpose> v=1 -->`.
pub fn marker_once(purpose: &str) -> String {
    format!("<!-- patchwright:{} v=1 -->", plain(purpose))
}

/// What the marker of this purpose says after it, when a line of `body` is one.
pub fn marked<'a>(body: &'a str, purpose: &str) -> Option<&'a str> {
    markers(body).find(|(found, _)| *found == purpose).map(|(_, rest)| rest)
}

/// A line of `body` is a marker whose purpose begins so.
pub fn is_marked(body: &str, prefix: &str) -> bool {
    markers(body).any(|(found, _)| found.starts_with(prefix))
}

/// The purpose of each marker line, and what follows it.
fn markers(body: &str) -> impl Iterator<Item = (&str, &str)> {
    body.lines().filter_map(|line| {
        let inside = line.trim().strip_prefix("<!-- patchwright:")?.strip_suffix("-->")?.trim();
        Some(inside.split_once(' ').unwrap_or((inside, "")))
    })
}

fn plain(word: &str) -> String {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    word.replace("--", "-").chars().filter(allowed).take(80).collect()
}
