//! A review that is at work: what the comment in the conversation says meanwhile, and the claim in its
//! marker, by which other runs know that somebody is reviewing this commit.

use std::fmt::Write as _;

use super::{PURPOSE, plain_sha, state};
use crate as report;
use patchwright_forge::{marker, seal};

/// The line above what the last review said.
const ABOVE: &str = "> [!NOTE]\n> Patchwright is reviewing ";

/// Who is reviewing which commit, and until when that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub run: String,
    pub head: String,
    /// When the run has ended for certain, in seconds since 1970: later the claim says nothing.
    pub until: i64,
    /// Everything is read again because somebody asked for it.
    pub full: bool,
    /// The run that wrote what stands in the comment beside the claim, when there is anything.
    pub before: Option<String>,
}

impl Claim {
    /// The claim in a comment. That we wrote the comment is for the forge to say.
    pub fn read(body: &str) -> Option<Claim> {
        let said = report::marked(body, PURPOSE)?;
        let value = |name: &str| {
            let word = said.split_whitespace().find_map(|word| word.strip_prefix(name))?;
            word.strip_prefix('=').filter(|value| !value.is_empty()).map(str::to_owned)
        };
        let head = value("head")?;
        // A claim on something that is no commit could never match a head.
        let is_commit = state::is_hex(&head, 40) || state::is_hex(&head, 64);
        Some(Claim {
            run: value("run")?,
            head: is_commit.then_some(head)?,
            until: value("until")?.parse().ok()?,
            full: value("full").is_some(),
            before: value("before"),
        })
    }

    /// The marker with the claim in it.
    pub fn marker(&self) -> String {
        let plain = report::marker(PURPOSE, &self.run);
        let mut line = plain.trim_end_matches(" -->").to_owned();
        let _ = write!(line, " head={} until={}", self.head, self.until);
        if self.full {
            line.push_str(" full=yes");
        }
        if let Some(before) = &self.before {
            let _ = write!(line, " before={}", report::plain(before));
        }
        line + " -->"
    }

    /// The comment while the review goes on: what the last review said and remembers stays.
    pub fn comment(&self, last: Option<&str>) -> String {
        let head = plain_sha(&self.head);
        let Some(last) = last else {
            return format!(
                "### Patchwright review: at work\n\nPatchwright is reviewing `{head}`; what it finds \
                 will be here.\n\n{}\n",
                self.marker()
            );
        };
        format!(
            "{ABOVE}`{head}`. What stands below is from the review before.\n\n{}\n",
            with_marker(last, &self.marker()).trim_end()
        )
    }

    /// The comment of a run that has posted something and was cut off before it could say here what it found.
    pub fn unfinished(&self) -> String {
        format!(
            "### Patchwright review: not finished\n\nThe review of `{}` was cut off while it was posted. The next \
             run of it resumes there, and what it found will be here.\n\n{}\n",
            plain_sha(&self.head),
            report::marker(PURPOSE, &self.run)
        )
    }
}

/// The run that wrote what the comment says, when no claim is in it.
pub fn written_by(body: &str) -> Option<String> {
    if Claim::read(body).is_some() {
        return None;
    }
    let said = report::marked(body, PURPOSE)?;
    said.split_whitespace().find_map(|word| word.strip_prefix("run=")).map(str::to_owned)
}

/// The comment as the last review left it; `None` when there is nothing in it but a claim.
pub fn last(body: &str) -> Option<String> {
    let body = seal::without(body);
    let Some(claim) = Claim::read(&body) else { return Some(body) };
    let plain = report::marker(PURPOSE, claim.before.as_deref()?);
    let below = match body.strip_prefix(ABOVE).and_then(|rest| rest.split_once("\n\n")) {
        Some((_, below)) => below,
        None => body.as_str(),
    };
    Some(with_marker(below, &plain))
}

/// The body with this marker instead of the one of its purpose.
fn with_marker(body: &str, new: &str) -> String {
    let is_ours = |line: &&str| marker::purpose(line) == Some(PURPOSE);
    let Some(old) = marker::ending(body).into_iter().find(is_ours) else {
        return format!("{}\n\n{new}\n", body.trim_end());
    };
    // Only markers follow it, so the last occurrence is the marker line itself.
    match body.rfind(old) {
        Some(at) => format!("{}{new}{}", &body[..at], &body[at + old.len()..]),
        None => body.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::review::claim::{Claim, last, written_by};

    const SHA: &str = "0123456789abcdef0123456789abcdef01234567";
    const BODY: &str = "### Patchwright review: 1 open finding\n\n| x |\n\n\
                        <!-- patchwright:review run=20260101-a v=1 -->\n\n\
                        <!-- patchwright:review-state v=1 e30= -->";

    fn claim(before: Option<&str>) -> Claim {
        let before = before.map(str::to_owned);
        Claim {
            run: "20260102-b".into(),
            head: SHA.into(),
            until: 1_767_225_600,
            full: true,
            before,
        }
    }

    #[test]
    fn a_claim_is_read_as_it_was_written_and_taken_off_again() {
        for full in [true, false] {
            let claim = Claim { full, ..claim(written_by(BODY).as_deref()) };
            let working = claim.comment(Some(BODY));
            assert_eq!(Claim::read(&working), Some(claim.clone()));
            assert!(working.contains("| x |") && working.contains("review-state"), "{working}");
            assert_eq!(last(&working).as_deref().map(str::trim_end), Some(BODY));
            assert_eq!(written_by(&working), None);
            // A second claim on top of a dead one changes nothing about what is below.
            let other = Claim { run: "c".into(), ..claim };
            let taken = other.comment(last(&working).as_deref());
            assert_eq!(last(&taken).as_deref().map(str::trim_end), Some(BODY));
        }
    }

    #[test]
    fn a_comment_of_a_claim_alone_leaves_nothing_and_others_are_left_as_they_are() {
        let alone = claim(None).comment(None);
        assert_eq!(Claim::read(&alone), Some(claim(None)));
        assert_eq!(last(&alone), None);
        assert_eq!((Claim::read(BODY), last(BODY).as_deref()), (None, Some(BODY)));
        assert_eq!(written_by(BODY).as_deref(), Some("20260101-a"));
        for broken in [
            claim(None).marker().replace(SHA, "master"),
            claim(None).marker().replace("until=1", "until=x"),
            format!("```\n{}\n```", claim(None).marker()),
            String::new(),
        ] {
            assert_eq!(Claim::read(&broken), None, "{broken}");
        }
    }
}
