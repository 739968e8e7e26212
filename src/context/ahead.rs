//! What stands further on in a text, found once however often it is asked for. Without this, text made
//! of openings that never close would be searched to its end from each of them.
//! Used by [`super::markup`] only.

use std::collections::{HashMap, HashSet};

use super::tags::{self, At};

pub(super) struct Ahead<'a> {
    text: &'a str,
    found: HashMap<&'static str, (usize, Option<usize>)>,
    brackets: Option<HashMap<usize, usize>>,
    elements: Option<HashMap<usize, usize>>,
    labels: Option<Labels>,
}

/// What stands in square brackets, by its words in lower case.
#[derive(Default)]
struct Labels {
    /// How often in all, and how often not behind a `]`, where it would not be shown.
    used: HashMap<String, (usize, usize)>,
    defined: HashSet<String>,
}

impl<'a> Ahead<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, found: HashMap::new(), brackets: None, elements: None, labels: None }
    }

    /// Where `needle` begins next, at or after `from`.
    pub(super) fn find(&mut self, needle: &'static str, from: usize) -> Option<usize> {
        if let Some((asked, answer)) = self.found.get(needle)
            && *asked <= from
            && answer.is_none_or(|at| at >= from)
        {
            return *answer;
        }
        let answer = self.text.get(from..).and_then(|rest| rest.find(needle)).map(|at| from + at);
        self.found.insert(needle, (from, answer));
        answer
    }

    /// The line from `from` on, without its end.
    pub(super) fn line(&mut self, from: usize) -> &'a str {
        let end = self.find("\n", from).unwrap_or(self.text.len());
        &self.text[from..end]
    }

    /// Where the `]` of the `[` at `open` stands, in the same paragraph.
    pub(super) fn closing_bracket(&mut self, open: usize) -> Option<usize> {
        let text = self.text;
        self.brackets.get_or_insert_with(|| brackets(text)).get(&open).copied()
    }

    /// Where the element ends whose opening tag stands at `open`.
    pub(super) fn element_end(&mut self, open: usize) -> Option<usize> {
        let text = self.text;
        self.elements.get_or_insert_with(|| elements(text)).get(&open).copied()
    }

    /// How often a label stands in brackets, and how often of these people see it.
    pub(super) fn uses(&mut self, label: &str) -> (usize, usize) {
        self.labels().used.get(&label.to_lowercase()).copied().unwrap_or_default()
    }

    /// Something looks like a definition of this label.
    pub(super) fn is_defined(&mut self, label: &str) -> bool {
        self.labels().defined.contains(&label.to_lowercase())
    }

    fn labels(&mut self) -> &Labels {
        let text = self.text;
        self.labels.get_or_insert_with(|| labels(text))
    }
}

fn brackets(text: &str) -> HashMap<usize, usize> {
    let mut pairs = HashMap::new();
    let mut open = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'[' => open.push(at),
            b']' => {
                if let Some(start) = open.pop() {
                    pairs.insert(start, at);
                }
            }
            b'\n' if bytes.get(at + 1) == Some(&b'\n') => open.clear(),
            _ => {}
        }
        at += 1;
    }
    pairs
}

fn elements(text: &str) -> HashMap<usize, usize> {
    let mut ends = HashMap::new();
    let mut open: HashMap<String, Vec<usize>> = HashMap::new();
    let mut at = 0;
    while let Some(next) = text[at..].find('<') {
        at += next;
        let At::Tag(tag) = tags::tag(&text[at..]) else {
            at += 1;
            continue;
        };
        let of_name = open.entry(tag.name.to_ascii_lowercase()).or_default();
        if !tag.closing {
            of_name.push(at);
        } else if let Some(start) = of_name.pop() {
            ends.insert(start, at + tag.length);
        }
        at += tag.length;
    }
    ends
}

fn labels(text: &str) -> Labels {
    let mut labels = Labels::default();
    let bytes = text.as_bytes();
    let mut open = None;
    for (at, byte) in bytes.iter().enumerate() {
        match (byte, open) {
            (b'[', _) => open = Some(at),
            (b']', Some(start)) => {
                open = None;
                if at - start > 1000 {
                    continue;
                }
                let label = text[start + 1..at].to_lowercase();
                if bytes.get(at + 1) == Some(&b':') {
                    labels.defined.insert(label.clone());
                }
                let (all, seen) = labels.used.entry(label).or_default();
                *all += 1;
                *seen += usize::from(start == 0 || bytes[start - 1] != b']');
            }
            _ => {}
        }
    }
    labels
}
