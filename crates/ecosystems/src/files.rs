//! The tree of a commit as this crate reads it: folders are listed, small files are read, nothing is
//! written or run. The caller backs [`Tree`] with git; [`Files`] puts bounds around whatever it says,
//! because names and contents are a stranger's.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// Most bytes of one file that are looked at: the lock files of large monorepos have a few megabytes.
pub const MAX_FILE_BYTES: usize = 8 << 20;
/// Most bytes of all files together.
const MAX_ALL_BYTES: usize = 64 << 20;
/// Most names of one folder.
const MAX_NAMES: usize = 5_000;
/// Most folders that are listed.
const MAX_FOLDERS: usize = 4_000;
/// Most bytes of a path.
const MAX_PATH: usize = 500;

/// The kind of a folder entry. Links, submodules and the like are not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
}

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub kind: Kind,
}

/// A tree at a commit.
pub trait Tree {
    /// What is in a folder; the root is the empty path. Empty when there is no such folder.
    fn list(&self, folder: &str) -> Vec<Entry>;
    /// A regular file. `None` when there is none, or when it is longer than `most` bytes.
    fn read(&self, path: &str, most: usize) -> Option<Vec<u8>>;
}

/// A tree in memory, by path: for tests, and for callers that have read everything already.
impl Tree for BTreeMap<String, Vec<u8>> {
    fn list(&self, folder: &str) -> Vec<Entry> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut found: Vec<Entry> = Vec::new();
        for path in self.keys().filter_map(|path| path.strip_prefix(&prefix)) {
            let (name, kind) = match path.split_once('/') {
                Some((name, _)) => (name, Kind::Folder),
                None => (path, Kind::File),
            };
            if found.last().is_none_or(|last| last.name != name) {
                found.push(Entry { name: name.to_owned(), kind });
            }
        }
        found
    }

    fn read(&self, path: &str, most: usize) -> Option<Vec<u8>> {
        self.get(path).filter(|bytes| bytes.len() <= most).cloned()
    }
}

/// A [`Tree`] with bounds and a memory. Files with hostile names are hidden.
pub struct Files<'a> {
    tree: &'a dyn Tree,
    folders: RefCell<BTreeMap<String, Vec<Entry>>>,
    texts: RefCell<BTreeMap<String, Option<String>>>,
    bytes: RefCell<usize>,
}

impl<'a> Files<'a> {
    pub fn new(tree: &'a dyn Tree) -> Files<'a> {
        Files {
            tree,
            folders: RefCell::default(),
            texts: RefCell::default(),
            bytes: RefCell::default(),
        }
    }

    /// What is in a folder, sorted by name.
    pub fn list(&self, folder: &str) -> Vec<Entry> {
        if let Some(known) = self.folders.borrow().get(folder) {
            return known.clone();
        }
        if self.folders.borrow().len() >= MAX_FOLDERS {
            return Vec::new();
        }
        let mut entries = self.tree.list(folder);
        entries.truncate(MAX_NAMES);
        entries.retain(|entry| is_plain(&entry.name) && folder.len() + entry.name.len() < MAX_PATH);
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        self.folders.borrow_mut().insert(folder.to_owned(), entries.clone());
        entries
    }

    /// Names of the files in a folder.
    pub fn files(&self, folder: &str) -> Vec<String> {
        self.names(folder, Kind::File)
    }

    /// Names of the folders in a folder.
    pub fn folders(&self, folder: &str) -> Vec<String> {
        self.names(folder, Kind::Folder)
    }

    fn names(&self, folder: &str, kind: Kind) -> Vec<String> {
        let entries = self.list(folder).into_iter().filter(|entry| entry.kind == kind);
        entries.map(|entry| entry.name).collect()
    }

    pub fn has_file(&self, path: &str) -> bool {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.list(folder).iter().any(|entry| entry.name == name && entry.kind == Kind::File)
    }

    /// A file as text, without a byte order mark and with LF at the ends of its lines: a command taken from it must have
    /// neither the mark nor a CR. `None` when the file does not exist or is too large.
    pub fn text(&self, path: &str) -> Option<String> {
        if let Some(known) = self.texts.borrow().get(path) {
            return known.clone();
        }
        let room = MAX_ALL_BYTES.saturating_sub(*self.bytes.borrow()).min(MAX_FILE_BYTES);
        let read = self.has_file(path).then(|| self.tree.read(path, room)).flatten();
        let text = read
            .filter(|bytes| bytes.len() <= room)
            .map(|bytes| plain(&String::from_utf8_lossy(&bytes)));
        *self.bytes.borrow_mut() += text.as_ref().map_or(0, String::len);
        self.texts.borrow_mut().insert(path.to_owned(), text.clone());
        text
    }
}

impl Files<'_> {
    /// As [`Files::text`], for one of very many files: not kept, and no part of the bytes that all files may have.
    pub(crate) fn glance(&self, path: &str, most: usize) -> Option<String> {
        let read = self.has_file(path).then(|| self.tree.read(path, most)).flatten();
        read.filter(|bytes| bytes.len() <= most)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn plain(text: &str) -> String {
    text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n")
}

/// A name that can be part of a path and is no trap in a command or a report.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && name != ".."
        && !name.contains(['/', '\\'])
        && !name.chars().any(patchwright_base::text::is_deceptive)
}

/// A path below a folder; the root folder is empty.
pub fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// A path that a file of the repository names, seen from a folder: `./` and `..` are resolved. `None`
/// when it leads out of the tree or is absolute.
pub fn resolve(folder: &str, path: &str) -> Option<String> {
    if path.starts_with(['/', '~']) || path.contains('\\') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            other => parts.push(other),
        }
    }
    Some(parts.join("/"))
}

