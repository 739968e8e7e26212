//! What changed in the workspace since the tree was unpacked.
//!
//! Files of the uploaded tree come first: those that look as they did are passed over, others are read
//! and compared by git's blob id. Then what [`super::survey`] finds besides them, less what was there
//! before the work began. What cannot be part of a change (pipes, sockets, devices, nested repositories,
//! odd names, huge files) is listed with the reason and not sent; what is more than the host takes is
//! counted by folder ([`super::selection`]).

use std::io;
use std::path::Path;

use super::folder::{Folder, Stamp};
use super::look::{Changed, Comparison, compare_at};
use super::moved::Lost;
use super::paths;
use super::protocol::{Collected, MAX_CHANGED_BYTES, MAX_CHANGED_FILE, MAX_CHANGED_FILES};
use super::selection::{Limits, Rest, Selection};
use super::survey::{Hidden, Ignored, SurveyEntry, hidden, is_output, survey};
use super::transfer::Base;
use super::wanted::{Wanted, is_there};
use crate::tool::ToolError;

/// Most entries of the list of refused files; the last one then says that there were more.
const MAX_REFUSED: usize = 1000;

/// Most entries of the list of packages and caches.
const MAX_ARTEFACTS: usize = 100;

/// Bytes of a path in these lists.
const MAX_SHOWN_PATH: usize = 400;

/// Bytes of the paths of deleted files: they have to fit into one answer.
const MAX_DELETED: usize = 8 << 20;

/// Where changed files go. An error ends the collection.
pub type Sink<'a> = dyn FnMut(&str, &Changed) -> io::Result<()> + 'a;

/// Finds what changed below `workspace` and hands it to `sink`. `stop` is asked often; when it says so,
/// the collection ends with an error.
pub fn collect(
    workspace: &Path,
    base: &mut Base,
    limits: Limits,
    sink: &mut Sink<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<Collected, ToolError> {
    let broken = |err: &dyn std::fmt::Display| ToolError::Broken(format!("cannot collect: {err}"));
    let limits = Limits {
        files: limits.files.min(MAX_CHANGED_FILES),
        bytes: limits.bytes.min(MAX_CHANGED_BYTES),
    };
    let mut folder = Folder::open(workspace).map_err(|err| broken(&err))?;
    let mut wanted = std::mem::take(&mut base.wanted);
    let mut out = Out {
        sink,
        limits,
        listing: Collected::default(),
        rest: Rest::default(),
        deleted: 0,
        lost: Lost::default(),
    };
    let found = out.find(&mut folder, base, &mut wanted, stop);
    base.wanted = wanted;
    found?;
    let deleted = std::mem::take(&mut out.listing.deleted);
    let (moved, deleted) = out.lost.divide(&mut folder, base, deleted, stop);
    out.listing.deleted = deleted;
    for path in moved {
        out.refuse(path.as_bytes(), Lost::REASON);
    }
    let Out { mut listing, rest, .. } = out;
    listing.deleted.sort();
    listing.refused.sort();
    listing.left_out = rest.rows(shortened);
    Ok(listing)
}

struct Out<'a> {
    sink: &'a mut Sink<'a>,
    /// What may still be sent.
    limits: Limits,
    listing: Collected,
    rest: Rest,
    /// Bytes of the paths of deleted files.
    deleted: usize,
    lost: Lost,
}

