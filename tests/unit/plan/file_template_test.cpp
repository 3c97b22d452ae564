#include "reshard/plan/file_template.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "reshard/base/error.hpp"

using namespace reshard;
using namespace reshard::plan;

namespace {

const std::vector<std::string> kAxes = {"pp", "tp"};

std::string refusal(std::string_view text) {
  try {
    const FileTemplate checked(text, kAxes);
  } catch (const Error& error) {
    return std::string(code_name(error.issues().front().code)) + " " + error.issues().front().message;
  }
  return "read";
}

}  // namespace

TEST_CASE("a template gives the file of a rank") {
  const FileTemplate files("pp{pp}/mp_rank_{tp:02}-{rank:05}.h5", kAxes);
  CHECK(files.fields() == std::vector<std::string>{"pp", "tp", "rank"});
  CHECK(files.expand({{"pp", 1}, {"tp", 7}, {"rank", 15}}) == "pp1/mp_rank_07-00015.h5");
  CHECK(files.expand({{"pp", 10}, {"tp", 123}, {"rank", 1234567}}) == "pp10/mp_rank_123-1234567.h5");
  CHECK(FileTemplate("model.h5", kAxes).expand({}) == "model.h5");
}

TEST_CASE("a file name gives the fields back, exactly where the template would write it") {
  const FileTemplate files("r{rank:03}_{tp}.h5", kAxes);
  CHECK(files.match("r007_12.h5") == FileFields{{"rank", 7}, {"tp", 12}});
  CHECK(files.match("r1000_0.h5") == FileFields{{"rank", 1000}, {"tp", 0}});
  for (const std::string name : {"r07_1.h5", "r0007_1.h5", "r007_01.h5", "r007_1.h5x", "xr007_1.h5", "r007_.h5",
                                 "r007_-1.h5", "r007_1ah5", "r99999999999999999999_1.h5", ""}) {
    CAPTURE(name);
    CHECK(files.match(name) == std::nullopt);
  }
  const FileTemplate twice("{tp}/{tp}.h5", kAxes);
  CHECK(twice.match("3/3.h5") == FileFields{{"tp", 3}});
  CHECK(twice.match("3/4.h5") == std::nullopt);
  CHECK(FileTemplate("a+b(1).h5", kAxes).match("a+b(1).h5") == FileFields{});
}

TEST_CASE("a bad template is refused with what is legal") {
  CHECK(refusal("rank-{rnk}.h5") ==
        "E_SCHEMA template 'rank-{rnk}.h5': unknown field 'rnk' (did you mean 'rank'?); legal fields: rank, pp, tp");
  CHECK(refusal("/abs/{rank}") ==
        "E_SCHEMA template '/abs/{rank}': an absolute path; it is relative to the directory of the side");
  CHECK(refusal("a/../{rank}").find("path component '..'") != std::string::npos);
  CHECK(refusal("..").find("path component '..'") != std::string::npos);
  CHECK(refusal("./{rank}").find("path component '.'") != std::string::npos);
  CHECK(refusal("a//b").find("empty path component") != std::string::npos);
  CHECK(refusal("a/").find("empty path component") != std::string::npos);
  CHECK(refusal("").find("is empty") != std::string::npos);
  CHECK(refusal(std::string(256, 'x')).find("a path component of 256 bytes") != std::string::npos);
  CHECK(refusal("a/" + std::string(300, 'x') + "/b.h5").find("a path component of 300 bytes") != std::string::npos);
  CHECK(refusal("a\nb").find("control character") != std::string::npos);
  for (const std::string text : {"{rank", "rank}", "{{rank}}", "{}", "{rank:5}", "{rank:}", "{rank:00}", "{rank:0x}",
                                 "{rank:020}", "{rank:d}", "{TP}"}) {
    CAPTURE(text);
    CHECK(refusal(text).find("E_SCHEMA") == 0);
  }
}
