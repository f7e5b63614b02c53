//! The limits table: every bound of the journal in one place (DESIGN D3, FAULTS 94).
//!
//! Times are milliseconds of state time, sizes are bytes. These are kernel maxima; a
//! constitution may only tighten them.

/// Characters of a name.
pub const NAME_LEN_MAX: usize = 64;

/// Commands in one Raft entry (DESIGN D10).
pub const BATCH_COMMANDS_MAX: usize = 512;
/// Bytes of the commands in one Raft entry (DESIGN D10).
pub const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of one command.
pub const COMMAND_BYTES_MAX: usize = 256 * 1024;

/// How far ahead of state time a client command may expire.
pub const COMMAND_EXPIRY_AHEAD_MS_MAX: u64 = 24 * HOUR_MS;
/// Life of a frozen intent.
pub const INTENT_TTL_MS_MAX: u64 = 30 * 24 * HOUR_MS;
/// Life of a sentinel verdict.
pub const VERDICT_TTL_MS_MAX: u64 = 10 * MINUTE_MS;
/// Life of a minted capability.
pub const CAPABILITY_TTL_MS: u64 = 10 * MINUTE_MS;
/// Life of a PREPARED transaction without marker.
pub const PREPARE_TTL_MS: u64 = 2 * MINUTE_MS;
/// Life of a challenge to a person.
pub const CHALLENGE_TTL_MS: u64 = HOUR_MS;
/// Open challenges of one intent.
pub const CHALLENGES_PER_INTENT_MAX: usize = 16;
/// Enrolled keys of persons, revoked ones too.
pub const HUMAN_KEYS_MAX: usize = 4_096;
/// Bytes of a WebAuthn credential id (WebAuthn §5.8.3).
pub const CREDENTIAL_ID_LEN_MAX: usize = 1_023;
/// Bytes of authenticator data, client data or signature in one approval.
pub const ASSERTION_PART_LEN_MAX: usize = 4_096;
/// Clauses of a constitution.
pub const POLICY_CLAUSES_MAX: usize = 256;
/// Gate receipts in one policy decision.
pub const POLICY_RECEIPTS_MAX: usize = 64;
/// Resources, gates or runners named in one clause or grant.
pub const SCOPES_MAX: usize = 256;
/// Life of a safety attempt.
pub const SAFETY_ATTEMPT_TTL_MS: u64 = 2 * MINUTE_MS;
/// Time between COMMIT and the last moment at which its effect may be claimed.
pub const EFFECT_DEADLINE_MS_MAX: u64 = 24 * HOUR_MS;
/// How long a planned change of the quorum's key waits for the ballots that are open, at most.
pub const KEY_ROTATION_WAIT_MS: u64 = 10 * MINUTE_MS;

/// Age of the last tick at which the leader puts a new one before a client batch.
pub const TICK_AGE_MS_MAX: u64 = 1_000;
/// Difference between a node's clock and state time at which it stops cosigning positive markers.
pub const CLOCK_SKEW_MS_MAX: u64 = 2_000;
/// How long that difference may last before the node reports `clock_unfit`.
pub const CLOCK_UNFIT_AFTER_MS: u64 = 10_000;

/// Live intents of one subject (not yet committed, aborted or expired).
pub const INTENTS_OPEN_PER_SUBJECT_MAX: usize = 1_024;
/// Live intents of the organism.
pub const INTENTS_OPEN_MAX: usize = 65_536;
/// Remembered first outcomes of client commands, per subject.
pub const IDEMPOTENCY_PER_SUBJECT_MAX: usize = 65_536;
/// Audit events that refusals may append, per subject and tick.
pub const AUDITS_PER_SUBJECT_AND_TICK_MAX: u64 = 8;
/// Safety attempts stored per latch at a time (older ones are dead by then).
pub const SAFETY_ATTEMPTS_LIVE_PER_LATCH: usize = 1;
/// RED entries in one delivered segment.
pub const RED_SEGMENT_LEN_MAX: usize = 256;
/// RED entries remembered that came before their predecessors.
pub const RED_EARLY_MAX: usize = 256;
/// Voting verifiers; the kernel's floor is the same number.
pub const VERIFIER_SEATS: usize = 4;
/// Nodes of a roster, voters and learners.
pub const NODES_MAX: usize = 9;
/// Voters of a roster, at least.
pub const VOTERS_MIN: usize = 3;
/// Voters of a roster, at most.
pub const VOTERS_MAX: usize = 7;
/// Subjects enrolled, revoked ones too.
pub const SUBJECTS_MAX: usize = 4_096;
/// Resources whose head the journal keeps.
pub const RESOURCES_MAX: usize = 65_536;
/// How long a finished transaction stays in live state, so that a later RED can compensate it
/// by its bound plan; after that a RED on it stops everything.
pub const COMPENSATION_WINDOW_MS: u64 = 24 * HOUR_MS;
/// Grants of an organism.
pub const GRANTS_MAX: usize = 4_096;

/// Leaves between two StateRoot leaves.
pub const STATE_ROOT_EVERY_LEAVES: u64 = 4_096;
/// Hashes of a proof (tlog-proof, RFC 9162).
pub const PROOF_HASHES_MAX: usize = 63;

/// One minute.
pub const MINUTE_MS: u64 = 60_000;
/// One hour.
pub const HOUR_MS: u64 = 60 * MINUTE_MS;
