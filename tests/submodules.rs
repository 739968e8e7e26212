//! Submodules: what the sandbox has of them, where they are fetched from and with which token, and everything in
//! `.gitmodules` that is not obeyed.

use serde_json::json;

use crate::support::git_http::git;
use crate::support::git_repo::{Entry, file, submodule};
use crate::support::github::GitHub;
use crate::support::model::{Turn, call, custom, say};
use crate::support::world::{FILES, PATCH, TestWorld};

/// `acme/app` with an issue, and repositories that it may name.
fn github() -> GitHub {
    GitHub::new()
        .repository("acme/app", FILES)
        .repository("acme/lib", &[("lib.sh", "TWO=from-the-lib\n")])
        .repository("acme/deep", &[("deep.txt", "from the depth\n")])
        .repository("other/open", &[("open.txt", "anybody may read this\n")])
        .repository("other/closed", &[("closed.txt", "nobody may read this\n")])
        .with(|repository| repository.private = true)
        .issue("acme/app", 7, "add subtracts", "`add 2 2` prints 0.")
        .by("rita")
}

fn world(turns: Vec<Turn>) -> TestWorld {
    TestWorld::new(github(), turns).set("PATCHWRIGHT_SUBMODULES", "true")
}

fn tip(world: &TestWorld, repository: &str) -> String {
    world.github.git().tip(repository, "main").unwrap()
}

/// Commits submodules to a repository: path, address, commit.
fn name(world: &TestWorld, repository: &str, modules: &[(&str, &str, &str)]) -> String {
    let section = |(path, url, _): &(&str, &str, &str)| {
        format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n")
    };
    let text: String = modules.iter().map(section).collect();
    let mut files: Vec<Entry> = vec![file(".gitmodules", text)];
    files.extend(modules.iter().map(|(path, _, commit)| submodule(path, commit)));
    world.github.git().commit(repository, "main", "Name submodules", &files)
}

fn shell(command: &str) -> Turn {
    call("shell_command", json!({ "command": command }))
}

fn work(command: &str) -> Vec<Turn> {
    vec![shell(command), custom("apply_patch", PATCH), say("Add instead of subtracting")]
}

/// The same for a command whose files can be part of no change: the model is asked about them.
fn work_in_vain(command: &str) -> Vec<Turn> {
    let again = say("Add instead of subtracting\n\nThe rest stays as it is.");
    [work(command), vec![again]].concat()
}

/// Whether a repository was asked for, and whether with a token.
fn asked(world: &TestWorld, repository: &str) -> Vec<bool> {
    let path = format!("/{repository}.git/");
    let requests = world.github.git().requests();
    let of_it = requests.iter().filter(|request| request.target.starts_with(&path));
    of_it.map(|request| request.authorization.is_some()).collect()
}

#[test]
fn a_submodule_is_read_by_the_model_and_by_checks_and_changes_in_it_are_not_published() {
    let look =
        "cat lib/lib.sh; git status --porcelain; echo mine > lib/lib.sh; echo new > lib/new.txt";
    let world = world(work_in_vain(look))
        .set("PATCHWRIGHT_VERIFY", ". ./calc.sh && . lib/lib.sh && [ $TWO = from-the-lib ]");
    let lib = tip(&world, "acme/lib");
    name(&world, "acme/app", &[("lib", "../lib.git", &lib)]);
    let output = world.issue().expect(20);
    let told = world.told();
    assert!(told.contains("TWO=from-the-lib"), "{told}");
    assert!(!told.contains("M lib"), "{told}");
    assert!(told.contains("<submodules>lib (to read"), "{told}");
    let pull = &world.github.pulls()[0];
    let tree = git(&world.github.repository_path(), &["ls-tree", "-r", &pull.head_sha]);
    assert!(tree.contains(&format!("160000 commit {lib}\tlib\n")), "{tree}");
    let changed =
        git(&world.github.repository_path(), &["diff", "--name-only", "main", &pull.head_sha]);
    assert_eq!(changed, "calc.sh\n");
    for path in ["lib/lib.sh", "lib/new.txt"] {
        assert!(
            pull.body.contains(path) && pull.body.contains("part of a submodule"),
            "{}",
            pull.body
        );
    }
    assert!(asked(&world, "acme/lib").iter().all(|with_token| *with_token), "{}", output.text());
}

/// A tree with a submodule that has no address is one that nobody can clone whole.
#[test]
fn a_removal_is_not_published_in_halves() {
    for (command, which) in [
        ("git rm -q lib", "false"),
        ("rm -rf lib .gitmodules", "false"),
        ("rm -rf lib; : > .gitmodules", "true"),
    ] {
        let world = world(work_in_vain(command)).set("PATCHWRIGHT_SUBMODULES", which);
        let lib = tip(&world, "acme/lib");
        name(&world, "acme/app", &[("lib", "../lib.git", &lib)]);
        let output = world.issue().expect(20);
        assert!(world.told().contains("Submodules stay as they are"), "{command}");
        let pull = &world.github.pulls()[0];
        let changed =
            git(&world.github.repository_path(), &["diff", "--name-only", "main", &pull.head_sha]);
        assert_eq!(changed, "calc.sh\n", "{command}: {}", output.text());
        for said in [".gitmodules", "a submodule, which cannot be changed"] {
            assert!(pull.body.contains(said), "{command}: {}", pull.body);
        }
    }
}

