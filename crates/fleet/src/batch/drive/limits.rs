//! What a part of a campaign may spend, and how many runs it may have at once. Parts with a database each know nothing
//! of each other, and each with the whole of a limit would use it once more.

use super::{CampaignObserver, reserve};
use crate::batch::campaign::Campaign;
use crate::batch::fleet::Fleet;
use crate::store::StoreError;
use patchwright_base::error::Result;

/// How much of the work is a part's, in repositories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShardWeight {
    pub(super) ours: usize,
    pub(super) all: usize,
}

/// The campaign with this part's share of its limits. In a database that several parts use, all that they do is
/// known, and the limits hold as they are.
pub(super) async fn of_part(
    fleet: &Fleet,
    campaign: Campaign,
    weight: ShardWeight,
    watch: &mut dyn CampaignObserver,
) -> Result<Campaign> {
    let store = &fleet.store;
    let Some(shard) = fleet.scope.shard.filter(|_| store.is_file()) else { return Ok(campaign) };
    let (name, word) = (format!("part:{}", campaign.id()), shard.to_string());
    let before = store.value(&name).await?;
    let before = before.as_deref().and_then(ShardBudget::parse);
    if before.is_some_and(|before| before.shard != word) {
        let several = ShardBudget { shard: "several", budget: 0.0, part: 0.0 };
        store.set_value(&name, &several.text()).await?;
        return Ok(campaign);
    }
    let budget = campaign.limits.budget_usd;
    let spent = spent(fleet, &campaign).await?;
    // Once for each database: a part that is run again goes on with what it has.
    let same = before.filter(|before| budget.is_none_or(|budget| before.is_of(budget)));
    let part =
        same.map_or_else(|| share(budget.unwrap_or_default(), spent, weight), |same| same.part);
    let reckoned = ShardBudget { shard: &word, budget: budget.unwrap_or_default(), part };
    store.set_value(&name, &reckoned.text()).await?;
    let mut campaign = campaign;
    let limits = &mut campaign.limits;
    limits.concurrency = limits.concurrency.map(|limit| shard.share_of(limit));
    limits.per_organization = limits.per_organization.map(|limit| shard.share_of(limit));
    limits.budget_usd = budget.map(|_| part);
    if let Some(budget) = budget {
        let most = reserve(fleet, &campaign);
        let has_room = part - spent + 1e-6 >= most || weight.ours == 0;
        let most = (!has_room).then_some(most);
        watch.say(&words(&word, (part - spent, budget - spent, budget), most));
    }
    Ok(campaign)
}

/// What the campaign has spent, as far as this database knows.
async fn spent(fleet: &Fleet, campaign: &Campaign) -> Result<f64> {
    match fleet.store.campaign(&campaign.id()).await {
        Ok(row) => Ok(row.spent_usd),
        Err(StoreError::NotFound(_)) => Ok(0.0),
        Err(err) => Err(err.into()),
    }
}

/// What a part is told of its money; `most` is what a run may cost when there is no room for one.
fn words(shard: &str, (part, left, budget): (f64, f64, f64), most: Option<f64>) -> String {
    let room = most.map(|most| {
        format!(
            ", which is too little for a run: one may cost ${most:.2}; raise `limits.budget-usd`, lower \
             `agent.max-cost-usd`, or take fewer parts"
        )
    });
    let (part, left) = (part.max(0.0), left.max(0.0));
    format!(
        "part {shard} may spend ${part:.2} of the ${left:.2} that are left of the budget of ${budget:.2}{}",
        room.unwrap_or_default()
    )
}

/// What the part may have spent in the end, with what was spent before.
#[expect(clippy::cast_precision_loss, reason = "counts of repositories")]
fn share(budget: f64, spent: f64, ShardWeight { ours, all }: ShardWeight) -> f64 {
    let share = ours as f64 / all.max(1) as f64;
    spent + (budget - spent).max(0.0) * share
}

/// What was reckoned for the database.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ShardBudget<'a> {
    /// The part as it was asked for.
    shard: &'a str,
    /// Of the whole campaign.
    budget: f64,
    part: f64,
}

impl<'a> ShardBudget<'a> {
    fn parse(text: &'a str) -> Option<ShardBudget<'a>> {
        let mut words = text.split(' ');
        let shard = words.next()?;
        let budget = words.next()?.parse().ok()?;
        let part = words.next()?.parse().ok()?;
        Some(ShardBudget { shard, budget, part })
    }

    fn is_of(&self, budget: f64) -> bool {
        (self.budget - budget).abs() < 1e-9
    }

    fn text(&self) -> String {
        let ShardBudget { shard, budget, part } = self;
        format!("{shard} {budget} {part}")
    }
}

#[cfg(test)]
mod tests {
    use crate::batch::drive::limits::{ShardBudget, ShardWeight, share};

    #[test]
    fn parts_share_what_is_left_by_their_work() {
        let of = |ours| share(10.0, 2.0, ShardWeight { ours, all: 4 });
        assert!((of(1) - 4.0).abs() < 1e-9, "2 are spent, and a quarter of 8 is this part's");
        let new: f64 = [1, 2, 1].map(|ours| of(ours) - 2.0).iter().sum();
        assert!((new - 8.0).abs() < 1e-9, "all parts together spend what is left");
        assert!((share(10.0, 12.0, ShardWeight { ours: 1, all: 4 }) - 12.0).abs() < 1e-9);
        assert!((share(10.0, 2.0, ShardWeight::default()) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn what_was_reckoned_is_read_again() {
        let reckoned = ShardBudget { shard: "2/8", budget: 10.0, part: 1.25 };
        assert_eq!(ShardBudget::parse(&reckoned.text()), Some(reckoned));
        assert_eq!(ShardBudget::parse("2/8 x 1"), None);
    }
}
