//! Our side of a connection: what a server may ask of us is declined, what it says on its own is counted.
//!
//! No capability is declared, so a server that follows the protocol asks for nothing. One that does gets
//! the protocol's own refusal: `decline` for elicitation, "method not found" for everything else but a
//! ping. There is nobody to ask, and a server gets no words of our model.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientResult, ElicitResult, ElicitationAction, ErrorCode,
    Implementation, ProtocolVersion, ServerNotification, ServerRequest,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient, Service};
use tokio_util::sync::CancellationToken;

use super::text;

/// Notifications between two of our requests after which a server is taken for broken.
const MAX_NOTIFICATIONS: u32 = 10_000;
/// Requests of a server between two of ours.
const MAX_REQUESTS: u32 = 32;
/// Longest line of a server's log that is passed on, in bytes.
const MAX_LOG: usize = 500;

/// What is noticed of a server besides its answers.
#[derive(Debug)]
pub(super) struct Watch {
    /// Its list of tools is not what it was when it was connected.
    pub(super) has_changed: AtomicBool,
    /// Its list of tools has changed, and was not asked for again since.
    pub(super) has_other_tools: AtomicBool,
    /// It was cut off because it said or asked too much.
    pub(super) has_flooded: AtomicBool,
    notifications: AtomicU32,
    requests: AtomicU32,
    connection: CancellationToken,
}

impl Watch {
    pub(super) fn new(connection: CancellationToken) -> Arc<Watch> {
        Arc::new(Watch {
            has_changed: AtomicBool::new(false),
            has_other_tools: AtomicBool::new(false),
            has_flooded: AtomicBool::new(false),
            notifications: AtomicU32::new(0),
            requests: AtomicU32::new(0),
            connection,
        })
    }

    /// Counts anew, because we ask for something.
    pub(super) fn reset(&self) {
        self.notifications.store(0, Ordering::Relaxed);
        self.requests.store(0, Ordering::Relaxed);
    }

    fn count(&self, counter: &AtomicU32, most: u32) {
        if counter.fetch_add(1, Ordering::Relaxed) >= most {
            self.has_flooded.store(true, Ordering::Relaxed);
            self.connection.cancel();
        }
    }
}

/// Answers a server.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) server: String,
    pub(super) watch: Arc<Watch>,
}

impl Service<RoleClient> for Handler {
    async fn handle_request(
        &self,
        request: ServerRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        if matches!(request, ServerRequest::PingRequest(_)) {
            // Many do it all the time to see whether we are there.
            self.watch.count(&self.watch.notifications, MAX_NOTIFICATIONS);
            return Ok(ClientResult::empty(()));
        }
        self.watch.count(&self.watch.requests, MAX_REQUESTS);
        if matches!(request, ServerRequest::ElicitRequest(_)) {
            return Ok(ClientResult::ElicitResult(ElicitResult::new(ElicitationAction::Decline)));
        }
        let why = "this client offers no capabilities to servers: nobody is asked, and there are \
                   neither roots nor a model to be sampled";
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None))
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        self.watch.count(&self.watch.notifications, MAX_NOTIFICATIONS);
        match notification {
            ServerNotification::ToolListChangedNotification(_) => {
                self.watch.has_changed.store(true, Ordering::Relaxed);
                self.watch.has_other_tools.store(true, Ordering::Relaxed);
            }
            #[expect(deprecated, reason = "servers of all revisions so far log in this way")]
            ServerNotification::LoggingMessageNotification(message) => {
                let said = text::line(&message.params.data.to_string(), MAX_LOG);
                tracing::debug!(server = self.server, said, "an MCP server logs");
            }
            _ => {}
        }
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("patchwright", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
