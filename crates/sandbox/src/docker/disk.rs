//! How much a container has written to its own layer, which has no bound on most engines.

use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::InspectContainerOptionsBuilder;

use super::CALL;
use super::api::bounded;
use super::configuration::as_i64;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(10);

/// Ends as soon as the container is seen to have written more than `most` bytes.
pub(super) async fn until_filled(docker: &Docker, id: &str, most: u64) {
    loop {
        tokio::time::sleep(LOOK).await;
        // After a failed call the container is inspected again at the next interval.
        if is_filled(docker, id, most).await {
            return;
        }
    }
}

/// Whether the container is seen to have written more than `most` bytes.
pub(super) async fn is_filled(docker: &Docker, id: &str, most: u64) -> bool {
    let options = InspectContainerOptionsBuilder::default().size(true).build();
    let inspection = docker.inspect_container(id, Some(options));
    let made = bounded("inspect", CALL, inspection).await;
    made.is_ok_and(|made| made.size_rw.is_some_and(|size| size > as_i64(most)))
}
