//! `patchwright health`: whether a server is well, for whoever restarts those that are not.

use std::time::Duration;

use serde_json::Value;

use patchwright_base::error::{Failure, Result, chain};
use patchwright_base::text;
use patchwright_base::ui::Ui;
use patchwright_provider::http;

/// Longer than the server takes to find out that its database is silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ask a running `patchwright serve` whether it is well
///
/// Asks `/healthz`, as load balancers do. Exits with 0 when database and worker are well, with 1 when they
/// are not or nobody answers: a health check for containers that have neither a shell nor curl.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address of the server
    #[arg(
        long,
        env = "PATCHWRIGHT_HEALTH_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080"
    )]
    pub url: url::Url,
}

pub async fn run(args: Args, ui: Ui) -> Result<()> {
    let url = args.url.join("healthz").map_err(|err| {
        Failure::usage(format!("`--url` has no place for a path: {}", args.url)).caused_by(err)
    })?;
    let unwell = |what: String| {
        Failure::machine(format!("the server at `{url}` {what}")).hint("its log says more")
    };
    let answer = http::client()?.get(url.clone()).timeout(PATIENCE).send().await;
    let answer =
        answer.map_err(|err| unwell(format!("does not answer: {}", chain(&err.without_url()))))?;
    let status = answer.status();
    let body = answer.text().await.unwrap_or_default();
    let said: Value = serde_json::from_str(&body).unwrap_or_default();
    let words = ["status", "database", "worker"]
        .into_iter()
        .filter_map(|name| Some(format!("{name} {}", said[name].as_str()?)))
        .collect::<Vec<_>>()
        .join(", ");
    let words = text::line(&text::cut(&words, 200));
    // Others have a `status` as well.
    let is_ours = said["database"].is_string();
    if status.is_success() && is_ours {
        ui.data(&words);
        return Ok(());
    }
    Err(unwell(if is_ours {
        format!("is not well: {words}")
    } else {
        format!("answers with {}, and not as `patchwright serve` does", status.as_u16())
    }))
}
