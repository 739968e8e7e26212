//! Repositories that nobody prepared: their dependencies are installed from registries, through the relay,
//! and what cannot be installed is said.

use futures_util::TryStreamExt;
use serde_json::{Value, json};

use crate::support::docker::{BUSYBOX, docker, socket};
use crate::support::git_repo::git;
use crate::support::leaks::Oracle;
use crate::support::model::{Turn, call, say};
use crate::support::registry::{Mood, Registry, image_with_pip, requirements};
use crate::support::world::{Output, TestWorld};

/// A project with a build backend of its own, which leaves metadata in the tree as setuptools does.
const PYPROJECT: &str = "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n\
    [project]\nname = 'app'\nversion = '1'\ndependencies = ['greeting==1.0']\n";
const BACKEND: &str = "import os, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    os.makedirs('app.egg-info', exist_ok=True)
    open('app.egg-info/PKG-INFO', 'a').write('again\\n')
    name, info = 'app-1-py3-none-any.whl', 'app-1.dist-info/'
    with zipfile.ZipFile(os.path.join(folder, name), 'w') as wheel:
        wheel.writestr('app.pth', os.getcwd() + '\\n')
        wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: app\\nVersion: 1\\nRequires-Dist: greeting==1.0\\n')
        wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
        wheel.writestr(info + 'RECORD', '')
    return name
build_wheel = build_editable
";
const TEST: &str = "import unittest\nimport greeting\n\nclass Test(unittest.TestCase):\n    def test(self):\n        self.assertEqual(greeting.hello(), 4)\n";

/// A repository with these files.
pub(crate) fn project(world: &TestWorld, files: &[(&str, &str)]) {
    let path = world.path("project");
    for (name, content) in files {
        let file = path.join(name);
        fs_err::create_dir_all(file.parent().unwrap()).unwrap();
        fs_err::write(file, content).unwrap();
    }
    git(&path, &["init", "--quiet", "--initial-branch", "main"]);
    git(&path, &["add", "."]);
    git(&path, &["commit", "--quiet", "--message", "First"]);
}

fn python(world: &TestWorld, port: u16) {
    let requirements = requirements(port);
    project(
        world,
        &[
            ("pyproject.toml", PYPROJECT),
            ("backend.py", BACKEND),
            ("requirements.txt", &requirements),
            ("tests/test_greeting.py", TEST),
        ],
    );
}

/// In containers that have pip, where setup reaches the registry by its name only.
fn world(turns: impl IntoIterator<Item = Turn>, port: u16) -> Option<TestWorld> {
    let image = image_with_pip()?;
    let world = TestWorld::local(turns).in_docker().set("PATCHWRIGHT_IMAGE", image);
    Some(world.set("PATCHWRIGHT_SETUP_ALLOW", format!("pypi.test:{port}=127.0.0.1")))
}

pub(crate) fn exec(world: &TestWorld, more: &[&str]) -> Output {
    world.run(&[&["exec", "Do it", "--repo", "project", "--out", "out"], more].concat())
}

pub(crate) fn sh(command: &str) -> Turn {
    call("shell_command", json!({ "command": command }))
}

pub(crate) fn result(world: &TestWorld) -> Value {
    serde_json::from_slice(&fs_err::read(world.path("out/result.json")).unwrap()).unwrap()
}

/// The commands of setup: name and exit code.
fn steps(result: &Value) -> Vec<(String, Option<i64>)> {
    let steps = result["provenance"]["setup"]["steps"].as_array().cloned().unwrap_or_default();
    let step =
        |step: &Value| (step["name"].as_str().unwrap().to_owned(), step["exit_code"].as_i64());
    steps.iter().map(step).collect()
}

pub(crate) fn patched(world: &TestWorld) -> Vec<String> {
    let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap_or_default();
    let heads = patch.lines().filter_map(|line| line.strip_prefix("diff --git a/"));
    heads.map(|line| line.split_once(" b/").unwrap().0.to_owned()).collect()
}

const CHECK: [&str; 2] = ["--verify", "python3 -m unittest discover -s tests"];

