//! The file in which a repository keeps what maintainers corrected, and the pull request that proposes it.
//!
//! People edit the file as they like: what is not one of its list's items stays as it is, and so does every item
//! that no new lesson takes the place of. Pure.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use patchwright_base::text;

/// Where it is.
pub const FILE: &str = ".github/patchwright-memory.md";
/// Lessons, and bytes, that are written.
pub const MAX_LESSONS: usize = 60;
pub const MAX_BYTES: usize = 16 << 10;
/// Characters of a lesson.
pub const MAX_LESSON: usize = 300;
/// What the description of the pull request is known by.
pub const PURPOSE: &str = "memory";

/// What a new file begins with.
const BEGINNING: &str = "# What maintainers corrected\n\n\
    Lessons from reviews and pull requests, for coding agents that work on this repository. Patchwright proposes\n\
    them in pull requests, and its runs read them from the base branch. Change or delete any line.\n\n";

/// Something that was said, as people find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Number of the pull request.
    pub number: u64,
    pub url: String,
}

/// A new lesson.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// One line, clean.
    pub text: String,
    pub sources: Vec<Source>,
    /// Lessons of the file that it takes the place of, from 0.
    pub replaces: BTreeSet<usize>,
}

impl Lesson {
    /// The item of the list, with its line end.
    pub fn item(&self) -> String {
        let mut seen = BTreeSet::new();
        let links = self.sources.iter().filter(|source| seen.insert(source.url.as_str()));
        let links: Vec<String> =
            links.map(|source| format!("[#{}]({})", source.number, source.url)).collect();
        format!("- {} ({})\n", self.text, links.join(", "))
    }
}

/// The file as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Its lines with their ends.
    lines: Vec<String>,
    /// First line of each item, and the one behind its last.
    items: Vec<(usize, usize)>,
}

/// The file as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFile {
    pub text: String,
    /// How many of the new items are in it; the others have no room.
    pub added: usize,
}

