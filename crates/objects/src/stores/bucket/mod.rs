//! Buckets, containers and web servers, with the same operations for all.
//!
//! - [`store`]: a bucket of any kind; `attributes`: what it says about objects; `call_error`: failed requests
//! - `s3`, `multipart`, `answer`: S3; `credentials`, `profile`: its credentials
//! - `cloud`: Azure and Google; `web`: web servers
//! - [`range_reader`]: bytes of an object as they come
//! - `client`: requests over HTTP, `body`: the bytes of an answer; `address`, `ranges`, `checksum`: their parts

pub(crate) mod answer;
pub(crate) mod attributes;
pub(crate) mod body;
pub(crate) mod call_error;
pub(crate) mod checksum;
pub(crate) mod client;
pub(crate) mod range_reader;
pub(crate) mod ranges;
pub(crate) mod store;
pub(crate) mod web;

mod address;
mod cloud;
mod credentials;
mod multipart;
mod profile;
mod s3;
