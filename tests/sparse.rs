//! Sparse checkouts: some folders are in the sandbox, all files are in the commit.

use serde_json::json;

use crate::support::git_http::git;
use crate::support::git_repo::file;
use crate::support::model::{Turn, call, custom, say};
use crate::support::world::{PATCH, TestWorld, github};

fn shell(command: &str) -> Turn {
    call("shell_command", json!({ "command": command }))
}

fn work(command: &str) -> Vec<Turn> {
    vec![shell(command), custom("apply_patch", PATCH), say("Add instead of subtracting")]
}

/// A project with folders beside it.
fn world(turns: Vec<Turn>) -> TestWorld {
    let world = TestWorld::new(github(), turns);
    let files = [
        file("apps/README.md", "on the way\n"),
        file("apps/web/page.txt", "wanted\n"),
        file("apps/web/deep/part.txt", "wanted too\n"),
        file("apps/other/page.txt", "NOT-WANTED\n"),
        file("libs/big.txt", "NOT-WANTED\n"),
        file(".github/patchwright.yml", "limits: {max-turns: 50}\n"),
    ];
    world.github.git().commit("acme/app", "main", "Folders", &files);
    world
}

fn tree(world: &TestWorld, commit: &str) -> Vec<String> {
    let listed = git(&world.github.repository_path(), &["ls-tree", "-r", "--name-only", commit]);
    listed.lines().map(str::to_owned).collect()
}

#[test]
fn the_sandbox_has_the_folders_and_the_commit_has_everything() {
    let look = "find . -name .git -prune -o -type f -print | sort | tr '\\n' ' '; git status --porcelain; git log --oneline | wc -l; \
                echo more >> apps/web/page.txt; mkdir -p docs && echo new > docs/new.txt";
    let world = world(work(look)).set("PATCHWRIGHT_SPARSE", "apps/web");
    let output = world.issue().expect(0);
    let told = world.told();
    let there = "./.github/patchwright.yml ./README.md ./apps/README.md ./apps/web/deep/part.txt ./apps/web/page.txt ./calc.sh ./test.sh 1";
    assert!(told.contains(there), "{}", output.text());
    assert!(!told.contains("NOT-WANTED") && !told.contains("libs/big.txt"), "{told}");
    assert!(told.contains("sparse: only apps/web and the files on the way there"));
    let head = world.github.pulls()[0].head_sha.clone();
    let mut expected = tree(&world, "main");
    expected.push("docs/new.txt".to_owned());
    expected.sort();
    assert_eq!(tree(&world, &head), expected);
    let changed = git(&world.github.repository_path(), &["diff", "--name-only", "main", &head]);
    assert_eq!(changed, "apps/web/page.txt\ncalc.sh\ndocs/new.txt\n");
    let parents = git(&world.github.repository_path(), &["log", "-1", "--format=%P", &head]);
    assert_eq!(parents, git(&world.github.repository_path(), &["rev-parse", "main"]));
    assert!(world.github.pulls()[0].body.contains("the checkout is sparse: `apps/web`"));
}

#[test]
fn a_repository_chooses_where_the_operator_has_not() {
    let world = world(work("ls apps"));
    let config = file(".github/patchwright.yml", "checkout: {sparse: [apps/other, nowhere]}\n");
    world.github.git().commit("acme/app", "main", "Sparse", &[config]);
    let output = world.issue().expect(0);
    assert!(
        output.stderr.contains("the checkout is sparse: `apps/other`, `nowhere`"),
        "{}",
        output.text()
    );
    assert!(
        output.stderr.contains("no folders of the base commit: `nowhere`"),
        "{}",
        output.text()
    );
    assert!(!world.told().contains("apps/web/page.txt"));
}

#[test]
fn a_file_that_is_there_and_was_not_seen_is_not_replaced() {
    let command = "mkdir -p libs && echo overwritten > libs/big.txt && echo fresh > libs/fresh.txt";
    // Asked about the file that was not seen.
    let turns = work(command).into_iter().chain([say("It stays as it is.")]).collect();
    let world = world(turns).set("PATCHWRIGHT_SPARSE", "apps/web");
    world.issue();
    let pull = &world.github.pulls()[0];
    let show = |path: &str| {
        git(&world.github.repository_path(), &["show", &format!("{}:{path}", pull.head_sha)])
    };
    assert_eq!(
        (show("libs/big.txt").as_str(), show("libs/fresh.txt").as_str()),
        ("NOT-WANTED\n", "fresh\n")
    );
    assert!(pull.body.contains("outside of the sparse checkout"), "{}", pull.body);
}

#[test]
fn folders_that_cannot_be_are_refused() {
    for folder in ["../etc", "/", "a//b", ".git/hooks"] {
        let world = world(work("ls")).set("PATCHWRIGHT_SPARSE", folder);
        let output = world.issue();
        assert_ne!(output.code, 0, "{folder}: {}", output.text());
        assert_eq!(world.model.requests().len(), 0, "{folder}");
    }
}

/// The names of the bare repositories that are kept of the forge's.
fn mirrors(world: &TestWorld) -> Vec<String> {
    let folder = fs_err::read_dir(world.path("state/mirrors")).unwrap().next().unwrap().unwrap();
    let entries = fs_err::read_dir(folder.path().join("acme")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".git")).collect()
}

#[test]
fn an_operators_sparse_checkout_is_a_partial_clone_that_lacks_the_other_files() {
    let world = world(work("cat apps/web/page.txt; echo more >> apps/web/page.txt"))
        .set("PATCHWRIGHT_SPARSE", "apps/web");
    world.issue().expect(0);
    assert!(world.told().contains("wanted"));
    let mirrors = mirrors(&world);
    assert_eq!(mirrors.len(), 1, "{mirrors:?}");
    let folder = fs_err::read_dir(world.path("state/mirrors")).unwrap().next().unwrap().unwrap();
    let mirror = folder.path().join("acme").join(&mirrors[0]);
    let path = world.github.repository_path();
    let blob = |name: &str| git(&path, &["rev-parse", &format!("main:{name}")]).trim().to_owned();
    let has = |name: &str| {
        crate::support::git_repo::command(&mirror, &["cat-file", "-e", &blob(name)])
            .status()
            .unwrap()
            .success()
    };
    assert!(has("apps/web/page.txt") && has("calc.sh"));
    assert!(!has("libs/big.txt") && !has("apps/other/page.txt"));
    // Once more on what is new, over what we have pushed.
    world
        .github
        .push("main", &[("apps/web/new.txt", "fresh\n"), ("libs/more.txt", "NOT-WANTED\n")]);
    world.model.add(work("cat apps/web/new.txt; echo again >> apps/web/page.txt"));
    world.issue().expect(0);
    assert!(world.told().contains("fresh") && !world.told().contains("NOT-WANTED"));
    let pulls = world.github.pulls();
    assert_eq!(pulls.len(), 1);
    assert_eq!(
        git(&path, &["rev-list", "--count", &format!("main..{}", pulls[0].head_sha)]).trim(),
        "1"
    );
    git(&path, &["fsck", "--strict"]);
}
