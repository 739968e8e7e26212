//! `docs/compose.yml` as people start it: PostgreSQL, `serve` and workers in containers, with what goes wrong in a fleet.
//!
//! Networks, names and published ports are those of the file where the machine's Docker has a bridge; GitHub and the model
//! of the tests, which listen on the machine's loopback, have a door at the bridge's address. Without a bridge the
//! containers use the network of the machine.
#![expect(clippy::disallowed_methods, reason = "asks Docker by its command line, as people do")]

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use patchwright_forge::Role;
use serde_json::{Value, json};

use crate::serve::{SECRET, guid, headers, http, labeled};
use crate::support::docker::{self, IMAGE};
use crate::support::model::{ModelServer, Turn, call, custom, say};
use crate::support::world::{KEY, PATCH, TestWorld, github};

const POSTGRES: &str = "patchwright-postgres:1";
const PASSWORD: &str = "correct-horse-battery";

/// How long anything here may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_mins(4);

fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&stderr));
    text
}

/// Docker's plugin, else the distribution's program.
fn compose_program() -> Option<Vec<&'static str>> {
    let programs = [vec!["docker", "compose"], vec!["docker-compose"]];
    let works = |program: &&Vec<&str>| {
        let asked = Command::new(program[0]).args(&program[1..]).arg("version").output();
        asked.is_ok_and(|output| output.status.success())
    };
    let found = programs.iter().find(works).cloned();
    assert!(
        found.is_some() || !docker::is_required(),
        "this test needs Docker Compose; `./test` installs it"
    );
    found
}

/// An image of the program that is tested: what `Dockerfile` puts into one, without building anything.
fn image(folder: &Path) -> String {
    let name = format!("patchwright-test-compose:{}", std::process::id());
    let root = folder.join("root");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_patchwright"));
    let put = |from: &Path, to: &str| {
        let to = root.join(to.trim_start_matches('/'));
        fs_err::create_dir_all(to.parent().unwrap()).unwrap();
        fs_err::copy(from, to).unwrap();
    };
    put(&program, "/usr/local/bin/patchwright");
    let libraries = succeed(Command::new("ldd").arg(&program));
    for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        put(Path::new(library), library);
    }
    put(Path::new("/etc/ssl/certs/ca-certificates.crt"), "/etc/ssl/certs/ca-certificates.crt");
    let user = "patchwright:x:10001:10001::/home/patchwright:/bin/false\n";
    fs_err::write(root.join("etc/passwd"), user).unwrap();
    for place in ["tmp", "home/patchwright"] {
        fs_err::create_dir_all(root.join(place)).unwrap();
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
        fs_err::set_permissions(root.join(place), everybody).unwrap();
    }
    let lines = "FROM scratch\nCOPY root/ /\nUSER 10001:10001\nENV HOME=/home/patchwright\n\
                 WORKDIR /home/patchwright\nENTRYPOINT [\"/usr/local/bin/patchwright\"]\n";
    fs_err::write(folder.join("Dockerfile"), lines).unwrap();
    let mut build = Command::new("docker");
    build.args(["build", "--quiet", "--tag", &name]).arg(folder).env("DOCKER_BUILDKIT", "0");
    succeed(&mut build);
    name
}

/// The containers of one project. Dropping it removes them, and the sandboxes that they made.
struct Project {
    compose: Vec<&'static str>,
    name: String,
    file: PathBuf,
    image: String,
    /// Process namespaces of its workers, by which their leases and sandboxes are known.
    namespaces: Vec<String>,
}

