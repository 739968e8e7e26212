//! Whether a launcher may do what it needs, found out before a job is claimed for which no pod could be made. Called when
//! one is opened, and by `doctor`.

use std::path::Path;

use super::api::Cluster;
use super::template::PodTemplate;
use super::{MANIFEST, refusal};
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_sandbox::kubernetes::rights::{NeededRights, Right, missing};

/// Without these there is no pod, or none that is looked after.
const NEEDED: &[NeededRights] = &[
    (&["create", "get", "list", "delete"], "batch", "jobs", ""),
    (&["list", "watch"], "", "pods", ""),
];
/// Without it nobody knows why a pod does not begin.
const EVENTS: &[NeededRights] = &[(&["list"], "", "events", "")];

/// What `doctor` tells of a launcher.
#[derive(Clone, Debug)]
pub struct LauncherView {
    /// The version of the API server, and the namespace.
    pub place: String,
    pub rights: Vec<Right>,
    /// What is to be said of the template of pods.
    pub warnings: Vec<String>,
}

/// Looks at the template, the cluster and the rights there; changes nothing.
///
/// # Errors
/// When the template cannot be used, there is no cluster, or its API server does not answer.
pub async fn look(template: &Path) -> Result<LauncherView> {
    let template = PodTemplate::read(template)?;
    let cluster = Cluster::find(template.namespace.as_deref()).await?;
    let version = cluster.version().await.map_err(|err| refusal(&err))?;
    let mut rights = cluster.rights(NEEDED).await.map_err(|err| refusal(&err))?;
    rights.extend(cluster.rights(EVENTS).await.map_err(|err| refusal(&err))?);
    let place = format!("{version}, {cluster}");
    Ok(LauncherView { place, rights, warnings: template.warnings })
}

/// Refuses to launch where pods cannot be made and looked after.
///
/// # Errors
/// With the rights that are missing.
pub(super) async fn check(cluster: &Cluster, ui: Ui) -> Result<()> {
    let asked = async {
        Ok::<_, super::api::ApiError>((
            cluster.rights(NEEDED).await?,
            cluster.rights(EVENTS).await?,
        ))
    };
    let (needed, events) = match asked.await {
        Ok(rights) => rights,
        // Whoever may not even ask may do the rest all the same; what is not allowed is met then.
        Err(err) => {
            tracing::debug!(%err, "nobody knows what a launcher may do");
            return Ok(());
        }
    };
    if let Some(missing) = missing(&needed) {
        let message = format!("this launcher may not do what it needs in {cluster}: {missing}");
        return Err(Failure::machine(message)
            .hint(format!("give its account the rights of the Role in `{MANIFEST}`")));
    }
    if let Some(missing) = missing(&events) {
        ui.warn(&format!(
            "warning: this launcher may not do {missing} in {cluster}, and cannot say why a pod does not begin; the Role \
             in `{MANIFEST}` gives that right"
        ));
    }
    Ok(())
}
