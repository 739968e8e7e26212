//! What a pull request gets beside its text: labels, people, a milestone, a check, a merge by GitHub itself.
//! Without them it is still good, so whatever fails here is only said. Campaigns do the same, with [`Extras`].

use super::earlier::notes::wants_a_person;
use super::publish::{Origin, Proposal};
use super::run::Run;
use crate::failures;
use patchwright_base::error::Result;
use patchwright_config::publish::Publish;
use patchwright_forge::{
    Account, Edits, Forge, ForgeError, Operation, PullRequest, PullRequestDraft, Repository,
    RepositoryId, Role,
};
use patchwright_git::Oid;
use patchwright_policy::owners::{self, Owners};
use patchwright_report::{self as report, evidence_check, pr_body};
use patchwright_types::evidence::Verdict;
use patchwright_types::outcome::{Conclusion, Outcome};

/// Owners who are looked at for each one who is wanted: not all of them may be asked.
const LOOKED_AT: usize = 3;
/// People and teams that GitHub lets one ask.
const MOST_OWNERS: usize = 15;

/// A pull request that was opened or brought up to date.
#[derive(Clone, Copy)]
pub(super) struct OpenedPull<'a> {
    pub pull: &'a PullRequest,
    pub operation: Operation,
    pub head: Oid,
}