impl Project {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.compose[0]);
        command.args(&self.compose[1..]).args(["-p", &self.name, "-f"]).arg(&self.file).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> String {
        succeed(&mut self.command(args))
    }

    fn containers(&self, service: &str) -> Vec<String> {
        self.run(&["ps", "-q", service]).lines().map(str::to_owned).collect()
    }

    fn logs(&self) -> String {
        let output = self.command(&["logs", "--no-color"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Remembers the workers that run now: each with the namespace of its processes.
    fn workers(&mut self) -> Vec<(String, String)> {
        let mut workers = Vec::new();
        for id in self.containers("worker") {
            let args = ["inspect", "--format", "{{.State.Pid}}", id.as_str()];
            let pid = succeed(Command::new("docker").args(args));
            let Ok(namespace) = fs_err::read_link(format!("/proc/{}/ns/pid", pid.trim())) else {
                continue;
            };
            let namespace = namespace.display().to_string();
            self.namespaces.push(namespace.clone());
            workers.push((id, namespace));
        }
        workers
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        let _ = self.command(&["down", "--volumes", "--timeout", "1"]).output();
        let format = "{{.ID}} {{.Label \"patchwright.owner\"}}";
        let args = ["ps", "-a", "--filter", "label=patchwright.owner", "--format", format];
        let list = Command::new("docker").args(args).output().unwrap();
        for line in String::from_utf8_lossy(&list.stdout).lines() {
            let Some((id, owner)) = line.split_once(' ') else { continue };
            if self.namespaces.iter().any(|ours| owner.contains(ours)) {
                let _ = Command::new("docker").args(["rm", "-fv", id]).output();
            }
        }
        let _ = Command::new("docker").args(["rmi", "-f", &self.image]).output();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// How the containers reach each other and the machine.
#[derive(Clone, Copy)]
enum Network {
    /// As the file says. The machine has this address there.
    Own(IpAddr),
    /// The machine's own: its Docker has no bridge.
    Machine,
}

impl Network {
    fn of_this_machine() -> Network {
        let format = "{{(index .IPAM.Config 0).Gateway}}";
        let args = ["network", "inspect", "--format", format, "bridge"];
        let said = Command::new("docker").args(args).output().unwrap();
        let gateway = String::from_utf8_lossy(&said.stdout).trim().parse();
        if let Ok(gateway) = gateway {
            return Network::Own(gateway);
        }
        eprintln!("Docker has no bridge here: the containers use the machine's network");
        Network::Machine
    }

    /// The address in a container for one of the machine's loopback.
    fn reach(self, url: &str) -> String {
        let Network::Own(gateway) = self else { return url.to_owned() };
        let mut url = url::Url::parse(url).unwrap();
        let port = door(gateway, url.port().unwrap());
        url.set_ip_host(gateway).unwrap();
        url.set_port(Some(port)).unwrap();
        url.as_str().trim_end_matches('/').to_owned()
    }
}

/// A port at this address that leads to one of the loopback, as long as the test runs.
fn door(address: IpAddr, to: u16) -> u16 {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let pass = |mut from: TcpStream, mut into: TcpStream| {
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut into);
            let _ = into.shutdown(std::net::Shutdown::Write);
        });
    };
    std::thread::spawn(move || {
        for outside in listener.incoming().flatten() {
            let Ok(inside) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            pass(outside.try_clone().unwrap(), inside.try_clone().unwrap());
            pass(inside, outside);
        }
    });
    port
}

/// Where the fleet is reached from the machine.
#[derive(Clone, Copy)]
struct Ports {
    listen: SocketAddr,
    database: u16,
}

/// The file as Compose reads it, with the world of the test, and without a network where the machine has none.
fn adapted(config: &str, world: &TestWorld, network: Network, ports: Ports) -> Value {
    let mut file: Value = serde_saphyr::from_str(config).unwrap();
    for name in ["version", "name", "networks"] {
        file.as_object_mut().unwrap().remove(name);
    }
    let more = json!({
        "GITHUB_API_URL": network.reach(&world.github.api_url()),
        "GITHUB_SERVER_URL": network.reach(&world.github.server_url()),
        "OPENAI_BASE_URL": network.reach(&world.model.url()),
        "PATCHWRIGHT_IMAGE": IMAGE,
        "PATCHWRIGHT_NOW": "2026-11-20T12:00:00Z",
        "PATCHWRIGHT_TIME_SCALE": "0.05",
        "PATCHWRIGHT_SECOND_LOOK": "false",
        "PATCHWRIGHT_LEASE": "10s",
    });
    for (name, service) in file["services"].as_object_mut().unwrap() {
        let service = service.as_object_mut().unwrap();
        if name != "postgres" {
            let environment = service["environment"].as_object_mut().unwrap();
            environment.extend(more.as_object().unwrap().clone());
        }
        if matches!(network, Network::Machine) {
            on_the_machine(name, service, ports);
        }
    }
    file
}

/// A service without a network of its own: names and published ports of the file become those of the machine.
fn on_the_machine(name: &str, service: &mut serde_json::Map<String, Value>, ports: Ports) {
    let Ports { listen, database } = ports;
    for network in ["ports", "networks"] {
        service.remove(network);
    }
    service.insert("network_mode".to_owned(), json!("host"));
    let environment = service["environment"].as_object_mut().unwrap();
    if name == "postgres" {
        environment.insert("PGPORT".to_owned(), json!(database.to_string()));
        return;
    }
    let url = environment["DATABASE_URL"].as_str().unwrap().to_owned();
    assert!(url.contains("@postgres/"), "{url}");
    let url = url.replace("@postgres/", &format!("@127.0.0.1:{database}/"));
    environment.insert("DATABASE_URL".to_owned(), json!(url));
    let health = format!("http://{listen}");
    environment.insert("PATCHWRIGHT_HEALTH_URL".to_owned(), json!(health));
    if name == "serve" {
        let command = service["command"].as_array_mut().unwrap();
        assert_eq!(command.last().unwrap(), "0.0.0.0:8080");
        *command.last_mut().unwrap() = json!(listen.to_string());
    }
}

/// The project, up; `None` without Docker or Compose when nobody insists.
fn up(world: &TestWorld, folder: &Path, network: Network, ports: Ports) -> Option<Project> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(docker::docker())?;
    let compose = compose_program()?;
    let image = image(folder);
    let group = fs_err::metadata(docker::socket()).unwrap();
    let group = std::os::unix::fs::MetadataExt::gid(&group);
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/compose.yml");
    let name = format!("pwtest{}", std::process::id());
    let file = folder.join("compose.yml");
    let project = Project { compose, name, file, image, namespaces: Vec::new() };
    let mut config = Command::new(project.compose[0]);
    config.args(&project.compose[1..]).args(["-f", docs, "config"]).envs([
        ("PATCHWRIGHT_IMAGE_NAME", project.image.as_str()),
        ("POSTGRES_IMAGE", POSTGRES),
        ("POSTGRES_PASSWORD", PASSWORD),
        ("GITHUB_TOKEN", world.github.token()),
        ("OPENAI_API_KEY", KEY),
        ("PATCHWRIGHT_WEBHOOK_SECRET", SECRET),
        ("PATCHWRIGHT_REPOSITORIES", "acme/*"),
        ("DOCKER_GROUP", group.to_string().as_str()),
        ("PATCHWRIGHT_PORT", ports.listen.port().to_string().as_str()),
        ("POSTGRES_PORT", ports.database.to_string().as_str()),
    ]);
    let file = adapted(&succeed(&mut config), world, network, ports);
    fs_err::write(&project.file, file.to_string()).unwrap();
    project.run(&["up", "-d", "--scale", "worker=2"]);
    Some(project)
}

