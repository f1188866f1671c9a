//! A bucket behind S3's interface as store.
//!
//! In: `s3://BUCKET/PREFIX`, and the variables of the environment that every S3 client knows: AWS_ACCESS_KEY_ID,
//! AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL.
//! Out: objects; a PUT is whole or not at all.
//!
//! Written by hand over rustls and ring, which are here anyway: a signed PUT now and then needs no asynchronous
//! runtime, and the libraries that have one take a minute to build (docs/journal/0155).
//!
//! Not here: identities of instances and of the web, parts of large objects (files of a spool are megabytes).

use std::time::Duration;

use super::http::{Answer, Endpoint, exchange};
use super::signature::{Keys, Request, authorization, hash};
use super::{Store, StoreError};

/// Time for each step of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest answer.
const MOST_BYTES: usize = 512 << 20;

/// A bucket.
pub struct S3 {
    url: String,
    endpoint: Endpoint,
    /// What stands before a key in the path: the bucket, unless it is in the host's name.
    path: String,
    /// What a key begins with: empty, or ending with `/`.
    prefix: String,
    region: String,
    keys: Option<Keys>,
    now: fn() -> u64,
}

/// A path in which all but what RFC 3986 calls unreserved and `/` is percent-encoded, as S3 signs it.
fn encode_path(path: &str) -> String {
    encode(path, "-._~/")
}

fn encode(text: &str, kept: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// A time as S3 signs it: `20130524T000000Z`.
pub fn stamp(unix_s: u64) -> String {
    let day = crate::table::date_of(unix_s as i64).replace('-', "");
    let second = unix_s % 86_400;
    format!(
        "{day}T{:02}{:02}{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

fn now() -> u64 {
    steelyard_record::Clock::now().realtime_ns / 1_000_000_000
}

impl S3 {
    /// The bucket that `rest` of `url` names, reached as the environment says.
    pub fn new(
        url: &str,
        rest: &str,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, StoreError> {
        let refuse = |reason: String| StoreError::Url {
            url: url.to_owned(),
            reason,
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        if bucket.is_empty() || !bucket.chars().all(fits) {
            return Err(refuse(format!("{bucket:?} is no bucket's name")));
        }
        let get = |name: &str| environment(name).filter(|value| !value.is_empty());
        let region = get("AWS_REGION")
            .or_else(|| get("AWS_DEFAULT_REGION"))
            .unwrap_or_else(|| "us-east-1".to_owned());
        let (endpoint, path) = match get("AWS_ENDPOINT_URL_S3").or_else(|| get("AWS_ENDPOINT_URL"))
        {
            Some(given) => {
                let endpoint = Endpoint::parse(&given).ok_or_else(|| {
                    refuse(format!(
                        "AWS_ENDPOINT_URL is {given:?}, which names no server"
                    ))
                })?;
                let path = format!("{}/{bucket}", endpoint.base);
                (endpoint, path)
            }
            None => {
                let url = format!("https://{bucket}.s3.{region}.amazonaws.com");
                let endpoint = Endpoint::parse(&url)
                    .ok_or_else(|| refuse(format!("{region:?} is no region")))?;
                (endpoint, String::new())
            }
        };
        let keys = match (get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY")) {
            (Some(id), Some(secret)) => Some(Keys {
                id,
                secret,
                token: get("AWS_SESSION_TOKEN"),
            }),
            _ => None,
        };
        let prefix = prefix.trim_matches('/');
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            endpoint,
            path,
            prefix: if prefix.is_empty() {
                String::new()
            } else {
                format!("{prefix}/")
            },
            region,
            keys,
            now,
        })
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        query: &str,
        body: &[u8],
    ) -> Result<Answer, StoreError> {
        let place = || format!("{method} {}{path}", self.endpoint.authority());
        let access = |reason: String| StoreError::Access {
            place: place(),
            reason,
        };
        let keys = self.keys.as_ref().ok_or_else(|| {
            access("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set".to_owned())
        })?;
        let (time, content_hash) = (stamp((self.now)()), hash(body));
        let host = self.endpoint.authority();
        let mut headers = vec![
            ("host", host.as_str()),
            ("x-amz-content-sha256", &content_hash),
            ("x-amz-date", &time),
        ];
        if let Some(token) = &keys.token {
            headers.push(("x-amz-security-token", token));
        }
        let request = Request {
            method,
            path,
            query,
            headers: &headers,
            content_hash: &content_hash,
            time: &time,
            region: &self.region,
        };
        let authorization = authorization(&request, keys);
        let question = if query.is_empty() {
            String::new()
        } else {
            format!("?{query}")
        };
        let mut head = format!("{method} {path}{question} HTTP/1.1\r\n");
        for (name, value) in &headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!(
            "authorization: {authorization}\r\ncontent-length: {}\r\nconnection: close\r\n",
            body.len()
        ));
        exchange(&self.endpoint, &head, body, TIMEOUT, MOST_BYTES)
            .map_err(|error| access(error.to_string()))
    }

    fn path_of(&self, key: &str) -> String {
        format!(
            "{}/{}",
            self.path,
            encode_path(&format!("{}{key}", self.prefix))
        )
    }

    fn refused(&self, what: &str, answer: &Answer) -> StoreError {
        let text = String::from_utf8_lossy(&answer.body);
        let said = [
            between(&text, "<Code>", "</Code>"),
            between(&text, "<Message>", "</Message>"),
        ];
        let said: Vec<&str> = said.into_iter().flatten().collect();
        StoreError::Access {
            place: format!("{}/{what}", self.url),
            reason: format!(
                "status {} {}",
                answer.status,
                crate::identity::rules::clean(&said.join(": "))
            )
            .trim_end()
            .to_owned(),
        }
    }
}

fn between<'t>(text: &'t str, begin: &str, end: &str) -> Option<&'t str> {
    let rest = &text[text.find(begin)? + begin.len()..];
    Some(&rest[..rest.find(end)?])
}

