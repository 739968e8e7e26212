//! The file of the instances while it grows, and the one beside it of what cannot be an instance.

use std::collections::BTreeSet;
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

/// Why no instance could be made of a commit, so that it is not tried again.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Skipped {
    commit: String,
    #[serde(default)]
    from: Source,
    why: String,
}

/// What has been found so far, by this call and those before.
pub(crate) struct Collection {
    out: PathBuf,
    from: Source,
    /// Names of instances.
    pub ids: BTreeSet<String>,
    /// Commits that were looked at.
    known: BTreeSet<String>,
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
        let source = |it: &Instance| match it.statement == statement::REVIEW {
            true => Source::Reviews,
            false => Source::Commits,
        };
        let made = instances.iter().filter(|it| source(it) == from).map(|it| &it.commit);
        let not = skipped.iter().filter(|it| it.from == from).map(|it| &it.commit);
        Ok(Collection {
            out: out.to_owned(),
            from,
            ids: instances.iter().map(|it| it.instance_id.clone()).collect(),
            known: made.chain(not).cloned().collect(),
            mined: Mined { looked_at: 0, instances: instances.len(), skipped: skipped.len() },
        })
    }

    /// It was looked at before.
    pub(crate) fn knows(&self, commit: Oid) -> bool {
        self.known.contains(&commit.to_string())
    }

    /// Writes down what has come of a commit: an instance, or the reason why there is none.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn add(
        &mut self,
        commit: Oid,
        made: std::result::Result<Instance, String>,
        ui: Ui,
    ) -> Result<()> {
        match made {
            Ok(instance) => {
                let tests = counted(instance.fail_to_pass.len(), "test");
                ui.say(&format!("{}: decided by {tests} that failed before", instance.instance_id));
                append(&self.out, &instance)?;
                self.ids.insert(instance.instance_id);
                self.mined.instances += 1;
            }
            Err(why) => {
                ui.detail(&format!("{}: {why}", commit.short()));
                let skipped = Skipped { commit: commit.to_string(), from: self.from, why };
                append(&skipped_file(&self.out), &skipped)?;
                self.mined.skipped += 1;
            }
        }
        self.known.insert(commit.to_string());
        Ok(())
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
