// What the simulated CUDA and NCCL refuse that real ones let pass, or hang in: the tests on them count on it. A fault
// ends the process, so most run in a child of the only process.

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nccl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>

#include "mpi/world.hpp"
#include "reshard/exchange/cuda/copy_kernels.hpp"
#include "reshard/exchange/cuda/memory.hpp"
#include "reshard/exchange/cuda/stream.hpp"
#include "simulated_gpu/machine.hpp"
#include "support/simulated_gpu/mailbox.hpp"
#include "support/simulated_gpu/memory.hpp"

using namespace reshard;
using namespace reshard::simulated_test;
using exchange::CopyTask;
using exchange::cuda::DeviceBlock;
using exchange::cuda::Event;
using exchange::cuda::PinnedBlock;
using exchange::cuda::Stream;
using mpi_test::world;

namespace {

/// How a child that does this ends: "exit 0: ", "signal 6: simulated GPU, process 0: ...".
std::string in_child(const std::function<void()>& work) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    signal(SIGABRT, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
    work();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? fmt::format("signal {}: {}", WTERMSIG(status), text)
                             : fmt::format("exit {}: {}", WEXITSTATUS(status), text);
}

bool refused(const std::function<void()>& work, const std::string& reason) {
  const std::string found = in_child(work);
  if (found == fmt::format("signal {}: simulated GPU, process 0: {}\n", SIGABRT, reason)) return true;
  MESSAGE(found);
  return false;
}

bool faults(const std::function<void()>& work) {
  return in_child(work) == fmt::format("signal {}: ", SIGSEGV);
}

void up(const DeviceBlock& to, const PinnedBlock& from, std::size_t bytes, const Stream& stream) {
  cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyHostToDevice, stream.get());
}

void down(const PinnedBlock& to, const DeviceBlock& from, std::size_t bytes, const Stream& stream) {
  cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToHost, stream.get());
}

void wait(const Event& event) {
  while (cudaEventQuery(event.get()) == cudaErrorNotReady) {
  }
}

bool all(const PinnedBlock& block, std::size_t bytes, std::byte value) {
  return std::all_of(block.data(), block.data() + bytes, [=](std::byte byte) { return byte == value; });
}

void settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) ncclCommGetAsyncError(comm, &state);
}

ncclComm_t communicator(int processes, int rank, ncclUniqueId id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRankConfig(&comm, processes, id, rank, &config) == ncclInProgress);
  settle(comm);
  return comm;
}

ncclComm_t lone_communicator() {
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  return communicator(1, 0, id);
}

bool one_process() {
  return world().size() == 1;
}

}  // namespace

TEST_CASE("simulated GPU: the host cannot touch device memory, nor pinned memory that was freed") {
  if (!one_process()) return;
  CHECK(faults([] {
    const DeviceBlock block(100);
    block.data()[5] = std::byte{1};
  }));
  CHECK(faults([] {
    const DeviceBlock block(100);
    const volatile std::byte* at = block.data();
    (void)*at;
  }));
  CHECK(faults([] {
    std::byte* freed = PinnedBlock(100).data();
    *freed = std::byte{1};
  }));
  CHECK(in_child([] {
          const PinnedBlock block(100);
          block.data()[99] = std::byte{1};
        }) == "exit 0: ");
  CHECK(faults([] {
    const PinnedBlock block(4096);
    block.data()[4096] = std::byte{1};
  }));
}

TEST_CASE("simulated GPU: copies keep to the memory that they name") {
  if (!one_process()) return;
  CHECK(refused(
      [] {
        const Stream stream;
        up(DeviceBlock(100), PinnedBlock(200), 101, stream);
      },
      "cudaMemcpyAsync: 101 bytes from 0 on, in device memory of 100 bytes"));
  CHECK(refused(
      [] {
        const Stream stream;
        up(DeviceBlock(200), PinnedBlock(100), 101, stream);
      },
      "cudaMemcpyAsync: 101 bytes from 0 on, in pinned memory of 100 bytes"));
  CHECK(in_child([] {
          const Stream stream;
          std::array<std::byte, 10> pageable{};
          const DeviceBlock block(10);
          cudaMemcpyAsync(block.data(), pageable.data(), 10, cudaMemcpyHostToDevice, stream.get());
        }).ends_with("is not in pinned memory\n"));
  CHECK(refused(
      [] {
        const Stream stream;
        const DeviceBlock tasks(sizeof(CopyTask));
        const DeviceBlock block(10);
        const PinnedBlock table(sizeof(CopyTask));
        CopyTask task;
        task.kind = CopyTask::Kind::kZero;
        task.target = 5;
        task.run_elements = 6;
        std::memcpy(table.data(), &task, sizeof(task));
        up(tasks, table, sizeof(task), stream);
        exchange::cuda::launch_copies(reinterpret_cast<const CopyTask*>(tasks.data()), 1, 1, block.data(),
                                      stream.get());
        const Event end;
        cudaEventRecord(end.get(), stream.get());
        wait(end);
      },
      "something was written beside an allocation of 10 bytes"));
}

