//! What can be said of models by few instances, and how sure that is.

use statrs::distribution::{Binomial, DiscreteCDF};

/// The quantile of the normal distribution for an interval that is right in 95 of 100 cases.
const Z: f64 = 1.959_963_984_540_054;

/// A share, with the interval that it is in with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub share: f64,
    pub low: f64,
    pub high: f64,
}

/// The interval of Wilson (1927) for `successes` of `trials`, which, other than that of the normal distribution, is of use
/// for few trials and for shares near 0 and 1. `successes` may have a fraction, as means of attempts have.
pub fn wilson(successes: f64, trials: usize) -> Interval {
    if trials == 0 {
        return Interval { share: 0.0, low: 0.0, high: 1.0 };
    }
    let n = count(trials);
    let share = successes / n;
    let square = Z * Z;
    let middle = (share + square / (2.0 * n)) / (1.0 + square / n);
    let half = Z / (1.0 + square / n)
        * (share * (1.0 - share) / n + square / (4.0 * n * n)).max(0.0).sqrt();
    Interval { share, low: (middle - half).max(0.0), high: (middle + half).min(1.0) }
}

/// How likely two models that are equally good differ as much as this: the exact test of `McNemar`, two-sided, on the
/// instances that one of them resolved and the other did not.
pub fn mcnemar(only_first: usize, only_second: usize) -> f64 {
    let differing = (only_first + only_second) as u64;
    let Ok(coin) = Binomial::new(0.5, differing) else { return 1.0 };
    if differing == 0 {
        return 1.0;
    }
    let fewer = only_first.min(only_second) as u64;
    (2.0 * coin.cdf(fewer)).min(1.0)
}

/// The middle one; the mean of the two in the middle where the number is even. 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

/// `1 instance`, `2 instances`.
pub fn counted(number: usize, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{s}")
}

#[expect(clippy::cast_precision_loss, reason = "numbers of instances are far below 2^53")]
pub(crate) fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 5e-4
    }

    #[test]
    fn intervals_are_those_of_the_tables() {
        // Newcombe (1998), table I, method 3.
        for (successes, trials, low, high) in [
            (81.0, 263, 0.2553, 0.3662),
            (15.0, 148, 0.0624, 0.1605),
            (0.0, 20, 0.0000, 0.1611),
            (1.0, 29, 0.0061, 0.1718),
        ] {
            let interval = wilson(successes, trials);
            assert!(is_near(interval.low, low) && is_near(interval.high, high), "{interval:?}");
        }
        assert!(is_near(wilson(0.0, 0).high, 1.0));
    }

    #[test]
    fn a_difference_is_as_likely_as_so_many_heads_of_a_coin() {
        assert!(is_near(mcnemar(0, 0), 1.0));
        assert!(is_near(mcnemar(3, 3), 1.0));
        // 2 / 2^5 and 2 (1 + 10) / 2^10.
        assert!(is_near(mcnemar(5, 0), 0.0625));
        assert!(is_near(mcnemar(1, 9), 0.0215));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert!(is_near(median(&[]), 0.0));
        assert!(is_near(median(&[3.0, 1.0, 2.0]), 2.0));
        assert!(is_near(median(&[4.0, 1.0]), 2.5));
    }
}
