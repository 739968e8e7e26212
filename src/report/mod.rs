//! Every word that people read on the forge. Pure functions from data to text.

pub mod html;
pub mod job_summary;
pub mod pr_body;
pub mod progress;
