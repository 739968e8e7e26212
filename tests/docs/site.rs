//! The documentation as readers have it: each page in the summary, each link and anchor, each block of YAML by the program's
//! own readers, each command by its own parser, the tutorial as it is written, and the site that `.ci/docs` builds.
#![expect(clippy::disallowed_methods, reason = "runs `.ci/docs`, and the commands of the tutorial")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use patchwright::cli::{Cli, action};
use patchwright_config::file;
use patchwright_fleet::batch::campaign;
use patchwright_provider::scripted::ScriptedProvider;
use serde_json::Value;

use super::{path, read, yaml};
use crate::support::model::ModelServer;
use crate::support::world::TestWorld;

/// Every page, with the documents beside `docs/` that users read.
fn pages() -> Vec<String> {
    let mut names =
        ["README.md", "SECURITY.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"]
            .map(str::to_owned)
            .to_vec();
    for entry in fs_err::read_dir(path("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            names.push(format!("docs/{name}"));
        }
    }
    names.sort();
    names
}

/// Targets of links, without those in fenced blocks.
fn links(text: &str) -> Vec<String> {
    let mut is_fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        is_fenced ^= line.trim_start().starts_with("```");
        if !is_fenced {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

#[test]
fn every_page_is_in_the_summary_once() {
    let mut listed = links(&read("docs/SUMMARY.md"));
    listed.sort();
    let pages = pages().into_iter().filter_map(|name| Some(name.strip_prefix("docs/")?.to_owned()));
    let pages: Vec<String> = pages.filter(|name| name != "SUMMARY.md").collect();
    assert_eq!(listed, pages);
}

/// The anchors of a page, as GitHub makes them of its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    let mut is_fenced = false;
    for line in text.lines() {
        is_fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        // Of a link the text counts.
        let words = heading
            .trim()
            .split("](")
            .map(|part| part.rsplit_once(')').map_or(part, |(_, rest)| rest));
        let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
        let words: String = words.collect();
        let slug: String = words
            .to_lowercase()
            .chars()
            .filter(is_kept)
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let number = times.entry(slug.clone()).or_default();
        anchors.insert(if *number == 0 { slug } else { format!("{slug}-{number}") });
        *number += 1;
    }
    anchors
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut checked = 0;
    for name in pages() {
        let folder = path(&name).parent().unwrap().to_owned();
        for target in links(&read(&name)).iter().filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path(&name) } else { folder.join(file) };
            assert!(file.exists(), "{name} links to {target}");
            if !anchor.is_empty() && file.extension().is_some_and(|it| it == "md") {
                let text = fs_err::read_to_string(&file).unwrap();
                assert!(anchors(&text).contains(anchor), "{name} links to {target}");
                checked += 1;
            }
        }
    }
    assert!(checked > 40, "{checked}");
}

/// Fenced blocks of any of these languages, indented ones included.
fn blocks(text: &str, languages: &[&str]) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, bool, String)> = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(language), None) => {
                open = Some((indent, languages.contains(&language), String::new()));
            }
            (Some(_), Some((_, true, block))) => blocks.push(block),
            (Some(_), Some(_)) | (None, None) => {}
            (None, Some((indent, is_ours, mut block))) => {
                block.push_str(line.get(indent..).unwrap_or_default());
                block.push('\n');
                open = Some((indent, is_ours, block));
            }
        }
    }
    blocks
}

/// A step that uses the Action passes it inputs that it has.
fn check_inputs(at: &str, with: &Value) {
    let known: BTreeSet<&str> = action::inputs().into_iter().map(|(name, _)| name).collect();
    for name in with.as_object().into_iter().flatten().map(|(name, _)| name) {
        assert!(known.contains(name.as_str()), "{at}: the action has no input `{name}`");
    }
}

fn check_steps<'a>(at: &str, steps: impl IntoIterator<Item = &'a Value>) {
    for step in steps {
        if step["uses"]
            .as_str()
            .is_some_and(|action| action.starts_with("patchwright/patchwright@"))
        {
            check_inputs(at, &step["with"]);
        }
    }
}

