//! Patches as people and tools write them, in the words of git that libgit2 reads: it takes neither an empty file that is
//! added or deleted, nor a name with a blank that is not quoted, nor a file without its line `diff --git`.

/// The same patch for libgit2. What is no patch stays as it is.
pub(crate) fn for_libgit2(patch: &str) -> String {
    let lines: Vec<&str> = patch.split_inclusive('\n').collect();
    let mut out = Vec::new();
    let (mut at, mut end_of_hunks) = (0, 0);
    while at < lines.len() {
        let line = lines[at];
        if line.starts_with("diff --git ") {
            let end = (at + 1..lines.len()).find(|next| !is_of_head(lines[*next]));
            let end = end.unwrap_or(lines.len());
            head(&lines[at..end], lines.get(end).copied(), &mut out);
            at = end;
        } else if is_bare(&lines[at..]) {
            bare(line, lines[at + 1], &mut out);
            at += 2;
        } else if let Some(counts) = hunk(line) {
            let end = at + 1 + length(&lines[at + 1..], counts);
            out.extend(lines[at..end].iter().map(|line| (*line).to_owned()));
            (at, end_of_hunks) = (end, out.len());
        } else {
            out.push(line.to_owned());
            at += 1;
        }
    }
    // Tools add blank lines as well, which only the end of a binary file is made of.
    if !patch.contains("GIT binary patch") {
        let written =
            out.iter().rposition(|line| !line.trim_end().is_empty()).map_or(0, |at| at + 1);
        out.truncate(written.max(end_of_hunks));
    }
    // Tools cut the last line break off, and then libgit2 takes the last line for damaged.
    let mut whole = out.concat();
    if !whole.ends_with('\n') {
        whole.push('\n');
    }
    whole
}

/// Lines between `diff --git` and what is changed.
fn is_of_head(line: &str) -> bool {
    const HEAD: &[&str] = &[
        "old mode ",
        "new mode ",
        "new file mode ",
        "deleted file mode ",
        "similarity index ",
        "dissimilarity index ",
        "rename ",
        "copy ",
        "index ",
        "--- ",
        "+++ ",
    ];
    HEAD.iter().any(|beginning| line.starts_with(beginning))
}

/// The head of a file; `next` is what comes behind it.
fn head(lines: &[&str], next: Option<&str>, out: &mut Vec<String>) {
    let named = name_of(lines[0]);
    match named.as_deref().filter(|name| name.contains(' ')) {
        Some(name) => out.push(format!("diff --git \"a/{name}\" \"b/{name}\"\n")),
        None => out.push(lines[0].to_owned()),
    }
    for line in &lines[1..] {
        let path = line.strip_prefix("--- ").or_else(|| line.strip_prefix("+++ "));
        match path.map(without_time).filter(|path| path.contains(' ') && !path.starts_with('"')) {
            Some(path) => out.push(format!("{} \"{path}\"\n", &line[..3])),
            None => out.push((*line).to_owned()),
        }
    }
    let says = |beginning: &str| lines.iter().any(|line| line.starts_with(beginning));
    let has_content = says("--- ")
        || next.is_some_and(|next| {
            next.starts_with("GIT binary patch") || next.starts_with("Binary ")
        });
    let Some(name) = named.filter(|_| !has_content) else { return };
    if let Some(last) = out.last_mut().filter(|last| !last.ends_with('\n')) {
        last.push('\n');
    }
    if says("new file mode ") {
        out.push(format!("--- /dev/null\n+++ {}\n", quoted("b/", &name)));
    } else if says("deleted file mode ") {
        out.push(format!("--- {}\n+++ /dev/null\n", quoted("a/", &name)));
    }
}

/// The one name of `diff --git a/NAME b/NAME`, as it is between the quotes where it has some.
fn name_of(line: &str) -> Option<String> {
    let both = line.trim_end_matches(['\n', '\r']).strip_prefix("diff --git ")?;
    if let Some(quoted) = both.strip_prefix("\"a/") {
        let (name, _) = quoted.split_once("\" \"b/")?;
        return Some(name.to_owned());
    }
    let length = both.len().checked_sub("a/ b/".len())? / 2;
    let name = both.strip_prefix("a/")?.get(..length)?;
    (both == format!("a/{name} b/{name}")).then(|| name.to_owned())
}

