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
