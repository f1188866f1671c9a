//! TLS 1.3 for servers and for clients of leaves, and the certificates of a test.
//!
//! In: PEM files, or a directory to make them in. Out: rustls configurations.
//!
//! Invariants: only TLS 1.3; no other cryptography than ring's; servers that are started together with the same
//! directory get the same certificate, made by whichever comes first, and see it only when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::RankError;
use crate::net::fanout::LeafTls;

/// Where a server's certificate, its key, and the authority that clients must trust are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Certificate chain, PEM.
    pub certificate: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
    /// The authority's certificate, PEM; None when the user brought the other two.
    pub authority: Option<PathBuf>,
}

/// What a generated certificate is for.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

fn fault(path: &Path) -> impl FnOnce(&dyn std::fmt::Display) -> RankError {
    let path = path.to_owned();
    move |reason| RankError::Tls {
        path,
        reason: reason.to_string(),
    }
}

/// The identity in `folder`, which is made if it is not there yet.
pub fn generated(folder: &Path) -> Result<Identity, RankError> {
    let identity = Identity {
        certificate: folder.join("server.pem"),
        key: folder.join("server.key"),
        authority: Some(folder.join("ca.pem")),
    };
    let io = |error: io::Error| fault(folder)(&error);
    fs::create_dir_all(folder).map_err(io)?;
    let lock = File::create(folder.join(".lock")).map_err(io)?;
    // SAFETY: flock takes a descriptor, which `lock` keeps open; closing it releases the lock.
    if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) } != 0 {
        return Err(io(io::Error::last_os_error()));
    }
    // The authority is written last: where it is, the others are whole.
    let authority = folder.join("ca.pem");
    if authority.exists() {
        return Ok(identity);
    }
    let (ca, certificate, key) = make().map_err(|error| fault(folder)(&error))?;
    write(&identity.key, &key, 0o600).map_err(io)?;
    write(&identity.certificate, &certificate, 0o644).map_err(io)?;
    write(&authority, &ca, 0o644).map_err(io)?;
    Ok(identity)
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let _ = fs::remove_file(&partial);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&partial)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&partial, path)
}

/// An authority, a server's certificate signed by it, and the server's key, all PEM.
fn make() -> Result<(String, String, String), rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority
        .distinguished_name
        .push(DnType::CommonName, "Steelyard test authority");
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let mut server = CertificateParams::new(NAMES.map(str::to_owned))?;
    server.use_authority_key_identifier_extension = true;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server
        .distinguished_name
        .push(DnType::CommonName, "localhost");
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &issuer)?;
    Ok((issuer.pem(), certificate.pem(), key.serialize_pem()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, RankError> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| fault(path)(&error))?;
    if found.is_empty() {
        return Err(fault(path)(&"holds no certificate"));
    }
    Ok(found)
}

/// A server that shows `identity` to its clients.
pub fn server(identity: &Identity) -> Result<Arc<ServerConfig>, RankError> {
    let chain = certificates(&identity.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&identity.key)
        .map_err(|error| fault(&identity.key)(&error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("ring has TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| fault(&identity.certificate)(&error))?;
    Ok(Arc::new(config))
}

/// A client that trusts the authorities in `path` to vouch for `name`.
pub fn client(path: &Path, name: &str) -> Result<LeafTls, RankError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| fault(path)(&error))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("ring has TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(LeafTls {
        config: Arc::new(config),
        name: ServerName::try_from(name.to_owned())
            .map_err(|_| fault(path)(&format!("{name:?} is not a server name")))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn those_who_come_together_get_one_identity() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tls");
        let identities: Vec<_> = (0..4)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || generated(&path).unwrap())
            })
            .map(|thread| thread.join().unwrap())
            .collect();
        assert!(identities.iter().all(|identity| *identity == identities[0]));
        server(&identities[0]).unwrap();
        client(identities[0].authority.as_ref().unwrap(), "localhost").unwrap();
        let mode = fs::metadata(&identities[0].key)
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_no_certificate_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        assert!(
            client(&path, "localhost")
                .unwrap_err()
                .to_string()
                .contains("ca.pem")
        );
        fs::write(&path, "nothing").unwrap();
        let error = client(&path, "localhost").unwrap_err().to_string();
        assert!(error.contains("holds no certificate"), "{error}");
    }
}
