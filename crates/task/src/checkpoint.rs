//! Checkpoints of a run's workspace: recorded as git trees in the run's folder while the agents work, and put
//! back into a fresh sandbox when the run is resumed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::agent_phase::Phase;
use super::failures;
use super::workspace::failure;
use patchwright_agent::checkpoints::{self, Checkpoint, RestoredWorkspace};
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_config::SandboxChoice;
use patchwright_git::checkpoint::{Difference, Store};
use patchwright_git::{GitError, Oid, blocking, display_path, printable};
use patchwright_guest::protocol::Checkpointed;
use patchwright_journal::{Entry, Journal, Line, NotRecorded};
use patchwright_sandbox::client::{Client, CollectLimits, CollectedTree};
use patchwright_sandbox::disk;
use patchwright_tools::checkpoints::Recorder;

/// The repository of the checkpoints in the run's folder.
pub const FOLDER: &str = "checkpoints.git";

/// What may differ from the base: more is not recorded. Somewhat more than a change may have.
const LIMITS: CollectLimits =
    CollectLimits { files: 12_000, bytes: 300 << 20, timeout: Duration::from_mins(2) };

/// Records the workspace of a sandbox.
pub struct Checkpoints {
    pub client: Client,
    pub store: Store,
    /// The tree that was uploaded.
    pub base: Oid,
    /// The run's own, not a lane.
    pub journal: Journal,
    pub ui: Ui,
    /// The workspace is on the disk of the state folder.
    is_local: bool,
    last: Mutex<LastCheckpoint>,
    has_sessions: AtomicBool,
}

/// The last checkpoint.
struct LastCheckpoint {
    snapshot: Snapshot,
    /// What no checkpoint has and the guest does not name again: it is not in this sandbox, or it was sent, and the host
    /// refused it.
    held: NotRecorded,
    /// What the guest knows it as; 0 for the uploaded tree.
    number: u64,
    /// Numbers that were given to the guest.
    asked: u64,
    /// It is not what is in the workspace now: that could not be recorded.
    is_stale: bool,
}

/// A workspace as it was at one moment.
#[derive(Clone, PartialEq)]
struct Snapshot {
    tree: Oid,
    sessions: Vec<String>,
    shell: bool,
    not_recorded: NotRecorded,
}

impl LastCheckpoint {
    /// The uploaded tree.
    fn first(tree: Oid) -> LastCheckpoint {
        let (sessions, shell, not_recorded) = (Vec::new(), false, NotRecorded::default());
        let snapshot = Snapshot { tree, sessions, shell, not_recorded };
        LastCheckpoint {
            snapshot,
            held: NotRecorded::default(),
            number: 0,
            asked: 0,
            is_stale: false,
        }
    }

    /// What is sent now, or is gone by now, is judged anew.
    fn forget(&mut self, changed: &CollectedTree) {
        let sent = changed.files.iter().map(|file| &file.path);
        for path in sent.chain(&changed.listing.deleted) {
            self.held.forget(&display_path(path));
        }
    }
}

impl Checkpoints {
    /// For a sandbox into which `base` has just been uploaded.
    pub fn new(client: Client, store: Store, base: Oid, journal: Journal, ui: Ui) -> Checkpoints {
        let last = Mutex::new(LastCheckpoint::first(base));
        let has_sessions = AtomicBool::new(false);
        Checkpoints { client, store, base, journal, ui, is_local: false, last, has_sessions }
    }

    /// The checkpoints of the run of a phase.
    pub(super) async fn of(phase: &Phase<'_>, client: &Client) -> Result<Checkpoints> {
        let run = phase.run;
        let (folder, mirror) = (run.folder.path.join(FOLDER), phase.workspace.repo.clone());
        let store = blocking(move || Store::open(&folder, &mirror)).await;
        let store =
            store.map_err(|err| failure(err, "cannot keep checkpoints of the workspace"))?;
        let (base, journal) = (phase.workspace.base_tree()?, run.folder.journal.of_run());
        let made = Checkpoints::new(client.clone(), store, base, journal, run.environment.ui);
        Ok(Checkpoints { is_local: run.config.sandbox == SandboxChoice::Local, ..made })
    }

