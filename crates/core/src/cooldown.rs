//! Cooldowns: one source's answer to one worker holds back all its siblings, on every machine.

use crate::key::{CustomerId, Source};
use crate::time::Timestamp;

/// What is held back, until when, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cooldown {
    pub source: Source,
    /// None holds back the whole source.
    pub customer_id: Option<CustomerId>,
    pub until: Timestamp,
    pub why: Option<String>,
}

impl Cooldown {
    /// Whether it holds back this customer of this source.
    pub fn covers(&self, source: &Source, customer: &CustomerId) -> bool {
        self.source == *source && self.customer_id.as_ref().is_none_or(|held| held == customer)
    }

    /// Whether it holds back every customer of this source.
    pub fn covers_all_of(&self, source: &Source) -> bool {
        self.source == *source && self.customer_id.is_none()
    }

    /// Whether it is this customer's own; without a customer, whether it is the source's or any customer's of it.
    pub fn is_of(&self, source: &Source, customer: Option<&CustomerId>) -> bool {
        self.source == *source && customer.is_none_or(|customer| self.customer_id.as_ref() == Some(customer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cooldown(source: &str, customer: Option<&str>) -> Cooldown {
        Cooldown {
            source: source.parse().unwrap(),
            customer_id: customer.map(|customer| customer.parse().unwrap()),
            until: Timestamp::MIN,
            why: None,
        }
    }

    #[test]
    fn a_sources_cooldown_covers_all_its_customers_and_no_other_source() {
        let whole = cooldown("ads", None);
        assert!(whole.covers(&"ads".parse().unwrap(), &"1".parse().unwrap()));
        assert!(whole.covers_all_of(&"ads".parse().unwrap()));
        assert!(!whole.covers(&"crm".parse().unwrap(), &"1".parse().unwrap()));
        assert!(!whole.covers_all_of(&"crm".parse().unwrap()));
    }

    #[test]
    fn a_customers_cooldown_covers_that_customer_alone() {
        let one = cooldown("ads", Some("1"));
        assert!(one.covers(&"ads".parse().unwrap(), &"1".parse().unwrap()));
        assert!(!one.covers(&"ads".parse().unwrap(), &"2".parse().unwrap()));
        assert!(!one.covers_all_of(&"ads".parse().unwrap()));
    }

    #[test]
    fn a_source_without_a_customer_means_its_own_and_its_customers_cooldowns() {
        let (source, customer) = ("ads".parse().unwrap(), "1".parse().unwrap());
        assert!(cooldown("ads", None).is_of(&source, None));
        assert!(cooldown("ads", Some("1")).is_of(&source, None));
        assert!(cooldown("ads", Some("1")).is_of(&source, Some(&customer)));
        assert!(!cooldown("ads", None).is_of(&source, Some(&customer)));
        assert!(!cooldown("crm", Some("1")).is_of(&source, Some(&customer)));
    }
}
