//! The repository's own pull request template: where it is, and our sections under its headings.

use super::markdown;

/// Bytes of a template that are used.
const MAX_TEMPLATE: usize = 16 << 10;

/// The template among the files of the base tree, where GitHub looks for it. With several templates
/// in a folder the one for fixes, or called `default`, is taken, else the first.
pub fn find<'a>(paths: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut single: Vec<(usize, &str)> = Vec::new();
    let mut many: Vec<(usize, &str)> = Vec::new();
    for path in paths {
        let lower = path.to_lowercase();
        let place = [".github/", "", "docs/"].iter().position(|folder| {
            lower.strip_prefix(folder).is_some_and(|rest| rest.starts_with("pull_request_template"))
        });
        let Some(place) = place.filter(|_| {
            lower.rsplit('.').next().is_some_and(|ending| matches!(ending, "md" | "txt"))
        }) else {
            continue;
        };
        let name = lower.rsplit('/').next().unwrap_or_default().to_owned();
        if name.starts_with("pull_request_template") {
            single.push((place, path));
        } else if lower.contains("pull_request_template/") {
            let wanted = ["default", "fix", "bug"].iter().position(|word| name.contains(word));
            many.push((wanted.unwrap_or(9), path));
        }
    }
    single.sort_unstable();
    many.sort_unstable();
    single.first().or_else(|| many.first()).map(|(_, path)| *path)
}

/// What one of our sections is about, and so under which headings of a template it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    Summary,
    Changes,
    Evidence,
    Issue,
    Other,
}

const WORDS: &[(Topic, &[&str])] = &[
    (Topic::Evidence, &["test", "verif", "checks", "validation", "how has this been", "qa"]),
    (Topic::Issue, &["issue", "ticket", "fixes", "closes", "related", "linked"]),
    (
        Topic::Summary,
        &[
            "description",
            "summary",
            "overview",
            "about",
            "purpose",
            "motivation",
            "what does",
            "why",
            "context",
        ],
    ),
    (Topic::Changes, &["changes", "what changed", "what's changed", "implementation", "how"]),
];

/// One of our sections.
pub(super) struct Section {
    pub(super) topic: Topic,
    pub(super) heading: &'static str,
    pub(super) text: String,
}

/// Fills the sections into the template's headings; those that fit nowhere are left in `sections`.
pub(super) fn fill(template: &str, sections: &mut Vec<Section>) -> String {
    let mut out = String::new();
    let template = without_guidance(&without_comments(template));
    let mut boxes = Boxes::default();
    for line in template.lines() {
        if !is_heading(line) {
            boxes.line(line);
            continue;
        }
        let marks = line.len() - line.trim_start_matches('#').len();
        boxes.flush(&mut out, sections, marks);
        let title = line.trim_start_matches('#').trim();
        let title = markdown::passage(&title.replace(['[', ']', '`'], ""), 200);
        boxes.begin(title.trim(), marks);
    }
    boxes.flush(&mut out, sections, 0);
    if boxes.has_kept {
        out.push_str("*Boxes are for a person to tick: none of them was ticked for you.*\n\n");
    }
    out
}

/// What stands under a heading that nothing of ours fits.
const OPEN: &str = "*Not filled in.*";

/// The lines under one heading.
#[derive(Default)]
struct Boxes {
    /// As it is written, and its words and level.
    heading: String,
    title: String,
    level: usize,
    topic: Option<Topic>,
    lines: Vec<String>,
    /// The headings that got one of our sections.
    filled: Vec<(Topic, String)>,
    /// A box to tick was left.
    has_kept: bool,
}

impl Boxes {
    fn line(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }

    fn begin(&mut self, title: &str, level: usize) {
        self.heading = format!("\n{} {title}\n\n", "#".repeat(level.min(6)));
        (self.title, self.level, self.topic) = (title.to_owned(), level, topic(title));
    }

    /// Writes the section that ends here. `next` is the level of the heading that follows.
    fn flush(&mut self, out: &mut String, sections: &mut Vec<Section>, next: usize) {
        let filled = self.topic.and_then(|topic| {
            let at = sections.iter().position(|section| section.topic == topic)?;
            Some(sections.remove(at).text)
        });
        if let Some((text, topic)) = filled.as_ref().zip(self.topic) {
            self.filled.push((topic, std::mem::take(&mut self.title)));
            out.push_str(&std::mem::take(&mut self.heading));
            out.push_str(text.trim_end());
            out.push_str("\n\n");
        }
        // Boxes to tick stay, unticked: nobody has answered them. Prompts for text are replaced.
        let lines = self.lines.iter().map(String::as_str);
        self.has_kept |= lines.clone().any(is_box);
        let kept: Vec<&str> = match filled {
            Some(_) => lines.filter(|line| is_box(line)).collect(),
            None => lines.collect(),
        };
        let text = markdown::passage(kept.join("\n").trim(), MAX_TEMPLATE);
        let text = text.replace("[x]", "[ ]").replace("[X]", "[ ]");
        if !text.trim().is_empty() {
            out.push_str(&std::mem::take(&mut self.heading));
            out.push_str(text.trim());
            out.push_str("\n\n");
        } else if next <= self.level && !self.heading.is_empty() {
            // Who wrote the template looks for an answer here. One level deeper are the parts of this section.
            out.push_str(&self.heading);
            out.push_str(&self.instead());
            out.push_str("\n\n");
        }
        self.lines.clear();
        self.heading.clear();
        self.topic = None;
    }

