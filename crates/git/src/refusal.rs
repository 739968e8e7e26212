//! What a git server's refusal means. The server's own words are read here, once, where they arrive;
//! everything behind works with what they mean.
//!
//! Called by [`super::http`] for statuses and by [`super::push`] for what became of a ref.

use serde_json::Value;

use super::printable;

/// Why the server does not let us in, though it knows who we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The repository takes no more writes from anybody.
    Archived,
    /// The token may not.
    Permission,
}

impl Denial {
    pub(super) fn from_message(message: &str) -> Denial {
        if message.to_lowercase().contains("archived") {
            Denial::Archived
        } else {
            Denial::Permission
        }
    }
}

/// Why the server did not take a ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The commit changes workflow files, and the token may not.
    Workflows,
    /// A branch is in the way of the name: `a` of `a/b`, or `a/b` of `a`.
    InTheWay,
    /// The ref is being written by somebody else right now.
    Locked,
    /// The server found keys or passwords in what was pushed.
    Secrets,
    /// A rule of the repository, or a reason that we do not know.
    Rule,
}

impl Rejection {
    /// From git's reason behind `ng` and what the server remarked.
    pub(super) fn from_reason(reason: &str, remarks: &str) -> Rejection {
        let reason = reason.to_lowercase();
        let all = format!("{reason}\n{}", remarks.to_lowercase());
        let says = |words: &[&str]| words.iter().any(|word| reason.contains(word));
        if all.contains("workflow")
            && ["refusing to allow", "permission", "scope"].iter().any(|word| all.contains(word))
        {
            Rejection::Workflows
        } else if all.contains("push protection") || all.contains("secret") {
            Rejection::Secrets
        } else if says(&["directory file conflict", "directory/file conflict", "refname conflict"])
            || (reason.contains("exists") && reason.contains("cannot create"))
        {
            Rejection::InTheWay
        } else if says(&[
            "cannot lock ref",
            "failed to lock",
            "failed to update ref",
            "incorrect old value",
            "reference already exists",
        ]) {
            Rejection::Locked
        } else {
            Rejection::Rule
        }
    }
}

/// What the body of a refusal says, for people: the message of GitHub's JSON, or the text.
pub(super) fn explanation(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let json = serde_json::from_str::<Value>(&text).ok();
    let message = json.as_ref().and_then(|json| json.get("message")).and_then(Value::as_str);
    let text = message.unwrap_or(&text).trim();
    if text.is_empty() {
        return "without a reason".to_owned();
    }
    if text.starts_with('<') {
        return "with a web page".to_owned();
    }
    printable(text, 300)
}

/// Remarks without the invitation to open a pull request that servers put below every push: it has
/// nothing to do with why a push was refused. The rules that GitHub counts up as broken come first: readers of a
/// short line see no more than the beginning, and what GitHub begins with is an address of all rules.
pub(super) fn remarks(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut invited = false;
    for line in text.lines() {
        let words = line.trim();
        let lower = words.to_lowercase();
        if (lower.starts_with("create a") || lower.starts_with("to create a"))
            && (lower.contains("pull request") || lower.contains("merge request"))
        {
            invited = true;
        } else if invited && (lower.starts_with("http://") || lower.starts_with("https://")) {
            invited = false;
        } else if !words.is_empty() {
            kept.push(words);
        }
    }
    if kept.iter().any(|line| line.contains("GH013:"))
        && let Some(first) = kept.iter().position(|line| names_a_rule(line))
    {
        kept.rotate_left(first);
    }
    printable(&kept.join("\n"), 2_000)
}

fn names_a_rule(line: &str) -> bool {
    line.starts_with("- ")
}

/// What GitHub's push protection found and where: `Amazon AWS Access Key ID in config.txt:1`. It says so in a long
/// text of which the beginning names neither:
///
/// ```text
/// —— Amazon AWS Access Key ID ———————
///  locations:
///    - commit: 0123…
///      path: config.txt:1
/// ```
///
/// <https://docs.github.com/en/code-security/secret-scanning/working-with-secret-scanning-and-push-protection/working-with-push-protection-from-the-command-line>
fn found_secrets(remarks: &str) -> Option<String> {
    let (mut found, mut kind) = (Vec::new(), "a secret");
    for line in remarks.lines().map(str::trim) {
        let between = line.trim_matches(['—', '–', '-', ' ']);
        if line.starts_with("——") && !between.is_empty() {
            kind = between;
        } else if let Some(path) = line.strip_prefix("path: ") {
            found.push(format!("{kind} in {path}"));
        }
    }
    (!found.is_empty()).then(|| found.join(", "))
}

