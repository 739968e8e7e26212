//! What a model quotes, read in several ways: as it is first, then without what models copy along:
//! fences, `>`, line numbers, the signs of a diff.

use super::code;
use patchwright_forge::Side;

/// Bytes of a quote that are read.
const MAX_BYTES: usize = 256 << 10;
/// Lines of a quote that are read.
const MAX_LINES: usize = 20_000;
/// How many wrappers are taken off.
const MAX_LAYERS: usize = 6;

/// A quote, read in one way.
#[expect(clippy::struct_excessive_bools, reason = "each says of itself what was taken off")]
#[derive(Clone, Debug)]
pub(super) struct QuoteVariant<'q> {
    /// Without blank lines at both ends.
    pub(super) lines: Vec<&'q str>,
    /// See [`code::hash`]; of the lines that are not blank.
    pub(super) hashes: Vec<u64>,
    /// The keys of the same lines.
    pub(super) keys: Vec<String>,
    /// Which side its signs speak of.
    pub(super) side: Option<Side>,
    /// The line number that stood in front of the first line.
    pub(super) number: Option<u32>,
    /// Blank lines that were at the end.
    pub(super) blank_end: usize,
    /// The quote was too long to be read to its end.
    pub(super) is_cut: bool,
    /// Inside of a fence.
    pub(super) is_fenced: bool,
    /// With the signs of a diff.
    pub(super) is_signed: bool,
    /// Characters that nobody sees stood in it as escapes.
    pub(super) is_unescaped: bool,
    layers: usize,
}

impl<'q> QuoteVariant<'q> {
    /// As it is.
    pub(super) fn new(quote: &'q str) -> QuoteVariant<'q> {
        let mut end = quote.len().min(MAX_BYTES);
        while !quote.is_char_boundary(end) {
            end -= 1;
        }
        let mut lines: Vec<&str> =
            quote[..end].split('\n').take(MAX_LINES + 1).map(without_return).collect();
        let is_cut = end < quote.len() || lines.len() > MAX_LINES;
        lines.truncate(MAX_LINES);
        let mut reading = QuoteVariant {
            lines: Vec::new(),
            hashes: Vec::new(),
            keys: Vec::new(),
            side: None,
            number: None,
            blank_end: 0,
            is_cut,
            is_fenced: false,
            is_signed: false,
            is_unescaped: false,
            layers: 0,
        };
        reading.set(lines);
        // The newline that ends the last line is not a blank line.
        if quote.ends_with('\n') {
            reading.blank_end = reading.blank_end.saturating_sub(1);
        }
        reading
    }

    /// The same, of a quote in which escapes were replaced.
    pub(super) fn of_unescaped(self) -> QuoteVariant<'q> {
        QuoteVariant { is_unescaped: true, ..self }
    }

