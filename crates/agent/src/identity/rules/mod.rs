//! Rules that make control groups tasks.
//!
//! In: TOML of `[[rule]]` tables, the shipped ones or a configuration's. Out: for a group's path and its first process,
//! what the first matching rule says.
//!
//! Invariants: every rule is judged when it is read; a missing value of a template makes the next
//! template of its list be taken, never an empty name.

use std::collections::BTreeMap;

use regex_lite::{Captures, Regex};
use serde::Deserialize;

use crate::rows::{JobClass, Labels};

/// The rules that come with the agent.
pub const SHIPPED: &str = include_str!("../../../../../data/agent/tasks.toml");

/// Longest name or label value, in characters.
const LONGEST: usize = 256;

/// One template, or several of which the first whose values are all known is taken.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Several(Vec<String>),
}

impl Templates {
    fn list(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(list) => list,
        }
    }
}

/// What a rule does with a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    /// It is a task, with all below it.
    #[default]
    Task,
    /// Neither it nor what is below it is one.
    Ignore,
    /// It is none, but what is below it may be.
    Descend,
}

/// A rule as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleText {
    name: String,
    path: String,
    command: Option<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    action: Action,
    job: Option<Templates>,
    task: Option<Templates>,
    job_class: Option<Templates>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<RuleText>,
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(String),
}

type Template = Vec<Piece>;

#[derive(Debug)]
struct Rule {
    name: String,
    path: Regex,
    command: Option<Regex>,
    environment: Vec<(String, Regex)>,
    action: Action,
    job: Vec<Template>,
    task: Vec<Template>,
    job_class: Vec<Template>,
    labels: Vec<(String, Template)>,
}

/// What is known about a group's first process. Asked only by rules that want it.
pub trait Process {
    /// Its name.
    fn command(&mut self) -> Option<String>;
    /// A variable of its environment.
    fn variable(&mut self, name: &str) -> Option<String>;
}

/// What a rule says of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is a task.
    Task {
        /// Its job.
        job: String,
        /// Its name.
        task: String,
        /// Its class.
        job_class: JobClass,
        /// Its labels.
        labels: Labels,
        /// The rule that says so.
        rule: String,
    },
    /// Neither it nor what is below it is a task.
    Ignore,
    /// What is below it may be.
    Descend,
}

/// Rules in the order in which they are asked.
#[derive(Debug, Default)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// The rules of `own`, then the shipped ones if they are wanted. An error names rule and reason.
    pub fn new(own: &[RuleText], shipped: bool) -> Result<Self, String> {
        let mut rules: Vec<Rule> = own.iter().map(judge).collect::<Result<_, _>>()?;
        if shipped {
            rules.extend(Self::parse(SHIPPED)?.0);
        }
        Ok(Self(rules))
    }

    /// The rules of a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| one_line(&error))?;
        file.rule
            .iter()
            .map(judge)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// What the first matching rule says of the group at `path`; None where no rule matches.
    pub fn ask(&self, path: &str, process: &mut dyn Process) -> Option<Answer> {
        self.0.iter().find_map(|rule| rule.ask(path, process))
    }
}

/// The first line of what TOML says, with the place it says it of.
pub fn one_line(error: &toml::de::Error) -> String {
    error.message().replace('\n', " ")
}

fn judge(text: &RuleText) -> Result<Rule, String> {
    let name = &text.name;
    let refuse = |what: String| format!("rule {name:?}: {what}");
    let regex = |key: &str, text: &str| {
        Regex::new(text)
            .map_err(|error| refuse(format!("{key} is not a regular expression: {error}")))
    };
    let path = regex("path", &text.path)?;
    let command = match &text.command {
        Some(text) => Some(regex("command", text)?),
        None => None,
    };
    let mut environment = Vec::new();
    for (variable, text) in &text.environment {
        environment.push((variable.clone(), regex("environment", text)?));
    }
    let known = |capture: &str| {
        let all = [&path].into_iter().chain(&command);
        all.chain(environment.iter().map(|(_, regex)| regex))
            .any(|regex| {
                regex
                    .capture_names()
                    .flatten()
                    .any(|named| named == capture)
            })
    };
    let template = |key: &str, text: &str| {
        template(text, &known).map_err(|why| refuse(format!("{key}: {why}")))
    };
    let templates = |key: &str, texts: &Option<Templates>| match texts {
        None if text.action == Action::Task => Err(refuse(format!("{key} is missing"))),
        None => Ok(Vec::new()),
        Some(texts) => texts
            .list()
            .iter()
            .map(|text| template(key, text))
            .collect(),
    };
    let (job, task) = (templates("job", &text.job)?, templates("task", &text.task)?);
    let job_class = templates("job_class", &text.job_class)?;
    let mut labels = Vec::new();
    for (label, text) in &text.labels {
        labels.push((label.clone(), template("labels", text)?));
    }
    Ok(Rule {
        name: name.clone(),
        path,
        command,
        environment,
        action: text.action,
        job,
        task,
        job_class,
        labels,
    })
}

