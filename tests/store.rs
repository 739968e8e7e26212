//! The store on both databases: one table of cases, each on a database of its own.

use patchwright_fleet::store::{Store, StoreError};
use patchwright_types::campaign::{
    CampaignRow, Changeset, ErrorClass, Job, JobKind, Lease, NewJob, NewTarget, Target, TargetEnd,
    TargetState,
};
use patchwright_types::run_facts::RunFacts;
use tempfile::TempDir;

use crate::support::postgres::{Postgres, postgres};

mod crowd; // a hundred workers, and a third of them dies
pub(crate) mod full; // a disk without room
mod jobs; // who gets which job, and who may write what belongs to it
mod lanes; // a lane of which somebody has a row
mod lists; // what pages are made of, and leases that are ended
mod open; // databases that are new, old, other, damaged, locked, away
mod outages; // services that fail for every job
mod pace; // how often a token may write
mod plans; // by which way the databases come to what workers ask all the time
mod repositories; // what targets' times say, and which repository they are of
mod rows; // campaigns, targets, changes, events, deliveries, schedules
mod runs; // what runs came to, what runs and what waits
mod selections; // which repositories a campaign may touch
mod versions; // a database and programs of several versions

pub(crate) use rows::{delivery, delivery_job};

/// A database for one case.
pub(crate) struct Db {
    url: String,
    _folder: Option<TempDir>,
}

impl Db {
    fn sqlite() -> Db {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("fleet.db").display());
        Db { url, _folder: Some(folder) }
    }

    /// For a server that asks for no password: as somebody who is no superuser.
    async fn postgres_as_a_user(server: &Postgres) -> Db {
        Db { url: server.database_of_a_user().await, _folder: None }
    }

    async fn postgres(server: &Postgres) -> Db {
        Db { url: server.database().await, _folder: None }
    }

    /// A store of its own, as another process would have it.
    async fn open(&self) -> Store {
        Store::open(&self.url).await.unwrap()
    }

    /// A statement behind the store's back: what a wrong clock or a dead process would have left.
    async fn sql(&self, text: &str) -> u64 {
        sqlx::any::install_default_drivers();
        let pool = sqlx::AnyPool::connect(&self.url).await.unwrap();
        let text = sqlx::AssertSqlSafe(text.to_owned());
        let done = sqlx::query(text).execute(&pool).await.unwrap().rows_affected();
        pool.close().await;
        done
    }

    /// The leases of all running jobs ran out just now.
    async fn expire(&self) {
        assert!(self.sql("UPDATE jobs SET lease_until = 1 WHERE state = 'running'").await > 0);
    }
}

/// Each case on SQLite as a test of its own, and all of them on one PostgreSQL.
macro_rules! cases {
    ($($module:ident :: $case:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$module::$case(&super::Db::sqlite()).await;
            })+
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn all_of_it_on_postgres() {
            let Some(server) = postgres().await else { return };
            $(
                eprintln!("on PostgreSQL: {}", stringify!($case));
                $module::$case(&Db::postgres(&server).await).await;
            )+
        }
    };
}

