//! `patchwright mcp`: what an operator does once for an MCP server.

use std::path::PathBuf;

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_provider::http;
use patchwright_tools::mcp::login::{self, LoggedIn, Login};

/// Log in at an MCP server, so that runs can use it
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Login(LoginArgs),
}

/// Log in at a server over HTTP and keep the refresh token in its `token-file`
///
/// Prints the address of a page. Whoever logs in there is sent back to a port of this machine; the token then goes
/// into the file that `mcp.NAME.auth.token-file` names, and runs use it from there. Without `client-id` a client is
/// registered first, where the authorization server lets it.
#[derive(Debug, clap::Args)]
pub struct LoginArgs {
    /// Name of the server in `mcp`
    pub name: String,

    /// Operator's configuration file
    #[arg(long, env = "PATCHWRIGHT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Port of this machine that the page sends back to; the last login's or a free one when 0
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<()> {
    let Command::Login(args) = args.command;
    let config = Common { config: args.config.clone(), ..Common::default() }.resolve()?;
    let Some(server) = config.mcp.get(&args.name) else {
        let names: Vec<String> = config.mcp.keys().map(|name| format!("`{name}`")).collect();
        let known = match names.as_slice() {
            [] => "the configuration has no `mcp`: give the file with `--config`".to_owned(),
            names => format!("there are {}", names.join(", ")),
        };
        return Err(Failure::usage(format!("there is no MCP server `{}`", args.name)).hint(known));
    };
    let client = http::client()?;
    let asked = Login { name: &args.name, server, client: &client, port: args.port };
    let show = |page: &url::Url| ui.say(&format!("open this page and log in:\n{page}"));
    let LoggedIn { file, registered, was_registered } =
        Box::pin(login::login(&asked, env, &show)).await?;
    if let Some(id) = registered {
        let id = id.replace('`', "'");
        let how = if was_registered { ", as the login before was" } else { "" };
        ui.say(&format!("registered as the client `{id}`{how}"));
    }
    ui.say(&format!("logged in; the refresh token is in `{}`", file.display()));
    Ok(())
}
