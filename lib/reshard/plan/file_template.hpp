#pragma once
// `files` of a side (plan format section 3): the name of the file a rank stores its tensors in, from its rank number
// and coordinates, and back. "mp_{tp}/rank-{rank:05}.h5" gives "mp_1/rank-00007.h5".

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reshard::plan {

/// Field name -> number: the rank, a coordinate.
using FileFields = std::map<std::string, std::int64_t, std::less<>>;

class FileTemplate {
 public:
  /// `axes`: the fields that are legal beside {rank}. Errors: kSchema (unknown field, stray brace, width that is not
  /// zero-padded, absolute path, `.`, `..` or empty component).
  FileTemplate(std::string_view text, std::span<const std::string> axes);

  const std::string& text() const { return text_; }
  /// Names of the fields, each once, in order of first use.
  const std::vector<std::string>& fields() const { return fields_; }

  /// The file name; every field of the template has a value that is not negative.
  std::string expand(const FileFields& values) const;

  /// The inverse: the values with which expand() gives exactly this name. Nothing where there are none: another form, a
  /// width that expand would not write, a field that stands twice with two values.
  std::optional<FileFields> match(std::string_view name) const;

 private:
  struct Part {
    std::string text;  ///< literal, where `field` is empty
    std::string field;
    int width = 0;
  };
  struct Compiled;  // keeps RE2 out of this header

  std::string text_;
  std::vector<Part> parts_;
  std::vector<std::string> fields_;
  std::shared_ptr<const Compiled> compiled_;  ///< the inverse
};

}  // namespace reshard::plan
