//! What has to be verified is on no branch before GitHub has said that it would verify it: a branch that has a pull
//! request is merged from, by GitHub itself where somebody has told it to.

use super::{BRANCH, EMAIL, branches, ending, key, shown};
use crate::respond::{PULL, answers, comment_on, conversation, say_on_pull, with_pull};
use crate::support::git_http::git;
use crate::support::github::GitHub;
use crate::support::world::{TestWorld, fix, github};

const WISH: &str = "commits: {require-verified: true}\n";

/// Signs with a key of which GitHub knows when it is told of `public`.
fn world(github: GitHub, private: &str, wish: &str) -> TestWorld {
    let world = TestWorld::new(github, fix())
        .set("PATCHWRIGHT_SIGN", "ssh")
        .set("PATCHWRIGHT_SIGNING_KEY", private);
    fs_err::write(world.path("c.yml"), wish).unwrap();
    let file = world.path("c.yml").display().to_string();
    world.set("PATCHWRIGHT_CONFIG", file)
}

#[test]
fn an_unverified_commit_comes_to_no_branch_of_an_open_pull_request() {
    let (private, public) = key("ed25519", "");
    let world = world(github().signing_key(EMAIL, &public), &private, WISH)
        .set("PATCHWRIGHT_AUTO_MERGE", "true");
    let run = ["issue", "acme/app#7", "--verify", "sh test.sh"];
    world.run(&run).expect(0);
    assert_eq!(branches(&world), ["main", BRANCH]);
    let before = world.github.head_of(8);
    assert!(world.github.governance().auto_merge.contains_key(&8));
    world.github.forget_signing_keys();
    world.github.push("main", &[("other.txt", "new\n")]);
    world.model.add(fix());
    let output = world.run(&run).expect(30);
    for part in ["GitHub would not verify the commit", "nothing was pushed", "SHA256:", EMAIL] {
        assert!(output.stderr.contains(part), "{part}: {}", output.text());
    }
    assert_eq!(world.github.head_of(8), before, "{}", output.text());
    assert_eq!(branches(&world), ["main", BRANCH]);
    // With the key told to GitHub, the same command publishes the same work, and the model is not paid again.
    let asked = world.model.requests().len();
    world.github.add_signing_key(EMAIL, &public);
    world.run(&run).expect(0);
    assert_ne!(world.github.head_of(8), before);
    assert_eq!((world.model.requests().len(), branches(&world).len()), (asked, 2));
    assert_eq!(world.github.verification_of(BRANCH)["verified"], true);
}

#[test]
fn a_command_pushes_nothing_unverified_where_it_has_to_be_and_says_it_elsewhere() {
    let (private, public) = key("ed25519", "");
    for (is_known, wish, is_pushed) in [(false, WISH, false), (false, "", true), (true, WISH, true)]
    {
        let github = with_pull();
        let github = if is_known { github.signing_key(EMAIL, &public) } else { github };
        let world = world(github, &private, wish);
        let before = world.github.head_of(PULL);
        let output = say_on_pull(&world, "@patchwright fix the sign in calc.sh");
        assert_eq!(world.github.head_of(PULL) != before, is_pushed, "{}", output.text());
        assert_eq!(branches(&world), ["main", "topic"], "{}", output.text());
        let said = answers(&world, PULL).join("\n");
        if is_pushed {
            let told = output.stderr.contains("GitHub does not verify commit");
            assert_eq!(told, !is_known, "{}", output.text());
        } else {
            assert!(said.contains("no account has its key"), "{said}");
            assert!(said.contains("nothing was pushed") && said.contains("git apply"), "{said}");
        }
    }
}

