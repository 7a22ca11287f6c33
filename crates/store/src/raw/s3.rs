//! S3 and what speaks like it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::{BackoffConfig, Certificate, ClientOptions, RetryConfig};

use crate::trust;

use super::error::{Error, short};

/// Settings by their usual names (`AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_ALLOW_HTTP`, `AWS_CA_BUNDLE`, …).
/// The binary hands its environment in; nothing here reads it.
#[derive(Clone, Default)]
pub struct S3Options {
    settings: Vec<(AmazonS3ConfigKey, String)>,
    /// Authorities that are trusted besides the system's.
    ca_file: Option<PathBuf>,
}

impl S3Options {
    /// Takes the `AWS_*` variables that object_store knows, and the file of authorities; leaves the others.
    pub fn from_vars<N: AsRef<str>, V: Into<String>>(vars: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut options = Self::default();
        for (name, value) in vars {
            let Some(name) = name.as_ref().strip_prefix("AWS_") else { continue };
            if name == "CA_BUNDLE" {
                options.ca_file = Some(value.into()).filter(|file| !file.is_empty()).map(PathBuf::from);
            } else if let Ok(key) = format!("aws_{}", name.to_ascii_lowercase()).parse() {
                options.settings.push((key, value.into()));
            }
        }
        options
    }

    /// The same, with the authorities of a file in place of `AWS_CA_BUNDLE`'s.
    pub fn trusting(self, ca_file: PathBuf) -> Self {
        Self { ca_file: Some(ca_file), ..self }
    }

    /// Connections that trust what the system trusts, and the authorities in the file.
    fn client_options(&self) -> Result<ClientOptions, String> {
        let Some(file) = &self.ca_file else { return Ok(ClientOptions::new()) };
        let mut authorities = trust::certificates(file)?.into_iter();
        authorities.try_fold(ClientOptions::new(), |options, authority| {
            let authority =
                Certificate::from_der(&authority).map_err(|error| format!("{}: {error}", file.display()))?;
            Ok(options.with_root_certificate(authority))
        })
    }

    fn get(&self, wanted: AmazonS3ConfigKey) -> Option<&str> {
        self.settings.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value.as_str())
    }

    fn endpoint(&self) -> Option<&str> {
        self.get(AmazonS3ConfigKey::S3Endpoint).or_else(|| self.get(AmazonS3ConfigKey::Endpoint))
    }
}

/// The values may be secrets.
impl fmt::Debug for S3Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.settings.iter().map(|(key, _)| key.as_ref());
        f.debug_set().entries(names).entries(self.ca_file.iter().map(|_| "aws_ca_bundle")).finish()
    }
}

/// How long a client goes on after errors that may pass.
#[derive(Clone, Copy)]
pub(super) enum Patience {
    /// For writing and reading: sit out half a minute of trouble.
    Work,
    /// For opening: an operator waits at the command line to hear that the endpoint is wrong.
    Check,
}

impl Patience {
    fn retry(self) -> RetryConfig {
        let (max_retries, seconds, pause) = match self {
            Self::Work => (10, 30, 5),
            Self::Check => (2, 5, 1),
        };
        RetryConfig {
            max_retries,
            retry_timeout: Duration::from_secs(seconds),
            backoff: BackoffConfig { max_backoff: Duration::from_secs(pause), ..BackoffConfig::default() },
        }
    }
}

pub(super) fn client(url: &str, bucket: &str, options: &S3Options, patience: Patience) -> Result<AmazonS3, Error> {
    let invalid = |why: String| Error::Settings { url: url.to_owned(), why };
    if let Some(endpoint) = options.endpoint() {
        let parsed =
            ::url::Url::parse(endpoint).map_err(|why| invalid(format!("endpoint {endpoint:?} is no url ({why})")))?;
        let allowed = options.get(AmazonS3ConfigKey::Client(object_store::ClientConfigKey::AllowHttp));
        if parsed.scheme() == "http" && allowed.is_none_or(|value| !value.eq_ignore_ascii_case("true")) {
            return Err(invalid(format!(
                "endpoint {endpoint} is not encrypted; use https, or set AWS_ALLOW_HTTP=true"
            )));
        }
    }
    trust::install_provider();
    let connecting = options.client_options().map_err(|why| invalid(format!("ca_file, or AWS_CA_BUNDLE: {why}")))?;
    let builder = AmazonS3Builder::new().with_client_options(connecting);
    let configured = options.settings.iter().fold(builder, |builder, (key, value)| builder.with_config(*key, value));
    configured
        .with_bucket_name(bucket)
        // Create-if-absent is what the sink stands on: no variable may turn it off.
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(patience.retry())
        .build()
        .map_err(|why| invalid(short(&why.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_aws_variables_are_taken_and_none_is_shown() {
        let vars =
            [("AWS_SECRET_ACCESS_KEY", "hush"), ("AWS_PROFILE", "me"), ("ENDPOINT", "http://x"), ("PATH", "/bin")];
        let options = S3Options::from_vars(vars);
        assert_eq!(format!("{options:?}"), r#"{"aws_secret_access_key"}"#);
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
        for (vars, why) in [
            ([("AWS_ENDPOINT_URL", "http://127.0.0.1:1"), ("AWS_REGION", "r")], "set AWS_ALLOW_HTTP=true"),
            ([("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1"), ("AWS_ALLOW_HTTP", "no")], "set AWS_ALLOW_HTTP=true"),
            ([("AWS_ENDPOINT_URL", "localhost"), ("AWS_REGION", "r")], "\"localhost\" is no url"),
            ([("AWS_ALLOW_HTTP", "perhaps"), ("AWS_REGION", "r")], "perhaps"),
            ([("AWS_ACCESS_KEY_ID", "half"), ("AWS_REGION", "r")], "SecretAccessKey"),
        ] {
            let error =
                client("s3://lake", "lake", &S3Options::from_vars(vars), Patience::Check).unwrap_err().to_string();
            assert!(error.contains("s3://lake") && error.contains(why) && !error.contains('\n'), "{error}");
        }
    }
}
