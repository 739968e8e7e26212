//! The command line of `rg`, as far as models use it.

use std::ffi::OsString;

/// What is printed of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Lines,
    /// `--files`: the names of the files that would be searched.
    Files,
    /// `-l`
    Matching,
    /// `--files-without-match`
    NotMatching,
    /// `-c`
    Count,
    /// `--count-matches`
    CountMatches,
    /// `--type-list`
    Types,
    /// `-q`
    Nothing,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Case {
    #[default]
    Sensitive,
    Insensitive,
    Smart,
}

/// A command line, understood.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Args {
    pub patterns: Vec<String>,
    pub paths: Vec<String>,
    pub kind: Kind,
    pub case: Case,
    pub is_fixed: bool,
    pub is_word: bool,
    pub is_line: bool,
    pub is_inverted: bool,
    pub is_multiline: bool,
    pub dot_matches_line_end: bool,
    pub only_matching: bool,
    pub replacement: Option<String>,
    pub line_numbers: bool,
    pub column: bool,
    /// A line for each match, with its column.
    pub each_match: bool,
    /// The name of the file in front; decided by what is searched when absent.
    pub with_name: Option<bool>,
    pub heading: bool,
    pub trim: bool,
    pub before: usize,
    pub after: usize,
    pub most: Option<u64>,
    pub max_columns: Option<usize>,
    pub max_depth: Option<usize>,
    pub max_size: Option<u64>,
    /// Globs, and whether case matters in them.
    pub globs: Vec<(String, bool)>,
    pub types: Vec<String>,
    pub types_not: Vec<String>,
    pub types_added: Vec<String>,
    pub hidden: bool,
    pub no_ignore: bool,
    pub no_ignore_vcs: bool,
    pub binary: bool,
    pub as_text: bool,
    pub follow: bool,
    pub no_messages: bool,
    pub null: bool,
    /// `--sort` by time, newest last; by path otherwise.
    pub sort_by_time: bool,
    pub reversed: bool,
}

/// What a command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Invocation {
    Search(Box<Args>),
    Version,
    Help,
}

/// Options with a value, by short and long name.
const VALUED: &[(char, &str)] = &[
    ('e', "regexp"),
    ('g', "glob"),
    ('\0', "iglob"),
    ('t', "type"),
    ('T', "type-not"),
    ('\0', "type-add"),
    ('A', "after-context"),
    ('B', "before-context"),
    ('C', "context"),
    ('m', "max-count"),
    ('M', "max-columns"),
    ('d', "max-depth"),
    ('\0', "maxdepth"),
    ('r', "replace"),
    ('f', "file"),
    ('j', "threads"),
    ('E', "encoding"),
    ('\0', "color"),
    ('\0', "colors"),
    ('\0', "sort"),
    ('\0', "sortr"),
    ('\0', "max-filesize"),
    ('\0', "engine"),
    ('\0', "context-separator"),
    ('\0', "path-separator"),
    ('\0', "dfa-size-limit"),
    ('\0', "regex-size-limit"),
];

/// Options without one.
const FLAGS: &[(char, &str)] = &[
    ('n', "line-number"),
    ('N', "no-line-number"),
    ('i', "ignore-case"),
    ('s', "case-sensitive"),
    ('S', "smart-case"),
    ('l', "files-with-matches"),
    ('\0', "files-without-match"),
    ('c', "count"),
    ('\0', "count-matches"),
    ('\0', "files"),
    ('\0', "type-list"),
    ('q', "quiet"),
    ('F', "fixed-strings"),
    ('w', "word-regexp"),
    ('x', "line-regexp"),
    ('v', "invert-match"),
    ('o', "only-matching"),
    ('U', "multiline"),
    ('\0', "multiline-dotall"),
    ('H', "with-filename"),
    ('I', "no-filename"),
    ('\0', "heading"),
    ('\0', "no-heading"),
    ('\0', "column"),
    ('\0', "no-column"),
    ('\0', "vimgrep"),
    ('\0', "trim"),
    ('.', "hidden"),
    ('\0', "no-hidden"),
    ('u', "unrestricted"),
    ('\0', "no-ignore"),
    ('\0', "ignore"),
    ('\0', "no-ignore-vcs"),
    ('\0', "no-ignore-parent"),
    ('\0', "no-ignore-global"),
    ('\0', "no-ignore-exclude"),
    ('\0', "no-require-git"),
    ('\0', "binary"),
    ('a', "text"),
    ('L', "follow"),
    ('\0', "no-follow"),
    ('\0', "no-messages"),
    ('0', "null"),
    ('p', "pretty"),
    ('P', "pcre2"),
    ('z', "search-zip"),
    ('\0', "no-config"),
    ('\0', "line-buffered"),
    ('\0', "block-buffered"),
    ('\0', "crlf"),
    ('\0', "stats"),
    ('\0', "mmap"),
    ('\0', "no-mmap"),
    ('\0', "one-file-system"),
    ('\0', "no-unicode"),
    ('\0', "sort-files"),
    ('\0', "no-ignore-dot"),
    ('\0', "no-ignore-files"),
    ('\0', "no-ignore-messages"),
    ('\0', "no-context-separator"),
    ('\0', "max-columns-preview"),
    ('\0', "glob-case-insensitive"),
    ('V', "version"),
    ('h', "help"),
];