impl Out<'_> {
    fn find(
        &mut self,
        folder: &mut Folder,
        base: &Base,
        wanted: &mut Wanted,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ToolError> {
        self.tracked(folder, base, stop)?;
        let gone = self.listing.deleted.iter().map(|path| path.as_bytes().to_vec()).collect();
        wanted.refresh(folder, base, gone, stop);
        let chosen = self.choose(folder, base, wanted, stop)?;
        self.others(folder, (base, wanted), &chosen, stop)?;
        self.listing.ignored = ignored(folder, base, wanted);
        Ok(())
    }

    /// The files of the uploaded tree.
    fn tracked(
        &mut self,
        folder: &mut Folder,
        base: &Base,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ToolError> {
        for (path, entry) in &base.entries {
            check(stop)?;
            match compare_at(folder, path, Some(entry.look())) {
                Comparison::Unchanged => {}
                Comparison::Gone | Comparison::Folder => self.delete(path),
                Comparison::Refused(reason) => self.refuse(path, reason),
                Comparison::Changed(changed, _) => self.send(path, &changed)?,
            }
        }
        Ok(())
    }

    /// Looks for new files and chooses those that fit.
    fn choose(
        &mut self,
        folder: &Folder,
        base: &Base,
        wanted: &Wanted,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<u8>>, ToolError> {
        let mut selection = Selection::new(self.limits);
        let mut take = |path: &[u8], found: SurveyEntry<'_>| {
            let known = base.others.get(path);
            if matches!(found, SurveyEntry::Repository) {
                self.lost.repositories.push(path.to_vec());
            }
            if !matches!(found, SurveyEntry::File(_)) {
                self.lost.stay(base, wanted.moved_to(path));
            }
            match found {
                SurveyEntry::File(file) => {
                    let stamp = Stamp::of(file.stat);
                    if known.is_none_or(|known| known.stamp != stamp) {
                        let size = u64::try_from(file.stat.st_size).unwrap_or(0);
                        // A larger one is refused by itself.
                        let size = if size > MAX_CHANGED_FILE { 0 } else { size };
                        selection.add(path, file.folder, size, &mut self.rest);
                    }
                }
                SurveyEntry::Repository if known.is_none() => {
                    self.refuse(path, "a nested repository");
                }
                SurveyEntry::Odd(reason) if known.is_none() => self.refuse(path, reason),
                SurveyEntry::Artefact if known.is_none() => self.left_out(path),
                SurveyEntry::Repository | SurveyEntry::Odd(_) | SurveyEntry::Artefact => {}
            }
            Ok(())
        };
        survey(folder.top(), base, wanted, Ignored::Hidden, stop, &mut take)?;
        Ok(selection.paths())
    }

    /// Sends the new files.
    fn others(
        &mut self,
        folder: &mut Folder,
        (base, wanted): (&Base, &Wanted),
        paths: &[Vec<u8>],
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ToolError> {
        for path in paths {
            check(stop)?;
            let before = base.others.get(path.as_slice()).copied();
            match compare_at(folder, path, before) {
                Comparison::Changed(..) if before.is_some() && is_output(path) => {
                    self.left_out(path);
                }
                Comparison::Changed(changed, _) => self.send(path, &changed)?,
                Comparison::Refused(reason) => {
                    self.refuse(path, reason);
                    self.lost.stay(base, wanted.moved_to(path));
                }
                Comparison::Unchanged | Comparison::Gone | Comparison::Folder => {}
            }
        }
        Ok(())
    }

    /// Sends a file, or counts it when there is no room for it any more.
    fn send(&mut self, path: &[u8], changed: &Changed) -> Result<(), ToolError> {
        let text = match paths::check(path) {
            Ok(text) => text,
            Err(reason) => {
                self.refuse(path, &reason);
                self.lost.contents.insert(changed.blob);
                return Ok(());
            }
        };
        let size = changed.content.len() as u64;
        if self.limits.files == 0 || size > self.limits.bytes {
            self.rest.add(path, None, 1, size);
            return Ok(());
        }
        self.limits = Limits { files: self.limits.files - 1, bytes: self.limits.bytes - size };
        (self.sink)(text, changed)
            .map_err(|err| ToolError::Broken(format!("cannot send `{text}`: {err}")))
    }

    fn delete(&mut self, path: &[u8]) {
        match paths::check(path) {
            Err(reason) => self.refuse(path, &reason),
            Ok(_) if self.deleted + path.len() > MAX_DELETED => self.rest.add(path, None, 1, 0),
            Ok(text) => {
                self.deleted += path.len();
                self.listing.deleted.push(text.to_owned());
            }
        }
    }

    /// Names an artefact, which is no part of the change.
    fn left_out(&mut self, path: &[u8]) {
        if self.listing.artefacts.len() < MAX_ARTEFACTS {
            self.listing.artefacts.push(shortened(path));
        }
    }

    fn refuse(&mut self, path: &[u8], reason: &str) {
        let refused = &mut self.listing.refused;
        if refused.len() < MAX_REFUSED {
            refused.push((shortened(path), reason.to_owned()));
        } else if refused.len() == MAX_REFUSED {
            refused.push(("…".to_owned(), "and more".to_owned()));
        }
    }
}

/// What edit tools wrote and rules ignore.
pub(super) fn ignored(folder: &mut Folder, base: &Base, wanted: &Wanted) -> Vec<String> {
    let written = wanted.written.iter().filter(|path| !wanted.has(path));
    let ignored = written.filter(|path| {
        is_there(folder, path) && hidden(folder, base, path) == Some(Hidden::Ignored)
    });
    ignored.take(MAX_ARTEFACTS).map(|path| shortened(path)).collect()
}

fn check(stop: &dyn Fn() -> bool) -> Result<(), ToolError> {
    if stop() { Err(ToolError::tell("the collection was cancelled")) } else { Ok(()) }
}

/// A path for people, without its middle when nobody would read it all: a thousand of the longest ones
/// would be more than an answer may hold.
fn shortened(path: &[u8]) -> String {
    let start = path.get(..MAX_SHOWN_PATH / 2).filter(|_| path.len() > MAX_SHOWN_PATH);
    match (start, path.get(path.len().saturating_sub(MAX_SHOWN_PATH / 2)..)) {
        (Some(start), Some(end)) => format!("{}…{}", paths::escape(start), paths::escape(end)),
        _ => paths::escape(path),
    }
}