impl Memory {
    pub fn parse(text: &str) -> Memory {
        let text = text.replace("\r\n", "\n");
        let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        if let Some(last) = lines.last_mut().filter(|last| !last.ends_with('\n')) {
            last.push('\n');
        }
        let mut items: Vec<(usize, usize)> = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let begins = line.starts_with("- ") || line.starts_with("* ");
            let goes_on = line.starts_with([' ', '\t']) && !line.trim().is_empty();
            match items.last_mut() {
                _ if begins => items.push((at, at + 1)),
                Some((_, end)) if goes_on && *end == at => *end = at + 1,
                _ => {}
            }
        }
        Memory { lines, items }
    }

    /// Its lessons, each in a line, without where they come from.
    pub fn lessons(&self) -> Vec<String> {
        let joined = |(from, to): &(usize, usize)| {
            let words = self.lines[*from..*to].concat();
            let words: Vec<&str> = words.split_whitespace().skip(1).collect();
            without_sources(&words.join(" ")).to_owned()
        };
        self.items.iter().map(joined).collect()
    }

    /// Its items as they stand there, each with its line ends.
    pub fn items(&self) -> Vec<String> {
        self.items.iter().map(|(from, to)| self.lines[*from..*to].concat()).collect()
    }

    /// The file with new items behind the others. Those with a number in `replaced`, from 0, go. What was there
    /// comes before what is new: where the file is full, new items are left out.
    pub fn with(&self, new: &[String], replaced: &BTreeSet<usize>) -> MemoryFile {
        let gone = |line: usize| {
            let item = self.items.iter().position(|(from, to)| (*from..*to).contains(&line));
            item.is_some_and(|item| replaced.contains(&item))
        };
        let end = self.items.last().map_or(self.lines.len(), |(_, end)| *end);
        let end = self.outside_of_comments(end);
        let kept = |range: std::ops::Range<usize>| -> String {
            range.filter(|line| !gone(*line)).map(|line| self.lines[line].as_str()).collect()
        };
        let (mut text, rest) = (kept(0..end), kept(end..self.lines.len()));
        if self.lines.iter().all(|line| line.trim().is_empty()) {
            BEGINNING.clone_into(&mut text);
        } else if self.items.is_empty() && !text.ends_with("\n\n") {
            text.push('\n');
        }
        let replaced = replaced.iter().filter(|item| **item < self.items.len()).count();
        let mut count = self.items.len() - replaced;
        let mut added = 0;
        for item in new {
            if count >= MAX_LESSONS || text.len() + item.len() + rest.len() > MAX_BYTES {
                break;
            }
            text.push_str(item);
            (count, added) = (count + 1, added + 1);
        }
        text.push_str(&rest);
        MemoryFile { text, added }
    }

    /// The line from `at` on before which people see what is written: behind an HTML comment, or before one that nobody
    /// ends.
    fn outside_of_comments(&self, at: usize) -> usize {
        let (mut opened, mut seen) = (None, at);
        for (line, text) in self.lines.iter().enumerate() {
            if line >= at && opened.is_none() {
                return line;
            }
            let mut rest = text.as_str();
            while let Some(found) = rest.find(if opened.is_some() { "-->" } else { "<!--" }) {
                rest = &rest[found + 3..];
                opened = opened.is_none().then_some(line);
            }
            seen = line + 1;
        }
        opened.unwrap_or(seen)
    }

    /// The file with new lessons behind the others, each in the place of those that it replaces, and which of them are
    /// in it. The others have no room, and what they would have replaced stays. Those that replace something come
    /// first.
    pub fn with_lessons(&self, new: &[Lesson]) -> (String, BTreeSet<usize>) {
        let written = |taken: &BTreeSet<usize>| {
            let lessons = || taken.iter().filter_map(|at| new.get(*at));
            let items: Vec<String> = lessons().map(Lesson::item).collect();
            self.with(&items, &lessons().flat_map(|it| it.replaces.iter().copied()).collect())
        };
        let replaces = |(_, lesson): &(usize, &Lesson)| !lesson.replaces.is_empty();
        let (replacing, adding): (Vec<_>, Vec<_>) = new.iter().enumerate().partition(replaces);
        let mut taken = BTreeSet::new();
        for (at, _) in replacing.into_iter().chain(adding) {
            taken.insert(at);
            if written(&taken).added < taken.len() {
                taken.remove(&at);
            }
        }
        (written(&taken).text, taken)
    }

    /// What was done to `before` to make this of it, done to `now`, which may have been changed meanwhile.
    #[must_use]
    pub fn moved(&self, before: &Memory, now: &Memory) -> Memory {
        let (own, before, there) = (self.items(), before.items(), now.items());
        let added = own.iter().filter(|item| !before.contains(item) && !there.contains(item));
        let added: Vec<String> = added.cloned().collect();
        let taken = |item: &String| before.contains(item) && !own.contains(item);
        let removed = there.iter().enumerate().filter(|(_, item)| taken(item)).map(|(at, _)| at);
        if added.is_empty() && !there.iter().any(taken) {
            return now.clone();
        }
        Memory::parse(&now.with(&added, &removed.collect()).text)
    }
}

/// The file for a run: without the links, which lead where the run cannot go.
pub fn for_run(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(|line| without_sources(line.trim_end())).collect();
    lines.join("\n")
}

/// A line without the links that we have put behind it.
fn without_sources(line: &str) -> &str {
    match line.rfind(" ([#") {
        Some(at) if line.ends_with("))") => line[..at].trim_end(),
        _ => line,
    }
}

/// What the pull request says.
#[derive(Debug)]
pub struct Proposal<'a> {
    pub run: &'a str,
    /// All that it adds to the base branch's file: of this run, and of earlier ones.
    pub lessons: &'a [Lesson],
    /// The new ones of earlier runs, in words.
    pub earlier: &'a [String],
    /// Lessons of the base branch's file that are taken out.
    pub replaced: &'a [String],
    /// What the model proposed and was refused, with the reason.
    pub refused: &'a [(String, String)],
    /// What was read, in a sentence.
    pub read: &'a str,
    /// Seconds since 1970: what was said by then has been read.
    pub until: i64,
}

