//! Whether an open pull request still fits where its base branch is by now: nothing that it touches has changed there.
//! Then it can be merged as it is, and a new run would only make the same change again, at the model's price, and push it
//! over what people have reviewed.

use std::collections::BTreeSet;

use super::campaign::{Campaign, CampaignMode, Repeat};
use super::fleet::Fleet;
use super::select::Candidate;
use patchwright_base::error::Result;
use patchwright_forge::github::{ChangedFiles, PullFacts};
use patchwright_forge::{Comparison, ForgeError, RepositoryId};
use patchwright_types::campaign::{Target, TargetState};
use patchwright_types::run_facts::ChecksVerdict;

/// A pull request of ours, and where the base branch was when its change was made.
struct OpenPull<'a> {
    pull: &'a PullFacts,
    base_sha: &'a str,
    /// Where it is known to fit as well.
    fits_sha: Option<&'a str>,
}

/// Looks whether the open pull request of a repository whose base branch has moved still fits there. `known` is its
/// target under this specification, `history` all its targets in campaigns of this name.
///
/// # Errors
/// When GitHub limits us or does not take the token.
pub(super) async fn fits(
    fleet: &Fleet,
    campaign: &Campaign,
    candidate: &Candidate,
    known: Option<&Target>,
    history: &[Target],
) -> Result<bool> {
    let Some(tip) = candidate.base_sha.as_deref() else { return Ok(false) };
    let Some(open) = open_pull(campaign, candidate, known, history) else { return Ok(false) };
    if open.base_sha == tip {
        return Ok(false);
    }
    if open.fits_sha == Some(tip) {
        return Ok(true);
    }
    let Ok(repository) = candidate.repository.parse::<RepositoryId>() else { return Ok(false) };
    let between = |from, to| fleet.forge.changed_files(&repository, from, to);
    let looked = async {
        let base = between(open.base_sha, tip).await?;
        let ours = match &base {
            Some(base) if base.relation == Comparison::Ahead => {
                between(tip, &open.pull.head_sha).await?
            }
            // The branch was rewritten, or nobody knows.
            _ => None,
        };
        Ok::<_, ForgeError>(base.zip(ours))
    };
    match looked.await {
        Ok(files) => Ok(files.is_some_and(|(base, ours)| are_apart(&base, &ours))),
        Err(err @ (ForgeError::RateLimited { .. } | ForgeError::Authentication { .. })) => {
            Err(err.into())
        }
        // It is worked on as if nobody could know.
        Err(err) => {
            tracing::debug!(repository = candidate.repository, %err, "commits cannot be compared");
            Ok(false)
        }
    }
}

/// The pull request that a new run would bring up to date. One whose checks fail is no proposal yet: what has moved may
/// be what makes them pass.
fn open_pull<'a>(
    campaign: &Campaign,
    candidate: &'a Candidate,
    known: Option<&'a Target>,
    history: &[Target],
) -> Option<OpenPull<'a>> {
    if campaign.mode != CampaignMode::Pr || campaign.repeats() != Repeat::WhenMoved {
        return None;
    }
    let pull = candidate.pull_requests.iter().find(|pull| pull.open || pull.ours)?;
    let number = i64::try_from(pull.number).ok();
    if !pull.open || !pull.ours {
        return None;
    }
    let Some(target) = known.filter(|target| target.pull_request.is_some()) else {
        // Another database recorded it, when none of a campaign of this name has it here.
        let is_unknown = known.is_none() && !history.iter().any(|it| it.pull_request == number);
        let open = OpenPull { pull, base_sha: &pull.base_sha, fits_sha: None };
        return is_unknown.then_some(open);
    };
    let is_open = matches!(target.state, TargetState::Open | TargetState::Draft)
        && target.pull_request == number
        && target.base_branch == candidate.base_branch;
    let is_red =
        target.state == TargetState::Draft && target.facts.checks == Some(ChecksVerdict::Failed);
    let fits_sha = target.fits_sha.as_deref();
    (is_open && !is_red).then_some(OpenPull { pull, base_sha: &target.base_sha, fits_sha })
}

