//! The certificates that every HTTP client of the process trusts: the system's roots (or those of
//! `SSL_CERT_FILE` and `SSL_CERT_DIR`) and the bundled Mozilla roots, so that it works in an image without
//! certificates.

use std::error::Error;
use std::io;
use std::path::Path;

use reqwest::{Certificate, Client, ClientBuilder};

use crate::env::Env;
use crate::error::{Failure, Result};
use crate::named_file;

/// Bytes of a file of certificates; a system's has a quarter of a mebibyte.
const MAX_BUNDLE: u64 = 16 << 20;
/// Bytes of all files of a folder of certificates.
const MAX_FOLDER: u64 = 64 << 20;

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
pub fn build(builder: impl Fn() -> ClientBuilder) -> reqwest::Result<Client> {
    let mozilla = || {
        let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
        roots.filter_map(|der| Certificate::from_der(der).ok())
    };
    // Reading one bundle is faster than a folder with the same certificates in 200 files.
    if let Some(system) = system_bundle()
        && let Ok(client) = builder().tls_certs_only(system.into_iter().chain(mozilla())).build()
    {
        return Ok(client);
    }
    builder().tls_certs_merge(mozilla()).build()
}

/// The system's roots from their one file; `None` when there is none or the user names others.
fn system_bundle() -> Option<Vec<Certificate>> {
    if crate::env::names_certificates() {
        return None;
    }
    let bundle = BUNDLES.iter().find_map(|path| fs_err::read(path).ok())?;
    Certificate::from_pem_bundle(&bundle).ok().filter(|roots| !roots.is_empty())
}

/// Refuses files of certificates that have no end, or are far too large: the TLS libraries read them as a whole.
///
/// # Errors
/// When there is one.
pub fn check(env: &Env) -> Result<()> {
    if let Some(file) = env.var("SSL_CERT_FILE") {
        named_file::check(file, MAX_BUNDLE).map_err(|err| {
            Failure::usage("`SSL_CERT_FILE` names no file of certificates")
                .caused_by(err)
                .hint("name a file with certificates in the PEM format, or unset the variable")
        })?;
    }
    let folders = env.var("SSL_CERT_DIR").unwrap_or_default();
    folders.split(':').try_for_each(check_folder).map_err(|err| {
        Failure::usage("`SSL_CERT_DIR` names no folder of certificates")
            .caused_by(err)
            .hint("name a folder that has nothing but certificates in the PEM format, or unset the variable")
    })
}

/// What is no file (devices, pipes, folders) the library passes over, and so it does with a folder that is not there.
fn check_folder(folder: &str) -> io::Result<()> {
    let Ok(entries) = fs_err::read_dir(folder) else { return Ok(()) };
    let mut total = 0_u64;
    for path in entries.flatten().map(|entry| entry.path()) {
        let Ok(about) = fs_err::metadata(&path) else { continue };
        if !about.is_file() {
            continue;
        }
        named_file::check(&path, MAX_BUNDLE)?;
        total = total.saturating_add(about.len());
        if total > MAX_FOLDER {
            let most = MAX_FOLDER >> 20;
            let why = format!("the files of `{folder}` have more than {most} MiB together");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
    }
    Ok(())
}

/// What is wrong with the certificates that the environment names. The TLS library says nothing of it, and trusts the
/// bundled roots alone.
pub fn trouble(env: &Env) -> Option<String> {
    if let Some(file) = env.var("SSL_CERT_FILE") {
        let of_no_use = |why: String| Some(format!("`SSL_CERT_FILE` names no certificates: {why}"));
        let bundle = match named_file::read(file, MAX_BUNDLE) {
            Ok(bundle) => bundle,
            Err(err) => return of_no_use(err.to_string()),
        };
        if !Certificate::from_pem_bundle(&bundle).is_ok_and(|roots| !roots.is_empty()) {
            return of_no_use(format!("`{file}` has no certificate in the PEM format"));
        }
    }
    let folders = env.var("SSL_CERT_DIR")?;
    let is_there = folders.split(':').any(|folder| Path::new(folder).is_dir());
    (!is_there).then(|| format!("`SSL_CERT_DIR` names no folder that is there: `{folders}`"))
}

/// What to do about a server whose certificate [`is_refused`].
pub const TRUST: &str = "if the server's certificate is signed by an authority of your own, name \
     the file with that authority's certificate (PEM) in `SSL_CERT_FILE`";

/// The connection was given up because the server's certificate is not trusted. Another attempt ends the
/// same way.
pub fn is_refused(err: &(dyn Error + 'static)) -> bool {
    let mut next = Some(err);
    while let Some(err) = next {
        // `io::Error::source` skips the wrapped error and returns that one's source, so it is
        // fetched here.
        let inner = err.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if is_certificate(err) || inner.is_some_and(|inner| is_refused(inner)) {
            return true;
        }
        next = err.source();
    }
    false
}

fn is_certificate(err: &(dyn Error + 'static)) -> bool {
    matches!(err.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)))
}

#[cfg(test)]
mod tests {
    use std::io;

    use crate::roots::is_refused;

    #[test]
    fn a_certificate_that_nobody_vouches_for_is_told_from_other_trouble() {
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        assert!(is_refused(&io::Error::other(io::Error::other(unknown))));
        let broken = rustls::Error::HandshakeNotComplete;
        assert!(!is_refused(&io::Error::new(io::ErrorKind::ConnectionReset, broken)));
        assert!(!is_refused(&io::Error::from(io::ErrorKind::ConnectionRefused)));
    }
}