#[test]
fn a_project_without_configuration_gets_its_dependencies() {
    let registry = Registry::start(Mood::Well);
    // What the model builds again, and what it writes itself, beside what setup left.
    let again = "python3 -m pip install --no-deps -e . --user >/dev/null 2>&1; mkdir -p node_modules/x; \
        echo x > node_modules/x/i.js; echo 'print(1)' > own.py; python3 -c 'import greeting; print(greeting.hello() * 11)'; \
        echo $HOME $PIP_NO_INDEX";
    let Some(world) = world([sh(again), say("Done.")], registry.port) else { return };
    python(&world, registry.port);
    let output = exec(&world, &CHECK).expect(0);
    let result = result(&world);
    let expected = [
        ("pip install -r (requirements.txt)".to_owned(), Some(0)),
        ("pip install -e (pyproject.toml)".to_owned(), Some(0)),
    ];
    assert_eq!(steps(&result), expected, "{}\n{result:#}", output.text());
    assert_eq!(result["checks"], "passed", "{result:#}");
    let told = world.told();
    assert!(told.contains("<setup>\\nThe dependencies of the repository were installed"), "{told}");
    assert!(told.contains("44\\n/home/agent 1"), "{told}");
    assert_eq!(patched(&world), ["own.py"], "what setup leaves is no change");
    assert_eq!(registry.asked().len(), 2, "{:?}", registry.asked());

    // The next run starts from what the first one installed.
    world.model.add([say("Nothing to do.")]);
    exec(&world, &CHECK).expect(0);
    assert_eq!(registry.asked().len(), 2, "{:?}", registry.asked());
    assert_eq!(crate::dependencies::result(&world)["provenance"]["setup"]["is_cached"], true);
}

#[test]
fn a_registry_that_is_down_is_said_and_the_run_goes_on() {
    let port = Registry::down();
    let turns = [sh("echo x > own.py"), say("Done."), say("Done."), say("Done.")];
    let Some(world) = world(turns, port) else { return };
    python(&world, port);
    // Without the dependency the check stays red.
    let output = exec(&world, &CHECK).expect(20);
    let result = result(&world);
    let codes: Vec<Option<i64>> = steps(&result).into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, [Some(1), Some(1)], "{result:#}");
    // The second one asks the index that is not allowed.
    let second = &result["provenance"]["setup"]["steps"][1];
    assert_eq!(second["refused"], json!(["pypi.org:443"]), "{result:#}");
    let hint = "setup may not reach `pypi.org:443`: allow it with `network.setup-allow`";
    assert!(second["hint"].as_str().unwrap().starts_with(hint), "{result:#}");
    assert!(output.stderr.contains(hint), "{}", output.text());
    let told = world.told();
    assert!(told.contains("2 of 2 commands failed"), "{told}");
    assert!(told.contains("It may not reach pypi.org:443."), "{told}");
    assert_eq!(patched(&world), ["own.py"]);
}

#[test]
fn a_registry_that_never_answers_is_bounded_by_the_time_for_setup() {
    let registry = Registry::start(Mood::Silent);
    let Some(world) = world([say("Done.")], registry.port) else { return };
    python(&world, registry.port);
    fs_err::write(world.path("operator.yml"), "limits: {setup-timeout: 5s}\n").unwrap();
    exec(&world, &["--config", "operator.yml"]).expect(0);
    let result = result(&world);
    let first = &result["provenance"]["setup"]["steps"][0];
    assert_eq!(first["timed_out"], true, "{result:#}");
    assert_eq!(first["hint"], "give setup more time with `limits.setup-timeout`");
    assert_eq!(steps(&result)[1].1, None, "the next one has no time left: {result:#}");
    // It is tried again by the next run: what failed is nobody's cache.
    world.model.add([say("Done.")]);
    exec(&world, &["--config", "operator.yml"]).expect(0);
    assert_eq!(
        crate::dependencies::result(&world)["provenance"]["setup"]["is_cached"],
        Value::Null
    );
}

