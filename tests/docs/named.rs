//! What documents name, the program has: flags of each command, variables, defaults; and the other way
//! round.

use std::collections::{BTreeMap, BTreeSet};

use clap::Command;
use serde_json::Value;

use super::{command, path, read, yaml};

/// Flags of other programs that documents name beside ours, with whose they are.
const OTHERS: &[(&str, &[&str])] = &[
    ("cargo and ./test", &["--release", "--fast", "--test", "--bench", "--profile"]),
    ("cargo and its tests", &["--workspace", "--tests", "--exact", "--no-capture", "--doc"]),
    ("cargo binstall", &["--git"]),
    ("gh", &["--private", "--source", "--push", "--method", "--title", "--body", "--add-label"]),
    ("git", &["--quiet", "--initial-branch", "--message"]),
    ("pg_dump", &["--format"]),
    (".ci/release", &["--plan"]),
    ("kubectl", &["--from-literal", "--from-file"]),
    ("docker", &["--rm", "--network", "--scale"]),
    ("model servers", &["--jinja", "--alias", "--chat-template", "--chat-template-file"]),
    ("vLLM", &["--served-model-name", "--max-model-len", "--tool-call-parser"]),
    ("vLLM", &["--enable-auto-tool-choice"]),
    ("LM Studio", &["--context-length"]),
    ("package managers", &["--user", "--frozen-lockfile", "--immutable", "--python"]),
    ("git, ripgrep", &["--oneline", "--files", "--bare"]),
    ("commands in examples", &["--file", "--changed", "--stdio", "--colour", "--color"]),
];

/// Documents that people write, with their texts. A page about what is not built names flags that are not
/// there, and the reference of the command line is generated.
fn documents() -> Vec<(String, String)> {
    let mut names: Vec<String> =
        ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(str::to_owned).to_vec();
    for entry in fs_err::read_dir(path("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") && name != "cli.md" {
            names.push(format!("docs/{name}"));
        }
    }
    names.sort();
    names.into_iter().map(|name| (read(&name), name)).map(|(text, name)| (name, text)).collect()
}

/// Pieces of code: lines of fenced blocks, joined where they go on, and what stands in backquotes.
fn codes(text: &str) -> Vec<String> {
    let mut codes = Vec::new();
    let mut is_fenced = false;
    let mut line_so_far = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if is_fenced {
            line_so_far.push_str(line.trim_end_matches('\\'));
            if !line.ends_with('\\') {
                codes.push(std::mem::take(&mut line_so_far));
            }
        } else {
            codes.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    codes
}

/// The command of ours that a piece of code runs, with the words behind it.
fn ours<'c>(command: &'c Command, code: &str) -> Option<(&'c Command, Vec<String>)> {
    let words: Vec<String> = code
        .split_whitespace()
        .map(|word| word.trim_matches(['"', '\'', ',', '(', ')', '[', ']']).to_owned())
        .collect();
    let at = words.iter().position(|word| word == "patchwright" || word == "./patchwright")?;
    let end = |word: &String| matches!(word.as_str(), "|" | "&&" | "||" | ";" | "#" | "--");
    let mut rest: Vec<String> =
        words[at + 1..].iter().take_while(|word| !end(word)).cloned().collect();
    let mut found = command.find_subcommand(rest.first()?)?;
    rest.remove(0);
    while let Some(inner) = rest.first().and_then(|word| found.find_subcommand(word)) {
        found = inner;
        rest.remove(0);
    }
    Some((found, rest))
}

fn flags_of(command: &Command) -> BTreeSet<String> {
    let mut flags: BTreeSet<String> =
        command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
    flags.extend(["--help".to_owned(), "--version".to_owned()]);
    flags
}

fn all_flags(command: &Command) -> BTreeSet<String> {
    let mut flags = flags_of(command);
    flags.extend(command.get_subcommands().flat_map(all_flags));
    flags
}

/// The flag that a word is: `--name`, without its value.
fn flag(word: &str) -> Option<String> {
    let name = word.strip_prefix("--")?;
    let name: String = name.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
    name.starts_with(|c: char| c.is_ascii_lowercase())
        .then(|| format!("--{}", name.trim_end_matches('-')))
}

#[test]
fn every_flag_that_a_document_names_is_one_of_that_command() {
    let command = command();
    let all = all_flags(&command);
    let others: BTreeSet<&str> = OTHERS.iter().flat_map(|(_, flags)| *flags).copied().collect();
    let (mut checked, mut used, mut unknown) = (0, BTreeSet::new(), Vec::new());
    for (name, text) in documents() {
        for code in codes(&text) {
            let (known, words) = match ours(&command, &code) {
                Some((command, words)) => (flags_of(command), words),
                None => (all.clone(), code.split_whitespace().map(str::to_owned).collect()),
            };
            for flag in words.iter().filter_map(|word| flag(word)) {
                checked += 1;
                let is_other = !known.contains(&flag) && others.contains(flag.as_str());
                if !known.contains(&flag) && !is_other {
                    unknown.push(format!("{name}: `{flag}` in `{code}`"));
                }
                if is_other {
                    used.insert(flag);
                }
            }
        }
    }
    assert_eq!(unknown, Vec::<String>::new());
    assert!(checked > 150, "{checked}");
    let used: BTreeSet<&str> = used.iter().map(String::as_str).collect();
    let unused: Vec<_> = others.difference(&used).filter(|flag| !all.contains(**flag)).collect();
    assert!(unused.is_empty(), "no document names these any more: {unused:?}");
}

