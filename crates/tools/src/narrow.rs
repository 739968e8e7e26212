//! Fewer tools than a run has, by the names in an agent file. Pure. The names may be ours or those of other
//! agent programs; what they stand for is looked up like the name of a call, so a name never gives more than
//! the tools that there are.

use std::sync::Arc;

use super::alias;
use super::registry::{KeptTools, ResolvedTool, ToolSet};
use patchwright_guest::tool::Power;

/// Words for several tools, in other programs' agent files.
const GROUPS: &[(&str, &[&str])] = &[
    ("search", &["grep_files", "glob", "list_dir"]),
    ("codebase", &["grep_files", "glob", "list_dir", "read_file"]),
    ("view", &["read_file"]),
    ("notebookread", &["read_file"]),
    ("multiedit", &["replace"]),
    ("notebookedit", &["replace"]),
    ("editfiles", &["replace"]),
    ("execute", &["shell_command"]),
    ("powershell", &["shell_command"]),
    ("runcommands", &["shell_command"]),
    ("runinterminal", &["shell_command"]),
    ("todo", &["update_plan"]),
    ("todoread", &["update_plan"]),
    ("web", &["web_fetch"]),
    ("fetch", &["web_fetch"]),
    ("webfetch", &["web_fetch"]),
];
/// Words for what an agent never has.
const NEVER: &[&str] = &["agent", "task", "custom-agent", "runsubagent", "websearch", "web_search"];

/// The tools of `all` that these names stand for, and the names that stand for none.
pub fn narrowed(all: &ToolSet, names: &[String]) -> (ToolSet, Vec<String>) {
    if names.iter().any(|name| matches!(name.as_str(), "*" | "all")) {
        return (all.clone(), Vec::new());
    }
    let declared: Vec<&ResolvedTool> = all.declared().collect();
    let mut kept: Vec<&str> = Vec::new();
    let mut unknown = Vec::new();
    for name in names {
        let found = meant(all, &declared, name);
        if found.is_empty() && !NEVER.contains(&name.to_ascii_lowercase().as_str()) {
            unknown.push(name.clone());
        }
        kept.extend(found);
    }
    let mut tools = all.keeping(|known| kept.contains(&known.tool.as_ref()));
    tools.taken.kept = KeptTools::Named(Arc::from(names));
    (tools, unknown)
}

/// The tools that show and search files and can do nothing else.
pub fn reading(all: &ToolSet) -> ToolSet {
    let readers = all.declared().filter(|known| alias::only_reads(known.powers()));
    let names: Vec<&str> = readers.map(|known| known.tool.as_ref()).collect();
    all.keeping(|known| names.contains(&known.tool.as_ref()))
}

/// Somebody with these tools can read a file, in whatever way.
pub fn can_read(tools: &ToolSet) -> bool {
    let reads = |known: &ResolvedTool| {
        alias::opens_files(known.powers()) || known.powers().contains(&Power::Run)
    };
    tools.declared().any(reads)
}

/// The tools that a name stands for: the one of that name, or those that can do what it does.
fn meant<'a>(all: &ToolSet, declared: &[&'a ResolvedTool], name: &str) -> Vec<&'a str> {
    let lower = name.to_ascii_lowercase();
    // Claude's files may say what a tool may be used for: `Bash(git log:*)`.
    let bare = lower.split_once('(').map_or(lower.as_str(), |(bare, _)| bare).trim();
    if let Some(found) = from_server(declared, bare) {
        return found;
    }
    let group = GROUPS.iter().find(|(word, _)| *word == bare).map(|(_, tools)| *tools);
    if let Some(tools) = group {
        let found: Vec<&str> = tools.iter().flat_map(|tool| like(declared, tool)).collect();
        return found;
    }
    match all.find(bare) {
        Ok(known) => like(declared, &known.tool),
        // A family without that tool may have another one for the same purpose.
        Err(_) => spoken(bare).map(|tool| like(declared, tool)).unwrap_or_default(),
    }
}

/// A tool that most families have a name for.
fn spoken(name: &str) -> Option<&'static str> {
    alias::UNDERSTOOD.iter().find(|alias| alias.name == name).map(|alias| alias.tool)
}

/// The declared tool, or where it is not declared those that are needed for the same thing.
fn like<'a>(declared: &[&'a ResolvedTool], tool: &str) -> Vec<&'a str> {
    let own = declared.iter().map(|known| known.tool.as_ref());
    if let Some(exact) = own.clone().find(|own| *own == tool) {
        return vec![exact];
    }
    let Some(power) = alias::powers(tool).first() else { return Vec::new() };
    let same = declared.iter().filter(|known| known.powers().first() == Some(power));
    same.map(|known| known.tool.as_ref()).collect()
}

/// `mcp__server__*`, `server/*`, `server/tool`: tools of a server. `None` when the name is none of these.
fn from_server<'a>(declared: &[&'a ResolvedTool], name: &str) -> Option<Vec<&'a str>> {
    let pattern = match name.split_once('/') {
        Some((server, tool)) => format!("mcp__{server}__{tool}"),
        None if name.starts_with("mcp__") && !name.trim_start_matches("mcp__").contains("__") => {
            format!("{name}__*")
        }
        None if name.starts_with("mcp__") => name.to_owned(),
        None => return None,
    };
    let fits = |tool: &str| {
        let tool = tool.to_ascii_lowercase();
        match pattern.strip_suffix('*') {
            Some(start) => tool.starts_with(start),
            None => tool == pattern,
        }
    };
    let own = declared.iter().map(|known| known.tool.as_ref());
    Some(own.filter(|tool| fits(tool)).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::narrow::{narrowed, reading};
    use crate::registry::ToolSet;
    use patchwright_config::Mode;
    use patchwright_provider::catalogue::{Catalogue, Model};

    fn model() -> Model {
        let catalogue = Catalogue::load(&BTreeMap::new()).unwrap();
        catalogue.resolve("gpt-5.3-codex", None).unwrap()
    }

    fn all() -> ToolSet {
        ToolSet::for_run(&model(), Mode::Execute, &[]).unwrap()
    }

    fn readers() -> ToolSet {
        ToolSet::with_readers(&model()).unwrap()
    }

    fn names(tools: &ToolSet) -> Vec<&str> {
        tools.declared().map(|known| known.name.as_ref()).collect()
    }

    #[test]
    fn what_stands_for_nothing_else_brings_no_other_tools() {
        let all = all();
        for name in ["computer", "mcp_approval_request"] {
            let (tools, unknown) = narrowed(&all, &[name.to_owned()]);
            assert!(names(&tools).is_empty(), "{name}: {:?}", names(&tools));
            assert_eq!(unknown, [name]);
        }
        let (tools, unknown) = narrowed(&readers(), &["glob".to_owned()]);
        assert_eq!(names(&tools), ["read_file", "list_dir", "grep_files"]);
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn readers_look_at_files_and_do_nothing_else() {
        let found = reading(&readers());
        assert_eq!(names(&found), ["read_file", "list_dir", "grep_files", "view_image"]);
    }
}
