#pragma once
// MPI's life in this process: none without a launcher (starting it alone costs half a second), else from here to the
// end.

#include <memory>

#include "reshard/exchange/communicator.hpp"

namespace reshard::app {

/// Whether a launcher (mpirun, srun through PMI) has started this process.
bool is_launched();

class MpiEnvironment {
 public:
  /// Initialises MPI where is_launched.
  MpiEnvironment(int& argc, char**& argv);
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  exchange::Communicator& communicator() { return *communicator_; }
  /// Processes of this job on this node.
  int local_processes() const { return local_processes_; }

 private:
  bool initialised_ = false;
  int local_processes_ = 1;
  std::unique_ptr<exchange::Communicator> communicator_;
};

/// "Open MPI 4.1.4", of the library this is built with.
const char* mpi_version();

}  // namespace reshard::app
