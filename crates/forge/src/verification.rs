//! What a forge does about commits and branches beyond keeping them: it signs, it verifies, it has rules.

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

/// What the forge thinks of a commit's signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    pub verified: bool,
    /// The forge's word: `valid`, `unsigned`, `unknown_key`, ….
    pub reason: String,
}

impl Verification {
    /// Of a forge that looks at no signatures.
    pub fn none() -> Verification {
        Verification { verified: false, reason: "this forge verifies no signatures".to_owned() }
    }

    /// The reason for people.
    pub fn words(&self) -> &str {
        match self.reason.as_str() {
            "unsigned" => "it has no signature",
            "unknown_key" => {
                "no account has its key as a signing key; an authentication key is not enough"
            }
            "expired_key" => "its key has expired",
            "not_signing_key" => "its key is not for signing",
            "no_user" => "the address of its committer belongs to no account",
            "unverified_email" => "the address of its committer is not confirmed in the account",
            "bad_email" => "the address of its committer is not that of the key's account",
            "malformed_signature" | "invalid" | "bad_cert" => "its signature is invalid",
            "gpgverify_error" | "gpgverify_unavailable" => {
                "signatures cannot be verified right now"
            }
            reason => reason,
        }
    }
}

/// What was made by way of a branch of our own, which is taken away again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged<T> {
    pub made: T,
    /// That branch, and why it is still there; for people.
    pub left: Option<String>,
}

impl<T> Staged<T> {
    /// There is no such branch.
    pub fn gone(made: T) -> Staged<T> {
        Staged { made, left: None }
    }
}

/// The branch of our own by way of which the forge is had to sign, and to say what it thinks of signatures. `key` tells
/// the work that it belongs to from other work.
pub fn staging_branch(key: &str) -> String {
    format!("{STAGING}{key}")
}

/// Below this are those branches.
pub const STAGING: &str = "patchwright-staging/";

/// A rule of a repository or an organisation that holds for a branch.
#[derive(Clone, Debug)]
pub struct BranchRule {
    pub kind: RuleKind,
    /// By which it is asked whether we may bypass it.
    pub ruleset: u64,
    /// The repository or organisation whose rule it is.
    pub source: String,
}

#[derive(Clone, Debug)]
pub enum RuleKind {
    /// Every commit has a verified signature.
    SignedCommits,
    /// No such branch may be made.
    Creation,
    /// No such branch may be moved.
    Update,
    /// No commit may be taken off such a branch.
    ForcePush,
    BranchName(TextRule),
    Message(TextRule),
    AuthorEmail(TextRule),
    CommitterEmail(TextRule),
}

/// What a text must be like, or must not.
#[derive(Clone, Debug)]
pub struct TextRule {
    pub operator: Operator,
    pub pattern: String,
    /// It must not be so.
    pub negate: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    StartsWith,
    EndsWith,
    Contains,
    Regex,
    /// One that we do not know.
    #[serde(other)]
    Unknown,
}

/// Bytes of the largest compiled expression.
const LARGEST: usize = 1 << 20;

impl TextRule {
    /// Whether a text is as it must be. What cannot be told is left to the forge.
    pub fn holds(&self, text: &str) -> bool {
        let is_so = match self.operator {
            Operator::StartsWith => text.starts_with(&self.pattern),
            Operator::EndsWith => text.ends_with(&self.pattern),
            Operator::Contains => text.contains(&self.pattern),
            Operator::Regex => match self.regex() {
                Some(regex) => regex.is_match(text),
                None => return true,
            },
            Operator::Unknown => return true,
        };
        is_so != self.negate
    }

    fn regex(&self) -> Option<Regex> {
        RegexBuilder::new(&self.pattern).size_limit(LARGEST).multi_line(true).build().ok()
    }

    /// For people: what is wanted.
    pub fn words(&self) -> String {
        let how = match (self.operator, self.negate) {
            (Operator::StartsWith, false) => "must begin with",
            (Operator::StartsWith, true) => "must not begin with",
            (Operator::EndsWith, false) => "must end with",
            (Operator::EndsWith, true) => "must not end with",
            (Operator::Contains, false) => "must contain",
            (Operator::Contains, true) => "must not contain",
            (Operator::Regex | Operator::Unknown, false) => "must match",
            (Operator::Regex | Operator::Unknown, true) => "must not match",
        };
        let pattern: String = self.pattern.chars().filter(|c| !c.is_control()).take(100).collect();
        format!("{how} `{pattern}`")
    }
}

#[cfg(test)]
mod tests {
    use super::{Operator, TextRule};

    #[test]
    fn a_text_rule_holds_or_not() {
        for (operator, pattern, negate, text, holds) in [
            (Operator::StartsWith, "fix/", false, "fix/a", true),
            (Operator::StartsWith, "fix/", false, "a", false),
            (Operator::StartsWith, "fix/", true, "a", true),
            (Operator::EndsWith, "@acme.example", false, "a@acme.example", true),
            (Operator::Contains, "wip", true, "a wip b", false),
            (Operator::Regex, "^APP-[0-9]+ ", false, "APP-7 x", true),
            (Operator::Regex, "^APP-[0-9]+ ", false, "x", false),
            // Only the forge knows.
            (Operator::Regex, "(?<!a)b", false, "x", true),
            (Operator::Unknown, "x", false, "y", true),
        ] {
            let rule = TextRule { operator, pattern: pattern.to_owned(), negate };
            assert_eq!(rule.holds(text), holds, "{rule:?} {text}");
        }
    }
}
