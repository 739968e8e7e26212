//! Who a request comes from: credentials of AWS, Google Cloud and Entra and keys by command, against services
//! that check what the real ones check (`support/cloud.rs`). They are fetched when needed, renewed before they
//! end and once when refused, and appear nowhere.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use patchwright_base::env::Env;
use patchwright_base::error::Failure;
use patchwright_provider::endpoint::{self, Endpoint, EndpointRequest, EndpointSettings};
use patchwright_provider::http::client;
use patchwright_provider::{Progress, Provider, ProviderError, Reply, Request, ToolChoice};
use serde_json::json;

use crate::providers::{catalogue, user, word};
use crate::support::cloud::{self, Cloud};
use crate::support::model::{ModelServer, say};
use crate::support::sigv4::{Received, claim, signature};
use crate::support::world::{TestWorld, fix, github};

/// Bedrock, asked in Ireland.
const BEDROCK: &str = "bedrock/openai.gpt-5.5";
const VERTEX: &str = "vertex/gemini-3.6-flash";
const AZURE: &str = "azure/gpt-5.5";

/// The services with a model behind them, and a user's environment.
struct Setting {
    cloud: Cloud,
    model: ModelServer,
    folder: tempfile::TempDir,
    env: Vec<(String, String)>,
    endpoints: BTreeMap<String, EndpointSettings>,
}

