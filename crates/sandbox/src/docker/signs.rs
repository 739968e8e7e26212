//! What is known of the owners of leftovers, and what follows from it. An owner lives for certain while its lock is
//! held or its heartbeat is fresh. Without either it has ended, or is far away and stands still. [`super::sweep`]
//! asks the engine about the rest.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::models::Volume;

use super::CALL;
use super::api::bounded;
use super::heartbeat::{HEARTBEAT, HeartbeatTiming};
use super::owner::{EndedOwner, LIFETIME, LabeledOwner, OWNER, Owner, named, now};

/// How old a container of an earlier version, whose process cannot be judged, has to be, and how long it has to
/// have stood still: longer than any step of a live run in which no guest runs.
const QUIET: Duration = Duration::from_mins(30);

/// What is known of all owners at one moment.
pub(super) struct Signs<'a> {
    own: &'a Owner,
    /// The engine's clock, in seconds since 1970.
    pub(super) now: u64,
    /// The last heartbeat of each owner.
    beats: HashMap<String, LastHeartbeat>,
    /// Owners whose locks are free.
    pub(super) ended: HashMap<String, EndedOwner>,
}

/// When an owner showed that it lives, and for how many seconds that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastHeartbeat {
    at: u64,
    counts: u64,
}

/// What is known of the owner of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    Foreign,
    Lives,
    /// Its lock, which was taken elsewhere, is free or its process gone, and it beat a moment ago, or is of a version without heartbeats.
    JustEnded,
    /// Its lock is free, and was taken on this machine or its last beat counts no more. What its guests do says nothing:
    /// some engines keep them alive without the stream that they had.
    Ended,
    /// Nothing says how it is, and its last beat, if there is one, counts no more.
    Silent {
        last: Option<LastHeartbeat>,
    },
    /// It was made by an earlier version, which has no heartbeat, and on another machine.
    Unknown {
        deadline: u64,
    },
}

impl<'a> Signs<'a> {
    pub(super) async fn read(docker: &Docker, own: &'a Owner, volumes: &[Volume]) -> Signs<'a> {
        let mut beats: HashMap<String, LastHeartbeat> = HashMap::new();
        for volume in volumes {
            let (Some((owner, counts)), Some(at)) = (heartbeat(volume), created(volume)) else {
                continue;
            };
            let known = beats.entry(owner.to_owned()).or_insert(LastHeartbeat { at, counts });
            if known.at < at {
                *known = LastHeartbeat { at, counts };
            }
        }
        let time =
            bounded("info", CALL, docker.info()).await.ok().and_then(|info| info.system_time);
        let now = time.and_then(|time| seconds(&time)).unwrap_or_else(now);
        Signs { own, now, beats, ended: own.ended() }
    }

    pub(super) fn standing(&self, labels: &HashMap<String, String>) -> OwnerState {
        match named(labels) {
            LabeledOwner::Nobody => OwnerState::Foreign,
            LabeledOwner::Owner(id) => self.owner(&id),
            LabeledOwner::Process { identity, deadline } => {
                match identity.and_then(|identity| identity.is_alive()) {
                    Some(true) => OwnerState::Lives,
                    Some(false) => OwnerState::JustEnded,
                    None => OwnerState::Unknown { deadline },
                }
            }
        }
    }

    pub(super) fn owner(&self, id: &str) -> OwnerState {
        if id == self.own.id() || self.own.holds_lock(id) {
            return OwnerState::Lives;
        }
        let last = self.beats.get(id).copied();
        // A clock that was put back makes no owner eternal.
        let is_fresh = last.is_some_and(|beat| self.now.abs_diff(beat.at) <= beat.counts);
        match self.ended.get(id) {
            Some(ended) if is_fresh && !ended.was_here => OwnerState::JustEnded,
            Some(_) => OwnerState::Ended,
            None if is_fresh => OwnerState::Lives,
            None => OwnerState::Silent { last },
        }
    }
}

/// What a general sweep does about something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    Remove,
    /// Remove it when no guest runs in it: it may be about to end.
    Ending,
    /// Remove it when no guest runs in it, and none does a moment later.
    Abandoned,
}

