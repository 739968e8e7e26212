//! provider/scripted
