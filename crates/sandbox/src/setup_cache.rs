//! How long what setup left is kept: what many runs start from for as long as there is room, what one run started from
//! until nobody resumes it any more.

use std::time::Duration;

/// Results for many runs that are kept whatever their age and size.
const KEPT: usize = 20;
/// Age after which the others are removed.
const MAX_AGE: Duration = Duration::from_hours(30 * 24);
/// Age after which the result for one run is removed. A run that is resumed later does its setup again.
const MAX_AGE_OF_ONE_RUN: Duration = Duration::from_hours(3 * 24);
/// What all results for many runs may hold together, in bytes.
const MAX_BYTES: u64 = 40 << 30;

/// What one setup left.
#[derive(Clone, Debug)]
pub(crate) struct SetupResult {
    /// The image, or the name of the folder.
    pub id: String,
    /// When it was made, or used last where that is known, in seconds on the scale of [`surplus`]'s `now`.
    pub at: i64,
    /// Bytes that it takes, as far as that is known.
    pub bytes: u64,
    /// No other run starts from it.
    pub is_for_one_run: bool,
}

/// The results that are not to be kept, by [`SetupResult::id`].
pub(crate) fn surplus(mut results: Vec<SetupResult>, now: i64) -> Vec<String> {
    results.sort_by_key(|result| std::cmp::Reverse(result.at));
    let is_older = |result: &SetupResult, age: Duration| {
        now.saturating_sub(result.at) > i64::try_from(age.as_secs()).unwrap_or(i64::MAX)
    };
    let (for_one_run, shared): (Vec<_>, Vec<_>) =
        results.into_iter().partition(|result| result.is_for_one_run);
    let mut held: u64 = 0;
    let beyond = shared.into_iter().enumerate().filter(|(newer, result)| {
        held = held.saturating_add(result.bytes);
        *newer >= KEPT && (held > MAX_BYTES || is_older(result, MAX_AGE))
    });
    let beyond = beyond.map(|(_, result)| result.id);
    let over = for_one_run.into_iter().filter(|result| is_older(result, MAX_AGE_OF_ONE_RUN));
    beyond.chain(over.map(|result| result.id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;

    /// A result for many runs that is as many days old, with so many GiB of its own.
    fn shared(days: i64, gib: u64) -> SetupResult {
        let id = format!("shared-{days}");
        SetupResult { id, at: -days * DAY, bytes: gib << 30, is_for_one_run: false }
    }

    fn of_one_run(days: i64) -> SetupResult {
        SetupResult { id: format!("run-{days}"), is_for_one_run: true, ..shared(days, 50) }
    }

    #[test]
    fn the_newest_are_kept_whatever_they_hold_and_others_while_they_are_young_and_have_room() {
        let old: Vec<SetupResult> = (100..125).map(|days| shared(days, 9)).collect();
        let names = |days: std::ops::Range<i64>| days.map(|it| format!("shared-{it}"));
        assert_eq!(surplus(old, 0), names(120..125).collect::<Vec<_>>());
        // Twenty of 2 GiB are all that there is room for.
        let young: Vec<SetupResult> = (0..29).rev().map(|days| shared(days, 2)).collect();
        assert_eq!(surplus(young, 0), names(20..29).collect::<Vec<_>>());
        let small: Vec<SetupResult> = (0..29).map(|days| shared(days, 1)).collect();
        assert_eq!(surplus(small, 0), Vec::<String>::new());
    }

    #[test]
    fn what_one_run_has_left_goes_after_days_and_takes_no_room_of_others() {
        let mut results = vec![of_one_run(1), of_one_run(2), of_one_run(4)];
        results.extend((0..25).map(|days| shared(days, 1)));
        assert_eq!(surplus(results, 0), ["run-4"]);
    }
}
