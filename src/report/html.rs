//! report/html
