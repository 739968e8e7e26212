//! A real browser without a window, for pages of ours: Chromium, as distributions ship it.
#![expect(
    clippy::disallowed_methods,
    reason = "starts the browser, and asks whether it must be there"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::tab::Tab;

/// The browser, when the machine has one. In CI, or with `PATCHWRIGHT_TEST_BROWSER=require`, a missing
/// one is a failure.
pub(crate) struct Browser {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn find() -> Option<Browser> {
        let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
        let found = names.iter().find_map(|name| {
            folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
        });
        let required =
            std::env::var("PATCHWRIGHT_TEST_BROWSER").is_ok_and(|word| word == "require");
        assert!(
            found.is_some() || !(required || std::env::var_os("CI").is_some()),
            "no browser: install the package `chromium`"
        );
        let Some(program) = found else {
            eprintln!("chromium: not installed, pages are not looked at in a browser");
            return None;
        };
        Some(Browser { program, folder: tempfile::tempdir().unwrap() })
    }

    /// A tab that goes on living, for pages of a server.
    pub(crate) fn tab(&self) -> Tab {
        Tab::start(&self.program)
    }

    /// The document of a page after its script has run, opened at a fragment such as `#state=failed`.
    pub(crate) fn document(&self, html: &str, fragment: &str) -> String {
        let output = self.open(html, fragment, &["--dump-dom"]);
        String::from_utf8(output).unwrap()
    }

    /// A picture of the page as PNG.
    pub(crate) fn picture(&self, html: &str, fragment: &str, size: (u32, u32)) -> Vec<u8> {
        let file = self.folder.path().join("page.png");
        let to = format!("--screenshot={}", file.display());
        let size = format!("--window-size={},{}", size.0, size.1);
        self.open(html, fragment, &[&to, &size]);
        fs_err::read(&file).unwrap()
    }

    /// A picture of the page as PNG, in a frame of this size: windows cannot be as narrow as a phone.
    pub(crate) fn framed(&self, html: &str, look: Look) -> Vec<u8> {
        fs_err::write(self.folder.path().join("inner.html"), html).unwrap();
        let file = self.folder.path().join("page.png");
        let to = format!("--screenshot={}", file.display());
        let size = format!("--window-size={},{}", look.width.max(500), look.height);
        self.open(&look.frame(""), "", &[&to, &size, look.scheme()]);
        fs_err::read(&file).unwrap()
    }

    /// What a script says of a page, in a frame of this size. A policy in the page is taken out, because it
    /// lets no script run; the script calls `done` with a value.
    pub(crate) fn ask(&self, html: &str, script: &str, look: Look) -> Value {
        let policy = html.split_once("<meta http-equiv=\"Content-Security-Policy\"");
        let without = policy.and_then(|(before, rest)| Some((before, rest.split_once('>')?.1)));
        // Pages of a server have theirs in a header.
        let (before, after) = without.unwrap_or((html, ""));
        let said = "const done = value => parent.postMessage(JSON.stringify(value), '*');";
        let inner = format!("{before}{after}<script>{said}\n{script}</script>");
        fs_err::write(self.folder.path().join("inner.html"), inner).unwrap();
        let listen = "<pre id=\"said\"></pre><script>addEventListener('message', event => { \
                      document.getElementById('said').textContent = event.data; });</script>";
        let size = format!("--window-size={},{}", look.width.max(500), look.height);
        let output = self.open(&look.frame(listen), "", &["--dump-dom", &size, look.scheme()]);
        let document = String::from_utf8(output).unwrap();
        let (_, said) = document.split_once("<pre id=\"said\">").unwrap();
        let (said, _) = said.split_once("</pre>").unwrap();
        let said = said.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        serde_json::from_str(&said).unwrap_or_else(|err| panic!("{err}: {said:?}"))
    }

    fn open(&self, html: &str, fragment: &str, args: &[&str]) -> Vec<u8> {
        let page = self.folder.path().join("page.html");
        fs_err::write(&page, html).unwrap();
        let profile = self.folder.path().join("profile");
        let output = Command::new(&self.program)
            .args([
                "--headless=new",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .args([
                "--no-first-run",
                "--virtual-time-budget=5000",
                "--disable-background-networking",
            ])
            // The sandbox of the browser does not work for root, and the page is ours.
            .arg("--no-sandbox")
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(args)
            .arg(url(&page, fragment))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

/// What axe-core says of a page: the rules that it passes, and those that it violates with some of the elements.
pub(crate) fn judged(browser: &Browser, axe: &str, page: &str, look: Look) -> Judged {
    let script = format!(
        "{axe}\naddEventListener('load', () => axe.run(document).then(found => done({{
            passes: found.passes.map(it => it.id),
            violations: found.violations.map(it => [it.id, it.nodes.slice(0, 3).map(node => node.html.slice(0, 200))]),
        }})).catch(why => done(String(why))));"
    );
    let said = browser.ask(page, &script, look);
    serde_json::from_value(said.clone()).unwrap_or_else(|err| panic!("{err}: {said}"))
}

/// What axe-core found.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Judged {
    pub(crate) passes: Vec<String>,
    pub(crate) violations: Vec<(String, Vec<String>)>,
}

/// axe-core, as `.ci/axe` has installed it.
pub(crate) fn axe() -> Option<String> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/axe/node_modules");
    let source = fs_err::read_to_string(modules.join("axe-core/axe.min.js")).ok();
    assert!(source.is_some() || std::env::var_os("CI").is_none(), "no axe-core: run `.ci/axe`");
    if source.is_none() {
        eprintln!("axe-core: not installed (`.ci/axe`), pages are not judged by it");
    }
    source
}

/// Leaves a picture in the folder `PATCHWRIGHT_TEST_PICTURES`, for who wants to look.
pub(crate) fn keep(name: &str, look: Look, picture: &[u8]) {
    let Some(folder) = std::env::var_os("PATCHWRIGHT_TEST_PICTURES") else { return };
    let scheme = if look.is_dark { "dark" } else { "light" };
    let name = format!("{name}-{}-{scheme}.png", look.width);
    fs_err::write(Path::new(&folder).join(name), picture).unwrap();
}

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) is_dark: bool,
}

impl Look {
    fn scheme(self) -> &'static str {
        if self.is_dark {
            "--blink-settings=preferredColorScheme=0"
        } else {
            "--blink-settings=preferredColorScheme=1"
        }
    }

    fn frame(self, more: &str) -> String {
        let Look { width, height, .. } = self;
        format!(
            "<!doctype html><style>body{{margin:0}}iframe{{border:0;display:block}}</style>\
             <iframe src=\"inner.html\" width=\"{width}\" height=\"{height}\"></iframe>{more}"
        )
    }
}

fn url(page: &Path, fragment: &str) -> String {
    format!("file://{}{fragment}", page.display())
}
