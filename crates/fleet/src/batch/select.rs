//! From `select` to repositories, with what is needed to decide about each.

use std::collections::HashMap;
use std::time::Duration;

use super::campaign::{Campaign, CampaignMode};
use super::fleet::Fleet;
use super::owner;
use super::selection::Selection;
use super::simulate::discovery;
use patchwright_base::error::{Failure, Result};
use patchwright_forge::github::{
    DigestSet, HeadFacts, Preflight, PreflightQuery, PullFacts, RepositoryFacts, RepositoryNames,
};
use patchwright_forge::{Comparison, Forge, ForgeError, RepositoryId};
use patchwright_task::workspace::is_said_ours;

/// Fewer are looked at without a word.
const MANY: usize = 500;
/// How long GitHub takes for a question about fifty repositories, more or less.
const QUESTION: Duration = Duration::from_millis(1_500);
/// Points of GitHub's GraphQL API that each token has in an hour.
const POINTS_OF_AN_HOUR: u64 = 5_000;

/// A repository that was selected, with what decides whether there is something to do.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as the forge tells them")]
pub struct Candidate {
    /// `OWNER/REPO`, as the forge spells it now (after renames).
    pub repository: String,
    /// As it was asked for; the forge led from this name to it.
    pub asked: String,
    /// GitHub's id of it, the same after a rename; `None` when nothing is known.
    pub id: Option<String>,
    /// The branch to start from; the campaign's `base` or the default branch.
    pub base_branch: String,
    /// Its tip; `None` when the repository is empty or has no such branch.
    pub base_sha: Option<String>,
    pub archived: bool,
    pub fork: bool,
    pub template: bool,
    pub private: bool,
    /// We may push to it.
    pub can_push: bool,
    pub topics: Vec<String>,
    /// Files that the campaign asks for and its base branch has not.
    pub missing_files: Vec<String>,
    /// Its place in `select.repositories`; `None` when it was found by owner or search.
    pub listed: Option<usize>,
    /// Why nothing more is known: gone, no access.
    pub trouble: Option<String>,
    pub disabled: bool,
    /// Pull requests to review (mode `review`), or those from the campaign's branch (mode `pr`), open ones
    /// first.
    pub pull_requests: Vec<PullFacts>,
    /// The last commit of the campaign's branch, when it is somebody else's and the base has not got it (mode
    /// `pr`).
    pub foreign_head: Option<String>,
    /// Its base branch has moved, and its open pull request fits there.
    pub fits: bool,
}

/// Finds a campaign's repositories, a few at a time, in the order in which they were listed. One that cannot be
/// read is a candidate with `trouble`, not an error; what was left out is said on stderr.
pub struct Discovery<'a> {
    fleet: &'a Fleet,
    campaign: &'a Campaign,
    look: Preflight<'a>,
    pushable: PushAccess,
    /// Places in `select.repositories`, by names in lower case.
    listed: HashMap<String, usize>,
    /// What was left out, and why.
    notes: Vec<String>,
    has_found: bool,
}

