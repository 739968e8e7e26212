//! Services on engines whose answers do not describe all of a container. The servers of a service know nothing of us,
//! so nobody could look at their container from inside and be believed. First there is a twin of it: asked for in the
//! same words, but with our guest as its one program, as root. It is inspected, and removed; the service gets what its
//! twin had. Its health is asked about here as well: not every such engine does it by itself.

use std::time::Duration;

use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{InspectContainerOptions, StartContainerOptions};
use futures_util::StreamExt;

use super::api::bounded;
use super::configuration::{Network, Task};
use super::takedown::Container;
use super::{CALL, DockerSandbox, GUEST, inside};
use crate::SandboxError;

/// How long one question about its health may take.
const HEALTH: Duration = Duration::from_secs(10);

impl DockerSandbox {
    /// What a container that is asked for like this is like, from inside.
    ///
    /// # Errors
    /// When it is looser than asked for.
    pub(super) async fn twin_is_as_asked(
        &self,
        run: &str,
        purpose: &str,
        asked: &ContainerCreateBody,
        memory_bytes: u64,
    ) -> Result<(), SandboxError> {
        let mut twin = asked.clone();
        twin.user = Some("0:0".to_owned());
        twin.entrypoint = Some(vec![GUEST.to_owned()]);
        twin.cmd = Some(vec!["idle".to_owned()]);
        twin.working_dir = Some("/".to_owned());
        let heartbeat = self.owner.heartbeat(&self.docker).await?;
        let id = Box::pin(self.create(run, &format!("{purpose}-twin"), &twin)).await?;
        let container = Container::new(self, heartbeat, id, memory_bytes);
        let seen = Box::pin(self.twin(&container.id, &twin)).await;
        // A dropped one is removed too, but later.
        if let Err(left) = container.remove().await {
            tracing::warn!(%left, "cannot remove a container that was only looked at");
        }
        seen
    }

    async fn twin(&self, id: &str, twin: &ContainerCreateBody) -> Result<(), SandboxError> {
        let inspection = self.docker.inspect_container(id, None::<InspectContainerOptions>);
        self.as_asked(twin, bounded("inspect", CALL, inspection).await?)?;
        self.upload(id, twin, Task::Setup(Network::None)).await?;
        let start = self.docker.start_container(id, None::<StartContainerOptions>);
        bounded("start", CALL, start).await?;
        let seen = Box::pin(inside::look(&self.docker, id, "0:0")).await?;
        inside::refuse(&inside::differences(twin, &seen))
    }

    /// Whether a health check (`CMD`, `CMD-SHELL` and what follows) succeeds in a container, as the container's user.
    pub(super) async fn is_healthy(&self, id: &str, test: &[String]) -> bool {
        let command = match test.split_first() {
            Some((kind, command)) if kind == "CMD" => command.to_vec(),
            Some((kind, command)) if kind == "CMD-SHELL" => ["/bin/sh", "-c"]
                .iter()
                .map(|&word| word.to_owned())
                .chain(command.iter().cloned())
                .collect(),
            _ => return false,
        };
        let options = CreateExecOptions {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(command),
            ..CreateExecOptions::default()
        };
        let asking = async {
            let exec = bounded("exec", CALL, self.docker.create_exec(id, options)).await.ok()?.id;
            let options = StartExecOptions { detach: false, tty: false, output_capacity: None };
            let started = bounded("exec start", CALL, self.docker.start_exec(&exec, Some(options)));
            if let StartExecResults::Attached { mut output, .. } = started.await.ok()? {
                // What it says is of no interest, and ends with it.
                while let Some(Ok(_)) = output.next().await {}
            }
            let ended =
                bounded("inspect exec", CALL, self.docker.inspect_exec(&exec)).await.ok()?;
            Some(ended.exit_code == Some(0))
        };
        let answer = tokio::time::timeout(HEALTH, asking).await;
        answer.is_ok_and(|answer| answer == Some(true))
    }
}
