//! What is read of a pull request: all of it, or what came after the last review; and whether there is
//! anything to read at all.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::admit::AdmittedReview;
use super::earlier::EarlierReviews;
use super::locked;
use super::open::{self, ReviewRange};
use super::scope::{ChangesSince, Scope};
use super::verdict;
use crate::run::Run;
use crate::workspace::Workspace;
use patchwright_agent::Agent;
use patchwright_base::error::{Failure, Result};
use patchwright_forge::Comparison;
use patchwright_git::Oid;
use patchwright_git::hunks::Diff;
use patchwright_review::incremental::Memory;
use patchwright_review::unread::UnreadPaths;

/// The scope that was decided on, for a run that is resumed after a crash.
const SCOPE_FILE: &str = "scope.json";

/// Commits of findings that only our threads tell of, from which renamed files are followed.
const MOST_RECALLED: usize = 5;

/// What is reviewed, and since when.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Plan {
    /// The commit that was reviewed before, when only what came after it, or was left there, is read.
    pub(super) since: Option<String>,
    pub(super) fresh: Option<ChangesSince>,
    pub(super) scope: Scope,
    /// Files that have been renamed since the last review: their path now, by the one of that time.
    #[serde(default)]
    pub(super) renamed: BTreeMap<String, String>,
    /// Files with earlier findings, by their path now, that have changed since the last review.
    #[serde(default)]
    pub(super) changed: BTreeSet<String>,
    /// Those of them that the pull request changed at that time and leaves as they are now.
    #[serde(default)]
    pub(super) taken_back: BTreeSet<String>,
    /// The commit was reviewed before, and people have decided about its findings since: nothing is read, and the verdict
    /// is another one.
    #[serde(default)]
    pub(super) is_judged_anew: bool,
    /// The merge base that the files are numbered by; empty when an older version has written this.
    #[serde(default)]
    base: String,
}

/// What an earlier attempt of this run had decided; `None` when it was stopped before that, or the pull request
/// has another merge base since and no model was told of the former.
///
/// # Errors
/// When it cannot be read, or is about a difference that a model has read and that is no more.
fn recorded(run: &Run<'_>, opened: &ReviewRange) -> Result<Option<Plan>> {
    if run.folder.recorded.is_empty() {
        return Ok(None);
    }
    let path = run.folder.path.join(SCOPE_FILE);
    let unreadable = |cause: anyhow::Error| {
        Failure::machine(format!("`{}`, with what this review reads, is damaged", path.display()))
            .caused_by(cause)
            .hint("move the run's folder away to begin anew")
    };
    match fs_err::read_to_string(&path) {
        Ok(text) => {
            let plan = serde_json::from_str(&text).map_err(|err| unreadable(err.into()))?;
            still_holds(run, plan, opened)
        }
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(unreadable(err.into())),
    }
}

fn still_holds(run: &Run<'_>, plan: Plan, opened: &ReviewRange) -> Result<Option<Plan>> {
    if plan.base.is_empty() || plan.base == opened.base.to_string() {
        return Ok(Some(plan));
    }
    if !Agent::can_resume(&run.folder.recorded) {
        return Ok(None);
    }
    Err(Failure::machine(format!(
        "this review was begun on the difference to {}, and that commit is not the merge base any more",
        plan.base
    ))
    .hint("move the run's folder away to begin anew"))
}

/// What is to be read: all, or what came after the last review.
pub(super) async fn plan(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    base: &Workspace,
    opened: &ReviewRange,
    earlier: &EarlierReviews,
) -> Result<Plan> {
    if let Some(plan) = recorded(run, opened)? {
        return Ok(plan);
    }
    let is_full = admitted.request.full;
    let is_judged_anew = !is_full && is_judged_anew(opened, earlier);
    worth_a_look(run, admitted, opened, earlier, is_judged_anew).await?;
    let last = LastReview::of(&earlier.memory);
    let fresh = if is_full { None } else { since(run, admitted, base, opened, &last).await? };
    let mut scope = Scope::new(&run.config.review, &opened.diff, fresh.as_ref());
    scope.name_submodules(&opened.submodules);
    scope.take_in(&large_lock_files(base, opened).await, &opened.diff);
    if is_judged_anew {
        scope = scope.without_reading(&opened.diff);
    }
    let since = fresh.as_ref().map(|_| last.commit.to_owned());
    if scope.is_nothing() && earlier.is_nothing() {
        let why = Scope::why_nothing(admitted.pull.number, since.as_deref());
        if !run.config.dry_run {
            verdict::nothing_to_read(run, admitted, &scope.skipped, &why).await;
        }
        return Err(Failure::nothing_to_do(why));
    }
    let (renamed, changed) = renamed(run, admitted, base, opened, earlier).await?;
    let taken_back = taken_back(&changed, opened, &earlier.memory);
    let base = opened.base.to_string();
    let plan = Plan { since, fresh, scope, renamed, changed, taken_back, is_judged_anew, base };
    let text = serde_json::to_vec(&plan)
        .map_err(|err| Failure::internal("the scope cannot be written down").caused_by(err))?;
    run.folder.write(SCOPE_FILE, &text)?;
    Ok(plan)
}

