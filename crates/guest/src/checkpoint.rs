//! What changed in the workspace since the last checkpoint, for a host that keeps it as git trees.
//!
//! The guest remembers how each file looked that differs from the uploaded tree, as git's index does: by
//! size, times and inode, and by content only where those differ. So a checkpoint of a workspace in which
//! nothing changed looks at each name once and sends nothing, and a file goes over the wire once for each
//! time that it changed. What belongs to a change and what does not is decided as in [`super::collect`].

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use super::collect::{self, Sink};
use super::folder::{self, Folder, Parents, Stamp};
use super::look::{self, Changed, Comparison, Look, compare};
use super::moved::Lost;
use super::paths;
use super::protocol::{Checkpointed, Collected, MAX_CHANGED_FILE};
use super::selection::Limits;
use super::survey::{Ignored, SurveyEntry, survey};
use super::transfer::Base;
use super::wanted::Wanted;
use crate::tool::ToolError;

/// A file that was changed so short a time ago may be changed again without looking otherwise: the times
/// of files are as coarse as the kernel's clock.
const COARSE: Duration = Duration::from_millis(50);

/// Most entries of the list of refused files.
const MAX_REFUSED: usize = 1000;

/// Bytes of the paths of deleted files: they have to fit into one answer.
const MAX_DELETED: usize = 8 << 20;

/// How the workspace differed from the uploaded tree at the last checkpoint.
#[derive(Debug, Default)]
pub struct LastCheckpoint {
    /// Which checkpoint that was; 0 is the uploaded tree.
    number: u64,
    paths: BTreeMap<Vec<u8>, Was>,
}

/// What a path was that is, or was, not as in the uploaded tree.
#[derive(Clone, Copy, Debug)]
enum Was {
    Gone,
    There {
        look: Look,
        size: u64,
    },
    /// Something that cannot be part of a change. Every checkpoint examines it again, and so lists it.
    Odd,
}

/// Which checkpoint is asked for.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointRequest {
    /// The one that the host has.
    pub since: u64,
    /// What the new one is called.
    pub number: u64,
    /// What may differ from the uploaded tree in all.
    pub limits: Limits,
}

