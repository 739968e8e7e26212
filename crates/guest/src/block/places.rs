//! All places of a block, in steps: as it is, without blanks at the ends of lines, indented otherwise.

use super::occurrences;

/// Most places of one block that are looked at.
const MAX_PLACES: usize = 1000;

/// How closely lines have to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Exact,
    /// Blanks at the end of lines do not count.
    TrailingBlanks,
    /// All lines may be indented more, or all less, by the same blanks.
    Indentation,
}

/// The steps, strictest first.
pub const STEPS: [Step; 3] = [Step::Exact, Step::TrailingBlanks, Step::Indentation];

/// How much further in the lines of the file are than those of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shift {
    #[default]
    None,
    In(String),
    Out(String),
}

impl Shift {
    /// A line of the block as it has to stand in the file.
    pub fn apply(&self, line: &str) -> String {
        if line.trim().is_empty() {
            return line.to_owned();
        }
        match self {
            Shift::None => line.to_owned(),
            Shift::In(blanks) => format!("{blanks}{line}"),
            Shift::Out(blanks) => {
                let shared = line.bytes().zip(blanks.bytes()).take_while(|(a, b)| a == b).count();
                line.get(shared..).unwrap_or(line).to_owned()
            }
        }
    }
}

/// Where a block stands in a step, in order; at most a thousand places.
pub fn places(lines: &[&str], block: &[&str], step: Step) -> Vec<(usize, Shift)> {
    let plain = |places: Vec<usize>| places.into_iter().map(|at| (at, Shift::None)).collect();
    match step {
        Step::Exact => plain(keyed(lines, block, |line| line)),
        Step::TrailingBlanks => plain(keyed(lines, block, str::trim_end)),
        Step::Indentation => {
            if block.iter().all(|line| line.trim().is_empty()) {
                return Vec::new();
            }
            let mut allowance = 4 * lines.len() + (1 << 16);
            let mut found = Vec::new();
            for at in keyed(lines, block, str::trim) {
                if allowance < block.len() {
                    break;
                }
                allowance -= block.len();
                let there = lines.get(at..at + block.len()).unwrap_or_default();
                found.extend(shift(there, block).map(|shift| (at, shift)));
            }
            found
        }
    }
}

/// The places where the keys of the block stand.
fn keyed<'x>(lines: &[&'x str], block: &[&'x str], key: impl Fn(&'x str) -> &'x str) -> Vec<usize> {
    let block: Vec<&str> = block.iter().map(|line| key(line)).collect();
    occurrences(lines.iter().map(|line| key(line)), &block, MAX_PLACES)
}

/// The one shift that explains all lines, which agree but for blanks around them.
fn shift(there: &[&str], block: &[&str]) -> Option<Shift> {
    let mut pairs = there
        .iter()
        .zip(block)
        .map(|(there, line)| (there.trim_end(), line.trim_end()))
        .filter(|(_, line)| !line.is_empty());
    let (first, line) = pairs.clone().next()?;
    if let Some(blanks) = first.strip_suffix(line) {
        let fits = |(there, line): (&str, &str)| there.strip_suffix(line) == Some(blanks);
        return pairs.all(fits).then(|| Shift::In(blanks.to_owned()));
    }
    let blanks = line.strip_suffix(first)?;
    let fits = |(there, line): (&str, &str)| line.strip_suffix(there) == Some(blanks);
    pairs.all(fits).then(|| Shift::Out(blanks.to_owned()))
}
