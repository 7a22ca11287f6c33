//! Traces by OTLP over HTTP, where `[telemetry]` names a collector: attempts and requests, each with what the log says of it. Only a
//! program that was built with the feature `otlp` can send them.

use crate::log::AnyLayer;

/// What sends traces, if anything does.
#[derive(Debug, Default)]
pub struct Traces {
    #[cfg(feature = "otlp")]
    provider: Option<Result<otlp::Provider, String>>,
}

#[cfg(not(feature = "otlp"))]
impl Traces {
    pub fn begin(_endpoint: Option<&str>) -> (Self, Option<AnyLayer>) {
        (Self::default(), None)
    }

    /// Says in the log what becomes of traces.
    pub fn say_whether_sent(&self, endpoint: Option<&str>) {
        if let Some(endpoint) = endpoint {
            let todo = "build it with `cargo build --features otlp`, or take otlp_endpoint out of [telemetry]";
            tracing::warn!(endpoint, "no traces are sent: this program was built without them; {todo}");
        }
    }

    pub fn end(self) {}
}

#[cfg(feature = "otlp")]
impl Traces {
    /// Sends spans to a collector from now on, where there is one.
    pub fn begin(endpoint: Option<&str>) -> (Self, Option<AnyLayer>) {
        match endpoint.map(otlp::begin) {
            None => (Self::default(), None),
            Some(Ok((provider, layer))) => (Self { provider: Some(Ok(provider)) }, Some(layer)),
            Some(Err(why)) => (Self { provider: Some(Err(why)) }, None),
        }
    }

    /// Says in the log what becomes of traces.
    pub fn say_whether_sent(&self, endpoint: Option<&str>) {
        match &self.provider {
            Some(Ok(_)) => tracing::info!(endpoint, "traces are sent"),
            Some(Err(why)) => tracing::warn!(endpoint, why, "no traces are sent"),
            None => {}
        }
    }

    /// Sends what is left, for no longer than a few seconds.
    pub fn end(self) {
        if let Some(Ok(provider)) = self.provider {
            otlp::end(&provider);
        }
    }
}

#[cfg(feature = "otlp")]
mod otlp {
    use std::time::Duration;

    use opentelemetry::KeyValue;
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing::Level;
    use tracing_subscriber::Layer as _;
    use tracing_subscriber::filter::Targets;

    use crate::log::AnyLayer;

    pub type Provider = SdkTracerProvider;

    /// How long a collector may take, also for the last of it when the program ends.
    const PATIENCE: Duration = Duration::from_secs(2);

    /// Our own crates: what libraries do is not told.
    const OURS: [&str; 5] = ["redrive", "redrive_store", "redrive_control", "redrive_data", "redrive_server"];

    pub fn begin(endpoint: &str) -> Result<(Provider, AnyLayer), String> {
        redrive_store::trust::install_provider();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(address(endpoint))
            .with_timeout(PATIENCE)
            .build()
            .map_err(|error| error.to_string())?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name("redrive").with_attribute(version).build();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        let filter = Targets::new().with_targets(OURS.map(|target| (target, Level::INFO)));
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("redrive")).with_filter(filter);
        Ok((provider, layer.boxed()))
    }

    pub fn end(provider: &Provider) {
        if let Err(error) = provider.shutdown_with_timeout(PATIENCE) {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }

    /// Where a collector takes traces: at the path that is given, or at the usual one.
    fn address(endpoint: &str) -> String {
        match endpoint.parse::<url::Url>() {
            Ok(mut url) if url.path() == "/" => {
                url.set_path("/v1/traces");
                url.to_string()
            }
            Ok(_) | Err(_) => endpoint.to_owned(),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::address;

        #[test]
        fn a_collector_without_a_path_takes_traces_at_the_usual_one() {
            assert_eq!(address("http://127.0.0.1:4318"), "http://127.0.0.1:4318/v1/traces");
            assert_eq!(address("https://example/otlp/traces"), "https://example/otlp/traces");
        }
    }
}
