//! How often somebody may try to sign in: so many failures a minute from one address, and so many from all together.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redrive_core::time::Timestamp;

const SPAN: Duration = Duration::from_secs(60);
const PER_ADDRESS: u32 = 10;
const OVERALL: u32 = 100;
/// How many addresses are remembered; with more, the overall limit has been reached long before.
const REMEMBERED: usize = 4096;

/// The failures of the minute that is under way.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<Minute>);

#[derive(Debug, Default)]
struct Minute {
    begun: Option<Timestamp>,
    overall: u32,
    by_address: HashMap<IpAddr, u32>,
}

impl Attempts {
    /// Whether another attempt may be made; otherwise how long to wait.
    pub fn check(&self, from: IpAddr, now: Timestamp) -> Result<(), Duration> {
        let mut minute = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        minute.turn(now);
        let here = minute.by_address.get(&neighbourhood(from)).copied().unwrap_or(0);
        if here < PER_ADDRESS && minute.overall < OVERALL {
            return Ok(());
        }
        let end = minute.begun.unwrap_or(now).saturating_add(SPAN);
        Err(end.since(now).max(Duration::from_secs(1)))
    }

    /// Counts a failure.
    pub fn failed(&self, from: IpAddr, now: Timestamp) {
        let mut minute = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        minute.turn(now);
        minute.overall = minute.overall.saturating_add(1);
        if minute.by_address.len() < REMEMBERED {
            *minute.by_address.entry(neighbourhood(from)).or_default() += 1;
        }
    }
}

impl Minute {
    fn turn(&mut self, now: Timestamp) {
        if self.begun.is_none_or(|begun| now >= begun.saturating_add(SPAN) || now < begun) {
            *self = Self { begun: Some(now), ..Self::default() };
        }
    }
}

/// Who has one address of IPv6 has all of its /64.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn one_address_fails_ten_times_a_minute_and_all_together_a_hundred_times() {
        let attempts = Attempts::default();
        let address = |nth: u8| IpAddr::from([10, 0, 0, nth]);
        for _ in 0..PER_ADDRESS {
            assert!(attempts.check(address(1), at(0)).is_ok());
            attempts.failed(address(1), at(0));
        }
        assert_eq!(attempts.check(address(1), at(20)), Err(Duration::from_secs(40)));
        assert!(attempts.check(address(2), at(20)).is_ok(), "another address is not concerned");
        assert!(attempts.check(address(1), at(60)).is_ok(), "a minute later it may try again");
        for nth in 0..100 {
            attempts.failed(address(nth), at(61));
        }
        assert!(attempts.check(address(200), at(62)).is_err(), "many addresses are limited together");
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let attempts = Attempts::default();
        for nth in 0..PER_ADDRESS {
            attempts.failed(format!("2001:db8::{nth:x}").parse().unwrap(), at(0));
        }
        assert!(attempts.check("2001:db8::ffff".parse().unwrap(), at(1)).is_err());
        assert!(attempts.check("2001:db8:0:1::1".parse().unwrap(), at(1)).is_ok());
    }
}
