#include "reshard/pipeline/staging.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "reshard/base/error.hpp"
#include "unit/pipeline/checkpoint_fixtures.hpp"

using namespace reshard;
using pipeline::Staging;
using test::code_of;

namespace {

void put(const fs::path& path, const std::string& text = "x") {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

/// A folder with a source in it.
struct Place {
  test::TemporaryDirectory root;
  fs::path source = root.path() / "source";
  fs::path target = root.path() / "target";
  fs::path partial = root.path() / "target.partial";

  Place() { put(source / "model.safetensors"); }

  std::string refusal(const fs::path& other_source, const fs::path& other_target, bool overwrite = false) const {
    return code_of([&] { Staging(other_source, other_target, overwrite); });
  }
  std::string create(bool overwrite) const {
    return code_of([&] { Staging(source, target, overwrite).create({"f"}); });
  }
  /// A whole run: its one file holds `text`.
  void publish(const std::string& text, bool overwrite) const {
    Staging staging(source, target, overwrite);
    staging.create({"f"});
    put(staging.directory() / "f", text);
    put(staging.directory() / pipeline::kManifestName);
    staging.publish();
  }
  std::string content() const {
    std::string out;
    std::ifstream(target / "f") >> out;
    return out;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const fs::directory_entry& entry : fs::directory_iterator(root.path()))
      out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
};

}  // namespace

TEST_CASE("source and target are not the same place, nor one inside the other") {
  const Place place;
  CHECK(place.refusal(place.source, place.target) == "accepted");
  CHECK(place.refusal(place.source, place.source, true) == "E_USAGE");
  CHECK(place.refusal(place.source, place.source / "", true) == "E_USAGE");
  CHECK(place.refusal(place.source, place.source / "target") == "E_USAGE");
  CHECK(place.refusal(place.source, place.root.path(), true) == "E_USAGE");
  CHECK(place.refusal(place.source, place.source / ".." / "source", true) == "E_USAGE");
  CHECK(place.refusal(place.source / "model.safetensors", place.source, true) == "E_USAGE");
  CHECK(place.refusal(place.source, place.root.path() / "source2") == "accepted");  // a longer name is another place
}

TEST_CASE("links hide no overlap") {
  const Place place;
  fs::create_directory_symlink(place.source, place.root.path() / "link");
  CHECK(place.refusal(place.root.path() / "link", place.source, true) == "E_USAGE");
  CHECK(place.refusal(place.source, place.root.path() / "link", true) == "E_USAGE");
  CHECK(place.refusal(place.source, place.root.path() / "link" / "target") == "E_USAGE");
  fs::create_symlink(place.root.path() / "nowhere", place.root.path() / "dangling");
  CHECK(place.refusal(place.source, place.root.path() / "dangling") == "E_USAGE");
}

TEST_CASE("a target is a place that can be written") {
  const Place place;
  CHECK(place.refusal(place.source, "") == "E_USAGE");
  CHECK(place.refusal(place.source, "/") == "E_USAGE");
  CHECK(place.refusal(place.source, place.root.path() / "no" / "target") == "E_USAGE");
  put(place.root.path() / "file");
  CHECK(place.refusal(place.source, place.root.path() / "file", true) == "E_EXISTS");
  CHECK(place.refusal(place.source, place.root.path() / "file" / "target") == "E_USAGE");
}

TEST_CASE("the source may not lie in the staging directory that a run would discard") {
  const Place place;
  put(place.partial / "model.safetensors");
  CHECK(place.refusal(place.partial, place.target, true) == "E_USAGE");
}

TEST_CASE("an existing target needs --overwrite unless it is empty") {
  const Place place;
  fs::create_directory(place.target);
  CHECK(place.refusal(place.source, place.target) == "accepted");
  put(place.target / "old");
  CHECK(place.refusal(place.source, place.target) == "E_EXISTS");
  CHECK(place.refusal(place.source, place.target, true) == "accepted");
  CHECK(place.names() == std::vector<std::string>{"source", "target"});  // nothing is changed
}

TEST_CASE("a published target is complete, and nothing stays beside it") {
  const Place place;
  SUBCASE("where there was none") {
    place.publish("new", false);
  }
  SUBCASE("where there was an empty directory") {
    fs::create_directory(place.target);
    place.publish("new", false);
  }
  SUBCASE("in place of an old one, of which no file survives") {
    put(place.target / "old");
    put(place.target / "f", "old");
    place.publish("new", true);
  }
  CHECK(place.content() == "new");
  CHECK_FALSE(fs::exists(place.target / "old"));
  CHECK(place.names() == std::vector<std::string>{"source", "target"});
}

TEST_CASE("the old target is whole until the new one is complete") {
  const Place place;
  place.publish("old", false);
  {
    Staging staging(place.source, place.target, true);
    staging.create({"f"});
    put(staging.directory() / "f", "new");
    CHECK(place.content() == "old");
  }
  CHECK(place.content() == "old");
  CHECK(place.names() == std::vector<std::string>{"source", "target", "target.partial"});
}

TEST_CASE("folders of files are made in the staging directory") {
  const Place place;
  Staging staging(place.source, place.target, false);
  staging.create({"a/b/one", "a/two", "three"});
  CHECK(fs::is_directory(staging.directory() / "a" / "b"));
  staging.publish();
  CHECK(fs::is_directory(place.target / "a" / "b"));
}

TEST_CASE("what a run that did not finish has left is refused, and discarded with --overwrite") {
  const Place place;
  put(place.partial / "half");
  CHECK(place.create(false) == "E_EXISTS");
  CHECK(fs::exists(place.partial / "half"));
  CHECK(place.create(true) == "accepted");
  CHECK_FALSE(fs::exists(place.partial / "half"));
}

TEST_CASE("an old target that a kill has left during the exchange is removed by the next run") {
  const Place place;
  place.publish("new", false);
  put(place.partial / pipeline::kManifestName);
  put(place.partial / "f", "old");
  SUBCASE("a run that replaces the target") {
    place.publish("newer", true);
  }
  SUBCASE("beside a target that is not complete it is what a run has left") {
    fs::remove(place.target / pipeline::kManifestName);
    fs::remove(place.target / "f");
    CHECK(place.create(false) == "E_EXISTS");
    return;
  }
  CHECK(place.content() == "newer");
  CHECK(place.names() == std::vector<std::string>{"source", "target"});
}

TEST_CASE("something else of that name is left alone") {
  const Place place;
  SUBCASE("a file") {
    put(place.partial);
  }
  SUBCASE("a link") {
    fs::create_directory_symlink(place.source, place.partial);
  }
  CHECK(place.create(true) == "E_EXISTS");
  CHECK(fs::exists(place.partial));
  CHECK(fs::exists(place.source / "model.safetensors"));
}

TEST_CASE("a second run of the same target is refused while the first lives, and its staging is not touched") {
  const Place place;
  int ready[2] = {};
  REQUIRE(::pipe(ready) == 0);
  const pid_t other = ::fork();
  if (other == 0) {
    // The first run, in a process of its own, until it is killed.
    Staging staging(place.source, place.target, false);
    staging.create({"f"});
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  put(place.partial / "f", "first");
  CHECK(place.create(false) == "E_EXISTS");
  CHECK(place.create(true) == "E_EXISTS");
  CHECK(fs::exists(place.partial / "f"));

  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  CHECK(place.create(false) == "E_EXISTS");  // left behind, no longer in use
  CHECK(place.create(true) == "accepted");
}