#[test]
fn without_being_asked_for_it_none_is_fetched() {
    let world = world(work("ls -A lib | wc -l")).unset("PATCHWRIGHT_SUBMODULES");
    let lib = tip(&world, "acme/lib");
    name(&world, "acme/app", &[("lib", "../lib.git", &lib)]);
    let output = world.issue().expect(0);
    assert_eq!(asked(&world, "acme/lib"), Vec::<bool>::new());
    let said = "note: submodules are not fetched, so these folders are empty: lib (`--submodules true` fetches them)";
    assert!(output.text().contains(said), "{}", output.text());
    assert!(world.told().contains("<empty_submodules>lib (not fetched"), "{}", world.told());
}

#[test]
fn those_of_submodules_are_fetched_when_that_is_asked_for() {
    for (which, is_there) in [("true", false), ("recursive", true)] {
        let world = world(work("cat lib/deps/deep/deep.txt")).set("PATCHWRIGHT_SUBMODULES", which);
        let deep = tip(&world, "acme/deep");
        let lib = name(&world, "acme/lib", &[("deps/deep", "../deep", &deep)]);
        name(&world, "acme/app", &[("lib", "../lib.git", &lib)]);
        world.issue().expect(0);
        assert_eq!(world.told().contains("from the depth"), is_there, "{which}");
    }
}

/// A repository that has itself as a submodule ends, and one that has hundreds is cut.
#[test]
fn circles_and_crowds_end() {
    let world = world(work("ls")).set("PATCHWRIGHT_SUBMODULES", "recursive");
    let lib = tip(&world, "acme/lib");
    let mut at = lib;
    for _ in 0..8 {
        at = name(&world, "acme/lib", &[("again", "../lib", &at)]);
    }
    name(&world, "acme/app", &[("lib", "../lib.git", &at)]);
    world.issue().expect(0);
    let crowd = self::world(work("ls"));
    let lib = tip(&crowd, "acme/lib");
    let paths: Vec<String> = (0..150).map(|n| format!("lib{n}")).collect();
    let modules: Vec<(&str, &str, &str)> =
        paths.iter().map(|path| (path.as_str(), "../lib", lib.as_str())).collect();
    name(&crowd, "acme/app", &modules);
    let output = crowd.issue().expect(0);
    assert!(output.stderr.contains("no more than 100 submodules"), "{}", output.text());
}

#[test]
fn the_token_goes_to_the_same_owner_only_and_what_needs_one_is_said() {
    let world = world(work("cat open/open.txt; ls -A closed"));
    let (open, closed) = (tip(&world, "other/open"), tip(&world, "other/closed"));
    let server = world.github.server_url();
    let address = |name: &str| format!("{server}/other/{name}.git");
    let (first, second) = (address("open"), address("closed"));
    name(&world, "acme/app", &[("open", &first, &open), ("closed", &second, &closed)]);
    let output = world.issue().expect(0);
    assert!(world.told().contains("anybody may read this"), "{}", output.text());
    assert!(!world.told().contains("nobody may read this"));
    assert!(output.stderr.contains("the submodule `closed` was not fetched"), "{}", output.text());
    for repository in ["other/open", "other/closed"] {
        let asked = asked(&world, repository);
        assert!(!asked.is_empty() && asked.iter().all(|with_token| !with_token), "{repository}");
    }
    assert!(world.github.pulls()[0].body.contains("`closed` was not fetched"));
}

/// What a run has fetched with its token is not there for a run on a stranger's repository that names it.
#[test]
fn what_another_run_has_fetched_is_asked_for_as_whoever_names_it() {
    let github = github()
        .repository("acme/closed", &[("closed.txt", "KEPT-FROM-STRANGERS\n")])
        .with(|repository| repository.private = true)
        .repository("evil/app", FILES)
        .issue("evil/app", 9, "add subtracts", "`add 2 2` prints 0.")
        .by("rita");
    let look = "cat lib/closed.txt";
    let world = TestWorld::new(github, work(look)).set("PATCHWRIGHT_SUBMODULES", "true");
    let closed = tip(&world, "acme/closed");
    let address = format!("{}/acme/closed.git", world.github.server_url());
    name(&world, "acme/app", &[("lib", "../closed", &closed)]);
    name(&world, "evil/app", &[("lib", &address, &closed)]);
    world.issue().expect(0);
    assert!(world.told().contains("KEPT-FROM-STRANGERS"));
    let (told, before) = (world.model.requests().len(), asked(&world, "acme/closed").len());
    world.model.add(work(look));
    let output = world.run(&["issue", "evil/app#9"]);
    let requests = world.model.requests();
    assert!(requests.len() > told, "{}", output.text());
    for request in &requests[told..] {
        assert!(!String::from_utf8_lossy(&request.raw).contains("KEPT-FROM-STRANGERS"));
    }
    assert!(output.stderr.contains("the submodule `lib` was not fetched"), "{}", output.text());
    let asked = asked(&world, "acme/closed");
    assert!(asked.len() > before && asked[before..].iter().all(|with_token| !with_token));
}

