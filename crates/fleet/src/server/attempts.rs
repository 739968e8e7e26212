//! Guesses at the dashboard's token: after a few wrong ones an address has to wait.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Wrong tokens of an address within [`WINDOW`].
const MOST: u32 = 10;
const WINDOW: Duration = Duration::from_mins(1);
/// Addresses that are remembered; beyond that the oldest are forgotten.
const ADDRESSES: usize = 4096;

/// What was tried lately.
#[derive(Default)]
pub(super) struct Attempts(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl Attempts {
    /// The address has tried too often just now.
    pub(super) fn is_blocked(&self, address: IpAddr, now: Instant) -> bool {
        let tried = self.0.lock();
        tried.get(&network(address)).is_some_and(|(since, count)| {
            *count >= MOST && now.saturating_duration_since(*since) < WINDOW
        })
    }

    /// A wrong token came from there.
    pub(super) fn failed(&self, address: IpAddr, now: Instant) {
        let mut tried = self.0.lock();
        if tried.len() >= ADDRESSES {
            tried.retain(|_, (since, _)| now.saturating_duration_since(*since) < WINDOW);
        }
        if tried.len() >= ADDRESSES
            && let Some(oldest) = tried.iter().min_by_key(|(_, (since, _))| *since).map(|it| *it.0)
        {
            tried.remove(&oldest);
        }
        let entry = tried.entry(network(address)).or_insert((now, 0));
        if now.saturating_duration_since(entry.0) >= WINDOW {
            *entry = (now, 0);
        }
        entry.1 += 1;
    }
}

/// Whoever has an IPv6 address has all of its /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use crate::server::attempts::{ADDRESSES, Attempts, MOST, WINDOW};
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Instant;

    #[test]
    fn an_address_that_guesses_waits_and_others_do_not() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let [one, same, other]: [IpAddr; 3] =
            ["2001:db8::1", "2001:db8::2", "192.0.2.1"].map(|it| it.parse().unwrap());
        for _ in 0..MOST {
            assert!(!attempts.is_blocked(one, now));
            attempts.failed(one, now);
        }
        assert!(attempts.is_blocked(one, now) && attempts.is_blocked(same, now));
        assert!(!attempts.is_blocked(other, now));
        assert!(!attempts.is_blocked(one, now + WINDOW));
        for number in 0..u32::try_from(2 * ADDRESSES).unwrap() {
            attempts.failed(IpAddr::V4(Ipv4Addr::from_bits(number)), now);
        }
        assert!(attempts.0.lock().len() <= ADDRESSES);
    }
}