/// A word of a shell command: quoted where it has to be.
pub fn quote(word: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The line, from 1, on which a text first stands.
pub fn line_of(text: &str, needle: &str) -> Option<u32> {
    let at = text.find(needle)?;
    u32::try_from(text[..at].matches('\n').count() + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> BTreeMap<String, Vec<u8>> {
        paths.iter().map(|path| ((*path).to_owned(), path.as_bytes().to_vec())).collect()
    }

    #[test]
    fn lists_and_reads_what_is_there() {
        let tree = tree(&["a.txt", "b/c.txt", "b/d/e.txt"]);
        let files = Files::new(&tree);
        assert_eq!(files.files(""), ["a.txt"]);
        assert_eq!(files.folders(""), ["b"]);
        assert_eq!(files.files("b"), ["c.txt"]);
        assert_eq!(files.folders("b"), ["d"]);
        assert!(files.has_file("b/d/e.txt") && !files.has_file("b/d"));
        assert_eq!(files.text("b/c.txt").as_deref(), Some("b/c.txt"));
        assert_eq!(files.text("nothing"), None);
    }

    struct Hostile;

    impl Tree for Hostile {
        fn list(&self, folder: &str) -> Vec<Entry> {
            let names = ["..", "a\nb", "x/../../etc", "\u{202e}x", "fine", "deep"];
            let kind = |name: &str| if name == "fine" { Kind::File } else { Kind::Folder };
            assert!(folder.len() < MAX_PATH);
            names.map(|name| Entry { name: name.to_owned(), kind: kind(name) }).into()
        }

        fn read(&self, _: &str, most: usize) -> Option<Vec<u8>> {
            Some(vec![b'x'; most + 1])
        }
    }

    #[test]
    fn hostile_names_and_sizes_do_not_exist() {
        let files = Files::new(&Hostile);
        assert_eq!(files.files(""), ["fine"]);
        assert_eq!(files.folders(""), ["deep"]);
        assert_eq!(files.text("fine"), None);
        let mut folder = String::new();
        while files.folders(&folder) == ["deep"] {
            folder = join(&folder, "deep");
        }
        assert!(folder.len() < MAX_PATH);
    }

    #[test]
    fn paths_of_others_stay_in_the_tree() {
        assert_eq!(resolve("a/b", "../c.txt").as_deref(), Some("a/c.txt"));
        assert_eq!(resolve("a", "./x//y").as_deref(), Some("a/x/y"));
        assert_eq!(resolve("a", "../../x"), None);
        assert_eq!(resolve("", "/etc/passwd"), None);
    }

    #[test]
    fn words_of_commands_are_quoted() {
        assert_eq!(quote("a-b_c/d.e[1]"), "'a-b_c/d.e[1]'");
        assert_eq!(quote("it's; rm"), r"'it'\''s; rm'");
        assert_eq!(quote("requirements.txt"), "requirements.txt");
    }
}
