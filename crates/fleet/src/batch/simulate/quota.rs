//! GitHub's primary limit: so many REST requests in an hour for each token.

use super::options::Options;
use patchwright_types::campaign::Millis;

const HOUR: Millis = 3_600_000;

#[derive(Clone, Copy, Default)]
struct Quota {
    /// When its hour began.
    since: Millis,
    used: u32,
    most: u32,
}

pub(super) struct Quotas {
    of: Vec<Quota>,
    per_hour: u32,
}

impl Quotas {
    pub(super) fn new(options: &Options) -> Quotas {
        let none = Quota { since: options.start(), ..Quota::default() };
        Quotas { of: vec![none; options.tokens], per_hour: options.requests_per_hour }
    }

    /// Takes so many requests of a token, or says in how many milliseconds there are some again.
    pub(super) fn take(&mut self, token: usize, count: u32, now: Millis) -> Result<(), Millis> {
        let Some(quota) = self.of.get_mut(token) else { return Ok(()) };
        if now - quota.since >= HOUR {
            quota.since = now - (now - quota.since) % HOUR;
            quota.used = 0;
        }
        if quota.used + count > self.per_hour {
            quota.used = self.per_hour;
            return Err(quota.since + HOUR - now);
        }
        quota.used += count;
        quota.most = quota.most.max(quota.used);
        Ok(())
    }

    /// The token that has the most left.
    pub(super) fn best(&self, now: Millis) -> usize {
        let used = |quota: &Quota| if now - quota.since >= HOUR { 0 } else { quota.used };
        let left = self.of.iter().enumerate().min_by_key(|(_, quota)| used(quota));
        left.map_or(0, |(token, _)| token)
    }

    /// When the first token has requests again, if none has any.
    pub(super) fn closed_until(&self, now: Millis) -> Option<Millis> {
        let ends = self.of.iter().map(|quota| {
            let is_used_up = quota.used >= self.per_hour && now - quota.since < HOUR;
            if is_used_up { quota.since + HOUR } else { now }
        });
        ends.min().filter(|at| *at > now)
    }

    /// The most that one token used in an hour.
    pub(super) fn most(&self) -> u32 {
        self.of.iter().map(|quota| quota.most).max().unwrap_or_default()
    }
}