/// Reads a block with what reads such a file in the program, and says what that was.
fn read_block(at: &str, block: &str) -> &'static str {
    let value = yaml(block);
    if let Some(items) = value.as_array() {
        if items.iter().any(|item| item.get("uses").is_some()) {
            check_steps(at, items);
            return "steps";
        }
        ScriptedProvider::parse(at, block).unwrap_or_else(|err| panic!("{at}: {err}"));
        return "script";
    }
    if let Some(jobs) = value["jobs"].as_object() {
        assert!(value["on"].is_object(), "{at}");
        for job in jobs.values() {
            check_steps(at, job["steps"].as_array().into_iter().flatten());
        }
        return "workflow";
    }
    if value.get("with").is_some() {
        check_inputs(at, &value["with"]);
        return "step";
    }
    if value.get("select").is_some() {
        // A prompt may be in a file, which is there.
        let folder = tempfile::tempdir().unwrap();
        if let Some(prompt) = value["task"]["prompt-file"].as_str() {
            let file = folder.path().join(prompt);
            fs_err::create_dir_all(file.parent().unwrap()).unwrap();
            fs_err::write(file, "Do it.").unwrap();
        }
        let parsed = campaign::parse(at, block, Some(folder.path()));
        parsed.unwrap_or_else(|err| panic!("{at}: {err}"));
        return "campaign";
    }
    let parsed = file::parse(at, block).unwrap_or_else(|err| panic!("{at}: {err}"));
    assert_ne!(parsed, file::File::default(), "{at}");
    "configuration"
}

#[test]
fn every_block_of_yaml_is_read_by_the_program() {
    let mut read_as: BTreeMap<&str, usize> = BTreeMap::new();
    for name in pages() {
        for (number, block) in blocks(&read(&name), &["yaml", "yml"]).iter().enumerate() {
            let kind = read_block(&format!("{name}, block {}", number + 1), block);
            *read_as.entry(kind).or_default() += 1;
        }
    }
    for kind in ["configuration", "campaign", "workflow", "steps", "step", "script"] {
        assert!(read_as.contains_key(kind), "{read_as:?}");
    }
}

/// The commands of a block, in a shell's words: what is typed of a console, every line of a script.
fn commands(block: &str) -> Vec<Vec<String>> {
    let is_console = block.lines().any(|line| line.starts_with("$ "));
    let typed = block.lines().filter_map(|line| match line.strip_prefix("$ ") {
        Some(typed) => Some(typed),
        None => (!is_console).then_some(line),
    });
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote, mut has_word) = (String::new(), None, false);
    let text = typed.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => (quote, has_word) = (Some(c), true),
            (None, '#') if !has_word => while chars.next_if(|c| *c != '\n').is_some() {},
            (None, ' ' | '\n' | ';' | '|' | '&') => {
                if std::mem::take(&mut has_word) {
                    commands.last_mut().unwrap().push(std::mem::take(&mut word));
                }
                if c != ' ' {
                    commands.push(Vec::new());
                }
            }
            (_, c) => {
                word.push(c);
                has_word = true;
            }
        }
    }
    commands.last_mut().unwrap().extend(has_word.then_some(word));
    commands.retain(|command| !command.is_empty());
    commands
}

#[test]
fn every_command_is_one_that_the_program_takes() {
    let mut checked = 0;
    for name in pages() {
        for block in blocks(&read(&name), &["sh", "console"]) {
            for mut words in commands(&block) {
                while words.first().is_some_and(|word| word.contains('=')) {
                    words.remove(0);
                }
                let is_ours = words.first().is_some_and(|word| word == "patchwright");
                if !is_ours || words == ["patchwright", "--version"] {
                    continue;
                }
                // Where its output goes is the shell's.
                if let Some(at) = words.iter().position(|word| word == ">") {
                    words.truncate(at);
                }
                // What follows is left to the reader.
                words.retain(|word| word != "…");
                let parsed = Cli::try_parse_from(&words);
                assert!(parsed.is_ok(), "{name}: {words:?}: {}", parsed.unwrap_err());
                checked += 1;
            }
        }
    }
    assert!(checked > 30, "{checked}");
}

/// `gh` as far as the tutorial needs it: a repository to push to. What it was asked is written down.
const GH: &str = "#!/bin/sh
echo \"gh $*\" >> \"$HOME/gh.log\"
case \"$1 $2\" in 'repo create')
  git init --quiet --bare \"$HOME/remote.git\" && git remote add origin \"$HOME/remote.git\" &&
    git push --quiet --set-upstream origin main;;
esac
";

/// Whether an output says what the document shows; `…` stands for anything.
fn says(output: &str, shown: &str) -> bool {
    let mut rest = output;
    shown
        .split('…')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .all(|part| rest.find(part).map(|at| rest = &rest[at + part.len()..]).is_some())
}

