//! What the cluster tells of an object besides its status. Volumes that cannot be mounted, a pod's network, and quotas
//! and webhooks that keep a Job from having a pod, are told in events only.

use http::Method;
use serde_json::Value;

use super::api::{ApiError, Cluster, encoded, items};
use super::pod::{PodTrouble, TroubleKind, said};

/// Objects have fewer: the same one again counts up.
const MOST: usize = 500;
/// What keeps a node from beginning with a pod that it has (`pkg/kubelet/events/event.go`, and the controller that attaches
/// volumes); images and containers are in the status.
const OF_THE_NODE: &[&str] = &[
    "FailedMount",
    "FailedAttachVolume",
    "FailedMapVolume",
    "FailedBinding",
    "FailedPrepareDynamicResources",
    "FailedCreatePodSandBox",
    "FailedPodSandBoxStatus",
    "FailedCreatePodContainer",
    "NetworkNotReady",
    "FailedScheduling",
];

/// The last thing told of one of these objects, when it is a warning: its reason, and its words.
///
/// # Errors
/// The server's.
pub async fn last_warning(
    cluster: &Cluster,
    objects: &[&str],
) -> Result<Option<(String, String)>, ApiError> {
    let mut all = Vec::new();
    for object in objects {
        all.extend(about(cluster, object).await?);
    }
    Ok(last(&all))
}

/// An image of the pod is being pulled: that is the last thing told of it.
///
/// # Errors
/// The server's.
pub(super) async fn is_pulling(cluster: &Cluster, pod: &str) -> Result<bool, ApiError> {
    let all = about(cluster, pod).await?;
    Ok(newest(&all).is_some_and(|event| event["reason"] == "Pulling"))
}

async fn about(cluster: &Cluster, object: &str) -> Result<Vec<Value>, ApiError> {
    let selector = encoded(&format!("involvedObject.name={object}"));
    let path = format!(
        "/api/v1/namespaces/{}/events?fieldSelector={selector}&limit={MOST}",
        cluster.namespace()
    );
    Ok(items(cluster.ask(Method::GET, &path, None).await?))
}

/// What keeps a pod from beginning of which its status says nothing, in words.
///
/// # Errors
/// The server's.
pub async fn trouble(cluster: &Cluster, pod: &str) -> Result<Option<PodTrouble>, ApiError> {
    let told = last_warning(cluster, &[pod]).await?;
    Ok(told.filter(|(reason, _)| OF_THE_NODE.contains(&reason.as_str())).map(|(_, words)| {
        PodTrouble { kind: TroubleKind::Node, why: format!("the pod does not start ({words})") }
    }))
}

/// A list of events is in no order.
fn newest(events: &[Value]) -> Option<&Value> {
    events.iter().max_by_key(|event| (time(event), is_warning(event)))
}

fn last(events: &[Value]) -> Option<(String, String)> {
    let last = newest(events)?;
    let word = |field: &str| last[field].as_str().unwrap_or_default();
    is_warning(last).then(|| (word("reason").to_owned(), said(word("reason"), word("message"))))
}

fn is_warning(event: &Value) -> bool {
    event["type"] == "Warning"
}

/// To the second, as all of its times have it. Who reports events decides which of them there are.
fn time(event: &Value) -> String {
    let times = ["/lastTimestamp", "/eventTime", "/series/lastObservedTime", "/firstTimestamp"];
    let times = times.iter().filter_map(|pointer| event.pointer(pointer)?.as_str()?.get(..19));
    times.max().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::kubernetes::events::last;

    #[test]
    fn the_last_word_counts() {
        let event = |kind: &str, reason: &str, times: Value| {
            let mut event = json!({"type": kind, "reason": reason, "message": "a\nb"});
            event.as_object_mut().unwrap().extend(times.as_object().unwrap().clone());
            event
        };
        let scheduling = event(
            "Warning",
            "FailedScheduling",
            json!({"eventTime": "2026-11-20T12:00:01.000007Z", "lastTimestamp": null}),
        );
        let scheduled =
            event("Normal", "Scheduled", json!({"eventTime": "2026-11-20T12:00:05.3Z"}));
        let mount = |at: &str| {
            let times =
                json!({"firstTimestamp": "2026-11-20T12:00:05Z", "lastTimestamp": at, "count": 3});
            event("Warning", "FailedMount", times)
        };
        let again = mount("2026-11-20T12:02:00Z");
        let pulling = event("Normal", "Pulling", json!({"lastTimestamp": "2026-11-20T12:01:00Z"}));
        for (events, expected) in [
            (vec![], None),
            (vec![scheduling.clone()], Some("FailedScheduling")),
            (vec![scheduling.clone(), scheduled.clone()], None),
            (vec![mount("2026-11-20T12:00:05Z"), scheduled.clone()], Some("FailedMount")),
            (vec![pulling.clone(), mount("2026-11-20T12:00:06Z"), scheduled.clone()], None),
            (vec![again, pulling, scheduling, scheduled], Some("FailedMount")),
        ] {
            let found = last(&events);
            assert_eq!(found.as_ref().map(|(reason, _)| reason.as_str()), expected, "{events:?}");
            assert!(found.is_none_or(|(reason, words)| words == format!("{reason}: a b")));
        }
    }
}
