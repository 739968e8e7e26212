//! The owners of changed files, as a `CODEOWNERS` file has them.
//!
//! After GitHub's description: the last line that matches a file decides, a line without owners takes a file's
//! owners away, a line with a mistake is skipped, and of the forms of `.gitignore` it has neither `!` nor `[ ]`
//! nor `\#`. A file of more than 3 MB does not count.

use std::collections::HashMap;

use self::pattern::Pattern;

mod pattern;

/// Where the file may be; the first that is there counts.
pub const PLACES: [&str; 3] = [".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"];
/// Bytes of the largest file that GitHub reads.
pub const LARGEST: usize = 3 << 20;
/// Rules of a file that counts. Some of the largest that people keep have twenty thousand.
const MOST_RULES: usize = 100_000;
/// Owners of one rule.
const MOST_OWNERS: usize = 100;
/// Files and rules that are compared: with many rules only the first files of a change are looked at.
const MOST_COMPARED: usize = 20_000_000;

/// Rules of which the last that matches decides.
pub struct Owners {
    rules: Vec<(Pattern, Vec<String>)>,
}

impl Owners {
    /// Reads a file. One with more bytes than GitHub reads, or with more than a hundred thousand rules, has none.
    pub fn parse(text: &str) -> Owners {
        if text.len() > LARGEST {
            return Owners { rules: Vec::new() };
        }
        let rules: Vec<_> = text.lines().filter_map(rule).take(MOST_RULES + 1).collect();
        Owners { rules: if rules.len() > MOST_RULES { Vec::new() } else { rules } }
    }

    /// Who owns a file: logins and `organisation/team`, without `@`. Addresses are left out, because nobody can
    /// be asked for a review by one.
    fn of(&self, path: &str) -> &[String] {
        let parts: Vec<&str> = path.split('/').collect();
        let matches = |(pattern, _): &&(Pattern, Vec<String>)| pattern.matches(&parts);
        self.rules.iter().rev().find(matches).map_or(&[], |(_, owners)| owners)
    }

    /// The owners of all these files, those of most files first, and each once.
    pub fn of_all<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let most = MOST_COMPARED / self.rules.len().max(1);
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut counted: Vec<(String, usize)> = Vec::new();
        for path in paths.into_iter().take(most) {
            for owner in self.of(path) {
                let place = *places.entry(owner.to_ascii_lowercase()).or_insert(counted.len());
                match counted.get_mut(place) {
                    Some((_, count)) => *count += 1,
                    None => counted.push((owner.clone(), 1)),
                }
            }
        }
        counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counted.into_iter().map(|(owner, _)| owner).collect()
    }
}

/// `None` for an empty line, a comment, and a line with a mistake.
fn rule(line: &str) -> Option<(Pattern, Vec<String>)> {
    let mut words = words(line);
    if words.is_empty() {
        return None;
    }
    let pattern = words.remove(0);
    let mut owners = Vec::new();
    for word in words {
        match word.strip_prefix('@') {
            Some(name) if is_name(name) && owners.len() < MOST_OWNERS => {
                owners.push(name.to_owned());
            }
            Some(name) if is_name(name) => {}
            // An address is an owner, too, though not one who can be asked.
            None if word.contains('@') => {}
            _ => return None,
        }
    }
    Some((Pattern::parse(&pattern)?, owners))
}

/// The words of a line, with `\ ` for a space within one, up to a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&' ') => word.extend(chars.next()),
            '#' if word.is_empty() => break,
            c if c.is_whitespace() => words.extend(Some(std::mem::take(&mut word))),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn is_name(name: &str) -> bool {
    let plain = |part: &str| {
        // GitHub's names have no dots, which would lead elsewhere in an address.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        !part.is_empty() && part.len() <= 100 && part.chars().all(is_plain)
    };
    match name.split_once('/') {
        Some((organisation, team)) => plain(organisation) && plain(team),
        None => plain(name),
    }
}

#[cfg(test)]
mod tests {
    use super::Owners;

    /// The examples of GitHub's documentation, in other words.
    const FILE: &str = "\
# who owns what
*       @global-1 @global-2
*.js    @js-owner #inline comment
*.go docs@example.com
*.txt @octo-org/octocats
/build/logs/ @doctocat
docs/*  @docs-owner
apps/ @octocat
/docs/ @doctocat
/scripts/ @doctocat @octocat
**/logs @logs-owner
/apps/github
/apps/hidden\\ name/ @spaces
!/apps/not @nobody
[ab].rs @nobody
broken.rs @ok not-an-owner
";

    #[test]
    fn the_last_line_that_matches_decides() {
        let owners = Owners::parse(FILE);
        for (path, wanted) in [
            ("README", "global-1 global-2"),
            ("deep/in/a.js", "js-owner"),
            ("main.go", ""),
            ("a/b.txt", "octo-org/octocats"),
            ("build/logs/x/y.js", "logs-owner"),
            ("x/build/logs/y", "logs-owner"),
            ("apps/a/b", "octocat"),
            ("x/apps/b", "octocat"),
            ("docs/a/b", "doctocat"),
            ("scripts/x", "doctocat octocat"),
            ("apps/github/x.txt", ""),
            ("apps/hidden name/x", "spaces"),
            ("apps/not", "octocat"),
            ("a.rs", "global-1 global-2"),
            ("broken.rs", "global-1 global-2"),
            ("README.JS", "global-1 global-2"),
        ] {
            assert_eq!(owners.of(path).join(" "), wanted, "{path}");
        }
        let files = Owners::parse("docs/* @docs\n");
        assert_eq!((files.of("docs/a").len(), files.of("docs/a/b").len()), (1, 0));
        assert!(Owners::parse("* @a/b/c").of("x").is_empty());
        assert!(Owners::parse("* @..\n").of("x").is_empty());
        assert!(Owners::parse(&format!("* @a{}", " ".repeat(super::LARGEST))).of("x").is_empty());
    }

    #[test]
    fn those_who_own_most_come_first() {
        let owners = Owners::parse("* @few\n/src/ @many @Few\n");
        assert_eq!(owners.of_all(["a", "src/b", "src/c"]), ["few", "many"]);
        assert_eq!(owners.of_all(["src/b", "src/c", "x"]), ["Few", "many"]);
    }

    #[test]
    fn a_file_that_is_made_to_cost_costs_little() {
        // Half a million patterns, owners without end on one line, and one pattern of the whole file.
        let many = "a*b*c* @ann\n".repeat(super::LARGEST / 12);
        assert!(Owners::parse(&many).of_all(["aXbXc"]).is_empty());
        let most = "/x/**/y @ann\n".repeat(super::MOST_RULES);
        let paths: Vec<String> = (0..1_000).map(|n| format!("z/{n}")).collect();
        assert!(Owners::parse(&most).of_all(paths.iter().map(String::as_str)).is_empty());
        let owners: Vec<String> = (0..300_000).map(|n| format!("@u{n}")).collect();
        let owners = Owners::parse(&format!("* {}\n", owners.join(" ")));
        assert_eq!(owners.of_all(paths.iter().map(String::as_str)).len(), super::MOST_OWNERS);
        for one in ["*a", "**/", "?*", "a/"] {
            let long = format!("{}z @ann\n", one.repeat(super::LARGEST / 8));
            let path = "a/".repeat(1_000) + &"a".repeat(1_000);
            assert!(Owners::parse(&long).of_all([path.as_str()]).len() <= 1, "{one}");
        }
    }
}
