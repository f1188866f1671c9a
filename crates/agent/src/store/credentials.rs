//! Who signs requests to S3: keys of the environment, of the shared file, of a pod or of an instance.
//!
//! In: variables of the environment, under the names that AWS's tools know. Out: a signer, which fetches keys before they
//! expire. The protocols are those of `reqsign`, which leaves reading and sending to its user: here both are done at once,
//! so that nothing waits and no runtime is needed.
//!
//! Not here: single sign-on and processes that print keys, which are for persons.

use std::collections::HashMap;
use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use reqsign_aws_v4::{
    AssumeRoleWithWebIdentityCredentialProvider, Credential, ECSCredentialProvider,
    EnvCredentialProvider, IMDSv2CredentialProvider, ProfileCredentialProvider, RequestSigner,
};
use reqsign_core::{
    Context, Error, FileRead, HttpSend, ProvideCredential, ProvideCredentialDyn, Result, Signer,
    StaticEnv,
};

use super::http::{parse_url, send};

/// Variables of the environment that are not empty.
pub type Environment = HashMap<String, String>;

/// Time for each step of a request for keys: the services are near, and one that is not there must not hold up a start.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest file of keys, and longest answer with keys.
const MOST_BYTES: usize = 1 << 20;

/// Signs requests to S3 in `region` with the first keys that `environment` leads to.
pub fn signer(environment: &Environment, region: &str) -> Signer<Credential> {
    let named = |name: &str| environment.get(name).cloned();
    let session = named("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "steelyard-agent".to_owned());
    let pod = AssumeRoleWithWebIdentityCredentialProvider::new()
        .with_region(region.to_owned())
        .with_regional_sts_endpoint()
        .with_role_session_name(session);
    let sources: [(&str, Arc<dyn ProvideCredentialDyn<Credential = Credential>>); 5] = [
        ("environment", Arc::new(EnvCredentialProvider::new())),
        ("shared file", Arc::new(ProfileCredentialProvider::new())),
        ("web identity", Arc::new(pod)),
        ("container", Arc::new(ECSCredentialProvider::new())),
        ("instance", Arc::new(IMDSv2CredentialProvider::new())),
    ];
    let context = Context::new()
        .with_file_read(Files)
        .with_http_send(Services {
            token_service: named("AWS_ENDPOINT_URL_STS"),
        })
        .with_env(StaticEnv {
            home_dir: named("HOME").map(PathBuf::from),
            envs: environment.clone(),
        });
    Signer::new(
        context,
        Sources(sources.to_vec()),
        RequestSigner::new("s3", region),
    )
}

/// The outcome of a future that waits for nothing.
pub fn finish<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    match pin!(future).poll(&mut Task::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Err(Error::unexpected("the signer waits")),
    }
}

/// An error with what led to it, in one line.
pub fn one_line(error: &Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        line.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    line
}

/// Sources of keys, each asked where those before it have none. When none has, the error says why each has none.
#[derive(Debug)]
struct Sources(
    Vec<(
        &'static str,
        Arc<dyn ProvideCredentialDyn<Credential = Credential>>,
    )>,
);

impl ProvideCredential for Sources {
    type Credential = Credential;

    async fn provide_credential(&self, context: &Context) -> Result<Option<Credential>> {
        let mut failures = Vec::new();
        for (name, source) in &self.0 {
            match source.provide_credential_dyn(context).await {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) => failures.push(format!("{name}: {}", one_line(&error))),
            }
        }
        let names: Vec<&str> = self.0.iter().map(|(name, _)| *name).collect();
        failures.insert(0, format!("no keys in {}", names.join(", ")));
        Err(Error::credential_invalid(failures.join("; ")))
    }
}

/// Files with keys and tokens.
#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> Result<Vec<u8>> {
        steelyard_record::read_file(Path::new(path), MOST_BYTES as u64)
            .map_err(|error| Error::config_invalid(format!("{path}: {error}")))
    }
}

/// Services that give keys.
#[derive(Debug)]
struct Services {
    /// The token service, where it is not AWS's.
    token_service: Option<String>,
}

impl Services {
    /// The URL at which `url` is asked for.
    fn place(&self, url: &Uri) -> Option<Uri> {
        match &self.token_service {
            Some(other) if url.host()?.starts_with("sts.") => parse_url(other),
            _ => Some(url.clone()),
        }
    }
}

impl HttpSend for Services {
    async fn http_send(&self, request: Request<Bytes>) -> Result<Response<Bytes>> {
        let (mut parts, body) = request.into_parts();
        parts.uri = self
            .place(&parts.uri)
            .ok_or_else(|| Error::config_invalid("AWS_ENDPOINT_URL_STS names no server"))?;
        let place = parts.uri.clone();
        let answer = send(&Request::from_parts(parts, body), TIMEOUT, MOST_BYTES)
            .map_err(|error| Error::unexpected(format!("{place}: {error}")))?;
        Response::builder()
            .status(answer.status)
            .body(Bytes::from(answer.body))
            .map_err(|error| Error::unexpected(error.to_string()))
    }
}
