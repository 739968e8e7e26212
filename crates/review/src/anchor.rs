//! Anchors a finding to the diff: decided from the quoted code, never from a number that a
//! model wrote.
//!
//! A place is only ever one that a forge accepts: lines of one hunk, on the right side context and
//! added lines, on the left side context and deleted ones. Whole lines are searched first, then
//! text within lines, then quotes that leave lines out, then parts of the quote.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::code::MatchQuality;
use super::finding::Finding;
use super::fingerprint;
use super::lines::{LineSpan, Lines, PlacePreference, Row, SlotRange};
use super::part;
use super::path::{PathMatches, Paths};
use super::quote::QuoteVariant;
use super::suggestion;
use patchwright_base::text;
use patchwright_forge::Side;
use patchwright_git::display_path;
use patchwright_git::hunks::{Diff, FileDiff};

/// Repetitions of the same code that are distinguished.
const MAX_TWINS: usize = 100;
/// Bytes other than white space that a quote needs before other files than the named one are searched:
/// short quotes match everywhere.
const MIN_ELSEWHERE: usize = 20;

/// Where a comment may be put so that GitHub accepts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum Anchor {
    /// Lines of one hunk.
    Lines {
        /// As the pull request names the file now.
        path: String,
        side: Side,
        /// The last line.
        line: u32,
        /// The first line, when there are several.
        start_line: Option<u32>,
    },
    /// The file is part of the pull request, but these lines are not.
    File { path: String, why: String },
    /// There is no such file in the pull request.
    Nowhere { why: String },
}

/// A finding and its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Anchored {
    /// Its path is that of a file of the pull request, when it could be understood as one.
    pub finding: Finding,
    pub anchor: Anchor,
    /// The replacement can be offered as a suggestion: all lines stand on the right side of one hunk.
    pub suggestion: Option<String>,
    /// See [`super::fingerprint`].
    pub fingerprint: String,
    /// A short form of the code, to see how much of it another finding is about.
    #[serde(default)]
    pub sketch: String,
    /// Which one it is of the places of its file that have this code, from 0 on.
    #[serde(default)]
    pub nth: usize,
    /// The fingerprints of the same code elsewhere in the file.
    #[serde(skip)]
    pub twins: Vec<String>,
}

impl Anchored {
    /// What a reader should know about the place, as Markdown: the code stands in another file than
    /// the finding names.
    pub fn note(&self) -> Option<String> {
        match &self.anchor {
            Anchor::Lines { path, .. } if *path != self.finding.path => Some(format!(
                "Reported for {}, which is not part of this pull request; the quoted code is only here.",
                text::code(&text::cut(&self.finding.path, 300))
            )),
            Anchor::Lines { .. } | Anchor::File { .. } | Anchor::Nowhere { .. } => None,
        }
    }

    /// The file that it is about, as the pull request names it now.
    pub fn path(&self) -> &str {
        match &self.anchor {
            Anchor::Lines { path, .. } | Anchor::File { path, .. } => path,
            Anchor::Nowhere { .. } => &self.finding.path,
        }
    }
}

/// A diff, prepared for many questions.
pub struct Index<'a> {
    diff: &'a Diff,
    paths: Paths<'a>,
    lines: Lines<'a>,
    is_file: Option<&'a IsFile<'a>>,
}

/// Whether the head has a file at this path.
pub type IsFile<'a> = dyn Fn(&str) -> bool + Send + Sync + 'a;

/// A quote that was found.
struct QuoteMatch<'q> {
    place: SlotRange,
    fit: MatchQuality,
    reading: QuoteVariant<'q>,
}

/// One way to look for a reading.
type Step<'s> = dyn Fn(&QuoteVariant<'_>) -> Vec<SlotRange> + 's;

impl<'a> Index<'a> {
    /// Linear in the diff.
    pub fn new(diff: &'a Diff) -> Index<'a> {
        Index { diff, paths: Paths::new(diff), lines: Lines::new(diff), is_file: None }
    }

    /// With this, a finding about a file that the pull request leaves as it is stays with that file,
    /// whatever other file has the same name or the same line.
    #[must_use]
    pub fn with_files(self, is_file: &'a IsFile<'a>) -> Index<'a> {
        Index { is_file: Some(is_file), ..self }
    }

