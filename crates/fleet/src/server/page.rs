//! The pages of the dashboard: what they have in common, and the first one. Pure; every text is escaped.

mod charts;
mod live;
mod runs;
mod sign_in;

use chrono::{DateTime, Utc};
use maud::{DOCTYPE, Markup, html};

pub(super) use self::runs::{RunList, runs};
pub(super) use self::sign_in::sign_in;
use super::recent::{IdleReason, RecentDelivery};
use super::visitor::Visitor;
use crate::store::{CampaignSummary, QueuedJob, RunDay, RunningJob};
use patchwright_base::text;
use patchwright_report::content_security_policy::{Forms, content_security_policy};
use patchwright_task::live::RunProgress;
use patchwright_types::campaign::{JobKind, Millis};

const CSS: &str = ":root{color-scheme:light dark;--fg:#1f2328;--bg:#fff;--line:#d1d9e0;--dim:#59636e;\
--link:#0969da;--bar:#0969da;--soft:#f6f8fa}\
@media(prefers-color-scheme:dark){:root{--fg:#e6edf3;--bg:#0d1117;--line:#3d444d;--dim:#9198a1;\
--link:#4493f8;--bar:#4493f8;--soft:#161b22}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:1rem auto;padding:0 1rem;\
color:var(--fg);background:var(--bg);overflow-wrap:anywhere}a{color:var(--link)}\
:focus-visible{outline:2px solid var(--link);outline-offset:2px}\
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:.5rem;background:var(--bg)}\
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}\
td,th{border-bottom:1px solid var(--line);padding:.3rem .6rem;text-align:left;vertical-align:top}\
td{min-width:4rem}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
code{font:13px ui-monospace,monospace}.note{color:var(--dim)}\
nav,form.search{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:end;\
margin:.5rem 0 1rem}\
nav form{margin-left:auto}label{display:block;color:var(--dim)}\
input,button{font:inherit;color:inherit;background:var(--soft);border:1px solid var(--line);\
border-radius:6px;padding:.3rem .6rem;max-width:100%;box-sizing:border-box}\
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr));gap:1rem}\
figure{margin:0}svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;\
fill:var(--dim)}.bar{fill:var(--bar)}.axis{stroke:var(--line)}";

/// What the first page shows.
pub(super) struct Overview {
    pub(super) campaigns: Vec<CampaignSummary>,
    /// By kind and state.
    pub(super) jobs: Vec<(JobKind, String, i64)>,
    pub(super) running: Vec<RunningJob>,
    pub(super) queued: Vec<QueuedJob>,
    /// How far the runs of this machine are.
    pub(super) progress: Vec<RunProgress>,
    /// Today as days since 1970, and the sums of [`DAYS`].
    pub(super) today: i64,
    pub(super) days: Vec<RunDay>,
    pub(super) idle: Vec<IdleReason>,
    pub(super) deliveries: Vec<RecentDelivery>,
    pub(super) now: DateTime<Utc>,
    /// The store's time, which jobs are queued by.
    pub(super) store_now: Millis,
}

/// How far back charts look.
pub(super) const DAYS: i64 = 30;

/// The content security policy of the pages: nothing but their own style, and forms to us.
pub(super) fn policy() -> String {
    let policy = content_security_policy(CSS, None, Forms::SameOrigin);
    format!("{policy}; frame-ancestors 'none'")
}

/// A page around its content.
fn shell(title: &str, visitor: Option<&Visitor>, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { (title) }
                style { (maud::PreEscaped(CSS)) }
            }
            body {
                @if let Some(visitor) = visitor {
                    a .skip href="#content" { "Skip to the content" }
                    nav aria-label="Pages" {
                        a href="/" { "Overview" }
                        a href="/runs" { "Runs" }
                        @if let Some(name) = &visitor.name { span .note { (text::line(name)) } }
                        @if visitor.has_session {
                            form method="post" action="/sign-out" { button { "Sign out" } }
                        }
                    }
                }
                main id="content" { (content) }
            }
        }
    };
    page.into_string()
}

/// A table that scrolls by itself where it is too wide, with the keyboard as well.
fn wide(name: &str, table: &Markup) -> Markup {
    html! { div .wide role="region" tabindex="0" aria-label=(name) { (table) } }
}

