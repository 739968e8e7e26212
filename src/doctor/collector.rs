//! The collector of telemetry, where the environment names one.

use super::Finding;
use patchwright_base::env::Env;

/// Nothing where runs send nothing. No run fails for a collector.
pub(super) async fn check(env: &Env) -> Option<Finding> {
    let what = "collector";
    Some(match patchwright_otel::look(env).await? {
        Ok(()) => Finding::fine(what, "takes what runs send"),
        Err(why) => Finding::note(
            what,
            why,
            Some(
                "correct `OTEL_EXPORTER_OTLP_ENDPOINT` (`http://HOST:4318`), or start the collector; runs go on without it",
            ),
        ),
    })
}
