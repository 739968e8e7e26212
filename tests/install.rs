//! What people install and set up with: versions for programs, completions, manual pages, and `patchwright init` in
//! repositories of every kind.
#![expect(clippy::disallowed_methods, reason = "runs shells and git")]

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use clap::ValueEnum;
use patchwright::cli::init::Use;
use serde_json::Value;

use crate::support::world::{Output, TestWorld};

#[test]
fn versions_are_one_json_object_on_one_line() {
    let world = TestWorld::local([]);
    for args in [["--version", "--json"], ["--json", "-V"]] {
        let output = world.run(&args);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""));
        assert_eq!(output.stdout.lines().count(), 1, "{}", output.stdout);
        let said: Value = serde_json::from_str(&output.stdout).unwrap();
        let names: Vec<&str> = said.as_object().unwrap().keys().map(String::as_str).collect();
        let all = ["name", "version", "commit", "target", "journal", "database", "guest_wire"];
        assert_eq!(names, all);
        assert_eq!(said["name"], "patchwright");
        let plain = world.run(&["--version"]).stdout;
        assert_eq!(plain, format!("patchwright {}\n", said["version"].as_str().unwrap()));
        let commit = &said["commit"];
        assert!(commit.is_null() || commit.as_str().is_some_and(|id| id.len() >= 40), "{commit}");
        assert!(said["target"].as_str().unwrap().starts_with(std::env::consts::ARCH), "{said}");
        assert_eq!(said["journal"], patchwright_journal::FORMAT);
        assert_eq!(said["database"], patchwright_fleet::store::VERSION);
        assert_eq!(said["guest_wire"], patchwright_guest::protocol::VERSION);
    }
}

