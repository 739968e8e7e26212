//! report/job_summary
