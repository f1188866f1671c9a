//! Encryption as TLS uses it: records sealed and opened, key agreement, whole handshakes. All by ring and rustls.
//!
//! A record is sealed in place. To be opened it is copied first, as a read from a socket would bring it. The
//! handshake is TLS 1.3 between two endpoints in memory, full and mutually fresh: no session is resumed, the server
//! proves itself with an ECDSA P-256 certificate that the client verifies.

use std::sync::Arc;

use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::rand::SystemRandom;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use steelyard_statistics::Random;

use super::buffer::Buffer;
use crate::TaxError;
use crate::benchmark::{Category, Microbenchmark, Prepared, Setup, Worker, fold};

/// Bytes of a record: a small answer, a page, and the largest that TLS allows.
const RECORD_BYTES: [usize; 3] = [256, 4096, 16_384];

/// A cipher with a published test: key, nonce, plain text, associated data, and what must come out.
struct Cipher {
    name: &'static str,
    algorithm: &'static aead::Algorithm,
    known: Known,
}

struct Known {
    key: &'static [u8],
    nonce: [u8; 12],
    plain: &'static [u8],
    associated: &'static [u8],
    sealed_begin: [u8; 16],
    tag: [u8; 16],
}

const CIPHERS: [Cipher; 3] = [
    Cipher {
        name: "aes-128-gcm",
        algorithm: &aead::AES_128_GCM,
        // McGrew and Viega, The Galois/Counter Mode of Operation, test case 2.
        known: Known {
            key: &[0; 16],
            nonce: [0; 12],
            plain: &[0; 16],
            associated: &[],
            sealed_begin: 0x0388_dace_60b6_a392_f328_c2b9_71b2_fe78_u128.to_be_bytes(),
            tag: 0xab6e_47d4_2cec_13bd_f53a_67b2_1257_bddf_u128.to_be_bytes(),
        },
    },
    Cipher {
        name: "aes-256-gcm",
        algorithm: &aead::AES_256_GCM,
        // The same, test case 14.
        known: Known {
            key: &[0; 32],
            nonce: [0; 12],
            plain: &[0; 16],
            associated: &[],
            sealed_begin: 0xcea7_403d_4d60_6b6e_074e_c5d3_baf3_9d18_u128.to_be_bytes(),
            tag: 0xd0d1_c8a7_9999_6bf0_265b_98b5_d48a_b919_u128.to_be_bytes(),
        },
    },
    Cipher {
        name: "chacha20-poly1305",
        algorithm: &aead::CHACHA20_POLY1305,
        // RFC 8439, section 2.8.2.
        known: Known {
            key: &[
                0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d,
                0x8e, 0x8f, 0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b,
                0x9c, 0x9d, 0x9e, 0x9f,
            ],
            nonce: [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47],
            plain:
                b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for \
                     the future, sunscreen would be it.",
            associated: &[
                0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7,
            ],
            sealed_begin: 0xd31a_8d34_648e_60db_7b86_afbc_53ef_7ec2_u128.to_be_bytes(),
            tag: 0x1ae1_0b59_4f09_e26a_7e90_2ecb_d060_0691_u128.to_be_bytes(),
        },
    },
];

/// All benchmarks of this category.
pub fn benchmarks() -> Vec<Box<dyn Microbenchmark>> {
    let mut found: Vec<Box<dyn Microbenchmark>> = Vec::new();
    for cipher in &CIPHERS {
        for bytes in RECORD_BYTES {
            found.push(Box::new(Records {
                name: format!("{}-seal-{bytes}", cipher.name),
                cipher,
                bytes,
                open: false,
            }));
        }
        let bytes = RECORD_BYTES[2];
        found.push(Box::new(Records {
            name: format!("{}-open-{bytes}", cipher.name),
            cipher,
            bytes,
            open: true,
        }));
    }
    found.push(Box::new(KeyAgreement));
    found.push(Box::new(Handshake));
    found
}

struct Records {
    name: String,
    cipher: &'static Cipher,
    bytes: usize,
    open: bool,
}

impl Microbenchmark for Records {
    fn name(&self) -> &str {
        &self.name
    }

    fn category(&self) -> Category {
        Category::Encryption
    }

    fn operation(&self) -> &str {
        if self.open {
            "copies in and opens one record"
        } else {
            "seals one record in place"
        }
    }

