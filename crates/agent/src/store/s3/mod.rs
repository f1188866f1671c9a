//! A bucket behind S3's interface as store.
//!
//! In: `s3://BUCKET/PREFIX`, and the variables of the environment that every S3 client knows: AWS_REGION or
//! AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL; `credentials` reads those of keys.
//! Out: objects; a PUT is whole or not at all.
//!
//! Two requests over a plain exchange: signatures and identities are of a kept library, an asynchronous runtime is not
//! needed (docs/journal/0197).
//!
//! Not here: parts of large objects (files of a spool are megabytes), retrying (`spool`).

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use reqsign_aws_v4::Credential;
use reqsign_core::Signer;
use reqsign_core::hash::hex_sha256;

use super::credentials::{Environment, finish, one_line, signer};
use super::http::{Answer, parse_url, send};
use super::{Store, StoreError};
use crate::identity::rules::clean;

/// Time for a request, beside that of its bytes.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest object that is read.
const MOST_BYTES: usize = 64 << 20;
/// Longest answer to what is sent.
const MOST_BYTES_OF_PUT: usize = 64 << 10;

/// A bucket.
pub struct S3 {
    url: String,
    /// The bucket's URL, without `/` at its end.
    bucket: String,
    /// What a key begins with: empty, or ending with `/`.
    prefix: String,
    region: String,
    environment: Environment,
    signer: Signer<Credential>,
    timeout: Duration,
}

/// A path in which all but what RFC 3986 calls unreserved and `/` is percent-encoded, as S3 signs it.
fn encode_path(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

impl S3 {
    /// The bucket that `rest` of `url` names, reached as the environment says.
    pub fn new(url: &str, rest: &str, environment: Environment) -> Result<Self, StoreError> {
        let refuse = |reason: String| StoreError::Url {
            url: url.to_owned(),
            reason,
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        if bucket.is_empty() || !bucket.chars().all(fits) {
            return Err(refuse(format!("{bucket:?} is no bucket's name")));
        }
        let first = |names: [&str; 2]| names.iter().find_map(|name| environment.get(*name));
        let region = first(["AWS_REGION", "AWS_DEFAULT_REGION"]).map_or("us-east-1", |name| name);
        let bucket = match first(["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]) {
            Some(given) => {
                parse_url(given).ok_or_else(|| {
                    refuse(format!(
                        "AWS_ENDPOINT_URL is {given:?}, which names no server"
                    ))
                })?;
                format!("{}/{bucket}", given.trim_end_matches('/'))
            }
            None => format!("https://{bucket}.s3.{region}.amazonaws.com"),
        };
        parse_url(&bucket).ok_or_else(|| refuse(format!("{region:?} is no region")))?;
        let prefix = prefix.trim_end_matches('/');
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            bucket,
            prefix: if prefix.is_empty() {
                String::new()
            } else {
                format!("{prefix}/")
            },
            region: region.to_owned(),
            signer: signer(&environment, region),
            environment,
            timeout: TIMEOUT,
        })
    }

    /// Sends a signed request for `target`, a path below the bucket's, and returns the answer.
    fn ask(&mut self, method: &str, target: &str, body: &[u8]) -> Result<Answer, StoreError> {
        let url = format!("{}{target}", self.bucket);
        let (_, place) = url.split_once("://").unwrap_or_default();
        let access = |reason: String| StoreError::Access {
            place: format!("{method} {place}"),
            reason: clean(&reason),
        };
        let request = Request::builder()
            .method(method)
            .uri(&url)
            .header("x-amz-content-sha256", hex_sha256(body))
            .body(Bytes::copy_from_slice(body))
            .map_err(|error| access(error.to_string()))?;
        let most_bytes = match method {
            "PUT" => MOST_BYTES_OF_PUT,
            _ => MOST_BYTES,
        };
        let (mut head, body) = request.into_parts();
        finish(self.signer.sign(&mut head, None)).map_err(|error| access(one_line(&error)))?;
        let answer = send(&Request::from_parts(head, body), self.timeout, most_bytes)
            .map_err(|error| access(error.to_string()))?;
        if matches!(answer.status, 400 | 401 | 403) {
            // The keys may have been replaced before their time: the next request looks for them again.
            self.signer = signer(&self.environment, &self.region);
        }
        Ok(answer)
    }

    fn path_of(&self, key: &str) -> String {
        format!("/{}", encode_path(&format!("{}{key}", self.prefix)))
    }

    fn no_store_answered(&self, what: &str) -> StoreError {
        StoreError::Access {
            place: format!("{}/{what}", self.url),
            reason: "the answer is not one of S3's, so nothing was stored or read: a login page or a proxy of the \
                     network may have answered"
                .to_owned(),
        }
    }

    fn refused(&self, what: &str, answer: &Answer) -> StoreError {
        let text = String::from_utf8_lossy(&answer.body);
        let parts = [
            between(&text, "<Code>", "</Code>"),
            between(&text, "<Message>", "</Message>"),
        ];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        StoreError::Access {
            place: format!("{}/{what}", self.url),
            reason: format!("status {} {}", answer.status, clean(&parts.join(": ")))
                .trim_end()
                .to_owned(),
        }
    }
}

/// Whether an answer says that something went wrong, which S3 also does with status 200: it may send the head of the
/// answer before it knows.
fn is_error(answer: &Answer) -> bool {
    let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(4096)]);
    text.contains("<Error>") || text.contains("<Error ")
}

/// Whether an answer is a page for people.
fn is_page(answer: &Answer) -> bool {
    let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(4096)]);
    text.to_ascii_lowercase().contains("<html")
}

fn between<'t>(text: &'t str, begin: &str, end: &str) -> Option<&'t str> {
    let rest = &text[text.find(begin)? + begin.len()..];
    Some(&rest[..rest.find(end)?])
}

impl Store for S3 {
    fn url(&self) -> &str {
        &self.url
    }

    fn put(&mut self, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let answer = self.ask("PUT", &self.path_of(key), bytes)?;
        if !(200..=299).contains(&answer.status) || is_error(&answer) {
            return Err(self.refused(key, &answer));
        }
        // What says yes to everything (a login page of the network, a proxy) has stored nothing.
        if answer.tag.is_empty() || is_page(&answer) {
            return Err(self.no_store_answered(key));
        }
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let answer = self.ask("GET", &self.path_of(key), b"")?;
        match answer.status {
            200 => Ok(Some(answer.body)),
            404 => match String::from_utf8_lossy(&answer.body).contains("NoSuchBucket") {
                true => Err(self.refused(key, &answer)),
                false => Ok(None),
            },
            _ => Err(self.refused(key, &answer)),
        }
    }
}

#[cfg(test)]
mod tests;
