//! Git LFS: contents come from a storage on another origin, stand in the sandbox, and are in no commit.

use serde_json::json;

use crate::support::git_http::git;
use crate::support::git_repo::file;
use crate::support::github::lfs::{Trouble, pointer};
use crate::support::model::{Turn, call, custom, say};
use crate::support::world::{PATCH, TestWorld, github};

const CONTENT: &[u8] = b"the real \x00 content of a large file\n";

fn shell(command: &str) -> Turn {
    call("shell_command", json!({ "command": command }))
}

fn work(command: &str) -> Vec<Turn> {
    vec![shell(command), custom("apply_patch", PATCH), say("Add instead of subtracting")]
}

/// A project of which `data/` belongs to LFS, with a file of these contents there.
fn world(turns: Vec<Turn>, trouble: Trouble) -> TestWorld {
    let world = TestWorld::new(github(), turns).set("PATCHWRIGHT_LFS", "true");
    let text = world.github.keep_in_lfs(CONTENT, trouble);
    let attributes = file(".gitattributes", "data/** filter=lfs diff=lfs merge=lfs -text\n");
    world.github.git().commit("acme/app", "main", "Data", &[attributes, file("data/a.bin", text)]);
    world
}

fn published(world: &TestWorld, path: &str) -> String {
    let head = &world.github.pulls()[0].head_sha;
    git(&world.github.repository_path(), &["show", &format!("{head}:{path}")])
}

#[test]
fn a_content_is_in_the_sandbox_and_its_pointer_in_the_commit() {
    for trouble in [Trouble::None, Trouble::Moved] {
        let look = "wc -c < data/a.bin; grep -ac 'the real' data/a.bin; git status --porcelain; git diff --stat";
        let world = world(work(look), trouble).set(
            "PATCHWRIGHT_VERIFY",
            "grep -aq 'the real' data/a.bin && . ./calc.sh && [ $(add 2 2) = 4 ]",
        );
        let output = world.issue().expect(0);
        let told = world.told();
        assert!(told.contains("35\\n1\\n"), "{}", output.text());
        assert!(!told.contains("M data/a.bin"), "{told}");
        assert!(
            published(&world, "data/a.bin").starts_with("version https://git-lfs"),
            "{trouble:?}"
        );
        let head = &world.github.pulls()[0].head_sha;
        let changed = git(&world.github.repository_path(), &["diff", "--name-only", "main", head]);
        assert_eq!(changed, "calc.sh\n");
    }
}

#[test]
fn a_content_is_fetched_once_and_only_when_that_is_asked_for() {
    let fetched = |world: &TestWorld| {
        let world = world.github.world();
        world.logs_read.iter().filter(|path| path.starts_with("/lfs/")).count()
    };
    let world = world(work("cat data/a.bin"), Trouble::None).unset("PATCHWRIGHT_LFS");
    world.issue().expect(0);
    assert_eq!(fetched(&world), 0);
    assert!(world.told().contains("oid sha256:"));
    let world = world.set("PATCHWRIGHT_LFS", "true");
    for _ in 0..2 {
        world.model.add(work("cat data/a.bin"));
        world.issue().expect(0);
    }
    assert_eq!(fetched(&world), 1);
}

#[test]
fn what_cannot_be_had_stays_a_pointer_and_is_said() {
    for (trouble, why) in [
        (Trouble::Damaged, "what came is something else"),
        (Trouble::Endless, "it is larger than 35 bytes"),
        (Trouble::Refused, "status 403"),
        (Trouble::OddAddress, "not one of `https`"),
    ] {
        let world = world(work("cat data/a.bin"), trouble);
        let output = world.issue().expect(0);
        let said = "`data/a.bin` is left as a pointer of Git LFS: ";
        assert!(
            output.stderr.contains(said) && output.stderr.contains(why),
            "{trouble:?}: {}",
            output.text()
        );
        assert!(world.told().contains("oid sha256:"), "{trouble:?}");
        assert!(world.github.pulls()[0].body.contains("is left as a pointer"), "{trouble:?}");
    }
    let world = world(work("ls"), Trouble::None);
    let gone = file("data/gone.bin", pointer(&"7".repeat(64), 10));
    world.github.git().commit("acme/app", "main", "Gone", &[gone]);
    let output = world.issue().expect(0);
    assert!(output.stderr.contains("the server does not have it"), "{}", output.text());
    let world = self::world(work("ls"), Trouble::None);
    let huge = file("data/huge.bin", pointer(&"8".repeat(64), 9 << 30));
    world.github.git().commit("acme/app", "main", "Huge", &[huge]);
    let output = world.issue().expect(0);
    assert!(
        output.stderr.contains("`data/huge.bin` is left as a pointer of Git LFS: it is too large"),
        "{}",
        output.text()
    );
}

