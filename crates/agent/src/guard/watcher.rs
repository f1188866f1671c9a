//! The guard as the agent's loop calls it.

use steelyard_record::Clock;

use super::clock::Moment;
use super::service::Service;
use crate::agent::Watch;
use crate::rows::{Incident, TaskSample};

/// A running guard with what an earlier agent left to report.
pub struct Watcher {
    service: Service,
    left: Vec<Incident>,
}

impl Watcher {
    /// A watcher by a service and the incidents that it was started with.
    pub fn new((service, left): (Service, Vec<Incident>)) -> Self {
        Self { service, left }
    }
}

/// The loop's clock stops while the machine sleeps and a cap's does not: the second is read here.
fn moment(now: Clock) -> Moment {
    Moment {
        unix_s: now.realtime_ns as f64 / 1e9,
        ..Moment::now()
    }
}

impl Watch for Watcher {
    fn on_window(&mut self, now: Clock, samples: &[TaskSample]) -> Vec<Incident> {
        self.service.on_window(moment(now), samples)
    }

    fn tick(&mut self, now: Clock) -> Vec<Incident> {
        let mut over = std::mem::take(&mut self.left);
        over.append(&mut self.service.tick(moment(now)));
        over
    }

    fn stop(&mut self, now: Clock) -> Vec<Incident> {
        let mut over = std::mem::take(&mut self.left);
        over.append(&mut self.service.stop(moment(now), "the agent ends"));
        over
    }

    fn figures(&self) -> Vec<(&'static str, &'static str, f64)> {
        let mut figures: Vec<_> = self
            .service
            .stats()
            .metrics()
            .into_iter()
            .map(|(name, _, help, value)| (name, help, value as f64))
            .collect();
        let known = self.service.specs();
        figures.push((
            "specs",
            "specifications of this machine's platform",
            known.specs.len() as f64,
        ));
        if let Some(built) = known.specs.built_unix_s() {
            figures.push((
                "specs_built_unix_s",
                "when the newest of them was built",
                built as f64,
            ));
        }
        figures
    }
}
