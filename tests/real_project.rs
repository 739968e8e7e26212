//! A real project with its own tests, fixed end to end: Python-Markdown (25,000 lines with tests),
//! with one comparison broken. The model is scripted; the forge, the container, the tools, the
//! project's 1,052 tests and the pull request are real.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use patchwright_base::clock::Clock;
use patchwright_base::env::Env;
use patchwright_base::ui::{Ui, Verbosity};
use patchwright_config::flags::Common;
use patchwright_forge::RepositoryId;
use patchwright_forge::local::{LocalForge, Seed};
use patchwright_provider::scripted::ScriptedProvider;
use patchwright_task::pipeline::{self, RunReport};
use patchwright_task::run::RunEnvironment;
use patchwright_task::world::World;
use patchwright_types::outcome::Conclusion;
use patchwright_types::task::IssueRequest;

use crate::support::docker::{self, docker};

const CHECK: &str = "python3 -m unittest discover -q tests";
const SOUND: &str = "                    if current_level <= p['level']:";
const BROKEN: &str = "                    if current_level < p['level']:";
const TITLE: &str = "Table of contents: a heading after a subsection lands one level too deep";
const BODY: &str = "With `[TOC]` and the `toc` extension, this page\n\n```\n[TOC]\n# One\n## Two\n# Three\n```\n\n\
    lists \"Three\" beside \"Two\", below \"One\". It should be on the level of \"One\". It worked in the last \
    release.\n";

/// What the model says: see the failures, find the place, read it, change it, run the tests.
const SCRIPT: &str = r#"
- text: I run the tests of the table of contents first.
  calls:
    - tool: shell_command
      args: { command: "python3 -m unittest discover -q tests 2>&1 | grep '^FAIL'" }
    - tool: grep_files
      args: { pattern: "def nest_toc_tokens", include: "*.py" }
- calls:
    - tool: read_file
      args: { file_path: markdown/extensions/toc.py, offset: 196, limit: 65 }
- text: A heading on the level of an open parent must close that parent too.
  calls:
    - tool: apply_patch
      input: |
        *** Begin Patch
        *** Update File: markdown/extensions/toc.py
        @@ def nest_toc_tokens(toc_list):
                         to_pop = 0
                         for p in reversed(parents):
        -                    if current_level < p['level']:
        +                    if current_level <= p['level']:
                                 to_pop += 1
        *** End Patch
- calls:
    - tool: shell_command
      args: { command: "python3 -m unittest discover -q tests 2>&1 | tail -3" }
- text: |
    Close parents of the same level in the table of contents

    `nest_toc_tokens` kept a parent open when a heading of the parent's own level followed.
"#;

/// The project's files with the defect.
#[expect(clippy::disallowed_methods, reason = "unpacks the fixture")]
fn project(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/real_project/markdown-3.11.3.tar.gz");
    let unpacked = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder).status();
    assert!(unpacked.unwrap().success());
    let root = folder.join("markdown");
    let (mut files, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(next) = folders.pop() {
        for entry in fs_err::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            let mut bytes = fs_err::read(&path).unwrap();
            if name == "markdown/extensions/toc.py" {
                let text = String::from_utf8(bytes).unwrap();
                assert_eq!(text.matches(SOUND).count(), 1, "the fixture is another version");
                bytes = text.replace(SOUND, BROKEN).into_bytes();
            }
            files.push((name, bytes));
        }
    }
    assert!(files.len() > 300, "{}", files.len());
    files
}

async fn fix(folder: &Path) -> (RunReport, String) {
    let common = Common {
        model: Some("gpt-5.3-codex".to_owned()),
        image: Some(docker::IMAGE.to_owned()),
        setup: vec!["none".to_owned()],
        verify: vec![CHECK.to_owned()],
        state_dir: Some(folder.join("state")),
        ..Common::default()
    };
    let config = common.resolve().unwrap();
    let id: RepositoryId = "python-markdown/markdown".parse().unwrap();
    let seed = Seed {
        id: id.clone(),
        files: project(folder),
        issues: vec![(7, TITLE.to_owned(), BODY.to_owned())],
        owner: "maintainer".to_owned(),
    };
    crate::support::git_quick::name_helper();
    let forge = LocalForge::create(&folder.join("forge"), &seed, Clock::default()).unwrap();
    let model = Arc::new(ScriptedProvider::parse("real project", SCRIPT).unwrap());
    let env = Env::default();
    let world = World::offline(Some(Arc::new(forge)), model, &config, &common, &env).await.unwrap();
    let request = IssueRequest { repository: id, number: 7, trigger: None };
    let ui = Ui { verbosity: Verbosity::Quiet, ..Ui::plain() };
    let ended =
        pipeline::issue(&world, config, request, RunEnvironment::new(ui, &env)).await.unwrap();
    let number = ended.published.as_ref().unwrap().pull_request;
    let page = folder.join(format!("forge/pull-requests/{number}.md"));
    (ended, fs_err::read_to_string(page).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_project_is_fixed_and_its_own_tests_prove_it() {
    if docker().await.is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (ended, page) = Box::pin(fix(folder.path())).await;
    assert_eq!(ended.outcome.conclusion, Conclusion::Done, "{page}");

    let patch = fs_err::read_to_string(ended.folder.join("change.patch")).unwrap();
    let changed: Vec<&str> = patch
        .lines()
        .filter(|line| {
            line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---")
        })
        .collect();
    assert_eq!(changed, [format!("-{BROKEN}"), format!("+{SOUND}")]);

    let row = page.lines().find(|line| line.contains(CHECK) && line.starts_with('|')).unwrap();
    let (before, after) = (row.find("failed (1)").unwrap(), row.find("passed").unwrap());
    assert!(before < after, "{row}");
    assert!(
        page.starts_with("# Close parents of the same level in the table of contents"),
        "{page}"
    );
    assert!(page.contains("Fixes #7"), "{page}");

    // The model saw the project's own failures, and then none.
    let journal = fs_err::read_to_string(ended.folder.join("journal.jsonl")).unwrap();
    for seen in ["test_toc_nested_list", "testTocWithAttrList", "Ran 1052 tests", "OK (skipped=6)"]
    {
        assert!(journal.contains(seen), "{seen}");
    }
}
