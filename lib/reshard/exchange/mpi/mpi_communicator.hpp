#pragma once
// Communicator over MPI: MPI 3.0 calls only, from one thread (MPI_THREAD_FUNNELED), nothing of one implementation's
// own. The caller has initialised MPI and finalises it after the communicator is gone.

#include <memory>

#include "reshard/exchange/communicator.hpp"

namespace reshard::exchange {

/// All processes of the job. Errors of MPI come back as kTransport (exit 6).
std::unique_ptr<Communicator> mpi_world();

}  // namespace reshard::exchange
