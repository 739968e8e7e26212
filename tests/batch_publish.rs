//! Stored changes become pull requests: once each, at the pace that all processes share, and never
//! with a lost lease. Closing campaigns, and their tracking issues.
#![allow(clippy::too_many_lines, reason = "tables of situations")]

mod closing;
mod extras;
mod hostile;
mod identity;
mod pace;
mod situations;
mod tracking;
mod troubles;

use std::sync::Arc;

use chrono::DateTime;
use patchwright_base::clock::Clock;
use patchwright_base::env::Env;
use patchwright_base::redact::Redactor;
use patchwright_base::ui::{Ui, Verbosity};
use patchwright_config::flags::Common;
use patchwright_fleet::batch::campaign::{self, Campaign};
use patchwright_fleet::batch::fleet::Fleet;
use patchwright_fleet::batch::lease::HeldJob;
use patchwright_fleet::batch::outage::Outages;
use patchwright_fleet::batch::{publish, stored, target};
use patchwright_fleet::store::Store;
use patchwright_forge::{Forge, Role};
use patchwright_git::clone::mirror;
use patchwright_git::commit::{self, CommitSpec, Identity};
use patchwright_git::{Oid, diff};
use patchwright_report as report;
use patchwright_types::campaign::{
    CampaignRow, CampaignState, Changeset, Job, JobEnd, JobKind, Lease, NewTarget, Target,
    TargetEnd, TargetState,
};
use patchwright_types::run_facts::RunFacts;
use tokio_util::sync::CancellationToken;

use crate::forge::connect;
use crate::support::github::{GitHub, Server};

const REPOSITORY: &str = "acme/app";
const BRANCH: &str = "patchwright/typos";
const LEASE: i64 = 60_000;

/// A campaign whose text has these lines besides.
fn campaign(more: &str) -> Campaign {
    let text = format!(
        "name: typos\nselect:\n  repositories: [acme/app]\ntask:\n  prompt: Fix typos.\n{more}"
    );
    campaign::parse("campaign.yml", &text, None).unwrap()
}

/// GitHub with one repository, and a process of a fleet beside it.
struct Bench {
    github: Server,
    fleet: Fleet,
    folder: tempfile::TempDir,
}

fn world() -> GitHub {
    GitHub::new()
        .repository(REPOSITORY, &[("README.md", "teh\n"), ("other.txt", "other\n")])
        .user("rita", Role::Write)
}

