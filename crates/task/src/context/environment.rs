//! `<environment_context>`: where the model is and what it may do there. Goes in front of the task.

use std::fmt::Write as _;
use std::time::Duration;

/// The facts, as they are enforced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// The workspace as commands see it.
    pub cwd: String,
    pub shell: String,
    /// Today, `2026-11-20`.
    pub date: String,
    /// Hosts that commands can reach; none means no network.
    pub allowed_hosts: Vec<String>,
    /// Places that commands may write to; none means that nothing may be changed.
    pub writable: Vec<String>,
    /// What the sandbox is, in a few words.
    pub sandbox: String,
    /// What is left of the run's time.
    pub time_budget: Duration,
    /// The commands by which the change will be judged.
    pub checks: Vec<String>,
}

/// The block for the model. Values are escaped; the same facts give the same bytes.
pub fn render(environment: &Environment) -> String {
    let mut out = String::from("<environment_context>\n");
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(out, "  <{name}>{}</{name}>", escape(value));
    };
    row("cwd", &environment.cwd);
    row("approval_policy", "never");
    if environment.writable.is_empty() {
        row("sandbox_mode", "read-only");
    } else {
        row("sandbox_mode", "workspace-write");
        row("writable", &environment.writable.join(", "));
    }
    row("sandbox", &environment.sandbox);
    if environment.allowed_hosts.is_empty() {
        row("network_access", "none");
    } else {
        row("network_access", &format!("only {}", environment.allowed_hosts.join(", ")));
    }
    row("shell", &environment.shell);
    row("current_date", &environment.date);
    let minutes = environment.time_budget.as_secs().div_ceil(60);
    row("time_budget", &format!("{minutes} minutes"));
    for check in &environment.checks {
        row("check_command", check);
    }
    out.push_str("</environment_context>");
    out
}

fn escape(value: &str) -> String {
    let value: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