    /// The place of a finding. Linear in its quote and the file.
    pub fn anchor(&self, mut finding: Finding) -> Anchored {
        let unchanged =
            self.is_file.and_then(|is_file| self.paths.unchanged(&finding.path, is_file));
        let meant = match &unchanged {
            Some(path) => {
                finding.path.clone_from(path);
                PathMatches::default()
            }
            None => self.paths.meant(&finding.path),
        };
        // Moved out, because the readings borrow the quote while the finding is changed.
        let quote = std::mem::take(&mut finding.quote);
        // A model has seen what hides in a line as we show it, and quotes it so.
        let unescaped = text::unescaped(&quote);
        let mut readings = readings(&quote);
        let more = unescaped.iter().flat_map(|quote| self::readings(quote));
        readings.extend(more.map(QuoteVariant::of_unescaped));
        // Models also write the line into the path, as in `src/a.rs:17`.
        let line = finding.line.or(meant.line);
        for file in &meant.files {
            if let Some(found) = self.find(*file, &readings, line)
                && let Some(span) = self.lines.span(&found.place)
            {
                finding.path.clone_from(&self.diff.files[*file].path);
                finding.quote.clone_from(&quote);
                return self.on_lines(finding, *file, &found, &span);
            }
        }
        let file =
            meant.files.first().filter(|_| meant.is_sure).map(|file| &self.diff.files[*file]);
        // Other files are searched only when the named one is not part of the pull request: a quote
        // that is not in a changed file is a mistake there, not a finding elsewhere.
        if file.is_none()
            && unchanged.is_none()
            && let Some((file, found)) = self.elsewhere(&readings)
            && let Some(span) = self.lines.span(&found.place)
        {
            finding.quote.clone_from(&quote);
            return self.on_lines(finding, file, &found, &span);
        }
        let sketch = fingerprint::sketch_of(&quote);
        finding.quote.clone_from(&quote);
        let (anchor, fingerprint) = if let Some(file) = file {
            finding.path.clone_from(&file.path);
            let why = why_not(file, readings.is_empty()).to_owned();
            let prints = fingerprint::fingerprints(&finding, file.old_path.as_deref());
            let print = prints.into_iter().next_back().unwrap_or_default();
            (Anchor::File { path: file.path.clone(), why }, print)
        } else {
            let why = format!("`{}` is not one of the changed files", display_path(&finding.path));
            (Anchor::Nowhere { why }, fingerprint::of(&finding))
        };
        Anchored {
            finding,
            anchor,
            suggestion: None,
            fingerprint,
            sketch,
            nth: 0,
            twins: Vec::new(),
        }
    }

    fn on_lines(
        &self,
        finding: Finding,
        file: usize,
        found: &QuoteMatch<'_>,
        span: &LineSpan<'_>,
    ) -> Anchored {
        // The position among equal pieces of code is part of the fingerprint, so that two of them
        // are two findings.
        let (before, behind) = self.lines.repeats(span, file);
        let file = &self.diff.files[file];
        let print_path = file.old_path.as_ref().unwrap_or(&file.path);
        let print = |nth| fingerprint::of_code(print_path, &span.code, finding.category, nth);
        let fingerprint = print(before);
        let others = (0..=before + behind).filter(|nth| *nth != before);
        let twins = others.take(MAX_TWINS).map(print).collect();
        // GitHub applies a suggestion to lines of the head only. A quote that was cut does not
        // cover all lines that the replacement is for.
        let may_suggest = found.place.row == Row::Right
            && !found.reading.is_cut
            && finding.path == file.path
            && suggestion::is_allowed(&file.path);
        let replacement = finding.replacement.as_deref().filter(|_| may_suggest);
        let replacement = replacement.filter(|text| is_plain(text, &found.reading));
        let suggestion = replacement.and_then(|text| {
            let code = suggestion::TargetLines { path: &file.path, lines: &span.code };
            suggestion::fitted(text, &found.reading, &found.fit, code)
        });
        let anchor = Anchor::Lines {
            path: file.path.clone(),
            side: span.side,
            line: span.end,
            start_line: (span.start < span.end).then_some(span.start),
        };
        let sketch = fingerprint::sketch(span.code.iter().copied());
        Anchored { finding, anchor, suggestion, fingerprint, sketch, nth: before, twins }
    }