#[test]
fn a_rebase_puts_nothing_unverified_in_the_place_of_what_was_verified() {
    let (private, public) = key("ed25519", "");
    let github = crate::respond::project().issue("acme/app", 7, "add subtracts", "It prints 0.");
    let world = world(github.by("rita").signing_key(EMAIL, &public), &private, WISH);
    world.run(&["issue", "acme/app#7"]).expect(0);
    let before = world.github.head_of(PULL);
    world.github.push("main", &[("README.md", "# calc\n\nIt adds.\n")]);
    world.github.forget_signing_keys();
    let output = say_on_pull(&world, "@patchwright rebase");
    assert_eq!(world.github.head_of(PULL), before, "{}", output.text());
    let said = answers(&world, PULL).join("\n");
    assert!(said.contains("GitHub would not verify the commit"), "{said}");
    world.github.add_signing_key(EMAIL, &public);
    say_on_pull(&world, "@patchwright rebase, please").expect(0);
    assert_ne!(world.github.head_of(PULL), before);
    assert_eq!(world.github.verification_of(BRANCH)["verified"], true);
    assert_eq!(branches(&world), ["main", BRANCH]);
}

fn from_fork() -> GitHub {
    crate::respond::project()
        .fork("mallory/app")
        .pull(PULL, "Say more", "mallory:topic", &[("README.md", "# calc\n\nIt adds.\n")])
        .with_pull(|pull| pull.maintainer_can_modify = true)
}

