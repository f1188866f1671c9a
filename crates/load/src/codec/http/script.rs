//! What every HTTP connection of a load sends: heads and bodies of its mix, with the host's name and who asks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::LoadError;
use crate::mix::{HttpTemplate, Mix, Template, Text};
use crate::settings::Settings;

/// What every connection of a load sends, by operation and step.
#[derive(Debug, Default)]
pub struct HttpScript {
    pub(super) steps: Vec<Vec<Step>>,
    /// Whether any of them is a HEAD, whose answers announce bodies that do not come.
    pub(super) asks_heads: bool,
}

#[derive(Debug)]
pub(super) struct Step {
    /// The head, up to the length of the body if there is one.
    pub head: Text,
    pub body: Option<Text>,
    pub is_head: bool,
}

/// Headers that the flags give to every request, where the mix does not give them.
struct Own {
    host: String,
    authorization: Option<String>,
}

impl HttpScript {
    /// The requests of `mix` for the server that `settings` name.
    pub fn of(mix: &Mix, settings: &Settings) -> Result<Self, LoadError> {
        let name = settings.target.to_string();
        let own = Own {
            // A Unix socket has no name that a server could expect; curl says this one as well.
            host: match name.starts_with("unix:") {
                true => "localhost".to_owned(),
                false => name,
            },
            authorization: authorization(settings),
        };
        let mut templates = mix.templates().filter_map(as_http);
        if own.authorization.is_some() && templates.any(|t| has(t, "authorization")) {
            let name = match settings.token {
                Some(_) => "--token-file",
                None => "--user",
            };
            let why = format!(
                "{} has requests with an Authorization of their own",
                mix.name
            );
            return Err(LoadError::setting(name, why));
        }
        let steps: Vec<Vec<Step>> = mix
            .operations
            .iter()
            .map(|operation| {
                let templates = operation.steps.iter().filter_map(as_http);
                templates.map(|http| Step::of(http, &own)).collect()
            })
            .collect();
        let asks_heads = steps.iter().flatten().any(|step| step.is_head);
        Ok(Self { steps, asks_heads })
    }
}

fn as_http(template: &Template) -> Option<&HttpTemplate> {
    match template {
        Template::Http(http) => Some(http),
        _ => None,
    }
}

fn has(http: &HttpTemplate, header: &str) -> bool {
    let mut names = http.headers.iter().map(|(name, _)| name);
    names.any(|name| name.eq_ignore_ascii_case(header))
}

/// Who asks, as RFC 7617 (a name and a password) and RFC 6750 (a token) say it.
fn authorization(settings: &Settings) -> Option<String> {
    if let Some(token) = &settings.token {
        return Some(format!("Bearer {}", token.text()));
    }
    let known = settings.credentials.as_ref()?;
    let pair = format!("{}:{}", known.user, known.password);
    Some(format!("Basic {}", STANDARD.encode(pair)))
}

impl Step {
    fn of(http: &HttpTemplate, own: &Own) -> Self {
        let mut head = vec![
            Text::literal(format!("{} ", http.method)),
            http.path.clone(),
            Text::literal(" HTTP/1.1\r\n"),
        ];
        if !has(http, "host") {
            head.push(Text::literal(format!("Host: {}\r\n", own.host)));
        }
        if let Some(authorization) = &own.authorization {
            head.push(Text::literal(format!("Authorization: {authorization}\r\n")));
        }
        for (name, value) in &http.headers {
            head.push(Text::literal(format!("{name}: ")));
            head.push(value.clone());
            head.push(Text::literal("\r\n"));
        }
        // RFC 9110, 8.6: these methods expect a body, and say so when they have none.
        let expects = matches!(http.method.as_str(), "POST" | "PUT" | "PATCH");
        let body = (expects || !http.body.is_empty()).then(|| http.body.clone());
        head.push(Text::literal(if body.is_some() {
            "Content-Length: "
        } else {
            "\r\n"
        }));
        Self {
            head: Text::concat(head),
            body,
            is_head: http.method == "HEAD",
        }
    }
}
