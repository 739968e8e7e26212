//! How a campaign file is read: YAML, then the checks of [`super::check`], each mistake with its line.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::campaign::Campaign;
use super::{check, template};
use patchwright_base::error::{Failure, Result};
use patchwright_base::named_file;
use patchwright_config::yaml;

/// The largest campaign file, and the largest prompt file.
const LARGEST: usize = 1 << 20;
/// Mistakes that are reported together.
const MOST_TOLD: usize = 10;
const HINT: &str = "every key is described in `docs/campaigns.md`";

pub(super) fn read(name: &str, text: &str, folder: Option<&Path>) -> Result<Campaign> {
    let invalid = |why: String| {
        Failure::usage(format!("campaign `{name}` is not valid"))
            .caused_by(anyhow::anyhow!(why))
            .hint(HINT)
    };
    if text.len() > LARGEST {
        return Err(invalid(format!("it is larger than {} KB", LARGEST >> 10)));
    }
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Err(invalid("it is empty; a campaign has `name`, `select` and `task`".to_owned()));
    }
    let mut campaign: Campaign =
        serde_saphyr::from_str(text).map_err(|err| invalid(explain(&err)))?;
    // Parsed a second time, because the typed campaign does not keep the lines of its values.
    let places: Option<SpannedValue> = serde_saphyr::from_str(text).ok();
    let mut mistakes = check::check(&campaign);
    if let Err(mistake) = take_prompt(&mut campaign, folder) {
        mistakes.push(mistake);
    }
    mistakes.extend(check::templates(&campaign));
    if mistakes.is_empty() {
        return Ok(campaign);
    }
    let mut told: Vec<(u64, String)> = mistakes
        .iter()
        .map(|mistake| {
            let line = places.as_ref().map_or(0, |places| places.line_of(&mistake.key));
            // No position: the key is missing, or the second parse failed where the first did not.
            let line = if line > 0 { line } else { written_at(text, &mistake.key) };
            (line, format!("line {line}: `{}` {}", mistake.key, mistake.why))
        })
        .collect();
    told.sort();
    let more = told.len().saturating_sub(MOST_TOLD);
    let mut lines: Vec<String> = told.into_iter().take(MOST_TOLD).map(|(_, told)| told).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    Err(invalid(lines.join("\n         ")))
}

