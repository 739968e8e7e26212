//! The burn-down of a campaign as SVG: how many targets were not settled yet, and how many had failed.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::super::figures;
use super::super::history::History;
use patchwright_types::campaign::{CampaignView, Millis};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 26.0;

/// Ten years in milliseconds.
const MAX_LENGTH: Millis = 315_360_000_000;

/// Steps that are drawn at most.
const MAX_STEPS: usize = 600;

/// How many targets were left, and how many had failed, from this time on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    at: Millis,
    left: i64,
    failed: i64,
}

/// The chart, with its words for who cannot see it.
pub(super) fn chart(view: &CampaignView, history: &History) -> Markup {
    let points = points(view, history);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return html! {} };
    // A clock may have been anywhere.
    let length = last.at.checked_sub(first.at).filter(|length| (1..MAX_LENGTH).contains(length));
    if points.len() < 2 || length.is_none() {
        return html! {};
    }
    let words = format!(
        "{} repositories left on {}, {} on {}; {} failed.",
        first.left,
        figures::moment(first.at),
        last.left,
        figures::moment(last.at),
        last.failed
    );
    let scale = Scale {
        from: first.at,
        to: last.at,
        most: points.iter().map(|p| p.left.max(p.failed)).max().unwrap_or(1).max(1),
    };
    let line = |value: fn(&Point) -> i64| scale.steps(&points, value);
    let left = line(|point| point.left);
    let area = format!("{left} V{:.1} H{:.1} Z", scale.y(0), scale.x(first.at));
    html! {
        section aria-labelledby="burndown" class="burndown" {
            h2 id="burndown" { "Burn-down" }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(words) {
                @for value in scale.values() {
                    line class="grid" x1=(LEFT) x2=(WIDTH - RIGHT) y1=(px(scale.y(value))) y2=(px(scale.y(value))) {}
                    text class="tick end" x=(LEFT - 6.0) y=(px(scale.y(value) + 4.0)) { (value) }
                }
                @for (at, anchor) in scale.times() {
                    text class={ "tick " (anchor) } x=(px(scale.x(at))) y=(px(HEIGHT - 8.0)) { (scale.label(at)) }
                }
                path class="area" d=(area) {}
                path class="left" d=(left) {}
                @if last.failed > 0 { path class="failed" d=(line(|point| point.failed)) {} }
            }
            ul class="legend" {
                li { span class="dot fill-active" {} "left" }
                @if last.failed > 0 { li { span class="dot fill-bad" {} "failed" } }
            }
        }
    }
}

/// How it went. A target that was tried again is left once more.
fn points(view: &CampaignView, history: &History) -> Vec<Point> {
    let begin = view.campaign.created_at;
    let mut now =
        Point { at: begin, left: i64::try_from(view.targets.len()).unwrap_or(i64::MAX), failed: 0 };
    let mut points = vec![now];
    let changes = history.changes(view);
    let every = changes.len().div_ceil(MAX_STEPS).max(1);
    for (index, (at, change)) in changes.iter().enumerate() {
        now = Point {
            // A clock may have been anywhere.
            at: (*at).clamp(begin, view.now.max(begin)),
            left: now.left - change.settled,
            failed: now.failed + change.failed,
        };
        if (index + 1) % every == 0 || index + 1 == changes.len() {
            points.push(now);
        }
    }
    if now.at < view.now && !changes.is_empty() && now.left > 0 {
        points.push(Point { at: view.now, ..now });
    }
    points
}

/// Where things are drawn.
struct Scale {
    from: Millis,
    to: Millis,
    most: i64,
}

impl Scale {
    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    fn x(&self, at: Millis) -> f64 {
        LEFT + (at - self.from) as f64 / (self.to - self.from).max(1) as f64
            * (WIDTH - LEFT - RIGHT)
    }

    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    fn y(&self, value: i64) -> f64 {
        HEIGHT - BOTTOM - value as f64 / self.most as f64 * (HEIGHT - TOP - BOTTOM)
    }

    fn steps(&self, points: &[Point], value: fn(&Point) -> i64) -> String {
        let mut path = String::new();
        for point in points {
            let (x, y) = (px(self.x(point.at)), px(self.y(value(point))));
            let _ =
                if path.is_empty() { write!(path, "M{x} {y}") } else { write!(path, " H{x} V{y}") };
        }
        path
    }

    /// Round numbers from nothing to the most.
    fn values(&self) -> Vec<i64> {
        let step = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500]
            .into_iter()
            .find(|step| self.most / step <= 5);
        let step = step.unwrap_or_else(|| (self.most / 5).max(1));
        (0..=self.most / step).map(|at| at * step).collect()
    }

    fn times(&self) -> [(Millis, &'static str); 4] {
        let third = (self.to - self.from) / 3;
        [
            (self.from, "start"),
            (self.from + third, "middle"),
            (self.from + 2 * third, "middle"),
            (self.to, "end"),
        ]
    }

    fn label(&self, at: Millis) -> String {
        let form = match self.to - self.from {
            ..600_000 => "%H:%M:%S",
            600_000..86_400_000 => "%H:%M",
            _ => "%b %-d, %H:%M",
        };
        figures::time(at, form)
    }
}

fn px(value: f64) -> String {
    format!("{value:.1}")
}
