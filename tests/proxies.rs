//! The way to services as the environment names it: proxies that are away or are none, servers without one, certificates
//! that are not there.

use crate::exec::project;
use crate::support::model::say;
use crate::support::world::{TestWorld, fix, github};

/// A port that nobody listens on.
const AWAY: &str = "http://user:hunter2-of-the-proxy@127.0.0.1:9";

#[test]
fn a_proxy_that_is_away_is_named_and_not_the_server_behind_it() {
    let told = "through the proxy `127.0.0.1:9` of `HTTP_PROXY`";
    let world = TestWorld::new(github(), fix()).set("HTTP_PROXY", AWAY);
    let output = world.run(&["issue", "acme/app#7"]).expect(60);
    assert!(output.stderr.contains(&format!("no connection {told}")), "{}", output.text());
    assert!(output.stderr.contains("hint: check that the proxy runs"), "{}", output.text());
    assert!(!output.stderr.contains("again later"), "{}", output.text());
    let output = world.run(&["doctor"]);
    assert!(
        output.stdout.contains("ok    proxy: `127.0.0.1:9` of `HTTP_PROXY`"),
        "{}",
        output.text()
    );
    assert!(output.stdout.contains(told), "{}", output.text());
    assert!(!output.text().contains("hunter2"), "{}", output.text());
    assert!(world.github.requests().is_empty());

    let world = TestWorld::local([]).set("all_proxy", AWAY);
    project(&world);
    let output = world.run(&["exec", "Fix it", "--repo", "project"]).expect(50);
    let told = "cannot connect to `127.0.0.1` through the proxy `127.0.0.1:9` of `all_proxy`";
    assert!(output.stderr.contains(told), "{}", output.text());
    assert!(output.stderr.contains("hint: check that the proxy runs"), "{}", output.text());
    assert!(!output.text().contains("hunter2"), "{}", output.text());

    let args = ["exec", "Fix it", "--repo", "http://127.0.0.1:8/acme/app.git"];
    let output = world.run(&args);
    assert!(output.stderr.contains("no connection through the proxy"), "{}", output.text());
}

/// GitHub and the model of a world have addresses, and no names.
#[test]
fn no_proxy_can_name_all_servers() {
    let world = TestWorld::new(github(), fix());
    let world = world.set("HTTP_PROXY", AWAY).set("NO_PROXY", "*");
    world.run(&["issue", "acme/app#7"]).expect(0);
    assert_eq!(world.github.pulls().len(), 1);
    let output = world.run(&["doctor"]);
    assert!(output.stdout.contains("ok    proxy: none: `NO_PROXY`"), "{}", output.text());
}

/// The requests that were to go by way of it would go out directly.
#[test]
fn a_variable_that_names_no_proxy_is_refused() {
    let world = TestWorld::new(github(), fix()).set("HTTP_PROXY", "http://a-password@bad host:x");
    for args in [&["issue", "acme/app#7"][..], &["review", "acme/app#7"]] {
        let output = world.run(args).expect(2);
        assert!(
            output.stderr.contains("`HTTP_PROXY` is not the address of a proxy"),
            "{}",
            output.text()
        );
        assert!(!output.stderr.contains("a-password"), "{}", output.text());
    }
    let output = world.run(&["doctor"]).expect(2);
    assert!(output.stdout.contains("FAIL  proxy: `HTTP_PROXY` is not"), "{}", output.text());
    assert!(!output.stdout.contains("is not a web address"), "{}", output.text());
    assert!(world.github.requests().is_empty() && world.model.requests().is_empty());
}

#[test]
fn certificates_that_are_not_there_are_told() {
    let none = "`empty.pem` has no certificate in the PEM format";
    for (name, value, why) in [
        ("SSL_CERT_FILE", "/nowhere/ca.pem", "/nowhere/ca.pem"),
        ("SSL_CERT_FILE", "empty.pem", none),
        ("SSL_CERT_DIR", "/nowhere:/nowhere/else", "names no folder that is there"),
    ] {
        let world = TestWorld::local([say("It is called calc.")]).set(name, value);
        project(&world);
        fs_err::write(world.path("empty.pem"), "no certificate\n").unwrap();
        let output = world.run(&["exec", "What is it called?", "--repo", "project"]).expect(0);
        let warning = format!("warning: `{name}` names no");
        assert!(output.stderr.contains(&warning), "{}", output.text());
        assert!(output.stderr.contains(why), "{}", output.text());
        let output = world.run(&["doctor"]).expect(2);
        let finding = format!("FAIL  certificates: `{name}` names no");
        assert!(output.stdout.contains(&finding), "{}", output.text());
    }
}

/// The TLS library reads all files of such a folder as a whole.
#[test]
fn a_folder_of_certificates_with_what_has_no_end_is_refused() {
    let world = TestWorld::local([]).set("SSL_CERT_DIR", "certificates");
    project(&world);
    let folder = world.path("certificates");
    fs_err::create_dir(&folder).unwrap();
    let refused = |why: &str| {
        let output = world.run(&["exec", "x", "--repo", "project"]).expect(2);
        for words in ["error: `SSL_CERT_DIR` names no folder of certificates", why] {
            assert!(output.stderr.contains(words), "{words}: {}", output.text());
        }
    };
    let large = |name: &str, mib: u64| {
        fs_err::File::create(folder.join(name)).unwrap().set_len(mib << 20).unwrap();
    };
    large("a.pem", 17);
    refused("`certificates/a.pem` has more than 16 MiB");
    for name in ["a.pem", "b.pem", "c.pem", "d.pem", "e.pem"] {
        large(name, 16);
    }
    refused("the files of `certificates` have more than 64 MiB together");
}

#[test]
fn a_proxy_that_is_away_is_named_where_only_git_goes_by_it() {
    let world = TestWorld::local([]).set("HTTP_PROXY", AWAY);
    let args = ["exec", "Fix it", "--repo", "http://127.0.0.1:8/acme/app.git"];
    let output = world.run(&args);
    let told = "no connection through the proxy `127.0.0.1:9` of `HTTP_PROXY`";
    for words in [told, "hint: check that the proxy runs"] {
        assert!(output.stderr.contains(words), "{words}: {}", output.text());
    }
    assert!(!output.text().contains("hunter2"), "{}", output.text());
}

#[test]
fn what_does_not_reach_a_collector_names_the_proxy() {
    let world = TestWorld::local([say("It is called calc.")])
        .set("HTTP_PROXY", AWAY)
        .set("NO_PROXY", "127.0.0.1,localhost")
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.test:4318")
        .set("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    project(&world);
    let output = world.run(&["exec", "What is it called?", "--repo", "project"]).expect(0);
    let told = "no connection through the proxy `127.0.0.1:9` of `HTTP_PROXY`";
    assert!(output.stderr.contains(told), "{}", output.text());
    assert!(!output.text().contains("hunter2"), "{}", output.text());
}
