# Workers on a Nomad cluster, on nodes whose Docker they use. Secrets come from a Nomad variable:
#
#   nomad var put nomad/jobs/patchwright DATABASE_URL=… GITHUB_TOKEN=… OPENAI_API_KEY=…
#
# `count` is how many; `nomad job scale patchwright worker 8` changes it.
job "patchwright" {
  type = "service"

  group "worker" {
    count = 2

    # A worker that is replaced lets its runs end first.
    shutdown_delay = "0s"

    task "worker" {
      driver       = "docker"
      kill_signal  = "SIGTERM"
      kill_timeout = "12m"

      config {
        image       = "ghcr.io/patchwright/patchwright:v0"
        args        = ["worker", "--room", "2", "--drain", "10m"]
        # Whoever has this socket has the node; the client must allow volumes (`docker.volumes.enabled`).
        volumes     = ["/var/run/docker.sock:/var/run/docker.sock"]
        # The number of the group that the socket has on the nodes.
        group_add   = ["999"]
        cap_drop    = ["all"]
        readonly_rootfs = true
        mount {
          type   = "tmpfs"
          target = "/tmp"
        }
      }

      env {
        PATCHWRIGHT_LOG_FORMAT = "json"
        PATCHWRIGHT_STATE_DIR  = "${NOMAD_ALLOC_DIR}/patchwright"
      }

      template {
        destination = "${NOMAD_SECRETS_DIR}/env"
        env         = true
        data        = <<EOT
{{ with nomadVar "nomad/jobs/patchwright" }}
DATABASE_URL={{ .DATABASE_URL }}
GITHUB_TOKEN={{ .GITHUB_TOKEN }}
OPENAI_API_KEY={{ .OPENAI_API_KEY }}
{{ end }}
EOT
      }

      resources {
        cpu        = 1000
        memory     = 1024
        memory_max = 4096
      }
    }
  }
}
