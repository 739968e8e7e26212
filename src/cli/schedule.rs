//! `patchwright schedule`: a daemon that runs campaigns at their times.
//!
//! The store remembers what has fired. So several machines with the same files fire each time once, a clock
//! that is set back fires nothing again, and times that were missed are made up for once.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::JoinHandle;

use crate::cli::batch::run::run_campaign;
use patchwright_base::duration::parse_duration;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_fleet::batch::campaign::{self, Campaign};
use patchwright_fleet::batch::cron::Crontab;
use patchwright_fleet::batch::drive::Options;
use patchwright_fleet::batch::fleet::Fleet;
use patchwright_task::signals;
use patchwright_types::campaign::Millis;

/// Between two looks at the clock: it may be set, and a machine may sleep.
const LOOK: Duration = Duration::from_secs(20);

/// A run without a sign of life for so long, in milliseconds, counts as interrupted.
const SILENCE: Millis = 120_000;

/// From this delay on, in milliseconds, a start is announced as missed and made up for.
const LATE: Millis = 120_000;

/// Run campaigns when their schedules say so
///
/// Stays and starts what `patchwright batch run` would, at the times of `schedule` in each campaign file.
/// A campaign is not started a second time while its last run is still going. Several machines with the same
/// database (`DATABASE_URL`) share the work: each time fires on one of them. Files are read again before
/// each run. SIGTERM (or Ctrl-C) puts unfinished runs back into the queue; the next start resumes them.
///
/// The times of `cron` are local to `timezone`: one that daylight saving skips comes when the gap ends,
/// one that it repeats comes once.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Campaign files
    #[arg(value_name = "CAMPAIGN.yml", required = true)]
    pub campaigns: Vec<PathBuf>,

    /// Run what is due now, and end
    #[arg(long, env = "PATCHWRIGHT_ONCE")]
    pub once: bool,

    /// Make up for a time that was missed, if it is not longer ago; for several, once
    #[arg(long, env = "PATCHWRIGHT_CATCH_UP_FOR", value_name = "DURATION", default_value = "24h", value_parser = parse_duration)]
    pub catch_up_for: Duration,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let mut entries = Vec::new();
    let mut broken = 0;
    for path in &args.campaigns {
        let entry = match Entry::read(path.clone()) {
            Ok(entry) => entry,
            // The others are as good without it, as when it is broken later.
            Err(failure) if args.campaigns.len() > 1 => {
                ui.failure(&format!("`{}` is left out: {failure}", path.display()));
                broken += 1;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        if let Some(other) = entries.iter().find(|other: &&Entry| other.name == entry.name) {
            return Err(Failure::usage(format!(
                "`{}` and `{}` are both campaign `{}`",
                other.path.display(),
                entry.path.display(),
                entry.name
            ))
            .hint("give each campaign its own name"));
        }
        entries.push(entry);
    }
    if entries.is_empty() {
        return Err(Failure::usage("none of the campaign files can be used"));
    }
    let config = args.common.resolve()?;
    let fleet = Fleet::open(config, &args.common, env, ui).await?;
    let reach = TimeDelta::from_std(args.catch_up_for).unwrap_or(TimeDelta::days(36_500));
    let mut schedule = Schedule { fleet, entries, reach, once: args.once };
    if !args.once {
        return schedule.stay().await;
    }
    let code = schedule.once().await?;
    Ok(if broken > 0 { code.max(FailureKind::Usage.exit_code()) } else { code })
}

struct Schedule {
    fleet: Fleet,
    entries: Vec<Entry>,
    /// How far back missed times are made up for.
    reach: TimeDelta,
    once: bool,
}

/// A campaign file, and its current run, if any.
struct Entry {
    path: PathBuf,
    name: String,
    crontab: Crontab,
    /// The line and zone that `crontab` was read from.
    line: String,
    run: Option<JoinHandle<Result<u8>>>,
    /// The last complaint about the file or the database: it is made once.
    complaint: Option<String>,
}

/// Why a campaign is to be started now.
enum StartReason {
    /// The moment's name, and how late it is in milliseconds.
    Time(String, Millis),
    /// The last sign of life of its run.
    Interrupted(String),
}

impl Entry {
    fn read(path: PathBuf) -> Result<Entry> {
        let campaign = campaign::load(&path)?;
        let (crontab, line) = times(&campaign).map_err(|mut failure| {
            failure.message = format!("`{}`: {}", path.display(), failure.message);
            failure
        })?;
        Ok(Entry { name: campaign.name, path, crontab, line, run: None, complaint: None })
    }

    /// Reads the file again.
    fn refresh(&mut self, ui: Ui) -> Result<Campaign> {
        let campaign = campaign::load(&self.path)?;
        let (crontab, line) = times(&campaign)?;
        if line != self.line || campaign.name != self.name {
            (self.crontab, self.line, self.name) = (crontab, line, campaign.name.clone());
            ui.say(&format!("{}: the schedule was changed", self.name));
        }
        self.complaint = None;
        Ok(campaign)
    }

    /// Prints a complaint, unless it was the last one too.
    fn complain(&mut self, ui: Ui, failure: &Failure) {
        let text = format!("{}: {failure}", self.name);
        if self.complaint.as_ref() != Some(&text) {
            ui.failure(&text);
            self.complaint = Some(text);
        }
    }

    /// Its key in the store.
    fn key(&self) -> String {
        format!("campaign:{}", self.name)
    }

    fn running(&self) -> String {
        format!("schedule-running:{}", self.name)
    }
}

/// The times of a campaign, and a text that differs when they do.
fn times(campaign: &Campaign) -> Result<(Crontab, String)> {
    let Some(schedule) = &campaign.schedule else {
        return Err(Failure::usage(format!("campaign `{}` has no `schedule`", campaign.name))
            .hint("write for example `schedule: { cron: \"0 2 * * mon-fri\", timezone: Europe/Berlin }`"));
    };
    let crontab = Crontab::parse(&schedule.cron, schedule.timezone.as_deref())?;
    let line = format!("{} {}", schedule.cron.trim(), crontab.zone());
    Ok((crontab, line))
}

impl Schedule {
    /// Runs what is due; the exit code is the worst of its runs.
    async fn once(&mut self) -> Result<u8> {
        self.look().await;
        let mut worst = 0;
        let mut ran = false;
        for entry in &mut self.entries {
            if let Some(mut run) = entry.run.take() {
                let ended = loop {
                    tokio::select! {
                        ended = &mut run => break ended,
                        () = tokio::time::sleep(LOOK) => {
                            // A missed sign of life is repaired by the next one.
                            let _ = sign(&self.fleet, entry).await;
                        }
                    }
                };
                worst = worst.max(said(&self.fleet, &entry.name, ended));
                ran = true;
                let _ = settle(&self.fleet, entry).await;
            }
            if entry.complaint.is_some() {
                worst = worst.max(FailureKind::Usage.exit_code());
            }
        }
        if !ran {
            self.announce().await;
        }
        self.fleet.store.close().await;
        Ok(worst)
    }

    /// Stays until a signal, which puts unfinished runs back.
    async fn stay(&mut self) -> Result<u8> {
        signals::watch_serving();
        self.announce().await;
        let drain = self.fleet.drain.clone();
        while !drain.is_cancelled() {
            self.look().await;
            let wait = self.wait();
            tokio::select! {
                () = drain.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        self.fleet.ui.say("ending: unfinished runs are put back and resume at the next start");
        for entry in &mut self.entries {
            if let Some(run) = entry.run.take() {
                said(&self.fleet, &entry.name, run.await);
                // A time long ago counts as no sign of life, so the next start resumes the run.
                let sign = format!("{} 0", self.fleet.owner);
                let _ = self.fleet.store.set_value(&entry.running(), &sign).await;
            }
        }
        self.fleet.store.close().await;
        Ok(0)
    }

    /// Says when each campaign fires next.
    async fn announce(&self) {
        for entry in &self.entries {
            let next = next_time(&self.fleet, entry).await;
            self.fleet.ui.say(&format!("{}: next {next} ({})", entry.name, entry.line));
        }
    }

    /// Until the next moment, but not longer than the clock may be trusted.
    fn wait(&self) -> Duration {
        let now = self.fleet.clock.now();
        let next = self
            .entries
            .iter()
            .filter_map(|entry| entry.crontab.next_after(now))
            .map(|(at, _)| at)
            .min();
        let until = next.and_then(|next| (next - now).to_std().ok()).unwrap_or(LOOK);
        until.min(LOOK.mul_f64(self.fleet.env.time_scale())).max(Duration::from_millis(20))
    }

    /// Checks every entry; an error of one campaign does not affect the others.
    async fn look(&mut self) {
        for at in 0..self.entries.len() {
            let Some(entry) = self.entries.get_mut(at) else { continue };
            if let Err(failure) = look_at(&self.fleet, entry, self.reach, self.once).await {
                entry.complain(self.fleet.ui, &failure);
            }
        }
    }
}

async fn look_at(fleet: &Fleet, entry: &mut Entry, reach: TimeDelta, once: bool) -> Result<()> {
    let (store, ui) = (&fleet.store, fleet.ui);
    if entry.run.as_ref().is_some_and(JoinHandle::is_finished)
        && let Some(run) = entry.run.take()
    {
        said(fleet, &entry.name, run.await);
        settle(fleet, entry).await?;
        let next = next_time(fleet, entry).await;
        ui.say(&format!("{}: next {next}", entry.name));
    }
    if entry.run.is_some() {
        sign(fleet, entry).await?;
    }
    let campaign = entry.refresh(ui)?;
    let now = fleet.clock.now();
    let Some(due) = due(fleet, entry, now, reach, once).await? else { return Ok(()) };
    let elsewhere = match &due {
        StartReason::Time(..) => runs_elsewhere(fleet, entry).await?,
        StartReason::Interrupted(_) => false,
    };
    // `fire_once` inserts a row with a unique key, so only one of several machines wins.
    let is_ours = match &due {
        StartReason::Time(moment, _) => store.fire_once(&entry.key(), moment).await?,
        StartReason::Interrupted(sign) => {
            store.fire_once(&entry.running(), &format!("after {sign}")).await?
        }
    };
    if !is_ours {
        return Ok(());
    }
    if entry.run.is_some() || elsewhere {
        let place = if elsewhere { " (on another machine)" } else { "" };
        ui.say(&format!("{}: skipped, because its last run is still going{place}", entry.name));
        return Ok(());
    }
    match &due {
        StartReason::Time(moment, late) if *late > LATE => {
            let moment = moment.split(' ').next().unwrap_or_default().replace('T', " ");
            ui.say(&format!("{}: starting, for {moment}, which was missed", entry.name));
        }
        StartReason::Time(..) => ui.say(&format!("{}: starting", entry.name)),
        StartReason::Interrupted(_) => {
            ui.say(&format!("{}: resuming a run that was interrupted", entry.name));
        }
    }
    sign(fleet, entry).await?;
    let fleet = fleet.clone();
    let options = Options::default();
    entry.run = Some(tokio::spawn(async move { run_campaign(&fleet, campaign, &options).await }));
    Ok(())
}

/// When a campaign fires next, for people. Times that have been are left out: a clock may have been set back behind them.
async fn next_time(fleet: &Fleet, entry: &Entry) -> String {
    let last = fleet.store.last_fired(&entry.key()).await;
    let last = last.unwrap_or_else(|err| {
        tracing::debug!(%err, "the last time of a campaign cannot be read");
        None
    });
    let next = entry.crontab.next_to_fire(fleet.clock.now(), last.as_deref());
    next.map_or_else(|| "never".to_owned(), |moment| entry.crontab.local(moment))
}

/// What is due now.
async fn due(
    fleet: &Fleet,
    entry: &Entry,
    now: DateTime<Utc>,
    reach: TimeDelta,
    once: bool,
) -> Result<Option<StartReason>> {
    let store = &fleet.store;
    let floor = now.checked_sub_signed(reach).unwrap_or(DateTime::UNIX_EPOCH);
    let since = known_since(fleet, entry, now).await?;
    // `--once` also runs a schedule that it sees for the first time.
    let since = if once { floor } else { since.max(floor) };
    let last = store.last_fired(&entry.key()).await?;
    if let Some((moment, name)) = entry.crontab.due(since, now, last.as_deref()) {
        let late = (now - moment).num_milliseconds();
        return Ok(Some(StartReason::Time(name, late)));
    }
    if entry.run.is_some() {
        return Ok(None);
    }
    let sign = store.value(&entry.running()).await?.filter(|sign| !sign.is_empty());
    Ok(sign.filter(|sign| !is_alive(sign, now)).map(StartReason::Interrupted))
}

/// Since when this schedule has had its current line: times before that were not missed.
async fn known_since(fleet: &Fleet, entry: &Entry, now: DateTime<Utc>) -> Result<DateTime<Utc>> {
    let name = format!("schedule:{}", entry.name);
    let known = fleet.store.value(&name).await?;
    // An unreadable note counts as one of another line: the schedule counts from now.
    let since = known.as_deref().and_then(|known| {
        let (at, line) = known.split_once(' ')?;
        DateTime::from_timestamp_millis(at.parse().ok()?).filter(|_| line == entry.line)
    });
    if let Some(since) = since {
        return Ok(since.min(now));
    }
    fleet.store.set_value(&name, &format!("{} {}", now.timestamp_millis(), entry.line)).await?;
    Ok(now)
}

/// Writes a sign of life for the run of this process.
async fn sign(fleet: &Fleet, entry: &Entry) -> Result<()> {
    let sign = format!("{} {}", fleet.owner, fleet.clock.now().timestamp_millis());
    Ok(fleet.store.set_value(&entry.running(), &sign).await?)
}

/// Clears the sign of life, or marks the run as interrupted.
async fn settle(fleet: &Fleet, entry: &Entry) -> Result<()> {
    let interrupted = fleet.drain.is_cancelled();
    let sign = if interrupted { format!("{} 0", fleet.owner) } else { String::new() };
    Ok(fleet.store.set_value(&entry.running(), &sign).await?)
}

async fn runs_elsewhere(fleet: &Fleet, entry: &Entry) -> Result<bool> {
    let sign = fleet.store.value(&entry.running()).await?.filter(|sign| !sign.is_empty());
    let ours = |sign: &String| sign.rsplit_once(' ').is_some_and(|(owner, _)| owner == fleet.owner);
    Ok(sign.is_some_and(|sign| !ours(&sign) && is_alive(&sign, fleet.clock.now())))
}

/// A sign of life that is not old, nor of a time that is still to come. One that cannot be read is none:
/// the run is then resumed, under the locks that each of its repositories has.
fn is_alive(sign: &str, now: DateTime<Utc>) -> bool {
    let at: Option<Millis> = sign.rsplit_once(' ').and_then(|(_, at)| at.parse().ok());
    at.is_some_and(|at| now.timestamp_millis().abs_diff(at) < SILENCE.unsigned_abs())
}

/// Says how a run ended, and its exit code.
fn said(
    fleet: &Fleet,
    name: &str,
    ended: std::result::Result<Result<u8>, tokio::task::JoinError>,
) -> u8 {
    match ended {
        Ok(Ok(code)) => {
            fleet.ui.say(&format!("{name}: ended with {code}"));
            code
        }
        Ok(Err(failure)) => {
            fleet.ui.failure(&format!("{name}: {failure}"));
            failure.kind.exit_code()
        }
        Err(err) => {
            fleet.ui.failure(&format!("{name}: the run broke off: {err}"));
            1
        }
    }
}