/// Neither has a file, or a folder in place of one, that the other has.
fn are_apart(base: &ChangedFiles, ours: &ChangedFiles) -> bool {
    let is_proposed =
        matches!(ours.relation, Comparison::Ahead | Comparison::Diverged) && !ours.paths.is_empty();
    is_proposed && !has_of(&base.paths, &ours.paths) && !has_of(&ours.paths, &base.paths)
}

/// Some of `paths` are among `others`, or below one of them.
fn has_of(paths: &BTreeSet<String>, others: &BTreeSet<String>) -> bool {
    paths.iter().any(|path| {
        let folders = path.match_indices('/').map(|(at, _)| &path[..at]);
        others.contains(path) || folders.into_iter().any(|folder| others.contains(folder))
    })
}

#[cfg(test)]
mod tests {
    use crate::batch::campaign::parse;
    use crate::batch::decide;
    use crate::batch::fitting::*;
    use patchwright_types::run_facts::RunFacts;

    fn changed(relation: Comparison, paths: &[&str]) -> ChangedFiles {
        ChangedFiles { relation, paths: paths.iter().map(|path| (*path).to_owned()).collect() }
    }

    #[test]
    fn changes_are_apart_that_have_no_path_in_common() {
        use Comparison::{Ahead, Behind, Diverged};
        for (base, relation, ours, expected) in [
            (&["README.md", "src/b.rs"][..], Diverged, &["src/a.rs"][..], true),
            (&["src/a.rs"], Diverged, &["src/a.rs", "x"], false),
            (&["src"], Diverged, &["src/a.rs"], false),
            (&["src/a.rs/mod.rs"], Diverged, &["src/a.rs"], false),
            (&["src/a"], Ahead, &["src/ab"], true),
            (&["a"], Behind, &[], false),
            (&["a"], Diverged, &[], false),
        ] {
            let base = changed(Ahead, base);
            assert_eq!(are_apart(&base, &changed(relation, ours)), expected, "{base:?} {ours:?}");
        }
    }

    #[test]
    fn only_an_open_pull_request_of_ours_is_looked_at() {
        let text =
            "name: x\nselect: {repositories: [a/b]}\ntask: {prompt: y}\nrepeat: when-moved\n";
        let campaign = parse("c.yml", text, None).unwrap();
        let each = parse("c.yml", &text.replace("when-moved", "every-move"), None).unwrap();
        let open = PullFacts { number: 5, ours: true, open: true, ..PullFacts::default() };
        let candidate = |pull: &PullFacts| Candidate {
            base_branch: "main".to_owned(),
            pull_requests: vec![pull.clone()],
            ..Candidate::default()
        };
        let target = |state| decide::tests::target(state, "old", Some(5), &campaign.id());
        let (known, draft) = (target(TargetState::Open), target(TargetState::Draft));
        let facts = RunFacts { checks: Some(ChecksVerdict::Failed), ..RunFacts::default() };
        let red = Target { facts, ..draft.clone() };
        let elsewhere = Target { base_branch: "master".to_owned(), ..known.clone() };
        let of_another = Target { campaign: "x-other".to_owned(), ..known.clone() };
        let closed = PullFacts { open: false, ..open.clone() };
        let foreign = PullFacts { ours: false, ..open.clone() };
        for (campaign, pull, known, history, expected) in [
            (&campaign, &open, Some(&known), vec![], true),
            (&campaign, &open, Some(&draft), vec![], true),
            (&campaign, &open, Some(&red), vec![], false),
            (&campaign, &open, Some(&elsewhere), vec![], false),
            (&each, &open, Some(&known), vec![], false),
            (&campaign, &closed, Some(&known), vec![], false),
            (&campaign, &foreign, Some(&known), vec![], false),
            (&campaign, &open, None, vec![], true),
            (&campaign, &open, None, vec![of_another], false),
        ] {
            let looked = open_pull(campaign, &candidate(pull), known, &history).is_some();
            assert_eq!(looked, expected, "{pull:?} {known:?}");
        }
    }
}
