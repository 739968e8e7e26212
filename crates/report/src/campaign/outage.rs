//! Services that do not work, for people.

use super::figures::duration;
use patchwright_base::error::Service;
use patchwright_base::text;
use patchwright_types::campaign::{Millis, OutageRow};

/// What fails, how, since when, and when it is tried again. `now` is the time of the row's clock.
pub fn outage(row: &OutageRow, now: Millis) -> String {
    let since = now.saturating_sub(row.since);
    let since = if since < 1_000 { String::new() } else { format!(" for {}", duration(since)) };
    let left = row.until.saturating_sub(now);
    let next = if left > 0 {
        format!("it is tried again in {}", duration(left))
    } else {
        "it is being tried".to_owned()
    };
    format!(
        "{} has not worked{since} ({}): nothing that needs it is begun, no attempt is counted, and {next}",
        service(row.service, &row.campaign),
        text::line(&text::cut(&row.why, 200)),
    )
}

/// A service, and whose model it is.
pub fn service(service: Service, campaign: &str) -> String {
    if campaign.is_empty() {
        service.name().to_owned()
    } else {
        format!("{} of campaign `{}`", service.name(), text::line(campaign))
    }
}
