//! Prompts of servers: texts for common tasks, with arguments filled in. The protocol means them for a person who
//! picks one; here that is the operator, who names them in the configuration. A model cannot ask for one.
//!
//! The words are the server's. They are cleaned and bounded, and one that is too long is an error: half an instruction
//! may say the opposite of the whole.

use std::collections::BTreeMap;

use rmcp::ServiceError;
use rmcp::model::{
    ContentBlock, GetPromptRequestParams, GetPromptResult, JsonObject, PaginatedRequestParams,
    Prompt, ResourceContents, Role,
};
use tokio::time::timeout;

use super::server::Server;
use super::{Servers, fault, text};
use patchwright_base::error::{Failure, Result};
use patchwright_config::tools::McpServer;

/// Pages of a list that are looked at, and prompts.
const MAX_PAGES: usize = 64;
const MAX_PROMPTS: usize = 512;
/// Most bytes of one prompt with its arguments filled in.
const MAX_TEXT: usize = 64 << 10;
/// Most messages of one prompt.
const MAX_MESSAGES: usize = 64;
/// Names of prompts or arguments that an error lists.
const MAX_NAMED: usize = 20;
/// Longest name in an error, in bytes.
const MAX_WORD: usize = 80;

/// A prompt that the operator has chosen, as the server fills it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenPrompt {
    pub server: String,
    pub name: String,
    pub text: String,
}

/// Gets the prompts that the configuration names, in the order of their servers and names.
///
/// # Errors
/// For the user: a server does not have one, wants other arguments, or does not answer with a text.
pub async fn chosen(
    servers: &Servers,
    configured: &BTreeMap<String, McpServer>,
) -> Result<Vec<ChosenPrompt>> {
    let mut all = Vec::new();
    for (server, wanted) in
        servers.all().iter().filter_map(|it| Some((it, configured.get(it.name())?)))
    {
        if wanted.prompts.is_empty() {
            continue;
        }
        let name = server.name();
        let listed =
            list(server).await.map_err(|why| failed(name, "its prompts are not known", &why))?;
        for (prompt, arguments) in &wanted.prompts {
            check(name, prompt, arguments, &listed)?;
            let result = get(server, prompt, arguments).await;
            let text = result.and_then(in_words);
            let text =
                text.map_err(|why| failed(name, &format!("`{prompt}` was not got"), &why))?;
            all.push(ChosenPrompt { server: name.to_owned(), name: prompt.clone(), text });
        }
    }
    Ok(all)
}

fn failed(server: &str, what: &str, why: &str) -> Failure {
    Failure::sandbox(format!("`mcp.{server}.prompts`: {what}"))
        .caused_by(anyhow::anyhow!("{}", text::line(why, 600)))
        .hint("see what the server says of it, or take the prompt out of the configuration")
}

/// The server has the prompt, and its arguments are those that it takes.
fn check(
    server: &str,
    name: &str,
    given: &BTreeMap<String, String>,
    listed: &[Prompt],
) -> Result<()> {
    let Some(prompt) = listed.iter().find(|prompt| prompt.name == name) else {
        let has = words(listed.iter().map(|prompt| prompt.name.as_str()));
        let has = if has.is_empty() { "it has none".to_owned() } else { format!("it has {has}") };
        let what = format!("`mcp.{server}.prompts` names `{name}`, which the server does not have");
        return Err(Failure::usage(what).hint(has));
    };
    let takes = || prompt.arguments.iter().flatten();
    let key = format!("`mcp.{server}.prompts.{name}`");
    let takes_what = match words(takes().map(|argument| argument.name.as_str())) {
        none if none.is_empty() => "it takes none".to_owned(),
        some => format!("it takes {some}"),
    };
    if let Some(other) = given.keys().find(|it| !takes().any(|argument| argument.name == **it)) {
        let what = format!("{key} has the argument `{other}`, which the prompt does not take");
        return Err(Failure::usage(what).hint(takes_what));
    }
    let is_absent = |name: &str| !given.contains_key(name);
    if let Some(absent) = takes().find(|it| it.required == Some(true) && is_absent(&it.name)) {
        let absent = text::line(&absent.name, MAX_WORD).replace('`', "'");
        let what = format!("{key} lacks the argument `{absent}`");
        return Err(Failure::usage(what).hint(takes_what));
    }
    Ok(())
}

/// Foreign names, for an error.
fn words<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<String> =
        names.map(|name| format!("`{}`", text::line(name, MAX_WORD).replace('`', "'"))).collect();
    let more = names.len().saturating_sub(MAX_NAMED);
    names.truncate(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}

/// All prompts of a server; why they are not known otherwise.
async fn list(server: &Server) -> Result<Vec<Prompt>, String> {
    let connection = server.connection().await.map_err(|err| err.to_string())?;
    if connection.capabilities().prompts.is_none() {
        return Ok(Vec::new());
    }
    let listing = async {
        let (mut prompts, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let answer = connection.service.peer().list_prompts(Some(page)).await?;
            prompts.extend(answer.prompts);
            cursor = answer.next_cursor;
            if cursor.is_none() || prompts.len() >= MAX_PROMPTS {
                break;
            }
        }
        prompts.truncate(MAX_PROMPTS);
        Ok::<_, ServiceError>(prompts)
    };
    let listed = timeout(server.call_limit(), listing).await;
    let listed = listed.map_err(|_| "it did not list its prompts in time".to_owned())?;
    listed.map_err(|err| format!("it did not list its prompts: {}", fault::why(&err)))
}

async fn get(
    server: &Server,
    name: &str,
    given: &BTreeMap<String, String>,
) -> Result<GetPromptResult, String> {
    let connection = server.connection().await.map_err(|err| err.to_string())?;
    let given = given.iter().map(|(name, value)| (name.clone(), value.clone().into()));
    let params = GetPromptRequestParams::new(name).with_arguments(given.collect::<JsonObject>());
    // Not the way in which the server could ask for more first: there is nobody to give it.
    let got = timeout(server.call_limit(), connection.service.peer().get_prompt(params)).await;
    let got = got.map_err(|_| "it did not answer in time".to_owned())?;
    got.map_err(|err| fault::why(&err))
}

/// What the prompt says, as text.
fn in_words(result: GetPromptResult) -> Result<String, String> {
    let mut parts = Vec::new();
    if result.messages.len() > MAX_MESSAGES {
        return Err(format!("it has more than {MAX_MESSAGES} messages"));
    }
    for message in result.messages {
        let said = match message.content {
            ContentBlock::Text(text) => text.text,
            ContentBlock::Resource(embedded) => match embedded.resource {
                ResourceContents::TextResourceContents { text, .. } => text,
                _ => return Err("it has something other than text".to_owned()),
            },
            _ => return Err("it has something other than text".to_owned()),
        };
        let said = text::bounded(&said, said.len());
        let said = said.trim();
        parts.push(match message.role {
            Role::Assistant => format!("(as the assistant:) {said}"),
            Role::User => said.to_owned(),
        });
    }
    let text = parts.join("\n\n");
    match text.len() {
        0 => Err("it says nothing".to_owned()),
        1..=MAX_TEXT => Ok(text),
        size => Err(format!("it has {size} bytes of text; at most {MAX_TEXT} are taken")),
    }
}
