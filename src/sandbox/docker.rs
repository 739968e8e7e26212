//! sandbox/docker