TEST_CASE("simulated GPU: memory is not given while work is queued, nor taken while it cannot end") {
  if (!one_process()) return;
  CHECK(refused(
      [] {
        const Stream stream;
        const PinnedBlock host(10);
        const DeviceBlock block(10);
        up(block, host, 10, stream);
        const DeviceBlock another(10);
      },
      "cudaMalloc while work is queued"));
  CHECK(refused(
      [] {
        const MachineWith machine(Variables{{"SIMULATED_GPU_HANG", "ncclGroupEnd:1:0"}});
        const ncclComm_t comm = lone_communicator();
        const DeviceBlock block(10);
        const Stream stream;
        ncclGroupStart();
        ncclSend(block.data(), 5, ncclUint8, 0, comm, stream.get());
        ncclRecv(block.data() + 5, 5, ncclUint8, 0, comm, stream.get());
        ncclGroupEnd();
        settle(comm);
        cudaFree(block.data());
      },
      "cudaFree waits for work that does not end"));
}

TEST_CASE("simulated GPU: what no event orders comes out in either order, what one orders in one") {
  if (!one_process()) return;
  const auto early_reads = [](bool with_event) {
    int early = 0;
    const Stream first;
    const Stream second;
    const Event copied;
    const Event end;
    const PinnedBlock in(100);
    const PinnedBlock out(100);
    std::fill_n(in.data(), 100, std::byte{7});
    for (int i = 0; i < 100; ++i) {
      const DeviceBlock block(100);
      up(block, in, 100, first);
      cudaEventRecord(copied.get(), first.get());
      if (with_event) cudaStreamWaitEvent(second.get(), copied.get(), 0);
      down(out, block, 100, second);
      cudaEventRecord(end.get(), second.get());
      wait(end);
      if (!all(out, 100, std::byte{7})) {
        ++early;
        CHECK(all(out, 100, simulated_gpu::kPoison));
      }
    }
    return early;
  };
  CHECK(early_reads(true) == 0);
  const int early = early_reads(false);
  CHECK(early > 20);
  CHECK(early < 80);
}

TEST_CASE("simulated GPU: the destination of a copy to the host is poisoned until it is done") {
  const Stream stream;
  const Event end;
  const PinnedBlock in(100);
  const PinnedBlock out(100);
  const DeviceBlock block(100);
  CHECK(all(out, 100, simulated_gpu::kPoison));
  std::fill_n(in.data(), 100, std::byte{7});
  up(block, in, 100, stream);
  down(out, block, 100, stream);
  CHECK(all(out, 100, simulated_gpu::kEarlyRead));
  // A copy that still reads there comes first.
  down(in, block, 100, stream);
  CHECK(all(in, 100, std::byte{7}));
  cudaEventRecord(end.get(), stream.get());
  wait(end);
  CHECK(all(out, 100, std::byte{7}));
  CHECK(all(in, 100, std::byte{7}));
}

TEST_CASE("simulated GPU: nothing runs until someone asks, so that a source that is written too early shows") {
  const Stream stream;
  const Event end;
  const PinnedBlock in(1);
  const PinnedBlock out(1);
  const DeviceBlock block(1);
  *in.data() = std::byte{1};
  up(block, in, 1, stream);
  *in.data() = std::byte{2};
  down(out, block, 1, stream);
  cudaEventRecord(end.get(), stream.get());
  wait(end);
  CHECK(*out.data() == std::byte{2});
}

