//! Fences: lines of three or more backticks or tildes, as in Markdown.
//!
//! A fence ends at a bare line of at least as many of its signs, so what stands inside a longer fence
//! is content. A fence may be indented (in a list); its content loses that indentation.

/// Deepest indentation of a fence, in blanks.
const MAX_INDENT: usize = 12;

/// The line that opens a fenced block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence<'a> {
    sign: u8,
    length: usize,
    indent: usize,
    /// What stands behind the signs.
    pub info: &'a str,
}

impl<'a> Fence<'a> {
    /// The fence that a line opens.
    pub fn open(line: &'a str) -> Option<Fence<'a>> {
        let rest = line.trim_start_matches(' ');
        let indent = line.len() - rest.len();
        let sign = *rest.as_bytes().first().filter(|byte| matches!(byte, b'`' | b'~'))?;
        let length = rest.bytes().take_while(|byte| *byte == sign).count();
        let info = rest.get(length..)?.trim();
        let is_inline = sign == b'`' && info.contains('`');
        (length >= 3 && indent <= MAX_INDENT && !is_inline).then_some(Fence {
            sign,
            length,
            indent,
            info,
        })
    }

    /// The line ends this fence.
    pub fn is_closed_by(&self, line: &str) -> bool {
        self.is_closed_within(line, 3)
    }

    /// The line ends this fence around a diff: there every line has a sign in front, so the end must stand exactly
    /// below the beginning.
    pub fn is_closed_in_diff_by(&self, line: &str) -> bool {
        self.is_closed_within(line, 0)
    }

    fn is_closed_within(&self, line: &str, slack: usize) -> bool {
        Fence::open(line).is_some_and(|end| {
            end.sign == self.sign
                && end.length >= self.length
                && end.info.is_empty()
                && end.indent <= self.indent + slack
        })
    }

    /// The line opens a fence of the same kind, with a language behind it.
    pub fn is_nested(&self, line: &str) -> bool {
        Fence::open(line).is_some_and(|inner| {
            inner.sign == self.sign && inner.length >= self.length && !inner.info.is_empty()
        })
    }

    /// A line of the content without the indentation of the fence.
    pub fn content<'l>(&self, line: &'l str) -> &'l str {
        let blanks = line.bytes().take(self.indent).take_while(|byte| *byte == b' ').count();
        line.get(blanks..).unwrap_or(line)
    }

    /// The language: the first word of the info, in lower case and without braces.
    pub fn language(&self) -> String {
        let word = self.info.split([' ', ':', ',', '\t']).next().unwrap_or_default();
        word.trim_matches(['{', '}', '.']).to_ascii_lowercase()
    }
}

/// What a reply says, without the thoughts that some models put in front of it between `<think>` and
/// `</think>`. Thoughts without an end are all there is.
pub fn without_thoughts(text: &str) -> &str {
    let start = text.trim_start();
    for (open, close) in [("<think>", "</think>"), ("<thinking>", "</thinking>")] {
        if let Some(rest) = start.strip_prefix(open) {
            return rest.split_once(close).map_or("", |(_, said)| said);
        }
    }
    text
}