#[test]
fn the_tutorial_is_done_as_it_is_written() {
    let model = ModelServer::start(crate::support::world::fix());
    let world = TestWorld::asking(crate::support::github::GitHub::new(), model);
    let bin = world.path("bin");
    fs_err::create_dir(&bin).unwrap();
    fs_err::os::unix::fs::symlink(env!("CARGO_BIN_EXE_patchwright"), bin.join("patchwright"))
        .unwrap();
    fs_err::write(bin.join("gh"), GH).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(bin.join("gh"), mode).unwrap();
    // One shell, as a reader has it; each command's output stands between two lines of ours.
    let mut script = "set -eu\n".to_owned();
    let mut steps: Vec<(String, String)> = Vec::new();
    for block in blocks(&read("docs/tutorial.md"), &["console"]) {
        for line in block.lines() {
            match line.strip_prefix("$ ") {
                Some(typed) => {
                    // The key is one that nobody has; the world's stands for it.
                    let typed =
                        typed.replace("OPENAI_API_KEY=…", "OPENAI_API_KEY=\"$OPENAI_API_KEY\"");
                    script.push_str(&format!("{typed}\necho '==== {}'\n", steps.len()));
                    steps.push((typed, String::new()));
                }
                None => steps.last_mut().unwrap().1.push_str(&format!("{line}\n")),
            }
        }
    }
    assert!(steps.len() > 20, "{steps:?}");
    let mut command = world.command(&[]);
    let environment: Vec<_> = command
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.unwrap().to_owned()))
        .collect();
    command = Command::new("bash");
    command.args(["-c", &script]).current_dir(world.path("")).env_clear().envs(environment);
    for who in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{who}_NAME"), "Rita")
            .env(format!("GIT_{who}_EMAIL"), "rita@example.com");
    }
    let output = command
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()))
        .output()
        .unwrap();
    let (said, log) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{log}");
    let mut rest = said.as_ref();
    for (number, (typed, shown)) in steps.iter().enumerate() {
        let (part, others) = rest.split_once(&format!("==== {number}\n")).unwrap();
        assert!(says(part, shown), "`{typed}` says:\n{part}\nand is shown as:\n{shown}");
        rest = others;
    }
    let asked = fs_err::read_to_string(world.path("home/gh.log")).unwrap();
    assert!(
        asked.contains("gh secret set OPENAI_API_KEY\n")
            && asked.contains("gh label create patchwright\n"),
        "{asked}"
    );
}

/// Every file of the site.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The values of an attribute on a page.
fn values<'a>(page: &'a str, attribute: &str) -> BTreeSet<&'a str> {
    let begin = format!(" {attribute}=\"");
    page.split(begin.as_str()).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn the_site_is_built_and_whole() {
    if !path("target/docs-tools/bin/mdbook").exists() {
        assert!(std::env::var_os("CI").is_none(), "there is no mdBook: run `.ci/docs --install`");
        eprintln!("skipped: no mdBook; `.ci/docs --install` gets it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    let mut build = Command::new(path(".ci/docs"));
    let output =
        build.arg(&site).env("PATCHWRIGHT", env!("CARGO_BIN_EXE_patchwright")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = files(&site);
    assert!(files.iter().any(|file| file.to_string_lossy().contains("searchindex")), "{files:?}");
    let text = |file: &Path| fs_err::read_to_string(file).unwrap();
    let mut checked = 0;
    // The page about pages that are not there has links from the root of a server.
    let is_page = |file: &&PathBuf| {
        file.extension().is_some_and(|it| it == "html") && !file.ends_with("404.html")
    };
    for page in files.iter().filter(is_page) {
        let shown = text(page);
        for link in values(&shown, "href").into_iter().filter(|link| !link.contains(':')) {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if target.is_empty() { page.clone() } else { page.parent().unwrap().join(target) };
            let target = if target.is_dir() { target.join("index.html") } else { target };
            assert!(target.exists(), "{} links to {link}", page.display());
            if !anchor.is_empty() {
                assert!(
                    values(&text(&target), "id").contains(anchor),
                    "{} links to {link}",
                    page.display()
                );
            }
            checked += 1;
        }
    }
    assert!(checked > 500, "{checked}");
    let reports = text(&site.join("reports.html"));
    for part in ["sh test.sh", "✅ passed", "as subtractive pairs"] {
        assert!(reports.contains(part), "{part}");
    }
    assert!(text(&site.join("reports/report.html")).contains("roman.sh"));
    assert!(text(&site.join("reports/journal.jsonl")).contains("\"is\":\"run_ended\""));
}
