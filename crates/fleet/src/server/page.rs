//! The dashboard's first page: campaigns, jobs, and the last deliveries. Pure; every text is escaped.

use base64::Engine as _;
use chrono::{DateTime, Utc};
use maud::{DOCTYPE, Markup, html};
use sha2::{Digest, Sha256};

use super::recent::RecentDelivery;
use patchwright_base::text;
use patchwright_types::campaign::{CampaignRow, JobKind};

const CSS: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;\
padding:0 1rem;color:#1f2328;background:#fff}table{border-collapse:collapse;width:100%}\
td,th{border-bottom:1px solid #d1d9e0;padding:.3rem .6rem;text-align:left;vertical-align:top}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}code{font:13px ui-monospace,monospace}\
.note{color:#59636e}\
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}td,th{border-color:#3d444d}\
a{color:#4493f8}.note{color:#9198a1}}";

/// What the page shows.
pub(super) struct Overview {
    pub(super) campaigns: Vec<CampaignRow>,
    /// By kind and state.
    pub(super) jobs: Vec<(JobKind, String, i64)>,
    pub(super) deliveries: Vec<RecentDelivery>,
    pub(super) now: DateTime<Utc>,
}

/// The content security policy of the page: nothing but its own style.
pub(super) fn policy() -> String {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(CSS.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
}

pub(super) fn overview(overview: &Overview) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "Patchwright" }
                style { (maud::PreEscaped(CSS)) }
            }
            body {
                h1 { "Patchwright" }
                p .note { "As of " (time(overview.now)) ". This page refreshes by itself." }
                h2 { "Campaigns" }
                (campaigns(&overview.campaigns))
                h2 { "Jobs" }
                (jobs(&overview.jobs))
                h2 { "Last deliveries" }
                (deliveries(&overview.deliveries))
            }
        }
    };
    page.into_string()
}

fn campaigns(campaigns: &[CampaignRow]) -> Markup {
    html! {
        @if campaigns.is_empty() { p .note { "There are none." } } @else {
            table {
                tr { th { "Campaign" } th { "State" } th .n { "Wave" } th .n { "Cost" } th { "Started" } }
                @for campaign in campaigns {
                    tr {
                        td { a href=(format!("/campaigns/{}", campaign.id)) { (text::line(&campaign.id)) } }
                        td {
                            (campaign.state.word())
                            @if let Some(reason) = &campaign.reason { ": " (text::line(reason)) }
                        }
                        td .n { (campaign.wave + 1) }
                        td .n {
                            (format!("${:.2}", campaign.spent_usd))
                            @if let Some(budget) = campaign.budget_usd { (format!(" of ${budget:.2}")) }
                        }
                        td { @if let Some(at) = DateTime::from_timestamp_millis(campaign.created_at) { (time(at)) } }
                    }
                }
            }
        }
    }
}

fn jobs(jobs: &[(JobKind, String, i64)]) -> Markup {
    html! {
        @if jobs.is_empty() { p .note { "There are none." } } @else {
            table {
                tr { th { "Kind" } th { "State" } th .n { "Jobs" } }
                @for (kind, state, number) in jobs {
                    tr { td { (kind.word()) } td { (text::line(state)) } td .n { (number) } }
                }
            }
        }
    }
}

fn deliveries(deliveries: &[RecentDelivery]) -> Markup {
    html! {
        @if deliveries.is_empty() { p .note { "None since this process started." } } @else {
            table {
                tr { th { "Time" } th { "Event" } th { "About" } th { "What became of it" } th { "Delivery" } }
                @for seen in deliveries {
                    tr {
                        td { (time(seen.at)) }
                        td {
                            (text::line(&seen.event))
                            @if let Some(action) = &seen.action { "." (text::line(action)) }
                        }
                        td { (about(seen)) }
                        td { (text::line(&seen.outcome)) }
                        td { code { (text::line(&seen.guid)) } }
                    }
                }
            }
        }
    }
}

fn about(seen: &RecentDelivery) -> String {
    let repository = seen.repository.as_deref().unwrap_or_default();
    let number = seen.number.map(|number| format!("#{number}")).unwrap_or_default();
    text::line(&format!("{repository}{number}"))
}

fn time(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}
