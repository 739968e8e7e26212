//! A pattern of a `CODEOWNERS` file. Files may have a hundred thousand of them, written by whoever may write to the
//! repository, so a pattern is kept as its text and compared as it stands, in steps that its length bounds: compiled to
//! automata they would take gigabytes.

/// Which files a pattern means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// A file of this name, or what is in a folder of this name.
    Either,
    /// What is in a folder of this name.
    Inside,
    /// A file of this name only.
    File,
}

/// One pattern: the parts of a path, with `*` and `?` within a part and `**` for any number of parts.
#[derive(Debug)]
pub(super) struct Pattern {
    parts: Vec<String>,
    reach: Reach,
}

const ANY: &str = "**";

impl Pattern {
    /// `None` for one with forms that such files do not have.
    pub(super) fn parse(pattern: &str) -> Option<Pattern> {
        let pattern = &unescaped(pattern)?;
        let is_folder = pattern.ends_with('/');
        let bare = pattern.trim_end_matches('/');
        // A slash at the beginning or within binds the pattern to the root.
        let is_rooted = bare.contains('/');
        // `docs/*` are the files of a folder and not those below it, as `/*` are those of the root.
        let is_of_files = is_rooted && !is_folder && bare.ends_with("/*");
        let bare = bare.trim_start_matches('/');
        if bare.is_empty() {
            return None;
        }
        let mut parts: Vec<String> = Vec::new();
        if !is_rooted {
            parts.push(ANY.to_owned());
        }
        for part in bare.split('/') {
            // Several in a row mean what one means.
            if part != ANY || parts.last().is_none_or(|last| last != ANY) {
                parts.push(part.to_owned());
            }
        }
        let mut reach = match (is_folder, is_of_files) {
            (true, _) => Reach::Inside,
            (false, true) => Reach::File,
            (false, false) => Reach::Either,
        };
        if parts.last().is_some_and(|last| last == ANY) {
            parts.pop();
            reach = Reach::Inside;
        }
        Some(Pattern { parts, reach })
    }

    /// Whether it means the file whose path has these parts.
    pub(super) fn matches(&self, path: &[&str]) -> bool {
        // Most patterns begin with a name that the path does not begin with.
        if let (Some(first), Some(begins)) = (self.parts.first(), path.first())
            && first != ANY
            && !is_part(first, begins)
        {
            return false;
        }
        let ends = |behind: usize| match self.reach {
            Reach::Either => behind > 0,
            Reach::Inside => behind < path.len(),
            Reach::File => behind == path.len(),
        };
        // Where in the pattern one can be behind so many parts of the path, in order.
        let mut places = self.closed(vec![0]);
        for (behind, part) in path.iter().enumerate() {
            if places.last() == Some(&self.parts.len()) && ends(behind) {
                return true;
            }
            let mut next = Vec::new();
            for place in places {
                match self.parts.get(place) {
                    Some(any) if any == ANY => next.push(place),
                    Some(wanted) if is_part(wanted, part) => next.push(place + 1),
                    _ => {}
                }
            }
            if next.is_empty() {
                return false;
            }
            places = self.closed(next);
        }
        places.last() == Some(&self.parts.len()) && ends(path.len())
    }

    /// These places, and those that are reached without a part of the path. They come in order.
    fn closed(&self, places: Vec<usize>) -> Vec<usize> {
        let mut all: Vec<usize> = Vec::with_capacity(places.len() + 1);
        for place in places {
            // No two such parts stand beside each other.
            let is_any = self.parts.get(place).is_some_and(|part| part == ANY);
            for reached in place..=place + usize::from(is_any) {
                if all.last().is_none_or(|last| *last < reached) {
                    all.push(reached);
                }
            }
        }
        all
    }
}

/// The pattern without its backslashes, which brackets must have: without one GitHub takes the line for a mistake.
/// Where one makes a letter of `*` or `?`, the line is passed over.
fn unescaped(pattern: &str) -> Option<String> {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().filter(|c| !['*', '?'].contains(c))?),
            '!' | '[' | ']' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

/// A name fits a part with `*` for any letters and `?` for one.
fn is_part(wanted: &str, name: &str) -> bool {
    let Some((first, rest)) = wanted.split_once('*') else {
        return begins(wanted, name) == Some("");
    };
    let Some(mut left) = begins(first, name) else { return false };
    let Some((between, last)) = rest.rsplit_once('*') else { return ends(rest, left) };
    for literal in between.split('*') {
        let mut starts = left.char_indices().map(|(at, _)| at).chain([left.len()]);
        let found = starts.find_map(|at| begins(literal, left.get(at..)?));
        match found {
            Some(behind) => left = behind,
            None => return false,
        }
    }
    ends(last, left)
}

/// What follows in the name behind these letters.
fn begins<'a>(wanted: &str, name: &'a str) -> Option<&'a str> {
    let mut left = name.chars();
    for letter in wanted.chars() {
        let there = left.next()?;
        if letter != '?' && letter != there {
            return None;
        }
    }
    Some(left.as_str())
}

fn ends(wanted: &str, name: &str) -> bool {
    let (mut letters, mut there) = (wanted.chars().rev(), name.chars().rev());
    letters.all(|letter| there.next().is_some_and(|there| letter == '?' || letter == there))
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn patterns_mean_the_files_that_they_mean_to_github() {
        for (pattern, yes, no) in [
            ("*", "a b/c", ""),
            ("**", "a b/c", ""),
            ("*.js", "a.js x/y.js x.js/y", "a.jsx js"),
            ("/*.js", "a.js", "x/y.js"),
            ("/docs/", "docs/a docs/a/b", "docs x/docs/a"),
            ("docs/", "docs/a x/docs/a", "docs x/docs"),
            ("docs/*", "docs/a", "docs/a/b x/docs/a"),
            ("/*", "a", "a/b a/b/c"),
            (r"app/\[id\]/*.ts", "app/[id]/a.ts", "app/i/a.ts"),
            ("docs/**", "docs/a docs/a/b", "docs x/docs/a"),
            ("/a/**/b", "a/b a/x/b a/x/y/b a/b/c", "b a/xb x/a/b"),
            ("**/logs", "logs x/logs x/y/logs/z logs/a", "xlogs"),
            ("/**/x.rs", "x.rs a/x.rs", "x.rsx"),
            ("a?c", "abc x/abc", "ac abbc"),
            ("a*b*c", "abc aXbYc aabbcc", "ab acb"),
            ("{a,b}.c", "{a,b}.c", "a.c"),
            ("*a*a", "aa xaxa baab/aa", "a ab"),
            ("a**b", "ab axb", "a/b"),
            ("ä?", "äö", "ä"),
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            let matches = |path: &str| parsed.matches(&path.split('/').collect::<Vec<_>>());
            assert!(yes.split(' ').all(&matches), "{pattern}: {yes}");
            let strangers = no.split(' ').filter(|path| !path.is_empty());
            for path in strangers {
                assert!(!matches(path), "{pattern}: {path}");
            }
        }
        for none in ["/", "//", "!a", "[a]", r"a\*b", r"a\"] {
            assert!(Pattern::parse(none).is_none(), "{none}");
        }
    }
}
