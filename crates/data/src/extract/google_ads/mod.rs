//! `google-ads`: the rows of a GAQL query, by the Google Ads API's `searchStream`.

mod errors;
mod extractor;
mod settings;
mod token;

pub use extractor::GoogleAds;
pub use settings::Settings;
