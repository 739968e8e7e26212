//! The guest that this program carries, as `build.rs` built and compressed it.
//!
//! A crate of its own, because it is optimised in every profile: all of the decoder is inlined into whoever calls it, so
//! that an unoptimised caller takes fifty times as long, for each sandbox.

/// One LZ4 block.
const COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/patchwright-guest.lz4"));

/// Tells [`guest_binary`] from the guests of other builds: 16 hexadecimal digits.
pub const GUEST_VERSION: &str = env!("GUEST_VERSION");

/// How many bytes [`guest_binary`] returns.
pub const GUEST_SIZE: usize = match usize::from_str_radix(env!("GUEST_SIZE"), 10) {
    Ok(size) => size,
    Err(_) => panic!("`build.rs` writes a number"),
};

/// The static program that runs inside of the sandbox. It is unpacked at each call and not kept: a container gets it
/// once, and it would be a good part of this process's memory.
pub fn guest_binary() -> Vec<u8> {
    lz4_flex::block::decompress(COMPRESSED, GUEST_SIZE).expect("`build.rs` compressed it")
}

#[cfg(test)]
mod tests {
    use super::{GUEST_SIZE, guest_binary};

    #[test]
    fn the_embedded_guest_is_a_program_of_the_size_that_was_built() {
        let guest = guest_binary();
        assert_eq!(guest.len(), GUEST_SIZE);
        assert!(guest.starts_with(b"\x7fELF"));
    }
}
