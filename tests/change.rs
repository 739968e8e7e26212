//! What counts as the change of a run, and how much of it: what the model did, not what setup and checks
//! wrote beside it; and what becomes of work that is more than anybody would look at.

mod bombs;

use std::os::unix::fs::PermissionsExt;

use patchwright_journal::{self as journal, Entry};
use serde_json::{Value, json};

use crate::exec::project;
use crate::support::git_http::git;
use crate::support::model::{call, custom, say};
use crate::support::world::{FILES, PATCH, TestWorld, fix, github_with};

/// A change that breaks what worked, and the way back.
const BREAK: &str =
    "*** Begin Patch\n*** Update File: test.sh\n@@\n-#!/bin/sh\n+exit 3\n*** End Patch\n";
const MEND: &str =
    "*** Begin Patch\n*** Update File: test.sh\n@@\n-exit 3\n+#!/bin/sh\n*** End Patch\n";

fn sh(command: &str) -> crate::support::model::Turn {
    call("shell_command", json!({ "command": command }))
}

fn exec(world: &TestWorld, more: &[&str]) -> crate::support::world::Output {
    let args = ["exec", "Make add add", "--repo", "project", "--out", "out"];
    world.run(&[&args, more].concat())
}

/// The files that the patch of the run is about.
fn patched(world: &TestWorld) -> Vec<String> {
    let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
    let heads = patch.lines().filter_map(|line| line.strip_prefix("diff --git a/"));
    heads.map(|line| line.split_once(" b/").unwrap().0.to_owned()).collect()
}

fn result(world: &TestWorld) -> Value {
    serde_json::from_slice(&fs_err::read(world.path("out/result.json")).unwrap()).unwrap()
}

const SETUP: &str = "echo generated > marker.txt; mkdir -p build/lib app.egg-info; echo x > build/lib/a; echo x > app.egg-info/PKG-INFO; echo setup >> README.md";

fn check_setup(world: &TestWorld) {
    project(world);
    exec(world, &["--setup", SETUP, "--verify", "sh ./test.sh"]).expect(0);
    assert_eq!(patched(world), ["build/new", "calc.sh", "own.txt"]);
    // What was made again is no change, and is named.
    let flags = result(world)["judgement"]["flags"].to_string();
    assert!(flags.contains("`build/lib/a`"), "{flags}");
}

fn fix_after_setup() -> Vec<crate::support::model::Turn> {
    // The model runs what setup ran once more, with another result.
    let again = "cat marker.txt; mkdir -p app.egg-info; echo again > app.egg-info/PKG-INFO; \
        echo again > build/lib/a; echo mine > build/new; echo mine > own.txt";
    vec![sh(again), custom("apply_patch", PATCH), say("Done.")]
}

/// The tree stands in the sandbox as it is in the objects, and what stands there is published.
#[test]
fn git_in_the_sandbox_converts_nothing() {
    let script = "git status --short; echo junk >> run.bat; echo junk >> wide.txt; echo junk >> x.c; git checkout -- .; \
        git rm -q --cached -r . && git reset -q --hard; echo x >> run.bat; git stash -q; git status --short; \
        git check-attr linguist-generated export-ignore -- x.c; od -An -c run.bat wide.txt; cat x.c";
    let world = TestWorld::local([sh(script), custom("apply_patch", PATCH), say("Done.")]);
    let project = project(&world);
    let attributes = "* text=auto\n*.bat text eol=crlf\nwide.txt text working-tree-encoding=UTF-16LE-BOM eol=crlf\n\
        *.c ident linguist-generated export-ignore\n";
    for (name, content) in [
        (".gitattributes", attributes.as_bytes()),
        ("run.bat", b"a\r\n"),
        ("wide.txt", b"\xff\xfeh\0\r\0\n\0"),
        ("x.c", b"/* $Id$ */\n"),
    ] {
        fs_err::write(project.join(name), content).unwrap();
    }
    git(&project, &["add", "."]);
    git(&project, &["commit", "--quiet", "--message", "Attributes"]);
    exec(&world, &[]).expect(0);
    assert_eq!(patched(&world), ["calc.sh"]);
    let told = world.told();
    let expected = r"Output:\nx.c: linguist-generated: set\nx.c: export-ignore: set\n   a  \\n   h  \\n\n/* $Id$ */\n";
    assert!(told.contains(expected), "{told}");
}

