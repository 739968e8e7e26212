//! The tracking issue of a campaign, kept up to date.
