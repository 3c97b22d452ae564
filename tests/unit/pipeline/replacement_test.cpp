#include "reshard/pipeline/replacement.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <fstream>
#include <string>

#include "reshard/base/directory.hpp"
#include "reshard/base/error.hpp"
#include "reshard/pipeline/directory_lock.hpp"
#include "unit/pipeline/checkpoint_fixtures.hpp"

using namespace reshard;
using test::code_of;

namespace {

/// What renames have left: directories told apart by a file named as their content.
struct Place {
  test::TemporaryDirectory root;
  fs::path target = root.path() / "target";
  fs::path staged = root.path() / "target.partial";
  fs::path old = root.path() / "target.old";
  fs::path record = root.path() / "target.replacing";

  void put(const fs::path& directory, const std::string& content) const {
    fs::create_directory(directory);
    std::ofstream(directory / content) << "x";
  }
  void put_record_of(const fs::path& directory) const {
    const FileState state = state_of(directory);
    std::ofstream(record) << fmt::format("reshard replaces 1 {} {}\n", state.inode, state.modified_ns);
  }
  std::string settle() const {
    return code_of([&] { pipeline::settle(target, staged); });
  }
  bool has(const fs::path& directory, const std::string& content) const { return fs::exists(directory / content); }
};

}  // namespace

TEST_CASE("an old target that was moved away is put back while the new one is not in place") {
  const Place place;
  place.put(place.old, "old");
  place.put(place.staged, "new");
  place.put_record_of(place.old);
  CHECK(pipeline::replaced_by_renames(place.target) == place.old);
  CHECK(pipeline::moved_away_text(place.target).find(place.old.string()) != std::string::npos);
  CHECK(place.settle() == "accepted");
  CHECK(place.has(place.target, "old"));
  CHECK(place.has(place.staged, "new"));
  CHECK_FALSE(fs::exists(place.old));
  CHECK_FALSE(fs::exists(place.record));
  CHECK(pipeline::moved_away_text(place.target).empty());
}

TEST_CASE("behind the new target the old one is where an exchange leaves it") {
  const Place place;
  place.put(place.target, "new");
  place.put(place.old, "old");
  place.put_record_of(place.old);
  CHECK(place.settle() == "accepted");
  CHECK(place.has(place.target, "new"));
  CHECK(place.has(place.staged, "old"));
  CHECK_FALSE(fs::exists(place.old));
  CHECK_FALSE(fs::exists(place.record));
}

TEST_CASE("a record of what was not moved, or is gone, goes") {
  const Place place;
  place.put(place.target, "old");
  place.put_record_of(place.target);
  place.put(place.old, "somebody's");
  CHECK(place.settle() == "accepted");
  CHECK(place.has(place.old, "somebody's"));
  CHECK(place.has(place.target, "old"));
  CHECK_FALSE(fs::exists(place.record));

  place.put_record_of(place.target);
  fs::remove_all(place.target);
  fs::remove_all(place.old);
  CHECK(place.settle() == "accepted");
  CHECK_FALSE(fs::exists(place.record));
}

TEST_CASE("without a record, or where it tells of another directory, nothing is touched") {
  const Place place;
  place.put(place.target, "new");
  place.put(place.old, "somebody's");
  CHECK(place.settle() == "accepted");
  std::ofstream(place.record) << "mine";
  CHECK(place.settle() == "accepted");
  CHECK(fs::exists(place.record));
  CHECK(pipeline::replaced_by_renames(place.target).empty());
  std::ofstream(place.record) << "reshard replaces 1 " << std::string(1000, '1');
  CHECK(place.settle() == "accepted");
  CHECK(fs::exists(place.record));
  place.put_record_of(place.staged.parent_path());
  CHECK(place.settle() == "E_EXISTS");
  CHECK(pipeline::replaced_by_renames(place.target).empty());
  CHECK(place.has(place.old, "somebody's"));
  CHECK(place.has(place.target, "new"));
  CHECK(fs::exists(place.record));
}

TEST_CASE("a link at the place of the old target is somebody's, wherever it leads") {
  const Place place;
  const fs::path elsewhere = place.root.path() / "elsewhere";
  place.put(elsewhere, "old");
  place.put_record_of(elsewhere);
  for (const fs::path& end : {elsewhere, place.root.path() / "nowhere"}) {
    fs::create_directory_symlink(end, place.old);
    CHECK(place.settle() == "E_EXISTS");
    CHECK(fs::is_symlink(place.old));
    CHECK_FALSE(fs::exists(place.target));
    CHECK(fs::exists(place.record));
    fs::remove(place.old);
  }
  CHECK(place.has(elsewhere, "old"));
}

TEST_CASE("a run that is at it is left alone, wherever its new target is") {
  const Place place;
  place.put(place.old, "old");
  place.put_record_of(place.old);
  for (const fs::path& newer : {place.staged, place.target}) {
    place.put(newer, "new");
    const pipeline::DirectoryLock lock(newer, LOCK_SH);
    CHECK(place.settle() == "E_EXISTS");
    CHECK(place.has(place.old, "old"));
    CHECK(fs::exists(place.record));
    fs::remove_all(newer);
  }
}
