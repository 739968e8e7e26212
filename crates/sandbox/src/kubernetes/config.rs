//! Where the API server is and who we are there: what kubeconfigs say, else what a pod is told; and through which proxy
//! it is reached.

use std::io::ErrorKind;
use std::path::PathBuf;

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{ExecInteractiveMode, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::login::unidentified;
use patchwright_base::env::Env;
use patchwright_base::error::chain;
use patchwright_base::{named_file, proxies};

/// Bytes of a kubeconfig, or of a file that it names.
const MAX_FILE: u64 = 16 << 20;

/// The server of these kubeconfigs (a value of `KUBECONFIG`, in which a colon stands between two of them); without, that
/// of the environment's (`KUBECONFIG`, `~/.kube/config`), else the one that this process is a pod of. The error is in
/// words.
pub(super) async fn find(files: Option<&str>) -> Result<Config, String> {
    let of_files = match files.map_or_else(usual, merged) {
        Ok(kubeconfig) => of_kubeconfig(kubeconfig).await,
        Err(err) => Err(err),
    };
    if files.is_some() {
        return of_files.map(alone).map_err(|err| chain(&err));
    }
    let mut config = match of_files {
        Ok(config) => config,
        // The API server of one's own cluster is not behind a proxy.
        Err(err) => Config::incluster().map_err(|in_cluster| {
            format!("no kubeconfig: {}; and in no pod: {}", chain(&err), chain(&in_cluster))
        })?,
    };
    config.apply_debug_overrides();
    Ok(alone(config))
}

/// Nobody is asked anything: a program that says who we are gets no terminal, and what it complains of is ours to say.
fn alone(mut config: Config) -> Config {
    if let Some(program) = &mut config.auth_info.exec {
        program.interactive_mode = Some(ExecInteractiveMode::Never);
    }
    config
}

/// Why nothing can be sent to a server; without the proxy's address, in which a password may stand.
pub(super) fn unusable(err: &kube::Error) -> String {
    match err {
        kube::Error::ProxyProtocolUnsupported { .. } => {
            "the proxy (`proxy-url` of the kubeconfig, or `HTTPS_PROXY`) is no `http://`, `https://` or `socks5://` address"
                .to_owned()
        }
        other => unidentified(other).unwrap_or_else(|| chain(other)),
    }
}

/// A server's address for people; without a user and password, which may stand in it.
pub(super) fn address(server: &Uri) -> String {
    let host = server.host().unwrap_or_default();
    server.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// What these kubeconfigs say together: the first one that says something counts. One that is not there is left out,
/// unless none is.
fn merged(files: &str) -> Result<Kubeconfig, KubeconfigError> {
    let mut all = None::<Kubeconfig>;
    let mut missing = None;
    for file in files.split(':').filter(|file| !file.is_empty()) {
        match read_from(file) {
            Ok(read) => all = Some(all.unwrap_or_default().merge(read)?),
            Err(KubeconfigError::ReadConfig(err, path)) if err.kind() == ErrorKind::NotFound => {
                missing.get_or_insert(KubeconfigError::ReadConfig(err, path));
            }
            Err(err) => return Err(err),
        }
    }
    all.map_or_else(|| missing.map_or_else(|| Ok(Kubeconfig::default()), Err), Ok)
}

/// What the environment's kubeconfigs say (`KUBECONFIG`, `~/.kube/config`).
fn usual() -> Result<Kubeconfig, KubeconfigError> {
    let env = Env::from_process();
    let of_home = || Some(format!("{}/.kube/config", env.var("HOME")?));
    let files = env.var("KUBECONFIG").map(str::to_owned).or_else(of_home).unwrap_or_default();
    for file in files.split(':').filter(|file| !file.is_empty()) {
        bounded(file)?;
    }
    let read = Kubeconfig::read()?;
    has_bounded_files(&read)?;
    Ok(read)
}

fn read_from(file: &str) -> Result<Kubeconfig, KubeconfigError> {
    bounded(file)?;
    let read = Kubeconfig::read_from(file)?;
    has_bounded_files(&read)?;
    Ok(read)
}

/// The library reads files as a whole, also one that has no end.
fn bounded(file: &str) -> Result<(), KubeconfigError> {
    named_file::check(file, MAX_FILE)
        .map_err(|err| KubeconfigError::ReadConfig(err, PathBuf::from(file)))
}

/// The files with keys, certificates and tokens that a kubeconfig names, too.
fn has_bounded_files(read: &Kubeconfig) -> Result<(), KubeconfigError> {
    let clusters = read.clusters.iter().filter_map(|it| it.cluster.as_ref());
    let users = read.auth_infos.iter().filter_map(|it| it.auth_info.as_ref());
    let of_users = users.flat_map(|it| [&it.client_certificate, &it.client_key, &it.token_file]);
    let named = clusters.map(|it| &it.certificate_authority).chain(of_users);
    named.flatten().try_for_each(|file| bounded(file))
}

async fn of_kubeconfig(kubeconfig: Kubeconfig) -> Result<Config, KubeconfigError> {
    let named = proxy_of(&kubeconfig);
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // `kube` looks in `NO_PROXY` for the proxy instead of for the server, and asks a proxy for `localhost`.
    config.proxy_url = match named {
        Some(named) => Some(named.parse().map_err(KubeconfigError::ParseProxyUrl)?),
        None => proxy(
            &proxies::matcher(&Env::from_process()),
            &config.cluster_url,
            config.proxy_url.as_ref(),
        ),
    };
    Ok(config)
}

/// The `proxy-url` of the current context's cluster. It counts whatever the environment says.
fn proxy_of(kubeconfig: &Kubeconfig) -> Option<String> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|one| one.name == *current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|one| one.name == context.cluster)?;
    cluster.cluster.as_ref()?.proxy_url.clone().filter(|url| !url.is_empty())
}

