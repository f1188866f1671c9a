//! The answers of servers that shake hands or multiplex (TLS, CQL, Thrift), in pieces cut anywhere: no panic, no loop, the
//! same answers as in one piece.
#![no_main]

use std::path::Path;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use steelyard_load::codec::{
    Codec, Cql, CqlScript, MemcachedText, Thrift, ThriftScript, Tls, Trust,
};
use steelyard_load::mix::MixFile;
use steelyard_load::workload::{Keyspace, Popularity, Request, Workload};
use steelyard_load::{Protocol, Sizes, settings};

const MIX: &str = r#"
schema_version = "1.0"
kind = "mix"
[[operation]]
name = "read"
weight = 1
effect = "read"
cql = { statement = "SELECT", binds = ["{key}"] }
thrift = { method = "read", arguments = [{ id = 1, type = "i64", value = "{key}" }], expect = { fields = [1, 2] } }
"#;

/// An authority that exists for this: no certificate of its servers does.
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUIk/9dDDv+TWWcR5DsyCFf+70tvQwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEZnV6ejAgFw0yNjExMjEyMDM4NDZaGA8yMTI2MTAyODIwMzg0
NlowDzENMAsGA1UEAwwEZnV6ejBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABN/t
1xrQUVuSe7zQ0mgTm3hMFaiuIDj3VA8UXR24qTTOlc9abpPbGl8hEwIIOkILYMS9
/pDJ0k/aHFyFJLGJ3LmjUzBRMB0GA1UdDgQWBBQSFD9hC2hSdOZJGT1o18XE0xJP
oTAfBgNVHSMEGDAWgBQSFD9hC2hSdOZJGT1o18XE0xJPoTAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCIQDHvANcyCp2aco0lPqTO5wX/TJhsLKaM+1/
pMG6RiHM1AIgVdPgUF++5F8aB0MSSp+tltRyP6FOTr7zr6xWg30AZjI=
-----END CERTIFICATE-----
";

fn workload(protocol: Protocol) -> Arc<Workload> {
    let file = MixFile::parse(MIX, "fuzz", Path::new("")).unwrap();
    let mix = file.for_protocol(protocol).unwrap();
    let keys = Keyspace::new(100, Sizes::fixed(12), Sizes::fixed(10), false).unwrap();
    Arc::new(Workload::new(keys, Popularity::Uniform, Arc::new(mix)).unwrap())
}

static CQL: LazyLock<Arc<CqlScript>> =
    LazyLock::new(|| Arc::new(CqlScript::of(&workload(Protocol::Cql), None).unwrap()));
static THRIFT: LazyLock<Arc<ThriftScript>> =
    LazyLock::new(|| Arc::new(ThriftScript::of(&workload(Protocol::Thrift)).unwrap()));
static CALLS: LazyLock<Arc<Workload>> = LazyLock::new(|| workload(Protocol::Thrift));
static TRUST: LazyLock<Trust> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("steelyard-fuzz-{}.pem", std::process::id()));
    std::fs::write(&path, AUTHORITY).unwrap();
    let tls = settings::Tls {
        ca: Some(path),
        name: "localhost".to_owned(),
        insecure: false,
        client: None,
    };
    Trust::new(&tls).unwrap()
});

/// Gives `text` to two fresh connections, to one of them in pieces. A session that has come up is asked something now
/// and then, so that there is something to answer.
fn check<C: Codec>(make: impl Fn() -> C, text: &[u8], cuts: &[usize], compare: bool) {
    let (mut whole, mut pieces) = (make(), make());
    let (mut answers, mut pieced) = (Vec::new(), Vec::new());
    let mut out = Vec::new();
    for codec in [&mut whole, &mut pieces] {
        codec.open(&mut out);
        for ticket in 0..3 {
            if codec.ready() {
                let request = Request {
                    ticket,
                    ..Request::of(0, 7)
                };
                codec.encode(&request, &CALLS, &mut out);
            }
        }
    }
    let verdict = whole.decode(text, &mut out, &mut answers);
    let again = cuts
        .windows(2)
        .try_for_each(|cut| pieces.decode(&text[cut[0]..cut[1]], &mut out, &mut pieced));
    if compare {
        assert_eq!(verdict, again);
        assert_eq!(answers, pieced);
    }
}

fuzz_target!(|input: (Vec<u8>, Vec<u16>)| {
    let (text, cuts) = input;
    let mut cuts: Vec<usize> = cuts
        .iter()
        .map(|&cut| usize::from(cut) % (text.len() + 1))
        .collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    check(|| Cql::new(Arc::clone(&CQL)), &text, &cuts, true);
    check(|| Thrift::new(Arc::clone(&THRIFT)), &text, &cuts, true);
    // A handshake holds random numbers: two of them need not fail alike.
    check(
        || Tls::new(MemcachedText::default(), TRUST.clone()),
        &text,
        &cuts,
        false,
    );
});
