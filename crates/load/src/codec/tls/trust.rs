//! Which servers are believed: certificates of authorities and the name that the server must prove.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

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
    /// Reads the certificates that `tls` names and checks its server name.
    pub fn new(tls: &Tls) -> Result<Self, LoadError> {
        let name = ServerName::try_from(tls.name.clone()).map_err(|_| {
            LoadError::setting(
                "--tls-name",
                format!("{:?} is neither a host name nor an address", tls.name),
            )
        })?;
        let mut roots = RootCertStore::empty();
        match &tls.ca {
            Some(path) => add_file(&mut roots, path)?,
            None => add_system(&mut roots)?,
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| LoadError::setting("--tls", error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Every handshake is a whole one: the same work whether a connection is the first or the thousandth.
        config.resumption = Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }
}

/// Adds every certificate of a PEM file.
fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), LoadError> {
    let wrong = |why: String| LoadError::setting("--tls-ca", format!("{}: {why}", path.display()));
    let certificates = match CertificateDer::pem_file_iter(path) {
        Err(PemError::Io(source)) => {
            let path = path.to_owned();
            return Err(LoadError::File { path, source });
        }
        Err(error) => return Err(wrong(error.to_string())),
        Ok(certificates) => certificates,
    };
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("there is no certificate in it (PEM)".to_owned()));
    }
    Ok(())
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