/// How long ago something was made and, where it was a container, stopped: in seconds, by the engine's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ages {
    pub(super) made: u64,
    pub(super) stopped: Option<u64>,
}

pub(super) fn verdict(standing: OwnerState, ages: Ages, now: u64) -> Verdict {
    match standing {
        OwnerState::Foreign | OwnerState::Lives => Verdict::Keep,
        OwnerState::Ended => Verdict::Remove,
        OwnerState::JustEnded => Verdict::Ending,
        OwnerState::Silent { last } => {
            let counts =
                last.map_or(HeartbeatTiming::default().counts.as_secs(), |beat| beat.counts);
            let silence = last.map_or(ages.made, |beat| now.abs_diff(beat.at).min(ages.made));
            match silence {
                // Somebody may have pruned the heartbeat: the next one comes.
                _ if ages.made <= counts => Verdict::Keep,
                _ if silence > LIFETIME.as_secs() => Verdict::Remove,
                _ => Verdict::Abandoned,
            }
        }
        OwnerState::Unknown { deadline } => {
            if is_quiet(deadline, ages) {
                Verdict::Abandoned
            } else {
                Verdict::Keep
            }
        }
    }
}

/// Whether something of an earlier version has stood still for long enough.
fn is_quiet(deadline: u64, ages: Ages) -> bool {
    let quiet = QUIET.as_secs();
    let is_still = ages.stopped.is_none_or(|stopped| stopped > quiet);
    deadline < now() || (ages.made > quiet && is_still)
}

/// Seconds since 1970 of an engine's words.
pub(super) fn seconds(time: &str) -> Option<u64> {
    let time = chrono::DateTime::parse_from_rfc3339(time).ok()?;
    u64::try_from(time.timestamp()).ok()
}

pub(super) fn created(volume: &Volume) -> Option<u64> {
    seconds(volume.created_at.as_deref()?)
}

