//! What a repository can use Patchwright for: one use for each file in `workflows/`, whose text is in the program.

use std::collections::BTreeSet;

use clap::ValueEnum;

/// A use, named as its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Use {
    /// A label on an issue starts work on it, which ends in a pull request
    #[value(name = "issue-to-pr")]
    IssueToPr,
    /// Issues get labels, and their authors are asked for what is missing
    IssueTriage,
    /// A mention in a comment is answered or done
    Mention,
    /// A campaign over many repositories each night
    NightlyBatch,
    /// Pull requests of this repository are reviewed
    PrReview,
    /// Pull requests of forks are reviewed, too
    PrReviewForks,
    /// The merge queue gets the check of reviews that were made before
    PrReviewQueue,
    /// A prompt of yours is followed once a week
    ScheduledPrompt,
    /// What maintainers corrected is proposed as lessons once a week
    Learn,
}

/// A secret that a workflow names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Secret {
    /// Needed ones come first.
    pub(super) is_optional: bool,
    pub(super) name: String,
}

impl Use {
    /// Name of the file, here and in `.github/workflows/`.
    pub fn file(self) -> &'static str {
        match self {
            Use::IssueToPr => "issue-to-pr.yml",
            Use::IssueTriage => "issue-triage.yml",
            Use::Mention => "mention.yml",
            Use::NightlyBatch => "nightly-batch.yml",
            Use::PrReview => "pr-review.yml",
            Use::PrReviewForks => "pr-review-forks.yml",
            Use::PrReviewQueue => "pr-review-queue.yml",
            Use::ScheduledPrompt => "scheduled-prompt.yml",
            Use::Learn => "learn.yml",
        }
    }

    /// The workflow, byte for byte that of `workflows/`.
    pub fn content(self) -> &'static str {
        match self {
            Use::IssueToPr => include_str!("../../../workflows/issue-to-pr.yml"),
            Use::IssueTriage => include_str!("../../../workflows/issue-triage.yml"),
            Use::Mention => include_str!("../../../workflows/mention.yml"),
            Use::NightlyBatch => include_str!("../../../workflows/nightly-batch.yml"),
            Use::PrReview => include_str!("../../../workflows/pr-review.yml"),
            Use::PrReviewForks => include_str!("../../../workflows/pr-review-forks.yml"),
            Use::PrReviewQueue => include_str!("../../../workflows/pr-review-queue.yml"),
            Use::ScheduledPrompt => include_str!("../../../workflows/scheduled-prompt.yml"),
            Use::Learn => include_str!("../../../workflows/learn.yml"),
        }
    }

    /// The uses without whose workflows this one's is of no use, or holds up the merge queue.
    pub(super) fn needs(self) -> &'static [Use] {
        match self {
            Use::PrReview => &[Use::PrReviewQueue],
            Use::PrReviewForks => &[Use::PrReview, Use::PrReviewQueue],
            Use::PrReviewQueue => &[Use::PrReview],
            Use::IssueToPr
            | Use::IssueTriage
            | Use::Mention
            | Use::NightlyBatch
            | Use::ScheduledPrompt
            | Use::Learn => &[],
        }
    }

    pub(super) fn opens_pull_requests(self) -> bool {
        match self {
            Use::IssueToPr
            | Use::Mention
            | Use::ScheduledPrompt
            | Use::NightlyBatch
            | Use::Learn => true,
            Use::IssueTriage | Use::PrReview | Use::PrReviewForks | Use::PrReviewQueue => false,
        }
    }

    /// What a person has to do for this use alone.
    pub(super) fn steps(self) -> &'static [&'static str] {
        match self {
            Use::IssueToPr => {
                &["Make the label, and put it on an issue: gh label create patchwright"]
            }
            Use::IssueTriage => &[
                "Say in issue-triage.yml which labels an issue may get: `gh label list` shows those that there are",
            ],
            Use::Mention => &["Write `@patchwright help` in a comment on an issue"],
            Use::NightlyBatch => &[
                "Describe the campaign in campaigns/nightly.yml: `docs/campaigns.md` has the keys",
            ],
            Use::PrReview => {
                &["To make the review count, require its check in the rules of the default branch"]
            }
            Use::PrReviewForks | Use::PrReviewQueue | Use::Learn => &[],
            Use::ScheduledPrompt => &["Write what is to be done in .github/prompts/weekly.md"],
        }
    }

    /// The secrets that the workflow names. One that something stands in for (`secrets.A || …`) is optional.
    pub(super) fn secrets(self) -> BTreeSet<Secret> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mentions = self.content().split("secrets.").skip(1);
        let secrets = mentions.map(|rest| {
            let (name, rest) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
            Secret { is_optional: rest.trim_start().starts_with("||"), name: name.to_owned() }
        });
        secrets.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Use;

    #[test]
    fn secrets_are_those_that_the_workflow_names() {
        let named = |one: Use| -> Vec<String> {
            one.secrets().iter().map(|it| format!("{} {}", it.name, it.is_optional)).collect()
        };
        assert_eq!(named(Use::IssueToPr), ["OPENAI_API_KEY false"]);
        assert_eq!(
            named(Use::NightlyBatch),
            ["OPENAI_API_KEY false", "PATCHWRIGHT_READ_TOKEN true", "PATCHWRIGHT_WRITE_TOKEN true"]
        );
    }
}
