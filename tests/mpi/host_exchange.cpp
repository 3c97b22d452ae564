#include "mpi/world.hpp"

namespace reshard::mpi_test {

const ExchangeUnderTest& exchange_under_test() {
  static const ExchangeUnderTest under_test;
  return under_test;
}

}  // namespace reshard::mpi_test
