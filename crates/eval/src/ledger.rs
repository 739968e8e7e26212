//! What an evaluation has so far, in a folder: proposals and their results, a line each. A line is on disk before the next
//! step begins, so that a killed evaluation pays for nothing twice.

use std::collections::BTreeSet;
use std::fs::TryLockError;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::instance::Prediction;
use crate::verdict::{Judgement, Verdict};
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_types::dollars;
use patchwright_types::outcome::Spending;

/// Settings in which two configurations may differ and be the same evaluation.
const NO_MATTER: &[&str] = &["model", "sources", "notes"];

/// Which work it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    pub instance_id: String,
    pub model: String,
    /// From 1.
    pub trial: u32,
}

impl Key {
    /// For people.
    pub fn in_words(&self) -> String {
        let Key { instance_id, model, trial } = self;
        let which = if *trial > 1 { format!(", trial {trial}") } else { String::new() };
        format!("{instance_id} by {model}{which}")
    }
}

/// What a run has used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// How the run ended, in a word; empty of a prediction that was made elsewhere.
    pub conclusion: String,
    /// Why, where it did not end well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub turns: u32,
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(serialize_with = "dollars::rounded")]
    pub cost_usd: f64,
    /// The cost is an upper bound, or does not have all models in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_is_estimate: bool,
    pub seconds: f64,
}

impl Used {
    /// A run has made the change; what others have spent on theirs is not known.
    pub fn is_of_a_run(&self) -> bool {
        !self.conclusion.is_empty()
    }
}

/// What a model proposes. A line of the file is a prediction in the format of SWE-bench with more fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    #[serde(flatten)]
    pub prediction: Prediction,
    pub trial: u32,
    #[serde(flatten)]
    pub used: Used,
}

impl Proposal {
    pub fn key(&self) -> Key {
        Key {
            instance_id: self.prediction.instance_id.clone(),
            model: self.prediction.model_name_or_path.clone(),
            trial: self.trial,
        }
    }
}

/// How a proposal did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    #[serde(flatten)]
    pub key: Key,
    #[serde(flatten)]
    pub judgement: Judgement,
    #[serde(flatten)]
    pub used: Used,
}

impl Row {
    /// It counts as resolved, and may have changed what says so.
    pub fn is_doubtful(&self) -> bool {
        self.judgement.verdict == Verdict::Resolved && !self.judgement.touched.is_empty()
    }
}

/// The folder. One process at a time.
#[derive(Debug)]
pub struct Ledger {
    folder: PathBuf,
    proposals: Vec<Proposal>,
    rows: Vec<Row>,
    _lock: fs_err::File,
}

