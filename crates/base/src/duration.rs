//! Durations as people write them.

use std::time::Duration;

/// Parses `90s`, `5m`, `1h` (and `1h30m`).
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let mistake = || format!("`{text}` is not a duration; write for example `90s`, `5m` or `1h`");
    let mut seconds: u64 = 0;
    let mut digits = String::new();
    let mut units = 0;
    for c in text.trim().chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            _ => return Err(mistake()),
        };
        let count: u64 = digits.parse().map_err(|_| mistake())?;
        seconds = count
            .checked_mul(unit)
            .and_then(|part| seconds.checked_add(part))
            .filter(|total| *total <= 31 * 86_400)
            .ok_or_else(|| format!("`{text}` is longer than 31 days"))?;
        digits.clear();
        units += 1;
    }
    if units == 0 || !digits.is_empty() {
        return Err(mistake());
    }
    Ok(Duration::from_secs(seconds))
}

/// A length of time for people, in its two largest units: `45 s`, `3 min 10 s`, `2 h 5 min`, `3 d 4 h`. What is
/// smaller is cut off, and a second unit of zero left out.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (large, rest) = match seconds {
        0..60 => return format!("{seconds} s"),
        60..3_600 => (format!("{} min", seconds / 60), (seconds % 60, "s")),
        3_600..86_400 => (format!("{} h", seconds / 3_600), (seconds / 60 % 60, "min")),
        _ => (format!("{} d", seconds / 86_400), (seconds / 3_600 % 24, "h")),
    };
    match rest {
        (0, _) => large,
        (small, unit) => format!("{large} {small} {unit}"),
    }
}

/// [`format_duration`] for what is often over within a second: below a minute it is `950 ms` or `3.4 s`.
pub fn format_milliseconds(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => format_duration(Duration::from_millis(ms)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{format_duration, format_milliseconds};

    #[test]
    fn people_read_the_two_largest_units() {
        for (seconds, wanted) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (61, "1 min 1 s"),
            (3_599, "59 min 59 s"),
            (3_600, "1 h"),
            (7_500, "2 h 5 min"),
            (86_399, "23 h 59 min"),
            (86_400, "1 d"),
            (273_600, "3 d 4 h"),
            (86_400 * 400 + 59, "400 d"),
        ] {
            assert_eq!(format_duration(Duration::from_secs(seconds)), wanted);
        }
        assert_eq!(format_duration(Duration::from_millis(1_999)), "1 s");
    }

    #[test]
    fn what_is_over_soon_has_parts_of_a_second() {
        for (ms, wanted) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (12_345, "12.3 s"),
            (59_999, "59.9 s"),
            (60_000, "1 min"),
            (7_503_000, "2 h 5 min"),
        ] {
            assert_eq!(format_milliseconds(ms), wanted);
        }
    }
}
