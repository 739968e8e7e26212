//! Rules for branches, signatures of commits, and what pull requests get beside their text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::builder::GitHub;
use super::git;
use super::server::Server;
use crate::support::git_http::{command, git_with_input};

/// What a repository has of all this.
#[derive(Clone, Debug, Default)]
pub(crate) struct Governance {
    /// Items of `rules/branches/…`, for every branch.
    pub(crate) rules: Vec<Value>,
    /// Those for branches whose names begin so.
    pub(crate) rules_below: Vec<(&'static str, Value)>,
    /// Nobody may delete a branch.
    pub(crate) keeps_branches: bool,
    /// What `current_user_can_bypass` says.
    pub(crate) bypass: Option<&'static str>,
    /// Number and title of those that are open.
    pub(crate) milestones: Vec<(u64, String)>,
    /// By issue.
    pub(crate) milestone_of: BTreeMap<u64, u64>,
    pub(crate) assignees: BTreeMap<u64, Vec<String>>,
    /// Teams, as `org/team`, that may write here.
    pub(crate) teams: BTreeSet<String>,
    pub(crate) no_auto_merge: bool,
    /// Nothing is required of a pull request, so that it could be merged at once.
    pub(crate) no_requirements: bool,
    /// Method and head, by pull request.
    pub(crate) auto_merge: BTreeMap<u64, (String, String)>,
    /// Pull requests that are no longer merged by GitHub itself, each with the head that it had then.
    pub(crate) merges_left: Vec<(u64, String)>,
    /// Commits that an App makes over REST are not signed.
    pub(crate) unsigned_apps: bool,
    /// The mutation makes another tree than it was told, as when it loses a mode.
    pub(crate) loses_files: bool,
    /// The mutation writes a file that it was not told of.
    pub(crate) adds_files: bool,
    /// Nobody here may change workflow files.
    pub(crate) keeps_workflows: bool,
}

impl Governance {
    /// What `rules/branches/…` says of a branch.
    pub(crate) fn rules_of(&self, branch: &str) -> Vec<Value> {
        let below = self.rules_below.iter().filter(|(prefix, _)| branch.starts_with(prefix));
        self.rules.iter().chain(below.map(|(_, rule)| rule)).cloned().collect()
    }
}

/// GitHub's own committer.
pub(crate) const WEB_FLOW: (&str, &str) = ("GitHub", "noreply@github.com");
const HEAD: &str = "-----BEGIN PGP SIGNATURE-----\n\n";
const TAIL: &str = "\n-----END PGP SIGNATURE-----\n";
/// In the repository's folder: who may sign with which SSH key.
const SIGNERS: &str = "allowed-signers";

/// GitHub's signature. Nobody else can make it.
fn web_flow(payload: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(b"the key of web-flow").unwrap();
    mac.update(payload.as_bytes());
    let code = BASE64_STANDARD.encode(mac.finalize().into_bytes());
    format!("{HEAD}{code}{TAIL}")
}

/// A commit as GitHub makes it.
pub(crate) struct NewCommit<'a> {
    pub(crate) tree: &'a str,
    pub(crate) parents: &'a [String],
    pub(crate) message: &'a str,
    pub(crate) author: (&'a str, &'a str),
    pub(crate) committer: (&'a str, &'a str),
    pub(crate) seconds: u64,
    pub(crate) signed: bool,
}

/// Writes it; no branch points to it.
pub(crate) fn write_commit(path: &Path, commit: &NewCommit<'_>) -> String {
    let mut headers = format!("tree {}\n", commit.tree);
    for parent in commit.parents {
        let _ = writeln!(headers, "parent {parent}");
    }
    for (what, (name, email)) in [("author", commit.author), ("committer", commit.committer)] {
        let _ = writeln!(headers, "{what} {name} <{email}> {} +0000", commit.seconds);
    }
    let payload = format!("{headers}\n{}", commit.message);
    let text = if commit.signed {
        // As git writes them: a blank before each further line, the last of which is empty.
        let signature = web_flow(&payload).replace('\n', "\n ");
        format!("{headers}gpgsig {signature}\n\n{}", commit.message)
    } else {
        payload
    };
    let args = ["hash-object", "-t", "commit", "-w", "--stdin"];
    git_with_input(path, &args, text.as_bytes()).trim().to_owned()
}

