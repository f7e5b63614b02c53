//! Variables that other programs set and no configuration holds: what git tells its hooks, and what git and
//! attested commands are handed on. Nothing that a gate decides by is read here.

use std::ffi::OsString;

/// A variable of this process.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// A variable of this process, if it is Unicode.
pub(crate) fn text(name: &str) -> Option<String> {
    variable(name)?.into_string().ok()
}