    /// There is no code in it.
    pub(super) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Without its outermost wrapper; `None` when there is none.
    pub(super) fn peeled(&self) -> Option<QuoteVariant<'q>> {
        if self.layers >= MAX_LAYERS {
            return None;
        }
        // A fence among the lines of a diff is code: it stands behind the signs.
        let in_diff = |line: &&str| is_blank(line) || line.starts_with([' ', '+', '-']);
        let all_signed = self.lines.iter().all(in_diff);
        let peeled = Some(self)
            .filter(|_| all_signed)
            .and_then(QuoteVariant::without_signs)
            .or_else(|| self.without_fence())
            .or_else(|| self.without_quote_marks())
            .or_else(|| self.without_numbers())
            // Signs last: `-` and `+` begin lines of code too, in lists and in signs of numbers.
            .or_else(|| self.without_signs())?;
        (!peeled.is_empty()).then_some(peeled)
    }

    /// The parts between lines that say that something is left out; one part when nothing is.
    pub(super) fn segments(&self) -> Vec<Vec<u64>> {
        let mut segments = vec![Vec::new()];
        let filled = self.lines.iter().filter(|line| !is_blank(line));
        for (line, hash) in filled.zip(&self.hashes) {
            if is_elision(line) {
                segments.push(Vec::new());
            } else if let Some(segment) = segments.last_mut() {
                segment.push(*hash);
            }
        }
        segments.retain(|segment| !segment.is_empty());
        segments
    }

    fn set(&mut self, mut lines: Vec<&'q str>) {
        let end = lines.iter().rposition(|line| !is_blank(line)).map_or(0, |last| last + 1);
        self.blank_end = lines.len() - end;
        lines.truncate(end);
        let start = lines.iter().position(|line| !is_blank(line)).unwrap_or(0);
        lines.drain(..start);
        self.keys = lines.iter().map(|line| code::key(line)).filter(|k| !k.is_empty()).collect();
        self.hashes = self.keys.iter().map(|key| code::hash(key)).collect();
        self.lines = lines;
    }

    /// A copy with other lines, one layer further in.
    fn with(&self, lines: Vec<&'q str>) -> QuoteVariant<'q> {
        let empty =
            QuoteVariant { lines: Vec::new(), hashes: Vec::new(), keys: Vec::new(), ..*self };
        let mut reading = QuoteVariant { layers: self.layers + 1, ..empty };
        reading.set(lines);
        reading
    }

    fn without_fence(&self) -> Option<QuoteVariant<'q>> {
        let (first, rest) = self.lines.split_first()?;
        let fence = fence_of(first)?;
        let inner = match rest.split_last() {
            Some((last, inner)) if fence_of(last) == Some(fence) => inner,
            _ => rest,
        };
        let mut reading = self.with(inner.to_vec());
        reading.is_fenced = true;
        Some(reading)
    }

    fn without_quote_marks(&self) -> Option<QuoteVariant<'q>> {
        self.stripped(|line| {
            let rest = line.trim_start().strip_prefix('>')?;
            Some(rest.strip_prefix(' ').unwrap_or(rest))
        })
    }

    fn without_numbers(&self) -> Option<QuoteVariant<'q>> {
        let mut reading = self.stripped(|line| numbered(line).map(|(_, rest)| rest))?;
        reading.number = self.lines.first().and_then(|line| numbered(line)).map(|(n, _)| n);
        Some(reading)
    }

    /// Every line that is not blank loses something, or `None`.
    fn stripped(&self, strip: impl Fn(&'q str) -> Option<&'q str>) -> Option<QuoteVariant<'q>> {
        let strip_filled = |line: &&'q str| if is_blank(line) { Some(*line) } else { strip(line) };
        let lines: Option<Vec<&str>> = self.lines.iter().map(strip_filled).collect();
        Some(self.with(lines?))
    }

    fn without_signs(&self) -> Option<QuoteVariant<'q>> {
        // With a line number in front, models indent the sign.
        let sign = |line: &&'q str| {
            let line = if self.number.is_some() { line.trim_start() } else { line };
            line.strip_prefix('+')
                .map(|rest| ('+', rest))
                .or_else(|| line.strip_prefix('-').map(|rest| ('-', rest)))
        };
        let body = || self.lines.iter().filter(|line| !is_diff_header(line));
        let (added, deleted) = body().filter_map(sign).fold((0, 0), |(added, deleted), (s, _)| {
            if s == '+' { (added + 1, deleted) } else { (added, deleted + 1) }
        });
        let has_headers = body().count() < self.lines.len();
        if added + deleted == 0 && !has_headers {
            return None;
        }
        let rest = |line: &&'q str| match sign(line) {
            Some((_, rest)) => rest,
            None => line.strip_prefix(' ').unwrap_or(line),
        };
        let mut reading = self.with(body().map(rest).collect());
        reading.is_signed = true;
        reading.side = match (added, deleted) {
            (0, 0) => None,
            (_, 0) => Some(Side::Right),
            (0, _) => Some(Side::Left),
            _ => None,
        };
        Some(reading)
    }
}

pub(super) fn is_blank(line: &str) -> bool {
    line.chars().all(|c| c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}'))
}

fn without_return(line: &str) -> &str {
    line.strip_suffix('\r').unwrap_or(line)
}

fn fence_of(line: &str) -> Option<char> {
    let line = line.trim();
    if line.starts_with("```") {
        return Some('`');
    }
    line.starts_with("~~~").then_some('~')
}

/// `12 | code`, `12: code`, `L12 code`, `12⇥code`, and with two numbers as in a diff.
fn numbered(line: &str) -> Option<(u32, &str)> {
    let line = line.trim_start();
    let line = line.strip_prefix(['L', '#']).unwrap_or(line);
    let (mut number, mut rest) = leading_number(line)?;
    if let Some((second, after)) = leading_number(rest.trim_start())
        && rest.starts_with([' ', '\t'])
        && after.starts_with([' ', '\t', '|', ':'])
    {
        (number, rest) = (second, after);
    }
    if rest.is_empty() {
        return Some((number, rest));
    }
    let spaces = rest.trim_start_matches([' ', '\t']);
    if let Some(code) = spaces.strip_prefix(['|', ':', '→', '│', '>', ')']) {
        return Some((number, code.strip_prefix([' ', '\t']).unwrap_or(code)));
    }
    rest.strip_prefix([' ', '\t']).map(|code| (number, code))
}