/// Reads the arguments behind the program's name. `read` reads the file of `-f`.
///
/// # Errors
/// What is wrong, for standard error.
pub(super) fn parse(
    args: &[OsString],
    read: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Invocation, String> {
    let mut reader = Reader { args: Args::default(), unrestricted: 0, read, done: None };
    let mut words = args.iter().map(|arg| arg.to_string_lossy().into_owned());
    let mut free = Vec::new();
    while let Some(word) = words.next() {
        if word == "--" {
            free.extend(words);
            break;
        }
        if let Some(long) = word.strip_prefix("--") {
            let (name, attached) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            if VALUED.iter().any(|(_, known)| *known == name) {
                let value = attached.or_else(|| words.next());
                let value = value.ok_or_else(|| missing(&word))?;
                reader.valued(name, &value)?;
            } else if FLAGS.iter().any(|(_, known)| *known == name) && attached.is_none() {
                reader.flag(name);
            } else {
                return Err(format!("unrecognized flag --{name}"));
            }
        } else if word.len() > 1 && word.starts_with('-') {
            let mut rest = &word[1..];
            while let Some(short) = rest.chars().next() {
                rest = &rest[short.len_utf8()..];
                if let Some((_, name)) = VALUED.iter().find(|(known, _)| *known == short) {
                    let value = match rest.strip_prefix('=').unwrap_or(rest) {
                        "" => words.next().ok_or_else(|| missing(&format!("-{short}")))?,
                        attached => attached.to_owned(),
                    };
                    reader.valued(name, &value)?;
                    break;
                }
                let Some((_, name)) = FLAGS.iter().find(|(known, _)| *known == short) else {
                    return Err(format!("unrecognized flag -{short}"));
                };
                reader.flag(name);
            }
        } else {
            free.push(word);
        }
    }
    reader.finish(free)
}

fn missing(option: &str) -> String {
    format!("missing value for flag {option}: missing argument for option '{option}'")
}

struct Reader<'r> {
    args: Args,
    unrestricted: u8,
    read: &'r dyn Fn(&str) -> Result<String, String>,
    done: Option<Invocation>,
}