    /// Where the template asks the same twice, the place of the answer; else that nothing was filled in.
    fn instead(&self) -> String {
        let other = self.filled.iter().find(|(topic, _)| Some(*topic) == self.topic);
        other
            .map_or_else(|| OPEN.to_owned(), |(_, title)| format!("*See \u{201c}{title}\u{201d}.*"))
    }
}

fn topic(title: &str) -> Option<Topic> {
    let title = title.to_lowercase();
    // `What`, `Why` and `How` are the headings of many templates; in a longer one "what" says little.
    if title.trim_matches(|c: char| !c.is_alphanumeric()) == "what" {
        return Some(Topic::Summary);
    }
    let fits = |words: &[&str]| words.iter().any(|word| title.contains(word));
    WORDS.iter().find(|(_, words)| fits(words)).map(|(topic, _)| *topic)
}

fn is_heading(line: &str) -> bool {
    line.starts_with('#') && line.trim_start_matches('#').starts_with(' ')
}

/// A box to tick.
fn is_box(line: &str) -> bool {
    let is_item = line.trim_start().starts_with(['-', '*']);
    is_item && ["[ ]", "[x]", "[X]"].iter().any(|tick| line.contains(tick))
}

/// What a template calls the text that its reader is to take out.
const GUIDANCE: &[&str] = &[
    "instruction",
    "guideline",
    "guidance",
    "this section",
    "this text",
    "this template",
    "this message",
    "everything above",
    "everything below",
    "text above",
    "text below",
];

/// A line that says that the text around it has to be taken out before the template is sent.
fn says_delete(line: &str) -> bool {
    let line = line.to_lowercase();
    let says = line.contains("delete") || line.contains("remove");
    says && GUIDANCE.iter().any(|word| line.contains(word)) && !is_box(&line)
}

/// Something that is to be answered: a box, a row of a table, a short label, or the number of an issue.
fn is_to_fill_in(line: &str) -> bool {
    let line = line.trim();
    let is_label = line.trim_end_matches(['*', '_']).ends_with(':') && line.len() <= MAX_LABEL;
    is_box(line) || line.starts_with('|') || is_label || line.ends_with('#')
}

/// Bytes of a label.
const MAX_LABEL: usize = 40;

/// Without what only speaks to the person who writes the description: what a template wants to have taken out, with its
/// heading, and prose before the first heading. Of `Describe your change here.` alone nothing is left: our own sections
/// say it.
fn without_guidance(template: &str) -> String {
    let mut sections: Vec<Vec<&str>> = vec![Vec::new()];
    for line in template.lines() {
        match sections.last_mut() {
            Some(section) if !is_heading(line) => section.push(line),
            _ => sections.push(vec![line]),
        }
    }
    let mut out: Vec<&str> = Vec::new();
    for section in sections {
        let left = left_of(&section);
        let has_heading = left.first().is_some_and(|line| is_heading(line)) || !out.is_empty();
        if has_heading || left.iter().any(|line| is_to_fill_in(line)) {
            out.extend(left);
        }
    }
    out.join("\n")
}

/// The lines of a section, with its heading, that are not to be taken out. What has boxes, or is answered by us, stays.
fn left_of<'a, 'l>(section: &'a [&'l str]) -> &'a [&'l str] {
    let Some(at) = section.iter().position(|line| says_delete(line)) else { return section };
    let is_answered = |line: &&str| is_heading(line) && topic(line).is_some();
    if section.first().is_some_and(is_answered) {
        return section;
    }
    let (before, after) = (&section[..at], &section[at + 1..]);
    let line = section[at].to_lowercase();
    let is_all = line.contains("this section");
    let is_below = line.contains("below") || line.contains('\u{1f447}');
    let has_box = |lines: &[&str]| lines.iter().any(|line| is_box(line));
    if (is_all || !is_below) && has_box(before) || (is_all || is_below) && has_box(after) {
        return section;
    }
    match (is_all, is_below) {
        (true, _) => &section[..0],
        (false, true) if before.iter().all(|line| is_heading(line) || line.trim().is_empty()) => {
            &section[..0]
        }
        (false, true) => before,
        (false, false) => after,
    }
}

/// Comments in a template speak to the person who fills it in.
fn without_comments(template: &str) -> String {
    let mut end = template.len().min(MAX_TEMPLATE);
    while !template.is_char_boundary(end) {
        end -= 1;
    }
    let mut rest = &template[..end];
    let mut out = String::new();
    while let Some(start) = rest.find("<!--") {
        out.push_str(&rest[..start]);
        rest = rest[start..].find("-->").map_or("", |end| &rest[start + end + 3..]);
    }
    out.push_str(rest);
    out
}
