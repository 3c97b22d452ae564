#include "reshard/layout/mesh.hpp"

#include <doctest/doctest.h>

#include "support/cut_text.hpp"

using namespace reshard;
using namespace reshard::layout;

TEST_CASE("a mesh has up to 2^31 ranks") {
  const Index half = Index{1} << 30;
  CHECK(Mesh({{"dp", half}, {"tp", 2}}).size() == 2 * half);
  CHECK(cut_text::refusal([&] {
          Mesh({{"dp", half}, {"tp", 3}});
        }) == "E_MESH_SIZE: the product of the axis sizes is beyond 2147483648");
}