/// The text that was signed, and the signature.
fn taken_apart(text: &str) -> Option<(String, String)> {
    let (headers, message) = text.split_once("\n\n")?;
    let (mut kept, mut signature, mut inside) = (Vec::new(), Vec::new(), false);
    for line in headers.lines() {
        if let Some(first) = line.strip_prefix("gpgsig ") {
            signature.push(first.to_owned());
            inside = true;
        } else if let Some(more) = line.strip_prefix(' ').filter(|_| inside) {
            signature.push(more.to_owned());
        } else {
            inside = false;
            kept.push(line);
        }
    }
    let payload = format!("{}\n\n{message}", kept.join("\n"));
    (!signature.is_empty()).then(|| (payload, signature.join("\n")))
}

/// GitHub's opinion of a commit: `verification`.
pub(crate) fn verification(path: &Path, sha: &str) -> Value {
    let text = git::run(path, &["cat-file", "commit", sha]).unwrap_or_default();
    // The end of the message was cut off with the end of the output.
    let raw = command(path, &["cat-file", "commit", sha]).output().unwrap().stdout;
    let raw = String::from_utf8(raw).unwrap_or(text);
    let Some((payload, signature)) = taken_apart(&raw) else {
        return json!({"verified": false, "reason": "unsigned", "signature": null, "payload": null, "verified_at": null});
    };
    let reason = if signature.starts_with("-----BEGIN SSH") {
        ssh_reason(path, &payload, &signature)
    } else if web_flow(&payload).trim() == signature.trim() {
        "valid"
    } else {
        "invalid"
    };
    let at = if reason == "valid" { json!("2026-11-20T12:00:00Z") } else { Value::Null };
    json!({"verified": reason == "valid", "reason": reason, "signature": signature, "payload": payload, "verified_at": at})
}

