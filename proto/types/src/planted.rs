//! Planted bugs: checks that a test may switch off, to prove that some test notices.
//!
//! ```text
//!   if !signed && !Bug::VoteSignature.planted() { refuse }
//!                      └── shipped: a constant false, so the check always stands
//!                      └── cfg(any(test, madsim)): true while a guard of `plant()` lives
//! ```
//!
//! [`planted_bugs!`](crate::planted_bugs) declares the closed list of one crate. The two conditions are
//! evaluated in the crate that declares it, so no feature and no dependency can open the door in a binary
//! that is shipped; the workspace's structure tests look for [`MARK`] in the built binaries.

/// Stands in every binary that can have a bug planted, and in no other.
pub const MARK: &str = "redlatch: this build can have bugs planted";

/// Declares a crate's planted bugs: `planted_bugs! { /// doc pub enum Bug { /// doc VoteSignature, … } }`.
///
/// Under `cfg(any(test, madsim))` the enum has `ALL`, `name()`, and `plant()`, which returns a guard: while it lives,
/// `planted()` is true for that bug on this thread and for no other bug. Elsewhere there is only `planted()`, a
/// constant `false`.
#[macro_export]
macro_rules! planted_bugs {
    ($(#[$outer:meta])* pub enum $name:ident { $($(#[$inner:meta])* $bug:ident),* $(,)? }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$inner])* $bug),* }

        #[cfg(not(any(test, madsim)))]
        impl $name {
            /// Whether this check is switched off: never, in what is shipped.
            #[inline(always)]
            #[allow(dead_code, reason = "a list may be declared before its first check")]
            pub(crate) const fn planted(self) -> bool {
                false
            }
        }

        #[cfg(any(test, madsim))]
        const _: () = {
            ::std::thread_local! {
                static PLANTED: ::std::cell::Cell<Option<$name>> = const { ::std::cell::Cell::new(None) };
            }

            impl $name {
                /// Every bug of this list.
                pub const ALL: &'static [$name] = &[$($name::$bug),*];

                /// Its name.
                pub fn name(self) -> &'static str {
                    match self { $($name::$bug => stringify!($bug)),* }
                }

                /// The bug of this name.
                pub fn by_name(name: &str) -> Option<$name> {
                    Self::ALL.iter().copied().find(|bug| bug.name() == name)
                }

                /// Plants it on this thread until the guard is dropped.
                ///
                /// # Panics
                /// If another one is planted already.
                pub fn plant(self) -> impl Drop {
                    struct Guard;
                    impl Drop for Guard {
                        fn drop(&mut self) {
                            PLANTED.with(|planted| planted.set(None));
                        }
                    }
                    let before = PLANTED.with(|planted| planted.replace(Some(self)));
                    assert!(before.is_none(), "{} beside {before:?}", $crate::planted::MARK);
                    Guard
                }

                /// Whether this check is switched off.
                pub(crate) fn planted(self) -> bool {
                    PLANTED.with(|planted| planted.get() == Some(self))
                }
            }
        };
    };
}

#[cfg(test)]
#[expect(
    unreachable_pub,
    reason = "the macro declares a list that a crate may show"
)]
mod tests {
    planted_bugs! {
        /// For these tests.
        pub enum Bug {
            /// One.
            First,
            /// Another.
            Second,
        }
    }

    #[test]
    fn a_bug_is_planted_while_its_guard_lives_and_alone() {
        assert!(!Bug::First.planted());
        let guard = Bug::First.plant();
        assert!(Bug::First.planted());
        assert!(!Bug::Second.planted());
        drop(guard);
        assert!(!Bug::First.planted());
    }

    #[test]
    fn a_bug_has_a_name() {
        assert_eq!(Bug::ALL, [Bug::First, Bug::Second]);
        assert_eq!(Bug::by_name("Second"), Some(Bug::Second));
        assert_eq!(Bug::by_name("Third"), None);
    }

    #[test]
    fn a_bug_stays_on_its_thread() {
        let _guard = Bug::First.plant();
        let elsewhere = std::thread::spawn(|| Bug::First.planted());
        assert!(!elsewhere.join().expect("it only looks"));
    }
}
