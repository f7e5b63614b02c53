//! What is explored: who may wish what, which REDs come, and how far it goes.

use redlatch_types::mandate::NegativeVerb;
use redlatch_types::records::ActionClass;

use super::super::world::*;
use super::sights::Sight;

/// What one intent is about. Each wish is frozen at most once on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Wish {
    /// A landing by this agent on this ref, decided by the quorum.
    Land(Agent, &'static str),
    /// The agent's grant is lowered, decided by a person: an activation of the organism itself.
    Demote,
    /// What is frozen is freed, decided by a person. Names all grounds that live, or the first.
    Reset(Names),
}

/// An agent of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Agent {
    /// `agent`
    First,
    /// `other`
    Second,
}

impl Agent {
    pub(super) fn name(self) -> &'static str {
        match self {
            Agent::First => "agent",
            Agent::Second => "other",
        }
    }
    pub(super) fn key(self) -> u8 {
        match self {
            Agent::First => AGENT,
            Agent::Second => OTHER_AGENT,
        }
    }
}

/// Which grounds a reset names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Names {
    /// Every live one, as it should.
    All,
    /// The first only.
    First,
}

/// What a RED of the sentinel aims at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Aim {
    /// Everything.
    Everything,
    /// One agent.
    Subject(Agent),
    /// The intent of this wish.
    Intent(usize),
    /// Every landing.
    Landings,
}

/// One RED of the sentinel's outbox, with the verbs that it asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Red {
    pub(super) aim: Aim,
    pub(super) verbs: &'static [NegativeVerb],
}

/// One exploration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) wishes: &'static [Wish],
    pub(super) reds: &'static [Red],
    /// State time at each point of time, seconds after the start.
    pub(super) times: &'static [u64],
    /// Safety attempts of one latch.
    pub(super) attempts: u64,
    /// Autonomy epochs, the first included.
    pub(super) epochs: u64,
    /// What must be reached, so that the exploration is not empty.
    pub(super) sights: &'static [Sight],
}

impl Scenario {
    /// State time at a point of time.
    pub(super) fn time(&self, point: usize) -> u64 {
        START + 1_000 + self.times[point] * 1_000
    }

    /// The point of time at which state time is `now`.
    pub(super) fn point(&self, now: u64) -> usize {
        let found = (0..self.times.len()).find(|point| self.time(*point) == now);
        found.expect("time moves along the scenario's points")
    }
}

/// The class that [`Aim::Landings`] names.
pub(super) const LANDINGS: ActionClass = ActionClass::Land;

const A: &str = "refs/heads/a";
const B: &str = "refs/heads/b";
const NO_VERBS: &[NegativeVerb] = &[];
const END_AND_LOWER: &[NegativeVerb] = &[NegativeVerb::AbortPrepare, NegativeVerb::Demote];

/// Time in which PREPARE (2 min) and a safety attempt (2 min) survive one step and not two,
/// a verdict (5 min) two, and the last step ends everything that has an end.
const FOUR_POINTS: &[u64] = &[0, 90, 180, 900];
const THREE_POINTS: &[u64] = &[0, 180, 900];
const ONE_POINT: &[u64] = &[0];

const RED_EVERYTHING: Red = Red {
    aim: Aim::Everything,
    verbs: END_AND_LOWER,
};
const RED_AGENT: Red = Red {
    aim: Aim::Subject(Agent::First),
    verbs: NO_VERBS,
};
const RED_INTENT: Red = Red {
    aim: Aim::Intent(0),
    verbs: END_AND_LOWER,
};
const RED_LANDINGS: Red = Red {
    aim: Aim::Landings,
    verbs: NO_VERBS,
};

