//! The network interfaces of this process, of which commands of the local sandbox get the loopback alone. In a
//! namespace that was just made it is down, and has no address before it is up.
//!
//! Source of the messages: `rtnetlink(7)` and `netlink(7)`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// From which port on nobody needs rights to listen, in this network namespace. Docker's containers have 0.
const FIRST_FREE_PORT: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// Flags of an interface.
const UP: u32 = 1;
const LOOPBACK: u32 = 8;

/// Bytes of a message's header, and of what follows it here.
const HEADER: usize = 16;
const LENGTH: u32 = 32;

/// Makes the loopback usable. Needs the rights that come with the namespace.
pub(super) fn raise() -> Result<(), String> {
    set_up().map_err(|err| format!("cannot set up the loopback: {err}"))?;
    // Where `/proc/sys` is read-only, as in most containers, small ports stay closed.
    let _ = fs_err::write(FIRST_FREE_PORT, "0");
    Ok(())
}

/// Whether an interface besides the loopback is up. Some kernels give each namespace their tunnels, which are down and
/// stay so without rights.
pub(super) fn others_are_up() -> io::Result<bool> {
    let socket = ask(RTM_GETLINK, REQUEST | DUMP, 0, 0)?;
    let mut part = vec![0_u8; 64 << 10];
    loop {
        let (count, _) = rustix::net::recv(&socket, &mut part[..], RecvFlags::empty())?;
        match others_in(part.get(..count).unwrap_or_default())? {
            Listed::Up => return Ok(true),
            Listed::Done => return Ok(false),
            Listed::More => {}
        }
    }
}

/// Sets the flag of the loopback that says that it is up, which gives it its addresses too.
fn set_up() -> io::Result<()> {
    // The loopback is the first interface of every namespace.
    let socket = ask(RTM_NEWLINK, REQUEST | ACK, 1, UP)?;
    let mut answer = [0_u8; 64];
    let (count, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    refusal(answer.get(..count).unwrap_or_default())
}

/// Sends a request about an interface. `flags` are those to set.
fn ask(kind: u16, request: u16, interface: i32, flags: u32) -> io::Result<OwnedFd> {
    let mut message = Vec::with_capacity(LENGTH as usize);
    // Header: length, type, flags, sequence, sender.
    message.extend(LENGTH.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(request.to_ne_bytes());
    message.extend([0; 8]);
    // Interface: family and padding, type, index, flags, which to change.
    message.extend([0; 4]);
    message.extend(interface.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // Protocol 0 is `NETLINK_ROUTE`.
        None,
    )?;
    rustix::net::send(&socket, &message, SendFlags::empty())?;
    Ok(socket)
}

/// What one part of the list of interfaces says.
#[derive(Debug, PartialEq, Eq)]
enum Listed {
    /// Something besides the loopback is up.
    Up,
    /// Nothing is, and the list is at its end.
    Done,
    /// Nothing is so far.
    More,
}

fn others_in(mut part: &[u8]) -> io::Result<Listed> {
    while !part.is_empty() {
        let length = number(part, 0)? as usize;
        let (message, rest) = part.split_at_checked(length.max(HEADER)).ok_or_else(unreadable)?;
        match (number(message, 4)? & 0xffff) as u16 {
            NLMSG_DONE => return Ok(Listed::Done),
            NLMSG_ERROR => refusal(message)?,
            RTM_NEWLINK => {
                let flags = number(message, HEADER + 8)?;
                if flags & UP != 0 && flags & LOOPBACK == 0 {
                    return Ok(Listed::Up);
                }
            }
            _ => {}
        }
        // Messages begin at multiples of four bytes.
        part = rest.get(length.next_multiple_of(4) - length..).unwrap_or_default();
    }
    Ok(Listed::More)
}

/// The first word behind an answer's header is an error number, negative, or 0.
fn refusal(answer: &[u8]) -> io::Result<()> {
    match number(answer, HEADER)?.cast_signed() {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
    }
}

fn number(bytes: &[u8], at: usize) -> io::Result<u32> {
    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk()).ok_or_else(unreadable)?;
    Ok(u32::from_ne_bytes(*word))
}

fn unreadable() -> io::Error {
    io::Error::other("an answer that cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u32, attributes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(32 + attributes.len()).unwrap();
        let mut bytes =
            [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[2, 0], &[0; 16]].concat();
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(attributes);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_tunnel_that_is_down_is_no_network() {
        let lo = message(RTM_NEWLINK, UP | LOOPBACK, b"\x07\0\x03\0lo\0");
        let down = message(RTM_NEWLINK, 0x80, b"\x09\0\x03\0sit0\0");
        let up = message(RTM_NEWLINK, UP, b"\x09\0\x03\0eth0\0");
        let done = message(NLMSG_DONE, 0, b"");
        let read = |parts: &[&[u8]]| others_in(&parts.concat()).unwrap();
        assert_eq!(read(&[&lo, &down]), Listed::More);
        assert_eq!(read(&[&lo, &down, &done]), Listed::Done);
        assert_eq!(read(&[&down, &lo, &up]), Listed::Up);
        // Cut off in the middle, or shorter than a header.
        assert!(others_in(&lo[..20]).is_err());
        assert!(others_in(&[1, 0, 0]).is_err());
        assert!(others_in(&[0; 16]).is_ok());
    }

    #[test]
    fn the_kernel_answers() {
        let names = fs_err::read_to_string("/proc/self/net/dev").unwrap();
        let has_others = names.lines().skip(2).any(|line| !line.trim().starts_with("lo:"));
        // What is up is there.
        assert!(has_others || !others_are_up().unwrap());
    }
}
