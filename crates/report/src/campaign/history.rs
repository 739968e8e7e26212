//! What happened in a campaign, as its page needs it: in memory that does not grow with the number of
//! events, of which a campaign of a thousand repositories has many thousands.

use std::collections::{BTreeMap, VecDeque};

use patchwright_base::text;
use patchwright_types::campaign::{CampaignView, Event, Millis, TargetState};

/// Events that the page lists.
pub const NEWEST: usize = 60;

/// Bytes of one answer that are shown.
const LONGEST_ANSWER: usize = 16 << 10;

/// Bytes of all answers; of those beyond it only the beginning is shown.
const ANSWERS: usize = 32 << 20;
const BEGINNING: usize = 600;

/// Moments that are told apart; with more of them, those that are close together become one.
const MOMENTS: usize = 4_096;

/// How many targets came to an end at one moment, and how many failed; less than nothing when some were
/// tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) settled: i64,
    pub(super) failed: i64,
}

/// Changes by their time, which is rounded down to a multiple of the resolution.
#[derive(Clone, Debug)]
struct Changes {
    by_time: BTreeMap<Millis, Change>,
    resolution: Millis,
}

impl Changes {
    fn add(&mut self, at: Millis, change: Change) {
        if change == Change::default() {
            return;
        }
        self.put(at, change);
        while self.by_time.len() > MOMENTS {
            self.resolution = self.resolution.saturating_mul(2);
            for (at, change) in std::mem::take(&mut self.by_time) {
                self.put(at, change);
            }
        }
    }

    fn put(&mut self, at: Millis, change: Change) {
        // Rounding the least time down would overflow.
        let at = at.div_euclid(self.resolution).saturating_mul(self.resolution);
        let sum = self.by_time.entry(at).or_default();
        sum.settled += change.settled;
        sum.failed += change.failed;
    }
}

/// The events of a campaign, summed up.
#[derive(Clone, Debug)]
pub struct History {
    newest: VecDeque<Event>,
    /// The state of each target of the view by its last event; `None` before the first.
    states: BTreeMap<i64, Option<TargetState>>,
    changes: Changes,
    answers: BTreeMap<i64, String>,
    answer_bytes: usize,
}

impl History {
    /// Nothing has happened yet. Only what happens to the view's targets is summed up.
    pub fn new(view: &CampaignView) -> History {
        History {
            newest: VecDeque::new(),
            states: view.targets.iter().map(|target| (target.id, None)).collect(),
            changes: Changes { by_time: BTreeMap::new(), resolution: 1 },
            answers: BTreeMap::new(),
            answer_bytes: 0,
        }
    }

    /// All of these events, the oldest first.
    pub fn of(view: &CampaignView, events: &[Event]) -> History {
        let mut history = History::new(view);
        for event in events {
            history.happened(event.clone());
            let Some(target) = event.target else { continue };
            if let Some(state) = TargetState::parse(&event.kind) {
                history.changed(target, event.at, state);
            }
            if let (true, Some(text)) = (event.kind == "answer", &event.text) {
                history.answered(target, text);
            }
        }
        history
    }

    /// An event, newer than those before it. It is listed, and nothing else.
    pub fn happened(&mut self, event: Event) {
        self.newest.push_back(event);
        if self.newest.len() > NEWEST {
            self.newest.pop_front();
        }
    }

    /// A target got this state, later than what was said of it before.
    pub fn changed(&mut self, target: i64, at: Millis, state: TargetState) {
        let Some(before) = self.states.get_mut(&target) else { return };
        let before = before.replace(state);
        self.changes.add(at, difference(before, state));
    }

    /// What was answered in mode `report`; the last answer of a target counts.
    pub fn answered(&mut self, target: i64, answer: &str) {
        if let Some(older) = self.answers.remove(&target) {
            self.answer_bytes -= older.len();
        }
        let room = if self.answer_bytes < ANSWERS { LONGEST_ANSWER } else { BEGINNING };
        let answer = text::head(answer, room);
        self.answer_bytes += answer.len();
        self.answers.insert(target, answer);
    }

    /// The newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = &Event> {
        self.newest.iter().rev()
    }

    pub(super) fn answer(&self, target: i64) -> Option<&str> {
        self.answers.get(&target).map(String::as_str)
    }

    /// What changed when, the oldest first. Events may have been left out, or removed since; the rows of
    /// the view are right, so each target ends as its row says.
    pub(super) fn changes(&self, view: &CampaignView) -> Vec<(Millis, Change)> {
        let mut all = self.changes.clone();
        for target in &view.targets {
            let known = self.states.get(&target.id).copied().flatten();
            if known != Some(target.state) {
                let at = target.worked_until().unwrap_or(target.updated_at);
                all.add(at, difference(known, target.state));
            }
        }
        all.by_time.into_iter().collect()
    }
}

fn difference(before: Option<TargetState>, now: TargetState) -> Change {
    let settled = |state: TargetState| i64::from(state.is_settled());
    let failed = |state: TargetState| i64::from(state == TargetState::Failed);
    Change {
        settled: settled(now) - before.map_or(0, settled),
        failed: failed(now) - before.map_or(0, failed),
    }
}

#[cfg(test)]
mod tests {
    use super::{History, MOMENTS, NEWEST};
    use patchwright_types::campaign::{CampaignRow, CampaignView, Event, TargetState};

    fn empty() -> CampaignView {
        let [id, name, hash, spec] = ["c-1", "c", "1", "{}"].map(str::to_owned);
        let campaign = CampaignRow::started(id, name, hash, spec);
        let (targets, outages, interrupted) = Default::default();
        CampaignView { campaign, targets, outages, interrupted, now: 0 }
    }

    #[test]
    fn memory_does_not_grow_with_events() {
        let mut history = History::new(&empty());
        history.states.insert(7, None);
        for at in 0..100_000 {
            let state = if at % 2 == 0 { TargetState::Failed } else { TargetState::Queued };
            history.changed(7, at * 1_000, state);
            history.changed(8, at * 1_000, state);
            history.happened(Event {
                id: at,
                at,
                campaign: "c-1".to_owned(),
                target: None,
                repository: None,
                kind: "wave".to_owned(),
                text: None,
            });
        }
        assert!(history.changes.by_time.len() <= MOMENTS);
        let sum: i64 = history.changes.by_time.values().map(|change| change.failed).sum();
        assert_eq!(sum, 0, "it was queued last, and nothing is counted of what is not in the view");
        assert_eq!(history.newest().count(), NEWEST);
        assert_eq!(history.newest().next().map(|event| event.id), Some(99_999));
    }

    #[test]
    fn many_long_answers_are_cut() {
        let mut history = History::new(&empty());
        for target in 0..10_000 {
            history.answered(target, &"x".repeat(20_000));
            history.answered(target, &"y".repeat(20_000));
        }
        let bytes: usize = history.answers.values().map(String::len).sum();
        assert!(bytes < 48 << 20, "{bytes}");
        assert_eq!(bytes, history.answer_bytes);
        assert!(history.answer(9_999).is_some_and(|answer| answer.starts_with("yyy")));
    }
}
