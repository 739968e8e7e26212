//! Works out everything a patch does before anything is done.
//!
//! Sections apply in order, each to what the ones before it left ([`Overlay`]). The result is a list
//! of [`FileOp`]s on paths without links; whoever carries them out must refuse links in them, so that
//! a tree that changes meanwhile cannot lead a write elsewhere.

use std::collections::HashMap;
use std::io;

use super::apply;
use super::hosted;
use super::parse::{Hunk, ParseError, Patch, Section};
use super::tree::{self, Entry, Last, Tree};
use crate::block::nearest::{describe, describe_header};
use crate::tools::long_line;
use crate::tools::write_file::in_form_of;

/// What to do to the disk. Paths are relative to the root and have no links in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// Unlinks a file or a link.
    Remove {
        path: String,
    },
    /// Takes away a folder that the operations before have emptied.
    RemoveDir {
        path: String,
    },
    MakeDir {
        path: String,
    },
    /// Writes a file as a whole, with these permission bits; the default ones when absent.
    Write {
        path: String,
        content: Vec<u8>,
        mode: Option<u32>,
    },
}

impl FileOp {
    pub fn path(&self) -> &str {
        match self {
            FileOp::Remove { path }
            | FileOp::RemoveDir { path }
            | FileOp::MakeDir { path }
            | FileOp::Write { path, .. } => path,
        }
    }
}

/// A patch that fits its tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Removals first, then folders from the outside in, then files.
    pub ops: Vec<FileOp>,
    pub summary: Summary,
}

/// Paths as the patch writes them, in patch order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub added: Vec<String>,
    /// For a move, the destination.
    pub modified: Vec<String>,
    pub deleted: Vec<String>,
}

impl Summary {
    /// The text that models know, with a final newline.
    pub fn text(&self) -> String {
        let mut text = "Success. Updated the following files:\n".to_owned();
        for (letter, paths) in [('A', &self.added), ('M', &self.modified), ('D', &self.deleted)] {
            for path in paths {
                text.push(letter);
                text.push(' ');
                text.push_str(path);
                text.push('\n');
            }
        }
        text
    }
}

/// Why a patch does nothing. The texts are for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("{0}")]
    Parse(#[from] ParseError),
    #[error("{0}")]
    Apply(String),
    /// Lines that are not in the file, and the ones that come closest.
    #[error("{message}")]
    Lines { message: String, nearest: String },
    /// The text behind an `@@` is no line of the file, and the lines that come closest.
    #[error("Failed to find context '{header}' in {path}")]
    Context { header: String, path: String, nearest: String },
}

fn unfitting(err: apply::ApplyError, path: String, content: &[u8]) -> PatchError {
    match err {
        apply::ApplyError::Header(header) => {
            let text = String::from_utf8_lossy(content);
            let nearest = describe_header(&text.lines().collect::<Vec<_>>(), &header);
            PatchError::Context { header, path, nearest }
        }
        apply::ApplyError::Lines(block) => {
            let nearest = nearest(content, &block);
            PatchError::Lines { message: apply::ApplyError::Lines(block).at(&path), nearest }
        }
        err @ apply::ApplyError::NotUtf8(_) => PatchError::Apply(err.at(&path)),
    }
}

/// The lines of a file that are most like a block that is not in it.
fn nearest(content: &[u8], block: &str) -> String {
    let text = String::from_utf8_lossy(content);
    let (lines, block): (Vec<&str>, Vec<&str>) = (text.lines().collect(), block.lines().collect());
    describe(&lines, &block)
}

/// Text to find or to write has the mark of a line that was cut for showing, and the file has not.
fn refuse_cut<'l>(
    path: &str,
    mut lines: impl Iterator<Item = &'l str>,
    content: &[u8],
) -> Result<(), PatchError> {
    let is_there = || std::str::from_utf8(content).is_ok_and(long_line::is_marked);
    if lines.any(long_line::is_marked) && !is_there() {
        let why = long_line::advice();
        return Err(PatchError::Apply(format!("Failed to find expected lines in {path}: {why}")));
    }
    Ok(())
}

