//! Servers beside the sandbox, as CI has them: found in the repository's workflows or configured, ready before
//! a command runs, without a way out, and gone afterwards.

use serde_json::{Value, json};

use crate::dependencies::{exec, patched, project, result, sh};
use crate::support::docker::docker;
use crate::support::model::{Turn, say};
use crate::support::world::TestWorld;

/// A workflow whose tests need a database.
const WORKFLOW: &str = "on: [push, pull_request]
env:
  PGPORT: ${{ job.services.db.ports['5432'] }}
jobs:
  test:
    runs-on: ubuntu-latest
    services:
      db:
        image: patchwright-postgres:1
        env:
          POSTGRES_PASSWORD: postgres
        ports:
          - 5432:5432
        options: >-
          --health-cmd \"pg_isready -h localhost\"
          --health-interval 10s
    steps:
      - uses: actions/checkout@v4
      - run: python -m unittest -v
        env:
          PGHOST: localhost
";
/// Asks PostgreSQL by its protocol, version 3.0; the image of the sandbox has no client.
const DATABASE: &str = "import os, socket, struct

class Connection:
    def __init__(self, host):
        self.stream = socket.create_connection((host, int(os.environ.get('PGPORT', '5432')))).makefile('rwb')
        start = struct.pack('!i', 196608) + b'user\\0postgres\\0database\\0postgres\\0\\0'
        self.send(b'', start)
        self.rows()

    def send(self, kind, body):
        self.stream.write(kind + struct.pack('!i', len(body) + 4) + body)
        self.stream.flush()

    def rows(self):
        found = []
        while True:
            kind, length = struct.unpack('!ci', self.stream.read(5))
            body = self.stream.read(length - 4)
            if kind == b'E':
                raise Exception(body)
            if kind == b'D':
                found.append(body[6:].decode())
            if kind == b'Z':
                return found

    def query(self, text):
        self.send(b'Q', text.encode() + b'\\0')
        return self.rows()
";
const APP: &str = "def total(connection):\n    return int(connection.query('select sum(n) - 1 from numbers')[0])\n";
/// A database that another sandbox has used already has the table.
const TEST: &str = "import os, unittest
from app import total
from database import Connection

class Test(unittest.TestCase):
    def test_total(self):
        connection = Connection(os.environ.get('PGHOST', 'db'))
        connection.query('create table numbers (n int)')
        connection.query('insert into numbers values (40), (2)')
        self.assertEqual(total(connection), 42)
";
/// Asks the database to look around in its own container: its routes and its interfaces.
const LOOK: &str = r#"from database import Connection
connection = Connection('db')
def run(command):
    connection.query('create table lines (line text)')
    connection.query(f"copy lines from program '{command}'")
    found = connection.query('select * from lines')
    connection.query('drop table lines')
    return found
print([run(it) for it in ('cut -f1 /proc/net/route', 'ls /sys/class/net')])
"#;
const FIX: &str = "sed -i 's/ - 1//' app.py";

fn world(turns: impl IntoIterator<Item = Turn>) -> Option<TestWorld> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(docker()).is_some().then(|| TestWorld::local(turns).in_docker())
}

fn states(result: &Value) -> Vec<(String, Option<String>)> {
    let services =
        result["provenance"]["setup"]["services"].as_array().cloned().unwrap_or_default();
    let of = |service: &Value, key: &str| service[key].as_str().map(str::to_owned);
    services.iter().map(|it| (of(it, "name").unwrap(), of(it, "problem"))).collect()
}

/// Containers of ours that the engine has for this run.
async fn left(run: &str) -> Vec<String> {
    let docker = docker().await.unwrap();
    let filters = [("label".to_owned(), vec![format!("patchwright.run={run}")])].into();
    let options = bollard::query_parameters::ListContainersOptionsBuilder::default()
        .all(true)
        .filters(&filters)
        .build();
    let found = docker.engine.list_containers(Some(options)).await.unwrap();
    found.into_iter().filter_map(|container| container.id).collect()
}

#[test]
fn a_database_that_ci_has_is_there_fresh_for_each_sandbox_and_without_a_way_out() {
    let Some(world) = world(turns()) else { return };
    let run = a_database_is_there(&world);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    assert_eq!(runtime.block_on(left(&run)), Vec::<String>::new());
}

/// The model looks around, and mends the project.
pub(crate) fn turns() -> Vec<Turn> {
    vec![sh("python3 look.py"), sh(FIX), say("The total is right now.")]
}

