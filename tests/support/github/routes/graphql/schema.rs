//! The part of GitHub's GraphQL schema that conversations need, and queries against it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// `field(arguments): type`. A type alone is an object, `=` a scalar, `*` a connection of it, and
/// `!` after an argument means that it must be given.
const TEXT: &str = "
type Query
  repository(owner! name! followRenames): Repository
  node(id!): Node
  viewer: User
  rateLimit: RateLimit
type RateLimit
  cost limit remaining resetAt used: =
type Node
  id: =
type Repository is Node
  id databaseId name nameWithOwner description isArchived isPrivate isDisabled isFork isTemplate: =
  isEmpty isLocked isMirror url visibility viewerPermission viewerCanAdminister createdAt: =
  updatedAt pushedAt archivedAt hasIssuesEnabled diskUsage: =
  owner: Actor
  parent: Repository
  primaryLanguage: Language
  defaultBranchRef: Ref
  ref(qualifiedName!): Ref
  object(oid expression): GitObject
  pullRequest(number!): PullRequest
  issue(number!): Issue
  pullRequests(first last after before states labels headRefName baseRefName orderBy): PullRequest*
  repositoryTopics(first last after before): RepositoryTopic*
type Language is Node
  id name color: =
type RepositoryTopic is Node
  id url resourcePath: =
  topic: Topic
type Topic is Node
  id name: =
type Ref is Node
  id name prefix: =
  target: GitObject
  repository: Repository
  associatedPullRequests(first last after before states labels headRefName baseRefName orderBy): PullRequest*
type GitObject
  id oid abbreviatedOid commitUrl commitResourcePath: =
  repository: Repository
type Blob is GitObject Node
  id oid abbreviatedOid commitUrl commitResourcePath byteSize isBinary isTruncated text: =
  repository: Repository
type Tree is GitObject Node
  id oid abbreviatedOid commitUrl commitResourcePath: =
  repository: Repository
type PullRequest is Node
  id databaseId fullDatabaseId number title body isDraft state locked merged url headRefOid: =
  headRefName baseRefName baseRefOid viewerCanUpdate isCrossRepository maintainerCanModify: =
  changedFiles additions deletions createdAt updatedAt closedAt mergedAt closed mergeable: =
  author: Actor
  mergeCommit: Commit
  repository headRepository: Repository
  reviewThreads(first last after before): PullRequestReviewThread*
  reviews(first last after before states author): PullRequestReview*
  comments(first last after before orderBy): IssueComment*
  labels(first last after before orderBy): Label*
type Issue is Node
  id databaseId number title body url state closed locked createdAt updatedAt lastEditedAt: =
  author editor: Actor
  repository: Repository
type Label is Node
  id name: =
type PullRequestReviewThread is Node
  id isResolved isOutdated isCollapsed viewerCanResolve viewerCanUnresolve viewerCanReply path: =
  line startLine originalLine originalStartLine diffSide startDiffSide subjectType: =
  resolvedBy: User
  pullRequest: PullRequest
  repository: Repository
  comments(first last after before orderBy): PullRequestReviewComment*
type PullRequestReviewComment is Node
  id databaseId fullDatabaseId body bodyText authorAssociation createdAt updatedAt lastEditedAt: =
  publishedAt url resourcePath path position line startLine originalLine originalStartLine: =
  diffHunk outdated isMinimized minimizedReason state viewerDidAuthor viewerCanMinimize: =
  viewerCanUpdate subjectType: =
  author: Actor
  commit originalCommit: Commit
  replyTo: PullRequestReviewComment
  pullRequest: PullRequest
  pullRequestReview: PullRequestReview
type Commit is GitObject Node
  id oid abbreviatedOid commitUrl commitResourcePath message messageHeadline committedDate: =
  author committer: GitActor
  parents(first last after before): Commit*
  repository: Repository
type GitActor
  name email date: =
