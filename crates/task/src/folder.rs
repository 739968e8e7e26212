//! A run's folder: its lock, its journal and the files that it leaves.
//!
//! One folder per attempt. A run that was killed leaves a journal without a last line; running the
//! same command again finds it here and resumes it. The lock is the kernel's, so it never
//! outlives its process.

pub(crate) mod given_up;
mod same_work;
pub(crate) mod settled;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fs_err as fs;

pub(crate) use self::same_work::is_same_work;
use self::same_work::{as_typed, key, named};
use super::{checkpoint, lock};
use crate::world::{RunBy, World};
use patchwright_base::error::{Failure, Result};
use patchwright_config::MOST_ATTEMPTS;
use patchwright_journal::{self as journal, Entry, Journal, Line, Observer};
use patchwright_types::task::{CampaignRequest, Task, TaskKind};

/// One attempt at a task, on disk.
pub struct RunFolder {
    pub id: String,
    pub path: PathBuf,
    pub journal: Journal,
    /// The journal as a killed attempt left it; empty for a fresh run.
    pub recorded: Vec<Line>,
    /// Points to the unfinished run of this task; removed when the run ends.
    pointer: Option<PathBuf>,
    /// Held until the run ends; that of an attempt is the run's.
    _lock: Option<File>,
}

/// An empty file in the folder of a run that nobody has asked for by a command of its own: it is removed one day.
pub const OF_FLEET: &str = ".fleet";

/// The note in a journal with which a run continues that was interrupted.
pub(super) const RESUMED: &str = "resumed";

/// Where the attempts of a run have their folders, by their numbers.
const ATTEMPTS: &str = "attempts";

impl RunFolder {
    /// Takes the task's lock and opens its unfinished run, or starts a fresh one. `at` fixes the
    /// folder (`exec --out`); otherwise it is `runs/<id>` in the state folder. The run `abandoned` is not opened.
    pub fn begin(
        world: &World,
        task: &Task,
        at: Option<&Path>,
        abandoned: Option<&str>,
    ) -> Result<RunFolder> {
        let key = key(task, at);
        let locks = world.state.join("locks");
        create_private(&locks)?;
        let what = match (&task.kind, at) {
            (TaskKind::Exec(_), Some(at)) => format!("in the folder `{}`", at.display()),
            (TaskKind::Exec(it), None) => format!("on this prompt for `{}`", it.repository),
            _ => format!("on it: {key}"),
        };
        let lock = lock(world, &locks.join(format!("{key}.lock")), &what)?;
        let pointer = at.is_none().then(|| pointer(world, task, key));
        if let Some((id, path)) = unfinished(world, pointer.as_deref(), at)? {
            if abandoned == Some(id.as_str()) {
                // Nobody has judged what is in them.
                let _ = drop_checkpoints(&path);
                return RunFolder::fresh(world, at, pointer, lock, Some(&id));
            }
            if let Some((id, journal, recorded)) = resume(&id, &path, task, world)? {
                return Ok(RunFolder { id, path, journal, recorded, pointer, _lock: Some(lock) });
            }
        }
        RunFolder::fresh(world, at, pointer, lock, None)
    }

    /// The run of another task that has not ended in the folder that is asked for. A fresh run sets it aside, and nobody
    /// can resume it then.
    pub fn replaces(task: &Task, at: &Path) -> Option<String> {
        // What cannot be read is somebody else's complaint.
        let recorded = journal::read(&at.join(journal::FILE)).ok()?;
        let Entry::RunStarted { run, task: other, .. } = &recorded.first()?.entry else {
            return None;
        };
        let ended = recorded.iter().any(|line| matches!(line.entry, Entry::RunEnded { .. }));
        (!ended && !is_same_work(&other.kind, &task.kind)).then(|| run.clone())
    }

    /// A fresh run beside one that another process still holds the lock of: a worker that was stopped for
    /// so long that its job was given to us. What it left is not touched, and ours is not resumed.
    pub fn begin_beside(world: &World) -> Result<RunFolder> {
        let locks = world.state.join("locks");
        create_private(&locks)?;
        let lock = tempfile::tempfile_in(&locks).map_err(|err| unwritable(&locks, err))?;
        RunFolder::fresh(world, None, None, lock, None)
    }

