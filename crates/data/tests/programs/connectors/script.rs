//! Connectors made of a few lines of shell.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::lab::Lab;

/// Puts a script where the extractor finds it, and gives the settings that run it.
fn connector(lab: &Lab, kind: &str, script: &str) -> String {
    let path = lab.path().join("connector");
    fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    format!("kind = '{kind}'\ncommand = ['{}']\n", path.display())
}

/// A tap with streams `daily` and `hourly`; the script is what it does when it is to send records. Its arguments then
/// are `--config FILE --catalog FILE`.
pub fn tap(lab: &Lab, script: &str) -> String {
    let discover = r#"if [ "$3" = --discover ]; then
  echo '{"streams": ['
  echo '  {"tap_stream_id": "daily", "stream": "daily", "schema": {"properties": {}}, "metadata": []},'
  echo '  {"tap_stream_id": "hourly", "stream": "hourly", "schema": {"properties": {}}}'
  echo ']}'
  exit 0
fi
schema() { echo '{"type":"SCHEMA","stream":"'"${1-daily}"'","schema":{},"key_properties":["id"]}'; }
record() { echo '{"type":"RECORD","stream":"daily","record":'"$1"'}'; }
"#;
    connector(lab, "singer", &format!("{discover}{script}\n"))
}

/// A source with a stream `daily`; the script is what it does when it is to read. Its arguments then are `read --config
/// FILE --catalog FILE`.
pub fn source(lab: &Lab, script: &str) -> String {
    let discover = r#"if [ "$1" = discover ]; then
  echo 'loading plugins'
  echo '{"type":"LOG","log":{"level":"INFO","message":"discovering"}}'
  echo '{"type":"CATALOG","catalog":{"streams":[{"name":"daily","json_schema":{}},{"name":"hourly","json_schema":{}}]}}'
  exit 0
fi
record() { echo '{"type":"RECORD","record":{"stream":"daily","data":'"$1"',"emitted_at":1.5}}'; }
trace() { echo '{"type":"TRACE","trace":{"type":"STREAM_STATUS","stream_status":{"stream_descriptor":{"name":"daily"},"status":"'"$1"'"'"$2"'}}}'; }
"#;
    connector(lab, "airbyte", &format!("{discover}{script}\n"))
}