/// Silence would make a deletion of a move, and a finished change of half of one.
#[test]
fn what_is_ignored_is_published_where_it_is_meant_and_named_where_it_is_not() {
    let work = "mkdir lib && git mv README.md lib/README.md && echo 1 > lib/new.sh && git add -f lib/new.sh && \
        echo 1 > lib/junk.sh";
    let add = "*** Begin Patch\n*** Add File: lib/told.sh\n+1\n*** End Patch\n";
    let turns = [sh(work), custom("apply_patch", add), custom("apply_patch", PATCH), say("Done.")];
    let world = TestWorld::local(turns);
    let project = project(&world);
    fs_err::write(project.join(".gitignore"), "lib/\n").unwrap();
    git(&project, &["add", "."]);
    git(&project, &["commit", "--quiet", "--message", "Ignore"]);
    exec(&world, &[]).expect(0);
    assert_eq!(patched(&world), ["README.md", "calc.sh", "lib/README.md", "lib/new.sh"]);
    assert!(world.told().contains("`.gitignore` ignores `lib/told.sh`"), "{}", world.told());
    let flags = result(&world)["judgement"]["flags"].to_string();
    assert!(flags.contains("because `.gitignore` ignores them: `lib/told.sh`"), "{flags}");

    // Nothing else: then it is not done.
    world.model.add([custom("apply_patch", add), say("Done.")]);
    let output = world.run(&["exec", "Tell", "--repo", "project", "--verify", "true"]).expect(20);
    let said = "`lib/told.sh` cannot be published: `.gitignore` ignores it";
    assert!(output.stderr.contains(said), "{}", output.text());
}

/// A build in a repository without rules for its outputs; Java is told where the home folder is.
#[test]
fn what_a_compiler_writes_is_left_out_and_named() {
    let build = r#"printf '\177ELF\2\1' > app; chmod +x app; printf '\177ELF\2\1' > calc.o; git add calc.o; git mv tool moved; \
        printf '\177ELF\2\1' > sample.bin; printf '#!/bin/sh\n' > run; chmod +x run; \
        [ "$MAVEN_OPTS" = "-Duser.home=$HOME" ] && [ "$GRADLE_USER_HOME" = "$HOME/.gradle" ] && echo java is at home"#;
    let world = TestWorld::local([sh(build), custom("apply_patch", PATCH), say("Done.")]);
    let project = project(&world);
    fs_err::write(project.join("tool"), b"\x7fELF\x02\x01").unwrap();
    fs_err::set_permissions(project.join("tool"), PermissionsExt::from_mode(0o755)).unwrap();
    git(&project, &["add", "."]);
    git(&project, &["commit", "--quiet", "--message", "A tool"]);
    exec(&world, &[]).expect(0);
    assert_eq!(patched(&world), ["calc.sh", "moved", "run", "sample.bin", "tool"]);
    let flags = result(&world)["judgement"]["flags"].to_string();
    let named = "left out of the change as packages, caches or build outputs: `app`, `calc.o`";
    assert!(flags.contains(named), "{flags}");
    assert!(world.told().contains("java is at home"), "{}", world.told());
}

/// Beside a compiler's: what the tools wrote that were asked to build, and nothing that the model wrote.
#[test]
fn the_tree_of_a_build_is_left_out_and_named() {
    let build = "perl Makefile.PL && make && mkdir -p out && echo cache > out/CMakeCache.txt && echo '*' > out/a.cmake && \
        mkdir -p own && echo 'all:' > own/Makefile";
    let world = TestWorld::local([sh(build), custom("apply_patch", PATCH), say("Done.")]);
    let project = project(&world);
    fs_err::create_dir(project.join("lib")).unwrap();
    fs_err::write(project.join("lib/Calc.pm"), "package Calc; our $VERSION = '1.0'; 1;\n").unwrap();
    let makefile =
        "use ExtUtils::MakeMaker;\nWriteMakefile(NAME => 'Calc', VERSION_FROM => 'lib/Calc.pm');\n";
    fs_err::write(project.join("Makefile.PL"), makefile).unwrap();
    git(&project, &["add", "."]);
    git(&project, &["commit", "--quiet", "--message", "Perl"]);
    exec(&world, &[]).expect(0);
    assert_eq!(patched(&world), ["calc.sh", "own/Makefile"], "{}", world.told());
    let flags = result(&world)["judgement"]["flags"].to_string();
    let named = "`MYMETA.json`, `MYMETA.yml`, `Makefile`, `blib`, `out`, `pm_to_blib`";
    assert!(flags.contains(named), "{flags}");
}

#[test]
fn what_setup_leaves_is_not_in_the_change() {
    check_setup(&TestWorld::local(fix_after_setup()));
}

#[test]
fn what_setup_leaves_in_a_container_is_not_in_the_change() {
    check_setup(&TestWorld::local(fix_after_setup()).in_docker());
}