    /// The quote in a file, from strict to tolerant.
    fn find<'q>(
        &self,
        file: usize,
        readings: &[QuoteVariant<'q>],
        line: Option<u32>,
    ) -> Option<QuoteMatch<'q>> {
        let within = self.lines.of_file(file);
        if within.is_empty() {
            return None;
        }
        let steps: [&Step<'_>; 6] = [
            &|reading| self.whole(reading, &within),
            &|reading| self.lines.whole(Row::Mixed, &reading.hashes, &within),
            &|reading| self.text(&reading.keys.concat(), file),
            &|reading| part::elided(&self.lines, reading, &within),
            &|reading| self.text_without_dots(reading, file),
            &|reading| part::longest(&self.lines, reading, &within, line.or(reading.number)),
        ];
        // All readings are tried in one step before the next, looser step: a stricter match of a
        // cleaned quote is better than a loose match of the quote as written.
        for (step, places) in steps.iter().enumerate() {
            for reading in readings {
                let wish = PlacePreference { line: line.or(reading.number), side: reading.side };
                let fit = |place: &SlotRange| match step {
                    0 => self.lines.fit(place, reading),
                    1 | 5 => MatchQuality::Part,
                    _ => MatchQuality::Loose,
                };
                if let Some((place, fit)) = self.lines.best(places(reading), wish, fit) {
                    return Some(QuoteMatch { place, fit, reading: reading.clone() });
                }
            }
        }
        None
    }

    fn whole(&self, reading: &QuoteVariant<'_>, within: &Range<u32>) -> Vec<SlotRange> {
        let mut places = self.lines.whole(Row::Right, &reading.hashes, within);
        places.extend(self.lines.whole(Row::Left, &reading.hashes, within));
        places
    }

    /// Text within lines or over their ends.
    fn text(&self, text: &str, file: usize) -> Vec<SlotRange> {
        let mut places = self.lines.text(Row::Right, text, file);
        places.extend(self.lines.text(Row::Left, text, file));
        places
    }

    /// Dots at both ends of a quote stand for the rest of the line.
    fn text_without_dots(&self, reading: &QuoteVariant<'_>, file: usize) -> Vec<SlotRange> {
        let text = reading.keys.concat();
        let without_dots = text.trim_matches(['.', '…']);
        if without_dots.len() < text.len() { self.text(without_dots, file) } else { Vec::new() }
    }

    /// The quote in another file than the named one, when it occurs exactly once.
    fn elsewhere<'q>(&self, readings: &[QuoteVariant<'q>]) -> Option<(usize, QuoteMatch<'q>)> {
        for reading in readings {
            if reading.keys.iter().map(String::len).sum::<usize>() < MIN_ELSEWHERE {
                continue;
            }
            let mut places = self.whole(reading, &self.lines.all());
            // Two matches count as no match, because nothing says which one was meant.
            if let (Some(place), true) = (places.pop(), places.is_empty()) {
                let fit = self.lines.fit(&place, reading);
                let file = self.lines.file_of(&place);
                return Some((file, QuoteMatch { place, fit, reading: reading.clone() }));
            }
        }
        None
    }
}

/// Whether a replacement says what is to stand there. Where unseen characters of the quote were escaped for the model,
/// nobody knows of one in the replacement whether the character or its escape is meant.
fn is_plain(replacement: &str, reading: &QuoteVariant<'_>) -> bool {
    !reading.is_unescaped || text::unescaped(replacement).is_none()
}

/// The quote as it is, and without what is around it; nothing when there is no code in it.
fn readings(quote: &str) -> Vec<QuoteVariant<'_>> {
    let mut readings = Vec::new();
    let mut next = Some(QuoteVariant::new(quote)).filter(|reading| !reading.is_empty());
    while let Some(reading) = next {
        next = reading.peeled();
        readings.push(reading);
    }
    readings
}

fn why_not(file: &FileDiff, has_no_code: bool) -> &'static str {
    if file.opaque {
        "no lines of this file are shown in the pull request"
    } else if file.hunks.is_empty() {
        "no lines of this file have changed"
    } else if has_no_code {
        "no code was quoted"
    } else {
        "the quoted code is not among the lines that are shown of this file"
    }
}