/// Lock files that are too large to be shown and whose packages can be told apart.
async fn large_lock_files(base: &Workspace, opened: &ReviewRange) -> Vec<usize> {
    let files = opened.diff.files.iter().enumerate();
    let large = files.filter(|(_, file)| file.too_large).map(|(at, _)| at);
    let locked = locked::read(base, opened, large).await.into_iter();
    locked.filter(|locked| locked.is_by_package).map(|locked| locked.file).collect()
}

/// Ends the run where the pull request changes nothing, reviews of it were stopped, or this commit was reviewed before.
async fn worth_a_look(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    opened: &ReviewRange,
    earlier: &EarlierReviews,
    is_judged_anew: bool,
) -> Result<()> {
    let (memory, is_full) = (&earlier.memory, admitted.request.full);
    let name = format!("pull request #{}", admitted.pull.number);
    if admitted.request.only_judges && !is_judged_anew {
        return Err(nothing_to_judge(admitted, opened, memory));
    }
    if opened.diff.files.is_empty() {
        return Err(Failure::nothing_to_do(format!(
            "{name} changes nothing: its branch has no difference to its base"
        )));
    }
    // Who dismisses a finding asks for its check, and for nothing that a stop is about.
    if memory.paused && !is_full && !admitted.request.only_judges {
        let why = format!("reviews of {name} were stopped in a comment");
        // Whoever looks at this commit shall see that nobody has read it.
        if !run.config.dry_run {
            verdict::not_run(run, admitted, &why).await;
        }
        return Err(
            Failure::nothing_to_do(why).hint("ask for a review in a comment, or use `--full`")
        );
    }
    if !(is_full || is_judged_anew)
        && let Some(why) = reviewed_before(run, admitted, opened, memory).await?
    {
        // A run that was killed may have left its check.
        if !run.config.dry_run {
            verdict::end_left_behind(run, admitted, earlier).await;
        }
        return Err(Failure::nothing_to_do(why).hint("use `--full` to have it reviewed again"));
    }
    Ok(())
}

/// Why what people say of the findings changes nothing, when that is all that was asked for.
fn nothing_to_judge(admitted: &AdmittedReview, opened: &ReviewRange, memory: &Memory) -> Failure {
    let (name, short) = (format!("pull request #{}", admitted.pull.number), opened.head.short());
    if memory.has_looked_at(&opened.head.to_string(), &opened.base.to_string()) {
        let why =
            format!("no finding of {name} has been dismissed since its last review at {short}");
        return Failure::nothing_to_do(why).hint(
            "answer in the thread of the finding, or resolve it; somebody with the triage role or more has to do so",
        );
    }
    Failure::nothing_to_do(format!("{name} has not been reviewed at {short} yet"))
        .hint("the review of this commit counts what has been dismissed by then")
}

/// People have dismissed findings of this very commit since its review, or taken a dismissal back.
fn is_judged_anew(opened: &ReviewRange, earlier: &EarlierReviews) -> bool {
    let (memory, head) = (&earlier.memory, opened.head.to_string());
    let is_same = memory.looked_at == head || memory.head == head;
    is_same && memory.has_looked_at(&head, &opened.base.to_string()) && earlier.is_judged_anew()
}

/// Why there is nothing to review: this commit was reviewed, or one that came after it.
async fn reviewed_before(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    opened: &ReviewRange,
    memory: &Memory,
) -> Result<Option<String>> {
    let name = format!("pull request #{}", admitted.pull.number);
    let (head, merge_base) = (opened.head.to_string(), opened.base.to_string());
    let short = opened.head.short();
    if memory.head == head && memory.base == merge_base {
        return Ok(Some(format!("{name} was reviewed at {short} before")));
    }
    if memory.has_looked_at(&head, &merge_base) {
        let why = format!("{name} was reviewed at {short} before, as far as that review went");
        return Ok(Some(why));
    }
    let newest = &admitted.pull.head_sha;
    let last = [&memory.looked_at, &memory.head].into_iter().find(|sha| !sha.is_empty());
    let Some(last) = last.filter(|last| head != *newest && **last != head) else {
        return Ok(None);
    };
    // Of two commits that were pushed one after the other, the older one is part of the newer one.
    let compared = run.world.forge()?.compare(&admitted.repository.id, &head, last).await;
    let is_over = last == newest || matches!(compared, Ok(Comparison::Ahead));
    let why = || format!("{name} was reviewed at a newer commit than {short} before");
    Ok(is_over.then(why))
}

