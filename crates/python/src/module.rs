//! The module `lighthaul._lighthaul`.

#[pyo3::pymodule]
mod _lighthaul {
    #[pymodule_export]
    use crate::calendar::{Calendar, packet_switched};
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::errors::{reason_in, remedy_of};
    #[pymodule_export]
    use crate::events::Events;
    #[pymodule_export]
    use crate::files::{Files, Reader, Writer};
    #[pymodule_export]
    use crate::options::{bits_per_second, byte_count};
    #[pymodule_export]
    use crate::packing::{Schema, SchemaAnnouncer};
    #[pymodule_export]
    use crate::queue::Queue;
    #[pymodule_export]
    use crate::scheduler::Scheduler;
    #[pymodule_export]
    use crate::simulator::{
        rbudp_efficiency, rbudp_model, rbudp_size_for, rbudp_stream_rate, simulate_plan,
        simulate_transfers,
    };
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::transfer::Transfer;
    #[pymodule_export]
    use crate::work::Cancellation;
}
