//! How pull requests are reviewed, and how far conversations go: what becomes of the sections `review` and
//! `respond` of a configuration file. What they may say is checked by [`super::check`].

use std::fmt;
use std::str::FromStr;

use globset::{GlobSet, GlobSetBuilder};
use serde::{Deserialize, Deserializer, Serialize, de};

use patchwright_forge::ReviewEvent;
use patchwright_policy::glob_of;
use patchwright_review::finding::Priority;

/// Instructions for some files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PathInstructions {
    pub paths: Vec<String>,
    pub text: String,
}

/// From which priority on a finding counts for something: `0` to `3`, or `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    At(Priority),
    Never,
}

impl Threshold {
    /// As [`Review`] has it.
    pub fn threshold(self) -> Option<Priority> {
        match self {
            Threshold::At(priority) => Some(priority),
            Threshold::Never => None,
        }
    }
}

impl From<Threshold> for Option<Priority> {
    fn from(threshold: Threshold) -> Option<Priority> {
        threshold.threshold()
    }
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        if text == "never" {
            return Ok(Threshold::Never);
        }
        let priority = text.parse::<u8>().ok().and_then(|number| Priority::try_from(number).ok());
        priority
            .map(Threshold::At)
            .ok_or_else(|| format!("`{text}` is not a priority; it is `0` to `3`, or `never`"))
    }
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Threshold, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Threshold;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`0` to `3`, or `never`")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Threshold, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Threshold, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Threshold, E> {
                let text: String = text.chars().take(40).collect();
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// How pull requests are reviewed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Review {
    pub paths: Vec<String>,
    pub ignore_paths: Vec<String>,
    pub instructions: Vec<PathInstructions>,
    pub minimum_priority: Priority,
    pub minimum_confidence: f64,
    /// What is less important or less sure stands in the review's body instead of on its line.
    pub inline_priority: Priority,
    pub inline_confidence: f64,
    pub max_comments: usize,
    pub language: Option<String>,
    pub drafts: bool,
    pub labels: Vec<String>,
    pub skip_labels: Vec<String>,
    pub skip_authors: Vec<String>,
    pub event: ReviewEvent,
    /// `None`: findings never make the check fail.
    pub fail_on: Option<Priority>,
    /// Open findings at least this important keep the check from `success`. `None`: none does.
    pub neutral_on: Option<Priority>,
    /// A check of the repository that the pull request breaks makes the review's check fail.
    pub fail_on_checks: bool,
    pub suggestions: bool,
    /// The reviewer is asked to confirm each finding before it is published.
    pub second_look: bool,
    pub resolve_threads: bool,
    /// Reviews in 24 hours that strangers can set off: of one pull request, of one author, of a
    /// repository.
    pub per_pull_request: u32,
    pub per_author: u32,
    pub per_day: u32,
}

impl Default for Review {
    fn default() -> Review {
        Review {
            paths: Vec::new(),
            ignore_paths: Vec::new(),
            instructions: Vec::new(),
            minimum_priority: Priority::P3,
            minimum_confidence: 0.0,
            inline_priority: Priority::P2,
            inline_confidence: 0.5,
            max_comments: 30,
            language: None,
            drafts: false,
            labels: Vec::new(),
            skip_labels: Vec::new(),
            skip_authors: Vec::new(),
            event: ReviewEvent::Comment,
            fail_on: Some(Priority::P0),
            neutral_on: Some(Priority::P1),
            fail_on_checks: true,
            suggestions: true,
            second_look: true,
            resolve_threads: true,
            per_pull_request: 10,
            per_author: 20,
            per_day: 100,
        }
    }
}

impl Review {
    /// Findings at least this important are a request for changes, where requests are made: whatever keeps
    /// the check from `success`.
    pub fn requests_changes_on(&self) -> Priority {
        self.fail_on.max(self.neutral_on).unwrap_or(Priority::P1)
    }

    /// Whether the file at `path` is to be reviewed. For many paths, see [`Filter`].
    pub fn reads(&self, path: &str) -> bool {
        Filter::of(self).reads(path)
    }

    /// What to look at in these files: the texts of the instructions that name one of them, in their
    /// order, each once.
    pub fn instructions_for<P: AsRef<str>>(&self, paths: &[P]) -> Vec<&str> {
        let concerned = |instructions: &&PathInstructions| {
            let globs = glob_set(&instructions.paths);
            paths.iter().any(|path| globs.is_match(path.as_ref()))
        };
        let mut texts: Vec<&str> = Vec::new();
        for instructions in self.instructions.iter().filter(concerned) {
            if !texts.contains(&instructions.text.as_str()) {
                texts.push(&instructions.text);
            }
        }
        texts
    }
}

/// Which files are reviewed, compiled once for many of them.
#[derive(Clone, Debug)]
pub struct Filter {
    /// `None`: all.
    only: Option<GlobSet>,
    ignored: GlobSet,
}

impl Filter {
    pub fn of(review: &Review) -> Filter {
        Filter {
            only: (!review.paths.is_empty()).then(|| glob_set(&review.paths)),
            ignored: glob_set(&review.ignore_paths),
        }
    }

    pub fn reads(&self, path: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.is_match(path)) && !self.ignored.is_match(path)
    }
}

/// Compiles globs. Invalid ones match nothing; [`super::check`] has refused them before.
fn glob_set(globs: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for glob in globs.iter().filter_map(|glob| glob_of(glob).ok()) {
        set.add(glob);
    }
    set.build().unwrap_or_default()
}

/// How far conversations go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Respond {
    /// The name after `@`.
    pub mention: String,
    /// Answers of ours in one thread.
    pub max_rounds: u32,
    /// Attempts to repair the checks of one pull request.
    pub max_ci_rounds: u32,
}

impl Default for Respond {
    fn default() -> Respond {
        Respond { mention: "patchwright".to_owned(), max_rounds: 10, max_ci_rounds: 3 }
    }
}