#[test]
fn a_changed_content_is_held_back_and_the_rest_is_published() {
    let mut turns = work("echo other > data/a.bin; echo new > data/b.bin");
    turns.push(say("Add instead of subtracting\n\nThe data is needed."));
    let world = world(turns, Trouble::None);
    let output = world.issue().expect(20);
    assert!(world.told().contains("New contents for git LFS cannot be uploaded"));
    let pull = &world.github.pulls()[0];
    for path in ["data/a.bin", "data/b.bin"] {
        assert!(pull.body.contains(path), "{path}: {}", output.text());
    }
    assert!(pull.body.contains("git LFS keeps this file"), "{}", pull.body);
    assert!(published(&world, "data/a.bin").starts_with("version https://git-lfs"));
    assert!(published(&world, "calc.sh").contains("$1 + $2"));
}

/// What a pointer stands for is on the server already, whatever the file is called.
#[test]
fn a_file_that_is_moved_keeps_its_pointer() {
    for which in ["true", "false"] {
        let world = world(work("mkdir data/in; mv data/a.bin data/in/b.bin"), Trouble::None)
            .set("PATCHWRIGHT_LFS", which);
        let output = world.issue().expect(0);
        assert!(
            published(&world, "data/in/b.bin").starts_with("version https://git-lfs"),
            "{which}: {}",
            output.text()
        );
        let head = &world.github.pulls()[0].head_sha;
        let changed = git(
            &world.github.repository_path(),
            &["diff", "--no-renames", "--name-only", "main", head],
        );
        assert_eq!(changed, "calc.sh\ndata/a.bin\ndata/in/b.bin\n", "{which}");
    }
}

/// A pointer where nobody expects one would be the file for every reader. With the content in the sandbox it is that which
/// is published, as git-lfs does it.
#[test]
fn a_file_that_is_moved_to_where_lfs_keeps_none_is_its_content_or_is_refused() {
    let moved = || work("mv data/a.bin a.bin");
    let world = world(moved(), Trouble::None);
    world.issue().expect(0);
    let head = &world.github.pulls()[0].head_sha;
    let path = world.github.repository_path();
    let size = git(&path, &["cat-file", "-s", &format!("{head}:a.bin")]);
    assert_eq!(size.trim(), CONTENT.len().to_string());
    let again = say("Add instead of subtracting\n\nIt has to be there.");
    let turns = [moved(), vec![again]].concat();
    let world = self::world(turns, Trouble::None).set("PATCHWRIGHT_LFS", "false");
    let output = world.issue().expect(20);
    let pull = &world.github.pulls()[0];
    assert!(pull.body.contains("a pointer of git LFS under a name"), "{}", output.text());
    let path = world.github.repository_path();
    let args = ["diff", "--no-renames", "--name-only", "main", &pull.head_sha];
    // Its content is where it was.
    assert_eq!(git(&path, &args), "calc.sh\n");
}

/// The repository's own word about servers is not obeyed.
#[test]
fn a_server_that_the_repository_names_is_not_asked() {
    let world = world(work("cat data/a.bin"), Trouble::None);
    let config = file(".lfsconfig", "[lfs]\n\turl = http://127.0.0.1:9/steal\n");
    world.github.git().commit("acme/app", "main", "Config", &[config]);
    world.issue().expect(0);
    assert!(world.told().contains("the real"));
}
