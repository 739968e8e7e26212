//! The images that setup made, as the engine lists them.

use std::collections::HashMap;

use bollard::query_parameters::ListImagesOptionsBuilder;

use super::api::bounded;
use super::setup::{OWN_LABEL, SETUP_LABEL};
use super::{CALL, DockerSandbox, owner};
use crate::setup_cache::{SetupResult, surplus};

impl DockerSandbox {
    /// Removes old setup images, best effort: Docker refuses those in use.
    pub(super) async fn prune_setup_images(&self) {
        let Some(images) = self.setup_images().await else { return };
        let now = i64::try_from(owner::now()).unwrap_or(0);
        for id in surplus(images, now) {
            self.remove_unused(&id).await;
        }
    }

    async fn setup_images(&self) -> Option<Vec<SetupResult>> {
        // All of them, because what an image adds is told by the size of the one below.
        let options = ListImagesOptionsBuilder::default().build();
        let all =
            bounded("list images", CALL, self.docker.list_images(Some(options))).await.ok()?;
        let sizes: HashMap<&str, i64> =
            all.iter().map(|image| (image.id.as_str(), image.size)).collect();
        let of_setup = all.iter().filter(|image| image.labels.contains_key(SETUP_LABEL));
        let images = of_setup.map(|image| {
            let below = sizes.get(image.parent_id.as_str()).copied().unwrap_or(0);
            SetupResult {
                id: image.id.clone(),
                at: image.created,
                bytes: u64::try_from(image.size.saturating_sub(below)).unwrap_or(0),
                is_for_one_run: image.labels.contains_key(OWN_LABEL),
            }
        });
        Some(images.collect())
    }
}