#[test]
fn setup_that_is_required_ends_the_run() {
    let port = Registry::down();
    let Some(world) = world([], port) else { return };
    project(&world, &[("pyproject.toml", PYPROJECT), ("backend.py", BACKEND)]);
    let output = exec(&world, &["--setup-required"]).expect(70);
    let text = output.text();
    assert!(text.contains("setup command `pip install -e (pyproject.toml)` failed"), "{text}");
    assert!(text.contains("setup may not reach `pypi.org:443`: allow it with"), "{text}");
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn configured_commands_that_fail_are_said_too_and_the_next_ones_run() {
    let setup = ["--setup", "echo broken; exit 3", "--setup", "echo made > made.txt"];
    let world = TestWorld::local([sh("cat made.txt"), say("Done.")]);
    project(&world, &[("README.md", "# app\n")]);
    exec(&world, &setup).expect(0);
    let result = result(&world);
    let expected =
        [("echo broken; exit 3".to_owned(), Some(3)), ("echo made > made.txt".to_owned(), Some(0))];
    assert_eq!(steps(&result), expected);
    assert_eq!(result["provenance"]["setup"]["source"], "flag or environment");
    assert!(world.told().contains("Output of `echo broken; exit 3`:\\nbroken"), "{}", world.told());
}

#[tokio::test]
async fn setup_that_fills_the_disk_is_ended_and_the_run_goes_on() {
    if docker().await.is_none() {
        return;
    }
    let fill =
        "mkdir /fill; for n in 1 2 3; do head -c 100000000 /dev/zero > /fill/$n; done; sleep 120";
    let world = TestWorld::local([sh("ls -d /fill /next"), say("Done.")]).in_docker();
    project(&world, &[("README.md", "# app\n")]);
    fs_err::write(world.path("operator.yml"), "container: {workspace: 200m}\n").unwrap();
    let setup = ["--config", "operator.yml", "--setup", fill, "--setup", "mkdir /next"];
    exec(&world, &setup).expect(0);
    let result = result(&world);
    let codes: Vec<Option<i64>> = steps(&result).into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, [Some(137), None], "{result:#}");
    let first = &result["provenance"]["setup"]["steps"][0];
    assert_eq!(first["hint"], "let setup write more with `container.workspace`", "{result:#}");
    let told = world.told();
    assert!(told.contains("stopped: setup had written more than it may"), "{told}");
    assert!(!told.contains("/fill\\n"), "nothing of it is kept: {told}");
}

#[tokio::test]
async fn what_setup_wrote_in_no_time_counts_and_so_does_its_memory() {
    if docker().await.is_none() {
        return;
    }
    let world = TestWorld::local([sh("ls -d /fill"), say("Done.")]).in_docker();
    project(&world, &[("README.md", "# app\n")]);
    let limits = "container: {workspace: 200m, memory: 300m}\n";
    fs_err::write(world.path("operator.yml"), limits).unwrap();
    let bound = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; exit 3";
    let fill = "mkdir /fill; head -c 250000000 /dev/zero > /fill/all";
    let setup = ["--config", "operator.yml", "--setup", bound];
    exec(&world, &setup).expect(0);
    assert!(world.told().contains("314572800"), "{}", world.told());
    world.model.add([sh("ls -d /fill"), say("Done.")]);
    exec(&world, &["--config", "operator.yml", "--setup", fill]).expect(0);
    let told = world.told();
    assert!(told.contains("stopped: setup had written more than it may"), "{told}");
    assert!(!told.contains("/fill\\n"), "nothing of it is kept: {told}");
}

/// The digests of a lock file are the last word.
#[test]
fn a_registry_that_gives_something_else_than_the_lock_file_says_is_not_believed() {
    let registry = Registry::start(Mood::Well);
    let Some(world) = world([sh("python3 -c 'import greeting'"), say("Done.")], registry.port)
    else {
        return;
    };
    let pinned = requirements(registry.port)
        .replace("greeting==1.0", &format!("greeting==1.0 --hash=sha256:{}", "0".repeat(64)));
    project(&world, &[("requirements.txt", &pinned)]);
    exec(&world, &["--verify", "true"]).expect(0);
    let result = result(&world);
    assert_eq!(steps(&result)[0].1, Some(1), "{result:#}");
    let told = world.told();
    assert!(told.contains("DO NOT MATCH THE HASHES"), "{told}");
    assert!(told.contains("No module named 'greeting'"), "{told}");
}

