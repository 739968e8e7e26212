//! Instances from the history of a repository: commits that changed code and tests together. The tests are tried on the
//! commit before, without and with what people did: those that it made pass decide.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::candidate::{Candidate, Patches, Task, patches};
use crate::collection::Collection;
use crate::collection::Refusal;
pub use crate::collection::skipped_file;
use crate::instance::Instance;
use crate::statement::{self, Message, Statement};
use crate::test_states::TestStates;
use crate::verdict::deciding_tests;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::text;
use patchwright_base::ui::Ui;
use patchwright_config::Config;
use patchwright_forge::RepositoryId;
use patchwright_git::clone::Repo;
use patchwright_git::{GitError, Oid, blocking, commit};
use patchwright_task::measure::{Measured, Measurement, measure};
use patchwright_task::run::RunEnvironment;
use patchwright_task::workspace::Workspace;
use patchwright_task::world::World;
use patchwright_types::evidence::CheckRun;

/// Commits of a merge whose messages are told.
const MAX_MERGED: usize = 20;

/// The number that GitHub's ways of merging leave in a message.
static PULL_REQUEST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^Merge pull request #(\d+) |^[^\n]*\(#(\d+)\)\s*(?:\n|$)")
        .expect("a fixed pattern")
});

/// What instances are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Commits of the history.
    #[default]
    Commits,
    /// Reviews of merged pull requests, and the commits that followed them.
    Reviews,
}

/// Where to look, and for how much.
#[derive(Clone, Debug)]
pub struct Mine {
    /// A folder or a URL.
    pub repository: String,
    /// `owner/name`, as instances say it.
    pub name: String,
    /// Branch, tag or commit whose history is read; `HEAD` when absent.
    pub base: Option<String>,
    pub from: Source,
    /// Commits, or pull requests, that are looked at, from the newest.
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

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mined {
    /// Commits, or pull requests, that were looked at, now or before.
    pub looked_at: usize,
    /// Instances in the file.
    pub instances: usize,
    /// Of how many none could be made, for the reasons in the other file.
    pub skipped: usize,
    /// Why the search has ended early, where the tests of several commits in a row could not be run.
    pub unrunnable: Option<String>,
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
    /// When the repository or the forge cannot be read, nothing can be written, or no sandbox can be started.
    pub async fn mine(&self, mine: &Mine) -> Result<Mined> {
        let mut collection = Collection::open(&mine.out, mine.from)?;
        match mine.from {
            Source::Commits => self.mine_commits(mine, &mut collection).await?,
            Source::Reviews => self.mine_reviews(mine, &mut collection).await?,
        }
        Ok(collection.mined)
    }

    async fn mine_commits(&self, mine: &Mine, collection: &mut Collection) -> Result<()> {
        let depth = mine.commits.saturating_add(1);
        let workspace = self.open(mine, mine.base.as_deref(), depth).await?;
        let (repo, tip) = (workspace.repo.clone(), workspace.base);
        let most = usize::try_from(mine.commits).unwrap_or(usize::MAX);
        let listed = blocking(move || commit::first_parents(&repo, tip, most)).await;
        let commits =
            listed.map_err(|err| Failure::machine("the history cannot be read").caused_by(err))?;
        for commit in commits {
            if collection.is_over(mine.most) {
                break;
            }
            collection.mined.looked_at += 1;
            if collection.knows(commit) {
                continue;
            }
            let made = match of_commit(&workspace.repo, commit, mine.max_lines).await? {
                Err(why) => Err(why),
                Ok(candidate) => {
                    self.instance(mine, &workspace.repo, &candidate, &collection.ids).await?
                }
            };
            collection.add(commit, made, self.ui)?;
        }
        Ok(())
    }

    /// The repository, with so much of the history of a branch or commit.
    pub(crate) async fn open(
        &self,
        mine: &Mine,
        base: Option<&str>,
        depth: u32,
    ) -> Result<Workspace> {
        let remote = self.world.remote(&mine.repository)?;
        Workspace::open_remote(&self.world.state, remote, &mine.repository, base, depth).await
    }

    /// The instance that it makes, or the reason why it makes none.
    pub(crate) async fn instance(
        &self,
        mine: &Mine,
        repo: &Repo,
        candidate: &Candidate,
        taken: &BTreeSet<String>,
    ) -> Result<std::result::Result<Instance, Refusal>> {
        self.ui.say(&format!("trying {}: {}", candidate.after.short(), candidate.title));
        let (before, after) = match self.try_tests(mine, candidate).await? {
            Ok(tried) => tried,
            Err(why) => return Ok(Err(why)),
        };
        let states = TestStates::of(&after);
        let (fail_to_pass, pass_to_pass) = deciding_tests(&TestStates::of(&before), &states);
        if fail_to_pass.is_empty() {
            return Ok(Err(undecided(&states, &pass_to_pass)));
        }
        let told = match &candidate.task {
            Task::Known(statement) => Some(statement.clone()),
            Task::Message(message) => {
                let issues = mine.issues.as_ref();
                statement::of(self.world, issues, candidate.number, message).await?
            }
        };
        let Some(Statement { text, source }) = told else {
            return Ok(Err(Refusal::Tests("nothing says what the task was".to_owned())));
        };
        let time = commit::time_of(repo, candidate.after);
        Ok(Ok(Instance {
            instance_id: instance_id(&mine.name, candidate, taken),
            repo: mine.name.clone(),
            base_commit: candidate.before.to_string(),
            problem_statement: text,
            patch: candidate.patch.clone(),
            test_patch: candidate.tests.clone(),
            fail_to_pass,
            pass_to_pass,
            created_at: time.map(|time| time.to_rfc3339()).unwrap_or_default(),
            environment_setup_commit: candidate.before.to_string(),
            verify: after.iter().map(|run| run.command.clone()).collect(),
            image: self.config.image.clone(),
            commit: candidate.after.to_string(),
            statement: source.to_owned(),
            ..Instance::default()
        }))
    }

    /// The checks with the tests alone, and with the code as well.
    async fn try_tests(
        &self,
        mine: &Mine,
        candidate: &Candidate,
    ) -> Result<std::result::Result<Tried, Refusal>> {
        // What a killed call has measured there is not measured again.
        let work = self.world.state.join("mine").join(candidate.after.to_string());
        let environment = RunEnvironment { out: Some(work.clone()), ..self.environment.clone() };
        let measurement = Measurement {
            repository: mine.repository.clone(),
            base: candidate.before.to_string(),
            about: candidate.after.short(),
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
                let why = "the repository has no checks that could be run";
                Ok(Err(Refusal::Unrunnable(why.to_owned())))
            }
            Ok(Measured::Checks { before, after }) => Ok(Ok((before, after))),
            Ok(Measured::NotApplicable(why)) => Ok(Err(Refusal::Tests(why))),
            // What is wrong with this commit says nothing about the next one.
            Err(failure) if failure.kind == FailureKind::Usage => {
                Ok(Err(Refusal::Tests(failure.to_string())))
            }
            Err(failure) => Err(failure),
        }
    }
}

