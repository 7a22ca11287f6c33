//! Networks, as `10.0.0.0/8` or a single address.

use std::net::IpAddr;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: u128,
    bits: u32,
    is_v4: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an address nor a network; write it like 10.0.0.7 or 10.0.0.0/8")]
pub struct NoNetwork(String);

const WIDTH: u32 = 128;
const V4_WIDTH: u32 = 32;

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let mask = u128::MAX.checked_shl(WIDTH - self.bits).unwrap_or(0);
        address.is_ipv4() == self.is_v4 && number(address) & mask == self.address & mask
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let wrong = || NoNetwork(text.to_owned());
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let width = if address.is_ipv4() { V4_WIDTH } else { WIDTH };
        let bits = bits.map_or(Ok(width), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > width {
            return Err(wrong());
        }
        Ok(Self { address: number(address), bits: bits + WIDTH - width, is_v4: address.is_ipv4() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_its_addresses_and_no_others() {
        let contains =
            |network: &str, address: &str| network.parse::<Network>().unwrap().contains(address.parse().unwrap());
        assert!(contains("10.1.2.3", "10.1.2.3") && !contains("10.1.2.3", "10.1.2.4"));
        assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("0.0.0.0/0", "192.0.2.1") && !contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("2001:db8::/32", "2001:db8:1::1") && !contains("2001:db8::/32", "2001:db9::1"));
        assert!(contains("10.0.0.0/8", "::ffff:10.0.0.1"), "an address in the clothes of the other kind");
        assert!(contains("::/0", "::1") && !contains("::/0", "127.0.0.1"));
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "localhost", "10.0.0.0/x", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