cases! {
    rows::a_campaign_is_put_once_and_keeps_what_happened,
    rows::targets_are_added_once_and_newer_ones_supersede,
    rows::waves_open_with_their_jobs,
    rows::a_targets_end_is_written_whole,
    rows::failed_targets_are_retried_by_class,
    rows::held_changes_are_published_later,
    rows::what_the_forge_says_is_noted_unless_a_worker_is_at_it,
    rows::closing_cancels_what_is_queued,
    rows::a_damaged_row_is_told_and_nothing_is_written,
    rows::events_come_in_order_and_in_pages,
    rows::deliveries_are_stored_once,
    rows::schedules_fire_once_and_values_are_kept,
    rows::a_repository_comes_by_its_id,
    rows::shards_come_together,
    rows::what_was_run_twice_counts_twice,
    rows::what_waits_to_be_published_is_looked_at_when_asked,
    rows::jobs_of_some_repositories_are_claimed_and_no_others,
    rows::what_another_database_says_is_bounded,
    rows::a_worker_of_one_campaign_takes_no_job_of_another,
    rows::what_has_ended_long_ago_is_removed,
    rows::reviews_that_nobody_asked_for_are_counted_before_they_are_paid,
    repositories::run_publishing_and_review_have_lengths_of_their_own,
    repositories::times_that_an_older_version_overwrote_are_read_from_the_events,
    repositories::a_repository_is_what_its_id_says,
    repositories::what_we_began_to_close_is_no_rejection,
    repositories::what_is_left_is_known_without_reading_the_targets,
    lists::campaigns_are_summed_up_without_being_read,
    lists::a_history_is_complete_and_lists_the_newest,
    lists::what_became_of_a_delivery_is_told_by_its_job,
    lists::a_lease_that_is_ended_can_be_claimed_and_its_holder_writes_nothing,
    outages::two_jobs_that_are_cut_off_stop_all_and_one_looks_again,
    outages::a_model_is_only_waited_for_by_its_campaign,
    outages::a_pause_that_a_wrong_clock_wrote_holds_nobody,
    outages::a_clock_that_is_set_back_puts_no_pause_off,
    runs::ends_are_counted_by_day_and_listed,
    runs::a_search_reads_a_bounded_number_of_rows,
    runs::pages_meet_and_lose_nothing,
    runs::what_runs_and_waits_is_told_by_age,
    jobs::a_key_has_one_job,
    jobs::a_lane_has_one_runner,
    jobs::a_campaign_has_its_limits,
    jobs::a_budget_is_reserved_before_it_is_spent,
    jobs::what_is_paused_waits_and_priorities_count,
    jobs::a_lost_lease_writes_nothing,
    jobs::a_late_renewal_counts_unless_the_lane_was_given_away,
    jobs::a_job_whose_workers_die_is_buried,
    jobs::attempts_are_counted_and_released_ones_are_not,
    jobs::the_last_attempt_fails_the_target_too,
    jobs::what_a_target_waits_for_is_said_when_it_is_news,
    jobs::clocks_that_jump_wedge_nothing,
    jobs::racers_have_one_winner,
    jobs::limits_hold_when_many_claim_at_once,
    jobs::what_holds_back_many_holds_back_nobody_else,
    jobs::news_of_work_is_told,
    jobs::what_is_left_is_told,
    selections::a_selection_is_asked_for_by_name_and_by_id,
    selections::a_selection_is_written_when_it_is_another_and_forgotten_when_closed,
    pace::three_reservers_stay_below_every_limit,
    pace::a_closed_gate_holds_everybody,
    versions::who_does_not_know_the_version_takes_no_job,
    versions::a_look_changes_nothing,
    pace::nobody_hoards_and_jumping_clocks_are_forgotten,
}

pub(crate) fn campaign() -> CampaignRow {
    let [id, name, hash, spec] =
        ["tidy-0123456789ab", "tidy", "0123456789ab", "{}"].map(str::to_owned);
    CampaignRow::started(id, name, hash, spec)
}

/// A campaign without targets; its id.
pub(crate) async fn campaign_row(store: &Store) -> String {
    store.put_campaign(&campaign()).await.unwrap().id
}

pub(crate) fn new_target(repository: &str, sha: &str) -> NewTarget {
    NewTarget {
        repository: repository.to_owned(),
        repository_id: None,
        number: None,
        base_branch: "main".to_owned(),
        base_sha: sha.repeat(40),
        wave: 0,
        skipped: None,
    }
}

pub(crate) fn target_job(target: &Target) -> NewJob {
    NewJob {
        kind: JobKind::Target,
        key: format!("target:{}", target.id),
        campaign: Some(target.campaign.clone()),
        subject: target.id.to_string(),
        lane: Some(format!("repository:{}", target.repository)),
        organization: target.repository.split('/').next().map(str::to_owned),
        priority: 0,
        max_attempts: 3,
        reserve_usd: 1.0,
        run_at: 0,
    }
}

