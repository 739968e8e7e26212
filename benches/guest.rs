//! Round trips, commands and transfers through the real guest.

fn main() {}
