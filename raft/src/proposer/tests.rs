//! Tests of the queues: order of classes, limits, callers that give up.

use futures::FutureExt;
use redlatch_types::Refusal;

use super::*;

fn queues() -> Queues {
    Queues::new(ProposerLimits {
        client_commands_max: 3,
        client_bytes_max: 1_000,
    })
}

fn admit(queues: &Queues, class: Class, tag: u8) -> Ticket {
    queues.admit(class, vec![tag]).expect("admitted")
}

fn commands(queues: &Queues, clients: Clients, tick: Option<Vec<u8>>) -> Vec<Vec<u8>> {
    let tick_bytes = tick.as_ref().map_or(0, Vec::len);
    queues.next(clients, tick_bytes).ordered(tick).0
}

#[test]
fn a_batch_is_red_then_safety_then_tick_then_clients() {
    let queues = queues();
    let _held = [
        admit(&queues, Class::Client, 4),
        admit(&queues, Class::Safety, 2),
        admit(&queues, Class::Red, 1),
        admit(&queues, Class::Client, 5),
    ];
    let batch = commands(&queues, Clients::Go, Some(vec![3]));
    assert_eq!(batch, vec![vec![1], vec![2], vec![3], vec![4], vec![5]]);
}

#[test]
fn red_and_safety_do_not_wait_for_a_tick() {
    let queues = queues();
    let _held = [
        admit(&queues, Class::Client, 4),
        admit(&queues, Class::Safety, 2),
        admit(&queues, Class::Red, 1),
    ];
    assert_eq!(
        commands(&queues, Clients::Wait, None),
        vec![vec![1], vec![2]]
    );
    assert_eq!(
        commands(&queues, Clients::Wait, None),
        Vec::<Vec<u8>>::new()
    );
    assert_eq!(queues.lengths().client, 1);
}

#[test]
fn fault_094_clients_are_bounded_and_red_is_not() {
    let queues = queues();
    let _held: Vec<_> = (0..3)
        .map(|tag| admit(&queues, Class::Client, tag))
        .collect();
    let refused = queues.admit(Class::Client, vec![9]).map(|_| ());
    assert_eq!(refused, Err(ProposeError::LimitExceeded));
    let _reds: Vec<_> = (0..100)
        .map(|tag| admit(&queues, Class::Red, tag))
        .collect();
    // What leaves the queue makes room again, in bytes too.
    assert_eq!(queues.next(Clients::Go, 0).ordered(None).0.len(), 103);
    let big = queues.admit(Class::Client, vec![0; 1_000]).map(|_| ());
    assert_eq!(big, Ok(()));
    let too_long = queues
        .admit(Class::Safety, vec![0; COMMAND_BYTES_MAX + 1])
        .map(|_| ());
    assert_eq!(too_long, Err(ProposeError::LimitExceeded));
}

#[test]
fn fault_093_a_batch_full_of_red_leaves_the_others_for_the_next() {
    let queues = queues();
    let _client = admit(&queues, Class::Client, 7);
    let _reds: Vec<_> = (0..BATCH_COMMANDS_MAX)
        .map(|_| admit(&queues, Class::Red, 1))
        .collect();
    let segments = queues.next(Clients::Go, 1);
    assert!(!segments.tick, "there was no room for it");
    assert_eq!(segments.ordered(None).0.len(), BATCH_COMMANDS_MAX);
    assert_eq!(
        commands(&queues, Clients::Go, Some(vec![3])),
        vec![vec![3], vec![7]]
    );
}

#[test]
fn fault_030_giving_up_is_certain_only_while_the_command_waits() {
    let queues = queues();
    let waiting = admit(&queues, Class::Client, 1);
    assert_eq!(waiting.give_up(), ProposeError::Unavailable);
    assert_eq!(
        commands(&queues, Clients::Go, None),
        Vec::<Vec<u8>>::new(),
        "it is not proposed"
    );

    let taken = admit(&queues, Class::Client, 2);
    assert_eq!(commands(&queues, Clients::Go, None), vec![vec![2]]);
    assert_eq!(taken.give_up(), ProposeError::Indeterminate);
}

#[test]
fn each_waiter_gets_its_own_outcome_and_a_hang_up_harms_nobody() {
    let queues = queues();
    drop(admit(&queues, Class::Red, 1));
    let mut second = admit(&queues, Class::Client, 2);
    let (_, waiting) = queues.next(Clients::Go, 1).ordered(Some(vec![3]));
    let outcome = |refusal| Outcome {
        events: vec![],
        reply: Err(refusal),
    };
    let applied = AppliedEntry {
        entry: EntryId {
            term: 1,
            leader: 1,
            index: 9,
        },
        outcomes: vec![
            outcome(Refusal::RedLatched),
            outcome(Refusal::TimeStale),
            outcome(Refusal::Expired),
        ],
        positions: vec![3..3, 3..3, 3..3],
        size: 3,
    };
    answer(waiting, &applied);
    let second = second
        .outcome()
        .now_or_never()
        .expect("answered")
        .expect("committed");
    assert_eq!(second.outcome.reply, Err(Refusal::Expired));
    assert_eq!(second.entry.index, 9);
}

#[test]
fn what_waits_is_refused_when_the_node_does_not_lead() {
    let queues = queues();
    let mut red = admit(&queues, Class::Red, 1);
    let mut client = admit(&queues, Class::Client, 2);
    let leader = Some(NodeId(3));
    queues.refuse(
        &[Class::Red, Class::Client],
        ProposeError::NotLeader { leader },
    );
    for ticket in [&mut red, &mut client] {
        let answer = ticket.outcome().now_or_never().expect("answered");
        assert_eq!(answer, Err(ProposeError::NotLeader { leader }));
    }
}
