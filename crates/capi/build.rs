//! Sets the name of the shared library (SONAME). Each incompatible change of the interface changes its number.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblighthaul.so.0");
    // some dependencies export C functions of their own
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