    /// The first checkpoint: the uploaded tree, in which nothing runs yet.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn begin(&self) -> Result<()> {
        self.write_down(LastCheckpoint::first(self.base).snapshot, None)
    }

    /// Records the first checkpoint; where the agent is to begin with another tree than the uploaded one, the workspace
    /// is brought there.
    ///
    /// # Errors
    /// When the tree cannot be read, the sandbox fails, or the journal cannot be written.
    pub async fn begin_at(&self, tree: Option<Oid>) -> Result<()> {
        self.begin()?;
        match tree {
            Some(tree) => self.begin_with(tree).await,
            None => Ok(()),
        }
    }

    /// Brings the workspace from the uploaded tree to another one, which the agent is to begin with.
    ///
    /// # Errors
    /// When the tree cannot be read, the sandbox fails, or the journal cannot be written.
    async fn begin_with(&self, tree: Oid) -> Result<()> {
        let (store, base) = (self.store.clone(), self.base);
        let difference = blocking(move || store.difference(base, tree, now())).await;
        let difference =
            difference.map_err(|err| failure(err, "cannot read the tree to begin with"))?;
        difference.restore(&self.client).await.map_err(|err| {
            let message = "the workspace could not be prepared";
            failures::of_disk(Failure::sandbox(message).caused_by(err), self.journal.path())
        })?;
        self.record(None).await
    }

    /// Puts the workspace back as it was at the last checkpoint that can be read.
    ///
    /// # Errors
    /// If no checkpoint can be read or the run began on another commit: a [`Failure`] with the next step.
    pub async fn restore(&self, recorded: &[Line]) -> Result<RestoredWorkspace> {
        let all = checkpoints::latest_first(recorded);
        let folder = self.journal.path().parent().unwrap_or(self.journal.path()).display();
        let refused = |why: String| {
            Failure::machine(why).hint(format!("move `{folder}` away, and run again to begin anew"))
        };
        let Some(first) = all.last() else {
            return Err(refused(
                "this run cannot be resumed: its journal has no checkpoint of the workspace, as those of older \
                 versions"
                    .to_owned(),
            ));
        };
        if first.tree.parse() != Ok(self.base) {
            return Err(refused(
                "this run cannot be resumed: the commit that it began on is not there any more"
                    .to_owned(),
            ));
        }
        for checkpoint in &all {
            let (seq, place) = (checkpoint.seq, checkpoint.place());
            let difference = match self.difference(checkpoint).await {
                Ok(difference) => difference,
                Err(err) => {
                    self.ui.warn(&format!(
                        "the checkpoint {place} (line {seq} of the journal) cannot be read, and the one \
                         before is taken: {err}"
                    ));
                    continue;
                }
            };
            return self.put_back(checkpoint, difference).await;
        }
        Err(refused(format!(
            "this run cannot be resumed: none of its {} checkpoints can be read",
            all.len()
        )))
    }

    async fn difference(&self, checkpoint: &Checkpoint<'_>) -> Result<Difference, GitError> {
        let tree: Oid = checkpoint.tree.parse()?;
        let (store, base) = (self.store.clone(), self.base);
        blocking(move || store.difference(base, tree, now())).await
    }

    async fn put_back(
        &self,
        checkpoint: &Checkpoint<'_>,
        difference: Difference,
    ) -> Result<RestoredWorkspace> {
        difference.restore(&self.client).await.map_err(|err| {
            let message = "the workspace could not be put back into the sandbox";
            failures::of_disk(Failure::sandbox(message).caused_by(err), self.journal.path())
        })?;
        let mut last = self.last.lock().await;
        last.snapshot.tree = checkpoint.tree.parse().unwrap_or(self.base);
        last.held = checkpoint.not_recorded.clone();
        let changed = difference.put.into_iter().chain(difference.remove);
        Ok(RestoredWorkspace {
            checkpoint: checkpoint.seq,
            tree: checkpoint.tree.to_owned(),
            place: checkpoint.place(),
            sessions: checkpoint.sessions.to_vec(),
            shell: checkpoint.shell,
            changed: changed.collect(),
            has_new_setup: false,
            other_sandbox: None,
        })
    }

    /// Records the workspace; the tree is on the disk when this returns.
    ///
    /// # Errors
    /// Why it cannot be recorded.
    pub async fn checkpoint(&self) -> Result<Oid, String> {
        let mut last = self.last.lock().await;
        last.snapshot.tree = self.make(&mut last).await?.tree;
        Ok(last.snapshot.tree)
    }

    async fn make(&self, last: &mut LastCheckpoint) -> Result<Snapshot, String> {
        last.asked += 1;
        let (number, asked) = (last.number, last.asked);
        let fetched = self.client.checkpoint(number, asked, LIMITS).await;
        let (mut changed, made) = fetched.map_err(|err| err.to_string())?;
        let Checkpointed { whole, over, sessions, shell, .. } = made;
        self.has_sessions.store(!sessions.is_empty(), Ordering::Relaxed);
        if let Some((files, bytes)) = over {
            let (most, room) = (LIMITS.files, LIMITS.bytes >> 20);
            return Err(format!(
                "{files} files with {} MiB differ from the base, more than the {most} files or {room} MiB \
                 that are kept",
                bytes >> 20
            ));
        }
        let refused = std::mem::take(&mut changed.listing.refused);
        let shown =
            |(path, reason): (String, String)| (display_path(&path), printable(&reason, 300));
        let ignored = changed.listing.ignored.iter().map(|path| display_path(path));
        let listed = NotRecorded {
            refused: refused.into_iter().map(shown).collect(),
            ignored: ignored.collect(),
        };
        last.forget(&changed);
        let onto = if whole { self.base } else { last.snapshot.tree };
        let is_same = changed.files.is_empty() && changed.listing.deleted.is_empty();
        let tree = if is_same {
            onto
        } else {
            let store = self.store.clone();
            let added = blocking(move || store.add(onto, &changed)).await;
            let (tree, refused) = added.map_err(|err| err.to_string())?;
            last.held.refused.extend(refused);
            tree
        };
        last.number = asked;
        Ok(Snapshot { tree, sessions, shell, not_recorded: last.held.with(listed) })
    }

    fn write_down(&self, snapshot: Snapshot, after: Option<&str>) -> Result<()> {
        let Snapshot { tree, sessions, shell, not_recorded } = snapshot;
        let (tree, after) = (tree.to_string(), after.map(str::to_owned));
        let entry = Entry::Checkpoint { tree, after, sessions, shell, not_recorded };
        self.journal.append(&entry).map(drop)
    }
}

