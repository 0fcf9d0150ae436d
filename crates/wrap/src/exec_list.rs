//! Replacements for libc's variadic functions `execl`, `execlp` and `execle`.
//!
//! Rust cannot define variadic functions. Each of these functions stores the registers with its first arguments in
//! memory. It passes on their address and that of the further arguments, which are on the stack.

use std::arch::naked_asm;
use std::ffi::c_char;

use libc::c_int;

use crate::exec::{execv, execve, execvp};

type Word = *const c_char;

/// Arguments of one call.
struct List {
    registers: *const Word,
    stack: *const Word,
    taken: usize,
}

impl List {
    const fn new(registers: *const Word, stack: *const Word) -> Self {
        Self {
            registers,
            stack,
            taken: 0,
        }
    }

    /// Returns the next argument.
    ///
    /// # Safety
    ///
    /// The list has one more argument.
    unsafe fn next(&mut self) -> Word {
        let nth = self.taken;
        self.taken += 1;
        match nth.checked_sub(REGISTERS) {
            // SAFETY: this many registers were stored.
            None => unsafe { *self.registers.wrapping_add(nth) },
            // SAFETY: the others were passed on the stack.
            Some(nth) => unsafe { *self.stack.wrapping_add(nth) },
        }
    }

    /// Returns the next arguments, up to and including null.
    ///
    /// # Safety
    ///
    /// One of them is null.
    unsafe fn words(&mut self) -> Vec<Word> {
        let mut words = Vec::new();
        loop {
            // SAFETY: none of those before was null.
            let word = unsafe { self.next() };
            words.push(word);
            if word.is_null() {
                return words;
            }
        }
    }
}

/// # Safety
///
/// As for `execl`.
unsafe extern "C" fn take_execl(registers: *const Word, stack: *const Word) -> c_int {
    let mut list = List::new(registers, stack);
    // SAFETY: a path is first.
    let path = unsafe { list.next() };
    // SAFETY: null is last.
    let words = unsafe { list.words() };
    // SAFETY: the caller guarantees what libc requires of the arguments.
    unsafe { execv(path, words.as_ptr()) }
}

/// # Safety
///
/// As for `execlp`.
unsafe extern "C" fn take_execlp(registers: *const Word, stack: *const Word) -> c_int {
    let mut list = List::new(registers, stack);
    // SAFETY: a name is first.
    let file = unsafe { list.next() };
    // SAFETY: null is last.
    let words = unsafe { list.words() };
    // SAFETY: the caller guarantees what libc requires of the arguments.
    unsafe { execvp(file, words.as_ptr()) }
}

/// # Safety
///
/// As for `execle`.
unsafe extern "C" fn take_execle(registers: *const Word, stack: *const Word) -> c_int {
    let mut list = List::new(registers, stack);
    // SAFETY: a path is first.
    let path = unsafe { list.next() };
    // SAFETY: null is last.
    let words = unsafe { list.words() };
    // SAFETY: the environment is behind null.
    let environment = unsafe { list.next() };
    // SAFETY: the caller guarantees what libc requires of the arguments.
    unsafe { execve(path, words.as_ptr(), environment.cast()) }
}

/// Defines a function that passes its arguments on as a [`List`].
#[cfg(target_arch = "x86_64")]
macro_rules! stand_in {
    ($name:ident, $take:ident, $text:literal) => {
        #[doc = $text]
        ///
        /// # Safety
        ///
        /// The same as for the function of libc.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(path: Word, first: Word) -> c_int {
            naked_asm!(
                "sub rsp, 56",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov rdi, rsp",
                // after these and the return address
                "lea rsi, [rsp + 64]",
                "call {take}",
                "add rsp, 56",
                "ret",
                take = sym $take,
            )
        }
    };
}

/// Defines a function that passes its arguments on as a [`List`].
#[cfg(target_arch = "aarch64")]
macro_rules! stand_in {
    ($name:ident, $take:ident, $text:literal) => {
        #[doc = $text]
        ///
        /// # Safety
        ///
        /// The same as for the function of libc.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(path: Word, first: Word) -> c_int {
            naked_asm!(
                "sub sp, sp, #80",
                "stp x0, x1, [sp]",
                "stp x2, x3, [sp, #16]",
                "stp x4, x5, [sp, #32]",
                "stp x6, x7, [sp, #48]",
                "stp x29, x30, [sp, #64]",
                "mov x0, sp",
                "add x1, sp, #80",
                "bl {take}",
                "ldp x29, x30, [sp, #64]",
                "add sp, sp, #80",
                "ret",
                take = sym $take,
            )
        }
    };
}

stand_in!(
    execl,
    take_execl,
    "Replaces `execl`: replaces this process image by a program."
);
stand_in!(
    execlp,
    take_execlp,
    "Replaces `execlp`, which searches `PATH`."
);
stand_in!(
    execle,
    take_execle,
    "Replaces `execle`, which takes an environment."
);

/// Arguments that are passed in registers.
const REGISTERS: usize = if cfg!(target_arch = "x86_64") { 6 } else { 8 };
