#pragma once
// What the tests of several processes share. Every process runs every test case in the same order; a case that talks to
// the others does so on all of them, so checks that stop a case (REQUIRE) are for what all processes see alike.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "reshard/exchange/communicator.hpp"
#include "reshard/exchange/device.hpp"
#include "reshard/pipeline/transport.hpp"
#include "support/temporary_directory.hpp"

namespace reshard::mpi_test {

/// All processes of this test.
exchange::Communicator& world();

/// What this executable tests beside the direct transport: the exchange from host memory, or between simulated GPUs.
struct ExchangeUnderTest {
  pipeline::Transport transport = pipeline::Transport::kMpi;
  exchange::Gpus* gpus = nullptr;
};
const ExchangeUnderTest& exchange_under_test();

/// A directory that process 0 makes and removes; all see it.
class SharedDirectory {
 public:
  SharedDirectory();
  ~SharedDirectory();
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::optional<test::TemporaryDirectory> mine_;
  std::filesystem::path path_;
};

/// "E_DIGEST exit 70: message" of what `work` throws; "done" where it throws nothing.
std::string outcome(const std::function<void()>& work);

/// Whether all processes bring the same text. Collective.
bool is_same_everywhere(const std::string& text);

}  // namespace reshard::mpi_test
