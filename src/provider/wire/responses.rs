//! provider/wire/responses
