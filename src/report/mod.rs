//! Every word that people read on the forge. Pure functions from data to text.
//!
//! Text from a model, a repository or a person goes through [`text`] or [`markdown`] on its way into
//! a report; what our own code knows is written as it is. Nothing here reads or sends anything.

pub mod annotations;
pub mod commit_message;
pub mod findings;
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

fn plain(word: &str) -> String {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    word.replace("--", "-").chars().filter(allowed).take(80).collect()
}