    fn fresh(
        world: &World,
        at: Option<&Path>,
        pointer: Option<PathBuf>,
        lock: File,
        given_up: Option<&str>,
    ) -> Result<RunFolder> {
        let id = fresh_id(world);
        let path = at.map_or_else(|| world.state.join("runs").join(&id), Path::to_path_buf);
        if let Some(out) = at {
            check_out(out)?;
        }
        create_private(&path)?;
        if at.is_none() && world.run_by == RunBy::Fleet {
            fs::write(path.join(OF_FLEET), "").map_err(|err| unwritable(&path, err))?;
        }
        set_results_aside(&path)?;
        set_attempts_aside(&path)?;
        drop_checkpoints(&path)?;
        let journal = Journal::create(&path, world.clock, world.redaction())?;
        observe(&journal, world, None);
        // Before the pointer leads here, so that a process which is killed in between gives it up once more.
        if let (Some(run), None) = (given_up, at) {
            write_atomically(&path.join(given_up::FILE), run.as_bytes())?;
        }
        if let Some(pointer) = &pointer {
            create_private(&world.state.join("unfinished"))?;
            write_atomically(pointer, id.as_bytes())?;
        }
        let recorded = Vec::new();
        Ok(RunFolder { id, path, journal, recorded, pointer, _lock: Some(lock) })
    }

    /// The folder of one of several attempts, inside the run's: with the journal that a killed process left, or a
    /// fresh one. It is finished with the run.
    ///
    /// # Errors
    /// When it cannot be written, or its journal not be read.
    pub fn attempt(&self, world: &World, number: u32) -> Result<RunFolder> {
        let path = attempt_folder(&self.path, number);
        create_private(&path)?;
        let (journal, recorded) = if path.join(journal::FILE).exists() {
            let (journal, recorded) = Journal::open(&path, world.clock, world.redaction())?;
            not_emptied(&path, &recorded)?;
            (journal, recorded)
        } else {
            (Journal::create(&path, world.clock, world.redaction())?, Vec::new())
        };
        let started = recorded.first().and_then(|line| match &line.entry {
            Entry::RunStarted { task, .. } => Some(task),
            _ => None,
        });
        if let (Some(observer), Some(task)) = (observe(&journal, world, Some(number)), started) {
            observer.resumes(&self.id, task);
        }
        Ok(RunFolder { id: self.id.clone(), path, journal, recorded, pointer: None, _lock: None })
    }

    /// The folder of this task's unfinished run, when there is one on this machine.
    ///
    /// # Errors
    /// When it is not readable which run that is.
    pub fn unfinished_folder(world: &World, task: &Task) -> Result<Option<PathBuf>> {
        RunFolder::unfinished_folder_at(world, task, None)
    }

    /// As [`RunFolder::unfinished_folder`], where `at` fixes the folder.
    pub fn unfinished_folder_at(
        world: &World,
        task: &Task,
        at: Option<&Path>,
    ) -> Result<Option<PathBuf>> {
        let pointer = at.is_none().then(|| pointer(world, task, key(task, None)));
        let unfinished = unfinished(world, pointer.as_deref(), at)?;
        Ok(unfinished.map(|(_, path)| path))
    }

    /// Writes a file of the run, whole or not at all, with mode 0600.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let path = self.path.join(name);
        write_atomically(&path, content)?;
        Ok(path)
    }

    /// The run came to its end: running the same command again starts afresh.
    pub fn finish(&self) {
        // Nobody needs them any more, and nobody has judged what is in them. What stays is removed with the
        // folder.
        let _ = drop_checkpoints(&self.path);
        for attempt in attempt_folders(&self.path) {
            let _ = drop_checkpoints(&attempt);
        }
        if let Some(pointer) = &self.pointer {
            // A pointer that stays only leads to a finished journal, which `begin` ignores.
            let _ = fs::remove_file(pointer);
        }
    }

    /// This machine has a run of this name beside this one, and no process works on it.
    pub fn has_dead_beside(&self, run: &str) -> bool {
        self.path.parent().is_some_and(|runs| is_dead_in(runs, run))
    }

    /// The recorded entry that `pick` likes best, latest first.
    pub fn find<T>(&self, pick: impl FnMut(&Entry) -> Option<T>) -> Option<T> {
        self.recorded.iter().rev().map(|line| &line.entry).find_map(pick)
    }

    /// How long it had taken when it was interrupted, without the pauses between: from the first to the last line of
    /// each piece.
    pub(super) fn lasted_before(&self) -> Duration {
        let is_resumed =
            |line: &Line| matches!(&line.entry, Entry::Note { text } if text == RESUMED);
        let pieces = self.recorded.chunk_by(|_, next| !is_resumed(next));
        let lengths = pieces.filter_map(|piece| {
            let (first, last) = (piece.first()?, piece.last()?);
            // A clock that was set back says nothing.
            (last.at - first.at).to_std().ok()
        });
        lengths.sum()
    }
}

