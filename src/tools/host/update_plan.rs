//! tools/host/update_plan
