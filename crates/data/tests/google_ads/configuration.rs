//! Settings that cannot work are named when the configuration is read.

use serde_json::json;

use crate::google::{config, google};
use crate::scripted::{Reply, settings};

#[test]
fn every_slip_is_named() {
    let server = google(|_| Reply::ok("[]"));
    for (more, why) in [
        (json!({"version": "26"}), "version: \"26\" must be like \"v26\""),
        (json!({"version": "v26/../x"}), "must be like \"v26\""),
        (json!({"endpoint": "http://ads.example"}), "endpoint: \"http://ads.example\" is not encrypted"),
        (json!({"token_endpoint": "nowhere"}), "token_endpoint: \"nowhere\" is no URL"),
        (json!({"login_customer_id": "12"}), "login_customer_id: \"12\" is no Google Ads customer id"),
        (json!({"client_id": {"env": "{day}"}}), "client_id: {day} is no placeholder"),
        (json!({"developer_token": {"file": "{day}"}}), "developer_token: {day} is no placeholder"),
        (json!({"client_secret": "in the clear"}), "a secret is not written but named"),
        (json!({"client_secret": {"env": "SECRET_a", "file": "b"}}), "a secret has one of env, file and command"),
        (json!({"client_secret": {}}), "a secret has one of env, file and command"),
        (json!({"querry": "x"}), "unknown field `querry`"),
    ] {
        let told = settings(config(&server, more)).unwrap_err();
        assert!(told.contains(why) && !told.contains("in the clear"), "{told} has no {why}");
    }
}

#[test]
fn googles_own_addresses_are_the_default() {
    let mut all = config(&google(|_| Reply::ok("[]")), json!({}));
    all.as_object_mut().unwrap().retain(|key, _| !key.contains("endpoint"));
    let extractor = format!("{:?}", settings(all).unwrap());
    for part in ["\"googleads.googleapis.com\"", "\"/v26/\"", "\"oauth2.googleapis.com\"", "\"/token\""] {
        assert!(extractor.contains(part), "{extractor}");
    }
}
