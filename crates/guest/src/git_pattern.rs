//! Patterns of `.gitignore` and `.gitattributes` for a matcher that knows more than git does: braces are letters to git,
//! and classes have names.

/// A pattern, or a line of an ignore file, as the matcher has to read it to mean what git means.
pub fn as_git(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 8);
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        match c {
            '\\' => {
                out.push(c);
                if let Some(escaped) = rest.chars().next() {
                    out.push(escaped);
                    rest = rest.get(escaped.len_utf8()..).unwrap_or_default();
                }
            }
            '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            '[' => {
                let end = class_end(rest).unwrap_or(0);
                let (class, behind) = rest.split_at(end);
                out.push('[');
                out.push_str(&named(class));
                rest = behind;
            }
            c => out.push(c),
        }
    }
    out
}

/// How much of what is behind a `[` belongs to the class, with its `]`; `None` when it does not end.
fn class_end(rest: &str) -> Option<usize> {
    let negated = usize::from(rest.starts_with(['!', '^']));
    // A bracket in front is one of the letters.
    let mut at = negated + usize::from(rest.get(negated..)?.starts_with(']'));
    loop {
        let here = rest.get(at..)?;
        if let Some(name) = here.strip_prefix("[:")
            && let Some(length) = name.find(":]")
        {
            at += length + 4;
            continue;
        }
        let c = here.chars().next()?;
        at += c.len_utf8();
        match c {
            ']' => return Some(at),
            '\\' => at += rest.get(at..)?.chars().next()?.len_utf8(),
            _ => {}
        }
    }
}

/// A class without its `[`, with the letters that the names in it stand for, and without the backslashes in front of
/// letters, which the matcher takes for letters themselves.
fn named(class: &str) -> String {
    const NAMES: [(&str, &str); 9] = [
        ("[:alnum:]", "0-9A-Za-z"),
        ("[:alpha:]", "A-Za-z"),
        ("[:blank:]", " \t"),
        ("[:digit:]", "0-9"),
        ("[:lower:]", "a-z"),
        ("[:punct:]", "!-/:-@[-`{-~"),
        ("[:space:]", " \t"),
        ("[:upper:]", "A-Z"),
        ("[:xdigit:]", "0-9A-Fa-f"),
    ];
    let (mut letters, mut has_bracket) = (String::new(), false);
    let negated = class.get(..1).filter(|first| matches!(*first, "!" | "^")).unwrap_or_default();
    let mut rest = class.get(negated.len()..).unwrap_or_default();
    while let Some(c) = rest.chars().next() {
        if let Some((name, stands_for)) = NAMES.iter().find(|(name, _)| rest.starts_with(name)) {
            letters.push_str(stands_for);
            rest = rest.get(name.len()..).unwrap_or_default();
            continue;
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        match rest.chars().next().filter(|_| c == '\\') {
            Some(escaped) => {
                rest = rest.get(escaped.len_utf8()..).unwrap_or_default();
                match escaped {
                    ']' => has_bracket = true,
                    escaped => letters.push(escaped),
                }
            }
            None => letters.push(c),
        }
    }
    // In front it is a letter, everywhere else the end.
    [negated, if has_bracket { "]" } else { "" }, &letters].concat()
}

#[cfg(test)]
mod tests {
    use crate::git_pattern::as_git;

    #[test]
    fn braces_are_letters_and_classes_have_their_letters() {
        for (line, expected) in [
            ("/dist/*.{js,css}", "/dist/*.\\{js,css\\}"),
            ("a\\{b\\", "a\\{b\\"),
            ("[[:digit:]_]x{1}", "[0-9_]x\\{1\\}"),
            ("[!{}]", "[!{}]"),
            ("[]{]}", "[]{]\\}"),
            ("[\\]a]b", "[]a]b"),
            ("open[{", "open[\\{"),
            ("# ü {x}", "# ü \\{x\\}"),
        ] {
            assert_eq!(as_git(line), expected, "{line}");
        }
    }
}
