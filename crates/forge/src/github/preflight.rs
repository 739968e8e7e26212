//! What decides about each of many repositories, in as few questions as possible.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::discovery::{HeadFacts, PreflightQuery, PullFacts, RepositoryFacts};
use super::graphql::{GraphqlResponse, Problem};
use super::http::Call;
use super::names::{DigestSet, NameParts, RepositoryNames};
use super::preflight_pulls::{PullNode, pull_facts};
use super::token::Scope;
use super::wire::{PullJson, lenient};
use super::wire_reviews::Connection;
use super::{GitHubForge, route};
use crate::{ForgeError, RepositoryId};

/// Open pull requests of one repository that are read.
const MOST_PULLS: usize = 10_000;
/// After this many questions in a row that nobody answered, GraphQL is down and not only slow.
const MOST_UNANSWERED: usize = 3;
/// Repositories that are asked about over REST when GraphQL is down: three requests or more each, of the 5,000
/// that a token has in an hour.
const MOST_OVER_REST: usize = 200;

/// The fields that everything is decided by. `PULLS`, `BASE` and `FILES` depend on what is wanted.
const FIELDS: &str = "fragment facts on Repository {
  id nameWithOwner isArchived isDisabled isFork isTemplate isPrivate viewerPermission
  defaultBranchRef { name target { oid } }
  repositoryTopics(first: 50) { nodes { topic { name } } }
  BASEPULLSFILES
}";

const BRANCH_PULLS: &str = "pullRequests(headRefName: $branch, first: 5, \
    orderBy: {field: UPDATED_AT, direction: DESC}) { pageInfo { hasNextPage endCursor } nodes { \
    number state isDraft isCrossRepository headRefOid baseRefOid body \
    mergeCommit { oid parents(first: 1) { nodes { oid } } } } } \
    head: ref(qualifiedName: $head) { target { oid ... on Commit { message committer { email } } } }";

const OPEN_PULLS: &str = "pullRequests(states: [OPEN], first: 50, \
    orderBy: {field: CREATED_AT, direction: ASC}) { pageInfo { hasNextPage endCursor } nodes { \
    number state isDraft isCrossRepository headRefOid baseRefOid } }";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as GitHub tells them")]
struct Node {
    #[serde(default, deserialize_with = "lenient")]
    id: String,
    #[serde(default, deserialize_with = "lenient")]
    name_with_owner: String,
    #[serde(default, deserialize_with = "lenient")]
    is_archived: bool,
    #[serde(default, deserialize_with = "lenient")]
    is_disabled: bool,
    #[serde(default, deserialize_with = "lenient")]
    is_fork: bool,
    #[serde(default, deserialize_with = "lenient")]
    is_template: bool,
    #[serde(default, deserialize_with = "lenient")]
    is_private: bool,
    #[serde(default)]
    viewer_permission: Option<String>,
    #[serde(default)]
    default_branch_ref: Option<Reference>,
    #[serde(default)]
    base: Option<Reference>,
    #[serde(default)]
    head: Option<HeadReference>,
    #[serde(default)]
    repository_topics: Option<Connection<TopicNode>>,
    #[serde(default)]
    pull_requests: Option<Connection<PullNode>>,
    /// The files, by alias.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(default, deserialize_with = "lenient")]
    name: String,
    #[serde(default)]
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    oid: String,
}

#[derive(Deserialize)]
struct HeadReference {
    #[serde(default)]
    target: Option<HeadCommit>,
}

#[derive(Deserialize)]
struct HeadCommit {
    oid: String,
    #[serde(default, deserialize_with = "lenient")]
    message: String,
    #[serde(default)]
    committer: Option<Committer>,
}

#[derive(Deserialize)]
struct Committer {
    #[serde(default, deserialize_with = "lenient")]
    email: String,
}

impl HeadCommit {
    fn facts(self) -> HeadFacts {
        let committer_email = self.committer.map(|by| by.email).unwrap_or_default();
        HeadFacts { sha: self.oid, committer_email, message: self.message }
    }
}

#[derive(Deserialize)]
struct TopicNode {
    topic: Topic,
}

#[derive(Deserialize)]
struct Topic {
    name: String,
}