/// The proxy that the environment names for a server, as `kubectl` understands it: none for this machine, whatever is
/// said. `whole` is the value of `HTTPS_PROXY`, in which a user and password may stand.
/// Source: `golang.org/x/net/http/httpproxy`.
fn proxy(environment: &Matcher, server: &Uri, whole: Option<&Uri>) -> Option<Uri> {
    let host = server.host()?.trim_matches(['[', ']']);
    let is_here = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_here || host.eq_ignore_ascii_case("localhost") {
        return None;
    }
    let intercept = environment.intercept(server)?;
    let found = intercept.uri();
    // Of `ALL_PROXY`, which `kubectl` does not know, and meant for other things.
    let whole = whole.filter(|whole| whole.host() == found.host());
    if whole.is_none()
        && found.scheme() != Some(&Scheme::HTTP)
        && found.scheme() != Some(&Scheme::HTTPS)
    {
        return None;
    }
    let mut parts = found.clone().into_parts();
    parts.authority = whole.and_then(Uri::authority).cloned().or(parts.authority);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use crate::kubernetes::config::*;

    #[test]
    fn a_proxy_of_the_environment_is_that_of_kubectl() {
        let with_password = "http://user:pw@proxy.test:3128";
        for (https, no, server, expected) in [
            (with_password, "", "https://k8s.test:6443", Some("http://user:pw@proxy.test:3128/")),
            ("proxy.test:3128", "", "https://k8s.test", Some("http://proxy.test:3128/")),
            (with_password, "other.test,k8s.test", "https://k8s.test:6443", None),
            (with_password, ".test", "https://k8s.test", None),
            (with_password, "10.0.0.0/8", "https://10.1.2.3:6443", None),
            (
                with_password,
                "proxy.test",
                "https://k8s.test",
                Some("http://user:pw@proxy.test:3128/"),
            ),
            (with_password, "", "https://127.0.0.1:6443", None),
            (with_password, "", "https://[::1]:6443", None),
            (with_password, "", "https://localhost:6443", None),
            (with_password, "", "http://k8s.test", None),
        ] {
            let environment = Matcher::builder().https(https).no(no).build();
            let found = proxy(&environment, &server.parse().unwrap(), https.parse().ok().as_ref());
            assert_eq!(found.map(|uri| uri.to_string()).as_deref(), expected, "{server} {no}");
        }
    }
}