#[test]
fn none_stands_alone() {
    let none: &[(&str, &str)] = &[("README.md", "# app\n")];
    let listed = &[(".github/patchwright.yml", "setup: [none, make]\n")][..];
    for (args, files, says) in [
        (&["--setup", "none", "--setup", "make"][..], none, "`--setup`"),
        (&["--setup-allow", "registries,none"], none, "`--setup-allow`"),
        (&[], listed, "`setup`"),
    ] {
        let world = TestWorld::local([]);
        project(&world, files);
        let output = exec(&world, args).expect(2);
        assert!(
            output.stderr.contains(says) && output.stderr.contains("none"),
            "{}",
            output.text()
        );
    }
}

#[test]
fn none_switches_setup_off() {
    for (name, args, files) in [
        (
            "flag",
            &["--setup", "none"][..],
            &[("package.json", "{\"dependencies\": {\"a\": \"1\"}}")][..],
        ),
        (
            "file",
            &[],
            &[
                ("package.json", "{\"dependencies\": {\"a\": \"1\"}}"),
                (".github/patchwright.yml", "setup: none\n"),
            ],
        ),
        (
            "list",
            &[],
            &[
                ("package.json", "{\"dependencies\": {\"a\": \"1\"}}"),
                (".github/patchwright.yml", "setup: []\n"),
            ],
        ),
    ] {
        let world = TestWorld::local([say("Done.")]);
        project(&world, files);
        exec(&world, args).expect(0);
        assert_eq!(steps(&result(&world)), [], "{name}");
        assert!(!world.told().contains("<setup>"), "{name}");
    }
}

/// npm takes everything away before it finds that manifest and lock file disagree.
#[test]
fn a_lock_file_that_lies_is_said_and_stays_as_it_is() {
    let registry = Registry::start(Mood::Well);
    let port = registry.port;
    let npmrc = format!("registry=http://npm.test:{port}/\n");
    let lock = "{\"name\": \"app\", \"lockfileVersion\": 3, \"packages\": {\"\": {\"dependencies\": {\"greeting\": \"^9\"}}}}";
    let world =
        TestWorld::local([sh("node -e 'console.log(require(\"greeting\")() * 11)'"), say("Done.")])
            .set("PATCHWRIGHT_SETUP_ALLOW", format!("npm.test:{port}=127.0.0.1"));
    let manifest = "{\"name\": \"app\", \"dependencies\": {\"greeting\": \"^1.0.0\"}}";
    let files =
        [("package.json", manifest), ("package-lock.json", lock), (".npmrc", npmrc.as_str())];
    project(&world, &files);
    exec(&world, &[]).expect(0);
    let result = result(&world);
    assert_eq!(
        steps(&result),
        [("npm install (package-lock.json)".to_owned(), Some(0))],
        "{result:#}"
    );
    let note = "package-lock.json: does not agree with `package.json` on `greeting`; installed from `package.json` instead";
    assert_eq!(result["provenance"]["setup"]["notes"], json!([note]));
    assert!(world.told().contains("44\\n"), "{}", world.told());
    assert_eq!(patched(&world), Vec::<String>::new());
}

/// What Docker keeps of the image that setup has made: configuration, history and every layer.
async fn exported(image: &str) -> Vec<u8> {
    let docker = bollard::Docker::connect_with_unix(&socket(), 60, bollard::API_DEFAULT_VERSION);
    let pieces: Vec<_> = docker.unwrap().export_image(image).try_collect().await.unwrap();
    pieces.concat()
}

