//! Crontab lines as people mean them, over the `cron` crate.
//!
//! The fields are those of POSIX `crontab`, with what every cron has beside it: names, steps and
//! `@daily`. The crate counts weekdays from 1, wants seconds, and knows no "or" between the day fields;
//! so lines are read here, and the crate is only asked for the next match of plain numbers in a calendar
//! without time zones. What daylight saving does to that is decided here, too.

use chrono::{DateTime, Datelike, Duration, NaiveDateTime, TimeZone, Timelike, Utc};
use chrono_tz::Tz;
use cron::Schedule;

use patchwright_base::error::{Failure, Result};
use patchwright_base::text;

/// A five-field crontab line in a time zone.
#[derive(Clone, Debug)]
pub struct Crontab {
    /// Two when both day fields are restricted: a day matches by either.
    schedules: Vec<Schedule>,
    zone: Tz,
}

/// Longest line, in bytes.
const MAX_LINE: usize = 500;

/// Matches that are looked at for one that is not over yet: a day that comes twice has 1,440 minutes.
const MAX_STEPS: usize = 5_000;

/// A field that is not restricted.
const ANY: u64 = u64::MAX;

/// One of the five fields.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    /// For numbers from `min` (weekdays: from 0) on.
    names: &'static [&'static str],
    allowed: &'static str,
}

