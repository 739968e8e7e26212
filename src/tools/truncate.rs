//! tools/truncate