/// What became of a question about several repositories.
enum QueryOutcome {
    /// By their place in the question; those that were not told of readably are not there.
    Told(BTreeMap<usize, RepositoryFacts>),
    /// GraphQL is not there for us.
    NotSpoken,
    /// It failed, after all that was sent again.
    Unanswered(ForgeError),
}

/// What is known of GraphQL while many repositories are looked at.
enum GraphqlState {
    /// So many questions in a row were not answered.
    Works {
        unanswered: usize,
    },
    NotSpoken,
    /// With its last error, until that is told.
    Down(Option<ForgeError>),
}

/// A look at many repositories that is under way.
pub struct Preflight<'a> {
    forge: &'a GitHubForge,
    wanted: PreflightQuery,
    names: NameParts,
    /// Names and ids of those that were told.
    seen: DigestSet,
    graphql: GraphqlState,
    /// Repositories in a row that REST did not tell of.
    silent: usize,
}

impl Preflight<'_> {
    /// Facts about the next of them, as many as one question is about; `None` at the end.
    ///
    /// # Errors
    /// As [`GitHubForge::preflight_all`].
    pub async fn next(&mut self) -> Result<Option<Vec<RepositoryFacts>>, ForgeError> {
        let Preflight { forge, wanted, names, seen, graphql, silent } = self;
        let left = names.left();
        let Some(part) = names.next() else { return Ok(None) };
        let mut told = BTreeMap::new();
        for (scope, places) in forge.by_token(&part) {
            let group: Vec<&RepositoryId> = places.iter().filter_map(|at| part.get(*at)).collect();
            let found = forge.ask_in_parts(&group, (wanted, &scope), graphql).await?;
            told.extend(found.into_iter().filter_map(|(at, it)| Some((*places.get(at)?, it))));
        }
        if let GraphqlState::Down(err) = graphql
            && left > MOST_OVER_REST
            && let Some(err) = err.take()
        {
            return Err(err);
        }
        let mut found = Vec::with_capacity(part.len());
        for (at, id) in part.iter().enumerate() {
            let facts = match told.remove(&at) {
                Some(facts) => facts,
                None => forge.facts_over_rest(id, wanted, silent).await?,
            };
            let is_new = seen.insert(&facts.repository.to_lowercase());
            let is_new_id = facts.node_id.is_empty() || seen.insert(&facts.node_id);
            if is_new && is_new_id {
                found.push(facts);
            }
        }
        Ok(Some(found))
    }
}

impl GitHubForge {
    /// Facts about each repository, in the order of `all` and each repository once: two names of one
    /// that was renamed are one. A repository that cannot be read is told with its trouble.
    ///
    /// # Errors
    /// When GitHub does not answer at all, takes no token, or limits us for too long; and when GraphQL is down
    /// and there are more repositories left than REST has requests for.
    pub async fn preflight_all(
        &self,
        all: &[RepositoryId],
        wanted: &PreflightQuery,
    ) -> Result<Vec<RepositoryFacts>, ForgeError> {
        let mut look = self.preflight(all.iter().cloned().collect(), wanted.clone());
        let mut found: Vec<RepositoryFacts> = Vec::with_capacity(all.len());
        while let Some(part) = look.next().await? {
            found.extend(part);
        }
        Ok(found)
    }

