//! Which addresses are on the public network. Everything else belongs to the machine, its neighbours or
//! its cloud. Source: the IANA registries of special-purpose IPv4 and IPv6 addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks of IPv4 that are not public, with the length of their prefix.
const SPECIAL_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // What clouds call their metadata service, among others.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 3),
    // The platform service of Azure, at a public address.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// Networks within `2000::/3` that are not public.
const SPECIAL_V6: &[(Ipv6Addr, u32)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4, which has an IPv4 address inside and no use any more.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Networks whose last 32 bits are an IPv4 address: mapped ones, and NAT64.
const EMBEDDING: &[Ipv6Addr] =
    &[Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0)];

/// Whether an address is one of the public network.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !SPECIAL_V4.iter().any(|(network, length)| {
        let shift = 32 - length;
        bits.checked_shr(shift) == network.to_bits().checked_shr(shift)
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let bits = address.to_bits();
    if EMBEDDING.iter().any(|network| bits >> 32 == network.to_bits() >> 32) {
        #[expect(clippy::cast_possible_truncation, reason = "the last 32 bits are meant")]
        return is_public_v4(Ipv4Addr::from_bits(bits as u32));
    }
    let is_global = bits >> 125 == 1;
    is_global
        && !SPECIAL_V6.iter().any(|(network, length)| {
            let shift = 128 - length;
            bits >> shift == network.to_bits() >> shift
        })
}
