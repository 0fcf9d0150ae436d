//! The module `lighthaul._lighthaul`.

#[pyo3::pymodule]
mod _lighthaul {
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::errors::reason_in;
    #[pymodule_export]
    use crate::files::{Files, Reader, Writer};
    #[pymodule_export]
    use crate::queue::Queue;
    #[pymodule_export]
    use crate::scheduler::Scheduler;
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::transfer::Transfer;
}