    /// Looks at a few repositories at a time: of many nothing is kept but the names of those that are to come.
    pub fn preflight(&self, names: RepositoryNames, wanted: PreflightQuery) -> Preflight<'_> {
        Preflight {
            forge: self,
            wanted,
            names: names.into_parts(),
            seen: DigestSet::default(),
            graphql: GraphqlState::Works { unanswered: 0 },
            silent: 0,
        }
    }

    /// What GraphQL tells about repositories, by their place. A question without an answer is asked again
    /// in two halves: what takes GitHub too long for fifty repositories may be quick for fewer, and only
    /// what is not answered then is left to REST.
    async fn ask_in_parts(
        &self,
        part: &[&RepositoryId],
        about: (&PreflightQuery, &Scope),
        graphql: &mut GraphqlState,
    ) -> Result<BTreeMap<usize, RepositoryFacts>, ForgeError> {
        let mut told = BTreeMap::new();
        let half = part.len().div_ceil(2);
        let mut spans = vec![(0, part.len())];
        while let (Some((from, to)), GraphqlState::Works { unanswered }) =
            (spans.pop(), &mut *graphql)
        {
            match self.ask_about(&part[from..to], about).await? {
                QueryOutcome::Told(nodes) => {
                    *unanswered = 0;
                    told.extend(nodes.into_iter().map(|(at, facts)| (from + at, facts)));
                }
                QueryOutcome::NotSpoken => *graphql = GraphqlState::NotSpoken,
                QueryOutcome::Unanswered(err) => {
                    *unanswered += 1;
                    if *unanswered >= MOST_UNANSWERED {
                        *graphql = GraphqlState::Down(Some(err));
                    } else if to - from > half {
                        spans.extend([(from + half, to), (from, from + half)]);
                    }
                }
            }
        }
        Ok(told)
    }

    /// One question.
    async fn ask_about(
        &self,
        part: &[&RepositoryId],
        (wanted, scope): (&PreflightQuery, &Scope),
    ) -> Result<QueryOutcome, ForgeError> {
        let (query, variables) = question(part, wanted);
        let thing = format!("{} repositories", part.len());
        let call = self.api.graphql_call(&query, &variables, (scope.clone(), thing));
        let answer: GraphqlResponse<Map<String, Value>> = match self.api.ask(&call).await {
            Ok(answer) => answer,
            Err(err) if is_fatal(&err) => return Err(err),
            Err(err @ (ForgeError::Unavailable { .. } | ForgeError::Malformed { .. })) => {
                return Ok(QueryOutcome::Unanswered(err));
            }
            // The App is not installed at this account. Others may be told of all the same.
            Err(ForgeError::NotFound { .. }) if matches!(scope, Scope::Owner(_)) => {
                return Ok(QueryOutcome::Told(BTreeMap::new()));
            }
            // No GraphQL here, or not with this token. REST says more.
            Err(_) => return Ok(QueryOutcome::NotSpoken),
        };
        let Some(mut data) = answer.data else {
            if answer.errors.iter().any(Problem::is_out_of_time) {
                return Ok(QueryOutcome::Unanswered(
                    self.api.unavailable("GraphQL did not answer in its time"),
                ));
            }
            return Ok(QueryOutcome::NotSpoken);
        };
        let mut told = BTreeMap::new();
        for (at, id) in part.iter().enumerate() {
            let node = data.remove(&format!("r{at}")).unwrap_or_default();
            // A repository that is not told of readably is asked about by REST.
            let Ok(node) = serde_json::from_value::<Node>(node) else { continue };
            // A partial answer is not used: a file or branch that could not be read is not the same as a missing one.
            let is_broken = answer.errors.iter().any(|problem| problem.is_below(&format!("r{at}")));
            if is_broken || node.name_with_owner.parse::<RepositoryId>().is_err() {
                continue;
            }
            let (mut facts, has_all) = from_node(id, node, wanted);
            if !has_all {
                match self.open_pulls_of(&facts.repository).await {
                    Ok(pulls) => facts.pulls = pulls,
                    Err(err) if is_fatal(&err) => return Err(err),
                    Err(_) => continue,
                }
            }
            told.insert(at, facts);
        }
        Ok(QueryOutcome::Told(told))
    }

    /// Every open pull request of a repository.
    pub(super) async fn open_pulls_of(&self, name: &str) -> Result<Vec<PullFacts>, ForgeError> {
        let id: RepositoryId = name.parse().map_err(|message| ForgeError::Invalid {
            action: "read its pull requests".to_owned(),
            message,
        })?;
        let call = Call::get(
            route(&id, "pulls?state=open&sort=created&direction=asc&per_page=100"),
            format!("the pull requests of `{id}`"),
        );
        let pulls: Vec<PullJson> = self.api.list(&call, MOST_PULLS).await?;
        Ok(pulls.into_iter().map(|pull| pull_facts(pull.into())).collect())
    }
}

/// Every repository would fail like this, so asking the next is no use.
pub(super) fn is_fatal(err: &ForgeError) -> bool {
    matches!(err, ForgeError::Authentication { .. } | ForgeError::RateLimited { .. })
}