/// See [`numbered`].
pub(super) fn is_numbered(line: &str) -> bool {
    numbered(line).is_some()
}

fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse().ok().filter(|_| end <= 7)?;
    Some((number, &text[end..]))
}

fn is_diff_header(line: &str) -> bool {
    const HEADERS: [&str; 7] = [
        "@@ ",
        "diff --git ",
        "--- a/",
        "+++ b/",
        "--- /dev/null",
        "+++ /dev/null",
        "\\ No newline",
    ];
    HEADERS.iter().any(|header| line.starts_with(header)) || line == "@@"
}

/// `...`, `# ...`, `// ... the rest`, `[…]`.
fn is_elision(line: &str) -> bool {
    let line = line.trim();
    let text = line.trim_start_matches(['/', '#', '*', '<', '!', '-', ';', '[', '(', '{', ' ']);
    let is_dots = text.starts_with("...") || text.starts_with('…');
    is_dots && (text.len() < line.len() || !code::has_word(text))
}

#[cfg(test)]
mod tests {
    use crate::quote::*;

    fn layers(quote: &str) -> Vec<Vec<&str>> {
        let mut readings = vec![QuoteVariant::new(quote)];
        while let Some(next) = readings.last().and_then(QuoteVariant::peeled) {
            readings.push(next);
        }
        readings.into_iter().map(|reading| reading.lines).collect()
    }

    #[test]
    fn wrappers_come_off_one_by_one() {
        assert_eq!(layers("\n\nfoo\n\nbar\n\n"), [["foo", "", "bar"]]);
        assert_eq!(layers("```rust\nfoo\n```").last().unwrap(), &["foo"]);
        assert_eq!(layers("~~~\nfoo\n").last().unwrap(), &["foo"]);
        assert_eq!(layers("> foo\n>\n>   bar").last().unwrap(), &["foo", "", "  bar"]);
        assert_eq!(layers("12 | foo\n13 |   bar").last().unwrap(), &["foo", "  bar"]);
        assert_eq!(layers("L12: foo\nL13:   bar").last().unwrap(), &["foo", "  bar"]);
        assert_eq!(layers("   12\tfoo\n   13\t  bar").last().unwrap(), &["foo", "  bar"]);
        assert_eq!(layers("+foo\n+  bar").last().unwrap(), &["foo", "  bar"]);
        assert_eq!(
            layers("```diff\n@@ -1,2 +1,2 @@ fn\n foo\n-bar\n+baz\n```").last().unwrap(),
            &["foo", "bar", "baz"]
        );
        assert_eq!(layers("@@ -1,2 +1,2 @@ fn\n foo\n   bar").last().unwrap(), &["foo", "  bar"]);
        assert_eq!(layers("\u{feff}\u{200b}\nfoo\n\u{200b}"), [["foo"]]);
        assert_eq!(
            layers("12 14  foo\n   15 +bar\n13    -baz").last().unwrap()[1..],
            ["bar", "baz"]
        );
    }

    #[test]
    fn signs_say_which_side() {
        let side = |quote: &str| QuoteVariant::new(quote).peeled().and_then(|reading| reading.side);
        assert_eq!(side("+a\n+b"), Some(Side::Right));
        assert_eq!(side("-a\n b"), Some(Side::Left));
        assert_eq!(side("-a\n+b"), None);
        assert_eq!(side("@@ -1 +1 @@\n a\n b"), None, "context is on both");
    }

    #[test]
    fn numbers_are_a_hint() {
        let reading = QuoteVariant::new("  7: a\n  8: b").peeled().unwrap();
        assert_eq!(reading.number, Some(7));
    }

    #[test]
    fn elisions_cut_a_quote_into_segments() {
        let count = |quote: &str| QuoteVariant::new(quote).segments().len();
        assert_eq!(count("a\nb"), 1);
        assert_eq!(count("a\n...\nb"), 2);
        assert_eq!(count("a\n    // ... the rest\nb\n# …\nc"), 3);
        assert_eq!(count("...\na\n[...]"), 1);
        assert_eq!(count("f(\n...args\n)"), 1);
    }

    #[test]
    fn hostile_quotes_are_cut() {
        let long = QuoteVariant::new(&"x\n".repeat(100_000)).lines.len();
        assert!(long <= MAX_LINES);
        assert!(QuoteVariant::new(&"é".repeat(1 << 20)).is_cut);
        assert!(!QuoteVariant::new("\u{0}\n").is_cut && !QuoteVariant::new("\u{0}").is_empty());
    }
}
