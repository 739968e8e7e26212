//! Time, tokens and cost by turn, as pictures made of rectangles. A bar leads to its turn; what nothing is known
//! of has no picture.

use maud::{Markup, html};

use super::record::Turn;
use super::shown;
use super::timeline::Timeline;
use patchwright_base::duration::format_milliseconds;

/// Bars of one picture; more turns share bars.
const MAX_BARS: usize = 120;
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 100.0;

/// One kind of number, in up to three parts that stand on each other.
struct Chart {
    title: &'static str,
    parts: &'static [(&'static str, &'static str)],
    of: fn(&Turn<'_>) -> [u64; 3],
    /// A number for people.
    words: fn(u64) -> String,
}

const CHARTS: &[Chart] = &[
    Chart {
        title: "Time",
        parts: &[("model", "one"), ("calls", "two")],
        of: |turn| [turn.model_ms.unwrap_or(0), turn.calls_ms.unwrap_or(0), 0],
        words: format_milliseconds,
    },
    Chart {
        title: "Tokens",
        parts: &[("input from the cache", "three"), ("other input", "one"), ("output", "two")],
        of: |turn| {
            let usage = &turn.reply.usage;
            let cached = usage.cached_input.min(usage.input);
            [cached, usage.input - cached, usage.output]
        },
        words: shown::count,
    },
    Chart {
        title: "Cost",
        parts: &[("dollars", "one")],
        of: |turn| [micros(turn.cost_usd), 0, 0],
        words: dollars,
    },
];

/// A bar: the turns that it stands for, and its parts.
struct Bar {
    first: u32,
    last: u32,
    parts: [u64; 3],
}

impl Bar {
    fn sum(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }

    fn turns(&self) -> String {
        if self.first == self.last {
            format!("turn {}", self.first)
        } else {
            format!("turns {} to {}", self.first, self.last)
        }
    }
}

/// The pictures of a conversation of at least two turns.
pub(super) fn charts(timeline: &Timeline<'_>) -> Option<Markup> {
    let turns: Vec<&Turn<'_>> = timeline.turns().collect();
    let drawn: Vec<Markup> = CHARTS.iter().filter_map(|it| chart(it, &turns, timeline)).collect();
    (turns.len() > 1 && !drawn.is_empty()).then(|| {
        html! { div class="charts" { @for chart in drawn { (chart) } } }
    })
}

fn chart(chart: &Chart, turns: &[&Turn<'_>], timeline: &Timeline<'_>) -> Option<Markup> {
    let each = turns.len().div_ceil(MAX_BARS).max(1);
    let bars: Vec<Bar> = turns.chunks(each).filter_map(|turns| bar(chart, turns)).collect();
    let highest = bars.iter().max_by_key(|bar| bar.sum()).filter(|bar| bar.sum() > 0)?;
    let all = bars.iter().fold(0, |sum, bar| bar.sum().saturating_add(sum));
    let words = chart.words;
    let most = format!("most in {}: {}", highest.turns(), words(highest.sum()));
    Some(html! {
        figure {
            figcaption {
                strong { (chart.title) } " " span class="soft" { (words(all)) " in all, " }
                a href={ "#" (timeline.prefix) "turn-" (highest.first) } { (most) }
            }
            svg class="chart" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="group"
                aria-label={ (chart.title) " by turn, " (words(all)) " in all, " (most) } {
                @for (at, bar) in bars.iter().enumerate() {
                    (column(chart, bar, (at, bars.len()), highest.sum(), timeline))
                }
            }
            @if chart.parts.len() > 1 {
                ul class="legend" {
                    @for (name, class) in chart.parts { li { span class={ "dot " (class) } {} (name) } }
                }
            }
        }
    })
}

fn bar(chart: &Chart, turns: &[&Turn<'_>]) -> Option<Bar> {
    let mut parts = [0_u64; 3];
    for turn in turns {
        for (sum, part) in parts.iter_mut().zip((chart.of)(turn)) {
            *sum = sum.saturating_add(part);
        }
    }
    Some(Bar { first: turns.first()?.number, last: turns.last()?.number, parts })
}

fn column(
    chart: &Chart,
    bar: &Bar,
    (at, bars): (usize, usize),
    highest: u64,
    timeline: &Timeline<'_>,
) -> Markup {
    // A few turns do not make bars as wide as the page.
    let step = (WIDTH / as_pixels(bars as u64)).min(80.0);
    let left = step * as_pixels(at as u64);
    let mut below = HEIGHT;
    let mut rects = Vec::new();
    for ((_, class), part) in chart.parts.iter().zip(bar.parts) {
        let height = as_pixels(part) / as_pixels(highest.max(1)) * HEIGHT;
        if height > 0.0 {
            below -= height;
            rects.push((class, below, height.max(0.5)));
        }
    }
    html! {
        // The heading above leads to the highest bar by keyboard; hundreds of stops would be in the way.
        a href={ "#" (timeline.prefix) "turn-" (bar.first) } tabindex="-1" {
            title { (bar.turns()) ": " (legend(chart, bar)) }
            @for (class, y, height) in rects {
                rect class=(class) x=(px(left)) y=(px(y)) width=(px(step * 0.85)) height=(px(height)) {}
            }
        }
    }
}

fn legend(chart: &Chart, bar: &Bar) -> String {
    let parts = chart.parts.iter().zip(bar.parts).filter(|(_, part)| *part > 0);
    let parts = parts.map(|((name, _), part)| match chart.parts.len() {
        1 => (chart.words)(part),
        _ => format!("{} {name}", (chart.words)(part)),
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "pixels")]
fn as_pixels(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a negative cost becomes 0, and an infinite one is excluded"
)]
fn micros(dollars: f64) -> u64 {
    if dollars.is_finite() { (dollars * 1e6) as u64 } else { 0 }
}

fn dollars(micros: u64) -> String {
    format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}

fn px(value: f64) -> String {
    format!("{value:.1}")
}