pub(super) async fn decorate(
    run: &Run<'_>,
    origin: Origin<'_>,
    proposal: &Proposal<'_>,
    opened: OpenedPull<'_>,
) {
    let Ok(forge) = run.world.forge() else { return };
    let OpenedPull { pull, operation, head } = opened;
    let say = |text: &String| run.environment.ui.say(&run.world.redactor.redact(text));
    let (id, wanted) = (&origin.repository().id, &run.config.publish);
    let extras =
        Extras { forge: forge.as_ref(), repository: id, number: pull.number, head, wanted };
    let mut told = DecorationNotes::all();
    // Each request is a message to people: an update sends none to owners.
    let owners = match (operation, &proposal.outcome.change) {
        (Operation::Created, Some(change)) if wanted.code_owners > 0 => {
            let text = owners::PLACES.iter().find_map(|path| proposal.workspace.file_now(path));
            let paths = change.files.iter().map(|file| file.path.as_str());
            text.map(|text| owners_of(&text, paths)).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    let arranged = async {
        extras.label(&wanted.labels, &mut told).await?;
        extras.ask(&wanted.reviewers, &owners, &mut told).await?;
        extras.arrange(&mut told).await
    };
    // Nothing is more than told.
    let _ = arranged.await;
    told.said.iter().for_each(say);
    if wanted.check_run {
        let url = run.environment.run_url.as_deref();
        let mut check = evidence_check::check(proposal.outcome, &head.to_string(), url);
        check.summary = run.world.redactor.redact(&check.summary);
        if let Err(err) = forge.put_check(id, &check).await {
            say(&format!("the check could not be written: {err}"));
        }
    }
    let mut told = DecorationNotes::all();
    // One that has to be a draft and could not be made one is as little for GitHub to merge.
    let is_draft = pull.draft || is_draft(run, proposal.outcome);
    let _ = extras.merge(not_by_itself(is_draft, proposal.outcome), &mut told).await;
    told.said.iter().for_each(say);
}

/// Leaves what people have edited of a pull request to them: the newest description becomes a comment below theirs.
/// Returns what its operator is told.
///
/// # Errors
/// The forge's.
pub async fn beside_edits(
    forge: &dyn Forge,
    repository: &RepositoryId,
    (number, draft): (u64, &PullRequestDraft),
    edits: Edits,
) -> Result<Option<String>, ForgeError> {
    let edited = match (edits.title, edits.body) {
        (false, false) => return Ok(None),
        (true, false) => "title of the pull request was edited and stays as it is",
        (false, true) => "description of the pull request was edited and stays as it is",
        (true, true) => {
            "title and description of the pull request were edited and stay as they are"
        }
    };
    if edits.body {
        let marker = report::marker_once("newest-description");
        let body = pr_body::below_edited(&draft.body, &marker);
        forge.upsert_comment(repository, number, &marker, None, &body).await?;
    }
    Ok(Some(format!("the {edited}")))
}

/// The newest description beside one that people have edited. The pull request is as good without it, so a failure
/// is only said.
pub(super) async fn leave_edits(
    run: &Run<'_>,
    repository: &Repository,
    pull: (u64, &PullRequestDraft),
    edits: Edits,
) {
    let Ok(forge) = run.world.forge() else { return };
    let ui = run.environment.ui;
    match beside_edits(forge.as_ref(), &repository.id, pull, edits).await {
        Ok(said) => said.iter().for_each(|said| ui.say(said)),
        Err(err) => ui.warn(&format!("the newest description could not be posted: {err}")),
    }
}

/// What did not work and does no harm, for people.
pub struct DecorationNotes {
    pub said: Vec<String>,
    /// What does harm, and ends the work.
    ends: fn(&ForgeError) -> bool,
}

impl DecorationNotes {
    /// Nothing does harm.
    pub fn all() -> DecorationNotes {
        DecorationNotes::but(|_| false)
    }

    /// All but these errors.
    pub fn but(ends: fn(&ForgeError) -> bool) -> DecorationNotes {
        DecorationNotes { said: Vec::new(), ends }
    }

    fn take<T>(
        &mut self,
        failed: &str,
        result: Result<T, ForgeError>,
    ) -> Result<Option<T>, ForgeError> {
        match result {
            Err(err) if (self.ends)(&err) => Err(err),
            Err(err) => {
                self.said.push(format!("{failed}: {err}"));
                Ok(None)
            }
            Ok(value) => Ok(Some(value)),
        }
    }

    /// Who was left out, or why all were.
    fn people(
        &mut self,
        (left_out, failed): (&str, &str),
        result: Result<Vec<String>, ForgeError>,
    ) -> Result<(), ForgeError> {
        let names = self.take(failed, result)?.unwrap_or_default();
        if !names.is_empty() {
            self.said.push(format!("{left_out}: {}", names.join(", ")));
        }
        Ok(())
    }
}

/// A pull request that is there, and what its operator wants it to have. Each part may be done again: GitHub takes what
/// is there already for what was asked.
#[derive(Clone, Copy)]
pub struct Extras<'a> {
    pub forge: &'a dyn Forge,
    pub repository: &'a RepositoryId,
    pub number: u64,
    /// The commit that was pushed.
    pub head: Oid,
    pub wanted: &'a Publish,
}

impl Extras<'_> {
    /// # Errors
    /// What ends the work.
    pub async fn label(
        self,
        labels: &[String],
        told: &mut DecorationNotes,
    ) -> Result<(), ForgeError> {
        if !labels.is_empty() {
            let added = self.forge.add_labels(self.repository, self.number, labels).await;
            told.take("the labels could not be added", added)?;
        }
        Ok(())
    }

    /// Asks these reviewers, and of the owners of the changed files those who may write and are neither the author
    /// nor asked already, at most as many as the configuration says.
    ///
    /// # Errors
    /// What ends the work.
    pub async fn ask(
        self,
        reviewers: &[String],
        owners: &[String],
        told: &mut DecorationNotes,
    ) -> Result<(), ForgeError> {
        let mut all = reviewers.to_vec();
        all.extend(self.free(reviewers, owners).await);
        if !all.is_empty() {
            let asked = self.forge.request_reviewers(self.repository, self.number, &all).await;
            told.people(
                ("could not be asked for a review", "no review could be asked for"),
                asked,
            )?;
        }
        Ok(())
    }

    /// Assignees and the milestone.
    ///
    /// # Errors
    /// What ends the work.
    pub async fn arrange(self, told: &mut DecorationNotes) -> Result<(), ForgeError> {
        let Extras { forge, repository: id, number, wanted, .. } = self;
        if !wanted.assignees.is_empty() {
            let assigned = forge.assign(id, number, &wanted.assignees).await;
            told.people(("could not be assigned", "nobody could be assigned"), assigned)?;
        }
        if let Some(title) = &wanted.milestone {
            let set = forge.set_milestone(id, number, title).await;
            if told.take("the milestone could not be set", set)? == Some(false) {
                told.said.push(format!("there is no open milestone `{title}`"));
            }
        }
        Ok(())
    }

    /// Has GitHub merge it when it may, unless a person has to: then this says why.
    ///
    /// # Errors
    /// What ends the work.
    pub async fn merge(
        self,
        by_people: Option<&str>,
        told: &mut DecorationNotes,
    ) -> Result<(), ForgeError> {
        if !self.wanted.auto_merge {
            return Ok(());
        }
        if let Some(why) = by_people {
            told.said.push(format!("auto-merge was left off: {why}"));
            return Ok(());
        }
        let (head, method) = (self.head.to_string(), self.wanted.merge_method.word());
        let on = self.forge.merge_when_ready(self.repository, self.number, &head, method).await;
        told.take("auto-merge could not be turned on", on).map(|_| ())
    }

    async fn free(self, asked: &[String], owners: &[String]) -> Vec<String> {
        let most = self.wanted.code_owners.min(MOST_OWNERS);
        if most == 0 || owners.is_empty() {
            return Vec::new();
        }
        let viewer = self.forge.viewer().await.ok().flatten();
        let is_free = |owner: &&String| {
            self.repository.may_ask(owner)
                && !asked.iter().any(|login| login.eq_ignore_ascii_case(owner))
                && !viewer.as_ref().is_some_and(|us| us.is_same(&Account::of(owner)))
        };
        let mut found = Vec::new();
        for owner in owners.iter().filter(is_free).take(most * LOOKED_AT) {
            // What a team may do cannot be asked with most tokens; the request for its review says.
            let may = owner.contains('/')
                || self
                    .forge
                    .role(self.repository, owner)
                    .await
                    .is_ok_and(|role| role >= Role::Write);
            if may {
                found.push(owner.clone());
            }
            if found.len() == most {
                break;
            }
        }
        found
    }
}

