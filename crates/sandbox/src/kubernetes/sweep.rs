//! Removes pods that nobody uses. A pod is in use while its owner shows that it lives: by a lock in the state folder
//! that they share, or by the annotation that every owner renews. Whoever is removed as silent is removed in exactly the
//! version in which it was seen: a sign of life that comes in between keeps it.

use serde_json::{Value, json};

use super::KubernetesSandbox;
use super::manifest::{BEAT, COMPONENT, COUNTS, OWNER, RUN, label};
use super::refusal::refused;
use super::takedown::delete;
use crate::SandboxError;

/// For so many seconds a sign of life counts that says nothing else.
const COUNTS_FOR: i64 = 600;

impl KubernetesSandbox {
    /// See [`crate::Sandbox::sweep`].
    pub(super) async fn sweep_pods(&self, run: Option<&str>) -> Result<Vec<String>, SandboxError> {
        let path = format!("/api/v1/namespaces/{}/pods", self.cluster.namespace());
        let selector = format!("{}={}", COMPONENT.0, COMPONENT.1);
        let listed = self.cluster.list(&path, &selector).await;
        let (pods, _) = listed.map_err(|err| refused("list pods", &err))?;
        let ended = self.owner.ended();
        let mut removed = Vec::new();
        let mut left = Vec::new();
        for pod in pods {
            let metadata = &pod["metadata"];
            let owner = metadata["labels"][OWNER].as_str().unwrap_or_default();
            let name = metadata["name"].as_str().unwrap_or_default();
            if owner.is_empty() || name.is_empty() || metadata["deletionTimestamp"].is_string() {
                continue;
            }
            let is_of_run = run.is_some_and(|run| metadata["labels"][RUN] == label(run).as_str());
            let is_mine = owner == self.owner.id();
            let is_leftover = run.is_none()
                && (ended.contains_key(owner)
                    || (is_mine && self.owner.owned.is_left(name))
                    || (!is_mine
                        && !self.owner.holds_lock(owner)
                        && is_silent(metadata, self.cluster.now())));
            if !is_of_run && !is_leftover {
                left.push(owner.to_owned());
                continue;
            }
            let mut exactly = json!({"uid": metadata["uid"]});
            if is_leftover && !is_mine && !ended.contains_key(owner) {
                exactly["resourceVersion"] = metadata["resourceVersion"].clone();
            }
            match delete(&self.cluster, name, exactly).await {
                Ok(true) => {
                    self.owner.owned.gone(name);
                    removed.push(name.to_owned());
                }
                Ok(false) => left.push(owner.to_owned()),
                Err(err) => {
                    tracing::warn!(pod = name, %err, "cannot remove a leftover pod");
                    left.push(owner.to_owned());
                }
            }
        }
        for (_, ended) in ended.iter().filter(|(owner, _)| !left.contains(owner)) {
            // The next sweep finds one that stays.
            let _ = fs_err::remove_file(&ended.lock);
        }
        Ok(removed)
    }
}

/// Its last sign of life counts no more.
fn is_silent(metadata: &Value, now: i64) -> bool {
    let number = |name: &str| -> Option<i64> {
        metadata["annotations"][name].as_str().and_then(|text| text.parse().ok())
    };
    let counts = number(COUNTS).filter(|counts| *counts > 0).unwrap_or(COUNTS_FOR);
    // One that somebody has taken away says nothing: the pod's own deadline ends it.
    number(BEAT).is_some_and(|beat| now.saturating_sub(beat) > counts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kubernetes::sweep::is_silent;

    #[test]
    fn a_sign_of_life_counts_for_as_long_as_it_says() {
        for (beat, counts, now, expected) in [
            ("1000", "300", 1299, false),
            ("1000", "300", 1301, true),
            ("1000", "x", 1301, false),
            ("1000", "-5", 1601, true),
            ("9000", "300", 1000, false),
            ("x", "300", 9999, false),
        ] {
            let metadata = json!({"annotations": {"patchwright/alive": beat, "patchwright/alive-for": counts}});
            assert_eq!(is_silent(&metadata, now), expected, "{beat} {counts} {now}");
        }
        assert!(!is_silent(&json!({}), 9999));
    }
}
