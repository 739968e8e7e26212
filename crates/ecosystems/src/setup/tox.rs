//! What `tox.ini` installs before it runs tests, without running tox.

use crate::files::quote;

/// Most lines that are read, requirements that are taken, and sections that name each other.
const MAX_LINES: usize = 2_000;
const MAX_WORDS: usize = 60;
const MAX_DEPTH: usize = 4;

/// The words for pip of `deps` in `[testenv]`, with those of the sections that it names: `{[base]deps}`. Lines that are for some
/// environments only are left out.
pub(super) fn dependencies(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    add(text, ("testenv", "deps"), MAX_DEPTH, &mut words);
    words
}

fn add(text: &str, (section, key): (&str, &str), depth: usize, words: &mut Vec<String>) {
    for line in lines(text, section, key) {
        let value = line.split(" #").next().unwrap_or_default().trim();
        if let Some(other) = reference(value) {
            if depth > 0 {
                add(text, other, depth - 1, words);
            }
            continue;
        }
        let is_conditional = value.contains(": ") || value.contains('{') || value.starts_with('#');
        if value.is_empty() || is_conditional || words.len() == MAX_WORDS {
            continue;
        }
        let word = match value.strip_prefix("-r") {
            Some(file) => format!("-r {}", quote(file.trim())),
            None if value.starts_with('-') => continue,
            None => quote(&value.replace(' ', "")),
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
}

/// The lines of a value.
fn lines<'a>(text: &'a str, section: &str, key: &str) -> Vec<&'a str> {
    let header = format!("[{section}]");
    let (mut in_section, mut in_value) = (false, false);
    let mut found = Vec::new();
    for line in text.lines().take(MAX_LINES) {
        if line.starts_with('[') {
            in_section = line.trim() == header;
            in_value = false;
            continue;
        }
        let value = match line.split_once('=') {
            Some((name, value)) if !line.starts_with([' ', '\t', '#']) => {
                in_value = in_section && name.trim() == key;
                value
            }
            _ => line,
        };
        if in_value {
            found.push(value);
        }
    }
    found
}

/// `{[base]deps}`
fn reference(value: &str) -> Option<(&str, &str)> {
    let (section, key) = value.strip_prefix("{[")?.strip_suffix('}')?.split_once(']')?;
    (!key.contains(['{', '}'])).then_some((section, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_of_the_tests_are_those_of_other_sections_too() {
        let text = "[tox]\nenvlist = py\n\n[base]\ndeps =\n    attrs >= 20  # why\n    {[more]deps}\n\n[more]\ndeps = six\n\n\
                    [testenv]\ndeps =\n    {[base]deps}\n    pytest >= 8\n    py39: old\n    -r tests.txt\n    -e .\ncommands = pytest\n\n\
                    [testenv:docs]\ndeps = sphinx\n";
        assert_eq!(dependencies(text), ["'attrs>=20'", "six", "'pytest>=8'", "-r tests.txt"]);
        // Sections that name each other come to an end.
        let round = "[testenv]\ndeps = {[a]deps}\n[a]\ndeps =\n  {[testenv]deps}\n  one\n";
        assert_eq!(dependencies(round), ["one"]);
    }
}
