//! Walks the files below a folder of the workspace, leaving out what `.gitignore` files name.
//!
//! Every folder, file and ignore file is opened in its open parent, without following links, so a
//! link or a FIFO in place of one leads nowhere and blocks nothing. `.git` is left out. Large trees
//! are walked by several threads; what they find is put in order afterwards ([`First`]).

mod first;
mod ignores;

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Memory};
use std::sync::{Arc, OnceLock};
use std::thread::Scope;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

pub(super) use self::first::First;
use self::ignores::{IGNORE_FILES, Ignores, rules};
use super::root::Root;

/// Names looked at in one folder.
const MAX_NAMES: usize = 200_000;
/// Deepest nesting: one open folder a level.
const MAX_DEPTH: usize = 512;
/// Files that one thread takes at a time.
const SHARE: usize = 128;
/// Names after which more threads are worth their start.
const WORTH_HELP: usize = 500;
/// Most threads of one walk.
const MAX_THREADS: usize = 8;

/// A regular file on the way.
pub(super) struct WalkedFile<'w> {
    /// Relative to the workspace; bytes that are not UTF-8 are replaced.
    pub(super) path: &'w str,
    folder: &'w OwnedFd,
    name: &'w CStr,
}

impl WalkedFile<'_> {
    /// Opens it for reading. Never waits.
    pub(super) fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | FIXED;
        Ok(File::from(rustix::fs::openat(self.folder, self.name, flags, Mode::empty())?))
    }
}

/// What looks at the files; each thread has its own.
pub(super) trait Visitor {
    /// Asked before each folder and each share of files, whether there is anything in them or not: false
    /// ends the whole walk.
    fn goes_on(&self) -> bool;

    /// False ends the whole walk.
    fn see(&mut self, file: &WalkedFile<'_>) -> bool;

    /// Nothing at this path or below it, in order of paths, is wanted any more.
    fn is_behind(&self, _path: &str) -> bool {
        false
    }
}

/// Looks until its call is cancelled.
struct Until<'c> {
    cancelled: &'c AtomicBool,
    see: &'c mut dyn FnMut(&WalkedFile<'_>) -> bool,
}

impl Visitor for Until<'_> {
    fn goes_on(&self) -> bool {
        !self.cancelled.load(Memory::Relaxed)
    }

    fn see(&mut self, file: &WalkedFile<'_>) -> bool {
        (self.see)(file)
    }
}

/// How a walk went, besides what was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gaps {
    /// Folders that could not be read.
    pub(super) closed: usize,
    /// Folders below the deepest level, and those with too many names.
    pub(super) cut: usize,
}

impl Gaps {
    /// What to say about it; `None` when nothing was left out.
    pub(super) fn note(self) -> Option<String> {
        let folders = |count: usize| format!("{count} folder{}", if count == 1 { "" } else { "s" });
        match self {
            Gaps { closed: 0, cut: 0 } => None,
            Gaps { closed, cut: 0 } => Some(format!("({} could not be read)", folders(closed))),
            Gaps { cut, .. } => Some(format!(
                "({} left out: nested more than {MAX_DEPTH} deep, or with more than {MAX_NAMES} names)",
                folders(cut)
            )),
        }
    }
}

const FIXED: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(FIXED);

