//! What the sections `review` and `respond` of a configuration file may say, checked when the file is
//! read, the operator's and the repository's alike. The tools have a file of their own.

use super::file::File;
use super::merge;
use super::publish::REQUESTER;
use super::review::PathInstructions;
use super::{MOST_ATTEMPTS, Mode};
use patchwright_ecosystems::services::MAX_SERVICES;
use patchwright_policy::glob_of;
use patchwright_policy::names::Pattern;

/// Inline comments of one review.
pub const MOST_COMMENTS: usize = 30;
/// People and teams that GitHub lets one ask for a review.
const MOST_REVIEWERS: usize = 15;
const MOST_INSTRUCTIONS: usize = 50;
const LONGEST_INSTRUCTION: usize = 4_000;
const MOST_ENTRIES: usize = 200;
const LONGEST_ENTRY: usize = 400;
const LONGEST_LANGUAGE: usize = 40;
/// Processors of one container: what no machine has is a slip.
const MOST_CPUS: f64 = 4096.0;

/// What is wrong with the file, in a sentence that names the key.
pub(super) fn check(file: &File) -> Result<(), String> {
    if file.mode == Some(Mode::Review) {
        return Err(
            "`mode` is `plan` or `execute`; reviews are started by `patchwright review` or \
                    by a pull request"
                .to_owned(),
        );
    }
    super::check_tools::check(file)?;
    for (key, words) in [("setup", &file.setup), ("network.setup-allow", &file.network.setup_allow)]
    {
        if words.as_deref().is_some_and(merge::has_none_beside_others) {
            return Err(format!("`none` in `{key}` stands alone, or not at all"));
        }
    }
    if let Some(schema) = &file.output_schema {
        super::output_schema::check(schema).map_err(|why| format!("`output-schema` {why}"))?;
    }
    services(file).and_then(|()| attempts(file)).and_then(|()| processors(file))?;
    dollars_and_paths(file)?;
    names_and_people(file)?;
    let review = &file.review;
    globs("review.paths", review.paths.as_deref())?;
    globs("review.ignore-paths", review.ignore_paths.as_deref())?;
    instructions(review.instructions.as_deref().unwrap_or_default())?;
    lists(file)?;
    for (key, confidence) in [
        ("review.minimum-confidence", review.minimum_confidence),
        ("review.inline-confidence", review.inline_confidence),
    ] {
        let outside = confidence.filter(|confidence| !(0.0..=1.0).contains(confidence));
        if let Some(confidence) = outside {
            return Err(format!("`{key}` must be from 0 to 1: {confidence}"));
        }
    }
    between("review.max-comments", review.max_comments, 1, MOST_COMMENTS)?;
    if let Some(language) = &review.language {
        let plain = |c: char| c.is_alphanumeric() || " -_()'".contains(c);
        let named = language.chars().any(char::is_alphabetic);
        if !named || language.chars().count() > LONGEST_LANGUAGE || !language.chars().all(plain) {
            return Err(format!(
                "`review.language` must be the name of a language, at most {LONGEST_LANGUAGE} \
                 letters, such as `German`"
            ));
        }
    }
    entries("images", file.images.as_deref())?;
    for glob in file.images.iter().flatten() {
        globset::Glob::new(glob)
            .map_err(|err| format!("`{glob}` in `images` is not a valid pattern: {err}"))?;
    }
    between("review.per-pull-request", review.per_pull_request, 0, 10_000)?;
    between("review.per-author", review.per_author, 0, 10_000)?;
    between("review.per-day", review.per_day, 0, 10_000)?;
    let respond = &file.respond;
    if let Some(mention) = &respond.mention {
        self::mention(mention).map_err(|why| format!("`respond.mention`: {why}"))?;
    }
    between("respond.max-rounds", respond.max_rounds, 1, 100)?;
    between("respond.max-ci-rounds", respond.max_ci_rounds, 0, 20)
}

fn dollars_and_paths(file: &File) -> Result<(), String> {
    if file.limits.max_cost_usd.is_some_and(f64::is_infinite) {
        return Err("`limits.max-cost-usd` must be a number of dollars".to_owned());
    }
    let policy = &file.policy;
    for (key, globs) in [
        ("policy.protected-paths", &policy.protected_paths),
        ("policy.blocked-paths", &policy.blocked_paths),
        ("policy.secret-allow-paths", &policy.secret_allow_paths),
    ] {
        for glob in globs.iter().flatten() {
            globset::Glob::new(glob)
                .map_err(|err| format!("`{glob}` in `{key}` is not a valid path pattern: {err}"))?;
        }
    }
    Ok(())
}

/// Lists of names.
fn lists(file: &File) -> Result<(), String> {
    let review = &file.review;
    for (key, listed) in [
        ("review.labels", &review.labels),
        ("review.skip-labels", &review.skip_labels),
        ("review.skip-authors", &review.skip_authors),
        ("triage.labels", &file.triage.labels),
        ("triage.skip-labels", &file.triage.skip_labels),
    ] {
        entries(key, listed.as_deref())?;
    }
    Ok(())
}

