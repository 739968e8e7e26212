//! Bytes from anywhere into what is checked of this parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| patchwright_fuzz::hand_overs::check(data));