/// Shows each regular file below `folder`, in order of names, until the call is cancelled. Files that
/// are ignored are left out when `ignoring`.
pub(super) fn in_order(
    root: &Root,
    folder: &str,
    ignoring: bool,
    cancelled: &AtomicBool,
    see: &mut dyn FnMut(&WalkedFile<'_>) -> bool,
) -> Gaps {
    let walk = Walk::new(root, folder, ignoring);
    let mut visitor = Until { cancelled, see };
    while let Some((job, busy)) = walk.take() {
        walk.run(job, &mut visitor);
        drop(busy);
    }
    walk.gaps()
}

/// Shows each regular file below `folder` to one of the visitors, in no order. Returns them all.
pub(super) fn at_once<V: Visitor + Send>(
    root: &Root,
    folder: &str,
    ignoring: bool,
    make: &(dyn Fn() -> V + Sync),
) -> (Vec<V>, Gaps) {
    let walk = Walk::new(root, folder, ignoring);
    let visitors = std::thread::scope(|scope| {
        let mut visitor = make();
        let mut helpers = None;
        while let Some((job, busy)) = walk.take() {
            walk.run(job, &mut visitor);
            drop(busy);
            if helpers.is_none() && walk.names.load(Memory::Relaxed) >= WORTH_HELP {
                helpers = Some(walk.call_help(scope, make));
            }
        }
        let mut visitors = vec![visitor];
        for helper in helpers.into_iter().flatten() {
            let ended = helper.join();
            visitors.push(ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        visitors
    });
    (visitors, walk.gaps())
}

/// Processors of this sandbox; asking the system takes longer than searching a small tree.
fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// An open folder.
struct Folder {
    fd: OwnedFd,
    /// From the root, with a slash in front; empty for the root itself.
    path: String,
    ignores: Option<Arc<Ignores>>,
    depth: usize,
}

enum Job {
    List(Arc<Folder>),
    Enter { parent: Arc<Folder>, name: CString },
    Files { parent: Arc<Folder>, names: Vec<CString> },
}

struct Walk {
    /// Files that are ignored are left out.
    ignoring: bool,
    state: Mutex<State>,
    wake: Condvar,
    stop: AtomicBool,
    /// Names seen so far.
    names: AtomicUsize,
    closed: AtomicUsize,
    cut: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The last one is taken first: so the walk is in order, and few folders are open.
    jobs: Vec<Job>,
    /// Jobs that are being done, and may bring new ones.
    busy: usize,
}

/// One job is being done while this lives.
struct Busy<'w>(&'w Walk);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.busy -= 1;
        if state.busy == 0 && state.jobs.is_empty() {
            self.0.wake.notify_all();
        }
    }
}

impl Walk {
    fn new(root: &Root, folder: &str, ignoring: bool) -> Walk {
        let walk = Walk {
            ignoring,
            state: Mutex::default(),
            wake: Condvar::new(),
            stop: AtomicBool::new(false),
            names: AtomicUsize::new(0),
            closed: AtomicUsize::new(0),
            cut: AtomicUsize::new(0),
        };
        // Ignore files above the folder count as well.
        let mut ignores = None;
        let above = folder.match_indices('/').map(|(at, _)| folder.get(..at).unwrap_or_default());
        for path in [""].into_iter().chain(above).filter(|_| ignoring && !folder.is_empty()) {
            if let Ok(fd) = root.open_dir(path) {
                ignores = rules(&fd, &from_root(path), &IGNORE_FILES, ignores);
            }
        }
        match root.open_dir(folder) {
            Ok(fd) => {
                let top = Folder { fd, path: from_root(folder), ignores, depth: 0 };
                walk.lock().jobs.push(Job::List(Arc::new(top)));
            }
            Err(_) => walk.closed.store(1, Memory::Relaxed),
        }
        walk
    }

    fn gaps(&self) -> Gaps {
        let count = |counter: &AtomicUsize| counter.load(Memory::Relaxed);
        Gaps { closed: count(&self.closed), cut: count(&self.cut) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Starts as many helpers as there are other processors; without any the caller walks alone.
    fn call_help<'scope, V: Visitor + Send + 'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        make: &'scope (dyn Fn() -> V + Sync),
    ) -> Vec<std::thread::ScopedJoinHandle<'scope, V>> {
        let helper = || {
            let mut visitor = make();
            while let Some((job, busy)) = self.take() {
                self.run(job, &mut visitor);
                drop(busy);
            }
            visitor
        };
        let start = |_| std::thread::Builder::new().name("walk".into()).spawn_scoped(scope, helper);
        (1..processors().min(MAX_THREADS)).filter_map(|number| start(number).ok()).collect()
    }

    /// The next job; `None` when there will be none.
    fn take(&self) -> Option<(Job, Busy<'_>)> {
        let mut state = self.lock();
        loop {
            if self.stop.load(Memory::Relaxed) {
                return None;
            }
            if let Some(job) = state.jobs.pop() {
                state.busy += 1;
                return Some((job, Busy(self)));
            }
            if state.busy == 0 {
                return None;
            }
            self.wake.wait(&mut state);
        }
    }