impl Bench {
    async fn new(github: GitHub) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let github = github.start();
        github.keep_private(folder.path());
        let fleet = fleet(&github, folder.path()).await;
        Bench { github, fleet, folder }
    }

    /// A campaign with one target, whose run has ended with this README.
    async fn ready(&self, campaign: &Campaign, readme: &str) -> Target {
        self.ready_in(campaign, REPOSITORY, readme).await
    }

    async fn ready_in(&self, campaign: &Campaign, repository: &str, readme: &str) -> Target {
        let made = Made { files: &[("README.md", readme)], ..Made::default() };
        self.ready_with(campaign, repository, &made).await
    }

    /// A target that is ready to be published, with whatever was made there.
    async fn ready_with(&self, campaign: &Campaign, repository: &str, made: &Made<'_>) -> Target {
        let id = repository.parse().unwrap();
        let base = self.fleet.forge.branch_tip(&id, made.base).await.unwrap().unwrap();
        let store = &self.fleet.store;
        let row = store.put_campaign(&row_of(campaign)).await.unwrap();
        if row.state == CampaignState::Done {
            // As a command that has something new.
            store.set_campaign_state(&row.id, CampaignState::Running, None).await.unwrap();
        }
        let new = NewTarget {
            repository: repository.to_owned(),
            repository_id: None,
            number: None,
            base_branch: "main".to_owned(),
            base_sha: base.to_string(),
            wave: 0,
            skipped: None,
        };
        store.add_targets(&row.id, &[new]).await.unwrap();
        let job_of = |target: &Target| target::job(&self.fleet, campaign, target);
        store.open_wave(&row.id, 0, &job_of).await.unwrap();
        let (job, lease) = self.claim(JobKind::Target).await.expect("a target to work on");
        let target = store.target(job.subject.parse().unwrap()).await.unwrap();
        store.begin_target(&lease, target.id, "run").await.unwrap();
        let changeset = self.changeset(campaign, &target, base, made).await;
        let end = TargetEnd {
            state: TargetState::Ready,
            class: None,
            reason: None,
            run: Some("run".to_owned()),
            cost_usd: 0.25,
            tokens: 1_000,
            pull_request: None,
            url: None,
            writes: 0,
            facts: RunFacts::default(),
        };
        let publish = publish::job(&self.fleet, &target);
        let stored = Some(&changeset);
        store
            .end_target(&lease, target.id, &end, stored, Some(&publish), &JobEnd::Done)
            .await
            .unwrap();
        store.target(target.id).await.unwrap()
    }

    /// What a run would have stored.
    async fn changeset(
        &self,
        campaign: &Campaign,
        target: &Target,
        base: Oid,
        made: &Made<'_>,
    ) -> Changeset {
        let id = target.repository.parse().unwrap();
        let repository = self.fleet.forge.repository(&id).await.unwrap();
        // Another machine has worked on it.
        let elsewhere = self.folder.path().join("elsewhere");
        let repo = mirror(&elsewhere, &repository.clone_url).unwrap();
        let refs = [base.to_string()];
        self.fleet.forge.fetch(&repository, repo.path(), &refs, 50).await.unwrap();
        let git = git2::Repository::open_bare(repo.path()).unwrap();
        let old = git.find_commit(base.0).unwrap().tree().unwrap();
        let mut tree = git2::build::TreeUpdateBuilder::new();
        for (path, text) in made.files {
            tree.upsert(*path, git.blob(text.as_bytes()).unwrap(), git2::FileMode::Blob);
        }
        let tree = Oid(tree.create_updated(&git, &old).unwrap());
        let run = format!("run-{}", target.id);
        let commit = match made.message {
            None => commit::create(&repo, base, tree, &spec(&run)).unwrap(),
            Some(message) => foreign(&git, base, tree, message),
        };
        let marker = report::marker("pull-request", &run);
        let base_tree = diff::tree_of(&repo, base).unwrap();
        Changeset {
            target: target.id,
            repository: target.repository.clone(),
            base_branch: target.base_branch.clone(),
            base_sha: base.to_string(),
            branch: campaign.branch(),
            commit: commit.to_string(),
            tree: tree.to_string(),
            pack: stored::pack(&repo, commit).unwrap(),
            title: "Fix a typo".to_owned(),
            body: format!("It said `teh`.\n\n{marker}"),
            marker,
            draft: false,
            labels: vec!["typo".to_owned()],
            reviewers: vec!["rita".to_owned()],
            change_id: stored::change_id(&repo, base_tree, tree).unwrap(),
            files: 1,
            lines_added: 1,
            lines_removed: 1,
        }
    }

    async fn claim(&self, kind: JobKind) -> Option<(Job, Lease)> {
        claim(&self.fleet, kind).await
    }

    /// Claims a job of the publisher and does it.
    async fn publish(&self, target: &Target) -> Target {
        self.attempt().await;
        self.fleet.store.target(target.id).await.unwrap()
    }

    async fn attempt(&self) {
        let (job, lease) = self.claim(JobKind::Publish).await.expect("something to publish");
        let held = Arc::new(HeldJob::new(&self.fleet, job, lease));
        Box::pin(publish::work(&self.fleet, held)).await.unwrap();
    }

    /// Publishes as often as there is something to do right now.
    async fn publish_all(&self) {
        for _ in 0..100 {
            let Some((job, lease)) = self.claim(JobKind::Publish).await else { return };
            let held = Arc::new(HeldJob::new(&self.fleet, job, lease));
            Box::pin(publish::work(&self.fleet, held)).await.unwrap();
        }
        panic!("it does not come to an end");
    }

    fn git(&self) -> git2::Repository {
        git2::Repository::open_bare(self.github.repository_path()).unwrap()
    }

    fn tip(&self, branch: &str) -> Option<String> {
        let branches = self.github.branches();
        branches.into_iter().find(|(name, _)| name == branch).map(|(_, commit)| commit)
    }

    /// A commit of ours on a branch of the server, as an earlier run would have left it.
    fn our_commit(&self, branch: &str, parent: &str, readme: &str) -> String {
        let git = self.git();
        let parent = git.find_commit(git2::Oid::from_str(parent).unwrap()).unwrap();
        let mut tree = git.treebuilder(Some(&parent.tree().unwrap())).unwrap();
        tree.insert("README.md", git.blob(readme.as_bytes()).unwrap(), 0o100_644).unwrap();
        let tree = git.find_tree(tree.write().unwrap()).unwrap();
        let spec = spec("run-earlier");
        let time = git2::Time::new(spec.time.timestamp(), 0);
        let author = git2::Signature::new(&spec.author.name, &spec.author.email, &time).unwrap();
        let message = format!("{}\n\n{}\n", spec.message, spec.trailers[0]);
        let name = format!("refs/heads/{branch}");
        let commit = git.commit(None, &author, &author, &message, &tree, &[&parent]).unwrap();
        git.reference(&name, commit, true, "").unwrap();
        self.github.change(|_| ());
        commit.to_string()
    }
}