pub(crate) fn publish_job(target: &Target) -> NewJob {
    NewJob {
        kind: JobKind::Publish,
        key: format!("publish:{}", target.id),
        lane: Some("publish:token".to_owned()),
        reserve_usd: 0.0,
        ..target_job(target)
    }
}

/// A running campaign with these repositories queued.
async fn queued(store: &Store, campaign: &CampaignRow, repositories: &[&str]) {
    store.put_campaign(campaign).await.unwrap();
    let targets: Vec<NewTarget> = repositories.iter().map(|name| new_target(name, "a")).collect();
    assert_eq!(store.add_targets(&campaign.id, &targets).await.unwrap().work, targets.len());
    let opened = store.open_wave(&campaign.id, 0, &target_job).await.unwrap();
    assert_eq!(opened, targets.len());
}

async fn claim(store: &Store, owner: &str) -> Option<(Job, Lease)> {
    store.claim(owner, &[JobKind::Target, JobKind::Publish], 60_000).await.unwrap()
}

/// Claims, which has to succeed.
async fn claimed(store: &Store, owner: &str) -> (Job, Lease) {
    claim(store, owner).await.expect("there is a job")
}

pub(crate) fn ended(state: TargetState) -> TargetEnd {
    TargetEnd {
        state,
        class: None,
        reason: None,
        run: Some("run-1".to_owned()),
        cost_usd: 0.5,
        tokens: 1_000,
        pull_request: None,
        url: None,
        writes: 0,
        facts: RunFacts::default(),
    }
}

pub(crate) fn changeset(target: &Target) -> Changeset {
    Changeset {
        target: target.id,
        repository: target.repository.clone(),
        base_branch: target.base_branch.clone(),
        base_sha: target.base_sha.clone(),
        branch: "patchwright/tidy".to_owned(),
        commit: "c".repeat(40),
        tree: "d".repeat(40),
        pack: vec![0, 1, 2, 255],
        title: "Tidy\0 up".to_owned(),
        body: "Ünïcode, 'quotes' and \"more\"; $1 {id} ?".to_owned(),
        marker: "<!-- marker -->".to_owned(),
        draft: true,
        labels: vec!["a, b".to_owned(), "c".to_owned()],
        reviewers: Vec::new(),
        change_id: "e".repeat(64),
        files: 3,
        lines_added: 20,
        lines_removed: 4,
    }
}

fn is_lost<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::LeaseLost { .. }))
}

/// The only target of that repository in the campaign.
async fn target_of(store: &Store, repository: &str) -> Target {
    let view = store.view(&campaign().id).await.unwrap();
    view.targets.into_iter().find(|target| target.repository == repository).unwrap()
}

/// What happens by itself from here on, and what a campaign counts as a good end.
#[test]
fn a_state_is_open_or_settled_and_a_settled_one_good_or_not() {
    use TargetState as T;
    for state in [T::Waiting, T::Queued, T::Running, T::Ready, T::Publishing] {
        assert!(!state.is_settled() && !state.is_success(), "{state:?}");
    }
    for state in [T::Held, T::Open, T::Merged, T::Closed, T::Unchanged, T::Skipped, T::Superseded] {
        assert!(state.is_settled() && state.is_success(), "{state:?}");
    }
    assert!(T::Failed.is_settled() && !T::Failed.is_success());
    let transient = ErrorClass::ALL.iter().filter(|class| class.is_transient());
    let transient: Vec<&str> = transient.map(|class| class.word()).collect();
    assert_eq!(transient, ["clone", "sandbox", "model", "forge", "machine"]);
}

/// What makes a database of this version one of version 1.
pub(crate) fn as_version_1() -> String {
    open::AS_VERSION_1.join(";\n")
}
