//! Streamable HTTP: a real server, one that loses its sessions, and headers with secrets.
