//! Egress in the real sandboxes: nothing leaves without hosts, and with them only what the relay lets.

use patchwright_sandbox::local::LocalSandbox;
use patchwright_sandbox::{ImageSpec, PreparedImage, Running, Sandbox, SandboxSpec};

use super::Sink;
use crate::sandboxes::{sh, spec};
use crate::support::docker::{IMAGE, docker, fresh_run};

/// Tries to reach the sink and other addresses directly, by TCP and UDP; says what worked.
fn direct(port: u16) -> String {
    format!(
        "python3 - <<'X'
import socket
def attempt(name, act):
    try:
        act()
        print(name, 'worked')
    except OSError:
        pass
for host, port in [('127.0.0.1', {port}), ('localhost', {port}), ('1.1.1.1', 443), ('169.254.169.254', 80)]:
    attempt('tcp ' + host, lambda: socket.create_connection((host, port), timeout=3).close())
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(('1.1.1.1', 53))
    s.send(b'x')
attempt('udp', udp)
X"
    )
}

/// Goes through the relay, as programs do that know nothing of it.
fn relayed(port: u16) -> String {
    format!(
        "python3 - <<'X'
import urllib.request
def get(url):
    try:
        return urllib.request.urlopen(url, timeout=20).read().decode().strip()
    except OSError as err:
        return str(err)
print(get('http://web.test:{port}/py'))
print(get('http://other.test:{port}/'))
print(get('http://127.0.0.2:{port}/'))
X
if command -v curl >/dev/null; then curl -sS http://web.test:{port}/curl; fi
if command -v wget >/dev/null; then wget -qO- http://web.test:{port}/wget; fi
true"
    )
}

/// What both sandboxes have to show. The first has no hosts, the second has the sink's.
async fn shows(closed: &Running, open: &Running, sink: &Sink) {
    assert_eq!(sh(closed, &direct(sink.port)).await, "");
    assert_eq!(sh(closed, "env | grep -ci _proxy=").await, "0");
    let offline = sh(closed, &relayed(sink.port)).await;
    assert!(!offline.contains("you asked"), "{offline}");
    assert_eq!(sink.count(), 0, "something left a sandbox without network");
    // The control: the same sink counts what is allowed.
    let online = sh(open, &relayed(sink.port)).await;
    assert!(online.starts_with("you asked: GET /py HTTP/1.1\nHTTP Error 403"), "{online}");
    let through = online.matches("you asked").count();
    assert!(through >= 1);
    assert_eq!(sink.count(), through);
    // The way around the relay stays closed.
    assert_eq!(sh(open, &direct(sink.port)).await, "");
    assert_eq!(sink.count(), through, "something went around the relay");
}

#[tokio::test]
async fn egress_in_docker() {
    let Some(docker) = docker().await else { return };
    let sink = Sink::start().await;
    let closed = docker.sandbox.start(&spec(&docker.run, IMAGE)).await.unwrap();
    let allowed = SandboxSpec { egress: Some(sink.egress()), ..spec(&docker.run, IMAGE) };
    let open = docker.sandbox.start(&SandboxSpec { purpose: "open", ..allowed }).await.unwrap();
    shows(&closed, &open, &sink).await;
    assert!(open.enforced.iter().any(|line| line.to_string().starts_with("relay: only web.test")));
    closed.stop().await.unwrap();
    open.stop().await.unwrap();
}

fn local(egress: Option<&Sink>) -> SandboxSpec {
    SandboxSpec {
        image: PreparedImage {
            reference: String::new(),
            description: String::new(),
            ..PreparedImage::default()
        },
        egress: egress.map(Sink::egress),
        ..spec(&fresh_run(), "")
    }
}

#[tokio::test]
async fn egress_in_the_local_sandbox() {
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sandbox = LocalSandbox::new(state.path().to_owned());
    let sink = Sink::start().await;
    let closed = sandbox.start(&local(None)).await.unwrap();
    let open = match sandbox.start(&local(Some(&sink))).await {
        Ok(open) => open,
        Err(err) => {
            // Not here: then it must be refused with that reason, not be let through.
            assert!(err.to_string().contains("network namespace"), "{err}");
            return closed.stop().await.unwrap();
        }
    };
    shows(&closed, &open, &sink).await;
    let said = sh(&open, "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'").await;
    assert!(said.contains("PermissionError"), "{said}");
    closed.stop().await.unwrap();
    open.stop().await.unwrap();
}

#[tokio::test]
async fn egress_of_setup_in_docker() {
    let Some(docker) = docker().await else { return };
    let sink = Sink::start().await;
    let setup = [format!(
        "python3 -c \"import urllib.request as r; open('/usr/local/came','wb').write(r.urlopen('http://web.test:{}/setup').read())\" && \
         ! python3 -c \"import socket; socket.create_connection(('1.1.1.1', 443), timeout=3)\"",
        sink.port
    )];
    let hosts = [format!("web.test:{}=127.0.0.1", sink.port)];
    let spec_of = |hosts| ImageSpec {
        setup: &setup,
        setup_hosts: hosts,
        setup_egress: Some(sink.egress()),
        setup_timeout: std::time::Duration::from_mins(1),
        ..ImageSpec::plain("acme/app".to_owned(), Some(IMAGE), &docker.run)
    };
    let image = docker.sandbox.prepare(&spec_of(&hosts)).await.unwrap();
    let running = docker.sandbox.start(&spec(&docker.run, &image.reference)).await.unwrap();
    assert_eq!(sh(&running, "cat /usr/local/came").await, "you asked: GET /setup HTTP/1.1");
    assert_eq!(sink.count(), 1);
    running.stop().await.unwrap();
}