#[test]
fn what_the_checks_write_is_not_in_the_change() {
    let world = TestWorld::local(fix());
    project(&world);
    let verify = "echo built > build.out; echo x >> README.md; sh ./test.sh";
    exec(&world, &["--verify", verify]).expect(0);
    assert_eq!(patched(&world), ["calc.sh"]);
    let lines = journal::read(&world.path("out/journal.jsonl")).unwrap();
    let when = lines.iter().filter_map(|line| match &line.entry {
        Entry::Checked { when, .. } => Some(when.as_str()),
        _ => None,
    });
    assert_eq!(when.collect::<Vec<_>>(), ["base", "loop"], "the check did run");
}

#[test]
fn what_a_failing_check_writes_is_not_among_the_models_files() {
    let mut files = FILES.to_vec();
    files[0] = ("calc.sh", "add() {\n  echo $(($1 + $2))\n}\n");
    let turns = [
        custom("apply_patch", BREAK),
        sh("echo first > notes.txt"),
        say("Done."),
        custom("apply_patch", MEND).and(sh("echo later >> README.md; echo second >> notes.txt")),
        say("Mended."),
    ];
    let world = TestWorld::new(github_with(&files), turns);
    let verify = "echo litter >> README.md; echo litter >> notes.txt; date +%N > build.out; echo litter > calc.sh.orig; rm -f calc.sh; git checkout calc.sh 2>/dev/null || echo 'add() { echo $(($1 + $2)); }' > calc.sh; sh ./test.sh";
    world.run(&["issue", "acme/app#7", "--verify", verify]).expect(0);
    let change: Value = serde_json::from_str(&world.result("change.json")).unwrap();
    let paths: Vec<&str> = change["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["README.md", "notes.txt"]);
    let patch = world.result("change.patch");
    assert!(!patch.contains("litter"), "{patch}");
    for line in ["+later", "+first", "+second"] {
        assert!(patch.contains(line), "{patch}");
    }
    // The same conversation comes to the same tree again.
    let id = world.runs()[0].file_name().unwrap().to_string_lossy().into_owned();
    let output = world.run(&["replay", &id]).expect(0);
    assert!(output.stdout.starts_with("same tree"), "{}", output.text());
}

#[test]
fn twelve_thousand_new_files_are_refused_and_the_rest_is_handed_over() {
    let crowd = "mkdir -p vendor/pkg && cd vendor/pkg && seq 12000 | xargs touch";
    let world = TestWorld::local([
        sh(crowd),
        custom("apply_patch", PATCH),
        say("Vendored and fixed."),
        say("All of it is needed."),
    ]);
    project(&world);
    let output = exec(&world, &[]).expect(30);
    assert!(
        output.stderr.contains("the change has 12001 files; the limit is 100"),
        "{}",
        output.text()
    );
    assert_eq!(patched(&world), ["calc.sh"]);
    let result = result(&world);
    assert_eq!(result["judgement"]["violations"][0]["rule"], "size.files");
    let flags = result["judgement"]["flags"].to_string();
    assert!(flags.contains("vendor/") && flags.contains("12000 files"), "{flags}");
    let page = fs_err::read_to_string(world.path("out/report.html")).unwrap();
    assert!(page.contains("vendor/") && page.contains("12000 files"));
}

/// One file that was left by accident does not cost the whole of a right change.
#[test]
fn a_change_that_is_too_large_is_given_back_once() {
    let world = TestWorld::local([
        sh("head -c 5000000 /dev/zero > trace.dat"),
        custom("apply_patch", PATCH),
        say("Add adds."),
        sh("rm trace.dat"),
        say("Add adds again."),
    ]);
    project(&world);
    exec(&world, &["--verify", "sh ./test.sh"]).expect(0);
    assert_eq!(patched(&world), ["calc.sh"]);
    let asked = String::from_utf8_lossy(&world.model.requests()[3].raw).into_owned();
    assert!(asked.contains("5000000 of them in `trace.dat`; limit 4194304"), "{asked}");
    assert_eq!(result(&world)["checks"], "passed");
}

/// Only the model can put another thing in the place of what no change can have.
#[test]
fn what_can_be_part_of_no_change_is_given_back_once() {
    let odd = "ln -s ../../outside away; ln -s /etc/hosts hosts; mkfifo pipe; git init -q nested; \
        echo x > nested/x; echo x > \"$(printf 'bad\\nname')\"";
    let mend = "rm pipe hosts; ln -sf calc.sh away; rm -r nested/.git; mv bad* good";
    let world = TestWorld::local([
        sh(odd),
        custom("apply_patch", PATCH),
        say("Add adds."),
        sh(mend),
        say("Add adds again."),
    ]);
    project(&world);
    let output = exec(&world, &["--verify", "sh ./test.sh"]).expect(0);
    assert!(output.stderr.contains("asking the model about `away`"), "{}", output.text());
    assert_eq!(patched(&world), ["away", "calc.sh", "good", "nested/x"]);
    let asked = String::from_utf8_lossy(&world.model.requests()[3].raw).into_owned();
    for words in [
        "Your change is published without these files",
        "`away`: a symlink that leaves the repository",
        "`hosts`: a symlink with an absolute target",
        "`nested`: a nested repository",
        "`pipe`: a named pipe",
        "a control character in a name",
        "has a relative target inside the repository",
        "when the `.git` of its folder is gone",
        "Pipes, sockets and devices",
        "rename the file",
    ] {
        assert!(asked.contains(words), "{words}: {asked}");
    }
    assert!(!asked.contains("interrupted"), "{asked}");
    let result = result(&world);
    assert_eq!(
        (&result["checks"], &result["final_message"]),
        (&json!("passed"), &json!("Add adds again."))
    );
}

/// A name that policy refuses costs the whole change.
#[test]
fn a_name_that_may_not_be_published_is_given_back_once() {
    let world = TestWorld::local([
        sh("echo x > 'a\\b'"),
        custom("apply_patch", PATCH),
        say("Add adds."),
        sh("rm a*b"),
        say("Add adds again."),
    ]);
    project(&world);
    exec(&world, &[]).expect(0);
    assert_eq!(patched(&world), ["calc.sh"]);
    let asked = String::from_utf8_lossy(&world.model.requests()[3].raw).into_owned();
    for words in ["so none of it will be", "has a backslash, which", "rename the file"] {
        assert!(asked.contains(words), "{words}: {asked}");
    }
}

/// Who takes no failing checks back is asked nothing else either, and what stays is told to people.
#[test]
fn what_can_be_part_of_no_change_is_given_back_once_at_most() {
    let odd = || sh("ln -s /etc/hosts hosts");
    let fixed = || [custom("apply_patch", PATCH), say("Add adds.")];
    let without = [vec![odd()], fixed().to_vec()].concat();
    let world = TestWorld::local(without.clone());
    project(&world);
    let config = "limits: { verify-rounds: 0 }\n";
    fs_err::write(world.path("config.yml"), config).unwrap();
    exec(&world, &["--config", "config.yml"]).expect(20);
    let world = TestWorld::local([without, vec![say("The link is wanted.")]].concat());
    project(&world);
    let output = exec(&world, &["--verify", "sh ./test.sh"]).expect(20);
    assert!(output.stderr.contains("`hosts` cannot be published"), "{}", output.text());
    assert_eq!(patched(&world), ["calc.sh"]);
    assert_eq!(world.model.requests().len(), 4);
}

/// Whoever decides whether the patch is worth applying knows what the checks said of it.
#[test]
fn what_the_checks_said_of_a_refused_change_is_its_evidence() {
    let world = TestWorld::local([
        sh("head -c 5000000 /dev/zero > trace.dat"),
        custom("apply_patch", PATCH),
        say("Add adds."),
        say("The trace is needed."),
    ]);
    project(&world);
    let output = exec(&world, &["--verify", "sh ./test.sh"]).expect(30);
    assert!(output.stderr.contains("in `trace.dat`; limit 4194304"), "{}", output.text());
    let result = result(&world);
    assert_eq!(result["evidence"]["rows"][0]["head"]["exit_code"], 0, "{result}");
    assert_eq!(result["checks"], "passed");
}

#[test]
fn a_new_binary_file_is_named_in_the_pull_request() {
    let turns = [sh("head -c 3000 /dev/zero > core"), custom("apply_patch", PATCH), say("Fixed.")];
    let world = TestWorld::new(github_with(FILES), turns);
    world.issue().expect(0);
    let pull = &world.github.pulls()[0];
    assert!(pull.body.contains("binary file added"), "{}", pull.body);
}

#[test]
fn a_change_that_cannot_be_collected_is_reported_all_the_same() {
    let crowd = "mkdir d; cd d; seq 400 | xargs touch; sleep 3";
    let world = TestWorld::local([sh(crowd), say("Done.")]);
    project(&world);
    let config = "container: { workspace-files: 100 }\n";
    fs_err::write(world.path("config.yml"), config).unwrap();
    let output = exec(&world, &["--config", "config.yml", "--verify", "true"]).expect(70);
    assert!(output.stderr.contains("cannot collect the changes"), "{}", output.text());
    let page = fs_err::read_to_string(world.path("out/report.html")).unwrap();
    assert!(page.contains("cannot collect the changes"), "{page}");
    let result = result(&world);
    assert_eq!(
        (&result["conclusion"], &result["final_message"]),
        (&json!("sandbox_error"), &json!("Done."))
    );
}