/// Names of a text that begin like our variables.
fn variables(text: &str) -> BTreeSet<String> {
    let starts = text.match_indices("PATCHWRIGHT_").map(|(at, _)| at);
    let whole = |at: usize| -> String {
        let is_part = |c: &char| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_';
        text[at..].chars().take_while(is_part).collect()
    };
    starts.map(whole).collect()
}

#[test]
fn every_variable_is_documented_and_every_documented_one_is_read() {
    let mut documented = variables(&read("docs/cli.md"));
    documented.extend(documents().iter().flat_map(|(_, text)| variables(text)));
    let mut sources = String::new();
    let mut folders = vec![path("src"), path("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") && !path.ends_with("build.rs")
            {
                // Tests of a source file make up names.
                let text = fs_err::read_to_string(path).unwrap();
                sources.push_str(text.split("\n#[cfg(test)]\nmod tests").next().unwrap());
            }
        }
    }
    let read = variables(&sources);
    // Values for tools have names that operators choose, behind this one; tests set the time.
    let is_free = |name: &&String| {
        ["PATCHWRIGHT_TOOL_", "PATCHWRIGHT_SETUP_SECRET_"].iter().any(|it| name.starts_with(it))
    };
    let of_tests = ["PATCHWRIGHT_NOW".to_owned()];
    // Secrets of the shipped workflows, which hand them on as other variables.
    let of_workflows = ["PATCHWRIGHT_READ_TOKEN".to_owned(), "PATCHWRIGHT_WRITE_TOKEN".to_owned()];
    // Examples of names that operators choose for the secrets of their endpoints.
    let of_operators = ["PATCHWRIGHT_GATEWAY".to_owned(), "PATCHWRIGHT_SEARCH_KEY".to_owned()];
    let is_example = |name: &String| of_workflows.contains(name) || of_operators.contains(name);
    let unknown: Vec<_> =
        documented.difference(&read).filter(|name| !is_free(name) && !is_example(name)).collect();
    assert!(unknown.is_empty(), "documented, and read nowhere: {unknown:?}");
    let silent: Vec<_> =
        read.difference(&documented).filter(|name| !of_tests.contains(name)).collect();
    assert!(silent.is_empty(), "read, and documented nowhere: {silent:?}");
    assert!(read.len() > 40, "{}", read.len());
}

/// Keys of a YAML tree with their values as a document shows them.
fn leaves(value: &Value, above: &str, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
                leaves(field, &key, into);
            }
        }
        Value::String(text) => drop(into.insert(above.to_owned(), text.clone())),
        other => drop(into.insert(above.to_owned(), other.to_string())),
    }
}

#[test]
fn the_table_of_keys_names_the_shipped_defaults() {
    let mut shipped = BTreeMap::new();
    leaves(&yaml(&read("crates/config/src/defaults.yml")), "", &mut shipped);
    assert!(shipped.len() > 15, "{shipped:?}");
    let text = read("docs/configuration.md");
    let table = text.split("| key |").nth(1).unwrap().split("\n\n").next().unwrap();
    let mut documented = BTreeMap::new();
    for row in table.lines().skip(2) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let mut section = String::new();
        let keys: Vec<String> = cells[0]
            .split('`')
            .skip(1)
            .step_by(2)
            .map(|key| {
                if let Some(rest) = key.strip_prefix('.') {
                    format!("{section}.{rest}")
                } else {
                    section = key.split('.').next().unwrap().to_owned();
                    key.to_owned()
                }
            })
            .collect();
        let defaults = cells.last().unwrap().trim_end_matches(['|', ' ']);
        let defaults: Vec<&str> = defaults.split(", ").map(|word| word.trim_matches('`')).collect();
        if keys.len() == defaults.len() {
            documented.extend(keys.into_iter().zip(defaults.iter().map(|it| (*it).to_owned())));
        } else {
            documented.extend(keys.into_iter().map(|key| (key, defaults.join(", "))));
        }
    }
    let wrong: Vec<_> = shipped
        .iter()
        .filter(|(key, value)| documented.get(*key) != Some(value))
        .map(|(key, value)| {
            format!("`{key}` is {value}, and documented as {:?}", documented.get(key))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The services of the shipped fleet run this program, with what they need for their part of the work.
#[test]
fn the_fleet_to_start_is_one_that_works() {
    let compose = yaml(&read("docs/compose.yml"));
    let command = command();
    let mut checked = 0;
    for (name, service) in compose["services"].as_object().unwrap() {
        let Some(words) = service["command"].as_array() else { continue };
        let words: Vec<&str> = words.iter().map(|word| word.as_str().unwrap()).collect();
        let flags = flags_of(command.find_subcommand(words[0]).unwrap());
        for flag in words.iter().filter_map(|word| flag(word)) {
            assert!(flags.contains(&flag), "{name}: {flag}");
        }
        let mounts = service["volumes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has_docker = mounts.iter().any(|it| it.as_str().unwrap().contains("docker.sock"));
        // Who takes jobs starts containers; the image's user may only with the socket's group.
        let takes_jobs = words[0] == "worker" || !words.contains(&"--no-worker");
        assert_eq!(takes_jobs, has_docker, "{name}");
        assert_eq!(has_docker, service["group_add"].is_array(), "{name}");
        let image = service["image"].as_str().unwrap();
        let built = read("justfile").split("image tag='").nth(1).unwrap().to_owned();
        let built = built.split('\'').next().unwrap();
        assert!(image.ends_with(&format!(":-{built}}}")), "{name}: {image}, built is {built}");
        checked += 1;
    }
    assert_eq!(checked, 2);
}