/// What titles, branches, commits and pull requests are like.
fn names_and_people(file: &File) -> Result<(), String> {
    for (key, patterns) in
        [("policy.titles", &file.policy.titles), ("policy.branches", &file.policy.branches)]
    {
        entries(key, patterns.as_deref())?;
        for pattern in patterns.iter().flatten() {
            Pattern::parse(pattern).map_err(|why| format!("`{pattern}` in `{key}`: {why}"))?;
        }
    }
    let identity = &file.identity;
    for (key, text) in [
        ("identity.name", &identity.name),
        ("identity.email", &identity.email),
        ("identity.committer-name", &identity.committer_name),
        ("identity.committer-email", &identity.committer_email),
    ] {
        // What a commit has of it.
        let says_something = |c: char| !c.is_control() && !c.is_whitespace() && !"<>".contains(c);
        if text.as_ref().is_some_and(|text| !text.chars().any(says_something)) {
            return Err(format!("`{key}` is empty, and a commit needs a name and an address"));
        }
    }
    between("publish.code-owners", file.publish.code_owners, 0, MOST_REVIEWERS)?;
    entries("publish.assignees", file.publish.assignees.as_deref())?;
    entries("commits.co-authors", file.commits.co_authors.as_deref())?;
    for person in file.commits.co_authors.iter().flatten() {
        let is_person = person.trim_end().strip_suffix('>').and_then(|it| it.split_once('<'));
        let is_person = is_person.is_some_and(|(name, address)| {
            !name.trim().is_empty() && address.contains('@') && !address.contains(['<', '>', ' '])
        });
        if person != REQUESTER && !is_person {
            return Err(format!(
                "`{person}` in `commits.co-authors` is not `Name <address>`, and not `{REQUESTER}`"
            ));
        }
    }
    Ok(())
}

fn attempts(file: &File) -> Result<(), String> {
    between("attempts", file.attempts, 1, MOST_ATTEMPTS)?;
    between("attempts-at-once", file.attempts_at_once, 1, MOST_ATTEMPTS)
}

/// What is too low is a rule of the table.
fn processors(file: &File) -> Result<(), String> {
    match file.container.cpus {
        Some(cpus) if cpus > MOST_CPUS => {
            Err(format!("`container.cpus` must be at most {MOST_CPUS}: {cpus}"))
        }
        _ => Ok(()),
    }
}

fn services(file: &File) -> Result<(), String> {
    if file.services.as_ref().is_some_and(|services| services.len() > MAX_SERVICES) {
        return Err(format!("`services` has more than {MAX_SERVICES} entries"));
    }
    for (name, service) in file.services.iter().flatten() {
        service.check(name).map_err(|why| format!("`services.{name}`: {why}"))?;
    }
    Ok(())
}

/// Whether this can be the name after `@`.
pub fn mention(mention: &str) -> Result<(), String> {
    let name = mention.strip_prefix('@').unwrap_or(mention);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || name.len() > 39 || !name.chars().all(plain) {
        return Err("it must be the name of an account, such as `patchwright`".to_owned());
    }
    Ok(())
}

pub(super) fn between<T: PartialOrd + Copy + std::fmt::Display>(
    key: &str,
    value: Option<T>,
    least: T,
    most: T,
) -> Result<(), String> {
    match value {
        Some(value) if value < least || value > most => {
            Err(format!("`{key}` must be from {least} to {most}: {value}"))
        }
        _ => Ok(()),
    }
}

fn instructions(all: &[PathInstructions]) -> Result<(), String> {
    if all.len() > MOST_INSTRUCTIONS {
        return Err(format!("`review.instructions` has more than {MOST_INSTRUCTIONS} entries"));
    }
    for one in all {
        globs("review.instructions", Some(&one.paths))?;
        if one.paths.is_empty() {
            return Err("an entry of `review.instructions` names no `paths`".to_owned());
        }
        if one.text.trim().is_empty() || one.text.len() > LONGEST_INSTRUCTION {
            return Err(format!(
                "a `text` of `review.instructions` must have 1 to {LONGEST_INSTRUCTION} bytes: {}",
                one.text.len()
            ));
        }
    }
    Ok(())
}

fn globs(key: &str, globs: Option<&[String]>) -> Result<(), String> {
    entries(key, globs)?;
    for glob in globs.unwrap_or_default() {
        if glob.starts_with('!') {
            return Err(format!(
                "`{glob}` in `{key}` excludes files; list them in `review.ignore-paths` instead"
            ));
        }
        glob_of(glob)
            .map_err(|err| format!("`{glob}` in `{key}` is not a valid path pattern: {err}"))?;
    }
    Ok(())
}

pub(super) fn entries(key: &str, entries: Option<&[String]>) -> Result<(), String> {
    let entries = entries.unwrap_or_default();
    if entries.len() > MOST_ENTRIES {
        return Err(format!("`{key}` has more than {MOST_ENTRIES} entries"));
    }
    let fine = |entry: &&String| {
        !entry.trim().is_empty()
            && entry.len() <= LONGEST_ENTRY
            && !entry.chars().any(char::is_control)
    };
    match entries.iter().find(|entry| !fine(entry)) {
        None => Ok(()),
        Some(_) => Err(format!(
            "an entry of `{key}` is empty, longer than {LONGEST_ENTRY} bytes, or not one line"
        )),
    }
}