    fn run(&self, job: Job, visitor: &mut dyn Visitor) {
        let goes_on = visitor.goes_on()
            && match job {
                Job::List(folder) => self.list(&folder, visitor),
                Job::Enter { parent, name } => self.enter(&parent, &name, visitor),
                Job::Files { parent, names } => see_all(&parent, &names, visitor),
            };
        if !goes_on {
            self.stop.store(true, Memory::Relaxed);
            self.lock().jobs.clear();
            self.wake.notify_all();
        }
    }

    fn enter(&self, parent: &Folder, name: &CStr, visitor: &mut dyn Visitor) -> bool {
        let path = format!("{}/{}", parent.path, name.to_string_lossy());
        if visitor.is_behind(path.get(1..).unwrap_or_default()) {
            return true;
        }
        if parent.depth == MAX_DEPTH {
            self.cut.fetch_add(1, Memory::Relaxed);
            return true;
        }
        let Ok(fd) = rustix::fs::openat(&parent.fd, name, FOLDER, Mode::empty()) else {
            self.closed.fetch_add(1, Memory::Relaxed);
            return true;
        };
        let (ignores, depth) = (parent.ignores.clone(), parent.depth + 1);
        self.list(&Arc::new(Folder { fd, path, ignores, depth }), visitor)
    }

    /// Looks at the first files of a folder, and leaves the rest as jobs.
    fn list(&self, folder: &Arc<Folder>, visitor: &mut dyn Visitor) -> bool {
        let Ok((names, has_more)) = names(&folder.fd) else {
            self.closed.fetch_add(1, Memory::Relaxed);
            return true;
        };
        self.names.fetch_add(names.len(), Memory::Relaxed);
        self.cut.fetch_add(usize::from(has_more), Memory::Relaxed);
        let there: Vec<&[u8]> = IGNORE_FILES
            .into_iter()
            .filter(|_| self.ignoring)
            .filter(|file| names.iter().any(|(name, is_dir)| !is_dir && name.to_bytes() == *file))
            .collect();
        let with_rules;
        let folder = if there.is_empty() {
            folder
        } else {
            let Ok(fd) = folder.fd.try_clone() else {
                self.closed.fetch_add(1, Memory::Relaxed);
                return true;
            };
            let ignores = rules(&fd, &folder.path, &there, folder.ignores.clone());
            let Folder { path, depth, .. } = &**folder;
            with_rules = Arc::new(Folder { fd, path: path.clone(), ignores, depth: *depth });
            &with_rules
        };
        let mut jobs = jobs(folder, names).into_iter();
        let first = match jobs.next() {
            Some(Job::Files { names, .. }) => names,
            Some(other) => {
                self.leave(std::iter::once(other).chain(jobs));
                return true;
            }
            None => return true,
        };
        self.leave(jobs);
        see_all(folder, &first, visitor)
    }

    /// Leaves jobs to whoever takes them, the first on top.
    fn leave(&self, jobs: impl Iterator<Item = Job>) {
        let mut jobs: Vec<Job> = jobs.collect();
        jobs.reverse();
        let count = jobs.len();
        if count > 0 && !self.stop.load(Memory::Relaxed) {
            self.lock().jobs.append(&mut jobs);
            if count == 1 {
                self.wake.notify_one();
            } else {
                self.wake.notify_all();
            }
        }
    }
}

/// A path on one line, as answers show it: a name may hold anything.
pub(super) fn shown(path: &str) -> Cow<'_, str> {
    if path.contains(char::is_control) {
        Cow::Owned(path.replace(char::is_control, "\u{fffd}"))
    } else {
        Cow::Borrowed(path)
    }
}

/// `/a/b` of `a/b`.
fn from_root(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("/{path}") }
}

/// Folders and regular files in a folder, sorted, and whether there are more. Only folders have
/// `true` beside them.
fn names(fd: &OwnedFd) -> io::Result<(Vec<(CString, bool)>, bool)> {
    let mut names = Vec::new();
    let mut has_more = false;
    let mut looked_at = 0;
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b".." | b".git") {
            continue;
        }
        // Whatever they are: links without number are no way to make it look without end.
        if looked_at == MAX_NAMES {
            has_more = true;
            break;
        }
        looked_at += 1;
        let kind = match entry.file_type() {
            // Some file systems do not say the kind in the folder.
            FileType::Unknown => rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            kind => kind,
        };
        if !matches!(kind, FileType::Directory | FileType::RegularFile) {
            continue;
        }
        names.push((name.to_owned(), kind == FileType::Directory));
    }
    names.sort_unstable();
    Ok((names, has_more))
}

