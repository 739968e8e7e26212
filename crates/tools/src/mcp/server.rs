//! A configured server: asked one thing at a time or many, started again when it has ended, and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rmcp::ServiceError;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, JsonObject, ReadResourceRequestParams,
    ReadResourceResult, Resource, ResourceTemplate, Tool,
};
use tokio::sync::Mutex;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::call_failures::CallFailures;
use super::connection::{ConnectError, Connection, Transport};
use super::handler::Watch;
use super::tool_list::{Listed, list_tools, page};
use super::{fault, oversized, text};
use patchwright_guest::tool::ToolError;

/// How often a server that has ended is started again in a run.
const MAX_RESTARTS: u32 = 3;
/// Rounds of a call in which a server asks for more before it answers. We have nothing to give.
const MAX_ROUNDS: usize = 3;
/// Longest explanation of an error, in bytes.
const MAX_WHY: usize = 2_000;
/// How long a server that let a call run out of time may take to show that it lives.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// A server of the configuration.
pub struct Server {
    name: String,
    way: Transport,
    start_limit: Duration,
    call_limit: Duration,
    state: Mutex<State>,
    calls: AtomicU32,
    failures: CallFailures,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    restarts: u32,
    is_over: bool,
}

impl Server {
    /// Connects for the first time.
    pub(super) async fn start(
        name: &str,
        way: Transport,
        start_limit: Duration,
        call_limit: Duration,
    ) -> Result<Server, ConnectError> {
        let connection = Connection::open(name, &way, start_limit).await?;
        let state = State { connection: Some(Arc::new(connection)), restarts: 0, is_over: false };
        Ok(Server {
            name: name.to_owned(),
            way,
            start_limit,
            call_limit,
            state: Mutex::new(state),
            calls: AtomicU32::new(0),
            failures: CallFailures::default(),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// It runs in the sandbox, so that all it can change is the workspace.
    pub fn is_inside(&self) -> bool {
        matches!(self.way, Transport::Sandbox { .. })
    }

    /// What it says of itself and its tools, where it is connected and says something.
    pub async fn instructions(&self) -> Option<String> {
        self.state.lock().await.connection.as_ref()?.instructions()
    }

    /// Where it is, for people.
    pub fn place(&self) -> &str {
        match &self.way {
            Transport::Sandbox { .. } => "in the sandbox",
            Transport::Http { url, .. } => url,
        }
    }

    /// Why there is no token for it, where it wants one.
    pub(super) fn trouble(&self) -> Option<String> {
        match &self.way {
            Transport::Http { client, .. } => client.tokens.as_ref()?.trouble(),
            Transport::Sandbox { .. } => None,
        }
    }

    /// What its token did not suffice for.
    pub(super) fn lacking(&self) -> Option<String> {
        match &self.way {
            Transport::Http { client, .. } => client.tokens.as_ref()?.lacking(),
            Transport::Sandbox { .. } => None,
        }
    }

    /// How long an answer may take.
    pub(super) fn call_limit(&self) -> Duration {
        self.call_limit
    }

    /// How often it was asked for something by the model.
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The calls of the model that came to nothing.
    pub(super) fn failures(&self) -> &CallFailures {
        &self.failures
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// For the model: what came instead of a result, and what to do.
    pub async fn call(&self, tool: &str, args: JsonObject) -> Result<CallToolResult, ToolError> {
        let connection = self.asked().await?;
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(args);
        let asking = connection.service.call_tool_with_mrtr_max_rounds(params, MAX_ROUNDS);
        let answer = timeout(self.call_limit, asking).await;
        if let Ok(Err(ServiceError::McpError(_))) = &answer
            && connection.watch.has_changed.load(Ordering::Relaxed)
            && !self.still_has(&connection, tool).await
        {
            let words = self.words();
            return Err(ToolError::tell(format!(
                "{words} no longer has this tool; go on without it"
            )));
        }
        self.answered(connection, answer).await
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// As [`Server::call`].
    pub async fn read(&self, uri: &str) -> Result<ReadResourceResult, ToolError> {
        let connection = self.asked().await?;
        let params = ReadResourceRequestParams::new(uri);
        let asking = connection.service.read_resource_with_mrtr_max_rounds(params, MAX_ROUNDS);
        let answer = timeout(self.call_limit, asking).await;
        self.answered(connection, answer).await
    }

    /// A page of its resources, and the cursor of the next.
    ///
    /// # Errors
    /// As [`Server::call`].
    pub async fn resources(
        &self,
        cursor: Option<String>,
    ) -> Result<(Vec<Resource>, Option<String>), ToolError> {
        let connection = self.asked().await?;
        if connection.capabilities().resources.is_none() {
            return Ok((Vec::new(), None));
        }
        let asking = connection.service.peer().list_resources(Some(page(cursor)));
        let answer = timeout(self.call_limit, asking).await;
        let result = self.answered(connection, answer).await?;
        Ok((result.resources, result.next_cursor))
    }

    /// A page of its templates of resources, and the cursor of the next.
    ///
    /// # Errors
    /// As [`Server::call`].
    pub async fn templates(
        &self,
        cursor: Option<String>,
    ) -> Result<(Vec<ResourceTemplate>, Option<String>), ToolError> {
        let connection = self.asked().await?;
        if connection.capabilities().resources.is_none() {
            return Ok((Vec::new(), None));
        }
        let asking = connection.service.peer().list_resource_templates(Some(page(cursor)));
        let answer = timeout(self.call_limit, asking).await;
        let result = self.answered(connection, answer).await?;
        Ok((result.resource_templates, result.next_cursor))
    }

    /// All its tools, within the limit of its start.
    ///
    /// # Errors
    /// In words, why they are not known.
    pub(super) async fn tools(&self) -> Result<Listed<Tool>, String> {
        let connection = self.connection().await.map_err(|err| err.to_string())?;
        let listing = list_tools(&connection);
        let listed = timeout(self.start_limit, listing).await;
        let listed = listed.map_err(|_| "it did not list its tools in time".to_owned())?;
        listed.map_err(|err| format!("it did not list its tools: {}", fault::why(&err)))
    }

    /// It has resources, or templates of them, as far as it says so in time.
    pub(super) async fn has_resources(&self) -> bool {
        let Ok(connection) = self.connection().await else { return false };
        if connection.capabilities().resources.is_none() {
            return false;
        }
        let peer = connection.service.peer();
        let looking = async {
            let some = peer.list_resources(Some(page(None))).await;
            if some.is_ok_and(|list| !list.resources.is_empty()) {
                return true;
            }
            let some = peer.list_resource_templates(Some(page(None))).await;
            some.is_ok_and(|list| !list.resource_templates.is_empty())
        };
        timeout(self.start_limit, looking).await.unwrap_or(false)
    }

    /// It has said that its tools are not what they were, or was started again.
    pub(super) fn has_other_tools(&self) -> bool {
        self.watched(|watch| watch.has_other_tools.load(Ordering::Relaxed))
    }

    /// Whether its tools are not what they were, asked once: what it has said until now counts as answered.
    pub(super) fn takes_other_tools(&self) -> bool {
        self.watched(|watch| watch.has_other_tools.swap(false, Ordering::Relaxed))
    }

    /// Nothing while the connection is being made.
    fn watched(&self, ask: impl Fn(&Watch) -> bool) -> bool {
        let state = self.state.try_lock();
        state.is_ok_and(|state| state.connection.as_ref().is_some_and(|it| ask(&it.watch)))
    }

    /// Ends it for good.
    pub(super) async fn close(&self) {
        let mut state = self.state.lock().await;
        state.is_over = true;
        if let Some(connection) = state.connection.take() {
            end(connection).await;
        }
    }

    /// The connection for something that the model asks for.
    async fn asked(&self) -> Result<Arc<Connection>, ToolError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let connection = self.connection().await;
        let connection = connection.inspect_err(|_| self.failures.note("it has ended"))?;
        connection.watch.reset();
        Ok(connection)
    }

    /// The connection, made anew when it has ended.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, ToolError> {
        let mut state = self.state.lock().await;
        let tell = |why: String| ToolError::Tell(why);
        match state.connection.take() {
            Some(connection) if !connection.is_closed() => {
                state.connection = Some(Arc::clone(&connection));
                return Ok(connection);
            }
            Some(ended) => {
                end(ended).await;
            }
            None => {}
        }
        if state.is_over || state.restarts >= MAX_RESTARTS {
            let words = self.words();
            return Err(tell(format!(
                "{words} has ended and is not started again; go on without it"
            )));
        }
        state.restarts += 1;
        let opened = Connection::open(&self.name, &self.way, self.start_limit).await;
        let connection = opened
            .map_err(|trouble| tell(format!("{} has ended, and again: {trouble}", self.words())))?;
        // A fresh server may offer something else.
        connection.watch.has_other_tools.store(true, Ordering::Relaxed);
        let connection = Arc::new(connection);
        state.connection = Some(Arc::clone(&connection));
        Ok(connection)
    }

    async fn still_has(&self, connection: &Connection, tool: &str) -> bool {
        let listed = timeout(self.call_limit, list_tools(connection)).await;
        let Ok(Ok(listed)) = listed else { return true };
        listed.items.iter().any(|it| it.name == tool)
    }

    /// The answer, or what came instead of one.
    async fn answered<T>(
        &self,
        connection: Arc<Connection>,
        answer: Result<Result<T, ServiceError>, Elapsed>,
    ) -> Result<T, ToolError> {
        match answer {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(ServiceError::McpError(error))) => Err(ToolError::tell(self.refused(&error))),
            Ok(Err(err)) => Err(self.failed(connection, &err).await),
            Err(_) => Err(self.too_slow(connection).await),
        }
    }

    fn refused(&self, error: &rmcp::ErrorData) -> String {
        if oversized::is_it(error) {
            let (words, most) = (self.words(), oversized::MAX_MESSAGE >> 20);
            return format!(
                "{words} answered with a message of more than {most} MB, of which nothing is read. What was asked for \
                 was done. Ask for less at once: for a part, a page, or a file that it writes."
            );
        }
        let why = text::bounded(&error.message, MAX_WHY);
        let data = error.data.as_ref().map(|data| text::bounded(&data.to_string(), MAX_WHY));
        let data = data.map(|data| format!("\n{data}")).unwrap_or_default();
        let code = error.code.0;
        text::marked(&self.name, &format!("refused (code {code}): {why}{data}"))
    }

    /// Asked in vain: says why, and ends what cannot be asked any more.
    async fn failed(&self, connection: Arc<Connection>, err: &ServiceError) -> ToolError {
        let words = self.words();
        // What is written into the streams of a server in the sandbox is only lost when it is.
        let is_gone = match err {
            ServiceError::TransportClosed => true,
            ServiceError::TransportSend(_) => self.is_inside() || connection.is_closed(),
            _ => connection.is_closed(),
        };
        if let (false, Transport::Http { url, .. }, ServiceError::TransportSend(err)) =
            (is_gone, &self.way, err)
            && fault::is_http(err)
        {
            let host = url.split("://").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next());
            let (host, why) = (host.unwrap_or_default(), fault::of_transport(err));
            self.failures.note(&why);
            return ToolError::tell(format!(
                "{words} at `{host}` gave no usable answer: {why}. What it did until then is not known. \
                 Call it again where that may help, otherwise go on without it."
            ));
        }
        self.failures.note(if is_gone { "it ended" } else { "it gave no usable answer" });
        if !is_gone {
            let why = text::marked(&self.name, &text::bounded(&fault::why(err), MAX_WHY));
            return ToolError::tell(format!("{words} gave no usable answer:\n{why}"));
        }
        let how = text::marked(&self.name, &self.give_up(connection).await);
        ToolError::tell(format!(
            "{words} ended during the call:\n{how}\nWhat it did until then is not known. It is started \
             again with the next call."
        ))
    }

    /// A call took too long and was cancelled. A server in the sandbox that does not answer at all
    /// any more is ended, so that the next call finds a fresh one.
    async fn too_slow(&self, connection: Arc<Connection>) -> ToolError {
        let (words, limit) = (self.words(), self.call_limit.as_secs_f64());
        self.failures.note(&format!("it did not answer within {limit} s"));
        let lives = timeout(SIGN_OF_LIFE, connection.service.peer().list_tools(None)).await;
        if self.is_inside() && lives.is_err() {
            self.give_up(connection).await;
            return ToolError::tell(format!(
                "{words} did not answer within {limit} s and gives no sign of life, so it was ended. It is \
                 started again with the next call."
            ));
        }
        ToolError::tell(format!(
            "{words} did not answer within {limit} s, and the call was cancelled. What it did until then \
             is not known."
        ))
    }

    /// Takes a connection out of use; how it ended, in words.
    async fn give_up(&self, connection: Arc<Connection>) -> String {
        connection.service.cancellation_token().cancel();
        let mut state = self.state.lock().await;
        if state.connection.as_ref().is_some_and(|it| Arc::ptr_eq(it, &connection)) {
            state.connection = None;
        }
        end(connection).await
    }

    fn words(&self) -> String {
        format!("the MCP server `{}`", text::line(&self.name, 64).replace('`', "'"))
    }
}

/// Closes a connection. Whoever else still waits on it is told that it has ended.
async fn end(connection: Arc<Connection>) -> String {
    connection.service.cancellation_token().cancel();
    match Arc::try_unwrap(connection) {
        Ok(connection) => connection.close().await,
        Err(_) => "the connection ended".to_owned(),
    }
}