/// The owner whose heartbeat a volume is, and for how many seconds it counts: a day at most.
pub(super) fn heartbeat(volume: &Volume) -> Option<(&str, u64)> {
    let counts = volume.labels.get(HEARTBEAT)?.parse::<u64>().ok()?;
    Some((volume.labels.get(OWNER)?, counts.min(LIFETIME.as_secs())))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::docker::owner::labels;
    use crate::docker::signs::*;
    use patchwright_base::process::ProcessIdentity;

    const NOW: u64 = 1_800_000_000;
    const MINUTE: u64 = 60;
    const DAY: u64 = 24 * 3_600;

    fn signs<'a>(own: &'a Owner, beats: &[(&str, u64)], ended: &[(&str, bool)]) -> Signs<'a> {
        let beat = |at| LastHeartbeat { at, counts: 5 * MINUTE };
        let lock = |was_here| EndedOwner { lock: PathBuf::new(), was_here };
        Signs {
            own,
            now: NOW,
            beats: beats.iter().map(|&(owner, at)| (owner.to_owned(), beat(at))).collect(),
            ended: ended
                .iter()
                .map(|&(owner, was_here)| (owner.to_owned(), lock(was_here)))
                .collect(),
        }
    }

    #[test]
    fn judges_owners_by_heartbeat_and_lock() {
        let own = Owner::new(HeartbeatTiming::default());
        let other = "0123456789abcdef0123456789abcdef";
        let silent =
            |at| OwnerState::Silent { last: Some(LastHeartbeat { at, counts: 5 * MINUTE }) };
        let (here, elsewhere) = (Some(true), Some(false));
        for (beat, ended, expected) in [
            (Some(NOW - MINUTE), None, OwnerState::Lives),
            (Some(NOW - MINUTE), here, OwnerState::Ended),
            (Some(NOW - MINUTE), elsewhere, OwnerState::JustEnded),
            (Some(NOW - 6 * MINUTE), None, silent(NOW - 6 * MINUTE)),
            (Some(NOW - 6 * MINUTE), here, OwnerState::Ended),
            (Some(NOW - 6 * MINUTE), elsewhere, OwnerState::Ended),
            // The engine's clock was put back.
            (Some(NOW + MINUTE), None, OwnerState::Lives),
            (Some(NOW + DAY), None, silent(NOW + DAY)),
            (None, None, OwnerState::Silent { last: None }),
            (None, here, OwnerState::Ended),
            (None, elsewhere, OwnerState::Ended),
        ] {
            let beats: Vec<(&str, u64)> = beat.into_iter().map(|at| (other, at)).collect();
            let ended: Vec<(&str, bool)> = ended.into_iter().map(|here| (other, here)).collect();
            let signs = signs(&own, &beats, &ended);
            let standing = signs.standing(&labels("r1", "agent", other));
            assert_eq!(standing, expected, "{beat:?} {ended:?}");
        }
        let signs = signs(&own, &[], &[]);
        assert_eq!(signs.standing(&labels("r1", "agent", own.id())), OwnerState::Lives);
        assert_eq!(signs.standing(&HashMap::new()), OwnerState::Foreign);
    }

    #[test]
    fn judges_processes_of_earlier_versions_where_they_can_be_seen() {
        let own = Owner::new(HeartbeatTiming::default());
        let signs = signs(&own, &[], &[]);
        let here = ProcessIdentity::own().unwrap();
        let gone = ProcessIdentity { start: here.start + 1, ..here.clone() };
        let mut elsewhere = gone.clone();
        elsewhere.space.namespace = "pid:[1]".to_owned();
        for (process, expected) in [(&here, OwnerState::Lives), (&gone, OwnerState::JustEnded)] {
            assert_eq!(signs.standing(&labels("r1", "agent", &process.to_string())), expected);
        }
        let standing = signs.standing(&labels("r1", "agent", &elsewhere.to_string()));
        assert!(matches!(standing, OwnerState::Unknown { .. }), "{standing:?}");
    }

    #[test]
    fn what_is_done_follows_from_the_owner_and_the_age() {
        let silent = |ago| OwnerState::Silent {
            last: Some(LastHeartbeat { at: NOW - ago, counts: 5 * MINUTE }),
        };
        let unknown = |deadline| OwnerState::Unknown { deadline };
        let (future, hour) = (now() + DAY, 3_600);
        for (standing, made, stopped, expected) in [
            (OwnerState::Foreign, DAY * 9, None, Verdict::Keep),
            (OwnerState::Lives, DAY * 9, None, Verdict::Keep),
            (OwnerState::JustEnded, 0, None, Verdict::Ending),
            (OwnerState::Ended, 0, None, Verdict::Remove),
            (silent(6 * MINUTE), MINUTE, None, Verdict::Keep),
            (silent(6 * MINUTE), 10 * MINUTE, None, Verdict::Abandoned),
            (silent(2 * DAY), 3 * DAY, None, Verdict::Remove),
            (OwnerState::Silent { last: None }, MINUTE, None, Verdict::Keep),
            (OwnerState::Silent { last: None }, hour, None, Verdict::Abandoned),
            (OwnerState::Silent { last: None }, 2 * DAY, None, Verdict::Remove),
            (unknown(future), 10, None, Verdict::Keep),
            (unknown(future), hour, None, Verdict::Abandoned),
            (unknown(future), hour, Some(10), Verdict::Keep),
            (unknown(future), hour, Some(hour), Verdict::Abandoned),
            (unknown(future), 10, Some(hour), Verdict::Keep),
            (unknown(1), 10, Some(10), Verdict::Abandoned),
        ] {
            let ages = Ages { made, stopped };
            assert_eq!(verdict(standing, ages, NOW), expected, "{standing:?} {ages:?}");
        }
    }
}
