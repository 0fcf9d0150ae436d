//! Name of the shared library for the dynamic linker. Its number changes with each incompatible change of the interface.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblighthaul.so.0");
    // some dependencies have functions for C of their own
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