TEST_CASE("simulated GPU: a group takes one message per peer and direction, and both ends of one to oneself") {
  if (!one_process()) return;
  const auto group = [](std::size_t sent, std::size_t received, int sends) {
    const ncclComm_t comm = lone_communicator();
    const DeviceBlock block(1000);
    const Stream stream;
    const Event end;
    ncclGroupStart();
    for (int i = 0; i < sends; ++i) ncclSend(block.data(), sent, ncclUint8, 0, comm, stream.get());
    if (received > 0) ncclRecv(block.data() + 500, received, ncclUint8, 0, comm, stream.get());
    const ncclResult_t result = ncclGroupEnd();
    if (result == ncclInProgress) {
      settle(comm);
      cudaEventRecord(end.get(), stream.get());
      wait(end);
    }
    ncclCommAbort(comm);
    if (result == ncclInvalidUsage) _exit(9);
  };
  CHECK(in_child([&] { group(10, 10, 1); }) == "exit 0: ");
  CHECK(in_child([&] { group(10, 0, 1); }) == "exit 9: ");
  CHECK(refused([&] { group(10, 20, 1); }, "process 0 sends 10 bytes to process 0, which expects 20 bytes"));
  CHECK(refused([&] { group(10, 10, 2); }, "ncclSend: two messages of a group with process 0"));
  CHECK(refused([&] { group(0, 0, 1); }, "ncclSend of 0 bytes"));
  CHECK(refused([&] { group(10, 501, 1); }, "ncclRecv: 501 bytes from 500 on, in device memory of 1000 bytes"));
}

TEST_CASE("simulated GPU: calls that wait, come too early or too late are refused") {
  if (!one_process()) return;
  CHECK(refused(
      [] {
        ncclUniqueId id{};
        ncclGetUniqueId(&id);
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        ncclComm_t comm = nullptr;
        ncclCommInitRankConfig(&comm, 1, id, 0, &config);
      },
      "ncclCommInitRankConfig that blocks"));
  CHECK(refused(
      [] {
        const DeviceBlock block(10);
        const Stream stream;
        ncclSend(block.data(), 10, ncclUint8, 0, lone_communicator(), stream.get());
      },
      "ncclSend outside of a group: it waits for the other side"));
  CHECK(refused(
      [] {
        const ncclComm_t comm = lone_communicator();
        const DeviceBlock block(10);
        const Stream stream;
        const Event event;
        ncclGroupStart();
        ncclSend(block.data(), 5, ncclUint8, 0, comm, stream.get());
        ncclRecv(block.data() + 5, 5, ncclUint8, 0, comm, stream.get());
        ncclGroupEnd();
        cudaEventRecord(event.get(), stream.get());
      },
      "work is queued on a stream that a group of NCCL is still on its way to: ncclGroupEnd is in progress"));
  CHECK(refused(
      [] {
        const ncclComm_t comm = lone_communicator();
        ncclCommAbort(comm);
        ncclCommFinalize(comm);
      },
      "ncclCommFinalize: the communicator is none, or was destroyed or aborted"));
  CHECK(refused(
      [] {
        const ncclComm_t comm = lone_communicator();
        ncclCommFinalize(comm);
        ncclCommDestroy(comm);
      },
      "ncclCommDestroy of a communicator that is not finalised"));
}

namespace {

/// Groups of two processes, each with a message of so many bytes to the other one.
void groups_between_two(int groups_before, std::size_t sent, std::size_t expected) {
  simulated_gpu::connect();
  ncclUniqueId id{};
  if (world().rank() == 0) ncclGetUniqueId(&id);
  const std::string shared = world().broadcast(std::string(id.internal, sizeof(id.internal)));
  std::memcpy(id.internal, shared.data(), shared.size());
  cudaSetDevice(world().rank());
  const ncclComm_t comm = communicator(2, world().rank(), id);
  const DeviceBlock block(1000);
  const Stream stream;
  const Event end;
  for (int i = 0; i < groups_before; ++i) {
    ncclGroupStart();
    ncclGroupEnd();
  }
  ncclGroupStart();
  ncclSend(block.data(), sent, ncclUint8, 1 - world().rank(), comm, stream.get());
  ncclRecv(block.data() + 500, expected, ncclUint8, 1 - world().rank(), comm, stream.get());
  ncclGroupEnd();
  settle(comm);
  cudaEventRecord(end.get(), stream.get());
  wait(end);
}

}  // namespace

TEST_CASE("misuse: one side expects more" * doctest::skip()) {
  groups_between_two(0, 100, world().rank() == 0 ? 100 : 200);
}

TEST_CASE("misuse: one side has ended one group more" * doctest::skip()) {
  groups_between_two(world().rank(), 100, 100);
}
