//! Instances from the history of a repository: commits that changed code and tests together. The tests are tried on the
//! commit before, without and with what people did: those that it made pass decide.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::instance::Instance;
use crate::ledger::{append, read_lines};
use crate::statement::{self, Statement};
use crate::statistics::counted;
use crate::test_states::TestStates;
use crate::verdict::deciding_tests;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::ui::Ui;
use patchwright_config::Config;
use patchwright_forge::RepositoryId;
use patchwright_git::clone::Repo;
use patchwright_git::diff::{DiffSpec, tree_of, unified};
use patchwright_git::tree::{self, FileChange};
use patchwright_git::{GitError, Oid, blocking, commit};
use patchwright_policy::content::is_test;
use patchwright_task::measure::{Measured, Measurement, measure};
use patchwright_task::run::RunEnvironment;
use patchwright_task::workspace::Workspace;
use patchwright_task::world::World;
use patchwright_types::evidence::CheckRun;

/// Files that nothing is executed of.
const NO_CODE: &[&str] = &[".md", ".rst", ".txt", ".adoc", ".png", ".svg", ".gif", ".jpg", ".lock"];
/// Bytes of one of the two patches.
const MAX_PATCH: usize = 1 << 20;

/// The number that GitHub's ways of merging leave in a message.
static PULL_REQUEST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^Merge pull request #(\d+) |^[^\n]*\(#(\d+)\)\s*(?:\n|$)")
        .expect("a fixed pattern")
});

/// Where to look, and for how much.
#[derive(Clone, Debug)]
pub struct Mine {
    /// A folder or a URL.
    pub repository: String,
    /// `owner/name`, as instances say it.
    pub name: String,
    /// Branch, tag or commit whose history is read; `HEAD` when absent.
    pub base: Option<String>,
    /// Commits that are looked at, from the newest.
    pub commits: u32,
    /// Instances that are enough.
    pub most: usize,
    /// Changed lines of a commit beyond which it is no single task.
    pub max_lines: u64,
    /// Where issues and pull requests are read, when they are.
    pub issues: Option<RepositoryId>,
    /// The file of the instances.
    pub out: PathBuf,
}

/// What became of the commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mined {
    /// Commits that were looked at, now or before.
    pub commits: usize,
    /// Instances in the file.
    pub instances: usize,
    /// Commits of which none could be made, for the reasons in the other file.
    pub skipped: usize,
}

/// Why no instance could be made of a commit, so that it is not tried again.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Skipped {
    commit: String,
    why: String,
}

/// A commit that may be an instance.
struct Candidate {
    commit: Oid,
    parent: Oid,
    message: String,
    /// The code of it, and its tests.
    patch: String,
    tests: String,
}

/// Who mines.
pub struct Miner<'a> {
    pub world: &'a World,
    pub config: &'a Config,
    pub environment: &'a RunEnvironment,
    pub ui: Ui,
}

