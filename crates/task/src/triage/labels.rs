//! The labels that may be put on an issue: some of those that the repository has. None is ever made, and one that
//! sets something off is left out unless the operator names it.

use super::admit::AdmittedTriage;
use crate::context::hidden;
use crate::run::Run;
use crate::workspace::Workspace;
use patchwright_base::error::{Failure, Result};
use patchwright_base::text;
use patchwright_config::Config;
use patchwright_forge::Label;

/// What stands behind a character that is to be shown as an emoji, and between two that are one.
const EMOJI_FORM: char = '\u{FE0F}';
const JOINER: char = '\u{200D}';
/// Labels that are read, and that are offered.
const MAX_READ: usize = 1_000;
const MAX_OFFERED: usize = 150;
/// Characters of a description.
const MAX_DESCRIPTION: usize = 160;
/// Bytes of one file in which labels are looked for.
const MAX_FILE: usize = 256 << 10;
const MAX_FILES: usize = 100;
const WORKFLOWS: &str = ".github/workflows";
/// Files of bots that act on labels.
const BOTS: &[&str] = &[
    ".mergify.yml",
    ".mergify/config.yml",
    ".github/mergify.yml",
    ".kodiak.toml",
    ".github/.kodiak.toml",
    ".bulldozer.yml",
    ".policy.yml",
];

/// The labels to choose from.
pub(super) async fn offered(
    run: &Run<'_>,
    admitted: &AdmittedTriage,
    rules: &Workspace,
    notes: &mut Vec<String>,
) -> Result<Vec<Label>> {
    let forge = run.world.forge()?;
    let all = forge.labels(&admitted.repository.id, MAX_READ).await.map_err(Failure::from)?;
    let named = &run.config.triage.labels;
    for name in named.iter().filter(|name| !all.iter().any(|label| is_same(&label.name, name))) {
        notes
            .push(format!("the repository has no label `{}` of `triage.labels`", text::line(name)));
    }
    for label in all.iter().filter(|label| !is_plain(&label.name)) {
        if named.iter().any(|name| is_same(name, &label.name)) {
            notes.push(format!(
                "the label `{}` of `triage.labels` cannot be chosen: its name has characters that nobody sees",
                text::line(&label.name)
            ));
        }
    }
    let automation =
        if named.is_empty() { Automation::of(rules).await? } else { Automation::default() };
    let is_offered = |label: &Label| {
        let name = label.name.as_str();
        let is_named = named.iter().any(|it| is_same(it, name));
        let is_skipped = run.config.triage.skip_labels.iter().any(|it| is_same(it, name));
        let is_free = || !is_ours(&run.config, name) && !automation.knows(name);
        is_plain(name) && !is_skipped && (is_named || (named.is_empty() && is_free()))
    };
    let mut offered: Vec<Label> = all.into_iter().filter(is_offered).collect();
    if offered.len() > MAX_OFFERED {
        notes.push(format!(
            "only {MAX_OFFERED} of {} labels can be chosen from; name some in `triage.labels`",
            offered.len()
        ));
        offered.truncate(MAX_OFFERED);
    }
    for label in &mut offered {
        let clean = hidden::clean(&label.description).text;
        label.description = text::cut(&text::line(&clean), MAX_DESCRIPTION);
    }
    Ok(offered)
}

/// GitHub's labels do not tell upper from lower case, and models leave out what only chooses the form of an emoji.
pub(super) fn is_same(label: &str, other: &str) -> bool {
    without_joiners(label).to_lowercase() == without_joiners(other).to_lowercase()
}

/// A reader sees it as it is; a name that nobody can see could not be chosen either.
fn is_plain(name: &str) -> bool {
    let visible = without_joiners(name);
    hidden::clean(&visible).text == visible && text::line(&visible) == visible
}

/// Without what stands behind an emoji to give it another form, or to join it with the next.
fn without_joiners(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        let is_joiner = matches!(c, EMOJI_FORM | JOINER);
        // Behind a letter it has no business, and would make two names look like one.
        if !is_joiner || out.chars().next_back().is_none_or(char::is_alphanumeric) {
            out.push(c);
        }
    }
    out
}

/// A label that means something to this program.
fn is_ours(config: &Config, name: &str) -> bool {
    let review = config.review.labels.iter().chain(&config.review.skip_labels);
    let publish = &config.publish.labels;
    is_same(&config.access.label, name) || review.chain(publish).any(|it| is_same(it, name))
}

/// What workflows and bots say, in which labels are named that they act on.
#[derive(Default)]
struct Automation {
    /// Here labels stand between quotation marks, as expressions have them, or in lists.
    workflows: Vec<String>,
    bots: Vec<String>,
}

impl Automation {
    async fn of(rules: &Workspace) -> Result<Automation> {
        let mut found = Automation::default();
        let listed = rules.list(WORKFLOWS).await?;
        for entry in listed.iter().take(MAX_FILES) {
            found.workflows.extend(read(rules, &format!("{WORKFLOWS}/{}", entry.name)).await?);
        }
        for path in BOTS {
            found.bots.extend(read(rules, path).await?);
        }
        Ok(found)
    }

    fn knows(&self, label: &str) -> bool {
        let label = label.to_lowercase();
        let quoted = ["'", "\""].map(|mark| format!("{mark}{label}{mark}"));
        self.workflows.iter().any(|text| quoted.iter().any(|it| text.contains(it.as_str())))
            || self.bots.iter().any(|text| has_word(text, &label))
    }
}

async fn read(rules: &Workspace, path: &str) -> Result<Option<String>> {
    let text = if rules.has_file(path) { rules.text_file(path).await? } else { None };
    Ok(text.map(|text| hidden::head(&text, MAX_FILE).to_lowercase()))
}

/// The text has the word, and not as a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        !is_part(text[..at].chars().next_back()) && !is_part(text[at + word.len()..].chars().next())
    })
}
