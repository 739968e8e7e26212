//! Who gets in: by the token, by a session, by a proxy's word; and pages on an address of their own.

use std::net::SocketAddr;

use super::pages::TOKEN;
use super::{Serving, http, served};
use crate::support::browser::{self, Browser, Look};
use crate::support::github::GitHub;
use crate::support::world::TestWorld;
use http::Answer;

fn world() -> TestWorld {
    served(TestWorld::new(GitHub::new().repository("acme/app", &[("a", "b\n")]), []))
}

fn sign_in(address: SocketAddr, body: &str, more: &[(&str, &str)]) -> Answer {
    let mut headers =
        vec![("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned())];
    headers.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    http::post(address, "/sign-in", &headers, body.as_bytes())
}

fn with_cookie(server: &Serving<'_>, cookie: &str) -> Answer {
    http::get(server.address, "/", &[("Cookie", cookie), ("X-Forwarded-For", "203.0.113.9")])
}

#[test]
fn the_form_takes_the_token_and_gives_a_session() {
    let world = world().set("PATCHWRIGHT_DASHBOARD_TOKEN", TOKEN);
    let server = Serving::start(&world, &["--no-worker"]);
    // A browser gets the form, not a dialog of its own.
    let page = http::get(server.address, "/", &[("Accept", "text/html,*/*;q=0.8")]);
    assert_eq!(page.status, 401);
    assert!(page.body.contains("action=\"/sign-in\"") && page.body.contains("type=\"password\""));
    assert_eq!(page.header("www-authenticate"), Some("Bearer realm=\"patchwright\""));
    assert_eq!(server.get("/sign-in").status, 200);
    if let (Some(browser), Some(axe)) = (Browser::find(), browser::axe()) {
        for is_dark in [false, true] {
            let look = Look { width: 390, height: 800, is_dark };
            assert_eq!(browser::judged(&browser, &axe, &page.body, look).violations, []);
        }
    }
    let right = format!("token={TOKEN}");
    for (body, more, status) in [
        ("", &[][..], 401),
        ("token=", &[], 401),
        (&format!("token={TOKEN}x"), &[], 401),
        (&format!("other={TOKEN}"), &[], 401),
        (&right, &[("Sec-Fetch-Site", "cross-site")], 403),
        (&format!("token={}", "x".repeat(5000)), &[], 400),
    ] {
        let answer = sign_in(server.address, body, more);
        assert_eq!(answer.status, status, "{body}");
        assert_eq!(answer.header("set-cookie"), None, "{body}");
    }
    let answer = sign_in(server.address, &right, &[("Sec-Fetch-Site", "same-origin")]);
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
    let cookie = answer.header("set-cookie").unwrap();
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=43200"] {
        assert!(cookie.contains(part), "{part}: {cookie}");
    }
    assert!(!cookie.contains("Secure") && !cookie.contains(TOKEN), "{cookie}");
    let secure = sign_in(server.address, &right, &[("X-Forwarded-Proto", "https")]);
    assert!(secure.header("set-cookie").unwrap().ends_with("; Secure"));
    let pair = cookie.split(';').next().unwrap();
    let page = with_cookie(&server, &format!("a=b; {pair}"));
    assert_eq!(page.status, 200);
    assert!(page.body.contains("action=\"/sign-out\""), "{}", page.body);
    let headers = [("Cookie".to_owned(), pair.to_owned())];
    let left = http::post(server.address, "/sign-out", &headers, b"");
    assert_eq!(left.status, 303);
    assert!(
        left.header("set-cookie").unwrap().starts_with("patchwright_session=; Path=/; Max-Age=0")
    );
    let (_, said) = server.stop(15);
    assert!(!said.contains(TOKEN), "{said}");
}

#[test]
fn a_forged_or_foreign_session_is_none() {
    let world = world().set("PATCHWRIGHT_DASHBOARD_TOKEN", TOKEN);
    let server = Serving::start(&world, &["--no-worker"]);
    let answer = sign_in(server.address, &format!("token={TOKEN}"), &[]);
    let pair = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let (until, code) = pair.split_once('=').unwrap().1.split_once('.').unwrap();
    let later = until.parse::<i64>().unwrap() + 1;
    let name = "patchwright_session";
    for forged in [
        format!("{name}="),
        format!("{name}={TOKEN}"),
        format!("{name}={until}."),
        format!("{name}={until}.{}", "0".repeat(64)),
        format!("{name}={later}.{code}"),
        format!("{name}=0.{code}"),
        format!("{name}={until}.{}", &code[..62]),
        format!("{name}=9223372036854775807.{code}"),
        format!("x{pair}"),
    ] {
        assert_eq!(with_cookie(&server, &forged).status, 401, "{forged}");
    }
    assert_eq!(with_cookie(&server, &pair).status, 200);
    drop(server);
    // It outlives the process, but neither its time nor the token.
    let server = Serving::start(&world, &["--no-worker"]);
    assert_eq!(with_cookie(&server, &pair).status, 200);
    drop(server);
    let world = world.set("PATCHWRIGHT_NOW", "2026-11-21T00:00:01Z");
    let server = Serving::start(&world, &["--no-worker"]);
    assert_eq!(with_cookie(&server, &pair).status, 401, "it has ended");
    drop(server);
    let world = world
        .set("PATCHWRIGHT_NOW", "2026-11-20T12:00:00Z")
        .set("PATCHWRIGHT_DASHBOARD_TOKEN", format!("{TOKEN}-new"));
    let server = Serving::start(&world, &["--no-worker"]);
    assert_eq!(with_cookie(&server, &pair).status, 401, "the token was changed");
}

#[test]
fn guesses_in_the_form_are_few_and_do_not_end_sessions() {
    let world = world().set("PATCHWRIGHT_DASHBOARD_TOKEN", TOKEN);
    let server = Serving::start(&world, &["--no-worker"]);
    let right = format!("token={TOKEN}");
    let answer = sign_in(server.address, &right, &[]);
    let pair = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let guess = |number: u32| sign_in(server.address, &format!("token=guess-{number}"), &[]).status;
    let answers: Vec<u16> = (0..11).map(guess).collect();
    assert_eq!(answers, [[401; 10].as_slice(), &[429]].concat());
    assert_eq!(sign_in(server.address, &right, &[]).status, 429);
    assert_eq!(with_cookie(&server, &pair).status, 200);
}

#[test]
fn settings_that_let_in_too_many_are_refused_at_start() {
    let short = world().set("PATCHWRIGHT_DASHBOARD_TOKEN", "x".repeat(31));
    for (world, args, word) in [
        (&short, &["serve"][..], "shorter than 32"),
        (&world(), &["serve", "--dashboard-user-header", "X-User"], "--dashboard-proxy"),
        (&world(), &["serve", "--dashboard-proxy", "10.0.0.1"], "--dashboard-user-header"),
        (
            &world(),
            &["serve", "--dashboard-user-header", "X-User", "--dashboard-proxy", "0.0.0.0/0"],
            "0.0.0.0/0",
        ),
        (
            &world(),
            &["serve", "--dashboard-user-header", "X User", "--dashboard-proxy", "10.0.0.1"],
            "X User",
        ),
    ] {
        let output = world.run(args);
        assert_ne!(output.code, 0, "{args:?}");
        assert!(output.text().contains(word), "{args:?}: {}", output.text());
    }
}

#[test]
fn the_user_of_a_proxy_is_believed_from_its_address_alone() {
    let world = world();
    let start = |proxy: &str| {
        let args = ["--no-worker", "--dashboard-user-header", "X-User", "--dashboard-proxy", proxy];
        Serving::start(&world, &args)
    };
    let server = start("192.0.2.1,127.0.0.0/8");
    let ask =
        |server: &Serving<'_>, headers: &[(&str, &str)]| http::get(server.address, "/", headers);
    let page = ask(&server, &[("X-User", "ann <b>"), ("X-Forwarded-For", "203.0.113.9")]);
    assert_eq!(page.status, 200);
    assert!(page.body.contains("ann &lt;b&gt;") && !page.body.contains("/sign-out"));
    // Nobody is named, or two are.
    for headers in [&[][..], &[("X-User", "")], &[("X-User", "ann"), ("x-user", "eve")]] {
        assert_eq!(ask(&server, headers).status, 403, "{headers:?}");
    }
    drop(server);
    let server = start("192.0.2.1");
    for headers in
        [&[("X-User", "ann")][..], &[("X-User", "ann"), ("X-Forwarded-For", "192.0.2.1")], &[]]
    {
        let answer = ask(&server, headers);
        assert_eq!(answer.status, 403, "{headers:?}");
        assert!(answer.body.contains("the reverse proxy names"), "{}", answer.body);
    }
    drop(server);
    // With a token besides, strangers need that.
    let world = world.set("PATCHWRIGHT_DASHBOARD_TOKEN", TOKEN);
    let args =
        ["--no-worker", "--dashboard-user-header", "X-User", "--dashboard-proxy", "192.0.2.1"];
    let server = Serving::start(&world, &args);
    assert_eq!(ask(&server, &[("X-User", "ann")]).status, 401);
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(ask(&server, &[("Authorization", &bearer)]).status, 200);
}

#[test]
fn pages_may_have_an_address_of_their_own() {
    let world = world();
    let args = ["--no-worker", "--dashboard-listen", "127.0.0.1:0"];
    let server = Serving::start(&world, &args);
    let said = server.said();
    let (_, rest) = said.split_once("dashboard at http://").unwrap();
    let pages: SocketAddr = rest.lines().next().unwrap().trim().parse().unwrap();
    for path in ["/", "/runs", "/metrics", "/sign-in", "/campaigns/x"] {
        assert_eq!(server.get(path).status, 404, "{path} is not beside the webhooks");
    }
    for path in ["/", "/runs", "/metrics", "/healthz"] {
        assert_eq!(http::get(pages, path, &[]).status, 200, "{path}");
    }
    assert_eq!(server.get("/healthz").status, 200);
    let answer = http::post(pages, "/webhook", &[], b"{}");
    assert_eq!(answer.status, 404, "{answer:?}");
    assert_eq!(http::post(server.address, "/webhook", &[], b"{}").status, 401);
    let (code, _) = server.stop(15);
    assert_eq!(code, 0);
}
