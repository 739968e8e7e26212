//! Signatures of commits: our own with an operator's SSH key, and those that a forge has made.
//!
//! A signature is a header of the commit (`gpgsig`), so a signed commit is another commit with another id.
//! Ours is in the format of `ssh-keygen -Y sign` for the namespace `git`, which git and GitHub verify. What a
//! forge has signed is written here from the text that it says it has signed, and only when that gives the id
//! that it says the commit has: nothing of its answer is believed beyond what the id proves.

mod rsa;

use aws_lc_rs::signature::RsaKeyPair;
use secrecy::{ExposeSecret, SecretString};
use ssh_key::EcdsaCurve::{NistP256, NistP384};
use ssh_key::private::KeypairData;
use ssh_key::{Algorithm, HashAlg, LineEnding, PrivateKey, SshSig};

use super::repo::Repo;
use super::{GitError, Oid};
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::named_file;
use patchwright_base::redact;

/// Variables with the key, with its file, and with the passphrase of the key.
pub const KEY: &str = "PATCHWRIGHT_SIGNING_KEY";
pub const KEY_FILE: &str = "PATCHWRIGHT_SIGNING_KEY_FILE";
pub const PASSPHRASE: &str = "PATCHWRIGHT_SIGNING_KEY_PASSPHRASE";

/// How git calls what it signs.
const NAMESPACE: &str = "git";
/// The header of a commit with its signature.
const HEADER: &str = "gpgsig";
/// Bytes of the largest file that is read as a key.
const LARGEST_KEY: u64 = 64 << 10;

/// An operator's key, unlocked. It is shown to nobody.
pub struct SigningKey {
    key: PrivateKey,
    /// When it is of that kind.
    rsa: Option<RsaKeyPair>,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("fingerprint", &self.fingerprint()).finish()
    }
}

impl SigningKey {
    /// The key that the environment names.
    ///
    /// # Errors
    /// When there is none, it is no private key that can sign, or its passphrase is missing or wrong.
    pub fn of(env: &Env) -> Result<SigningKey> {
        let (name, text) = match (env.secret(KEY), env.var(KEY_FILE)) {
            (Some(text), _) => (KEY, text),
            (None, Some(path)) => (KEY_FILE, read(path)?),
            (None, None) => {
                return Err(Failure::usage("commits are to be signed, but there is no key").hint(
                    format!("set `{KEY}` to a private key of OpenSSH, or `{KEY_FILE}` to its file"),
                ));
            }
        };
        redact::learn(name, &text);
        let key = unlocked(name, &text, env.secret(PASSPHRASE).as_ref())?;
        let rsa = match (key.algorithm(), key.key_data()) {
            (Algorithm::Ed25519 | Algorithm::Ecdsa { curve: NistP256 | NistP384 }, _) => None,
            (_, KeypairData::Rsa(parts)) => Some(rsa::ready(parts).ok_or_else(|| {
                Failure::usage(format!("the RSA key of `{name}` cannot be used"))
                    .hint("it has to have 2048 bits or more, and 8192 at most")
                    .hint(MAKE_ONE)
            })?),
            (kind, _) => return Err(other_kind(name, &format!("of the kind `{kind}`"))),
        };
        Ok(SigningKey { key, rsa })
    }

    /// `SHA256:…`, by which people compare keys.
    pub fn fingerprint(&self) -> String {
        self.key.fingerprint(HashAlg::Sha256).to_string()
    }

    /// The public key, as it stands in a file of allowed signers.
    pub fn public(&self) -> String {
        self.key.public_key().to_openssh().unwrap_or_default()
    }

    /// Writes the commit once more, with our signature, and returns its id; one that is signed already stays
    /// as it is. The same commit gives the same id.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn sign(&self, repo: &Repo, commit: Oid) -> Result<Oid, GitError> {
        let text = text_of(repo, commit)?;
        if is_signed(&text) {
            return Ok(commit);
        }
        let unsignable = |err: ssh_key::Error| {
            GitError::Unacceptable(format!("commit {} cannot be signed: {err}", commit.short()))
        };
        let signature = self.signature(text.as_bytes());
        let signature = signature.and_then(|signature| signature.to_pem(LineEnding::LF));
        write(repo, &text, signature.map_err(unsignable)?.trim_end())
    }
}

impl SigningKey {
    fn signature(&self, text: &[u8]) -> std::result::Result<SshSig, ssh_key::Error> {
        let Some(key) = &self.rsa else {
            return self.key.sign(NAMESPACE, HashAlg::Sha512, text);
        };
        let signed = SshSig::signed_data(NAMESPACE, HashAlg::Sha512, text)?;
        let public = self.key.public_key().key_data().clone();
        SshSig::new(public, NAMESPACE, HashAlg::Sha512, rsa::sign(key, &signed)?)
    }
}

const MAKE_ONE: &str = "make one with `ssh-keygen -t ed25519`, and add its public part to the account as a \
                        signing key";

