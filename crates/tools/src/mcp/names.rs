//! Names of foreign tools as models see them: `mcp__SERVER__TOOL`, at most 64 of `[A-Za-z0-9_-]`, which
//! all wires take. What is cut, and what would be called like another, gets a digest of its whole name,
//! so that a name depends on nothing but the tools that there are. Pure.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

/// Longest name.
const MAX_NAME: usize = 64;
/// Hexadecimal digits of a digest.
const DIGITS: usize = 10;

/// The name of each pair of server and tool. Two pairs never share one: where even the digests are
/// the same, only the first pair, in alphabetical order, gets a name.
pub fn assign<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<(&'a str, &'a str), String> {
    let pairs: BTreeSet<(&str, &str)> = pairs.into_iter().collect();
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for (server, tool) in &pairs {
        *count.entry(plain(server, tool).to_ascii_lowercase()).or_default() += 1;
    }
    let mut taken = BTreeSet::new();
    let mut names = BTreeMap::new();
    for (server, tool) in pairs {
        let plain = plain(server, tool);
        let is_alone = count.get(&plain.to_ascii_lowercase()) == Some(&1);
        let name = if plain.len() <= MAX_NAME && is_alone {
            plain
        } else {
            with_digest(&plain, server, tool)
        };
        if taken.insert(name.to_ascii_lowercase()) {
            names.insert((server, tool), name);
        }
    }
    names
}

fn plain(server: &str, tool: &str) -> String {
    format!("mcp__{}__{}", safe(server), safe(tool))
}

/// The text with `_` for what no name may have. Never empty.
fn safe(text: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let safe: String = text.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
    if safe.is_empty() { "_".to_owned() } else { safe }
}

fn with_digest(plain: &str, server: &str, tool: &str) -> String {
    let digest = Sha256::new().chain_update(server).chain_update([0]).chain_update(tool).finalize();
    let head: String = plain.chars().take(MAX_NAME - DIGITS - 1).collect();
    format!("{head}_{}", hex::encode(&digest[..DIGITS / 2]))
}

#[cfg(test)]
mod tests {
    use crate::mcp::names::assign;

    #[test]
    fn names_are_safe_short_and_do_not_depend_on_the_order() {
        let long = "x".repeat(100);
        let pairs = [
            ("git", "git_status"),
            ("git", "a.b"),
            ("git", "a b"),
            ("git", "a_b"),
            ("git", "Echo"),
            ("git", "echo"),
            ("größe", ""),
            ("git", long.as_str()),
        ];
        let names = assign(pairs);
        assert_eq!(names, assign(pairs.into_iter().rev()));
        assert_eq!(names[&("git", "git_status")], "mcp__git__git_status");
        assert_eq!(names[&("größe", "")], "mcp__gr__e___");
        for (server, tool) in [("git", "a.b"), ("git", "a b"), ("git", "a_b"), ("git", "echo")] {
            let name = &names[&(server, tool)];
            assert!(name.len() > format!("mcp__{server}__{tool}").len(), "{name}");
        }
        let mut all: Vec<&String> = names.values().collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), pairs.len());
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        assert!(all.iter().all(|name| name.len() <= 64 && name.chars().all(is_allowed)));
        assert_eq!(names[&("git", long.as_str())].len(), 64);
    }

    #[test]
    fn a_name_with_its_digest_belongs_to_one_tool() {
        let cut = assign([("s", "a.b"), ("s", "a_b")])[&("s", "a.b")].clone();
        let forged = cut.strip_prefix("mcp__s__").unwrap().to_owned();
        let names = assign([("s", "a.b"), ("s", "a_b"), ("s", forged.as_str())]);
        assert_eq!(names.values().filter(|name| **name == cut).count(), 1);
        assert_eq!(names.len(), 2);
    }
}
