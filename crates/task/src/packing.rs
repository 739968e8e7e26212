//! The tree of a run on its way into sandboxes: packed in the background, while what does not need it goes on.
//!
//! Made by [`super::run::Run::pack`]; whoever needs the tree waits for it, and gets the error if there was one.

use tokio::sync::{Mutex, OnceCell};
use tokio_util::task::AbortOnDropHandle;

use super::authorship;
use super::run::Run;
use super::workspace::{Additions, Workspace};
use patchwright_base::error::{Failure, Result};
use patchwright_git::Oid;
use patchwright_git::commit::{self, CommitSpec};
use patchwright_sandbox::ContainerLimits;
use patchwright_sandbox::packed::Packed;

/// A tree that is packed, or will be.
#[derive(Debug)]
pub struct Packing {
    packed: OnceCell<Packed>,
    /// `None` once it has come to an end.
    making: Mutex<Option<AbortOnDropHandle<Result<Packed>>>>,
}

impl Packing {
    /// Begins to pack a tree with what stands beside it, no larger than these limits allow.
    pub fn begin(workspace: Workspace, limits: ContainerLimits, additions: Additions) -> Packing {
        let making = tokio::spawn(async move { workspace.pack(&limits, additions).await });
        let making = Mutex::new(Some(AbortOnDropHandle::new(making)));
        Packing { packed: OnceCell::new(), making }
    }

    /// The tree, as soon as it is packed.
    ///
    /// # Errors
    /// Those of [`Workspace::pack`].
    pub async fn tree(&self) -> Result<&Packed> {
        self.packed.get_or_try_init(|| self.wait()).await
    }

    async fn wait(&self) -> Result<Packed> {
        let unfinished = || Failure::internal("the tree for the sandbox was not packed");
        let mut making = self.making.lock().await;
        // A caller that gives up in the middle leaves it for the next one.
        let made = making.as_mut().ok_or_else(unfinished)?.await;
        *making = None;
        made.map_err(|err| unfinished().caused_by(err))?
    }
}

impl Run<'_> {
    /// A workspace pinned to a tree instead of its base: by a commit that stands for the tree in sandboxes, and nowhere else.
    ///
    /// # Errors
    /// When the commit cannot be written.
    pub(super) fn with_tree(&self, workspace: &Workspace, tree: Oid) -> Result<Workspace> {
        let spec = CommitSpec {
            author: authorship::author(&self.config),
            committer: authorship::committer(&self.config),
            message: "The change\n".to_owned(),
            trailers: Vec::new(),
            time: self.world.clock.now(),
        };
        let made = commit::create(&workspace.repo, workspace.base, tree, &spec);
        let made =
            made.map_err(|err| Failure::internal("the change cannot be committed").caused_by(err))?;
        Ok(workspace.at(made))
    }
}
