//! What every CQL connection of a load shares: statements, what is bound to them, and who asks.

use std::collections::HashMap;
use std::sync::Arc;

use super::values::{Bind, Type};
use crate::LoadError;
use crate::mix::Effect;
use crate::mix::Template;
use crate::mix::Text;
use crate::settings::Credentials;
use crate::workload::Workload;

/// Levels of consistency, as CQL names and numbers them.
pub const CONSISTENCIES: [(&str, u16); 11] = [
    ("ANY", 0),
    ("ONE", 1),
    ("TWO", 2),
    ("THREE", 3),
    ("QUORUM", 4),
    ("ALL", 5),
    ("LOCAL_QUORUM", 6),
    ("EACH_QUORUM", 7),
    ("SERIAL", 8),
    ("LOCAL_SERIAL", 9),
    ("LOCAL_ONE", 10),
];
/// What drivers take when nothing is said.
const CONSISTENCY: &str = "LOCAL_ONE";

/// What one step of an operation asks.
#[derive(Debug)]
pub(super) struct Step {
    /// Index of its statement.
    pub statement: usize,
    /// What is bound to it.
    pub texts: Vec<Text>,
    /// What the step does.
    pub effect: Effect,
}

/// What every connection of a load sends.
#[derive(Debug)]
pub struct CqlScript {
    pub(super) credentials: Option<Credentials>,
    /// Run one after the other when the session has begun.
    pub(super) setup: Vec<String>,
    /// Prepared then.
    pub(super) statements: Vec<String>,
    /// By operation.
    pub(super) steps: Vec<Vec<Step>>,
    pub(super) consistency: u16,
    pub(super) workload: Arc<Workload>,
}

impl CqlScript {
    /// The statements of `workload`'s mix.
    pub fn of(
        workload: &Arc<Workload>,
        credentials: Option<Credentials>,
    ) -> Result<Self, LoadError> {
        let mix = workload.mix();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut statements: Vec<String> = Vec::new();
        let mut steps = Vec::new();
        for (index, operation) in mix.operations.iter().enumerate() {
            let mut of_operation = Vec::new();
            // What a step of several finds is not what the operation does.
            let effect = match operation.steps.len() {
                1 => operation.effect,
                _ => Effect::Call,
            };
            let sent = operation.weight > 0.0 || mix.prefill == Some(index);
            for template in operation.steps.iter().filter(|_| sent) {
                let Template::Cql(cql) = template else {
                    continue;
                };
                let statement = *places.entry(&cql.statement).or_insert_with(|| {
                    statements.push(cql.statement.clone());
                    statements.len() - 1
                });
                of_operation.push(Step {
                    statement,
                    texts: cql.binds.clone(),
                    effect,
                });
            }
            steps.push(of_operation);
        }
        let wanted = mix.cql.consistency.as_deref().unwrap_or(CONSISTENCY);
        let known = CONSISTENCIES.iter().find(|(name, _)| *name == wanted);
        let Some(&(_, consistency)) = known else {
            let names: Vec<&str> = CONSISTENCIES.iter().map(|(name, _)| *name).collect();
            return Err(LoadError::setting(
                "--mix",
                format!("consistency {wanted:?} is not one of {}", names.join(", ")),
            ));
        };
        Ok(Self {
            credentials,
            setup: Vec::new(),
            statements,
            steps,
            consistency,
            workload: Arc::clone(workload),
        })
    }

    /// The same session with the mix's setup instead of its statements; None if it has none.
    pub fn setup(&self) -> Option<Self> {
        let setup = &self.workload.mix().cql.setup;
        (!setup.is_empty()).then(|| Self {
            credentials: self.credentials.clone(),
            setup: setup.clone(),
            statements: Vec::new(),
            steps: Vec::new(),
            consistency: self.consistency,
            workload: Arc::clone(&self.workload),
        })
    }

    /// Binds what every step of statement `index` has to values of `types`, in `binds` by operation and step.
    pub(super) fn bind(
        &self,
        index: usize,
        types: &[Type],
        binds: &mut [Vec<Vec<Bind>>],
    ) -> Result<(), String> {
        for (operation, steps) in self.steps.iter().enumerate() {
            for (place, step) in steps.iter().enumerate() {
                if step.statement != index {
                    continue;
                }
                if step.texts.len() != types.len() {
                    return Err(format!(
                        "the statement takes {} values, and the mix binds {}",
                        types.len(),
                        step.texts.len()
                    ));
                }
                binds[operation][place] = step
                    .texts
                    .iter()
                    .zip(types)
                    .map(|(text, kind)| Bind::new(text, *kind, &self.workload))
                    .collect::<Result<_, _>>()?;
            }
        }
        Ok(())
    }
}