    fn prepare(&self, setup: &Setup) -> Result<Prepared, TaxError> {
        let mut random = Random::stream(setup.seed, &self.name);
        let mut key = vec![0; self.cipher.algorithm.key_len()];
        random.fill(&mut key);
        let mut plain = vec![0; self.bytes];
        random.fill(&mut plain);
        let workers = (0..setup.workers)
            .map(|_| {
                let mut core = RecordCore {
                    cipher: self.cipher,
                    key: key_of(self.cipher.algorithm, &key),
                    plain: Buffer::copy(&plain, 0),
                    sealed: Buffer::zeroed(0, 0),
                    buffer: Buffer::zeroed(0, 0),
                    open: self.open,
                };
                core.sealed = Buffer::copy(&core.seal(0), 0);
                // Half a page apart: copies between places with the same offset are slow on some processors.
                let bytes = if self.open {
                    core.sealed.len()
                } else {
                    plain.len()
                };
                core.buffer = Buffer::zeroed(bytes, 2048);
                Box::new(core) as _
            })
            .collect();
        Ok(Prepared::new(workers).bytes(self.bytes as f64))
    }
}

fn key_of(algorithm: &'static aead::Algorithm, key: &[u8]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(algorithm, key).expect("a key of the algorithm's length"))
}

/// The nonce of record number `sequence`, as TLS counts.
fn nonce(sequence: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&sequence.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

// The tables of the key begin with a cache line in every run.
#[repr(align(128))]
struct RecordCore {
    key: LessSafeKey,
    cipher: &'static Cipher,
    plain: Buffer,
    /// The plain text, sealed as record 0.
    sealed: Buffer,
    buffer: Buffer,
    open: bool,
}

impl RecordCore {
    fn seal(&self, sequence: u64) -> Vec<u8> {
        let mut record = self.plain.to_vec();
        self.key
            .seal_in_place_append_tag(nonce(sequence), Aad::empty(), &mut record)
            .expect("within the cipher's limits");
        record
    }
}

impl Worker for RecordCore {
    fn verify(&mut self) -> Result<(), String> {
        let known = &self.cipher.known;
        let mut record = known.plain.to_vec();
        let tag = key_of(self.cipher.algorithm, known.key)
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(known.nonce),
                Aad::from(known.associated),
                &mut record,
            )
            .map_err(|_| "sealing failed".to_owned())?;
        if record[..16] != known.sealed_begin || tag.as_ref() != known.tag {
            return Err("the published test vector does not match".to_owned());
        }
        let mut record = self.sealed.to_vec();
        let opened = self
            .key
            .open_in_place(nonce(0), Aad::empty(), &mut record)
            .map_err(|_| "a sealed record cannot be opened".to_owned())?;
        if *opened != *self.plain {
            return Err("the opened record differs from the sealed one".to_owned());
        }
        Ok(())
    }

    fn run(&mut self, operations: u64) -> u64 {
        let mut sum = 0u64;
        if self.open {
            for _ in 0..operations {
                self.buffer
                    .copy_from_slice(std::hint::black_box(&*self.sealed));
                let opened = self
                    .key
                    .open_in_place(nonce(0), Aad::empty(), &mut self.buffer)
                    .expect("as verified");
                sum = fold(sum, u64::from(opened[opened.len() - 1]));
            }
        } else {
            self.buffer.copy_from_slice(&self.plain);
            for sequence in 0..operations {
                let tag = self
                    .key
                    .seal_in_place_separate_tag(nonce(sequence), Aad::empty(), &mut self.buffer)
                    .expect("within the cipher's limits");
                let first = tag.as_ref()[..8].try_into().expect("16 bytes");
                sum = fold(sum, u64::from_be_bytes(first));
            }
        }
        sum
    }
}

struct KeyAgreement;

impl Microbenchmark for KeyAgreement {
    fn name(&self) -> &str {
        "x25519-agree"
    }

    fn category(&self) -> Category {
        Category::Encryption
    }

    fn operation(&self) -> &str {
        "makes a key pair and agrees on a secret"
    }

    fn repeats(&self) -> bool {
        // Its keys are the system's.
        false
    }

    fn prepare(&self, setup: &Setup) -> Result<Prepared, TaxError> {
        let wrong = |_| TaxError::Work {
            benchmark: self.name().to_owned(),
            why: "no key pair could be made".to_owned(),
        };
        let random = SystemRandom::new();
        let peer = EphemeralPrivateKey::generate(&X25519, &random).map_err(wrong)?;
        let public = peer.compute_public_key().map_err(wrong)?.as_ref().to_vec();
        let workers = (0..setup.workers)
            .map(|_| {
                Box::new(Agreement {
                    random: random.clone(),
                    peer: public.clone(),
                }) as _
            })
            .collect();
        Ok(Prepared::new(workers))
    }
}

struct Agreement {
    random: SystemRandom,
    peer: Vec<u8>,
}

