//! Identities made at random: runs, claims, operations, holds and notifications.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::time::Timestamp;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        crate::schema::described!($name, {"type": "string", "format": "uuid"});

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                text.parse().map(Self)
            }
        }
    };
}

id!(
    /// One execution of anything. UUIDv7 to the microsecond, so that jobs and uploads sort by the time of their submission, and
    /// attempts by the time of their claim.
    RunId
);

id!(
    /// A token that callers of the server sign in with.
    TokenId
);

/// How much of a number tells runs of one microsecond apart.
const UNIQUE_BITS: u32 = 62;

impl RunId {
    /// The last moment that an identity can hold, in microseconds: in the year 10889.
    pub const LAST: Timestamp = Timestamp::from_micros(((1 << 48) - 1) * 1000 + 999);

    /// Makes the identity of a run of a moment. Those of one moment sort by `unique`, of which 62 bits count. A moment
    /// before 1970 or after [`Self::LAST`] counts as the nearest that there is.
    pub fn new(at: Timestamp, unique: u64) -> Self {
        let micros = at.clamp(Timestamp::from_micros(0), Self::LAST).micros().unsigned_abs();
        let (millis, rest) = (micros / 1000, micros % 1000);
        let high = (millis << 16) | 0x7000 | (rest * 4096 / 1000);
        let low = (0b10 << UNIQUE_BITS) | (unique & ((1 << UNIQUE_BITS) - 1));
        Self(Uuid::from_u64_pair(high, low))
    }

    /// The first identity that a run of this moment can have.
    pub fn first_of(at: Timestamp) -> Self {
        Self::new(at, 0)
    }
}
id!(
    /// The fence: new for every claim; a write that carries an old one changes nothing.
    TaskId
);
id!(
    /// One operation of the control plane, as the audit trail knows it.
    OpId
);
id!(
    /// One hold: on a source, a customer or a query.
    HoldId
);
id!(
    /// One notification: receivers tell repetitions by it.
    NotificationId
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_sort_by_their_moment_and_then_by_their_number(
            (a, b) in (0i64..=RunId::LAST.micros(), 0i64..=RunId::LAST.micros()), near in 0i64..3,
            (m, n) in (0u64..1 << UNIQUE_BITS, 0u64..1 << UNIQUE_BITS),
        ) {
            for (a, b) in [(a, b), (a, a.saturating_add(near).min(RunId::LAST.micros()))] {
                let (first, second) = (RunId::new(Timestamp::from_micros(a), m), RunId::new(Timestamp::from_micros(b), n));
                prop_assert_eq!(first.cmp(&second), (a, m).cmp(&(b, n)));
                prop_assert_eq!(first.uuid().get_version_num(), 7);
                prop_assert_eq!(first.uuid().get_variant(), uuid::Variant::RFC4122);
                prop_assert!(RunId::first_of(Timestamp::from_micros(a)) <= first);
            }
        }
    }
}
