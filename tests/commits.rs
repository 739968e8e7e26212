//! Commits that people can trust: signed by GitHub or with an operator's key, verified by the real git and
//! `ssh-keygen`, certified, titled as the repository wants it, with the right people asked to look at them.
#![expect(
    clippy::disallowed_methods,
    reason = "keys are made, and signatures verified, by the real programs"
)]

mod before;
mod by_github;
mod campaigns;
mod people;
mod titles;
mod verified;

use std::path::Path;
use std::process::Command;

use patchwright_base::env::Env;
use patchwright_git::repo::Repo;
use patchwright_git::signing::SigningKey;

use crate::support::git_http::git;
use crate::support::github::GitHub;
use crate::support::model::{Turn, say};
use crate::support::world::{TestWorld, fix, github};

const BRANCH: &str = "patchwright/issue-7";
const EMAIL: &str = "patchwright[bot]@users.noreply.github.com";

/// The whole job, with these last words.
pub(crate) fn ending(last: &str) -> Vec<Turn> {
    let mut turns = fix();
    turns.pop();
    turns.push(say(last));
    turns
}

/// A key of OpenSSH: its private and public part.
pub(crate) fn key(kind: &str, passphrase: &str) -> (String, String) {
    key_of(&["-t", kind], passphrase)
}

