//! The workspace as tools see it: the only way to make a path, and only inside.

/// The root folder of the workspace.
#[derive(Debug)]
pub struct Root {}
