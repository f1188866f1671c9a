//! TLS 1.3 around any protocol, by rustls with ring's cryptography.
//!
//! In: another codec and what is trusted ([`Trust`]). The handshake happens between `open` and `ready`, and the inner
//! protocol opens after it. A request is encrypted when it is encoded, one record each unless it is longer than one, as
//! clients that write a request at a time do. Invariants: nothing of the inner protocol leaves before the server has
//! proved its name; bytes that are no TLS are an error. TLS 1.2 is not spoken: it costs another set of key exchanges and
//! ciphers, and a figure must not depend on which version a server happened to choose.

mod trust;
mod verifier;

use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

pub use trust::Trust;

use super::{Answer, Codec, ProtocolError};
use crate::workload::{Request, Workload};

/// Payload of the largest record, and what a record adds to its payload: a header, the kind of content and a tag.
const RECORD_BYTES_MAX: usize = 16_384;
const RECORD_BYTES_ADDED: usize = 5 + 1 + 16;

/// Another codec's connection inside TLS.
pub struct Tls<C> {
    inner: C,
    trust: Trust,
    connection: Option<UnbufferedClientConnection>,
    /// Received and not yet processed: the beginning of a record.
    incoming: Vec<u8>,
    /// What the inner codec has to say.
    plain: Vec<u8>,
    shaken: bool,
    complaint: Option<String>,
}

impl<C: Codec> Tls<C> {
    /// Wraps a fresh `inner`.
    pub fn new(inner: C, trust: Trust) -> Self {
        Self {
            inner,
            trust,
            connection: None,
            incoming: Vec::new(),
            plain: Vec::new(),
            shaken: false,
            complaint: None,
        }
    }

    /// Processes what has been received, hands its content to the inner codec, and encrypts what that has to say.
    fn turn(&mut self, out: &mut Vec<u8>, answers: &mut Vec<Answer>) -> Result<(), ProtocolError> {
        let Some(connection) = self.connection.as_mut() else {
            return Err(ProtocolError { kind: "tls-error" });
        };
        let mut done = 0;
        loop {
            let UnbufferedStatus { discard, state, .. } =
                connection.process_tls_records(&mut self.incoming[done..]);
            done += discard;
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(out, 0, |room| match data.encode(room) {
                        Ok(written) => Ok(written),
                        Err(EncodeError::InsufficientSize(size)) => Err(size.required_size),
                        Err(EncodeError::AlreadyEncoded) => Ok(0),
                    });
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(|error| {
                            complain(&mut self.complaint, &error, &self.trust, self.shaken)
                        })?;
                        done += record.discard;
                        self.inner
                            .decode(record.payload, &mut self.plain, answers)?;
                    }
                }
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    if !self.shaken {
                        self.shaken = true;
                        self.inner.open(&mut self.plain);
                    }
                    if !self.plain.is_empty() {
                        let records = self.plain.len().div_ceil(RECORD_BYTES_MAX);
                        let about = self.plain.len() + records * RECORD_BYTES_ADDED;
                        let plain = &self.plain[..];
                        let sealed =
                            append(out, about, |room| match traffic.encrypt(plain, room) {
                                Ok(written) => Ok(written),
                                Err(EncryptError::InsufficientSize(size)) => {
                                    Err(size.required_size)
                                }
                                Err(EncryptError::EncryptExhausted) => Ok(0),
                            });
                        self.plain.clear();
                        if sealed == 0 {
                            return Err(ProtocolError { kind: "tls-error" });
                        }
                    }
                    break;
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.inner.end(answers);
                    return Err(ProtocolError {
                        kind: "connection-closed",
                    });
                }
                // Early data is for servers, and what is added later is nothing that was asked for.
                Ok(_) => break,
                Err(error) => {
                    return Err(complain(
                        &mut self.complaint,
                        &error,
                        &self.trust,
                        self.shaken,
                    ));
                }
            }
        }
        self.incoming.drain(..done);
        Ok(())
    }
}