/// What is to be done in a folder, in order of names: runs of files, and folders.
fn jobs(folder: &Arc<Folder>, names: Vec<(CString, bool)>) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut run = Vec::new();
    let files = |run: &mut Vec<CString>| Job::Files {
        parent: Arc::clone(folder),
        names: std::mem::take(run),
    };
    for (name, is_dir) in names {
        if ignores::is_ignored(folder.ignores.as_deref(), &folder.path, &name, is_dir) {
            continue;
        }
        if run.len() == SHARE || (is_dir && !run.is_empty()) {
            jobs.push(files(&mut run));
        }
        if is_dir {
            jobs.push(Job::Enter { parent: Arc::clone(folder), name });
        } else {
            run.push(name);
        }
    }
    if !run.is_empty() {
        jobs.push(files(&mut run));
    }
    jobs
}

fn see_all(folder: &Folder, names: &[CString], visitor: &mut dyn Visitor) -> bool {
    let mut path = String::with_capacity(folder.path.len() + 32);
    path.push_str(folder.path.get(1..).unwrap_or_default());
    if !path.is_empty() {
        path.push('/');
    }
    let length = path.len();
    for name in names {
        path.truncate(length);
        path.push_str(&name.to_string_lossy());
        if visitor.is_behind(&path) {
            continue;
        }
        if !visitor.see(&WalkedFile { path: &path, folder: &folder.fd, name }) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use crate::tools::walk::*;

    /// Looks at so many folders and shares of files.
    struct Patience<'p>(&'p AtomicUsize);

    impl Visitor for Patience<'_> {
        fn goes_on(&self) -> bool {
            self.0
                .fetch_update(Memory::Relaxed, Memory::Relaxed, |left| left.checked_sub(1))
                .is_ok()
        }

        fn see(&mut self, _: &WalkedFile<'_>) -> bool {
            true
        }
    }

    /// Folders in folders, and nothing in them.
    fn empty_folders() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..40 {
            fs_err::create_dir_all(folder.path().join(format!("{number:02}/in/it"))).unwrap();
        }
        let root = Root::open(folder.path()).unwrap();
        (folder, root)
    }

    #[test]
    fn a_walk_without_a_single_file_can_be_ended() {
        let (_folder, root) = empty_folders();
        for (patience, left) in [(0, 0), (7, 0), (121, 0), (1000, 879)] {
            let counter = AtomicUsize::new(patience);
            at_once(&root, "", true, &|| Patience(&counter));
            assert_eq!(counter.into_inner(), left, "{patience}");
        }
    }

    #[test]
    fn a_cancelled_call_goes_into_no_more_folders() {
        let (folder, root) = empty_folders();
        for name in ["00/file", "01/file", "39/file"] {
            fs_err::write(folder.path().join(name), "").unwrap();
        }
        let cancelled = AtomicBool::new(false);
        let mut seen = 0;
        in_order(&root, "", true, &cancelled, &mut |_| {
            seen += 1;
            cancelled.store(seen == 2, Memory::Relaxed);
            true
        });
        assert_eq!(seen, 2);
    }

    #[test]
    fn deeper_folders_than_it_goes_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut path = folder.path().to_owned();
        for _ in 0..MAX_DEPTH + 100 {
            path.push("d");
        }
        fs_err::create_dir_all(&path).unwrap();
        fs_err::write(path.join("file"), "").unwrap();
        let root = Root::open(folder.path()).unwrap();
        let never = AtomicBool::new(false);
        let gaps = in_order(&root, "", true, &never, &mut |_| panic!("that deep"));
        // The second one where a process may not have as many open files.
        assert!(
            gaps == Gaps { closed: 0, cut: 1 } || gaps == Gaps { closed: 1, cut: 0 },
            "{gaps:?}"
        );
    }
}
