//! Code quoted from a diff as models quote it, and whether a place holds it.

use patchwright_forge::Side;
use patchwright_review::finding::{Category, Finding, Priority, Verdict};

use crate::support::real_diff::{RealDiff, RealFile, RealLine};

/// Numbers that are the same in every run (`SplitMix64`).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit.max(1) as u64).unwrap()
    }

    pub(crate) fn one_in(&mut self, limit: usize) -> bool {
        self.below(limit) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// What models do to code when they quote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noise {
    None,
    TrailingSpace,
    Dedented,
    Indented,
    Trimmed,
    Signs,
    Numbers,
    Fence,
    QuoteMarks,
    BlankEnds,
    Spaces,
    FencedDiff,
    Elided,
    MidLine,
    /// Raw lines of the hunk, deleted and added mixed, without signs.
    Mixed,
    /// One line more than there is in the hunk.
    Outside,
}

pub(crate) const NOISES: [Noise; 16] = [
    Noise::None,
    Noise::TrailingSpace,
    Noise::Dedented,
    Noise::Indented,
    Noise::Trimmed,
    Noise::Signs,
    Noise::Numbers,
    Noise::Fence,
    Noise::QuoteMarks,
    Noise::BlankEnds,
    Noise::Spaces,
    Noise::FencedDiff,
    Noise::Elided,
    Noise::MidLine,
    Noise::Mixed,
    Noise::Outside,
];

/// A quote, and where it is from.
#[derive(Clone, Debug)]
pub(crate) struct Quoted {
    pub(crate) noise: Noise,
    pub(crate) finding: Finding,
    pub(crate) side: Side,
    /// The first and the last line that is not blank.
    pub(crate) range: (u32, u32),
    /// What the place must hold, without white space: all of it, or (of mixed quotes and those that
    /// stand partly outside) one of it.
    pub(crate) parts: Vec<String>,
    pub(crate) needs_all: bool,
}

pub(crate) fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !matches!(c, '\u{feff}' | '\u{200b}')).collect()
}

/// A finding about a quote.
pub(crate) fn finding(path: &str, quote: &str, line: Option<u32>) -> Finding {
    Finding {
        path: path.to_owned(),
        quote: quote.to_owned(),
        line,
        title: "A title".to_owned(),
        body: "A body".to_owned(),
        priority: Priority::P1,
        confidence: 0.9,
        category: Category::Bug,
        replacement: None,
        reproduction: None,
        verdict: Verdict::Pending,
    }
}

/// A quote from a hunk: `count` lines from the one at `first` of those on one side; `None` when there
/// is nothing but blank lines, or when nothing tells (or misleads about) what is quoted.
pub(crate) fn quote(
    file: &RealFile,
    hunk: &[RealLine],
    side: Side,
    (first, count): (usize, usize),
    noise: Noise,
    random: &mut Random,
) -> Option<Quoted> {
    let number = |line: &RealLine| if side == Side::Right { line.new } else { line.old };
    let on_side: Vec<&RealLine> = hunk.iter().filter(|line| number(line).is_some()).collect();
    let taken: Vec<&RealLine> = match noise {
        Noise::Mixed => hunk.iter().skip(first).take(count).collect(),
        _ => on_side.iter().skip(first).take(count).copied().collect(),
    };
    let filled = || taken.iter().filter(|line| !squeezed(&line.text).is_empty());
    let numbers = || filled().filter_map(|line| number(line).or(line.old).or(line.new));
    let range = (numbers().next()?, numbers().next_back()?);
    let mut parts: Vec<String> = filled().map(|line| squeezed(&line.text)).collect();
    let text = written(&taken, noise, random, &mut parts)?;
    let line = match random.below(3) {
        0 => None,
        1 => Some(range.0),
        _ => Some(range.0 + u32::try_from(random.below(9)).unwrap()),
    };
    let path = match (noise, random.below(8)) {
        (Noise::None, _) | (_, 3..) => file.path.clone(),
        (_, 0) => format!("./{}", file.path),
        (_, 1) => format!("/{}", file.path),
        (_, _) => format!("b/{}", file.path),
    };
    let needs_all = !matches!(noise, Noise::Mixed | Noise::Outside);
    Some(Quoted { noise, finding: finding(&path, &text, line), side, range, parts, needs_all })
}