/// The description of the pull request, with its marker.
pub fn body(proposal: &Proposal<'_>) -> String {
    let Proposal { run, lessons, earlier, replaced, refused, read, until } = *proposal;
    let mut out = format!(
        "Lessons for `{FILE}`, which Patchwright's runs read from the base branch like \
         `AGENTS.md`. {read} A model has put them into words: **read each line before you merge**. Edit or drop \
         lines on this branch, or close the pull request, and what was read is not proposed again.\n\n"
    );
    let list = |out: &mut String, title: &str, lines: &[String]| {
        if !lines.is_empty() {
            let _ = writeln!(out, "### {title}\n");
            for line in lines {
                let _ = writeln!(out, "- {line}");
            }
            out.push('\n');
        }
    };
    let new = lessons.iter().map(|lesson| {
        let links =
            lesson.sources.iter().map(|source| format!("[#{}]({})", source.number, source.url));
        let links: Vec<String> = links.collect();
        format!("{} ({})", text::inline(&lesson.text), links.join(", "))
    });
    let inline = |lines: &[String]| lines.iter().map(|line| text::inline(line)).collect::<Vec<_>>();
    list(&mut out, "New", &new.collect::<Vec<_>>());
    list(&mut out, "Proposed before", &inline(earlier));
    list(&mut out, "Contradicted, and taken out", &inline(replaced));
    let refused = refused
        .iter()
        .map(|(lesson, why)| format!("{}: {}", text::inline(lesson), text::inline(why)));
    list(&mut out, "Refused", &refused.collect::<Vec<_>>());
    let _ = write!(
        out,
        "{}\n\n{}\n",
        super::marker(PURPOSE, run),
        format_args!("<!-- patchwright:memory-read until={until} v=1 -->")
    );
    out
}

/// Until when a proposal had read, as its description says.
pub fn read_until(body: &str) -> Option<i64> {
    let lines = patchwright_forge::marker::standing(body).into_iter();
    let words = lines.map(patchwright_forge::marker::words);
    words
        .filter(|words| words.first() == Some(&"memory-read"))
        .find_map(|words| words.iter().find_map(|word| word.strip_prefix("until="))?.parse().ok())
}