const CAN_SIGN: &str = "keys of Ed25519, of RSA, and of ECDSA with 256 or 384 bits can sign";
const BEGINS: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";

fn other_kind(name: &str, kind: &str) -> Failure {
    Failure::usage(format!("the key of `{name}` is {kind}: nothing can be signed with it here"))
        .hint(CAN_SIGN)
        .hint(MAKE_ONE)
}

fn read(path: &str) -> Result<SecretString> {
    let cannot = |err: std::io::Error| {
        Failure::usage(format!("cannot read the file of `{KEY_FILE}`")).caused_by(err)
    };
    named_file::read_text(path, LARGEST_KEY).map(SecretString::from).map_err(cannot)
}

fn unlocked(
    name: &str,
    text: &SecretString,
    passphrase: Option<&SecretString>,
) -> Result<PrivateKey> {
    // Some places that hold variables cannot hold line ends, others make them those of Windows.
    let text = text.expose_secret().replace("\\n", "\n").replace('\r', "");
    let text = format!("{}\n", text.trim());
    if text.starts_with("ssh-") || text.starts_with("ecdsa-") {
        return Err(Failure::usage(format!("`{name}` is the public part of a key"))
            .hint("the private part is in the file of the same name without `.pub`"));
    }
    let key = PrivateKey::from_openssh(&text).map_err(|err| match err {
        ssh_key::Error::AlgorithmUnknown | ssh_key::Error::AlgorithmUnsupported { .. } => {
            other_kind(name, "of no kind that is known here")
        }
        // Among these are one of 256 ECDSA keys, whose number is stored with fewer bytes than the parser takes.
        _ if text.starts_with(BEGINS) => {
            Failure::usage(format!("the private key of `{name}` cannot be read"))
                .hint("`ssh-keygen -y -f FILE` says whether it is whole")
                .hint(CAN_SIGN)
                .hint(MAKE_ONE)
        }
        _ => Failure::usage(format!("`{name}` is not a private key of OpenSSH"))
            .hint(format!("it begins with `{BEGINS}`"))
            .hint(MAKE_ONE),
    })?;
    if !key.is_encrypted() {
        return Ok(key);
    }
    let Some(passphrase) = passphrase else {
        return Err(Failure::usage(format!("the key of `{name}` has a passphrase"))
            .hint(format!("set `{PASSPHRASE}` to it")));
    };
    key.decrypt(passphrase.expose_secret()).map_err(|_| {
        Failure::usage(format!("`{PASSPHRASE}` is not the passphrase of the key of `{name}`"))
            .hint("try it with `ssh-keygen -y -f FILE`")
    })
}

/// Writes a commit that a forge has made, from what it has signed, and returns its id.
///
/// # Errors
/// When they do not make the commit with this id.
pub fn adopt(repo: &Repo, id: Oid, signed: &str, signature: &str) -> Result<Oid, GitError> {
    // How the signature ends in the commit does not show in every answer.
    let bare = signature.trim_end();
    for signature in [signature, bare, &format!("{bare}\n")] {
        let written = write(repo, signed, signature)?;
        if written == id {
            return Ok(id);
        }
        repo.forget(written)?;
    }
    Err(GitError::Unacceptable(format!(
        "commit {} is not made of what the server says it has signed",
        id.short()
    )))
}

/// Writes a commit once more on another parent (the first, of several), as it is otherwise.
///
/// # Errors
/// When it cannot be read or written.
pub fn moved_onto(repo: &Repo, commit: Oid, parent: Oid) -> Result<Oid, GitError> {
    let git = repo.git()?;
    let commit = git.find_commit(commit.0)?;
    if commit.parent_id(0).ok() == Some(parent.0) {
        return Ok(Oid(commit.id()));
    }
    let first = git.find_commit(parent.0)?;
    let others = commit.parents().skip(1).collect::<Vec<_>>();
    let parents: Vec<&git2::Commit<'_>> = std::iter::once(&first).chain(&others).collect();
    let message = String::from_utf8_lossy(commit.message_bytes());
    let (author, committer) = (commit.author(), commit.committer());
    Ok(Oid(git.commit(None, &author, &committer, &message, &commit.tree()?, &parents)?))
}

fn write(repo: &Repo, text: &str, signature: &str) -> Result<Oid, GitError> {
    Ok(Oid(repo.git()?.commit_signed(text, signature, Some(HEADER))?))
}

/// The text of a commit, headers and message.
fn text_of(repo: &Repo, commit: Oid) -> Result<String, GitError> {
    let git = repo.git()?;
    let object = git.odb()?;
    let object = object.read(commit.0)?;
    let text = String::from_utf8(object.data().to_vec());
    text.map_err(|_| {
        GitError::Unacceptable(format!(
            "commit {} is not UTF-8, so it cannot be signed",
            commit.short()
        ))
    })
}

/// The commit has a signature, whoever has made it.
pub(super) fn is_signed(text: &str) -> bool {
    let headers = text.split("\n\n").next().unwrap_or_default();
    headers.lines().any(|line| line.starts_with("gpgsig"))
}
