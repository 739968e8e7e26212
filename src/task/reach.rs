//! What a run may reach, and what it has reached.

use std::sync::Arc;

use super::run::Run;
use crate::config::Mode;
use crate::egress::Egress;
use crate::egress::ledger::HostUse;
use crate::error::Result;

impl Run<'_> {
    /// The way to the allowed hosts, the same for all of the run; made when it is first asked for, which
    /// must be after the repository's configuration has been laid over. A review has none: what it runs
    /// may come from strangers.
    ///
    /// # Errors
    /// For the user: a host that cannot be allowed.
    pub fn egress(&self) -> Result<Option<Arc<Egress>>> {
        if let Some(egress) = self.egress.get() {
            return Ok(egress.clone());
        }
        let hosts = match self.config.mode {
            Mode::Review => &[],
            Mode::Execute | Mode::Plan => self.config.allow_hosts.as_slice(),
        };
        let egress = Egress::new(hosts)?;
        Ok(self.egress.get_or_init(|| egress).clone())
    }

    /// The way to the hosts of setup, when they are a list.
    pub(super) fn setup_egress(&self) -> Result<Option<Arc<Egress>>> {
        match self.config.setup_hosts.as_slice() {
            [all] if all == "*" => Ok(None),
            hosts => Egress::new(hosts),
        }
    }

    /// What was reached so far.
    pub(super) fn reached(&self) -> Vec<HostUse> {
        let egress = self.egress.get().and_then(Option::as_ref);
        egress.map(|egress| egress.used()).unwrap_or_default()
    }
}
