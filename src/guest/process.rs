//! Runs commands: process groups, time limits, output caps, and no survivors.

/// Every process that the guest started, and their descendants.
#[derive(Debug, Default)]
pub struct Processes {}
