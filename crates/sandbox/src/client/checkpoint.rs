//! Asking the guest for a checkpoint.

use super::super::collected;
use super::{Client, CollectLimits, CollectedTree, GuestError, unexpected, within};
use patchwright_guest::protocol::{Checkpointed, Request, Response};

impl Client {
    /// Fetches what changed since the checkpoint `since`; see [`Request::Checkpoint`]. The files go with
    /// the answer's listing.
    pub async fn checkpoint(
        &self,
        since: u64,
        number: u64,
        limits: CollectLimits,
    ) -> Result<(CollectedTree, Checkpointed), GuestError> {
        let CollectLimits { files, bytes, timeout } = limits;
        let request = Request::Checkpoint { since, number, files, bytes };
        let fetched = within(timeout, self.fetch(&request, limits)).await;
        let (files, answer) = fetched.map_err(|_| GuestError::Timeout(timeout))??;
        let Response::Checkpointed(mut made) = answer else { return Err(unexpected(&answer)) };
        let listing = std::mem::take(&mut made.listing);
        if made.over.is_none() {
            collected::check_listing(&listing, &files).map_err(GuestError::Protocol)?;
        }
        Ok((CollectedTree { files, listing }, made))
    }
}
