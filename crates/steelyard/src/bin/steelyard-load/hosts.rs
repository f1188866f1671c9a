//! `--host`: the load of several processes, and `steelyard-load join`, which each of them runs.

use std::sync::atomic::AtomicBool;

use clap::{CommandFactory, Parser};
use steelyard::{Exit, Failure};
use steelyard_load::hosts::{Fleet, Remote, join as orders};
use steelyard_load::offer::{Here, Lost, Offer};
use steelyard_load::progress::Progress;
use steelyard_load::{LoadError, Settings};

use crate::arguments::LoadArguments;
use crate::settings::{failure, settings};
use crate::{Line, Mode};

/// What loads are offered with: this process, or those on the hosts that the flags name.
pub fn offerer<'a>(
    load: &LoadArguments,
    asked: &Settings,
    progress: Progress,
    stop: &'a AtomicBool,
) -> Result<Box<dyn Offer + 'a>, Failure> {
    if load.host.is_empty() {
        crate::pin(asked)?;
        return Ok(Box::new(Here { progress, stop }));
    }
    Fleet::check(load.host.len(), asked).map_err(failure)?;
    let remote = Remote {
        ssh: load.ssh.split_whitespace().map(str::to_owned).collect(),
        command: load.remote_command.clone(),
    };
    let arguments: Vec<String> = std::env::args().collect();
    let hlog = load.hlog.clone();
    let fleet = Fleet::start(&load.host, &remote, arguments, hlog, stop).map_err(failure)?;
    Ok(Box::new(fleet.followed(progress, crate::orders(load))))
}

/// How a command ends whose load lost a host, after its record has been written.
pub fn lost(host: Lost) -> Failure {
    let failure = Failure::new(Exit::Failed, LoadError::from(host));
    failure.hint("the record has the results until then")
}

/// Takes orders until the input ends.
pub fn join() {
    orders::serve(&|arguments| {
        let line = Line::try_parse_from(arguments)
            .map_err(|error| steelyard::usage(&Line::command(), error))?;
        let load = match &line.mode {
            None => &line.load,
            Some(Mode::Capacity(arguments)) => &arguments.load,
            Some(Mode::Sweep(arguments)) => &arguments.load,
            Some(Mode::Join) => {
                return Err("a process that runs `join` makes no load of its own".to_owned());
            }
        };
        let settings = settings(load, line.mode.is_some())
            .map_err(|failure| format!("{:#}", failure.error))?;
        crate::pin(&settings).map_err(|failure| format!("{:#}", failure.error))?;
        Ok(settings)
    });
}