/// Plans a whole patch.
pub fn plan(patch: &Patch<'_>, tree: &dyn Tree) -> Result<Plan, PatchError> {
    let mut overlay = Overlay::new(tree);
    let mut summary = Summary::default();
    for section in &patch.sections {
        match section {
            Section::Add { path, lines } => {
                refuse_cut(path, lines.iter().copied(), b"")?;
                let mut content = String::with_capacity(lines.iter().map(|it| it.len() + 1).sum());
                for line in lines {
                    content.push_str(line);
                    content.push('\n');
                }
                overlay.write_text(path, &content)?;
                summary.added.push((*path).to_owned());
            }
            Section::Delete { path } => {
                overlay.delete(path)?;
                summary.deleted.push((*path).to_owned());
            }
            Section::Update { path, move_to, hunks } => {
                overlay.update(path, *move_to, hunks)?;
                summary.modified.push(move_to.unwrap_or(path).to_owned());
            }
        }
    }
    Ok(Plan { ops: overlay.into_ops(), summary })
}

/// Plans one hosted operation.
pub fn plan_hosted(operation: &hosted::Operation, tree: &dyn Tree) -> Result<Plan, PatchError> {
    let mut overlay = Overlay::new(tree);
    let mut summary = Summary::default();
    match operation {
        hosted::Operation::CreateFile { path, diff } => {
            let content = hosted::create(diff).map_err(|err| PatchError::Apply(err.to_string()))?;
            overlay.write_text(path, &content)?;
            summary.added.push(path.clone());
        }
        hosted::Operation::UpdateFile { path, diff } => {
            let (target, content, mode) = overlay.read(path)?;
            let text = String::from_utf8(content).map_err(|err| {
                PatchError::Apply(apply::ApplyError::NotUtf8(err.utf8_error()).at(path))
            })?;
            refuse_cut(path, diff.lines(), text.as_bytes())?;
            let content = hosted::update(&text, diff).map_err(|err| {
                let nearest = err.block().map(|block| nearest(text.as_bytes(), block));
                let nearest = nearest.map_or_else(String::new, |nearest| format!("\n{nearest}"));
                PatchError::Apply(format!("{err}\n(in {path}){nearest}"))
            })?;
            overlay.set(target, Node::File { content: content.into_bytes(), mode: Some(mode) });
            summary.modified.push(path.clone());
        }
        hosted::Operation::DeleteFile { path } => {
            overlay.delete(path)?;
            summary.deleted.push(path.clone());
        }
    }
    Ok(Plan { ops: overlay.into_ops(), summary })
}

enum Node {
    Absent,
    /// A folder that is not on the disk yet.
    NewDir,
    File {
        content: Vec<u8>,
        mode: Option<u32>,
    },
}

/// The tree as earlier sections left it.
struct Overlay<'t> {
    tree: &'t dyn Tree,
    nodes: HashMap<String, Node>,
    /// Paths of `nodes` in the order of their first change.
    order: Vec<String>,
}

