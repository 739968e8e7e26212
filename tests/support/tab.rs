//! A tab of a real browser that goes on living: pages of a server, with their own policy, typed into and
//! scrolled. Speaks the `DevTools` protocol (<https://chromedevtools.github.io/devtools-protocol/>) through pipes.
#![expect(clippy::disallowed_methods, reason = "starts the browser")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long anything here may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_mins(1);

/// A tab with one page.
pub(crate) struct Tab {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: Option<String>,
    last: u64,
    _profile: tempfile::TempDir,
}

impl Tab {
    /// Starts `program`, which is Chromium, with an empty profile.
    pub(crate) fn start(program: &Path) -> Tab {
        let profile = tempfile::tempdir().unwrap();
        let pipes = ["to", "from"].map(|name| profile.path().join(name));
        for pipe in &pipes {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
        }
        // Opened for both directions, so that neither side waits for the other.
        let open = |path| File::options().read(true).write(true).open(path).unwrap();
        let (to, from) = (open(&pipes[0]), open(&pipes[1]));
        // The browser reads from 3 and writes to 4, which only a shell can give it here.
        let child = Command::new("/bin/sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$PIPE_TO\" 4>\"$PIPE_FROM\""])
            .arg(program)
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--no-first-run"])
            .args(["--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"])
            .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
            .arg("--window-size=1280,900")
            .env("PIPE_TO", &pipes[0])
            .env("PIPE_FROM", &pipes[1])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let from = BufReader::new(from);
        let mut tab = Tab { child, to, from, session: None, last: 0, _profile: profile };
        let target = tab.ask("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = tab.ask("Target.attachToTarget", &attach);
        tab.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        tab
    }

    /// Sends a command and returns its result.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let mut answer = Vec::new();
            self.from.read_until(0, &mut answer).unwrap();
            answer.pop();
            let mut answer: Value = serde_json::from_slice(&answer).unwrap();
            if answer["id"] == json!(self.last) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    /// Loads a page and waits until it has loaded.
    pub(crate) fn open(&mut self, url: &str) {
        self.ask("Page.navigate", &json!({"url": url}));
        let here = serde_json::to_string(url.split('#').next().unwrap()).unwrap();
        self.until(&format!(
            "document.readyState === 'complete' && location.href.startsWith({here})"
        ));
    }

    /// What an expression is.
    #[track_caller]
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.ask("Runtime.evaluate", &params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn until(&mut self, expression: &str) {
        let begin = Instant::now();
        while self.value(expression) != json!(true) {
            assert!(begin.elapsed() < PATIENCE, "{expression}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Types into what has the focus.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.ask("Input.insertText", &json!({"text": text}));
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
