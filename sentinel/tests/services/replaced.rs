//! The root replaces sentinel and actuator: who was replaced is nobody, who comes finishes what is under way.

use redlatch_actuator::StartFailure as OfActuator;
use redlatch_link::store::SimDisk;
use redlatch_sentinel::StartFailure as OfSentinel;
use redlatch_sentinel::rules::RulesConfig;
use redlatch_types::records::*;
use redlatch_types::{Digest, GroundNumber};

use crate::parties::Parties;
use crate::until;
use crate::world::journal::{
    ACTUATOR, NEXT_SENTINEL, Outbox, ROOT, SENTINEL, root_act, sealed_root_act,
};
use crate::world::{key, subject};

const NEXT_ACTUATOR: u8 = 71;

/// Two more REDs of the sentinel in force, of which the second comes first: the journal chains it once the first is
/// there, and says no more than its number.
fn out_of_order(parties: &Parties) {
    parties.cluster.world(|world| {
        let outbox = &world.state.authority.outbox;
        let mut own = Outbox::of(SENTINEL);
        (own.number, own.root) = (outbox.number.0, outbox.root.unwrap_or(Digest::ZERO));
        let first = own.red(world, &subject("gate"));
        let second = own.red(world, &subject("governor"));
        for red in [second.clone(), first, second] {
            world.ok(red);
        }
    });
}

fn replace_both(parties: &Parties) {
    parties.cluster.world(|world| {
        let last = world.state.authority.outbox.root;
        let act = root_act(world, |act| {
            act.roster.actuator.key = key(NEXT_ACTUATOR).public_key();
            act.kernel.safety_actuator_identity_binary_policy_digest =
                act.roster.actuator.pin_digest();
            act.old_outbox_root_optional = Some(last.unwrap_or(Digest::ZERO));
        });
        world.ok(sealed_root_act(world, &act, ROOT));
    });
}

/// Its own stores, as a party begins that replaces another.
fn are_next(parties: &mut Parties) {
    (parties.sentinel_key, parties.actuator_key) = (NEXT_SENTINEL, NEXT_ACTUATOR);
    parties.sentinel_disk = SimDisk::new();
    parties.actuator_disk = SimDisk::new();
}

async fn counted(parties: &Parties, word: &str, count: usize) -> bool {
    parties.cluster.count(word) == count
}

async fn closed(parties: &Parties, head: u64) -> bool {
    let outbox = parties.outbox().await;
    outbox.is_ok_and(|it| it.entries.is_empty() && it.head == head)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_replaces_a_sentinel_and_an_actuator_ends_the_stop_under_way_and_goes_on() {
    let mut parties = Parties::new().await;
    let rules = RulesConfig::default();
    let (sentinel, _) = parties.sentinel_of(rules.clone()).await;
    parties.raise(1, subject("agent")).await.unwrap();
    until("latched", || counted(&parties, "red_latched", 1)).await;

    // Before the act, the keys to come are nobody's.
    let (first, of_first) = (parties.sentinel_disk.clone(), parties.actuator_disk.clone());
    let service = std::mem::replace(&mut parties.service, crate::parties::free());
    are_next(&mut parties);
    let refused = parties.try_sentinel(rules.clone()).await.err();
    assert!(matches!(refused, Some(OfSentinel::WrongKey)), "{refused:?}");
    let refused = parties.try_actuator().await.err();
    assert!(matches!(refused, Some(OfActuator::WrongKey)), "{refused:?}");

    out_of_order(&parties);
    assert_eq!(parties.cluster.count("red_chained"), 1);
    replace_both(&parties);
    assert!(
        sentinel.ended().await.contains("root"),
        "it ends at the act"
    );
    // After it, those of before are, on whichever disk.
    (parties.sentinel_key, parties.actuator_key) = (SENTINEL, ACTUATOR);
    first.crash();
    (parties.sentinel_disk, parties.actuator_disk) = (first.clone(), of_first);
    parties.service = service;
    let refused = parties.try_sentinel(rules.clone()).await.err();
    assert!(matches!(refused, Some(OfSentinel::WrongKey)), "{refused:?}");
    // And the store of the one before is not gone on with.
    parties.sentinel_key = NEXT_SENTINEL;
    let refused = parties.try_sentinel(rules.clone()).await.err();
    assert!(
        matches!(refused, Some(OfSentinel::AnothersStore)),
        "{refused:?}"
    );

    are_next(&mut parties);
    let (actuator, narrowed) = parties.actuator().await;
    let (sentinel, compared) = parties.sentinel_of(rules.clone()).await;
    until("the stop under way is over", || {
        counted(&parties, "safety_terminal", 3)
    })
    .await;
    until("ready", || async {
        compared.is_ready() && narrowed.is_ready()
    })
    .await;
    // Its own chain begins at 1, and what is latched of it is closed with its word.
    assert!(closed(&parties, 0).await);
    parties.raise(2, subject("other")).await.unwrap();
    until("closed", || closed(&parties, 1)).await;
    assert!(counted(&parties, "safety_terminal", 4).await);
    // The ground of the act stays until a person resets it.
    let held = parties.permit().await.unwrap().held;
    assert!(held.contains(&RedScope::Everything), "{held:?}");
    parties.cluster.world(|world| {
        let grounds = world.state.authority.grounds.keys().copied();
        let grounds: Vec<GroundNumber> = grounds.collect();
        let cause = Text::lossy("both are replaced");
        let reset = ResetPayload { grounds, cause };
        world.make_change(ActionPayload::ResetFrozen(reset));
    });
    let is_free = |beat: PermitBeatV1| beat.held.is_empty();
    until("free", || async {
        parties.permit().await.is_ok_and(is_free)
    })
    .await;

    // On the same disks it is asked of nobody who they are.
    sentinel.stop().await;
    actuator.stop().await;
    parties.cluster.set_down(true);
    parties.service = crate::parties::free();
    let (_sentinel, _) = parties.sentinel_of(rules).await;
    let (_actuator, _) = parties.actuator().await;
    until("beating", || async {
        let line = parties.permit().await.map(|beat| beat.sentinel);
        line.is_ok_and(|line| line == SentinelLine::Beating)
    })
    .await;
}

/// An actuator whose rows are damaged reads everything again: the ground of an act of the root as well, which it
/// has followed long before.
#[tokio::test(flavor = "multi_thread")]
async fn an_actuator_that_reads_everything_afresh_holds_an_act_of_the_root() {
    let mut parties = Parties::new().await;
    replace_both(&parties);
    are_next(&mut parties);
    let (actuator, narrowed) = parties.actuator().await;
    let (_sentinel, _) = parties.sentinel_of(RulesConfig::default()).await;
    until("narrowed", || async { narrowed.is_ready() }).await;
    actuator.stop().await;
    parties.actuator_disk = SimDisk::new();
    let (_actuator, narrowed) = parties.actuator().await;
    until("narrowed again", || async { narrowed.is_ready() }).await;
    let held = parties.permit().await.unwrap().held;
    assert!(held.contains(&RedScope::Everything), "{held:?}");
    // Not for want of memory: that is what was narrowed.
    let grounds = parties
        .cluster
        .world(|world| world.state.authority.grounds.len());
    assert_eq!(grounds, 1);
}
