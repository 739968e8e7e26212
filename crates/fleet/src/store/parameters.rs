//! The parameters of a database's address (`?sslmode=require`).

use super::{StoreError, StoreResult};

/// Those that the driver understands. It goes on without any other one, and so without TLS where `sslmode` is misspelt.
const PARAMETERS: [&str; 19] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
    OPTION,
];
/// A setting of the server: `options[search_path]=fleet`.
const OPTION: &str = "options[NAME]";

fn is_known(name: &str, _: &str) -> bool {
    let is_option = name.strip_prefix("options[").is_some_and(|rest| rest.ends_with(']'));
    is_option || (name != OPTION && PARAMETERS.contains(&name))
}

/// For people, without the other spellings of the same.
fn known() -> String {
    let names = PARAMETERS.iter().filter(|name| !name.starts_with("ssl-"));
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    format!("PostgreSQL's are {}", names.join(", "))
}

/// Refuses parameters of the address of a server that nobody would heed.
pub(super) fn check_server(query: &str) -> StoreResult<()> {
    check(query, is_known, &known())
}

/// Refuses parameters of the address of a file, but the one that says what is done anyway.
pub(super) fn check_file(query: &str) -> StoreResult<()> {
    let is_done = |name: &str, value: &str| (name, value) == ("mode", "rwc");
    check(query, is_done, "an SQLite file has none; a `?` in its name is written as `%3F`")
}

/// Values are not said: they may be passwords.
fn check(query: &str, is_known: impl Fn(&str, &str) -> bool, known: &str) -> StoreResult<()> {
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    match pairs.find(|(name, value)| !is_known(name, value)) {
        None => Ok(()),
        Some((name, _)) => Err(StoreError::Address(format!(
            "the parameter `{}` of the database's address is not known: {known}",
            patchwright_base::text::line(&name)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::store::open::DatabaseAddress;

    #[test]
    fn parameters_that_nobody_would_heed_are_refused_and_their_values_not_said() {
        for parameters in ["sslmode=require&options[search_path]=a", "host=%2Frun&user=a%40b", ""] {
            let address = format!("postgres://me:pw@db/fleet?{parameters}");
            assert!(DatabaseAddress::parse(&address).is_ok(), "{parameters}");
        }
        for parameters in ["sslmod=secret", "sslmode=require&SSLMODE=secret", "options[NAME=secret"]
        {
            let address = format!("postgres://me:pw@db/fleet?{parameters}");
            let said = DatabaseAddress::parse(&address).unwrap_err().to_string();
            assert!(said.contains("is not known: PostgreSQL's are `sslmode`, "), "{said}");
            assert!(!said.contains("secret") && !said.contains("pw"), "{said}");
        }
        assert!(DatabaseAddress::parse("sqlite:/a.db?mode=rwc").is_ok());
        for address in ["sqlite:/a.db?mode=ro", "sqlite://a?b.db"] {
            let said = DatabaseAddress::parse(address).unwrap_err().to_string();
            assert!(said.contains("`%3F`"), "{said}");
        }
    }
}
