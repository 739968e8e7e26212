//! Which parts of a matrix have come. Each database says which part was run in it, and how much every part had to do,
//! so that whoever brings them together knows of those that are not there.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::batch::fleet::Fleet;
use crate::batch::plan::{self, MOST_SHARDS, PlannedTarget};
use crate::batch::scope::Shard;
use crate::store::{Store, StoreResult};
use patchwright_types::campaign::Millis;

/// What a database says of the parts that were run in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PartsRecord {
    /// How many parts there are.
    of: usize,
    /// Those that were run here, from 1.
    parts: BTreeSet<usize>,
    /// When the first of them looked at the repositories.
    at: Millis,
    /// How many repositories each part had to work on by then.
    work: Vec<usize>,
}

impl PartsRecord {
    /// A record that could have been made by [`keep`].
    fn parse(text: &str) -> Option<PartsRecord> {
        let record: PartsRecord = serde_json::from_str(text).ok()?;
        let is_sound = (1..=MOST_SHARDS).contains(&record.of) && record.work.len() == record.of;
        is_sound.then_some(record)
    }
}

fn name(campaign: &str) -> String {
    format!("parts:{campaign}")
}

/// How many of these repositories each part has to work on.
pub(super) fn work_of(shard: Shard, targets: &[PlannedTarget]) -> Vec<usize> {
    let mut work = vec![0; shard.of()];
    for one in targets.iter().filter(|one| one.is_work()) {
        let part = plan::shard_of(&one.repository, shard.of());
        if let Some(count) = work.get_mut(part - 1) {
            *count += 1;
        }
    }
    work
}

/// Writes down that this part has begun, in its database.
pub(super) async fn keep(
    fleet: &Fleet,
    campaign: &str,
    shard: Shard,
    work: Vec<usize>,
) -> StoreResult<()> {
    let (store, name) = (&fleet.store, name(campaign));
    let before = store.value(&name).await?;
    let before = before.as_deref().and_then(PartsRecord::parse);
    let new = PartsRecord { of: shard.of(), parts: BTreeSet::new(), at: store.now().await?, work };
    // Another part in the same database belongs to the same night; the same part again is another one.
    let is_same =
        |before: &PartsRecord| before.of == shard.of() && !before.parts.contains(&shard.number());
    let mut record = before.filter(is_same).unwrap_or(new);
    record.parts.insert(shard.number());
    let text = serde_json::to_string(&record).unwrap_or_default();
    store.set_value(&name, &text).await
}

/// What the databases say that were brought together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownParts(Vec<PartsRecord>);

impl KnownParts {
    /// Adds what one database says. One without a word about parts has the whole campaign, or never began.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn look(&mut self, campaign: &str, other: &Store) -> StoreResult<()> {
        let said = other.value(&name(campaign)).await?;
        self.0.extend(said.as_deref().and_then(PartsRecord::parse));
        Ok(())
    }

    /// The parts that had something to do and did not come.
    pub fn lost(&self) -> LostParts {
        // Of several matrices the newest, and of its parts the one that looked first: what one has seen later may
        // be work for the next night.
        let Some(of) = self.0.iter().max_by_key(|record| record.at).map(|record| record.of) else {
            return LostParts::default();
        };
        let all = || self.0.iter().filter(|record| record.of == of);
        let came: BTreeSet<usize> = all().flat_map(|record| record.parts.iter().copied()).collect();
        let work = all().min_by_key(|record| record.at).map(|record| record.work.as_slice());
        let numbers = work.unwrap_or_default().iter().zip(1..);
        let lost = numbers.filter(|(work, part)| **work > 0 && !came.contains(part));
        LostParts { of, numbers: lost.map(|(_, part)| part).collect() }
    }
}

/// Parts of a matrix of which there is no database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostParts {
    /// How many parts there are.
    of: usize,
    /// From 1.
    numbers: BTreeSet<usize>,
}

impl LostParts {
    /// Every part came that had something to do.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// A repository belongs to one of them.
    pub(super) fn has(&self, repository: &str) -> bool {
        self.numbers.contains(&plan::shard_of(repository, self.of))
    }

    /// Which they are, for people.
    pub(super) fn words(&self) -> String {
        let names: Vec<String> =
            self.numbers.iter().map(|number| format!("{number}/{}", self.of)).collect();
        match &names[..] {
            [one] => format!("part {one} is not among the databases, or never began"),
            all => format!("parts {} are not among the databases, or never began", all.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::batch::drive::parts::{KnownParts, PartsRecord};

    fn record(parts: &[usize], at: i64, work: &[usize]) -> PartsRecord {
        let parts = parts.iter().copied().collect();
        PartsRecord { of: work.len(), parts, at, work: work.to_vec() }
    }

    #[test]
    fn a_part_is_lost_that_had_work_and_did_not_come() {
        let lost = |records: &[PartsRecord]| KnownParts(records.to_vec()).lost().numbers;
        let (first, third) = (record(&[1], 5, &[2, 1, 1, 0]), record(&[3], 9, &[2, 1, 1, 7]));
        assert_eq!(
            lost(&[third.clone(), first.clone()]),
            [2].into(),
            "4 had nothing to do at first"
        );
        assert_eq!(lost(&[first.clone(), third, record(&[2], 7, &[2, 1, 1, 0])]), [].into());
        assert_eq!(lost(&[first, record(&[1, 2], 99, &[1, 1])]), [].into(), "another matrix");
        assert_eq!(lost(&[]), [].into());
    }

    #[test]
    fn what_a_database_says_of_parts_is_bounded() {
        let text = |of: usize| format!(r#"{{"of":{of},"parts":[1],"at":0,"work":[1,1]}}"#);
        assert!(PartsRecord::parse(&text(2)).is_some());
        assert_eq!([0, 3, 1_000_000].map(|of| PartsRecord::parse(&text(of))), [None, None, None]);
    }
}
