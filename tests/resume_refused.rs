//! Files that can be part of no change, in runs that are resumed: no checkpoint has them, and whoever reads of the change
//! is told of them as if nothing had happened.

use serde_json::json;

use crate::resume::{kill_when, replies};
use crate::support::model::{Turn, call, custom, say};
use crate::support::world::{TestWorld, github};

/// A pipe, a nested repository, a link that leads out, a name that git cannot have, and a file that git ignores.
const ODD: &str = "mkfifo pipe; git init -q nested; echo x > nested/x; ln -s ../../outside away; \
    echo x > \"$(printf 'bad\\nname')\"; echo ignored.txt > .gitignore; sed -i 's/-/+/' calc.sh";

fn turns(between: Option<&str>) -> Vec<Turn> {
    let run = |command: &str| call("shell_command", json!({"command": command}));
    let written = "*** Begin Patch\n*** Add File: ignored.txt\n+x\n*** End Patch\n";
    let first = [run(ODD), custom("apply_patch", written)];
    let again = say("Add instead of subtracting\n\nAll of it is needed.");
    let last = [run("echo seen >> notes"), say("Add instead of subtracting"), again];
    first.into_iter().chain(between.map(run)).chain(last).collect()
}

/// What the pull request says of files that it does not have.
fn told(world: &TestWorld) -> Vec<String> {
    let pulls = world.github.pulls();
    let lines = pulls[0].body.lines().filter(|line| {
        line.contains("cannot be part of a change") || line.contains("`.gitignore` ignores")
    });
    lines.map(str::to_owned).collect()
}

#[test]
fn a_resumed_run_tells_of_the_files_that_were_refused_before() {
    let golden = TestWorld::new(github(), turns(None));
    golden.issue().expect(20);
    let expected = told(&golden);
    let all = expected.join("\n");
    for words in ["`pipe`", "`nested`", "`away`", "bad", "ignored.txt"] {
        assert!(all.contains(words), "{words}: {}", golden.github.pulls()[0].body);
    }
    let world = TestWorld::new(github(), turns(Some("sleep 900")));
    kill_when(&world, |journal| journal.matches("\"is\":\"call_started\"").count() == 3);
    // Killed twice: what is not in the second sandbox either is not forgotten with it.
    assert_eq!(replies(&world), 3);
    world.model.replace(turns(Some("echo more > more; sleep 900")).into_iter().skip(2));
    kill_when(&world, |journal| {
        let restored = journal.find("\"is\":\"restored\"");
        restored.is_some_and(|at| journal[at..].contains("\"is\":\"checkpoint\""))
    });
    world.model.replace(turns(None).into_iter().skip(2));
    world.issue().expect(20);
    assert_eq!(told(&world), expected, "{}", world.github.pulls()[0].body);
}
