//! Looking names up: a few at a time, each for a time. A look-up cannot be stopped once the system works
//! on it, so it keeps its place until it really ends; names that stall stand in their own way, and not in
//! that of the threads that all runs share.

use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout as within;

/// Look-ups of one run at the same time.
const AT_ONCE: usize = 16;

/// How long a look-up may wait for its turn.
const TURN: Duration = Duration::from_secs(20);

/// Addresses of a name that are looked at.
const MAX_ADDRESSES: usize = 64;

/// Asks for the addresses of a name, and blocks until there is an answer.
type Ask = fn(&str) -> io::Result<Vec<IpAddr>>;

/// The way to ask for names.
pub(super) struct Names {
    turns: Arc<Semaphore>,
    ask: Ask,
    turn: Duration,
}

/// Why a name has no addresses.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// It was never asked for.
    Busy,
    /// Nobody answered in time.
    Silent,
    /// What the system says.
    Failed(String),
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::Busy => f.write_str("too many other names are being looked up"),
            Unknown::Silent => f.write_str("no answer in time"),
            Unknown::Failed(why) => f.write_str(why),
        }
    }
}

impl Default for Names {
    /// As the system does it.
    fn default() -> Names {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        Names {
            turns,
            ask: |name| Ok((name, 0).to_socket_addrs()?.map(|it| it.ip()).collect()),
            turn: TURN,
        }
    }
}

impl Names {
    /// The addresses of a name, one at least. `wait` is for the answer; the wait for a turn comes before.
    pub(super) async fn look_up(&self, name: &str, wait: Duration) -> Result<Vec<IpAddr>, Unknown> {
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        let turn = within(self.turn, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(Unknown::Busy) };
        let (ask, asked) = (self.ask, name.to_owned());
        let asking = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            ask(&asked)
        });
        let answered = within(wait, asking).await.map_err(|_| Unknown::Silent)?;
        let answered = answered.map_err(|_| Unknown::Failed("the look-up broke off".to_owned()))?;
        let mut found = answered.map_err(|err| Unknown::Failed(err.to_string()))?;
        found.truncate(MAX_ADDRESSES);
        if found.is_empty() {
            return Err(Unknown::Failed("it has no address".to_owned()));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use crate::egress::names::*;
    use parking_lot::{Mutex, MutexGuard};
    use std::net::Ipv4Addr;

    /// Look-ups of names that begin with `stalled` wait for it.
    static HELD: Mutex<()> = Mutex::new(());

    fn held() -> MutexGuard<'static, ()> {
        HELD.lock()
    }

    fn ask(name: &str) -> io::Result<Vec<IpAddr>> {
        if name.starts_with("stalled") {
            drop(held());
        }
        match name {
            "missing" => Err(io::Error::other("no such name")),
            "empty" => Ok(Vec::new()),
            _ => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST); 100]),
        }
    }

    fn names(turn: Duration) -> Names {
        Names { ask, turn, ..Names::default() }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn names_that_stall_stand_in_their_own_way_only() {
        let wait = Duration::from_millis(20);
        let long = Duration::from_mins(5);
        let stalled = {
            // Held by a thread: the guard must not be kept over a wait.
            let (release, released) = std::sync::mpsc::channel::<()>();
            let (hold, held_by) = std::sync::mpsc::channel();
            let holder = std::thread::spawn(move || {
                let _held = held();
                hold.send(()).unwrap();
                let _ = released.recv();
            });
            held_by.recv().unwrap();
            (release, holder)
        };
        let names = names(wait);
        for number in 0..AT_ONCE {
            let found = names.look_up(&format!("stalled-{number}"), wait).await;
            assert_eq!(found, Err(Unknown::Silent));
        }
        // Nobody waits for these any more, but the system still works on them.
        assert_eq!(names.turns.available_permits(), 0);
        assert_eq!(names.look_up("free", wait).await, Err(Unknown::Busy));
        assert_eq!(names.look_up("127.0.0.1", wait).await.unwrap().len(), 1);
        // Another run is not in it.
        assert_eq!(self::names(long).look_up("free", long).await.unwrap().len(), MAX_ADDRESSES);
        drop(stalled.0);
        stalled.1.join().unwrap();
        let names = Names { turn: long, ..names };
        assert_eq!(names.look_up("free", long).await.unwrap().len(), MAX_ADDRESSES);
    }

    #[tokio::test]
    async fn names_without_an_address_are_told_from_each_other() {
        let long = Duration::from_mins(5);
        let names = names(long);
        let why = |what: &str| Err(Unknown::Failed(what.to_owned()));
        assert_eq!(names.look_up("missing", long).await, why("no such name"));
        assert_eq!(names.look_up("empty", long).await, why("it has no address"));
    }
}
