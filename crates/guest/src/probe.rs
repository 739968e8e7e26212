//! Whether a connection to an address comes about: asked by a host that has to know that a sandbox reaches nothing.

use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

/// How long a connection may take. What is refused or dropped does not come about.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Those of these addresses (`192.0.2.1:443`, `[2001:db8::1]:443`) that answer, asked all at once. Names are not
/// looked up, and what is no address is left out.
pub fn answering(addresses: &[&str]) -> Vec<String> {
    let asked = addresses.iter().filter_map(|address| {
        let at: SocketAddr = address.parse().ok()?;
        let asking = thread::spawn(move || TcpStream::connect_timeout(&at, TIMEOUT).is_ok());
        Some(((*address).to_owned(), asking))
    });
    // All are on their way before the first one is waited for.
    let asked: Vec<_> = asked.collect();
    let answers = asked.into_iter().filter_map(|(address, asking)| {
        asking.join().is_ok_and(|answered| answered).then_some(address)
    });
    answers.collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use crate::probe::answering;

    #[test]
    fn names_what_answers_and_nothing_else() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap().to_string();
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = other.local_addr().unwrap().to_string();
        drop(other);
        assert_eq!(answering(&[&closed, &open, "localhost:1", "", "1.2.3.4"]), [open]);
    }
}