/// What came of a run, or of somebody who says so.
struct Made<'a> {
    /// The branch that it was made on.
    base: &'a str,
    files: &'a [(&'a str, &'a str)],
    /// The message of a commit that somebody else signs; ours without one.
    message: Option<&'a str>,
}

impl Default for Made<'_> {
    fn default() -> Self {
        Made { base: "main", files: &[], message: None }
    }
}

/// A commit in somebody's name, with a message that nobody has cleaned.
fn foreign(git: &git2::Repository, base: Oid, tree: Oid, message: &str) -> Oid {
    let time = git2::Time::new(1_763_640_000, 0);
    let author = git2::Signature::new("The owner", "owner@acme.test", &time).unwrap();
    let (tree, base) = (git.find_tree(tree.0).unwrap(), git.find_commit(base.0).unwrap());
    Oid(git.commit(None, &author, &author, message, &tree, &[&base]).unwrap())
}

/// Our commits' words.
fn spec(run: &str) -> CommitSpec {
    let identity =
        Identity { name: "Patchwright".to_owned(), email: "bot@patchwright.test".to_owned() };
    CommitSpec {
        author: identity.clone(),
        committer: identity,
        message: "Fix a typo".to_owned(),
        trailers: vec![format!("Patchwright-Run: {run}")],
        time: DateTime::parse_from_rfc3339("2026-11-20T12:00:00Z").unwrap().to_utc(),
    }
}

async fn claim(fleet: &Fleet, kind: JobKind) -> Option<(Job, Lease)> {
    fleet.store.claim(&fleet.owner, &[kind], LEASE).await.unwrap()
}

fn row_of(campaign: &Campaign) -> CampaignRow {
    let spec = serde_json::to_string(campaign).unwrap();
    CampaignRow::started(campaign.id(), campaign.name.clone(), campaign.spec_hash(), spec)
}

/// A process of its own, as far as the store can tell.
async fn fleet(github: &Server, folder: &std::path::Path) -> Fleet {
    let env = Env::from_pairs([
        ("GITHUB_API_URL", github.api_url()),
        ("GITHUB_SERVER_URL", github.server_url()),
        ("GITHUB_TOKEN", github.token().to_owned()),
        ("PATCHWRIGHT_TIME_SCALE", "0.001".to_owned()),
    ]);
    let common = Common::default();
    let mut config = common.resolve().unwrap();
    let Identity { name, email } = spec("").committer;
    config.identity = patchwright_config::Identity { name, email, ..Default::default() };
    config.publish.labels = vec!["typo".to_owned()];
    config.publish.reviewers = vec!["rita".to_owned()];
    let database = folder.join("fleet.db");
    let store = Store::open(&format!("sqlite:{}", database.display())).await.unwrap();
    let ui = Ui { verbosity: Verbosity::Quiet, ..Ui::plain() };
    let redactor = Arc::new(Redactor::new(env.secrets()));
    Fleet {
        outages: Outages::new(
            store.clone(),
            ui,
            Arc::clone(&redactor),
            env.time_scale(),
            "token".to_owned(),
        ),
        store,
        forge: Arc::new(connect(github)),
        http: crate::forge::client(),
        signing_key: None,
        config,
        redactor,
        ui,
        clock: Clock { fixed: None },
        state: folder.join("state"),
        owner: format!("test:{}", rand::random::<u64>()),
        token: "token".to_owned(),
        sandbox: Arc::default(),
        drain_time: std::time::Duration::from_secs(1),
        retention: std::time::Duration::ZERO,
        scope: std::sync::Arc::default(),
        drain: CancellationToken::new(),
        common,
        env,
    }
}