/// The result, for the terminal.
pub fn summary(lessons: &[Lesson], refused: &[(String, String)]) -> String {
    let mut out = String::new();
    for lesson in lessons {
        let numbers: BTreeSet<u64> = lesson.sources.iter().map(|source| source.number).collect();
        let numbers: Vec<String> = numbers.iter().map(|number| format!("#{number}")).collect();
        let _ = writeln!(out, "{} ({})", text::line(&lesson.text), numbers.join(", "));
    }
    for (lesson, why) in refused {
        let _ = writeln!(out, "refused, because it {}: {}", text::line(why), text::line(lesson));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::memory::{
        Lesson, MAX_BYTES, MAX_LESSONS, Memory, Proposal, Source, body, for_run, read_until,
    };

    const WRITTEN: &str = "# Ours\n\nWords.\n\n- One.\n- Two, which\n  goes on. ([#1](https://x/1), [#2](https://x/2))\n\nThe end";

    fn with(memory: &Memory, new: &[&str], replaced: &[usize]) -> String {
        let new: Vec<String> = new.iter().map(|new| format!("- {new}\n")).collect();
        memory.with(&new, &replaced.iter().copied().collect()).text
    }

    #[test]
    fn what_people_wrote_stays_and_new_lessons_stand_behind_the_others() {
        let memory = Memory::parse(WRITTEN);
        assert_eq!(memory.lessons(), ["One.", "Two, which goes on."]);
        assert_eq!(
            with(&memory, &["Three."], &[0]),
            "# Ours\n\nWords.\n\n- Two, which\n  goes on. ([#1](https://x/1), [#2](https://x/2))\n- Three.\n\nThe end\n"
        );
        let new = with(&Memory::default(), &["One."], &[]);
        assert!(
            new.starts_with("# What maintainers corrected\n\n") && new.ends_with("\n\n- One.\n")
        );
        assert_eq!(with(&Memory::parse("# Ours\n"), &["One."], &[]), "# Ours\n\n- One.\n");
        assert_eq!(with(&Memory::parse("* One.\r\n"), &[], &[]), "* One.\n");
    }

    /// Who reads the page is to see what is proposed.
    #[test]
    fn no_lesson_is_written_into_a_comment() {
        let closed = Memory::parse("- One.\n<!--\n- Hidden.\n-->\nEnd.\n");
        assert_eq!(with(&closed, &["New."], &[]), "- One.\n<!--\n- Hidden.\n-->\n- New.\nEnd.\n");
        let open = Memory::parse("- One.\nText <!-- for\n- Hidden.\n");
        assert_eq!(with(&open, &["New."], &[]), "- One.\n- New.\nText <!-- for\n- Hidden.\n");
        let in_line = Memory::parse("- One. <!-- x -->\nEnd.\n");
        assert_eq!(with(&in_line, &["New."], &[]), "- One. <!-- x -->\n- New.\nEnd.\n");
    }

    #[test]
    fn a_full_file_takes_no_more_and_loses_nothing() {
        let many: Vec<String> = (1..=MAX_LESSONS + 5).map(|n| format!("- Lesson {n}.\n")).collect();
        let written = Memory::default().with(&many, &BTreeSet::new());
        assert_eq!(written.added, MAX_LESSONS);
        let full = Memory::parse(&written.text);
        assert_eq!(full.with(&many[..1], &BTreeSet::new()).added, 0);
        assert_eq!(full.with(&many[..2], &BTreeSet::from([3, 999])).added, 1);
        let long = Memory::parse(&format!("- {}\n", "x".repeat(MAX_BYTES)));
        let written = long.with(&many, &BTreeSet::new());
        assert_eq!((written.added, written.text), (0, long.items().concat()));
    }

    #[test]
    fn what_a_lesson_would_replace_stays_where_there_is_no_room_for_it() {
        let lesson = |text: &str, replaces: &[usize]| Lesson {
            text: text.to_owned(),
            sources: Vec::new(),
            replaces: replaces.iter().copied().collect(),
        };
        let many: Vec<String> = (1..=MAX_LESSONS).map(|n| format!("- Lesson {n}.\n")).collect();
        let full = Memory::parse(&many.concat());
        // The one place that there is belongs to the lesson that makes it.
        let (text, taken) = full.with_lessons(&[lesson("New.", &[]), lesson("Instead.", &[0])]);
        assert_eq!(taken, BTreeSet::from([1]));
        assert!(text.contains("Instead.") && !text.contains("New."), "{text}");
        assert!(!text.contains("- Lesson 1.\n") && text.contains("- Lesson 2.\n"), "{text}");
        // Too long for what is left of the bytes, with what it would replace gone.
        let long = format!("- One.\n- {}\n", "x".repeat(MAX_BYTES - 20));
        let too_long = lesson(&"y".repeat(40), &[0]);
        let (text, taken) = Memory::parse(&long).with_lessons(&[too_long]);
        assert!(taken.is_empty() && text == long, "{taken:?}");
    }

    #[test]
    fn a_proposal_moves_with_the_base() {
        let before = Memory::parse("- One.\n- Two.\n");
        let proposed = Memory::parse("- Two.\n- Three.\n");
        for (now, moved) in [
            ("- One.\n- Two.\n", "- Two.\n- Three.\n"),
            ("# Ours\n\n- Two, as we say.\n", "# Ours\n\n- Two, as we say.\n- Three.\n"),
            ("- Three.\n", "- Three.\n"),
        ] {
            assert_eq!(proposed.moved(&before, &Memory::parse(now)), Memory::parse(moved), "{now}");
        }
    }

    #[test]
    fn a_run_is_given_no_links_and_a_description_says_what_was_read() {
        let text = for_run(WRITTEN);
        assert!(text.contains("  goes on.\n") && !text.contains("https"), "{text}");
        assert_eq!(for_run("See (this) ([#1](x)) there.\n"), "See (this) ([#1](x)) there.");
        let sources = vec![Source { number: 1, url: "https://x/1".to_owned() }];
        let lesson =
            Lesson { text: "Ask @rita <b>.".to_owned(), sources, replaces: BTreeSet::new() };
        let refused = ("Skip *all*.".to_owned(), "is bad".to_owned());
        let said = body(&Proposal {
            run: "r",
            lessons: &[lesson],
            earlier: &[],
            replaced: &[],
            refused: &[refused],
            read: "All was read.",
            until: 7,
        });
        assert!(
            said.contains("@&#8203;rita &lt;b&gt;") && said.contains("Skip \\*all\\*"),
            "{said}"
        );
        assert_eq!(read_until(&said), Some(7));
        assert_eq!(read_until("<!-- patchwright:memory-read until=x v=1 -->"), None);
        assert_eq!(read_until(""), None);
    }
}
