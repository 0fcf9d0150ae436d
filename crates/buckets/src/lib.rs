//! Floor 4: clients of object stores: S3, Google Cloud Storage, Azure Blob Storage, and web servers, with the same operations for all.
//!
//! - [`store`]: a bucket, container or web server of any kind; [`attributes`]: what it reports about objects
//! - [`call_error`]: failed requests; [`client`]: requests over HTTP, with their limits; [`body`]: the bytes of an answer
//! - [`range_reader`]: bytes of an object as they come; [`checksum`]: CRC-64/NVME; [`web`]: files of web servers
//! - [`upload_record`]: uploads in parts that a later run continues; [`left_uploads`]: those that are given up; [`name_set`]: names in little memory
//! - `s3`, `multipart`, `answer`: S3; `credentials`, `profile`, `credential_program`, `environment`: its credentials and settings
//! - `cloud`: Azure and Google; `address`, `ranges`: parts of requests; `sent_object`: requests whose answers were lost; [`answers`]: answers of stores, for tests

pub mod answers;
pub mod attributes;
pub mod body;
pub mod call_error;
pub mod checksum;
pub mod client;
pub mod left_uploads;
pub mod name_set;
pub mod range_reader;
pub mod store;
pub mod upload_record;
pub mod web;

mod address;
mod answer;
mod cloud;
mod credential_program;
mod credentials;
mod environment;
mod multipart;
mod profile;
mod ranges;
mod s3;
mod sent_object;
