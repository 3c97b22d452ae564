#include "reshard/pipeline/round_history.hpp"

#include <doctest/doctest.h>

using reshard::pipeline::RoundHistory;

using Entries = std::vector<std::vector<std::int64_t>>;

TEST_CASE("few rounds are kept one by one") {
  RoundHistory history(2);
  CHECK(history.entries().empty());
  history.add({1, 5});
  history.add({4, 2});
  CHECK(history.rounds() == 2);
  CHECK(history.rounds_per_entry() == 1);
  CHECK(history.entries() == Entries{{1, 5}, {4, 2}});
}

TEST_CASE("many rounds share entries, each the most of its rounds") {
  constexpr std::int64_t kRounds = 1000;
  RoundHistory history(2);
  for (std::int64_t round = 0; round < kRounds; ++round) history.add({round, round == 613 ? 5000 : kRounds - round});
  CHECK(history.rounds() == kRounds);
  REQUIRE(history.rounds_per_entry() == 4);
  REQUIRE(history.entries().size() == 250);
  for (std::int64_t entry = 0; entry < 250; ++entry) {
    const std::vector<std::int64_t>& held = history.entries()[static_cast<std::size_t>(entry)];
    CHECK(held[0] == 4 * entry + 3);
    CHECK(held[1] == (entry == 613 / 4 ? 5000 : kRounds - 4 * entry));
  }
}

TEST_CASE("a million processes take bounded memory") {
  RoundHistory history(std::size_t{1} << 20);
  for (std::int64_t round = 0; round < 5; ++round) history.add(std::vector<std::int64_t>(std::size_t{1} << 20, round));
  CHECK(history.entries().size() <= 2);
  CHECK(history.entries().back().front() == 4);
}
