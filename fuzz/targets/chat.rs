//! Bytes from anywhere into the decoder of this wire.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patchwright_provider::item::Wire;

fuzz_target!(|data: &[u8]| patchwright_fuzz::streams::check(Wire::Chat, data));
