//! The file of the instances while it grows, and the one beside it of what cannot be an instance.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::instance::Instance;
use crate::ledger::{append, read_lines};
use crate::mine::{Mined, Source};
use crate::statement;
use crate::statistics::counted;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_git::Oid;

/// Commits one after the other whose tests cannot be run that end a search: what they have in common will be so for the
/// next one too.
const MAX_UNRUNNABLE: usize = 3;

/// Why a commit makes no instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// By what it changes: nothing was run for it.
    Change(String),
    /// By what its tests say.
    Tests(String),
    /// Its tests cannot be run here. With another image or setup they may, so it is tried again.
    Unrunnable(String),
}

/// Why no instance could be made of a commit, so that it is not tried again.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Skipped {
    commit: String,
    #[serde(default)]
    from: Source,
    why: String,
    /// The next call tries it again. Of several lines for a commit the last one counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    again: bool,
}

/// What has been found so far, by this call and those before.
pub(crate) struct Collection {
    out: PathBuf,
    from: Source,
    /// Names of instances.
    pub ids: BTreeSet<String>,
    /// Commits that were looked at.
    known: BTreeSet<String>,
    /// Why the others are tried again.
    again: BTreeMap<String, String>,
    unrunnable_in_a_row: usize,
    pub mined: Mined,
}

impl Collection {
    /// What earlier calls have found.
    ///
    /// # Errors
    /// When one of the two files cannot be read.
    pub(crate) fn open(out: &Path, from: Source) -> Result<Collection> {
        let instances: Vec<Instance> = if out.is_file() { read_back(out)? } else { Vec::new() };
        let skipped: Vec<Skipped> = read_back(&skipped_file(out))?;
        let source = |it: &Instance| match it.statement.as_str() {
            statement::REVIEW => Source::Reviews,
            _ => Source::Commits,
        };
        let made = instances.iter().filter(|it| source(it) == from).map(|it| it.commit.clone());
        let mut known: BTreeSet<String> = made.collect();
        let mut again = BTreeMap::new();
        for Skipped { commit, why, again: is_again, .. } in
            skipped.into_iter().filter(|it| it.from == from)
        {
            again.remove(&commit);
            if !is_again {
                known.insert(commit);
            } else if !known.contains(&commit) {
                again.insert(commit, why);
            }
        }
        let made = instances.iter().filter(|it| source(it) == from).count();
        let skipped = known.len() + again.len() - made;
        Ok(Collection {
            out: out.to_owned(),
            from,
            ids: instances.iter().map(|it| it.instance_id.clone()).collect(),
            known,
            again,
            unrunnable_in_a_row: 0,
            mined: Mined { looked_at: 0, instances: instances.len(), skipped, unrunnable: None },
        })
    }

    /// It was looked at before.
    pub(crate) fn knows(&self, commit: Oid) -> bool {
        self.known.contains(&commit.to_string())
    }

    /// There are enough instances, or no reason to go on.
    pub(crate) fn is_over(&self, most: usize) -> bool {
        self.ids.len() >= most || self.mined.unrunnable.is_some()
    }

    /// Records the outcome for a commit: an instance, or why it was skipped.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn add(
        &mut self,
        commit: Oid,
        made: std::result::Result<Instance, Refusal>,
        ui: Ui,
    ) -> Result<()> {
        match made {
            Ok(instance) => {
                let tests = counted(instance.fail_to_pass.len(), "test");
                let id = &instance.instance_id;
                ui.say(&format!("{id}: decided by {tests} that failed before, or did not run"));
                append(&self.out, &instance)?;
                if self.again.remove(&instance.commit).is_some() {
                    self.mined.skipped -= 1;
                }
                self.known.insert(instance.commit.clone());
                self.ids.insert(instance.instance_id);
                self.mined.instances += 1;
                self.unrunnable_in_a_row = 0;
                Ok(())
            }
            Err(refusal) => self.skip(commit, refusal, ui),
        }
    }

    fn skip(&mut self, commit: Oid, refusal: Refusal, ui: Ui) -> Result<()> {
        let (why, again) = match refusal {
            Refusal::Change(why) => {
                ui.detail(&format!("{}: {why}", commit.short()));
                (why, false)
            }
            Refusal::Tests(why) => {
                self.unrunnable_in_a_row = 0;
                ui.say(&format!("{}: {why}", commit.short()));
                (why, false)
            }
            Refusal::Unrunnable(why) => {
                self.unrunnable_in_a_row += 1;
                if self.unrunnable_in_a_row >= MAX_UNRUNNABLE {
                    self.mined.unrunnable = Some(why.clone());
                }
                ui.warn(&format!("{}: {why}", commit.short()));
                (why, true)
            }
        };
        let name = commit.to_string();
        let known = self.again.remove(&name);
        if known.is_none() {
            self.mined.skipped += 1;
        }
        if again {
            self.again.insert(name.clone(), why.clone());
        } else {
            self.known.insert(name.clone());
        }
        // Nothing new is not written again and again.
        if again && known.as_ref() == Some(&why) {
            return Ok(());
        }
        append(&skipped_file(&self.out), &Skipped { commit: name, from: self.from, why, again })
    }
}

/// The file beside that of the instances.
pub fn skipped_file(out: &Path) -> PathBuf {
    out.with_extension("skipped.jsonl")
}

fn read_back<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<T>> {
    read_lines(path).map_err(|err| {
        Failure::usage(format!("`{}` cannot be read", path.display())).caused_by(err)
    })
}
