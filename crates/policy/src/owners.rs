//! The owners of changed files, as a `CODEOWNERS` file has them.
//!
//! After GitHub's description: the last line that matches a file decides, a line without owners takes a file's
//! owners away, a line with a mistake is skipped, and of the forms of `.gitignore` it has neither `!` nor `[ ]`
//! nor `\#`. A file of more than 3 MB does not count.

use globset::{GlobBuilder, GlobMatcher};

/// Where the file may be; the first that is there counts.
pub const PLACES: [&str; 3] = [".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"];
/// Bytes of the largest file that GitHub reads.
pub const LARGEST: usize = 3 << 20;

/// Rules of which the last that matches decides.
pub struct Owners {
    rules: Vec<(Vec<GlobMatcher>, Vec<String>)>,
}

impl Owners {
    pub fn parse(text: &str) -> Owners {
        if text.len() > LARGEST {
            return Owners { rules: Vec::new() };
        }
        Owners { rules: text.lines().filter_map(rule).collect() }
    }

    /// Who owns a file: logins and `organisation/team`, without `@`. Addresses are left out, because nobody can
    /// be asked for a review by one.
    fn of(&self, path: &str) -> &[String] {
        let matches =
            |(globs, _): &&(Vec<GlobMatcher>, _)| globs.iter().any(|glob| glob.is_match(path));
        self.rules.iter().rev().find(matches).map_or(&[], |(_, owners)| owners)
    }

    /// The owners of all these files, those of most files first, and each once.
    pub fn of_all<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let mut counted: Vec<(String, usize)> = Vec::new();
        for path in paths {
            for owner in self.of(path) {
                match counted.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(owner)) {
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
fn rule(line: &str) -> Option<(Vec<GlobMatcher>, Vec<String>)> {
    let mut words = words(line);
    if words.is_empty() {
        return None;
    }
    let pattern = words.remove(0);
    let mut owners = Vec::new();
    for word in words {
        match word.strip_prefix('@') {
            Some(name) if is_name(name) => owners.push(name.to_owned()),
            // An address is an owner, too, though not one who can be asked.
            None if word.contains('@') => {}
            _ => return None,
        }
    }
    Some((globs(&pattern)?, owners))
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
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !part.is_empty() && part.len() <= 100 && part.chars().all(is_plain)
    };
    match name.split_once('/') {
        Some((organisation, team)) => plain(organisation) && plain(team),
        None => plain(name),
    }
}

fn globs(pattern: &str) -> Option<Vec<GlobMatcher>> {
    if pattern.contains(['!', '[', ']', '\\']) {
        return None;
    }
    let is_folder = pattern.ends_with('/');
    let bare = pattern.trim_end_matches('/');
    // A slash at the beginning or within binds the pattern to the root.
    let is_rooted = bare.contains('/');
    let bare = bare.trim_start_matches('/');
    if bare.is_empty() {
        return None;
    }
    let escaped = bare.replace('{', "[{]").replace('}', "[}]");
    let place = if is_rooted { escaped } else { format!("**/{escaped}") };
    let inside = format!("{place}/**");
    // `docs/*` are the files of a folder and not those below; a name may be a file's or a folder's.
    let wanted = match (is_folder, place.ends_with("/*") && is_rooted) {
        (true, _) => vec![inside],
        (false, true) => vec![place],
        (false, false) => vec![place, inside],
    };
    let matcher = |glob: String| {
        let built = GlobBuilder::new(&glob).literal_separator(true).build();
        built.ok().map(|glob| glob.compile_matcher())
    };
    wanted.into_iter().map(matcher).collect()
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
        assert!(Owners::parse(&format!("* @a{}", " ".repeat(super::LARGEST))).of("x").is_empty());
    }

    #[test]
    fn those_who_own_most_come_first() {
        let owners = Owners::parse("* @few\n/src/ @many @Few\n");
        assert_eq!(owners.of_all(["a", "src/b", "src/c"]), ["few", "many"]);
        assert_eq!(owners.of_all(["src/b", "src/c", "x"]), ["Few", "many"]);
    }
}
