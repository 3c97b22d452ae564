#include "reshard/pipeline/staging.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/pipeline/manifest_reader.hpp"
#include "unit/pipeline/checkpoint_fixtures.hpp"

using namespace reshard;
using pipeline::Staging;
using pipeline::StagingOptions;
using pipeline::Start;
using test::code_of;

namespace {

constexpr const char* kDigest = "00000000000000aa";
constexpr const char* kOther = "00000000000000bb";

/// The least manifest that names a plan digest and files by name and size.
std::string manifest(const std::string& plan_digest, const std::map<std::string, std::size_t>& files) {
  std::string list;
  for (const auto& [name, bytes] : files)
    list += (list.empty() ? "\"" : ", \"") + name + R"(": {"bytes": )" + std::to_string(bytes) +
            R"(, "digest": "0000000000000000"})";
  return R"({"schema": "reshard.manifest", "version": 1, "tool": "t", "plan_digest": ")" + plan_digest +
         R"(", "format": "safetensors", "axes": [], "ranks": null, "views": {}, "files": "f", "placements": [],
           "tensors": {}, "file_list": {)" +
         list + "}}";
}

void put(const fs::path& path, const std::string& text = "x") {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

/// With what its manifest lists.
void put_in_place(Staging& staging) {
  staging.publish(pipeline::read_manifest(staging.directory() / pipeline::kManifestName).file_list);
}

/// A folder with a source in it.
struct Place {
  test::TemporaryDirectory root;
  fs::path source = root.path() / "source";
  fs::path target = root.path() / "target";
  fs::path partial = root.path() / "target.partial";

  Place() { put(source / "model.safetensors"); }

  std::string refusal(const fs::path& other_source, const fs::path& other_target, bool overwrite = false) const {
    return code_of([&] { Staging(other_source, other_target, {overwrite}); });
  }
  std::string create(bool overwrite) const {
    return code_of([&] {
      Staging staging(source, target, {overwrite});
      staging.claim(kDigest);
      staging.create(kDigest, {"f"}, {});
    });
  }
  /// Where a run of the plan kDigest begins, in a word; the code where it is refused.
  std::string claim(StagingOptions options) const {
    Start start = Start::kNothing;
    const std::string code = code_of([&] { start = Staging(source, target, options).claim(kDigest); });
    if (code != "accepted") return code;
    switch (start) {
      case Start::kNothing:
        return "nothing";
      case Start::kContinue:
        return "continue";
      case Start::kPublish:
        return "publish";
      case Start::kFinished:
        return "finished";
    }
    return "";
  }
  /// A whole run: its one file holds `text`.
  void publish(const std::string& text, bool overwrite) const {
    Staging staging(source, target, {overwrite});
    staging.claim(kDigest);
    staging.create(kDigest, {"f"}, {});
    put(staging.directory() / "f", text);
    pipeline::write_manifest(staging.directory(), manifest(kDigest, {{"f", text.size()}}));
    put_in_place(staging);
  }
  /// A directory as a run leaves it, with a manifest where it was finished.
  static void leave(const fs::path& directory, const char* journal, const char* finished, const std::string& text) {
    put(directory / "f", text);
    if (journal != nullptr) put(directory / "journal", std::string("reshard journal 1 ") + journal + "\n");
    if (finished != nullptr) put(directory / pipeline::kManifestName, manifest(finished, {{"f", text.size()}}));
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
    Staging staging(place.source, place.target, {true});
    staging.claim(kDigest);
    staging.create(kDigest, {"f"}, {});
    put(staging.directory() / "f", "new");
    CHECK(place.content() == "old");
  }
  CHECK(place.content() == "old");
  CHECK(place.names() == std::vector<std::string>{"source", "target", "target.partial"});
}

TEST_CASE("folders of files are made in the staging directory") {
  const Place place;
  Staging staging(place.source, place.target, {});
  staging.claim(kDigest);
  staging.create(kDigest, {"a/b/one", "a/two", "three"}, {});
  CHECK(fs::is_directory(staging.directory() / "a" / "b"));
  for (const char* name : {"a/b/one", "a/two", "three"}) put(staging.directory() / name);
  pipeline::write_manifest(staging.directory(), manifest(kDigest, {{"a/b/one", 1}, {"a/two", 1}, {"three", 1}}));
  put_in_place(staging);
  CHECK(fs::is_regular_file(place.target / "a" / "b" / "one"));
}

TEST_CASE("what is put in place is what the manifest lists, no more and no less") {
  const Place place;
  const auto published = [&](StagingOptions options) {
    return code_of([&] {
      Staging staging(place.source, place.target, options);
      if (staging.claim(kDigest) == Start::kPublish) return put_in_place(staging);
      staging.create(kDigest, {"a/f"}, {});
      put(staging.directory() / "a" / "f");
      put(staging.directory() / "a" / "stray");
      fs::create_directory_symlink(place.source, staging.directory() / "link");
      pipeline::write_manifest(staging.directory(), manifest(kDigest, {{"a/f", 1}}));
      put_in_place(staging);
    });
  };
  CHECK(published({}) == "E_EXISTS");
  CHECK_FALSE(fs::exists(place.target));
  CHECK(published({false, true}) == "E_EXISTS");
  CHECK(fs::exists(place.partial / "a" / "stray"));
  fs::remove(place.partial / "a" / "stray");
  CHECK(published({false, true}) == "E_EXISTS");
  fs::remove(place.partial / "link");
  put(place.partial / "a" / "f", "more");
  CHECK(published({false, true}) == "E_MISSING");
  fs::remove(place.partial / "a" / "f");
  CHECK(published({false, true}) == "E_MISSING");
  put(place.partial / "a" / "f");
  CHECK(published({false, true}) == "accepted");
  CHECK(place.names() == std::vector<std::string>{"source", "target"});
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
  Place::leave(place.partial, nullptr, kOther, "old");
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

TEST_CASE("what becomes of a target and of TARGET.partial") {
  struct Case {
    const char* what;
    const char* staged_journal;  ///< plan digest; null where there is none
    const char* staged_manifest;
    const char* target_manifest;  ///< null: no target
    const char* neither;
    const char* resume;
    const char* overwrite;
    const char* both;
  };
  constexpr const char* kRefused = "E_EXISTS";
  const std::vector<Case> cases = {
      {"unfinished, of this plan", kDigest, nullptr, nullptr, kRefused, "continue", "nothing", "continue"},
      {"unfinished, of another plan", kOther, nullptr, nullptr, kRefused, kRefused, "nothing", kRefused},
      {"files and no journal", nullptr, nullptr, nullptr, kRefused, kRefused, "nothing", kRefused},
      {"files and no journal beside a target of this plan", nullptr, nullptr, kDigest, kRefused, "finished", "nothing",
       kRefused},
      {"finished, not in place", kDigest, kDigest, nullptr, kRefused, "publish", "nothing", "publish"},
      {"finished, not in place, journals removed", nullptr, kDigest, nullptr, kRefused, "publish", "nothing",
       "publish"},
      {"finished, of another plan", nullptr, kOther, nullptr, kRefused, kRefused, "nothing", kRefused},
      {"unfinished beside a target of this plan", kDigest, nullptr, kDigest, kRefused, "finished", "nothing",
       "continue"},
      {"unfinished beside another target", kDigest, nullptr, kOther, kRefused, kRefused, "nothing", "continue"},
      {"finished beside another target", nullptr, kDigest, kOther, kRefused, kRefused, "nothing", "publish"},
      {"the old one beside the new one", nullptr, kOther, kDigest, kRefused, "finished", "nothing", "finished"},
      {"an old one beside another target", nullptr, kOther, kOther, kRefused, kRefused, "nothing", "nothing"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const auto found = [&](StagingOptions options) {
      const Place place;
      Place::leave(place.partial, c.staged_journal, c.staged_manifest, "staged");
      if (c.target_manifest != nullptr) Place::leave(place.target, nullptr, c.target_manifest, "target");
      const std::string out = place.claim(options);
      if (c.target_manifest != nullptr) CHECK(place.content() == "target");
      return out;
    };
    CHECK(found({false, false}) == c.neither);
    CHECK(found({false, true}) == c.resume);
    CHECK(found({true, false}) == c.overwrite);
    CHECK(found({true, true}) == c.both);
  }
}

TEST_CASE("a run that ended before its journal was there is begun again, what somebody else has put there is left") {
  const auto resumed = [](auto&& leave) {
    const Place place;
    fs::create_directories(place.partial / "a" / "b");
    leave(place.partial);
    return place.claim({false, true});
  };
  CHECK(resumed([](const fs::path&) {}) == "nothing");
  CHECK(resumed([](const fs::path& at) { put(at / "journal.new", "resh"); }) == "nothing");
  CHECK(resumed([](const fs::path& at) { put(at / "journal.1", ""); }) == "nothing");
  CHECK(resumed([](const fs::path& at) { put(at / "a" / "b" / "f"); }) == "E_EXISTS");
  CHECK(resumed([](const fs::path& at) { put(at / "journal", "dear diary"); }) == "E_EXISTS");
  CHECK(resumed([](const fs::path& at) { put(at / "journal.d" / "f"); }) == "E_EXISTS");
  CHECK(resumed([](const fs::path& at) { fs::create_symlink("/dev/null", at / "journal.1"); }) == "E_EXISTS");
}

TEST_CASE("what is discarded can be resumed from then on") {
  const Place place;
  Place::leave(place.partial, kOther, kOther, "staged");
  put(place.partial / "journal.1");
  put(place.partial / "journal.d" / "f");
  {
    Staging staging(place.source, place.target, {true, false});
    CHECK(staging.claim(kDigest) == Start::kNothing);
    staging.create(kDigest, {"f"}, {});
  }
  std::vector<std::string> left;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(place.partial))
    left.push_back(entry.path().lexically_relative(place.partial).string());
  CHECK(left == std::vector<std::string>{"journal"});
  put(place.partial / "f");
  CHECK(place.claim({false, true}) == "continue");
}

TEST_CASE("a target alone: finished of this plan it stays as it is, any other is in the way") {
  const auto found = [](const char* finished, StagingOptions options) {
    const Place place;
    Place::leave(place.target, nullptr, finished, "target");
    return place.claim(options);
  };
  CHECK(found(kDigest, {false, true}) == "finished");
  CHECK(found(kDigest, {true, true}) == "finished");
  CHECK(found(kDigest, {true, false}) == "nothing");
  CHECK(found(kOther, {false, true}) == "E_EXISTS");
  CHECK(found(kOther, {true, true}) == "nothing");
  CHECK(found(nullptr, {false, true}) == "E_EXISTS");
  CHECK(found(nullptr, {true, true}) == "nothing");
  const Place nothing;
  CHECK(nothing.claim({false, true}) == "nothing");
}

TEST_CASE("of two finished directories of one plan the one that was finished last is the new one") {
  const auto written = [](const fs::path& directory, int hour) {
    fs::last_write_time(directory / pipeline::kManifestName, fs::file_time_type(std::chrono::hours(hour)));
  };
  for (const bool staged_is_new : {false, true}) {
    const Place place;
    Place::leave(place.partial, nullptr, kDigest, "staged");
    Place::leave(place.target, nullptr, kDigest, "target");
    written(place.partial, staged_is_new ? 3 : 1);
    written(place.target, 2);
    CHECK(place.claim({true, true}) == (staged_is_new ? "publish" : "finished"));
    CHECK(place.content() == "target");
    CHECK(fs::exists(place.partial) == staged_is_new);
  }
}

TEST_CASE("a staging directory that is continued holds the run's files and journals alone") {
  const Place place;
  Place::leave(place.partial, kDigest, nullptr, "first");
  put(place.partial / "journal.1", "x");
  put(place.partial / "config.json");
  put(place.partial / "a" / "g");
  fs::create_symlink(place.source / "model.safetensors", place.partial / "h");
  {
    Staging staging(place.source, place.target, {false, true});
    CHECK(staging.claim(kDigest) == Start::kContinue);
    staging.create(kDigest, {"f", "a/g", "h"}, {"config.json"});
    std::vector<std::string> left;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(place.partial))
      left.push_back(entry.path().lexically_relative(place.partial).string());
    std::sort(left.begin(), left.end());
    CHECK(left == std::vector<std::string>{"a", "a/g", "f", "journal", "journal.1"});
    put(place.partial / "a" / "g");
    put(place.partial / "h");
    pipeline::write_manifest(staging.directory(), manifest(kDigest, {{"f", 5}, {"a/g", 1}, {"h", 1}}));
    put_in_place(staging);
  }
  CHECK(place.content() == "first");
  CHECK_FALSE(fs::exists(place.target / "journal"));
  CHECK_FALSE(fs::exists(place.target / "journal.1"));
  CHECK(fs::exists(place.source / "model.safetensors"));
  CHECK(place.names() == std::vector<std::string>{"source", "target"});
}

TEST_CASE("what no run has made in a staging directory is named and left alone") {
  for (const std::string stray : {"notes.txt", "a/notes.txt", "mine/deep/notes.txt", "h/notes.txt", "empty/"}) {
    CAPTURE(stray);
    const Place place;
    Place::leave(place.partial, kDigest, nullptr, "first");
    put(place.partial / "a" / "g");
    if (stray.back() == '/') {
      fs::create_directories(place.partial / stray);
    } else {
      put(place.partial / stray, "mine");
    }
    Staging staging(place.source, place.target, {false, true});
    CHECK(staging.claim(kDigest) == Start::kContinue);
    CHECK(code_of([&] { staging.create(kDigest, {"f", "a/g", "h"}, {"config.json"}); }) == "E_EXISTS");
    CHECK(fs::exists(place.partial / stray));
    CHECK(fs::exists(place.partial / "f"));
  }
}

TEST_CASE("a mount point is no target") {
  // Where a mount point is at hand that nobody minds: nothing is changed, and nothing is written there.
  const Place place;
  if (fs::is_directory("/dev/shm") && fs::is_empty("/dev/shm"))
    CHECK(place.refusal(place.source, "/dev/shm") == "E_USAGE");
  if (fs::is_directory("/sys/fs/cgroup")) CHECK(place.refusal(place.source, "/sys/fs/cgroup", true) == "E_USAGE");
}

TEST_CASE("the staging directory is locked until the last process of its run ends") {
  const Place place;
  std::optional<Staging> first(std::in_place, place.source, place.target, StagingOptions{});
  Staging second(place.source, place.target, {});
  first->claim(kDigest);
  first->create(kDigest, {"f"}, {});
  first->join();
  second.join();
  CHECK(place.claim({true, true}) == "E_EXISTS");
  first.reset();
  CHECK(place.claim({true, true}) == "E_EXISTS");
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
    Staging staging(place.source, place.target, {});
    staging.claim(kDigest);
    staging.create(kDigest, {"f"}, {});
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
