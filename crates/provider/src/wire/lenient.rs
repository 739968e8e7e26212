//! Fields that a reply can do without, read from servers that imitate an API: a wrong type there is no reason to
//! lose a reply that was paid for. It counts as absent, except where the value is clear all the same.
//!
//! For `deserialize_with`, together with `serde(default)`.

use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A number of tokens, or an index: also as a float, or in a text. A negative one is `None`.
pub(super) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_any(Scalar).map(Seen::count)
}

/// A text, or a number as one.
pub(crate) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    from.deserialize_any(Scalar).map(Seen::text)
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
        Value::Number(number) => number.as_u64().or_else(|| Seen::Float(number.as_f64()?).count()),
        Value::String(text) => Seen::Text(text.clone()).count(),
        _ => None,
    }
}

enum Seen {
    Other,
    Count(u64),
    Negative(i64),
    Float(f64),
    Text(String),
}

impl Seen {
    fn count(self) -> Option<u64> {
        match self {
            Seen::Count(count) => Some(count),
            Seen::Float(number) => whole(number),
            Seen::Text(text) => {
                let text = text.trim();
                text.parse().ok().or_else(|| whole(text.parse().ok()?))
            }
            Seen::Negative(_) | Seen::Other => None,
        }
    }

    fn text(self) -> Option<String> {
        match self {
            Seen::Text(text) => Some(text),
            Seen::Count(number) => Some(number.to_string()),
            Seen::Negative(number) => Some(number.to_string()),
            Seen::Float(number) => Some(number.to_string()),
            Seen::Other => None,
        }
    }
}

/// No token is counted beyond what a float holds exactly.
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in bounds")]
    (0.0..=EXACT).contains(&number).then_some(number as u64)
}

struct Scalar;

impl<'de> Visitor<'de> for Scalar {
    type Value = Seen;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Seen, E> {
        Ok(Seen::Other)
    }

    fn visit_u64<E>(self, count: u64) -> Result<Seen, E> {
        Ok(Seen::Count(count))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Seen, E> {
        Ok(u64::try_from(number).map_or(Seen::Negative(number), Seen::Count))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Seen, E> {
        Ok(Seen::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Seen, E> {
        Ok(Seen::Text(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Seen, E> {
        Ok(Seen::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Seen, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Seen::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Seen, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Seen::Other)
    }
}
