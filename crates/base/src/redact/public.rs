//! The publicly known parts of secrets: their prefixes and the armour around them.

/// Beginnings that everybody knows; they alone are no leak. Longest first.
const PUBLIC_PREFIXES: &[&str] = &[
    "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiIsIng1dCI6I",
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.",
    "https://hooks.slack.com/services/",
    "bedrock-api-key-",
    "sk-ant-admin01-",
    "sk-ant-oat01-",
    "sk-ant-api03-",
    "github_pat_11",
    "github_pat_",
    "sk-svcacct-",
    "sk-or-v1-",
    "sk-proj-",
    "sk-ant-",
];

/// The private part of a key file: armour lines (`-----BEGIN …`) are public.
pub(super) fn without_armour(value: &str) -> String {
    if !value.contains("-----BEGIN ") {
        return value.to_owned();
    }
    let body: Vec<&str> = value.lines().filter(|line| !line.starts_with("-----")).collect();
    body.join("\n")
}

/// How many bytes of a secret are known to everybody.
pub(super) fn public_prefix(value: &str) -> usize {
    PUBLIC_PREFIXES.iter().find(|prefix| value.starts_with(**prefix)).map_or(0, |p| p.len())
}
