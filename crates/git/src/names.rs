//! What a path may be called: rules for paths that come from repositories and from the sandbox.
//! Pure; used by [`super::archive`] (what goes in) and [`super::change`] (what comes out).

use icu_normalizer::ComposingNormalizerBorrowed;

use patchwright_base::invisible::is_invisible;

/// Longest path, in bytes.
pub(super) const MAX_PATH: usize = 4096;

/// Why one segment of a path from a git tree cannot be a file or folder name, if so.
pub(super) fn segment_problem(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("an empty name"),
        b"." | b".." => Some("a name that means another folder"),
        _ if name.len() > 255 => Some("a name of more than 255 bytes"),
        _ if name.contains(&b'/') || name.contains(&0) => Some("a name with `/` or NUL in it"),
        _ if name.split(|byte| *byte == b'\\').any(is_dot_git) => {
            Some("a name that some systems take for `.git`")
        }
        _ => None,
    }
}

/// Why a path from the sandbox cannot be part of a change, if so. Stricter than for paths that are
/// in the base already.
pub(super) fn path_problem(path: &str) -> Option<String> {
    if path.len() > MAX_PATH {
        return Some(format!("a path of more than {MAX_PATH} bytes"));
    }
    if path.chars().any(|c| c.is_control() || is_invisible(c)) {
        return Some("a path with control or invisible characters".to_owned());
    }
    path.split('/').find_map(|name| segment_problem(name.as_bytes())).map(str::to_owned)
}

/// Why a symlink at `path` may not point to `target`, if so. Decided by the text alone: `..` may
/// only come first, so that no other link on the way can change what it means.
pub(super) fn target_problem(path: &str, target: &[u8]) -> Option<&'static str> {
    let Ok(target) = std::str::from_utf8(target) else {
        return Some("a symlink whose target is not UTF-8");
    };
    if target.is_empty() || target.len() > MAX_PATH {
        return Some("a symlink with an empty or overlong target");
    }
    if target.chars().any(|c| c.is_control() || c == '\\') {
        return Some("a symlink with control characters or backslashes in its target");
    }
    if target.starts_with('/') {
        return Some("a symlink with an absolute target");
    }
    let mut depth = path.matches('/').count();
    let mut descended = false;
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if descended => return Some("a symlink whose target has `..` after a name"),
            ".." if depth == 0 => return Some("a symlink that leaves the repository"),
            ".." => depth -= 1,
            name if is_dot_git(name.as_bytes()) => return Some("a symlink into `.git`"),
            _ => descended = true,
        }
    }
    None
}

/// Two names with the same key are one file on systems that ignore case or normalise Unicode.
pub(super) fn collision_key(name: &str) -> String {
    let nfc = ComposingNormalizerBorrowed::new_nfc();
    nfc.normalize(&nfc.normalize(name).to_lowercase()).into_owned()
}

/// Whether HFS+, NTFS or a system that ignores case opens `.git` by this name.
fn is_dot_git(name: &[u8]) -> bool {
    let text = String::from_utf8_lossy(name);
    let visible: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    let stream = visible.split(':').next().unwrap_or_default();
    let plain = stream.trim_end_matches(['.', ' ']).to_ascii_lowercase();
    let short = plain
        .strip_prefix("git~")
        .is_some_and(|digit| digit.len() == 1 && digit.bytes().all(|byte| byte.is_ascii_digit()));
    plain == ".git" || short
}

#[cfg(test)]
mod tests {
    use crate::names::*;

    #[test]
    fn refuses_names_that_are_not_plain_files() {
        for (path, allowed) in [
            ("src/main.rs", true),
            ("-rf", true),
            (".github/x", true),
            (".gitignore", true),
            ("git~x", true),
            ("a b/é", true),
            ("aux", true),
            ("", false),
            ("/etc/passwd", false),
            ("a/../b", false),
            ("a//b", false),
            ("./a", false),
            (".git/config", false),
            ("sub/.git/hooks/x", false),
            (".GIT/config", false),
            ("git~1/config", false),
            (".git./config", false),
            (".git::$INDEX_ALLOCATION/config", false),
            (".g\u{200c}it/config", false),
            ("a\\.git\\config", false),
            ("a\nb", false),
            ("a\u{1b}[31m", false),
            ("a\u{202e}b", false),
        ] {
            assert_eq!(path_problem(path).is_none(), allowed, "{path:?}");
        }
    }

    #[test]
    fn keeps_symlinks_inside_the_tree() {
        for (path, target, allowed) in [
            ("a", "b", true),
            ("a/b/c", "../../d", true),
            ("a/b", "./../c/d", true),
            ("a", "../b", false),
            ("a/b", "../../c", false),
            ("a/b", "/etc/passwd", false),
            ("a/b/c", "d/../../../e", false),
            ("a", ".git/config", false),
            ("a/b", "../.GIT/config", false),
            ("a", "", false),
            ("a", "b\\c", false),
        ] {
            let problem = target_problem(path, target.as_bytes());
            assert_eq!(problem.is_none(), allowed, "{path} -> {target}: {problem:?}");
        }
    }

    #[test]
    fn equal_keys_mean_one_file_on_other_systems() {
        for (one, other, equal) in [
            ("README", "readme", true),
            ("\u{e9}", "e\u{301}", true),
            ("\u{c9}", "e\u{301}", true),
            ("a", "b", false),
        ] {
            assert_eq!(collision_key(one) == collision_key(other), equal, "{one} {other}");
        }
    }
}
