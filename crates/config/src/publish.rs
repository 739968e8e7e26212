//! What is said about pull requests and commits.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the pull request is made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Publish {
    /// The branch to work on and to merge into; the default branch when absent.
    pub base: Option<String>,
    /// The branch to push; `patchwright/issue-N` when absent.
    pub branch: Option<String>,
    /// Always a draft; without it a draft only when checks fail or protected files change.
    pub draft: bool,
    pub labels: Vec<String>,
    pub reviewers: Vec<String>,
    /// Most owners of the changed files who are asked for a review.
    pub code_owners: usize,
    pub assignees: Vec<String>,
    /// Title of an open milestone.
    pub milestone: Option<String>,
    pub auto_merge: bool,
    pub merge_method: MergeMethod,
    /// The evidence is told in a check of the commit, too.
    pub check_run: bool,
    pub fork: Fork,
}

/// Where the branch of a change is pushed to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Fork {
    /// To the repository itself.
    #[default]
    Off,
    /// To our own account's fork of it, where we may not push to the repository.
    Auto,
    /// To the fork of this account or organisation, always.
    Of(String),
}

impl FromStr for Fork {
    type Err = String;

    fn from_str(text: &str) -> Result<Fork, String> {
        let is_login = |name: &str| {
            (1..=39).contains(&name.len())
                && !name.starts_with('-')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        };
        match text {
            "off" => Ok(Fork::Off),
            "auto" => Ok(Fork::Auto),
            owner if is_login(owner) => Ok(Fork::Of(owner.to_owned())),
            other => Err(format!("`{other}` is neither `off`, `auto` nor the name of an account")),
        }
    }
}

impl TryFrom<String> for Fork {
    type Error = String;

    fn try_from(text: String) -> Result<Fork, String> {
        text.parse()
    }
}

impl From<Fork> for String {
    fn from(fork: Fork) -> String {
        match fork {
            Fork::Off => "off".to_owned(),
            Fork::Auto => "auto".to_owned(),
            Fork::Of(owner) => owner,
        }
    }
}

/// How GitHub merges what it merges by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeMethod {
    #[default]
    Merge,
    Squash,
    Rebase,
}

impl MergeMethod {
    /// The word of GitHub's API.
    pub fn word(self) -> &'static str {
        match self {
            MergeMethod::Merge => "MERGE",
            MergeMethod::Squash => "SQUASH",
            MergeMethod::Rebase => "REBASE",
        }
    }
}

/// What commits are like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Commits {
    pub signing: Signing,
    /// Nothing is proposed whose signature the forge does not verify.
    pub require_verified: bool,
    /// `Signed-off-by:` of the author.
    pub sign_off: bool,
    /// `Name <address>`, or [`REQUESTER`].
    pub co_authors: Vec<String>,
}

/// Among co-authors: who asked for the work.
pub const REQUESTER: &str = "requester";

/// Who signs commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Signing {
    /// Nobody
    #[default]
    None,
    /// GitHub, which makes them through its API: they are its account's, and verified
    Github,
    /// We, with an operator's SSH key
    Ssh,
}

/// Author and committer of the commits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    pub name: String,
    pub email: String,
    /// The author's when absent.
    pub committer_name: Option<String>,
    pub committer_email: Option<String>,
}

impl Identity {
    pub fn committer_name(&self) -> &str {
        self.committer_name.as_deref().unwrap_or(&self.name)
    }

    /// The address by which our commits are known.
    pub fn committer_email(&self) -> &str {
        self.committer_email.as_deref().unwrap_or(&self.email)
    }
}