impl<'t> Overlay<'t> {
    fn new(tree: &'t dyn Tree) -> Overlay<'t> {
        Overlay { tree, nodes: HashMap::new(), order: Vec::new() }
    }

    fn entry(&self, path: &str) -> io::Result<Entry> {
        match self.nodes.get(path) {
            Some(Node::Absent) => return Ok(Entry::Absent),
            Some(Node::NewDir) => return Ok(Entry::Dir),
            Some(Node::File { mode, .. }) => {
                return Ok(Entry::File { mode: mode.unwrap_or(DEFAULT_MODE) });
            }
            None => {}
        }
        // What is on the disk below a file that is gone, or below a new folder, is nothing.
        match self.nearest_change(path) {
            Some(Node::NewDir | Node::Absent) => Ok(Entry::Absent),
            Some(Node::File { .. }) | None => self.tree.entry(path),
        }
    }

    /// What became of the nearest folder around this path that was changed.
    fn nearest_change(&self, path: &str) -> Option<&Node> {
        let mut folder = parent(path);
        while !folder.is_empty() {
            if let Some(node) = self.nodes.get(folder) {
                return Some(node);
            }
            folder = parent(folder);
        }
        None
    }

    fn resolve(&self, clean: &str, last: Last) -> io::Result<(String, Entry)> {
        tree::resolve(clean, last, &|path| self.entry(path))
    }

    /// A path of the patch that is going to be changed. `failure` begins the refusal.
    fn clean(&self, path: &str, failure: &str) -> Result<String, PatchError> {
        let clean = self
            .tree
            .clean(path)
            .map_err(|why| PatchError::Apply(format!("{failure} {path}: {why}")))?;
        refuse_git_dir(&clean, &self.tree.shown(path), failure)?;
        Ok(clean)
    }

    /// The content and mode of a file that is going to be changed, and where it really is.
    fn read(&self, path: &str) -> Result<(String, Vec<u8>, u32), PatchError> {
        const FAILURE: &str = "Failed to read file to update";
        let shown = self.tree.shown(path);
        let failed = |why: String| PatchError::Apply(format!("{FAILURE} {shown}: {why}"));
        let clean = self.clean(path, FAILURE)?;
        let (target, entry) =
            self.resolve(&clean, Last::Follow).map_err(|err| failed(reason(&err)))?;
        refuse_git_dir(&target, &shown, FAILURE)?;
        let mode = match entry {
            Entry::File { mode } => mode,
            Entry::Absent => return Err(failed(not_found().to_string())),
            Entry::Dir | Entry::Link(_) | Entry::Outside | Entry::Other => {
                return Err(failed(format!("path `{shown}` is not a file")));
            }
        };
        let content = match self.nodes.get(&target) {
            Some(Node::File { content, .. }) => content.clone(),
            _ => self.tree.read(&target).map_err(|err| failed(reason(&err)))?,
        };
        Ok((target, content, mode))
    }

    /// Writes a text, with the line ends of the one that it replaces.
    fn write_text(&mut self, path: &str, text: &str) -> Result<(), PatchError> {
        let old = self.read(path).map(|(_, old, _)| old).unwrap_or_default();
        let (content, _) = in_form_of(&old, text);
        self.write(path, content.into_owned().into_bytes())
    }

    fn write(&mut self, path: &str, content: Vec<u8>) -> Result<(), PatchError> {
        let (target, mode) = self.destination(path)?;
        self.make_parents(&target)?;
        self.set(target, Node::File { content, mode });
        Ok(())
    }

    /// Where a write to this path goes, and the mode of the file that is there now.
    fn destination(&self, path: &str) -> Result<(String, Option<u32>), PatchError> {
        const FAILURE: &str = "Failed to write file";
        let shown = self.tree.shown(path);
        let failed = || PatchError::Apply(format!("{FAILURE} {shown}"));
        let clean = self.clean(path, FAILURE)?;
        let (target, entry) = self.resolve(&clean, Last::Follow).map_err(|err| {
            if tree::is_outside(&err) {
                PatchError::Apply(format!("{FAILURE} {shown}: {}", reason(&err)))
            } else {
                failed()
            }
        })?;
        refuse_git_dir(&target, &shown, FAILURE)?;
        match entry {
            Entry::Absent => Ok((target, None)),
            Entry::File { mode } => Ok((target, Some(mode))),
            Entry::Dir | Entry::Link(_) | Entry::Outside | Entry::Other => Err(failed()),
        }
    }

    fn make_parents(&mut self, path: &str) -> Result<(), PatchError> {
        let failed = |err: &io::Error| {
            PatchError::Apply(format!("Failed to write file {path}: {}", reason(err)))
        };
        let mut missing = Vec::new();
        let mut folder = parent(path);
        while !folder.is_empty() {
            let entry = self.entry(folder).map_err(|err| failed(&err))?;
            if entry != Entry::Absent {
                break;
            }
            missing.push(folder.to_owned());
            folder = parent(folder);
        }
        for folder in missing.into_iter().rev() {
            self.set(folder, Node::NewDir);
        }
        Ok(())
    }

    fn delete(&mut self, path: &str) -> Result<(), PatchError> {
        const FAILURE: &str = "Failed to delete file";
        let shown = self.tree.shown(path);
        let failed = || PatchError::Apply(format!("{FAILURE} {shown}"));
        let clean = self.clean(path, FAILURE)?;
        let (gone, entry) = self.resolve(&clean, Last::Keep).map_err(|_| failed())?;
        refuse_git_dir(&gone, &shown, FAILURE)?;
        match entry {
            Entry::File { .. } | Entry::Outside | Entry::Other => {}
            Entry::Link(_) => match self.resolve(&clean, Last::Follow) {
                Ok((_, Entry::File { .. })) => {}
                Err(err) if tree::is_outside(&err) => {}
                _ => return Err(failed()),
            },
            Entry::Absent | Entry::Dir => return Err(failed()),
        }
        self.set(gone, Node::Absent);
        Ok(())
    }

    fn update(
        &mut self,
        path: &str,
        move_to: Option<&str>,
        hunks: &[Hunk<'_>],
    ) -> Result<(), PatchError> {
        let (source, content, mode) = self.read(path)?;
        let texts = hunks.iter().flat_map(|hunk| hunk.lines.iter().map(|line| line.text));
        refuse_cut(&self.tree.shown(path), texts, &content)?;
        let content = apply::update(&content, hunks)
            .map_err(|err| unfitting(err, self.tree.shown(path), &content))?;
        let node = Node::File { content, mode: Some(mode) };
        let Some(move_to) = move_to else {
            self.set(source, node);
            return Ok(());
        };
        let (target, _) = self.destination(move_to)?;
        // What a move takes away is the name in the patch, which may be a link.
        let kept = |path: &str| {
            let clean = self.tree.clean(path).ok()?;
            self.resolve(&clean, Last::Keep).ok().map(|(path, _)| path)
        };
        let gone = kept(path);
        let moves_onto_itself = gone.as_ref() == Some(&target) || gone == kept(move_to);
        self.make_parents(&target)?;
        self.set(target, node);
        if let Some(gone) = gone.filter(|_| !moves_onto_itself) {
            self.set(gone, Node::Absent);
        }
        Ok(())
    }

    fn set(&mut self, path: String, node: Node) {
        if self.nodes.insert(path.clone(), node).is_none() {
            self.order.push(path);
        }
    }

    fn into_ops(mut self) -> Vec<FileOp> {
        let (mut removals, mut folders, mut files) = (Vec::new(), Vec::new(), Vec::new());
        for path in std::mem::take(&mut self.order) {
            match self.nodes.remove(&path) {
                Some(Node::File { content, mode }) => {
                    files.push(FileOp::Write { path, content, mode });
                }
                Some(Node::NewDir) => {
                    if self.is_on_disk(&path) {
                        removals.push(FileOp::Remove { path: path.clone() });
                    }
                    folders.push(FileOp::MakeDir { path });
                }
                Some(Node::Absent) if self.is_on_disk(&path) => {
                    removals.push(FileOp::Remove { path });
                }
                Some(Node::Absent) | None => {}
            }
        }
        folders.sort_by_key(|op| op.path().matches('/').count());
        removals.into_iter().chain(folders).chain(files).collect()
    }

    /// An error means that a segment before the last one is no folder: nothing is there.
    fn is_on_disk(&self, path: &str) -> bool {
        self.tree.entry(path).is_ok_and(|entry| entry != Entry::Absent)
    }
}

/// What a new file is said to have until it is on the disk.
const DEFAULT_MODE: u32 = 0o644;

fn refuse_git_dir(clean: &str, path: &str, failure: &str) -> Result<(), PatchError> {
    if tree::is_in_git_dir(clean) {
        return Err(PatchError::Apply(format!("{failure} {path}: `.git` must not be changed")));
    }
    Ok(())
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn not_found() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOENT)
}

fn reason(err: &io::Error) -> String {
    if tree::is_outside(err) {
        "the path leads out of the workspace through a symbolic link".to_owned()
    } else {
        err.to_string()
    }
}