/// The lines as a model writes them.
fn written(
    taken: &[&RealLine],
    noise: Noise,
    random: &mut Random,
    parts: &mut Vec<String>,
) -> Option<String> {
    let plain: Vec<&str> = taken.iter().map(|line| line.text.as_str()).collect();
    let each = |write: &mut dyn FnMut(usize, &str) -> String| -> String {
        let lines: Vec<String> =
            plain.iter().enumerate().map(|(at, line)| write(at, line)).collect();
        lines.join("\n")
    };
    let sign = |line: &RealLine| match (line.old, line.new) {
        (None, _) => '+',
        (_, None) => '-',
        _ => ' ',
    };
    let signed = |at: usize, line: &str| format!("{}{line}", sign(taken[at]));
    let is_signed = taken.iter().any(|line| sign(line) != ' ');
    Some(match noise {
        Noise::None => each(&mut |_, line| line.to_owned()),
        Noise::TrailingSpace => each(&mut |_, line| format!("{line}  ")),
        Noise::Dedented => {
            let filled = plain.iter().filter(|line| !line.trim().is_empty());
            let common =
                filled.map(|line| line.len() - line.trim_start_matches(' ').len()).min()?;
            each(&mut |_, line| line.get(common..).unwrap_or("").to_owned())
        }
        Noise::Indented => each(&mut |_, line| format!("    {line}")),
        Noise::Trimmed => each(&mut |_, line| line.to_owned()).trim().to_owned(),
        Noise::Signs if is_signed => each(&mut |at, line| signed(at, line)),
        Noise::Numbers => each(&mut |at, line| {
            format!("{:>5} | {line}", taken[at].new.or(taken[at].old).unwrap())
        }),
        Noise::Fence => format!("```python\n{}\n```", plain.join("\n")),
        Noise::QuoteMarks => each(&mut |_, line| format!("> {line}")),
        Noise::BlankEnds => format!("\n\n{}\n\n", plain.join("\n")),
        Noise::Spaces => plain.join("\n").replace("    ", "\t"),
        Noise::FencedDiff if is_signed => {
            format!("```diff\n@@ -1 +1 @@\n{}\n```", each(&mut |at, line| signed(at, line)))
        }
        Noise::Elided => elided(&plain, parts)?,
        Noise::MidLine => middle(&plain, random, parts)?,
        Noise::Mixed => {
            let telling = parts.iter().map(String::len).sum::<usize>() > 20;
            (telling && is_signed).then(|| plain.join("\n"))?
        }
        Noise::Outside => {
            // Half of it must be what is there.
            let telling = parts.iter().map(String::len).sum::<usize>() > 30;
            telling.then(|| format!("not_in_the_file()\n{}", plain.join("\n")))?
        }
        Noise::Signs | Noise::FencedDiff => return None,
    })
}

/// The first and the last line.
fn elided(plain: &[&str], parts: &mut Vec<String>) -> Option<String> {
    let (first, last) = (parts.first()?.clone(), parts.last()?.clone());
    let has_both = parts.len() > 3 && first.len() > 3 && last.len() > 3;
    let filled: Vec<&&str> = plain.iter().filter(|line| !squeezed(line).is_empty()).collect();
    *parts = vec![first, last];
    has_both.then(|| format!("{}\n    ...\n{}", filled[0], filled[filled.len() - 1]))
}

/// From the middle of a line to near its end.
fn middle(plain: &[&str], random: &mut Random, parts: &mut Vec<String>) -> Option<String> {
    let line: Vec<char> = plain.iter().find(|line| line.len() > 20)?.trim().chars().collect();
    if line.len() < 16 {
        return None;
    }
    let start = 3 + random.below(line.len() / 4);
    let part: String = line[start..line.len() - 2].iter().collect();
    let key = squeezed(&part);
    *parts = vec![key.clone()];
    (key.len() > 6 && key.chars().any(char::is_alphanumeric)).then_some(part)
}

/// Why a place is wrong for a quote; `None` when a forge accepts it and it holds the quote.
pub(crate) fn wrong(
    real: &RealDiff,
    quoted: &Quoted,
    anchored: &patchwright_review::anchor::Anchored,
) -> Option<String> {
    let lines = match real.lines_at(&anchored.anchor) {
        Ok(lines) => lines,
        Err(why) => return Some(why),
    };
    let held: Vec<String> = lines.iter().map(|line| squeezed(line)).collect();
    let all = held.concat();
    let holds = |part: &String| all.contains(part.as_str());
    let is_held = if quoted.needs_all {
        quoted.parts.iter().all(holds)
    } else {
        quoted.parts.iter().any(holds)
    };
    if !is_held {
        return Some(format!("{:?} does not hold it: {lines:#?}", anchored.anchor));
    }
    let is_plain = matches!(quoted.noise, Noise::None | Noise::TrailingSpace | Noise::BlankEnds);
    if is_plain && all != quoted.parts.concat() {
        return Some(format!("{:?} is more or less than it: {lines:#?}", anchored.anchor));
    }
    // A hint that is right leaves no choice.
    if let patchwright_review::anchor::Anchor::Lines { side, line, start_line, .. } =
        &anchored.anchor
        && quoted.noise == Noise::None
        && quoted.side == Side::Right
        && quoted.finding.line == Some(quoted.range.0)
        && (*side, start_line.unwrap_or(*line), *line)
            != (Side::Right, quoted.range.0, quoted.range.1)
    {
        return Some(format!("{:?} is elsewhere than {:?}", anchored.anchor, quoted.range));
    }
    None
}
