//! Charts of the last days as SVG, made here so that pages need no script, and failures by class.

use std::collections::BTreeMap;

use chrono::DateTime;
use maud::{Markup, html};

use super::DAYS;
use crate::store::RunDay;
use patchwright_base::text;
use patchwright_report::campaign::duration;

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 120.0;
/// Where bars begin and end.
const TOP: f64 = 16.0;
const BOTTOM: f64 = 104.0;

/// What a conclusion says about success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Done,
    /// Nothing was to be done, or a person has to answer.
    Neither,
    Failed,
}

fn verdict(conclusion: &str) -> Verdict {
    match conclusion {
        "done" => Verdict::Done,
        "nothing_to_do" | "needs_input" | "ignored" => Verdict::Neither,
        _ => Verdict::Failed,
    }
}

/// The sums of one day.
#[derive(Clone, Copy, Debug, Default)]
struct DayTotals {
    done: i64,
    failed: i64,
    /// Runs that took time.
    worked: i64,
    cost_usd: f64,
    milliseconds: i64,
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
impl DayTotals {
    fn success(&self) -> Option<f64> {
        let judged = self.done + self.failed;
        (judged > 0).then(|| self.done as f64 * 100.0 / judged as f64)
    }

    fn cost(&self) -> Option<f64> {
        (self.worked > 0).then_some(self.cost_usd)
    }

    /// Mean length of a run, in milliseconds.
    fn duration(&self) -> Option<f64> {
        (self.worked > 0).then(|| self.milliseconds as f64 / self.worked as f64)
    }
}

/// One chart: its title, and how a day's value is found and said.
struct Chart {
    title: &'static str,
    value: fn(&DayTotals) -> Option<f64>,
    say: fn(f64) -> String,
    /// The top of the scale, when it does not follow the values.
    top: Option<f64>,
}

const CHARTS: [Chart; 3] = [
    Chart {
        title: "Success rate",
        value: DayTotals::success,
        say: |percent| format!("{percent:.0} %"),
        top: Some(100.0),
    },
    Chart {
        title: "Cost per day",
        value: DayTotals::cost,
        say: |dollars| format!("${dollars:.2}"),
        top: None,
    },
    Chart { title: "Mean duration of a run", value: DayTotals::duration, say: length, top: None },
];

#[expect(clippy::cast_possible_truncation, reason = "a length of time")]
fn length(milliseconds: f64) -> String {
    duration(milliseconds as i64)
}

/// The charts, and their numbers as a table for those who cannot see them.
pub(super) fn charts(today: i64, days: &[RunDay]) -> Markup {
    let mut sums: BTreeMap<i64, DayTotals> =
        (today - DAYS + 1..=today).map(|day| (day, DayTotals::default())).collect();
    for row in days {
        let Some(day) = sums.get_mut(&row.day) else { continue };
        match verdict(&row.conclusion) {
            Verdict::Done => day.done += row.runs,
            Verdict::Failed => day.failed += row.runs,
            Verdict::Neither => {}
        }
        if row.conclusion != "ignored" {
            day.worked += row.runs;
            day.cost_usd += row.cost_usd;
            day.milliseconds += row.milliseconds;
        }
    }
    html! {
        @if sums.values().all(|day| day.worked == 0) {
            p .note { "No run has ended." }
        } @else {
            div .charts { @for chart in &CHARTS { (drawn(chart, &sums)) } }
            p .note {
                "Of runs that were done or failed. Those that found nothing to do or asked something \
                 count for cost and duration alone."
            }
            details { summary { "The numbers" } (super::wide("The numbers", &table(&sums))) }
        }
    }
}

fn table(sums: &BTreeMap<i64, DayTotals>) -> Markup {
    html! { table {
        tr { th { "Day" } th .n { "Done" } th .n { "Failed" } @for chart in &CHARTS { th .n { (chart.title) } } }
        @for (day, sums) in sums.iter().rev().filter(|(_, sums)| sums.worked > 0) {
            tr {
                td { (date(*day)) }
                td .n { (sums.done) }
                td .n { (sums.failed) }
                @for chart in &CHARTS {
                    td .n { @if let Some(value) = (chart.value)(sums) { ((chart.say)(value)) } }
                }
            }
        }
    } }
}

fn drawn(chart: &Chart, sums: &BTreeMap<i64, DayTotals>) -> Markup {
    let values = sums.values().filter_map(|day| (chart.value)(day));
    let highest = values.fold(0.0_f64, f64::max);
    let top = chart.top.unwrap_or(highest).max(f64::MIN_POSITIVE);
    let step = WIDTH / f64::from(i32::try_from(sums.len()).unwrap_or(1).max(1));
    let label = format!(
        "{}, at most {} in a day; the numbers are below",
        chart.title,
        (chart.say)(highest)
    );
    let bars = sums.iter().enumerate().filter_map(|(place, (day, sums))| {
        let value = (chart.value)(sums)?;
        let height = (value / top).clamp(0.0, 1.0) * (BOTTOM - TOP);
        let left = f64::from(i32::try_from(place).ok()?) * step;
        // A day without success is a line at the bottom; one without runs has none.
        let height = height.max(1.0);
        Some((*day, value, left, height))
    });
    let (first, last) = (sums.keys().next(), sums.keys().last());
    html! {
        figure {
            figcaption { (chart.title) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(label) {
                line .axis x1="0" x2=(WIDTH) y1=(BOTTOM) y2=(BOTTOM) {}
                line .axis x1="0" x2=(WIDTH) y1=(TOP) y2=(TOP) {}
                text x="0" y=(TOP - 4.0) { ((chart.say)(top)) }
                @for (day, value, left, height) in bars {
                    rect .bar x=(format!("{:.1}", left + 1.0)) y=(format!("{:.1}", BOTTOM - height))
                        width=(format!("{:.1}", step - 2.0)) height=(format!("{height:.1}")) {
                        title { (date(day)) ": " ((chart.say)(value)) }
                    }
                }
                @if let (Some(first), Some(last)) = (first, last) {
                    text x="0" y=(HEIGHT - 3.0) { (date(*first)) }
                    text x=(WIDTH) y=(HEIGHT - 3.0) text-anchor="end" { (date(*last)) }
                }
            }
        }
    }
}

/// Failures of the last days, the most frequent class first.
pub(super) fn failures(days: &[RunDay]) -> Markup {
    let mut classes: BTreeMap<&str, (i64, f64)> = BTreeMap::new();
    for row in days.iter().filter(|row| verdict(&row.conclusion) == Verdict::Failed) {
        let (runs, cost) = classes.entry(&row.conclusion).or_default();
        *runs += row.runs;
        *cost += row.cost_usd;
    }
    let mut classes: Vec<(&str, (i64, f64))> = classes.into_iter().collect();
    classes.sort_by_key(|(_, (runs, _))| std::cmp::Reverse(*runs));
    html! {
        @if classes.is_empty() { p .note { "There are none." } } @else {
            (super::wide("Failures by class", &html! { table {
                tr { th { "Class" } th .n { "Runs" } th .n { "Cost" } }
                @for (class, (runs, cost)) in classes {
                    tr {
                        td { a href=(super::runs::search_of_class(class)) { (text::line(class)) } }
                        td .n { (runs) }
                        td .n { (format!("${cost:.2}")) }
                    }
                }
            } }))
        }
    }
}

fn date(day: i64) -> String {
    let at = DateTime::from_timestamp(day.saturating_mul(86_400), 0);
    at.map(|at| at.format("%m-%d").to_string()).unwrap_or_default()
}