impl Ledger {
    /// Opens the folder, or begins it.
    ///
    /// # Errors
    /// When another process works in it, it has results of other settings, or it cannot be written.
    pub fn open(folder: &Path, config: &Config) -> Result<Ledger> {
        let failed = |err: std::io::Error| {
            Failure::usage(format!("`{}` cannot be used for results", folder.display()))
                .caused_by(err)
        };
        fs_err::create_dir_all(folder).map_err(failed)?;
        let lock = fs_err::File::create(folder.join(".lock")).map_err(failed)?;
        match lock.file().try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let why = format!("another evaluation works in `{}`", folder.display());
                return Err(Failure::usage(why).hint("wait for it, or name another folder"));
            }
            Err(TryLockError::Error(err)) => return Err(failed(err)),
        }
        must_have_same_settings(folder, config)?;
        let proposals = read_lines(&folder.join(PROPOSALS)).map_err(failed)?;
        let rows = read_lines(&folder.join(RESULTS)).map_err(failed)?;
        Ok(Ledger { folder: folder.to_owned(), proposals, rows, _lock: lock })
    }

    pub fn proposal(&self, key: &Key) -> Option<&Proposal> {
        self.proposals.iter().find(|proposal| proposal.key() == *key)
    }

    pub fn row(&self, key: &Key) -> Option<&Row> {
        self.rows.iter().find(|row| row.key == *key)
    }

    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The first predictions of a model, a line each, in the format of SWE-bench and no more than that.
    ///
    /// # Errors
    /// When one cannot be written as JSON.
    pub fn predictions_of(&self, model: &str) -> Result<Vec<String>> {
        let own = self.proposals.iter().filter(|it| it.trial == 1);
        let own = own.filter(|it| it.prediction.model_name_or_path == model);
        own.map(|it| serde_json::to_string(&it.prediction).map(|line| line + "\n"))
            .collect::<std::result::Result<_, _>>()
            .map_err(|err| Failure::internal("a prediction cannot be written").caused_by(err))
    }

    /// Dollars for everything in the folder.
    pub fn spent(&self) -> f64 {
        let proposed: f64 = self.proposals.iter().map(|proposal| proposal.used.cost_usd).sum();
        proposed + self.spent_without_result()
    }

    /// Dollars for the runs that have failed so far.
    pub fn spent_without_result(&self) -> f64 {
        let done: BTreeSet<PathBuf> =
            self.proposals.iter().map(|it| self.folder_of("runs", &it.key())).collect();
        let models = folders_in(&self.folder.join("runs"));
        let runs = models.iter().flat_map(|model| folders_in(model));
        runs.filter(|run| !done.contains(run)).map(|run| cost_of(&run)).sum()
    }

    /// Keeps a proposal.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn propose(&mut self, proposal: Proposal) -> Result<()> {
        self.append(PROPOSALS, &proposal)?;
        self.proposals.push(proposal);
        Ok(())
    }

    /// Keeps a result.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn judge(&mut self, row: Row) -> Result<()> {
        self.append(RESULTS, &row)?;
        self.rows.push(row);
        Ok(())
    }

    fn append(&self, name: &str, line: &impl Serialize) -> Result<()> {
        append(&self.folder.join(name), line)
    }

    /// Where the files of a piece of work are.
    pub fn folder_of(&self, kind: &str, key: &Key) -> PathBuf {
        let Key { instance_id, model, trial } = key;
        self.folder.join(kind).join(slug(model)).join(format!("{instance_id}.{trial}"))
    }
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// What a run says that it has cost so far.
fn cost_of(run: &Path) -> f64 {
    #[derive(Deserialize)]
    struct EndedRun {
        spending: Spending,
    }
    let text = fs_err::read(run.join("result.json")).unwrap_or_default();
    serde_json::from_slice(&text).map_or(0.0, |ended: EndedRun| ended.spending.cost_usd)
}

/// The predictions of all models with what they cost; see [`Proposal`].
pub const PROPOSALS: &str = "proposals.jsonl";
/// The results; see [`Row`].
pub const RESULTS: &str = "results.jsonl";
/// The settings that all of the folder was made with.
const SETTINGS: &str = "settings.json";

/// Results of another evaluation, for a comparison.
///
/// # Errors
/// When there are none, or they cannot be read.
pub fn rows_in(folder: &Path) -> Result<Vec<Row>> {
    let path = folder.join(RESULTS);
    let unreadable = |why: &str| {
        Failure::usage(format!("`{}` {why}", folder.display()))
            .hint("name a folder that `patchwright eval run` or `eval judge` has written")
    };
    if !path.is_file() {
        return Err(unreadable("has no results"));
    }
    read_lines(&path).map_err(|err| unreadable("has results that cannot be read").caused_by(err))
}

/// A model's name as part of a file's name.
pub fn slug(model: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain: String = model.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    plain.trim_start_matches('.').chars().take(100).collect()
}

/// Adds a line to a file, on disk when this returns.
///
/// # Errors
/// When it cannot be written.
pub fn append(path: &Path, line: &impl Serialize) -> Result<()> {
    let failed = |err: std::io::Error| {
        Failure::machine(format!("`{}` cannot be written", path.display())).caused_by(err)
    };
    let mut text = serde_json::to_string(line)
        .map_err(|err| Failure::internal("a result cannot be written").caused_by(err))?;
    text.push('\n');
    let mut file =
        fs_err::OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).map_err(failed)
}

