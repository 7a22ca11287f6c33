//! Where a server is and how it is spoken to, as a URL says it in libpq's words.
//!
//! tokio-postgres reads the URL, except for the words about encryption, of which it knows only some.

use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::trust::{self, Trust};

use super::fault::error_text;

pub(super) const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// How long data may lie unacknowledged before the network counts as gone.
const NETWORK_PATIENCE: Duration = Duration::from_secs(10);
/// When a connection on which nothing happens is first asked whether it is still there, how often then, and how many times.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(super) config: Config,
    encryption: Encryption,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Encryption {
    mode: Option<Mode>,
    root: Option<Root>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// libpq's `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Disable,
    /// Also for libpq's `allow`: encrypted where the server can.
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// libpq's `sslrootcert`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Root {
    System,
    File(PathBuf),
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let (url, encryption) = Encryption::take(url)?;
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| error_text(&error))?;
        config.ssl_mode(match encryption.mode() {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        encryption.trust()?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_PATIENCE);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(NETWORK_PATIENCE);
        }
        if !url.contains("keepalives_idle") {
            config.keepalives_idle(KEEPALIVE_IDLE);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(KEEPALIVE_INTERVAL);
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(KEEPALIVE_RETRIES);
        }
        if config.get_application_name().is_none() {
            config.application_name("redrive");
        }
        Ok(Self { config, encryption })
    }

    /// How to encrypt; reads the files that the URL names.
    pub(super) fn tls(&self) -> Result<MakeRustlsConnect, String> {
        let named = |why| format!("sslrootcert {why}");
        let client = trust::client(self.encryption.trust()?).map_err(named)?;
        let client = match (&self.encryption.certificate, &self.encryption.key) {
            (Some(certificate), Some(key)) => {
                let chain = trust::certificates(certificate).map_err(|why| format!("sslcert {why}"))?;
                let private = trust::private_key(key).map_err(|why| format!("sslkey {why}"))?;
                client
                    .with_client_auth_cert(chain, private)
                    .map_err(|error| format!("sslkey {} does not fit sslcert: {error}", key.display()))?
            }
            (None, None) => client.with_no_client_auth(),
            (Some(_), None) => return Err("sslcert is of no use without sslkey".to_owned()),
            (None, Some(_)) => return Err("sslkey is of no use without sslcert".to_owned()),
        };
        Ok(MakeRustlsConnect::new(client))
    }
}

impl Encryption {
    /// Takes the words about encryption out of a URL.
    fn take(url: &str) -> Result<(String, Self), String> {
        let after_password = url.find('@').unwrap_or(0);
        let Some(question) = url[after_password..].find('?').map(|at| at + after_password) else {
            return Ok((url.to_owned(), Self::default()));
        };
        let (base, options) = (&url[..question], &url[question + 1..]);
        let mut encryption = Self::default();
        let mut others = Vec::new();
        for option in options.split('&') {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let text = || percent_decode_str(value).decode_utf8_lossy().into_owned();
            let file = || Some(PathBuf::from(text())).filter(|path| !path.as_os_str().is_empty());
            match name {
                "sslmode" => encryption.mode = Some(Mode::parse(&text())?),
                "sslrootcert" if text() == "system" => encryption.root = Some(Root::System),
                "sslrootcert" => encryption.root = file().map(Root::File),
                "sslcert" => encryption.certificate = file(),
                "sslkey" => encryption.key = file(),
                _ => others.push(option),
            }
        }
        let mark = if others.is_empty() { "" } else { "?" };
        Ok((format!("{base}{mark}{}", others.join("&")), encryption))
    }

    fn mode(&self) -> Mode {
        match (self.mode, &self.root) {
            (Some(Mode::Require), Some(Root::File(_))) => Mode::VerifyCa,
            (Some(mode), _) => mode,
            (None, Some(Root::System)) => Mode::VerifyFull,
            (None, _) => Mode::Prefer,
        }
    }

