//! Crontab lines: which moments they name, in zones with daylight saving too, and what is said about
//! lines that are wrong.

use chrono::{DateTime, Datelike, Duration, NaiveDateTime, TimeZone, Timelike, Utc};
use chrono_tz::Tz;
use expect_test::{Expect, expect};
use patchwright_fleet::batch::cron::Crontab;

fn utc(text: &str) -> DateTime<Utc> {
    NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap().and_utc()
}

fn crontab(line: &str, zone: &str) -> Crontab {
    Crontab::parse(line, Some(zone)).unwrap_or_else(|err| panic!("{line}: {err}"))
}

/// A line, and the same in words of ours: does a local minute match?
type Rule = (&'static str, fn(NaiveDateTime) -> bool);

fn weekday(at: NaiveDateTime) -> u32 {
    at.weekday().num_days_from_sunday()
}

fn at(time: NaiveDateTime, hour: u32, minute: u32) -> bool {
    (time.hour(), time.minute()) == (hour, minute)
}

const RULES: &[Rule] = &[
    ("* * * * *", |_| true),
    ("30 2 * * *", |t| at(t, 2, 30)),
    ("0 2 * * 1", |t| at(t, 2, 0) && weekday(t) == 1),
    ("0 2 * * 0", |t| at(t, 2, 0) && weekday(t) == 0),
    ("0 2 * * 7", |t| at(t, 2, 0) && weekday(t) == 0),
    ("0 2 * * SUN", |t| at(t, 2, 0) && weekday(t) == 0),
    ("15 2 * * mon-fri", |t| at(t, 2, 15) && (1..=5).contains(&weekday(t))),
    ("15 2 * * Monday-Friday", |t| at(t, 2, 15) && (1..=5).contains(&weekday(t))),
    ("0 0 * * 5-7", |t| at(t, 0, 0) && [5, 6, 0].contains(&weekday(t))),
    ("0 0 * * 6-0", |t| at(t, 0, 0) && [6, 0].contains(&weekday(t))),
    ("0 0 * * sat-sun", |t| at(t, 0, 0) && [6, 0].contains(&weekday(t))),
    ("0 0 * * fri-mon", |t| at(t, 0, 0) && [5, 6, 0, 1].contains(&weekday(t))),
    ("0 0 * * 7-2", |t| at(t, 0, 0) && [0, 1, 2].contains(&weekday(t))),
    ("0 0 * * 0-7", |t| at(t, 0, 0)),
    ("0 0 * * 1-5/2", |t| at(t, 0, 0) && [1, 3, 5].contains(&weekday(t))),
    ("0 0 * * fri-tue/2", |t| at(t, 0, 0) && [5, 0, 2].contains(&weekday(t))),
    ("0 0 * * mon,wed,5", |t| at(t, 0, 0) && [1, 3, 5].contains(&weekday(t))),
    ("*/15 * * * *", |t| t.minute() % 15 == 0),
    ("*/7 1-3 * * *", |t| t.minute() % 7 == 0 && (1..=3).contains(&t.hour())),
    ("20/15 * * * *", |t| [20, 35, 50].contains(&t.minute())),
    ("5,10-12,40-50/5 2 * * *", |t| {
        t.hour() == 2 && [5, 10, 11, 12, 40, 45, 50].contains(&t.minute())
    }),
    ("0 */5 * * *", |t| t.minute() == 0 && t.hour() % 5 == 0),
    ("0 0 31 * *", |t| at(t, 0, 0) && t.day() == 31),
    ("0 0 29 2 *", |t| at(t, 0, 0) && (t.month(), t.day()) == (2, 29)),
    ("0 0 29-31 feb,apr *", |t| at(t, 0, 0) && [2, 4].contains(&t.month()) && t.day() >= 29),
    ("59 23 31 dec *", |t| at(t, 23, 59) && (t.month(), t.day()) == (12, 31)),
    ("0 3 13 * 5", |t| at(t, 3, 0) && (t.day() == 13 || weekday(t) == 5)),
    ("0 3 31 2 fri", |t| at(t, 3, 0) && t.month() == 2 && weekday(t) == 5),
    ("0 3 1,15 6-8 wed", |t| {
        at(t, 3, 0)
            && (6..=8).contains(&t.month())
            && ([1, 15].contains(&t.day()) || weekday(t) == 3)
    }),
    ("0 3 */2 * mon", |t| at(t, 3, 0) && t.day() % 2 == 1 && weekday(t) == 1),
    ("0 3 1-7 * */3", |t| at(t, 3, 0) && t.day() <= 7 && weekday(t).is_multiple_of(3)),
    ("@yearly", |t| at(t, 0, 0) && (t.month(), t.day()) == (1, 1)),
    ("@monthly", |t| at(t, 0, 0) && t.day() == 1),
    ("@weekly", |t| at(t, 0, 0) && weekday(t) == 0),
    ("@Daily", |t| at(t, 0, 0)),
    ("@hourly", |t| t.minute() == 0),
];

/// Goes minute by minute through a stretch of time and asks the rule about every local minute that has
/// come by since the last one: one that was skipped counts when the clock has passed it, one that comes
/// again does not.
#[track_caller]
fn check_zone(name: &str, from: &str, days: i64) {
    let zone: Tz = name.parse().unwrap();
    let (start, end) = (utc(from), utc(from) + Duration::days(days));
    let mut expected: Vec<Vec<DateTime<Utc>>> = vec![Vec::new(); RULES.len()];
    let mut high = zone.from_utc_datetime(&start.naive_utc()).naive_local();
    let mut now = start;
    while now < end {
        now += Duration::minutes(1);
        let local = zone.from_utc_datetime(&now.naive_utc()).naive_local();
        while high < local {
            high += Duration::minutes(1);
            for ((_, rule), fired) in RULES.iter().zip(&mut expected) {
                if rule(high) && fired.last() != Some(&now) {
                    fired.push(now);
                }
            }
        }
    }
    for ((line, _), expected) in RULES.iter().zip(expected) {
        let crontab = crontab(line, name);
        let mut fired = Vec::new();
        let mut names = std::collections::BTreeSet::new();
        let mut at = start;
        while let Some((next, moment)) = crontab.next_after(at).filter(|(next, _)| *next <= end) {
            assert!(next > at, "{line} in {name} stands still at {at}");
            assert!(names.insert(moment.clone()), "{line} in {name} has {moment} twice");
            // Asked from anywhere in between, the answer is the same.
            assert_eq!(crontab.next_after(next - Duration::milliseconds(1)).unwrap().0, next);
            fired.push(next);
            at = next;
        }
        let differs = expected.iter().zip(&fired).find(|(expected, fired)| expected != fired);
        assert_eq!(differs, None, "{line} in {name}");
        assert_eq!(expected.len(), fired.len(), "{line} in {name}");
    }
}

#[test]
fn lines_in_utc_name_the_minutes_that_they_say() {
    check_zone("UTC", "2027-12-28 00:00", 8);
    check_zone("UTC", "2028-02-20 00:00", 14);
    check_zone("UTC", "2028-05-28 00:00", 8);
}

#[test]
fn berlin_skips_an_hour_in_march_and_repeats_one_in_october() {
    check_zone("Europe/Berlin", "2026-03-22 00:00", 14);
    check_zone("Europe/Berlin", "2026-10-18 00:00", 14);
}

#[test]
fn new_york_and_a_zone_of_the_south_do_so_at_other_times() {
    check_zone("America/New_York", "2026-03-04 00:00", 8);
    check_zone("America/New_York", "2026-10-28 00:00", 8);
    check_zone("America/Santiago", "2026-04-01 00:00", 8);
    check_zone("America/Santiago", "2026-09-02 00:00", 8);
}

#[test]
fn half_hours_and_odd_offsets_are_no_different() {
    check_zone("Australia/Lord_Howe", "2026-04-01 00:00", 8);
    check_zone("Australia/Lord_Howe", "2026-10-01 00:00", 8);
    check_zone("Asia/Kathmandu", "2026-01-01 00:00", 10);
    check_zone("Africa/Casablanca", "2026-02-12 00:00", 8);
}

#[test]
fn a_day_that_a_country_left_out_fires_when_the_next_begins() {
    check_zone("Pacific/Apia", "2011-12-25 00:00", 10);
}

#[test]
fn a_skipped_time_fires_when_the_gap_ends_and_a_doubled_one_the_first_time() {
    let line = crontab("30 2 * * *", "Europe/Berlin");
    let next = |after| line.next_after(utc(after)).unwrap();
    let spring = next("2027-03-27 12:00");
    assert_eq!(spring, (utc("2027-03-28 01:00"), "2027-03-28T03:00 Europe/Berlin".to_owned()));
    assert_eq!(line.next_after(spring.0).unwrap().0, utc("2027-03-29 00:30"));
    let autumn = next("2026-10-24 12:00");
    assert_eq!(autumn, (utc("2026-10-25 00:30"), "2026-10-25T02:30 Europe/Berlin".to_owned()));
    assert_eq!(line.next_after(autumn.0).unwrap().0, utc("2026-10-26 01:30"));
}

#[test]
fn the_latest_moment_of_a_stretch_is_found_however_far_back() {
    let daily = crontab("0 2 * * *", "UTC");
    let latest =
        |line: &Crontab, since, until| line.latest(utc(since), utc(until)).map(|(at, _)| at);
    assert_eq!(
        latest(&daily, "2026-11-18 00:00", "2026-11-20 12:00"),
        Some(utc("2026-11-20 02:00"))
    );
    assert_eq!(
        latest(&daily, "2026-11-18 00:00", "2026-11-20 02:00"),
        Some(utc("2026-11-20 02:00"))
    );
    assert_eq!(
        latest(&daily, "2026-11-20 02:00", "2026-11-20 12:00"),
        None,
        "`since` is not in it"
    );
    assert_eq!(latest(&daily, "2026-11-20 03:00", "2026-11-20 12:00"), None);
    let yearly = crontab("@yearly", "UTC");
    assert_eq!(
        latest(&yearly, "2020-05-01 00:00", "2026-11-20 12:00"),
        Some(utc("2026-01-01 00:00"))
    );
    assert_eq!(
        latest(&yearly, "2026-11-20 12:00", "2026-11-20 11:00"),
        None,
        "the clock went back"
    );
}

#[test]
fn what_was_missed_is_due_once_and_nothing_when_the_clock_goes_back() {
    let daily = crontab("0 2 * * *", "Europe/Berlin");
    let due = |now: &str, last: Option<&str>| {
        daily.due(utc(now) - Duration::hours(24 * 7), utc(now), last).map(|(_, name)| name)
    };
    let tenth = "2026-11-10T02:00 Europe/Berlin";
    assert_eq!(due("2026-11-10 12:00", None).as_deref(), Some(tenth));
    assert_eq!(due("2026-11-10 12:00", Some(tenth)), None, "it has been");
    assert_eq!(due("2026-11-11 00:59", Some(tenth)), None);
    let thirteenth = "2026-11-13T02:00 Europe/Berlin";
    assert_eq!(
        due("2026-11-13 12:00", Some(tenth)).as_deref(),
        Some(thirteenth),
        "not for each night"
    );
    assert_eq!(
        due("2026-11-10 00:30", Some(tenth)),
        None,
        "the clock went back an hour and a half"
    );
    let wrong = "2031-01-01T02:00 Europe/Berlin";
    assert_eq!(
        due("2026-11-13 12:00", Some(wrong)).as_deref(),
        Some(thirteenth),
        "it was wrong then"
    );
    assert_eq!(due("2026-11-13 12:00", Some("2026-11-13T12:00 UTC")).as_deref(), Some(thirteenth));
    assert_eq!(due("2026-11-13 12:00", Some("nonsense")).as_deref(), Some(thirteenth));
    let bounded = daily.due(utc("2026-11-13 10:00"), utc("2026-11-13 12:00"), None);
    assert_eq!(bounded, None, "too long ago");
}

#[test]
fn lines_far_ahead_come_to_an_end() {
    let leap = crontab("0 0 29 2 *", "UTC");
    assert_eq!(
        leap.next_after(utc("2096-03-01 00:00")).map(|(at, _)| at),
        None,
        "2100 has no such day"
    );
    assert_eq!(leap.next_after(DateTime::<Utc>::MAX_UTC), None);
    assert!(leap.next_after(DateTime::<Utc>::MIN_UTC).is_some());
}

/// What is said about each line, one after the other.
#[track_caller]
fn check_errors(lines: &[&str], expected: &Expect) {
    let said = lines.iter().map(|line| match Crontab::parse(line, None) {
        Ok(_) => format!("`{line}` is understood\n"),
        Err(failure) => format!("{}\n", failure.to_string().replace("\n\nhint", "\n  hint")),
    });
    expected.assert_eq(&said.collect::<String>());
}

#[test]
fn wrong_values_are_named_with_their_field_and_what_is_allowed() {
    let lines = [
        "61 2 * * *",
        "0 24 * * *",
        "0 2 0 * *",
        "0 2 * 13 *",
        "0 2 * * 8",
        "0 2 * * mo",
        "0 2 * foo *",
        "0 2 ? * mon",
        "0 2 L * *",
        "0 2 * * 5#3",
        "0,,5 2 * * *",
        "-5 2 * * *",
        "1-5-7 2 * * *",
        "+5 2 * * *",
        "*/0 2 * * *",
        "*/90 * * * *",
        "0 22-6 * * *",
        "99999999999999999999 2 * * *",
    ];
    check_errors(
        &lines,
        &expect![[r#"
        error: in the cron line `61 2 * * *`: `61` is no minute; it is 0 to 59
        error: in the cron line `0 24 * * *`: `24` is no hour; it is 0 to 23
        error: in the cron line `0 2 0 * *`: `0` is no day of the month; it is 1 to 31
        error: in the cron line `0 2 * 13 *`: `13` is no month; it is 1 to 12, or `jan` to `dec`
        error: in the cron line `0 2 * * 8`: `8` is no day of the week; it is 0 to 7 (0 and 7 are Sunday), or `mon` to `sun`
        error: in the cron line `0 2 * * mo`: `mo` is no day of the week; it is 0 to 7 (0 and 7 are Sunday), or `mon` to `sun`
        error: in the cron line `0 2 * foo *`: `foo` is no month; it is 1 to 12, or `jan` to `dec`
        error: in the cron line `0 2 ? * mon`: `?` is no day of the month; it is 1 to 31
          hint: write `*`
        error: in the cron line `0 2 L * *`: `L` is no day of the month; it is 1 to 31
        error: in the cron line `0 2 * * 5#3`: `5#3` is no day of the week; it is 0 to 7 (0 and 7 are Sunday), or `mon` to `sun`
          hint: `L`, `W` and `#` are of another cron; list the days
        error: in the cron line `0,,5 2 * * *`: the minute `0,,5` misses a value; it is 0 to 59
        error: in the cron line `-5 2 * * *`: the minute `-5` misses a value; it is 0 to 59
        error: in the cron line `1-5-7 2 * * *`: `5-7` (in `1-5-7`) is no minute; it is 0 to 59
        error: in the cron line `+5 2 * * *`: `+5` is no minute; it is 0 to 59
        error: in the cron line `*/0 2 * * *`: the minute `*/0` has the step `0`
          hint: a step of this field is 1 to 60
        error: in the cron line `*/90 * * * *`: the minute `*/90` has the step `90`
          hint: a step of this field is 1 to 60
        error: in the cron line `0 22-6 * * *`: the hour `22-6` runs backwards
          hint: write `22-23,0-6` when it goes over the end
        error: in the cron line `99999999999999999999 2 * * *`: `99999999999999999999` is no minute; it is 0 to 59
    "#]],
    );
}

#[test]
fn dates_that_never_come_are_errors() {
    check_errors(
        &["30 2 31 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 2 */2"],
        &expect![[r#"
        error: the cron line `30 2 31 2 *` never comes: no month that it names has such a day
          hint: `1-28` is in every month; `31 * *` comes in those that have it
        error: the cron line `0 0 31 4,6,9,11 *` never comes: no month that it names has such a day
          hint: `1-28` is in every month; `31 * *` comes in those that have it
        error: the cron line `0 0 30-31 2 */2` never comes: no month that it names has such a day
          hint: `1-28` is in every month; `30-31 * *` comes in those that have it
    "#]],
    );
}

#[test]
fn lines_of_other_crons_are_errors_that_say_what_to_write() {
    let lines = [
        "0 0 2 * * 1",
        "0 30 2 ? * MON-FRI",
        "0 2 * * 1 2026",
        "0 0 2 * * 1 2026",
        "0 2 * * * /usr/bin/run --all now",
        "0 2",
        "daily",
        "",
        "@reboot",
        "@every 5m",
        "CRON_TZ=Europe/Berlin 0 2 * * *",
        &"1,".repeat(100_000),
        "0 2 * * \u{202e}evil\u{1b}[2J",
    ];
    check_errors(
        &lines,
        &expect![[r#"
        error: the cron line `0 0 2 * * 1` has 6 fields; it has five: minute, hour, day of the month, month, day of the week
          hint: write `0 2 * * 1` (there are no seconds, years or commands)
        error: the cron line `0 30 2 ? * MON-FRI` has 6 fields; it has five: minute, hour, day of the month, month, day of the week
          hint: write `30 2 * * MON-FRI` (there are no seconds, years or commands)
        error: the cron line `0 2 * * 1 2026` has 6 fields; it has five: minute, hour, day of the month, month, day of the week
          hint: write `0 2 * * 1` (there are no seconds, years or commands)
        error: the cron line `0 0 2 * * 1 2026` has 7 fields; it has five: minute, hour, day of the month, month, day of the week
          hint: write `0 2 * * 1` (there are no seconds, years or commands)
        error: the cron line `0 2 * * * /usr/bin/run --all now` has 8 fields; it has five: minute, hour, day of the month, month, day of the week
          hint: write `0 2 * * *` (there are no seconds, years or commands)
        error: the cron line `0 2` has 2 fields; it has five: minute, hour, day of the month, month, day of the week
          hint: write `0 2 * * *`
        error: the cron line `daily` has 1 field; it has five: minute, hour, day of the month, month, day of the week
          hint: write five fields, such as `0 2 * * mon-fri`
        error: the cron line `` has 0 fields; it has five: minute, hour, day of the month, month, day of the week
          hint: write five fields, such as `0 2 * * mon-fri`
        error: `@reboot` is no cron line
          hint: write five fields, such as `0 2 * * mon-fri`, or one of `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`, `@midnight`, `@hourly`
        error: `@every 5m` is no cron line
          hint: write five fields, such as `0 2 * * mon-fri`, or one of `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`, `@midnight`, `@hourly`
        error: the cron line `CRON_TZ=Europe/Berlin 0 2 * * *` names a time zone
          hint: give the zone as `timezone: Europe/Berlin`, and the times alone as `cron`
        error: the cron line `1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1…` is too long
          hint: a line has at most 500 bytes
        error: in the cron line `0 2 * * \u{202e}evil`: `\u{202e}evil` is no day of the week; it is 0 to 7 (0 and 7 are Sunday), or `mon` to `sun`
    "#]],
    );
}

#[test]
fn zones_are_names_of_the_iana_database() {
    let zones = ["europe/berlin", "Berlin", "New York", "+02:00", ""];
    let said = zones.map(|zone| match Crontab::parse("0 2 * * *", Some(zone)) {
        Ok(_) => format!("`{zone}` is understood\n"),
        Err(failure) => format!("{}\n", failure.to_string().replace("\n\nhint", "\n  hint")),
    });
    expect![[r#"
        error: `europe/berlin` is no time zone
          hint: write `Europe/Berlin`
        error: `Berlin` is no time zone
          hint: write `Europe/Berlin`
        error: `New York` is no time zone
          hint: write `America/New_York`
        error: `+02:00` is no time zone
          hint: write a name of the IANA database, such as `Europe/Berlin`, or `UTC`
        error: `` is no time zone
          hint: write a name of the IANA database, such as `Europe/Berlin`, or `UTC`
    "#]]
    .assert_eq(&said.concat());
    assert_eq!(crontab("0 2 * * *", " Europe/Berlin ").zone(), "Europe/Berlin");
}

proptest::proptest! {
    #[test]
    fn no_line_makes_it_panic(line in "[0-9a-z*/,@?#\\- ]{0,40}", zone in "[A-Za-z/_]{0,12}") {
        let _ = Crontab::parse(&line, Some(&zone));
        if let Ok(crontab) = Crontab::parse(&line, None) {
            let now = utc("2026-11-20 12:00");
            let next = crontab.next_after(now);
            proptest::prop_assert!(next.is_none_or(|(next, _)| next > now));
        }
    }
}
