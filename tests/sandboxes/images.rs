//! Images: chosen, found, set up once and kept; and images that try to loosen the container.

use std::collections::HashMap;
use std::time::Duration;

use bollard::models::{ContainerConfig, ContainerCreateBody, HealthConfig};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, CreateContainerOptions, InspectContainerOptions,
    RemoveContainerOptions, RemoveImageOptions,
};
use patchwright_sandbox::packed::Packed;
use patchwright_sandbox::{ImageSpec, PreparedImage, Sandbox, SandboxError, SandboxSpec};

use super::{assert_nothing_left, sh, spec};
use crate::support::docker::{BUSYBOX, IMAGE, RealDocker, docker};
use crate::support::guest::packed;

fn image_spec<'a>(
    run: &'a str,
    image: &'a str,
    setup: &'a [String],
    tree: Option<&'a Packed>,
) -> ImageSpec<'a> {
    let plain = ImageSpec::plain("acme/app".to_owned(), Some(image), run);
    ImageSpec { setup, setup_timeout: Duration::from_mins(1), tree, ..plain }
}

/// A tar with one file.
fn tree() -> Packed {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(5);
    tar.append_data(&mut header, "src/base.txt", &b"base\n"[..]).unwrap();
    packed(&tar.into_inner().unwrap())
}

async fn remove_image(docker: &RealDocker, id: &str) {
    docker.engine.remove_image(id, None::<RemoveImageOptions>, None).await.unwrap();
}

#[tokio::test]
async fn present_image_is_pinned_by_id() {
    let Some(docker) = docker().await else { return };
    let prepared =
        docker.sandbox.prepare(&image_spec(&docker.run, IMAGE, &[], None)).await.unwrap();
    let id = docker.engine.inspect_image(IMAGE).await.unwrap().id.unwrap();
    let description = format!("{IMAGE} ({id})");
    assert_eq!(prepared, PreparedImage { reference: id, description, ..PreparedImage::default() });
}

