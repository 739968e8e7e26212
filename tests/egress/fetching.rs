//! Pages of allowed hosts: redirects, sizes, kinds, and HTML as text.

use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use patchwright_sandbox::egress::readable;
use url::Url;

use super::{Sink, egress};

const HTML: &str = "<!doctype html><html><head><title>The &amp; title</title><style>p{}</style>\
<script>alert('<p>no</p>')</script></head><body><!-- secret --><h1>Head</h1>\
<p>One   <b>bold</b> &lt;word&gt; and a <a href='/next?a=1'>link</a>.</p>\
<div hidden>unseen <div>deeper</div></div><p style='DISPLAY : none'>unseen too</p>\
<ul><li>first<ul><li>inner</li></ul></li><li>second</li></ul><ol start=3><li>three</li></ol>\
<pre><code>fn main() {\n    a &amp;&amp; b\n}</code></pre>\
<table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table>\
<img src=x alt='a cat'><p>end<br>line</p></body></html>";

const TEXT: &str = "The & title\n\n# Head\n\nOne bold <word> and a link (http://a.test/next?a=1).\n\n\
- first\n  - inner\n- second\n\n3. three\n\n```\nfn main() {\n    a && b\n}\n```\n\n\
k | v\n1 | 2\n\n[picture: a cat]\n\nend\nline";

#[test]
fn egress_makes_html_readable() {
    let base = Url::parse("http://a.test/dir/page").unwrap();
    assert_eq!(readable::text(HTML, &base), TEXT);
    // Broken pages give some text, and never take long.
    for broken in [
        "<",
        "<p",
        "<p class=\"",
        "</",
        "<!--",
        "<script>",
        "&#xffffffff;",
        "&",
        "<a href='x",
        "a<b",
        "<title>",
        "<p é='ü'>x",
        "</p></p></ul></pre></a>",
        "<pre></pre>",
        "&#0;",
    ] {
        readable::text(broken, &base);
    }
    let deep = "<ul><li>".repeat(20_000) + "x" + &"<div hidden>".repeat(20_000);
    assert!(readable::text(&deep, &base).contains('x'));
}

#[test]
fn egress_reads_pages_that_are_made_to_take_long() {
    let url = Url::parse("https://docs.rs/").unwrap();
    let many = 1 << 20;
    assert_eq!(readable::text(&"&".repeat(many), &url).len(), many);
    let links = 100_000;
    let page =
        format!("{}{}{}", "<a href=a>".repeat(links), "x ".repeat(many), "</a>".repeat(links));
    assert!(readable::text(&page, &url).len() >= many);
    let attributes = (0..many / 8).map(|n| format!(" a{n}")).collect::<Vec<_>>().concat();
    assert_eq!(readable::text(&format!("<p{attributes}>end"), &url), "end");
}

#[test]
fn egress_reads_tags_as_the_html_standard_does() {
    let url = Url::parse("https://docs.rs/").unwrap();
    for (html, text) in [
        // References without their semicolon, and of two characters.
        ("a &amp b &notin; &NotEqualTilde; &#x80;", "a & b \u{2209} \u{2242}\u{338} \u{20ac}"),
        // Quoted values may hold what would end a tag.
        ("<p title='a > b' hidden>no</p>yes", "yes"),
        ("<a href=\"/x?a=1&amp;b='2'\">go</a>", "go (https://docs.rs/x?a=1&b=%272%27)"),
        // Comments end where browsers end them.
        ("<!--> shown <!-- --!> shown too", "shown shown too"),
        ("<![CDATA[ no ]]>yes", "yes"),
        // A script that writes a script; raw text that looks like tags.
        ("<script><!-- <script> </script> no --></script>yes", "yes"),
        ("<textarea><p>no</textarea>yes<title>T &lt; U</title>", "T < U\n\nyes"),
        ("<noscript>without scripts</noscript>", "without scripts"),
        // A slash closes no element of HTML, but a drawing.
        ("<div hidden/>no</div>yes<svg/>yes", "yesyes"),
        ("<xmp><b></xmp>", "<b>"),
        ("5 < 6 and </ no> a<b", "5 < 6 and a"),
    ] {
        assert_eq!(readable::text(html, &url), text, "{html}");
    }
}

async fn server(sink: &Sink) -> u16 {
    let to_sink = format!("http://127.0.0.1:{}/", sink.port);
    let to_sink_by_name = format!("http://other.test:{}/", sink.port);
    let typed = |kind: &'static str, body: &'static [u8]| {
        get(move || async move { ([(header::CONTENT_TYPE, kind)], body).into_response() })
    };
    let router = Router::new()
        .route("/page", typed("text/html; charset=utf-8", HTML.as_bytes()))
        .route("/latin", typed("text/plain; charset=ISO-8859-1", b"caf\xe9 \x80"))
        .route("/pdf", typed("application/pdf", b"%PDF-1.7"))
        .route("/disguised", typed("text/plain", b"\x00\x01\x02"))
        .route("/again", get(|| async { Redirect::temporary("/page") }))
        .route("/loop", get(|| async { Redirect::temporary("/loop") }))
        .route("/inside", get(move || async move { Redirect::temporary(&to_sink) }))
        .route("/other", get(move || async move { Redirect::temporary(&to_sink_by_name) }))
        .route("/big", get(|| async { "x".repeat(6 << 20) }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, router).await });
    port
}

#[tokio::test]
async fn egress_fetches_text_of_allowed_hosts() {
    let sink = Sink::start().await;
    let port = server(&sink).await;
    let egress = egress(&[&format!("web.test:{port}=127.0.0.1")]);
    let url = |path: &str| Url::parse(&format!("http://web.test:{port}{path}")).unwrap();
    let page = egress.fetch(url("/again")).await.unwrap();
    assert_eq!((page.status, page.media_type.as_str()), (200, "text/html"));
    assert_eq!(page.redirects, [url("/again")]);
    assert_eq!(page.text, HTML);
    assert_eq!(egress.fetch(url("/latin")).await.unwrap().text, "café €");
    assert_eq!(egress.fetch(url("/missing")).await.unwrap().status, 404);
    let big = egress.fetch(url("/big")).await.unwrap();
    assert!(big.is_cut && big.text.len() == 5 << 20);
    for (path, why) in [
        ("/pdf", "it is a PDF file (`application/pdf`), which is not text"),
        ("/disguised", "it is a binary file, which is not text"),
        ("/loop", "more than 5 redirects"),
        ("/inside", "only names of allowed hosts can be reached"),
        ("/other", "`other.test` is not among the allowed hosts"),
    ] {
        let error = egress.fetch(url(path)).await.unwrap_err().to_string();
        assert!(error.contains(why), "{path}: {error}");
    }
    // The client for servers follows redirects of one origin only.
    assert_eq!(egress.client().get(url("/again")).send().await.unwrap().status(), 200);
    assert!(egress.client().get(url("/other")).send().await.is_err());
    for refused in ["ftp://web.test/", "http://u:p@web.test/", "http://web.test:1/"] {
        assert!(egress.allows(&refused.parse().unwrap()).is_err(), "{refused}");
    }
    assert_eq!(sink.count(), 0);
}