impl<'a> Discovery<'a> {
    /// Lists the names.
    ///
    /// # Errors
    /// When GitHub does not answer, or an owner is gone that the campaign is at work for.
    pub async fn begin(fleet: &'a Fleet, campaign: &'a Campaign) -> Result<Discovery<'a>> {
        let ListedRepositories { repositories, notes, vanished } = names(fleet, campaign).await?;
        owner::check_vanished(fleet, campaign, &vanished).await?;
        for note in &notes {
            fleet.ui.say(&format!("note: {note}"));
        }
        if let Some(words) = cost(repositories.len()) {
            fleet.ui.say(&words);
        }
        let pushable = pushable(fleet).await?;
        let mut listed: HashMap<String, usize> = HashMap::new();
        for (place, name) in campaign.select.repositories.iter().enumerate() {
            listed.entry(name.to_lowercase()).or_insert(place);
        }
        let wanted = PreflightQuery {
            base: campaign.publish.base.clone(),
            head_branch: campaign.branch(),
            open_pulls: campaign.mode == CampaignMode::Review,
            files: campaign.select.files.clone(),
        };
        let look = fleet.forge.preflight(repositories, wanted);
        Ok(Discovery { fleet, campaign, look, pushable, listed, notes, has_found: false })
    }

    /// The next of them; `None` at the end.
    ///
    /// # Errors
    /// When nothing is selected at all, or GitHub does not answer.
    pub async fn next(&mut self) -> Result<Option<Vec<Candidate>>> {
        let Some(part) = self.look.next().await? else {
            return if self.has_found { Ok(None) } else { Err(self.nothing()) };
        };
        let mut found = Vec::with_capacity(part.len());
        for facts in part {
            found.extend(self.candidate(facts).await?);
        }
        self.has_found |= !found.is_empty();
        Ok(Some(found))
    }

    /// What is to be known of a repository, when the campaign selects it.
    async fn candidate(&self, mut facts: RepositoryFacts) -> Result<Option<Candidate>> {
        let Discovery { fleet, campaign, .. } = self;
        let names = [&facts.asked, &facts.repository];
        let place = names.iter().find_map(|name| self.listed.get(&name.to_lowercase()).copied());
        if facts.trouble.is_none() && !facts.asked.eq_ignore_ascii_case(&facts.repository) {
            let (asked, now) = (&facts.asked, &facts.repository);
            fleet.ui.say(&format!("note: `{asked}` is called `{now}` now"));
        }
        let head = facts.head.take();
        let mut candidate = candidate(facts, place, &self.pushable);
        if !has_topic(campaign, &candidate) {
            return Ok(None);
        }
        if campaign.mode == CampaignMode::Pr
            && let Some(head) = head
        {
            candidate.foreign_head = foreign(fleet, &candidate, head).await?;
        }
        Ok(Some(candidate))
    }

    fn nothing(&self) -> Failure {
        let name = &self.campaign.name;
        let failure = Failure::nothing_to_do(format!("campaign `{name}` selects no repository"))
            .hint("check `select` in the campaign file, and that the token may see them");
        self.notes.iter().fold(failure, |failure, note| failure.hint(note.clone()))
    }
}

/// What looking at so many repositories costs, for people, when that is worth a word.
fn cost(repositories: usize) -> Option<String> {
    if repositories < MANY {
        return None;
    }
    let asked = discovery(repositories as u64);
    let seconds = asked.graphql * QUESTION.as_millis().try_into().unwrap_or(u64::MAX) / 1_000;
    let hour = if asked.points > POINTS_OF_AN_HOUR {
        "; that is more than one hour's, so GitHub will make it wait"
    } else {
        ""
    };
    Some(format!(
        "{repositories} repositories to look at: {} GraphQL questions ({} of the {POINTS_OF_AN_HOUR} points of \
         an hour), about {} min{hour}",
        asked.graphql,
        asked.points,
        seconds.div_ceil(60),
    ))
}

/// The names of what the campaign selects now: as listed, and as they are called today.
///
/// # Errors
/// As [`Discovery`].
pub async fn selection(fleet: &Fleet, campaign: &Campaign) -> Result<Selection> {
    let mut discovery = Discovery::begin(fleet, campaign).await?;
    let mut selection = Selection::default();
    while let Some(part) = discovery.next().await? {
        for one in part.iter().filter(|one| campaign.excluded_by(&one.repository).is_none()) {
            selection.add_called(&one.repository, one.id.as_deref());
        }
    }
    Ok(selection)
}

/// All names, each once.
struct ListedRepositories {
    repositories: RepositoryNames,
    /// What was left out, and why.
    notes: Vec<String>,
    /// Owners that were not found.
    vanished: Vec<String>,
}