/// Lets `write` fill room at the end of `out`, about `bytes` of it, and more when it asks for more. Returns how much it
/// filled.
fn append(
    out: &mut Vec<u8>,
    bytes: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, usize>,
) -> usize {
    let start = out.len();
    out.resize(start + bytes, 0);
    let mut written = write(&mut out[start..]);
    if let Err(required) = written {
        out.resize(start + required, 0);
        written = write(&mut out[start..]);
    }
    let written = written.unwrap_or(0);
    out.truncate(start + written);
    written
}

/// Notes in `complaint` what `error` means, and returns its kind.
fn complain(
    complaint: &mut Option<String>,
    error: &Error,
    trust: &Trust,
    shaken: bool,
) -> ProtocolError {
    let name = trust.name.to_str();
    let (kind, why) = match error {
        // A signature that does not fit is an authority of the same name with another key.
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => (
            "tls-certificate",
            "the server's certificate is self-signed or from an unknown authority: name it with --tls-ca, or use \
             --insecure to take any"
                .to_owned(),
        ),
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => (
            "tls-certificate",
            format!("the server's certificate is not for {name:?} (see --tls-name)"),
        ),
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => (
            "tls-certificate",
            "the server's certificate has expired (--insecure takes it)".to_owned(),
        ),
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => (
            "tls-certificate",
            "the server's certificate is not valid yet: is this machine's clock right? (--insecure takes it)".to_owned(),
        ),
        Error::InvalidCertificate(error) => (
            "tls-certificate",
            format!("the server's certificate does not hold: {error}"),
        ),
        Error::InvalidMessage(_) if !shaken => {
            ("tls-garbage", "the server does not speak TLS".to_owned())
        }
        Error::AlertReceived(AlertDescription::ProtocolVersion)
        | Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13) => (
            "tls-version",
            "the server does not speak TLS 1.3".to_owned(),
        ),
        Error::AlertReceived(AlertDescription::CertificateRequired) => (
            "tls-client-certificate",
            "the server wants a certificate from this side: use --tls-cert and --tls-key".to_owned(),
        ),
        Error::AlertReceived(
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied,
        ) => (
            "tls-client-certificate",
            format!("the server refused the certificate of --tls-cert ({error})"),
        ),
        Error::AlertReceived(alert) => (
            "tls-alert",
            format!("the server ended TLS with the alert {alert:?}"),
        ),
        error => ("tls-error", format!("TLS: {error}")),
    };
    *complaint = Some(why);
    ProtocolError { kind }
}

impl<C: Codec> Codec for Tls<C> {
    fn open(&mut self, out: &mut Vec<u8>) {
        let config = std::sync::Arc::clone(&self.trust.config);
        match UnbufferedClientConnection::new(config, self.trust.name.clone()) {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => {
                complain(&mut self.complaint, &error, &self.trust, false);
                return;
            }
        }
        // Nothing has come, so that nothing but the first message of the handshake can follow.
        let _ = self.turn(out, &mut Vec::new());
    }

    fn ready(&self) -> bool {
        self.shaken && self.inner.ready()
    }

    fn finished(&self) -> bool {
        self.inner.finished()
    }

    fn end(&mut self, answers: &mut Vec<Answer>) {
        self.inner.end(answers);
    }

    fn encode(&mut self, request: &Request, workload: &Workload, out: &mut Vec<u8>) {
        self.inner.encode(request, workload, &mut self.plain);
        // An error of the connection was reported when it came; what has been received was all processed then.
        let _ = self.turn(out, &mut Vec::new());
    }

    fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), ProtocolError> {
        self.incoming.extend_from_slice(input);
        self.turn(out, answers)
    }

    fn complaint(&self) -> Option<&str> {
        self.complaint.as_deref().or_else(|| self.inner.complaint())
    }
}

#[cfg(test)]
mod tests;
