//! The program that runs inside the sandbox.

fn main() {}
