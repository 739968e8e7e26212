//! Agent files: Markdown with front matter that says what a kind of sub-agent is for, which tools it has,
//! and which model is asked for it.
//!
//! Those of the repository are read from the *base* commit, like skills; the operator may have a folder of
//! their own, whose files win. The fields are those that Claude Code and GitHub Copilot write (`name`,
//! `description`, `tools`, `model`, `maxTurns`;
//! <https://docs.github.com/en/copilot/reference/custom-agents-configuration>), and limits of ours.
//! Everything is bounded, and what is not valid is noted for the report and left out. What a model or a
//! tool name means is decided elsewhere.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::skills::{is_name, shown};
use super::thread::one_line;
use super::{front_matter, hidden};
use patchwright_base::error::Result;
use patchwright_prompt as prompt;

/// Where agent files are looked for, in order of precedence.
pub const FOLDERS: [&str; 3] = [".github/agents/", ".agents/agents/", ".claude/agents/"];

/// Files that are read.
const MAX_FILES: usize = 50;
/// Bytes of one file; more is not an agent.
const MAX_FILE: usize = 64 << 10;
/// Bytes of the text that the agent is given.
const MAX_BODY: usize = 16 << 10;
/// Characters of a name, and of a description in the list.
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 300;
/// Bytes of the list.
const MAX_LIST: usize = 6 << 10;
/// Names of tools in one file.
const MAX_TOOLS: usize = 100;
/// Files that are noted one by one.
const MAX_NOTES: usize = 10;

/// What one file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentFile {
    /// What it is asked for as.
    pub name: String,
    /// When it helps, in one line.
    pub description: String,
    pub path: String,
    /// The operator's, not the repository's.
    pub is_operators: bool,
    /// Names of tools; `None` for all.
    pub tools: Option<Vec<String>>,
    /// Models, of which the first is taken that can be asked; none for the run's.
    pub models: Vec<String>,
    pub max_turns: Option<u32>,
    pub max_tokens: Option<u64>,
    pub max_cost_usd: Option<f64>,
    /// The Markdown after the front matter.
    pub body: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentFiles {
    /// By folder, then by path; names are unique.
    pub found: Vec<AgentFile>,
    /// What was skipped, for the report.
    pub notes: Vec<String>,
}

#[derive(Deserialize)]
struct FrontMatter {
    name: Option<String>,
    description: Option<String>,
    tools: Option<Value>,
    model: Option<Value>,
    #[serde(alias = "maxTurns", alias = "max-turns")]
    max_turns: Option<u32>,
    #[serde(alias = "max-tokens")]
    max_tokens: Option<u64>,
    #[serde(alias = "max-cost-usd")]
    max_cost_usd: Option<f64>,
    #[serde(alias = "disable-model-invocation")]
    disable_model_invocation: Option<bool>,
}

impl AgentFiles {
    /// Reads the agent files of the repository among `paths`, the files of the base tree.
    pub fn of_repository<'a>(
        paths: impl IntoIterator<Item = &'a str>,
        read: &dyn Fn(&str) -> Option<Vec<u8>>,
    ) -> AgentFiles {
        let rank = |path: &str| FOLDERS.iter().position(|folder| path.starts_with(folder));
        let mut files: Vec<(usize, &str)> = paths
            .into_iter()
            .filter(|path| {
                Path::new(path).extension().is_some_and(|it| it.eq_ignore_ascii_case("md"))
            })
            .filter_map(|path| Some((rank(path)?, path)))
            .collect();
        files.sort_unstable();
        let more = files.len().saturating_sub(MAX_FILES);
        files.truncate(MAX_FILES);
        let files = files.into_iter().filter_map(|(_, path)| Some((path.to_owned(), read(path)?)));
        let mut out = AgentFiles::default();
        out.add(files, false);
        if more > 0 {
            out.notes.push(format!("{more} more agent files were skipped"));
        }
        out
    }

    /// The operator's files, by path and content, before those of the repository.
    #[must_use]
    pub fn with_operators(self, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> AgentFiles {
        let mut out = AgentFiles::default();
        out.add(files.into_iter().take(MAX_FILES), true);
        for file in self.found {
            // The operator's agent of that name is the one that is meant.
            if !out.found.iter().any(|known| known.name == file.name) {
                out.found.push(file);
            }
        }
        out.notes.extend(self.notes);
        out
    }

    fn add(&mut self, files: impl IntoIterator<Item = (String, Vec<u8>)>, is_operators: bool) {
        let mut skipped = Vec::new();
        for (path, bytes) in files {
            let skip = |why: &str| format!("the agent file `{}` was skipped: {why}", shown(&path));
            match file(&path, &bytes) {
                Err(why) => skipped.push(skip(why)),
                Ok(file) => match self.found.iter().find(|known| known.name == file.name) {
                    // Often the same agent for several programs.
                    Some(first) if first.body == file.body => {}
                    Some(first) => {
                        skipped.push(skip(&format!("`{}` has the same name", first.path)));
                    }
                    None => self.found.push(AgentFile { is_operators, ..file }),
                },
            }
        }
        let more = skipped.len().saturating_sub(MAX_NOTES);
        self.notes.extend(skipped.into_iter().take(MAX_NOTES));
        if more > 0 {
            self.notes.push(format!("{more} more agent files were skipped"));
        }
    }
}

