//! Whole runs of the simulator, each in a process of its own: every scenario on fixed seeds, equal traces
//! for equal seeds, and planted faults that must be found. It says nothing of the real world.

#![cfg(madsim)]

mod determinism;
mod planted;
mod scenarios;
mod support;