/// The first line that begins with the last name of the key.
fn written_at(text: &str, key: &str) -> u64 {
    let is_name = |step: &&str| step.parse::<usize>().is_err();
    let name = key.rsplit('.').find(is_name).unwrap_or(key);
    let is_it = |line: &str| {
        let line = line.trim_start_matches([' ', '-', '{']);
        line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    text.lines().zip(1u64..).find(|(line, _)| is_it(line)).map_or(1, |(_, number)| number)
}

/// Something that is wrong at a key such as `waves.1.size`.
pub(super) struct SpecError {
    pub(super) key: String,
    pub(super) why: String,
}

/// Reads the prompt file into the prompt.
fn take_prompt(campaign: &mut Campaign, folder: Option<&Path>) -> Result<(), SpecError> {
    let task = &mut campaign.task;
    let Some(file) = &task.prompt_file else { return Ok(()) };
    if task.prompt.is_some() {
        // The checks report that both are given.
        return Ok(());
    }
    let path = folder.unwrap_or(Path::new("")).join(file);
    let mistake = |why: String| SpecError {
        key: "task.prompt-file".to_owned(),
        why: format!("names `{}`, which {why}", path.display()),
    };
    let size = fs_err::metadata(&path)
        .map_err(|err| mistake(format!("cannot be read: {}", err.kind())))?;
    if !size.is_file() {
        return Err(mistake("is no file".to_owned()));
    }
    if size.len() > LARGEST as u64 {
        return Err(mistake(format!("is larger than {} KB", LARGEST >> 10)));
    }
    let text = named_file::read_text(&path, LARGEST as u64)
        .map_err(|err| mistake(format!("cannot be read: {}", err.kind())))?;
    if text.trim().is_empty() {
        return Err(mistake("is empty".to_owned()));
    }
    task.prompt = Some(text);
    let variables = campaign.variables_for("owner/name", "main");
    let prompt = campaign.task.prompt.as_deref().unwrap_or_default();
    if let Some((line, why)) = template::check(prompt, &variables) {
        return Err(mistake(format!("{why} (line {line} of it)")));
    }
    campaign.task.prompt_file = None;
    Ok(())
}

/// The error in one line.
fn explain(err: &serde_saphyr::Error) -> String {
    let err = err.without_snippet();
    let words = plainer(err);
    match err.location().filter(|place| place.line() > 0) {
        Some(place) => format!("line {}: {words}", place.line()),
        None => words,
    }
}

/// What the parser says, in words about the file.
fn plainer(err: &serde_saphyr::Error) -> String {
    if let Some(words) = yaml::plain_words(err) {
        return words;
    }
    // The rest reads well enough, but for the place that its text begins or ends with.
    let text = err.to_string();
    let words = text.lines().next().unwrap_or_default().trim();
    let words = words.strip_prefix("error: ").unwrap_or(words);
    let Some(place) = err.location() else { return words.to_owned() };
    let at = format!("line {}", place.line());
    let words = words.strip_prefix(&format!("{at}: ")).unwrap_or(words);
    let end = format!(" at {at}, column {}", place.column());
    words.strip_suffix(&end).unwrap_or(words).to_owned()
}

/// The file again, with the lines in which values stand.
enum SpannedValue {
    Map(Vec<(String, Spanned<SpannedValue>)>),
    List(Vec<Spanned<SpannedValue>>),
    Leaf,
}

impl SpannedValue {
    /// The line of a key such as `waves.1.size`, or of the nearest thing around it that is there.
    fn line_of(&self, key: &str) -> u64 {
        let mut line = 0;
        let mut place = self;
        for step in key.split('.') {
            let next = match place {
                SpannedValue::Map(entries) => {
                    entries.iter().find(|(name, _)| name == step).map(|(_, value)| value)
                }
                SpannedValue::List(items) => {
                    step.parse::<usize>().ok().and_then(|at| items.get(at))
                }
                SpannedValue::Leaf => None,
            };
            let Some(next) = next else { break };
            line = next.referenced.line();
            place = &next.value;
        }
        line
    }
}

impl<'de> Deserialize<'de> for SpannedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SpannedValue, D::Error> {
        struct SpannedVisitor;
        impl<'de> Visitor<'de> for SpannedVisitor {
            type Value = SpannedValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SpannedValue, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    entries.push((key, map.next_value()?));
                }
                Ok(SpannedValue::Map(entries))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<SpannedValue, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(SpannedValue::List(items))
            }

            fn visit_bool<E>(self, _: bool) -> Result<SpannedValue, E> {
                Ok(SpannedValue::Leaf)
            }

            fn visit_i64<E>(self, _: i64) -> Result<SpannedValue, E> {
                Ok(SpannedValue::Leaf)
            }

            fn visit_u64<E>(self, _: u64) -> Result<SpannedValue, E> {
                Ok(SpannedValue::Leaf)
            }

            fn visit_f64<E>(self, _: f64) -> Result<SpannedValue, E> {
                Ok(SpannedValue::Leaf)
            }

            fn visit_str<E>(self, _: &str) -> Result<SpannedValue, E> {
                Ok(SpannedValue::Leaf)
            }

            fn visit_unit<E>(self) -> Result<SpannedValue, E> {
                Ok(SpannedValue::Leaf)
            }

            fn visit_none<E>(self) -> Result<SpannedValue, E> {
                Ok(SpannedValue::Leaf)
            }

            fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<SpannedValue, D::Error> {
                SpannedValue::deserialize(value)
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                value: D,
            ) -> Result<SpannedValue, D::Error> {
                IgnoredAny::deserialize(value).map(|_| SpannedValue::Leaf)
            }
        }
        deserializer.deserialize_any(SpannedVisitor)
    }
}
