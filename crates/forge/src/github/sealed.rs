//! Which of the texts that GitHub has are ours: our account wrote them, and our seal fits them where
//! they stand.

use super::GitHubForge;
use crate::seal::{self, Kind, SealContext};
use crate::{Account, Comment, ForgeError, RepositoryId, Review, ReviewComment};

/// A text that somebody wrote on GitHub.
pub(super) trait AuthoredText {
    fn about(&self) -> (u64, &Account, &str);
    fn set_ours(&mut self, revision: u64);
}

impl AuthoredText for Comment {
    fn about(&self) -> (u64, &Account, &str) {
        (self.id, &self.author, &self.body)
    }

    fn set_ours(&mut self, revision: u64) {
        (self.ours, self.revision) = (true, revision);
    }
}

impl AuthoredText for ReviewComment {
    fn about(&self) -> (u64, &Account, &str) {
        (self.id, &self.author, &self.body)
    }

    fn set_ours(&mut self, _: u64) {
        self.ours = true;
    }
}

impl AuthoredText for Review {
    fn about(&self) -> (u64, &Account, &str) {
        (self.id, &self.author, &self.body)
    }

    fn set_ours(&mut self, _: u64) {
        self.ours = true;
    }
}

impl GitHubForge {
    /// Where a text stands, for its seal.
    pub(super) fn place<'a>(
        &'a self,
        kind: Kind,
        repository: &'a RepositoryId,
        number: u64,
    ) -> SealContext<'a> {
        SealContext {
            kind,
            host: self.server_url.host_str().unwrap_or_default(),
            repository,
            number,
        }
    }

    /// Marks those of these texts that are ours. GitHub is asked who we are only when one could be.
    pub(super) async fn know_ours<'a, S: AuthoredText + Send + 'a>(
        &self,
        kind: Kind,
        repository: &RepositoryId,
        number: u64,
        said: impl IntoIterator<Item = &'a mut S> + Send,
    ) -> Result<(), ForgeError> {
        let place = self.place(kind, repository, number);
        let sealed: Vec<&mut S> =
            said.into_iter().filter(|said| seal::is_sealed(said.about().2)).collect();
        if sealed.is_empty() {
            return Ok(());
        }
        let Some(viewer) = self.own_account().await? else { return Ok(()) };
        for said in sealed {
            let (id, author, body) = said.about();
            let revision = self.seal.revision(body, &place, id);
            if let Some(revision) = revision.filter(|_| viewer.is_same(author)) {
                said.set_ours(revision);
            }
        }
        Ok(())
    }
}