/// Files that have been renamed since the last look at the pull request, or since something was found in them that only
/// our threads tell of, as far as the commits are there; and which files with findings have changed since that look.
async fn renamed(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    base: &Workspace,
    opened: &ReviewRange,
    earlier: &EarlierReviews,
) -> Result<(BTreeMap<String, String>, BTreeSet<String>)> {
    let memory = &earlier.memory;
    let (mut renamed, mut since) = (BTreeMap::new(), BTreeSet::new());
    if memory.findings.is_empty() {
        return Ok((renamed, since));
    }
    let has_finding = |path: &str| memory.findings.iter().any(|known| known.path == path);
    let last =
        [memory.looked_at.as_str(), memory.head.as_str()].into_iter().find(|sha| !sha.is_empty());
    let commits = earlier.recalled_at().into_iter().take(MOST_RECALLED).chain(last);
    for then in commits.filter_map(|sha| sha.parse::<Oid>().ok()) {
        if !open::has_commit(run.world, admitted, base, then).await {
            continue;
        }
        let changed = open::difference(base, then, opened.head, &run.stop()).await?;
        if last.is_some_and(|last| last == then.to_string()) {
            let with_findings = changed.files.iter().filter(|file| {
                has_finding(&file.path) || file.old_path.as_deref().is_some_and(has_finding)
            });
            since.extend(with_findings.map(|file| file.path.clone()));
        }
        let moved = changed.files.into_iter().filter_map(|file| Some((file.old_path?, file.path)));
        renamed.extend(moved);
    }
    Ok((renamed, since))
}

/// Files of `changed` that the pull request no longer changes. With another merge base they may have changed there.
fn taken_back(
    changed: &BTreeSet<String>,
    opened: &ReviewRange,
    memory: &Memory,
) -> BTreeSet<String> {
    if memory.looked_at_base != opened.base.to_string() {
        return BTreeSet::new();
    }
    let is_part = |path: &String| opened.diff.files.iter().any(|file| file.path == *path);
    changed.iter().filter(|path| !is_part(path)).cloned().collect()
}

/// The last review that this one can continue from: its commit, what it was compared with, and what it left.
struct LastReview<'a> {
    commit: &'a str,
    base: &'a str,
    unread: Option<&'a UnreadPaths>,
}

impl LastReview<'_> {
    /// The newest one, if it knew what it left; else the last complete one.
    fn of(memory: &Memory) -> LastReview<'_> {
        match &memory.rest {
            Some(rest) => LastReview {
                commit: &memory.looked_at,
                base: &rest.base,
                unread: Some(&rest.which),
            },
            None => LastReview { commit: &memory.head, base: &memory.base, unread: None },
        }
    }

    /// The files that it left. `reviewed` is the difference that it was about, where that is known; `None` when
    /// they cannot be told.
    fn left(&self, reviewed: Option<&Diff>) -> Option<Vec<String>> {
        match self.unread {
            None => Some(Vec::new()),
            Some(UnreadPaths::Named(paths)) => Some(paths.clone()),
            Some(UnreadPaths::Marked(marks)) => {
                let files = reviewed?.files.iter().map(|file| file.path.as_str());
                marks.paths(&files.collect::<Vec<_>>())
            }
        }
    }
}

/// What came after the last review and what it left, when the head descends from its commit and both are
/// still there. Anything else is reviewed as a whole.
async fn since(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    base: &Workspace,
    opened: &ReviewRange,
    last: &LastReview<'_>,
) -> Result<Option<ChangesSince>> {
    let (Ok(then), Ok(then_base)) = (last.commit.parse::<Oid>(), last.base.parse::<Oid>()) else {
        return Ok(None);
    };
    let forge = run.world.forge()?;
    let id = &admitted.repository.id;
    let head = opened.head.to_string();
    let compared = forge.compare(id, last.commit, &head).await;
    if !matches!(compared, Ok(Comparison::Ahead | Comparison::Identical)) {
        run.environment
            .ui
            .detail("the branch was rewritten since the last review: all is read again");
        return Ok(None);
    }
    if !open::has_commit(run.world, admitted, base, then).await {
        return Ok(None);
    }
    let changed = open::difference(base, then, opened.head, &run.stop()).await?;
    let is_same_base = then_base == opened.base;
    let reviewed = if is_same_base && !matches!(last.unread, Some(UnreadPaths::Marked(_))) {
        None
    } else {
        if !open::has_commit(run.world, admitted, base, then_base).await {
            return Ok(None);
        }
        Some(open::difference(base, then_base, then, &run.stop()).await?)
    };
    let Some(left) = last.left(reviewed.as_ref()) else { return Ok(None) };
    let then = reviewed.as_ref().filter(|_| !is_same_base);
    let since = ChangesSince::new(&changed, &opened.diff, then);
    Ok(Some(since.and_unread(&left, &opened.diff)))
}