type PullRequestReview is Node
  id databaseId fullDatabaseId body state authorAssociation createdAt updatedAt submittedAt url: =
  lastEditedAt isMinimized minimizedReason viewerDidAuthor: =
  author: Actor
  commit: Commit
  pullRequest: PullRequest
  comments(first last after before): PullRequestReviewComment*
type IssueComment is Node
  id databaseId fullDatabaseId body bodyText authorAssociation createdAt updatedAt lastEditedAt: =
  publishedAt url isMinimized minimizedReason viewerDidAuthor viewerCanMinimize: =
  author: Actor
type Actor
  login url avatarUrl resourcePath: =
type User is Actor Node
  id databaseId login name url avatarUrl resourcePath: =
type Bot is Actor Node
  id databaseId login url avatarUrl resourcePath: =
type Organization is Actor Node
  id databaseId login name url avatarUrl resourcePath: =
type Mannequin is Actor Node
  id databaseId login url avatarUrl resourcePath: =
type Minimizable
  isMinimized minimizedReason viewerCanMinimize: =
type Mutation
  resolveReviewThread(input!): ResolveReviewThreadPayload
  unresolveReviewThread(input!): UnresolveReviewThreadPayload
  convertPullRequestToDraft(input!): ConvertPullRequestToDraftPayload
  markPullRequestReadyForReview(input!): MarkPullRequestReadyForReviewPayload
  minimizeComment(input!): MinimizeCommentPayload
  createCommitOnBranch(input!): CreateCommitOnBranchPayload
  enablePullRequestAutoMerge(input!): EnablePullRequestAutoMergePayload
  disablePullRequestAutoMerge(input!): DisablePullRequestAutoMergePayload
  addPullRequestReviewThread(input!): AddPullRequestReviewThreadPayload
  addPullRequestReviewThreadReply(input!): AddPullRequestReviewThreadReplyPayload
type ResolveReviewThreadPayload
  clientMutationId: =
  thread: PullRequestReviewThread
type UnresolveReviewThreadPayload
  clientMutationId: =
  thread: PullRequestReviewThread
type ConvertPullRequestToDraftPayload
  clientMutationId: =
  pullRequest: PullRequest
type MarkPullRequestReadyForReviewPayload
  clientMutationId: =
  pullRequest: PullRequest
type CreateCommitOnBranchPayload
  clientMutationId: =
  commit: Commit
  ref: Ref
type EnablePullRequestAutoMergePayload
  clientMutationId: =
  pullRequest: PullRequest
  actor: Actor
type DisablePullRequestAutoMergePayload
  clientMutationId: =
  pullRequest: PullRequest
  actor: Actor
type MinimizeCommentPayload
  clientMutationId: =
  minimizedComment: Minimizable
type AddPullRequestReviewThreadPayload
  clientMutationId: =
  thread: PullRequestReviewThread
type AddPullRequestReviewThreadReplyPayload
  clientMutationId: =
  comment: PullRequestReviewComment
input resolveReviewThread
  threadId! clientMutationId
input unresolveReviewThread
  threadId! clientMutationId
input convertPullRequestToDraft
  pullRequestId! clientMutationId
input markPullRequestReadyForReview
  pullRequestId! clientMutationId
input createCommitOnBranch
  branch! message! expectedHeadOid! fileChanges clientMutationId
input enablePullRequestAutoMerge
  pullRequestId! commitHeadline commitBody mergeMethod authorEmail expectedHeadOid clientMutationId
input disablePullRequestAutoMerge
  pullRequestId! clientMutationId
input minimizeComment
  subjectId! classifier! clientMutationId
input addPullRequestReviewThread
  path body! pullRequestId pullRequestReviewId line side startLine startSide subjectType clientMutationId
input addPullRequestReviewThreadReply
  pullRequestReviewId pullRequestReviewThreadId! body! clientMutationId
";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar,
    Object(String),
    Connection(String),
    /// The nodes or edges of a connection.
    List(String),
}

