#include "reshard/exchange/device_assignment.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace reshard::exchange;

namespace {

DeviceAssignment assign(const std::vector<std::vector<DeviceId>>& visible) {
  return assign_devices(visible);
}

DeviceAssignment too_few(int processes, int devices) {
  return {{}, DeviceShortage{processes, devices}};
}

}  // namespace

TEST_CASE("where all see all, the n-th process takes the n-th GPU") {
  CHECK(assign({{"a", "b", "c"}, {"a", "b", "c"}, {"a", "b", "c"}}) == DeviceAssignment{{0, 1, 2}, {}});
  CHECK(assign({{"a", "b", "c"}, {"a", "b", "c"}}) == DeviceAssignment{{0, 1}, {}});
  CHECK(assign({{"a"}}) == DeviceAssignment{{0}, {}});
}

TEST_CASE("where each sees its own, each takes that") {
  CHECK(assign({{"c"}, {"a"}, {"b"}}) == DeviceAssignment{{0, 0, 0}, {}});
}

TEST_CASE("the order in which a process sees its GPUs is its own") {
  CHECK(assign({{"a", "b"}, {"b", "a"}, {"c", "b", "a"}}) == DeviceAssignment{{0, 0, 0}, {}});
  CHECK(assign({{"a", "b"}, {"a", "b"}, {"b", "a", "c"}}) == DeviceAssignment{{0, 1, 2}, {}});
}

TEST_CASE("on two nodes each process takes a GPU of its node") {
  CHECK(assign({{"a", "b"}, {"a", "b"}, {"c", "d"}, {"c", "d"}}) == DeviceAssignment{{0, 1, 0, 1}, {}});
  CHECK(assign({{"a", "b"}, {"c", "d"}, {"a", "b"}, {"c", "d"}}) == DeviceAssignment{{0, 0, 1, 1}, {}});
}

TEST_CASE("a lower process gives way where it sees another GPU") {
  CHECK(assign({{"a", "b"}, {"a"}}) == DeviceAssignment{{1, 0}, {}});
  CHECK(assign({{"a", "b"}, {"b", "c"}, {"a"}}) == DeviceAssignment{{1, 1, 0}, {}});
}

TEST_CASE("too few GPUs are told with those who share them") {
  CHECK(assign({{"a"}, {"a"}}) == too_few(2, 1));
  CHECK(assign({{"a", "b"}, {"a", "b"}, {"a", "b"}, {"a", "b"}, {"a", "b"}, {"a", "b"}}) == too_few(6, 2));
  // of two nodes the one that has too few
  CHECK(assign({{"a", "b"}, {"a", "b"}, {"c", "d"}, {"c", "d"}, {"c", "d"}}) == too_few(3, 2));
  CHECK(assign({{"a", "b", "c"}, {"a"}, {"a"}}) == too_few(2, 1));
}
