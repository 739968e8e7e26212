//! Setup commands: run once, and what they left is in every later pod.

use std::time::Duration;

use patchwright_sandbox::{ImageSpec, PreparedImage, Sandbox, SandboxError, SandboxSpec};
use secrecy::SecretString;

use super::{Pods, connected, pods};
use crate::egress::Sink;
use crate::sandboxes::{sh, spec};
use crate::support::docker::{IMAGE, fresh_run};

fn image_spec<'a>(pods: &'a Pods, setup: &'a [String]) -> ImageSpec<'a> {
    let plain = ImageSpec::plain("acme/app".to_owned(), Some(IMAGE), &pods.run);
    ImageSpec { setup, setup_timeout: Duration::from_mins(1), ..plain }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_setup_leaves_is_in_every_later_pod_and_its_secrets_are_not() {
    let Some(pods) = pods().await else { return };
    let setup = [
        "id -u; mkdir -p deps ~/.cache && echo dep > deps/dep && echo home > ~/.cache/home"
            .to_owned(),
        "echo \"$KEY\" > ~/.npmrc && ln -s deps/dep link".to_owned(),
    ];
    let secrets = [("KEY".to_owned(), SecretString::from("hunter2-hunter2".to_owned()))];
    let spec_of = || ImageSpec { setup_secrets: &secrets, ..image_spec(&pods, &setup) };
    let first = pods.sandbox.prepare(&spec_of()).await.unwrap();
    pods.assert_nothing_left();
    // Another process with the same state folder.
    let later = connected(&pods.server, pods.state.path(), None).await;
    let second = later.prepare(&spec_of()).await.unwrap();
    assert_eq!((first.is_cached, second.is_cached), (false, true));
    assert_eq!((&first.reference, &first.setup), (&second.reference, &second.setup));
    assert_eq!(first.setup[1].purged, ["/pw-home/agent/.npmrc"]);
    let kept = std::path::Path::new(&first.reference).join("left.tar");
    let kept = fs_err::read(kept).unwrap();
    assert!(!kept.windows(15).any(|part| part == b"hunter2-hunter2"));
    let image = PreparedImage { paths: vec!["bin".to_owned()], ..second };
    let running = later.start(&SandboxSpec { image, ..spec(&pods.run, IMAGE) }).await.unwrap();
    let seen = sh(
        &running,
        "cat link ~/.cache/home; ls -A ~; stat -c %u deps; echo ${PATH%%:*}; echo x > deps/dep",
    )
    .await;
    assert_eq!(seen, "dep\nhome\n.cache\n.profile\n10000\n/pw/workspace/bin");
    running.stop().await.unwrap();
    pods.assert_nothing_left();
    assert!(!pods.server.world().made.iter().any(|pod| pod.to_string().contains("hunter2")));
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_that_fails_is_tried_again_by_the_next_run() {
    let Some(pods) = pods().await else { return };
    let setup = ["echo first".to_owned(), "echo broken; exit 3".to_owned()];
    let required = ImageSpec { setup_required: true, ..image_spec(&pods, &setup) };
    let err = pods.sandbox.prepare(&required).await.err().unwrap();
    let SandboxError::Setup { command, exit_code, output, .. } = &err else { panic!("{err}") };
    assert_eq!((command, *exit_code, output.as_str()), (&setup[1], 3, "broken\n"));
    let spec = image_spec(&pods, &setup);
    let first = pods.sandbox.prepare(&spec).await.unwrap();
    let codes: Vec<Option<i32>> = first.setup.iter().map(|ran| ran.exit_code).collect();
    assert_eq!(codes, [Some(0), Some(3)]);
    assert!(pods.sandbox.prepare(&spec).await.unwrap().is_cached);
    let other = fresh_run();
    let other = pods.sandbox.prepare(&ImageSpec { run: &other, ..spec }).await.unwrap();
    assert!(!other.is_cached);
    pods.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_reaches_its_hosts_and_never_every_host() {
    let Some(pods) = pods().await else { return };
    let sink = Sink::start().await;
    let setup = [format!(
        "python3 -c \"import urllib.request as r; open('came','wb').write(r.urlopen('http://web.test:{}/setup').read())\"",
        sink.port
    )];
    let hosts = [format!("web.test:{}=127.0.0.1", sink.port)];
    let spec = ImageSpec {
        setup_hosts: &hosts,
        setup_egress: Some(sink.egress()),
        ..image_spec(&pods, &setup)
    };
    let prepared = pods.sandbox.prepare(&spec).await.unwrap();
    assert_eq!((prepared.setup[0].exit_code, sink.count()), (Some(0), 1));
    let every = ["*".to_owned()];
    let spec = ImageSpec { setup_hosts: &every, ..image_spec(&pods, &setup) };
    let err = pods.sandbox.prepare(&spec).await.err().unwrap();
    assert!(err.to_string().contains("cannot reach every host"), "{err}");
    pods.assert_nothing_left();
}

/// Waits until a program runs in the container of commands, and a moment longer.
async fn at_work(pods: &Pods) {
    let runs = |request: &String| request.contains("/exec?container=sandbox");
    while !pods.server.world().requests.iter().any(runs) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// A process that ends waits for no more than this.
async fn assert_removed(pods: &Pods) {
    pods.sandbox.settled().await;
    let removes = |request: &String| request.starts_with("DELETE ");
    assert!(pods.server.world().requests.iter().any(removes), "{:?}", pods.server.pods());
    pods.assert_nothing_left();
}

/// A signal, a budget or a job that is given up ends it in the middle: secrets are in that pod.
#[tokio::test(flavor = "multi_thread")]
async fn setup_that_is_given_up_leaves_no_pod() {
    let Some(pods) = pods().await else { return };
    let setup = ["sleep 300".to_owned()];
    let spec = image_spec(&pods, &setup);
    tokio::select! {
        _ = pods.sandbox.prepare(&spec) => panic!("it ended"),
        () = at_work(&pods) => {}
    }
    assert_removed(&pods).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_made_after_nobody_waits_for_it_does_not_stay() {
    let Some(pods) = pods().await else { return };
    pods.server.world().slow = Duration::from_secs(3);
    tokio::select! {
        _ = pods.start() => panic!("it started"),
        () = tokio::time::sleep(Duration::from_secs(1)) => {}
    }
    assert_removed(&pods).await;
    assert_eq!(pods.server.world().made.len(), 1);
}

/// As after a power cut.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_setup_that_is_not_whole_is_made_again() {
    let Some(pods) = pods().await else { return };
    let setup = ["echo dep > dep".to_owned()];
    let spec_of = || image_spec(&pods, &setup);
    let first = pods.sandbox.prepare(&spec_of()).await.unwrap();
    let place = std::path::Path::new(&first.reference);
    let tar = fs_err::read(place.join("left.tar")).unwrap();
    for (file, content) in [("left.tar", &tar[..1000]), ("left.tar", &[]), ("about.json", &[])] {
        fs_err::write(place.join(file), content).unwrap();
        let again = pods.sandbox.prepare(&spec_of()).await.unwrap();
        assert!(!again.is_cached, "{file}");
        assert_eq!(again.reference, first.reference);
        assert!(pods.sandbox.prepare(&spec_of()).await.unwrap().is_cached, "{file}");
        let start = SandboxSpec { image: again, ..spec(&pods.run, IMAGE) };
        let running = pods.sandbox.start(&start).await.unwrap();
        assert_eq!(sh(&running, "cat dep").await, "dep");
        running.stop().await.unwrap();
    }
    // One of a version that did not write down how long it is.
    let about = fs_err::read_to_string(place.join("about.json")).unwrap();
    let mut about: serde_json::Value = serde_json::from_str(&about).unwrap();
    about.as_object_mut().unwrap().remove("bytes");
    fs_err::write(place.join("about.json"), about.to_string()).unwrap();
    assert!(pods.sandbox.prepare(&spec_of()).await.unwrap().is_cached);
}
