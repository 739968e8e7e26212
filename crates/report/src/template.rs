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
    let template = without_comments(template);
    let mut boxes = Boxes::default();
    for line in template.lines() {
        let is_heading = line.starts_with('#') && line.trim_start_matches('#').starts_with(' ');
        if !is_heading {
            boxes.line(line);
            continue;
        }
        boxes.flush(&mut out, sections);
        boxes.heading.clear();
        let marks = line.len() - line.trim_start_matches('#').len();
        let title = line.trim_start_matches('#').trim();
        let title = markdown::passage(&title.replace(['[', ']', '`'], ""), 200);
        boxes.heading.extend(["\n", &"#".repeat(marks.min(6)), " ", title.trim(), "\n\n"]);
        boxes.topic = topic(title.trim());
    }
    boxes.flush(&mut out, sections);
    out
}

/// The lines under one heading.
#[derive(Default)]
struct Boxes {
    /// Written when something follows: a heading above nothing tells nobody anything.
    heading: String,
    topic: Option<Topic>,
    lines: Vec<String>,
}

impl Boxes {
    fn line(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }

    fn flush(&mut self, out: &mut String, sections: &mut Vec<Section>) {
        let filled = self.topic.and_then(|topic| {
            let at = sections.iter().position(|section| section.topic == topic)?;
            Some(sections.remove(at).text)
        });
        if let Some(text) = &filled {
            out.push_str(&std::mem::take(&mut self.heading));
            out.push_str(text.trim_end());
            out.push_str("\n\n");
        }
        // Boxes to tick stay, unticked: nobody has answered them. Prompts for text are replaced.
        let is_box =
            |line: &&String| line.trim_start().starts_with(['-', '*']) && line.contains("[ ]");
        let kept: Vec<&str> = match filled {
            Some(_) => self.lines.iter().filter(is_box).map(String::as_str).collect(),
            None => self.lines.iter().map(String::as_str).collect(),
        };
        let text = markdown::passage(kept.join("\n").trim(), MAX_TEMPLATE);
        let text = text.replace("[x]", "[ ]").replace("[X]", "[ ]");
        if !text.trim().is_empty() {
            out.push_str(&std::mem::take(&mut self.heading));
            out.push_str(text.trim());
            out.push_str("\n\n");
        }
        self.lines.clear();
        self.topic = None;
    }
}

fn topic(title: &str) -> Option<Topic> {
    let title = title.to_lowercase();
    let fits = |words: &[&str]| words.iter().any(|word| title.contains(word));
    WORDS.iter().find(|(_, words)| fits(words)).map(|(topic, _)| *topic)
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