/// The kinds of agents, for the model: names with what they are for, as many as fit.
pub fn list<'a>(kinds: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::from("\nTypes:");
    for (name, description) in kinds {
        let line = format!("\n- {name}: {description}");
        if out.len() + line.len() > MAX_LIST {
            out.push_str("\n- (more are not listed)");
            break;
        }
        out.push_str(&line);
    }
    out
}

impl AgentFile {
    /// What the agent is told about its role; empty when the file has no text.
    ///
    /// # Errors
    /// When the template is broken, which is a defect.
    pub fn role(&self) -> Result<String> {
        if self.body.is_empty() {
            return Ok(String::new());
        }
        let kept = &self.body[..self.body.floor_char_boundary(MAX_BODY)];
        let mut text = hidden::without_closing(kept, "agent_role");
        if kept.len() < self.body.len() {
            text.push_str("\n[the rest was left out]");
        }
        prompt::agent_role(&self.name, &text)
    }
}

/// Reads one file; the error says why it is not an agent.
fn file(path: &str, bytes: &[u8]) -> Result<AgentFile, &'static str> {
    if bytes.len() > MAX_FILE {
        return Err("it is larger than 64 KB");
    }
    let (front, body): (FrontMatter, String) = front_matter::read(path, bytes)?;
    if front.disable_model_invocation == Some(true) {
        return Err("it says that no model starts it");
    }
    let name = slug(&front.name.unwrap_or_else(|| stem(path).to_owned()));
    if !is_name(&name) {
        return Err("its `name` has no letters or digits");
    }
    let description = one_line(&front.description.unwrap_or_default(), MAX_DESCRIPTION);
    if description.is_empty() {
        return Err("its `description` is missing");
    }
    if [front.max_cost_usd.is_some_and(|most| !most.is_finite() || most <= 0.0)].contains(&true)
        || front.max_turns == Some(0)
        || front.max_tokens == Some(0)
    {
        return Err("a limit of it is not above zero");
    }
    Ok(AgentFile {
        name,
        description,
        path: path.to_owned(),
        is_operators: false,
        tools: words(front.tools.as_ref(), "its `tools` are not names")?,
        models: words(front.model.as_ref(), "its `model` is not a name")?.unwrap_or_default(),
        max_turns: front.max_turns,
        max_tokens: front.max_tokens,
        max_cost_usd: front.max_cost_usd,
        body: body.trim().to_owned(),
    })
}

/// A list, or a text with commas. Absent is not the same as empty.
fn words(value: Option<&Value>, why: &'static str) -> Result<Option<Vec<String>>, &'static str> {
    let words: Vec<&str> = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.split(',').collect(),
        Some(Value::Array(list)) => {
            list.iter().map(Value::as_str).collect::<Option<Vec<&str>>>().ok_or(why)?
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => return Err(why),
    };
    let words = words.into_iter().map(str::trim).filter(|word| !word.is_empty());
    let is_plain = |word: &&str| word.len() <= 200 && !word.contains(['`', '\n']);
    let words: Vec<String> = words.filter(is_plain).map(str::to_owned).take(MAX_TOOLS).collect();
    Ok(Some(words))
}

/// The name of a file without `.agent.md` or `.md`.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.strip_suffix(".md").unwrap_or(name);
    name.strip_suffix(".agent").unwrap_or(name)
}

/// A display name as something that can be asked for: `API Architect` is `api-architect`.
fn slug(name: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let text: String = name.trim().to_lowercase().chars().map(clean).collect();
    let parts: Vec<&str> = text.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-").chars().take(MAX_NAME).collect()
}