/// A key of OpenSSH, with what says kind and size to `ssh-keygen`.
fn key_of(kind: &[&str], passphrase: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let made = Command::new("ssh-keygen")
        .arg("-q")
        .args(kind)
        .args(["-N", passphrase, "-C", "test", "-f"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let public = fs_err::read_to_string(path.with_extension("pub")).unwrap();
    (fs_err::read_to_string(&path).unwrap(), public.trim().to_owned())
}

/// A key of OpenSSH that can sign: one of 256 ECDSA keys cannot be read.
fn readable_key_of(kind: &[&str], passphrase: &str) -> (String, String) {
    let is_readable = |(private, _): &(String, String)| {
        let text = ("PATCHWRIGHT_SIGNING_KEY", private.as_str());
        let env = Env::from_pairs([text, ("PATCHWRIGHT_SIGNING_KEY_PASSPHRASE", passphrase)]);
        SigningKey::of(&env).is_ok()
    };
    (0..8).map(|_| key_of(kind, passphrase)).find(is_readable).unwrap()
}

/// A commit as it is stored.
pub(crate) fn raw(world: &TestWorld, branch: &str) -> String {
    git(&world.github.repository_path(), &["cat-file", "commit", branch])
}

/// One line of what git shows of the commit of a branch.
pub(crate) fn shown(world: &TestWorld, branch: &str, format: &str) -> String {
    let format = format!("--format={format}");
    git(&world.github.repository_path(), &["log", "-1", &format, branch]).trim().to_owned()
}

pub(crate) fn branches(world: &TestWorld) -> Vec<String> {
    world.github.branches().into_iter().map(|(name, _)| name).collect()
}

/// What the real `git verify-commit` says for a key of this address.
fn verified_by_git(repository: &Path, commit: &str, public: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let signers = folder.path().join("signers");
    fs_err::write(&signers, format!("{EMAIL} namespaces=\"git\" {public}\n")).unwrap();
    let allowed = format!("gpg.ssh.allowedSignersFile={}", signers.display());
    let args = ["-c", "gpg.format=ssh", "-c", &allowed, "verify-commit", commit];
    let output = crate::support::git_http::command(repository, &args).output().unwrap();
    output.status.success()
}

fn signing(github: GitHub, private: &str) -> TestWorld {
    TestWorld::new(github, fix())
        .set("PATCHWRIGHT_SIGN", "ssh")
        .set("PATCHWRIGHT_SIGNING_KEY", private)
}

#[test]
fn a_commit_is_signed_with_an_operators_key() {
    let (private, public) = key("ed25519", "");
    let github = github().refuses_unsigned_commits().rule("required_signatures", None);
    let world = signing(github.signing_key(EMAIL, &public), &private);
    let output = world.issue().expect(0);
    assert_eq!(world.github.pulls().len(), 1, "{}", output.text());
    assert_eq!(world.github.verification_of(BRANCH)["reason"], "valid");
    assert!(!output.stderr.contains("does not verify"), "{}", output.text());
    let path = world.github.repository_path();
    assert!(verified_by_git(&path, BRANCH, &public));
    let (_, other) = key("ed25519", "");
    assert!(!verified_by_git(&path, BRANCH, &other));
    // The key went nowhere.
    let body: String = private.lines().nth(2).unwrap().to_owned();
    assert_eq!(world.holds(&body), Vec::<std::path::PathBuf>::new());
    assert!(!output.text().contains(&body) && !world.told().contains(&body));
}

#[test]
fn keys_of_other_kinds_sign_too() {
    // By git, which asks `ssh-keygen -Y verify`; GitHub's double asks it as well.
    let kinds = [
        ("rsa", "2048", ""),
        ("rsa", "4096", "open sesame 2026"),
        ("ecdsa", "256", ""),
        ("ecdsa", "384", "open sesame 2026"),
    ];
    for (kind, bits, passphrase) in kinds {
        let kind = ["-t", kind, "-b", bits];
        let (private, public) = readable_key_of(&kind, passphrase);
        let world = signing(github().signing_key(EMAIL, &public), &private)
            .set("PATCHWRIGHT_SIGNING_KEY_PASSPHRASE", passphrase);
        let output = world.issue().expect(0);
        let reason = world.github.verification_of(BRANCH)["reason"].clone();
        assert_eq!(reason, "valid", "{kind:?}: {}", output.text());
        let path = world.github.repository_path();
        assert!(verified_by_git(&path, BRANCH, &public), "{kind:?}");
        let (_, other) = readable_key_of(&kind, "");
        assert!(!verified_by_git(&path, BRANCH, &other), "{kind:?}");
    }
}

/// A run that is resumed signs again, and must come to the commit that it has pushed.
#[test]
fn the_same_commit_signed_twice_is_the_same_commit() {
    let world = TestWorld::new(github(), fix());
    let repository = Repo::open(&world.github.repository_path()).unwrap();
    let commit = shown(&world, "main", "%H").parse().unwrap();
    for kind in [vec!["-t", "ed25519"], vec!["-t", "rsa"], vec!["-t", "ecdsa", "-b", "384"]] {
        let (private, _) = readable_key_of(&kind, "");
        let env = Env::from_pairs([("PATCHWRIGHT_SIGNING_KEY", private.as_str())]);
        let signed =
            [(); 2].map(|()| SigningKey::of(&env).unwrap().sign(&repository, commit).unwrap());
        assert_eq!(signed[0], signed[1], "{kind:?}");
        assert_ne!(signed[0], commit, "{kind:?}");
    }
}

#[test]
fn keys_come_from_files_with_passphrases_and_in_one_line() {
    let (private, public) = key("ed25519", "open sesame 2026");
    let world = signing(github().signing_key(EMAIL, &public), &private.replace('\n', "\\n"))
        .set("PATCHWRIGHT_SIGNING_KEY_PASSPHRASE", "open sesame 2026");
    world.issue().expect(0);
    assert_eq!(world.github.verification_of(BRANCH)["reason"], "valid");
    let world = signing(github().signing_key(EMAIL, &public), "");
    fs_err::write(world.path("key"), &private).unwrap();
    let file = world.path("key").display().to_string();
    let world = world
        .unset("PATCHWRIGHT_SIGNING_KEY")
        .set("PATCHWRIGHT_SIGNING_KEY_FILE", file)
        .set("PATCHWRIGHT_SIGNING_KEY_PASSPHRASE", "open sesame 2026");
    world.issue().expect(0);
    assert_eq!(world.github.verification_of(BRANCH)["reason"], "valid");
}

#[test]
fn a_key_that_cannot_sign_is_said_before_anything_is_asked() {
    let (locked, public) = key("ed25519", "open sesame 2026");
    let (short, _) = key_of(&["-t", "rsa", "-b", "1024"], "");
    // Half of them cannot be read at all.
    let (other, _) = key_of(&["-t", "ecdsa", "-b", "521"], "");
    let cases = [
        ("", "", "there is no key", "PATCHWRIGHT_SIGNING_KEY_FILE"),
        (locked.as_str(), "", "has a passphrase", "PATCHWRIGHT_SIGNING_KEY_PASSPHRASE"),
        (locked.as_str(), "wrong words 1", "is not the passphrase", "ssh-keygen -y"),
        (public.as_str(), "", "is the public part", "without `.pub`"),
        (short.as_str(), "", "the RSA key of `PATCHWRIGHT_SIGNING_KEY` cannot", "2048 bits"),
        (other.as_str(), "", "key of `PATCHWRIGHT_SIGNING_KEY`", "ECDSA with 256 or 384 bits"),
        ("canary-4711-of-a-key", "", "is not a private key", "BEGIN OPENSSH PRIVATE KEY"),
    ];
    for (private, passphrase, said, hint) in cases {
        let world =
            signing(github(), private).set("PATCHWRIGHT_SIGNING_KEY_PASSPHRASE", passphrase);
        let output = world.issue().expect(2);
        assert!(output.stderr.contains(said) && output.stderr.contains(hint), "{}", output.text());
        assert!(!output.stderr.contains("canary-4711") && !output.stderr.contains("wrong words"));
        let asked = (world.model.requests().len(), world.github.writes().len());
        assert_eq!(asked, (0, 0), "{said}");
    }
}

#[test]
fn a_signature_that_github_does_not_verify_is_told() {
    let (private, _) = key("ed25519", "");
    let (_, other) = key("ed25519", "");
    for (github, reason) in [
        (github(), "no account has its key"),
        (github().signing_key("somebody@else.example", &other), "belongs to no account"),
        (github().signing_key(EMAIL, &other), "no account has its key"),
    ] {
        let world = signing(github, &private);
        let output = world.issue().expect(0);
        let said = "GitHub does not verify commit";
        assert!(
            output.stderr.contains(said) && output.stderr.contains(reason),
            "{}",
            output.text()
        );
        assert_eq!(world.github.pulls().len(), 1);
    }
    // Where commits must be verified, nothing is proposed.
    let world = signing(github().signing_key(EMAIL, &other), &private);
    fs_err::write(world.path("c.yml"), "commits: {require-verified: true}\n").unwrap();
    let output = world.run(&["issue", "acme/app#7", "--config", "c.yml"]).expect(30);
    assert!(output.stderr.contains("nothing was pushed"), "{}", output.text());
    assert!(output.stderr.contains("SHA256:"), "{}", output.text());
    assert_eq!((world.github.pulls().len(), branches(&world)), (0, vec!["main".to_owned()]));
}

#[test]
fn a_commit_names_author_committer_and_those_who_stand_for_it() {
    let world = TestWorld::new(github(), fix());
    fs_err::write(
        world.path("c.yml"),
        "identity: {name: Robo, email: robo@acme.example, committer-name: CI, committer-email: ci@acme.example}\n\
         commits: {sign-off: true, co-authors: ['A. Person <a@acme.example>', requester]}\n",
    )
    .unwrap();
    world.run(&["issue", "acme/app#7", "--config", "c.yml"]).expect(0);
    let people = "%an <%ae>|%cn <%ce>";
    assert_eq!(shown(&world, BRANCH, people), "Robo <robo@acme.example>|CI <ci@acme.example>");
    let trailers = shown(&world, BRANCH, "%(trailers:only)");
    let lines: Vec<&str> = trailers.lines().skip(1).collect();
    // A person at the command line is nobody in particular.
    assert_eq!(
        lines,
        ["Co-authored-by: A. Person <a@acme.example>", "Signed-off-by: Robo <robo@acme.example>"]
    );
    // The branch is known as ours by its committer.
    world.model.add(ending("Add, and say so in the manual"));
    world.run(&["issue", "acme/app#7", "--config", "c.yml"]).expect(0);
    assert_eq!((world.github.pulls().len(), branches(&world).len()), (1, 2));
}

#[test]
fn a_repository_can_ask_for_sign_offs_and_not_be_rid_of_them() {
    let files = [
        crate::support::world::FILES,
        &[(".github/patchwright.yml", "commits: {sign-off: true, signing: none}\n")],
    ]
    .concat();
    let world = TestWorld::new(crate::support::world::github_with(&files), fix());
    let output = world.issue().expect(0);
    assert!(output.stderr.contains("`commits.signing`"), "{}", output.text());
    assert!(raw(&world, BRANCH).ends_with(&format!("Signed-off-by: patchwright[bot] <{EMAIL}>\n")));
}