/// The checks before and after.
type Tried = (Vec<CheckRun>, Vec<CheckRun>);

/// Why no test decides.
fn undecided(after: &TestStates, pass_to_pass: &[String]) -> Refusal {
    if let Some(why) = after.unrunnable.first() {
        return Refusal::Unrunnable(format!("its tests cannot be run here: {why}"));
    }
    if pass_to_pass.is_empty() {
        // So it looks where packages are missing that the tests load.
        return Refusal::Unrunnable("no test passes here, with the code either".to_owned());
    }
    Refusal::Tests("no test fails without the code and passes with it".to_owned())
}

/// The candidate that a commit makes, or why it is skipped.
async fn of_commit(
    repo: &Repo,
    commit: Oid,
    max_lines: u64,
) -> Result<std::result::Result<Candidate, Refusal>> {
    let reading = repo.clone();
    let read = blocking(move || {
        let merged = commit::merged_messages(&reading, commit, MAX_MERGED);
        Ok::<_, GitError>((commit::read(&reading, commit)?, merged?))
    });
    let (facts, merged) = read.await.map_err(|err| {
        Failure::machine(format!("the commit {} cannot be read", commit.short())).caused_by(err)
    })?;
    let Some(before) = facts.parents.first().copied() else {
        return Ok(Err(Refusal::Change("it has no parent".to_owned())));
    };
    let patches = patches(repo, before, commit, max_lines).await?;
    Ok(patches.map(|Patches { code, tests }| Candidate {
        before,
        after: commit,
        title: text::line(facts.message.lines().next().unwrap_or_default()),
        number: pull_request_of(&facts.message),
        task: Task::Message(Message { own: facts.message, merged }),
        patch: code,
        tests,
    }))
}

fn pull_request_of(message: &str) -> Option<u64> {
    let found = PULL_REQUEST.captures(message)?;
    found.get(1).or_else(|| found.get(2))?.as_str().parse().ok()
}

/// As SWE-bench names them, by the pull request, and with a review by the commit that was reviewed; by the commit where
/// it has no pull request, or the name is taken.
fn instance_id(name: &str, candidate: &Candidate, taken: &BTreeSet<String>) -> String {
    let plain = crate::ledger::slug(&name.replace('/', "__"));
    let Candidate { before, after, number, task, .. } = candidate;
    let by_number = number.map(|number| match task {
        Task::Message(_) => format!("{plain}-{number}"),
        Task::Known(_) => format!("{plain}-{number}-review-{}", before.short()),
    });
    let free = by_number.filter(|id| !taken.contains(id));
    free.unwrap_or_else(|| format!("{plain}-{}", after.short()))
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
        let commit = |digit: &str| digit.repeat(40).parse::<Oid>().unwrap();
        let named = |number, task, taken: &[&str]| {
            let candidate = Candidate {
                before: commit("1"),
                after: commit("2"),
                title: String::new(),
                number,
                task,
                patch: String::new(),
                tests: String::new(),
            };
            let taken = taken.iter().map(|id| (*id).to_owned()).collect();
            instance_id("acme/web", &candidate, &taken)
        };
        let by_message = || Task::Message(Message::default());
        assert_eq!(named(Some(7), by_message(), &[]), "acme__web-7");
        assert_eq!(named(Some(7), by_message(), &["acme__web-7"]), "acme__web-2222222222");
        assert_eq!(named(None, by_message(), &[]), "acme__web-2222222222");
        let review = Statement { text: String::new(), source: statement::REVIEW };
        let id = named(Some(7), Task::Known(review), &["acme__web-7"]);
        assert_eq!(id, "acme__web-7-review-1111111111");
    }
}