fn quoted(side: &str, name: &str) -> String {
    let needs = name.contains([' ', '\\']);
    if needs { format!("\"{side}{name}\"") } else { format!("{side}{name}") }
}

/// Without the time of the file that `diff -u` writes, and the tab that git writes behind a name with a blank.
fn without_time(path: &str) -> &str {
    path.split(['\t', '\n', '\r']).next().unwrap_or(path)
}

/// A file that begins without git's own line.
fn is_bare(lines: &[&str]) -> bool {
    matches!(lines, [old, new, at, ..]
        if old.starts_with("--- ") && new.starts_with("+++ ") && hunk(at).is_some())
}

fn bare(old: &str, new: &str, out: &mut Vec<String>) {
    let (old, new) = (without_time(&old[4..]), without_time(&new[4..]));
    let name = |path: &str, side: &str| path.strip_prefix(side).unwrap_or(path).to_owned();
    let (before, after) = (name(old, "a/"), name(new, "b/"));
    let (is_new, is_gone) = (old == "/dev/null", new == "/dev/null");
    let shown = if is_gone { &before } else { &after };
    out.push(format!("diff --git {} {}\n", quoted("a/", shown), quoted("b/", shown)));
    if is_new {
        out.push("new file mode 100644\n".to_owned());
    } else if is_gone {
        out.push("deleted file mode 100644\n".to_owned());
    }
    let side = |is_none: bool, side: &str| {
        if is_none { "/dev/null".to_owned() } else { quoted(side, shown) }
    };
    out.push(format!("--- {}\n+++ {}\n", side(is_new, "a/"), side(is_gone, "b/")));
}

/// The lines that a hunk has of the old file and of the new one.
fn hunk(line: &str) -> Option<(usize, usize)> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let count = |range: &str| range.split_once(',').map_or(Some(1), |(_, it)| it.parse().ok());
    Some((count(old)?, count(new)?))
}

/// How many lines a hunk goes on for, so that no line of it is taken for a head.
fn length(lines: &[&str], (mut old, mut new): (usize, usize)) -> usize {
    let mut at = 0;
    while at < lines.len() && (old > 0 || new > 0) {
        match lines[at].as_bytes().first() {
            Some(b'-') => old = old.saturating_sub(1),
            Some(b'+') => new = new.saturating_sub(1),
            Some(b'\\') => {}
            _ => (old, new) = (old.saturating_sub(1), new.saturating_sub(1)),
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGE: &str = "diff --git a/a.py b/a.py\nindex 78981922613b..c1827f07e114 100644\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n--- x\n-a\n+++ y\n+b\n";

    #[test]
    fn what_libgit2_reads_stays_as_it_is() {
        let binary = "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..1111111\nGIT binary patch\nliteral 1\nIc$`\n\n";
        for patch in [CHANGE, binary, "no patch\n"] {
            assert_eq!(for_libgit2(patch), patch);
        }
        assert_eq!(for_libgit2(CHANGE.trim_end()), CHANGE);
    }

    #[test]
    fn empty_files_and_blanks_and_bare_heads_are_written_as_libgit2_reads_them() {
        let empty = "diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n";
        let expected = format!("{empty}--- /dev/null\n+++ b/e\n{CHANGE}");
        assert_eq!(for_libgit2(&format!("{empty}{CHANGE}")), expected);
        let gone = "diff --git a/e b/e\ndeleted file mode 100644\nindex e69de29..0000000";
        assert_eq!(for_libgit2(gone), format!("{gone}\n--- a/e\n+++ /dev/null\n"));
        assert_eq!(for_libgit2(&format!("{gone}\n\n\n")), for_libgit2(gone));
        assert_eq!(for_libgit2(&format!("{CHANGE}\n")), CHANGE);
        let blank = "diff --git a/a b b/a b\n--- a/a b\t\n+++ b/a b\t\n@@ -1 +1 @@\n-a\n+b\n";
        let quoted =
            "diff --git \"a/a b\" \"b/a b\"\n--- \"a/a b\"\n+++ \"b/a b\"\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(for_libgit2(blank), quoted);
        let bare = "--- a/a.py\t2026-01-01\n+++ b/a.py\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n";
        let whole = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n";
        assert_eq!(for_libgit2(bare), whole);
    }
}