/// The keys in a list of objects, and the token of the next part of the list.
pub fn parse_list(text: &str) -> (Vec<String>, Option<String>) {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some(key) = between(rest, "<Key>", "</Key>") {
        keys.push(unescape(key));
        let end = rest
            .find("</Key>")
            .map_or(rest.len(), |at| at + "</Key>".len());
        rest = &rest[end..];
    }
    (
        keys,
        between(text, "<NextContinuationToken>", "</NextContinuationToken>").map(unescape),
    )
}

fn unescape(text: &str) -> String {
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'");
    text.replace("&amp;", "&")
}

impl Store for S3 {
    fn url(&self) -> &str {
        &self.url
    }

    fn put(&mut self, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let answer = self.ask("PUT", &self.path_of(key), "", bytes)?;
        match answer.status {
            200..=299 => Ok(()),
            _ => Err(self.refused(key, &answer)),
        }
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let answer = self.ask("GET", &self.path_of(key), "", b"")?;
        match answer.status {
            200 => Ok(Some(answer.body)),
            404 => match String::from_utf8_lossy(&answer.body).contains("NoSuchBucket") {
                true => Err(self.refused(key, &answer)),
                false => Ok(None),
            },
            _ => Err(self.refused(key, &answer)),
        }
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let mut keys = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let unreserved = "-._~";
            let more = token
                .as_deref()
                .map(|token| format!("continuation-token={}&", encode(token, unreserved)));
            let whole = encode(&format!("{}{prefix}", self.prefix), unreserved);
            let query = format!("{}list-type=2&prefix={whole}", more.unwrap_or_default());
            let path = if self.path.is_empty() {
                "/"
            } else {
                &self.path
            };
            let answer = self.ask("GET", path, &query, b"")?;
            if answer.status != 200 {
                return Err(self.refused(prefix, &answer));
            }
            let (found, next) = parse_list(&String::from_utf8_lossy(&answer.body));
            keys.extend(
                found
                    .iter()
                    .filter_map(|key| key.strip_prefix(&self.prefix))
                    .map(str::to_owned),
            );
            match next {
                Some(next) if token.as_ref() != Some(&next) => token = Some(next),
                _ => return Ok(keys),
            }
        }
    }
}

#[cfg(test)]
mod tests;
