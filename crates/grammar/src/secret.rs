//! Values of options that may hold a password.

use std::ffi::OsStr;
use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};

/// Parser of a value that may hold a password. Its errors do not repeat the value.
#[derive(Debug)]
pub struct Secret<T>(PhantomData<fn() -> T>);

impl<T> Secret<T> {
    /// Returns the parser.
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for Secret<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Secret<T> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl<T> TypedValueParser for Secret<T>
where
    T: FromStr<Err: Display> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let why = match value.to_str().map(T::from_str) {
            Some(Ok(value)) => return Ok(value),
            Some(Err(why)) => why.to_string(),
            None => "it is not UTF-8".to_owned(),
        };
        let of = arg.map_or_else(String::new, |arg| format!(" for '{arg}'"));
        let text = format!("invalid value{of}: {why}\n");
        Err(Error::raw(ErrorKind::ValueValidation, text).with_cmd(command))
    }
}
