//! A service does not take our token or key. Whatever needs it fails until somebody puts that right, so deliveries
//! wait for it, and whoever watches this process is told.

use super::Outages;
use patchwright_base::error::Service;

impl Outages {
    /// A service refused our credential; said once, until it takes one.
    pub fn refuses_our_credential(&self, service: Service) {
        if self.known.lock().refused.insert(service) {
            self.ui.failure(&format!(
                "{} does not take the credential of this process; deliveries that need it wait until it does",
                service.name()
            ));
        }
    }

    /// It did something for us.
    pub fn takes_our_credential(&self, service: Service) {
        if self.known.lock().refused.remove(&service) {
            self.ui.say(&format!("{} takes the credential of this process again", service.name()));
        }
    }

    /// What does not take our credential, as far as is known.
    pub fn refused(&self) -> Option<Service> {
        self.known.lock().refused.first().copied()
    }
}