/// The lines of a file that is not there at the beginning. What a killed process wrote of its last line is cut off.
///
/// # Errors
/// When it cannot be read, or another line is damaged.
pub fn read_lines<T: for<'de> Deserialize<'de>>(path: &Path) -> std::io::Result<Vec<T>> {
    let content = match fs_err::read_to_string(path) {
        Ok(content) => content,
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(err),
    };
    let whole = content.rfind('\n').map_or(0, |at| at + 1);
    if whole < content.len() {
        fs_err::OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
    }
    let damaged = |at: usize, err: serde_json::Error| {
        let why = format!("line {} of `{}` is damaged: {err}", at + 1, path.display());
        std::io::Error::new(ErrorKind::InvalidData, why)
    };
    let lines = content[..whole].lines().enumerate();
    lines.map(|(at, line)| serde_json::from_str(line).map_err(|err| damaged(at, err))).collect()
}

/// Results of one folder are of one configuration, so that they can be compared.
fn must_have_same_settings(folder: &Path, config: &Config) -> Result<()> {
    let internal = |err| Failure::internal("the settings cannot be written").caused_by(err);
    let mut settings = serde_json::to_value(config).map_err(internal)?;
    if let Value::Object(fields) = &mut settings {
        fields.retain(|name, _| !NO_MATTER.contains(&name.as_str()));
    }
    let path = folder.join(SETTINGS);
    let Ok(known) = fs_err::read(&path) else {
        let text = serde_json::to_string_pretty(&settings).map_err(internal)?;
        return fs_err::write(&path, text).map_err(|err| {
            Failure::machine(format!("`{}` cannot be written", path.display())).caused_by(err)
        });
    };
    let known: Value = serde_json::from_slice(&known).unwrap_or_default();
    let differing = settings
        .as_object()
        .into_iter()
        .flatten()
        .find(|(name, value)| known.get(name.as_str()).is_some_and(|known| known != *value));
    match differing {
        None => Ok(()),
        Some((name, _)) => Err(Failure::usage(format!(
            "`{}` has results that were made with another `{name}`",
            folder.display()
        ))
        .hint(
            "name another folder for results with other settings; `eval report` compares folders",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Share;

    fn row() -> Row {
        Row {
            key: Key { instance_id: "a".to_owned(), model: "m/1".to_owned(), trial: 1 },
            judgement: Judgement {
                verdict: Verdict::Resolved,
                fail_to_pass: Share { passed: 1, of: 1 },
                pass_to_pass: Share::default(),
                not_passed: Vec::new(),
                why: None,
                touched: Vec::new(),
            },
            used: Used { conclusion: "done".to_owned(), cost_usd: 0.1 + 0.2, ..Used::default() },
        }
    }

    #[test]
    fn what_a_killed_process_wrote_of_a_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::default();
        let mut ledger = Ledger::open(folder.path(), &config).unwrap();
        ledger.judge(row()).unwrap();
        drop(ledger);
        let path = folder.path().join(RESULTS);
        let written = fs_err::read_to_string(&path).unwrap();
        assert!(written.contains("\"cost_usd\":0.3,"), "{written}");
        fs_err::write(&path, format!("{written}{{\"inst")).unwrap();
        let mut ledger = Ledger::open(folder.path(), &config).unwrap();
        assert_eq!(ledger.rows().len(), 1);
        ledger.judge(row()).unwrap();
        assert_eq!(rows_in(folder.path()).unwrap().len(), 2);
    }

    #[test]
    fn a_folder_has_one_process_and_one_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::default();
        let ledger = Ledger::open(folder.path(), &config).unwrap();
        let busy = Ledger::open(folder.path(), &config).unwrap_err().to_string();
        assert!(busy.contains("another evaluation"), "{busy}");
        drop(ledger);
        let other = Config { effort: Some("high".to_owned()), ..config };
        let refused = Ledger::open(folder.path(), &other).unwrap_err().to_string();
        assert!(refused.contains("another `effort`"), "{refused}");
    }

    #[test]
    fn the_name_of_a_model_leaves_its_folder_alone() {
        assert_eq!(slug("../../anthropic/claude"), "_.._anthropic_claude");
    }
}
