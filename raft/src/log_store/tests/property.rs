//! Any sequence of calls, crashes at any moment: what was acknowledged is there, and what was not
//! is there up to some point or not at all.

use proptest::prelude::*;

use super::*;

/// One step of a life of the store.
#[derive(Clone, Debug)]
enum Step {
    /// Append this many entries in this many terms more.
    Append { count: u64, terms: u64 },
    /// Truncate so many entries from the end.
    Truncate { back: u64 },
    /// Purge so many entries from the front.
    Purge { front: u64 },
    /// Vote in this many terms more.
    Vote { terms: u64 },
    /// The same call, but the power goes before its fsync ends; so many batches survive.
    Cut { during: Box<Step>, keep: usize },
    /// SIGKILL between calls.
    Kill,
    /// Power loss between calls.
    PowerLoss { keep: usize },
}

fn call() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u64..4, 0_u64..2).prop_map(|(count, terms)| Step::Append { count, terms }),
        1 => (0_u64..4).prop_map(|back| Step::Truncate { back }),
        1 => (1_u64..4).prop_map(|front| Step::Purge { front }),
        1 => (0_u64..3).prop_map(|terms| Step::Vote { terms }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => call(),
        2 => (call(), 0_usize..3).prop_map(|(during, keep)| Step::Cut {
            during: Box::new(during),
            keep,
        }),
        1 => Just(Step::Kill),
        1 => (0_usize..3).prop_map(|keep| Step::PowerLoss { keep }),
    ]
}

/// What the store must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    term: u64,
    vote: Option<Vote>,
    purged: Option<LogId>,
    log: Vec<LogId>,
}

impl Model {
    fn last(&self) -> Option<LogId> {
        self.log.last().copied().or(self.purged)
    }

    /// The model after `step`, and the call to make; `None` if it makes no sense now.
    fn next(&self, step: &Step) -> Option<(Model, Call)> {
        let mut next = self.clone();
        let call = match step {
            Step::Append { count, terms } => {
                next.term += terms;
                let first = self.last().map_or(1, |last| last.index + 1);
                let new: Vec<_> = (first..first + count)
                    .map(|at| entry(next.term, at))
                    .collect();
                next.log.extend(new.iter().map(|entry| entry.log_id));
                Call::Append(new)
            }
            Step::Truncate { back } => {
                let keep = self.log.len().saturating_sub(usize::try_from(*back).ok()?);
                let first = *self.log.get(keep)?;
                next.log.truncate(keep);
                Call::Truncate(first)
            }
            Step::Purge { front } => {
                let at = usize::try_from(*front)
                    .ok()?
                    .min(self.log.len())
                    .checked_sub(1)?;
                next.purged = Some(self.log[at]);
                next.log.drain(..=at);
                Call::Purge(self.log[at])
            }
            Step::Vote { terms } => {
                next.term += terms;
                next.vote = Some(Vote::new(next.term, 1));
                Call::Vote(Vote::new(next.term, 1))
            }
            Step::Cut { .. } | Step::Kill | Step::PowerLoss { .. } => return None,
        };
        Some((next, call))
    }

    fn read(store: &mut Store, term: u64) -> Model {
        let state = block_on(store.get_log_state()).expect("readable");
        let vote = block_on(store.read_vote()).expect("readable");
        let model = Model {
            term,
            vote,
            purged: state.last_purged_log_id,
            log: all(store),
        };
        assert_eq!(state.last_log_id, model.last());
        assert_eq!(
            store.durable(),
            Durable {
                vote,
                last: model.last()
            }
        );
        model
    }
}

enum Call {
    Append(Vec<Entry>),
    Truncate(LogId),
    Purge(LogId),
    Vote(Vote),
}

impl Call {
    async fn make(self, store: &mut Store) -> Result<(), StorageError> {
        match self {
            Call::Append(entries) => store.blocking_append(entries).await,
            Call::Truncate(first) => store.truncate(first).await,
            Call::Purge(upto) => store.purge(upto).await,
            Call::Vote(vote) => store.save_vote(&vote).await,
        }
    }
}

fn live(steps: &[Step]) {
    let disk = SimDisk::new();
    let mut store = start(&disk);
    let mut model = Model {
        term: 1,
        ..Model::default()
    };
    for step in steps {
        match step {
            Step::Kill => disk.kill(),
            Step::PowerLoss { keep } => {
                disk.power_loss(*keep);
            }
            Step::Cut { during, keep } => {
                let Some((next, call)) = model.next(during) else {
                    continue;
                };
                disk.hold_syncs();
                let cut = call.make(&mut store).now_or_never();
                assert!(cut.is_none(), "acknowledged before the fsync: {cut:?}");
                disk.power_loss(*keep);
                disk.release_syncs();
                // Both are right, a mixture is not.
                let found = Model::read(&mut start(&disk), next.term);
                assert!(
                    found == next
                        || found
                            == Model {
                                term: next.term,
                                ..model.clone()
                            }
                );
                model = found;
                disk.kill();
            }
            call => {
                let Some((next, call)) = model.next(call) else {
                    continue;
                };
                block_on(call.make(&mut store)).expect("a sound disk");
                model = next;
                assert_eq!(Model::read(&mut store, model.term), model);
                continue;
            }
        }
        store = start(&disk);
        assert_eq!(Model::read(&mut store, model.term), model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn what_was_acknowledged_is_kept(steps in proptest::collection::vec(step(), 1..40)) {
        live(&steps);
    }
}
