//! Thoughts that a server leaves in the text of a reply, between `<think>` and `</think>` in front of what is
//! said: vLLM without a reasoning parser, older llama.cpp, many models behind gateways.

/// How thoughts are marked.
const MARKS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// What a piece of text is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Thought(String),
    Said(String),
}

/// Tells thoughts and words apart while they arrive.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    place: SplitterState,
    /// What may be, or become, a mark.
    held: String,
}

#[derive(Clone, Copy, Debug, Default)]
enum SplitterState {
    /// Nothing but blanks and the begin of a mark has arrived.
    #[default]
    Begin,
    /// In thoughts that end with this mark.
    Thought(&'static str),
    Said,
}

impl Splitter {
    /// The next piece of the text; what it is known to be now.
    pub(super) fn push(&mut self, piece: &str) -> Vec<Segment> {
        if matches!(self.place, SplitterState::Said) {
            return vec![Segment::Said(piece.to_owned())];
        }
        self.held.push_str(piece);
        let mut told = Vec::new();
        if matches!(self.place, SplitterState::Begin) {
            let start = self.held.trim_start();
            if let Some((open, close)) = MARKS.iter().find(|(open, _)| start.starts_with(open)) {
                self.place = SplitterState::Thought(close);
                self.held = start[open.len()..].to_owned();
            } else if !MARKS.iter().any(|(open, _)| open.starts_with(start)) {
                self.place = SplitterState::Said;
                told.push(Segment::Said(std::mem::take(&mut self.held)));
            }
        }
        if let SplitterState::Thought(close) = self.place {
            if let Some((thought, said)) = self.held.split_once(close) {
                let (thought, said) = (thought.to_owned(), said.trim_start().to_owned());
                self.place = SplitterState::Said;
                self.held.clear();
                told.extend([Segment::Thought(thought), Segment::Said(said)]);
            } else {
                let sure = self.held.len() - half_mark(&self.held, close);
                let rest = self.held.split_off(sure);
                told.push(Segment::Thought(std::mem::replace(&mut self.held, rest)));
            }
        }
        told
    }

    /// The text has ended: what was held back.
    pub(super) fn rest(self) -> Segment {
        match self.place {
            SplitterState::Thought(_) => Segment::Thought(self.held),
            SplitterState::Begin | SplitterState::Said => Segment::Said(self.held),
        }
    }
}

/// Bytes at the end of a text that may be the begin of a mark.
fn half_mark(text: &str, mark: &str) -> usize {
    (1..mark.len()).rev().find(|length| text.ends_with(&mark[..*length])).unwrap_or_default()
}

/// A text that begins with thoughts and has only their end: chat templates exist that write the begin
/// themselves. The mark stands at the end of a line, and not in code, where it is spoken of.
pub(super) fn unopened(text: &str) -> Option<(&str, &str)> {
    MARKS.iter().find_map(|(open, close)| {
        let (thought, said) = text.split_once(close)?;
        let is_code = thought.matches("```").count() % 2 == 1;
        let ends_line = said.trim_start_matches([' ', '\t']).starts_with(['\n', '\r'])
            || said.trim().is_empty();
        let stands_alone = ends_line || thought.ends_with('\n');
        (stands_alone && !is_code && !thought.contains(open)).then(|| (thought, said.trim_start()))
    })
}

#[cfg(test)]
mod tests {
    use crate::wire::chat::thoughts::*;

    fn split(text: &str, size: usize) -> (String, String) {
        let (mut thought, mut said) = (String::new(), String::new());
        let mut splitter = Splitter::default();
        let letters: Vec<char> = text.chars().collect();
        let pieces = letters.chunks(size).map(|piece| piece.iter().collect::<String>());
        let mut told: Vec<Segment> = pieces.flat_map(|piece| splitter.push(&piece)).collect();
        told.push(splitter.rest());
        for told in told {
            match told {
                Segment::Thought(text) => thought.push_str(&text),
                Segment::Said(text) => said.push_str(&text),
            }
        }
        (thought, said)
    }

    #[test]
    fn thoughts_in_front_of_the_words_are_told_apart_however_they_are_cut() {
        let rows = [
            ("<think>Hm.</think>\n\nDone.", "Hm.", "Done."),
            ("\n<thinking>é < 3</thinking>Done.", "é < 3", "Done."),
            ("<think>no end", "no end", ""),
            ("Done. <think>x</think>", "", "Done. <think>x</think>"),
            ("<thin", "", "<thin"),
            ("<b>", "", "<b>"),
            ("", "", ""),
            ("<think></think>Done.", "", "Done."),
        ];
        for (text, thought, said) in rows {
            for size in 1..12 {
                let (own_thought, own_said) = split(text, size);
                assert_eq!(own_thought, thought, "{text} in pieces of {size}");
                assert_eq!(own_said.trim(), said, "{text} in pieces of {size}");
            }
        }
    }

    #[test]
    fn an_end_without_a_begin_is_one_only_where_it_is_not_spoken_of() {
        assert_eq!(unopened("Hm.\n</think>\n\nDone."), Some(("Hm.\n", "Done.")));
        assert_eq!(unopened("Hm.</think>\nDone."), Some(("Hm.", "Done.")));
        for text in ["The `</think>` tag", "```\n</think>\n```", "a <think> b </think>\n", "Done."]
        {
            assert_eq!(unopened(text), None, "{text}");
        }
    }
}
