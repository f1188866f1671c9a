//! Which servers are believed: certificates of authorities or of servers and the name that the server must prove; and the
//! certificates that this side shows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::verifier::{Any, Named};
use crate::LoadError;
use crate::settings::Tls;

/// Where systems keep the certificates of the authorities that they trust: Debian, Red Hat, SUSE, Alpine.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What every connection shares.
#[derive(Debug, Clone)]
pub struct Trust {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

impl Trust {
    /// Reads the certificates and the key that `tls` names and checks its server name.
    pub fn new(tls: &Tls) -> Result<Self, LoadError> {
        let name = ServerName::try_from(tls.name.clone()).map_err(|_| {
            LoadError::setting(
                "--tls-name",
                format!("{:?} is neither a host name nor an address", tls.name),
            )
        })?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| LoadError::setting("--tls", error.to_string()))?;
        let verifier = verifier(tls, &provider)?;
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &tls.client {
            None => builder.with_no_client_auth(),
            Some((certificates, key)) => {
                let (chain, key) = client(certificates, key)?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| LoadError::setting("--tls-cert", error.to_string()))?
            }
        };
        // Every handshake is a whole one: the same work whether a connection is the first or the thousandth.
        config.resumption = Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }
}

/// What decides about a server's certificate.
fn verifier(
    tls: &Tls,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, LoadError> {
    if tls.insecure {
        return Ok(Arc::new(Any::of(provider)));
    }
    let mut roots = RootCertStore::empty();
    let mut trusted = Vec::new();
    match &tls.ca {
        Some(path) => {
            trusted = certificates("--tls-ca", path)?;
            for certificate in &trusted {
                roots.add(certificate.clone()).map_err(|error| {
                    LoadError::setting("--tls-ca", format!("{}: {error}", path.display()))
                })?;
            }
        }
        None => add_system(&mut roots)?,
    }
    let webpki =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
    let webpki = webpki.map_err(|error| LoadError::setting("--tls", error.to_string()))?;
    Ok(Arc::new(Named { webpki, trusted }))
}

/// Every certificate of a PEM file that a flag names; at least one.
fn certificates(
    flag: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let wrong = |why: String| LoadError::setting(flag, format!("{}: {why}", path.display()));
    let found = match CertificateDer::pem_file_iter(path) {
        Err(error) => return Err(unreadable(error, path, wrong)),
        Ok(certificates) => certificates.collect::<Result<Vec<_>, _>>(),
    };
    let found = found.map_err(|error| unreadable(error, path, wrong))?;
    if found.is_empty() {
        return Err(wrong("there is no certificate in it (PEM)".to_owned()));
    }
    Ok(found)
}

fn unreadable(error: PemError, path: &Path, wrong: impl Fn(String) -> LoadError) -> LoadError {
    match error {
        PemError::Io(source) => {
            let path = path.to_owned();
            LoadError::File { path, source }
        }
        error => wrong(error.to_string()),
    }
}

/// This side's certificates and their key.
fn client(
    chain: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), LoadError> {
    let chain = certificates("--tls-cert", chain)?;
    let wrong = |why: String| LoadError::setting("--tls-key", format!("{}: {why}", key.display()));
    let read = PrivateKeyDer::from_pem_file(key).map_err(|error| match error {
        PemError::NoItemsFound => wrong(
            "there is no private key in it (PEM, not encrypted: PKCS #8, PKCS #1 or SEC 1)"
                .to_owned(),
        ),
        error => unreadable(error, key, wrong),
    })?;
    Ok((chain, read))
}

/// Adds what the system trusts. Certificates that rustls cannot read are passed over: systems keep old ones.
fn add_system(roots: &mut RootCertStore) -> Result<(), LoadError> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let files = named.into_iter().chain(SYSTEM_FILES.map(PathBuf::from));
    for path in files {
        let Ok(certificates) = CertificateDer::pem_file_iter(&path) else {
            continue;
        };
        roots.add_parsable_certificates(certificates.filter_map(Result::ok));
        if !roots.is_empty() {
            return Ok(());
        }
    }
    Err(LoadError::setting(
        "--tls",
        "this system has no file of trusted certificates; name one with --tls-ca",
    ))
}