impl Miner<'_> {
    /// Adds instances to the file until there are enough of them. What an earlier call has looked at is not tried again.
    ///
    /// # Errors
    /// When the repository cannot be read, nothing can be written, or no sandbox can be started.
    pub async fn mine(&self, mine: &Mine) -> Result<Mined> {
        let known: Vec<Instance> =
            if mine.out.is_file() { read_back(&mine.out)? } else { Vec::new() };
        let skipped_file = mine.out.with_extension("skipped.jsonl");
        let skipped: Vec<Skipped> = read_back(&skipped_file)?;
        let mut ids: BTreeSet<String> = known.iter().map(|it| it.instance_id.clone()).collect();
        let workspace = self.open(mine).await?;
        let (repo, tip) = (workspace.repo.clone(), workspace.base);
        let most = usize::try_from(mine.commits).unwrap_or(usize::MAX);
        let listed = blocking(move || commit::first_parents(&repo, tip, most)).await;
        let commits =
            listed.map_err(|err| Failure::machine("the history cannot be read").caused_by(err))?;
        let mut mined = Mined { commits: 0, instances: ids.len(), skipped: skipped.len() };
        for commit in commits {
            if ids.len() >= mine.most {
                break;
            }
            mined.commits += 1;
            let name = commit.to_string();
            let is_known = known.iter().any(|it| it.commit == name)
                || skipped.iter().any(|it| it.commit == name);
            if is_known {
                continue;
            }
            let made = match candidate(&workspace.repo, commit, mine.max_lines).await? {
                Err(why) => Err(why),
                Ok(candidate) => {
                    self.ui.say(&format!("trying {}: {}", commit.short(), title(&candidate)));
                    self.instance(mine, &workspace.repo, &candidate, &ids).await?
                }
            };
            match made {
                Ok(instance) => {
                    let tests = counted(instance.fail_to_pass.len(), "test");
                    let id = &instance.instance_id;
                    self.ui.say(&format!("{id}: decided by {tests} that failed before"));
                    append(&mine.out, &instance)?;
                    ids.insert(instance.instance_id);
                    mined.instances += 1;
                }
                Err(why) => {
                    self.ui.detail(&format!("{}: {why}", commit.short()));
                    append(&skipped_file, &Skipped { commit: name, why })?;
                    mined.skipped += 1;
                }
            }
        }
        Ok(mined)
    }

    async fn open(&self, mine: &Mine) -> Result<Workspace> {
        let Mine { repository, base, commits, .. } = mine;
        let remote = self.world.remote(repository)?;
        let depth = commits.saturating_add(1);
        let state = &self.world.state;
        Workspace::open_remote(state, remote, repository, base.as_deref(), depth).await
    }

    /// The instance that the commit makes, or the reason why it makes none.
    async fn instance(
        &self,
        mine: &Mine,
        repo: &Repo,
        candidate: &Candidate,
        taken: &BTreeSet<String>,
    ) -> Result<std::result::Result<Instance, String>> {
        let (before, after) = match self.try_tests(mine, candidate).await? {
            Ok(tried) => tried,
            Err(why) => return Ok(Err(why)),
        };
        let (fail_to_pass, pass_to_pass) =
            deciding_tests(&TestStates::of(&before), &TestStates::of(&after));
        if fail_to_pass.is_empty() {
            let why = "no test fails without the code and passes with it".to_owned();
            return Ok(Err(why));
        }
        let number = pull_request_of(&candidate.message);
        let told = statement::of(self.world, mine.issues.as_ref(), number, &candidate.message);
        let Some(Statement { text, source }) = told.await? else {
            return Ok(Err("nothing says what the task was".to_owned()));
        };
        let time = commit::time_of(repo, candidate.commit);
        Ok(Ok(Instance {
            instance_id: instance_id(&mine.name, number, candidate.commit, taken),
            repo: mine.name.clone(),
            base_commit: candidate.parent.to_string(),
            problem_statement: text,
            patch: candidate.patch.clone(),
            test_patch: candidate.tests.clone(),
            fail_to_pass,
            pass_to_pass,
            created_at: time.map(|time| time.to_rfc3339()).unwrap_or_default(),
            environment_setup_commit: candidate.parent.to_string(),
            verify: after.iter().map(|run| run.command.clone()).collect(),
            image: self.config.image.clone(),
            commit: candidate.commit.to_string(),
            statement: source.to_owned(),
            ..Instance::default()
        }))
    }

    /// The checks with the tests alone, and with the code as well.
    async fn try_tests(
        &self,
        mine: &Mine,
        candidate: &Candidate,
    ) -> Result<std::result::Result<Tried, String>> {
        // What a killed call has measured there is not measured again.
        let work = self.world.state.join("mine").join(candidate.commit.to_string());
        let environment = RunEnvironment { out: Some(work.clone()), ..self.environment.clone() };
        let measurement = Measurement {
            repository: mine.repository.clone(),
            base: candidate.parent.to_string(),
            about: candidate.commit.short(),
            verify: Vec::new(),
            tests: candidate.tests.clone(),
            before: true,
            patch: candidate.patch.clone(),
        };
        let tried = measure(self.world, self.config.clone(), &measurement, environment).await;
        if tried.is_ok() {
            // A leftover is in nobody's way.
            let _ = fs_err::remove_dir_all(&work);
        }
        match tried {
            Ok(Measured::Checks { after, .. }) if after.is_empty() => {
                Ok(Err("the repository has no checks that could be run".to_owned()))
            }
            Ok(Measured::Checks { before, after }) => Ok(Ok((before, after))),
            Ok(Measured::NotApplicable(why)) => Ok(Err(why)),
            // What is wrong with this commit says nothing about the next one.
            Err(failure) if failure.kind == FailureKind::Usage => Ok(Err(failure.to_string())),
            Err(failure) => Err(failure),
        }
    }
}

/// The checks before and after.
type Tried = (Vec<CheckRun>, Vec<CheckRun>);

