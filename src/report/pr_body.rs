//! report/pr_body
