#include "mpi_environment.hpp"

#include <mpi.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "reshard/exchange/mpi/mpi_communicator.hpp"

namespace reshard::app {
namespace {

/// Variables that launchers set for the processes they start: Open MPI, MPICH's hydra and Slurm's PMI, PMIx.
constexpr std::array kLauncherVariables = {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK"};

/// On one node messages go through shared memory. Open MPI looks for network hardware first, which takes a third of its
/// start; told the component (MCA parameter `pml`, Open MPI 4 and 5) it does not. What the user has chosen stays.
void choose_components() {
  const char* const all = std::getenv("OMPI_COMM_WORLD_SIZE");
  const char* const here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (all != nullptr && here != nullptr && std::string_view(all) == here) ::setenv("OMPI_MCA_pml", "ob1", 0);
}

}  // namespace

bool is_launched() {
  for (const char* variable : kLauncherVariables)
    if (std::getenv(variable) != nullptr) return true;
  return false;
}

MpiEnvironment::MpiEnvironment(int& argc, char**& argv) {
  if (!is_launched()) {
    communicator_ = exchange::alone();
    return;
  }
  choose_components();
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  initialised_ = true;
  if (provided < MPI_THREAD_FUNNELED)
    throw Error(Issue{ErrorCode::kTransport, "", kNoTensor,
                      "this MPI library does not allow threads beside the one that calls it"});
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &local_processes_);
  MPI_Comm_free(&node);
  communicator_ = exchange::mpi_world();
  if (communicator_->size() == 1) communicator_ = exchange::alone();
}

MpiEnvironment::~MpiEnvironment() {
  communicator_.reset();
  if (initialised_) MPI_Finalize();
}

const char* mpi_version() {
  static std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return text.data();
}

}  // namespace reshard::app