/// A run whose tests need the database of the repository's CI; its id.
pub(crate) fn a_database_is_there(world: &TestWorld) -> String {
    let files = [
        (".github/workflows/ci.yml", WORKFLOW),
        ("app.py", APP),
        ("database.py", DATABASE),
        ("look.py", LOOK),
        ("test_app.py", TEST),
    ];
    project(world, &files);
    let output = exec(world, &[]).expect(0);
    let result = result(world);
    assert_eq!(states(&result), [("db".to_owned(), None)], "{}\n{result:#}", output.text());
    let told = world.told();
    assert!(
        told.contains("- db (patchwright-postgres:1): ready at `localhost:5432` and `db:5432`"),
        "{told}"
    );
    assert!(told.contains("[['Iface'], ['lo']]"), "no route, and one interface: {told}");
    assert_eq!(result["checks"], "passed", "{result:#}");
    let row = &result["evidence"]["rows"][0];
    assert_eq!((&row["base"]["exit_code"], &row["head"]["exit_code"]), (&json!(1), &json!(0)));
    assert_eq!(patched(world), ["app.py"]);
    result["run"].as_str().unwrap().to_owned()
}

#[test]
fn a_service_that_does_not_come_up_is_said_once_and_the_run_goes_on() {
    let Some(world) = world([sh("echo x > own.txt"), say("Done.")]) else { return };
    let services = "services:
  cache:
    image: patchwright-busybox:1
  db:
    image: patchwright-postgres:1
  secret:
    image: registry.corp.example/team/db:1
  none:
    image: patchwright-no-such-image:1
verify: ['true']
";
    project(&world, &[(".github/patchwright.yml", services)]);
    let output = exec(&world, &[]).expect(0);
    let result = result(&world);
    let states = states(&result);
    let names: Vec<&str> = states.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["cache", "db", "none", "secret"], "{result:#}");
    for ((_, problem), expected) in states.iter().zip([
        "it ended with exit code 0",
        "it ended with exit code",
        "image `docker.io/library/patchwright-no-such-image:1` is not there",
        "its image `registry.corp.example/team/db:1` is of no registry that everybody can reach; the operator",
    ]) {
        assert!(problem.as_deref().unwrap_or_default().starts_with(expected), "{problem:?}");
    }
    let told = world.told();
    assert!(told.contains("- cache (patchwright-busybox:1): NOT THERE: it ended"), "{told}");
    assert!(told.contains("POSTGRES_PASSWORD: is not set"), "what it printed: {told}");
    // Also in the sandboxes of the checks: what is not there is not waited for again.
    assert_eq!(
        output.stderr.matches("service `cache` is not there").count(),
        1,
        "{}",
        output.text()
    );
    let report = fs_err::read_to_string(world.path("out/report.html")).unwrap();
    assert!(report.contains("not there: it ended with exit code 0"), "{report}");
    assert_eq!(patched(&world), ["own.txt"]);
}

#[test]
fn a_service_that_ends_after_it_was_ready_is_named() {
    // As the database's own user, which may end it.
    let end = "from database import Connection\nconnection = Connection('db')\n\
               connection.query(\"copy (select 1) to program 'kill -QUIT 1'\")\n";
    let turn = sh("python3 end.py; sleep 3; echo x > own.txt");
    let Some(world) = world([turn, say("Done.")]) else { return };
    let services = "services:
  db:
    image: patchwright-postgres:1
    env: { POSTGRES_PASSWORD: postgres }
    health: pg_isready -h localhost
verify: ['true']
";
    let files = [(".github/patchwright.yml", services), ("database.py", DATABASE), ("end.py", end)];
    project(&world, &files);
    let output = exec(&world, &[]).expect(0);
    let says = "it was ready, and ended later: it ended with exit code";
    let line = format!("service `db` is not there: {says}");
    // Beside the checks there is another one.
    assert_eq!(output.stderr.matches(&line).count(), 1, "{}", output.text());
    let states = states(&result(&world));
    let problem = states[0].1.as_deref().unwrap_or_default();
    assert!(problem.starts_with(says), "{states:?}");
    assert_eq!(patched(&world), ["own.txt"]);
}

/// CI starts a server in one step and tests in the next, once for each part of the tests.
const STARTED: &str = "on: push
jobs:
  test:
    strategy: {matrix: {part: [total, other]}}
    steps:
      - run: python3 server.py &
      - run: python3 -m unittest -v test_${{ matrix.part }}
