//! The signature of Standard Webhooks, version 1: HMAC-SHA256 over the id, the moment and the body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::failure::Failure;

/// A shorter secret could be found out.
const SHORTEST: usize = 16;

/// The value of `webhook-signature` for a body that is sent at `seconds` since 1970.
pub(super) fn sign(secret: &str, id: &str, seconds: i64, body: &str) -> Result<String, Failure> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key(secret)?)
        .map_err(|_| Failure::fatal("the secret cannot be used as a key").of_setup())?;
    mac.update(format!("{id}.{seconds}.{body}").as_bytes());
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

fn key(secret: &str) -> Result<Vec<u8>, Failure> {
    let text = secret.trim();
    let decoded = STANDARD.decode(text.strip_prefix("whsec_").unwrap_or(text)).ok();
    decoded.filter(|key| key.len() >= SHORTEST).ok_or_else(|| {
        let todo = "make one by: echo whsec_$(openssl rand -base64 32)";
        Failure::fatal(format!("the secret is not base64 of at least {SHORTEST} bytes; {todo}")).of_setup()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that the specification's own libraries are tested with.
    #[test]
    fn the_signature_is_that_of_standard_webhooks() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", r#"{"test": 2432232314}"#);
        let signed = sign(secret, id, 1_614_265_330, body).unwrap_or_default();
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(sign(&secret["whsec_".len()..], id, 1_614_265_330, body).unwrap_or_default(), signed);
    }

    #[test]
    fn a_secret_that_is_none_is_refused_without_showing_it() {
        for secret in ["", "whsec_", "hunter2", "whsec_c2hvcnQ="] {
            let why = sign(secret, "msg_1", 0, "{}").map_err(|failure| failure.message);
            assert!(why.as_ref().is_err_and(|why| why.contains("openssl") && !why.contains("hunter2")), "{why:?}");
        }
    }
}
