//! Where a block of lines stands in a file: the one place that knows how to look for one. Pure.
//!
//! [`finder`] answers patches, which have many blocks in order: the first place behind a position.
//! [`places`] answers edits that are written as text and must know whether there is more than one
//! place. [`nearest`] is for blocks that are not there: the lines that the model most likely meant. What
//! each caller makes of an answer (what is ambiguous, which place counts, what is said) is its own.
//! Quotes in reviews are found by the hashes of their lines, with [`occurrences`].

pub mod finder;
pub mod nearest;
pub mod places;

/// The first places of a block of lines, or of keys of lines, at most so many; an empty one has none. By
/// the method of Knuth, Morris and Pratt: time in proportion to the lines, whatever is in them.
pub fn occurrences<T: PartialEq>(
    lines: impl IntoIterator<Item = T>,
    block: &[T],
    most: usize,
) -> Vec<usize> {
    let is = |at: usize, line: &T| block.get(at).is_some_and(|want| want == line);
    let fall = |back: &[usize], matched: usize| {
        matched.checked_sub(1).and_then(|last| back.get(last)).copied().unwrap_or(0)
    };
    // `back[n]`: the longest proper prefix of the first n + 1 lines that is also their end.
    let mut back: Vec<usize> = Vec::with_capacity(block.len());
    back.push(0);
    for line in block.iter().skip(1) {
        let mut matched = back.last().copied().unwrap_or(0);
        while matched > 0 && !is(matched, line) {
            matched = fall(&back, matched);
        }
        back.push(matched + usize::from(is(matched, line)));
    }
    let mut found = Vec::new();
    if block.is_empty() {
        return found;
    }
    let mut matched = 0;
    for (at, line) in lines.into_iter().enumerate() {
        while matched > 0 && !is(matched, &line) {
            matched = fall(&back, matched);
        }
        matched += usize::from(is(matched, &line));
        if matched == block.len() {
            found.push(at + 1 - block.len());
            if found.len() == most {
                break;
            }
            matched = fall(&back, matched);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::block::occurrences;

    fn find_all(hay: &[u64], needle: &[u64]) -> Vec<usize> {
        occurrences(hay.iter().copied(), needle, usize::MAX)
    }

    #[test]
    fn finds_overlapping_places() {
        assert_eq!(find_all(&[1, 1, 1, 2, 1, 1], &[1, 1]), [0, 1, 4]);
        assert_eq!(find_all(&[1, 2, 1, 2, 3], &[1, 2, 3]), [2]);
        assert_eq!(find_all(&[5, 5], &[5]), [0, 1]);
        assert_eq!(find_all(&[5], &[]), [0; 0]);
        assert_eq!(occurrences([5; 9], &[5, 5], 3), [0, 1, 2]);
    }

    #[test]
    fn finds_what_a_search_at_every_place_finds() {
        let row = |length: usize, number: u64| -> Vec<u64> {
            (0..length).map(|at| (number >> at) & 1).collect()
        };
        for hay in (0..1 << 9).map(|number| row(9, number)) {
            for length in 1..=5 {
                for needle in (0..1 << length).map(|number| row(length, number)) {
                    let starts = hay.windows(length).enumerate();
                    let expected: Vec<usize> =
                        starts.filter(|(_, part)| *part == needle).map(|(at, _)| at).collect();
                    assert_eq!(find_all(&hay, &needle), expected, "{needle:?} in {hay:?}");
                }
            }
        }
    }
}