/// A library of strangers does not have our token read what they may not.
#[test]
fn what_a_strangers_submodule_names_is_asked_for_without_the_token() {
    let github = github()
        .repository("acme/closed", &[("closed.txt", "KEPT-FROM-STRANGERS\n")])
        .with(|repository| repository.private = true);
    let world = TestWorld::new(github, work("cat open/deep/closed.txt; cat open/deep/deep.txt"))
        .set("PATCHWRIGHT_SUBMODULES", "recursive");
    let server = world.github.server_url();
    let (closed, open) = (tip(&world, "acme/closed"), format!("{server}/other/open.git"));
    let address = format!("{server}/acme/closed.git");
    let named = name(&world, "other/open", &[("deep", &address, &closed)]);
    name(&world, "acme/app", &[("open", &open, &named)]);
    let output = world.issue().expect(0);
    assert!(!world.told().contains("KEPT-FROM-STRANGERS"), "{}", output.text());
    let said = "the submodule `open/deep` was not fetched";
    assert!(output.stderr.contains(said), "{}", output.text());
    let asked = asked(&world, "acme/closed");
    assert!(!asked.is_empty() && asked.iter().all(|with_token| !with_token));
}

#[test]
fn what_no_address_should_be_is_not_followed() {
    let addresses = [
        "file:///etc",
        "/etc",
        "ext::sh -c 'touch pwned'",
        "--upload-pack=touch pwned",
        "git://127.0.0.1/acme/lib",
        "https://elsewhere.example/acme/lib",
        "../../../../etc",
        "git@elsewhere.example:acme/lib",
    ];
    let paths: Vec<String> = (0..addresses.len()).map(|n| format!("m{n}")).collect();
    let world = world(work("ls"));
    let lib = tip(&world, "acme/lib");
    let modules: Vec<(&str, &str, &str)> = paths
        .iter()
        .zip(addresses)
        .map(|(path, address)| (path.as_str(), address, lib.as_str()))
        .collect();
    name(&world, "acme/app", &modules);
    let output = world.issue().expect(0);
    for path in &paths {
        let said = format!("the submodule `{path}` was not fetched");
        assert!(output.stderr.contains(&said), "{path}: {}", output.text());
    }
    assert_eq!(asked(&world, "acme/lib"), Vec::<bool>::new());
    assert!(!world.path("pwned").exists());
}

#[test]
fn a_commit_that_is_not_there_is_said_and_the_run_goes_on() {
    let world = world(work("ls -A lib | wc -l"));
    name(&world, "acme/app", &[("lib", "../lib.git", &"1".repeat(40))]);
    let output = world.issue().expect(0);
    assert!(output.stderr.contains("the submodule `lib` was not fetched"), "{}", output.text());
    assert_eq!(world.github.pulls().len(), 1);
}

/// What the head of a pull request says of submodules is a stranger's word; where a known one is moved to, is not.
#[test]
fn a_pull_request_moves_known_submodules_and_names_none() {
    let secret = ("acme/secret", &[("secret.txt", "KEPT-FROM-STRANGERS\n")][..]);
    let github = github()
        .repository(secret.0, secret.1)
        .with(|repository| repository.private = true)
        .issue("acme/app", 9, "x", "x");
    let look = shell("cat lib/lib.sh; cat stolen/secret.txt");
    let world =
        TestWorld::new(github, vec![look, say("Looked.")]).set("PATCHWRIGHT_SUBMODULES", "true");
    let lib = tip(&world, "acme/lib");
    name(&world, "acme/app", &[("lib", "../lib.git", &lib)]);
    let newer =
        world.github.git().commit("acme/lib", "main", "Newer", &[file("lib.sh", "TWO=newer\n")]);
    let secret = tip(&world, "acme/secret");
    let text = "[submodule \"lib\"]\n\tpath = lib\n\turl = ../lib.git\n[submodule \"s\"]\n\tpath = stolen\n\turl = ../secret\n";
    let main = tip(&world, "acme/app");
    git(&world.github.repository_path(), &["update-ref", "refs/heads/topic", &main]);
    let files = [file(".gitmodules", text), submodule("lib", &newer), submodule("stolen", &secret)];
    world.github.git().commit("acme/app", "topic", "Move", &files);
    world.github.open_pull(12, "Move", "topic", "rita");
    world.run(&["review", "acme/app#12"]);
    let told = world.told();
    assert!(told.contains("TWO=newer"), "{told}");
    assert!(!told.contains("KEPT-FROM-STRANGERS"));
    assert_eq!(asked(&world, "acme/secret"), Vec::<bool>::new());
}