const SECRETS: [&str; 3] = [
    "[ -n \"$INDEX_TOKEN\" ] && [ -n \"$INDEX_URL\" ] && [ -z \"$PATCHWRIGHT_SETUP_SECRET_INDEX_TOKEN\" ]",
    "echo \"asking $INDEX_URL with $INDEX_TOKEN\"; exit 3",
    "mkdir -p $HOME/.cfg; echo \"_authToken=$INDEX_TOKEN\" > $HOME/.npmrc; echo made > made.txt; \
     printf 'user:%s' \"$INDEX_TOKEN\" | base64 > $HOME/.cfg/auth; echo kept > $HOME/.cfg/kept; \
     printf '%045d%s' 0 \"$INDEX_TOKEN\" | base64 > $HOME/.cfg/wrapped; echo \"$INDEX_TOKEN\" > $HOME/.cfg/closed; \
     echo x > $HOME/.cfg/dull; chmod 0 $HOME/.cfg/closed $HOME/.cfg/dull; mkdir $HOME/dark; \
     echo \"$INDEX_TOKEN\" > $HOME/dark/inside; chmod 0 $HOME/dark; \
     ln -s \"/tmp/$INDEX_TOKEN\" link; env > tracked.txt; mkdir -p \"$HOME/dir-$INDEX_TOKEN/inner\"; \
     echo x > \"$HOME/dir-$INDEX_TOKEN/inner/x\"; touch \"named-$INDEX_TOKEN\"",
];

async fn secrets_of_setup_stay_there(world: TestWorld) {
    let oracle = Oracle::new(&["token", "password"]);
    let url = format!("https://user:{}@registry.example/simple", oracle.value("password"));
    let world = world
        .set("PATCHWRIGHT_SETUP_SECRET_INDEX_TOKEN", oracle.value("token"))
        .set("PATCHWRIGHT_SETUP_SECRET_INDEX_URL", &url);
    project(&world, &[("README.md", "# app\n"), ("tracked.txt", "own\n")]);
    let setup: Vec<&str> = SECRETS.iter().flat_map(|command| ["--setup", command]).collect();
    let output = exec(&world, &setup).expect(0);
    let result = result(&world);
    let codes: Vec<Option<i64>> = steps(&result).into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, [Some(0), Some(3), Some(0)], "{result:#}");
    let notes = result["provenance"]["setup"]["notes"].to_string();
    for name in [
        ".npmrc`",
        ".cfg/auth`",
        ".cfg/wrapped`",
        ".cfg/closed`",
        "dark/inside`",
        "link`",
        "tracked.txt`",
        "agent/dir-***`",
        "/named-***`",
    ] {
        assert!(notes.contains(name), "{name}: {notes}");
    }
    let told = world.told();
    assert!(told.contains("asking https://user:***@registry.example/simple with ***"), "{told}");
    assert!(told.contains("made\\nkept\\nown"), "what holds no secret stays: {told}");
    assert!(oracle.search(output.text().as_bytes()).is_empty(), "{}", output.text());
    for request in world.model.requests() {
        assert!(oracle.search(&request.raw).is_empty(), "{told}");
    }
    assert_eq!(oracle.search_folder(world.folder.path()), Vec::<String>::new());
    let image = result["provenance"]["image"].as_str().unwrap_or_default();
    if let Some((_, id)) = image.split_once("with setup (") {
        let found = oracle.search(&exported(id.trim_end_matches(')')).await);
        assert_eq!(found, Vec::<String>::new(), "in the image");
    }
}

fn looking() -> [Turn; 2] {
    [sh("env; cat made.txt $HOME/.cfg/kept tracked.txt; ls -laR $HOME . | head -50"), say("Done.")]
}

#[tokio::test]
async fn secrets_of_setup_are_in_no_folder_of_the_local_sandbox() {
    secrets_of_setup_stay_there(TestWorld::local(looking())).await;
}

#[tokio::test]
async fn secrets_of_setup_are_in_no_image() {
    if docker().await.is_none() {
        return;
    }
    let world = TestWorld::local(looking()).in_docker().set("PATCHWRIGHT_IMAGE", BUSYBOX);
    secrets_of_setup_stay_there(world).await;
}

#[test]
fn a_secret_of_setup_needs_a_name() {
    let world = TestWorld::local([]).set("PATCHWRIGHT_SETUP_SECRET_9-x", "0123456789");
    project(&world, &[("README.md", "# app\n")]);
    let output = exec(&world, &[]).expect(2);
    assert!(output.stderr.contains("PATCHWRIGHT_SETUP_SECRET_9-x"), "{}", output.text());
    assert!(!output.text().contains("0123456789"), "{}", output.text());
}
