//! What a server lists: page by page, up to a bound, and tool by tool where one of them is malformed.

use std::collections::BTreeSet;

use rmcp::ServiceError;
use rmcp::model::{
    ClientRequest, JsonObject, ListToolsRequest, ListToolsResult, PaginatedRequestParams,
    ServerResult, Tool,
};
use serde_json::Value;

use super::connection::Connection;

/// Pages of one list.
const MAX_PAGES: usize = 64;
/// Most tools, resources or templates of one server; the rest is not looked at.
pub(super) const MAX_LISTED: usize = 512;
/// Most bytes of all tools of one server.
const MAX_LISTED_BYTES: usize = 8 << 20;

/// What a server says that it has, of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed<T> {
    pub items: Vec<T>,
    /// What is not written as the protocol says.
    pub unreadable: Vec<Unreadable>,
    /// The list was truncated.
    pub is_cut: bool,
}

/// A part of a list that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// Its name, as far as it has one.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

pub(super) fn page(cursor: Option<String>) -> PaginatedRequestParams {
    PaginatedRequestParams::default().with_cursor(cursor)
}

/// One page. Where the library cannot read it as a whole, each tool is read by itself, so that one that
/// is malformed takes no other with it.
async fn tools_page(
    connection: &Connection,
    cursor: Option<String>,
) -> Result<(ListToolsResult, Vec<Unreadable>), ServiceError> {
    let peer = connection.service.peer();
    match peer.list_tools(Some(page(cursor.clone()))).await {
        Err(ServiceError::UnexpectedResponse) => {}
        answer => return answer.map(|result| (result, Vec::new())),
    }
    let request = ListToolsRequest::with_param(page(cursor));
    match peer.send_request(ClientRequest::ListToolsRequest(request)).await? {
        ServerResult::ListToolsResult(result) => Ok((result, Vec::new())),
        ServerResult::CustomResult(result) => {
            let mut result = result.0;
            let Some(Value::Array(tools)) = result.get_mut("tools").map(Value::take) else {
                return Err(ServiceError::UnexpectedResponse);
            };
            let (mut readable, mut unreadable) = (Vec::new(), Vec::new());
            for tool in tools {
                match read_tool(tool) {
                    Ok(tool) => readable.push(tool),
                    Err(why) => unreadable.push(why),
                }
            }
            let mut page = ListToolsResult::with_all_items(readable);
            page.next_cursor = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            Ok((page, unreadable))
        }
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// A tool with what it needs; what it does not need may be wrong.
fn read_tool(tool: Value) -> Result<Tool, Unreadable> {
    let needed: JsonObject = ["name", "description", "inputSchema"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), tool.get(key)?.clone())))
        .collect();
    let name = tool.get("name").and_then(Value::as_str).unwrap_or("?").to_owned();
    let whole: Result<Tool, serde_json::Error> = serde_json::from_value(tool);
    whole.or_else(|_| serde_json::from_value(Value::Object(needed))).map_err(|err| Unreadable {
        name,
        why: format!("it is not written as the protocol says ({err})"),
    })
}

/// All pages, up to a bound; a cursor that comes again ends the list.
pub(super) async fn list_tools(connection: &Connection) -> Result<Listed<Tool>, ServiceError> {
    let mut listed = Listed { items: Vec::new(), unreadable: Vec::new(), is_cut: false };
    if connection.capabilities().tools.is_none() {
        return Ok(listed);
    }
    let (mut cursor, mut seen) = (None, BTreeSet::new());
    let mut bytes = 0;
    for _ in 0..MAX_PAGES {
        let (result, unreadable) = tools_page(connection, cursor).await?;
        let size = |tool: &Tool| serde_json::to_string(tool).map_or(0, |text| text.len());
        bytes += result.tools.iter().map(size).sum::<usize>();
        if bytes > MAX_LISTED_BYTES {
            listed.is_cut = true;
            return Ok(listed);
        }
        listed.items.extend(result.tools);
        listed.unreadable.extend(unreadable);
        listed.unreadable.truncate(MAX_LISTED);
        let next = result.next_cursor.filter(|next| seen.insert(next.clone()));
        if listed.items.len() > MAX_LISTED || next.is_none() {
            listed.is_cut = listed.items.len() > MAX_LISTED;
            listed.items.truncate(MAX_LISTED);
            return Ok(listed);
        }
        cursor = next;
    }
    listed.is_cut = true;
    Ok(listed)
}
