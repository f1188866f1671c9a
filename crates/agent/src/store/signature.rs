//! Signatures of requests to S3: AWS Signature Version 4 over SHA-256 and HMAC.
//!
//! In: a request and keys. Out: the value of its `Authorization` header. Source: AWS, Signature Version 4 signing process;
//! the tests are the examples of its documentation.

use ring::{digest, hmac};

/// Keys, and what they are good for.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Who.
    pub id: String,
    /// The secret.
    pub secret: String,
    /// What a temporary identity shows besides.
    pub token: Option<String>,
}

/// A request as it is signed.
#[derive(Debug)]
pub struct Request<'a> {
    /// GET or PUT.
    pub method: &'a str,
    /// The path, percent-encoded.
    pub path: &'a str,
    /// The query, its parameters in order and percent-encoded.
    pub query: &'a str,
    /// Headers: names in lower case, in order.
    pub headers: &'a [(&'a str, &'a str)],
    /// SHA-256 of the content, hexadecimal.
    pub content_hash: &'a str,
    /// The time, as `20130524T000000Z`.
    pub time: &'a str,
    /// The region.
    pub region: &'a str,
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 in hexadecimal.
pub fn hash(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn mac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

/// The value of the `Authorization` header.
pub fn authorization(request: &Request<'_>, keys: &Keys) -> String {
    let Request {
        method,
        path,
        query,
        headers,
        content_hash,
        time,
        region,
    } = request;
    let day = &time[..8];
    let lines: String = headers
        .iter()
        .map(|(name, value)| format!("{name}:{}\n", value.trim()))
        .collect();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{content_hash}");
    let scope = format!("{day}/{region}/s3/aws4_request");
    let text = format!(
        "AWS4-HMAC-SHA256\n{time}\n{scope}\n{}",
        hash(canonical.as_bytes())
    );
    let key = mac(format!("AWS4{}", keys.secret).as_bytes(), day);
    let key = mac(
        mac(mac(key.as_ref(), region).as_ref(), "s3").as_ref(),
        "aws4_request",
    );
    let signature = hex(mac(key.as_ref(), &text).as_ref());
    format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}",
        keys.id
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        }
    }

    fn signature(request: &Request<'_>) -> String {
        let value = authorization(request, &keys());
        value.rsplit('=').next().unwrap().to_owned()
    }

    // The examples of "Signature Calculations for the Authorization Header", Amazon S3 API Reference.
    #[test]
    fn the_documented_examples_come_out() {
        let empty = hash(b"");
        let get = Request {
            method: "GET",
            path: "/test.txt",
            query: "",
            headers: &[
                ("host", "examplebucket.s3.amazonaws.com"),
                ("range", "bytes=0-9"),
                ("x-amz-content-sha256", &empty),
                ("x-amz-date", "20130524T000000Z"),
            ],
            content_hash: &empty,
            time: "20130524T000000Z",
            region: "us-east-1",
        };
        assert_eq!(
            signature(&get),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        let content = hash(b"Welcome to Amazon S3.");
        let put = Request {
            method: "PUT",
            path: "/test%24file.text",
            headers: &[
                ("date", "Fri, 24 May 2013 00:00:00 GMT"),
                ("host", "examplebucket.s3.amazonaws.com"),
                ("x-amz-content-sha256", &content),
                ("x-amz-date", "20130524T000000Z"),
                ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ],
            content_hash: &content,
            ..get
        };
        assert_eq!(
            signature(&put),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
        let list = Request {
            method: "GET",
            path: "/",
            query: "max-keys=2&prefix=J",
            headers: &[
                ("host", "examplebucket.s3.amazonaws.com"),
                ("x-amz-content-sha256", &empty),
                ("x-amz-date", "20130524T000000Z"),
            ],
            content_hash: &empty,
            time: "20130524T000000Z",
            region: "us-east-1",
        };
        assert_eq!(
            signature(&list),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
    }
}
