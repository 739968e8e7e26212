//! Programs that are there under another name than CI's commands have for them: `python`, where there is `python3` alone.

use std::collections::BTreeMap;

use patchwright_guest::protocol::Exec;

use super::{CALC, TESTS, in_docker, repair, result, sh};
use crate::support::guest::{self, Guest};
use crate::support::model::say;
use crate::support::world::{TestWorld, github_with};

const WORKFLOW: &str = "on: [push]\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/setup-python@v5\n        with: {python-version: '3'}\n      - run: python -m unittest discover -s tests -t .\n";
const FILES: &[(&str, &str)] = &[
    (".github/workflows/ci.yml", WORKFLOW),
    ("calc.py", CALC),
    ("tests/__init__.py", ""),
    ("tests/test_calc.py", TESTS),
];

/// In all shells that commands of the model and checks run in.
const ASKED: &str = "python -c 'print(6 * 7)'; sh -lc \"python -c 'print(7 * 6)'\"; pip --version";

fn is_repaired(world: &TestWorld) {
    world.issue().expect(0);
    let row = &result(world)["evidence"]["rows"][0];
    assert_eq!(row["command"], "python -m unittest discover -s tests -t .");
    assert_eq!(row["base"]["exit_code"], 1, "{row:#}");
    assert_eq!(row["head"]["exit_code"], 0, "{row:#}");
    assert_eq!(row["head"]["tests"]["counts"]["passed"], 2, "{row:#}");
    let requests = world.model.requests();
    let told = requests[1].body["input"].to_string();
    assert!(told.contains("42\\\\n42") || told.contains("42\\n42"), "{told}");
    assert!(!world.github.pulls()[0].draft);
}

#[test]
fn checks_and_commands_find_python_where_there_is_python3_alone() {
    let turns = [sh(ASKED), repair(), say("Repair it")];
    is_repaired(&TestWorld::new(github_with(FILES), turns).set("PATCHWRIGHT_SETUP", "none"));
}

#[test]
fn containers_find_it_too() {
    let turns = [sh(ASKED), repair(), say("Repair it")];
    is_repaired(&in_docker(FILES, turns).set("PATCHWRIGHT_SETUP", "none"));
}

#[tokio::test]
async fn a_program_of_that_name_comes_first_and_without_the_other_there_is_none() {
    let guest = Guest::start().await;
    let made = "mkdir own only && printf '#!/bin/sh\\necho mine\\n' > own/python && chmod +x own/python && \
                ln -s /usr/bin/python3 only/python3";
    assert_eq!(guest.sh(made).await.exit_code, 0);
    let folder = |name: &str| guest.workspace().join(name).display().to_string();
    let run = async |path: String| {
        let env = BTreeMap::from([("PATH".to_owned(), path)]);
        let argv = ["/bin/sh", "-c", "python -c 'print(1 + 1)'"].map(str::to_owned).to_vec();
        let exec = Exec { argv, env, ..guest::sh("") };
        let ended = guest.client.exec(exec).await.unwrap();
        (ended.exit_code, ended.output)
    };
    let usual = "/usr/local/bin:/usr/bin:/bin";
    assert_eq!(run(usual.to_owned()).await, (0, "2\n".to_owned()));
    assert_eq!(run(format!("{usual}:{}", folder("own"))).await, (0, "mine\n".to_owned()));
    assert_eq!(run(folder("only")).await, (0, "2\n".to_owned()));
    assert_eq!(run("/nowhere".to_owned()).await.0, 127);
    // What a command took away is there again for the next one.
    let env = BTreeMap::new();
    let remove = Exec { env, ..guest::sh("rm \"$USUAL_NAMES_PATH\"/* && ! command -v python") };
    assert_eq!(guest.client.exec(remove).await.unwrap().exit_code, 0);
    assert_eq!(run(usual.to_owned()).await.0, 0);
}
