//! Whether `worker --launch kubernetes` could launch pods: its template, the cluster, and what it may do there. It only
//! reads.

use std::path::Path;

use super::Finding;
use super::machine::{fix, words};
use patchwright_fleet::batch::launch::rights;
use patchwright_sandbox::kubernetes::rights::missing;

/// The manifest with the launcher's Role.
const MANIFEST: &str = "docs/kubernetes/launcher.yaml";

/// All checks of a launcher whose pods look like this.
pub async fn check(template: &Path) -> Vec<Finding> {
    let what = "launcher";
    let seen = match rights::look(template).await {
        Ok(seen) => seen,
        Err(failure) => {
            return vec![Finding::broken(what, words(&failure), fix(&failure.hints))];
        }
    };
    let mut findings = vec![Finding::fine(what, seen.place)];
    findings.extend(seen.warnings.iter().map(|warning| Finding::note(what, warning, None)));
    let what = "launcher rights";
    findings.push(match missing(&seen.rights) {
        None => Finding::fine(what, "Jobs, pods and events"),
        Some(missing) => Finding::broken(
            what,
            format!("not allowed: {missing}"),
            format!("give the rights of the Role in `{MANIFEST}`"),
        ),
    });
    findings
}
