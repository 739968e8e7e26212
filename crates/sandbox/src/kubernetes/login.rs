//! Who we are for the API server. Tokens and certificates in files, and what the programs of a kubeconfig print, are
//! exchanged while we run: when the server does not know us any more, they are read anew.

use std::error::Error;

use kube::client::AuthError;
use kube::{Client, Config};
use parking_lot::Mutex;

use patchwright_base::error::chain;
use patchwright_base::text;

/// The connection of one identity, and how to make it again.
pub(super) struct Login {
    config: Config,
    /// With how often it was made again.
    current: Mutex<(Client, u64)>,
    /// Held while it is made again: requests that are refused together need that once.
    renewing: tokio::sync::Mutex<()>,
}

impl Login {
    /// # Errors
    /// When nothing can be sent with this configuration.
    pub(super) fn new(config: Config) -> Result<Login, kube::Error> {
        let client = Client::try_from(config.clone())?;
        let (current, renewing) = (Mutex::new((client, 0)), tokio::sync::Mutex::default());
        Ok(Login { config, current, renewing })
    }

    /// What requests are sent with, and its number.
    pub(super) fn client(&self) -> (Client, u64) {
        self.current.lock().clone()
    }

    /// What to send a request with once more that was refused with the client of this number, because the server does
    /// not know who sends it; `None` when nobody could say it otherwise.
    pub(super) async fn renewed(&self, refused: u64) -> Option<Client> {
        let said = &self.config.auth_info;
        let can_change = said.token_file.is_some()
            || said.exec.is_some()
            || said.client_certificate.is_some()
            || said.client_key.is_some();
        if !can_change {
            return None;
        }
        let _only = self.renewing.lock().await;
        let (client, number) = self.client();
        if number != refused {
            return Some(client);
        }
        let config = self.config.clone();
        // Reads files, and waits for the program.
        let made = tokio::task::spawn_blocking(move || Client::try_from(config)).await.ok()?;
        match made {
            Ok(client) => {
                *self.current.lock() = (client.clone(), number + 1);
                Some(client)
            }
            Err(err) => {
                let why = unidentified(&err).unwrap_or_else(|| chain(&err));
                tracing::warn!(
                    why,
                    "the Kubernetes API does not know us, and who we are cannot be read anew"
                );
                None
            }
        }
    }
}

/// Why nobody says who we are, in words; `None` when that is not what is wrong. What a program prints to standard output
/// is secret, and its arguments may be.
pub(super) fn unidentified(err: &kube::Error) -> Option<String> {
    const PROGRAM: &str = "the program of the kubeconfig that says who we are";
    let mut link: Option<&(dyn Error + 'static)> = Some(err);
    while let Some(err) = link {
        let Some(auth) = err.downcast_ref::<AuthError>() else {
            link = err.source();
            continue;
        };
        return Some(match auth {
            AuthError::AuthExecRun { out, .. } => {
                let words = String::from_utf8_lossy(&out.stderr);
                let last = words.lines().rfind(|line| !line.trim().is_empty());
                let last = last.map(|last| format!(": {}", text::line(last))).unwrap_or_default();
                format!("{PROGRAM} failed ({}){last}", out.status)
            }
            AuthError::AuthExecStart(err) => format!("{PROGRAM} cannot be started: {err}"),
            AuthError::AuthExecParse(_) => format!("{PROGRAM} prints what cannot be read"),
            other => text::line(&chain(other)),
        });
    }
    None
}
