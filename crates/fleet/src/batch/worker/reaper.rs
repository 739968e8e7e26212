//! Takes over from processes that have ended without a word: jobs whose leases nobody is going to use any more
//! need not wait until they run out.
//!
//! Only what is certain counts. A process is known to have ended when it was one of this machine; everybody
//! else's lease is waited for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::batch::fleet::{Fleet, has_ended};
use crate::store::{HeldLease, StoreResult};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);

/// When it was looked at last.
#[derive(Default)]
pub(super) struct DeadLeaseReaper {
    looked: Option<Instant>,
}

impl DeadLeaseReaper {
    /// Ends the leases of processes that have ended. Those of this process are left alone: it may have several
    /// workers, of which none knows what the others hold. Who works on one `campaign` only says nothing of the jobs of
    /// others, which are not run here.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub(super) async fn look(&mut self, fleet: &Fleet, campaign: Option<&str>) -> StoreResult<()> {
        let apart = LOOK.mul_f64(fleet.env.time_scale());
        if self.looked.is_some_and(|at| at.elapsed() < apart) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let mut others = BTreeMap::<String, Vec<HeldLease>>::new();
        for lease in fleet.store.held_leases().await? {
            if lease.owner != fleet.owner {
                others.entry(lease.owner.clone()).or_default().push(lease);
            }
        }
        others.retain(|owner, _| has_ended(owner));
        for (owner, leases) in others {
            let (host, pid) = host_and_pid(&owner);
            let why = format!("taken over from a process that ended (process {pid} of {host})");
            let is_told = |lease: &HeldLease| {
                campaign.is_none_or(|campaign| lease.campaign.as_deref() == Some(campaign))
            };
            let (told, untold): (Vec<_>, Vec<_>) = leases.into_iter().partition(is_told);
            fleet.store.end_leases(&untold, &why).await?;
            say(fleet, fleet.store.end_leases(&told, &why).await?, &why);
        }
        Ok(())
    }
}

fn say(fleet: &Fleet, count: usize, why: &str) {
    match count {
        0 => {}
        1 => fleet.ui.say(&format!("1 job is {why}")),
        count => fleet.ui.say(&format!("{count} jobs are {why}")),
    }
}

/// What a name says to people.
fn host_and_pid(owner: &str) -> (&str, &str) {
    let mut parts = owner.split('@').next().unwrap_or_default().split(':');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}