pub(super) fn overview(overview: &Overview, visitor: &Visitor) -> String {
    let content = html! {
        h1 { "Patchwright" }
        p .note { "As of " (time(overview.now)) ". This page refreshes by itself." }
        h2 { "Running" }
        (live::running(&overview.running, &overview.progress, overview.now))
        h2 { "Queue" }
        (live::queued(&overview.queued, overview.store_now))
        h2 { "Campaigns" }
        (campaigns(&overview.campaigns))
        h2 { "Last " (DAYS) " days" }
        (charts::charts(overview.today, &overview.days))
        h2 { "Failures by class" }
        (charts::failures(&overview.days))
        h2 { "Deliveries that did nothing" }
        (idle(&overview.idle))
                h2 { "Jobs" }
        (jobs(&overview.jobs))
        h2 { "Last deliveries" }
        (deliveries(&overview.deliveries))
    };
    shell("Patchwright", Some(visitor), &content)
}

fn idle(reasons: &[IdleReason]) -> Markup {
    html! {
        @if reasons.is_empty() { p .note { "None since this process started." } } @else {
            (wide("Deliveries that did nothing", &html! { table {
                tr { th { "Why" } th .n { "Deliveries" } th { "Last one" } }
                @for reason in reasons {
                    tr {
                        td { (text::line(&reason.why)) }
                        td .n { (reason.deliveries) }
                        td { (time(reason.at)) }
                    }
                }
            } }))
        }
        p .note {
            "Since this process started. "
            a href="/runs?conclusion=ignored" { "Those that a worker looked at" }
        }
    }
}

fn campaigns(campaigns: &[CampaignSummary]) -> Markup {
    html! {
        @if campaigns.is_empty() { p .note { "There are none." } } @else {
            (wide("Campaigns", &html! { table {
                tr {
                    th scope="col" { "Campaign" } th scope="col" { "State" } th scope="col" .n { "Done" }
                    th scope="col" .n { "Failed" } th scope="col" .n { "Wave" } th scope="col" .n { "Cost" }
                    th scope="col" { "Started" }
                }
                @for campaign in campaigns { (campaign_row(campaign)) }
            } }))
        }
    }
}

fn campaign_row(campaign: &CampaignSummary) -> Markup {
    let page = format!("/campaigns/{}", campaign.id);
    html! {
        tr {
            td { a href=(page) { (text::line(&campaign.id)) } }
            td {
                (campaign.state.word())
                @if let Some(reason) = &campaign.reason { ": " (text::line(reason)) }
            }
            td .n {
                (campaign.settled) " of " (campaign.targets)
                @if let Some(share) = (campaign.settled * 100).checked_div(campaign.targets) { " (" (share) " %)" }
            }
            td .n {
                @if campaign.failed > 0 {
                    a href={ (page) "#state=failed" } { (campaign.failed) }
                } @else { "0" }
            }
            td .n { (campaign.wave.saturating_add(1)) }
            td .n {
                (format!("${:.2}", campaign.spent_usd))
                @if let Some(budget) = campaign.budget_usd { (format!(" of ${budget:.2}")) }
            }
            td { @if let Some(at) = DateTime::from_timestamp_millis(campaign.created_at) { (time(at)) } }
        }
    }
}

fn jobs(jobs: &[(JobKind, String, i64)]) -> Markup {
    html! {
        @if jobs.is_empty() { p .note { "There are none." } } @else {
            (wide("Jobs", &html! { table {
                tr { th { "Kind" } th { "State" } th .n { "Jobs" } }
                @for (kind, state, number) in jobs {
                    tr { td { (kind.word()) } td { (text::line(state)) } td .n { (number) } }
                }
            } }))
        }
    }
}

fn deliveries(deliveries: &[RecentDelivery]) -> Markup {
    html! {
        @if deliveries.is_empty() { p .note { "There are none." } } @else {
            (wide("Last deliveries", &html! { table {
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
            } }))
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

/// `owner/name#number`, as far as it is known.
fn subject(repository: Option<&str>, number: Option<i64>) -> String {
    let number = number.map(|number| format!("#{number}")).unwrap_or_default();
    text::line(&format!("{}{number}", repository.unwrap_or_default()))
}
