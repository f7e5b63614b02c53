//! The negative mandate of a RED.