/// What a real bash offers for the last of `words`.
fn offered(script: &str, words: &str) -> Vec<String> {
    let ask = format!(
        "{script}\nCOMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _patchwright patchwright \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    );
    // In a file: it is longer than an argument may be.
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(ask.as_bytes()).unwrap();
    let mut bash = Command::new("bash");
    let output = bash.args(["--noprofile", "--norc"]).arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_real_bash_completes_commands_flags_and_values() {
    let world = TestWorld::local([]);
    let script = world.run(&["completions", "bash"]);
    assert_eq!(script.code, 0, "{}", script.stderr);
    assert_eq!(offered(&script.stdout, "patchwright rev"), ["review"]);
    assert_eq!(offered(&script.stdout, "patchwright batch pl"), ["plan"]);
    assert_eq!(offered(&script.stdout, "patchwright init --ch"), ["--check"]);
    assert_eq!(
        offered(&script.stdout, "patchwright init pr-review-"),
        ["pr-review-forks", "pr-review-queue"]
    );
}

#[test]
fn other_shells_have_completions_and_an_unknown_one_is_named() {
    let world = TestWorld::local([]);
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = world.run(&["completions", shell]);
        assert_eq!(script.code, 0);
        assert!(script.stdout.contains("apply-patch"), "{shell}");
    }
    let output = world.run(&["completions", "csh"]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("possible values: bash"), "{}", output.stderr);
}

#[test]
fn every_command_has_a_manual_page_without_warnings() {
    let world = TestWorld::local([]).set("MODEL_SECRET", "x");
    let output = world.run(&["man", "--out", "man/man1"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let folder = world.path("man/man1");
    for name in ["patchwright", "patchwright-issue", "patchwright-batch", "patchwright-batch-run"] {
        assert!(folder.join(format!("{name}.1")).is_file(), "{name}");
    }
    let text = fs_err::read_to_string(folder.join("patchwright-issue.1")).unwrap();
    assert!(text.contains("PATCHWRIGHT_MODEL"), "variables are named");
    assert!(!text.contains("127.0.0.1"), "their values on the machine that wrote the page are not");
    if !Command::new("man").arg("--version").output().is_ok_and(|it| it.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "there is no `man`: run `./test`");
        eprintln!("skipped: no `man` to check the pages with");
        return;
    }
    for page in fs_err::read_dir(&folder).unwrap().map(|page| page.unwrap().path()) {
        let mut man = Command::new("man");
        let shown = man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(&page).output().unwrap();
        let warnings = String::from_utf8_lossy(&shown.stderr);
        assert!(shown.status.success() && warnings.is_empty(), "{}: {warnings}", page.display());
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let world = TestWorld::local([]);
    world.write("file", "");
    let output = world.run(&["man", "--out", "file/man1"]);
    assert_eq!(output.code, 2);
    assert!(
        output.stderr.contains("cannot write manual pages to `file/man1`"),
        "{}",
        output.stderr
    );
}

/// A world with a repository in the folder `app`.
pub(crate) fn repository() -> TestWorld {
    let world = TestWorld::local([]);
    let git = Command::new("git").args(["init", "-q", "app"]).current_dir(world.path("")).status();
    assert!(git.unwrap().success());
    world
}

/// `patchwright init` in a folder of the world.
pub(crate) fn init(world: &TestWorld, folder: &str, args: &[&str]) -> Output {
    let mut command = world.command(&["init"]);
    world.wait(command.args(args).current_dir(world.path(folder)).spawn().unwrap())
}

fn shipped(name: &str) -> String {
    fs_err::read_to_string(format!("{}/workflows/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn every_shipped_workflow_is_a_use_and_is_written_as_it_is() {
    let folder = fs_err::read_dir(format!("{}/workflows", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut files: Vec<String> =
        folder.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let slug = |one: &Use| one.to_possible_value().unwrap().get_name().to_owned();
    let uses: Vec<String> = Use::value_variants().iter().map(slug).collect();
    let mut expected: Vec<String> = uses.iter().map(|one| format!("{one}.yml")).collect();
    expected.sort();
    assert_eq!(expected, files);
    let world = repository();
    let uses: Vec<&str> = uses.iter().map(String::as_str).collect();
    assert_eq!(init(&world, "app", &uses).code, 0);
    for file in &files {
        let path = world.path("app/.github/workflows").join(file);
        assert_eq!(fs_err::read_to_string(&path).unwrap(), shipped(file), "{file}");
        let mode = fs_err::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o444, 0o444, "others read it: {mode:o}");
    }
}

#[test]
fn without_arguments_the_label_starts_work_and_what_is_left_to_do_is_said() {
    let world = repository();
    fs_err::create_dir_all(world.path("app/src/deep")).unwrap();
    let output = init(&world, "app/src/deep", &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.starts_with("wrote      .github/workflows/issue-to-pr.yml\n"));
    for part in [
        "gh secret set OPENAI_API_KEY",
        "create and approve pull requests",
        "gh label create patchwright",
    ] {
        assert!(output.stdout.contains(part), "{part}: {}", output.stdout);
    }
    assert_eq!(fs_err::read_dir(world.path("app/.github/workflows")).unwrap().count(), 1);
}

#[test]
fn a_second_time_changes_nothing_and_says_so() {
    let world = repository();
    init(&world, "app", &[]);
    let path = world.path("app/.github/workflows/issue-to-pr.yml");
    // A checkout on Windows is the same file.
    fs_err::write(&path, shipped("issue-to-pr.yml").replace('\n', "\r\n")).unwrap();
    let before = fs_err::metadata(&path).unwrap().modified().unwrap();
    let output = init(&world, "app", &["--force"]);
    assert_eq!(output.code, 0);
    assert!(output.stdout.starts_with("unchanged  .github/workflows/issue-to-pr.yml\n"));
    assert_eq!(fs_err::metadata(&path).unwrap().modified().unwrap(), before);
    assert_eq!(init(&world, "app", &["--check"]).code, 0);
}

#[test]
fn a_workflow_that_was_given_another_name_is_not_written_a_second_time() {
    let world = repository();
    init(&world, "app", &[]);
    let folder = world.path("app/.github/workflows");
    fs_err::rename(folder.join("issue-to-pr.yml"), folder.join("ai.yaml")).unwrap();
    let output = init(&world, "app", &["--check"]).expect(0);
    assert!(output.stdout.contains("same     .github/workflows/ai.yaml"), "{}", output.text());
    let output = init(&world, "app", &[]).expect(0);
    assert!(output.stdout.contains("unchanged  .github/workflows/ai.yaml"), "{}", output.text());
    assert!(!folder.join("issue-to-pr.yml").exists());
    // Others have other names, and are written beside it.
    init(&world, "app", &["mention"]).expect(0);
    assert!(folder.join("mention.yml").exists());
}

#[test]
fn a_file_that_people_changed_is_kept_without_force() {
    let world = repository();
    init(&world, "app", &[]);
    let path = world.path("app/.github/workflows/issue-to-pr.yml");
    let ours = shipped("issue-to-pr.yml").replace("gpt-5.3-codex", "our-model");
    fs_err::write(&path, &ours).unwrap();
    let output = init(&world, "app", &["issue-to-pr", "mention"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("kept       .github/workflows/issue-to-pr.yml: it differs"));
    assert!(output.stdout.contains("wrote      .github/workflows/mention.yml"));
    assert_eq!(fs_err::read_to_string(&path).unwrap(), ours);
    let output = init(&world, "app", &["--force"]);
    assert!(output.stdout.contains("replaced   .github/workflows/issue-to-pr.yml"));
    assert_eq!(fs_err::read_to_string(&path).unwrap(), shipped("issue-to-pr.yml"));
    let left = fs_err::read_dir(world.path("app/.github/workflows")).unwrap().count();
    assert_eq!(left, 2, "no temporary file stays");
}

#[test]
fn check_writes_nothing_and_fails_with_words() {
    let world = repository();
    let output = init(&world, "app", &["--check"]);
    assert_eq!(output.code, 2);
    assert_eq!(output.stdout, "absent   .github/workflows/issue-to-pr.yml\n");
    assert!(output.stderr.contains("1 of 1 workflow files are not"), "{}", output.stderr);
    assert!(output.stderr.contains("`patchwright init issue-to-pr` writes"), "{}", output.stderr);
    let output = init(&world, "app", &["--check", "pr-review"]);
    assert!(
        output.stderr.contains("`patchwright init pr-review pr-review-queue` writes"),
        "{}",
        output.stderr
    );
    assert!(!world.path("app/.github").exists());
    world.write("app/.github/workflows/issue-to-pr.yml", "name: Ours\n");
    let output = init(&world, "app", &["--check"]);
    assert_eq!(output.code, 2);
    let differs = "differs  .github/workflows/issue-to-pr.yml\n";
    assert!(output.stdout.starts_with(differs), "{}", output.stdout);
    assert!(output.stdout.contains("is no workflow: it has no `on`"), "{}", output.stdout);
    assert_eq!(init(&world, "app", &["--check", "--force"]).code, 2, "the two exclude each other");
}

/// What `doctor` says about workflows is said where one is kept, and only about those of other people.
#[test]
fn a_changed_file_is_checked_for_the_traps_that_doctor_knows() {
    let world = repository();
    init(&world, "app", &[]);
    let path = world.path("app/.github/workflows/issue-to-pr.yml");
    let ours = shipped("issue-to-pr.yml");
    let cancels = ours.replace("cancel-in-progress: false", "cancel-in-progress: true");
    assert_ne!(cancels, ours);
    fs_err::write(&path, cancels).unwrap();
    for args in [&[][..], &["--check"]] {
        let output = init(&world, "app", args);
        let trap = "FAIL  .github/workflows/issue-to-pr.yml: `cancel-in-progress: true` lets";
        assert!(output.stdout.contains(trap), "{}", output.stdout);
        let fix = "      fix: set `cancel-in-progress: false`";
        assert!(output.stdout.contains(fix), "{}", output.stdout);
    }
    fs_err::write(&path, "on: [\n").unwrap();
    let output = init(&world, "app", &["--check"]);
    assert!(output.stdout.contains("is not valid YAML"), "{}", output.stdout);
    // Replaced, there is nothing to say.
    let output = init(&world, "app", &["--force"]);
    assert!(!output.stdout.contains("fix: "), "{}", output.stdout);
}

#[test]
fn reviews_of_forks_bring_the_review_that_they_wait_for() {
    let world = repository();
    let output = init(&world, "app", &["pr-review-forks", "pr-review-forks"]);
    assert_eq!(output.code, 0);
    for name in ["pr-review.yml", "pr-review-forks.yml", "pr-review-queue.yml"] {
        assert!(output.stdout.contains(&format!("wrote      .github/workflows/{name}\n")));
    }
}

/// Where the check is required, a merge queue without an answer waits for ever.
#[test]
fn reviews_bring_the_answer_for_the_merge_queue() {
    for one in ["pr-review", "pr-review-queue"] {
        let world = repository();
        init(&world, "app", &[one]).expect(0);
        for name in ["pr-review.yml", "pr-review-queue.yml"] {
            assert!(world.path("app/.github/workflows").join(name).is_file(), "{one}: {name}");
        }
        assert!(!world.path("app/.github/workflows/pr-review-forks.yml").exists());
    }
}

#[test]
fn a_bare_repository_is_called_what_it_is() {
    let world = TestWorld::local([]);
    let mut git = Command::new("git");
    git.args(["init", "-q", "--bare", "app.git"]).current_dir(world.path(""));
    assert!(git.status().unwrap().success());
    for folder in ["app.git", "app.git/refs"] {
        let said = init(&world, folder, &[]).expect(2).stderr;
        assert!(said.contains("is in a bare repository, which has no files"), "{said}");
    }
}

#[test]
fn outside_of_a_repository_nothing_is_written() {
    let world = TestWorld::local([]);
    fs_err::create_dir_all(world.path("plain/.git")).unwrap();
    let output = init(&world, "plain", &[]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("is not in a git repository"), "{}", output.stderr);
    assert!(!world.path("plain/.github").exists());
}

#[test]
fn links_that_lead_out_of_the_repository_are_refused() {
    let outside = tempfile::tempdir().unwrap();
    fs_err::create_dir_all(outside.path().join("workflows")).unwrap();
    let to = |name: &str| outside.path().join(name);
    let cases = [
        (".github", to("")),
        (".github/workflows", to("workflows")),
        (".github/workflows", to("absent")),
        (".github/workflows", "../.git".into()),
        (".github/workflows/issue-to-pr.yml", to("file.yml")),
    ];
    for (link, target) in cases {
        let world = repository();
        let path = world.path("app").join(link);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(&target, &path).unwrap();
        for args in [&[][..], &["--force"]] {
            let output = init(&world, "app", args);
            assert_eq!(output.code, 30, "{link}: {}{}", output.stdout, output.stderr);
            assert!(output.stderr.contains(&format!("`{link}`")), "{}", output.stderr);
        }
        assert!(fs_err::symlink_metadata(&path).unwrap().is_symlink());
        assert!(!world.path("app/.git/issue-to-pr.yml").exists());
    }
    let left: Vec<_> = fs_err::read_dir(outside.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(fs_err::read_dir(to("workflows")).unwrap().count(), 0);
}

#[test]
fn a_linked_folder_within_the_repository_is_refused() {
    for link in [".github", ".github/workflows"] {
        let world = repository();
        fs_err::create_dir_all(world.path("app/ci")).unwrap();
        let path = world.path("app").join(link);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(world.path("app/ci"), path).unwrap();
        let output = init(&world, "app", &[]);
        assert_eq!(output.code, 30, "{}", output.stdout);
        assert!(
            output.stderr.contains(&format!("`{link}` is a symbolic link")),
            "{}",
            output.stderr
        );
        assert!(output.stderr.contains("GitHub reads no workflow through it"), "{}", output.stderr);
        assert_eq!(fs_err::read_dir(world.path("app/ci")).unwrap().count(), 0);
    }
}