/// For a change that a person has to merge, before it is on its branch: a pull request that is open from there was perhaps
/// given to the forge to merge, by what was known of an earlier change, and the forge would merge this one in its place.
/// Those that were are returned.
///
/// # Errors
/// What the forge says. The change must not be put on the branch then.
pub async fn leave_to_people(
    forge: &dyn Forge,
    repository: &RepositoryId,
    (head, branch): (&RepositoryId, &str),
) -> Result<Vec<u64>, ForgeError> {
    let mut left = Vec::new();
    let pulls = forge.pull_requests_from(repository, head, branch).await?;
    for pull in pulls.iter().filter(|pull| pull.open) {
        if forge.stop_merging(repository, pull.number).await? {
            left.push(pull.number);
        }
    }
    Ok(left)
}

/// What a person has to look at first is not left for the forge to merge by itself.
pub(super) async fn before_push(
    run: &Run<'_>,
    origin: Origin<'_>,
    proposal: &Proposal<'_>,
    branch: &str,
) -> Result<()> {
    let Proposal { outcome, head, .. } = *proposal;
    let Some(why) = not_by_itself(is_draft(run, outcome), outcome) else { return Ok(()) };
    let (forge, repository) = (run.world.forge()?.as_ref(), &origin.repository().id);
    let left = leave_to_people(forge, repository, (&head.id, branch)).await;
    let left = left.map_err(|err| {
        failures::of_forge("cannot make sure that this change is not merged by itself", err)
            .hint(run.change_kept())
    })?;
    if let Some(said) = left_to_people(&left, why) {
        run.environment.ui.say(&said);
    }
    Ok(())
}

/// What is on the branch must not be there: a pull request that is open from there is at least not merged by itself.
pub(super) async fn keep_unmerged(
    run: &Run<'_>,
    origin: Origin<'_>,
    proposal: &Proposal<'_>,
    branch: &str,
) {
    let Ok(forge) = run.world.forge() else { return };
    let repository = &origin.repository().id;
    let said = match leave_to_people(forge.as_ref(), repository, (&proposal.head.id, branch)).await
    {
        Ok(left) => left_to_people(&left, "its commit is not verified"),
        Err(err) => Some(format!("auto-merge could not be turned off: {err}")),
    };
    if let Some(said) = said {
        run.environment.ui.say(&said);
    }
}

/// Whether a run's pull request is a draft.
pub(super) fn is_draft(run: &Run<'_>, outcome: &Outcome) -> bool {
    run.config.publish.draft
        || run.is_interrupted()
        || outcome.evidence.is_red()
        || outcome.judgement.wants_draft()
        || outcome.conclusion != Conclusion::Done
}

/// What was turned off, for people.
pub fn left_to_people(numbers: &[u64], why: &str) -> Option<String> {
    let numbers: Vec<String> = numbers.iter().map(|number| format!("#{number}")).collect();
    (!numbers.is_empty())
        .then(|| format!("auto-merge of {} was turned off: {why}", numbers.join(", ")))
}

/// The owners of files by the text of a `CODEOWNERS`, those of most files first.
pub fn owners_of<'a>(text: &[u8], paths: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    Owners::parse(&String::from_utf8_lossy(text)).of_all(paths)
}

/// What is against merging it unseen.
pub(super) fn speaks_against(outcome: &Outcome) -> Option<&'static str> {
    if outcome.evidence.is_red() {
        Some("a check is against what was pushed since")
    } else if outcome.conclusion != Conclusion::Done {
        Some("the run was not completed")
    } else if outcome.judgement.flags.iter().any(|flag| flag.rule != patchwright_policy::ARTEFACTS)
        || !outcome.judgement.held_back.is_empty()
    {
        Some("there is something in it that somebody should look at")
    } else {
        None
    }
}

/// Why a person has to merge it.
pub fn not_by_itself(is_draft: bool, outcome: &Outcome) -> Option<&'static str> {
    if is_draft {
        Some("it is a draft")
    } else if outcome.conclusion != Conclusion::Done {
        Some("the run was not completed")
    } else if !outcome.judgement.flags.is_empty() || !outcome.judgement.held_back.is_empty() {
        Some("there is something in it that somebody should look at")
    } else if wants_a_person(&outcome.publish_notes) {
        Some("something beside it has to be decided first")
    } else if !matches!(outcome.evidence.verdict(), Verdict::Passed(_)) {
        Some("no check shows that it works")
    } else {
        None
    }
}