/// Names are variables, never part of the question.
fn question(part: &[&RepositoryId], wanted: &PreflightQuery) -> (String, Value) {
    let mut declared = String::new();
    let mut asked = String::new();
    let mut variables = Map::new();
    for (at, id) in part.iter().enumerate() {
        let _ = write!(declared, "$o{at}: String!, $n{at}: String!, ");
        let _ = writeln!(asked, "  r{at}: repository(owner: $o{at}, name: $n{at}) {{ ...facts }}");
        variables.insert(format!("o{at}"), json!(id.owner));
        variables.insert(format!("n{at}"), json!(id.name));
    }
    let mut base = "";
    if let Some(branch) = &wanted.base {
        declared.push_str("$base: String!, ");
        base = "base: ref(qualifiedName: $base) { name target { oid } }\n  ";
        variables.insert("base".to_owned(), json!(format!("refs/heads/{branch}")));
    }
    let pulls = if wanted.open_pulls {
        OPEN_PULLS
    } else {
        declared.push_str("$branch: String!, $head: String!, ");
        variables.insert("branch".to_owned(), json!(wanted.head_branch));
        variables.insert("head".to_owned(), json!(format!("refs/heads/{}", wanted.head_branch)));
        BRANCH_PULLS
    };
    let mut files = String::new();
    for (at, file) in wanted.files.iter().enumerate() {
        let _ = write!(declared, "$f{at}: String!, ");
        let _ = write!(files, "\n  f{at}: object(expression: $f{at}) {{ oid }}");
        let branch = wanted.base.as_ref().map_or("HEAD".to_owned(), |b| format!("refs/heads/{b}"));
        variables.insert(format!("f{at}"), json!(format!("{branch}:{file}")));
    }
    let fields = FIELDS.replace("BASE", base).replace("PULLS", pulls).replace("FILES", &files);
    let declared = declared.trim_end_matches(", ");
    (format!("query({declared}) {{\n{asked}}}\n{fields}"), Value::Object(variables))
}

/// The facts, and whether all open pull requests that are wanted are among them.
fn from_node(id: &RepositoryId, node: Node, wanted: &PreflightQuery) -> (RepositoryFacts, bool) {
    let tip = |reference: Option<Reference>| reference?.target.map(|target| target.oid);
    let (base_branch, base_sha) = match &wanted.base {
        Some(base) => (base.clone(), tip(node.base)),
        None => (
            node.default_branch_ref.as_ref().map(|branch| branch.name.clone()).unwrap_or_default(),
            tip(node.default_branch_ref),
        ),
    };
    let is_there = |at: usize| node.rest.get(&format!("f{at}")).is_some_and(|file| !file.is_null());
    let missing = wanted.files.iter().enumerate().filter(|(at, _)| !is_there(*at));
    let mut facts = RepositoryFacts {
        asked: id.to_string(),
        repository: node.name_with_owner,
        node_id: node.id,
        base_branch,
        missing_files: if base_sha.is_some() {
            missing.map(|(_, file)| file.clone()).collect()
        } else {
            Vec::new()
        },
        base_sha,
        archived: node.is_archived,
        disabled: node.is_disabled,
        fork: node.is_fork,
        template: node.is_template,
        private: node.is_private,
        can_push: node.viewer_permission.as_deref().map(may_push),
        topics: Vec::new(),
        pulls: Vec::new(),
        head: node.head.and_then(|head| head.target).map(HeadCommit::facts),
        trouble: None,
    };
    let topics = node.repository_topics.and_then(|topics| topics.nodes).unwrap_or_default();
    facts.topics = topics.into_iter().flatten().map(|node| node.topic.name).collect();
    let Some(pulls) = node.pull_requests else { return (facts, !wanted.open_pulls) };
    let has_all = !wanted.open_pulls || pulls.next().is_none();
    let nodes = pulls.nodes.unwrap_or_default().into_iter().flatten();
    // A fork's branch of the same name is somebody else's.
    let nodes = nodes.filter(|pull| wanted.open_pulls || !pull.is_cross_repository);
    facts.pulls = nodes.map(PullNode::facts).collect();
    facts.pulls.sort_by_key(|pull| (!pull.open, std::cmp::Reverse(pull.number)));
    (facts, has_all)
}

fn may_push(permission: &str) -> bool {
    matches!(permission, "WRITE" | "MAINTAIN" | "ADMIN")
}
