//! Skills of the repository: folders with a `SKILL.md` that say how a kind of work is done here.
//!
//! Read from the *base* commit, like the instruction files, so that a change under way cannot bring
//! its own. All are listed with name, description and path; the text of one goes into the prompt only
//! when the task names it (`$name`), otherwise the model reads the file. The format is that of
//! <https://agentskills.io/specification>: YAML front matter with `name` and `description`, then
//! Markdown. Everything is bounded, and what does not fit or is not valid is noted for the report.

use std::collections::HashMap;

use serde::Deserialize;

use super::setup::escape;
use super::thread::one_line;
use super::{front_matter, hidden};
use patchwright_base::error::Result;
use patchwright_prompt as prompt;

/// Where skills are looked for, in order of precedence.
pub const FOLDERS: [&str; 4] =
    [".github/skills/", ".agents/skills/", ".codex/skills/", ".claude/skills/"];

const FILE: &str = "/SKILL.md";
/// Files that are read.
const MAX_FILES: usize = 200;
/// Bytes of one file; more is not a skill.
const MAX_FILE: usize = 256 << 10;
/// Characters of a name and of a description, as the format has them.
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;
/// Bytes of a path.
const MAX_PATH: usize = 200;
/// Bytes of the list in the prompt.
const MAX_LIST: usize = 8 << 10;
/// Skills whose text is included, and bytes of one text.
const MAX_USED: usize = 4;
const MAX_BODY: usize = 16 << 10;
/// Files that are noted one by one.
const MAX_NOTES: usize = 10;

/// One skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// When it helps, in one line.
    pub description: String,
    pub path: String,
    /// The Markdown after the front matter.
    pub body: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skills {
    /// By folder, then by path; names are unique.
    pub found: Vec<Skill>,
    /// What was skipped or cut, for the report.
    pub notes: Vec<String>,
}

#[derive(Deserialize)]
struct FrontMatter {
    name: Option<String>,
    description: Option<String>,
}

/// Finds and reads the skills among `paths`, the files of the base tree.
pub fn skills<'a>(
    paths: impl IntoIterator<Item = &'a str>,
    read: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Skills {
    let mut out = Skills::default();
    let mut skipped = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    let files = files(paths);
    for path in files.iter().take(MAX_FILES) {
        let Some(bytes) = read(path) else { continue };
        match skill(path, &bytes) {
            Err(why) => skipped.push(format!("the skill `{}` was skipped: {why}", shown(path))),
            Ok(skill) => match by_name.get(&skill.name).and_then(|at| out.found.get(*at)) {
                // Often the same skill for several agents.
                Some(first) if first.body == skill.body => {}
                Some(first) => skipped.push(format!(
                    "the skill `{}` was skipped: `{}` has the same name",
                    shown(path),
                    first.path
                )),
                None => {
                    by_name.insert(skill.name.clone(), out.found.len());
                    out.found.push(skill);
                }
            },
        }
    }
    let more = skipped.len().saturating_sub(MAX_NOTES) + files.len().saturating_sub(MAX_FILES);
    out.notes.extend(skipped.into_iter().take(MAX_NOTES));
    if more > 0 {
        out.notes.push(format!("{more} more skills were skipped"));
    }
    let unlisted = out.found.len() - out.listed().count();
    if unlisted > 0 {
        out.notes.push(format!("{unlisted} skills are not listed: the list is limited to 8 KB"));
    }
    out
}

/// The files of skills, in order of precedence.
fn files<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let rank = |path: &str| FOLDERS.iter().position(|folder| path.starts_with(folder));
    let mut found: Vec<(usize, &str)> = paths
        .into_iter()
        .filter(|path| path.ends_with(FILE))
        .filter_map(|path| Some((rank(path)?, path)))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Reads one file; the error says why it is not a skill.
fn skill(path: &str, bytes: &[u8]) -> Result<Skill, &'static str> {
    if bytes.len() > MAX_FILE {
        return Err("it is larger than 256 KB");
    }
    let (front, body): (FrontMatter, String) = front_matter::read(path, bytes)?;
    let name = front
        .name
        .filter(|name| is_name(name))
        .ok_or("its `name` is missing, or is not one to 64 letters, digits and hyphens")?;
    let description = one_line(&front.description.unwrap_or_default(), MAX_DESCRIPTION);
    if description.is_empty() {
        return Err("its `description` is missing");
    }
    Ok(Skill { name, description, path: path.to_owned(), body: body.trim().to_owned() })
}

impl Skills {
    /// The skills that a task names as `$name`, in the order of the list.
    pub fn used(&self, task: &str) -> Vec<&Skill> {
        self.found.iter().filter(|skill| mentions(task, &skill.name)).take(MAX_USED).collect()
    }

    /// The skills that fit the list.
    fn listed(&self) -> impl Iterator<Item = &Skill> {
        let mut left = MAX_LIST;
        self.found.iter().take_while(move |skill| {
            let size = skill.name.len() + skill.description.len() + skill.path.len();
            let fits = size <= left;
            left = left.saturating_sub(size);
            fits
        })
    }

    /// The block for the model: the list, and the text of skills that the task names. Empty when
    /// there are no skills.
    pub fn render(&self, task: &str) -> Result<String> {
        if self.found.is_empty() {
            return Ok(String::new());
        }
        let listed: Vec<&Skill> = self.listed().collect();
        let descriptions: Vec<String> =
            listed.iter().map(|skill| escape(&skill.description)).collect();
        let listed: Vec<prompt::Skill<'_>> = listed
            .iter()
            .zip(&descriptions)
            .map(|(skill, description)| skill.for_prompt(description, ""))
            .collect();
        let used = self.used(task);
        let bodies: Vec<String> = used.iter().map(|skill| bounded_body(&skill.body)).collect();
        let used: Vec<prompt::Skill<'_>> =
            used.iter().zip(&bodies).map(|(skill, body)| skill.for_prompt("", body)).collect();
        prompt::skills(&listed, &used)
    }
}

impl Skill {
    fn for_prompt<'a>(&'a self, description: &'a str, body: &'a str) -> prompt::Skill<'a> {
        prompt::Skill { name: &self.name, description, path: &self.path, body }
    }
}

/// The text has `$name`, and not as a part of something longer.
fn mentions(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(&format!("${name}")).any(|(at, found)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let mut after = text.get(at + found.len()..).unwrap_or_default().chars();
        let goes_on = match after.next() {
            Some('-') => after.next().is_some_and(is_word),
            Some(c) => is_word(c),
            None => false,
        };
        !goes_on && !before.is_some_and(|c| is_word(c) || matches!(c, '$' | '\\'))
    })
}

pub(super) fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// A path as it may stand in a line: without characters that end lines, code or tags.
pub(super) fn shown(path: &str) -> String {
    let clean = |c: char| match c {
        '`' | '<' | '>' => '?',
        c if c.is_whitespace() && c != ' ' => '?',
        c => c,
    };
    let mut shown: String =
        patchwright_base::invisible::invisible(path).text.chars().map(clean).collect();
    shown.truncate(shown.floor_char_boundary(MAX_PATH));
    shown
}

fn bounded_body(body: &str) -> String {
    let kept = &body[..body.floor_char_boundary(MAX_BODY)];
    let mut text = hidden::without_closing(kept, "skill");
    if kept.len() < body.len() {
        text.push_str("\n[the rest was left out; read the file]");
    }
    text
}
