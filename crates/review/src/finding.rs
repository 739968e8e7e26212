//! A finding, as the model reports it with `report_finding`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Findings of one review that are published, but for those that must not be lost.
pub const MOST_FINDINGS: usize = 200;

/// One thing that is wrong, and the code that shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// File, relative to the root of the repository.
    pub path: String,
    /// The code that it is about, as it stands in the file: whole lines without diff signs.
    pub quote: String,
    /// Where the model believes the first quoted line to be; decides between several places only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// One line.
    pub title: String,
    /// Markdown.
    pub body: String,
    pub priority: Priority,
    /// From 0 to 1.
    pub confidence: f64,
    pub category: Category,
    /// What the quoted lines should be instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    /// What was run to show it, and what came out. Without it, it was found by reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reproduction: Option<String>,
    #[serde(default, skip_serializing_if = "Verdict::is_pending")]
    pub verdict: Verdict,
}

impl Finding {
    /// How it was shown, in a word.
    pub fn shown(&self) -> &'static str {
        if self.reproduction.is_some() { "reproduced" } else { "read" }
    }

    /// Where it stands among others: by priority, and of those that are equal first what lets somebody in or loses
    /// data. Lower is more important.
    pub fn rank(&self) -> (Priority, bool) {
        (self.priority, !matches!(self.category, Category::Security | Category::Data))
    }

    /// Takes in what its reviewer says of it now.
    pub fn judge(&mut self, verdict: Verdict, reproduction: Option<&str>) {
        self.verdict = verdict;
        if let Some(reproduction) = reproduction {
            self.reproduction = Some(reproduction.to_owned());
        }
    }
}

/// What the reviewer says of its own finding when it looks at it once more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing until now.
    #[default]
    Pending,
    /// It stands.
    Confirmed,
    /// It was asked and gave no answer.
    Unconfirmed,
    /// It was wrong, and is not published.
    Withdrawn,
}

impl Verdict {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    fn is_pending(&self) -> bool {
        *self == Verdict::Pending
    }
}

/// How much it matters; 0 is most.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "u8", into = "u8")]
pub struct Priority(u8);

impl Priority {
    /// Must not be merged like this.
    pub const P0: Priority = Priority(0);
    /// Should be fixed in this pull request.
    pub const P1: Priority = Priority(1);
    /// Should be fixed some time.
    pub const P2: Priority = Priority(2);
    /// Nice to have.
    pub const P3: Priority = Priority(3);

    /// 0 to 3.
    pub fn number(self) -> u8 {
        self.0
    }

    /// As reviews write it: `P1`, `p1` or `1`.
    pub fn spelled(word: &str) -> Option<Priority> {
        let word = word.trim();
        let number = word.strip_prefix(['P', 'p']).unwrap_or(word);
        Priority::try_from(number.parse::<u8>().ok()?).ok()
    }
}

impl TryFrom<u8> for Priority {
    type Error = String;

    fn try_from(number: u8) -> Result<Priority, String> {
        if number <= 3 {
            Ok(Priority(number))
        } else {
            Err(format!("priority {number} does not exist; it is 0 (most important) to 3"))
        }
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> u8 {
        priority.0
    }
}

impl std::fmt::Display for Priority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "P{}", self.0)
    }
}

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// It does the wrong thing.
    Bug,
    Security,
    Performance,
    /// Data can be lost or damaged.
    Data,
    /// A test is missing or does not test.
    Tests,
    /// An interface is broken or hard to use.
    Api,
    Documentation,
    Maintainability,
    Other,
}

impl Category {
    /// The word in reports.
    pub fn word(self) -> &'static str {
        match self {
            Category::Bug => "bug",
            Category::Security => "security",
            Category::Performance => "performance",
            Category::Data => "data",
            Category::Tests => "tests",
            Category::Api => "api",
            Category::Documentation => "documentation",
            Category::Maintainability => "maintainability",
            Category::Other => "other",
        }
    }
}