impl Setting {
    fn new(replies: usize) -> Setting {
        let model = ModelServer::start(vec![say("Done."); replies]);
        let cloud = Cloud::start(&model.root());
        let folder = tempfile::tempdir().unwrap();
        let env = [
            ("AWS_REGION", "eu-west-1".to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
            ("GOOGLE_CLOUD_PROJECT", "p".to_owned()),
            ("AZURE_OPENAI_ENDPOINT", cloud.url()),
            ("AWS_ENDPOINT_URL_STS", format!("{}/sts", cloud.url())),
            ("AZURE_AUTHORITY_HOST", format!("{}/entra", cloud.url())),
            ("PATCHWRIGHT_TIME_SCALE", "0.001".to_owned()),
            ("PATH", "/usr/bin:/bin".to_owned()),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Setting { cloud, model, folder, env, endpoints: BTreeMap::new() }
    }

    fn set(mut self, name: &str, value: impl Into<String>) -> Setting {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// In a job with `permissions: id-token: write`.
    fn job(self) -> Setting {
        let job = self.cloud.job();
        job.into_iter().fold(self, |setting, (name, value)| setting.set(name, value))
    }

    fn role(self) -> Setting {
        self.set("AWS_ROLE_ARN", cloud::ROLE)
    }

    fn application(self) -> Setting {
        self.set("AZURE_TENANT_ID", cloud::TENANT).set("AZURE_CLIENT_ID", cloud::CLIENT)
    }

    /// A file that a variable names.
    fn file(self, variable: &str, text: &str) -> Setting {
        let path = self.folder.path().join(variable);
        fs_err::write(&path, text).unwrap();
        self.set(variable, path.display().to_string())
    }

    fn settings(mut self, name: &str, settings: serde_json::Value) -> Setting {
        self.endpoints.insert(name.to_owned(), serde_json::from_value(settings).unwrap());
        self
    }

    fn env(&self) -> Env {
        Env::from_pairs(self.env.clone())
    }

    fn base(&self, spec: &str) -> Option<String> {
        match spec {
            AZURE => None,
            BEDROCK | VERTEX => Some(self.cloud.url()),
            _ => Some(self.model.url()),
        }
    }

    fn open(&self, spec: &str) -> Result<Asking, Failure> {
        let model = catalogue().resolve(spec, None)?;
        let base = self.base(spec);
        let wanted = EndpointRequest {
            model: spec,
            base_url: base.as_deref(),
            hosted_tools: &[],
            endpoints: &self.endpoints,
        };
        let provider = endpoint::open(wanted, &model, &self.env(), &client().unwrap())?;
        Ok(Asking { provider, model })
    }

    /// One reply after the other from the same provider, and what was said about retries.
    async fn ask(&self, spec: &str, times: usize) -> (Vec<Result<Reply, ProviderError>>, String) {
        let asking = self.open(spec).unwrap();
        let mut replies = Vec::new();
        let said = Mutex::new(String::new());
        for _ in 0..times {
            replies.push(asking.reply(&said).await);
        }
        (replies, said.into_inner())
    }

    /// All that was asked of the services, when so many replies have come.
    async fn all_answer(&self, spec: &str, times: usize) -> String {
        let (replies, said) = self.ask(spec, times).await;
        for reply in replies {
            assert!(reply.is_ok(), "{}: {said}", word(&reply));
        }
        self.cloud.log().join(", ")
    }

    /// The failure of the only request, as people read it. It has no secret in it.
    async fn failure(&self, spec: &str) -> (String, String) {
        let (mut replies, said) = self.ask(spec, 1).await;
        let kind = word(&replies[0]);
        let err = replies.remove(0).unwrap_err();
        let text = format!("{}\n{said}", Failure::from(err));
        self.shows_no_secret(&text);
        (kind, text)
    }

    fn shows_no_secret(&self, text: &str) {
        let own = [cloud::REQUEST_TOKEN, cloud::CLIENT_SECRET, cloud::STATIC_SECRET];
        for secret in self.cloud.secrets().iter().map(String::as_str).chain(own) {
            assert!(!text.contains(secret), "`{secret}` is shown:\n{text}");
        }
    }
}

/// A provider with its model.
struct Asking {
    provider: std::sync::Arc<dyn Provider>,
    model: patchwright_provider::catalogue::Model,
}

impl Asking {
    async fn reply(&self, said: &Mutex<String>) -> Result<Reply, ProviderError> {
        let request = Request {
            model: &self.model,
            instructions: "You fix issues.",
            tools: &[],
            history: &[user("Go.")],
            effort: None,
            tool_choice: ToolChoice::Auto,
            output: None,
            has_alternative: false,
            cache_key: "run-1",
            previous: None,
        };
        let progress = |progress: Progress<'_>| {
            if let Progress::Retrying { why, .. } = progress {
                said.lock().push_str(&format!("{why}\n"));
            }
        };
        self.provider.reply(&request, &progress).await
    }
}

/// Examples that AWS publishes: the `get-vanilla` case of its test suite, and the request to IAM of its guide.
#[test]
fn identity_signatures_are_verified_as_aws_does() {
    let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    let headers = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let vanilla = headers(&[("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")]);
    let users = headers(&[
        ("host", "iam.amazonaws.com"),
        ("x-amz-date", "20150830T123600Z"),
        ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
    ]);
    let cases = [
        (
            "service",
            "host;x-amz-date",
            "",
            &vanilla,
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        (
            "iam",
            "content-type;host;x-amz-date",
            "Action=ListUsers&Version=2010-05-08",
            &users,
            "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
        ),
    ];
    for (service, signed, query, headers, expected) in cases {
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request, \
             SignedHeaders={signed}, Signature={expected}"
        );
        let claim = claim(&authorization).unwrap();
        let request = Received { method: "GET", path: "/", query, headers, body: b"" };
        assert_eq!(signature(&request, &claim, secret), expected, "{service}");
        assert_ne!(signature(&Received { body: b"x", ..request }, &claim, secret), expected);
    }
}

#[tokio::test]
async fn identity_of_aws_is_found_in_the_order_of_its_own_tools() {
    let role = || Setting::new(2).role();
    let log = role().job().all_answer(BEDROCK, 2).await;
    assert_eq!(log, "actions sts.amazonaws.com, sts, model, model");
    let setting = role().file("AWS_WEB_IDENTITY_TOKEN_FILE", "pod-token\n").job();
    setting.cloud.knows("pod-token", "sts.amazonaws.com");
    assert_eq!(setting.all_answer(BEDROCK, 2).await, "sts, model, model");
    let keys = Setting::new(2)
        .set("AWS_ACCESS_KEY_ID", cloud::STATIC_KEY)
        .set("AWS_SECRET_ACCESS_KEY", cloud::STATIC_SECRET);
    assert_eq!(keys.job().role().all_answer(BEDROCK, 2).await, "model, model");
    let profile = format!(
        "[default]\naws_access_key_id = AKIAOTHER\naws_secret_access_key = no\n\n[team]\n\
         aws_access_key_id = {}\naws_secret_access_key = {}\n",
        cloud::STATIC_KEY,
        cloud::STATIC_SECRET
    );
    let profile = Setting::new(1).file("AWS_SHARED_CREDENTIALS_FILE", &profile);
    assert_eq!(profile.set("AWS_PROFILE", "team").all_answer(BEDROCK, 1).await, "model");
    let container = Setting::new(2);
    let address = format!("{}/container", container.cloud.url());
    let container = container
        .set("AWS_CONTAINER_CREDENTIALS_FULL_URI", address)
        .set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token");
    assert_eq!(container.all_answer(BEDROCK, 2).await, "container, model, model");
    let machine = Setting::new(2);
    let address = machine.cloud.url();
    let machine = machine
        .set("AWS_EC2_METADATA_DISABLED", "false")
        .set("AWS_EC2_METADATA_SERVICE_ENDPOINT", address);
    assert_eq!(machine.all_answer(BEDROCK, 2).await, "imds token, imds, imds, model, model");
}

/// A profile can name a program, which gets no secret of ours.
#[tokio::test]
async fn identity_of_aws_by_a_program_of_the_profile() {
    let setting = Setting::new(1).set("PATCHWRIGHT_API_KEY", "").set("GITHUB_TOKEN", "ghp_ours");
    let program = setting.folder.path().join("program");
    let keys = json!({
        "Version": 1, "AccessKeyId": cloud::STATIC_KEY, "SecretAccessKey": cloud::STATIC_SECRET,
    });
    script(&program, &format!("[ -z \"$GITHUB_TOKEN\" ] && echo '{keys}'"));
    let config = format!("[default]\ncredential_process = {}\n", program.display());
    assert_eq!(setting.file("AWS_CONFIG_FILE", &config).all_answer(BEDROCK, 1).await, "model");
}

#[tokio::test]
async fn identity_of_google_by_each_kind_of_file_and_by_the_machine() {
    let setting = Setting::new(2);
    let root = setting.cloud.url();
    let account = json!({
        "type": "service_account", "client_email": cloud::ACCOUNT, "private_key_id": "k1",
        "private_key": include_str!("fixtures/serve/app.pem"),
        "token_uri": format!("{root}/google/token"),
    });
    let setting = setting.file("GOOGLE_APPLICATION_CREDENTIALS", &account.to_string());
    assert_eq!(setting.all_answer(VERTEX, 2).await, "google token, model, model");

    // As `google-github-actions/auth` writes it.
    let setting = Setting::new(2);
    let root = setting.cloud.url();
    let audience: String = url::form_urlencoded::byte_serialize(cloud::POOL.as_bytes()).collect();
    let external = |source: serde_json::Value| {
        json!({
            "type": "external_account", "audience": cloud::POOL,
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": format!("{root}/google/sts"), "credential_source": source,
        })
    };
    let mut federated = external(json!({
        "url": format!("{root}/actions?api-version=2.0&audience={audience}"),
        "headers": {"Authorization": format!("Bearer {}", cloud::REQUEST_TOKEN)},
        "format": {"type": "json", "subject_token_field_name": "value"},
    }));
    federated["service_account_impersonation_url"] =
        format!("{root}/google/impersonate/{}:generateAccessToken", cloud::ACCOUNT).into();
    let setting = setting.file("GOOGLE_APPLICATION_CREDENTIALS", &federated.to_string());
    let log = setting.all_answer(VERTEX, 2).await;
    let expected = format!("actions {}, google sts, google account, model, model", cloud::POOL);
    assert_eq!(log, expected);

    let setting = Setting::new(1);
    let root = setting.cloud.url();
    setting.cloud.knows("pod-token", cloud::POOL);
    let token = setting.folder.path().join("token");
    fs_err::write(&token, "pod-token\n").unwrap();
    let mut by_file = external(json!({"file": token}));
    by_file["token_url"] = format!("{root}/google/sts").into();
    let setting = setting.file("GOOGLE_APPLICATION_CREDENTIALS", &by_file.to_string());
    assert_eq!(setting.all_answer(VERTEX, 1).await, "google sts, model");

    let setting = Setting::new(2);
    let host = setting.cloud.url().replace("http://", "");
    let setting = setting.set("GCE_METADATA_HOST", host);
    assert_eq!(setting.all_answer(VERTEX, 2).await, "google metadata, model, model");
}

#[tokio::test]
async fn identity_of_entra_by_application_and_by_the_machine() {
    let secret = Setting::new(2).application().set("AZURE_CLIENT_SECRET", cloud::CLIENT_SECRET);
    assert_eq!(secret.all_answer(AZURE, 2).await, "entra, model, model");
    let job = Setting::new(2).application().job();
    let log = job.all_answer(AZURE, 2).await;
    assert_eq!(log, "actions api://AzureADTokenExchange, entra, model, model");
    let file = Setting::new(1).application().file("AZURE_FEDERATED_TOKEN_FILE", "pod-token\n");
    file.cloud.knows("pod-token", "api://AzureADTokenExchange");
    assert_eq!(file.all_answer(AZURE, 1).await, "entra, model");
    let machine = Setting::new(2);
    let address = machine.cloud.url();
    let machine = machine.set("AZURE_POD_IDENTITY_AUTHORITY_HOST", address);
    assert_eq!(machine.all_answer(AZURE, 2).await, "azure metadata, model, model");
}

/// A key in a variable comes before all of them.
#[tokio::test]
async fn identity_is_not_looked_for_when_a_variable_holds_a_key() {
    for (spec, variable) in [
        (BEDROCK, "AWS_BEARER_TOKEN_BEDROCK"),
        (VERTEX, "GOOGLE_OAUTH_ACCESS_TOKEN"),
        (AZURE, "AZURE_OPENAI_AD_TOKEN"),
    ] {
        let setting = Setting::new(0).role().application().job().set(variable, "eyJ-wrong-key");
        let (kind, text) = setting.failure(spec).await;
        assert_eq!(
            (kind.as_str(), setting.cloud.log().join(", ").as_str()),
            ("Authentication", "model")
        );
        assert!(text.contains(variable), "{text}");
    }
}

#[tokio::test]
async fn identity_is_renewed_before_it_ends() {
    let setting = Setting::new(2).application().set("AZURE_CLIENT_SECRET", cloud::CLIENT_SECRET);
    setting.cloud.set(|state| state.seconds = Some(1));
    let asking = setting.open(AZURE).unwrap();
    let said = Mutex::default();
    asking.reply(&said).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    asking.reply(&said).await.unwrap();
    assert_eq!(setting.cloud.log().join(", "), "entra, model, entra, model");
    assert_eq!(said.into_inner(), "");
}

/// A revoked token or an ended session is replaced once, without a wait; a second refusal is final.
#[tokio::test]
async fn identity_is_renewed_once_when_it_is_refused() {
    let role = Setting::new(2).role().job();
    role.cloud.set(|state| state.revoke_after = Some(1));
    let (replies, said) = role.ask(BEDROCK, 2).await;
    assert!(replies.iter().all(Result::is_ok), "{said}");
    let log = role.cloud.log().join(", ");
    let fetched = "actions sts.amazonaws.com, sts, model";
    assert_eq!(log, format!("{fetched}, model, {fetched}"));
    assert!(said.contains("is expired; credentials are fetched anew"), "{said}");
    role.shows_no_secret(&said);

    let machine = Setting::new(0);
    let address = machine.cloud.url();
    let machine = machine.set("AZURE_POD_IDENTITY_AUTHORITY_HOST", address);
    let asking = machine.open(AZURE).unwrap();
    let said = Mutex::default();
    // Each token is revoked before it is used.
    machine.cloud.set(|state| state.revokes_all = true);
    let refused = asking.reply(&said).await;
    assert_eq!(word(&refused), "Authentication");
    let log = machine.cloud.log().join(", ");
    assert_eq!(log, "azure metadata, model, azure metadata, model");
    let text = Failure::from(refused.unwrap_err()).to_string();
    assert!(text.contains("the managed identity of this machine"), "{text}");
    machine.shows_no_secret(&format!("{text}{}", said.into_inner()));
}

/// Keys of a variable cannot be fetched anew, and ended ones come with the way out.
#[tokio::test]
async fn identity_with_keys_that_have_ended_says_what_to_do() {
    let setting = Setting::new(0)
        .set("AWS_ACCESS_KEY_ID", "ASIAENDED00000000000")
        .set("AWS_SECRET_ACCESS_KEY", cloud::STATIC_SECRET)
        .set("AWS_SESSION_TOKEN", "session-that-has-ended");
    let (kind, text) = setting.failure(BEDROCK).await;
    assert_eq!((kind.as_str(), setting.cloud.log().len()), ("Authentication", 1));
    for words in ["is expired", "the access key in `AWS_ACCESS_KEY_ID`", "id-token: write"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("session-that-has-ended"), "{text}");
}

/// What the services refuse ends as an error about signing in, in their words and with the next step.
#[tokio::test]
async fn identity_that_is_refused_is_an_error_with_the_next_step() {
    let other_role = Setting::new(0).set("AWS_ROLE_ARN", "arn:aws:iam::1:role/other").job();
    let (kind, text) = other_role.failure(BEDROCK).await;
    assert_eq!((kind.as_str(), other_role.cloud.log().len()), ("SignIn", 2), "{text}");
    for words in ["cannot sign in for", "Not authorized to perform sts:", "trust policy"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let wrong = Setting::new(0).application().set("AZURE_CLIENT_SECRET", "wrong-client-secret");
    let (kind, text) = wrong.failure(AZURE).await;
    assert_eq!((kind.as_str(), wrong.cloud.log().len()), ("SignIn", 1), "{text}");
    for words in ["AADSTS7000215", "`AZURE_CLIENT_SECRET` has not expired"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let file = Setting::new(0).file("GOOGLE_APPLICATION_CREDENTIALS", "{\"type\": \"magic\"}");
    let (kind, text) = file.failure(VERTEX).await;
    assert_eq!(kind, "SignIn");
    assert!(text.contains("neither the key of a service account"), "{text}");
    let nowhere = Setting::new(0).set("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/file.json");
    let (_, text) = nowhere.failure(VERTEX).await;
    assert!(text.contains("`/nowhere/file.json` cannot be read"), "{text}");
    let denied = Setting::new(0).application().job();
    denied.cloud.set(|state| state.refuses = Some(403));
    let (kind, text) = denied.failure(AZURE).await;
    assert_eq!(kind, "SignIn");
    assert!(text.contains("GitHub's OIDC provider answers with 403"), "{text}");
}

/// A service that is down is asked again, as a model is.
#[tokio::test]
async fn identity_services_that_are_down_are_asked_again() {
    let setting = Setting::new(0).application().job();
    setting.cloud.set(|state| state.refuses = Some(503));
    let (kind, text) = setting.failure(AZURE).await;
    assert_eq!(kind, "Unavailable", "{text}");
    assert!(setting.cloud.log().len() > 2, "{:?}", setting.cloud.log());
}

/// Before anything is asked, it is said what is missing.
#[test]
fn identity_that_is_not_enough_is_said_before_anything_is_asked() {
    let cases = [
        (Setting::new(0).role(), BEDROCK, "give the job `permissions: id-token: write`"),
        (Setting::new(0).application(), AZURE, "give the job `permissions: id-token: write`"),
        (
            Setting::new(0).set("AZURE_CLIENT_ID", cloud::CLIENT),
            AZURE,
            "set `AZURE_TENANT_ID` as well",
        ),
        (
            Setting::new(0).set("AWS_ACCESS_KEY_ID", "AKIA"),
            BEDROCK,
            "set `AWS_SECRET_ACCESS_KEY` as well",
        ),
    ];
    for (setting, spec, words) in cases {
        // At the public address, where a key is needed.
        let model = catalogue().resolve(spec, None).unwrap();
        let env = setting.env().with("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com");
        let failure = Endpoint::find(None, &model, &env).unwrap_err().to_string();
        assert!(failure.contains(words), "{failure}");
        assert!(setting.cloud.log().is_empty());
    }
}

fn script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs_err::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A setting whose key a script prints; each run of it adds a line to `runs`.
fn by_script(replies: usize, text: &str, more: &serde_json::Value) -> Setting {
    let setting = Setting::new(replies).set("GITHUB_TOKEN", "ghp_ours").set("VAULT_ADDR", "v");
    let program = setting.folder.path().join("key");
    let runs = setting.folder.path().join("runs");
    script(&program, &format!("echo x >> {}\n{text}", runs.display()));
    let mut settings = json!({"key-command": [program, "secret/llm"]});
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    setting.settings("openai", settings)
}

fn runs(setting: &Setting) -> usize {
    let text = fs_err::read_to_string(setting.folder.path().join("runs"));
    text.unwrap_or_default().lines().count()
}

#[tokio::test]
async fn identity_by_a_command_that_prints_the_key() {
    const KEY: &str = "sk-printed-by-the-command-81c2";
    let plain = format!("[ -z \"$GITHUB_TOKEN\" ] && [ \"$VAULT_ADDR\" = v ] && echo '  {KEY}  '");
    let as_json = format!("echo '{{\"access_token\": \"{KEY}\", \"expires_in\": 3600}}'");
    for text in [plain, as_json] {
        let setting = by_script(2, &text, &json!({})).set("OPENAI_API_KEY", "sk-not-this-one");
        setting.all_answer("gpt-5.5", 2).await;
        assert_eq!(runs(&setting), 1);
        for asked in setting.model.requests() {
            assert_eq!(asked.header("authorization"), format!("Bearer {KEY}"));
        }
    }
    let setting = by_script(2, &format!("echo {KEY}"), &json!({"key-ttl-seconds": 1}));
    let asking = setting.open("gpt-5.5").unwrap();
    let said = Mutex::default();
    asking.reply(&said).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    asking.reply(&said).await.unwrap();
    assert_eq!(runs(&setting), 2);
}

/// A refused key is fetched once more; the second refusal is final.
#[tokio::test]
async fn identity_by_a_command_is_asked_once_more_when_its_key_is_refused() {
    use crate::support::model::unauthorized;
    let setting = by_script(0, "echo sk-key-number-$(wc -l < $(dirname $0)/runs)", &json!({}));
    setting.model.add([say("Done."), unauthorized(), say("Done."), unauthorized(), unauthorized()]);
    let (replies, _) = setting.ask("gpt-5.5", 3).await;
    let words: Vec<String> = replies.iter().map(word).collect();
    assert_eq!(words[2], "Authentication");
    assert!(replies[1].is_ok());
    assert_eq!(runs(&setting), 3);
}

/// What it has started ends with a command that takes too long, and does not hold up one that has printed its key.
#[tokio::test]
async fn identity_by_a_command_that_starts_others_waits_for_none_of_them() {
    let setting = by_script(1, "sleep 60 & echo sk-printed-first-0001", &json!({}));
    setting.all_answer("gpt-5.5", 1).await;
    assert_eq!(setting.model.requests()[0].header("authorization"), "Bearer sk-printed-first-0001");

    let text = "sleep 61 & echo $! > $(dirname $0)/child; wait";
    let setting = by_script(0, text, &json!({"key-command-timeout-seconds": 1}));
    let (_, failure) = setting.failure("gpt-5.5").await;
    assert!(failure.contains("it did not end within 1 s"), "{failure}");
    let child = fs_err::read_to_string(setting.folder.path().join("child")).unwrap();
    let is_there = || {
        let status = fs_err::read_to_string(format!("/proc/{}/status", child.trim()));
        status.is_ok_and(|status| !status.contains("State:\tZ"))
    };
    for _ in 0..200 {
        if !is_there() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the process that it started goes on");
}

#[tokio::test]
async fn identity_by_a_command_that_gives_no_key_says_why() {
    let cases = [
        ("exit 3", json!({}), "it failed (exit status: 3)"),
        ("echo sk-said-aloud >&2; exit 1", json!({}), "it failed (exit status: 1)"),
        ("true", json!({}), "it printed nothing"),
        ("echo one; echo two", json!({}), "it printed more than a key"),
        ("echo '{\"a\": 1}'", json!({}), "JSON without `key`"),
        ("head -c 5000000 /dev/zero | tr '\\0' a", json!({}), "it printed too much"),
        ("sleep 60", json!({"key-command-timeout-seconds": 1}), "it did not end within 1 s"),
    ];
    for (text, more, expected) in cases {
        let setting = by_script(0, text, &more);
        let (kind, failure) = setting.failure("gpt-5.5").await;
        assert_eq!(kind, "SignIn", "{failure}");
        assert!(failure.contains(expected), "{expected}: {failure}");
        assert!(!failure.contains("sk-said-aloud"), "{failure}");
        assert!(
            failure.contains("run the `key-command` of the configuration by hand"),
            "{failure}"
        );
    }
    let nothing = Setting::new(0).settings("openai", json!({"key-command": ["/nowhere/program"]}));
    let (_, failure) = nothing.failure("gpt-5.5").await;
    assert!(failure.contains("it cannot be started"), "{failure}");
}

#[tokio::test]
async fn identity_headers_and_query_of_a_gateway_are_sent() {
    let settings = json!({
        "headers": {"X-Team": "platform", "cf-aig-authorization": "Bearer ${PATCHWRIGHT_GATEWAY}"},
        "query": {"tenant": "a b", "api-key-id": "${PATCHWRIGHT_GATEWAY_ID}"},
    });
    let setting = Setting::new(1)
        .settings("openai", settings)
        .set("OPENAI_API_KEY", "sk-the-model-key-0001")
        .set("PATCHWRIGHT_GATEWAY", "gateway-secret-55ab")
        .set("PATCHWRIGHT_GATEWAY_ID", "gateway-id-71");
    setting.all_answer("gpt-5.5", 1).await;
    let asked = setting.model.requests().remove(0);
    assert_eq!(asked.header("x-team"), "platform");
    assert_eq!(asked.header("cf-aig-authorization"), "Bearer gateway-secret-55ab");
    assert_eq!(asked.header("authorization"), "Bearer sk-the-model-key-0001");
    assert_eq!(asked.path, "/v1/responses?api-key-id=gateway-id-71&tenant=a+b");
}

/// The entry of an address comes before the provider's, and holds below it and nowhere else.
#[test]
fn identity_settings_are_those_of_the_address_or_of_the_provider() {
    let entry = |value: &str| json!({"headers": {"x-entry": value}});
    let setting = Setting::new(0)
        .set("OPENAI_API_KEY", "sk-the-model-key-0001")
        .settings("openai", entry("provider"))
        .settings("https://gateway.example", entry("host"))
        .settings("https://gateway.example/team", entry("path"));
    let model = catalogue().resolve("gpt-5.5", None).unwrap();
    for (base, expected) in [
        ("https://gateway.example/team/v1", "path"),
        ("https://gateway.example/teams/v1", "host"),
        ("https://gateway.example/v1", "host"),
        ("https://gateway.example.evil/v1", "provider"),
        ("http://gateway.example/v1", "provider"),
    ] {
        let endpoints = &setting.endpoints;
        let wanted = EndpointRequest {
            model: "gpt-5.5",
            base_url: Some(base),
            hosted_tools: &[],
            endpoints,
        };
        let endpoint = Endpoint::from_request(wanted, &model, &setting.env()).unwrap();
        assert_eq!(endpoint.extras().headers["x-entry"], expected, "{base}");
    }
}

#[test]
fn identity_headers_that_cannot_be_sent_are_refused() {
    let cases = [
        (json!({"headers": {"Authorization": "x"}}), "is where the model's key is sent"),
        (json!({"headers": {"X-API-Key": "${PATCHWRIGHT_A}"}}), "is where the model's key is sent"),
        (json!({"headers": {"Host": "x"}}), "is set by the protocol itself"),
        (json!({"headers": {"content-length": "1"}}), "is set by the protocol itself"),
        (json!({"headers": {"x-amz-date": "1"}}), "is set by the protocol itself"),
        (json!({"query": {"alt": "json"}}), "is set by the protocol itself"),
        (json!({"headers": {"a b": "x"}}), "is not the name of a header"),
        (json!({"headers": {"x-note": "a\nb"}}), "cannot be sent"),
        (json!({"headers": {"x-secret": "plain"}}), "looks like a secret"),
        (json!({"query": {"token": "plain"}}), "looks like a secret"),
        (json!({"headers": {"x-note": "${GITHUB_TOKEN}"}}), "no other is sent to an endpoint"),
        (json!({"headers": {"x-note": "${PATCHWRIGHT_NOT_SET}"}}), "which is not set"),
        (json!({"headers": {"x-note": "${PATCHWRIGHT_A"}}), "has a `${` without its `}`"),
        (json!({"key-command": [""]}), "cannot be started"),
        (json!({"key-ttl-seconds": 9}), "has no `key-command`"),
        (
            json!({"key-command": ["a"], "key-command-timeout-seconds": 6000}),
            "has to be between 1 and 600",
        ),
    ];
    for (settings, expected) in cases {
        let setting = Setting::new(0)
            .set("OPENAI_API_KEY", "sk-the-model-key-0001")
            .set("GITHUB_TOKEN", "ghp_ours")
            .set("PATCHWRIGHT_A", "value")
            .settings("openai", settings.clone());
        let failure = setting.open("gpt-5.5").err().unwrap().to_string();
        assert!(failure.contains(expected), "{settings}: {failure}");
    }
}

/// A whole run in a workflow with a role and no key, whose session is ended in the middle. Nothing that was
/// given is in the run's folder, the conversation or what is printed.
#[test]
fn identity_carries_a_whole_run_and_is_nowhere_to_be_seen() {
    let model = ModelServer::start(fix());
    let cloud = Cloud::start(&model.root());
    cloud.set(|state| state.revoke_after = Some(2));
    let mut world = TestWorld::asking(github(), model)
        .unset("OPENAI_API_KEY")
        .unset("OPENAI_BASE_URL")
        .set("PATCHWRIGHT_MODEL", "bedrock/openai.gpt-5.3-codex")
        .set("PATCHWRIGHT_BASE_URL", cloud.url())
        .set("AWS_REGION", "eu-west-1")
        .set("AWS_ROLE_ARN", cloud::ROLE)
        .set("AWS_ENDPOINT_URL_STS", format!("{}/sts", cloud.url()));
    for (name, value) in cloud.job() {
        world = world.set(name, value);
    }
    let output = world.issue().expect(0);
    let log = cloud.log();
    assert_eq!(log.iter().filter(|it| *it == "sts").count(), 2, "{log:?}");
    assert_eq!(world.github.pulls().len(), 1);
    let secrets = cloud.secrets();
    assert!(secrets.len() >= 3, "{secrets:?}");
    for secret in secrets {
        assert_eq!(world.holds(&secret), Vec::<std::path::PathBuf>::new());
        assert!(!output.text().contains(&secret) && !world.told().contains(&secret));
    }
}

#[test]
fn identity_is_what_doctor_says_of_each_model() {
    let model = ModelServer::start([]);
    let cloud = Cloud::start(&model.root());
    let mut world = TestWorld::asking(github(), model)
        .unset("OPENAI_BASE_URL")
        .set("OPENAI_API_KEY", "sk-the-model-key-0001")
        .set("DOCKER_HOST", "unix:///nowhere/docker.sock")
        .set("PATCHWRIGHT_MODEL", "bedrock/openai.gpt-5.3-codex")
        .set("PATCHWRIGHT_FALLBACK_MODEL", "azure/gpt-5.5,gpt-5.5")
        .set("AWS_REGION", "eu-west-1")
        .set("AWS_ROLE_ARN", cloud::ROLE)
        .set("AWS_ENDPOINT_URL_STS", format!("{}/sts", cloud.url()))
        .set("AZURE_OPENAI_ENDPOINT", cloud.url())
        .set("AZURE_AUTHORITY_HOST", format!("{}/entra", cloud.url()))
        .set("AZURE_TENANT_ID", cloud::TENANT)
        .set("AZURE_CLIENT_ID", cloud::CLIENT)
        .set("AZURE_CLIENT_SECRET", "wrong-client-secret");
    for (name, value) in cloud.job() {
        world = world.set(name, value);
    }
    let output = world.run(&["doctor", "acme/app"]).expect(2);
    let line = |start: &str| {
        let found = output.stdout.lines().find(|line| line.contains(start));
        found.unwrap_or_else(|| panic!("{start}: {}", output.text())).to_owned()
    };
    let own = line("model key:");
    assert!(
        own.contains(
            "ok    model key: the role in `AWS_ROLE_ARN`, by this job's OIDC token, until 20"
        ),
        "{own}"
    );
    let azure = line("key of azure/gpt-5.5:");
    assert!(azure.starts_with("FAIL") && azure.contains("AADSTS7000215"), "{azure}");
    assert!(line("key of gpt-5.5:").contains("ok    key of gpt-5.5: `OPENAI_API_KEY` is set"));
    assert!(cloud.log().iter().all(|it| it != "model"), "no model is asked");
}
