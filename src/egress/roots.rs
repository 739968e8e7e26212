//! The certificates that every HTTP client of the process trusts: the system's roots (or those of
//! `SSL_CERT_FILE` and `SSL_CERT_DIR`) and the bundled Mozilla roots, so that it works in an image without
//! certificates.

use reqwest::{Certificate, Client, ClientBuilder};

/// Where distributions keep the system's roots in one file.
const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Finishes a client. `builder` is asked again when the system's roots cannot be used.
///
/// # Errors
/// When there is no client to be had.
pub(crate) fn build(builder: impl Fn() -> ClientBuilder) -> reqwest::Result<Client> {
    let mozilla = || {
        let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
        roots.filter_map(|der| Certificate::from_der(der).ok())
    };
    // One file instead of a folder with the same certificates in 200 files, where there is one.
    if let Some(system) = system_bundle()
        && let Ok(client) = builder().tls_certs_only(system.into_iter().chain(mozilla())).build()
    {
        return Ok(client);
    }
    builder().tls_certs_merge(mozilla()).build()
}

/// The system's roots from their one file; `None` when there is none or the user names others.
fn system_bundle() -> Option<Vec<Certificate>> {
    if crate::config::env::names_certificates() {
        return None;
    }
    let bundle = BUNDLES.iter().find_map(|path| fs_err::read(path).ok())?;
    Certificate::from_pem_bundle(&bundle).ok().filter(|roots| !roots.is_empty())
}
