//! Evaluator `git`: fetches the candidate into a clone of its own, hashes again what it judges, and holds
//! the change against this verifier's rules (FAULTS 81).
//!
//! ```text
//!   refs/redlatch/candidate/<id> ─fetch─▶ quarantine ─▶ objects, each re-hashed ─▶ walk: what changed ─▶ rules
//! ```
//!
//! It never checks a file out, runs nothing of the repository, and follows no submodule. It judges paths,
//! sizes and descent; what the bytes mean is for other evaluators.

mod command;
mod objects;
mod quarantine;
mod rules;
mod walk;

#[cfg(all(test, not(madsim)))]
mod tests;

use std::sync::Arc;

use futures::future::BoxFuture;
use redlatch_ballot::FrozenIntent;
use redlatch_types::Name;

use super::{Evaluator, Report};
pub use objects::{ObjectFormat, ObjectId};
pub use quarantine::{Quarantine, QuarantineConfig};
pub use rules::{BadPattern, Limits, Rules};

/// The evaluator.
pub struct GitEvaluator {
    quarantine: Arc<Quarantine>,
    repository: Name,
    rules: Rules,
}

impl GitEvaluator {
    /// Judges changes of `repository`, which `quarantine` fetches from, by `rules`.
    pub fn new(quarantine: Arc<Quarantine>, repository: Name, rules: Rules) -> GitEvaluator {
        GitEvaluator {
            quarantine,
            repository,
            rules,
        }
    }

    async fn judge(&self, intent: &FrozenIntent) -> Result<Report, String> {
        let Some(land) = intent.intent().payload.land() else {
            return Ok(Report::against("this evaluator judges landings only"));
        };
        if land.resource.repository != self.repository {
            return Ok(Report::against(format!(
                "repository {} is not the one this verifier judges",
                land.resource.repository
            )));
        }
        let new = ObjectId::new(&land.new.0).ok_or("the candidate is not a full object id")?;
        let old = match land.old.0.as_slice() {
            [] => None,
            bytes => Some(ObjectId::new(bytes).ok_or("the old head is not a full object id")?),
        };
        if old.as_ref().is_some_and(|old| old.format() != new.format()) {
            return Ok(Report::against(
                "old and new head are of two object formats",
            ));
        }
        let fault = |fault: command::GitFault| fault.to_string();
        let mut objects = self.quarantine.candidate(&new).await.map_err(fault)?;
        let change = walk::change(&mut objects, old.as_ref(), &new, &self.rules.limits)
            .await
            .map_err(fault)?;
        Ok(self.rules.judge(old.as_ref(), &new, &change))
    }
}

impl Evaluator for GitEvaluator {
    fn name(&self) -> Name {
        Name::new("git").expect("a name")
    }

    fn evaluate<'a>(&'a self, intent: &'a FrozenIntent) -> BoxFuture<'a, Result<Report, String>> {
        Box::pin(self.judge(intent))
    }
}
