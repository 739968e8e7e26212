//! What runs and what waits.

use chrono::{DateTime, Utc};
use maud::{Markup, html};

use super::{subject, wide};
use crate::store::{QueuedJob, RunningJob};
use patchwright_base::text;
use patchwright_report::campaign::duration;
use patchwright_task::live::RunProgress;
use patchwright_types::campaign::Millis;

/// The jobs that somebody has, with the progress of those whose journal is on this machine.
pub(super) fn running(jobs: &[RunningJob], progress: &[RunProgress], now: DateTime<Utc>) -> Markup {
    let table = html! { table {
        tr {
            th { "About" } th { "Phase" } th .n { "Turn" } th .n { "Cost" } th { "Last call" }
            th .n { "Elapsed" } th { "Attempt" } th { "Worker" }
        }
        @for job in jobs {
            @let about = subject(job.repository.as_deref(), job.number);
            @let run = progress.iter().find(|run| is_of(run, job, &about));
            tr {
                td { (about) }
                @if let Some(run) = run {
                    td { (run.phase) }
                    td .n { (run.turn) }
                    td .n { (format!("${:.2}", run.cost_usd)) }
                    td { @if let Some(call) = &run.last_call { code { (text::line(call)) } } }
                    td .n { (duration((now - run.started).num_milliseconds())) }
                } @else {
                    td .note colspan="5" { (job.kind.word()) ", no journal here" }
                }
                td { (job.attempt) }
                td { code { (text::line(job.owner.split('@').next().unwrap_or_default())) } }
            }
        }
    } };
    html! {
        @if jobs.is_empty() { p .note { "Nothing runs." } } @else { (wide("Running", &table)) }
    }
}

/// A target names its run; a delivery's run is that of the same issue or pull request, of which there is
/// one at a time.
fn is_of(run: &RunProgress, job: &RunningJob, about: &str) -> bool {
    match &job.run {
        Some(id) => run.run == *id,
        None => run.subject.eq_ignore_ascii_case(about),
    }
}

pub(super) fn queued(jobs: &[QueuedJob], now: Millis) -> Markup {
    let table = html! { table {
        tr {
            th { "About" } th { "Kind" } th .n { "Age" } th .n { "Starts" } th { "After" }
        }
        @for job in jobs {
            tr {
                td { (subject(job.repository.as_deref(), job.number)) }
                td { (job.kind.word()) }
                td .n { (duration(now.saturating_sub(job.since))) }
                td .n {
                    @if job.run_at > now { "in " (duration(job.run_at - now)) } @else { "when there is room" }
                }
                td {
                    @if let Some(why) = &job.why { "attempt " (job.attempt) ": " (text::line(why)) }
                }
            }
        }
    } };
    html! {
        @if jobs.is_empty() { p .note { "Nothing waits." } } @else { (wide("Queue", &table)) }
    }
}
