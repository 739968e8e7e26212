//! `patchwright exec`: a prompt on a local repository, and what stays untouched.

use std::path::PathBuf;

use expect_test::expect;
use serde_json::json;

use crate::support::git_repo::git;
use crate::support::model::{Turn, call, custom, fail, say, stall};
use crate::support::world::{FILES, PATCH, TestWorld, fix};

const FIXED: &str = "add() {\n  echo $(($1 + $2))\n}\n";

/// What lies there is the newest run's: whoever applies `change.patch` applies that.
#[test]
fn a_run_that_changes_nothing_leaves_no_change_of_an_earlier_one_in_its_folder() {
    let world = TestWorld::local(fix());
    project(&world);
    let run = |prompt| world.run(&["exec", prompt, "--repo", "project", "--out", "out"]).expect(0);
    run("Make add add");
    let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
    world.model.replace([say("It is called calc.")]);
    run("What is this called?");
    assert!(!world.path("out/change.patch").exists());
    let page = fs_err::read_to_string(world.path("out/report.html")).unwrap();
    assert!(!page.contains("echo $(($1 + $2))"), "the page shows the earlier change");
    let old = fs_err::read_to_string(world.path("out/change.old.patch")).unwrap();
    assert_eq!(old, patch);
    // A folder of somebody else's keeps what it has.
    fs_err::create_dir_all(world.path("theirs")).unwrap();
    fs_err::write(world.path("theirs/plan.md"), "Mine.").unwrap();
    world.model.replace([say("It is called calc.")]);
    world.run(&["exec", "And this?", "--repo", "project", "--out", "theirs"]).expect(0);
    assert!(!world.path("theirs/plan.old.md").exists());
}

#[test]
fn a_host_that_cannot_be_allowed_is_refused_before_checks_are_run() {
    let world = TestWorld::local(Vec::new());
    project(&world);
    for config in ["network: {allow: [127.0.0.1]}", "network: {setup-allow: [127.0.0.1]}"] {
        fs_err::write(world.path("config.yml"), config).unwrap();
        let exec = ["exec", "Make add add", "--repo", "project", "--config", "config.yml"];
        let output = world.run(&[&exec[..], &["--verify", "touch ran"]].concat()).expect(2);
        let text = output.text();
        assert!(text.contains("a host that cannot be allowed: `127.0.0.1`"), "{text}");
        assert!(!text.contains("running the repository's checks"), "{text}");
    }
}

#[test]
fn another_prompt_in_the_folder_of_a_run_that_was_killed_says_that_it_replaces_it() {
    let world = TestWorld::local(fix());
    project(&world);
    let exec = |prompt| ["exec", prompt, "--repo", "project", "--out", "out"];
    world.run(&exec("Make add add")).expect(0);
    let journal = world.path("out/journal.jsonl");
    let whole = fs_err::read_to_string(&journal).unwrap();
    let killed: String =
        whole.split_inclusive('\n').filter(|line| !line.contains("\"run_ended\"")).collect();
    assert!(killed.len() < whole.len(), "{whole}");
    fs_err::write(&journal, &killed).unwrap();
    world.model.replace([say("It is called calc."), say("It is called calc.")]);
    let output = world.run(&exec("What is this called?")).expect(0);
    let said = "warning: `out` held the run RUN of another task";
    assert!(output.text().contains(said), "{}", output.text());
    let old = fs_err::read_to_string(world.path("out/journal.old.jsonl")).unwrap();
    assert_eq!(old, killed);
    let again = world.run(&exec("What is this called?")).expect(0);
    assert!(!again.text().contains("warning: `out` held"), "{}", again.text());
}