#[derive(Clone, Debug)]
pub(super) struct FieldType {
    /// Name, and whether it must be given.
    pub(super) arguments: Vec<(String, bool)>,
    pub(super) kind: Kind,
}

#[derive(Debug, Default)]
pub(super) struct Schema {
    types: BTreeMap<String, BTreeMap<String, FieldType>>,
    interfaces: BTreeMap<String, Vec<String>>,
    /// By mutation.
    pub(super) inputs: BTreeMap<String, Vec<(String, bool)>>,
}

pub(super) fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(Schema::read)
}

fn arguments(text: &str) -> Vec<(String, bool)> {
    let one = |word: &str| (word.trim_end_matches('!').to_owned(), word.ends_with('!'));
    text.split_whitespace().map(one).collect()
}

impl Schema {
    fn read() -> Schema {
        let mut schema = Schema::default();
        let (mut current, mut input) = (String::new(), false);
        for line in TEXT.lines().filter(|line| !line.is_empty()) {
            if let Some(head) = line.strip_prefix("type ") {
                let (name, is) = head.split_once(" is ").unwrap_or((head, ""));
                let is = is.split_whitespace().map(str::to_owned).collect();
                schema.interfaces.insert(name.to_owned(), is);
                schema.types.insert(name.to_owned(), BTreeMap::new());
                (current, input) = (name.to_owned(), false);
            } else if let Some(name) = line.strip_prefix("input ") {
                (current, input) = (name.to_owned(), true);
            } else if input {
                schema.inputs.insert(current.clone(), arguments(line));
            } else {
                schema.fields(&current, line);
            }
        }
        schema
    }

    fn fields(&mut self, of: &str, line: &str) {
        let (names, kind) = line.trim().rsplit_once(": ").unwrap();
        let kind = match kind.strip_suffix('*') {
            Some(item) => Kind::Connection(item.to_owned()),
            None if kind == "=" => Kind::Scalar,
            None => Kind::Object(kind.to_owned()),
        };
        let fields = self.types.get_mut(of).unwrap();
        let (names, given) = names.split_once('(').unwrap_or((names, ""));
        for name in names.split_whitespace() {
            let arguments = arguments(given.trim_end_matches(')'));
            fields.insert(name.to_owned(), FieldType { arguments, kind: kind.clone() });
        }
    }

    pub(super) fn field(&self, of: &str, name: &str) -> Option<FieldType> {
        let plain = |kind| Some(FieldType { arguments: Vec::new(), kind });
        if name == "__typename" {
            return plain(Kind::Scalar);
        }
        if let Some(item) = of.strip_suffix("Connection") {
            return match name {
                "nodes" => plain(Kind::List(item.to_owned())),
                "edges" => plain(Kind::List(format!("{item}Edge"))),
                "pageInfo" => plain(Kind::Object("PageInfo".to_owned())),
                "totalCount" => plain(Kind::Scalar),
                _ => None,
            };
        }
        if let Some(item) = of.strip_suffix("Edge") {
            return match name {
                "node" => plain(Kind::Object(item.to_owned())),
                "cursor" => plain(Kind::Scalar),
                _ => None,
            };
        }
        if of == "PageInfo" {
            let known = ["hasNextPage", "hasPreviousPage", "startCursor", "endCursor"];
            return if known.contains(&name) { plain(Kind::Scalar) } else { None };
        }
        self.types.get(of)?.get(name).cloned()
    }

    /// Whether a value of this type matches a type condition.
    pub(super) fn is(&self, kind: &str, condition: &str) -> bool {
        kind == condition
            || self.interfaces.get(kind).is_some_and(|all| all.iter().any(|i| i == condition))
    }

    /// Whether a condition can ever hold where this type stands.
    pub(super) fn may_be(&self, kind: &str, condition: &str) -> bool {
        self.types.contains_key(condition) && (self.is(kind, condition) || self.is(condition, kind))
    }
}
