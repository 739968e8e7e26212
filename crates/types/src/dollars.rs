//! Amounts of money in JSON.

use serde::{Serialize, Serializer};

/// Billionths of a dollar: a token costs hundredths of a millionth at least.
const BILLIONTHS: f64 = 1e9;

/// `amount`, in US dollars, with nine decimals at most: a sum of floating-point numbers has up to seventeen digits, of which
/// the last ones mean nothing.
#[must_use]
pub fn round(amount: f64) -> f64 {
    let billionths = (amount * BILLIONTHS).round();
    // What is too large to be rounded, or not finite, stays what it is.
    if billionths.is_finite() { billionths / BILLIONTHS } else { amount }
}

/// [`round`] for `#[serde(serialize_with = …)]`.
///
/// # Errors
///
/// Those of the serializer.
pub fn rounded<S: Serializer>(amount: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    round(*amount).serialize(serializer)
}

/// [`rounded`], where there is an amount.
///
/// # Errors
///
/// Those of the serializer.
pub fn rounded_if_known<S: Serializer>(
    amount: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    amount.map(round).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::outcome::ModelUse;

    fn written(cost_usd: f64) -> serde_json::Value {
        serde_json::to_value(ModelUse { cost_usd, ..ModelUse::default() }).unwrap()["cost_usd"]
            .clone()
    }

    #[test]
    fn sums_are_written_without_the_digits_that_mean_nothing() {
        assert_eq!(written(0.1 + 0.2), json!(0.3));
        assert_eq!(written(0.003_010_000_000_000_000_5), json!(0.003_01));
        assert_eq!(written(0.000_000_05), json!(0.000_000_05));
        assert_eq!(written(0.0), json!(0.0));
        assert_eq!(written(f64::MAX), json!(f64::MAX));
    }
}
