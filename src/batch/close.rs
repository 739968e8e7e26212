//! Ends a campaign: open pull requests of ours are closed with a word, their branches removed, queued work cancelled.