#[tokio::test]
async fn missing_image_is_named_with_the_cause() {
    let Some(docker) = docker().await else { return };
    for name in [
        "127.0.0.1:1/no/such:image",
        "sha256:0000000000000000000000000000000000000000000000000000000000000000",
    ] {
        let err =
            docker.sandbox.prepare(&image_spec(&docker.run, name, &[], None)).await.err().unwrap();
        let SandboxError::NoImage { image, message } = &err else { panic!("{err}") };
        assert_eq!(image, name);
        assert!(!message.is_empty());
    }
    let err = docker.sandbox.start(&spec(&docker.run, "no-such-image:1")).await.err().unwrap();
    assert!(matches!(err, SandboxError::NoImage { .. }), "{err}");
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn setup_runs_once_and_its_results_are_there() {
    let Some(docker) = docker().await else { return };
    let setup = [
        // Unique, so that no other run's image is reused.
        format!("echo {} > /opt/marker || mkdir -p /opt && date +%s%N > /opt/marker", docker.run),
        "id -u > made && cat src/base.txt >> made && mkdir deps && echo dep > deps/dep".to_owned(),
        "test ! -e /sys/class/net/eth0 && test -z \"$(env | grep -i token)\"".to_owned(),
    ];
    let tree = tree();
    let spec_of = |lock: &'static [(String, Vec<u8>)]| ImageSpec {
        lock_files: lock,
        ..image_spec(&docker.run, IMAGE, &setup, Some(&tree))
    };
    let first = docker.sandbox.prepare(&spec_of(&[])).await.unwrap();
    let second = docker.sandbox.prepare(&spec_of(&[])).await.unwrap();
    assert_eq!(first.reference, second.reference, "the setup was not reused");
    assert_eq!((first.is_cached, second.is_cached), (false, true));
    assert_eq!(first.setup, second.setup, "how it went is kept with it");
    assert_nothing_left(&docker).await;

    let running = docker.sandbox.start(&spec(&docker.run, &first.reference)).await.unwrap();
    let seen = sh(
        &running,
        "cat made deps/dep; stat -c %u . made deps; ls; echo x > made && echo writable",
    )
    .await;
    running.stop().await.unwrap();
    remove_image(&docker, &first.reference).await;
    assert_eq!(seen, "0\nbase\ndep\n10000\n10000\n10000\ndeps\nmade\nwritable");
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn setup_that_is_out_of_time_says_so() {
    let Some(docker) = docker().await else { return };
    let setup = [format!("echo {} begins; sleep 600", docker.run)];
    let tree = tree();
    let spec = image_spec(&docker.run, IMAGE, &setup, Some(&tree));
    let limit = Duration::from_secs(2);
    let err = docker
        .sandbox
        .prepare(&ImageSpec { setup_timeout: limit, setup_required: true, ..spec })
        .await
        .err();
    let Some(SandboxError::SetupTime { command, limit: said, output }) = err else {
        panic!("{err:?}")
    };
    assert_eq!((&command, said), (&setup[0], limit));
    assert_eq!(output, format!("{} begins\n", docker.run));
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn failed_setup_keeps_its_output_and_leaves_nothing() {
    let Some(docker) = docker().await else { return };
    let setup = ["echo first".to_owned(), format!("echo {} is broken; exit 3", docker.run)];
    let tree = tree();
    let spec = image_spec(&docker.run, IMAGE, &setup, Some(&tree));
    let required = ImageSpec { setup_required: true, ..spec.clone() };
    let err = docker.sandbox.prepare(&required).await.err().unwrap();
    let SandboxError::Setup { command, exit_code, output, .. } = &err else { panic!("{err}") };
    assert_eq!((command, *exit_code), (&setup[1], 3));
    assert_eq!(*output, format!("{} is broken\n", docker.run));
    assert_nothing_left(&docker).await;

    // Where it is not required, there is an image all the same, for this run only.
    let first = docker.sandbox.prepare(&spec).await.unwrap();
    let codes: Vec<Option<i32>> = first.setup.iter().map(|ran| ran.exit_code).collect();
    assert_eq!(codes, [Some(0), Some(3)]);
    let again = docker.sandbox.prepare(&spec).await.unwrap();
    assert_eq!((&again.reference, again.is_cached), (&first.reference, true));
    let other_run = crate::support::docker::fresh_run();
    let other = docker.sandbox.prepare(&ImageSpec { run: &other_run, ..spec }).await.unwrap();
    assert!(!other.is_cached, "the next run tries again");
    let gone = docker.engine.inspect_image(&first.reference).await;
    assert!(gone.is_err() || other.reference == first.reference, "the former one is removed");
    remove_image(&docker, &other.reference).await;
}

/// What setup installs for its user is where the run looks for it.
#[tokio::test]
async fn the_home_folder_of_setup_is_that_of_the_run() {
    let Some(docker) = docker().await else { return };
    let setup = [format!("echo {} > ~/made; mkdir -p ~/.local/bin ~/.cargo", docker.run)];
    let image =
        docker.sandbox.prepare(&image_spec(&docker.run, IMAGE, &setup, None)).await.unwrap();
    let image = PreparedImage {
        env: [("GOPROXY".to_owned(), "off".to_owned())].into(),
        paths: vec![".venv/bin".to_owned()],
        ..image
    };
    let spec = SandboxSpec { image: image.clone(), ..spec(&docker.run, IMAGE) };
    let running = docker.sandbox.start(&spec).await.unwrap();
    let seen = sh(
        &running,
        "cat ~/made; stat -c '%u %a' ~ ~/.cargo; echo x > ~/.cargo/y && echo $HOME $GOPROXY; \
         echo ${PATH%%:*}; sh -lc 'echo ${PATH%%:*}'; mkdir -p .venv; ls -A ~",
    )
    .await;
    running.stop().await.unwrap();
    remove_image(&docker, &image.reference).await;
    let first = "/pw/workspace/.venv/bin";
    let expected = format!(
        "{}\n10000 755\n10000 755\n/home/agent off\n{first}\n{first}\n.cargo\n.local\n.profile\nmade",
        docker.run
    );
    assert_eq!(seen, expected);
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn setup_refuses_hosts_that_it_has_no_way_to() {
    let Some(docker) = docker().await else { return };
    let (setup, hosts) = (["true".to_owned()], ["example.org".to_owned()]);
    let spec = ImageSpec { setup_hosts: &hosts, ..image_spec(&docker.run, IMAGE, &setup, None) };
    let err = docker.sandbox.prepare(&spec).await.err().unwrap();
    assert!(err.to_string().contains("no way to the hosts"), "{err}");
    assert_nothing_left(&docker).await;
}

/// An image that declares everything that could loosen the container, and these volumes.
async fn hostile_image(docker: &RealDocker, volumes: &[&str]) -> String {
    let body =
        ContainerCreateBody { image: Some(BUSYBOX.to_owned()), ..ContainerCreateBody::default() };
    let source =
        docker.engine.create_container(None::<CreateContainerOptions>, body).await.unwrap();
    let config = ContainerConfig {
        user: Some("0".to_owned()),
        env: Some(
            ["PATH=/usr/bin:/bin", "API_TOKEN=canary", "LD_PRELOAD=/x.so", "TOOL_HOME=/opt/tool"]
                .map(str::to_owned)
                .to_vec(),
        ),
        entrypoint: Some(vec!["/bin/sh".to_owned(), "-c".to_owned(), "exit 9".to_owned()]),
        cmd: Some(vec!["x".to_owned()]),
        volumes: Some(volumes.iter().map(|&path| path.to_owned()).collect()),
        healthcheck: Some(HealthConfig {
            test: Some(vec!["CMD".to_owned(), "/bin/sh".to_owned()]),
            ..HealthConfig::default()
        }),
        labels: Some(HashMap::from([("patchwright.run".to_owned(), "someone-else".to_owned())])),
        ..ContainerConfig::default()
    };
    let options = CommitContainerOptionsBuilder::default().container(&source.id).build();
    let image = docker.engine.commit_container(options, config).await.unwrap();
    docker.engine.remove_container(&source.id, None::<RemoveContainerOptions>).await.unwrap();
    image.id
}

#[tokio::test]
async fn an_image_cannot_loosen_the_container() {
    let Some(docker) = docker().await else { return };
    let volumes = ["/data", "/tmp", "/pw", "/home/agent", "/usr/lib/x"];
    let image = hostile_image(&docker, &volumes).await;
    let started = docker.sandbox.start(&spec(&docker.run, &image)).await;
    let running = match started {
        Ok(running) => running,
        Err(err) => {
            remove_image(&docker, &image).await;
            panic!("{err}")
        }
    };
    let seen = sh(&running, "id -u; env | grep -E '^(API_TOKEN|LD_PRELOAD|TOOL_HOME)'; grep -cE '^tmpfs /(data|usr/lib/x) .*size=16384k' /proc/mounts").await;
    let made = docker
        .engine
        .inspect_container(&running.id, None::<InspectContainerOptions>)
        .await
        .unwrap();
    running.stop().await.unwrap();
    remove_image(&docker, &image).await;
    assert_eq!(seen, "10000\nTOOL_HOME=/opt/tool\n2");
    let mut mounts: Vec<String> = made
        .mounts
        .unwrap()
        .into_iter()
        .map(|mount| format!("{} {}", mount.typ.unwrap(), mount.destination.unwrap()))
        .collect();
    mounts.sort();
    assert_eq!(mounts, ["tmpfs /data", "tmpfs /usr/lib/x", "volume /pw"]);
    let values: Vec<String> =
        made.config.unwrap().env.unwrap().into_iter().filter(|v| v.contains("canary")).collect();
    assert_eq!(values, Vec::<String>::new());
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn an_image_cannot_put_a_writable_folder_where_the_guest_and_its_programs_are() {
    let Some(docker) = docker().await else { return };
    for (volume, named) in [("/pw/bin/", "/pw/bin"), ("/data/../pw/workspace", "/pw/workspace")] {
        let image = hostile_image(&docker, &[volume]).await;
        let err = docker.sandbox.start(&spec(&docker.run, &image)).await.err();
        remove_image(&docker, &image).await;
        let Some(SandboxError::HardeningMismatch(why)) = &err else { panic!("{volume}: {err:?}") };
        assert!(why.contains(&format!("declares a volume at `{named}`")), "{why}");
    }
    assert_nothing_left(&docker).await;
}

/// Workers of one machine have the same state folder, and the engine's images.
#[tokio::test]
async fn workers_that_need_the_same_setup_at_once_do_it_once() {
    let Some(docker) = docker().await else { return };
    let state = tempfile::tempdir().unwrap();
    let setup = [format!("sleep 2; mkdir -p /opt; echo {} > /opt/marker", docker.run)];
    let run = || crate::support::docker::fresh_run();
    let runs = [run(), run(), run()];
    let sandboxes = [
        connected(state.path()).await,
        connected(state.path()).await,
        connected(state.path()).await,
    ];
    let specs = runs.each_ref().map(|run| image_spec(run, IMAGE, &setup, None));
    let (one, two, three) = tokio::join!(
        sandboxes[0].prepare(&specs[0]),
        sandboxes[1].prepare(&specs[1]),
        sandboxes[2].prepare(&specs[2]),
    );
    let made = [one.unwrap(), two.unwrap(), three.unwrap()];
    assert_eq!(made.iter().filter(|image| !image.is_cached).count(), 1, "{made:?}");
    assert!(made.iter().all(|image| image.reference == made[0].reference), "{made:?}");
    remove_image(&docker, &made[0].reference).await;
}

async fn connected(state: &std::path::Path) -> patchwright_sandbox::docker::DockerSandbox {
    patchwright_sandbox::docker::DockerSandbox::connect(None).await.unwrap().in_state(state)
}
