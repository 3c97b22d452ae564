// Runs the test cases on every process; process 0 prints what any of them found. `--ranks=N`: how many processes there
// must be.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "mpi/world.hpp"
#include "reshard/exchange/mpi/mpi_communicator.hpp"
#include "reshard/format/hdf5/hdf5.hpp"

namespace reshard::mpi_test {
namespace {

std::unique_ptr<exchange::Communicator> the_world;

int run_tests(int argc, char** argv) {
  constexpr std::string_view kRanks = "--ranks=";
  int needed = 1;
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]).starts_with(kRanks)) needed = std::atoi(argv[i] + kRanks.size());
  if (the_world->size() != needed) {
    if (the_world->rank() == 0) fmt::print("this test needs {} processes, there are {}\n", needed, the_world->size());
    return 1;
  }
  std::ostringstream report;
  doctest::Context context(argc, argv);
  context.setOption("no-colors", true);
  context.setCout(&report);
  const int failed = context.run() == 0 ? 0 : 1;
  const std::vector<std::string> reports = the_world->all_gather(report.str());
  std::int64_t failures = failed;
  the_world->all_sum({&failures, 1});
  for (std::size_t rank = 0; the_world->rank() == 0 && rank < reports.size(); ++rank)
    if (rank == 0 || reports[rank].find("FAILURE") != std::string::npos)
      fmt::print("process {} of {}:\n{}", rank, reports.size(), reports[rank]);
  return failures == 0 ? 0 : 1;
}

}  // namespace

exchange::Communicator& world() {
  return *the_world;
}

SharedDirectory::SharedDirectory() {
  if (world().rank() == 0) mine_.emplace();
  path_ = world().broadcast(mine_ ? mine_->path().string() : "");
}

SharedDirectory::~SharedDirectory() {
  world().barrier();
}

std::string outcome(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return fmt::format("{} exit {}: {}", code_name(error.issues().front().code), static_cast<int>(error.exit()),
                       error.issues().front().message);
  }
  return "done";
}

bool is_same_everywhere(const std::string& text) {
  for (const std::string& other : world().all_gather(text))
    if (other != text) return false;
  return true;
}

}  // namespace reshard::mpi_test

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == reshard::format::kHdf5ChildArgument)
    return reshard::format::run_hdf5_child(argc, argv);
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  reshard::mpi_test::the_world = reshard::exchange::mpi_world();
  const int result = reshard::mpi_test::run_tests(argc, argv);
  reshard::mpi_test::the_world.reset();
  MPI_Finalize();
  return result;
}