const MONTHS: &[&str] = &[
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: &[&str] =
    &["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

const FIELDS: [Field; 5] = [
    Field { name: "minute", min: 0, max: 59, names: &[], allowed: "0 to 59" },
    Field { name: "hour", min: 0, max: 23, names: &[], allowed: "0 to 23" },
    Field { name: "day of the month", min: 1, max: 31, names: &[], allowed: "1 to 31" },
    Field { name: "month", min: 1, max: 12, names: MONTHS, allowed: "1 to 12, or `jan` to `dec`" },
    Field {
        name: "day of the week",
        min: 0,
        max: 7,
        names: WEEKDAYS,
        allowed: "0 to 7 (0 and 7 are Sunday), or `mon` to `sun`",
    },
];

const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl Crontab {
    /// Reads minute, hour, day of the month, month, day of the week (0 and 7 are Sunday; names are
    /// understood) and a zone such as `Europe/Berlin`.
    ///
    /// As in POSIX, a day matches by either day field when both are restricted. A field that begins with
    /// `*` is not, so that `0 3 */2 * mon` means Mondays with an odd date, as in Vixie cron.
    ///
    /// # Errors
    /// With the field, what it says and what is allowed; for lines with seconds, with the line to write.
    pub fn parse(line: &str, timezone: Option<&str>) -> Result<Crontab> {
        let zone = zone(timezone)?;
        if line.len() > MAX_LINE {
            return Err(Failure::usage(format!("the cron line {} is too long", quoted(line)))
                .hint(format!("a line has at most {MAX_LINE} bytes")));
        }
        let words = words(line)?;
        let words: Vec<&str> = words.split_whitespace().collect();
        let Ok(words) = <[&str; 5]>::try_from(words.as_slice()) else {
            return Err(wrong_count(line, &words));
        };
        let mut sets = [0_u64; 5];
        for ((set, field), word) in sets.iter_mut().zip(&FIELDS).zip(words) {
            *set = field.read(word).map_err(|(problem, hint)| {
                let failure =
                    Failure::usage(format!("in the cron line {}: {problem}", quoted(line)));
                if hint.is_empty() { failure } else { failure.hint(hint) }
            })?;
        }
        let [minute, hour, day, month, weekday] = sets;
        // POSIX joins the two day fields with "or" when both are restricted, and with "and"
        // otherwise.
        let either = !words[2].starts_with('*') && !words[4].starts_with('*');
        if !either && !some_date(day, month) {
            let failure = Failure::usage(format!(
                "the cron line {} never comes: no month that it names has such a day",
                quoted(line)
            ));
            let hint =
                format!("`1-28` is in every month; `{} * *` comes in those that have it", words[2]);
            return Err(failure.hint(hint));
        }
        let schedule = |day, weekday| {
            expression([minute, hour, day, month, weekday]).parse::<Schedule>().map_err(|err| {
                Failure::usage(format!("the cron line {} is not understood", quoted(line)))
                    .caused_by(err)
            })
        };
        let schedules = if either {
            vec![schedule(day, ANY)?, schedule(ANY, weekday)?]
        } else {
            vec![schedule(day, weekday)?]
        };
        Ok(Crontab { schedules, zone })
    }

    /// The first moment after `after`, with its local date and time as text, which names it for
    /// [`crate::store::Store::fire_once`]. A local time that is skipped by daylight saving fires when
    /// the gap ends; one that comes twice fires once.
    pub fn next_after(&self, after: DateTime<Utc>) -> Option<(DateTime<Utc>, String)> {
        // The `cron` crate supports the years from 1970 to 2100.
        let after = after.max(DateTime::UNIX_EPOCH);
        if after.year() > 2100 {
            return None;
        }
        // Local times are in the order of their moments, so the first one that is not over is the
        // next.
        let mut local = after.with_timezone(&self.zone).naive_local();
        for _ in 0..MAX_STEPS {
            local = self.next_local(local)?;
            let moment = self.moment(local)?;
            if moment > after {
                return Some((moment, self.name(moment)));
            }
        }
        None
    }

    /// The last moment after `since` and not after `until`.
    pub fn latest(
        &self,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Option<(DateTime<Utc>, String)> {
        // Most lines match a few times a day, so the search looks at the last hour first, then
        // further back.
        let mut from = until;
        let mut reach = Duration::hours(1);
        while from > since {
            from = until.checked_sub_signed(reach).map_or(since, |from| from.max(since));
            let mut last = None;
            let mut at = from;
            while let Some(found) = self.next_after(at).filter(|(moment, _)| *moment <= until) {
                at = found.0;
                last = Some(found);
            }
            if last.is_some() {
                return last;
            }
            reach = reach * 8;
        }
        None
    }

    /// The last moment after `since` and not after `now` that is still to be fired when `last` (a name of a
    /// moment, as [`Crontab::next_after`] gives it) was the last one that has been. However many were
    /// missed, only one is due; and none when the clock has gone back behind `last`, unless `last` is so
    /// far ahead that the clock must have been wrong when it fired.
    pub fn due(
        &self,
        since: DateTime<Utc>,
        now: DateTime<Utc>,
        last: Option<&str>,
    ) -> Option<(DateTime<Utc>, String)> {
        let (moment, name) = self.latest(since, now)?;
        (!self.has_been(&name, now, last)).then_some((moment, name))
    }

    /// The first moment after `now` that is going to be fired when `last` was the last one that has been, as
    /// [`Crontab::due`] will decide then: a later one than [`Crontab::next_after`] says when the clock was set back.
    pub fn next_to_fire(&self, now: DateTime<Utc>, last: Option<&str>) -> Option<DateTime<Utc>> {
        let (mut moment, mut name) = self.next_after(now)?;
        while self.has_been(&name, moment, last) {
            (moment, name) = self.next_after(moment)?;
        }
        Some(moment)
    }

    /// Whether a moment, by its name, was fired already, as it stands at `now`.
    fn has_been(&self, name: &str, now: DateTime<Utc>, last: Option<&str>) -> bool {
        let Some(tomorrow) = now.checked_add_signed(Duration::hours(25)) else { return true };
        let tomorrow = self.name(tomorrow);
        // Names of one zone sort by time; a name of another zone cannot be compared.
        let in_zone =
            |last: &&str| last.split_once(' ').is_some_and(|(_, zone)| zone == self.zone.name());
        last.filter(in_zone).is_some_and(|last| *name <= *last && *last <= *tomorrow)
    }

    /// The zone's name.
    pub fn zone(&self) -> &'static str {
        self.zone.name()
    }

    /// A moment as people in the zone read it.
    pub fn local(&self, moment: DateTime<Utc>) -> String {
        moment.with_timezone(&self.zone).format("%a %Y-%m-%d %H:%M %Z").to_string()
    }

    fn name(&self, moment: DateTime<Utc>) -> String {
        let local = moment.with_timezone(&self.zone).naive_local();
        format!("{} {}", local.format("%Y-%m-%dT%H:%M"), self.zone.name())
    }

    fn next_local(&self, after: NaiveDateTime) -> Option<NaiveDateTime> {
        let after = after.with_nanosecond(0)?.and_utc();
        self.schedules
            .iter()
            .filter_map(|schedule| schedule.after(&after).next())
            .min()
            .map(|at| at.naive_utc())
    }

    /// When a local time comes: the first time, or when the gap ends in which it would have been.
    fn moment(&self, local: NaiveDateTime) -> Option<DateTime<Utc>> {
        let found = self.zone.from_local_datetime(&local);
        let first = [found.earliest(), found.latest()].into_iter().flatten().min();
        if let Some(first) = first {
            return Some(first.with_timezone(&Utc));
        }
        // A binary search for the end of the gap. No zone is further than 16 hours from UTC, so the
        // clock shows less than `local` at `before` and more at `end`.
        let mut before = local.and_utc().timestamp() - 16 * 3_600;
        let mut end = local.and_utc().timestamp() + 16 * 3_600;
        while end - before > 1 {
            let middle = before.midpoint(end);
            let shown = self.zone.timestamp_opt(middle, 0).single()?.naive_local();
            if shown > local { end = middle } else { before = middle }
        }
        DateTime::from_timestamp(end, 0)
    }
}

impl Field {
    /// The numbers that a field names, as bits; or what is wrong, and what to write.
    fn read(&self, word: &str) -> std::result::Result<u64, (String, String)> {
        let mut set = 0;
        for part in word.split(',') {
            set |= self.part(part, word)?;
        }
        Ok(set)
    }

    fn part(&self, part: &str, word: &str) -> std::result::Result<u64, (String, String)> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        // 7 is another name of Sunday, so a step must not count it again.
        let last = if self.is_weekday() { 6 } else { self.max };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (self.min, last),
            Some((from, to)) => self.range(from, to, word)?,
            None => {
                let only = self.number(range, word)?;
                (only, if step.is_some() { last.max(only) } else { only })
            }
        };
        let step = step.map_or(Ok(1), |step| self.step(step, last, word))?;
        let bits = (from..=to).step_by(step);
        Ok(bits
            .fold(0, |set, number| set | 1 << if self.is_weekday() { number % 7 } else { number }))
    }

    /// Both ends; a range of weekdays may go over Sunday.
    fn range(
        &self,
        from: &str,
        to: &str,
        word: &str,
    ) -> std::result::Result<(u32, u32), (String, String)> {
        let (start, end) = (self.number(from, word)?, self.number(to, word)?);
        if start <= end {
            return Ok((start, end));
        }
        if self.is_weekday() {
            // `fri-mon` runs over Sunday: the end moves a week on, and the bits are taken modulo 7.
            return Ok((start % 7, end + if start == 7 { 0 } else { 7 }));
        }
        let (first, last) = (self.min, self.max);
        Err((
            format!("the {} {} runs backwards", self.name, quoted(&format!("{from}-{to}"))),
            format!("write `{start}-{last},{first}-{end}` when it goes over the end"),
        ))
    }

    fn step(
        &self,
        step: &str,
        last: u32,
        word: &str,
    ) -> std::result::Result<usize, (String, String)> {
        let most = last - self.min + 1;
        let given = step.parse().ok().filter(|given| (1..=most).contains(given));
        given.and_then(|given: u32| usize::try_from(given).ok()).ok_or_else(|| {
            (
                format!("the {} {} has the step {}", self.name, quoted(word), quoted(step)),
                format!("a step of this field is 1 to {most}"),
            )
        })
    }

    fn number(&self, text: &str, word: &str) -> std::result::Result<u32, (String, String)> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number: Option<u32> = if digits { text.parse().ok() } else { self.named(text) };
        number.filter(|number| (self.min..=self.max).contains(number)).ok_or_else(|| {
            let whole =
                if text == word { String::new() } else { format!(" (in {})", quoted(word)) };
            let hint = match text {
                "?" => "write `*`",
                _ if text.contains(['L', 'W', '#'])
                    && text.bytes().any(|byte| byte.is_ascii_digit()) =>
                {
                    "`L`, `W` and `#` are of another cron; list the days"
                }
                _ => "",
            };
            let problem = if text.is_empty() {
                format!("the {} {} misses a value; it is {}", self.name, quoted(word), self.allowed)
            } else {
                format!("{}{whole} is no {}; it is {}", quoted(text), self.name, self.allowed)
            };
            (problem, hint.to_owned())
        })
    }

    /// `mon`, `Monday`, `sept`: the beginning of a name, at least three letters of it.
    fn named(&self, text: &str) -> Option<u32> {
        let text = text.to_ascii_lowercase();
        let at = self.names.iter().position(|name| text.len() >= 3 && name.starts_with(&text))?;
        Some(self.min + u32::try_from(at).ok()?)
    }

    fn is_weekday(&self) -> bool {
        self.max == 7
    }
}