/// What a container publishes, as `PORT of ADDRESS`.
fn published(container: &str) -> String {
    let format = "{{range $port, $at := .NetworkSettings.Ports}}{{range $at}}{{$port}} of {{.HostIp}};{{end}}{{end}}";
    succeed(Command::new("docker").args(["inspect", "--format", format, container]))
        .trim()
        .to_owned()
}

/// Only the machine itself reaches server and database, and nobody a worker; Docker finds the server well by itself.
fn is_closed_and_well(project: &Project, network: Network) {
    if let Network::Own(_) = network {
        let of = |service: &str| published(&project.containers(service)[0]);
        assert_eq!(of("postgres"), "5432/tcp of 127.0.0.1;");
        assert_eq!(of("serve"), "8080/tcp of 127.0.0.1;");
        assert_eq!(of("worker"), "");
    }
    let serve = project.containers("serve").remove(0);
    let args = ["inspect", "--format", "{{.State.Health.Status}}", serve.as_str()];
    until("a server that Docker finds well", || {
        succeed(Command::new("docker").args(args)).trim() == "healthy"
    });
}

/// Waits until something is so.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what} never came");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn is_well(listen: SocketAddr) -> bool {
    TcpStream::connect(listen).is_ok() && http::get(listen, "/healthz", &[]).status == 200
}