/// Git's reason and the server's remarks, what says most first.
pub(super) fn reason(refusal: &str, remarks: &str) -> String {
    let refusal = printable(refusal, 500);
    if let Some(found) = found_secrets(remarks) {
        return format!("{found}\n{refusal}\n{remarks}");
    }
    // Of broken rules, git's own words say that there are some.
    let both = if names_a_rule(remarks) { [remarks, &refusal] } else { [&refusal, remarks] };
    both.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use crate::refusal::{Rejection, explanation, reason, remarks};

    #[test]
    fn git_and_github_say_why_a_ref_was_not_taken() {
        for (reason, said, wanted) in [
            (
                "refusing to allow a GitHub App to create or update workflow \
                 `.github/workflows/ci.yml` without `workflows` permission",
                "",
                Rejection::Workflows,
            ),
            (
                "push declined due to repository rule violations",
                "GH013: Required workflow \"lint\" is not satisfied",
                Rejection::Rule,
            ),
            ("pre-receive hook declined", "GH006: Protected branch update failed", Rejection::Rule),
            (
                "cannot lock ref 'refs/heads/a/b': 'refs/heads/a' exists; cannot create \
                 'refs/heads/a/b'",
                "",
                Rejection::InTheWay,
            ),
            ("directory file conflict", "", Rejection::InTheWay),
            ("refname conflict", "", Rejection::InTheWay),
            ("cannot lock ref 'refs/heads/a': is at 1234 but expected 5678", "", Rejection::Locked),
            (
                "cannot lock ref 'refs/heads/a': Unable to create '/r/refs/heads/a.lock': File exists.",
                "",
                Rejection::Locked,
            ),
            ("failed to update ref", "", Rejection::Locked),
            ("fetch first", "", Rejection::Rule),
            (
                "push declined due to repository rule violations",
                "- GITHUB PUSH PROTECTION\n- Push cannot contain secrets",
                Rejection::Secrets,
            ),
        ] {
            assert_eq!(Rejection::from_reason(reason, said), wanted, "{reason}");
        }
    }

    #[test]
    fn the_invitation_to_open_a_pull_request_is_no_reason() {
        let banner = "\nCreate a pull request for 'a/b' on GitHub by visiting:\n     \
                      https://github.com/acme/app/pull/new/a/b\n\n";
        assert_eq!(remarks(banner), "");
        let both = format!("{banner}error: GH006: Protected branch\nhttps://github.com/why\n");
        assert_eq!(remarks(&both), "error: GH006: Protected branch\nhttps://github.com/why");
    }

    #[test]
    fn the_rule_that_was_broken_is_said_first() {
        let said = "error: GH013: Repository rule violations found for refs/heads/a/b.\n\
                    Review all repository rules at https://github.com/acme/app/rules?ref=refs%2Fheads%2Fa%2Fb\n\
                    \n- Commits must have verified signatures.\n  Found 1 violation:\n\n  0123abcd\n";
        let declined = "push declined due to repository rule violations";
        let whole = reason(declined, &remarks(said));
        assert!(whole.starts_with("- Commits must have verified signatures.\nFound 1"), "{whole}");
        for rest in ["GH013", "/acme/app/rules?ref", declined] {
            assert!(whole.contains(rest), "{whole}");
        }
        assert_eq!(
            reason(declined, &remarks("error: GH013: x\n")),
            format!("{declined}\nerror: GH013: x")
        );
        assert_eq!(reason("fetch first", ""), "fetch first");
    }

    #[test]
    fn what_push_protection_found_and_where_is_said_first() {
        let said = "error: GH013: Repository rule violations found for refs/heads/a.\n\n- GITHUB PUSH PROTECTION\n  \
                    ——————————————\n    Resolve the following violations before pushing again\n\n    - Push cannot \
                    contain secrets\n\n      —— Amazon AWS Access Key ID ——————————————\n       locations:\n         - \
                    commit: 0123abcd\n           path: config.txt:1\n         - commit: 0123abcd\n           path: \
                    more.txt:7\n";
        let declined = "push declined due to repository rule violations";
        let whole = reason(declined, &remarks(said));
        let first =
            "Amazon AWS Access Key ID in config.txt:1, Amazon AWS Access Key ID in more.txt:7\n";
        assert!(whole.starts_with(first), "{whole}");
        assert!(whole.contains("GH013"), "{whole}");
    }

    #[test]
    fn the_words_of_a_refusal_are_whole() {
        let long =
            format!("{{\"message\":\"{}\",\"documentation_url\":\"x\"}}", "word ".repeat(90));
        let said = explanation(long.as_bytes());
        assert!(said.starts_with("word word") && said.ends_with("word \u{2026}"), "{said}");
        assert_eq!(explanation(b"{\"message\":\"Denied.\"}"), "Denied.");
        assert_eq!(explanation(b"<html>"), "with a web page");
        assert_eq!(explanation(b" \n"), "without a reason");
    }
}