/// The line with its nickname replaced and without what other crons allow before it.
fn words(line: &str) -> Result<String> {
    let line = line.trim();
    if let Some((name, rest)) = line.split_once('=')
        && ["TZ", "CRON_TZ"].contains(&name.trim())
    {
        let zone = rest.split_whitespace().next().unwrap_or_default();
        return Err(Failure::usage(format!("the cron line {} names a time zone", quoted(line)))
            .hint(format!(
                "give the zone as `timezone: {}`, and the times alone as `cron`",
                text::line(zone)
            )));
    }
    if !line.starts_with('@') {
        return Ok(line.to_owned());
    }
    let known = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(line));
    known.map(|(_, fields)| (*fields).to_owned()).ok_or_else(|| {
        let names = NICKNAMES.map(|(name, _)| format!("`{name}`")).join(", ");
        Failure::usage(format!("{} is no cron line", quoted(line)))
            .hint(format!("write five fields, such as `0 2 * * mon-fri`, or one of {names}"))
    })
}

/// Too many or too few fields: says which line was probably meant.
fn wrong_count(line: &str, words: &[&str]) -> Failure {
    let many = words.len();
    let reads = |words: &[&str]| {
        let words: Vec<&str> =
            words.iter().map(|word| if *word == "?" { "*" } else { word }).collect();
        let line = words.join(" ");
        (words.len() == 5 && line.len() <= MAX_LINE && Crontab::parse(&line, None).is_ok())
            .then_some(line)
    };
    let is_year =
        |word: &&str| word.len() >= 4 && word.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    let meant = match many {
        1..=4 => reads(&[words, &["*"; 4][..5 - many]].concat()),
        6 if words.last().is_some_and(is_year) => reads(&words[..5]),
        6 => reads(&words[1..]).or_else(|| reads(&words[..5])),
        7 => reads(&words[1..6]).or_else(|| reads(&words[..5])),
        8.. => reads(&words[..5]),
        _ => None,
    };
    let failure = Failure::usage(format!(
        "the cron line {} has {many} field{}; it has five: minute, hour, day of the month, month, day of \
         the week",
        quoted(line),
        if many == 1 { "" } else { "s" }
    ));
    let beside = if many > 5 { " (there are no seconds, years or commands)" } else { "" };
    match meant {
        Some(meant) => failure.hint(format!("write `{meant}`{beside}")),
        None => failure.hint("write five fields, such as `0 2 * * mon-fri`"),
    }
}