/// Each delivery's job: state, and who has it.
fn jobs(database: u16) -> Vec<(String, String)> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let url = format!("postgres://patchwright:{PASSWORD}@127.0.0.1:{database}/patchwright");
        let Ok(pool) = sqlx::PgPool::connect(&url).await else { return Vec::new() };
        let select =
            "SELECT state, COALESCE(owner, '') FROM jobs WHERE kind = 'delivery' ORDER BY id";
        let rows = sqlx::query_as(select).fetch_all(&pool).await.unwrap_or_default();
        pool.close().await;
        rows
    })
}

#[test]
#[allow(
    clippy::too_many_lines,
    reason = "one fleet, which takes a minute to start, and what it meets in turn"
)]
fn the_compose_fleet_loses_a_worker_its_database_and_its_version_and_nothing_else() {
    let github = [8, 9].into_iter().fold(github(), |github, number| {
        github.issue("acme/app", number, "add subtracts", "`add 2 2` prints 0.").by("rita")
    });
    // Each run takes long enough for something to happen to it.
    let model = ModelServer::conversations(|_| -> Vec<Turn> {
        let wait = json!({"command": "sleep 8; sh test.sh"});
        vec![
            call("shell_command", wait),
            custom("apply_patch", PATCH),
            say("Add instead of subtracting"),
        ]
    });
    let world = TestWorld::asking(github.user("ann", Role::Write), model);
    let folder = tempfile::tempdir().unwrap();
    let listen = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (database, network) = (free_port(), Network::of_this_machine());
    let ports = Ports { listen, database };
    let Some(mut project) = up(&world, folder.path(), network, ports) else { return };
    until("a server that is well", || is_well(listen));
    is_closed_and_well(&project, network);
    let deliver = |number: u32| {
        let body = labeled("acme/app", u64::from(number), "patchwright", "ann").to_string();
        let headers = headers(&guid(number), "issues", body.as_bytes());
        let answer = http::post(listen, "/webhook", &headers, body.as_bytes());
        assert_eq!(answer.status, 202, "{answer:?}");
    };
    let begun = |count: usize| until("a run", || world.model.requests().len() >= count);
    let pulls = |count: usize| until("a pull request", || world.github.pulls().len() == count);

    // A worker is killed in the middle; the other one takes over when its lease has run out.
    deliver(7);
    begun(1);
    let (_, owner) = jobs(database).remove(0);
    let workers = project.workers();
    assert_eq!(workers.len(), 2, "{}", project.logs());
    let holder = workers.iter().find(|(_, namespace)| owner.contains(namespace));
    let (killed, _) = holder.unwrap_or_else(|| panic!("nobody is {owner}: {workers:?}"));
    succeed(Command::new("docker").args(["kill", killed]));
    pulls(1);

    // The database goes away and comes back while a run is at work.
    let before = world.model.requests().len();
    deliver(8);
    begun(before + 1);
    let postgres = project.containers("postgres").remove(0);
    succeed(Command::new("docker").args(["restart", "--time", "2", &postgres]));
    pulls(2);

    // Everything but the database is replaced, as an upgrade does, while a run is at work.
    until("a server that is well", || is_well(listen));
    let before = world.model.requests().len();
    deliver(9);
    begun(before + 1);
    project.workers();
    project.run(&[
        "up",
        "-d",
        "--force-recreate",
        "--no-deps",
        "--scale",
        "worker=4",
        "serve",
        "worker",
    ]);
    pulls(3);
    assert_eq!(project.workers().len(), 4);
    until("a server that is well", || is_well(listen));
    until("the end of all jobs", || {
        let jobs = jobs(database);
        jobs.len() == 3 && jobs.iter().all(|(state, _)| state == "done")
    });
    let health = succeed(Command::new("docker").args([
        "exec",
        &project.containers("serve")[0],
        "/usr/local/bin/patchwright",
        "health",
    ]));
    assert!(health.contains("status ok"), "{health}");
    assert_eq!(world.github.pulls().len(), 3, "{}", project.logs());
    let logs = project.logs();
    for secret in [KEY, world.github.token(), PASSWORD, SECRET] {
        assert!(!logs.contains(secret), "a secret is in the log: {logs}");
    }
}
