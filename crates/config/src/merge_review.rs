//! The sections `review` and `respond`, laid over what is there already; see [`super::merge`].

use super::merge::{lower, take};
use super::review::{FailOn, RespondFile, ReviewFile};
use super::{Config, Source, file};
use patchwright_forge::ReviewEvent;

/// The operator's file: everything it says counts.
pub(super) fn overlay(config: &mut Config, review: ReviewFile, respond: RespondFile) {
    let source = Source::OperatorFile;
    take!(config, source, review.paths = review.paths);
    take!(config, source, review.ignore_paths = review.ignore_paths);
    take!(config, source, review.instructions = review.instructions);
    take!(config, source, review.minimum_priority = review.minimum_priority);
    take!(config, source, review.minimum_confidence = review.minimum_confidence);
    take!(config, source, review.max_comments = review.max_comments);
    take!(config, source, review.language = review.language.map(Some));
    take!(config, source, review.drafts = review.drafts);
    take!(config, source, review.labels = review.labels);
    take!(config, source, review.skip_labels = review.skip_labels);
    take!(config, source, review.skip_authors = review.skip_authors);
    take!(config, source, review.event = review.event);
    take!(config, source, review.fail_on = review.fail_on.map(FailOn::threshold));
    take!(config, source, review.suggestions = review.suggestions);
    take!(config, source, review.resolve_threads = review.resolve_threads);
    take!(config, source, review.per_pull_request = review.per_pull_request);
    take!(config, source, review.per_author = review.per_author);
    take!(config, source, review.per_day = review.per_day);
    let mention = respond.mention.map(|name| name.trim_start_matches('@').to_owned());
    take!(config, source, respond.mention = mention);
    take!(config, source, respond.max_rounds = respond.max_rounds);
    take!(config, source, respond.max_ci_rounds = respond.max_ci_rounds);
}

/// The repository's file: what the operator has left open is the repository's to choose, apart from
/// approving; counts only go down.
pub(super) fn tighten(config: &mut Config, review: ReviewFile, respond: &RespondFile) {
    let source = Source::RepositoryFile;
    /// Takes a value unless the operator has set it.
    macro_rules! choose {
        ($field:ident = $value:expr) => {
            if let Some(value) = $value {
                let key = concat!("review.", stringify!($field)).replace('_', "-");
                if config.sources.get(&key).is_none_or(|set_by| *set_by == source) {
                    config.review.$field = value;
                    config.sources.insert(key, source);
                } else if serde_json::to_value(&config.review.$field).ok()
                    != serde_json::to_value(&value).ok()
                {
                    config.notes.push(format!(
                        "`{key}` in `{}` was not taken: the operator has set it",
                        file::REPOSITORY_FILE
                    ));
                }
            }
        };
    }
    choose!(paths = review.paths);
    choose!(ignore_paths = review.ignore_paths);
    choose!(instructions = review.instructions);
    choose!(minimum_priority = review.minimum_priority);
    choose!(minimum_confidence = review.minimum_confidence);
    choose!(language = review.language.map(Some));
    choose!(drafts = review.drafts);
    choose!(labels = review.labels);
    choose!(skip_labels = review.skip_labels);
    choose!(skip_authors = review.skip_authors);
    // That approving is the operator's is noted with the other keys of that kind.
    choose!(event = review.event.filter(|event| *event != ReviewEvent::Approve));
    choose!(fail_on = review.fail_on.map(FailOn::threshold));
    choose!(suggestions = review.suggestions);
    choose!(resolve_threads = review.resolve_threads);
    let notes = &mut config.notes;
    lower(notes, "review.max-comments", &mut config.review.max_comments, review.max_comments);
    lower(notes, "respond.max-rounds", &mut config.respond.max_rounds, respond.max_rounds);
    lower(notes, "respond.max-ci-rounds", &mut config.respond.max_ci_rounds, respond.max_ci_rounds);
}
