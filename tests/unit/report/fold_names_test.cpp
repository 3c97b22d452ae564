#include "reshard/report/fold_names.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using reshard::report::fold_names;
using reshard::report::FoldedNames;

namespace {

std::vector<FoldedNames> folded(const std::vector<std::string>& names) {
  return fold_names(names, std::vector<std::size_t>(names.size(), 0));
}

std::vector<std::string> patterns(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const FoldedNames& f : folded(names)) out.push_back(f.pattern);
  return out;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("numbers that count through a range are folded, names without any stay") {
  CHECK(folded({"layers.0.w", "layers.1.w", "norm", "layers.2.w"}) ==
        std::vector<FoldedNames>{{"layers.{0..2}.w", {0, 1, 3}, {"layers.", ".w"}, {{0, 1, 2}}},
                                 {"norm", {2}, {"norm"}, {}}});
}

TEST_CASE("every number of a name may count") {
  Texts names;
  for (const char* layer : {"0", "1", "2"})
    for (const char* expert : {"0", "1", "2", "3"})
      for (const char* weight : {"1", "3"})
        names.push_back(std::string("layers.") + layer + ".experts." + expert + ".w" + weight + ".weight");
  CHECK(patterns(names) == Texts{"layers.{0..2}.experts.{0..3}.w{1,3}.weight"});
}

TEST_CASE("a pattern stands for exactly its names") {
  CHECK(patterns({"a.0.b.0", "a.0.b.1", "a.1.b.0"}) == Texts{"a.0.b.{0,1}", "a.1.b.0"});
}

TEST_CASE("gaps and strides are told") {
  CHECK(patterns({"l.0", "l.1", "l.4", "l.9", "l.10", "l.11"}) == Texts{"l.{0,1,4,9..11}"});
  CHECK(patterns({"l.3", "l.7", "l.11"}) == Texts{"l.{3..11..4}"});
}

TEST_CASE("numbers with leading zeros and very long ones are text") {
  CHECK(patterns({"part-01", "part-02"}) == Texts{"part-01", "part-02"});
  CHECK(patterns({"h.1234567890123456", "h.1234567890123457"}) == Texts{"h.1234567890123456", "h.1234567890123457"});
}

TEST_CASE("names of different groups are not folded together") {
  const Texts names = {"l.0", "l.1", "l.2", "l.3"};
  const std::vector<std::size_t> groups = {0, 1, 0, 1};
  CHECK(fold_names(names, groups) ==
        std::vector<FoldedNames>{{"l.{0,2}", {0, 2}, {"l.", ""}, {{0, 2}}}, {"l.{1,3}", {1, 3}, {"l.", ""}, {{1, 3}}}});
}

TEST_CASE("groups are numbered in order of first use") {
  CHECK(reshard::report::group_numbers(Texts{"b", "a", "b"}) == std::vector<std::size_t>{0, 1, 0});
}

TEST_CASE("numbers are few runs") {
  using reshard::report::number_runs;
  using Runs = std::vector<reshard::report::NumberRun>;
  CHECK(number_runs({}) == Runs{});
  CHECK(number_runs({7}) == Runs{{7, 7, 1}});
  CHECK(number_runs({0, 1, 2, 3}) == Runs{{0, 3, 1}});
  CHECK(number_runs({0, 8, 16, 24}) == Runs{{0, 24, 8}});
  CHECK(number_runs({0, 1, 8, 9, 16, 17}) == Runs{{0, 1, 1}, {8, 9, 1}, {16, 17, 1}});
  CHECK(number_runs({3, 9}) == Runs{{3, 3, 1}, {9, 9, 1}});
}