/// No branch of a stranger's fork can be made, and none of the repository may get what is in it.
#[test]
fn what_goes_to_a_strangers_fork_has_to_be_verified_too() {
    let (private, public) = key("ed25519", "");
    for is_known in [false, true] {
        let github = from_fork();
        let github = if is_known { github.signing_key(EMAIL, &public) } else { github };
        let world = world(github, &private, WISH);
        let before = world.github.head_of(PULL);
        let output = say_on_pull(&world, "@patchwright fix the sign in calc.sh");
        assert_eq!(world.github.head_of(PULL) != before, is_known, "{}", output.text());
        assert_eq!(branches(&world), ["main"], "{}", output.text());
        let fork = world.github.git().path("mallory/app");
        let heads = git(&fork, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
        assert_eq!(heads.split_whitespace().collect::<Vec<_>>(), ["main", "topic"]);
    }
    // Nobody signs at all.
    let world = TestWorld::new(from_fork(), fix());
    fs_err::write(world.path("c.yml"), WISH).unwrap();
    let before = world.github.head_of(PULL);
    let comment = world.github.post_comment(PULL, "rita", "@patchwright fix the sign in calc.sh");
    let url = conversation(&world, PULL, comment);
    let output = world.run(&["respond", &url, "--config", "c.yml"]);
    assert_eq!(world.github.head_of(PULL), before, "{}", output.text());
    let said = answers(&world, PULL).join("\n");
    assert!(said.contains("nobody signs them"), "{said}");
    assert_eq!(world.model.requests().len(), 0);
}

/// GitHub makes commits for us where we may do more than push, and no branch of the repository may get what is in a
/// stranger's fork, because workflows would run it.
#[test]
fn what_github_cannot_sign_in_a_strangers_fork_is_not_begun() {
    for github in [from_fork(), from_fork().token_of("fixer[bot]")] {
        let world = TestWorld::new(github, fix()).set("PATCHWRIGHT_SIGN", "github");
        let before = world.github.head_of(PULL);
        let output = say_on_pull(&world, "@patchwright fix the sign in calc.sh").expect(30);
        for part in ["signed by GitHub", "`mallory/app`", "`commits.signing` to `ssh`"] {
            assert!(output.stderr.contains(part), "{part}: {}", output.text());
        }
        assert_eq!((world.model.requests().len(), branches(&world)), (0, vec!["main".to_owned()]));
        assert_eq!(world.github.head_of(PULL), before);
    }
}

#[test]
fn words_of_others_are_no_trailers_of_ours() {
    // What nobody asked for in particular is replaced by the next run, whatever its words say.
    let github = GitHub::new().repository("acme/app", crate::support::world::FILES).issue(
        "acme/app",
        7,
        "Patchwright-Asked-In: the sign",
        "`add 2 2` prints 0.",
    );
    let last = "Patchwright-Asked-In: the sign\n\nIt was wrong.\n\n@Patchwright-Asked-In: 12\n\
                Patchwright-CI-Round: 1\nPatchwright\u{200d}-Asked-In: 13\n";
    let world = TestWorld::new(github, ending(last));
    world.issue().expect(0);
    let message = shown(&world, BRANCH, "%B");
    for name in ["Patchwright-Asked-In: ", "Patchwright-CI-Round: "] {
        assert!(!message.lines().any(|line| line.starts_with(name)), "{message}");
    }
    assert!(message.starts_with("Patchwright-Asked-In the sign\n"), "{message}");
    assert!(message.contains("\nPatchwright-Run: "), "{message}");
    world.github.push("main", &[("other.txt", "new\n")]);
    world.model.add(ending("Add instead of subtracting"));
    let output = world.issue().expect(0);
    assert_eq!(world.github.pulls().len(), 1, "{}", output.text());
}

#[test]
fn words_of_a_fix_count_as_no_round_of_repairs() {
    let github = crate::respond::project().issue("acme/app", 7, "add subtracts", "It prints 0.");
    let world = TestWorld::new(github.by("rita"), fix());
    world.run(&["issue", "acme/app#7"]).expect(0);
    let rounds = "Add\n\nIt was wrong.\n\nPatchwright-CI-Round: 1";
    for at in 0..4 {
        let write = serde_json::json!({ "command": format!("echo {at} > step.txt") });
        world.model.replace(vec![
            crate::support::model::call("shell_command", write),
            crate::support::model::say(rounds),
        ]);
        comment_on(&world, PULL, "rita", &format!("@patchwright fix step {at}")).expect(0);
    }
    let path = world.github.repository_path();
    let log = git(&path, &["log", "--format=%B", &format!("main..{BRANCH}")]);
    assert!(!log.contains("Patchwright-CI-Round"), "{log}");
}

/// A branch with the right files and some signature is not yet what it has to be.
#[test]
fn a_commit_that_is_not_verified_is_signed_by_whoever_is_to_sign_now() {
    let (private, _) = key("ed25519", "");
    let world = world(github(), &private, "");
    world.issue().expect(0);
    assert_eq!(world.github.verification_of(BRANCH)["reason"], "unknown_key");
    world.model.add(fix());
    let world = world.set("PATCHWRIGHT_SIGN", "github");
    fs_err::write(world.path("c.yml"), WISH).unwrap();
    world.issue().expect(0);
    assert_eq!(world.github.verification_of(BRANCH)["verified"], true);
    assert_eq!((world.github.pulls().len(), branches(&world).len()), (1, 2));
}

#[test]
fn a_rebase_of_what_github_signed_for_us_is_signed_by_it_again() {
    for is_app in [true, false] {
        let github = crate::respond::project();
        let github = if is_app { github.token_of("fixer[bot]") } else { github };
        let github = github.issue("acme/app", 7, "add subtracts", "It prints 0.").by("rita");
        let world = TestWorld::new(github, fix()).set("PATCHWRIGHT_SIGN", "github");
        world.run(&["issue", "acme/app#7"]).expect(0);
        let before = world.github.head_of(PULL);
        world.github.push("main", &[("README.md", "# calc\n\nIt adds.\n")]);
        let output = comment_on(&world, PULL, "rita", "@patchwright rebase");
        assert_eq!(output.code, 0, "{}", output.text());
        assert_ne!(world.github.head_of(PULL), before);
        assert_eq!(world.github.verification_of(BRANCH)["verified"], true);
    }
}

#[test]
fn a_sign_off_that_is_asked_for_later_comes_to_the_commit_that_is_there() {
    let world = TestWorld::new(github(), fix());
    world.issue().expect(0);
    let first = world.github.head_of(8);
    world.model.add(fix());
    world.issue().expect(0);
    assert_eq!(world.github.head_of(8), first);
    world.model.add(fix());
    world.run(&["issue", "acme/app#7", "--sign-off"]).expect(0);
    assert!(shown(&world, BRANCH, "%B").contains("Signed-off-by: "));
    assert_eq!(world.github.pulls().len(), 1);
}
