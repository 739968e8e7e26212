//! What titles and names of branches must be like, and what can be made of a title that is not.

use std::fmt;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

/// Bytes of the largest compiled expression.
const LARGEST: usize = 1 << 20;
/// The types of Conventional Commits that its checkers know without being told.
const TYPES: &[&str] =
    &["fix", "feat", "chore", "build", "ci", "docs", "perf", "refactor", "revert", "style", "test"];

/// `conventional`, `prefix:TEXT` or `regex:PATTERN`.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// `type(scope)!: words`, after Conventional Commits 1.0.
    Conventional,
    Prefix(String),
    Regex(Box<Regex>),
}

static CONVENTIONAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let types = TYPES.join("|");
    Regex::new(&format!(r"^(?:{types})(?:\([^()\s][^()]*\))?!?: \S")).ok()
});

impl Pattern {
    /// # Errors
    /// With what is wrong, in words.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        match text.split_once(':') {
            None if text == "conventional" => Ok(Pattern::Conventional),
            Some(("prefix", prefix)) if !prefix.trim().is_empty() => {
                Ok(Pattern::Prefix(prefix.to_owned()))
            }
            Some(("regex", pattern)) if !pattern.is_empty() => RegexBuilder::new(pattern)
                .size_limit(LARGEST)
                .build()
                .map(|regex| Pattern::Regex(Box::new(regex)))
                .map_err(|err| format!("it is no regular expression: {}", one_line(&err))),
            _ => Err("it is none of `conventional`, `prefix:TEXT`, `regex:PATTERN`".to_owned()),
        }
    }

    /// Whether a text is like that.
    pub fn holds(&self, text: &str) -> bool {
        match self {
            Pattern::Conventional => {
                CONVENTIONAL.as_ref().is_some_and(|regex| regex.is_match(text))
            }
            // What follows the prefix is more than the prefix.
            Pattern::Prefix(prefix) => {
                text.strip_prefix(prefix.as_str()).is_some_and(|rest| !rest.trim().is_empty())
            }
            Pattern::Regex(regex) => regex.is_match(text),
        }
    }
}

fn one_line(err: &regex::Error) -> String {
    let text = err.to_string();
    text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned()
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Conventional => write!(
                f,
                "it follows Conventional Commits, such as `fix(parser): accept empty input`; the types are {}",
                TYPES.join(", ")
            ),
            Pattern::Prefix(prefix) => write!(f, "it begins with `{prefix}`"),
            Pattern::Regex(regex) => write!(f, "it matches the regular expression `{regex}`"),
        }
    }
}

/// Patterns that must all hold.
#[derive(Clone, Debug, Default)]
pub struct Patterns(Vec<Pattern>);

impl Patterns {
    /// What cannot be read was refused where it was set, and holds for nothing here.
    pub fn new(texts: &[String]) -> Patterns {
        let nothing = || Regex::new("[^\\s\\S]").map(|regex| Pattern::Regex(Box::new(regex)));
        let read = |text: &String| Pattern::parse(text).ok().or_else(|| nothing().ok());
        Patterns(texts.iter().filter_map(read).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first that does not hold.
    pub fn unmet(&self, text: &str) -> Option<&Pattern> {
        self.0.iter().find(|pattern| !pattern.holds(text))
    }

    pub fn hold(&self, text: &str) -> bool {
        self.unmet(text).is_none()
    }

    /// What they ask for, one a line.
    pub fn lines(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }

    /// A title for which all hold, made of one for which they may not: with the prefixes and with a type in front.
    /// `shorten` brings a title to the length that it may have.
    pub fn mend(&self, title: &str, shorten: &dyn Fn(&str) -> String) -> Option<String> {
        let prefixes = self.0.iter().filter_map(|pattern| match pattern {
            Pattern::Prefix(prefix) => Some(prefix.as_str()),
            Pattern::Conventional | Pattern::Regex(_) => None,
        });
        let mut prefixes: Vec<&str> = prefixes.collect();
        // The longest contains the others, where all can hold.
        prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
        prefixes.push("");
        let types = std::iter::once(String::new()).chain(TYPES.iter().map(|it| format!("{it}: ")));
        for kind in types {
            let words = if kind.is_empty() { title.to_owned() } else { in_lower_case(title) };
            for prefix in &prefixes {
                let needs_space = |c: char| c.is_alphanumeric() || "]):".contains(c);
                let space = if prefix.ends_with(needs_space) { " " } else { "" };
                let made = shorten(&format!("{prefix}{space}{kind}{words}"));
                if self.hold(&made) {
                    return Some(made);
                }
            }
        }
        None
    }
}

/// `Fix it` as `fix it`; `README` stays.
fn in_lower_case(title: &str) -> String {
    let mut chars = title.chars();
    let (first, second) = (chars.next(), chars.clone().next());
    match first {
        Some(first) if second.is_none_or(|c| !c.is_uppercase()) => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => title.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Pattern, Patterns};

    #[test]
    fn conventional_commits_are_told_from_others() {
        for (title, holds) in [
            ("fix: accept empty input", true),
            ("feat(parser)!: accept empty input", true),
            ("chore(deps/dev): bump", true),
            ("Fix: accept empty input", false),
            ("fix accept empty input", false),
            ("fix:accept", false),
            ("fix(): accept", false),
            ("fixed: accept", false),
            ("fix: ", false),
            ("fix(a)(b): c", false),
        ] {
            assert_eq!(Pattern::Conventional.holds(title), holds, "{title}");
        }
    }

    #[test]
    fn a_title_is_mended_where_that_can_be() {
        let made = |patterns: &[&str], title: &str| {
            let texts: Vec<String> = patterns.iter().map(|&it| it.to_owned()).collect();
            Patterns::new(&texts).mend(title, &|title| title.chars().take(40).collect())
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(made(&["conventional"], "Fix the typo"), some("fix: fix the typo"));
        assert_eq!(made(&["conventional"], "README is wrong"), some("fix: README is wrong"));
        assert_eq!(made(&["prefix:[web] "], "Fix it"), some("[web] Fix it"));
        assert_eq!(made(&["prefix:[web]"], "Fix it"), some("[web] Fix it"));
        assert_eq!(made(&["prefix:[web] ", "regex:^.{1,40}$"], &"a".repeat(60)).unwrap().len(), 40);
        assert_eq!(made(&["regex:^docs: "], "Fix it"), some("docs: fix it"));
        assert_eq!(made(&["regex:^APP-\\d+ "], "Fix it"), None);
        assert_eq!(made(&["regex:("], "Fix it"), None);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["", "Conventional", "prefix:", "prefix: ", "regex:", "regex:(", "glob:*"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }
}