async fn names(fleet: &Fleet, campaign: &Campaign) -> Result<ListedRepositories> {
    let select = &campaign.select;
    let (mut notes, mut vanished) = (Vec::new(), Vec::new());
    let mut names: RepositoryNames = select
        .repositories
        .iter()
        .map(|name| name.parse::<RepositoryId>())
        .collect::<Result<_, String>>()
        .map_err(|why| {
            Failure::usage(format!("`select.repositories` of `{}`: {why}", campaign.name))
        })?;
    for owner in &select.organizations {
        match fleet.forge.repositories_of(owner).await {
            Ok(found) => names.extend(found),
            Err(err @ (ForgeError::NotFound { .. } | ForgeError::Forbidden { .. })) => {
                notes.push(format!("`{owner}` was left out: {err}"));
                vanished.push(owner.clone());
            }
            Err(err) => return Err(err.into()),
        }
    }
    if let Some(search) = &select.search {
        let found = fleet.forge.search_repositories(search, fleet.clock.now()).await?;
        names.extend(found.repositories);
        notes.extend(found.notes);
        vanished.extend(found.left_out);
    }
    Ok(ListedRepositories { repositories: names, notes, vanished })
}

/// Where we may push, as far as it is known beforehand.
enum PushAccess {
    /// As each repository says.
    Told,
    /// An App's installation: its repositories, in lower case.
    Installed(DigestSet),
    Unknown,
}

async fn pushable(fleet: &Fleet) -> Result<PushAccess> {
    if fleet.forge.viewer().await?.is_some() {
        return Ok(PushAccess::Told);
    }
    // GitHub tells an App `READ` even where it may write.
    Ok(match fleet.forge.installed_for().await? {
        Some(names) => PushAccess::Installed(names.into_seen()),
        None => PushAccess::Unknown,
    })
}

fn candidate(facts: RepositoryFacts, listed: Option<usize>, pushable: &PushAccess) -> Candidate {
    let can_push = match pushable {
        PushAccess::Told => facts.can_push.unwrap_or(true),
        PushAccess::Installed(names) => names.has(&facts.repository.to_lowercase()),
        PushAccess::Unknown => true,
    };
    Candidate {
        repository: facts.repository,
        asked: facts.asked,
        id: Some(facts.node_id).filter(|id| is_plain(id)),
        base_branch: facts.base_branch,
        base_sha: facts.base_sha,
        archived: facts.archived,
        fork: facts.fork,
        template: facts.template,
        private: facts.private,
        can_push,
        topics: facts.topics,
        missing_files: facts.missing_files,
        listed,
        trouble: facts.trouble,
        disabled: facts.disabled,
        pull_requests: facts.pulls,
        foreign_head: None,
        fits: false,
    }
}

/// An id as GitHub makes them; anything else is none.
fn is_plain(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=+".contains(c);
    !id.is_empty() && id.len() <= 200 && id.chars().all(is_plain)
}

/// The branch's last commit, when it is a person's and the base has not got it. Those below it are looked at
/// before anything is pushed.
async fn foreign(fleet: &Fleet, candidate: &Candidate, head: HeadFacts) -> Result<Option<String>> {
    let email = &fleet.config.identity.email;
    let is_ours = is_said_ours(&head.committer_email, &head.message, email);
    if is_ours || candidate.base_sha.is_none() || candidate.base_sha.as_ref() == Some(&head.sha) {
        return Ok(None);
    }
    let Ok(id) = candidate.repository.parse::<RepositoryId>() else { return Ok(None) };
    let compared = match fleet.forge.compare(&id, &candidate.base_branch, &head.sha).await {
        Ok(compared) => compared,
        Err(err @ (ForgeError::RateLimited { .. } | ForgeError::Authentication { .. })) => {
            return Err(err.into());
        }
        // The publisher looks again.
        Err(err) => {
            tracing::debug!(repository = candidate.repository, %err, "a branch cannot be compared");
            return Ok(None);
        }
    };
    let base_has_it = matches!(compared, Comparison::Identical | Comparison::Behind);
    Ok((!base_has_it).then_some(head.sha))
}

/// It has one of the topics, or nothing is known of it.
fn has_topic(campaign: &Campaign, candidate: &Candidate) -> bool {
    let topics = &campaign.select.topics;
    topics.is_empty()
        || candidate.trouble.is_some()
        || candidate.disabled
        || candidate.topics.iter().any(|topic| topics.contains(topic))
}
