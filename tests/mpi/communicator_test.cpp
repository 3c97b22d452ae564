#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "mpi/world.hpp"

using namespace reshard;
using exchange::Message;
using mpi_test::is_same_everywhere;
using mpi_test::outcome;
using mpi_test::world;

namespace {

/// What process `from` sends to process `to`: its length and its bytes say both.
std::vector<std::byte> letter(int from, int to, std::size_t length) {
  std::vector<std::byte> out(length);
  for (std::size_t i = 0; i < length; ++i)
    out[i] = static_cast<std::byte>((static_cast<std::size_t>(from) * 31 + static_cast<std::size_t>(to) * 7 + i * 13) >>
                                    (i % 3));
  return out;
}

/// Sends letters where `length(from, to)` is not negative, and checks all that come.
template <typename Length>
void exchange_letters(Length length) {
  std::vector<std::vector<std::byte>> outgoing;
  std::vector<std::vector<std::byte>> incoming;
  std::vector<std::vector<std::byte>> expected;
  std::vector<Message> sends;
  std::vector<Message> receives;
  const int me = world().rank();
  for (int peer = 0; peer < world().size(); ++peer) {
    if (peer == me) continue;
    if (const std::int64_t bytes = length(me, peer); bytes >= 0) {
      outgoing.push_back(letter(me, peer, static_cast<std::size_t>(bytes)));
      sends.push_back({peer, outgoing.back()});
    }
    if (const std::int64_t bytes = length(peer, me); bytes >= 0) {
      expected.push_back(letter(peer, me, static_cast<std::size_t>(bytes)));
      incoming.emplace_back(static_cast<std::size_t>(bytes));
      receives.push_back({peer, incoming.back()});
    }
  }
  world().exchange(sends, receives);
  const bool same = incoming == expected;
  CHECK(same);
}

}  // namespace

TEST_CASE("a broadcast brings the bytes of process 0 to all, none of them too") {
  const bool first = world().rank() == 0;
  CHECK(world().broadcast(first ? "abc" : "what others bring is ignored") == "abc");
  CHECK(world().broadcast(first ? "" : "xyz") == "");
  CHECK(world().broadcast(first ? std::string(3 << 20, 'q') : "") == std::string(3 << 20, 'q'));
}

TEST_CASE("a gather brings bytes of different lengths, by rank") {
  std::vector<std::string> expected;
  for (int rank = 0; rank < world().size(); ++rank)
    expected.push_back(std::string(static_cast<std::size_t>(rank * rank * 1000), static_cast<char>('a' + rank)));
  CHECK(world().all_gather(expected[static_cast<std::size_t>(world().rank())]) == expected);
}

TEST_CASE("sums and exclusive ors are taken element by element") {
  const int size = world().size();
  std::vector<std::int64_t> numbers = {1, world().rank(), std::int64_t{1} << 40};
  world().all_sum(numbers);
  CHECK(numbers == std::vector<std::int64_t>{size, size * (size - 1) / 2, size * (std::int64_t{1} << 40)});

  std::vector<std::uint64_t> bits = {std::uint64_t{1} << world().rank(), 0xffff};
  world().all_xor(bits);
  CHECK(bits == std::vector<std::uint64_t>{(std::uint64_t{1} << size) - 1, size % 2 == 0 ? 0U : 0xffffU});

  std::vector<std::int64_t> none;
  world().all_sum(none);
  CHECK(none.empty());
}

TEST_CASE("messages arrive whole in every pattern of senders and receivers") {
  SUBCASE("nobody sends") {
    exchange_letters([](int, int) { return -1; });
  }
  SUBCASE("everyone to everyone, of different lengths") {
    exchange_letters([](int from, int to) { return 100 * from + to; });
  }
  SUBCASE("empty messages") {
    exchange_letters([](int, int) { return 0; });
  }
  SUBCASE("one to all") {
    exchange_letters([](int from, int) { return from == 0 ? 5000 : -1; });
  }
  SUBCASE("all to one") {
    exchange_letters([](int, int to) { return to == 0 ? 5000 : -1; });
  }
  SUBCASE("round the ring") {
    exchange_letters([](int from, int to) { return to == (from + 1) % world().size() ? 777 : -1; });
  }
  SUBCASE("larger than what a library sends at once") {
    exchange_letters([](int from, int to) { return (from + to) % 2 == 0 ? (1 << 20) + 3 : (5 << 20) + from; });
  }
}

TEST_CASE("rounds follow each other without mixing") {
  for (int round = 0; round < 50; ++round)
    exchange_letters([&](int from, int to) { return (from * 7 + to * 3 + round) % 4 == 0 ? -1 : 10 * round + from; });
}

TEST_CASE("an alarm reaches all others without waiting, and is gone after the next agreement") {
  CHECK_FALSE(world().alarm_raised());
  world().barrier();
  const bool last = world().rank() == world().size() - 1;
  if (last) world().raise_alarm();
  for (int i = 0; i < 5000 && !world().alarm_raised(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(world().alarm_raised());
  world().clear_alarms();
  CHECK_FALSE(world().alarm_raised());
}

TEST_CASE("an agreement without errors lets all go on") {
  for (int i = 0; i < 10; ++i) CHECK(outcome([] { exchange::agree(world(), nullptr); }) == "done");
}

TEST_CASE("the error of one process is everyone's") {
  for (int failing = 0; failing < world().size(); ++failing) {
    const std::string found = outcome([&] {
      exchange::agreed(world(), [&] {
        if (world().rank() == failing) throw Error(Issue{ErrorCode::kIo, "file", "tensor", "no luck"});
      });
    });
    const std::string where =
        world().size() == 1 ? "" : fmt::format(" (seen by process {} of {})", failing, world().size());
    CHECK(found == "E_IO exit 5: no luck" + where);
    CHECK_FALSE(world().alarm_raised());
    CHECK(outcome([] { exchange::agree(world(), nullptr); }) == "done");
  }
}

TEST_CASE("what others find wrong with the bytes of a process that failed does not hide why it failed") {
  const int last = world().size() - 1;
  const std::string found = outcome([&] {
    exchange::agreed(world(), [&] {
      if (world().rank() == last) throw Error(Issue{ErrorCode::kIo, "file", kNoTensor, "read"});
      throw Error(Issue{ErrorCode::kDigest, "", "w", "differs"});
    });
  });
  CHECK(is_same_everywhere(found));
  CHECK(found.starts_with("E_IO exit 5: read"));
}

TEST_CASE("the same error of all is told once, different ones are all told with the exit code of the lowest process") {
  std::vector<Issue> issues;
  const auto collect = [&](const Error& mine) {
    issues.clear();
    try {
      exchange::agree(world(), &mine);
    } catch (const Error& error) {
      issues = error.issues();
      return static_cast<int>(error.exit());
    }
    return 0;
  };
  CHECK(collect(Error(Issue{ErrorCode::kMissing, "source", kNoTensor, "gone: 1:2:3"})) == 4);
  CHECK(issues == std::vector<Issue>{{ErrorCode::kMissing, "source", kNoTensor, "gone: 1:2:3"}});

  const bool first = world().rank() == 0;
  CHECK(collect(Error(Issue{first ? ErrorCode::kMemory : ErrorCode::kIo, "", kNoTensor,
                            fmt::format("process {}", world().rank())})) == 7);
  std::vector<Issue> expected;
  for (int rank = 0; rank < world().size(); ++rank)
    expected.push_back(
        {rank == 0 ? ErrorCode::kMemory : ErrorCode::kIo, "", kNoTensor, fmt::format("process {}", rank)});
  CHECK(issues == expected);
}