/// Finds what changed below `workspace` since the checkpoint that the host has, or since the upload when
/// that was not the last one, and hands it to `sink`. What is more than the limits is counted and not
/// sent.
///
/// # Errors
/// When the workspace cannot be read or `stop` says so; the next checkpoint then begins with the upload.
pub fn checkpoint(
    workspace: &Path,
    base: &mut Base,
    wanted: CheckpointRequest,
    sink: &mut Sink<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<Checkpointed, ToolError> {
    let mut known = std::mem::take(&mut base.wanted);
    let made = make(workspace, base, &mut known, wanted, sink, stop);
    base.wanted = known;
    made
}

fn make(
    workspace: &Path,
    base: &mut Base,
    known: &mut Wanted,
    wanted: CheckpointRequest,
    sink: &mut Sink<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<Checkpointed, ToolError> {
    let kept = std::mem::take(&mut base.kept);
    let before = if kept.number == wanted.since { kept } else { LastCheckpoint::default() };
    let whole = before.number == 0;
    let mut folder = Folder::open(workspace)
        .map_err(|err| ToolError::Broken(format!("cannot look at the workspace: {err}")))?;
    let mut pass = Pass {
        base,
        wanted: known,
        before: &before,
        limits: wanted.limits,
        now: BTreeMap::new(),
        listing: Collected::default(),
        sink,
        sent: Limits { files: 0, bytes: 0 },
        deleted: 0,
        lost: Lost::default(),
    };
    let mut others = Vec::new();
    let mut fits = pass.look_at_tracked(&mut folder, stop)?;
    if fits {
        others = pass.others(&mut folder, stop)?;
        fits = pass.fits(&others) && pass.look_at_others(&mut folder, &others, stop)?;
    }
    pass.gone();
    pass.keep_moved(&mut folder, stop);
    let Pass { now, mut listing, wanted: noted, .. } = pass;
    let (files, bytes) = total(base, &now, &others);
    let over = !fits || files > wanted.limits.files as u64 || bytes > wanted.limits.bytes;
    if over {
        // The host keeps what it has.
        base.kept = before;
        return Ok(Checkpointed { over: Some((files, bytes)), ..Checkpointed::default() });
    }
    listing.deleted.sort();
    listing.ignored = collect::ignored(&mut folder, base, noted);
    base.kept = LastCheckpoint { number: wanted.number, paths: now };
    Ok(Checkpointed { listing, whole, ..Checkpointed::default() })
}

/// Files and bytes that differ from the uploaded tree, as far as they were looked at.
fn total(base: &Base, now: &BTreeMap<Vec<u8>, Was>, others: &[Other]) -> (u64, u64) {
    let mut total = (0, 0);
    for (path, was) in now {
        let Was::There { look, size } = was else { continue };
        let entry = base.entries.get(path);
        if entry.is_some_and(|entry| entry.look().content != look.content) {
            total = (total.0 + 1, total.1 + size);
        }
    }
    others.iter().fold(total, |(files, bytes), other| (files + 1, bytes + other.size))
}

/// A file that the uploaded tree does not have.
struct Other {
    path: Vec<u8>,
    size: u64,
}

/// One look at the workspace.
struct Pass<'a> {
    base: &'a Base,
    wanted: &'a mut Wanted,
    before: &'a LastCheckpoint,
    limits: Limits,
    now: BTreeMap<Vec<u8>, Was>,
    listing: Collected,
    sink: &'a mut Sink<'a>,
    sent: Limits,
    /// Bytes of the paths of deleted files.
    deleted: usize,
    lost: Lost,
}

impl Pass<'_> {
    /// Files that the uploaded tree does not have, and setup did not leave.
    fn others(
        &mut self,
        folder: &mut Folder,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Other>, ToolError> {
        let mut others = Vec::new();
        let base = self.base;
        let gone = self.now.iter().filter(|(_, was)| matches!(was, Was::Gone));
        self.wanted.refresh(folder, base, gone.map(|(path, _)| path.clone()).collect(), stop);
        let wanted = std::mem::take(self.wanted);
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
                    let size = u64::try_from(file.stat.st_size).unwrap_or(0);
                    // A larger one is refused by itself.
                    let size = if size > MAX_CHANGED_FILE { 0 } else { size };
                    if known.is_none_or(|known| known.stamp != Stamp::of(file.stat)) {
                        others.push(Other { path: path.to_vec(), size });
                    }
                }
                SurveyEntry::Repository if known.is_none() => {
                    self.refuse(path, "a nested repository");
                }
                SurveyEntry::Odd(reason) if known.is_none() => self.refuse(path, reason),
                SurveyEntry::Repository | SurveyEntry::Odd(_) | SurveyEntry::Artefact => {}
            }
            Ok(())
        };
        let found = survey(folder.top(), base, &wanted, Ignored::Hidden, stop, &mut take);
        *self.wanted = wanted;
        found.map(|()| others)
    }

    fn fits(&self, others: &[Other]) -> bool {
        others.len() <= self.limits.files
            && others.iter().map(|other| other.size).sum::<u64>() <= self.limits.bytes
    }

    /// The files of the uploaded tree. False when there is more than may be sent.
    fn look_at_tracked(
        &mut self,
        folder: &mut Folder,
        stop: &dyn Fn() -> bool,
    ) -> Result<bool, ToolError> {
        let base = self.base;
        for (path, entry) in &base.entries {
            check(stop)?;
            let was = self.before.paths.get(path).copied();
            let before = match was {
                None => Some(entry.look()),
                Some(Was::There { look, .. }) => Some(look),
                Some(Was::Gone | Was::Odd) => None,
            };
            if !self.look_at(folder, path, was, before)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn look_at_others(
        &mut self,
        folder: &mut Folder,
        others: &[Other],
        stop: &dyn Fn() -> bool,
    ) -> Result<bool, ToolError> {
        for Other { path, .. } in others {
            check(stop)?;
            let was = self.before.paths.get(path).copied();
            let before = match was {
                Some(Was::There { look, .. }) => Some(look),
                Some(Was::Gone | Was::Odd) => None,
                None => self.base.others.get(path).copied(),
            };
            if !self.look_at(folder, path, was, before)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn look_at(
        &mut self,
        folder: &mut Folder,
        path: &[u8],
        was: Option<Was>,
        before: Option<Look>,
    ) -> Result<bool, ToolError> {
        let Seen { comparison, stamp, size, inode } = see(folder, path, before);
        let base = self.base;
        let is_tracked = base.entries.contains_key(path);
        let is = match comparison {
            Comparison::Unchanged => {
                let look = before.map(|before| Look { stamp, ..before });
                // As it was uploaded, or as setup left it.
                let is_plain = was.is_none() && before.is_some_and(|it| it.stamp == stamp);
                look.filter(|_| !is_plain && (is_tracked || was.is_some()))
                    .map(|look| Was::There { look, size })
            }
            Comparison::Changed(changed, _) => {
                let content = Some((changed.kind, changed.blob));
                if is_tracked {
                    self.wanted.note(path, inode, changed.blob);
                }
                match self.send(path, &changed)? {
                    Sent::Yes => Some(Was::There { look: Look { stamp, content }, size }),
                    Sent::Refused => Some(Was::Odd),
                    Sent::NoRoom => return Ok(false),
                }
            }
            Comparison::Gone | Comparison::Folder if is_tracked => {
                if !matches!(was, Some(Was::Gone)) && !self.delete(path) {
                    return Ok(false);
                }
                Some(Was::Gone)
            }
            Comparison::Gone | Comparison::Folder => None,
            Comparison::Refused(reason) => {
                self.refuse(path, reason);
                self.lost.stay(base, self.wanted.moved_to(path));
                Some(Was::Odd)
            }
        };
        if let Some(is) = is {
            self.now.insert(path.to_vec(), is);
        }
        Ok(true)
    }

    /// Takes back the deletions of files whose content is where no checkpoint has it: it would be lost in a run that is
    /// resumed. They are looked at again the next time.
    fn keep_moved(&mut self, folder: &mut Folder, stop: &dyn Fn() -> bool) {
        let base = self.base;
        let deleted = std::mem::take(&mut self.listing.deleted);
        let (moved, deleted) = self.lost.divide(folder, base, deleted, stop);
        self.listing.deleted = deleted;
        for path in moved {
            self.now.insert(path.as_bytes().to_vec(), Was::Odd);
            self.refuse(path.as_bytes(), Lost::REASON);
        }
    }

    /// New files of the last checkpoint that are there no more.
    fn gone(&mut self) {
        for (path, was) in &self.before.paths {
            let is_other = !self.base.entries.contains_key(path);
            if is_other && matches!(was, Was::There { .. }) && !self.now.contains_key(path) {
                self.delete(path);
            }
        }
    }

    fn send(&mut self, path: &[u8], changed: &Changed) -> Result<Sent, ToolError> {
        let text = match paths::check(path) {
            Ok(text) => text,
            Err(reason) => {
                self.refuse(path, &reason);
                self.lost.contents.insert(changed.blob);
                return Ok(Sent::Refused);
            }
        };
        self.sent.files += 1;
        self.sent.bytes += changed.content.len() as u64;
        if self.sent.files > self.limits.files || self.sent.bytes > self.limits.bytes {
            return Ok(Sent::NoRoom);
        }
        (self.sink)(text, changed)
            .map_err(|err| ToolError::Broken(format!("cannot send `{text}`: {err}")))?;
        Ok(Sent::Yes)
    }

    fn delete(&mut self, path: &[u8]) -> bool {
        self.deleted += path.len();
        if let Ok(text) = paths::check(path) {
            self.listing.deleted.push(text.to_owned());
        }
        self.deleted <= MAX_DELETED
    }

    fn refuse(&mut self, path: &[u8], reason: &str) {
        if self.listing.refused.len() < MAX_REFUSED {
            self.listing.refused.push((paths::escape(path), reason.to_owned()));
        }
    }
}

/// What became of a file that is to be sent.
enum Sent {
    Yes,
    /// Its name cannot be part of a change.
    Refused,
    NoRoom,
}

/// How a path compares with what it was, and how it looks now.
struct Seen {
    comparison: Comparison,
    /// That of a file that was changed just now is one that no file has, so that its content is compared the next time.
    stamp: Stamp,
    size: u64,
    inode: u64,
}

fn see(folder: &mut Folder, path: &[u8], before: Option<Look>) -> Seen {
    let seen = folder.parent(path, Parents::Require).and_then(|(parent, name)| {
        let stat = folder::look(parent, name)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let (now, comparison) = (Stamp::of(&stat), compare(parent, name, &stat, before));
        let stamp = if is_fresh(&stat) { Stamp::default() } else { now };
        Ok(Seen { comparison, stamp, size, inode: now.inode() })
    });
    seen.unwrap_or_else(|err: Errno| {
        let comparison = look::missing(err);
        Seen { comparison, stamp: Stamp::default(), size: 0, inode: 0 }
    })
}

#[expect(clippy::disallowed_methods, reason = "compared with times of files")]
#[allow(
    clippy::unnecessary_cast,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    reason = "the fields of `stat` have other types on other architectures"
)]
fn is_fresh(stat: &rustix::fs::Stat) -> bool {
    let seconds = u64::try_from(stat.st_ctime as i64).unwrap_or(0);
    let nanos = u32::try_from(stat.st_ctime_nsec as u64).unwrap_or(0);
    let changed = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(nanos.into());
    // A time to come is not to be trusted either.
    SystemTime::now().duration_since(changed).map_or(true, |since| since < COARSE)
}

fn check(stop: &dyn Fn() -> bool) -> Result<(), ToolError> {
    if stop() { Err(ToolError::tell("the checkpoint was cancelled")) } else { Ok(()) }
}
