//! provider/http