fn read_back<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<T>> {
    read_lines(path).map_err(|err| {
        Failure::usage(format!("`{}` cannot be read", path.display())).caused_by(err)
    })
}

/// The two patches of a commit; why there are none, where it is no task for a model.
async fn candidate(
    repo: &Repo,
    commit: Oid,
    max_lines: u64,
) -> Result<std::result::Result<Candidate, String>> {
    let repo = repo.clone();
    let found = blocking(move || {
        let facts = commit::read(&repo, commit)?;
        let Some(parent) = facts.parents.first().copied() else {
            return Ok(Err("it has no parent".to_owned()));
        };
        let Ok(before) = tree_of(&repo, parent) else {
            return Ok(Err("its parent is not here".to_owned()));
        };
        let change = tree::between(&repo, parent, facts.tree)?;
        let (tests, code): (Vec<&FileChange>, Vec<&FileChange>) =
            change.files.iter().partition(|file| is_test(&file.path.to_lowercase()));
        if tests.iter().all(|file| file.new.is_none()) {
            return Ok(Err("it adds no test and changes none".to_owned()));
        }
        if !code.iter().any(|file| is_code(&file.path)) {
            return Ok(Err("it changes no code".to_owned()));
        }
        let lines = change.files.iter().map(|file| file.added_lines + file.removed_lines);
        let lines: u64 = lines.sum();
        if lines > max_lines {
            return Ok(Err(format!("it changes {lines} lines")));
        }
        let patch = |files: &[&FileChange]| -> Result<Option<String>, GitError> {
            let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            let spec = DiffSpec { paths: &paths, max_bytes: MAX_PATCH };
            let patch = unified(&repo, before, facts.tree, spec)?;
            Ok(String::from_utf8(patch.bytes).ok().filter(|_| patch.left_out.is_empty()))
        };
        let (Some(patch), Some(tests)) = (patch(&code)?, patch(&tests)?) else {
            return Ok(Err("its difference is too large, or not UTF-8".to_owned()));
        };
        Ok(Ok(Candidate { commit, parent, message: facts.message, patch, tests }))
    });
    found.await.map_err(|err| {
        Failure::machine(format!("the commit {} cannot be read", commit.short())).caused_by(err)
    })
}

fn is_code(path: &str) -> bool {
    let path = path.to_lowercase();
    !path.starts_with(".github/") && !NO_CODE.iter().any(|ending| path.ends_with(ending))
}

fn title(candidate: &Candidate) -> String {
    let first = candidate.message.lines().next().unwrap_or_default();
    patchwright_base::text::line(first)
}

fn pull_request_of(message: &str) -> Option<u64> {
    let found = PULL_REQUEST.captures(message)?;
    found.get(1).or_else(|| found.get(2))?.as_str().parse().ok()
}

/// As SWE-bench names them, by the pull request; by the commit where it has none, or the name is taken.
fn instance_id(name: &str, number: Option<u64>, commit: Oid, taken: &BTreeSet<String>) -> String {
    let plain = crate::ledger::slug(&name.replace('/', "__"));
    let by_number = number.map(|number| format!("{plain}-{number}"));
    let free = by_number.filter(|id| !taken.contains(id));
    free.unwrap_or_else(|| format!("{plain}-{}", commit.short()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_pull_request_is_where_github_writes_it() {
        for (message, number) in [
            ("Merge pull request #12 from acme/fix\n\nFix the sum", Some(12)),
            ("Fix the sum (#34)\n\nIt was wrong.", Some(34)),
            ("Revert \"Fix (#34)\" (#35)", Some(35)),
            ("Fix the sum\n\nSee #7 (#8)", None),
            ("Fix #7", None),
        ] {
            assert_eq!(pull_request_of(message), number, "{message}");
        }
    }

    #[test]
    fn instances_are_named_after_their_pull_requests() {
        let commit: Oid = "0123456789012345678901234567890123456789".parse().unwrap();
        let none = BTreeSet::new();
        assert_eq!(instance_id("acme/web", Some(7), commit, &none), "acme__web-7");
        let taken = BTreeSet::from(["acme__web-7".to_owned()]);
        assert_eq!(instance_id("acme/web", Some(7), commit, &taken), "acme__web-0123456789");
        assert_eq!(instance_id("acme/web", None, commit, &none), "acme__web-0123456789");
    }

    #[test]
    fn documents_and_workflows_are_no_code() {
        assert!(is_code("src/sum.py"));
        assert!(!is_code("README.md") && !is_code(".github/workflows/ci.yml"));
    }
}