/// Some month has one of the days; a leap year counts.
fn some_date(days: u64, months: u64) -> bool {
    let length = |month| match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31_u32,
    };
    (1..=12).any(|month| months >> month & 1 == 1 && days.trailing_zeros() <= length(month))
}

/// The fields as the crate reads them: seconds first, weekdays from 1, everything as numbers.
fn expression(fields: [u64; 5]) -> String {
    let list = |set: u64| {
        let numbers = (0..64).filter(|bit| set >> bit & 1 == 1).map(|bit: u32| bit.to_string());
        if set == ANY { "*".to_owned() } else { numbers.collect::<Vec<_>>().join(",") }
    };
    let [minute, hour, day, month, weekday] = fields;
    // A rotation leaves `ANY` as it is.
    format!("0 {}", [minute, hour, day, month, weekday.rotate_left(1)].map(list).join(" "))
}

fn zone(name: Option<&str>) -> Result<Tz> {
    let Some(name) = name.map(str::trim) else { return Ok(Tz::UTC) };
    if let Ok(zone) = name.parse() {
        return Ok(zone);
    }
    let same = |known: &str| known.eq_ignore_ascii_case(name);
    let spaced = name.replace(' ', "_");
    let city = |known: &str| {
        known.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(&spaced))
    };
    let known = || chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    let meant = known().find(|known| same(known)).or_else(|| known().find(|known| city(known)));
    let failure = Failure::usage(format!("{} is no time zone", quoted(name)));
    Err(failure.hint(match meant {
        Some(meant) => format!("write `{meant}`"),
        None => "write a name of the IANA database, such as `Europe/Berlin`, or `UTC`".to_owned(),
    }))
}

fn quoted(untrusted: &str) -> String {
    format!("`{}`", text::cut(&text::line(untrusted), 80).replace('`', "'"))
}
