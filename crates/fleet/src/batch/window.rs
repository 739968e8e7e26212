//! Times of the week in which things may be published. Pure.

use chrono::{DateTime, Datelike, Days, NaiveDate, NaiveDateTime, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;

use super::campaign::{Weekday, Window};

/// The longest gap of local time that a zone has ever skipped, and more: a day.
const LONGEST_GAP_MINUTES: i64 = 26 * 60;

/// `None` when a window is open now (or there is none at all); else when the next one opens.
///
/// A beginning that daylight saving skips is where the gap ends; one that comes twice is the first. An end
/// that comes twice is the second. Windows that cannot be read, which [`super::campaign::parse`] refuses,
/// are never open.
pub fn closed_until(windows: &[Window], now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let spans = windows.iter().flat_map(|window| spans(window, now));
    let mut next = None;
    for (from, to) in spans {
        if from <= now && now < to {
            return None;
        }
        if from > now && next.is_none_or(|next| from < next) {
            next = Some(from);
        }
    }
    // Windows, and none of them ever opens: look again in a week.
    if windows.is_empty() { None } else { next.or(Some(now + TimeDelta::weeks(1))) }
}

/// The window on the days around now: one that began yesterday, and at least the next one.
fn spans(window: &Window, now: DateTime<Utc>) -> Vec<(DateTime<Utc>, DateTime<Utc>)> {
    let parts = (zone(window.timezone.as_deref()), minutes(&window.from), minutes(&window.to));
    let (Some(zone), Some(from), Some(to)) = parts else { return Vec::new() };
    let today = now.with_timezone(&zone).date_naive();
    // Two days back, for a window that lasts a day and a zone that skips one.
    let first = today.checked_sub_days(Days::new(2)).unwrap_or(today);
    let days = first.iter_days().take(11);
    let days = days.filter(|day| window.days.is_empty() || window.days.contains(&weekday(*day)));
    days.filter_map(|day| {
        let last = if to <= from { day.succ_opt()? } else { day };
        Some((instant(zone, day, from, Edge::Begin)?, instant(zone, last, to, Edge::End)?))
    })
    .collect()
}

/// Which edge of a window a time is. A time that a day has twice counts so that the window is longer.
#[derive(Clone, Copy)]
enum Edge {
    Begin,
    End,
}

/// When it is so many minutes after midnight on that day.
fn instant(zone: Tz, day: NaiveDate, minutes: u32, edge: Edge) -> Option<DateTime<Utc>> {
    let midnight: NaiveDateTime = day.and_hms_opt(0, 0, 0)?;
    let local = midnight + TimeDelta::minutes(i64::from(minutes));
    for later in 0..=LONGEST_GAP_MINUTES {
        let found = zone.from_local_datetime(&(local + TimeDelta::minutes(later)));
        let found = match edge {
            Edge::Begin => found.earliest(),
            Edge::End => found.latest(),
        };
        if let Some(found) = found {
            return Some(found.with_timezone(&Utc));
        }
    }
    None
}

fn weekday(day: NaiveDate) -> Weekday {
    match day.weekday() {
        chrono::Weekday::Mon => Weekday::Mon,
        chrono::Weekday::Tue => Weekday::Tue,
        chrono::Weekday::Wed => Weekday::Wed,
        chrono::Weekday::Thu => Weekday::Thu,
        chrono::Weekday::Fri => Weekday::Fri,
        chrono::Weekday::Sat => Weekday::Sat,
        chrono::Weekday::Sun => Weekday::Sun,
    }
}

/// A zone by its name; UTC without one.
pub(super) fn zone(name: Option<&str>) -> Option<Tz> {
    name.map_or(Some(Tz::UTC), |name| name.parse().ok())
}

/// `HH:MM` in minutes; `24:00` is the end of the day.
pub(super) fn minutes(text: &str) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    let two = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !two(hours) || !two(minutes) {
        return None;
    }
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let total = hours * 60 + minutes;
    (minutes < 60 && total <= 24 * 60).then_some(total)
}
