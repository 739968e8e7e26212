//! What a person approves: the hash over the plan and everything that it was made from.
//!
//! Pure. A plan comment carries the hash and, beside it, digests of the parts, so that an approval
//! that comes too late can say what has changed since.

use sha2::{Digest, Sha256};

/// The purpose of the marker at the end of a plan's comment.
pub const PURPOSE: &str = "plan";
/// The lines between which the plan stands.
const BEGINS: &str = "<!-- patchwright:plan-begins v=1 -->";
const ENDS: &str = "<!-- patchwright:plan-ends v=1 -->";

/// What a plan was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanSource<'a> {
    /// `owner/name`.
    pub repository: &'a str,
    pub number: u64,
    /// The commit that was read: the head of a pull request, the base branch for an issue.
    pub commit: &'a str,
    pub title: &'a str,
    pub body: &'a str,
}

/// A plan as a comment carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostedPlan {
    /// Twelve hexadecimal digits.
    pub hash: String,
    /// Digest of title and body.
    pub text: String,
    pub commit: String,
    /// The plan itself.
    pub plan: String,
}

/// The hash of a plan.
pub fn hash(source: &PlanSource<'_>, plan: &str) -> String {
    let number = source.number.to_string();
    let parts = [source.repository, &number, source.commit, source.title, source.body, plan];
    digest(&parts.map(plain))
}

/// The digest of what the issue or pull request says.
pub fn text_digest(source: &PlanSource<'_>) -> String {
    digest(&[plain(source.title), plain(source.body)])
}

/// The plan between two lines by which it is found again. The plan cannot hold them: it is a passage,
/// in which every HTML comment is shown as text.
pub fn framed(plan: &str) -> String {
    format!("{BEGINS}\n\n{plan}\n\n{ENDS}")
}

/// The marker that its comment ends with.
pub fn marker_line(source: &PlanSource<'_>, plan: &str) -> String {
    let (hash, text) = (hash(source, plan), text_digest(source));
    let commit: String = source.commit.chars().filter(char::is_ascii_hexdigit).collect();
    format!("<!-- patchwright:{PURPOSE} hash={hash} text={text} commit={commit} v=1 -->")
}

/// Reads a comment of ours back. `None` when it carries no plan, or one that has been cut.
pub fn read(body: &str) -> Option<PostedPlan> {
    let marker = patchwright_report::marked(body, PURPOSE)?;
    let value = |name: &str| {
        let mut words = marker.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    let lines: Vec<&str> = body.lines().collect();
    let begins = lines.iter().position(|line| line.trim() == BEGINS)?;
    let ends = lines.iter().rposition(|line| line.trim() == ENDS)?;
    let plan = lines.get(begins + 1..ends)?;
    Some(PostedPlan {
        hash: value("hash")?,
        text: value("text")?,
        commit: value("commit")?,
        plan: plan.join("\n").trim().to_owned(),
    })
}

/// Line ends and outer white space do not count: forges change them.
fn plain(text: &str) -> String {
    text.replace("\r\n", "\n").trim().to_owned()
}

/// Twelve hexadecimal digits over the parts with their lengths, so that no part can pass for another.
fn digest(parts: &[String]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let head = digest.finalize().iter().take(6).fold(0, |head, byte| head << 8 | u64::from(*byte));
    format!("{head:012x}")
}
