//! Begins an `exec`. The request is sent again while no program can have begun: the API server has to reach the node,
//! and now and then it does not for a moment (its agent there is away, or a limit is met).

use std::error::Error;
use std::io;
use std::time::Duration;

use http::StatusCode;
use kube::Client;
use tokio::time::timeout as within;

use super::api::{ApiError, Cluster, encoded};
use super::upgrade::{self, Connection};

/// How long the server may take to start the program.
const START: Duration = Duration::from_mins(1);
/// The node's word for a container that does not run (`pkg/kubelet/server/server.go` and `kubelet_pods.go`); the server
/// passes it on as an error of its own (500).
const NO_CONTAINER: &str = "container not found";

/// Starts a program in a container, with its streams.
///
/// # Errors
/// The server's last one, when it does not start the program.
pub(super) async fn connect(
    cluster: &Cluster,
    pod: &str,
    container: &str,
    argv: &[&str],
) -> Result<Connection, ApiError> {
    let mut path = format!(
        "/api/v1/namespaces/{}/pods/{pod}/exec?container={container}&stdin=true&stdout=true&stderr=true&tty=false",
        cluster.namespace()
    );
    for word in argv {
        path.push_str("&command=");
        path.push_str(&encoded(word));
    }
    let mut failed = 0;
    let mut is_new = false;
    loop {
        let (client, number) = cluster.login.client();
        let (err, has_begun) = match connect_once(cluster, &client, &path).await {
            Ok(connection) => return Ok(connection),
            Err(refused) => refused,
        };
        if err.is(StatusCode::UNAUTHORIZED)
            && !std::mem::replace(&mut is_new, true)
            && cluster.login.renewed(number).await.is_some()
        {
            continue;
        }
        let wait = err.wait_before(failed).filter(|_| !has_begun && !is_not_running(&err));
        let Some(wait) = wait else { return Err(err) };
        tracing::debug!(%err, ?wait, "a program is started again in a pod");
        tokio::time::sleep(wait).await;
        failed += 1;
    }
}

/// The container is not there, or does not run.
pub(super) fn is_not_running(err: &ApiError) -> bool {
    matches!(err, ApiError::Answer { status: 500, message, .. } if message.contains(NO_CONTAINER))
}

/// Asks once. With the error: whether the program may have begun all the same.
async fn connect_once(
    cluster: &Cluster,
    client: &Client,
    path: &str,
) -> Result<Connection, (ApiError, bool)> {
    let (request, key) =
        upgrade::request(path).map_err(|err| (ApiError::Unreadable(err.to_string()), false))?;
    let asked = async {
        let answer = client.send(request).await.map_err(|err| unanswered(&err))?;
        let status = answer.status();
        if status.is_client_error() || status.is_server_error() {
            return Err((cluster.refused(answer).await, false));
        }
        upgrade::upgraded(answer, &key).await.map_err(|err| (err, true))
    };
    match within(START, asked).await {
        Ok(answered) => answered,
        Err(_) => Err((ApiError::Unreachable("exec takes too long".to_owned()), true)),
    }
}

/// Why there is no answer, and whether the program may have begun all the same.
fn unanswered(err: &kube::Error) -> (ApiError, bool) {
    let said = ApiError::of_client(err);
    let has_begun = !is_refused(err) && !matches!(said, ApiError::Unidentified(_));
    (said, has_begun)
}

/// Nobody listens there, so nothing was sent.
fn is_refused(err: &kube::Error) -> bool {
    let mut link: Option<&(dyn Error + 'static)> = Some(err);
    while let Some(err) = link {
        if let Some(err) = err.downcast_ref::<io::Error>()
            && err.kind() == io::ErrorKind::ConnectionRefused
        {
            return true;
        }
        link = err.source();
    }
    false
}
