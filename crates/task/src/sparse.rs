//! A workspace of which the sandbox has a part: the folders of `checkout.sparse`. Changes are made on the whole.

use super::workspace::{Workspace, failure};
use patchwright_base::error::Result;
use patchwright_base::text;
use patchwright_git::{blocking, sparse};

impl Workspace {
    /// This workspace with only these folders for the sandbox and for whoever reads files; changes are made on the
    /// whole.
    pub(super) async fn sparse(&self, folders: &[String]) -> Result<Workspace> {
        if folders.is_empty() || self.part.is_some() || self.compared_with.is_some() {
            return Ok(self.clone());
        }
        let (repo, base, folders) = (self.repo.clone(), self.base, folders.to_vec());
        let part = blocking(move || sparse::commit_of(&repo, base, &folders)).await;
        let part =
            part.map_err(|error| failure(error, "the folders of `checkout.sparse` cannot be had"))?;
        // With the files of another commit it would have all that was to be left out.
        let mut workspace = self.clone().with_beside(None);
        workspace.part = Some(part);
        Ok(workspace)
    }

    /// What people should know of a sandbox that has these folders only.
    pub(super) async fn sparse_notes(&self, folders: &[String]) -> Result<Vec<String>> {
        if self.part.is_none() {
            return Ok(Vec::new());
        }
        let (repo, base, asked) = (self.repo.clone(), self.base, folders.to_vec());
        let absent = blocking(move || sparse::absent(&repo, base, &asked)).await;
        let absent = absent
            .map_err(|error| failure(error, "the folders of `checkout.sparse` cannot be read"))?;
        let names = |folders: &[String]| {
            let names = folders.iter().map(|folder| format!("`{}`", text::line(folder)));
            names.collect::<Vec<_>>().join(", ")
        };
        let mut notes = vec![format!("the checkout is sparse: {}", names(folders))];
        if !absent.is_empty() {
            notes.push(format!("no folders of the base commit: {}", names(&absent)));
        }
        Ok(notes)
    }
}
