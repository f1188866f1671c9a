//! Operations of several steps, and inserts: what no protocol's codec should have to know.
//!
//! A codec around another. Each step is sent when the step before it has been answered, on the same connection
//! and about the same key; the answer to the last, or the first refusal, is the answer to the request. An insert gets
//! its key when it is sent, and the key is there for others once it is answered. Invariant: a request is answered once.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Answer, Codec, Outcome, ProtocolError};
use crate::workload::{NEW_KEY, Request, Workload};

/// A connection whose requests may take several steps.
pub struct Steps {
    inner: Box<dyn Codec>,
    workload: Arc<Workload>,
    /// What the server has still to answer, oldest first.
    pending: VecDeque<Request>,
    answers: Vec<Answer>,
}

impl Steps {
    /// Whether `workload` needs this.
    pub fn are_needed(workload: &Workload) -> bool {
        let operations = workload.operations();
        workload.growth().is_some() || operations.iter().any(|o| o.steps.len() > 1)
    }

    /// Around a fresh connection.
    pub fn new(inner: Box<dyn Codec>, workload: Arc<Workload>) -> Self {
        Self {
            inner,
            workload,
            pending: VecDeque::new(),
            answers: Vec::new(),
        }
    }

    /// Passes an answer on, or sends the next step.
    fn answered(&mut self, answer: Answer, out: &mut Vec<u8>, answers: &mut Vec<Answer>) {
        let place = match answer.ticket {
            None => Some(0),
            Some(ticket) => self.pending.iter().position(|r| r.ticket == ticket),
        };
        let Some(mut request) = place.and_then(|place| self.pending.remove(place)) else {
            // An answer to nothing, which the engine knows how to count.
            answers.push(answer);
            return;
        };
        let steps = self.workload.operations()[request.operation].steps.len();
        let refused = matches!(answer.outcome, Outcome::Refused(_));
        if !refused && (request.step as usize) + 1 < steps {
            request.step += 1;
            self.inner.encode(&request, &self.workload, out);
            self.pending.push_back(request);
            return;
        }
        self.give_back(&request);
        answers.push(Answer {
            ticket: Some(request.ticket),
            outcome: match answer.outcome {
                Outcome::Refused(kind) => Outcome::Refused(kind),
                _ if steps > 1 => Outcome::Done,
                outcome => outcome,
            },
        });
    }

    fn give_back(&self, request: &Request) {
        if let Some(growth) = self.workload.growth()
            && self.workload.operations()[request.operation].inserts
        {
            growth.give_back(request.key);
        }
    }
}

impl Codec for Steps {
    fn open(&mut self, out: &mut Vec<u8>) {
        self.inner.open(out);
    }

    fn ready(&self) -> bool {
        self.inner.ready()
    }

    fn finished(&self) -> bool {
        self.inner.finished()
    }

    fn encode(&mut self, request: &Request, workload: &Workload, out: &mut Vec<u8>) {
        let mut request = *request;
        if request.key == NEW_KEY
            && let Some(growth) = workload.growth()
        {
            request.key = growth.take();
        }
        self.inner.encode(&request, workload, out);
        self.pending.push_back(request);
    }

    fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), ProtocolError> {
        let mut inner = std::mem::take(&mut self.answers);
        let decoded = self.inner.decode(input, out, &mut inner);
        for answer in inner.drain(..) {
            self.answered(answer, out, answers);
        }
        self.answers = inner;
        decoded
    }

    fn complaint(&self) -> Option<&str> {
        self.inner.complaint()
    }

    fn end(&mut self, answers: &mut Vec<Answer>) {
        let mut inner = std::mem::take(&mut self.answers);
        self.inner.end(&mut inner);
        // The connection is gone: a step that would follow can only be lost.
        let mut nowhere = Vec::new();
        for answer in inner.drain(..) {
            self.answered(answer, &mut nowhere, answers);
        }
        self.answers = inner;
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        for request in &self.pending {
            self.give_back(request);
        }
    }
}
