//! Fields that a reply can do without, read from servers that imitate an API: a wrong type there is no reason to
//! lose a reply that was paid for. It counts as absent, except where the value is clear all the same.
//!
//! For `deserialize_with`, together with `serde(default)`.

use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A number of tokens, or an index: also as a float, or in a text. A negative one is `None`.
pub(super) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_any(ScalarVisitor).map(ScalarValue::count)
}

/// A text, or a number as one.
pub(crate) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    from.deserialize_any(ScalarVisitor).map(ScalarValue::text)
}

/// A value of this type, or none.
pub(super) fn some<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let value: Value = serde::Deserialize::deserialize(from)?;
    Ok(if value.is_null() { None } else { serde_json::from_value(value).ok() })
}

/// [`count`] for a value that was read already.
pub(super) fn count_of(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => {
            number.as_u64().or_else(|| ScalarValue::Float(number.as_f64()?).count())
        }
        Value::String(text) => ScalarValue::Text(text.clone()).count(),
        _ => None,
    }
}

enum ScalarValue {
    Other,
    Count(u64),
    Negative(i64),
    Float(f64),
    Text(String),
}

impl ScalarValue {
    fn count(self) -> Option<u64> {
        match self {
            ScalarValue::Count(count) => Some(count),
            ScalarValue::Float(number) => whole(number),
            ScalarValue::Text(text) => {
                let text = text.trim();
                text.parse().ok().or_else(|| whole(text.parse().ok()?))
            }
            ScalarValue::Negative(_) | ScalarValue::Other => None,
        }
    }

    fn text(self) -> Option<String> {
        match self {
            ScalarValue::Text(text) => Some(text),
            ScalarValue::Count(number) => Some(number.to_string()),
            ScalarValue::Negative(number) => Some(number.to_string()),
            ScalarValue::Float(number) => Some(number.to_string()),
            ScalarValue::Other => None,
        }
    }
}

/// No token is counted beyond what a float holds exactly.
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in bounds")]
    (0.0..=EXACT).contains(&number).then_some(number as u64)
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = ScalarValue;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<ScalarValue, E> {
        Ok(ScalarValue::Other)
    }

    fn visit_u64<E>(self, count: u64) -> Result<ScalarValue, E> {
        Ok(ScalarValue::Count(count))
    }

    fn visit_i64<E>(self, number: i64) -> Result<ScalarValue, E> {
        Ok(u64::try_from(number).map_or(ScalarValue::Negative(number), ScalarValue::Count))
    }

    fn visit_f64<E>(self, number: f64) -> Result<ScalarValue, E> {
        Ok(ScalarValue::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<ScalarValue, E> {
        Ok(ScalarValue::Text(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<ScalarValue, E> {
        Ok(ScalarValue::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ScalarValue, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(ScalarValue::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<ScalarValue, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(ScalarValue::Other)
    }
}
