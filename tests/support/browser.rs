//! A real browser without a window, for pages of ours: Chromium, as distributions ship it.
#![expect(
    clippy::disallowed_methods,
    reason = "starts the browser, and asks whether it must be there"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

fn url(page: &Path, fragment: &str) -> String {
    format!("file://{}{fragment}", page.display())
}