/// The time of files that are put back, in seconds since 1970: whatever is made from them by their times has to
/// be made again.
fn now() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

#[async_trait]
impl Recorder for Checkpoints {
    async fn record(&self, after: Option<&str>) -> Result<(), Failure> {
        let mut last = self.last.lock().await;
        let made = match self.make(&mut last).await {
            Ok(made) => made,
            Err(why) if disk::is_to_blame(&why, self.journal.path()) => {
                // The next turns would be paid for, and could write nothing.
                let failure = Failure::machine("the workspace cannot be recorded");
                let failure = failure.caused_by(anyhow::anyhow!(why));
                return Err(failures::of_disk(failure, self.journal.path()));
            }
            Err(_) if last.is_stale => return Ok(()),
            Err(why) => {
                last.is_stale = true;
                self.ui.warn(&format!("the workspace is not recorded for now: {why}"));
                return self.journal.append(&Entry::Unrecorded { why }).map(drop);
            }
        };
        if !std::mem::take(&mut last.is_stale) && last.snapshot == made {
            return Ok(());
        }
        // Whatever comes of the entry, the guest's next answer is about this tree.
        last.snapshot = made.clone();
        self.write_down(made, after)
    }

    fn has_sessions(&self) -> bool {
        self.has_sessions.load(Ordering::Relaxed)
    }

    fn full_disk(&self, said: Option<&str>) -> Option<Failure> {
        let state = self.journal.path();
        let why = match said {
            Some(said) if disk::is_to_blame(said, state) => {
                let line = said.lines().find(|line| disk::is_to_blame(line, state));
                printable(line.unwrap_or_default(), 300)
            }
            None if self.is_local => disk::shortage(state)?,
            Some(_) | None => return None,
        };
        let failure = Failure::machine("what the model changes cannot be written");
        let hint = format!("{}, then run the same command again", disk::MAKE_ROOM);
        Some(failure.caused_by(anyhow::anyhow!(why)).hint(hint))
    }
}