/// A folder of runs has one of this name, and no process works on it.
pub(super) fn is_dead_in(runs: &Path, run: &str) -> bool {
    let is_plain = !run.is_empty() && run.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let folder = runs.join(run);
    // The lock of its work keeps others away, but the work may have another name: of a repository that was renamed.
    is_plain && folder.is_dir() && !journal::is_open(&folder)
}

/// Where one of a run's attempts has its folder.
pub(super) fn attempt_folder(run: &Path, number: u32) -> PathBuf {
    run.join(ATTEMPTS).join(number.to_string())
}

/// The folders of a run's attempts that were begun, in the order of their numbers.
pub(super) fn attempt_folders(run: &Path) -> Vec<PathBuf> {
    let all = (1..=MOST_ATTEMPTS).map(|number| attempt_folder(run, number));
    all.filter(|path| path.is_dir()).collect()
}

/// Where the unfinished run of a task is named. One that was begun before anybody knew the repository's id
/// has its name there, and one of an older version the repository's name as it was typed.
fn pointer(world: &World, task: &Task, key: String) -> PathBuf {
    let folder = world.state.join("unfinished");
    if !folder.join(&key).exists() {
        let unknown = match &task.kind {
            TaskKind::Campaign(it) => {
                let unknown = CampaignRequest { repository_id: None, ..it.clone() };
                Task { kind: TaskKind::Campaign(unknown), ..task.clone() }
            }
            _ => task.clone(),
        };
        let older = folder.join(named(&as_typed(&unknown, None)));
        if older.exists() {
            return older;
        }
    }
    folder.join(key)
}

fn lock(world: &World, path: &Path, what: &str) -> Result<File> {
    let taken = lock::take(path, world.clock.now().into());
    taken.map_err(|err| unwritable(path, err))?.ok_or_else(|| {
        Failure::busy(format!("another run is already working {what}"))
            .hint("wait for it to end, or stop it, and run the command again")
    })
}

/// Id and folder of the run to resume. A pointer that cannot be read is no reason to begin anew:
/// the run that it points to is paid for.
fn unfinished(
    world: &World,
    pointer: Option<&Path>,
    at: Option<&Path>,
) -> Result<Option<(String, PathBuf)>> {
    if let Some(at) = at {
        return Ok(Some((run_in(at).unwrap_or_default(), at.to_path_buf())));
    }
    let Some(pointer) = pointer else { return Ok(None) };
    let damaged = |cause: anyhow::Error| {
        Failure::machine(format!(
            "`{}` does not name the unfinished run of this work",
            pointer.display()
        ))
        .caused_by(cause)
        .hint("remove that file to begin anew")
    };
    let id = match fs::read_to_string(pointer) {
        Ok(id) => id,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(damaged(err.into())),
    };
    let is_plain = id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if id.is_empty() || !is_plain {
        return Err(damaged(anyhow::anyhow!("it says {id:?}")));
    }
    let path = world.state.join("runs").join(&id);
    Ok(Some((id, path)))
}

/// The id of the run whose journal lies in this folder; what cannot be read is the complaint of whoever opens it.
fn run_in(folder: &Path) -> Option<String> {
    match journal::read(&folder.join(journal::FILE)).ok()?.into_iter().next()?.entry {
        Entry::RunStarted { run, .. } => Some(run),
        _ => None,
    }
}

/// Opens a journal that has a beginning and no end, and is of the same task.
fn resume(
    id: &str,
    path: &Path,
    task: &Task,
    world: &World,
) -> Result<Option<(String, Journal, Vec<Line>)>> {
    let file = path.join(journal::FILE);
    if !file.exists() {
        return Ok(None);
    }
    let recorded = journal::read(&file)?;
    not_emptied(path, &recorded)?;
    let started = recorded.first().and_then(|line| match &line.entry {
        // Whichever version began it: tools and instructions that differ are told to the model again.
        Entry::RunStarted { run, task: recorded, .. } => {
            let same = (id.is_empty() || run == id) && is_same_work(&recorded.kind, &task.kind);
            same.then(|| run.clone())
        }
        _ => None,
    });
    let ended = recorded.iter().any(|line| matches!(line.entry, Entry::RunEnded { .. }));
    let Some(run) = started.filter(|_| !ended) else { return Ok(None) };
    let (journal, recorded) = Journal::open(path, world.clock, world.redaction())?;
    if let Some(observer) = observe(&journal, world, None) {
        observer.resumes(&run, task);
    }
    Ok(Some((run, journal, recorded)))
}

