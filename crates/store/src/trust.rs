//! Which servers are trusted when a connection is encrypted: one place for PostgreSQL, S3 and HTTP.
//!
//! The system's trust store counts, wherever nothing else is named. Certificates are checked by rustls with ring; no
//! other library of encryption is in the binary. S3's library builds its own clients, by the same verifier; it is given the
//! authorities of a `ca_file`.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme,
};
use rustls_platform_verifier::Verifier;

/// Which certificates a client takes from a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust<'a> {
    /// Any at all: what is sent is hidden from who listens in, not from who stands in for the server.
    Anyone,
    /// Those of the authorities in a file, for whatever name.
    Authorities(&'a Path),
    /// The same, for the name that was asked for.
    AuthoritiesAndName(&'a Path),
    /// Those that the system trusts, for the name that was asked for.
    System,
}

/// A TLS client for the web: the system's authorities, and those in `ca_file` besides.
pub fn web_client(ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let Some(path) = ca_file else { return Ok(client(Trust::System)?.with_no_client_auth()) };
    let verifier = Verifier::new_with_extra_roots(certificates(path)?, provider());
    let verifier = verifier.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(builder(Arc::new(verifier)).with_no_client_auth())
}

/// Lets libraries that look for the process's TLS provider find ours. They panic where there is none.
pub fn install_provider() {
    // An error says that the process has one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

pub(crate) fn client(trust: Trust<'_>) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    let authorities = |path, checks_name| Ok::<_, String>(Arc::new(Authorities::read(path, checks_name)?));
    Ok(match trust {
        Trust::Anyone => builder(Arc::new(Anyone)),
        Trust::Authorities(path) => builder(authorities(path, false)?),
        Trust::AuthoritiesAndName(path) => builder(authorities(path, true)?),
        Trust::System => builder(Arc::new(System)),
    })
}

/// The certificates in a PEM file.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let invalid = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| invalid(&error))?;
    if found.is_empty() { Err(invalid(&"there is no certificate in it; it must be PEM")) } else { Ok(found) }
}

/// The private key in a PEM file.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())))
}

fn builder(verifier: Arc<dyn ServerCertVerifier>) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap_or_else(|error| unreachable!("the TLS provider has no protocol versions: {error}"))
        .dangerous()
        .with_custom_certificate_verifier(verifier)
}

/// Implements the parts of a verifier that are the same for all: the server must hold the certificate's key.
macro_rules! handshake_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, TlsError> {
            verify_tls12_signature(message, cert, signed, &provider().signature_verification_algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, TlsError> {
            verify_tls13_signature(message, cert, signed, &provider().signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            provider().signature_verification_algorithms.supported_schemes()
        }
    };
}

#[derive(Debug)]
struct Anyone;

/// Any server is accepted, so there is nothing that its signature could prove. Checking it would only turn away certificates
/// of a form that rustls does not read.
impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// The authorities in a file. A server's own certificate may stand there too, as that of a server without an authority.
#[derive(Debug)]
struct Authorities {
    roots: RootCertStore,
    named: Vec<CertificateDer<'static>>,
    checks_name: bool,
}

impl Authorities {
    fn read(path: &Path, checks_name: bool) -> Result<Self, String> {
        let named = certificates(path)?;
        let mut roots = RootCertStore::empty();
        for certificate in &named {
            roots.add(certificate.clone()).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(Self { roots, named, checks_name })
    }

    /// A certificate that is named itself needs no other's signature, though it must still be in force.
    fn is_named(&self, certificate: &CertificateDer<'_>, error: &TlsError) -> bool {
        let out_of_force = matches!(
            error,
            TlsError::InvalidCertificate(
                CertificateError::Expired
                    | CertificateError::ExpiredContext { .. }
                    | CertificateError::NotValidYet
                    | CertificateError::NotValidYetContext { .. }
            )
        );
        !out_of_force && self.named.contains(certificate)
    }
}

impl ServerCertVerifier for Authorities {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = provider().signature_verification_algorithms.all;
        let signed =
            verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms);
        if let Err(error) = signed
            && !self.is_named(end_entity, &error)
        {
            return Err(error);
        }
        if self.checks_name {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    handshake_signatures!();
}

/// The system's trust store, read when a certificate has to be checked for the first time: a machine without one can
/// still do everything that is not encrypted.
#[derive(Debug)]
struct System;

impl ServerCertVerifier for System {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        static STORE: OnceLock<Result<Verifier, TlsError>> = OnceLock::new();
        match STORE.get_or_init(|| Verifier::new(provider())) {
            Ok(store) => store.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now),
            Err(error) => Err(error.clone()),
        }
    }

    handshake_signatures!();
}
