//! agent/doom_loop