/// A journal without a line beside what only later lines can have left has lost them: begun anew, the work would be paid
/// for again, and its checkpoints would be removed.
fn not_emptied(folder: &Path, recorded: &[Line]) -> Result<()> {
    let later = RESULTS.into_iter().filter(|name| *name != journal::FILE);
    let mut later = later.chain([checkpoint::FOLDER, ATTEMPTS]);
    let Some(left) = later.find(|name| recorded.is_empty() && folder.join(name).exists()) else {
        return Ok(());
    };
    let place = folder.display();
    Err(Failure::machine(format!(
        "the journal `{}` is empty, and `{left}` beside it is of a run that had begun",
        folder.join(journal::FILE).display()
    ))
    .hint(format!(
        "nothing was changed, and the run is not begun anew: move its folder `{place}` away to begin anew, or put its \
         journal back"
    )))
}

/// Lets telemetry watch, where there is any.
fn observe(journal: &Journal, world: &World, attempt: Option<u32>) -> Option<Arc<dyn Observer>> {
    let observer = patchwright_otel::current()?.observer(&world.model, world.clock, attempt);
    journal.observe(Arc::clone(&observer));
    Some(observer)
}

/// `20261120-121501-3f9c2a71`: sorts by time, unique enough, safe in names and labels.
fn fresh_id(world: &World) -> String {
    let salt: u32 = rand::random();
    format!("{}-{salt:08x}", world.clock.now().format("%Y%m%d-%H%M%S"))
}

/// What runs of any kind leave, besides their attempts and checkpoints. The journal is the last, so that a process that is
/// killed here is no reason to leave one of the others.
const RESULTS: [&str; 14] = [
    "change.patch",
    "held-back.patch",
    "change.json",
    "plan.md",
    "output.json",
    "findings.json",
    "findings.sarif",
    "review.json",
    "scope.json",
    "offer.json",
    "triage.json",
    "report.html",
    "result.json",
    journal::FILE,
];

/// What an ended run has left in a fixed output folder makes room for the new one's, which may leave less: `change.patch`
/// becomes `change.old.patch`. In a folder without a journal nothing is ours.
fn set_results_aside(folder: &Path) -> Result<()> {
    if !folder.join(journal::FILE).exists() {
        return Ok(());
    }
    for file in RESULTS.map(|name| folder.join(name)) {
        let ending = file.extension().and_then(|it| it.to_str()).unwrap_or_default();
        match fs::rename(&file, file.with_extension(format!("old.{ending}"))) {
            Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
                return Err(unwritable(&file, err));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// The attempts of an ended run in a fixed output folder are none of the new one's.
fn set_attempts_aside(run: &Path) -> Result<()> {
    let (folder, old) = (run.join(ATTEMPTS), run.join("attempts.old"));
    if !folder.exists() {
        return Ok(());
    }
    match fs::remove_dir_all(&old) {
        Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
            return Err(unwritable(&old, err));
        }
        Ok(()) | Err(_) => {}
    }
    fs::rename(&folder, &old).map_err(|err| unwritable(&folder, err))
}

/// Removes the trees of a run that is not resumed any more.
fn drop_checkpoints(run: &Path) -> Result<()> {
    let folder = run.join(checkpoint::FOLDER);
    match fs::remove_dir_all(&folder) {
        Err(err) if err.kind() != std::io::ErrorKind::NotFound => Err(unwritable(&folder, err)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn create_private(path: &Path) -> Result<()> {
    make_private(path).map_err(|err| unwritable(path, err))
}

fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A folder that the user names can be made, and written to.
fn check_out(out: &Path) -> Result<()> {
    make_private(out).and_then(|()| tempfile::tempfile_in(out).map(drop)).map_err(|err| {
        Failure::machine(format!("cannot write to the output folder `{}`", out.display()))
            .caused_by(err)
            .hint("choose a folder that you can write to with `--out`")
    })
}

/// A file's name for what is known of a task's work.
pub(super) fn name_of(task: &Task) -> String {
    key(task, None)
}

/// As [`write_atomically`], in a folder that is made where it is absent, for the user alone.
pub(super) fn write_privately(path: &Path, content: &[u8]) -> Result<()> {
    create_private(path.parent().unwrap_or_else(|| Path::new(".")))?;
    write_atomically(path, content)
}

/// Writes beside the target and renames, so that a crash leaves the old file or the new one.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<()> {
    use std::io::Write;
    let parent = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".writing-")
        .tempfile_in(parent)
        .map_err(|err| unwritable(path, err))?;
    file.write_all(content).map_err(|err| unwritable(path, err))?;
    file.persist(path).map_err(|err| unwritable(path, err.error))?;
    Ok(())
}

fn unwritable(path: &Path, err: std::io::Error) -> Failure {
    let full = err.kind() == std::io::ErrorKind::StorageFull;
    Failure::machine(format!("cannot write `{}`", path.display())).caused_by(err).hint(if full {
        "free some space on that disk"
    } else {
        "choose a folder that you can write to with `--state-dir`"
    })
}
