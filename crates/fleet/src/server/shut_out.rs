//! Whether a repository is closed to us, so that no attempt at a delivery will come to anything.

use std::sync::Arc;

use super::delivered_event::ids;
use crate::batch::fleet::Fleet;
use crate::batch::lease::HeldJob;
use patchwright_forge::{Forge, ForgeError, RepositoryId};
use patchwright_types::campaign::Delivery;

/// Why nothing at all can be done in a delivery's repository.
pub(super) enum Shut {
    TokenRefused,
    /// No attempt will find it otherwise, until people have changed that.
    ForGood(String),
}

/// Whether GitHub lets us into the repository at all: a failure does not say what was behind it.
pub(super) async fn shut(fleet: &Fleet, held: &Arc<HeldJob>, delivery: &Delivery) -> Option<Shut> {
    let repository: RepositoryId = delivery.repository.as_deref()?.parse().ok()?;
    let (id, installation) = ids(delivery);
    let forge = held.forge(fleet).scoped(&repository, id, installation);
    let err = match forge.repository(&repository).await {
        Ok(found) if found.archived => {
            return Some(Shut::ForGood(format!(
                "`{repository}` is archived, so nothing can be written there; redeliver it when that has changed"
            )));
        }
        Ok(_) => return no_number(&forge, &repository, delivery.number?).await,
        Err(err) => err,
    };
    match err {
        ForgeError::Authentication { .. } => Some(Shut::TokenRefused),
        ForgeError::NotFound { .. } => Some(Shut::ForGood(format!(
            "`{repository}` is gone, or hidden from us by now; redeliver it if that has changed"
        ))),
        err if err.is_suspension() => Some(Shut::ForGood(format!(
            "the App's installation at `{}` is suspended; redeliver it when an owner has ended that",
            repository.owner
        ))),
        _ => None,
    }
}

/// Whether an issue or pull request is not there, in a repository that can be read.
async fn no_number(forge: &dyn Forge, repository: &RepositoryId, number: i64) -> Option<Shut> {
    match forge.issue(repository, u64::try_from(number).ok()?).await.err()? {
        ForgeError::NotFound { .. } => Some(Shut::ForGood(format!(
            "`{repository}#{number}` is not there, or not for us; redeliver it if that has changed"
        ))),
        _ => None,
    }
}