/// What the real `ssh-keygen` says, for the address of the committer.
#[expect(clippy::disallowed_methods, reason = "signatures are verified by the real program")]
fn ssh_reason(path: &Path, payload: &str, signature: &str) -> &'static str {
    let committer = payload.lines().find(|line| line.starts_with("committer ")).unwrap_or_default();
    let email = committer.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    let email = email.map_or("", |(email, _)| email);
    let signers = path.join(SIGNERS);
    let known = fs_err::read_to_string(&signers).unwrap_or_default();
    if !known.lines().any(|line| line.split(' ').next() == Some(email)) {
        return if known.is_empty() { "unknown_key" } else { "no_user" };
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs_err::write(file.path(), signature).unwrap();
    let mut child = std::process::Command::new("ssh-keygen")
        .args(["-Y", "verify", "-n", "git", "-I", email, "-f"])
        .arg(&signers)
        .arg("-s")
        .arg(file.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
    if child.wait().unwrap().success() { "valid" } else { "unknown_key" }
}

fn rule(kind: &str, parameters: Option<Value>) -> Value {
    let mut rule = json!({
        "type": kind, "ruleset_id": 42, "ruleset_source": "acme", "ruleset_source_type": "Organization",
    });
    if let Some(parameters) = parameters {
        rule["parameters"] = parameters;
    }
    rule
}

impl GitHub {
    /// A rule for every branch of the current repository: `required_signatures`, or a kind with parameters.
    pub(crate) fn rule(self, kind: &str, parameters: Option<Value>) -> GitHub {
        let rule = rule(kind, parameters);
        self.with(|repository| repository.governance.rules.push(rule))
    }

    /// The same, for the branches whose names begin so.
    pub(crate) fn rule_below(
        self,
        prefix: &'static str,
        kind: &str,
        parameters: Option<Value>,
    ) -> GitHub {
        let rule = rule(kind, parameters);
        self.with(|repository| repository.governance.rules_below.push((prefix, rule)))
    }

    /// Commits that are not verified are refused, as git is told it, whether or not the rules can be read.
    pub(crate) fn refuses_unsigned_commits(self) -> GitHub {
        let (git, name) = (self.world.git.clone(), self.current.clone());
        // GitHub's own signatures are known by the committer, and those of others are verified.
        let script = format!(
            "#!/bin/sh\n\
             while read old new ref; do\n\
               case \"$new\" in 0000000*) continue;; esac\n\
               for commit in $(git rev-list \"$new\" --not --all); do\n\
                 if git cat-file commit \"$commit\" | grep -q '^gpgsig -----BEGIN PGP'; then continue; fi\n\
                 if git -c gpg.format=ssh -c gpg.ssh.allowedSignersFile=\"$PWD/{SIGNERS}\" verify-commit \"$commit\" >&2; then continue; fi\n\
                 echo \"error: GH013: Repository rule violations found for $ref.\" >&2\n\
                 echo '- Commits must have verified signatures.' >&2\n\
                 echo \"  Found 1 violation: $commit\" >&2\n\
                 exit 1\n\
               done\n\
             done\n"
        );
        git.hook(&name, "pre-receive", &script);
        self
    }

    /// Push protection: lines with this are a key, as git is told it.
    pub(crate) fn protects_pushes(self, key: &str) -> GitHub {
        let (git, name) = (self.world.git.clone(), self.current.clone());
        let script = format!(
            "#!/bin/sh\n\
             while read old new ref; do\n\
               case \"$new\" in 0000000*) continue;; esac\n\
               for commit in $(git rev-list \"$new\" --not --all); do\n\
                 found=$(git grep -n '{key}' \"$commit\" | head -n 1 | cut -d: -f2,3)\n\
                 [ -n \"$found\" ] || continue\n\
                 {{ echo \"error: GH013: Repository rule violations found for $ref.\"; echo\n\
                 echo '- GITHUB PUSH PROTECTION'\n\
                 echo '  —————————————————————————————————————————'\n\
                 echo '    Resolve the following violations before pushing again'; echo\n\
                 echo '    - Push cannot contain secrets'; echo; echo\n\
                 echo '     (?) Learn how to resolve a blocked push'\n\
                 echo '     https://docs.github.com/code-security/secret-scanning/pushing-a-branch-blocked-by-push-protection'; echo; echo\n\
                 echo '      —— Shop Access Token —————————————————————————————————'\n\
                 echo '       locations:'\n\
                 echo \"         - commit: $commit\"\n\
                 echo \"           path: $found\"; echo\n\
                 echo '       (?) To push, remove secret from commit(s) or follow this URL to allow the secret.'\n\
                 }} >&2\n\
                 exit 1\n\
               done\n\
             done\n"
        );
        git.hook(&name, "pre-receive", &script);
        self
    }

    /// An account with a signing key: commits whose committer has the address are verified with it.
    pub(crate) fn signing_key(self, email: &str, public: &str) -> GitHub {
        self.with(|repository| {
            let line = format!("{email} namespaces=\"git\" {public}\n");
            fs_err::write(repository.path.join(SIGNERS), line).unwrap();
        })
    }

    /// An open milestone.
    pub(crate) fn milestone(self, number: u64, title: &str) -> GitHub {
        self.with(|it| it.governance.milestones.push((number, title.to_owned())))
    }
}

impl Server {
    /// GitHub's opinion of the commit that a branch of the first repository points to.
    pub(crate) fn verification_of(&self, branch: &str) -> Value {
        let path = self.repository_path();
        let sha = git::tip(&path, branch).unwrap();
        verification(&path, &sha)
    }

    /// Nobody has a signing key any more.
    pub(crate) fn forget_signing_keys(&self) {
        let signers = self.repository_path().join(SIGNERS);
        fs_err::write(signers, "").unwrap();
    }

    /// As [`GitHub::signing_key`].
    pub(crate) fn add_signing_key(&self, email: &str, public: &str) {
        let signers = self.repository_path().join(SIGNERS);
        fs_err::write(signers, format!("{email} namespaces=\"git\" {public}\n")).unwrap();
    }

    pub(crate) fn governance(&self) -> Governance {
        self.change(|repository| repository.governance.clone())
    }
}

/// The tree of a commit with other entries; files as they are told, without regard to what was there.
pub(crate) struct TreeEdit<'a> {
    pub(crate) path: &'a str,
    pub(crate) mode: &'a str,
    /// None takes it away.
    pub(crate) object: Option<String>,
}

/// Writes the tree, through an index of its own.
pub(crate) fn write_tree(path: &Path, base: &str, edits: &[TreeEdit<'_>]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("index");
    let run = |args: &[&str], input: &str| {
        let mut child = command(path, args)
            .env("GIT_INDEX_FILE", &index)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    run(&["read-tree", base], "")?;
    let mut lines = String::new();
    for TreeEdit { path: name, mode, object } in edits {
        if let Some(object) = object {
            let _ = writeln!(lines, "{mode} {object}\t{name}");
        } else {
            git::run(path, &["cat-file", "-e", &format!("{base}:{name}")])?;
            let _ = writeln!(lines, "0 {}\t{name}", "0".repeat(40));
        }
    }
    run(&["update-index", "--replace", "--index-info"], &lines)?;
    run(&["write-tree"], "")
}

/// The address of an account for commits.
pub(crate) fn address(login: &str, id: u64) -> String {
    format!("{id}+{login}@users.noreply.github.com")
}