/// Takes a template apart.
fn template(text: &str, known: &dyn Fn(&str) -> bool) -> Result<Template, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(begin) = rest.find("${") {
        if begin > 0 {
            pieces.push(Piece::Text(rest[..begin].to_owned()));
        }
        let after = &rest[begin + 2..];
        let end = after
            .find('}')
            .ok_or_else(|| format!("{text:?} has ${{ without }}"))?;
        let name = &after[..end];
        if !(name == "command"
            || name
                .strip_prefix("env.")
                .is_some_and(|name| !name.is_empty())
            || known(name))
        {
            return Err(format!(
                "${{{name}}} in {text:?} is not a capture, env.NAME or command"
            ));
        }
        pieces.push(Piece::Value(name.to_owned()));
        rest = &after[end + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    if pieces.is_empty() {
        return Err("an empty template".to_owned());
    }
    Ok(pieces)
}

/// The captures of a match, by name.
type Values = BTreeMap<String, String>;

fn take(values: &mut Values, regex: &Regex, captures: &Captures<'_>) {
    for name in regex.capture_names().flatten() {
        if let Some(found) = captures.name(name) {
            values.insert(name.to_owned(), found.as_str().to_owned());
        }
    }
}

impl Rule {
    fn ask(&self, path: &str, process: &mut dyn Process) -> Option<Answer> {
        let values = self.matches(path, process)?;
        match self.action {
            Action::Ignore => return Some(Answer::Ignore),
            Action::Descend => return Some(Answer::Descend),
            Action::Task => {}
        }
        let mut first = |templates: &[Template]| {
            let mut filled = templates
                .iter()
                .filter_map(|one| fill(one, &values, process));
            filled.next()
        };
        let (job, task) = (first(&self.job)?, first(&self.task)?);
        let job_class = self.job_class.iter().find_map(|one| {
            let word = fill(one, &values, process)?;
            // The words of Kubernetes' quality of service: what is no class passes on to the next template.
            JobClass::named(if word == "besteffort" {
                "best-effort"
            } else {
                &word
            })
        })?;
        let labels = self.labels.iter().filter_map(|(label, template)| {
            Some((label.clone(), fill(template, &values, process)?))
        });
        Some(Answer::Task {
            job,
            task,
            job_class,
            labels: labels.collect(),
            rule: self.name.clone(),
        })
    }

    fn matches(&self, path: &str, process: &mut dyn Process) -> Option<Values> {
        let mut values = Values::new();
        take(&mut values, &self.path, &self.path.captures(path)?);
        if let Some(regex) = &self.command {
            let command = process.command()?;
            take(&mut values, regex, &regex.captures(&command)?);
        }
        for (variable, regex) in &self.environment {
            let value = process.variable(variable)?;
            take(&mut values, regex, &regex.captures(&value)?);
        }
        Some(values)
    }
}

/// The text of a template; None where a value is unknown or the text is empty.
fn fill(template: &Template, values: &Values, process: &mut dyn Process) -> Option<String> {
    let mut text = String::new();
    for piece in template {
        match piece {
            Piece::Text(part) => text.push_str(part),
            Piece::Value(name) if name == "command" => text.push_str(&process.command()?),
            Piece::Value(name) => match name.strip_prefix("env.") {
                Some(variable) => text.push_str(&process.variable(variable)?),
                None => text.push_str(values.get(name)?),
            },
        }
    }
    let text = clean(&text);
    (!text.is_empty()).then_some(text)
}

/// A name from outside as it is stored: without control characters, and not endless.
pub fn clean(text: &str) -> String {
    text.trim()
        .chars()
        .take(LONGEST)
        .map(|letter| {
            if letter.is_control() {
                '\u{fffd}'
            } else {
                letter
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