/// What `make explore` plays: each with two intents or more, two latches, three attempts, three
/// epochs and four points of time.
pub(super) const FULL: &[Scenario] = &[
    Scenario {
        name: "two landings on one ref, RED on one of them, RED on everything",
        wishes: &[Wish::Land(Agent::First, A), Wish::Land(Agent::Second, A)],
        reds: &[RED_INTENT, RED_EVERYTHING],
        times: FOUR_POINTS,
        attempts: 3,
        epochs: 3,
        sights: &[
            Sight::Landed,
            Sight::BothCommitted,
            Sight::Aborted,
            Sight::Withheld,
            Sight::TwoPending,
            Sight::BothTerminal,
            Sight::ThirdAttempt,
            Sight::ThirdEpoch,
            Sight::ChainGap,
            Sight::Lapsed,
        ],
    },
    Scenario {
        name: "two landings on two refs, RED on one agent, RED on every landing",
        wishes: &[Wish::Land(Agent::First, A), Wish::Land(Agent::Second, B)],
        reds: &[RED_AGENT, RED_LANDINGS],
        times: FOUR_POINTS,
        attempts: 3,
        epochs: 3,
        sights: &[
            Sight::Landed,
            Sight::BothCommitted,
            Sight::Withheld,
            Sight::LandedBesideALatch,
            Sight::ThirdEpoch,
        ],
    },
    Scenario {
        name: "a landing and a change of the organism, RED on one agent, RED on everything",
        wishes: &[Wish::Land(Agent::First, A), Wish::Demote],
        reds: &[RED_AGENT, RED_EVERYTHING],
        times: FOUR_POINTS,
        attempts: 3,
        epochs: 3,
        sights: &[
            Sight::Landed,
            Sight::Activated,
            Sight::Lapsed,
            Sight::ThirdEpoch,
            Sight::ThirdAttempt,
        ],
    },
    Scenario {
        name: "a landing and a reset, RED on one agent, RED on everything",
        wishes: &[Wish::Land(Agent::First, A), Wish::Reset(Names::All)],
        reds: &[RED_AGENT, RED_EVERYTHING],
        times: FOUR_POINTS,
        attempts: 3,
        epochs: 4,
        sights: &[Sight::Landed, Sight::Freed, Sight::BothTerminal],
    },
];

/// Three intents. How long it takes is not known beforehand.
pub(super) const WIDE: &[Scenario] = &[Scenario {
    name: "two landings on one ref and a reset, RED on one agent, RED on everything",
    wishes: &[
        Wish::Land(Agent::First, A),
        Wish::Land(Agent::Second, A),
        Wish::Reset(Names::All),
    ],
    reds: &[RED_AGENT, RED_EVERYTHING],
    times: THREE_POINTS,
    attempts: 3,
    epochs: 4,
    sights: &[
        Sight::Landed,
        Sight::BothCommitted,
        Sight::Freed,
        Sight::BothTerminal,
        Sight::LandedBesideALatch,
    ],
}];

/// Small: two landings compete for one ref.
pub(super) const LANDINGS_ON_ONE_REF: Scenario = Scenario {
    name: "two landings on one ref, RED on everything",
    wishes: &[Wish::Land(Agent::First, A), Wish::Land(Agent::Second, A)],
    reds: &[RED_EVERYTHING],
    times: THREE_POINTS,
    attempts: 2,
    epochs: 2,
    sights: &[
        Sight::Landed,
        Sight::Aborted,
        Sight::Withheld,
        Sight::Lapsed,
    ],
};

/// Small: an activation beside a landing.
pub(super) const CHANGE: Scenario = Scenario {
    name: "a landing, a change of the organism and a RED on the agent",
    wishes: &[Wish::Land(Agent::First, A), Wish::Demote],
    reds: &[RED_AGENT],
    times: THREE_POINTS,
    attempts: 1,
    epochs: 3,
    sights: &[Sight::Landed, Sight::Activated, Sight::ThirdEpoch],
};

/// Small: out of a freeze by the whole, and with two grounds not by a half of it.
pub(super) const RESETS: Scenario = Scenario {
    name: "a reset that names one ground, two REDs",
    wishes: &[Wish::Reset(Names::First)],
    reds: &[RED_EVERYTHING, RED_AGENT],
    times: ONE_POINT,
    attempts: 1,
    epochs: 4,
    sights: &[
        Sight::Freed,
        Sight::TwoPending,
        Sight::BothTerminal,
        Sight::ChainGap,
        Sight::ThirdEpoch,
    ],
};

/// What the ordinary tests play, in seconds.
pub(super) const SMALL: &[Scenario] = &[LANDINGS_ON_ONE_REF, CHANGE, RESETS];