";
/// Answers a question by files in the tree, so that no two sandboxes meet.
const SERVER: &str = "import os, time
from app import total

while True:
    if os.path.exists('question'):
        with open('draft', 'w') as draft:
            draft.write(str(total(None)))
        os.rename('draft', 'answer')
        os.remove('question')
    time.sleep(0.05)
";
const CLIENT: &str = "import os, time, unittest

class Test(unittest.TestCase):
    def test_total(self):
        open('question', 'w').close()
        for _ in range(200):
            if os.path.exists('answer'):
                break
            time.sleep(0.05)
        with open('answer') as answer:
            self.assertEqual(answer.read(), '42')
";

#[test]
fn what_ci_starts_before_its_tests_runs_in_the_check_of_all_their_parts() {
    let turns = || [sh(FIX), say("Done.")];
    let local = TestWorld::local(turns());
    for world in [Some(local), world(turns())].into_iter().flatten() {
        let files = [
            (".github/workflows/ci.yml", STARTED),
            ("app.py", "def total(_):\n    return 43 - 1 - 1\n"),
            ("server.py", SERVER),
            ("test_total.py", CLIENT),
            (
                "test_other.py",
                "import unittest\n\nclass Other(unittest.TestCase):\n    def test_other(self):\n        pass\n",
            ),
        ];
        project(&world, &files);
        let output = exec(&world, &[]).expect(0);
        let result = result(&world);
        let row = &result["evidence"]["rows"][0];
        let codes = (&row["base"]["exit_code"], &row["head"]["exit_code"]);
        assert_eq!(codes, (&json!(1), &json!(0)), "{}\n{row:#}", output.text());
        // The second part runs, whatever became of the first.
        for side in ["base", "head"] {
            let text = row[side].to_string();
            assert!(text.contains("test_other") && text.contains("test_total"), "{text}");
        }
        assert_eq!(result["evidence"]["rows"].as_array().map(Vec::len), Some(1), "{result:#}");
        assert_eq!(result["checks"], "passed", "{result:#}");
    }
}

#[test]
fn in_the_local_sandbox_tests_that_need_services_are_left_alone() {
    let world = TestWorld::local([sh(FIX), say("Done.")]);
    let files = [
        (".github/workflows/ci.yml", WORKFLOW),
        (".github/patchwright.yml", "services:\n  db:\n    image: postgres:16\n"),
        ("app.py", APP),
        ("Makefile", "test:\n\ttrue\n"),
    ];
    project(&world, &files);
    let output = exec(&world, &[]).expect(0);
    let result = result(&world);
    let why = "services need containers, and this is the local sandbox".to_owned();
    assert_eq!(states(&result), [("db".to_owned(), Some(why))], "{}", output.text());
    assert_eq!(result["evidence"]["rows"][0]["command"], "make test", "{result:#}");
}

#[test]
fn services_can_be_switched_off() {
    for files in [
        &[(".github/workflows/ci.yml", WORKFLOW), (".github/patchwright.yml", "services: {}\n")][..],
        &[("README.md", "# app\n")],
    ] {
        let Some(world) = world([say("Done.")]) else { return };
        project(&world, files);
        exec(&world, &[]).expect(0);
        assert_eq!(states(&result(&world)), []);
        assert!(!world.told().contains("<services>"));
    }
}

#[test]
fn services_that_cannot_be_are_refused_by_name() {
    for (file, expected) in [
        (
            "services: {db: {image: a, ports: ['5433:5432']}}",
            "`services.db`: `5433:5432`: services are reached",
        ),
        ("services: {db: {}}", "missing field `image`"),
        ("services: {db: {image: ''}}", "`services.db`: it has no image"),
        (
            "services: {localhost: {image: a}}",
            "`services.localhost`: its name is not a name of a host",
        ),
        ("services: {db: {image: a, options: --privileged}}", "unknown key `options`"),
        (
            "services: {a: {image: x}, b: {image: x}, c: {image: x}, d: {image: x}, e: {image: x}, \
          f: {image: x}, g: {image: x}, h: {image: x}, i: {image: x}}",
            "`services` has more than 8",
        ),
    ] {
        let world = TestWorld::local([]);
        project(&world, &[(".github/patchwright.yml", file)]);
        let output = exec(&world, &[]).expect(2);
        assert!(output.stderr.contains(expected), "{}", output.text());
    }
}
