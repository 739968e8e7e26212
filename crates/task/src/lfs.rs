//! Files that Git LFS keeps: their contents are fetched by the host and stand in the sandbox in the place of the
//! pointers, to read. Commits have the pointers; a changed content is held back with a word
//! ([`patchwright_git::tree::build`]), because nobody uploads it.
//!
//! Contents that cannot be had, or are too much, stay pointers, and that is said.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use url::Url;

use super::run::Run;
use super::workspace::{self, Workspace};
use patchwright_base::error::Result;
use patchwright_base::text;
use patchwright_forge::RepositoryId;
use patchwright_git::lfs::{self, Pointer, PointerFile};
use patchwright_git::{Oid, blocking};

/// Pointers of one commit that are followed.
const MOST: usize = 5_000;
/// Bytes of one content, and of all that one commit needs.
const LARGEST: u64 = 512 << 20;
const ROOM: u64 = 2 << 30;
/// Notes about single files.
const MAX_NOTES: usize = 20;

/// The contents of a run.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// What was asked for in vain.
    missing: tokio::sync::Mutex<BTreeSet<String>>,
    notes: Mutex<Vec<String>>,
}

impl Contents {
    /// Those of a commit, by the blob of the pointer, as far as the configuration wants them.
    pub(super) async fn of(
        &self,
        run: &Run<'_>,
        workspace: &Workspace,
    ) -> Result<BTreeMap<Oid, Pointer>> {
        if !run.config.checkout.lfs {
            return Ok(BTreeMap::new());
        }
        let (repo, base) = (workspace.repo.clone(), workspace.seen());
        let found = blocking(move || lfs::of_commit(&repo, base, MOST)).await;
        let (files, is_cut) = found
            .map_err(|err| workspace::failure(err, "the pointers of Git LFS cannot be read"))?;
        if is_cut {
            self.note(run, format!("no more than {MOST} files of Git LFS are fetched"));
        }
        let files = self.fitting(run, files);
        let folder = workspace.repo.path();
        let mut asked = self.missing.lock().await;
        let is_wanted = |pointer: &Pointer| {
            !pointer.place(folder).is_file() && !asked.contains(&pointer.sha256)
        };
        let wanted: BTreeSet<Pointer> =
            files.iter().map(|file| file.pointer.clone()).filter(is_wanted).collect();
        let wanted: Vec<Pointer> = wanted.into_iter().collect();
        if !wanted.is_empty() {
            let missing = run.unless_interrupted(self.bring(run, workspace, &wanted)).await?;
            for (sha256, why) in missing {
                let named = files.iter().filter(|file| file.pointer.sha256 == sha256);
                for file in named.take(MAX_NOTES) {
                    self.left(run, file, &why);
                }
                asked.insert(sha256);
            }
        }
        let there = files.into_iter().filter(|file| file.pointer.place(folder).is_file());
        Ok(there.map(|file| (file.blob, file.pointer)).collect())
    }

    /// Fetches; what is missing, and why.
    async fn bring(
        &self,
        run: &Run<'_>,
        workspace: &Workspace,
        wanted: &[Pointer],
    ) -> Result<Vec<(String, String)>> {
        let all = |why: &str| {
            Ok(wanted.iter().map(|pointer| (pointer.sha256.clone(), why.to_owned())).collect())
        };
        let Ok(forge) = run.world.forge() else { return all("there is no forge to ask") };
        let address = workspace.address.as_deref().and_then(|address| Url::parse(address).ok());
        let Some(id) = address.as_ref().and_then(repository_of) else {
            return all("the repository is not on a server");
        };
        let bytes: u64 = wanted.iter().map(|pointer| pointer.size).sum();
        run.environment.ui.say(&format!(
            "fetching {} files of Git LFS, {} MB",
            wanted.len(),
            bytes.div_ceil(1 << 20)
        ));
        match forge.contents(&id, wanted, workspace.repo.path()).await {
            Ok(missing) => {
                Ok(missing.into_iter().map(|missing| (missing.sha256, missing.why)).collect())
            }
            Err(err) => all(&err.to_string()),
        }
    }

    /// The files whose contents there is room for.
    fn fitting(&self, run: &Run<'_>, files: Vec<PointerFile>) -> Vec<PointerFile> {
        let room = ROOM.min(run.config.container.workspace_bytes);
        let (mut bytes, mut fitting) = (0_u64, Vec::new());
        for file in files {
            let size = file.pointer.size;
            if size > LARGEST || bytes.saturating_add(size) > room {
                self.left(run, &file, "it is too large");
                continue;
            }
            bytes += size;
            fitting.push(file);
        }
        fitting
    }

    /// What people should know about those that are pointers.
    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.lock().clone()
    }

    fn left(&self, run: &Run<'_>, file: &PointerFile, why: &str) {
        let (path, why) = (text::line(&file.path), text::line(why));
        self.note(run, format!("`{path}` is left as a pointer of Git LFS: {why}"));
    }

    fn note(&self, run: &Run<'_>, note: String) {
        let mut notes = self.notes.lock();
        if notes.len() < MAX_NOTES && !notes.contains(&note) {
            run.environment.ui.say(&format!("note: {}", run.world.redactor.redact(&note)));
            notes.push(note);
        }
    }
}

/// `owner/name` of an address on the forge.
pub(super) fn repository_of(address: &Url) -> Option<RepositoryId> {
    let path = address.path().trim_matches('/');
    path.strip_suffix(".git").unwrap_or(path).parse().ok()
}