impl Agreement {
    fn secret(&self, own: EphemeralPrivateKey, peer: &[u8]) -> Result<u64, String> {
        agree_ephemeral(own, &UnparsedPublicKey::new(&X25519, peer), |secret| {
            u64::from_le_bytes(secret[..8].try_into().expect("32 bytes"))
        })
        .map_err(|_| "the key agreement failed".to_owned())
    }

    fn pair(&self) -> Result<(EphemeralPrivateKey, Vec<u8>), String> {
        let failed = |_| "no key pair could be made".to_owned();
        let own = EphemeralPrivateKey::generate(&X25519, &self.random).map_err(failed)?;
        let public = own.compute_public_key().map_err(failed)?.as_ref().to_vec();
        Ok((own, public))
    }
}

impl Worker for Agreement {
    fn verify(&mut self) -> Result<(), String> {
        let ((a, a_public), (b, b_public)) = (self.pair()?, self.pair()?);
        if self.secret(a, &b_public)? == self.secret(b, &a_public)? {
            Ok(())
        } else {
            Err("both sides agreed on different secrets".to_owned())
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        let mut sum = 0u64;
        for _ in 0..operations {
            let (own, public) = self.pair().expect("as verified");
            std::hint::black_box(public);
            sum ^= self.secret(own, &self.peer).expect("as verified");
        }
        sum
    }
}

struct Handshake;

impl Microbenchmark for Handshake {
    fn name(&self) -> &str {
        "tls13-handshake"
    }

    fn category(&self) -> Category {
        Category::Encryption
    }

    fn operation(&self) -> &str {
        "client and server make one full TLS 1.3 handshake"
    }

    fn repeats(&self) -> bool {
        // A signature's encoding is one byte shorter now and then.
        false
    }

    fn prepare(&self, setup: &Setup) -> Result<Prepared, TaxError> {
        let (client, server) = configurations().map_err(|why| TaxError::Work {
            benchmark: self.name().to_owned(),
            why,
        })?;
        let workers = (0..setup.workers)
            .map(|_| {
                Box::new(Endpoints {
                    client: client.clone(),
                    server: server.clone(),
                    wire: Vec::new(),
                }) as _
            })
            .collect();
        Ok(Prepared::new(workers))
    }
}

fn configurations() -> Result<(Arc<ClientConfig>, Arc<ServerConfig>), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let own =
        rcgen::generate_simple_self_signed(vec!["tax.invalid".to_owned()]).map_err(|e| text(&e))?;
    let certificate = own.cert.der().clone();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).map_err(|e| text(&e))?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).map_err(|e| text(&e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = &[&rustls::version::TLS13];
    let mut client = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|e| text(&e))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.resumption = rustls::client::Resumption::disabled();
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(|e| text(&e))?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(|e| text(&e))?;
    // No tickets: nobody would come back with them.
    server.send_tls13_tickets = 0;
    Ok((Arc::new(client), Arc::new(server)))
}

struct Endpoints {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    wire: Vec<u8>,
}

/// Carries all that `from` has to say to `to`; returns how many bytes it was.
macro_rules! carry {
    ($from:expr, $to:expr, $wire:expr) => {{
        $wire.clear();
        while $from.wants_write() {
            $from.write_tls($wire).map_err(|e| e.to_string())?;
        }
        let mut rest = $wire.as_slice();
        while !rest.is_empty() {
            $to.read_tls(&mut rest).map_err(|e| e.to_string())?;
            $to.process_new_packets().map_err(|e| e.to_string())?;
        }
        $wire.len()
    }};
}

impl Endpoints {
    /// Makes a handshake; returns how many bytes went over the wire.
    fn shake(&mut self) -> Result<usize, String> {
        let name = ServerName::try_from("tax.invalid").map_err(|e| e.to_string())?;
        let mut client =
            ClientConnection::new(self.client.clone(), name).map_err(|e| e.to_string())?;
        let mut server = ServerConnection::new(self.server.clone()).map_err(|e| e.to_string())?;
        let mut bytes = 0;
        while client.is_handshaking() || server.is_handshaking() {
            let sent = carry!(client, server, &mut self.wire);
            let answered = carry!(server, client, &mut self.wire);
            if sent + answered == 0 {
                return Err("the handshake made no progress".to_owned());
            }
            bytes += sent + answered;
        }
        Ok(bytes)
    }
}

impl Worker for Endpoints {
    fn verify(&mut self) -> Result<(), String> {
        // Two hellos, a certificate, its proof and two finished messages: about a kilobyte.
        match self.shake()? {
            500..4000 => Ok(()),
            bytes => Err(format!("a handshake of {bytes} bytes")),
        }
    }

    fn run(&mut self, operations: u64) -> u64 {
        (0..operations)
            .map(|_| self.shake().expect("as verified") as u64)
            .sum()
    }
}
