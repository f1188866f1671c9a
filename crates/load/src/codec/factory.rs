//! Which codec a load's connections get.

use std::sync::Arc;

use super::cql::{Cql, CqlScript};
use super::http::{Http, HttpScript};
use super::memcached::{MemcachedScript, MemcachedText};
use super::resp::{Resp, RespScript};
use super::steps::Steps;
use super::thrift::{Thrift, ThriftScript};
use super::tls::{Tls, Trust};
use super::{Codec, session};
use crate::LoadError;
use crate::protocol::Protocol;
use crate::settings::Settings;
use crate::workload::Workload;

/// Makes the codec of each new connection.
pub type Factory = Arc<dyn Fn() -> Box<dyn Codec> + Send + Sync>;

/// What makes codecs for `settings`; fails on settings that the protocol cannot serve.
pub fn factory(settings: &Settings, workload: &Arc<Workload>) -> Result<Factory, LoadError> {
    let mix = workload.mix();
    let plain: Factory = match settings.protocol {
        Protocol::Memcached => {
            let script = Arc::new(MemcachedScript::of(mix));
            Arc::new(move || Box::new(MemcachedText::new(Arc::clone(&script))))
        }
        Protocol::Redis => {
            let script = Arc::new(RespScript::of(mix, settings));
            Arc::new(move || Box::new(Resp::new(Arc::clone(&script))))
        }
        Protocol::Http => {
            let script = Arc::new(HttpScript::of(mix, settings)?);
            Arc::new(move || Box::new(Http::new(Arc::clone(&script))))
        }
        Protocol::Thrift => {
            let script = Arc::new(ThriftScript::of(workload)?);
            Arc::new(move || Box::new(Thrift::new(Arc::clone(&script))))
        }
        Protocol::Cql => {
            let script = CqlScript::of(workload, settings.credentials.clone())?;
            Arc::new(of_cql(script))
        }
    };
    let secured = secured(settings, plain)?;
    if !Steps::are_needed(workload) {
        return Ok(secured);
    }
    let workload = Arc::clone(workload);
    Ok(Arc::new(move || {
        Box::new(Steps::new(secured(), Arc::clone(&workload)))
    }))
}

/// Does what is done once before a load: CQL's setup.
pub fn set_up(settings: &Settings, workload: &Arc<Workload>) -> Result<(), LoadError> {
    if settings.protocol != Protocol::Cql {
        return Ok(());
    }
    let script = CqlScript::of(workload, settings.credentials.clone())?;
    let Some(setup) = script.setup() else {
        return Ok(());
    };
    let codecs = secured(settings, Arc::new(of_cql(setup)))?;
    session::drive(settings.target.first(), &mut *codecs())
}

fn of_cql(script: CqlScript) -> impl Fn() -> Box<dyn Codec> + Send + Sync {
    let script = Arc::new(script);
    move || Box::new(Cql::new(Arc::clone(&script)))
}

/// `plain` inside TLS where the settings ask for it.
fn secured(settings: &Settings, plain: Factory) -> Result<Factory, LoadError> {
    let Some(tls) = &settings.tls else {
        return Ok(plain);
    };
    let trust = Trust::new(tls)?;
    Ok(Arc::new(move || Box::new(Tls::new(plain(), trust.clone()))))
}