    fn trust(&self) -> Result<Trust<'_>, String> {
        let file: Option<&Path> = match &self.root {
            Some(Root::File(path)) => Some(path),
            Some(Root::System) | None => None,
        };
        let mode = self.mode();
        if self.root == Some(Root::System) && mode < Mode::VerifyFull {
            // Any server can have a certificate of an authority that the system trusts.
            return Err("sslrootcert=system proves nothing without the name; write sslmode=verify-full".to_owned());
        }
        match (mode, file) {
            (Mode::Disable | Mode::Prefer | Mode::Require, _) => Ok(Trust::Anyone),
            (Mode::VerifyCa, Some(path)) => Ok(Trust::Authorities(path)),
            (Mode::VerifyCa, None) => Err("sslmode=verify-ca needs sslrootcert=FILE, the authority's certificate; \
                for authorities that the system trusts, write sslmode=verify-full"
                .to_owned()),
            (Mode::VerifyFull, Some(path)) => Ok(Trust::AuthoritiesAndName(path)),
            (Mode::VerifyFull, None) => Ok(Trust::System),
        }
    }
}

impl Mode {
    fn parse(word: &str) -> Result<Self, String> {
        match word {
            "disable" => Ok(Self::Disable),
            "allow" | "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyCa),
            "verify-full" => Ok(Self::VerifyFull),
            _ => {
                Err(format!("sslmode {word:?} is not known; write disable, prefer, require, verify-ca or verify-full"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust_of(options: &str) -> Result<(SslMode, String), String> {
        let address = Address::parse(&format!("postgres://u:p@h/db?{options}"))?;
        Ok((address.config.get_ssl_mode(), format!("{:?}", address.encryption.trust()?)))
    }

    #[test]
    fn each_mode_trusts_as_libpq_does() {
        for (options, mode, trust) in [
            ("", SslMode::Prefer, "Anyone"),
            ("connect_timeout=3", SslMode::Prefer, "Anyone"),
            ("sslmode=disable", SslMode::Disable, "Anyone"),
            ("sslmode=allow", SslMode::Prefer, "Anyone"),
            ("sslmode=prefer", SslMode::Prefer, "Anyone"),
            ("sslmode=require", SslMode::Require, "Anyone"),
            ("sslmode=require&sslrootcert=/ca.pem", SslMode::Require, r#"Authorities("/ca.pem")"#),
            ("sslmode=verify-ca&sslrootcert=%2Fc%20a.pem", SslMode::Require, r#"Authorities("/c a.pem")"#),
            ("sslrootcert=/ca.pem&sslmode=verify-full", SslMode::Require, r#"AuthoritiesAndName("/ca.pem")"#),
            ("sslmode=verify-full", SslMode::Require, "System"),
            ("sslmode=verify-full&sslrootcert=system", SslMode::Require, "System"),
            ("sslrootcert=system", SslMode::Require, "System"),
        ] {
            assert_eq!(trust_of(options), Ok((mode, trust.to_owned())), "{options}");
        }
    }

    #[test]
    fn words_that_would_protect_less_than_they_say_are_refused() {
        for (options, why) in [
            ("sslmode=verify_full", "sslmode \"verify_full\" is not known"),
            ("sslmode=", "is not known"),
            ("sslmode=verify-ca", "needs sslrootcert=FILE"),
            ("sslmode=require&sslrootcert=system", "write sslmode=verify-full"),
            ("sslmode=verify-ca&sslrootcert=system", "write sslmode=verify-full"),
            ("sslmod=require", "sslmod"),
        ] {
            let error = trust_of(options).unwrap_err();
            assert!(error.contains(why), "{options}: {error}");
        }
    }

    #[test]
    fn other_options_reach_the_driver() {
        let url = "postgres://u:p?w@h/db?connect_timeout=3&sslmode=require&application_name=x";
        let address = Address::parse(url).unwrap();
        assert_eq!(address.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert_eq!(address.config.get_application_name(), Some("x"));
        assert_eq!(address.config.get_password(), Some("p?w".as_bytes()));
    }
}
