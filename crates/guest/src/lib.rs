//! The wire between host and container.
//!
//! One `patchwright-guest` process per sandbox serves every tool call over its standard input and
//! output in length-prefixed frames ([`protocol`]). [`serve`] is the guest's side, [`client`] the
//! host's. Everything that comes from the guest is untrusted: the client bounds sizes, counts and
//! times, and [`collected`] parses what comes out as hostile.
//!
//! In the guest, [`process`] runs commands, each under a [`launch`]er that leaves no survivors
//! ([`descendants`]), forked by a `fork_server`, and within bounds of [`output`], with errors `apart` where they have a
//! field of their own, in a shell that stays (`resident`), or in a session
//! ([`session`]) that goes on after its call, with a `terminal` where one is asked for; `keeper` knows who
//! runs, `memory` whether there was enough of it, and [`programs`] which programs of ours commands find ([`rg`] is one), `usual_names` under which names those of the image. What is too long to be shown is
//! kept in files ([`spill`]). [`transfer`] unpacks the tree and [`collect`]
//! finds what changed, less what was there before (`leftover`); [`checkpoint`] finds what changed since it was asked last; [`folder`] opens, and [`removal`] removes, without following a link; [`script`] runs
//! scripts of the model; [`probe`] asks what can be reached, and [`confinement`] what walls there are; [`room`] watches how much there is; [`confine`] takes rights away and reports in terms of [`enforced`] which, and [`view`] is
//! the file system that is left of the machine's in the local sandbox.

mod apart;
mod background;
pub mod block;
pub mod checkpoint;
pub mod collect;
mod compiled;
pub mod confine;
pub mod confinement;
pub mod control_group;
pub mod descendants;
pub mod edit_format;
pub mod enforced;
pub mod environment;
mod flow;
pub mod folder;
mod fork_server;
mod generated;
mod git_index;
pub mod git_pattern;
mod keeper;
pub mod launch;
pub mod leftover;
pub mod look;
mod loopback;
mod memory;
mod moved;
mod no_editor;
mod oom_score;
pub mod output;
pub mod patch;
pub mod paths;
mod pipe;
mod private;
pub mod probe;
pub mod process;
pub mod programs;
pub mod protocol;
pub mod purge;
pub mod quota;
mod read_only;
mod relay;
pub mod removal;
pub mod resident;
pub mod rg;
pub mod script;
pub mod seccomp;
pub mod selection;
pub mod serve;
pub mod session;
pub mod sessions;
pub mod spill;
pub mod survey;
mod terminal;
pub mod tool;
pub mod tools;
pub mod transfer;
mod upload;
mod usual_names;
pub mod view;
pub mod wanted;
