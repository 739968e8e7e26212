//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod support;

mod agent; // the agent loop with a scripted model and the real guest
mod catalogue; // what users write after `--model`, and what a model costs
mod endpoints; // endpoints that are hostile or absent
mod file_tools; // read_file, list_dir, grep_files on a real folder
mod guest; // commands through the real guest: results, limits, survivors, confinement
mod guest_hostile; // guests that lie to the client
mod guest_local; // the local sandbox: what its commands can and cannot reach
mod guest_transfer; // the tree into the guest and the changes out of it
mod journal; // the journal file: what is written, what is read back, and bad disks
mod patches; // the apply_patch format, its hosted dialect, and the workspace boundary
mod prompts; // texts for models: every template renders, the first request is small
mod providers; // models over HTTP: the fault table, and whole conversations
mod reliability; // `docs/reliability.md` names tests that exist
mod requests; // the protocols without a network: requests to bodies
mod scripted; // scripted models, and replies from a journal
mod stops; // budgets, failures and crashes of the agent loop
mod tools_cli; // `patchwright tools`: declarations as sent
mod wires; // the protocols without a network: streams to replies