impl Reader<'_> {
    fn valued(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = || {
            value.parse::<usize>().map_err(|_| {
                format!("error parsing flag --{name}: value is not a valid number: {value}")
            })
        };
        let args = &mut self.args;
        match name {
            "regexp" => args.patterns.push(value.to_owned()),
            "file" => {
                let text = (self.read)(value)?;
                args.patterns.extend(text.lines().map(str::to_owned));
            }
            "glob" => args.globs.push((value.to_owned(), true)),
            "iglob" => args.globs.push((value.to_owned(), false)),
            "type" => args.types.push(value.to_owned()),
            "type-not" => args.types_not.push(value.to_owned()),
            "type-add" => args.types_added.push(value.to_owned()),
            "after-context" => args.after = number()?,
            "before-context" => args.before = number()?,
            "context" => (args.before, args.after) = (number()?, number()?),
            "max-count" => args.most = Some(number()? as u64),
            "max-columns" => args.max_columns = Some(number()?).filter(|most| *most > 0),
            "max-depth" | "maxdepth" => args.max_depth = Some(number()?),
            "max-filesize" => args.max_size = Some(size(value)?),
            "replace" => args.replacement = Some(value.to_owned()),
            "sort" | "sortr" => {
                args.sort_by_time = matches!(value, "modified" | "accessed" | "created");
                args.reversed = name == "sortr";
            }
            // Colours, threads, encodings and limits of the engine do not change what is found here.
            _ => {}
        }
        Ok(())
    }

    fn flag(&mut self, name: &str) {
        let args = &mut self.args;
        match name {
            "line-number" => args.line_numbers = true,
            "no-line-number" => args.line_numbers = false,
            "ignore-case" => args.case = Case::Insensitive,
            "case-sensitive" => args.case = Case::Sensitive,
            "smart-case" => args.case = Case::Smart,
            "files-with-matches" => args.kind = Kind::Matching,
            "files-without-match" => args.kind = Kind::NotMatching,
            "count" => args.kind = Kind::Count,
            "count-matches" => args.kind = Kind::CountMatches,
            "files" => args.kind = Kind::Files,
            "type-list" => args.kind = Kind::Types,
            "quiet" => args.kind = Kind::Nothing,
            "fixed-strings" => args.is_fixed = true,
            "word-regexp" => args.is_word = true,
            "line-regexp" => args.is_line = true,
            "invert-match" => args.is_inverted = true,
            "only-matching" => args.only_matching = true,
            "multiline" => args.is_multiline = true,
            "multiline-dotall" => args.dot_matches_line_end = true,
            "with-filename" => args.with_name = Some(true),
            "no-filename" => args.with_name = Some(false),
            "heading" => args.heading = true,
            "no-heading" => args.heading = false,
            "pretty" => (args.heading, args.line_numbers) = (true, true),
            "column" => (args.column, args.line_numbers) = (true, true),
            "no-column" => args.column = false,
            "vimgrep" => {
                (args.column, args.line_numbers, args.with_name) = (true, true, Some(true));
                args.each_match = true;
            }
            "trim" => args.trim = true,
            "hidden" => args.hidden = true,
            "no-hidden" => args.hidden = false,
            "unrestricted" => self.unrestricted += 1,
            "no-ignore" => args.no_ignore = true,
            "ignore" => args.no_ignore = false,
            "no-ignore-vcs" => args.no_ignore_vcs = true,
            "binary" => args.binary = true,
            "text" => args.as_text = true,
            "follow" => args.follow = true,
            "no-follow" => args.follow = false,
            "no-messages" => args.no_messages = true,
            "null" => args.null = true,
            "glob-case-insensitive" => {
                args.globs.iter_mut().for_each(|(_, is_exact)| *is_exact = false);
            }
            "version" => self.done = Some(Invocation::Version),
            "help" => self.done = Some(Invocation::Help),
            _ => {}
        }
    }

    fn finish(self, free: Vec<String>) -> Result<Invocation, String> {
        let Reader { mut args, unrestricted, done, .. } = self;
        if let Some(done) = done {
            return Ok(done);
        }
        args.no_ignore |= unrestricted > 0;
        args.hidden |= unrestricted > 1;
        args.binary |= unrestricted > 2;
        let mut free = free.into_iter();
        if args.patterns.is_empty() && !matches!(args.kind, Kind::Files | Kind::Types) {
            let pattern =
                free.next().ok_or("ripgrep requires at least one pattern to execute a search")?;
            args.patterns.push(pattern);
        }
        args.paths = free.collect();
        Ok(Invocation::Search(Box::new(args)))
    }
}

/// `10K`, `5M`.
fn size(value: &str) -> Result<u64, String> {
    let (digits, shift) = match value.chars().last() {
        Some('K' | 'k') => (&value[..value.len() - 1], 10),
        Some('M' | 'm') => (&value[..value.len() - 1], 20),
        Some('G' | 'g') => (&value[..value.len() - 1], 30),
        _ => (value, 0),
    };
    let number: Option<u64> = digits.parse().ok();
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("invalid size: {value}"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::rg::args::{Args, Invocation, Kind, parse};

    fn parsed(line: &str) -> Result<Args, String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        match parse(&words, &|_| Ok("one\ntwo".to_owned()))? {
            Invocation::Search(args) => Ok(*args),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn options_stand_together_apart_and_with_their_values() {
        let args = parsed("-niA3 -g*.rs --glob=!x --type py -C=2 foo src -l").unwrap();
        assert_eq!((args.before, args.after), (2, 2));
        assert_eq!(args.globs, [("*.rs".to_owned(), true), ("!x".to_owned(), true)]);
        assert_eq!((args.patterns, args.paths), (vec!["foo".to_owned()], vec!["src".to_owned()]));
        assert_eq!((args.types, args.kind), (vec!["py".to_owned()], Kind::Matching));
        let args = parsed("-uu -e a -f list -- -b").unwrap();
        assert_eq!(args.patterns, ["a", "one", "two"]);
        assert!(args.hidden && args.no_ignore && !args.binary && args.paths == ["-b"]);
        assert!(parsed("--files src").unwrap().patterns.is_empty());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, why) in [
            ("--nonsense x", "unrecognized flag --nonsense"),
            ("-n", "ripgrep requires at least one pattern"),
            ("x -A", "missing value for flag -A"),
            ("x -A b", "not a valid number: b"),
        ] {
            let said = parsed(line).unwrap_err();
            assert!(said.contains(why), "{line}: {said}");
        }
    }
}