#[test]
fn a_prompt_leaves_its_results_in_the_folder_and_the_repository_untouched() {
    let world = TestWorld::local(fix());
    let project = project(&world);
    let output =
        world.run(&["exec", "Make add add", "--repo", "project", "--out", "out"]).expect(0);
    expect![[r#"
        exit 0
        --- stdout
        Add instead of subtracting

        The sign in `calc.sh` was wrong.
        --- stderr
        run RUN
        cloning the repository
        preparing the sandbox
        running the repository's checks on the base
        check on base: `sh ./test.sh` failed with exit code 1
        working on it
        · update_plan {"plan":[{"step":"Find the bug","status":"in_progress"},{"step":"Fix it","status":"pending"}]}
        · shell_command {"command":"sh test.sh"}
        · apply_patch calc.sh
        · shell_command {"command":"sh test.sh"}
        · update_plan {"plan":[{"step":"Find the bug","status":"completed"},{"step":"Fix it","status":"completed"}]}
        running the repository's checks on the change
        check on head: `sh ./test.sh` passed
        results are in out
    "#]].assert_eq(&output.text());
    let mut files: Vec<String> = fs_err::read_dir(world.path("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    expect!["change.json change.patch journal.jsonl plan.md report.html result.json"]
        .assert_eq(&files.join(" "));
    let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
    expect![[r#"
        diff --git a/calc.sh b/calc.sh
        index 0ab6ed80a44fbf41bfaf3822be75523d112e125f..d01635e36fb22586e5e6afabfea15b1471abeebf 100644
        --- a/calc.sh
        +++ b/calc.sh
        @@ -1,3 +1,3 @@
         add() {
        -  echo $(($1 - $2))
        +  echo $(($1 + $2))
         }
    "#]].assert_eq(&patch);
    git(&project, &["apply", "--check", &world.path("out/change.patch").display().to_string()]);
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    let result: serde_json::Value =
        serde_json::from_slice(&fs_err::read(world.path("out/result.json")).unwrap()).unwrap();
    assert_eq!(result["conclusion"], "done");
    assert_eq!(result["evidence"]["rows"][0]["head"]["exit_code"], 0);
}

#[test]
fn apply_writes_the_change_into_the_folder() {
    let world = TestWorld::local(fix());
    let project = project(&world);
    fs_err::write(project.join("mine.txt"), "not committed\n").unwrap();
    fs_err::write(project.join("README.md"), "# edited\n").unwrap();
    world.run(&["exec", "Make add add", "--repo", "project", "--apply"]).expect(0);
    assert_eq!(fs_err::read_to_string(project.join("calc.sh")).unwrap(), FIXED);
    assert_eq!(fs_err::read_to_string(project.join("README.md")).unwrap(), "# edited\n");
    assert_eq!(
        git(&project, &["status", "--porcelain"]),
        " M README.md\n M calc.sh\n?? mine.txt\n"
    );
}

/// A run begins at the commit. Whoever has edited something since is told that it is not seen.
#[test]
fn what_is_not_committed_is_left_out_and_that_is_said() {
    let world = TestWorld::local([]);
    let project = project(&world);
    fs_err::write(project.join(".gitignore"), "*.o\n").unwrap();
    git(&project, &["add", "."]);
    git(&project, &["commit", "--quiet", "--message", "Second"]);
    let run = |args: &[&str]| {
        world.model.replace([say("It is called calc.")]);
        let exec = ["exec", "What is this called?", "--repo", "project"];
        world.run(&[&exec[..], args].concat()).expect(0).text()
    };
    fs_err::write(project.join("calc.o"), "ignored\n").unwrap();
    assert!(!run(&["--out", "project/out"]).contains("not committed"));
    // What that run has left there is nobody's work.
    assert!(!run(&["--out", "project/out"]).contains("not committed"));
    fs_err::write(project.join("calc.sh"), "# mine\n").unwrap();
    let said = "`calc.sh` is not committed: the work begins at the last commit";
    assert!(run(&["--out", "project/out"]).contains(said));
    fs_err::write(project.join("new.sh"), "# mine\n").unwrap();
    git(&project, &["add", "new.sh"]);
    assert!(run(&["--out", "project/out"]).contains("`calc.sh` and 1 more are not committed"));
    // Whoever names a commit knows what is in it.
    assert!(!run(&["--base", "HEAD", "--out", "project/out"]).contains("not committed"));
}

#[test]
fn apply_writes_a_new_file_in_new_folders() {
    let make = call("shell_command", json!({"command": "mkdir -p n/m; echo x > n/m/w"}));
    let world = TestWorld::local([make].into_iter().chain(fix()));
    let project = project(&world);
    world.run(&["exec", "Make add add", "--repo", "project", "--apply"]).expect(0);
    assert_eq!(fs_err::read_to_string(project.join("n/m/w")).unwrap(), "x\n");
    assert_eq!(git(&project, &["status", "--porcelain"]), " M calc.sh\n?? n/\n");
}

#[test]
fn apply_leaves_files_alone_that_were_edited_since_the_commit() {
    let world = TestWorld::local(fix());
    let project = project(&world);
    fs_err::write(project.join("calc.sh"), "# mine\n").unwrap();
    let output = world.run(&["exec", "Make add add", "--repo", "project", "--apply"]);
    assert_eq!(output.code, 2, "{}", output.text());
    assert!(output.stderr.contains("`calc.sh` was edited"), "{}", output.text());
    assert!(output.stderr.contains("change.patch"), "{}", output.text());
    assert_eq!(fs_err::read_to_string(project.join("calc.sh")).unwrap(), "# mine\n");
}

#[test]
fn apply_needs_a_folder_to_write_into_before_anything_is_paid_for() {
    let world = TestWorld::local([]);
    let source = project(&world);
    git(&world.path(""), &["clone", "--quiet", "--bare", "project", "bare.git"]);
    let address = format!("file://{}", source.display());
    for place in ["bare.git", address.as_str()] {
        let output = world.run(&["exec", "Do it", "--repo", place, "--apply"]).expect(2);
        let said = output.stderr.contains("has no working folder that `--apply` could write into");
        assert!(said, "{}", output.text());
    }
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn without_docker_the_local_sandbox_takes_over_and_says_so() {
    let world = TestWorld::local([crate::support::model::say("It adds two numbers.")])
        .unset("PATCHWRIGHT_SANDBOX")
        .set("DOCKER_HOST", "unix:///nowhere/docker.sock");
    project(&world);
    let output =
        world.run(&["exec", "What does it do?", "--repo", "project", "--out", "out"]).expect(0);
    let text = output.text();
    assert!(text.contains("sandbox: local (Landlock and seccomp), because Docker"), "{text}");
}

#[test]
fn a_prompt_on_standard_input_is_taken_whole_or_not_at_all() {
    let world = TestWorld::local([]);
    project(&world);
    let run = |prompt: Vec<u8>| {
        fs_err::write(world.path("prompt"), prompt).unwrap();
        let prompt = fs_err::File::open(world.path("prompt")).unwrap().into_parts().0;
        let exec = &["exec", "-", "--repo", "project"];
        let output = world.command(exec).stdin(prompt).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run("é".repeat(600 << 10).into_bytes());
    assert!(code == Some(2) && said.contains("longer than 1024 KB"), "{said}");
    let (code, said) = run(b"Fix \xff".to_vec());
    assert!(code == Some(2) && said.contains("is not UTF-8"), "{said}");
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn an_answer_is_enough() {
    let world = TestWorld::local([say("It is called calc.")]);
    project(&world);
    let output =
        world.run(&["exec", "What is this project called?", "--repo", "project"]).expect(0);
    assert_eq!(output.stdout, "It is called calc.\n");
}

#[test]
fn a_question_instead_of_a_change_is_asked_about_and_is_not_done() {
    let question = "It takes a plus. Shall I write it?";
    let world = TestWorld::local([say(question), say(question)]);
    project(&world);
    let args = ["exec", "Make add add", "--repo", "project", "--out", "out"];
    let output = world.run(&args).expect(10);
    assert_eq!(output.stdout, format!("{question}\n"));
    assert!(output.stderr.contains("\nnothing was changed\n"), "{}", output.text());
    let result = fs_err::read(world.path("out/result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_slice(&result).unwrap();
    assert_eq!(result["conclusion"], "needs_input");
    // Asked about it, a model goes on.
    world.model.replace([
        say(question),
        custom("apply_patch", PATCH),
        say("Add instead of subtracting"),
    ]);
    world.run(&["exec", "Make add add", "--repo", "project", "--out", "again"]).expect(0);
}

/// Projects test their colours.
#[test]
fn checks_run_without_a_wish_for_no_colors() {
    let world = TestWorld::local(fix())
        .set("PATCHWRIGHT_VERIFY", "[ \"${NO_COLOR-unset}\" = unset ] && sh test.sh");
    project(&world);
    let output = world.run(&["exec", "Make add add", "--repo", "project"]).expect(0);
    assert!(
        output
            .text()
            .contains("check on head: `[ \"${NO_COLOR-unset}\" = unset ] && sh test.sh` passed"),
        "{}",
        output.text()
    );
}

#[test]
fn work_starts_from_the_commit_that_was_asked_for() {
    let world = TestWorld::local([]);
    let project = project(&world);
    let short = git(&project, &["rev-parse", "--short", "HEAD"]);
    fs_err::write(project.join("calc.sh"), "gone\n").unwrap();
    git(&project, &["commit", "--all", "--quiet", "--message", "break"]);
    for (at, base) in ["v1", short.trim(), "HEAD~1", "main^"].into_iter().enumerate() {
        world.model.add([custom("apply_patch", PATCH), say("Done.")]);
        let out = format!("out-{at}");
        world
            .run(&["exec", "Make add add", "--repo", "project", "--base", base, "--out", &out])
            .expect(0);
        assert!(world.path(&format!("{out}/change.patch")).exists(), "{base}");
    }
}

#[test]
fn a_checkout_without_branches_has_commits_all_the_same() {
    let world = TestWorld::local([]);
    let project = project(&world);
    let commit = git(&project, &["rev-parse", "HEAD"]);
    git(&project, &["checkout", "--quiet", "--detach"]);
    git(&project, &["branch", "--quiet", "--delete", "--force", "main"]);
    for (at, base) in ["v1", commit.trim()].into_iter().enumerate() {
        world.model.add([custom("apply_patch", PATCH), say("Done.")]);
        let out = format!("out-{at}");
        let args = ["exec", "Make add add", "--repo", "project", "--base", base, "--out", &out];
        world.run(&args).expect(0);
        assert!(world.path(&format!("{out}/change.patch")).exists(), "{base}");
    }
    let output = world.run(&["exec", "Do it", "--repo", "project", "--base", "absent"]);
    assert!(output.stderr.contains("`absent` was not found"), "{}", output.text());
}

#[test]
fn a_repository_that_cannot_be_read_is_refused_with_what_helps() {
    let world = TestWorld::local([]);
    let source = project(&world);
    git(&source, &["config", "uploadpack.allowFilter", "true"]);
    // What only the history has is not there in a partial clone.
    fs_err::write(source.join("README.md"), "# Other words\n").unwrap();
    git(&source, &["commit", "--quiet", "--all", "--message", "Second"]);
    let url = format!("file://{}", source.display());
    let clone = ["clone", "--quiet", "--filter=blob:none", "--no-checkout", &url, "partial"];
    git(&world.path(""), &clone);
    let output = world.run(&["exec", "Do it", "--repo", "partial"]);
    assert!(output.stderr.contains("clone it without `--filter`"), "{}", output.text());
    assert!(output.stderr.contains("a partial clone that lacks `README.md`"), "{}", output.text());
    // One that has what it needs is as good as any.
    git(&world.path("partial"), &["checkout", "--quiet", "main"]);
    let look =
        call("shell_command", json!({"command": "git log --oneline | wc -l; git fsck 2>&1"}));
    world.model.add([look, custom("apply_patch", PATCH), say("Done.")]);
    world.run(&["exec", "Make add add", "--repo", "partial"]).expect(0);
    assert!(world.told().contains(r"Output:\n1\n"), "{}", world.told());

    fs_err::create_dir(world.path("other")).unwrap();
    let other = world.path("other");
    git(&other, &["init", "--quiet", "--object-format=sha256", "--initial-branch=main"]);
    git(&other, &["commit", "--quiet", "--allow-empty", "--message=First"]);
    let output = world.run(&["exec", "Do it", "--repo", "other"]);
    assert!(output.stderr.contains("names are SHA-1 can; `git fast-export"), "{}", output.text());
    assert_eq!(world.model.requests().len(), 3);
}

#[test]
fn a_prompt_whose_model_failed_goes_on_with_the_same_command() {
    let mut turns: Vec<Turn> = fix().into_iter().take(2).collect();
    turns.push(fail(401, "invalid_api_key", "no such key"));
    let world = TestWorld::local(turns);
    project(&world);
    let command = ["exec", "Make add add", "--repo", "project"];
    world.run(&command).expect(50);
    world.model.add(fix().into_iter().skip(2));
    world.run(&command).expect(0);
    assert_eq!((world.runs().len(), world.model.requests().len()), (1, 6));
    world.model.add(fix());
    world.run(&command).expect(0);
    assert_eq!(world.runs().len(), 2, "a run that has ended is not resumed");
}

/// Git would start one, and wait for somebody to type until the command's time is up.
#[test]
fn a_command_that_wants_an_editor_ends_at_once_and_says_what_to_do() {
    let commit =
        "git init -q r; git -C r -c user.name=a -c user.email=a@b.c commit --allow-empty; rm -r r";
    let own = "GIT_EDITOR='echo own >' sh -c 'echo $GIT_EDITOR'";
    let commands = [commit, own].map(|it| call("shell_command", json!({ "command": it })));
    let world = TestWorld::local(commands.into_iter().chain([say("It is called calc.")]));
    project(&world);
    world.run(&["exec", "Say it", "--repo", "project", "--out", "out"]);
    let told = world.told();
    for part in ["no-editor: there is no editor", "`git commit -m`", "echo own >"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn a_prompt_that_is_worked_on_already_is_named() {
    let world = TestWorld::local([stall()]);
    project(&world);
    let in_out = ["--out", "out"];
    for (out, named) in
        [(&[][..], "on this prompt for `project`"), (&in_out[..], "in the folder `out`")]
    {
        let args = [&["exec", "Make add add", "--repo", "project"], out].concat();
        let mut first = world.spawn(&args);
        while !first_begun(&world, out) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let second = world.run(&args).expect(10);
        let said = format!("another run is already working {named}");
        assert!(second.stderr.contains(&said), "{}", second.text());
        first.kill().unwrap();
        first.wait().unwrap();
    }
}

fn first_begun(world: &TestWorld, out: &[&str]) -> bool {
    let folder = match out {
        [] => world.runs().into_iter().next(),
        _ => Some(world.path("out")),
    };
    folder.is_some_and(|it| fs_err::metadata(it.join("journal.jsonl")).is_ok_and(|it| it.len() > 0))
}

#[test]
fn json_lines_are_all_that_stdout_carries() {
    let world = TestWorld::local(fix());
    project(&world);
    let output = world.run(&["exec", "Make add add", "--repo", "project", "--json"]).expect(0);
    let lines: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().expect("at least the result");
    assert_eq!(last["conclusion"], "done", "{last}");
    assert_eq!(
        last["final_message"].as_str().unwrap().lines().next(),
        Some("Add instead of subtracting")
    );
}

#[test]
fn a_prompt_may_come_from_standard_input() {
    let world = TestWorld::local([say("Aye.")]);
    project(&world);
    fs_err::write(world.path("prompt"), "Say aye, from the file.").unwrap();
    let prompt = fs_err::File::open(world.path("prompt")).unwrap().into_file();
    let child = world.command(&["exec", "-", "--repo", "project"]).stdin(prompt).spawn().unwrap();
    world.wait(child).expect(0);
    assert!(world.told().contains("Say aye, from the file."));
}

#[test]
fn a_repository_by_its_address_needs_no_forge() {
    let github = crate::support::world::github();
    let world = TestWorld::new(github, fix());
    let url = format!("{}/acme/app.git", world.github.server_url());
    world.run(&["exec", "Make add add", "--repo", &url]).expect(0);
    assert_eq!(world.github.writes(), Vec::<String>::new());
}

#[test]
fn a_configuration_on_a_branch_of_ours_decides_about_nothing() {
    let config = ".github/patchwright.yml";
    let world = TestWorld::local([custom("apply_patch", PATCH), say("Done.")]);
    let project = project(&world);
    let commit = |setup: &str| {
        fs_err::create_dir_all(project.join(".github")).unwrap();
        fs_err::write(project.join(config), format!("setup: ['echo {setup} >> ~/seen']\n"))
            .unwrap();
        git(&project, &["add", "."]);
        git(&project, &["commit", "--quiet", "--message", setup]);
    };
    commit("HEAD");
    git(&project, &["checkout", "--quiet", "-b", "patchwright/issue-7"]);
    commit("OWNED");
    git(&project, &["checkout", "--quiet", "main"]);
    let args = ["exec", "Make add add", "--repo", "project", "--out", "out"];
    world.run(&[&args[..], &["--base", "patchwright/issue-7"]].concat()).expect(0);
    assert_eq!(seen_by_setup(&world), ["HEAD\n"]);
    // Once it is merged it decides as any other commit does, and not what came after it.
    git(&project, &["merge", "--quiet", "--ff-only", "patchwright/issue-7"]);
    commit("LATER");
    world.model.replace([custom("apply_patch", PATCH), say("Done.")]);
    let args = ["exec", "Make add add", "--repo", "project", "--out", "merged"];
    world.run(&[&args[..], &["--base", "patchwright/issue-7"]].concat()).expect(0);
    let mut seen = seen_by_setup(&world);
    seen.sort();
    assert_eq!(seen, ["HEAD\n", "OWNED\n"]);
}

/// What each setup that is kept for later runs has written.
fn seen_by_setup(world: &TestWorld) -> Vec<String> {
    let setups = fs_err::read_dir(world.path("state/setup")).unwrap();
    let seen = setups.map(|setup| setup.unwrap().path().join("home/seen"));
    seen.map(|path| fs_err::read_to_string(path).unwrap()).collect()
}

/// A repository with a tag `v1` on its only commit.
pub(crate) fn project(world: &TestWorld) -> PathBuf {
    let path = world.path("project");
    fs_err::create_dir(&path).unwrap();
    for (name, content) in FILES {
        fs_err::write(path.join(name), content).unwrap();
    }
    git(&path, &["init", "--quiet", "--initial-branch", "main"]);
    git(&path, &["add", "."]);
    git(&path, &["commit", "--quiet", "--message", "First"]);
    git(&path, &["tag", "v1"]);
    path
}

#[test]
fn a_folder_that_is_no_repository_is_named_and_one_inside_of_one_stands_for_it() {
    use std::os::unix::ffi::OsStrExt;

    let world = TestWorld::local([say("It is called calc.")]);
    fs_err::create_dir_all(world.path("plain")).unwrap();
    let output = world.run(&["exec", "What is it called?", "--repo", "plain"]).expect(2);
    assert!(
        output.text().contains("error: `DIR/plain` is not in a git repository"),
        "{}",
        output.text()
    );
    assert!(output.stderr.contains("`git init`"), "{}", output.text());

    let project = project(&world);
    fs_err::create_dir_all(project.join("docs/deep")).unwrap();
    let args = ["exec", "What is it called?", "--repo", "project/docs/deep"];
    let output = world.run(&args).expect(0);
    assert!(output.text().contains("repository: DIR/project\n"), "{}", output.text());

    let odd = world.path("").join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    fs_err::rename(&project, &odd).unwrap();
    let mut command = world.command(&["exec", "What is it called?"]);
    let output = world.wait(command.current_dir(&odd).spawn().unwrap()).expect(2);
    assert!(output.stderr.contains("the path of the repository is not UTF-8"), "{}", output.text());
}

#[test]
fn an_empty_prompt_is_refused() {
    let world = TestWorld::local([]);
    project(&world);
    for prompt in ["", " \n"] {
        let output = world.run(&["exec", prompt, "--repo", "project"]).expect(2);
        assert!(output.stderr.contains("error: the prompt is empty"), "{}", output.text());
    }
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn a_run_that_plans_changes_nothing_and_ends_with_the_plan() {
    let turns = [
        custom("apply_patch", PATCH),
        call("shell_command", json!({"command": "echo x > calc.sh"})),
        call("read_file", json!({"path": "calc.sh"})),
        say("Add instead of subtracting\n\n1. Change the sign in `calc.sh`."),
    ];
    let world = TestWorld::local(turns);
    project(&world);
    let args = ["exec", "Make add add", "--repo", "project", "--out", "out", "--mode", "plan"];
    let output = world.run(&args).expect(0);
    assert!(output.stdout.starts_with("Add instead of subtracting\n"), "{}", output.text());
    assert!(
        !world.path("out/change.patch").exists() || {
            fs_err::read_to_string(world.path("out/change.patch")).unwrap().is_empty()
        }
    );
    let requests: Vec<serde_json::Value> =
        world.model.requests().into_iter().map(|request| request.body).collect();
    let names: Vec<&str> = requests[0]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    expect!["update_plan read_file list_dir grep_files view_image"].assert_eq(&names.join(" "));
    let first = requests[0].to_string();
    assert!(first.contains("# Mode: plan") && first.contains("read-only"), "{first}");
    let last = requests.last().unwrap().to_string();
    assert_eq!(last.matches("in this run, which only plans and changes nothing").count(), 2);
}

#[test]
fn skills_are_those_of_the_commit_and_bad_ones_are_reported() {
    let world = TestWorld::local([say("Aye.")]);
    let project = project(&world);
    let write = |folder: &str, text: &str| {
        let folder = project.join(folder);
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join("SKILL.md"), text).unwrap();
    };
    write(".claude/skills/calc", "---\nname: calc\ndescription: Sums.\n---\nCount twice.\n");
    write(".github/skills/bad", "no front matter\n");
    git(&project, &["add", "."]);
    git(&project, &["commit", "--quiet", "--message", "Skills"]);
    write(".agents/skills/late", "---\nname: late\ndescription: Late.\n---\nNot committed.\n");
    world.run(&["exec", "Use $calc and $late.", "--repo", "project", "--out", "out"]).expect(0);
    let told = world.told();
    assert!(told.contains("- calc: Sums. (file: .claude/skills/calc/SKILL.md)"), "{told}");
    assert!(told.contains("Count twice."), "{told}");
    assert!(!told.contains("Late.") && !told.contains("no front matter"), "{told}");
    let result: serde_json::Value =
        serde_json::from_slice(&fs_err::read(world.path("out/result.json")).unwrap()).unwrap();
    let from = &result["provenance"];
    assert_eq!(from["instruction_files"], json!([".claude/skills/calc/SKILL.md"]));
    assert_eq!(
        from["input_notes"],
        json!([
            "the skill `.github/skills/bad/SKILL.md` was skipped: it does not begin with front matter"
        ])
    );
}

#[test]
fn setup_that_runs_into_the_deadline_is_out_of_time_and_not_a_broken_sandbox() {
    let world = TestWorld::local([]);
    project(&world);
    let setup = ["--setup", "echo begins; sleep 600", "--timeout", "6s"];
    let command = ["exec", "Make add add", "--repo", "project", "--out", "out"];
    let output = world.run(&[&command[..], &setup].concat()).expect(40);
    let said = &output.stderr;
    for part in [
        "error: setup command `echo begins; sleep 600` had not ended when the time for setup was up",
        "`--timeout`",
        "begins\n",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("124"), "{said}");
    assert_eq!(world.model.requests().len(), 0);
}
